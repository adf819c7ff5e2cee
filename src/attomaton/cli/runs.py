"""The commands about folders that are there: list them, look into one, compare two, check all, delete some."""

import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.cli.commands import Group, command
from attomaton.cli.console import emit, progress_bar
from attomaton.cli.options import Json, argument, option
from attomaton.errors import (
    DataError,
    StorageError,
    UsageError,
    counted,
    one_of,
    size_text,
    visible,
)

if TYPE_CHECKING:
    from attomaton.folders.look import Folder

app = typer.Typer()
program = app  # the whole command line, to which these commands belong: `main` says which
group = typer.Typer(
    cls=Group, help="List, show, compare, check and delete folders.", no_args_is_help=True
)
app.add_typer(group, name="runs", rich_help_panel="Folders")
HOME = Path("runs")  # where runs lie that were not told where to lie

Roots = Annotated[list[Path] | None, argument("Folders to look through (default: runs).")]


@command(group)
def ls(
    roots: Roots = None,
    kind: Annotated[str | None, "Only these: model, run, sweep, verification or predictor."] = None,
    state: Annotated[
        str | None,
        "Only these: finished, diverged, interrupted, running, unreadable or other-version.",
    ] = None,
    json: Json = False,
) -> None:
    """List models, runs, sweeps and verifications, the newest first.

    Interrupted ones say how to resume them.
    """
    from attomaton.disk.formats import plain
    from attomaton.disk.kinds import KINDS
    from attomaton.folders.look import STATES, scan
    from attomaton.report.text.folders import list_text

    for name, value, known in (("--kind", kind, tuple(KINDS)), ("--state", state, STATES)):
        if value is not None:
            one_of(name, value, known)
    places = _places(roots)
    found = [
        f
        for f in scan(places)
        if (kind is None or f.kind == kind) and (state is None or f.state == state)
    ]
    records = [plain(_offered(f)) for f in found]
    under = ", ".join(map(str, places))
    sought = " ".join(word for word in (state, kind or "folder") if word)
    text = f"{under}: no {sought}{'' if kind else ' of attomaton'} here."
    if records:
        total = size_text(sum(f.bytes for f in found))
        width = shutil.get_terminal_size((160, 24)).columns
        rows = _shown(records, places)
        text = f"{under}: {counted(len(found), 'folder')}, {total}\n{list_text(rows, width)}"
    emit({"roots": [str(p) for p in places], "folders": records}, text, json)


def _places(roots: list[Path] | None) -> list[Path]:
    """The folders to look through; one that was named must be there."""
    for path in roots or ():
        if not path.is_dir():
            raise DataError(f"{path}: no such folder.")
    return roots or [HOME]


def _shown(records: list[dict[str, Any]], roots: list[Path]) -> list[dict[str, Any]]:
    """Folders by their paths below the root; with several roots, or as the root itself, by the whole."""
    root, rows = roots[0], []
    for record in records:
        path = Path(record["path"])
        whole = len(roots) > 1 or path == root or not path.is_relative_to(root)
        rows.append({**record, "shown": str(path if whole else path.relative_to(root))})
    return rows


@command(group)
def show(
    folder: Annotated[Path, argument("A model, run, sweep, verification, predictor.")],
    json: Json = False,
) -> None:
    """Show one folder in full.

    Settings, versions, command, seconds, figures, log, files, how to resume it. Exit code 3: it cannot be read.
    """
    from attomaton.disk.formats import plain
    from attomaton.folders.details import details
    from attomaton.folders.look import find
    from attomaton.report.text.folders import folder_text

    record = plain(_offered(details(find(folder))))
    emit(record, folder_text(record), json)
    if record["state"] == "unreadable":
        raise typer.Exit(DataError.exit_code)


def _offered(folder: "Folder") -> "Folder":
    """A folder; what is told to go on with it is a command that this program would take, or nothing.

    The command is what a log in the folder says, and folders come from anywhere.
    """
    if folder.go_on is None or _goes_on(folder, folder.go_on):
        return folder
    if folder.maker is None:
        return replace(folder, go_on=None)  # its note says why
    said = "its log names no command of attomaton that would go on with it"
    return replace(folder, go_on=None, note="; ".join(filter(None, (folder.note, said))))


