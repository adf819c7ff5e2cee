"""How two folders of one kind differ: settings, versions, figures, and what only their kind can tell.

Numbers are compared bit for bit: a difference that is small is told as what it is, not left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from attomaton.disk.kinds import title
from attomaton.disk.records import absent
from attomaton.errors import DataError, UsageError
from attomaton.folders.contents import Figure
from attomaton.folders.differ.models import Graphs
from attomaton.folders.differ.runs import Tables, Training
from attomaton.folders.differ.sweeps import Cells
from attomaton.folders.kinds import compared, read_contents
from attomaton.folders.look import Folder, find, is_marked, look


@dataclass(frozen=True)
class Unlike:
    """A setting or version that the two have unlike; None where one does not have it."""

    name: str
    a: object
    b: object


@dataclass(frozen=True)
class Beside:
    """A figure of both, side by side; where it is a number also how much more `b` has."""

    name: str
    a: object
    b: object
    same: bool
    difference: int | float | None = absent()


@dataclass(frozen=True)
class Difference:
    """Everything in which two folders differ; `same` where there is nothing but time and place."""

    a: Path
    b: Path
    kind: str
    maker: str | None
    commands: tuple[str | None, str | None]
    seconds: tuple[float | None, float | None]
    states: tuple[str, str]
    settings: list[Unlike]
    versions: list[Unlike]
    figures: list[Beside]
    graphs: Graphs | None = absent()
    training: Training | None = absent()
    cells: Cells | None = absent()
    tables: Tables | None = absent()
    same: bool = True


def difference(a: Path, b: Path, most: int = 5) -> Difference:
    """Everything in which two folders differ; of each sort of change between models at most so many in words."""
    a, b = find(a), find(b)
    one, two = _comparable(a), _comparable(b)
    if (one.kind, one.maker) != (two.kind, two.maker):
        raise UsageError(
            f"{a} is a {title(one.kind, one.maker)}, {b} a {title(two.kind, two.maker)}: two folders of one kind can "
            "be compared."
        )
    x, y = read_contents(a, one.kind), read_contents(b, two.kind)
    settings, versions = _unlike(x.settings, y.settings), _unlike(x.versions, y.versions)
    figures = _side_by_side(one.figures, two.figures)
    more = compared(a, b, one.maker, most)
    alike = one.state == two.state and more.same and all(row.same for row in figures)
    return Difference(
        a, b, one.kind, one.maker, (x.command, y.command), (x.seconds, y.seconds), (one.state, two.state),
        settings, versions, figures,
        more if isinstance(more, Graphs) else None, more if isinstance(more, Training) else None,
        more if isinstance(more, Cells) else None, more if isinstance(more, Tables) else None,
        alike and not settings and not versions,
    )  # fmt: skip


def _comparable(path: Path) -> Folder:
    folder = look(path)
    if folder.state in ("unreadable", "other-version"):
        raise DataError(f"{path}: cannot be compared: {folder.note}")
    if not is_marked(path):
        cure = f"; finish it first: {folder.go_on}" if folder.go_on else ""
        raise UsageError(f"{path}: is not finished, so it cannot be compared{cure}")
    return folder


def _unlike(a: Mapping[str, Figure | None], b: Mapping[str, Figure | None]) -> list[Unlike]:
    return [Unlike(x.name, x.a, x.b) for x in _side_by_side(a, b) if not x.same]


def _side_by_side(a: Mapping[str, Figure | None], b: Mapping[str, Figure | None]) -> list[Beside]:
    rows = []
    for name in dict.fromkeys((*a, *b)):
        x, y = a.get(name), b.get(name)
        more = None
        if isinstance(x, (int, float)) and isinstance(y, (int, float)):
            more = y - x
        rows.append(Beside(name, x, y, x == y, more))
    return rows
