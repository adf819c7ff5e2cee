"""What a folder is and says: kind, state, when, size, command. All of it is read from the folder itself.

A folder of ours is marked (`attomaton.json`), or it is what lies beside the place of one that is still to be finished:
the work folder `.NAME.partial`, or `.NAME.unfinished-…` of what is written in one go; or what a deletion has left.
Nothing is stored elsewhere: a list of folders is made by looking.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from attomaton.disk.holdings import CONFIG_FILE, KIND_FILE, LOCK_FILE, MARKS
from attomaton.disk.kinds import KINDS
from attomaton.disk.ledger import last_command, read_ledger
from attomaton.disk.locks import is_locked
from attomaton.disk.manifest import check_manifest
from attomaton.disk.storage import UNFINISHED, Mark, read_mark
from attomaton.errors import AttomatonError, DataError
from attomaton.folders.contents import Figure
from attomaton.folders.kinds import read_contents, work_done, work_kind
from attomaton.folders.unfinished import Done, read_asked

STATES = ("finished", "diverged", "interrupted", "running", "unreadable", "other-version")
DEPTH = 4  # folders below a root that are looked through
UNNAMED = "which command made it is not written in it, as in folders of earlier versions"
REMOVED = ".removed"  # ends the name of a folder that is being deleted
# What reading a file can raise that holds something else than we wrote.
_FAULTS = (AttomatonError, OSError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError)  # fmt: skip
_PARTIAL = re.compile(r"\.(.+)\.partial")
_UNFINISHED = re.compile(rf"\..+{re.escape(UNFINISHED)}\w{{8}}")


@dataclass(frozen=True)
class Folder:
    """One folder of ours, as `runs ls` tells it."""

    name: str = field(init=False)
    path: Path
    kind: str
    state: str  # one of STATES
    when: str  # UTC, to the second
    bytes: int
    maker: str | None = None  # the command that makes such folders
    command: str | None = None
    done: Done | None = None
    go_on: str | None = None
    figures: dict[str, Figure] = field(default_factory=dict)
    note: str = ""
    place: Path | None = None  # of a work folder: where the finished one will lie

    def __post_init__(self) -> None:
        """A folder is called as its path is."""
        object.__setattr__(self, "name", self.path.name)


def is_marked(path: Path) -> bool:
    """Whether a folder carries our mark: it was finished, or is a sweep."""
    return (path / KIND_FILE).is_file()


def is_work(path: Path) -> bool:
    """Whether this is a work folder of ours."""
    return (
        bool(_PARTIAL.fullmatch(path.name))
        and (path / CONFIG_FILE).is_file()
        and not is_marked(path)
    )


def is_removed(path: Path) -> bool:
    """Whether this is what a removal left that was broken off."""
    known = any((path / name).is_file() for name in MARKS)
    return path.name.startswith(".") and path.name.endswith(REMOVED) and known


def is_unfinished(path: Path) -> bool:
    """Whether this is a folder that was to be filled in one go: nothing can go on with what is left of it."""
    return bool(_UNFINISHED.fullmatch(path.name)) and path.is_dir()


def is_ours(path: Path) -> bool:
    """Whether a folder is one of ours, finished or not."""
    return is_marked(path) or is_work(path) or is_removed(path) or is_unfinished(path)


def place_of(work: Path) -> Path:
    """The place a work folder is made for."""
    found = _PARTIAL.fullmatch(work.name)
    assert found is not None
    return work.with_name(found[1])


def find(path: Path) -> Path:
    """A folder of ours by its name; the name of one that is not finished yet means its work folder."""
    if path.name in ("", ".."):
        path = path.resolve()
    if not path.name:
        raise DataError(f"{path}: is no folder of attomaton.")
    if not path.exists():
        if is_work(work := path.with_name(f".{path.name}.partial")):
            return work
        raise DataError(f"{path}: no such folder.")
    if not is_ours(path):
        raise DataError(
            f"{path}: not a folder of attomaton (no {KIND_FILE} in it); "
            "`attomaton runs ls` lists those there are."
        )
    return path


def scan(roots: Iterable[Path]) -> list[Folder]:
    """Every folder of ours below the roots, the newest first; a root may be one itself."""
    found = {path.resolve(): path for root in roots for path in ours(root)}
    return sorted(map(look, found.values()), key=lambda f: (f.when, f.path.name), reverse=True)


def ours(path: Path, depth: int = DEPTH) -> Iterator[Path]:
    """Folders of ours, not looking inside them (a run may hold a model of its own), and not following links."""
    if is_ours(path):
        yield path
        return
    for inner in folders_in(path):
        if is_ours(inner) or (depth > 1 and not inner.name.startswith(".")):
            yield from ours(inner, depth - 1)


def folders_in(path: Path) -> list[Path]:
    """The folders in a folder, by name; links are none, and where one may not look there is nothing."""
    try:
        with os.scandir(path) as entries:
            return sorted(Path(x.path) for x in entries if x.is_dir(follow_symlinks=False))
    except OSError:
        return []


def look(path: Path) -> Folder:
    """What a folder of ours is; one that cannot be read says so, and why."""
    size, newest = measure(path)
    kind = "unknown"
    try:
        if is_removed(path):
            again = shlex.join(["attomaton", "runs", "rm", str(path)])
            note = "its removal was broken off"
            return Folder(path, kind, "interrupted", newest, size, go_on=again, note=note)
        if is_unfinished(path):
            state, note = "interrupted", "was being written; nothing can go on with it"
            return Folder(path, kind, "running" if in_use(path) else state, newest, size, note=note)
        if not is_marked(path):
            return _work(path, size, newest)
        mark = read_mark(path)
        kind, version = mark.kind, mark.schema_version
        wanted = KINDS[kind].version if kind in KINDS else None
        if version != wanted and (kind not in KINDS or version not in KINDS[kind].reads):
            note = f"format version {version} of a {kind}; this attomaton reads {wanted or 'none'}"
            return Folder(path, kind, "other-version", _ended(path), size, note=note)
        return _marked(path, mark, size, newest)
    except _FAULTS as error:
        text = str(error) if isinstance(error, AttomatonError) else f"{path}: {error!r}"
        return Folder(path, kind, "unreadable", newest, size, note=text)


def _work(path: Path, size: int, newest: str) -> Folder:
    asked, command = read_asked(path), last_command(read_ledger(path))
    state = "running" if in_use(path) else "interrupted"
    return Folder(
        path, work_kind(asked), state, newest, size, asked.maker, command, work_done(path, asked),
        command if state == "interrupted" else None, note="" if asked.maker else UNNAMED,
        place=place_of(path),
    )  # fmt: skip


def _marked(path: Path, mark: Mark, size: int, newest: str) -> Folder:
    check_manifest(path, contents=False)
    kind, said = KINDS[mark.kind], read_contents(path, mark.kind)
    maker, note = kind.maker(mark.maker), said.note
    state = "running" if kind.grows and in_use(path) else said.state
    if maker is None:
        note = "; ".join(filter(None, (note, UNNAMED)))
    if _PARTIAL.fullmatch(path.name):  # its process was killed in its last act
        place = place_of(path)
        note = f"the earlier {place}" if place.exists() else f"complete: rename it to {place.name}"
    return Folder(
        path, kind.name, state, newest if kind.grows else _ended(path), size, maker, said.command,
        None if state == "finished" else said.done, said.command if state == "interrupted" else None,
        said.figures, note,
    )  # fmt: skip


def measure(path: Path) -> tuple[int, str]:
    """Bytes of all files below a folder, and when the newest of them was written."""
    total, newest = 0, 0.0
    for _, status in files_below(path):
        total += status.st_size
        newest = max(newest, status.st_mtime)
    return total, _moment(newest or _written(path))


def files_below(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every file below a folder, links as themselves; what vanishes meanwhile is passed over."""
    for above, _, names in os.walk(path):
        for name in names:
            file = Path(above) / name
            try:
                yield file, file.lstat()
            except OSError:
                continue


def in_use(path: Path) -> bool:
    """Whether a process holds this folder; what a killed one held is free again."""
    return is_locked(held_by(path))


def held_by(path: Path) -> Path:
    """What a process that works in a folder has locked: a file in it, or the folder that is filled in one go."""
    return path if is_unfinished(path) else path / LOCK_FILE


def _ended(path: Path) -> str:
    """When a folder was finished: by its ledger, which a copy keeps, else by its mark, which is written last."""
    for line in reversed(read_ledger(path)):
        try:
            return _moment(datetime.fromisoformat(line.time or "").timestamp())
        except ValueError:
            continue
    return _moment(_written(path / KIND_FILE))


def _written(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""  # a clock beyond all years
