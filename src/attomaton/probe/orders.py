"""What the exact graph of a corpus says, drawn as questions to a model: strict orders, ties, and contexts for them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.windows import Windows
from attomaton.mechanics.theory.graph import PriorityGraph, build_graph
from attomaton.mechanics.theory.limit import Limit
from attomaton.mechanics.theory.many import answer_many
from attomaton.numerics import ragged_indices

LOOKED_AT = 4096  # windows of one last token among which a context is looked for
TRIED = 16  # of those that hold both tokens, how many are asked what is retrieved there


@dataclass(frozen=True, eq=False)
class Orders:
    """Pairs after last tokens, by ids of the corpus: `one` outranks `two`, or ties with it by `odds` nats (Luce).

    `weight` is the weight of the samples behind the edge from one to two, `margin` the difference of their scores in
    W_svm (NaN where none was solved).
    """

    last: Int[np.ndarray, " n"]
    one: Int[np.ndarray, " n"]
    two: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    margin: Float[np.ndarray, " n"]
    odds: Float[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.last)

    def rows(self, at: np.ndarray) -> "Orders":
        """Some of them."""
        return Orders(*(getattr(self, name)[at] for name in self.__dataclass_fields__))


def strict(graph: PriorityGraph) -> Int[np.ndarray, " edges"]:
    """The edges between tokens that are not tied."""
    return np.flatnonzero(graph.strict)


def drawn(
    graph: PriorityGraph,
    edge: Int[np.ndarray, " edges"],
    most: int,
    rng: np.random.Generator,
    limit: Limit | None = None,
) -> Orders:
    """At most so many of these edges, drawn alike."""
    at = np.sort(rng.choice(edge, most, replace=False)) if len(edge) > most else edge
    a, b = graph.edge_from[at], graph.edge_to[at]
    none = np.full(len(at), np.nan)
    return Orders(
        graph.pair_last[a].astype(np.int64),
        graph.pair_token[a].astype(np.int64),
        graph.pair_token[b].astype(np.int64),
        graph.edge_weight[at],
        none if limit is None else limit.svm.score[a] - limit.svm.score[b],
        none if limit is None else limit.finite.log_pi[a] - limit.finite.log_pi[b],
    )


def tied(graph: PriorityGraph) -> Int[np.ndarray, " edges"]:
    """The edges between tied tokens, one for each pair that samples compare."""
    edge = np.flatnonzero(~graph.strict)
    a, b = graph.edge_from[edge], graph.edge_to[edge]
    low, high = np.minimum(a, b), np.maximum(a, b)
    _, first = np.unique(low * np.int64(len(graph.pair_last)) + high, return_index=True)
    return np.sort(edge[first])


def held(
    graph: PriorityGraph, windows: Windows, rows: Int[np.ndarray, " rows"]
) -> Bool[np.ndarray, " edges"]:
    """Whether one of these windows ends with the last token of an edge and holds both its tokens."""
    found = np.zeros(len(graph.edge_from), bool)
    for row in rows:
        last = int(windows.last[row])
        pairs, edges = graph.pairs_of(last), graph.edges_of(last)
        here = windows.context(row)
        there = np.isin(graph.pair_token[pairs], here)
        ends = graph.edge_from[edges] - pairs.start, graph.edge_to[edges] - pairs.start
        found[edges] |= there[ends[0]] & there[ends[1]]
    return found


def shuffled_graph(
    windows: Windows, rows: Int[np.ndarray, " rows"], rng: np.random.Generator
) -> PriorityGraph:
    """The graph of the same contexts with labels drawn from them at random."""
    place = windows.left[rows] + (rng.random(len(rows)) * windows.length[rows]).astype(np.int64)
    label = windows.label.copy()
    label[rows] = windows.ids[place]
    return build_graph(replace(windows, label=label).samples(rows))


def permuted(graph: PriorityGraph, asked: Orders, rng: np.random.Generator) -> Orders:
    """The same orders with the tokens of each last token's graph in one another's place."""
    one, two = asked.one.copy(), asked.two.copy()
    for last in np.unique(asked.last):
        tokens = graph.pair_token[graph.pairs_of(int(last))].astype(np.int64)
        place, here = rng.permutation(tokens), asked.last == last
        for side in (one, two):
            side[here] = place[np.searchsorted(tokens, side[here])]
    none = np.full(len(asked), np.nan)
    return Orders(asked.last, one, two, none, none, none)


def other_orders(
    graph: PriorityGraph, asked: Orders, rng: np.random.Generator
) -> Int[np.ndarray, " n"]:
    """For every order what the graph of another last token, drawn at random, says of the same two tokens.

    1 where it ranks them alike, −1 the other way round, 0 where no other graph ranks them strictly.
    """
    edge = strict(graph)
    K = np.int64(len(graph.vocabulary))
    last = graph.pair_last[graph.edge_from[edge]]
    above = graph.pair_token[graph.edge_from[edge]].astype(np.int64)
    below = graph.pair_token[graph.edge_to[edge]].astype(np.int64)
    key = np.minimum(above, below) * K + np.maximum(above, below)
    order = np.argsort(key, kind="stable")
    key, last, up = key[order], last[order], (above < below)[order]
    wanted = np.minimum(asked.one, asked.two) * K + np.maximum(asked.one, asked.two)
    begin, end = np.searchsorted(key, wanted), np.searchsorted(key, wanted, "right")
    said = np.zeros(len(asked), np.int64)
    for i in range(len(asked)):
        there = np.arange(begin[i], end[i])
        there = there[last[there] != asked.last[i]]
        if len(there):
            found = up[rng.choice(there)]
            said[i] = 1 if found == (asked.one[i] < asked.two[i]) else -1
    return said


def context_of(
    windows: Windows, asked: Orders, usable: Bool[np.ndarray, " windows"], rng: np.random.Generator
) -> Int[np.ndarray, " n"]:
    """A window for each order, drawn from those that end with its last token and hold both; −1 where there is none."""
    found = np.full(len(asked), -1)
    for i, there in _holding(windows, asked, usable, rng):
        if len(there):
            found[i] = rng.choice(there)
    return found


def contexts_by_retrieval(
    limit: Limit,
    windows: Windows,
    asked: Orders,
    usable: Bool[np.ndarray, " windows"],
    rng: np.random.Generator,
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Two windows for each order that hold both tokens: one in which the automaton retrieves the first, one in which
    it retrieves a third instead; −1 where none was found.

    Only in the first kind does training push the two apart: where a third token is called for, what is left to both
    is next to nothing, in whatever order.
    """
    order, row = [], []
    # A window whose label is the first token: it is retrieved there
    label = np.full(len(asked), -1)
    for i, there in _holding(windows, asked, usable, rng):
        some = rng.permutation(there)[:TRIED]
        order.append(np.full(len(some), i))
        row.append(some)
        named = there[windows.label[there] == asked.one[i]]
        if len(named):
            label[i] = rng.choice(named)
    at = np.concatenate([*order, np.zeros(0, np.int64)]).astype(np.int64)
    rows = np.concatenate([*row, np.zeros(0, np.int64)]).astype(np.int64)
    won = _retrieves(limit, windows, rows, asked.one[at])
    first, third = np.full(len(asked), -1), np.full(len(asked), -1)
    for found, wanted in ((first, won), (third, ~won)):
        found[at[wanted][::-1]] = rows[wanted][::-1]  # the first that was drawn is written last
    return np.where(first < 0, label, first), third


