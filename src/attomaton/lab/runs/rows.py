"""Everything that can be opened as rows of a table, what a row says in full, and how it is deleted."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from attomaton.disk.formats import plain, read_toml
from attomaton.disk.kinds import title as kind_title
from attomaton.disk.storage import is_folder
from attomaton.errors import AttomatonError, UsageError, size_text
from attomaton.folders.contents import flat
from attomaton.folders.look import Folder, look
from attomaton.folders.remove import removable, remove
from attomaton.lab.shared import Lab
from attomaton.lab.shelf import Item

# The first of these that a summary has are shown as its results.
TELLING = (
    "final.loss_gap", "final.cosine_svm", "verdict", "cells", "predicted.transition", "loss_floor", "svm_norm",
    "samples",
)  # fmt: skip
SETTINGS = ("optimizer", "lr", "steps", "seeds", "classes", "level", "eta_y", "eta_z", "context")


@dataclass(frozen=True)
class Row:
    """One item in the table."""

    id: str
    name: str
    kind: str
    state: str
    when: str
    bytes: int
    size: str
    settings: str
    results: str
    tags: str


def rows(lab: Lab) -> list[Row]:
    """All items, what was opened first in front."""
    labels = lab.shelf.labels.all()
    return [
        _row(item, ", ".join(labels[item.id].tags) if item.id in labels else "")
        for item in lab.shelf.items()
    ]


def _row(item: Item, tags: str) -> Row:
    if item.kind == "data":
        seen = item.path.stat() if item.path.is_file() else None
        when = datetime.fromtimestamp(seen.st_mtime, UTC).strftime("%Y-%m-%d %H:%M") if seen else ""
        size = seen.st_size if seen else 0
        said = " ".join(item.reading.words)
        return Row(item.id, item.title, "data", "", when, size, size_text(size), said, "", tags)
    try:
        found = look(item.path)
    except (AttomatonError, OSError) as error:
        return Row(
            item.id, item.title, item.kind, "unreadable", "", 0, "", "", str(error)[:200], tags
        )
    return Row(
        item.id, item.title, kind_title(found.kind, found.maker), found.state, found.when[:16].replace("T", " "),
        found.bytes, size_text(found.bytes), _settings(item.path), _results(found), tags,
    )  # fmt: skip


def _settings(path: Path) -> str:
    try:
        config = read_toml(path / "config.toml") if (path / "config.toml").is_file() else {}
    except AttomatonError:
        return ""
    return ", ".join(f"{k} {config[k]}" for k in SETTINGS if config.get(k) is not None)


def _results(found: Folder) -> str:
    told = [
        f"{name.rpartition('.')[2]} {f'{x:.4g}' if isinstance(x, float) else x}"
        for name in TELLING
        if (x := found.figures.get(name)) is not None
    ]
    return found.note or ", ".join(told[:3])


def told_in_full(item: Item) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Settings and figures of a folder, as it stores them."""
    found = look(item.path)
    config = item.path / "config.toml"
    settings = flat(plain(read_toml(config))) if config.is_file() else {}
    return settings, found.figures


def delete(lab: Lab, item: Item) -> None:
    """Delete an item of the workspace: exactly what attomaton wrote; data with the model that was fitted to them."""
    lab.may_start()
    shelf = lab.shelf
    place = shelf.workspace.resolve()
    root = place.parent if place.name == "lab" else place
    if not item.path.resolve().is_relative_to(root) or item.path.is_symlink():
        raise UsageError(
            f"{item.title} does not lie in the workspace of this lab: delete it by hand."
        )
    data = item.kind == "data"
    if data and item.path.parent.resolve() != place / "data":
        raise UsageError(f"{item.title} was not made by this lab: delete it by hand.")
    folder = shelf.model_folder(item) if data else item.path
    if not data or is_folder(folder, "model"):
        for one in removable([folder]):
            remove(one)
    if data:
        item.path.unlink(missing_ok=True)
        (item.path.parent / f"{item.id}.json").unlink(missing_ok=True)
    shelf.labels.forget(item.id)
