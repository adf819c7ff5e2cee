"""Sweeps: grids of settings, done in pieces that survive whatever happens to the process.

    SWEEP/attomaton.json     what this folder is
          sweep.json         the grid, and what it leaves at the usual, resolved: a folder continues only its own sweep
          pieces/*.parquet   finished pieces: cells that ran in one compiled program
          pieces/*.json      failed pieces, with their error
          log.jsonl          when pieces were started, finished and taken up again
          results.parquet    one row per cell and seed, once every piece has ended

A piece holds the same cells whenever and however often the sweep is started, and appears under its name only
when it is complete. So a finished piece is never computed again, an unfinished one is never read, and the table does
not depend on interruptions.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attomaton.engine.tasks import Engine, Here, Task
from attomaton.errors import AttomatonError, DataError, StorageError, UsageError, nearest
from attomaton.formats import expect, read_json, read_table, to_json, write_columns, write_json
from attomaton.holdings import clear_torn
from attomaton.ledger import Ledger, command, read_ledger
from attomaton.levels import (
    OPTIONS,
    check_options,
    find_classes,
    memory_mb,
    run_level,
    settings_of,
)
from attomaton.scan_snap.trajectory import LEVELS, Dynamics
from attomaton.storage import (
    check_folder,
    check_place,
    check_version,
    new_folder,
    only_one,
    seal,
    write_whole,
)

PIECE = 16  # cells in one compiled program
MOST_CELLS = 1_000_000
LARGEST = {int: 2**53, float: 1e100}  # numbers of a setting
RATES = ("eta_y", "eta_z", "ratio")
MEASURED = ("entropy", "largest_attention", "loss", "y_norm")  # at the end of every run
Progress = Callable[[int, int], object]


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


def parse_grid(words: Sequence[str]) -> dict[str, list[Any]]:
    """Settings like `eta_z=0.5,1,2` as lists of values; numbers become numbers.

    >>> parse_grid(["eta_z=0.5,1", "optimizer=adam"])
    {'eta_z': [0.5, 1], 'optimizer': ['adam']}
    """
    grid: dict[str, list[Any]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals or not name or not values or not word.isprintable():
            raise UsageError(f"{word!r}: a setting reads name=value or name=value,value,…")
        if name in grid:
            raise UsageError(f"{name!r} is set twice.")
        grid[name] = [_value(v) for v in values.split(",")]
    return grid


def grid_words(grid: Mapping[str, Sequence[Any]]) -> list[str]:
    """What `parse_grid` was given.

    >>> grid_words({"eta_z": [0.5, 1], "residual": [True]})
    ['eta_z=0.5,1', 'residual=true']
    """
    return [f"{name}={','.join(map(_word, values))}" for name, values in grid.items()]


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def cells_of(
    grid: Mapping[str, Sequence[Any]], classes: Sequence[str], level: str
) -> list[dict[str, Any]]:
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
        cell = dict(zip(grid, values, strict=True))
        if "ratio" in cell:
            cell["eta_y"] = cell["ratio"] * cell["eta_z"]
        cells.append({"classes": family, **cell})
    return cells


def _check_value(name: str, value: Any, kind: type) -> None:
    """Refuse a value of another kind than the setting has, and numbers no run could take."""
    fits = type(value) is kind or (kind is float and type(value) is int)
    if not fits or (kind in (int, float) and not abs(value) <= LARGEST[kind]):
        wanted = {float: "a number", int: "a whole number", bool: "true or false", str: "a word"}[
            kind
        ]
        raise UsageError(f"{name}={_word(value)}: {wanted} is needed.")


def pieces_of(cells: Sequence[Mapping[str, Any]], level: str) -> list[Piece]:
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
                    cells[part[0]]["classes"], level, options, tuple(part),
                    tuple(float(cells[i]["eta_y"]) for i in part),
                    tuple(float(cells[i]["eta_z"]) for i in part),
                )
            )  # fmt: skip
    return pieces


def sweep_run(
    out: Path | str,
    grid: Mapping[str, Sequence[Any]],
    classes: Sequence[str],
    level: str,
    progress: Progress | None = None,
    announce: Callable[[str], object] = lambda text: None,
    engine: Engine | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Do every piece that is not done yet and write the table; start it again to continue.

    A piece whose settings make no sense is recorded with its error and the others go on. Where pieces run is the
    `engine`; the table does not depend on it. Another sweep in the folder, or another kind of folder, is replaced by
    `force` alone.
    """
    out = Path(out)
    cells = cells_of(grid, classes, level)
    pieces = pieces_of(cells, level)
    usual = {k: v for k, v in settings_of(level, {}).items() if k not in grid}
    if "until" in usual and "steps" in grid:
        del usual["until"]
    config = {
        "grid": {k: list(v) for k, v in grid.items()}, "classes": list(classes), "level": level,
        "usual": usual,
    }  # fmt: skip
    replaced = _open_folder(out, config, force)
    with only_one(out, out):
        _check_same(out, config)
        seal(out, "sweep.json")  # until it has ended the rest comes and goes
        skipped = _do_pieces(out, cells, pieces, engine or Here(), progress, announce)
        failed = [f for p in pieces if not _there(out, p) for f in _failure(out, p)]
        rows = _collect(out, cells, pieces)
        clear_torn(out)
        Ledger(out).note("ended")
        seal(out)
    return {
        "sweep": str(out),
        "cells": len(cells),
        "failed": failed,
        "rows": rows,
        "skipped_pieces": skipped,
        "pieces": len(pieces),
        "usual": usual,
        "replaced": replaced,
    }


