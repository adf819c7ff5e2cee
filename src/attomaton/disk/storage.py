"""Files and folders that are whole or absent: written beside their place and moved into it.

`new_folder` fills a folder in one go; `resumed_folder` fills it piece by piece and takes up what an interrupted
process had finished. What may lie at a place, and what is done with it, says `check_place`: a folder of ours of the
same kind is replaced, whatever else is there stays. Links are not followed.
"""

import errno
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.disk.formats import read_checkpoint, read_json, to_json, write_arrays, write_json
from attomaton.disk.holdings import (
    CONFIG_FILE,
    CREATE,
    KIND_FILE,
    LOCK_FILE,
    UNLISTED,
    clear_torn,
    erase,
    erase_matching,
    finished_pieces,
    is_ours_to_empty,
    is_real_file,
    is_real_folder,
    named,
    own_files,
    planted,
    refused,
    status_of,
    strangers,
    torn_name,
)
from attomaton.disk.kinds import KINDS, made_by
from attomaton.disk.ledger import Ledger, command, last_command, read_ledger
from attomaton.disk.locks import hold, is_locked, only_one
from attomaton.disk.manifest import MANIFEST, check_manifest, write_manifest
from attomaton.disk.records import absent, read_record
from attomaton.errors import AttomatonError, DataError, StorageError, UsageError, listed, visible

UNFINISHED = ".unfinished-"  # in the name of a folder that is being filled in one go
_passing: dict[Path, "Identity | None"] = {}  # what it writes under temporary names; of files, None

Identity = tuple[int, int]  # of a folder: its device and number there


# What lies at a place


@dataclass(frozen=True)
class Place:
    """Where a folder is to appear: what lay there when it was looked at, and what may be done with it."""

    path: Path
    found: Identity | None = None  # of the folder there
    kind: str | None = None  # of that folder, if it is one of ours
    replaced: "Replaced | None" = None  # what will be lost
    force: bool = False  # replace other kinds too, and throw unlike work away


@dataclass(frozen=True)
class Replaced:
    """What a person would want to know of a folder before it is gone."""

    kind: str
    made: str
    command: str | None


@dataclass(frozen=True)
class Mark:
    """What the mark of a folder says: what the folder holds, and which command made it (not in earlier folders)."""

    schema_version: int
    kind: str
    maker: str | None = absent()


def check_place(
    path: Path | str,
    kind: str | None,
    inputs: Sequence[str | os.PathLike[str] | None] = (),
    force: bool = False,
    replacing: bool = True,
) -> Place:
    """Whether a folder of this kind (None: any) may be written there; an error that says why not.

    An earlier folder of the same kind is replaced, one of another kind if `force` says so. Never replaced are folders
    with files in them that we did not write, links, what is read for the work (`inputs`), and where the user stands.
    One that is not `replacing` but goes on in the folder leaves those files alone.
    """
    path = Path(path)
    check_not_above(path)
    _check_apart(path, inputs)
    with refused(path, "cannot be looked at"):
        return _looked_at(path, kind, force, replacing)


def _looked_at(path: Path, kind: str | None, force: bool, replacing: bool) -> Place:
    status = status_of(path)
    if status is None:
        return Place(path, force=force)
    if stat.S_ISLNK(status.st_mode):
        raise UsageError(
            f"{path}: is a link to {visible(os.readlink(path))}; name a folder itself, or delete the link."
        )
    foreign = UsageError(
        f"{path}: already exists and was not written by attomaton; choose another place."
    )
    if not stat.S_ISDIR(status.st_mode):
        raise foreign
    found = (status.st_dev, status.st_ino)
    if not is_real_file(path / KIND_FILE):
        if os.listdir(path):
            raise foreign
        return Place(path, found, force=force)
    there = kind_there(path)
    going_on = not replacing and there == kind
    if others := planted(path) if going_on else strangers(path, there):
        raise UsageError(
            f"{path}: holds what attomaton did not write ({named(others)}); move it away first, or choose another "
            "place."
        )
    if kind not in (None, there) and not force:
        raise UsageError(
            f"{path}: holds a {there}, not a {kind}; choose another place, or say --force to replace it."
        )
    if there in KINDS and KINDS[there].grows and is_locked(path / LOCK_FILE):
        raise UsageError(f"{path}: another process is writing it right now.")
    return Place(path, found, there, _told(path, there), force)


