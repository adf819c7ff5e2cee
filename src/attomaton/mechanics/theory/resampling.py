"""The bootstrap by sequence: which orders, components and answers come out the same when sequences are drawn again.

Windows of one sequence are not independent, so whole sequences are drawn, with replacement. A sequence that is drawn
twice counts twice: samples carry whole weights and nothing is copied. An edge is there where a sequence behind it was
drawn, and the components are found anew.

A resample has no sample that the data do not have. So a strict order can be lost, never turned into a tie, and an order
behind which there are $s$ of $N$ sequences and no other path comes out in $1 - (1 - s/N)^N$ of the resamples. What a
new sequence could turn is another question: `evidence` answers it.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.samples import Samples
from attomaton.corpus.vocabulary import Label
from attomaton.corpus.windows import Windows
from attomaton.errors import DataError
from attomaton.mechanics.theory.evidence import edge_of
from attomaton.mechanics.theory.graph import PriorityGraph, build_graph
from attomaton.numerics import named_rng, row_pointer

STRICT, TIED, REVERSED, LOST = range(4)  # what an edge's two tokens are to each other in a resample
SURE = 0.95
ROOM = 10_000_000  # distances held at a time


@dataclass(frozen=True, eq=False)
class Tally:
    """In how many of some resamples each edge is what (`STRICT` …), each component and answer the same.

    `kept` has a row for each resample: the shares of strict edges, tied edges, components and answers (by weight) that
    are the same; NaN where there are none.
    """

    edges: Int[np.ndarray, "edges 4"]
    components: Int[np.ndarray, " components"]
    answers: Int[np.ndarray, " samples"]
    kept: Float[np.ndarray, "resamples 4"]

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it, by name."""
        return {x.name: getattr(self, x.name) for x in fields(self)}


