"""Token-priority graphs: who outranks whom, one graph per last token, all kept as one sparse graph.

The nodes are the *pairs* (last token k, token x) that occur together in some sample. A sample with last
token k and label y adds the edges (k, y) → (k, x) for its other tokens x. Pairs in one strongly connected
component are *tied*; a path without return means *outranks*. Level 0 holds what nothing outranks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from attomaton.base.face import Tabular
from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.samples import Samples, expect_samples
from attomaton.corpus.vocabulary import Label, Vocabulary
from attomaton.errors import AssumptionError, UsageError, counted, nearest, visible
from attomaton.numerics import (
    order_by,
    ragged_indices,
    row_pointer,
    sorted_unique,
    sum_by,
    unique_inverse,
)

TABLED = (
    64  # times a last token comes, on average, from which on its pairs are looked up in a table
)


@dataclass(frozen=True, eq=False, repr=False)
class PriorityGraph(Tabular):
    """All priority graphs of a data set.

    Pairs are sorted by (last token, token), components by (last token, level, first token); edges are
    distinct, sorted, and carry the summed weight of the samples that made them. Methods speak of tokens by their ids
    (`vocabulary.id_of`); as a table and as a networkx graph, in words: one row for each edge, `last`, `from`, `to`,
    `weight`.

    >>> from attomaton import build_graph, example_samples
    >>> graph = build_graph(example_samples())
    >>> graph
    PriorityGraph(3 last tokens, 13 pairs, 26 edges, 10 components)
    >>> bell, soup, cake = map(graph.vocabulary.id_of, ["bell", "soup", "cake"])
    >>> graph.outranks(bell, soup, cake), graph.tied(bell, soup, cake)
    (True, False)
    """

    vocabulary: Vocabulary
    pair_last: Int[np.ndarray, " pairs"]
    pair_token: Int[np.ndarray, " pairs"]
    edge_from: Int[np.ndarray, " edges"]
    edge_to: Int[np.ndarray, " edges"]
    edge_weight: Float[np.ndarray, " edges"]
    component: Int[np.ndarray, " pairs"]
    level: Int[np.ndarray, " components"]

    @cached_property
    def last_tokens(self) -> Int[np.ndarray, " lasts"]:
        """The last tokens that have a graph, ascending."""
        return self.pair_last[np.flatnonzero(np.diff(self.pair_last, prepend=-1))]

    @property
    def strict(self) -> Bool[np.ndarray, " edges"]:
        """Which edges are strict priorities: they lead from one component to another."""
        return self.component[self.edge_from] != self.component[self.edge_to]

    @cached_property
    def component_size(self) -> Int[np.ndarray, " components"]:
        """How many tokens each component ties together."""
        return np.bincount(self.component, minlength=len(self.level))

    @cached_property
    def component_number(self) -> Int[np.ndarray, " pairs"]:
        """The component of each pair, numbered from 0 within its last token."""
        return self.component - np.searchsorted(self.component_last, self.pair_last)

    @cached_property
    def component_last(self) -> Int[np.ndarray, " components"]:
        """The last token whose graph each component belongs to."""
        last = np.empty(len(self.level), self.pair_last.dtype)
        last[self.component] = self.pair_last
        return last

    @cached_property
    def cyclic(self) -> Bool[np.ndarray, " pairs"]:
        """Whether a pair is tied with another one."""
        return self.component_size[self.component] > 1

    @cached_property
    def dag(self) -> tuple[Int[np.ndarray, " dag_edges"], Int[np.ndarray, " dag_edges"]]:
        """The condensation: distinct edges between different components, sorted."""
        return self.dag_key // len(self.level), self.dag_key % len(self.level)

    @cached_property
    def dag_key(self) -> Int[np.ndarray, " dag_edges"]:
        """The same as numbers, upper · components + lower, ascending."""
        a, b = self.component[self.edge_from], self.component[self.edge_to]
        return sorted_unique((a * len(self.level) + b)[a != b])

    @cached_property
    def height(self) -> Int[np.ndarray, " components"]:
        """Longest path from each component down to one that outranks nothing."""
        return _levels(*self.dag[::-1], len(self.level))

    def _in_short(self) -> str:
        parts = {
            "last token": self.last_tokens, "pair": self.pair_last, "edge": self.edge_from, "component": self.level,
        }  # fmt: skip
        return ", ".join(counted(len(numbers), noun) for noun, numbers in parts.items())

    def to_arrow(self) -> Any:
        """One row for each edge of each graph, in words, as a `pyarrow.Table`."""
        import pyarrow as pa

        word = self.vocabulary.column
        return pa.table(
            {
                "last": word(self.pair_last[self.edge_from]),
                "from": word(self.pair_token[self.edge_from]),
                "to": word(self.pair_token[self.edge_to]),
                "weight": self.edge_weight,
            }
        )

    def to_networkx(self, last: Label | None = None) -> Any:
        """The graph of one last token, its nodes the tokens, or all graphs at once, their nodes (last token, token).

        A `networkx.DiGraph`; nodes carry `component` and `level`, edges `weight`. Needs networkx. A last token that
        has no graph is a `UsageError`.
        """
        try:
            import networkx as nx
        except ImportError as missing:
            raise UsageError("to_networkx needs networkx: pip install networkx.") from missing
        pairs, edges = slice(0, len(self.pair_last)), slice(0, len(self.edge_from))
        if last is not None:
            pairs, edges = self.pairs_of(k := self.last_token(last)), self.edges_of(k)
        words = [self.vocabulary[x] for x in self.pair_token[pairs]]
        if last is None:
            lasts = (self.vocabulary[k] for k in self.pair_last)
            words = list(zip(lasts, words, strict=True))
        graph, component = nx.DiGraph(), self.component[pairs]
        at = zip(words, component.tolist(), self.level[component].tolist(), strict=True)
        graph.add_nodes_from((word, {"component": c, "level": level}) for word, c, level in at)
        ends = (self.edge_from[edges] - pairs.start, self.edge_to[edges] - pairs.start)
        for i, j, weight in zip(*ends, self.edge_weight[edges].tolist(), strict=True):
            graph.add_edge(words[i], words[j], weight=weight)
        return graph

    def last_token(self, label: Label) -> int:
        """The id of a last token that has a graph; any other label is a `UsageError`."""
        found = self.vocabulary.id_of(label) if label in self.vocabulary else None
        if found is not None and found in self.last_tokens:
            return found
        known = [str(self.vocabulary[k]) for k in self.last_tokens]
        raise UsageError(f"{visible(label)!r} is no last token{nearest(str(label), known)}")

    def pairs_of(self, last: int) -> slice:
        """The pairs of one last token (an empty slice where it has none)."""
        lo, hi = np.searchsorted(self.pair_last, [last, last + 1])
        return slice(int(lo), int(hi))

    def edges_of(self, last: int) -> slice:
        """The edges of one last token's graph."""
        pairs = self.pairs_of(last)
        lo, hi = np.searchsorted(self.edge_from, [pairs.start, pairs.stop])
        return slice(int(lo), int(hi))

    def only(self, last: int) -> "PriorityGraph":
        """The graph of one last token by itself."""
        return self.between(last, last)

    def between(self, least: int, most: int) -> "PriorityGraph":
        """The graphs of some last tokens by themselves."""
        lasts = [least, most + 1]
        pairs = slice(*np.searchsorted(self.pair_last, lasts).tolist())
        edges = slice(*np.searchsorted(self.edge_from, [pairs.start, pairs.stop]).tolist())
        first, end = np.searchsorted(self.component_last, lasts)
        return PriorityGraph(
            self.vocabulary, self.pair_last[pairs], self.pair_token[pairs],
            self.edge_from[edges] - pairs.start, self.edge_to[edges] - pairs.start, self.edge_weight[edges],
            self.component[pairs] - first, self.level[first:end],
        )  # fmt: skip

    def pair(self, last: int, token: int) -> int | None:
        """The index of the pair (last, token), or None where no sample holds both."""
        part = self.pairs_of(last)
        i = part.start + int(np.searchsorted(self.pair_token[part], token))
        return i if i < part.stop and self.pair_token[i] == token else None

    @cached_property
    def _pair_key(self) -> Int[np.ndarray, " pairs"]:
        return self.pair_last.astype(np.int64) * len(self.vocabulary) + self.pair_token

    def pairs(
        self, last: Int[np.ndarray, " n"], token: Int[np.ndarray, " n"]
    ) -> Int[np.ndarray, " n"]:
        """The indices of many pairs at once; −1 where no sample holds both tokens."""
        if not len(self._pair_key):
            return np.full(len(last), -1)
        if len(last) and (last[1:] >= last[:-1]).all():
            head = np.flatnonzero(np.diff(last, prepend=-2))
            if len(last) > TABLED * len(head):
                return self._looked_up(last, token, head)
        key = last.astype(np.int64) * len(self.vocabulary) + token
        at = np.minimum(np.searchsorted(self._pair_key, key), len(self._pair_key) - 1)
        known = (self._pair_key[at] == key) & (token >= 0) & (last >= 0)
        return np.where(known, at, -1)

    def _looked_up(
        self, last: Int[np.ndarray, " n"], token: Int[np.ndarray, " n"], head: Int[np.ndarray, " m"]
    ) -> Int[np.ndarray, " n"]:
        """The same where last tokens ascend, each of them many times: a small table for each of them is quicker."""
        at = np.full(len(self.vocabulary) + 1, -1)  # its last place is that of no token
        found = np.empty(len(last), np.int64)
        spans = np.searchsorted(self.pair_last, [last[head], last[head] + 1]).T.tolist()
        for (lo, hi), begin, end in zip(
            spans, head.tolist(), [*head[1:].tolist(), None], strict=True
        ):
            here = self.pair_token[lo:hi]
            at[here] = np.arange(lo, hi)
            found[begin:end] = at[token[begin:end]]
            at[here] = -1
        return found

    def tied(self, last: int, i: int, j: int) -> bool:
        """i ≍ j: whether paths lead from i to j and back for this last token, or dependent embeddings tie them."""
        p, q = self.pair(last, i), self.pair(last, j)
        return p is not None and q is not None and bool(self.component[p] == self.component[q])

    def outranks(self, last: int, i: int, j: int) -> bool:
        """i ⇒ j: whether a path leads from i to j and none back for this last token; a tie is a step of a path, too."""
        return not self.tied(last, i, j) and self.paths(last, [i], [j], ties=True)[0] is not None

    def path(self, last: int, i: int, j: int) -> list[int] | None:
        """A shortest path of tokens from i to j in the graph of this last token, or None."""
        return self.paths(last, [i], [j])[0]

    def paths(
        self, last: int, origins: Sequence[int], targets: Sequence[int], ties: bool = False
    ) -> list[list[int] | None]:
        """To each target a shortest path from any of the origins, all by one search; None where none leads.

        With `ties` a path may step between tokens that dependent embeddings tie, whether there is an edge or not.
        """
        first = self.pairs_of(last).start
        begin = [p - first for i in origins if (p := self.pair(last, i)) is not None]
        before = self._search(last, np.array(begin, np.int64), ties)
        found: list[list[int] | None] = []
        for j in targets:
            q = self.pair(last, j)
            if q is None or before[q - first] < 0:
                found.append(None)
                continue
            way = [q - first]
            while before[way[-1]] != way[-1]:
                way.append(int(before[way[-1]]))
            found.append([int(self.pair_token[first + x]) for x in reversed(way)])
        return found

    def _search(
        self, last: int, origin: Int[np.ndarray, " origins"], ties: bool
    ) -> Int[np.ndarray, " local_pairs"]:
        """Breadth-first predecessors, in the numbering of this graph: an origin's is itself, −1 where none leads."""
        nodes, edges = self.pairs_of(last), self.edges_of(last)
        start, end = self.edge_from[edges] - nodes.start, self.edge_to[edges] - nodes.start
        begin = np.searchsorted(start, np.arange(nodes.stop - nodes.start + 1))
        before = np.full(nodes.stop - nodes.start, -1)
        before[origin] = origin
        layer = origin
        component = self.component[nodes]
        while len(layer):
            if ties:
                some, first = np.unique(component[layer], return_index=True)
                beside = np.flatnonzero((before < 0) & np.isin(component, some))
                before[beside] = layer[first[np.searchsorted(some, component[beside])]]
                layer = np.concatenate([layer, beside])
            at = ragged_indices(begin[layer], begin[layer + 1] - begin[layer])
            at = at[before[end[at]] < 0]
            before[end[at]] = start[at]
            layer = sorted_unique(end[at])
        return before

    def cycle(self, last: int, i: int, j: int) -> list[int] | None:
        """A closed walk through i and j (first token repeated at the end), the witness that they tie."""
        there, back = self.path(last, i, j), self.path(last, j, i)
        return None if there is None or back is None else there + back[1:]

    def linear_components(self, last: int) -> Int[np.ndarray, " components"]:
        """The components, numbered within this last token, that no cycles join but dependent embeddings."""
        own = self.only(last)
        cycle = connected(own.edge_from, own.edge_to, len(own.component))
        parts = np.unique(np.stack([own.component, cycle]), axis=1)[0]
        return np.unique(parts[1:][parts[1:] == parts[:-1]])

    def priority_order(self, last: int) -> list[int]:
        """Tokens of one graph from highest to lowest priority; impossible, with a witness, on a cycle."""
        part = self.pairs_of(last)
        tied = np.flatnonzero(self.cyclic[part]) + part.start
        if len(tied):
            c = self.component[tied[0]]
            i, j = self.pair_token[tied[self.component[tied] == c]][:2]
            walk = self.cycle(last, int(i), int(j))
            what, words = "its priority graph has a cycle", [i, j] if walk is None else walk
            if walk is None:
                what = "its embeddings tie tokens"
            said = (" → " if walk else " ~ ").join(repr(self.vocabulary[x]) for x in words)
            raise AssumptionError(
                f"last token {self.vocabulary[last]!r}: {what}, so no order "
                f"of single tokens exists:\n  {said}\nUse levels and components instead."
            )
        order = np.argsort(self.level[self.component[part]], kind="stable")
        return [int(x) for x in self.pair_token[part][order]]


