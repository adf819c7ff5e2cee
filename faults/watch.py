"""Processes that may die, hang or run out of memory, and a parent that notices which input did it.

A worker goes through its numbers in order and says how each ended; so whatever happens to it, the parent knows the
number it was at, writes that down, and lets a new worker go on behind it.
"""

import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

MEMORY = 3 << 30  # bytes of address space of a worker
PATIENCE = 20.0  # seconds for one input
START = 120.0  # seconds for a worker to get ready

Job = Callable[[int], tuple[str, str, str]]  # number -> what was tried, how it ended, details
Prepare = Callable[..., Job]


class Outcome(NamedTuple):
    """How one input ended: accepted, refused, or foreign, crash, hang with details."""

    number: int
    subject: str
    ending: str
    details: str


class _Worker:
    """A process at work on the numbers from `at` up to `end`."""

    def __init__(
        self,
        prepare: Prepare,
        arguments: tuple[Any, ...],
        at: int,
        end: int,
        patience: float,
        memory: int,
    ):
        spawn = multiprocessing.get_context("spawn")
        self.at, self.end, self.patience, self.memory = at, end, patience, memory
        self.ready = False
        self.since = time.monotonic()
        self.connection, theirs = spawn.Pipe(duplex=False)
        self.process = spawn.Process(
            target=_work, args=(theirs, prepare, arguments, at, end, memory)
        )
        self.process.start()
        theirs.close()

    @property
    def late(self) -> bool:
        """Whether it has been silent for too long."""
        return time.monotonic() - self.since > (self.patience if self.ready else START)

    def end_it(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def watched(
    prepare: Prepare,
    arguments: tuple[Any, ...],
    count: int,
    workers: int,
    patience: float = PATIENCE,
    memory: int = MEMORY,
    first: int = 0,
) -> Iterator[Outcome]:
    """Every number from `first` up to `count`, tried in one of `workers` processes.

    What tries one is what `prepare(*arguments)` returns there. A worker that does not answer for `patience` seconds is
    killed. What a crash or a hang was about its worker can no longer say: its subject is empty.
    """
    cuts = [first + (count - first) * i // workers for i in range(workers + 1)]
    alive = [
        _Worker(prepare, arguments, a, b, patience, memory) for a, b in pairwise(cuts) if a < b
    ]
    try:
        while alive:
            wait([w.connection for w in alive], timeout=1.0)
            for worker in list(alive):
                ended = yield from _told(worker)
                if not ended and not worker.late:
                    continue
                alive.remove(worker)
                worker.end_it()
                if worker.at >= worker.end:
                    continue
                if not worker.ready:
                    raise RuntimeError("a worker could not start; run with --replay to see why.")
                code = worker.process.exitcode
                details = f"no answer in {patience:g} s" if not ended else _cause(code)
                yield Outcome(worker.at, "", "crash" if ended else "hang", details)
                if worker.at + 1 < worker.end:
                    alive.append(
                        _Worker(prepare, arguments, worker.at + 1, worker.end, patience, memory)
                    )
    finally:
        for worker in alive:
            worker.end_it()


def _told(worker: _Worker) -> Iterator[Outcome]:
    """All that a worker has said since; returns whether it has ended."""
    try:
        while worker.connection.poll():
            said = worker.connection.recv()
            worker.since = time.monotonic()
            worker.ready = True
            for outcome in said:
                worker.at = outcome[0] + 1
                yield Outcome(*outcome)
    except (EOFError, OSError):
        worker.process.join(5.0)
        return True
    return False


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _work(
    connection: Connection,
    prepare: Prepare,
    arguments: tuple[Any, ...],
    at: int,
    end: int,
    memory: int,
) -> None:
    """In the worker: get ready, say so, then try one number after the other."""
    # A parser in C or Rust that gives up prints to stderr; the parent tells what came of it.
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    job = prepare(*arguments)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    connection.send([])
    for number in range(at, end):
        connection.send([(number, *job(number))])
    connection.close()
