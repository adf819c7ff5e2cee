"""The bootstrap by sequence, in groups of resamples that survive whatever happens to the process.

RUN/summary.json     how often orders, ties, components and answers come out the same
    data.parquet     a row for each order and tie
    figures/         the picture

Each resample is drawn by its number, so that groups may be done in any order, anywhere.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.corpus.datasets import data_name
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import AS_NAMED, ReadAs, Reading
from attomaton.disk.formats import read_arrays, write_arrays, write_columns
from attomaton.disk.provenance import environment, peak_memory_mb, provenance
from attomaton.disk.storage import Replaced, check_place, resumed_folder, write_whole
from attomaton.engine.tasks import Engine
from attomaton.errors import whole_number
from attomaton.jobs.pieces import Piece, do_pieces
from attomaton.mechanics.theory.resampling import (
    LOST,
    REVERSED,
    STRICT,
    TIED,
    Resampling,
    Stability,
    Tally,
    resampling,
    same_share,
    stability,
    summed,
)
from attomaton.report.figures.canvas import save
from attomaton.report.figures.stability import stability_figure

RESAMPLES, MOST_RESAMPLES = 200, 100_000
GROUP = 10  # resamples of a piece
LISTED = 20  # rows of each list in the summary


@dataclass(frozen=True)
class Bootstrap:
    """What `attomaton bootstrap` found."""

    data: str
    reading: ReadAs
    tokens: int
    samples: int
    seed: int
    stability: Stability
    seconds: float
    peak_memory_mb: float
    run: str
    resumed_pieces: int
    replaced: Replaced | None


def bootstrap_run(
    data: Path | str,
    out: Path | str,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    reading: Reading = AS_NAMED,
    engine: Engine | None = None,
    progress: Progress = quiet,
    force: bool = False,
) -> Bootstrap:
    """Draw the sequences of a data set again and again, and count what comes out the same; leaves a run folder."""
    begin = time.perf_counter()
    place = check_place(out, "run", (data, reading.tokenizer), force)
    many = whole_number("resamples", resamples, least=1, most=MOST_RESAMPLES)
    seed = whole_number("seed", seed, least=0)
    windows = read_windows(data, reading)
    known = resampling(windows)
    config = {"data": windows.mark, "resamples": many, "seed": seed, "versions": environment()}
    with resumed_folder(place, "bootstrap", config) as work:
        (work / "pieces").mkdir(exist_ok=True)
        tally, resumed = _tallied(work, known, many, seed, engine, progress)
        found = stability(known, tally, LISTED)
        summary = Bootstrap(
            data_name(data), reading.done(windows), len(windows.vocabulary), int(windows.realizable.sum()),
            seed, found, time.perf_counter() - begin, peak_memory_mb(), str(out), resumed, place.replaced,
        )  # fmt: skip
        told = {"data": data_name(data), "resamples": many, "seed": seed, **reading.given}
        provenance(work, told, summary)
        write_columns(work / "data.parquet", _columns(known, tally))
        save(
            stability_figure(found, same_share(known, tally), known.strict),
            work / "figures",
            "stability",
        )
    return summary


def _tallied(
    work: Path, known: Resampling, many: int, seed: int, engine: Engine | None, progress: Progress
) -> tuple[Tally, int]:
    """All resamples, counted now or before, and how many pieces were there."""
    pieces = [
        Piece(f"resamples {i + 1} to {min(i + GROUP, many)}", (i, min(GROUP, many - i)), size=min(GROUP, many - i))
        for i in range(0, many, GROUP)
    ]  # fmt: skip

    def place(piece: Piece) -> Path:
        return work / "pieces" / "{}-{}.safetensors".format(*piece.payload)

    def load(piece: Piece) -> Tally | None:
        path = place(piece)
        return Tally(**read_arrays(path, finite=False)) if path.is_file() else None

    parts, there = do_pieces(
        tally_group, pieces, load, ledger=work, engine=engine, common=(known, seed), progress=progress,
        save=lambda piece, found: write_whole(place(piece), write_arrays, found.arrays()),
    )  # fmt: skip
    return summed(parts), there


def tally_group(known: Resampling, seed: int, task: tuple[int, int]) -> Tally:
    """One group of resamples, wherever this runs."""
    return known.tally(*task, seed)


def _columns(known: Resampling, tally: Tally) -> dict[str, Any]:
    """One row for each order and tie of the data."""
    graph, word = known.graph, known.graph.vocabulary.column
    share = tally.edges / len(tally.kept)
    return {
        "last": word(graph.pair_last[graph.edge_from]),
        "winner": word(graph.pair_token[graph.edge_from]),
        "loser": word(graph.pair_token[graph.edge_to]),
        "kind": np.where(known.strict, "order", "tie"),
        "weight": graph.edge_weight,
        "sequences": known.support,
        "same": same_share(known, tally),
        "winner_over_loser": share[:, STRICT],
        "tied": share[:, TIED],
        "loser_over_winner": share[:, REVERSED],
        "lost": share[:, LOST],
    }
