r"""The limit of one last token whose samples are divided into shards, so that nobody ever holds all of them.

Everything the limit needs of the samples is a union, a maximum or a sum over them:

- The graph is the union of the graphs of the shards. Only labels have edges that leave them, so only labels can tie:
  components are found among them, the edges added shard by shard and condensed on the way. What Graph-SVM needs is
  then one edge between any two components, however many samples there are.
- Loss, gradient and Hessian of a Luce fit are sums over choices, so they are sums over shards. A component of up to
  `CAREFUL` tokens takes Newton steps from summed flows and conductances, exactly those of `finite`; a larger one
  takes conjugate gradients, each product with its Hessian a sum again.
- Margins are those of edges: the worst of all shards is the worst of all samples.

Functions here work on one shard, or on what shards have answered; who asks them, and where, is no business of theirs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.corpus.samples import Samples
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.mechanics.theory.finite import (
    CONVERGED,
    FAR,
    LEAPS,
    LONGEST_STEP,
    SETTLED,
    Choices,
    Flows,
    Found,
    as_choices,
    conjugate_gradients,
    distance,
    luce_loss,
    relative_rounding,
    square_root,
)
from attomaton.mechanics.theory.graph import PriorityGraph, connected, regrouped
from attomaton.mechanics.theory.laplacian import EPS, balance, newton_step, spanning_forest
from attomaton.numerics import (
    inner,
    ragged_indices,
    row_pointer,
    sorted_unique,
    sum_by,
    unique_inverse,
)

BLOCK = (
    1 << 18
)  # entries of choices that are looked at together: what is made of them stays near the processor
HELD = 1 << 23  # edges of a bound that are held together; of more, only their forest
STEPS = 200  # of Newton, at most; of careful ones ten times as many


class Edges(NamedTuple):
    """Distinct edges of one last token's graph, sorted by label, then token, with the weight of their samples."""

    label: Int[np.ndarray, " edges"]
    token: Int[np.ndarray, " edges"]
    weight: Float[np.ndarray, " edges"]

    def of(self, label: int) -> "Edges":
        """Those that leave one label."""
        at = slice(*np.searchsorted(self.label, [label, label + 1]).tolist())
        return Edges(self.label[at], self.token[at], self.weight[at])


Shards = Callable[[], Iterable[Edges]]  # the edges of one shard after the other


def shard_edges(samples: Samples) -> Edges:
    """The edges that samples of one last token make."""
    K, owner = len(samples.vocabulary), samples.sample_of
    other = samples.token != samples.label[owner]
    owner, token = owner[other], samples.token[other]
    return united([Edges(samples.label[owner], token, samples.weight[owner])], K)


