"""Work that outlives a page: one thread each, with progress, a stop button and a result that stays.

A job belongs to the lab, not to a tab. A second tab that asks for the same work gets the same job, a reload finds it
again, and what it had finished is on disk.
"""

import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from attomaton.errors import AttomatonError

About = TypeVar("About")
RUNNING, DONE, STOPPED, FAILED = "running", "done", "stopped", "failed"


class Stopped(KeyboardInterrupt):
    """Raised inside a job that was asked to stop; long work ends on it as on Ctrl-C, keeping what it has."""


@dataclass(eq=False)
class Job(Generic[About]):
    """One piece of work; `key` says what work it is, `about` is what pages want to know of it while it runs."""

    key: str
    title: str
    about: About
    state: str = RUNNING
    done: int = 0
    total: int = 0
    note: str = ""
    error: str = ""
    result: Any = None
    began: float = field(default_factory=time.monotonic)
    _stop: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)

    def progress(self, done: int, total: int, note: str = "") -> None:
        """What long calls are given as `progress`: keeps what they say, and ends them when a stop was asked."""
        self.done, self.total, self.note = done, total, note
        if self._stop.is_set():
            raise Stopped

    def stop(self) -> None:
        """Ask the work to end at its next breath."""
        self._stop.set()
        self.note = "stopping …"

    @property
    def stopping(self) -> bool:
        """Whether a stop was asked for."""
        return self._stop.is_set()

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1."""
        return min(self.done / self.total, 1.0) if self.total else 0.0

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end; whether it came in time."""
        return self._ended.wait(seconds)


class Jobs:
    """All jobs of a lab, by key; the newest of a key counts."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job[Any]] = {}
        self._lock = threading.Lock()

    def start(
        self, key: str, title: str, work: Callable[[Job[Any]], Any], about: Any = None
    ) -> Job[Any]:
        """Start this work, or join it where it is running already."""
        with self._lock:
            known = self._jobs.get(key)
            if known is not None and known.state == RUNNING:
                return known
            job = self._jobs[key] = Job(key, title, about)
        threading.Thread(target=_do, args=(job, work), name=key, daemon=True).start()
        return job

    def find(self, key: str) -> Job[Any] | None:
        """The newest job of a key."""
        return self._jobs.get(key)

    def running(self) -> list[Job[Any]]:
        """What is going on now."""
        return [job for job in self._jobs.values() if job.state == RUNNING]

    def stop(self, seconds: float = 10.0) -> None:
        """End all work, as far as it can be ended in time."""
        for job in self.running():
            job.stop()
        for job in self.running():
            job.wait(seconds)


def _do(job: Job[Any], work: Callable[[Job[Any]], Any]) -> None:
    try:
        job.result = work(job)
        job.state = STOPPED if job.stopping and job.result is None else DONE
    except KeyboardInterrupt:
        job.state = STOPPED
    except AttomatonError as error:
        job.error, job.state = str(error), FAILED
    except Exception as error:
        traceback.print_exc()
        job.error, job.state = f"{type(error).__name__}: {error}", FAILED
    finally:
        job._ended.set()
