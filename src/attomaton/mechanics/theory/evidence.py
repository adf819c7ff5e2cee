r"""What orders rest on: who was seen together, how many samples carry a priority, and what a new context would find.

Two tokens have odds after a last token only where the data compare them. A token that never came next has none: it is
below whatever came next beside it, and nothing else is known of it. Among the tokens that did, those seen in one
context, directly or through others, form a *group*: enough samples of the same kind decide everything inside it
(Ildiz et al., arXiv 2402.13512), and no number of them says anything across groups.

An order i over j that no sample contradicts, *0 of n*, bounds the probability p of the contrary:
$(1-p)^n \ge 1 - 0.95$, so $p \le 1 - 0.05^{1/n} \approx 3/n$. Where contexts differ, p is their mean: the product of
different $1 - p_s$ is smaller still. Any order is one contrary row away from a tie: a context with both, and j next.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.samples import Samples
from attomaton.mechanics.theory.graph import PriorityGraph, connected
from attomaton.numerics import ragged_indices, row_pointer, sorted_unique, sum_by

LEVEL = 0.95
DETERMINED, UNDETERMINED, UNSEEN = VERDICTS = ("determined", "undetermined", "unseen")


def contrary_bound(samples: float | int) -> float:
    """The largest probability of the contrary that 0 of n samples leave open, at 95 %; n may be a weight.

    >>> [round(contrary_bound(n), 6) for n in (1, 10, 3000, 0)]
    [0.95, 0.258866, 0.000998, 1.0]
    """
    if samples == 0:
        return 1.0
    return -math.expm1(math.log1p(-LEVEL) / samples)


def label_weight(graph: PriorityGraph, samples: Samples) -> Float[np.ndarray, " pairs"]:
    """How often each token came next after each last token."""
    pair = graph.pairs(samples.last, samples.label)
    return sum_by(pair, samples.weight, len(graph.pair_last))


def seen_together(graph: PriorityGraph, samples: Samples) -> Int[np.ndarray, " pairs"]:
    """The group of each pair, numbered from 0 within its last token; −1 where the token never came next.

    A context joins its label with every token in it, so groups are what edges join, in whichever direction.

    >>> from attomaton import build_graph, samples_from_sequences
    >>> samples = samples_from_sequences([["a", "b", "q"], ["b", "a", "q"], ["c", "q"]], ["a", "b", "c"])
    >>> seen_together(build_graph(samples), samples).tolist()  # of a, b, q and c
    [0, 0, -1, 1]
    """
    came = np.flatnonzero(label_weight(graph, samples) > 0)
    number = np.full(len(graph.pair_last), -1)
    number[came] = np.arange(len(came))
    a, b = number[graph.edge_from], number[graph.edge_to]
    both = (a >= 0) & (b >= 0)
    group = connected(a[both], b[both], len(came), directed=False)
    # By first appearance: pairs are sorted by last token, so numbers begin anew with each.
    head = np.unique(group, return_index=True)[1]
    rank = np.empty(len(head), np.int64)
    rank[np.argsort(head)] = np.arange(len(head))
    last = graph.pair_last[came]
    before = np.searchsorted(last[np.sort(head)], last)
    answer = np.full(len(graph.pair_last), -1)
    answer[came] = rank[group] - before
    return answer


def edge_of(graph: PriorityGraph, samples: Samples) -> Int[np.ndarray, " incidences"]:
    """The edge that each token of each sample made with its label; −1 for the label itself."""
    owner = samples.sample_of
    label = graph.pairs(samples.last, samples.label)[owner]
    pair = graph.pairs(samples.last[owner], samples.token)
    n = np.int64(len(graph.pair_last))
    at = np.searchsorted(graph.edge_from * n + graph.edge_to, label * n + pair)
    return np.where(pair == label, -1, at)


def edge_rows(graph: PriorityGraph, samples: Samples) -> Int[np.ndarray, " edges"]:
    """How many raw rows carry each edge, whatever they weigh: labelled with its upper end, holding its lower one."""
    if np.array_equal(samples.rows, samples.weight):
        return graph.edge_weight.astype(np.int64)
    edge = edge_of(graph, samples)
    rows = samples.rows[samples.sample_of[edge >= 0]].astype(float)
    return sum_by(edge[edge >= 0], rows, len(graph.edge_from)).astype(np.int64)


class Steps(NamedTuple):
    """Which components outrank which, written out: by one step (`upper`, `lower`), and by paths between those that
    outrank something (`above`, `below`), each sorted; `before` has what is directly above each component, one after
    the other, `many` of them."""

    upper: Int[np.ndarray, " dag"]
    lower: Int[np.ndarray, " dag"]
    above: Int[np.ndarray, " paths"]
    below: Int[np.ndarray, " paths"]
    before: Int[np.ndarray, " dag"]
    many: Int[np.ndarray, " components"]


@dataclass(frozen=True, eq=False)
class Reach:
    """Which components outrank which, for many questions at once.

    Most components outrank nothing, so paths are kept between the others alone; a last step may lead anywhere.
    """

    graph: PriorityGraph

    @classmethod
    def joined(cls, graph: PriorityGraph, parts: Sequence[Steps]) -> "Reach":
        """That of a graph whose edges nobody needs any more: from the `steps` of parts of it, in their order."""
        n = len(graph.level)
        first = row_pointer(np.array([len(part.many) for part in parts]))[:-1].tolist()
        reach = cls(graph)
        vars(reach).update(
            _direct=np.concatenate([_key(x.upper, x.lower, i, n) for x, i in zip(parts, first, strict=True)]),
            _path=np.concatenate([_key(x.above, x.below, i, n) for x, i in zip(parts, first, strict=True)]),
            _above=(
                row_pointer(np.concatenate([x.many for x in parts])),
                np.concatenate([x.before + i for x, i in zip(parts, first, strict=True)]),
            ),
        )  # fmt: skip
        return reach

    def steps(self) -> Steps:
        """What it rests on, written out."""
        n = len(self.graph.level)
        start, before = self._above
        keys = (*self.graph.dag, self._path // n, self._path % n, before, np.diff(start))
        return Steps(*(x.astype(np.int32) for x in keys))

    @cached_property
    def _direct(self) -> Int[np.ndarray, " dag"]:
        """Single steps, as keys."""
        return self.graph.dag_key

    @cached_property
    def _path(self) -> Int[np.ndarray, " paths"]:
        """Paths between components that outrank something, as keys."""
        from scipy.sparse import csr_array

        a, b = self.graph.dag
        n = len(self.graph.level)
        upper = sorted_unique(a)
        number = np.full(n, -1)
        number[upper] = np.arange(len(upper))
        inner = number[b] >= 0
        ends = number[a[inner]], number[b[inner]]
        step = csr_array((np.ones(inner.sum(), np.int8), ends), shape=(len(upper),) * 2)
        paths, known = step, -1
        while paths.nnz > known:
            known = paths.nnz
            paths = paths + paths @ step
            paths.data[:] = 1
        row = np.repeat(upper, np.diff(paths.indptr))
        return np.sort(row * n + upper[paths.indices])

    @cached_property
    def _above(self) -> tuple[Int[np.ndarray, " components_and_one"], Int[np.ndarray, " dag"]]:
        a, b = self.graph.dag
        order = np.argsort(b, kind="stable")
        return row_pointer(np.bincount(b, minlength=len(self.graph.level))), a[order]

    def __call__(
        self, upper: Int[np.ndarray, " n"], lower: Int[np.ndarray, " n"]
    ) -> Bool[np.ndarray, " n"]:
        """Whether the one component outranks the other."""
        n, level = len(self.graph.level), self.graph.level
        order = np.argsort(upper * n + lower)  # neighbours are looked up in one place
        upper, lower = upper[order], lower[order]
        found = _among(upper * n + lower, self._direct)
        open_ = np.flatnonzero(~found & (level[upper] + 1 < level[lower]))
        found[open_] = self.around(upper[open_], lower[open_])
        answer = np.empty_like(found)
        answer[order] = found
        return answer

    def around(
        self, upper: Int[np.ndarray, " n"], lower: Int[np.ndarray, " n"]
    ) -> Bool[np.ndarray, " n"]:
        """Whether a path of two steps or more leads from the one to the other."""
        start, above = self._above
        many = start[lower + 1] - start[lower]
        middle = above[ragged_indices(start[lower], many)]
        asked = np.repeat(np.arange(len(lower)), many)
        there = _among(upper[asked] * len(self.graph.level) + middle, self._path)
        return np.bincount(asked[there], minlength=len(lower)) > 0


def _key(
    upper: Int[np.ndarray, " n"], lower: Int[np.ndarray, " n"], first: int, many: int
) -> Int[np.ndarray, " n"]:
    """Steps of a part as keys among `many` components, the first of which is number `first` of them."""
    return (upper.astype(np.int64) + first) * many + lower + first


def _among(key: Int[np.ndarray, " n"], known: Int[np.ndarray, " known"]) -> Bool[np.ndarray, " n"]:
    """Which keys are among sorted ones."""
    at = np.minimum(np.searchsorted(known, key), max(len(known) - 1, 0))
    return known[at] == key if len(known) else np.zeros(len(key), bool)


def resting_on_one(graph: PriorityGraph, rows: Int[np.ndarray, " edges"]) -> Int[np.ndarray, " n"]:
    """The edges between components that are all there is of an order: one row carries it, no other path leads there."""
    a, b = graph.component[graph.edge_from], graph.component[graph.edge_to]
    between = np.flatnonzero(a != b)
    n = len(graph.level)
    key, which = np.unique((a * n + b)[between], return_inverse=True)
    alone = sum_by(which, rows[between].astype(float), len(key))[which] == 1
    at = between[alone]
    return at[~Reach(graph).around(a[at], b[at])]


@dataclass(frozen=True, eq=False)
class Judged:
    """What a graph makes of contexts: a place in `VERDICTS` for each, and what stands in the way of an answer.

    `top` is the highest component of a context, the lowest number among equals; `rival` the highest one that it does
    not outrank, `rivals` how many of them there are; −1 and 0 where there is none, or where something is unseen.
    `missing` counts the tokens of a context that were never seen with its last token.
    """

    verdict: Int[np.ndarray, " contexts"]
    top: Int[np.ndarray, " contexts"]
    rival: Int[np.ndarray, " contexts"]
    rivals: Int[np.ndarray, " contexts"]
    missing: Int[np.ndarray, " contexts"]


def judge(
    graph: PriorityGraph,
    last: Int[np.ndarray, " contexts"],
    start: Int[np.ndarray, " contexts_and_one"],
    token: Int[np.ndarray, " entries"],
    reach: Reach | None = None,
    pair: Int[np.ndarray, " entries"] | None = None,
) -> Judged:
    """Whether data decide which tokens of each context may come next; −1 is a token outside the vocabulary.

    *Determined*: one component outranks all others in it. *Undetermined*: the data leave two unrelated, and training
    decides by the scores of W_svm alone. *Unseen*: a token of it, or the last, was never seen so. Entries may come with
    their pairs, where these were looked up before.
    """
    owner = np.repeat(np.arange(len(last)), np.diff(start))
    pair = graph.pairs(last[owner], token) if pair is None else pair
    missing = np.bincount(owner[pair < 0], minlength=len(last))
    seen = (missing == 0) & (np.diff(start) > 0)
    at = np.flatnonzero(seen[owner])
    component, of = graph.component[pair[at]], owner[at]
    # One entry for each component of a context, the highest level first.
    key = sorted_unique((of * (int(graph.level.max(initial=0)) + 1) + graph.level[component])
                        * len(graph.level) + component)  # fmt: skip
    component = key % len(graph.level)
    of = key // len(graph.level) // (int(graph.level.max(initial=0)) + 1)
    head = np.flatnonzero(np.diff(of, prepend=-1))
    top, rival = np.full(len(last), -1), np.full(len(last), -1)
    top[of[head]] = component[head]
    other = component != top[of]
    apart = np.flatnonzero(other)
    apart = apart[~(reach or Reach(graph))(top[of[apart]], component[apart])]
    rivals = np.bincount(of[apart], minlength=len(last))
    rival[of[apart[::-1]]] = component[apart[::-1]]  # of several the first, so written last
    verdict = np.where(~seen, 2, np.where(rivals > 0, 1, 0))
    return Judged(verdict, top, rival, rivals, missing)