def summed(parts: "list[Tally]") -> Tally:
    """The tallies of several groups of resamples as one."""
    return Tally(
        np.sum([x.edges for x in parts], axis=0), np.sum([x.components for x in parts], axis=0),
        np.sum([x.answers for x in parts], axis=0), np.concatenate([x.kept for x in parts]),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Resampling:
    """A data set whose sequences can be drawn again.

    `behind` is a sparse matrix (edges by sequences) of weights. The edges of sample `i`, from its label to its other
    tokens, are `of_sample[start[i]:start[i + 1]]`: what its context retrieves is the same where each of these is.
    """

    samples: Samples  # those with a choice: of more than one token
    graph: PriorityGraph
    behind: Any
    sequences: int
    of_sample: Int[np.ndarray, " entries"]
    start: Int[np.ndarray, " samples_and_one"]

    @cached_property
    def strict(self) -> Bool[np.ndarray, " edges"]:
        """Which edges are between components."""
        return self.graph.strict

    @cached_property
    def cyclic(self) -> Int[np.ndarray, " components"]:
        """The components of several tokens."""
        return np.flatnonzero(self.graph.component_size > 1)

    @cached_property
    def support(self) -> Int[np.ndarray, " edges"]:
        """How many sequences are behind each edge."""
        return np.diff(self.behind.indptr)

    def expected(self, support: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """How often an order comes out that so many sequences alone make."""
        return np.asarray(1 - (1 - support / self.sequences) ** self.sequences)

    def tally(self, first: int, many: int, seed: int) -> Tally:
        """Resamples `first`, `first` + 1, …: each is drawn by its number, whoever draws it."""
        E, n = len(self.strict), self.sequences
        found = Tally(
            np.zeros((E, 4), np.int64), np.zeros(len(self.cyclic), np.int64),
            np.zeros(len(self.samples), np.int64), np.full((many, 4), np.nan),
        )  # fmt: skip
        every, weight = np.arange(E), self.samples.weight
        for i in range(many):
            rng = named_rng(f"bootstrap {first + i}", seed)
            drawn = np.bincount(rng.integers(n, size=n), minlength=n)
            component, code = self.relations(drawn)
            same = code == np.where(self.strict, STRICT, TIED)
            found.edges[every, code] += 1
            whole = self._whole(component)
            found.components[:] += whole
            answers = np.logical_and.reduceat(same[self.of_sample], self.start[:-1])
            found.answers[:] += answers
            groups = (same[self.strict], same[~self.strict], whole)
            found.kept[i, :3] = [x.mean() if len(x) else np.nan for x in groups]
            found.kept[i, 3] = weight[answers].sum() / weight.sum()
        return found

    def relations(
        self, drawn: Int[np.ndarray, " sequences"]
    ) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " edges"]]:
        """The components of a resample, and what the tokens of each edge of the data are to each other in it."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        graph, start, end = self.graph, self.graph.edge_from, self.graph.edge_to
        there = self.behind @ drawn > 0
        size = len(graph.pair_last)
        joined = csr_array(
            (np.ones(int(there.sum())), (start[there], end[there])), shape=(size, size)
        )
        component = connected_components(joined, directed=True, connection="strong")[1]
        code = np.where(there, STRICT, LOST)
        code[component[start] == component[end]] = TIED
        gone = np.flatnonzero(code == LOST)
        code[gone[self._paths(joined, start[gone], end[gone])]] = STRICT
        # What was tied may come out the other way round; what was strict has no path back to keep.
        gone = np.flatnonzero((code == LOST) & ~self.strict)
        code[gone[self._paths(joined, end[gone], start[gone])]] = REVERSED
        return component, code

    def _whole(self, component: Int[np.ndarray, " pairs"]) -> Bool[np.ndarray, " cyclic"]:
        """Which of the components of several tokens are one component still; none can have grown."""
        inside = np.flatnonzero(self.graph.cyclic)
        inside = inside[np.argsort(self.graph.component[inside], kind="stable")]
        if not len(inside):
            return np.zeros(0, bool)
        head = np.flatnonzero(np.diff(self.graph.component[inside], prepend=-1))
        new = component[inside]
        return np.asarray(np.minimum.reduceat(new, head) == np.maximum.reduceat(new, head))

    def _paths(
        self, joined: Any, start: Int[np.ndarray, " n"], end: Int[np.ndarray, " n"]
    ) -> Bool[np.ndarray, " n"]:
        """Which pairs a path leads between; one last token at a time, where a path can begin and end at all."""
        from scipy.sparse.csgraph import dijkstra

        leads = np.zeros(len(start), bool)
        leaves = np.diff(joined.indptr) > 0
        entered = np.bincount(joined.indices, minlength=joined.shape[0]) > 0
        asked = np.flatnonzero(leaves[start] & entered[end])
        last = self.graph.pair_last[start[asked]]
        for some in np.split(asked, np.flatnonzero(np.diff(last)) + 1) if len(asked) else ():
            own = self.graph.pairs_of(int(self.graph.pair_last[start[some[0]]]))
            part = joined[own, own]
            origins, at = np.unique(start[some], return_inverse=True)
            step = max(1, ROOM // part.shape[0])
            for low in range(0, len(origins), step):
                chunk = np.flatnonzero((at >= low) & (at < low + step))
                far = dijkstra(part, indices=origins[low : low + step] - own.start, unweighted=True)
                leads[some[chunk]] = np.isfinite(far[at[chunk] - low, end[some[chunk]] - own.start])
        return leads


@dataclass(frozen=True)
class Kept:
    """How often things of one sort come out the same: how many there are, in how many of the resamples they are there.

    `always` are the same in every resample, `sure` in at least 95 % of them. `share` is the mean over resamples (of
    answers, by weight), `low` and `high` hold 95 % of these.
    """

    count: int
    always: int
    sure: int
    share: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Order:
    """An order or tie of the data, what is behind it, and in which share of the resamples it is what."""

    last: Label
    winner: Label
    loser: Label
    strict: bool
    weight: float
    sequences: int
    same: float
    turned: float  # of a tie: a strict order, either way
    lost: float


@dataclass(frozen=True)
class Behind:
    """Strict orders behind which so many sequences stand: how often they come out, and would without other paths."""

    sequences: int
    orders: int
    same: float
    alone: float


@dataclass(frozen=True)
class AfterLast:
    """One last token: its samples, its orders and ties, and the mean share of resamples in which they are the same."""

    last: Label
    weight: float
    orders: int
    same: float
    answers: float


@dataclass(frozen=True)
class Stability:
    """What a bootstrap by sequence found: `shaky` are orders and ties below 95 %, those with the most samples first."""

    sequences: int
    resamples: int
    orders: Kept
    ties: Kept
    components: Kept
    answers: Kept
    behind: tuple[Behind, ...]
    after: tuple[AfterLast, ...]
    shaky: tuple[Order, ...]


def stability(data: Resampling, tally: Tally, most: int) -> Stability:
    """The tally of all resamples in words and numbers; at most so many rows of each list."""
    R, graph, word = len(tally.kept), data.graph, data.graph.vocabulary
    same = same_share(data, tally)
    sorts = (same[data.strict], same[~data.strict], tally.components / R, tally.answers / R)
    orders, ties, components, answers = (_kept(x, tally.kept[:, i]) for i, x in enumerate(sorts))
    support, last = data.support[data.strict], graph.pair_last[graph.edge_from]
    sizes, at = np.unique(support, return_inverse=True)
    behind = zip(
        sizes.tolist(), np.bincount(at).tolist(), (np.bincount(at, sorts[0]) / np.bincount(at)).tolist(),
        data.expected(sizes).tolist(), strict=True,
    )  # fmt: skip
    heavy = np.flatnonzero(same < SURE)
    heavy = heavy[np.argsort(-graph.edge_weight[heavy], kind="stable")][:most]
    K, weight = len(word), data.samples.weight
    of_last = np.bincount(data.samples.last, weight, K)
    answered = np.bincount(data.samples.last, weight * sorts[3], K)
    count, sums = np.bincount(last, minlength=K), np.bincount(last, same, K)
    lasts = np.argsort(-of_last, kind="stable")[: min(most, int((of_last > 0).sum()))].tolist()
    return Stability(
        data.sequences, R, orders, ties, components, answers, tuple(Behind(*x) for x in behind),
        tuple(
            AfterLast(word[k], float(of_last[k]), int(count[k]), float(sums[k] / count[k]),
                      float(answered[k] / of_last[k]))
            for k in lasts
        ),
        tuple(
            Order(
                word[last[e]], word[graph.pair_token[graph.edge_from[e]]],
                word[graph.pair_token[graph.edge_to[e]]], bool(data.strict[e]), float(graph.edge_weight[e]),
                int(data.support[e]), float(same[e]),
                0.0 if data.strict[e] else float(tally.edges[e, [STRICT, REVERSED]].sum() / R),
                float(tally.edges[e, LOST] / R),
            )
            for e in heavy.tolist()
        ),
    )  # fmt: skip


def same_share(data: Resampling, tally: Tally) -> Float[np.ndarray, " edges"]:
    """The share of resamples in which each order and tie is what it is in the data."""
    right = np.where(data.strict, STRICT, TIED)
    return tally.edges[np.arange(len(right)), right] / len(tally.kept)


def _kept(share: Float[np.ndarray, " things"], each: Float[np.ndarray, " resamples"]) -> Kept:
    counts = len(share), int((share == 1).sum()), int((share >= SURE).sum())
    if not len(share):
        return Kept(*counts, None, None, None)
    return Kept(*counts, float(each.mean()), *(float(x) for x in np.quantile(each, [0.025, 0.975])))


def resampling(windows: Windows) -> Resampling:
    """The sequences of a corpus, ready to be drawn again.

    >>> from attomaton import as_windows
    >>> again = resampling(as_windows([["tea", "soup", "tea"], ["tea", "soup", "soup", "tea"]], context=3))
    >>> again.sequences, again.support.tolist(), again.expected(np.array([1])).tolist()
    (2, [2, 1], [0.75])
    """
    from scipy.sparse import coo_array

    starts = windows.starts
    sequences = len(windows) if starts is None else len(starts)
    if sequences < 2:
        raise DataError(
            "one sequence: a bootstrap draws sequences, and needs several. Say what the documents of a text are: "
            "--split lines, or paragraphs."
        )
    merged = windows.samples()
    graph = build_graph(merged)
    raw = windows.samples(merge=False)
    raw = raw.take(np.flatnonzero(raw.size > 1))
    made = edge_of(graph, raw)
    owner = raw.sample_of[made >= 0]
    at = (made[made >= 0], windows.sequence_of(raw.source)[owner])
    behind = coo_array((raw.weight[owner], at), shape=(len(graph.edge_from), sequences)).tocsr()
    behind.sum_duplicates()
    merged = merged.take(np.flatnonzero(merged.size > 1))
    of_sample = edge_of(graph, merged)
    return Resampling(
        merged, graph, behind, sequences, of_sample[of_sample >= 0], row_pointer(merged.size - 1)
    )