def kind_there(path: Path) -> str:
    """What a marked folder holds, also where its mark is damaged."""
    try:
        return visible(read_mark(path).kind, 20)
    except DataError:
        return "damaged folder"


def _told(path: Path, kind: str) -> Replaced:
    lines = read_ledger(path)
    written = datetime.fromtimestamp((path / KIND_FILE).lstat().st_mtime, UTC)
    typed = last_command(lines)
    if typed is None and is_real_file(path / "command.txt"):
        with suppress(OSError, ValueError):
            typed = (path / "command.txt").read_text(encoding="utf-8").strip()
    made = next((line.time for line in reversed(lines) if line.time is not None), None)
    return Replaced(kind, made or written.strftime("%Y-%m-%dT%H:%M:%SZ"), typed)


def check_not_above(path: Path) -> None:
    """Refuse a place where the user stands, or above it: no folder can be swapped under somebody's feet."""
    above = f"{path}: is the folder you are in, or one above it; name a folder of its own."
    if path.name in ("", ".."):
        raise UsageError(above)
    if not is_real_folder(path):
        return
    for mine, said in ((Path.cwd, above), (Path.home, f"{path}: is your home, or above it.")):
        with suppress(OSError, RuntimeError):  # there is none
            if _inside(mine(), path):
                raise UsageError(said)


def _check_apart(path: Path, inputs: Sequence[str | os.PathLike[str] | None]) -> None:
    """Refuse to write where an input lies, in it, or around it."""
    for given in (Path(x) for x in inputs if x is not None):
        if not given.exists():
            continue  # reading it says so
        if _inside(path, given):
            same = path.exists() and path.samefile(given)
            raise UsageError(
                f"{path}: {'is' if same else 'lies inside'} the input {given}; choose another place."
            )
        if path.exists() and _inside(given, path):
            raise UsageError(f"{path}: holds the input {given}; choose another place.")


def _inside(inner: Path, outer: Path) -> bool:
    """Whether a path is another one or lies in it, whatever the two are called."""
    status = outer.stat()
    whole = Path(os.path.abspath(inner))
    real = whole.parent.resolve() / whole.name
    for path in (real, *real.parents):
        with suppress(OSError):
            if os.path.samestat(path.stat(), status):
                return True
    return False


def _as_found(place: Place, at: Path | None = None) -> bool:
    """Whether a place (or what was moved from it) still is what it was, with nothing of somebody else's in it."""
    at = at or place.path
    if (now := _identity(at)) is None or now != place.found:
        return place.found is None and not os.path.lexists(at)
    if place.kind is None:
        return not os.listdir(at)
    return not strangers(at, place.kind)


def _identity(path: Path) -> Identity | None:
    status = status_of(path)
    if status is None or not stat.S_ISDIR(status.st_mode):
        return None
    return status.st_dev, status.st_ino


# Folders


