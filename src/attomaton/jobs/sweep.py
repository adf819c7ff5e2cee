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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.lazily import pa, pq
from attomaton.base.progress import Progress, quiet
from attomaton.disk.formats import plain, read_json, write_columns, write_json
from attomaton.disk.holdings import clear_torn
from attomaton.disk.ledger import Ledger, command, read_ledger
from attomaton.disk.locks import only_one
from attomaton.disk.storage import (
    Replaced,
    check_place,
    check_version,
    new_folder,
    seal,
    write_whole,
)
from attomaton.engine.tasks import Engine
from attomaton.errors import AttomatonError, StorageError, UsageError
from attomaton.folders.sweep import (
    Cell,
    Failure,
    Grid,
    Piece,
    Setting,
    cell_settings,
    cells_of,
    piece_failure,
    piece_tables,
    pieces_of,
)
from attomaton.jobs.pieces import Piece as WorkPiece
from attomaton.jobs.pieces import do_pieces
from attomaton.scan_snap.levels import (
    check_options,
    find_classes,
    memory_mb,
    run_level,
    settings_of,
)
from attomaton.scan_snap.trajectory import Dynamics


@dataclass(frozen=True)
class SweepResult:
    """What a sweep came to: how many cells and rows, the cells that failed, the pieces that were there already."""

    sweep: str
    cells: int
    failed: Sequence[Failure]
    rows: int
    skipped_pieces: int
    pieces: int
    usual: Mapping[str, Setting | None]
    replaced: Replaced | None


def sweep_run(
    out: Path | str,
    grid: Mapping[str, Sequence[Any]],
    classes: Sequence[str],
    level: str,
    progress: Progress = quiet,
    announce: Callable[[str], object] = lambda text: None,
    engine: Engine | None = None,
    force: bool = False,
) -> SweepResult:
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
    config = Grid({k: list(v) for k, v in grid.items()}, list(classes), level, usual)
    replaced = _open_folder(out, config, force)
    with only_one(out, out):
        _check_same(out, config)
        seal(out, "sweep.json")  # until it has ended the rest comes and goes
        Ledger(out).note("resumed" if read_ledger(out) else "started", command=command())
        clear_torn(out)
        left = [p for p in pieces if not _there(out, p)]
        there = len(pieces) - len(left)
        done = f", {there} of them already done" if there else ""
        memory = f"at most about {memory_needed(left):.0f} MB at a time"
        announce(f"{len(cells)} cells in {len(pieces)} pieces{done}; {memory}")
        _, skipped = do_pieces(
            do_piece,
            [WorkPiece(p.name, p, int(1e6 * memory_needed([p]))) for p in pieces],
            lambda piece: _there(out, piece.payload) or None,
            ledger=out, engine=engine, common=(Path(os.path.abspath(out / "pieces")),),
            failed=lambda fine: not fine, progress=progress, words=lambda done: "pieces",
        )  # fmt: skip
        failed = [f for p in pieces if not _there(out, p) for f in piece_failure(out, p)]
        rows = _collect(out, cells, pieces)
        clear_torn(out)
        Ledger(out).note("ended")
        seal(out)
    return SweepResult(
        str(out), len(cells), failed, rows, skipped, len(pieces), config.usual, replaced
    )


def _there(out: Path, piece: Piece) -> bool:
    return (out / "pieces" / f"{piece.name}.parquet").exists()


def _open_folder(out: Path, config: Grid, force: bool) -> Replaced | None:
    """Make a new sweep folder where there is none of this very sweep; what it replaced, by force."""
    place = check_place(out, "sweep", config.classes, force, replacing=False)
    if place.kind == "sweep":
        try:
            _check_same(out, config)
            return None
        except AttomatonError:
            if not force:
                raise
        place = check_place(out, "sweep", config.classes, force)
    # Of two processes that come here at once one makes the folder; the other finds it made.
    try:
        with new_folder(place, "sweep", keep=False) as work:
            (work / "pieces").mkdir()
            write_json(work / "sweep.json", config)
    except StorageError as error:
        if not error.taken:
            raise
    return place.replaced


def _check_same(out: Path, config: Grid) -> None:
    """Refuse to go on in a folder of another sweep, or of another format."""
    check_version(out, "sweep")
    found = read_json(out / "sweep.json")
    if {"usual": config.usual, **found} != plain(config):  # older folders leave the defaults out
        raise UsageError(
            f"{out}: holds another sweep; choose another folder, or say --force to replace it."
        )


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


def do_piece(folder: Path, piece: Piece) -> bool:
    """Run one piece, wherever this is, and write its rows, or its error; whether it could run."""
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
        write_whole(failure, write_json, record)
        return False
    columns = piece_columns(piece, dynamics)
    write_whole(folder / f"{piece.name}.parquet", write_columns, columns)
    return True


def piece_columns(piece: Piece, dynamics: Dynamics) -> dict[str, np.ndarray | list[str]]:
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


def _collect(out: Path, cells: Sequence[Cell], pieces: Sequence[Piece]) -> int:
    """The table of all finished pieces, in the order of the cells; returns its number of rows."""
    tables = list(piece_tables(out, pieces))
    if not tables:
        return 0
    table = pa.concat_tables(tables).sort_by([("cell", "ascending"), ("seed", "ascending")])
    at = table["cell"].to_pylist()
    for name in cell_settings(cells[0]):
        table = table.append_column(name, pa.array([cell_settings(cells[i])[name] for i in at]))
    write_whole(out / "results.parquet", lambda path: pq.write_table(table, path))
    return table.num_rows
