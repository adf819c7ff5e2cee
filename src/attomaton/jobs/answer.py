"""Answers to a file of contexts: one row out for each row in, in their order, in memory that does not grow.

Rows are read a few thousand at a time and answered on an engine; what is answered is written while the next are read.
The file appears when all of it is there. A row that cannot be read is answered with what is wrong with it.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from math import inf, isinf
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from attomaton.base.lazily import pa, pc, pq
from attomaton.base.progress import Progress, quiet
from attomaton.corpus.contexts import Read, Rows, context_rows, read_cells
from attomaton.corpus.files import identity
from attomaton.corpus.shards import in_order
from attomaton.disk.formats import ROW_GROUP
from attomaton.disk.holdings import KIND_FILE
from attomaton.disk.storage import check_file, is_folder, write_whole
from attomaton.engine.tasks import Engine, Here, Task
from attomaton.errors import DataError, UsageError, number
from attomaton.folders.model import ModelFolder
from attomaton.folders.shared import joined, leave_part
from attomaton.mechanics.theory.automaton import Automaton, Unknown
from attomaton.mechanics.theory.evidence import VERDICTS, Reach
from attomaton.mechanics.theory.information import SoftErrors
from attomaton.mechanics.theory.many import answer_many, with_reasons
from attomaton.mechanics.theory.prediction import answer_table
from attomaton.numerics import row_pointer
from attomaton.report.text.rows import csv_lines, json_lines

SUFFIXES = (".jsonl", ".csv", ".parquet")
INVALID = "invalid"
LARGE = 1 << 23  # bytes of a file of contexts from which on workers open a model together
AHEAD = 3  # pieces that are read before somebody asks for them


@dataclass(frozen=True)
class Asked:
    """What is asked of every context."""

    explain: bool = False
    top: int = 10
    radius: float = inf
    backoff: bool = True
    intervals: bool = True  # of odds, at the end of training

    @property
    def sure(self) -> bool:
        """Whether odds come with intervals: on the way to the end of training, they are those of no fit."""
        return self.intervals and isinf(self.radius)


ONLY_PREDICT = Asked()


@dataclass(frozen=True)
class Tally:
    """How many contexts were answered, and how: with a prediction, determined by the data or not, with unknown tokens.

    `invalid` rows could not be read. Of a predictor nothing is said but whether it answered.
    """

    rows: int = 0
    answered: int = 0
    determined: int = 0
    undetermined: int = 0
    unseen: int = 0
    with_unknown: int = 0
    invalid: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*map(add, vars(self).values(), vars(other).values()))


@dataclass(frozen=True)
class Answered:
    """What became of a file of contexts."""

    written: str | None
    counts: Tally
    seconds: float


def answer_file(
    model: Path | str,
    file: Path | str,
    out: Path | str | None,
    asked: Asked = ONLY_PREDICT,
    *,
    format: str | None = None,
    column: str | None = None,
    engine: Engine | None = None,
    force: bool = False,
    put: Callable[[str], object] = lambda text: None,
    progress: Progress = quiet,
) -> Answered:
    """Answer every context of a file (see `corpus.contexts`) by a limit or a predictor; returns the counts.

    `out` is a .jsonl, .csv or .parquet file; without it, each piece of JSON lines goes to `put`. An earlier file is
    replaced by `force` alone.
    """
    begin, model, file = time.perf_counter(), Path(model), Path(file)
    number("radius", asked.radius, least=0)
    if out is not None:
        out = check_file(out, SUFFIXES, (model, file), force)
        if out.exists() and file.exists() and out.samefile(file):
            raise UsageError(f"{out}: is the file that is read; name another one.")
    kind = ".jsonl" if out is None else out.suffix.lower()
    engine = engine or Here()
    where, sign = str(model.resolve()), identity(model / KIND_FILE)
    # What is wrong with a model is said before anything is read; workers open it themselves.
    door = _found(where, sign)
    counts = Tally()

    def pieces() -> Iterator[Any]:
        nonlocal counts
        large = not file.is_file() or file.stat().st_size > LARGE
        divided = isinstance(door, ModelFolder) and large and not door.coupled
        with TemporaryDirectory(prefix="attomaton-") if large else nullcontext() as shared:
            how = (where, sign, shared, asked, kind)
            if isinstance(door, ModelFolder) and divided:
                parts = [Task(i, i) for i in range(len(door.record.parts))]
                for i, _ in enumerate(engine.run(open_part, parts, *how)):
                    progress(0, 1, f"opening the model, part {i + 1} of {len(parts)}")
            for some, tally, rows in _answers(context_rows(file, format, column), how, engine):
                counts += tally
                what = f"{counts.rows:,} contexts"
                if rows.total:
                    unit = 1 if kind == ".parquet" and rows.total < 10**6 else 10**6
                    progress(rows.done // unit, max(rows.total // unit, 1), what)
                yield some
        if not counts.rows:
            raise DataError(f"{file}: no rows: the file is empty.")

    if out is None:
        for text in pieces():
            put(_taken(text).decode())
    else:
        write_whole(out, _write, kind, pieces())
    return Answered(None if out is None else str(out), counts, time.perf_counter() - begin)


def _answers(
    read: Iterator[Rows], how: tuple[Any, ...], engine: Engine
) -> Iterator[tuple[Any, Tally, Rows]]:
    """What is to be written, piece by piece in their order, and how far that is."""
    some: dict[int, Rows] = {}

    def tasks() -> Iterator[Task]:
        for i, rows in enumerate(read if isinstance(engine, Here) else _ahead(read)):
            some[i] = replace(rows, cells=())
            yield Task(i, (rows, not i))

    # Written while others are still at work.
    for i, answer in enumerate(in_order(engine.run(answer_piece, tasks(), *how))):
        yield (*answer, some.pop(i))


def _ahead(read: Iterator[Rows]) -> Iterator[Rows]:
    """The next are read while somebody else works on these."""
    with ThreadPoolExecutor(1) as beside:
        following = [beside.submit(next, read, None) for _ in range(AHEAD)]
        while (rows := following.pop(0).result()) is not None:
            following.append(beside.submit(next, read, None))
            yield rows


def _write(path: Path, kind: str, pieces: Iterator[Any]) -> None:
    if kind != ".parquet":
        with path.open("wb") as file:
            for text in pieces:
                file.write(_taken(text))
        return
    first = next(pieces)  # of no rows it is an error
    with path.open("wb") as file:
        writer = pq.ParquetWriter(file, first.schema, compression="zstd", write_page_checksum=True)
        try:
            for table in chain([first], pieces):
                writer.write_table(table, row_group_size=ROW_GROUP)
        except BaseException:
            with suppress(Exception):  # a disk may be full: the first error is the one to tell
                writer.close()
            raise
        writer.close()


# Where the work is done


def open_part(model: str, sign: object, shared: str, asked: Asked, kind: str, part: int) -> None:
    """Open one part of a model, and leave what answers need of it in a folder for all workers."""
    leave_part(_found(model, sign), part, asked.sure, Path(shared))


def answer_piece(
    model: str,
    sign: object,
    shared: str | None,
    asked: Asked,
    kind: str,
    payload: tuple[Rows, bool],
) -> tuple[Any, Tally]:
    """Some rows answered, as they are to be written (`kind`; the first piece of a CSV has the header), and counted."""
    rows, first = payload
    by = _opened(model, sign, shared, asked.sure)
    by_limit = isinstance(by, _Limit)
    read = read_cells(rows, by.automaton.limit.graph.vocabulary if by_limit else by.vocabulary)
    n, faults = len(rows.cells), read.faults
    answer = _by_limit if by_limit else _by_predictor
    # Where nothing is asked, one context is, for the names and kinds of the columns.
    empty = not len(read.length)
    one = Read(np.zeros(1, np.int64), np.ones(1, np.int64), {}, {})
    table = answer(by, one, asked).slice(0, 0) if empty else answer(by, read, asked)
    judged = [_count(pc.equal(table["status"], x)) if by_limit else 0 for x in VERDICTS]
    strange = _count(pc.greater(pc.list_value_length(table["unknown"]), 0))
    answered = len(read.length) - table["prediction"].null_count
    tally = Tally(n, answered, judged[0], judged[1], judged[2], strange, len(faults))
    if faults:
        fine = np.array([i not in faults for i in range(n)])
        table = table.take(pa.array(np.cumsum(fine) - 1, mask=~fine))
        said = {"status": dict.fromkeys(faults, INVALID), "note": faults}
        for name in said.keys() & {*table.column_names}:
            more = pa.array([said[name].get(i) for i in range(n)], pa.string())
            at = table.column_names.index(name)
            table = table.set_column(at, name, pc.coalesce(table[name].cast(pa.string()), more))
    table = table.add_column(0, "row", pa.array(np.arange(rows.first, rows.first + n)))
    if kind == ".parquet":
        return table, tally
    text = json_lines(table) if kind == ".jsonl" else csv_lines(table, first)
    return _left(text, shared, rows.first), tally


def _left(text: bytes, shared: str | None, number: int) -> bytes | Path:
    """A text, or the file it was left in where there is a folder for all: a pipe would copy it again and again."""
    if shared is None or not (folder := Path(shared)).is_dir():
        return text
    file = folder / f"{number}.rows"
    try:
        file.write_bytes(text)
    except OSError:  # no room
        file.unlink(missing_ok=True)
        return text
    return file


def _taken(text: bytes | Path) -> bytes:
    """A text that may have been left in a file, which is gone then."""
    if isinstance(text, bytes):
        return text
    found = text.read_bytes()
    text.unlink()
    return found


def _count(which: Any) -> int:
    return pc.sum(which).as_py() or 0


@dataclass(frozen=True)
class _Limit:
    """A limit that was opened to answer."""

    automaton: Automaton
    errors: SoftErrors
    reach: Reach


@lru_cache(maxsize=1)
def _opened(model: str, sign: object, shared: str | None, sure: bool) -> Any:
    """The limit or the predictor of a folder; opened anew where another lies there (`sign`).

    Its parts may be `shared` in a folder, with what intervals need where odds are to be `sure`.
    """
    found = _found(model, sign)
    if not isinstance(found, ModelFolder):
        return found
    if shared and not found.coupled and (parts := joined(found, Path(shared), sure)):
        limit, reach, errors = parts
    else:
        limit = found.limit(samples=False)
        reach, errors = Reach(limit.graph), found.errors(limit)
    return _Limit(Automaton(limit), errors, reach)


@lru_cache(maxsize=1)
def _found(model: str, sign: object) -> Any:
    """What lies in a folder, as long as no other lies there (`sign`): a predictor, or a model to be opened."""
    if is_folder(model, "predictor"):
        from attomaton.predictor.model import Predictor

        return Predictor.open(model)
    return ModelFolder(model)


def _by_limit(by: _Limit, read: Read, asked: Asked) -> Any:
    automaton = by.automaton
    answers = answer_many(
        automaton.limit, read.ids, read.length, asked.radius, unknown=read.unknown(), reach=by.reach
    )
    answers = with_reasons(answers) if asked.explain else answers
    errors = by.errors if asked.sure else None
    table = answer_table(automaton, answers, read.ends(), asked.top, errors)
    at = table.column_names.index("status")
    return table.set_column(at, "status", table["status"].cast("string"))


def _by_predictor(predictor: Any, read: Read, asked: Asked) -> Any:
    """The answers of a predictor, all of a piece at once."""

    from attomaton.predictor.many import likeliest
    from attomaton.predictor.reasons import taken_as

    n = len(read.length)
    # One more than asked for: the best that has a name may come after *any word never seen*.
    found = likeliest(
        predictor, read.ids, read.length, read.outside, max(asked.top, 1) + 1, asked.backoff
    )
    K = len(predictor.vocabulary)
    words = pa.concat_arrays(
        [
            predictor.vocabulary.column(np.arange(K)).dictionary_decode().cast(pa.string()),
            pa.array([None, *map(str, found.new)], pa.string()),
        ]
    )
    first = (found.token[:, 0] == K).astype(np.int64)  # the best that has a name
    rows = np.arange(n)
    kept = found.token[:, : asked.top] >= 0
    shares = pa.StructArray.from_arrays(
        [words.take(pa.array(found.token[:, : asked.top][kept])), pa.array(found.p[:, : asked.top][kept])],
        ["token", "p"],
    )  # fmt: skip
    strange = {
        i: predictor.unknown(list(x)) for i, x in _looked_at(predictor, read).unknown().items()
    }
    unknown = pa.large_list(pa.struct([(x, pa.string()) for x in ("token", "nearest", "why")]))
    columns = {
        "prediction": words.take(pa.array(found.token[rows, first])),
        "probability": pa.array(found.p[rows, first]),
        "unknown": pa.array([[_texts(x) for x in strange.get(i, ())] for i in range(n)], unknown),
        "probabilities": pa.LargeListArray.from_arrays(row_pointer(kept.sum(axis=1)), shares),
    }
    if asked.explain:
        gate = pa.array(found.gate) if asked.backoff else pa.nulls(n, pa.float64())
        columns |= {"inside": pa.array(found.inside[rows, first]), "gate": gate}
        columns |= {"why": pa.array(_reasons(predictor, read, asked.backoff), pa.string())}
    columns["note"] = pa.array([taken_as(strange.get(i, ())) for i in range(n)], pa.string())
    return pa.table(columns)


def _reasons(predictor: Any, read: Read, backoff: bool) -> list[str]:
    """The branch and the main reason of every answer, in a line each."""
    from attomaton.predictor.many import explained
    from attomaton.report.text.reasons import main_reason

    contexts = [*map(tuple, read.labels(predictor.vocabulary))]
    asked = list(dict.fromkeys(contexts))
    told = dict(zip(asked, map(main_reason, explained(predictor, asked, backoff)), strict=True))
    return [told[x] for x in contexts]


def _looked_at(predictor: Any, read: Read) -> Read:
    """The same, with those words outside the vocabulary alone that the predictor looks back at."""
    T = predictor.record["reading"].get("context") or int(read.length.max())
    end = np.cumsum(read.length)
    outside = {
        at: label
        for at, label in read.outside.items()
        if end[np.searchsorted(end, at, "right")] - at <= T
    }
    return replace(read, outside=outside)


def _texts(x: Unknown) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in vars(x).items()}
