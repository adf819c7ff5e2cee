"""A sweep on disk: its grid, cells and pieces, and the table they come to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attomaton.disk.formats import read_table, to_json
from attomaton.disk.records import read_record
from attomaton.disk.storage import check_folder
from attomaton.errors import DataError, UsageError, nearest
from attomaton.scan_snap.levels import OPTIONS
from attomaton.scan_snap.trajectory import LEVELS

PIECE = 16  # cells in one compiled program
MOST_CELLS = 1_000_000
LARGEST = {int: 2**53, float: 1e100}  # numbers of a setting
RATES = ("eta_y", "eta_z", "ratio")


Setting = int | str | bool | float
Cell = dict[str, Setting]  # settings by name, its classes among them


@dataclass(frozen=True)
class Piece:
    """Cells that differ in their learning rates only and run side by side."""

    classes: str
    level: str
    options: dict[str, Any]
    cells: tuple[int, ...]
    eta_y: tuple[float, ...]
    eta_z: tuple[float, ...]

    @property
    def name(self) -> str:
        """A name that says which cells and settings, whatever else the sweep holds."""
        content = to_json(vars(self), indent=None)
        return f"{self.cells[0]:05d}-{sha256(content.encode()).hexdigest()[:12]}"


def parse_grid(words: Sequence[str]) -> dict[str, list[Setting]]:
    """Settings like `eta_z=0.5,1,2` as lists of values; numbers become numbers.

    >>> parse_grid(["eta_z=0.5,1", "optimizer=adam"])
    {'eta_z': [0.5, 1], 'optimizer': ['adam']}
    """
    grid: dict[str, list[Setting]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals or not name or not values or not word.isprintable():
            raise UsageError(f"{word!r}: a setting reads name=value or name=value,value,…")
        if name in grid:
            raise UsageError(f"{name!r} is set twice.")
        grid[name] = [_value(v) for v in values.split(",")]
    return grid


def grid_words(grid: Mapping[str, Sequence[Setting]]) -> list[str]:
    """What `parse_grid` was given.

    >>> grid_words({"eta_z": [0.5, 1], "residual": [True]})
    ['eta_z=0.5,1', 'residual=true']
    """
    return [f"{name}={','.join(map(_word, values))}" for name, values in grid.items()]


def _word(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(text: str) -> Setting:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def cells_of(
    grid: Mapping[str, Sequence[Setting]], classes: Sequence[str], level: str
) -> list[Cell]:
    """Every combination of the grid, the last setting varying fastest; rates resolved to η_Y and η_Z."""
    if level not in LEVELS:
        raise UsageError(
            f"level {level!r} is not one of {', '.join(LEVELS)}{nearest(level, LEVELS)}"
        )
    for name in grid:
        if name not in (*RATES, *OPTIONS[level]):
            known = (*RATES, *OPTIONS[level])
            raise UsageError(f"no setting {name!r} on level {level}{nearest(name, known)}")
        for value in grid[name]:
            _check_value(name, value, float if name in RATES else OPTIONS[level][name])
    if "eta_z" not in grid or ("eta_y" in grid) == ("ratio" in grid):
        raise UsageError("a sweep needs eta_z, and one of eta_y and ratio (eta_y = ratio · eta_z).")
    many = len(classes) * prod(len(values) for values in grid.values())
    if not 1 <= many <= MOST_CELLS:
        raise UsageError(f"{many:,} cells: between 1 and {MOST_CELLS:,} are needed.")
    cells = []
    for family, *values in product(classes, *grid.values()):
        cell: dict[str, Any] = dict(zip(grid, values, strict=True))
        if "ratio" in cell:
            cell["eta_y"] = cell["ratio"] * cell["eta_z"]
        cells.append({"classes": family, **cell})
    return cells


def _check_value(name: str, value: Any, kind: type) -> None:
    """Refuse a value of another kind than the setting has, and numbers no run could take."""
    fits = type(value) is kind or (kind is float and type(value) is int)
    if not fits or (kind in (int, float) and not abs(value) <= LARGEST[kind]):
        wanted = {float: "a number", int: "a whole number", bool: "true or false", str: "a word"}
        raise UsageError(f"{name}={_word(value)}: {wanted[kind]} is needed.")


def pieces_of(cells: Sequence[Cell], level: str) -> list[Piece]:
    """The cells in groups of equal classes and options, each cut into pieces of `PIECE` cells."""
    groups: dict[str, list[int]] = {}
    for i, cell in enumerate(cells):
        fixed = {k: v for k, v in cell.items() if k not in RATES}
        groups.setdefault(to_json(fixed, indent=None), []).append(i)
    pieces = []
    for members in groups.values():
        options = {k: v for k, v in cells[members[0]].items() if k not in (*RATES, "classes")}
        for at in range(0, len(members), PIECE):
            part = members[at : at + PIECE]
            pieces.append(
                Piece(
                    str(cells[part[0]]["classes"]), level, options, tuple(part),
                    tuple(float(cells[i]["eta_y"]) for i in part),
                    tuple(float(cells[i]["eta_z"]) for i in part),
                )
            )  # fmt: skip
    return pieces


@dataclass(frozen=True)
class Failure:
    """A cell that could not run, and why."""

    cell: int
    error: str


@dataclass(frozen=True)
class FailedPiece:
    """The cells of a piece that could not run, and why."""

    cells: tuple[int, ...]
    error: str


def piece_failure(out: Path, piece: Piece) -> list[Failure]:
    """The cells of a piece that failed, each with its error."""
    error = read_record(out / "pieces" / f"{piece.name}.json", FailedPiece).error
    return [Failure(i, error) for i in piece.cells]


def cell_settings(cell: Cell) -> Cell:
    """A cell's settings under the names of their columns: `seed` is the number of a run there."""
    return {"base_seed" if name == "seed" else name: value for name, value in cell.items()}