def united(several: Sequence[Edges], K: int) -> Edges:
    """The union of some edges over K tokens, their weights added up."""
    label, token, weight = (np.concatenate(x) for x in zip(*several, strict=True))
    edge, which = unique_inverse(label.astype(np.int64) * K + token)
    return Edges(edge // K, edge % K, sum_by(which, weight, len(edge)))


# The graph


def outline(edges: Edges, K: int) -> Edges:
    """Few edges over K tokens that tie and reach what all of these do: so shards are outlined before they are merged.

    Labels tied by these edges alone become a star, to and from the first of them, without weight. Of the edges that
    lead from them to one token elsewhere the first is kept: so is then the first between any two components.
    """
    is_label = np.zeros(K, bool)
    is_label[edges.label] = True
    inner = is_label[edges.token]
    group = _condensed(np.arange(K), [edges.label[inner] * np.int64(K) + edges.token[inner]])[0]
    away = np.flatnonzero(group[edges.label] != group[edges.token])
    key, which = unique_inverse(group[edges.label[away]] * K + edges.token[away])
    first = np.empty(len(key), np.int64)
    first[which[::-1]] = away[::-1]  # of several the last one written stays: the first
    tied = np.flatnonzero(is_label & (group != np.arange(K)))
    label = np.concatenate([edges.label[first], tied, group[tied]])
    token = np.concatenate([edges.token[first], group[tied], tied])
    order = np.argsort(label * np.int64(K) + token)
    weight = np.concatenate([edges.weight[first], np.zeros(2 * len(tied))])
    return Edges(label[order], token[order], weight[order])


def tied_groups(K: int, shards: Shards, most: int) -> Int[np.ndarray, " vocab"]:
    """A number for each of K tokens, the same for tokens of one strongly connected component.

    No more than `most` edges are held beside those of one shard: what is tied already counts as one node.
    """
    is_label = np.zeros(K, bool)
    for edges in shards():
        is_label[edges.label] = True
    group, held, many = np.arange(K), [np.zeros(0, np.int64)], 0
    for edges in shards():
        between = is_label[edges.token]
        held.append(_between(group, edges.label[between], edges.token[between]))
        many += len(held[-1])
        if many > most:
            group, held = _condensed(group, held)
            many = 2 * len(held[0])  # so that what cannot be condensed is not tried at every shard
    return _condensed(group, held)[0]


def _between(
    group: Int[np.ndarray, " vocab"], a: Int[np.ndarray, " n"], b: Int[np.ndarray, " n"]
) -> Int[np.ndarray, " edges"]:
    """The distinct edges between groups as numbers, upper · K + lower."""
    a, b = group[a], group[b]
    return sorted_unique((a * len(group) + b)[a != b])


def _condensed(
    group: Int[np.ndarray, " vocab"], held: list[Int[np.ndarray, " _"]]
) -> tuple[Int[np.ndarray, " vocab"], list[Int[np.ndarray, " _"]]]:
    """Groups joined where edges lead from one to another and back, and the edges that are left."""
    K = len(group)
    key = sorted_unique(np.concatenate(held))
    ends = (key // K, key % K)
    strong = connected(*ends, K)
    # A component is called by the first of its tokens.
    first = np.full(K, K)
    np.minimum.at(first, strong, np.arange(K))
    name = first[strong]
    return name[group], [_between(name, *ends)]


def condensed_graph(
    vocabulary: Vocabulary, last: int, group: Int[np.ndarray, " vocab"], shards: Shards
) -> PriorityGraph:
    """All pairs of a last token with their components, and of its edges one between any two components: the first."""
    K = len(vocabulary)
    seen = np.zeros(K, bool)
    seen[last] = True
    key, edge = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for edges in shards():
        seen[edges.label] = seen[edges.token] = True
        a, b = group[edges.label], group[edges.token]
        apart = np.flatnonzero(a != b)
        key = np.concatenate([key, a[apart] * K + b[apart]])
        edge = np.concatenate([edge, edges.label[apart] * np.int64(K) + edges.token[apart]])
        order = np.lexsort((edge, key))
        order = order[np.flatnonzero(np.diff(key[order], prepend=-1))]
        key, edge = key[order], edge[order]
    token = np.flatnonzero(seen)
    place = np.cumsum(seen) - 1
    edge = np.sort(edge)
    graph = PriorityGraph(
        vocabulary, np.full(len(token), last, np.int64), token, place[edge // K], place[edge % K],
        np.ones(len(edge)), np.arange(len(token)), np.zeros(len(token), np.int64),
    )  # fmt: skip
    return regrouped(graph, np.unique(group[token], return_inverse=True)[1])


def as_samples(graph: PriorityGraph) -> Samples:
    """A sample for each edge of the graph of one last token: of two tokens, the upper one its label."""
    n, last = len(graph.edge_from), int(graph.pair_last[0])
    a, b = graph.pair_token[graph.edge_from], graph.pair_token[graph.edge_to]
    token = np.sort(np.stack([a, b], axis=1), axis=1).astype(np.int32).ravel()
    one = np.ones(n, np.int64)
    return Samples(
        graph.vocabulary, np.full(n, last, np.int32), a.astype(np.int32), np.ones(n), 2 * np.arange(n + 1),
        token, np.ones(2 * n, np.int32), one, np.arange(n),
    )  # fmt: skip


def worst_margin(graph: PriorityGraph, score: Float[np.ndarray, " pairs"], edges: Edges) -> float:
    """The worst violated margin of all samples that made these edges: each of theirs is that of an edge."""
    a, b = (np.searchsorted(graph.pair_token, x) for x in (edges.label, edges.token))
    margin = score[a] - score[b]
    tied = graph.component[a] == graph.component[b]
    return float(np.where(tied, np.abs(margin), 1.0 - margin).max(initial=0.0))


def edge_multipliers(
    graph: PriorityGraph, multiplier: Float[np.ndarray, " dag_edges"], edges: Edges
) -> Float[np.ndarray, " edges"]:
    """The multiplier each of these edges carries; the condensed graph holds those that carry one."""
    K, n = len(graph.vocabulary), len(graph.level)
    a, b = graph.component[graph.edge_from], graph.component[graph.edge_to]
    carried = np.empty(len(a))
    carried[np.argsort(a * n + b)] = multiplier
    held = graph.pair_token[graph.edge_from] * np.int64(K) + graph.pair_token[graph.edge_to]
    key = edges.label.astype(np.int64) * K + edges.token
    found = np.zeros(len(key))
    if len(held):
        at = np.minimum(np.searchsorted(held, key), len(held) - 1)
        found = np.where(held[at] == key, carried[at], 0.0)
    return found


# Luce fits


class Ties(NamedTuple):
    """Cyclic samples of a shard, those of one component together; tokens are numbered inside their component.

    Those of `component[i]` are the rows from `first[i]` up to `first[i + 1]`, with so many `entries` and such `weights`
    in all; the rest is as in `Samples`.
    """

    component: Int[np.ndarray, " components"]
    first: Int[np.ndarray, " components_and_one"]
    entries: Int[np.ndarray, " components"]
    weights: Float[np.ndarray, " components"]
    winner: Int[np.ndarray, " rows"]
    weight: Float[np.ndarray, " rows"]
    start: Int[np.ndarray, " rows_and_one"]
    item: Int[np.ndarray, " entries"]
    counts: Int[np.ndarray, " entries"]
    rows: Int[np.ndarray, " rows"]
    source: Int[np.ndarray, " rows"]

    def pieces(self, i: int, most: int) -> Int[np.ndarray, " pieces_and_one"]:
        """Where pieces of its i-th component begin and end, rows of about `most` entries each."""
        a, b = self.first[i : i + 2].tolist()
        begin = self.start[a:b]
        cuts = np.arange(pieces_of(int(self.entries[i]), most)) * most
        return np.append(a + np.searchsorted(begin, begin[0] + cuts), b)


def pieces_of(entries: int, most: int) -> int:
    """In how many pieces so many entries are looked at.

    >>> pieces_of(8, 4), pieces_of(9, 4)
    (2, 3)
    """
    return -(-entries // most)


def _items(
    graph: PriorityGraph,
) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " components"]]:
    """The pairs of one last token by component, and where each component begins among them."""
    size = np.bincount(graph.component, minlength=len(graph.level))
    return np.argsort(graph.component, kind="stable"), row_pointer(size)[:-1]


def ties_of(graph: PriorityGraph, cyclic: Samples) -> Ties:
    """Cyclic samples of one last token, sorted by component."""
    order, begin = _items(graph)
    number = np.zeros(len(graph.vocabulary), np.int32)
    number[graph.pair_token[order]] = np.arange(len(order)) - begin[graph.component[order]]
    component = graph.component[np.searchsorted(graph.pair_token, cyclic.label)]
    rows = np.argsort(component, kind="stable")
    component, cyclic = component[rows], cyclic.take(rows)
    head = np.flatnonzero(np.diff(component, prepend=-1))
    first = np.append(head, len(component))
    nothing = not len(head)
    return Ties(
        component[head], first, np.diff(cyclic.start[first]),
        np.zeros(0) if nothing else np.add.reduceat(cyclic.weight, head),
        number[cyclic.label], cyclic.weight, cyclic.start, number[cyclic.token], cyclic.count,
        cyclic.rows, cyclic.source,
    )  # fmt: skip


def tied_samples(graph: PriorityGraph, ties: Ties, chosen: Int[np.ndarray, " chosen"]) -> Samples:
    """The samples of the chosen components, of those that are there."""
    order, begin = _items(graph)
    some = np.flatnonzero(np.isin(ties.component, chosen))
    length = np.diff(ties.first)[some]
    rows = ragged_indices(ties.first[some], length)
    size = np.diff(ties.start)[rows]
    at = ragged_indices(ties.start[rows], size)
    first = np.repeat(begin[ties.component[some]], length)  # of the component of each row
    token = graph.pair_token[order].astype(np.int32)
    last = np.full(len(rows), graph.pair_last[0], np.int32)
    return Samples(
        graph.vocabulary, last, token[first + ties.winner[rows]], ties.weight[rows], row_pointer(size),
        token[np.repeat(first, size) + ties.item[at]], ties.counts[at], ties.rows[rows], ties.source[rows],
    )  # fmt: skip


def some_choices(ties: Ties, rows: range, size: int, scale: float) -> Iterator[Choices]:
    """Some rows of one component of so many tokens as choices, weights times `scale`, a block of entries at a time."""
    group = np.zeros(size, np.int64)
    for a, b in _blocks(ties, rows):
        start = ties.start[a : b + 1]
        at = slice(start[0], start[-1])
        yield Choices(
            start - start[0], ties.item[at].astype(np.int64), np.log(ties.counts[at]),
            ties.winner[a:b].astype(np.int64), ties.weight[a:b] * scale, group,
        )  # fmt: skip


def _blocks(ties: Ties, rows: range) -> Iterator[tuple[int, int]]:
    """Rows in blocks of about `BLOCK` entries."""
    if len(rows):
        start = ties.start[rows.start : rows.stop]
        cuts = np.flatnonzero(np.diff((start - start[0]) // BLOCK)) + 1 + rows.start
        yield from pairwise([rows.start, *cuts.tolist(), rows.stop])


class Dense(NamedTuple):
    """What a careful step needs of the choices of a component: flows and conductances between its tokens.

    `flow[i, j]` is what i takes away where j won, `terms` how many numbers were added up for it, `noise` the relative
    rounding error of one.
    """

    loss: float
    flow: Float[np.ndarray, "size size"]
    terms: Int[np.ndarray, "size size"]
    conductance: Float[np.ndarray, "size size"]
    noise: float

    def plus(self, other: "Dense") -> "Dense":
        """Of both together; a sum more is a rounding more."""
        return Dense(
            self.loss + other.loss, self.flow + other.flow, self.terms + other.terms,
            self.conductance + other.conductance, max(self.noise, other.noise) + EPS,
        )  # fmt: skip


def dense_sums(choices: Iterable[Choices], theta: Float[np.ndarray, " size"]) -> Dense:
    """Of one shard's choices."""
    s = len(theta)
    nothing = np.zeros((s, s))
    found = Dense(0.0, nothing, nothing.astype(np.int64), nothing, 0.0)
    for part in choices:
        look = luce_loss(part, theta)
        losers = np.flatnonzero(part.item != part.winner[part.choice_of])
        at = part.item[losers] * s + part.winner[part.choice_of[losers]]
        flow = sum_by(at, (part.entry_weight * look.p)[losers], s * s).reshape(s, s)
        half = square_root(part, look.p)
        conductance = (half.T @ half).toarray()
        np.fill_diagonal(conductance, 0.0)
        terms = np.bincount(at, minlength=s * s).reshape(s, s)
        noise = float(relative_rounding(part, theta)[0])
        found = found.plus(Dense(float(look.loss.sum()), flow, terms, conductance, noise))
    return found


class Keep(NamedTuple):
    """How far a fit has come: what is kept of it between processes."""

    theta: Float[np.ndarray, " size"]
    steps: int = 0
    arrived: bool = False


def careful_fit(
    sums: Callable[[Float[np.ndarray, " size"]], Dense],
    weight: float,
    begin: Keep,
    keep: Callable[[Keep], None],
) -> Found:
    """A component of few tokens, by the steps of `finite` from sums over shards; its choices have this `weight`."""
    theta, steps, _ = begin
    s = len(theta)
    real = np.ones((1, s), bool)
    error = np.inf
    while True:
        found = sums(theta)
        noise = EPS * found.terms + found.noise
        answer = newton_step(found.conductance[None], found.flow[None], noise[None], real)
        step, doubt = answer.step[0], float(answer.error[0])
        width = float(np.ptp(step))
        error = float(distance(np.array([width + doubt]), np.array([s]))[0])
        leap = steps < LEAPS and not width + doubt < FAR
        if steps >= 10 * STEPS or (not leap and width <= max(SETTLED, doubt)):
            break
        # No two tokens of a choice move apart by more than the width: shortened by it, the loss falls for certain.
        step = balance(found.flow[None], real)[0] if leap else step * (np.log1p(width) / width)
        theta, steps = theta + step, steps + 1
        theta = theta - theta.mean()
        keep(Keep(theta, steps))
    slope = float(np.abs(found.flow.sum(axis=1) - found.flow.sum(axis=0)).max()) / weight
    return Found(theta, found.loss, slope, error + 4 * EPS * float(np.abs(theta).max()))


class Sparse(NamedTuple):
    """What a Newton step of a large component begins with: its loss, gradient, and the diagonal of its Hessian."""

    loss: float
    gradient: Float[np.ndarray, " size"]
    diagonal: Float[np.ndarray, " size"]

    def plus(self, other: "Sparse") -> "Sparse":
        """Of both together."""
        return Sparse(
            self.loss + other.loss, self.gradient + other.gradient, self.diagonal + other.diagonal
        )


def sparse_sums(
    choices: Iterable[Choices],
    theta: Float[np.ndarray, " size"],
    keep: Callable[[Any], object] = lambda half: None,
) -> Sparse:
    """Of one shard's choices; `keep` is given what products with the Hessian need of them, some rows at a time."""
    found = Sparse(0.0, np.zeros(len(theta)), np.zeros(len(theta)))
    for part in choices:
        look = luce_loss(part, theta)
        keep(square_root(part, look.p))
        diagonal = sum_by(part.item, part.entry_weight * look.p, len(theta))
        found = found.plus(Sparse(float(look.loss.sum()), look.gradient, diagonal))
    return found


def hessian_product(
    ties: Ties,
    rows: range,
    half: Float[np.ndarray, " entries"],
    way: Float[np.ndarray, " size"],
) -> Float[np.ndarray, " size"]:
    """halfᵀ half v for some rows of one component, `half` being what `sparse_sums` kept of them.

    A block at a time: what the second product reads again is then still near.
    """
    from scipy.sparse import csr_array

    found, begin = np.zeros(len(way)), ties.start[rows.start] if len(rows) else 0
    for a, b in _blocks(ties, rows):
        start = ties.start[a : b + 1]
        at, data = slice(start[0], start[-1]), half[start[0] - begin : start[-1] - begin]
        part = csr_array((data, ties.item[at], start - start[0]), shape=(b - a, len(way)))
        found += part.T @ (part @ way)
    return found


class Bound(NamedTuple):
    """What bounds the error of a large component: what enters and leaves each token, and conductances of edges.

    Of a shard's edges only the forest of least resistances is kept: that of all shards lies in these forests.
    """

    enters: Float[np.ndarray, " size"]
    leaves: Float[np.ndarray, " size"]
    noise: float
    edges: tuple[Int[np.ndarray, " _"], ...]  # one end · size + the other
    conductances: tuple[Float[np.ndarray, " _"], ...]

    def plus(self, other: "Bound") -> "Bound":
        """Of both together; a sum more is a rounding more."""
        both = Bound(
            self.enters + other.enters, self.leaves + other.leaves, max(self.noise, other.noise) + EPS,
            self.edges + other.edges, self.conductances + other.conductances,
        )  # fmt: skip
        many = sum(map(len, both.edges)) > max(HELD, 2 * len(both.enters))
        return both.forest() if many else both

    def forest(self) -> "Bound":
        """The same with the edges of one forest."""
        s = len(self.enters)
        edge = np.concatenate([np.zeros(0, np.int64), *self.edges])
        conductance = np.concatenate([np.zeros(0), *self.conductances])
        forest = spanning_forest(edge // s, edge % s, conductance, s).tocoo()
        return self._replace(
            edges=(forest.row.astype(np.int64) * s + forest.col,), conductances=(1.0 / forest.data,)
        )


def bound_sums(choices: Iterable[Choices], theta: Float[np.ndarray, " size"]) -> Bound:
    """Of one shard's choices."""
    s = len(theta)
    found = Bound(np.zeros(s), np.zeros(s), 0.0, (), ())
    for part in choices:
        enters, leaves, noise, one, other, conductance = Flows.of(part, theta)
        found = found.plus(Bound(enters, leaves, noise, (one * s + other,), (conductance,)))
    return found.forest()


@dataclass(frozen=True)
class Sums:
    """Sums over all shards for the fit of one large component."""

    look: Callable[[Float[np.ndarray, " size"]], Sparse]
    push: Callable[
        [Float[np.ndarray, " size"]], Float[np.ndarray, " size"]
    ]  # halfᵀ half v at the last look
    bound: Callable[[Float[np.ndarray, " size"]], Bound]


def newton_fit(sums: Sums, weight: float, begin: Keep, keep: Callable[[Keep], None]) -> Found:
    """A component of many tokens: damped Newton by conjugate gradients, as in `finite.luce_mle`."""
    theta, steps, arrived = begin
    look = sums.look(theta)
    while not arrived and steps < STEPS:
        arrived = float(np.abs(look.gradient).max()) / weight <= CONVERGED
        step = -conjugate_gradients(sums.push, look.diagonal, look.gradient, weight)
        step *= min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), 1e-300))
        slope = inner(look.gradient, step)
        noise = 1e-14 * (abs(look.loss) + weight)
        t, before = 1.0, look
        while True:
            there = theta + t * step
            there = there - there.mean()
            look = sums.look(there)
            if look.loss <= before.loss + 1e-4 * t * slope + noise:
                theta = there
                break
            t /= 2
            if t < 1e-18:  # the limit of float64: the certificate judges
                arrived, look = True, sums.look(theta)
                break
        steps += 1
        keep(Keep(theta, steps, arrived))
    enters, leaves, noise, edges, conductances = sums.bound(theta)
    ends = divmod(np.concatenate(edges), len(theta))
    error = Flows(enters, leaves, noise, *ends, np.concatenate(conductances)).bound()
    slope = float(np.abs(look.gradient).max()) / weight
    return Found(theta, look.loss, slope, error + 4 * EPS * float(np.abs(theta).max()))


def gathered_choices(
    graph: PriorityGraph, cyclic: Samples, scale: float
) -> tuple[Int[np.ndarray, " items"], Choices]:
    """The choices of cyclic samples, in those components that have any, and the pairs they are among."""
    items, choices = as_choices(graph, cyclic, cyclic.weight * scale)
    some = np.zeros(len(np.unique(choices.group)), bool)
    some[choices.group_of_choice] = True
    choices, kept = choices.restrict(some)
    return items[kept], choices
