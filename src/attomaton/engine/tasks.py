"""Tasks, and the one interface behind which they run.

A task is a plain payload for a function of ours; it must not matter where, when, how often or in which order tasks
run. A worker that dies takes nothing with it: its task is given to another one, a few times. An error of the function
itself is not tried again, it ends the work.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from attomaton.errors import AttomatonError

ATTEMPTS = 3  # a task whose worker dies this often is given up
AHEAD = 12  # tasks of a stream that may be begun before the oldest of those still at work

Work = Callable[..., Any]  # a function of a module, found by its name wherever it runs


class WorkerError(AttomatonError, RuntimeError):
    """A task's workers died again and again: too little memory, or something kills them."""

    resumable = True


@dataclass(frozen=True)
class Task:
    """One call: its number, what the function is given, and about how much memory it takes."""

    number: int
    payload: Any
    bytes: int = 0


@runtime_checkable
class Engine(Protocol):
    """Something that runs tasks."""

    name: str
    workers: int

    def run(self, work: Work, tasks: Iterable[Task], *common: Any) -> Iterator[tuple[int, Any]]:
        """Every task's number and result, each once, in the order in which they finish.

        What all tasks have in `common` goes to each worker once, and to the function before the task's own payload.
        Tasks that are no sequence are a stream: each is asked for when a worker waits for it, in their order.
        """
        ...

    def close(self) -> None:
        """Let the workers go."""
        ...


class Backlog:
    """Tasks waiting for a worker, the largest first; what runs at a time stays within `memory` bytes.

    Those of a stream come in its order, few `AHEAD` of the oldest at work: so whoever needs results in that order
    holds few of them back.

    >>> backlog = Backlog([Task(0, "a", 3), Task(1, "b", 5), Task(2, "c", 3)], memory=8)
    >>> [backlog.take().number for _ in range(2)], backlog.take()
    ([1, 0], None)
    >>> backlog.finish(1)
    >>> backlog.take().number
    2
    """

    def __init__(self, tasks: Iterable[Task], memory: int | None):
        # Largest first: the last tasks to run are then small, and no worker waits long for another.
        known = tasks if isinstance(tasks, Sequence) else ()
        self._waiting = sorted(known, key=lambda t: (-t.bytes, t.number))
        self._stream = iter(() if isinstance(tasks, Sequence) else tasks)
        self._begun = 0  # how many of the stream were taken from it
        self._running: dict[int, Task] = {}
        self._attempts: dict[int, int] = {}
        self._memory = memory

    def take(self) -> Task | None:
        """The next task that fits beside what is running; one alone always fits."""
        used = sum(task.bytes for task in self._running.values())
        self._look()
        for i, task in enumerate(self._waiting):
            if not self._running or self._memory is None or used + task.bytes <= self._memory:
                del self._waiting[i]
                self._running[task.number] = task
                return task
        return None

    def finish(self, number: int) -> None:
        """A task is done."""
        del self._running[number]

    def lost(self, number: int) -> None:
        """A task's worker died: it waits again."""
        task = self._running.pop(number)
        self._attempts[number] = self._attempts.get(number, 0) + 1
        if self._attempts[number] >= ATTEMPTS:
            raise WorkerError(
                f"task {number}: its worker died {ATTEMPTS} times. Give it more memory or fewer workers; what was "
                "finished is kept, run the same again to go on."
            )
        self._waiting.insert(0, task)

    def _look(self) -> None:
        """Let the next task of a stream wait, where none does and it is not too early for it."""
        if not self._waiting and self._begun - min(self._running, default=self._begun) < AHEAD:
            for task in islice(self._stream, 1):
                self._waiting.append(task)
                self._begun = task.number + 1

    def __bool__(self) -> bool:
        self._look()
        return bool(self._waiting or self._running)


class Here:
    """This process: one task after the other."""

    name, workers = "local", 1

    def run(self, work: Work, tasks: Iterable[Task], *common: Any) -> Iterator[tuple[int, Any]]:
        """In the order given."""
        for task in tasks:
            yield task.number, work(*common, task.payload)

    def close(self) -> None:
        """Nothing to let go."""
