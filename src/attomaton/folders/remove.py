"""Being rid of folders: of ours alone, not in use, and with nothing in them that somebody else put there.

A folder first loses its name, then its files, its lock last: whenever a removal is broken off, what is left can still
be told as ours and removed by the next one.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attomaton.disk.holdings import erase, named, strangers
from attomaton.disk.locks import take
from attomaton.disk.storage import check_not_above, kind_there
from attomaton.errors import AttomatonError, StorageError, UsageError, listed
from attomaton.folders.look import (
    REMOVED,
    Folder,
    find,
    held_by,
    in_use,
    is_marked,
    is_removed,
    is_unfinished,
    is_work,
    look,
    scan,
)


def removable(paths: Sequence[Path]) -> list[Folder]:
    """The folders, if every one of them may be deleted; otherwise an error that lists those that may not."""
    found: dict[Path, Folder] = {}
    faults = []
    for path in paths:
        try:
            folder = look(_checked(path))
            found[folder.path.resolve()] = folder
        except (AttomatonError, OSError) as error:
            faults.append(str(error))
    if len(faults) == 1:
        raise UsageError(f"{faults[0]} Nothing was deleted.")
    if faults:
        raise UsageError(
            listed(f"{len(faults)} folders cannot be deleted:", faults, "Nothing was deleted.", 20)
        )
    return list(found.values())


def left_over(roots: Iterable[Path]) -> list[Folder]:
    """Work folders below the roots that no process is working in, and what was broken off for good."""
    return [
        folder
        for folder in scan(roots)
        if any(is_left(folder.path) for is_left in (is_work, is_removed, is_unfinished))
        and not in_use(folder.path)
    ]


def _checked(path: Path) -> Path:
    if path.is_symlink():
        raise UsageError(f"{path}: is a link; name the folder it leads to.")
    check_not_above(path)
    path = find(path)
    foreign = strangers(path, kind_there(path) if is_marked(path) else None)
    if foreign:
        raise UsageError(
            f"{path}: holds what attomaton did not write ({named(foreign)}); move it away first."
        )
    if in_use(path):
        raise UsageError(f"{path}: a process is working in it; stop that first.")
    return path


def remove(folder: Folder) -> None:
    """Delete a folder that was found to be `removable`."""
    path = folder.path
    with _kept_out(path):
        gone = path if is_removed(path) or is_unfinished(path) else _free(path)
        try:
            path.rename(gone)
        except OSError as error:
            raise StorageError(
                f"{path}: cannot be removed ({error.strerror}); it is as it was."
            ) from error
        try:
            erase(gone, kind_there(gone) if is_marked(gone) else None)
        except OSError as error:
            raise StorageError(
                f"{path}: was removed only in part ({error.strerror}); what is left lies in {gone}."
            ) from error


def _free(path: Path) -> Path:
    """A name for what is being deleted, beside its place."""
    stem = path.name if path.name.startswith(".") else f".{path.name}"
    names = (f"{stem}{'' if i == 0 else f'.{i}'}{REMOVED}" for i in range(1_000_000))
    return next(p for p in (path.with_name(name) for name in names) if not os.path.lexists(p))


@contextmanager
def _kept_out(path: Path) -> Iterator[None]:
    """Hold the folder, if it can be held, so that nobody begins to work in it meanwhile."""
    lock = held_by(path)
    if not os.path.lexists(lock):
        yield
        return
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise StorageError(f"{path}: cannot be removed ({error.strerror}).") from error
    try:
        if take(handle) is False:
            raise UsageError(f"{path}: a process is working in it; stop that first.")
        yield
    finally:
        os.close(handle)