def _do_pieces(
    out: Path,
    cells: Sequence[Any],
    pieces: Sequence[Piece],
    engine: Engine,
    progress: Progress | None,
    announce: Callable[[str], object],
) -> int:
    """Do what is not done yet; how many pieces were there already."""
    ledger, done = Ledger(out), 0
    ledger.note("resumed" if read_ledger(out) else "started", command=command())
    clear_torn(out)
    todo = [p for p in pieces if not _there(out, p)]
    announce(_plan(cells, pieces, todo))
    for piece in pieces:
        if piece not in todo:
            ledger.found(piece.name)
            done += 1
    if progress is not None:
        progress(done, len(pieces))
    tasks = [
        Task(i, (os.path.abspath(out / "pieces"), piece), int(1e6 * memory_needed([piece])))
        for i, piece in enumerate(todo)
    ]
    for i, fine in engine.run(do_piece, tasks):
        if fine:
            ledger.done(todo[i].name)
        else:
            ledger.note("failed", piece=todo[i].name)
        done += 1
        if progress is not None:
            progress(done, len(pieces))
    return len(pieces) - len(todo)


def _there(out: Path, piece: Piece) -> bool:
    return (out / "pieces" / f"{piece.name}.parquet").exists()


def _open_folder(out: Path, config: dict[str, Any], force: bool) -> dict[str, Any] | None:
    """Make a new sweep folder where there is none of this very sweep; what it replaced, by force."""
    place = check_place(out, "sweep", config["classes"], force, replacing=False)
    if place.kind == "sweep":
        try:
            _check_same(out, config)
            return None
        except AttomatonError:
            if not force:
                raise
        place = check_place(out, "sweep", config["classes"], force)
    # Of two processes that come here at once one makes the folder; the other finds it made.
    try:
        with new_folder(place, "sweep", keep=False) as work:
            (work / "pieces").mkdir()
            write_json(work / "sweep.json", config)
    except StorageError as error:
        if not error.taken:
            raise
    return place.replaced


def _check_same(out: Path, config: dict[str, Any]) -> None:
    """Refuse to go on in a folder of another sweep, or of another format."""
    check_version(out, "sweep")
    found = read_json(out / "sweep.json")
    if {"usual": config["usual"], **found} != config:  # older folders leave the defaults out
        raise UsageError(
            f"{out}: holds another sweep; choose another folder, or say --force to replace it."
        )


def _plan(cells: Sequence[Any], pieces: Sequence[Piece], todo: Sequence[Piece]) -> str:
    """What is about to happen, memory included."""
    done = f", {len(pieces) - len(todo)} of them already done" if len(todo) < len(pieces) else ""
    return f"{len(cells)} cells in {len(pieces)} pieces{done}; at most about {memory_needed(todo):.0f} MB at a time"


def memory_needed(pieces: Sequence[Piece]) -> float:
    """Megabytes the largest of these pieces needs, about."""
    need = 0.0
    for piece in pieces:
        try:
            family = find_classes(piece.classes)
        except AttomatonError:
            continue  # said with the piece itself
        runs = len(piece.cells) * int(piece.options.get("seeds", 1))
        # The limit level in steps records every one of them.
        every = (
            int(piece.options["steps"]) + 1
            if piece.level == "limit" and "steps" in piece.options
            else 100
        )
        need = max(need, memory_mb(piece.level, family, runs, every, **piece.options))
    return need


def do_piece(task: tuple[str, Piece]) -> bool:
    """Run one piece, wherever this is, and write its rows, or its error; whether it could run."""
    folder, piece = Path(task[0]), task[1]
    failure = folder / f"{piece.name}.json"
    failure.unlink(missing_ok=True)
    try:
        check_options(piece.level, piece.options)
        dynamics = run_level(
            piece.level,
            find_classes(piece.classes),
            np.array(piece.eta_y),
            np.array(piece.eta_z),
            **piece.options,
        )
    except AttomatonError as error:
        record = {"cells": piece.cells, "error": f"{type(error).__name__}: {error}"}
        write_whole(failure, lambda path: write_json(path, record))
        return False
    columns = piece_columns(piece, dynamics)
    write_whole(folder / f"{piece.name}.parquet", lambda path: write_columns(path, columns))
    return True


