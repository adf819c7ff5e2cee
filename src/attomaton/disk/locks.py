"""Who works in a folder: locks that are gone with the process that held them, however it ended."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attomaton.disk.holdings import LOCK_FILE, is_ours_to_empty, open_folder, refused, status_of
from attomaton.errors import UsageError

_held: dict[Path, None] = {}  # by this process, in the order they were taken up


def take(handle: int, shared: bool = False) -> bool | None:
    """Hold what a handle stands for until it is closed; False where another process does, None where none can."""
    import fcntl

    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None  # a file system without locks
    return True


def hold(folder: Path, fresh: bool) -> int | None:
    """Hold a folder until the handle is closed or the process is gone; None where another one does.

    On a file system without locks a fresh folder is used all the same, and a left one stays.
    """
    try:
        handle = open_folder(folder)
    except OSError:
        return None  # it is gone, or no folder
    if (taken := take(handle)) or (taken is None and fresh):
        return handle
    os.close(handle)
    return None


@contextmanager
def only_one(work: Path, path: Path, make: bool = False) -> Iterator[None]:
    """Keep a second process out of a folder of ours, made if need be; the lock of a killed one is gone with it."""
    handle = _locked(work, path, make)
    try:
        _held[work] = None
        try:
            yield
        except Exception:
            _held.pop(work, None)
            raise
        _held.pop(work, None)  # an interruption is no end: what was finished is still there
    finally:
        os.close(handle)


def _locked(work: Path, path: Path, make: bool) -> int:
    while True:
        with refused(path):
            handle = _open_lock(work, make)
        taken, now = take(handle), status_of(work / LOCK_FILE)
        # Whoever held it before may have moved or deleted the folder with its lock; without locks nobody is kept out.
        if taken is None or (taken and now is not None and os.path.samestat(now, os.fstat(handle))):
            return handle
        os.close(handle)
        if not taken:
            raise UsageError(f"{path}: another process is writing it right now.")


def _open_lock(work: Path, make: bool) -> int:
    """The lock of a folder, opened; the folder must be one that we made, or make now."""
    try:
        if make:
            work.mkdir()
    except FileExistsError:
        if not is_ours_to_empty(work):
            raise UsageError(
                f"{work}: was not made by attomaton, which keeps unfinished work under this name; move it away."
            ) from None
    folder = open_folder(work)
    try:
        if make and os.fstat(folder).st_uid not in (os.geteuid(), _made_as(work.parent)):
            raise UsageError(
                f"{work}: belongs to another user; move it away, or choose another place."
            )
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        lock = os.open(LOCK_FILE, flags, 0o666, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        os.close(lock)
        raise UsageError(f"{work / LOCK_FILE}: is no regular file; move it away.")
    return lock


def _made_as(folder: Path) -> int:
    """Whose a file is that we make in a folder: not always ours, on file systems that other machines lend."""
    with tempfile.TemporaryFile(dir=folder) as probe:
        return os.fstat(probe.fileno()).st_uid


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock, or a folder; what a killed one held is free again."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False  # there is no lock, or none that this user may take
    try:
        return take(handle, shared=True) is False
    finally:
        os.close(handle)


def in_progress() -> list[Path]:
    """The folders this process works in piece by piece, or did when it was interrupted: what it can go on with."""
    return [work for work in list(_held) if work.is_dir()]