def _goes_on(folder: "Folder", typed: str) -> bool:
    """Whether the recorded command makes such folders, at this place, with options that exist."""
    from typer.main import get_command

    try:
        called, name, *words = shlex.split(typed)
    except ValueError:
        return False
    if name == "runs":
        return words == ["rm", str(folder.path)]
    commands = getattr(get_command(program), "commands", {})
    # With --bootstrap it makes such a run beside its answer.
    aside = (name, folder.maker) == ("coverage", "bootstrap")
    known = called == "attomaton" and name in commands and (name == folder.maker or aside)
    if not known or visible(typed, most=None) != typed:
        return False
    try:
        given = commands[name].make_context(name, list(words)).params
    except Exception:  # of whatever class the parser raises: it is no command of ours
        return False
    if aside:  # which finds the run by what was asked; its --out is another file
        return given.get("bootstrap") is not None
    place = folder.place or folder.path
    return given.get("out") is None or Path(given["out"]).name == place.name


@command(app, "Folders")
@command(group)
def diff(
    a: Annotated[Path, argument("A folder.")],
    b: Annotated[Path, argument("Another of the same kind.")],
    json: Json = False,
) -> None:
    """Compare two folders of one kind.

    Settings, versions, figures; of models orders, components and answers, of others training or cells.
    """
    from attomaton.disk.formats import plain
    from attomaton.folders.differ.folders import difference
    from attomaton.report.text.folders import difference_text

    record = plain(difference(a, b))
    emit(record, difference_text(record), json)


@command(group)
def check(roots: Roots = None, json: Json = False) -> None:
    """Check that folders are still what was written.

    Every byte against their manifests. Exit code 3: one is not.
    """
    from attomaton.folders.check import CHANGED, checked
    from attomaton.report.text.folders import check_text

    places = _places(roots)
    with progress_bar("checking") as progress:
        folders = checked(places, progress)
    found: list[dict[str, Any]] = [
        dict(path=str(f.path), kind=f.kind, bytes=f.bytes, verdict=verdict, reasons=reasons)
        for f, verdict, reasons in folders
    ]
    nothing = f"{', '.join(map(str, places))}: no folder of attomaton here."
    emit({"folders": found}, check_text(_shown(found, places)) if found else nothing, json)
    if any(record["verdict"] in (CHANGED, "unreadable") for record in found):
        raise typer.Exit(3)


@command(group)
def rm(
    folders: Annotated[
        list[Path] | None, argument("Folders; with --interrupted, where to look.")
    ] = None,
    interrupted: Annotated[
        bool, option("All unfinished work below (default: runs).", "--interrupted")
    ] = False,
    yes: Annotated[bool, option("Do not ask.", "--yes", "-y")] = False,
    dry_run: Annotated[bool, option("Say what would be deleted.", "--dry-run")] = False,
    json: Json = False,
) -> None:
    """Delete folders, after asking.

    Only folders of attomaton that are not in use and hold no other files.
    """
    from attomaton.disk.formats import plain
    from attomaton.folders.look import is_work
    from attomaton.folders.remove import left_over, removable, remove
    from attomaton.report.text.folders import removal_text

    if not folders and not interrupted:
        raise UsageError("name folders to delete, or say --interrupted.")
    named = [f.path for f in left_over(_places(folders))] if interrupted else folders or []
    chosen = removable(named)
    records = [plain(f) for f in chosen]
    freed = sum(f.bytes for f in chosen)
    many = f"{counted(len(chosen), 'folder')}, {size_text(freed)}"
    if not chosen:
        emit({"removed": [], "freed_bytes": 0}, "no unfinished work there.", json)
        return
    if dry_run:
        text = f"{removal_text(records, 'would delete')}\nwould free {many}; nothing was deleted."
        emit({"would_remove": records, "would_free_bytes": freed}, text, json)
        return
    if not yes and not _agreed(removal_text(records, "delete"), many):
        emit({"removed": [], "freed_bytes": 0}, "nothing was deleted.", json)
        return
    for i, folder in enumerate(chosen):
        try:
            remove(folder)
        except StorageError as error:
            before = [str(f.path) for f in chosen[:i]]
            raise StorageError(
                f"{error} Deleted before it: {', '.join(before) or 'none'}."
            ) from error
    text = f"{removal_text(records, 'deleted')}\nfreed {many}"
    emit({"removed": records, "freed_bytes": freed}, text, json)
    for folder in chosen:
        if is_work(left := folder.path.with_name(f".{folder.path.name}.partial")):
            print(f"{left} is left: unfinished work for the same place.", file=sys.stderr)


def _agreed(listed: str, many: str) -> bool:
    """Whether a person agrees; where there is none to ask, nothing is deleted."""
    if not sys.stdin.isatty():
        raise UsageError(f"{many} would be deleted, and nobody is here to ask: say --yes.")
    print(f"{listed}\ndelete {many}? y/N ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
