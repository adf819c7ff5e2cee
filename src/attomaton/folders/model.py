"""A fitted limit on disk: written part by part, opened without solving anything again.

MODEL/attomaton.json       what this folder is
      model.json           summary, certificates, provenance, the table of parts
      vocabulary.json      token labels in id order
      samples/NNN.parquet  the merged samples (evidence for explanations)
      pairs/NNN.parquet    last, token: component (numbered within its last token), level, scores
      edges/NNN.parquet    last, from, to: weight of the priority edge, multiplier of its margin
                           (samples and edges of a part that was divided: NNN-SSSSS.parquet, one for each shard)
      arrays.safetensors   embeddings if given; W_svm and W_fin if asked for (dense)

A part holds whole last tokens, ascending. Each of the three folders is a Parquet data set that other tools read as one
table; every row says what it is about, so no file needs another one to be understood. To explain one context only the
rows of its last token are read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.corpus.reading import ReadAs
from attomaton.corpus.samples import Samples, SetAside
from attomaton.corpus.vocabulary import Label, Vocabulary
from attomaton.disk.formats import (
    AGAIN,
    ROW_GROUP,
    expect_arrays,
    read_arrays,
    read_json,
    read_rows,
    write_arrays,
    write_columns,
    write_json,
)
from attomaton.disk.manifest import Watched
from attomaton.disk.records import read_record
from attomaton.disk.storage import check_kind, check_place, new_folder, write_whole
from attomaton.errors import DataError
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.theory.finite import FiniteComponent
from attomaton.mechanics.theory.graph import PriorityGraph
from attomaton.mechanics.theory.information import SoftErrors, StandardErrors, luce_errors
from attomaton.mechanics.theory.limit import (
    Limit,
    Summary,
    dense_matrix,
    expect_limit,
    merge_summaries,
)
from attomaton.mechanics.theory.svm import GraphSVM
from attomaton.numerics import order_by, rising, row_pointer, sorted_unique
from attomaton.results import KKT, absent

Columns = dict[str, np.ndarray]
SAMPLES = ("last", "label", "weight", "rows", "source", "tokens", "counts")
PAIRS = ("last", "token", "component", "level", "svm_score", "log_pi")
# Unlike the above only under embeddings.
COUPLED = ("svm_coefficient", "finite_coefficient", "finite_score")
EDGES = ("last", "from", "to", "weight", "multiplier")
LARGEST = 1e50  # of an embedding's numbers


@dataclass(frozen=True)
class Part:
    """One part of a model: its number, and its first and final last token; how many shards it was divided into."""

    part: int
    first_last: int
    final_last: int
    weight: float
    _: KW_ONLY
    shards: int | None = absent()


@dataclass(frozen=True)
class SolvedPart(Part):
    """What the record of a part says that is complete."""

    summary: Summary


@dataclass(frozen=True)
class ModelRecord:
    """What `model.json` says: the summary, the table of parts, and where the model came from."""

    summary: Summary
    parts: tuple[Part, ...]
    data: str | None = None
    reading: ReadAs = field(default_factory=ReadAs)
    command: str | None = None
    environment: dict[str, str | None] = field(default_factory=dict)
    set_aside: SetAside | None = None
    embeddings: str | None = absent()  # what was given or drawn, in words


def save_model(
    limit: Limit,
    folder: Path | str,
    record: Mapping[str, Any] | None = None,
    dense: bool = False,
    force: bool = False,
) -> None:
    """Write a fitted limit; a `record` of where it comes from goes into `model.json` beside the summary.

    An earlier model there is replaced, another folder of ours by `force` alone, anything else never (a `UsageError`).
    With `dense` W_svm and W_fin are written out, too.

    >>> from tempfile import TemporaryDirectory
    >>> from attomaton import example_samples, open_model, solve_limit
    >>> with TemporaryDirectory() as folder:
    ...     save_model(solve_limit(example_samples()), Path(folder, "model"))
    ...     open_model(Path(folder, "model"))
    Limit(3 last tokens, 12 tokens, loss floor 0.464158, ‖W_svm‖ 3.34664, ‖W_fin‖ 0.961133)
    """
    expect_limit(limit)
    with new_folder(check_place(folder, "model", force=force), "fit") as work:
        part = write_part(work, 0, limit)
        arrays = {} if limit.embeddings is None else {"E": limit.embeddings.E}
        if dense:
            arrays["W_svm"] = limit.dense(limit.svm.coefficient)
            arrays["W_fin"] = limit.dense(limit.finite.coefficient)
        write_head(work, limit.graph.vocabulary, [part], record or {}, arrays)
        _part_record(work, 0).unlink()


def write_part(work: Path, number: int, limit: Limit) -> SolvedPart:
    """Write the limit of some last tokens; what `write_head` needs to know of it.

    The record of a part is its last file: where it is, the part is complete.
    """
    tables = {"samples": _sample_columns(limit.samples), "pairs": _pair_columns(limit),
              "edges": _edge_columns(limit)}  # fmt: skip
    # One is pressed together while another waits for the disk.
    with ThreadPoolExecutor(len(tables)) as pool:
        several = [
            pool.submit(_write_table, work, name, _file(number), columns)
            for name, columns in tables.items()
        ]
    for written in several:
        written.result()
    lasts = limit.graph.last_tokens
    weight, summary = limit.samples.total_weight, limit.summary()
    record = SolvedPart(number, int(lasts[0]), int(lasts[-1]), weight, summary)
    write_whole(_part_record(work, number), write_json, record)
    return record


def _write_table(work: Path, name: str, file: str, columns: Mapping[str, Any]) -> None:
    (work / name).mkdir(exist_ok=True)
    # A sample is a row of some thirty tokens: fewer of them make a group of the same size.
    group = ROW_GROUP // 8 if name == "samples" else ROW_GROUP
    write_whole(work / name / file, write_columns, columns, group)


def _file(number: int, shard: int | None = None) -> str:
    """The file of a part in each of the three folders, or of one of its shards."""
    return f"{number:03d}.parquet" if shard is None else f"{number:03d}-{shard:05d}.parquet"


def _files(folder: Path, name: str, part: Part) -> list[Path]:
    """The files of a part in one of the three folders; its pairs are together even where it was divided."""
    divided = part.shards is not None and name != "pairs"
    shards = range(part.shards or 0) if divided else [None]
    return [folder / name / _file(part.part, shard) for shard in shards]


def write_shard_samples(work: Path, number: int, shard: int, samples: Samples) -> None:
    """Write the samples of one shard of a divided part; shards follow each other by label."""
    _write_table(work, "samples", _file(number, shard), _sample_columns(samples))


def read_shard(work: Path, number: int, shard: int, vocabulary: Vocabulary) -> Samples:
    """The samples of one shard as they were written."""
    x = read_rows([work / "samples" / _file(number, shard)], SAMPLES, "last", None)
    return Samples(
        vocabulary, x["last"], x["label"], x["weight"], row_pointer(x["tokens.length"]), x["tokens"],
        x["counts"], x["rows"], x["source"],
    )  # fmt: skip


def write_shard_edges(work: Path, number: int, shard: int, values: Sequence[np.ndarray]) -> None:
    """Write the edges of one shard of a divided part, column by column (`EDGES`)."""
    ends = (x.astype(np.int32) for x in values[:3])
    columns = dict(zip(EDGES, (*ends, *values[3:]), strict=True))
    _write_table(work, "edges", _file(number, shard), columns)


def write_pairs(work: Path, limit: Limit, record: SolvedPart) -> None:
    """Write the pairs of a divided part, then its record; the samples and edges of its shards are there."""
    _write_table(work, "pairs", _file(record.part), _pair_columns(limit))
    write_whole(_part_record(work, record.part), write_json, record)


def finished_part(work: Path, number: int) -> SolvedPart | None:
    """The record of a part that was completely written before, or None."""
    path = _part_record(work, number)
    if not path.is_file():
        return None
    record = read_record(path, SolvedPart)
    if not record.weight > 0:
        raise DataError(f"{path}: a part without weight; {AGAIN}.")
    return record


def _part_record(work: Path, number: int) -> Path:
    return work / f"part-{number:03d}.json"


def write_head(
    work: Path,
    vocabulary: Vocabulary,
    parts: Sequence[SolvedPart],
    record: Mapping[str, Any],
    arrays: dict[str, np.ndarray],
) -> Summary:
    """Write what holds the parts together; returns the summary of the whole."""
    summary = merge_summaries([(p.weight, p.summary) for p in parts])
    table = [Part(p.part, p.first_last, p.final_last, p.weight, shards=p.shards) for p in parts]
    write_json(work / "vocabulary.json", list(vocabulary.labels))
    if arrays:
        write_arrays(work / "arrays.safetensors", arrays)
    write_json(work / "model.json", {"summary": summary, "parts": table, **record})
    return summary


def dense_matrices(
    work: Path, numbers: Sequence[int], K: int, embeddings: Embeddings | None
) -> dict[str, np.ndarray]:
    """W_svm and W_fin written out, from the pairs of parts that are complete."""
    coupled = embeddings is not None and not embeddings.orthonormal
    names = COUPLED[:2] if coupled else ("svm_score", "log_pi")
    files = [work / "pairs" / f"{n:03d}.parquet" for n in numbers]
    pairs = read_rows(files, ("last", "token", *names), "last", None)
    return {
        matrix: dense_matrix(K, embeddings, pairs["last"], pairs["token"], pairs[name])
        for matrix, name in zip(("W_svm", "W_fin"), names, strict=True)
    }


def _sample_columns(samples: Samples) -> dict[str, Any]:
    import pyarrow as pa

    start = pa.array(samples.start)
    tokens, counts = (
        pa.LargeListArray.from_arrays(start, pa.array(x)) for x in (samples.token, samples.count)
    )
    values = (samples.last, samples.label, samples.weight, samples.rows, samples.source, tokens)
    return dict(zip(SAMPLES, (*values, counts), strict=True))


def _pair_columns(limit: Limit) -> Columns:
    graph, svm, finite = limit.graph, limit.svm, limit.finite
    values = (
        graph.pair_last.astype(np.int32), graph.pair_token.astype(np.int32),
        graph.component_number.astype(np.int32),
        graph.level[graph.component].astype(np.int32), svm.score, finite.log_pi,
    )  # fmt: skip
    columns = dict(zip(PAIRS, values, strict=True))
    if limit.embeddings is not None and not limit.embeddings.orthonormal:
        more = (svm.coefficient, finite.coefficient, finite.score)
        columns |= dict(zip(COUPLED, more, strict=True))
    return columns


def _edge_columns(limit: Limit) -> Columns:
    graph = limit.graph
    multiplier = np.zeros(len(graph.edge_from))
    multiplier[_carriers(graph)] = limit.svm.multiplier
    values = (
        graph.pair_last[graph.edge_from].astype(np.int32),
        graph.pair_token[graph.edge_from].astype(np.int32),
        graph.pair_token[graph.edge_to].astype(np.int32), graph.edge_weight, multiplier,
    )  # fmt: skip
    return dict(zip(EDGES, values, strict=True))


class ModelFolder:
    """A model on disk, opened once: what is asked of it is read from there when it is asked.

    Its files are held against the manifest when it is opened; later only those that were touched since.
    """

    def __init__(self, folder: Path | str):
        self.folder = check_kind(folder, "model")
        self.files = Watched(self.folder)
        self.record = model_record(self.folder)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Its vocabulary."""
        path = self.folder / "vocabulary.json"
        return Vocabulary.from_record(read_json(path), path)

    @cached_property
    def embeddings(self) -> Embeddings | None:
        """The embeddings it was fitted with, if any were given."""
        table = self.folder / "arrays.safetensors"
        arrays = read_arrays(table, ["E"])
        if "E" not in arrays:
            return None
        expect_arrays(table, arrays, {"E": ("f", (len(self.vocabulary), None))})
        if np.abs(arrays["E"]).max(initial=0.0) > LARGEST:
            raise DataError(f"{table}: embeddings whose products no number can hold; {AGAIN}.")
        return Embeddings(arrays["E"])

    def rows(
        self, name: str, columns: Sequence[str], wanted: "np.ndarray | Part | None" = None
    ) -> Columns:
        """Columns of `samples`, `pairs` or `edges`: all rows, those of the wanted last tokens, or those of a part."""
        if isinstance(wanted, Part):
            parts, wanted = [wanted], None
        else:
            parts = [
                p
                for p in self.record.parts
                if wanted is None or ((p.first_last <= wanted) & (wanted <= p.final_last)).any()
            ] or [self.record.parts[0]]  # of which nothing is wanted
        files = [path for part in parts for path in _files(self.folder, name, part)]
        return read_rows(files, columns, "last", wanted)

    def last_tokens(self) -> Columns:
        """Every last token, ascending: its samples (`rows`, `weight`), tokens and edges."""
        self.files.check()
        place, samples = self.folder / "samples", self.rows("samples", ("last", "rows", "weight"))
        if not len(samples["last"]):
            raise DataError(f"{self.folder}: holds no samples; {AGAIN}.")
        _check_ids(place, samples, ("last",), len(self.vocabulary))
        _check_ids(place, samples, ("rows",), None, least=1)
        head = np.flatnonzero(np.diff(samples["last"], prepend=-1))
        last = samples["last"][head].astype(np.int64)
        counts = {}
        for name, many in (("pairs", "tokens"), ("edges", "edges")):
            rows = self.rows(name, ("last",))["last"]
            key = last.astype(rows.dtype)  # else all rows would be copied for the search
            counts[many] = np.searchsorted(rows, key, "right") - np.searchsorted(rows, key)
        return {
            "last": last,
            **{name: np.add.reduceat(samples[name], head) for name in ("rows", "weight")},
            **counts,
        }

    def limit(
        self,
        lasts: Iterable[Label] | None = None,
        samples: bool = True,
        weights: bool | None = None,
    ) -> Limit:
        """The fitted limit as it was saved: all of it, or what belongs to some last tokens.

        Without its `samples`, most of what it holds, it predicts as well, and has no evidence to show; `weights` says
        whether its edges have theirs nevertheless.

        A limit opened for some last tokens answers everything about contexts that end in them; its norms, loss floor
        and certificates are those of the whole.
        """
        self.files.check()
        vocabulary = self.vocabulary
        wanted = None if lasts is None else _known(vocabulary, lasts)
        return self._limit(wanted, samples, samples if weights is None else weights)

    def scored(self, part: Part) -> tuple[Samples, Columns]:
        """The samples of a part, and `last`, `token`, `svm_score`, `finite_score` of its pairs: all but its edges."""
        finite = "finite_score" if self.coupled else "log_pi"
        pairs = self.rows("pairs", ("last", "token", "svm_score", finite), part)
        _check_ids(self.folder / "pairs", pairs, ("last", "token"), len(self.vocabulary))
        return self.samples(part), {**pairs, "finite_score": pairs[finite]}

    def limits(self) -> Iterator[Limit]:
        """The fitted limit part by part, each of whole last tokens; under embeddings that couple them, in one."""
        self.files.check()
        if self.coupled:
            yield self._limit(None)
            return
        for part in self.record.parts:
            yield self._limit(part)

    def part(self, i: int) -> Limit:
        """What belongs to the last tokens of one part, without its samples; not where last tokens are coupled."""
        self.files.check()
        return self._limit(self.record.parts[i], samples=False, weights=False)

    def errors(self, limit: Limit) -> SoftErrors:
        """The standard errors of its limit, part by part as asked for; all in one where last tokens are coupled."""
        parts, last = self.record.parts, limit.graph.pair_last
        lasts = np.array([0] if self.coupled else [p.first_last for p in parts])
        pairs = np.searchsorted(last, lasts)

        def make(i: int) -> StandardErrors:
            self.files.check()
            behind = self.samples(None if self.coupled else parts[i])
            end = int(last[-1]) if self.coupled else parts[i].final_last
            graph = limit.graph.between(int(lasts[i]), end)
            log_pi = limit.finite.log_pi[pairs[i] :][: len(graph.pair_last)]
            return luce_errors(graph, behind, log_pi)

        return SoftErrors(lasts, pairs, make)

    @property
    def coupled(self) -> bool:
        """Whether embeddings couple last tokens."""
        return self.embeddings is not None and not self.embeddings.orthonormal

    def samples(self, wanted: np.ndarray | Part | None) -> Samples:
        """The samples of all last tokens, of those wanted or of a part."""
        columns, summary = self.rows("samples", SAMPLES, wanted), self.record.summary
        place, K = self.folder / "samples", len(self.vocabulary)
        if not {"tokens.length", "counts.length"} <= set(columns):
            raise DataError(f"{place}: tokens and counts are not lists; {AGAIN}.")
        tokens, length = columns["tokens"], columns["tokens.length"]
        bags = {"token": tokens, "count": columns["counts"], "length": length}
        _check_ids(place, columns, ("last", "label"), K)
        _check_ids(place, bags, ("token",), K)
        _check_ids(place, bags, ("count", "length"), None, least=1)
        _check_ids(place, columns, ("rows",), None, least=1)
        _check_ids(place, columns, ("source",), None)
        head = columns["last"].astype(np.int64) * K + columns["label"]
        if not np.array_equal(length, columns["counts.length"]) or (np.diff(head) < 0).any():
            raise DataError(f"{place}: its columns do not fit together; {AGAIN}.")
        start = row_pointer(length)
        own = start.searchsorted(
            np.flatnonzero(tokens == np.repeat(columns["label"], length)), "right"
        )
        ascending = tokens[1:] > tokens[:-1]
        ascending[start[1:-1] - 1] = True  # from one bag to the next
        if not np.array_equal(own, np.arange(1, len(length) + 1)) or not ascending.all():
            raise DataError(f"{place}: tokens are not distinct with the label among them; {AGAIN}.")
        if columns["weight"].dtype.kind != "f" or (columns["weight"] <= 0).any():
            raise DataError(f"{place}: column 'weight' holds more than positive numbers; {AGAIN}.")
        return Samples(
            self.vocabulary, columns["last"], columns["label"], columns["weight"], start,
            tokens, columns["counts"], columns["rows"], columns["source"],
            SetAside(summary.dropped, float(summary.dropped)), summary.tokens, summary.windows,
        )  # fmt: skip

    def _limit(
        self, wanted: np.ndarray | Part | None, samples: bool = True, weights: bool = True
    ) -> Limit:
        """What belongs to some last tokens, ascending; all of it where they are coupled."""
        folder, vocabulary = self.folder, self.vocabulary
        coupled = self.coupled
        wanted = None if coupled else wanted
        pairs = self.rows("pairs", PAIRS + COUPLED * coupled, wanted)
        # Weights and multipliers of edges are evidence as well.
        names = EDGES if samples else EDGES[: 4 if weights else 3]
        graph = _graph(folder, vocabulary, pairs, edges := self.rows("edges", names, wanted))
        behind = self.samples(wanted if samples else np.zeros(0, np.int64))
        seen, paired = (
            x[np.flatnonzero(np.diff(x, prepend=-1))] for x in (behind.last, graph.pair_last)
        )
        if samples and not np.array_equal(seen, paired):
            raise DataError(f"{folder}: samples and pairs are of other last tokens; {AGAIN}.")
        return self.assembled(
            graph, pairs, behind, edges["multiplier"][_carriers(graph)] if samples else np.zeros(0)
        )

    def assembled(
        self, graph: PriorityGraph, pairs: Columns, behind: Samples, multiplier: np.ndarray
    ) -> Limit:
        """The limit that these scores of pairs make, with the norms and certificates of the whole."""
        summary, coupled = self.record.summary, self.coupled
        told = summary.certificates
        score, log_pi = pairs["svm_score"], pairs["log_pi"]
        svm = GraphSVM(
            pairs["svm_coefficient"] if coupled else score, score, multiplier,
            KKT(told.svm_primal, told.svm_dual, told.svm_gap), summary.svm_norm,
        )  # fmt: skip
        finite = FiniteComponent(
            log_pi, pairs["finite_coefficient"] if coupled else log_pi,
            pairs["finite_score"] if coupled else log_pi, summary.loss_floor, told.luce_gradient,
            summary.cyclic_samples, summary.finite_norm, told.luce_error,
        )  # fmt: skip
        return Limit(behind, graph, svm, finite, self.embeddings)


