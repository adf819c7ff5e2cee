"""How many dimensions hard retrieval needs: one data set, embeddings in more and more dimensions, each solved exactly.

RUN/summary.json     a row for each dimension, with the spread over draws; what was left out, and why
    data.parquet     a row for each dimension and draw
    figures/         the picture

Every (dimension, draw) is a piece: what a process that was broken off has solved is taken as it is.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.progress import Progress, quiet, shifted
from attomaton.corpus.datasets import data_name
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import AS_NAMED, ReadAs, Reading
from attomaton.corpus.samples import Samples
from attomaton.disk.formats import write_columns, write_json
from attomaton.disk.provenance import environment, peak_memory_mb, provenance
from attomaton.disk.records import read_record
from attomaton.disk.storage import Replaced, check_place, resumed_folder, write_whole
from attomaton.engine.tasks import Engine, Here
from attomaton.errors import AttomatonError, SolverError, UsageError, whole_number
from attomaton.jobs.embeddings import WIDEST, Source, embeddings_source, input_files
from attomaton.jobs.pieces import Piece, do_pieces
from attomaton.mechanics.data import Embeddings, check_embeddings
from attomaton.mechanics.synthetic import drawn_embeddings
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.mechanics.theory.retrieval import (
    Dimension,
    Retrieval,
    over_draws,
    retrieval,
    rule_of_thumb,
)
from attomaton.report.figures.canvas import save
from attomaton.report.figures.dimensions import dimensions_figure
from attomaton.results import absent

DRAWS, LARGEST, MOST_DRAWS = 3, 128, 1000
ORTHONORMAL = 0  # stands for a dimension for each token
NAMES = tuple(field.name for field in fields(Retrieval))


@dataclass(frozen=True)
class Point:
    """One dimension and draw: what was found, or why it was left out. Dimension 0 stands for one for each token."""

    d: int
    draw: int
    seconds: float
    found: Retrieval | None = None
    left_out: str | None = absent()


@dataclass(frozen=True)
class LeftOut:
    """A dimension that was not solved, and why."""

    d: int
    why: str


@dataclass(frozen=True)
class Dimensions:
    """What `attomaton dimensions` found; `end` is the limit with a dimension for each token.

    `all_strict_from` is the least dimension asked for from which on every draw leaves strict what that leaves strict.
    """

    data: str
    reading: ReadAs
    embeddings: str
    tokens: int
    samples: int
    differences: int
    rows: tuple[Dimension, ...]
    end: Retrieval
    all_strict_from: int | None
    rule_of_thumb: float
    left_out: tuple[LeftOut, ...]
    seconds: float
    peak_memory_mb: float
    run: str
    resumed_pieces: int
    replaced: Replaced | None


def dimensions_run(
    data: Path | str,
    out: Path | str,
    *,
    d: Sequence[int] | None = None,
    draws: int | None = None,
    seed: int = 0,
    embeddings: Path | str | None = None,
    vocabulary: Path | str | None = None,
    reading: Reading = AS_NAMED,
    engine: Engine | None = None,
    progress: Progress = quiet,
    force: bool = False,
) -> Dimensions:
    """Solve a data set in each of the dimensions `d`, and leave a run folder with the picture.

    Vectors are drawn, `draws` times, by `seed`, `seed` + 1, …: the first as `fit --dimension` draws them. Those of a
    file are projected on their first d principal directions instead. Without `d` it doubles from 2 until everything
    is strict that ever will be, up to 128. What is too large for the solver is left out, and said.
    """
    begin = time.perf_counter()
    files = input_files(embeddings, vocabulary)
    place = check_place(out, "run", (data, reading.tokenizer, *files), force)
    if embeddings is not None and draws is not None:
        raise UsageError("--draws is for vectors that are drawn; those of --embeddings are given.")
    many = whole_number("draws", DRAWS if draws is None else draws, least=1, most=MOST_DRAWS)
    seed = whole_number("seed", seed, least=0)
    asked_for = None if d is None else sorted({whole_number("d", x, 1, WIDEST) for x in d})
    source = embeddings_source(embeddings, vocabulary)
    windows = read_windows(data, reading, source.vocabulary)
    samples = windows.samples()
    asked = _Asked(samples, source, 1 if source.table else many, seed, engine, progress)
    config = {
        "data": windows.mark, "d": asked_for, "draws": asked.draws, "seed": seed,
        "embeddings": source.mark, "versions": environment(),
    }  # fmt: skip
    with resumed_folder(place, "dimensions", config) as work:
        (work / "pieces").mkdir(exist_ok=True)
        end, points, resumed = asked.solved(work, asked_for)
        rows = _rows(points)
        left_out = {x.d: x.left_out for x in points if x.left_out is not None}
        summary = Dimensions(
            data_name(data), reading.done(windows), asked.words, len(samples.vocabulary),
            int(samples.rows.sum()), asked.differences, rows, end, _all_strict(rows, end),
            rule_of_thumb(asked.differences),
            tuple(LeftOut(d, why) for d, why in left_out.items()),
            time.perf_counter() - begin, peak_memory_mb(), str(out), resumed, place.replaced,
        )  # fmt: skip
        told = {**config, "data": data_name(data), "embeddings": embeddings, **reading.given}
        provenance(work, {k: v for k, v in told.items() if k != "versions"}, summary)
        write_columns(work / "data.parquet", _columns(points, seed))
        if rows:
            save(
                dimensions_figure(rows, end, summary.rule_of_thumb), work / "figures", "dimensions"
            )
    return summary


@dataclass(frozen=True, eq=False)
class _Asked:
    """Samples, where the vectors come from, how often they are drawn, and where the work runs."""

    samples: Samples
    source: Source
    draws: int
    seed: int
    engine: Engine | None
    progress: Progress

    @property
    def words(self) -> str:
        """What the vectors are."""
        if self.source.table is not None:
            K = len(self.samples.vocabulary)
            return f"{self.source.words(K)}, projected on their first d principal directions"
        last = self.seed + self.draws - 1
        seeds = f"seed {self.seed}" if self.draws == 1 else f"seeds {self.seed} to {last}"
        return f"drawn: unit vectors, {seeds}"

    @property
    def differences(self) -> int:
        """Distinct triples of a last token, a label and another token of its context."""
        return len(build_graph(self.samples).edge_from)

    def usual(self) -> list[int]:
        """Powers of two: below the number of tokens, or up to the width of given vectors."""
        K, table = len(self.samples.vocabulary), self.source.table
        width = None if table is None else table.E.shape[1]
        most = min(LARGEST, K - 1) if width is None else min(LARGEST, width)
        powers = [d for d in (2**i for i in range(1, 8)) if d <= most] or [1]
        return sorted({*powers, *([most] if width else [])})

    def solved(
        self, work: Path, wanted: Sequence[int] | None
    ) -> tuple[Retrieval, list[Point], int]:
        """The limit with a dimension for each token, all points, and how many were there already."""
        (first,), resumed = self._do(work, [ORTHONORMAL])
        if first.found is None:
            raise SolverError(first.left_out or "no limit was found.")
        points: list[Point] = []
        doubling = wanted is None and self.source.table is None
        rounds = [[d] for d in self.usual()] if doubling else [wanted or self.usual()]
        for some in rounds:
            new, there = self._do(work, some)
            points += new
            resumed += there
            if doubling and _all_strict(_rows(new), first.found) is not None:
                break
        return first.found, points, resumed

    def _do(self, work: Path, some: Sequence[int]) -> tuple[list[Point], int]:
        pieces = [
            Piece("a dimension for each token" if d == ORTHONORMAL else f"d = {d}, draw {i + 1}", (d, i))
            for d in some
            for i in range(1 if d == ORTHONORMAL else self.draws)
        ]  # fmt: skip

        def place(piece: Piece) -> Path:
            return work / "pieces" / "{}-{}.json".format(*piece.payload)

        now = 0, 1, ""

        def tell(done: int, total: int, what: str) -> None:
            nonlocal now
            now = done, total, what
            self.progress(done, total, what)

        def within(done: int, total: int, what: str) -> None:
            shifted(self.progress, now[0], now[1])(done, total, f"{now[2]}: {what}")

        # Of pieces that run elsewhere only their ends are heard.
        inner = within if self.engine is None or isinstance(self.engine, Here) else quiet
        return do_pieces(
            solve_point, pieces,
            lambda piece: read_record(path, Point) if (path := place(piece)).is_file() else None,
            ledger=work, engine=self.engine, common=(self.samples, self.source.table, self.seed, inner),
            save=lambda piece, point: write_whole(place(piece), write_json, point),
            failed=lambda point: point.found is None, progress=tell,
        )  # fmt: skip


def solve_point(
    samples: Samples, table: Embeddings | None, seed: int, progress: Progress, task: tuple[int, int]
) -> Point:
    """One dimension and draw, wherever this runs."""
    begin, (d, draw) = time.perf_counter(), task
    try:
        if d == ORTHONORMAL:
            vectors = None
        elif table is None:
            vectors = drawn_embeddings(len(samples.vocabulary), d, seed + draw)
        else:
            vectors = _projected(table, d)
        found = retrieval(solve_limit(samples, vectors, progress=progress))
    except AttomatonError as error:
        return Point(d, draw, time.perf_counter() - begin, left_out=str(error))
    return Point(d, draw, time.perf_counter() - begin, found)


def _projected(table: Embeddings, d: int) -> Embeddings:
    """The rows in coordinates of their first d principal directions (through 0), where they lose least."""
    width = table.E.shape[1]
    if d > width:
        raise UsageError(f"d={d}: the vectors given have {width} dimensions.")
    left, singular, _ = np.linalg.svd(table.E, full_matrices=False)
    return check_embeddings(left[:, :d] * singular[:d])


def _rows(points: Sequence[Point]) -> tuple[Dimension, ...]:
    solved = [(point, point.found) for point in points if point.found is not None]
    return tuple(
        over_draws(
            d, [found for point, found in solved if point.d == d],
            sum(point.seconds for point, _ in solved if point.d == d),
        )
        for d in dict.fromkeys(point.d for point, _ in solved)
    )  # fmt: skip


def _all_strict(rows: Sequence[Dimension], end: Retrieval) -> int | None:
    """From which dimension on all draws leave strict what a dimension for each token leaves strict."""
    found = None
    for row in reversed(rows):
        if row.strict.low < end.strict - 1e-12:
            break
        found = row.d
    return found


def _columns(points: Sequence[Point], seed: int) -> dict[str, list[Any]]:
    """One row for each dimension and draw that was solved; no times, so equal work leaves equal bytes."""
    solved = [point for point in points if point.found is not None]
    columns: dict[str, list[Any]] = {
        "d": [point.d for point in solved],
        "draw": [point.draw for point in solved],
        "seed": [seed + point.draw for point in solved],
    }
    return columns | {name: [getattr(point.found, name) for point in solved] for name in NAMES}
