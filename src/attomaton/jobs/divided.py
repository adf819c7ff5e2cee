"""Solving a last token that is divided into shards: what each worker does with one, and what is made of it.

    .NAME.partial/divided/NNN/SSSSS.edges         edges of a shard
                              SSSSS.outline       few of them that tie and reach what all do
                              SSSSS.json          what was counted of it, once its samples and edges are there
                              SSSSS.ties          its samples cut to ties, by component
                              SSSSS.half-C-P      what products with its Hessian in component C need, of piece P
                              SSSSS.written.json  what was counted of its edges, once they are in the model
                              graph, svm, luce    what is made of all shards
                              theta-C, luce-C     a component fitted in sums over shards: on the way, and found

Shards are solved in rounds: bags and edges of each; the condensed graph of all, by one worker; the samples of each cut
to what is tied with their label, beside Graph-SVM; the Luce fits; the edges of each with their multipliers. Components
whose ties fit into one process together are fitted by one worker, exactly as those of any other part; what is larger
is fitted in sums over shards (`mechanics.theory.divided`), a round for each product; rounds of several fits run
together. In a round a shard is several pieces, so that workers end at about the same time.

Every file is written whole, and what is there is not done again.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from attomaton.base.progress import Progress
from attomaton.base.shapes import Float, Int
from attomaton.corpus.parts import Part, Parts, open_parts, read_part
from attomaton.corpus.samples import joined, merge_samples
from attomaton.corpus.shards import in_order
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.disk.formats import (
    mapped_arrays,
    read_arrays,
    read_checkpoint,
    write_arrays,
    write_json,
)
from attomaton.disk.ledger import Ledger
from attomaton.disk.records import read_record
from attomaton.disk.storage import write_whole
from attomaton.engine.tasks import Engine, Task
from attomaton.errors import SolverError, visible
from attomaton.folders.model import (
    SolvedPart,
    finished_part,
    read_shard,
    write_pairs,
    write_shard_edges,
    write_shard_samples,
)
from attomaton.jobs.pieces import Piece, do_pieces
from attomaton.mechanics.theory.divided import (
    Dense,
    Edges,
    Keep,
    Sparse,
    Sums,
    Ties,
    as_samples,
    bound_sums,
    careful_fit,
    condensed_graph,
    dense_sums,
    edge_multipliers,
    gathered_choices,
    hessian_product,
    newton_fit,
    outline,
    pieces_of,
    shard_edges,
    some_choices,
    sparse_sums,
    tied_groups,
    tied_samples,
    ties_of,
    united,
    worst_margin,
)
from attomaton.mechanics.theory.finite import (
    CAREFUL,
    CERTIFIED,
    KNOWN,
    FiniteComponent,
    FiniteSubspace,
    Found,
    certified_fit,
    tied_with_label,
)
from attomaton.mechanics.theory.graph import PriorityGraph
from attomaton.mechanics.theory.limit import Limit, check_finite
from attomaton.mechanics.theory.svm import GraphSVM, graph_svm
from attomaton.numerics import inner, unit_scale
from attomaton.results import KKT

SHARD_SIZE = (
    1 << 24
)  # incidences of one last token that one process solves; beyond that it is divided
TOGETHER = 64  # Luce fits in sums that go on at the same time
# Entries of choices in a task of a round, and tasks into which one component is cut beyond its shards: each is sent all
# of its scores, so of very many entries there are more in a task.
PIECE, PIECES = 1 << 21, 64
# Memory that solving takes: for the process, for each incidence of a part or shard, and for each entry of a choice that
# is looked at, at most; docs/scaling.md has measurements.
PROCESS, BYTES, ENTRY = 150e6, 90, 60


def memory_of(incidences: int) -> int:
    """Bytes that solving so many incidences takes."""
    return int(PROCESS + BYTES * incidences)


@dataclass(frozen=True)
class ShardRecord:
    """What was counted of a shard: samples, distinct ones, their weights, its first and final label."""

    rows: int
    samples: int
    weight: float
    heaviest: float
    first_label: int
    final_label: int


@dataclass(frozen=True)
class EdgeRecord:
    """What was written of a shard's edges, and the worst violated margin among them."""

    edges: int
    violation: float


@dataclass(frozen=True)
class Job:
    """A divided last token, for whoever works on it."""

    work: str  # the model's work folder
    part: Part
    most: int  # incidences that one process may hold

    @property
    def folder(self) -> Path:
        """Where its shards lie."""
        return Path(self.work) / "divided" / f"{self.part.number:03d}"

    def file(self, name: str, shard: int | None = None) -> Path:
        """One file there."""
        return self.folder / (name if shard is None else f"{shard:05d}.{name}")

    @property
    def shards(self) -> range:
        """Their numbers."""
        return range(len(self.part.shards))

    @property
    def corpus(self) -> tuple[Vocabulary, Parts]:
        """The vocabulary and the table of the corpus."""
        return open_parts(Path(self.work) / "corpus")