def model_record(folder: Path) -> ModelRecord:
    """What a model says of itself, whatever happened to its other files."""
    path = folder / "model.json"
    record = read_record(path, ModelRecord)
    if not record.parts:
        raise DataError(f"{path}: names no parts; {AGAIN}.")
    return record


def open_model(folder: Path | str, lasts: Iterable[Label] | None = None) -> Limit:
    """A fitted limit as it was saved: all of it, or what belongs to some last tokens.

    A limit opened for some last tokens answers everything about contexts that end in them; its norms, loss floor and
    certificates are those of the whole. What is no model, or a damaged one, raises a `DataError`.

    >>> from tempfile import TemporaryDirectory
    >>> from attomaton import example_samples, save_model, solve_limit
    >>> with TemporaryDirectory() as folder:
    ...     save_model(solve_limit(example_samples()), Path(folder, "model"))
    ...     open_model(Path(folder, "model"), ["bell"]).samples
    Samples(11 samples, 10 distinct, 12 tokens, 1 last token, 2 set aside)
    """
    return ModelFolder(folder).limit(lasts)


def _known(vocabulary: Vocabulary, labels: Iterable[Label]) -> np.ndarray:
    """The ids of those labels the vocabulary holds, ascending."""
    given = (x if x in vocabulary or not isinstance(x, str) else vocabulary.read(x) for x in labels)
    ids = vocabulary.ids_of(list(given))
    return sorted_unique(ids[ids >= 0])


