"""Fitting a data set, whatever its size, on one process or many: read into parts, solve each, keep what is solved.

While it is made, the model's folder is a work folder beside its place:

    .NAME.partial/corpus/   the data in parts (`corpus.parts`), complete once parts.json is there
                  part-*    a solved part, complete once its record is there
                  divided/  last tokens too large for one process, in shards (`jobs.divided`)

Nothing but the last token couples samples, so parts know nothing of each other: they are solved in any order, anywhere,
and a part that was finished by a process that was killed is taken as it is.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import file_digest
from pathlib import Path
from typing import Any
from uuid import uuid4

from attomaton.base.progress import Progress, quiet
from attomaton.corpus.datasets import data_file, data_name
from attomaton.corpus.files import changed
from attomaton.corpus.guesses import tell
from attomaton.corpus.ordering import announce
from attomaton.corpus.parts import Parts, open_parts, read_part
from attomaton.corpus.readers import read_parts
from attomaton.corpus.reading import AS_NAMED, Reading
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import PART
from attomaton.disk.formats import (
    plain,
    read_arrays,
    write_arrays,
    write_json,
)
from attomaton.disk.ledger import Ledger, command
from attomaton.disk.provenance import environment, peak_memory_mb
from attomaton.disk.storage import check_place, resumed_folder, write_whole
from attomaton.engine.tasks import Engine, Here, Task
from attomaton.errors import DataError, UsageError
from attomaton.folders.model import (
    SolvedPart,
    dense_matrices,
    finished_part,
    write_head,
    write_part,
)
from attomaton.jobs.divided import SHARD_SIZE, Divided, Job, memory_of, shard_bags
from attomaton.jobs.embeddings import Source, embeddings_source, input_files
from attomaton.jobs.pieces import Piece, do_pieces
from attomaton.mechanics.data import Embeddings, check_embeddings
from attomaton.mechanics.theory.limit import check_dense, solve_limit

EVERYTHING = 1 << 62  # size of a part that holds all


def fit_run(
    data: Path | str,
    out: Path | str,
    *,
    embeddings: Path | str | None = None,
    vocabulary: Path | str | None = None,
    dimension: int | None = None,
    seed: int | None = None,
    dense: bool = False,
    engine: Engine | None = None,
    progress: Progress = quiet,
    force: bool = False,
    reading: Reading = AS_NAMED,
    shard_size: int | None = None,
) -> dict[str, Any]:
    """Fit a data set part by part and write the model; the summary of `attomaton fit`.

    A last token with more than `shard_size` incidences (by default `SHARD_SIZE`) is divided among workers.

    `embeddings`, `vocabulary`, `dimension` and `seed` say where the vectors of tokens come from (`embeddings_source`).
    `progress` is told the incidences that are done, and all there are.
    What may lie at `out` already, and what `force` replaces, says `disk.storage.check_place`.
    """
    begin = time.perf_counter()
    inputs = input_files(embeddings, vocabulary)
    place = check_place(out, "model", (data, reading.tokenizer, *inputs), force)
    engine = Here() if engine is None else engine
    most = SHARD_SIZE if shard_size is None else shard_size
    if most < 1:
        raise UsageError(f"shard size must be at least 1 incidence, not {most}.")
    seconds: dict[str, float] = {}
    source = embeddings_source(embeddings, vocabulary, dimension, seed)
    path = data_file(data)
    mark = _fingerprint(path)
    asked = {
        # What comes through a pipe is nothing to go on with: no later process knows whether it is the same.
        "data": uuid4().hex if mark is None and path.exists() else mark,
        "embeddings": source.mark,
        "reading": reading,
        "dense": dense,
        "shard_size": most,
        "versions": environment(),
    }
    with resumed_folder(place, "fit", asked) as work:
        words, parts = _prepared(
            work / "corpus", data, mark, source, reading, most, engine, seconds, progress
        )
        table = _table(work / "corpus")
        if dense:
            check_dense(len(words), table)
        records, resumed = _solved(work, parts, most, engine, seconds, progress)
        numbers = [p.number for p in parts.parts]
        arrays = dense_matrices(work, numbers, len(words), table) if dense else {}
        if table is not None:
            arrays["E"] = table.E
        provenance = {
            "data": data_name(data),
            "reading": reading.done(parts),
            "command": command(),
            "environment": environment(),
            "set_aside": asdict(parts.set_aside),
            **({} if table is None else {"embeddings": source.words(len(words))}),
        }
        summary = write_head(work, words, records, provenance, arrays)
    seconds["total"] = time.perf_counter() - begin
    return {
        **plain(summary),
        "set_aside": asdict(parts.set_aside),
        "reading": reading.done(parts),
        "embeddings": source.words(len(words)),
        "parts": len(parts.parts),
        "resumed_parts": resumed,
        "engine": engine.name,
        "workers": engine.workers,
        "seconds": seconds,
        "peak_memory_mb": peak_memory_mb(),
        "model": str(out),
        "replaced": place.replaced,
    }


def _fingerprint(path: Path) -> str | None:
    """What a file holds, in a few letters; None where there is none (reading it says so), and of a pipe."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _prepared(
    folder: Path,
    data: Path | str,
    mark: str | None,
    source: Source,
    reading: Reading,
    most: int,
    engine: Engine,
    seconds: dict[str, float],
    progress: Progress,
) -> tuple[Vocabulary, Parts]:
    """The data in parts: as an earlier process left them complete, or read now."""
    done = folder / "parts.json"
    if done.is_file():
        Ledger(folder.parent).found("reading")
        words, parts = open_parts(folder)
        tell(data, parts.guesses)
        announce(data, parts.ordering)
        return words, parts
    folder = Path(os.path.abspath(folder))  # workers may stand elsewhere
    folder.mkdir(exist_ok=True)

    def run(work: Callable[[Any], Any], payloads: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        return engine.run(work, [Task(i, x) for i, x in enumerate(payloads)])

    with _timed("read", seconds):
        progress(0, 1, "reading")
        words, parts = read_parts(
            data, folder, reading, size=EVERYTHING if source.coupled else PART,
            most=None if source.coupled else most,
            vocabulary=source.vocabulary, run=run, progress=progress,
        )  # fmt: skip
        if _fingerprint(data_file(data)) != mark:
            raise DataError(f"{data_file(data)}: {changed()}")
        table = source.embeddings(len(words))
        if table is not None:
            write_arrays(folder / "embeddings.safetensors", {"E": table.E})
        write_json(folder / "vocabulary.json", list(words.labels))
        write_whole(done, write_json, parts)
        Ledger(folder.parent).done("reading")
        shutil.rmtree(folder / "shards", ignore_errors=True)
    return words, parts


def _solved(
    work: Path,
    parts: Parts,
    most: int,
    engine: Engine,
    seconds: dict[str, float],
    progress: Progress,
) -> tuple[list[SolvedPart], int]:
    """The records of all parts, solved now or before, and how many were there."""
    place = os.path.abspath(work)
    jobs = [Job(place, p, most) for p in parts.parts if p.shards]
    whole = [p for p in parts.parts if not p.shards]
    asked: list[tuple[str, int | Job, int | None, int]] = [
        *((f"part {p.number}", p.number, None, p.incidences) for p in whole),
        *(
            (f"part {job.part.number} shard {s}", job, s, x.incidences)
            for job in jobs
            for s, x in enumerate(job.part.shards)
        ),
    ]
    pieces = [Piece(name, (place, part, s), memory_of(n), n) for name, part, s, n in asked]

    def load(piece: Piece) -> tuple[SolvedPart | None, dict[str, float]] | None:
        _, part, shard = piece.payload
        record = finished_part(work, part if shard is None else part.part.number)
        if record is None and (shard is None or not part.file("json", shard).is_file()):
            return None
        return record, {}

    with _timed("solve", seconds):
        answers, resumed = do_pieces(
            solve_part, pieces, load, ledger=work, engine=engine, progress=progress,
            words=lambda done: f"part {done} of {len(pieces)}",
        )  # fmt: skip
        for name, took in (item for _, times in answers for item in times.items()):
            seconds[name] = seconds.get(name, 0.0) + took
        records = {record.part: record for record, _ in answers if record is not None}
        if jobs:
            with _timed("divided", seconds):
                records |= Divided(work, jobs, engine, progress).solve()
    return [records[p.number] for p in parts.parts], resumed


def solve_part(
    task: tuple[str, int | Job, int | None],
) -> tuple[SolvedPart | None, dict[str, float]]:
    """Solve one part of a corpus and write it into the model, wherever this runs; its record and its times.

    Of a part that is divided, the bags and edges of one shard are written; it has no record yet.
    """
    work, part, shard = Path(task[0]), task[1], task[2]
    seconds: dict[str, float] = {}

    def watch(name: str, took: float | None) -> None:
        if took is not None:
            seconds[name] = seconds.get(name, 0.0) + took

    corpus = work / "corpus"
    if isinstance(part, Job):
        assert shard is not None
        with _timed("bags", seconds):
            shard_bags(part, shard)
        return None, seconds
    words, parts = open_parts(corpus)
    with _timed("bags", seconds):
        samples = read_part(corpus, part, words, parts)
    limit = solve_limit(samples, _table(corpus), watch)
    with _timed("write", seconds):
        record = write_part(work, part, limit)
    return record, seconds


def _table(corpus: Path) -> Embeddings | None:
    """The embeddings of a corpus in parts, if it has any."""
    E = read_arrays(corpus / "embeddings.safetensors", ["E"]).get("E")
    return None if E is None else check_embeddings(E)


@contextmanager
def _timed(name: str, seconds: dict[str, float]) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - begin