# What workers do


def shard_bags(job: Job, shard: int) -> None:
    """Write the samples and the edges of one shard."""
    job.folder.mkdir(parents=True, exist_ok=True)
    samples = read_part(Path(job.work) / "corpus", job.part.number, *job.corpus, shard)
    write_shard_samples(Path(job.work), job.part.number, shard, samples)
    edges = shard_edges(samples)
    _save(job.file("edges", shard), edges._asdict())
    _save(job.file("outline", shard), outline(edges, len(samples.vocabulary))._asdict())
    label = samples.label
    record = ShardRecord(
        int(samples.rows.sum()), len(samples), samples.total_weight, float(samples.weight.max()),
        int(label[0]), int(label[-1]),
    )  # fmt: skip
    write_whole(job.file("json", shard), write_json, record)


def merge_graph(job: Job) -> None:
    """Write the condensed graph of all shards."""
    words, _ = job.corpus

    def shards() -> Iterator[Edges]:
        return (Edges(**read_arrays(job.file("outline", shard))) for shard in job.shards)

    group = tied_groups(len(words), shards, job.most)
    graph = condensed_graph(words, job.part.first_last, group, shards)
    names = ("pair_last", "pair_token", "edge_from", "edge_to", "edge_weight", "component", "level")
    _save(job.file("graph"), {name: getattr(graph, name) for name in names})


def cut_to_ties(task: tuple[Job, int | None]) -> None:
    """Write the samples of one shard cut to what is tied with their label; without a shard, Graph-SVM."""
    job, shard = task
    graph = _graph(job)
    if shard is None:
        svm = graph_svm(graph, as_samples(graph))
        told = svm.certificate
        arrays = {"score": svm.score, "multiplier": svm.multiplier}
        _save(job.file("svm"), arrays | {"kkt": np.array([told.primal, told.dual, told.gap])})
        return
    samples = read_shard(Path(job.work), job.part.number, shard, graph.vocabulary)
    cyclic = merge_samples(tied_with_label(graph, samples))
    _save(job.file("ties", shard), ties_of(graph, cyclic)._asdict())


def fit_gathered(task: tuple[Job, list[int], float]) -> None:
    """Write the Luce fits of the components whose ties fit into this process together."""
    job, components, scale = task
    graph, chosen = _graph(job), np.array(components, np.int64)
    found = [tied_samples(graph, _ties(job, shard), chosen) for shard in job.shards]
    items, choices = gathered_choices(graph, merge_samples(joined(found)), scale)
    _save_fit(job.file("luce"), items, certified_fit(graph, items, choices))


def look(sums: Callable[..., Any], theta: Float[np.ndarray, " size"], task: "Component") -> Any:
    """What one piece adds to sums over the choices of one component."""
    return sums(task.choices(len(theta)), theta)


def look_sparse(theta: Float[np.ndarray, " size"], task: "Component") -> Sparse:
    """What one piece adds to a Newton step of one component; what its products need stays in a file."""
    torn = task.half.with_name(f"{task.half.name}.torn-{os.getpid()}")
    try:
        with torn.open("wb") as file:
            found = sparse_sums(task.choices(len(theta)), theta, lambda half: file.write(half.data))
        # Looked at again by whoever goes on after a kill: it need not outlive the machine. A file that takes the place
        # of another would be pushed to the disk at once, and is needed for seconds.
        task.half.unlink(missing_ok=True)
        torn.replace(task.half)
    finally:
        torn.unlink(missing_ok=True)
    return found


def push_sparse(way: Float[np.ndarray, " size"], task: "Component") -> Float[np.ndarray, " size"]:
    """What one piece adds to the product of a direction with the Hessian at the last look."""
    ties, rows = task.ties()
    if not len(rows):
        return np.zeros(len(way))
    half = np.memmap(task.half, np.float64, "r").view(np.ndarray)
    return hessian_product(ties, rows, half, way)


