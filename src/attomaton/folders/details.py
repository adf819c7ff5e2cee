"""All that one folder says: what `runs show` tells."""

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from attomaton.disk.ledger import read_ledger
from attomaton.errors import DataError
from attomaton.folders.kinds import read_contents
from attomaton.folders.look import files_below, is_marked, is_work, look
from attomaton.folders.unfinished import read_asked

Record = dict[str, Any]


def details(path: Path) -> Record:
    """A folder of ours in full: what `look` says of it, its settings, versions, seconds, log and files."""
    folder = look(path)
    record: Record = {
        **folder.record(),
        "settings": {},
        "versions": {},
        "seconds": None,
        "begins_anew": [],
        "log": _log(path),
        "files": _files(path),
    }
    if folder.state in ("unreadable", "other-version"):
        return record
    if is_work(path):
        asked = read_asked(path)
        return record | {
            "settings": {k: v for k, v in asked.settings.items() if v is not None},
            "versions": asked.versions,
            "begins_anew": _unlike(asked.versions),
        }
    if is_marked(path):
        said = read_contents(path, folder.kind)
        took = _took(path) if said.seconds is None else said.seconds
        record |= {"settings": said.settings, "versions": said.versions, "seconds": took}
    return record


def _took(path: Path) -> float | None:
    """Seconds from the start to the end by the ledger, if one process did all of it."""
    lines = [line for line in read_ledger(path) if line.piece is None]
    if [line.event for line in lines] != ["started", "ended"]:
        return None
    try:
        begin, end = (datetime.fromisoformat(line.time or "") for line in lines)
        took = (end - begin).total_seconds()
        return took if took >= 0 else None  # a clock that was put back in between
    except (ValueError, TypeError):
        return None


def _unlike(versions: Record) -> list[str]:
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


def _log(path: Path) -> Record:
    """The ledger in short: when processes started, went on and ended, and how many pieces came to what."""
    try:
        lines = read_ledger(path)
    except DataError:
        lines = []  # `look` has said why
    processes = [
        {"time": line.time or "", "event": line.event} for line in lines if line.piece is None
    ]
    pieces = Counter(line.event for line in lines if line.piece is not None)
    return {"processes": processes, "pieces": dict(pieces)}


def _files(path: Path) -> list[Record]:
    """What lies in the folder: its files, and the folders in it with the number of their files."""
    found: dict[str, Record] = {}
    for file, status in files_below(path):
        top, *rest = file.relative_to(path).parts
        name = f"{top}/" if rest else top
        entry = found.setdefault(name, {"name": name, "files": 0, "bytes": 0})
        entry["files"] += 1
        entry["bytes"] += status.st_size
    return [found[name] for name in sorted(found)]
