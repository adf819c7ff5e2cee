"""All that one folder says: what `runs show` tells."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from attomaton.disk.ledger import Line, read_ledger
from attomaton.errors import DataError
from attomaton.folders.contents import Versions
from attomaton.folders.kinds import read_contents
from attomaton.folders.look import Folder, files_below, is_marked, is_work, look
from attomaton.folders.unfinished import read_asked


@dataclass(frozen=True)
class Event:
    """What a process did."""

    time: str
    event: str


@dataclass(frozen=True)
class Log:
    """A ledger in short: when processes started, went on and ended, and how many pieces came to what."""

    processes: list[Event]
    pieces: dict[str, int]


@dataclass(frozen=True)
class Held:
    """A file at the top of a folder, or a folder there with the number of its files."""

    name: str
    files: int
    bytes: int


@dataclass(frozen=True)
class Details(Folder):
    """A folder in full; unfinished work whose versions are not those here `begins_anew`."""

    settings: dict[str, Any] = field(default_factory=dict)
    versions: Versions = field(default_factory=dict)
    seconds: float | None = None
    begins_anew: list[str] = field(default_factory=list)
    log: Log = Log([], {})
    files: list[Held] = field(default_factory=list)


def details(path: Path) -> Details:
    """A folder of ours in full: what `look` says of it, its settings, versions, seconds, log and files."""
    folder, lines = look(path), _lines(path)
    known: dict[str, Any] = {f.name: getattr(folder, f.name) for f in fields(Folder) if f.init}
    known |= {"log": _log(lines), "files": _files(path)}
    if folder.state in ("unreadable", "other-version"):
        pass  # what it holds nobody knows
    elif is_work(path):
        asked = read_asked(path)
        known["settings"] = {k: v for k, v in asked.settings.items() if v is not None}
        known |= {"versions": asked.versions, "begins_anew": _unlike(asked.versions)}
    elif is_marked(path):
        said = read_contents(path, folder.kind)
        took = _took(lines) if said.seconds is None else said.seconds
        known |= {"settings": said.settings, "versions": said.versions, "seconds": took}
    return Details(**known)


def _lines(path: Path) -> list[Line]:
    try:
        return read_ledger(path)
    except DataError:
        return []  # `look` has said why


def _took(lines: list[Line]) -> float | None:
    """Seconds from the start to the end by the ledger, if one process did all of it."""
    lines = [line for line in lines if line.piece is None]
    if [line.event for line in lines] != ["started", "ended"]:
        return None
    try:
        begin, end = (datetime.fromisoformat(line.time or "") for line in lines)
        took = (end - begin).total_seconds()
        return took if took >= 0 else None  # a clock that was put back in between
    except (ValueError, TypeError):
        return None


def _unlike(versions: Mapping[str, str | None]) -> list[str]:
    """Versions here that are not those some work was begun with: it would not be taken up, but begun anew."""
    from attomaton.disk.provenance import environment

    here = environment()
    if not versions:
        return []
    return [
        f"{name} {versions.get(name)} there, {here.get(name)} here"
        for name in {**here, **versions}
        if versions.get(name) != here.get(name)
    ]


def _log(lines: list[Line]) -> Log:
    processes = [Event(line.time or "", line.event) for line in lines if line.piece is None]
    return Log(processes, dict(Counter(line.event for line in lines if line.piece is not None)))


def _files(path: Path) -> list[Held]:
    found: dict[str, list[int]] = {}
    for file, status in files_below(path):
        top, *rest = file.relative_to(path).parts
        found.setdefault(f"{top}/" if rest else top, []).append(status.st_size)
    return [Held(name, len(sizes), sum(sizes)) for name, sizes in sorted(found.items())]