def write_edges(task: tuple[Job, int, list[ShardRecord]]) -> None:
    """Write those edges of a shard that no earlier one has the labels of, with their multipliers."""
    job, shard, records = task
    graph, mine, own = _graph(job), records[shard], _edges(job, shard)
    if any(x.final_label == mine.first_label for x in records[:shard]):
        later = np.searchsorted(own.label, mine.first_label, "right")
        own = Edges(*(x[later:] for x in own))
    if len(own.label):
        # A label that was too large for a shard goes on in those behind it.
        beyond = [
            _edges(job, other).of(mine.final_label)
            for other in range(shard + 1, len(records))
            if records[other].first_label == mine.final_label
        ]
        own = united([own, *beyond], len(graph.vocabulary)) if beyond else own
    svm = read_arrays(job.file("svm"))
    multiplier = edge_multipliers(graph, svm["multiplier"], own)
    last = np.full(len(own.label), job.part.first_last)
    columns = (last, own.label, own.token, own.weight, multiplier)
    write_shard_edges(Path(job.work), job.part.number, shard, columns)
    record = EdgeRecord(len(own.label), worst_margin(graph, svm["score"], own))
    write_whole(job.file("written.json", shard), write_json, record)


@dataclass(frozen=True)
class Component:
    """A piece of one shard's choices in one component, for a round of sums."""

    job: Job
    shard: int
    component: int
    piece: int
    most: int  # entries of a piece, about
    scale: float

    @property
    def half(self) -> Path:
        """The file of what products with its Hessian need."""
        return self.job.file(f"half-{self.component}-{self.piece}", self.shard)

    def ties(self) -> tuple[Ties, range]:
        """The ties of the shard, and the rows of them that are meant."""
        ties = _ties(self.job, self.shard)
        i = int(np.searchsorted(ties.component, self.component))
        cuts = ties.pieces(i, self.most)
        return ties, range(int(cuts[self.piece]), int(cuts[self.piece + 1]))

    def choices(self, size: int) -> Iterator[Any]:
        """Some at a time; the component has so many tokens."""
        return some_choices(*self.ties(), size, self.scale)


# What is made of it


