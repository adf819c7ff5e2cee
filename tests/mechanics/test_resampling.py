"""The bootstrap by sequence, against resamples that are written out."""

from itertools import product

import networkx as nx
import numpy as np
import pytest

from attomaton import as_windows, build_graph
from attomaton.errors import DataError
from attomaton.mechanics.theory.resampling import (
    LOST,
    REVERSED,
    STRICT,
    TIED,
    resampling,
    stability,
    summed,
)
from attomaton.numerics import named_rng


def log(seed, many=6):
    """Some sequences of few tokens."""
    rng = named_rng("resampling, test", seed)
    return [rng.integers(4, size=rng.integers(3, 8)).tolist() for _ in range(many)]


def graphs(sequences):
    """A second implementation of all graphs: networkx, by last token."""
    graph = build_graph(as_windows(sequences, context=3).samples())
    return {graph.vocabulary[k]: graph.to_networkx(graph.vocabulary[k]) for k in graph.last_tokens}


def relation(graph, i, j):
    """What two tokens are to each other; None stands for a last token that has no graph."""
    there, back = (
        graph is not None and a in graph and b in graph and nx.has_path(graph, a, b)
        for a, b in ((i, j), (j, i))
    )
    return {(True, True): TIED, (True, False): STRICT, (False, True): REVERSED}.get(
        (there, back), LOST
    )


def top(graph, tokens):
    """The tokens of a context from which paths lead to all others; empty where the graph leaves it open."""
    if graph is None or not all(x in graph for x in tokens):
        return set()
    return {x for x in tokens if all(nx.has_path(graph, x, y) for y in tokens)}


@pytest.mark.parametrize("seed", range(6))
def test_a_resample_is_its_sequences_written_out(seed):
    sequences = log(seed)
    known = resampling(as_windows(sequences, context=3))
    graph, word = known.graph, known.graph.vocabulary
    whole = graphs(sequences)
    rng = named_rng("resampling, draws", seed)
    changed = 0
    for _ in range(12):
        drawn = np.bincount(rng.integers(6, size=6), minlength=6)
        copies = [s for s, m in zip(sequences, drawn, strict=True) for _ in range(m)]
        try:
            again = graphs(copies)
        except DataError:  # no context holds its label
            again = {}
        component, code = known.relations(drawn)
        for e in range(len(code)):
            i, j = (word[graph.pair_token[x[e]]] for x in (graph.edge_from, graph.edge_to))
            last = word[graph.pair_last[graph.edge_from[e]]]
            assert code[e] == relation(again.get(last), i, j), (last, i, j)
            assert known.strict[e] == (relation(whole[last], i, j) == STRICT)
            changed += code[e] != (STRICT if known.strict[e] else TIED)
        same = code == np.where(known.strict, STRICT, TIED)
        answers = np.logical_and.reduceat(same[known.of_sample], known.start[:-1])
        for i in range(len(known.samples)):
            tokens, last = known.samples.bag(i), word[known.samples.last[i]]
            assert answers[i] == (top(again.get(last), tokens) == top(whole[last], tokens))
        kept = known._whole(component)
        for c, one in zip(known.cyclic, kept, strict=True):
            inside = np.flatnonzero(graph.component == c)
            assert one == (len(set(component[inside])) == 1)
    assert changed > 10, "nothing ever changes: the comparison is empty"


def test_an_order_is_lost_as_often_as_its_sequences_are_not_drawn():
    """Every draw of three sequences from three: an order behind which s stand is in 27 (1 − (1 − s/3)³) of them."""
    known = resampling(as_windows([["a", "b", "a"], ["a", "b", "a"], ["c", "d", "c"]], context=2))
    assert known.support.tolist() == [2, 1]
    there = np.zeros(2, int)
    for draw in product(range(3), repeat=3):
        there += known.relations(np.bincount(draw, minlength=3))[1] == STRICT
    assert there.tolist() == [26, 19]
    assert (known.expected(known.support) * 27).round(9).tolist() == [26, 19]


def test_groups_of_resamples_add_up_and_go_by_their_numbers():
    known = resampling(as_windows(log(1, 20), context=3))
    whole, parts = known.tally(0, 30, 5), summed([known.tally(0, 12, 5), known.tally(12, 18, 5)])
    for name, value in whole.arrays().items():
        assert np.array_equal(value, getattr(parts, name), equal_nan=True), name
    assert not np.array_equal(known.tally(0, 30, 6).edges, whole.edges)
    assert (whole.edges.sum(1) == 30).all()
    assert not whole.edges[known.strict][:, [TIED, REVERSED]].any(), (
        "a resample contradicts nothing"
    )


def test_the_summary_counts_what_the_tally_has():
    known = resampling(as_windows(log(2, 20), context=3))
    tally = known.tally(0, 50, 0)
    s = stability(known, tally, 1000)
    assert (s.orders.count, s.ties.count) == (known.strict.sum(), (~known.strict).sum())
    assert s.orders.share == pytest.approx((tally.edges[known.strict, STRICT] / 50).mean())
    assert s.answers.count == len(known.samples)
    assert sum(b.orders for b in s.behind) == s.orders.count
    assert len(s.shaky) == s.orders.count + s.ties.count - s.orders.sure - s.ties.sure
    assert all(x.same + x.turned + x.lost == pytest.approx(1) for x in s.shaky)
    assert s.after[0].weight == np.bincount(known.samples.last, known.samples.weight).max()


def test_one_sequence_is_refused():
    with pytest.raises(DataError, match="--split lines"):
        resampling(as_windows([["a", "b", "a", "b"]], context=2))