def _check_ids(
    place: Path, columns: Columns, names: Sequence[str], end: int | None, least: int = 0
) -> None:
    """Refuse columns that hold anything but integers from `least` up to `end`, which is not among them."""
    for name in names:
        x = columns[name]
        if x.dtype.kind != "i" or (
            len(x) and (x.min() < least or (end is not None and x.max() >= end))
        ):
            last = "" if end is None else f" to {end - 1}"
            raise DataError(
                f"{place}: column {name!r} holds more than numbers from {least}{last}; {AGAIN}."
            )


def _graph(folder: Path, vocabulary: Vocabulary, pairs: Columns, edges: Columns) -> PriorityGraph:
    """The graph behind rows of pairs and edges: tokens back to indices."""
    K, n = len(vocabulary), len(pairs["last"])
    _check_ids(folder / "pairs", pairs, ("last", "token"), K)
    _check_ids(folder / "pairs", pairs, ("component", "level"), n)
    _check_ids(folder / "edges", edges, ("last", "from", "to"), K)
    last, token = pairs["last"].astype(np.int64), pairs["token"].astype(np.int64)
    key = last * K + token
    if not rising(key):
        raise DataError(f"{folder / 'pairs'}: its rows are out of order; {AGAIN}.")
    new_last = np.flatnonzero(np.diff(last, prepend=-1))
    per_last = np.maximum.reduceat(pairs["component"], new_last) + 1 if len(last) else last
    shift = np.repeat(row_pointer(per_last)[:-1], np.diff(new_last, append=len(last)))
    component = pairs["component"] + shift
    if not np.bincount(component, minlength=int(per_last.sum())).all():
        raise DataError(f"{folder / 'pairs'}: a component without tokens; {AGAIN}.")
    level = np.zeros(int(per_last.sum()), np.int64)
    level[component] = pairs["level"]
    edge_from, edge_to = _ends(K, last, token, edges)
    fit = all(
        (last[at] == edges["last"]).all() and (token[at] == edges[name]).all()
        for at, name in ((edge_from, "from"), (edge_to, "to"))
        if n
    )
    if (len(edge_from) and not n) or not fit or not rising(edge_from * n + edge_to):
        raise DataError(f"{folder / 'edges'}: its rows do not fit those of pairs; {AGAIN}.")
    weight = edges.get("weight", np.broadcast_to(np.nan, len(edge_from)))
    return PriorityGraph(vocabulary, last, token, edge_from, edge_to, weight, component, level)


