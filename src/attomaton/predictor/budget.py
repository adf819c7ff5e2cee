"""How long a tuning may take: candidates are begun while there is time for them, and what was not tried is said.

A candidate is all prices of one prior and one exponent, which are solved along one path. Without a limit all are tried
together. With one, those that promise most come first, and a candidate is begun where what the earlier ones took says
that it, and what comes after all of them, will be done in time; the first of a stage always is. What comes after is the
fit at the end, and the convex stage on top, which tries no more prices when the time is over.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby

from attomaton.errors import number
from attomaton.predictor.fit import Setting

FIT, STAGE = 3.0, 28.0  # settings that the exact fit and the convex stage are worth, about


class Budget:
    """Minutes that are left, and what there was no time for."""

    def __init__(self, minutes: float | None = None, now: Callable[[], float] = time.monotonic):
        if minutes is not None:
            number("minutes", minutes, above=0)
        self.seconds = None if minutes is None else 60.0 * minutes
        self._now, self._begin = now, now()
        self.after = FIT  # settings that all that comes after them is worth
        self._unit = 0.0  # seconds that a setting has taken on one part, at most
        self.left: list[Setting] = []

    def batches(
        self, name: str, settings: Sequence[Setting], parts: int,
        worth: Callable[[Setting], float], must: bool = True,
    ) -> Iterator[tuple[str, list[Setting]]]:  # fmt: skip
        """The settings in the order they are to be tried, some at a time, each time with a name of its own.

        Whoever takes them tries them before asking for more. `must` is for a stage that has to come to something;
        others look beyond an edge, and where the best still lies at one is said anyway.
        """
        if self.seconds is None:
            yield name, list(settings)
            return
        asked = must
        ordered = sorted(settings, key=lambda s: (-worth(s), s.prior, s.theta))
        for _, some in groupby(ordered, lambda s: (s.prior, s.theta)):
            group = list(some)
            more = parts * len(group) + self.after * parts
            if not must and self._gone() + self._unit * more > self.seconds:
                self.left += group if asked else []
                continue
            begin, must = self._now(), False
            yield f"{name}-{sha256(repr(group).encode()).hexdigest()[:12]}", group
            self._unit = max(self._unit, (self._now() - begin) / (parts * len(group)))

    def over(self) -> bool:
        """Whether no time is left."""
        return self.seconds is not None and self._gone() > self.seconds

    def named(self, name: str) -> str:
        """The name to keep under what depends on the time there was."""
        return name if self.seconds is None else f"{name}-in-{self.seconds:g}-seconds"

    def _gone(self) -> float:
        return self._now() - self._begin