@contextmanager
def new_folder(path: Path | str | Place, maker: str, keep: bool = True) -> Iterator[Path]:
    """A folder to fill: it appears at `path` complete, when the block ends without an error, or not at all.

    `maker` is the command whose folder it is: what kind of folder that is says `disk.kinds`.

    What may lie there already says `check_place`. Where that changed meanwhile the new folder gets a name beside it,
    if it is to be kept, and an error says so (`taken`).
    """
    place = path if isinstance(path, Place) else check_place(path, made_by(maker).name)
    path = place.path
    with refused(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        work, held = _unfinished_folder(path)
    try:
        yield work
        _move_into_place(work, place, maker, keep=keep)
    except OSError as error:
        raise StorageError(
            f"{path}: writing failed ({error.strerror or error}); nothing was left behind."
        ) from error
    finally:
        _delete_passing(work)
        os.close(held)


def abandon() -> None:
    """Delete what this process was writing in one go: it ends, and nobody could go on with it."""
    for work in list(_passing):
        _delete_passing(work)


def _delete_passing(work: Path) -> None:
    made = _passing.pop(work, None)
    if made is None:
        with suppress(OSError):  # of a read-only disk: the first error is the one to tell
            work.unlink(missing_ok=True)
    # Nobody but us can have put anything into the folder we made; another one at its name is not ours to delete.
    elif _identity(work) == made:
        shutil.rmtree(work, ignore_errors=True)


def _unfinished_folder(path: Path) -> tuple[Path, int]:
    """A folder beside `path` under a temporary name, and the handle by which this process holds it.

    What processes that were killed or interrupted left there under such names, of this folder or of others, is
    deleted: nobody holds it any more, and nothing can go on with it.
    """
    prefix = f".{path.name}{UNFINISHED}"
    left_name = re.compile(rf"\..+{re.escape(UNFINISHED)}\w{{8}}(\.old)?")
    for left in sorted(path.parent.iterdir()):
        if left_name.fullmatch(left.name) and (handle := hold(left, fresh=False)) is not None:
            with suppress(OSError):
                if is_ours_to_empty(left) and not strangers(left):
                    erase(left)
            os.close(handle)
    while True:
        work = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
        _passing[work] = _identity(work)
        # Another process may take it for a left one in the moment before it is held.
        if (handle := hold(work, fresh=True)) is not None:
            if work.is_dir():
                os.close(os.open(work / LOCK_FILE, CREATE, 0o666))  # by which it is known as ours
                return work, handle
            os.close(handle)
        _passing.pop(work)


@contextmanager
def resumed_folder(path: Path | str | Place, maker: str, config: object) -> Iterator[Path]:
    """A folder to fill piece by piece: it appears at `path` complete, or not at all.

    Until then it is a `work_folder`; write each piece with `write_whole`. What was needed for the work alone is deleted
    when the folder is in its place: a process killed before has lost nothing.
    """
    kind = made_by(maker)
    place = path if isinstance(path, Place) else check_place(path, kind.name)
    with work_folder(place, maker, config) as work:
        yield work
        clear_torn(work, work=True)
        Ledger(work).note("ended")
        _move_into_place(work, place, maker, (CONFIG_FILE, LOCK_FILE, *kind.scratch))


@contextmanager
def work_folder(path: Path | str | Place, maker: str, config: object) -> Iterator[Path]:
    """The folder `.NAME.partial` beside `path`, for work of a command that may take several processes to finish.

    A process that is killed, interrupted or meets a full disk leaves it there, and the next one with the same
    `config` finds what was finished. Finished pieces of an unlike config are thrown away if the place is taken by force
    alone; work that ends in an error of ours is. Whoever finishes the work moves the folder away or calls `discard`.
    """
    place = path if isinstance(path, Place) else check_place(path, None)
    path = place.path
    work = path.with_name(f".{path.name}.partial")
    with refused(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with only_one(work, path, make=True):
        if not _as_found(place):
            raise UsageError(
                f"{path}: changed in the moment this command started; look at it and start again."
            )
        wanted = {"maker": maker, **json.loads(to_json(config))}
        resumed = _taken_up(work, path, wanted, place.force)
        try:
            Ledger(work).note("resumed" if resumed else "started", command=command())
            yield work
        except (StorageError, OSError) as error:
            if isinstance(error, StorageError) and error.taken:
                raise
            raise StorageError(
                f"{error}\nWhat was finished is kept in {work}; run the same again to go on."
            ) from error
        except AttomatonError as error:
            if not error.resumable:
                discard(work)
            raise


def _taken_up(work: Path, path: Path, wanted: dict[str, Any], force: bool) -> bool:
    """Make a work folder ready for what is wanted; whether it holds what an earlier process finished of it."""
    if others := strangers(work):
        raise UsageError(
            f"{work}: holds what attomaton did not write ({named(others)}); move it away first: unfinished work is "
            "kept there."
        )
    known = work / CONFIG_FILE
    resumed = unnamed = False
    if is_real_file(known):
        try:
            before = read_json(known)
        except DataError:
            before = None
        if unnamed := isinstance(before, dict) and "maker" not in before:  # by an earlier attomaton
            before = {"maker": wanted["maker"], **before}
        resumed = before == wanted
        if not resumed and not force and finished_pieces(work):
            raise UsageError(_unlike(work, path, before, wanted))
    if resumed:
        if unnamed:
            write_whole(known, write_json, wanted)
        # A process may have been killed just before it gave the folder its name: it is not finished any more. The mark
        # goes first, since it vouches for the list.
        for name in (KIND_FILE, MANIFEST):
            (work / name).unlink(missing_ok=True)
        clear_torn(work, work=True)
        return True
    with refused(work, "cannot be emptied"):
        erase(work, keep_lock=True)
    write_whole(known, write_json, wanted)
    return False


def _unlike(work: Path, path: Path, before: Any, wanted: Any) -> str:
    """What to say where unfinished work was begun with other settings."""
    old, new = dict(_flat(before)), dict(_flat(wanted))
    differ = [
        f"{name}: {_shown(old.get(name))}, now {_shown(new.get(name))}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]
    typed = last_command(read_ledger(work))
    again = "" if typed is None else f" ({visible(typed, 200)})"
    return listed(
        f"{path}: unfinished work for this place was begun with other settings:",
        differ or ["its settings cannot be read"],
        f"Run it as it was begun to go on{again}, choose another place, or say --force to throw away what was "
        "finished.",
    )


def _flat(value: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings by their dotted names; what is not set is left out."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(inner, f"{above}.{name}" if above else str(name))
    elif above and value is not None:
        yield above, value


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value):
        return f"content {value[:8]}…"
    return visible(value if isinstance(value, str) else to_json(value, indent=None), 60)


def discard(work: Path) -> None:
    """Throw a work folder away."""
    with suppress(OSError):
        erase(work)


# The last act


def _move_into_place(
    work: Path, place: Place, maker: str, passing: Sequence[str] = (), keep: bool = True
) -> None:
    """The last act: list what the folder holds, mark it, push it to the disk, give it its name.

    What is `passing` was needed for the work alone: it is in no list, and is deleted when all is done.
    """
    if others := planted(work):
        raise StorageError(
            f"{work}: holds what attomaton did not write ({named(others)}); move it away."
        )
    write_manifest(work, work / MANIFEST, (*UNLISTED, *passing))
    kind = made_by(maker)
    write_json(work / KIND_FILE, Mark(kind.version, kind.name, maker))
    if LOCK_FILE not in passing:
        (work / LOCK_FILE).unlink()  # before others can take it: a sweep has one where it lies
    work.chmod(0o755)
    for inner in (*work.rglob("*"), work):
        _push(inner)
    path = place.path
    if _swapped_in(work, place):
        erase_matching(path, passing)
        _push(path.parent)
        return
    said = f"{path}: changed while the work went on, and was left alone"
    if not keep:
        raise _taken(f"{said}.")
    kept = _moved_beside(work, path)
    erase_matching(kept, passing)
    raise _taken(f"{said}; the result lies in {kept}.")


def _taken(text: str) -> StorageError:
    error = StorageError(text)
    error.taken = True
    return error


def _swapped_in(work: Path, place: Place) -> bool:
    """Give a folder its name, and delete what it replaces; False, and nothing done, where that is not as it was."""
    path = place.path
    if place.found is None:
        try:
            os.rename(work, path)  # fails on whatever lies there but an empty folder
        except OSError as error:
            if error.errno in _OCCUPIED:
                return False
            raise
        return True
    if not _as_found(place):
        return False
    if _exchange(work, path):
        if not _as_found(place, work):  # changed in the last moment
            _exchange(work, path)
            return False
        old = work
    else:
        old = work.with_name(f"{work.name}.old")
        if is_ours_to_empty(old) and not strangers(old):
            erase(old)  # of a process that was killed between the two renames
        old = _free(old)
        path.rename(old)
        if not _as_found(place, old):
            old.rename(path)
            return False
        work.rename(path)
    try:
        erase(old, place.kind)
    except OSError as error:
        raise _taken(
            f"{path}: is written, but {old}, which it replaced, could not be deleted ({error.strerror})."
        ) from error
    return True


_OCCUPIED = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)


def free_place(path: Path) -> Path:
    """The path, or the first one counted up from it that nothing lies at or is being made for."""
    names = chain([path.name], (f"{path.name}-{i}" for i in count(2)))
    taken = {x.name for x in path.parent.iterdir()} if path.parent.is_dir() else set()
    return path.with_name(next(x for x in names if not {x, f".{x}.partial"} & taken))


def _moved_beside(work: Path, path: Path) -> Path:
    """Give a folder the first name like that of `path` that is free."""
    while True:
        kept = _free(path.with_name(f"{path.name}-1"))
        with suppress(FileExistsError):
            os.mkdir(kept)  # taken: nobody else gets it
            os.rename(work, kept)
            return kept


def _free(path: Path) -> Path:
    """The path, or the first one counted up from it that nothing lies at."""
    stem = path.name.removesuffix("-1")
    names = chain([path.name], (f"{stem}-{i}" for i in count(2)))
    return next(p for name in names if not os.path.lexists(p := path.with_name(name)))


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


# Files


def check_file(
    path: Path | str,
    suffixes: Sequence[str] = (),
    inputs: Sequence[str | os.PathLike[str] | None] = (),
    force: bool = True,
) -> Path:
    """Whether a file may be written there, before the work is done: an error that says why not.

    An earlier file is replaced, if `force` says so; links and what is no regular file never are, nor anything in the
    folders that are read.
    """
    path = Path(path)
    if suffixes and path.suffix.lower() not in suffixes:
        raise UsageError(
            f"{path}: is written as {' or '.join(suffixes)}; name a file that ends so."
        )
    with refused(path):
        status = status_of(path)
        there = path.parent.is_dir()
        _check_apart(path, inputs)
    if not there:
        raise UsageError(f"{path}: there is no folder {path.parent}; make it first.")
    if status is not None and stat.S_ISLNK(status.st_mode):
        raise UsageError(f"{path}: is a link; name the file itself, or delete the link.")
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path}: is no regular file; name another one.")
    if status is not None and not force:
        raise UsageError(
            f"{path}: already exists; name another file, or say --force to replace it."
        )
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            return path
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return path  # writing says so
        raise UsageError(f"{path}: cannot write there ({error.strerror}).") from error


def write_whole(path: Path, write: Callable[..., object], *what: Any) -> None:
    """Write a file so that it is there completely or not at all, whatever happens to the process.

    `write` is given the path of an empty file to fill, whose suffix is not that of `path`, and `what` to write.
    """
    work = path.with_name(torn_name(path.name))
    _passing[work] = None
    try:
        os.close(os.open(work, CREATE, 0o666))
        write(work, *what)
        _push(work)
        work.replace(path)
        _push(path.parent)
    except OSError as error:
        raise StorageError(f"{path}: writing failed ({error.strerror or error}).") from error
    finally:
        _delete_passing(work)


@dataclass(frozen=True)
class Checkpoint:
    """What long work has finished, kept as arrays in files of a folder."""

    folder: Path
    finite: bool = True  # refuse NaN and infinity; False where they have a meaning

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """What was last kept under the name, if anything was."""
        path = self._path(name)
        return read_checkpoint(path, self.finite) if path.is_file() else None

    def save(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep arrays under the name, in place of what was there."""
        self.folder.mkdir(exist_ok=True)
        write_whole(self._path(name), write_arrays, arrays)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"


def seal(folder: Path, *names: str) -> None:
    """List anew what a folder holds, for whoever changes one that has its name already: all, or these files alone."""
    files = names or own_files(folder, kind_there(folder))
    write_whole(folder / MANIFEST, lambda file: write_manifest(folder, file, (), files))


def is_folder(path: Path | str, kind: str) -> bool:
    """Whether a folder of this kind is there."""
    return (Path(path) / KIND_FILE).is_file() and read_mark(path).kind == kind


def read_mark(path: Path | str) -> Mark:
    """What a folder of ours says of itself."""
    return read_record(Path(path) / KIND_FILE, Mark)


def check_folder(path: Path | str, kind: str) -> Path:
    """The folder, if it is one of ours, of this kind and as it was written; otherwise an error that says what it is."""
    check_manifest(path := check_kind(path, kind))
    return path


def check_kind(path: Path | str, kind: str) -> Path:
    """The folder, if it is one of ours and of this kind, whatever happened to its files."""
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"{path!r:.60}: the path of a {kind} folder is needed.")
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path}: no such {kind} folder.")
    if not (path / KIND_FILE).is_file():
        raise DataError(f"{path}: not a {kind} folder (no {KIND_FILE} in it).")
    check_version(path, kind)
    return path


def check_version(path: Path, kind: str) -> None:
    """Refuse a folder of another kind, or of a format that this version does not read."""
    mark, ours = read_mark(path), KINDS[kind].version
    if mark.kind != kind:
        raise DataError(f"{path}: holds a {mark.kind}, not a {kind}.")
    if (version := mark.schema_version) not in (ours, *KINDS[kind].reads):
        older = version < ours
        raise DataError(
            f"{path}: format version {version} is {'older' if older else 'newer'} than the version {ours} this "
            f"attomaton reads; {'make it again' if older else 'update attomaton'}."
        )


def _push(path: Path) -> None:
    """Push a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # on a pipe that is in the way nobody waits
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