def _ends(K: int, last: np.ndarray, token: np.ndarray, edges: Columns) -> list[np.ndarray]:
    """The pairs that edges join, as far as there are such pairs: anything in their place where there are none.

    A table of where each token stands, filled in for one last token after the other: pairs and edges are in its order,
    and a look into a small table is far quicker than a search in a large one.
    """
    at = np.zeros(K, np.int64)
    ends = [np.zeros(len(edges["last"]), np.int64) for _ in range(2)]
    lasts = edges["last"][np.flatnonzero(np.diff(edges["last"], prepend=-1))]
    spans = [np.searchsorted(x, [lasts, lasts + 1]).T.tolist() for x in (last, edges["last"])]
    for (lo, hi), (begin, end) in zip(*spans, strict=True):
        at[token[lo:hi]] = np.arange(lo, hi)
        for found, name in zip(ends, ("from", "to"), strict=True):
            found[begin:end] = at[edges[name][begin:end]]
    return ends


def _carriers(graph: PriorityGraph) -> np.ndarray:
    """A multiplier belongs to a margin between components; the first edge between them carries it."""
    a, b = graph.component[graph.edge_from], graph.component[graph.edge_to]
    between = np.flatnonzero(a != b)
    between = between[order_by(a[between], b[between])]
    a, b = a[between], b[between]
    return between[(np.diff(a, prepend=-1) != 0) | (np.diff(b, prepend=-1) != 0)]
