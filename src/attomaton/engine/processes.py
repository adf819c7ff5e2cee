"""Several processes of this machine: one pipe each, a dead one replaced, all gone when this process is."""

import contextlib
import importlib
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from operator import is_
from typing import Any

from attomaton.base import interrupts
from attomaton.disk.doors import available_memory
from attomaton.engine.tasks import Backlog, Task, Work
from attomaton.errors import UsageError

# A fresh interpreter: what runs in this one (JAX, a server's threads) does not survive a fork.
_CONTEXT = get_context("spawn")
# Each process computes on one core; a library that starts threads of its own would only be in the way.
# On a GPU none may take all of its memory. Arrays of a few megabytes come and go by the thousand: memory that is handed
# back to the system each time has to be cleared by it again.
_SETTINGS = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 26),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 28),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}


class Processes:
    """`workers` processes, started when the first task comes.

    `memory` bounds what runs at a time, by default to what this machine has to spare.
    """

    name = "processes"

    def __init__(self, workers: int | None = None, memory: int | None = None):
        self.workers = available_cores() if workers is None else workers
        if self.workers < 1:
            raise UsageError(f"workers must be at least 1, not {workers}.")
        self._memory = available_memory() if memory is None else memory
        self._crew: list[_Worker] = []

    def run(self, work: Work, tasks: Iterable[Task], *common: Any) -> Iterator[tuple[int, Any]]:
        """As they finish."""
        backlog, name = Backlog(tasks, self._memory), f"{work.__module__}:{work.__qualname__}"
        many = max(len(tasks), 1) if isinstance(tasks, Sequence) else self.workers
        self.hire(many)
        done, failed = list[tuple[int, Any]](), None
        try:
            while backlog or done or failed is not None:
                for worker in self._crew if failed is None else ():
                    if worker.task is None and (task := backlog.take()) is not None:
                        worker.give(name, task, common)
                yield from done  # while they are at work
                done.clear()
                if failed is not None:
                    raise failed
                busy = [w for w in self._crew if w.task is not None]
                ends = [x for w in busy for x in (w.pipe, w.process.sentinel)]
                ready = wait(ends) if ends else []  # nothing to wait for once the last is done
                for i, worker in enumerate(self._crew):
                    if worker.task is None:
                        continue
                    number = worker.task.number
                    if worker.pipe in ready or worker.process.sentinel in ready:
                        answer = worker.answer()
                        if answer is None:
                            self._crew[i] = _Worker()
                            backlog.lost(number)
                            continue
                        backlog.finish(number)
                        fine, value = answer
                        if fine:
                            done.append((number, value))
                        else:
                            failed = value
        except BaseException:
            self.close()  # what still runs would answer to nobody
            raise

    def hire(self, many: int) -> None:
        """Start the processes that `many` tasks keep busy; what else is done at that time holds each start up."""
        while len(self._crew) < min(self.workers, many):
            self._crew.append(_Worker())

    def close(self) -> None:
        """End all processes."""
        for worker in self._crew:
            worker.process.kill()  # all of them first: each takes a moment to go
        for worker in self._crew:
            worker.end()
        self._crew.clear()

    def pids(self) -> list[int]:
        """The processes as the system knows them."""
        return [w.process.pid for w in self._crew if w.process.pid is not None]


def available_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """One process and the pipe to it."""

    def __init__(self) -> None:
        self.pipe, theirs = _CONTEXT.Pipe()
        self.task: Task | None = None
        self._common: tuple[Any, ...] = ()  # what it was given last of what tasks have in common
        before = {name: os.environ.get(name) for name in _SETTINGS}
        os.environ.update(_SETTINGS)
        try:
            with interrupts.blocked():
                self.process = _CONTEXT.Process(target=_serve, args=(theirs,), daemon=True)
                self.process.start()
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        theirs.close()

    def give(self, name: str, task: Task, common: tuple[Any, ...]) -> None:
        known = len(self._common) == len(common) and all(map(is_, self._common, common))
        new = None if known else common
        self.task, self._common = task, common
        with contextlib.suppress(OSError):  # it has died: `answer` says so
            self.pipe.send((name, task.payload, new))

    def answer(self) -> tuple[bool, Any] | None:
        """Whether the task succeeded and its result or error; None where the process has died."""
        self.task = None
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.end()
            return None

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()


def _serve(pipe: Connection) -> None:
    """A worker's life: take a task, answer it, until the pipe is closed."""
    # Not os.getppid(): who is killed while this process starts is no longer its parent by now.
    starter = parent_process()
    parent = os.getppid() if starter is None else starter.pid

    def leave_with_parent() -> None:
        # A killed parent cannot say goodbye; a worker that goes on would write beside its successor.
        while os.getppid() == parent:
            threading.Event().wait(0.2)
        os._exit(1)

    threading.Thread(target=leave_with_parent, daemon=True).start()
    common: tuple[Any, ...] = ()
    while True:
        try:
            name, payload, new = pipe.recv()
        except (EOFError, OSError):
            return
        common = common if new is None else new
        try:
            answer = (True, found(name)(*common, payload))
        except Exception as error:
            answer = (False, error)
        pipe.send(answer)


def found(name: str) -> Work:
    """The function of a name `module:function`."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)
