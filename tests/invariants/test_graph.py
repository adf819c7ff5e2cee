"""Priority graphs: what an edge, a component, a level and a path are, against brute force."""

from itertools import pairwise

import numpy as np
from tests import oracle
from tests.invariants.harness import holds_for, refuted
from tests.invariants.strategies import (
    closure,
    data,
    graph_of,
    pick,
    priorities,
    seeds,
    shuffled,
    with_weights,
)

from attomaton.mechanics.theory import graph as room


def arrows(graph, new=None):
    """Edges (last, winner, loser) with their weights, in words, tokens renamed by `new`."""
    name = np.arange(len(graph.vocabulary)) if new is None else new
    q, y = graph.pair_last[graph.edge_from], graph.pair_token[graph.edge_from]
    x = graph.pair_token[graph.edge_to]
    keys = zip(name[q].tolist(), name[y].tolist(), name[x].tolist(), strict=True)
    return dict(zip(keys, graph.edge_weight.tolist(), strict=True))


def relation(graph):
    """The component of each (last, token) as a matrix of equalities, and the levels; −1 where no pair."""
    K = len(graph.vocabulary)
    component, level = np.full((K, K), -1), np.full((K, K), -1)
    component[graph.pair_last, graph.pair_token] = graph.component
    level[graph.pair_last, graph.pair_token] = graph.level[graph.component]
    same = (component[:, :, None] == component[:, None, :]) & (component[:, :, None] >= 0)
    return same, level


@holds_for(data())
def test_edges_are_labels_over_the_other_tokens(raw):
    wanted = {(q, y, x): w for q, edges in oracle.edges(raw).items() for (y, x), w in edges.items()}
    assert arrows(graph_of(raw)) == wanted


@holds_for(data(), seeds)
def test_relabelling_renames_the_graph(raw, seed):
    new = shuffled(seed, raw.K)
    a, b = graph_of(raw), graph_of(raw.relabelled(new))
    assert arrows(a, new) == arrows(b)
    (tied, level), (tied_b, level_b) = relation(a), relation(b)
    np.testing.assert_array_equal(tied_b[np.ix_(new, new, new)], tied)
    np.testing.assert_array_equal(level_b[np.ix_(new, new)], level)


@holds_for(data(lasts=2))
def test_tied_means_reaching_each_other(raw):
    graph, (tied, above) = graph_of(raw), priorities(raw)
    same, _ = relation(graph)
    np.testing.assert_array_equal(same & ~np.eye(raw.K, dtype=bool), tied)
    q = raw.rows[0][-1]
    for i in range(raw.K):
        for j in range(raw.K):
            assert graph.outranks(q, i, j) == above[q, i, j]


@holds_for(data(lasts=1))
def test_levels_are_longest_paths_from_the_top(raw):
    graph, (_, above) = graph_of(raw), priorities(raw)
    _, level = relation(graph)
    q = raw.rows[0][-1]
    for x in graph.pair_token[graph.pairs_of(q)]:
        over = level[q, above[q, :, x]]
        assert level[q, x] == (over.max() + 1 if len(over) else 0)


@holds_for(data(lasts=2))
def test_paths_are_walks_and_none_is_shorter(raw):
    graph, edges = graph_of(raw), oracle.edges(raw)
    q = raw.rows[0][-1]
    step = np.zeros((raw.K, raw.K), bool)
    for y, x in edges[q]:
        step[y, x] = True
    exactly, distance = np.eye(raw.K, dtype=bool), np.where(np.eye(raw.K, dtype=bool), 0, -1)
    for n in range(1, raw.K):
        exactly = exactly @ step
        distance[exactly & (distance < 0)] = n
    members = oracle.nodes(raw)[q]
    for i in members:
        for j in members:
            way = graph.path(q, i, j)
            assert (len(way) - 1 if way else -1) == distance[i, j]
            assert way is None or ((way[0], way[-1]) == (i, j))
            assert all(pair in edges[q] for pair in pairwise(way or []))


@holds_for(data(lasts=2))
def test_more_samples_never_remove_an_edge_nor_break_a_tie(raw):
    few = pick(raw, range((len(raw.rows) + 1) // 2))
    a, b = graph_of(few), graph_of(raw)
    more = arrows(b)
    assert all(more[edge] >= weight for edge, weight in arrows(a).items())
    assert (relation(b)[0] >= relation(a)[0]).all()


@holds_for(data(), seeds)
def test_weights_and_order_leave_the_graph_alone(raw, seed):
    weights = np.random.default_rng(seed).uniform(0.01, 100, len(raw.rows))
    other = pick(with_weights(raw, weights), shuffled(seed, len(raw.rows)))
    a, b = graph_of(raw), graph_of(other)
    for name in ("pair_last", "pair_token", "edge_from", "edge_to", "component", "level"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@holds_for(data(lasts=2))
def test_a_tie_has_a_closed_walk_for_a_witness(raw):
    graph, (tied, _) = graph_of(raw), priorities(raw)
    edges = oracle.edges(raw)
    for q, i, j in np.argwhere(tied)[:8].tolist():
        walk = graph.cycle(q, i, j)
        assert walk[0] == walk[-1] == i
        assert j in walk
        assert all(step in edges[q] for step in pairwise(walk))
    for q, i, j in np.argwhere(closure(raw) & ~tied)[:8].tolist():
        assert i == j or graph.cycle(q, i, j) is None


# Controls


def test_control_weak_components_are_no_ties(monkeypatch):
    import scipy.sparse.csgraph as scipy_room

    strong = scipy_room.connected_components

    def weak(matrix, directed, connection):
        return strong(matrix, directed=directed, connection="weak")

    monkeypatch.setattr(scipy_room, "connected_components", weak)
    refuted(test_tied_means_reaching_each_other)


def test_control_shortest_paths_give_no_levels(monkeypatch):
    def breadth_first(a, b, count):
        level = np.full(count, -1)
        level[np.bincount(b[a != b], minlength=count) == 0] = 0
        for depth in range(count):
            below = b[level[a] == depth]
            level[below[level[below] < 0]] = depth + 1
        return level

    monkeypatch.setattr(room, "_levels", breadth_first)
    refuted(test_levels_are_longest_paths_from_the_top)
