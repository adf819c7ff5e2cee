"""Functions for workers: they must live in a module, so that another process finds them by name."""

import os
import signal
import time
from pathlib import Path

from attomaton.errors import DataError


def square(x):
    return x * x


def power(folder, exponents, x):
    """x to the power of the exponent that all tasks have in common; the first worker to take a task dies of it."""
    die_once(folder)
    return x ** exponents[0]


def slow_square(x):
    time.sleep(0.05)
    return x * x


def where(x):
    time.sleep(0.1)
    return os.getpid()


def large(n):
    return bytes(n)


def fail(x):
    if x == 3:
        raise DataError("task 3 is no good.")
    return x


def die_once(folder):
    """Dies at the first try of each folder, succeeds at the second."""
    mark = Path(folder) / "tried"
    if not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def die(x):
    os.kill(os.getpid(), signal.SIGKILL)


def in_company(folder):
    """How many tasks ran beside this one, itself counted."""
    mark = Path(folder) / str(os.getpid())
    mark.write_text("")
    time.sleep(0.2)
    seen = len(list(Path(folder).iterdir()))
    mark.unlink()
    return seen


def threads(x):
    return os.environ.get("OMP_NUM_THREADS")


def fail_beside(folder):
    """One of two tasks fails when the other has begun, which would go on for minutes; it says who does it."""
    mine = Path(folder)
    if mine.name == "goes on":
        (mine.parent / "new").write_text(str(os.getpid()))
        (mine.parent / "new").replace(mine)
        time.sleep(600)
        return
    while not (mine.parent / "goes on").exists():
        time.sleep(0.01)
    raise DataError("no good.")


def sleep(seconds):
    time.sleep(seconds)


def deaf(x):
    """Whether Ctrl-C is blocked in this process."""
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set())