@dataclass(frozen=True)
class Divided:
    """All divided last tokens of a corpus, solved on an engine, what is finished taken as it is."""

    work: Path
    jobs: list[Job]
    engine: Engine
    progress: Progress

    def solve(self) -> dict[int, SolvedPart]:
        """Their records, once the bags of all shards are there."""
        found = {}
        for job in self.jobs:
            if (record := finished_part(self.work, job.part.number)) is not None:
                found[job.part.number] = record
        left = [job for job in self.jobs if job.part.number not in found]
        self._round("graph", merge_graph, [(job, None, job, job.file("graph")) for job in left])
        ties = [
            (job, s, (job, s), job.file("svm" if s is None else "ties", s))
            for job in left
            for s in (None, *job.shards)
        ]
        self._round("ties", cut_to_ties, ties)
        self._fit(left)
        records = {job.part.number: self._records(job) for job in left}
        edges = [
            (job, s, (job, s, records[job.part.number]), job.file("written.json", s))
            for job in left
            for s in job.shards
        ]
        self._round("edges", write_edges, edges)
        for job in left:
            found[job.part.number] = self._finish(job, records[job.part.number])
        return found

    def _round(
        self,
        name: str,
        work: Callable[[Any], Any],
        asked: Sequence[tuple[Job, int | None, Any, Path]],
    ) -> None:
        """Do one kind of work: of each job some shards, what the work is given, and the file that it leaves."""
        pieces = [
            Piece(
                f"part {job.part.number} {name}" + ("" if s is None else f" {s}"),
                payload,
                memory_of(min(job.most, job.part.incidences)),
            )
            for job, s, payload, _ in asked
        ]
        files = {piece.name: file for piece, (*_, file) in zip(pieces, asked, strict=True)}
        do_pieces(
            work, pieces, lambda piece: files[piece.name].is_file() or None, ledger=self.work,
            engine=self.engine, progress=self.progress,
            words=lambda done: f"divided last tokens, {name}: {done} of {len(pieces)}",
        )  # fmt: skip

    def _records(self, job: Job) -> list[ShardRecord]:
        return [read_record(job.file("json", shard), ShardRecord) for shard in job.shards]

    def _scale(self, job: Job) -> float:
        heaviest = max(x.heaviest for x in self._records(job))
        return float(unit_scale(np.array([heaviest]))[0])

    def _fit(self, jobs: Sequence[Job]) -> None:
        """The Luce fits of all last tokens: small components together, large ones in sums over shards."""
        pieces, large = [], []
        for job in jobs:
            entries, weights = self._ties(job)
            some = np.flatnonzero(entries)
            some = some[np.argsort(entries[some], kind="stable")]
            few = int(np.searchsorted(np.cumsum(entries[some]), job.most, "right"))
            scale = self._scale(job)
            task = (job, sorted(some[:few].tolist()), scale)
            size = memory_of(int(entries[some[:few]].sum()))
            pieces.append(Piece(f"part {job.part.number} luce", task, size))
            large += [
                (job, c, float(weights[c]) * scale, scale) for c in sorted(some[few:].tolist())
            ]
        do_pieces(
            fit_gathered, pieces, lambda piece: piece.payload[0].file("luce").is_file() or None,
            ledger=self.work, engine=self.engine,
        )  # fmt: skip
        lines, left = Ledger(self.work), []
        for job, component, weight, scale in large:
            name = f"part {job.part.number} luce {component}"
            if job.file(f"luce-{component}").is_file():
                lines.found(name)
            else:
                left.append((name, partial(self._fit_in_sums, job, component, weight, scale)))
        for first in range(0, len(left), TOGETHER):
            names, fits = zip(*left[first : first + TOGETHER], strict=True)
            for number in summed_together(self.engine, fits, self.progress):
                lines.done(names[number])

    def _ties(
        self, job: Job
    ) -> tuple[Int[np.ndarray, " components"], Float[np.ndarray, " components"]]:
        """The entries and weights of all components' choices, those of all shards added up."""
        n = len(read_arrays(job.file("graph"), ["level"])["level"])
        entries, weights = np.zeros(n, np.int64), np.zeros(n)
        for shard in job.shards:
            found = _ties(job, shard)
            entries[found.component] += found.entries
            weights[found.component] += found.weights
        return entries, weights

    def _fit_in_sums(
        self, job: Job, component: int, weight: float, scale: float, ask: "Ask"
    ) -> None:
        graph = _graph(job)
        items = np.flatnonzero(graph.component == component)
        state = job.file(f"theta-{component}")
        begin = Keep(np.zeros(len(items)))
        if state.is_file():
            kept = read_checkpoint(state)
            begin = Keep(kept["theta"], int(kept["steps"][0]), bool(kept["arrived"][0]))

        def keep(x: Keep) -> None:
            told = {"steps": np.array([x.steps]), "arrived": np.array([int(x.arrived)])}
            _save(state, {"theta": x.theta, **told})

        ties = {shard: _ties(job, shard) for shard in job.shards}
        entries = {s: int(x.entries[x.component == component].sum()) for s, x in ties.items()}
        most = max(PIECE, sum(entries.values()) // PIECES)
        pieces = [
            (Component(job, shard, component, piece, most, scale), min(n, most))
            for shard, n in entries.items()
            for piece in range(pieces_of(n, most))
        ]
        tasks = [Task(i, x, int(PROCESS + ENTRY * n)) for i, (x, n) in enumerate(pieces)]

        def summed(work: Callable[..., Any], add: Callable[[Any, Any], Any]) -> Callable[..., Any]:
            return lambda x: ask(Round(work, tasks, x, add))

        if len(items) <= CAREFUL:
            dense = summed(partial(look, dense_sums), Dense.plus)
            found = careful_fit(dense, weight, begin, keep)
        else:
            sums = Sums(
                summed(look_sparse, Sparse.plus), summed(push_sparse, np.add),
                summed(partial(look, bound_sums), lambda a, b: a.plus(b)),
            )  # fmt: skip
            found = newton_fit(sums, weight, begin, keep)
        if not (found.gradient <= CERTIFIED and found.error <= KNOWN):
            last = visible(repr(graph.vocabulary[job.part.first_last]))
            raise SolverError(
                f"Luce fit: after last token {last} the odds of {len(items):,} tied tokens are known to "
                f"{found.error:.1e} nats only, {KNOWN:.0e} is needed (gradient {found.gradient:.1e}, at most "
                f"{CERTIFIED:.0e}). Divide it less, by a larger --shard-size: a fit in one process takes more care."
            )
        _save_fit(job.file(f"luce-{component}"), items, found)

    def _finish(self, job: Job, records: list[ShardRecord]) -> SolvedPart:
        """Write the pairs of a last token, and its record."""
        graph, parts = _graph(job), job.corpus[1]
        found = [read_arrays(path) for path in sorted(job.folder.glob("luce*"))]
        log_pi = np.zeros(len(graph.pair_last))
        for x in found:
            log_pi[x["items"]] = x["theta"]
        told = [x["told"].tolist() for x in found]  # loss, gradient, error
        coefficient = FiniteSubspace(graph).coefficients(log_pi)
        weight, scale = float(np.sum([x.weight for x in records])), self._scale(job)
        rows = sum(int(_ties(job, s).rows.sum()) for s in job.shards)
        finite = FiniteComponent(
            log_pi, coefficient, coefficient, float(np.sum([x[0] for x in told])) / (weight * scale),
            max(x[1] for x in told), rows, float(np.sqrt(max(0.0, inner(coefficient, coefficient)))),
            max(x[2] for x in told),
        )  # fmt: skip
        edges = [read_record(job.file("written.json", s), EdgeRecord) for s in job.shards]
        saved = read_arrays(job.file("svm"))
        primal, dual, gap = saved["kkt"].tolist()
        score = saved["score"]
        certificate = KKT(max(primal, *(x.violation for x in edges)), dual, gap)
        norm = float(np.sqrt(max(0.0, inner(score, score))))
        svm = GraphSVM(score, score, saved["multiplier"], certificate, norm)
        check_finite(graph, finite, svm)
        stand_in = replace(
            as_samples(graph), set_aside=parts.set_aside, tokens=parts.tokens, windows=parts.windows
        )  # fmt: skip
        limit = Limit(stand_in, graph, svm, finite)
        summary = replace(
            limit.summary(), samples=sum(x.rows for x in records),
            distinct_samples=sum(x.samples for x in records), edges=sum(x.edges for x in edges),
        )  # fmt: skip
        last = job.part.first_last
        record = SolvedPart(job.part.number, last, last, weight, summary, shards=len(records))
        write_pairs(self.work, limit, record)
        shutil.rmtree(job.folder, ignore_errors=True)
        return record


@dataclass(frozen=True)
class Round:
    """A sum over shards that a fit asks for: `work(x, payload)` of all tasks, added up in their order."""

    work: Callable[..., Any]
    tasks: list[Task]
    x: Float[np.ndarray, " size"]
    add: Callable[[Any, Any], Any]


Ask = Callable[[Round], Any]


def in_round(task: tuple[Callable[..., Any], Float[np.ndarray, " size"], Any]) -> Any:
    """One task of a round, wherever this runs."""
    work, x, payload = task
    return work(x, payload)


def summed_together(
    engine: Engine, fits: Sequence[Callable[[Ask], None]], progress: Progress
) -> Iterator[int]:
    """Let several fits ask for sums at the same time, and tell which has ended.

    Each is given a function that answers a round. A fit of few shards would leave most workers idle: so all rounds
    that are asked for run together. What a fit is answered does not depend on the others.
    """
    asked: SimpleQueue[tuple[int, Round | BaseException | None]] = SimpleQueue()
    answers: list[SimpleQueue[Any]] = [SimpleQueue() for _ in fits]

    def live(number: int) -> None:
        def ask(what: Round) -> Any:
            asked.put((number, what))
            if (answer := answers[number].get()) is None:
                raise SystemExit  # another one has failed, or everything is being stopped
            return answer

        try:
            fits[number](ask)
            asked.put((number, None))
        except BaseException as error:
            asked.put((number, error))

    for number in range(len(fits)):
        threading.Thread(target=live, args=(number,), daemon=True).start()
    active, rounds = len(fits), 0
    try:
        while True:
            wanted: dict[int, Round] = {}
            while len(wanted) < active:  # until each of them waits, or has ended
                number, what = asked.get()
                if isinstance(what, BaseException):
                    raise what
                if what is None:
                    active -= 1
                    yield number
                else:
                    wanted[number] = what
            if not active:
                return
            rounds += 1
            progress(0, 1, f"divided last tokens, {active} Luce fits: round {rounds}")
            each = [(number, r, t) for number, r in sorted(wanted.items()) for t in r.tasks]
            tasks = [Task(i, (r.work, r.x, t.payload), t.bytes) for i, (_, r, t) in enumerate(each)]
            sums: dict[int, Any] = {}
            run = in_order(engine.run(in_round, tasks))
            for (number, *_), result in zip(each, run, strict=True):
                add = wanted[number].add
                sums[number] = add(sums[number], result) if number in sums else result
            for number in wanted:
                answers[number].put(sums[number])
    finally:
        for waiting in answers:
            waiting.put(None)


def _save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    write_whole(path, write_arrays, arrays)


def _save_fit(path: Path, items: Int[np.ndarray, " items"], found: Found) -> None:
    told = np.array([found.loss, found.gradient, found.error])
    _save(path, {"items": items, "theta": found.theta, "told": told})


def _edges(job: Job, shard: int) -> Edges:
    return Edges(**read_arrays(job.file("edges", shard)))


def _graph(job: Job) -> PriorityGraph:
    return PriorityGraph(job.corpus[0], **read_arrays(job.file("graph")))


def _ties(job: Job, shard: int) -> Ties:
    return Ties(**mapped_arrays(job.file("ties", shard)))
