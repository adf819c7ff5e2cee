"""What is worth keeping: the newest values, by what they were computed from; and things all pages of a lab share."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from math import inf
from threading import RLock
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Cache(Generic[Key, Value]):
    """At most so many values, the longest unused go first; safe to use from several threads.

    Where values have a `size`, more than `fewest` of them are kept only while all together stay within `room`.

    >>> squares = Cache[int, int](2)
    >>> [squares.found(x, lambda: x * x) for x in (1, 2, 3)], squares.get(1), squares.get(3)
    ([1, 4, 9], None, 9)
    """

    def __init__(
        self,
        most: int,
        *,
        size: Callable[[Value], float | int] = lambda value: 0.0,
        room: float | int = inf,
        fewest: int = 1,
    ):
        self._most, self._size, self._room, self._fewest = most, size, room, fewest
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        """What is still here of this key."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def keep(self, key: Key, value: Value) -> Value:
        """Keep one more, and give it back."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most or (
                len(self._values) > self._fewest
                and sum(map(self._size, self._values.values())) > self._room
            ):
                self._values.popitem(last=False)
            return value

    def found(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of this key, made where it is not here; whoever asks meanwhile waits for it."""
        with self._lock:
            known = self.get(key)
            return self.keep(key, make()) if known is None else known


class Shared(Generic[Value]):
    """One thing for all pages of a lab, made when it is first asked for."""

    def __init__(self, make: Callable[[], Value]):
        self._make, self._lock = make, RLock()
        self._made: WeakKeyDictionary[object, Value] = WeakKeyDictionary()

    def of(self, lab: object) -> Value:
        """The one of this lab."""
        with self._lock:
            if lab not in self._made:
                self._made[lab] = self._make()
            return self._made[lab]
