"""Whether folders are still what was written: every byte of every file against the manifest."""

from collections.abc import Iterable
from pathlib import Path

from attomaton.base.progress import Progress, quiet
from attomaton.disk.manifest import changes
from attomaton.errors import DataError
from attomaton.folders.look import Folder, is_marked, scan

SOUND, CHANGED, UNFINISHED = "sound", "changed", "not finished"


def checked(
    roots: Iterable[Path], progress: Progress = quiet
) -> list[tuple[Folder, str, list[str]]]:
    """Every folder below the roots with its verdict (a state of `look`, or one of the above) and the reasons.

    `progress` is told the bytes that were read, all there are, and the folder that comes next.
    """
    folders = scan(roots)
    done, total, found = 0, sum(f.bytes for f in folders), []
    for folder in folders:
        progress(done, total, folder.path.name)
        found.append((folder, *_verdict(folder)))
        done += folder.bytes
    return found


def _verdict(folder: Folder) -> tuple[str, list[str]]:
    if not is_marked(folder.path):
        return UNFINISHED, []
    if folder.state == "other-version":
        return folder.state, [folder.note]
    try:
        changed = changes(folder.path)
    except DataError as error:
        return "unreadable", [str(error)]
    if changed:
        return CHANGED, changed
    if folder.state == "unreadable":
        return folder.state, [folder.note]
    return (UNFINISHED if folder.state in ("interrupted", "running") else SOUND), []