def build_graph(samples: Samples) -> PriorityGraph:
    """The priority graphs of all samples, with their components and levels.

    >>> from attomaton.corpus.windows import samples_from_sequences
    >>> graph = build_graph(samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1]))
    >>> graph.priority_order(2), graph.outranks(2, 0, 2)
    ([0, 1, 2], True)
    """
    expect_samples(samples)
    K = len(samples.vocabulary)
    owner = samples.sample_of
    key, pair = samples.pair_index()
    own = samples.token == samples.label[owner]
    label_pair = pair[own]  # one per sample: a label occurs in its context
    start, end = label_pair[owner[~own]], pair[~own]
    edge, which = unique_inverse(start * np.int64(len(key)) + end)
    weight = sum_by(which, samples.weight[owner[~own]], len(edge))
    edge_from, edge_to = edge // len(key), edge % len(key)
    alone = np.arange(len(key))
    graph = PriorityGraph(
        samples.vocabulary, key // K, key % K, edge_from, edge_to, weight, alone, 0 * alone
    )
    return regrouped(graph, connected(edge_from, edge_to, len(key)))


def connected(
    a: Int[np.ndarray, " edges"], b: Int[np.ndarray, " edges"], nodes: int, *, directed: bool = True
) -> Int[np.ndarray, " nodes"]:
    """The part of each node that distinct edges a → b make of so many: strongly connected ones, where `directed`."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    edges = csr_array((np.ones(len(a), bool), (a, b)), shape=(nodes, nodes))
    return connected_components(edges, directed=directed, connection="strong")[1]


def regrouped(graph: PriorityGraph, group: Int[np.ndarray, " pairs"]) -> PriorityGraph:
    """The same pairs and edges with other components: pairs of one group, which no edges leave and enter again."""
    count = int(group.max(initial=-1)) + 1
    level = _levels(group[graph.edge_from], group[graph.edge_to], count)
    # A pair's index already sorts by both ends.
    head = np.empty(count, np.int64)
    head[group[::-1]] = np.arange(len(group))[::-1]  # of several the first, so written last
    order = order_by(graph.pair_last[head], level, head)
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    return replace(graph, component=rank[group], level=level[order])


def _levels(
    a: Int[np.ndarray, " edges"], b: Int[np.ndarray, " edges"], count: int
) -> Int[np.ndarray, " components"]:
    """Longest path from a source to each component, by peeling off sources layer after layer."""
    key = sorted_unique((a.astype(np.int64) * count + b)[a != b])
    a, b = key // count, key % count
    begin = row_pointer(np.bincount(a, minlength=count))
    waiting = np.bincount(b, minlength=count)
    level = np.zeros(count, np.int64)
    layer = np.flatnonzero(waiting == 0)
    depth = 0
    while len(layer):
        level[layer] = depth
        below = b[ragged_indices(begin[layer], begin[layer + 1] - begin[layer])]
        np.subtract.at(waiting, below, 1)
        # Every component enters a layer once: when its last incoming edge has been taken away.
        layer = sorted_unique(below[waiting[below] == 0])
        depth += 1
    return level
