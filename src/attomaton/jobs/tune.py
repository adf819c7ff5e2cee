"""Tuning a predictor on files: read, tuned piece by piece, written; what is finished is kept.

While it is made, the predictor's folder is a work folder beside its place:

    .NAME.partial/pieces/   what each part came to, at each stage of the tuning, complete once it is there

Counts and priors are made again by a process that goes on: the smaller part of the work, and the same each time.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.vocabulary import fingerprint
from attomaton.corpus.windows import PART, Windows
from attomaton.disk.formats import damaged, expect_arrays, read_table, write_columns
from attomaton.disk.ledger import Ledger, command
from attomaton.disk.provenance import environment
from attomaton.disk.storage import check_place, resumed_folder, write_whole
from attomaton.errors import DataError
from attomaton.predictor.stages import Columns, Form
from attomaton.predictor.tune import LAMBDAS, PRIORS, THETAS, WIDEN, pieces_in, tune


def tune_run(
    data: Path | str,
    validate: Path | str,
    out: Path | str,
    *,
    reading: Reading,
    priors: Sequence[str] = PRIORS,
    lambdas: Sequence[float] = LAMBDAS,
    thetas: Sequence[float] = THETAS,
    widen: int = WIDEN,
    workers: int = 1,
    progress: Progress = quiet,
    force: bool = False,
) -> dict[str, Any]:
    """Tune a predictor and write it; the record of `attomaton tune`.

    A tuning that was interrupted goes on when the same is asked again, and ends as if nothing had happened.
    What may lie at `out` already, and what `force` replaces, says `disk.storage.check_place`.
    """
    begin = time.perf_counter()
    place = check_place(out, "predictor", (data, validate, reading.tokenizer), force)
    train, valid = (read_windows(path, reading) for path in (data, validate))
    grid: dict[str, Any] = {
        "priors": list(priors), "lambdas": list(lambdas), "thetas": list(thetas), "widen": widen,
    }  # fmt: skip
    parts = len(train.parts(PART))
    asked = {
        "train": _mark(train),
        "validate": _mark(valid),
        "reading": reading,
        **grid,
        "pieces": pieces_in(parts),
        "versions": environment(),
    }
    with resumed_folder(place, "tune", asked) as work:
        kept = _Pieces(work)
        predictor = tune(
            train, valid, reading=reading, workers=workers, part_size=PART, pieces=kept,
            progress=progress, **grid,
        )  # fmt: skip
        predictor.record.update(
            data={"train": str(data), "validate": str(validate)},
            command=command(),
            environment=environment(),
        )
        predictor.write(work)
    return {
        **predictor.record,
        "pieces": pieces_in(parts, predictor.record["grid"]["widened"]),
        "resumed_pieces": kept.found,
        "replaced": place.replaced,
        "seconds": time.perf_counter() - begin,
    }


def _mark(windows: Windows) -> str:
    """What a corpus holds, in a few letters."""
    places = (windows.ids, windows.left, windows.length, windows.label, windows.weight)
    return fingerprint(windows.vocabulary, *places)


class _Pieces:
    """The finished pieces of a work folder: a table each, with checksums, and a line in the ledger."""

    def __init__(self, work: Path):
        self.folder = work / "pieces"
        self.folder.mkdir(exist_ok=True)
        self.ledger = Ledger(work)
        self.found = 0  # how many an earlier process had finished

    def load(self, name: str, form: Form) -> Columns | None:
        path = self._path(name)
        if not path.is_file():
            return None
        columns = _read_piece(path, form)
        self.ledger.found(name)
        self.found += 1
        return columns

    def save(self, name: str, columns: Columns) -> None:
        write_whole(self._path(name), lambda path: write_columns(path, columns))
        self.ledger.done(name)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"


def _read_piece(path: Path, form: Form) -> Columns:
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
