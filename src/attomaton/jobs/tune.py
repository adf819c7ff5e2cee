"""Tuning a predictor on files: read, tuned piece by piece, written; what is finished is kept.

While it is made, the predictor's folder is a work folder beside its place:

    .NAME.partial/pieces/   what each part came to, at each step of the tuning, and what the stage on top came to,
                            complete once it is there

Counts and priors are made again by a process that goes on: the smaller part of the work, and the same each time.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.corpus.datasets import data_name
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.splits import Corpora, pair_up
from attomaton.corpus.windows import PART
from attomaton.disk.formats import (
    damaged,
    expect_arrays,
    plain,
    read_table,
    write_columns,
)
from attomaton.disk.ledger import Ledger, command
from attomaton.disk.provenance import environment
from attomaton.disk.spool import DASH
from attomaton.disk.storage import Checkpoint, check_place, resumed_folder, write_whole
from attomaton.engine.tasks import Engine
from attomaton.errors import DataError, UsageError
from attomaton.jobs.divided import BYTES, PROCESS
from attomaton.jobs.pieces import Piece, do_pieces
from attomaton.predictor.fit import Work
from attomaton.predictor.stages import Columns, Form, Stage, do_part
from attomaton.predictor.tune import LAMBDAS, PRIORS, THETAS, WIDEN, Grid, pieces_in, tune


def tune_run(
    data: Path | str,
    validate: Path | str | None,
    out: Path | str,
    *,
    reading: Reading,
    priors: Sequence[str] = PRIORS,
    lambdas: Sequence[float] = LAMBDAS,
    thetas: Sequence[float] = THETAS,
    widen: int = WIDEN,
    metric: str = "nats",
    minutes: float | None = None,
    history: bool | None = None,
    stage: bool = True,
    engine: Engine | None = None,
    progress: Progress = quiet,
    force: bool = False,
) -> dict[str, Any]:
    """Tune a predictor and write it; the record of `attomaton tune`.

    Without data to `validate` on, some of the `data` are set apart for it (`corpus.splits`). With `history`, contexts
    to validate on reach back into the data where a sequence of the same name goes on; by default they do so where the
    order column says that it does.
    The `engine` says where parts are solved. A tuning that was interrupted goes on when the same is asked again, and
    ends as if nothing had happened.
    What may lie at `out` already, and what `force` replaces, says `disk.storage.check_place`.
    """
    begin = time.perf_counter()
    place = check_place(out, "predictor", (data, validate, reading.tokenizer), force)
    corpora = read_corpora(data, validate, reading, history)
    train, valid = corpora.train, corpora.valid
    grid = Grid(priors, lambdas, thetas, widen, metric)
    parts = len(train.parts(PART))
    asked = {
        "train": train.mark,
        "validate": valid.mark,
        "reading": reading,
        **vars(grid),
        "stage": stage,
        "pieces": pieces_in(parts),
        "versions": environment(),
    }
    with resumed_folder(place, "tune", asked) as work:
        stages = _Stages(work / "pieces", engine)
        predictor = tune(
            train, valid, reading=reading, stage=stage, part_size=PART, over=stages, keep=stages.keep,
            progress=progress, minutes=minutes, **vars(grid),
        )  # fmt: skip
        predictor.record.update(
            data={"train": data_name(data), "validate": validate and data_name(validate)},
            split=plain(corpora.split),
            history=corpora.history,
            command=command(),
            environment=environment(),
        )
        predictor.write(work)
    return {
        **predictor.record,
        "pieces": stages.count,
        "said": corpora.said,
        "resumed_pieces": stages.found,
        "replaced": place.replaced,
        "seconds": time.perf_counter() - begin,
    }


def read_corpora(
    data: Path | str, validate: Path | str | None, reading: Reading, history: bool | None = None
) -> Corpora:
    """The data to learn from and to choose on; see `tune_run`."""
    if str(data) == str(validate) == DASH:
        raise UsageError("standard input can be read once: as the data or to --validate on.")
    valid = None if validate is None else read_windows(validate, reading)
    train = read_windows(data, reading)
    found = pair_up(train, valid, reading.context, history)
    if valid is None or valid.mark != train.mark:
        return found
    same = f"{data_name(str(validate))}: the same windows as are learned from; what is chosen on them suits no others"
    return replace(found, said=(*found.said, same))


class _Stages:
    """Stages on an engine, each part's answer a table in a folder that keeps what is finished."""

    def __init__(self, folder: Path, engine: Engine | None):
        folder.mkdir(exist_ok=True)
        self.folder, self.engine = folder, engine
        self.found = 0  # pieces that an earlier process had finished
        self.count = 0  # of all

    def __call__(
        self, stage: Stage, work: Work, parts: Sequence[np.ndarray], progress: Progress
    ) -> list[Any]:
        """The answers of all parts, in their order: as they were kept, or found now and kept."""
        corpora = [*vars(work.train).values(), *vars(work.valid).values()]
        held = PROCESS + sum(x.nbytes for x in corpora if isinstance(x, np.ndarray))
        pieces = [
            Piece(
                f"{stage.name}-{number}",
                (stage.task, rows, stage.argument),
                int(held + BYTES * work.train.length[rows].sum()),
            )
            for number, rows in enumerate(parts)
        ]

        def load(piece: Piece) -> Any:
            path = self._path(piece)
            return stage.from_columns(read_piece(path, stage.form)) if path.is_file() else None

        def save(piece: Piece, answer: Any) -> None:
            write_whole(self._path(piece), write_columns, stage.to_columns(answer))

        answers, found = do_pieces(
            do_part, pieces, load, ledger=self.folder.parent, engine=self.engine, common=(work,),
            save=save, progress=progress, words=lambda done: stage.name,
        )  # fmt: skip
        self.found += found
        self.count += len(pieces)
        return answers

    def keep(self, name: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """What an earlier process kept under this name, or what is made now, kept."""
        kept, lines = Checkpoint(self.folder), Ledger(self.folder.parent)
        if (found := kept.load(name)) is not None:
            lines.found(name)
            return found
        made = make()
        kept.save(name, made)
        lines.done(name)
        return made

    def _path(self, piece: Piece) -> Path:
        return self.folder / f"{piece.name}.parquet"


def read_piece(path: Path, form: Form) -> Columns:
    """The columns of a piece: finite numbers of this form, at least one row; a damaged one is of no use."""
    try:
        table = read_table(path)
        columns = {name: table[name].to_numpy() for name in form if name in table.column_names}
        expect_arrays(path, columns, form)
    except (DataError, KeyError) as error:
        raise damaged(path) from error
    if not table.num_rows or not all(np.isfinite(x).all() for x in columns.values()):
        raise damaged(path)
    return columns