def _retrieves(
    limit: Limit, windows: Windows, rows: Int[np.ndarray, " n"], token: Int[np.ndarray, " n"]
) -> Bool[np.ndarray, " n"]:
    """Whether the automaton retrieves a token in each window."""
    distinct, where = np.unique(rows, return_inverse=True)
    length = windows.length[distinct].astype(np.int64)
    at = ragged_indices(windows.left[distinct].astype(np.int64), length)
    said = answer_many(limit, windows.ids[at].astype(np.int64), length)
    K = np.int64(len(windows.vocabulary))
    return np.isin(where * K + token, said.owner[said.kept] * K + said.token[said.kept])


def _holding(
    windows: Windows, asked: Orders, usable: Bool[np.ndarray, " windows"], rng: np.random.Generator
) -> Iterator[tuple[int, Int[np.ndarray, " some"]]]:
    """For each order the windows that end with its last token and hold both, of those that are looked at."""
    rows = np.flatnonzero(usable)
    rows = rows[np.argsort(windows.last[rows], kind="stable")]
    lasts = windows.last[rows]
    for last in np.unique(asked.last):
        lo, hi = np.searchsorted(lasts, [last, last + 1])
        some = rows[lo:hi]
        if len(some) > LOOKED_AT:
            some = rng.choice(some, LOOKED_AT, replace=False)
        token = windows.ids[ragged_indices(windows.left[some], windows.length[some])]
        many = np.int64(max(len(some), 1))
        key = np.unique(token * many + np.repeat(np.arange(len(some)), windows.length[some]))
        token, row = key // many, key % many
        for i in np.flatnonzero(asked.last == last):
            first, second = (
                row[slice(*np.searchsorted(token, [x, x + 1]))]
                for x in (asked.one[i], asked.two[i])
            )
            yield int(i), some[np.intersect1d(first, second, assume_unique=True)]


def follow_counts(windows: Windows, asked: Orders) -> tuple[np.ndarray, np.ndarray]:
    """How often each of the two tokens came next after the last token, whatever else was in the context."""
    K = np.int64(len(windows.vocabulary))
    key, many = np.unique(windows.last.astype(np.int64) * K + windows.label, return_counts=True)

    def count(token: np.ndarray) -> np.ndarray:
        at = np.searchsorted(key, asked.last * K + token)
        at = np.minimum(at, len(key) - 1)
        return np.where(key[at] == asked.last * K + token, many[at], 0)

    return count(asked.one), count(asked.two)
