"""The manifest of a finished folder: every file with its size and SHA-256, so that what changed later is noticed.

Folders are copied, moved and kept for years. Before one is read its files are compared with the manifest: all sizes,
and the contents of what has no checksums of its own (Parquet has, page by page). `changes` compares every byte.
"""

import os
import stat
from collections.abc import Sequence
from hashlib import file_digest
from pathlib import Path, PurePosixPath
from typing import Any

from attomaton.disk.doors import kind_of, opened
from attomaton.disk.formats import AGAIN, MOST_BYTES, expect, read_json, write_json
from attomaton.errors import DataError

MANIFEST = "manifest.json"
OWN_CHECKSUMS = ".parquet"  # ends the names of files that a reader checks page by page
TEXTS = (".json", ".toml", ".txt")  # end the names of files that are no larger than `MOST_BYTES`
_FORM = {"files": [{"name": str, "bytes": int, "sha256": str}]}


def write_manifest(
    folder: Path, file: Path, unlisted: Sequence[str] = (), names: Sequence[str] = ()
) -> None:
    """Write to a file what a folder holds: all but names and patterns in `unlisted`, or the files named alone."""
    passed = {path for pattern in (MANIFEST, *unlisted) for path in folder.glob(pattern)}
    files = [folder / name for name in names] or _files(folder, passed)
    write_json(file, {"files": [_entry(folder, path) for path in files]})


def check_manifest(folder: Path, contents: bool = True) -> None:
    """Refuse a folder of which a file is missing or not as it was written, as far as can be seen at once.

    Without `contents` only the sizes are looked at: enough for a list of folders.
    """
    for entry in _entries(folder):
        path = folder / entry["name"]
        if not _as_written(path, entry, contents and path.suffix != OWN_CHECKSUMS):
            raise DataError(f"{path}: {_what(path)} since it was written{_now(path)}; {AGAIN}.")


def listed_names(folder: Path) -> list[str]:
    """The files that a folder held when it was finished, relative to it."""
    return [entry["name"] for entry in _entries(folder)]


def changes(folder: Path) -> list[str]:
    """Every file of a folder that is missing or not as it was written, each with what happened to it."""
    found = [(folder / entry["name"], entry) for entry in _entries(folder)]
    return [
        f"{e['name']} {_what(path)}{_now(path)}"
        for path, e in found
        if not _as_written(path, e, True)
    ]


def _as_written(path: Path, entry: dict[str, Any], contents: bool) -> bool:
    return _size(path) == entry["bytes"] and (not contents or _digest(path) == entry["sha256"])


def _files(folder: Path, passed: set[Path]) -> list[Path]:
    found = []
    for path in sorted(folder.iterdir()):
        if path not in passed:
            found += _files(path, passed) if path.is_dir() else [path]
    return found


def _entry(folder: Path, path: Path) -> dict[str, Any]:
    name = path.relative_to(folder).as_posix()
    return {"name": name, "bytes": path.stat().st_size, "sha256": _digest(path)}


def _entries(folder: Path) -> list[dict[str, Any]]:
    path = folder / MANIFEST
    record = read_json(path)
    expect(path, record, _FORM)
    for entry in record["files"]:
        name = PurePosixPath(entry["name"])
        if name.is_absolute() or ".." in name.parts or "\0" in entry["name"]:
            raise DataError(f"{path}: names a file outside its folder; {AGAIN}.")
    above = {parent for e in record["files"] for parent in PurePosixPath(e["name"]).parents}
    for link in sorted(inner for inner in above if (folder / inner).is_symlink()):
        if link.name:  # the folder itself may be reached by a link
            raise DataError(f"{folder / link}: a link, where a folder is needed; {AGAIN}.")
    return record["files"]


def _size(path: Path) -> int | None:
    """Bytes of a file; None where there is none, or something that is not a plain file."""
    try:
        seen = path.lstat()
    except (OSError, ValueError):
        return None
    return seen.st_size if stat.S_ISREG(seen.st_mode) else None


def _digest(path: Path) -> str:
    with opened(path, MOST_BYTES if path.suffix in TEXTS else None) as file:
        try:
            return file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}).") from error


def _what(path: Path) -> str:
    return "was changed" if os.path.lexists(path) else "is missing"


def _now(path: Path) -> str:
    """What lies in the place of a file, where it is no file."""
    try:
        mode = path.lstat().st_mode
    except (OSError, ValueError):
        return ""
    return "" if stat.S_ISREG(mode) else f" (now {kind_of(mode)})"
