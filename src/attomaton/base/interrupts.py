"""Ctrl-C and SIGTERM end every command alike: at once, with one line and exit code 130.

No exception is raised where the signal finds the program: inside compiled code it would be swallowed, or crash the
process. What long work has finished lies on the disk already, whole or absent, so leaving at once loses none of it.
A thread waits for signals, since the first one may be busy inside a solver for minutes.

This module is loaded before all others, to be there while they load: it needs nothing but the standard library.
"""

import json
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

CODE = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)
served = False  # whether a server is running, which shuts down in its own way and then raises the signal once more
drawing = False  # whether a progress bar is on the terminal, its cursor hidden

_leaving = threading.Lock()  # taken once, by whoever ends the process
# Held while a process is started, which would complain if it were left in the middle
_starting = threading.Lock()
_owner = 0  # the process that was told to watch; what it forks is not


def watch() -> None:
    """From now on, let these signals end the process; those that it was started to ignore stay ignored."""
    global _owner  # noqa: PLW0603
    _owner = os.getpid()
    ours = [s for s in SIGNALS if signal.getsignal(s) is not signal.SIG_IGN]
    for number in ours:
        signal.signal(number, leave)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_wait, args=(reader,), name="signals", daemon=True).start()


@contextmanager
def blocked() -> Iterator[None]:
    """A block whose processes never hear of Ctrl-C: it is the first one's to handle, also while they start."""
    from multiprocessing import resource_tracker

    # Python starts this one with the first worker, and some versions unblock the signal when they have done so.
    resource_tracker.ensure_running()
    with _starting:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def too_late() -> None:
    """The command has ended: from here on a signal changes nothing any more."""
    _leaving.acquire()  # for ever where a signal was first
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def leave(number: int, frame: FrameType | None = None) -> None:
    """End this process, and say what is kept of its work."""
    if os.getpid() != _owner:
        os._exit(CODE)
    if frame is not None and _starting.locked() and not served:
        return  # the thread that waits for signals was told, too, and waits until the process has started
    if not _leaving.acquire(blocking=False):
        return
    try:
        _starting.acquire(timeout=5)
        _end_workers()
        text = f"Interrupted: {message()}"
        if "--json" in sys.argv:
            error = {"type": "Interrupted", "message": message(), "exit_code": CODE}
            _tell(1, json.dumps({"schema_version": 1, "error": error}, indent=2))
        if drawing:
            text = f"\r\x1b[K\x1b[?25h{text}"
        elif os.isatty(2):
            text = f"\n{text}"
        _tell(2, text)
        _clear_away()
    finally:
        os._exit(CODE)


def message() -> str:
    """What is kept, and how to go on."""
    locks = sys.modules.get("attomaton.disk.locks")
    held: list[object] = getattr(locks, "in_progress", list)()
    if not held:
        if served:
            return "the lab has ended."
        return "nothing had been finished that could be kept; nothing half-written is left."
    errors = sys.modules["attomaton.errors"]
    where = ", ".join(errors.visible(path, most=500) for path in held)
    return f"what was finished is kept in {where}; run the same command again to go on."


def _wait(reader: int) -> None:
    """A thread's life: the number of every signal comes through a pipe, whatever the first thread does."""
    while True:
        for number in os.read(reader, 64):
            if number in SIGNALS and not served:
                leave(number)


def _clear_away() -> None:
    """Delete what was being written in one go; the first thread may notice, and is not to say so."""
    storage = sys.modules.get("attomaton.disk.storage")
    with suppress(Exception):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for handle in (1, 2):
            os.dup2(nowhere, handle)
        getattr(storage, "abandon", list)()


def _end_workers() -> None:
    """Kill the processes that this one has started; they would notice its end, but later."""
    if "multiprocessing" in sys.modules:
        with suppress(Exception):
            for process in sys.modules["multiprocessing"].active_children():
                process.kill()


def _tell(handle: int, text: str) -> None:
    """Write past all buffers, whose locks another thread may hold; a reader that takes nothing is not waited for."""
    with suppress(OSError, ValueError):
        if select.select([], [handle], [], 0.5)[1]:
            os.write(handle, f"{text}\n".encode("ascii", "backslashreplace"))