def piece_tables(out: Path, pieces: Sequence[Piece]) -> Iterator[Any]:
    """The tables of the pieces that are finished, each checked."""
    for piece in pieces:
        path = out / "pieces" / f"{piece.name}.parquet"
        if path.exists():
            try:
                table = read_table(path)
            except DataError as error:
                raise DataError(f"{error} Or delete it and continue.") from error
            _check_table(path, piece, table)
            yield table


def _check_table(path: Path, piece: Piece, table: Any) -> None:
    """Refuse rows that are not of this piece, or lack what a finished run has."""
    import pyarrow as pa

    kinds = {"cell": pa.int64(), "seed": pa.int64(), "status": pa.string()}
    wanted = pa.schema([*kinds.items(), *((name, pa.float64()) for name in MEASURED)])
    if not table.schema.equals(wanted) or any(column.null_count for column in table.columns):
        raise DataError(f"{path}: its columns are not those of a piece; delete it and continue.")
    ended = np.array(table["status"].to_pylist()) == "finished"
    measured = np.stack([table[name].to_numpy() for name in MEASURED])
    own = {*table["cell"].to_pylist()} <= {*piece.cells}
    if not own or not (np.abs(measured[:, ended]) <= LARGEST[float]).all():
        raise DataError(f"{path}: its rows are not those of its cells; delete it and continue.")


@dataclass(frozen=True)
class Grid:
    """What a sweep was asked: values of settings, classes, level; and what the grid leaves at the usual."""

    grid: dict[str, list[Setting]]
    classes: list[str]
    level: str
    usual: dict[str, Setting | None] = field(default_factory=dict)


def read_grid(folder: Path) -> Grid:
    """What the sweep in a folder was asked."""
    return read_record(folder / "sweep.json", Grid)


@dataclass(frozen=True)
class Row:
    """How a cell ended from one seed, as `results.parquet` has it beside the settings of the cell."""

    cell: int
    seed: int
    status: str
    entropy: float
    largest_attention: float
    loss: float
    y_norm: float


MEASURED = tuple(one.name for one in fields(Row))[3:]  # at the end of every run


@dataclass(frozen=True)
class Sweep:
    """A sweep folder, finished or not: its grid, and what every cell that has ended came to."""

    grid: dict[str, list[Any]]
    classes: list[str]
    level: str
    cells: list[Cell]
    rows: list[Row]
    failed: dict[int, str]  # cells that could not run, with their error

    @property
    def missing(self) -> set[int]:
        """Cells nothing is known of yet."""
        return set(range(len(self.cells))) - {row.cell for row in self.rows} - set(self.failed)


class Mean(NamedTuple):
    """A quantity of one cell over its seeds."""

    mean: float
    half: float | None  # half the width of the 95 % interval of the mean; None of a single seed
    seeds: int


def read_sweep(folder: Path | str) -> Sweep:
    """What a sweep folder holds so far; also of a sweep that is running or was interrupted."""
    out = check_folder(folder, "sweep")
    asked = read_grid(out)
    grid, classes, level = asked.grid, asked.classes, asked.level
    cells = cells_of(grid, classes, level)
    pieces = pieces_of(cells, level)
    rows = [Row(**row) for table in piece_tables(out, pieces) for row in table.to_pylist()]
    rows.sort(key=lambda row: (row.cell, row.seed))
    failed = {
        failure.cell: failure.error
        for piece in pieces
        if (out / "pieces" / f"{piece.name}.json").is_file()
        for failure in piece_failure(out, piece)
    }
    return Sweep(grid, classes, level, cells, rows, failed)


def cell_means(sweep: Sweep, name: str) -> dict[int, Mean]:
    """Per cell, the mean of a measured quantity over the seeds that finished; Student's t gives the interval."""
    from scipy.special import stdtrit

    if name not in MEASURED:
        raise UsageError(
            f"{name!r} is not measured{nearest(name, MEASURED)} Choose from {', '.join(MEASURED)}."
        )
    found: dict[int, list[float]] = {}
    for row in sweep.rows:
        if row.status == "finished":
            found.setdefault(row.cell, []).append(getattr(row, name))
    means = {}
    for cell, values in found.items():
        n = len(values)
        half = float(stdtrit(n - 1, 0.975) * np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else None
        means[cell] = Mean(float(np.mean(values)), half, n)
    return means