def piece_columns(piece: Piece, dynamics: Dynamics) -> dict[str, Any]:
    """One row per cell and seed: how the run ended and the state it ended in."""
    seeds = len(dynamics.status) // len(piece.cells)
    entropy = dynamics.entropy[:, -1].mean(axis=-1)
    largest = dynamics.attention[:, -1].max(axis=-1).mean(axis=-1)
    return {
        "cell": np.repeat(piece.cells, seeds),
        "seed": np.tile(np.arange(seeds), len(piece.cells)),
        "status": list(dynamics.status),
        "entropy": entropy,
        "largest_attention": largest,
        "loss": np.asarray(dynamics.records["loss"])[:, -1],
        "y_norm": np.asarray(dynamics.records["y_norm"])[:, -1],
    }


def _failure(out: Path, piece: Piece) -> list[dict[str, Any]]:
    path = out / "pieces" / f"{piece.name}.json"
    expect(path, record := read_json(path), {"error": str})
    return [{"cell": i, "error": record["error"]} for i in piece.cells]


def _collect(out: Path, cells: Sequence[Mapping[str, Any]], pieces: Sequence[Piece]) -> int:
    """The table of all finished pieces, in the order of the cells; returns its number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = list(_tables(out, pieces))
    if not tables:
        return 0
    table = pa.concat_tables(tables).sort_by([("cell", "ascending"), ("seed", "ascending")])
    at = table["cell"].to_pylist()
    for name in _settings(cells[0]):
        table = table.append_column(name, pa.array([_settings(cells[i])[name] for i in at]))
    write_whole(out / "results.parquet", lambda path: pq.write_table(table, path))
    return table.num_rows


def _settings(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell's settings under the names of their columns: `seed` is the number of a run there."""
    return {"base_seed" if name == "seed" else name: value for name, value in cell.items()}


def _tables(out: Path, pieces: Sequence[Piece]) -> Iterator[Any]:
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
    if (
        not {*table["cell"].to_pylist()} <= {*piece.cells}
        or not (np.abs(measured[:, ended]) <= LARGEST[float]).all()
    ):
        raise DataError(f"{path}: its rows are not those of its cells; delete it and continue.")


# A sweep as far as it has come


@dataclass(frozen=True)
class Sweep:
    """A sweep folder, finished or not: its grid, and what every cell that has ended came to."""

    grid: dict[str, list[Any]]
    classes: list[str]
    level: str
    cells: list[dict[str, Any]]
    rows: list[dict[str, Any]]  # as `results.parquet` has them: one for each cell and seed
    failed: dict[int, str]  # cells that could not run, with their error

    @property
    def missing(self) -> set[int]:
        """Cells nothing is known of yet."""
        return set(range(len(self.cells))) - {r["cell"] for r in self.rows} - set(self.failed)


class Mean(NamedTuple):
    """A quantity of one cell over its seeds."""

    mean: float
    half: float | None  # half the width of the 95 % interval of the mean; None of a single seed
    seeds: int


def read_sweep(folder: Path | str) -> Sweep:
    """What a sweep folder holds so far; also of a sweep that is running or was interrupted."""
    import pyarrow as pa

    out = check_folder(folder, "sweep")
    asked = read_json(out / "sweep.json")
    expect(out / "sweep.json", asked, {"grid": dict, "classes": [str], "level": str})
    expect(out / "sweep.json", list(asked["grid"].values()), [[(float, bool, str)]])
    grid, classes, level = asked["grid"], asked["classes"], asked["level"]
    cells = cells_of(grid, classes, level)
    pieces = pieces_of(cells, level)
    tables = list(_tables(out, pieces))
    rows = pa.concat_tables(tables).to_pylist() if tables else []
    rows = [{**row, **_settings(cells[row["cell"]])} for row in rows]
    rows.sort(key=lambda row: (row["cell"], row["seed"]))
    failed = {
        failure["cell"]: failure["error"]
        for piece in pieces
        if (out / "pieces" / f"{piece.name}.json").is_file()
        for failure in _failure(out, piece)
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
        if row["status"] == "finished":
            found.setdefault(row["cell"], []).append(row[name])
    means = {}
    for cell, values in found.items():
        n = len(values)
        half = float(stdtrit(n - 1, 0.975) * np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else None
        means[cell] = Mean(float(np.mean(values)), half, n)
    return means
