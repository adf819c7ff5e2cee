"""Files and folders that are whole or absent: written beside their place and moved into it.

`new_folder` fills a folder in one go; `resumed_folder` fills it piece by piece and takes up what an interrupted
process had finished.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attomaton.errors import AttomatonError, DataError, StorageError, UsageError
from attomaton.formats import expect, read_json, to_json, write_json
from attomaton.ledger import LEDGER, Ledger, command
from attomaton.manifest import MANIFEST, check_manifest, write_manifest

KIND_FILE = "attomaton.json"  # marks a folder as ours and says what it holds
LOCK_FILE = ".lock"
CONFIG_FILE = "config.json"  # what a work folder is for
UNLISTED = (
    KIND_FILE,
    LOCK_FILE,
    LEDGER,
)  # in no manifest: equal models have equal ones, whenever they were made
UNFINISHED = ".unfinished-"  # in the name of a folder that is being filled in one go
VERSIONS = {"model": 3, "run": 2, "sweep": 2, "verification": 2, "predictor": 2}  # format of each
_held: dict[Path, None] = {}  # by this process, in the order they were taken up
_TORN = re.compile(r"\..+\.\d+")  # the name of a file while `write_whole` writes it


@contextmanager
def new_folder(path: Path | str, kind: str) -> Iterator[Path]:
    """A folder to fill: it appears at `path` complete, when the block ends without an error, or not at all.

    An earlier folder of ours at that place is replaced; anything else there is left alone, with an error.
    """
    path = Path(path)
    _check_place(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        work, held = _unfinished_folder(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot write there ({error.strerror}).") from error
    try:
        yield work
        _move_into_place(work, path, kind)
    except OSError as error:
        raise StorageError(
            f"{path}: writing failed ({error.strerror or error}); nothing was left behind."
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
        os.close(held)


def _unfinished_folder(path: Path) -> tuple[Path, int]:
    """A folder beside `path` under a temporary name, and the handle by which this process holds it.

    What killed processes left there under such names is deleted: nobody holds it any more.
    """
    prefix = f".{path.name}{UNFINISHED}"
    for left in path.parent.iterdir():
        if left.name.startswith(prefix) and (handle := _hold(left, fresh=False)) is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(handle)
    while True:
        work = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
        # Another process may take it for a left one in the moment before it is held.
        if (handle := _hold(work, fresh=True)) is not None:
            if work.is_dir():
                return work, handle
            os.close(handle)


def _hold(folder: Path, fresh: bool) -> int | None:
    """Hold a folder until the handle is closed or the process is gone; None where another one does.

    On a file system without locks a fresh folder is used all the same, and a left one stays.
    """
    import fcntl

    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if fresh and not isinstance(error, BlockingIOError):
            return handle
        os.close(handle)
        return None
    return handle


@contextmanager
def resumed_folder(
    path: Path | str, kind: str, config: Mapping[str, Any], scratch: Sequence[str] = ()
) -> Iterator[Path]:
    """A folder to fill piece by piece: it appears at `path` complete, or not at all.

    Until then it is a `work_folder`; write each piece with `write_whole`. What was needed for the work alone (names or
    patterns in `scratch`) is deleted when the folder is in its place: a process killed before has lost nothing.
    """
    path = Path(path)
    with work_folder(path, config) as work:
        yield work
        clear_torn(work)
        Ledger(work).note("ended")
        passing = (CONFIG_FILE, LOCK_FILE, *scratch)
        _move_into_place(work, path, kind, passing)
        for pattern in passing:
            for entry in path.glob(pattern):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


@contextmanager
def work_folder(path: Path | str, config: Mapping[str, Any]) -> Iterator[Path]:
    """The folder `.NAME.partial` beside `path`, for work that may take several processes to finish.

    A process that is killed, interrupted or meets a full disk leaves it there, and the next one with the same
    `config` finds what was finished. What an unlike config left is thrown away, and so is work that ends in an error
    of ours. Whoever finishes the work moves the folder away or calls `discard`.
    """
    path = Path(path)
    _check_place(path)
    work = path.with_name(f".{path.name}.partial")
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path}: cannot write there ({error.strerror}).") from error
    with only_one(work, path):
        _unmark(work)  # a process may have been killed just before it gave the folder its name
        known = work / CONFIG_FILE
        wanted = json.loads(to_json(config))
        resumed = known.is_file() and read_json(known) == wanted
        if not resumed:
            # First: what is left of a folder without it is never used.
            known.unlink(missing_ok=True)
            for old in work.iterdir():
                if old.name != LOCK_FILE:
                    shutil.rmtree(old) if old.is_dir() else old.unlink()
            write_whole(known, lambda file: write_json(file, wanted))
        clear_torn(work)
        try:
            Ledger(work).note("resumed" if resumed else "started", command=command())
            yield work
        except (StorageError, OSError) as error:
            raise StorageError(
                f"{error}\nWhat was finished is kept in {work}; run the same again to go on."
            ) from error
        except AttomatonError as error:
            if not error.resumable:
                discard(work)
            raise


def discard(work: Path) -> None:
    """Throw a work folder away."""
    with suppress(OSError):
        (work / CONFIG_FILE).unlink()  # first: what is left of a folder without it is never used
    shutil.rmtree(work, ignore_errors=True)


def clear_torn(folder: Path) -> None:
    """Delete what killed processes were writing with `write_whole`."""
    for path in folder.rglob(".*"):
        if _TORN.fullmatch(path.name):
            path.unlink(missing_ok=True)


@contextmanager
def only_one(work: Path, path: Path) -> Iterator[None]:
    """Keep a second process out of a work folder; the lock of a killed one is gone with it."""
    import fcntl

    try:
        lock = (work / LOCK_FILE).open("w")
    except OSError as error:
        raise UsageError(f"{path}: cannot write there ({error.strerror}).") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"{path}: another process is writing it right now.") from error
        _held[work] = None
        try:
            yield
        except Exception:
            _held.pop(work, None)
            raise
        _held.pop(work, None)  # an interruption is no end: what was finished is still there


def in_progress() -> list[Path]:
    """The folders this process works in piece by piece, or did when it was interrupted: what it can go on with."""
    return [work for work in list(_held) if work.is_dir()]


def _check_place(path: Path) -> None:
    if path.exists() and not (path / KIND_FILE).is_file() and not _empty_folder(path):
        raise UsageError(
            f"{path}: already exists and was not written by attomaton; choose another place."
        )


def _move_into_place(work: Path, path: Path, kind: str, passing: Sequence[str] = ()) -> None:
    """The last act: list what the folder holds, mark it, push it to the disk, give it its name."""
    write_manifest(work, work / MANIFEST, (*UNLISTED, *passing))
    write_json(work / KIND_FILE, {"schema_version": VERSIONS[kind], "kind": kind})
    work.chmod(0o755)
    _sync(work)
    if not path.exists():
        work.rename(path)
    elif _exchange(work, path):
        _delete(work)
    else:
        old = work.with_name(work.name + ".old")
        shutil.rmtree(old, ignore_errors=True)
        path.rename(old)
        work.rename(path)
        _delete(old)
    _push(path.parent)


def _delete(folder: Path) -> None:
    """Delete a finished folder so that what a kill leaves of it does not pass for one."""
    _unmark(folder)
    shutil.rmtree(folder)


def _unmark(folder: Path) -> None:
    """Take away what says that a folder is finished; the mark first, since it vouches for the list."""
    for name in (KIND_FILE, MANIFEST):
        (folder / name).unlink(missing_ok=True)


def _exchange(a: Path, b: Path) -> bool:
    """Let two folders swap their names in one act, so that there is no moment without one; False where none can.

    Linux and macOS can, on their usual file systems. Elsewhere a kill between two renames leaves the earlier folder
    under a hidden name.
    """
    import ctypes

    libc, here, swap = ctypes.CDLL(None, use_errno=True), -100, 2
    names = os.fsencode(a), os.fsencode(b)
    if hasattr(libc, "renameat2"):
        failed = libc.renameat2(here, names[0], here, names[1], swap)
    elif hasattr(libc, "renamex_np"):
        failed = libc.renamex_np(*names, swap)
    else:
        return False
    return not failed


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file so that it is there completely or not at all, whatever happens to the process."""
    work = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(work)
        _push(work)
        work.replace(path)
        _push(path.parent)
    except OSError as error:
        raise StorageError(f"{path}: writing failed ({error.strerror or error}).") from error
    finally:
        with suppress(OSError):  # of a read-only disk: the first error is the one to tell
            work.unlink(missing_ok=True)


