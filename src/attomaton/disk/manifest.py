"""The manifest of a finished folder: every file with its size and SHA-256, so that what changed later is noticed.

Folders are copied, moved and kept for years. Before one is read its files are compared with the manifest: all sizes,
and the contents of what has no checksums of its own (Parquet has, page by page). `changes` compares every byte.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path, PurePosixPath

from attomaton.disk.doors import kind_of, opened
from attomaton.disk.formats import AGAIN, MOST_BYTES, write_json
from attomaton.disk.records import read_record
from attomaton.errors import DataError

MANIFEST = "manifest.json"
OWN_CHECKSUMS = ".parquet"  # ends the names of files that a reader checks page by page
TEXTS = (".json", ".toml", ".txt")  # end the names of files that are no larger than `MOST_BYTES`


@dataclass(frozen=True)
class Entry:
    """One file of a folder, as it was when the folder was finished."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """All files of a folder."""

    files: tuple[Entry, ...]


def write_manifest(
    folder: Path, file: Path, unlisted: Sequence[str] = (), names: Sequence[str] = ()
) -> None:
    """Write to a file what a folder holds: all but names and patterns in `unlisted`, or the files named alone."""
    passed = {path for pattern in (MANIFEST, *unlisted) for path in folder.glob(pattern)}
    files = [folder / name for name in names] or _files(folder, passed)
    entries = (
        Entry(path.relative_to(folder).as_posix(), path.stat().st_size, _digest(path))
        for path in files
    )
    write_json(file, Manifest(tuple(entries)))


def check_manifest(folder: Path, contents: bool = True) -> None:
    """Refuse a folder of which a file is missing or not as it was written, as far as can be seen at once.

    Without `contents` only the sizes are looked at: enough for a list of folders.
    """
    for entry in _entries(folder):
        _check(folder / entry.name, entry, contents)


class Watched:
    """A finished folder that is read again and again: all its files are checked once, later those touched since.

    Whoever writes to a file, exchanges it or sets its clock back leaves a trace in its status, which costs next to
    nothing to look at.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._seen: dict[str, _Trace | None] = {}
        self._manifest = _trace(folder / MANIFEST)
        self._entries = _entries(folder)
        self.check()

    @property
    def replaced(self) -> bool:
        """Whether another folder lies there by now."""
        return _trace(self.folder / MANIFEST) != self._manifest

    def check(self) -> None:
        """Refuse the folder if a file is missing or not as it was written, or if it is another folder by now."""
        if self.replaced:
            raise DataError(f"{self.folder}: was replaced since it was opened; open it again.")
        for entry in self._entries:
            path = self.folder / entry.name
            trace = _trace(path)  # before its contents: what changes meanwhile is looked at again
            if trace is None or trace != self._seen.get(entry.name):
                _check(path, entry)
                self._seen[entry.name] = trace


_Trace = tuple[int, ...]


def _trace(path: Path) -> _Trace | None:
    """What changes with a file; None where there is none."""
    if (seen := _status(path)) is None:
        return None
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (OSError, ValueError):
        return None


def listed_names(folder: Path) -> list[str]:
    """The files that a folder held when it was finished, relative to it."""
    return [entry.name for entry in _entries(folder)]


def changes(folder: Path) -> list[str]:
    """Every file of a folder that is missing or not as it was written, each with what happened to it."""
    found = [(folder / entry.name, entry) for entry in _entries(folder)]
    return [f"{e.name} {_what(path)}" for path, e in found if not _as_written(path, e, True)]


def _check(path: Path, entry: Entry, contents: bool = True) -> None:
    if not _as_written(path, entry, contents and path.suffix != OWN_CHECKSUMS):
        raise DataError(f"{path}: {_what(path, ' since it was written')}; {AGAIN}.")


def _as_written(path: Path, entry: Entry, contents: bool) -> bool:
    seen = _status(path)
    if seen is None or not stat.S_ISREG(seen.st_mode) or seen.st_size != entry.bytes:
        return False
    return not contents or _digest(path) == entry.sha256


def _files(folder: Path, passed: set[Path]) -> list[Path]:
    found = []
    for path in sorted(folder.iterdir()):
        if path not in passed:
            found += _files(path, passed) if path.is_dir() else [path]
    return found


def _entries(folder: Path) -> tuple[Entry, ...]:
    path = folder / MANIFEST
    files = read_record(path, Manifest).files
    for entry in files:
        name = PurePosixPath(entry.name)
        if name.is_absolute() or ".." in name.parts or "\0" in entry.name:
            raise DataError(f"{path}: names a file outside its folder; {AGAIN}.")
    above = {parent for entry in files for parent in PurePosixPath(entry.name).parents}
    for link in sorted(inner for inner in above if os.path.islink(folder / inner)):
        if link.name:  # the folder itself may be reached by a link
            raise DataError(f"{folder / link}: a link, where a folder is needed; {AGAIN}.")
    return files


def _digest(path: Path) -> str:
    with opened(path, MOST_BYTES if path.suffix in TEXTS else None) as file:
        try:
            return file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}).") from error


def _what(path: Path, since: str = "") -> str:
    """What happened to a file, and what lies in its place where that is no file."""
    seen = _status(path)
    if seen is None:
        return f"is missing{since}"
    now = "" if stat.S_ISREG(seen.st_mode) else f" (now {kind_of(seen.st_mode)})"
    return f"was changed{since}{now}"
