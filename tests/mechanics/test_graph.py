"""Priority graphs against networkx, against Kosaraju's algorithm and against the definition."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from tests import oracle

from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import AssumptionError
from attomaton.mechanics.synthetic import draw_samples
from attomaton.mechanics.theory import graph as room
from attomaton.mechanics.theory.graph import build_graph


@pytest.fixture(scope="module")
def drawn():
    """300 random data sets and their graphs."""
    found = []
    for i in range(300):
        rng = np.random.default_rng([1, i])
        K = int(rng.integers(2, 10))
        n, lasts = int(rng.integers(1, 3 * K + 1)), int(rng.integers(1, 4))
        raw = oracle.draw(rng, K, n, lasts, repeats=bool(i % 2), weighted=bool(i % 3))
        found.append((raw, build_graph(raw.samples())))
    return found


def as_sets(graph, last):
    """The components of one last token, as sets of tokens."""
    pairs = graph.pairs_of(last)
    tokens, component = graph.pair_token[pairs], graph.component[pairs]
    return {frozenset(tokens[component == c].tolist()) for c in np.unique(component)}


def digraph(raw, last):
    g = nx.DiGraph()
    g.add_nodes_from(oracle.nodes(raw)[last])
    g.add_edges_from(oracle.edges(raw)[last])
    return g


def test_pairs_are_what_occurs_together(drawn):
    for raw, graph in drawn:
        pairs = list(zip(graph.pair_last.tolist(), graph.pair_token.tolist(), strict=True))
        assert pairs == sorted((q, x) for q, seen in oracle.nodes(raw).items() for x in seen)
        assert graph.last_tokens.tolist() == sorted(oracle.nodes(raw))


def test_edges_and_weights(drawn):
    for raw, graph in drawn:
        for q, expected in oracle.edges(raw).items():
            part = graph.edges_of(q)
            tokens = graph.pair_token
            found = {
                (int(tokens[a]), int(tokens[b])): w
                for a, b, w in zip(
                    graph.edge_from[part],
                    graph.edge_to[part],
                    graph.edge_weight[part].tolist(),
                    strict=True,
                )
            }
            assert found == pytest.approx(expected, rel=1e-14)  # sums in another order
        assert len(graph.edge_from) == sum(map(len, oracle.edges(raw).values()))


def test_components_of_two_other_algorithms(drawn):
    for raw, graph in drawn:
        for q, part in oracle.components(raw).items():
            assert as_sets(graph, q) == set(part.values())
            assert as_sets(graph, q) == set(
                map(frozenset, nx.strongly_connected_components(digraph(raw, q)))
            )


def test_control_weak_components_differ(drawn):
    """Ignoring the direction of edges, or forgetting one in three, must not pass unnoticed."""
    weak = missing = 0
    for raw, graph in drawn:
        for q in oracle.nodes(raw):
            g = digraph(raw, q)
            weak += as_sets(graph, q) != set(map(frozenset, nx.weakly_connected_components(g)))
            g.remove_edges_from(list(g.edges)[::3])
            missing += as_sets(graph, q) != set(map(frozenset, nx.strongly_connected_components(g)))
    assert weak > 100
    assert missing > 100


def test_condensation_and_levels(drawn):
    for raw, graph in drawn:
        a, b = graph.dag
        for q in oracle.nodes(raw):
            condensed = nx.condensation(digraph(raw, q))
            members = nx.get_node_attributes(condensed, "members")
            pairs = graph.pairs_of(q)
            name = {
                int(c): frozenset(graph.pair_token[pairs][graph.component[pairs] == c].tolist())
                for c in np.unique(graph.component[pairs])
            }
            mine = {(name[x], name[y]) for x, y in zip(a, b, strict=True) if x in name}
            other = {(frozenset(members[x]), frozenset(members[y])) for x, y in condensed.edges}
            assert mine == other
            for v in condensed:
                above = condensed.subgraph(nx.ancestors(condensed, v) | {v})
                c = next(c for c, part in name.items() if part == frozenset(members[v]))
                assert graph.level[c] == nx.dag_longest_path_length(above)


def test_component_numbering(drawn):
    """Components go by last token, then level, then first token, as promised."""
    for _, graph in drawn:
        first = np.unique(graph.component, return_index=True)[1]
        key = list(zip(graph.component_last, graph.level, graph.pair_token[first], strict=True))
        assert key == sorted(key)


def test_queries(drawn):
    for raw, graph in drawn[:100]:
        for q, seen in oracle.nodes(raw).items():
            arrows = set(oracle.edges(raw)[q])
            reach = {x: oracle.reachable(x, arrows) for x in seen}
            for i in range(raw.K):
                for j in range(raw.K):
                    known = i in seen and j in seen
                    there = known and j in reach[i]
                    back = known and i in reach[j]
                    assert graph.tied(q, i, j) == (there and back)
                    assert graph.outranks(q, i, j) == (there and not back)


def test_paths_are_shortest_walks(drawn):
    for raw, graph in drawn[:60]:
        for q, seen in oracle.nodes(raw).items():
            arrows, g = set(oracle.edges(raw)[q]), digraph(raw, q)
            for i in seen:
                for j in seen:
                    way = graph.path(q, i, j)
                    assert (way is not None) == nx.has_path(g, i, j)
                    if way is not None:
                        assert (way[0], way[-1]) == (i, j)
                        assert set(pairwise(way)) <= arrows
                        assert len(way) - 1 == nx.shortest_path_length(g, i, j)


def test_cycles_are_closed_walks(drawn):
    for raw, graph in drawn[:60]:
        for q, seen in oracle.nodes(raw).items():
            arrows = set(oracle.edges(raw)[q])
            for i in seen:
                for j in seen - {i}:
                    walk = graph.cycle(q, i, j)
                    assert (walk is not None) == graph.tied(q, i, j)
                    if walk is not None:
                        assert walk[0] == walk[-1] == i
                        assert j in walk
                        assert set(pairwise(walk)) <= arrows


def test_priority_order_or_a_cycle_that_forbids_it(drawn):
    ordered = refused = 0
    for raw, graph in drawn:
        for q, arrows in oracle.edges(raw).items():
            if all(len(part) == 1 for part in oracle.components(raw)[q].values()):
                order = graph.priority_order(q)
                assert sorted(order) == sorted(oracle.nodes(raw)[q])
                assert all(order.index(i) < order.index(j) for i, j in arrows)
                ordered += 1
                continue
            with pytest.raises(AssumptionError, match="has a cycle") as caught:
                graph.priority_order(q)
            walk = [int(x) for x in str(caught.value).split("\n")[1].split("→")]
            assert walk[0] == walk[-1]
            assert len(walk) > 2
            assert set(pairwise(walk)) <= set(arrows)
            refused += 1
    assert min(ordered, refused) > 50


def test_repeated_rows_are_weights(drawn):
    for raw, _ in drawn[:60]:
        times = np.random.default_rng(len(raw.rows)).integers(1, 4, len(raw.rows))
        rows = [row for row, k in zip(raw.rows, times, strict=True) for _ in range(k)]
        labels = [y for y, k in zip(raw.labels, times, strict=True) for _ in range(k)]
        repeated = oracle.Raw(raw.K, tuple(rows), tuple(labels), (1.0,) * len(rows))
        weighted = oracle.Raw(raw.K, raw.rows, raw.labels, tuple(map(float, times)))
        a, b = build_graph(repeated.samples()), build_graph(weighted.samples())
        for name in ("pair_last", "pair_token", "edge_from", "edge_to", "edge_weight", "component"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_what_is_not_there():
    graph = build_graph(samples_from_sequences([["a", "b"], ["c", "a"]], ["a", "a"]))
    a, b, c = (graph.vocabulary.id_of(x) for x in "abc")
    assert graph.pairs_of(c) == slice(4, 4)  # c is never a last token
    assert graph.pair(b, c) is None  # nor ever seen with last token b
    assert graph.path(b, a, c) is None
    assert graph.cycle(b, a, b) is None
    assert not graph.tied(b, a, c)
    assert not graph.outranks(b, a, c)
    assert graph.priority_order(c) == []


def test_a_sample_of_one_distinct_token_has_no_edge():
    graph = build_graph(samples_from_sequences([[5, 5, 5]], [5]))
    assert len(graph.pair_last) == 1
    assert len(graph.edge_from) == 0
    assert graph.level.tolist() == [0]


def test_pairs_are_found_in_tables_as_by_search(monkeypatch):
    samples = draw_samples(np.random.default_rng(5), 7, 40, 4)
    graph = build_graph(samples)
    last, token = (
        x.ravel() for x in np.meshgrid(np.arange(-1, 7), np.arange(-1, 7), indexing="ij")
    )
    found = {}
    for tabled in (0, 10**9):
        monkeypatch.setattr(room, "TABLED", tabled)
        found[tabled] = graph.pairs(last, token)
    assert np.array_equal(*found.values())
    assert (found[0] >= 0).sum() == len(graph.pair_last)
    each = [graph.pair(q, x) for q, x in zip(last.tolist(), token.tolist(), strict=True)]
    assert found[0].tolist() == [-1 if x is None else x for x in each]