def seal(folder: Path, *names: str) -> None:
    """List anew what a folder holds, for whoever changes one that has its name already: all, or these files alone."""
    work = f".{MANIFEST}.*"  # this very list, while it is written
    write_whole(
        folder / MANIFEST,
        lambda file: write_manifest(folder, file, (*UNLISTED, work), names),
    )


def is_folder(path: Path | str, kind: str) -> bool:
    """Whether a folder of this kind is there."""
    return (Path(path) / KIND_FILE).is_file() and folder_kind(path) == kind


def folder_kind(path: Path | str) -> str:
    """What a folder of ours says that it holds."""
    marked = Path(path) / KIND_FILE
    found = read_json(marked)
    expect(marked, found, {"kind": str, "schema_version": int})
    return found["kind"]


def check_folder(path: Path | str, kind: str) -> Path:
    """The folder, if it is one of ours and of this kind; otherwise an error that says what it is."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path}: no such {kind} folder.")
    if not (path / KIND_FILE).is_file():
        raise DataError(f"{path}: not a {kind} folder (no {KIND_FILE} in it).")
    if (found := folder_kind(path)) != kind:
        raise DataError(f"{path}: holds a {found}, not a {kind}.")
    version, ours = read_json(path / KIND_FILE)["schema_version"], VERSIONS[kind]
    if version != ours:
        older = version < ours
        raise DataError(
            f"{path}: format version {version} is {'older' if older else 'newer'} than the version {ours} this "
            f"attomaton reads; {'make it again' if older else 'update attomaton'}."
        )
    check_manifest(path)
    return path


def _empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _sync(folder: Path) -> None:
    """Push the folder and all it holds to the disk before it gets its name."""
    for inner in folder.rglob("*"):
        _push(inner)
    _push(folder)


def _push(path: Path) -> None:
    """Push a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
