"""Ties that a part of the data shows: hand-made ones, and what they leave of W."""

import numpy as np

from attomaton.corpus.windows import samples_from_sequences
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.theory.extremes import Rows
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.matrices import Matrices
from attomaton.mechanics.theory.partial import Known, lengths, off_ties, partial_ties, taken


def solved(contexts, labels, vectors) -> tuple[Rows, Known, list[tuple[int, int, int]]]:
    """Rows, what is known of them, and (last token, winner, loser) of each, all tokens numbered as rows of vectors."""
    samples = samples_from_sequences(contexts, labels)
    order = [samples.vocabulary[i] for i in range(len(samples.vocabulary))]
    graph = build_graph(samples)
    space = Matrices.of(graph, check_embeddings(np.asarray(vectors, float)[order]))
    rows = Rows(space, graph.edge_from, graph.edge_to, len(graph.edge_from))
    names = [
        (order[graph.pair_last[i]], order[graph.pair_token[i]], order[graph.pair_token[j]])
        for i, j in zip(graph.edge_from, graph.edge_to, strict=True)
    ]
    return rows, partial_ties(graph, rows), names


def test_a_last_token_that_ties_all_tokens_leaves_w():
    # After 2 all of 0, 1, 2 win and lose; after 3 token 0 wins alone.
    vectors = np.array([[1, 0], [0, 1], [1, 1], [1, -3]])
    contexts, labels = [[0, 1, 2]] * 3 + [[0, 3]], [0, 1, 2, 0]
    rows, known, names = solved(contexts, labels, vectors)
    assert [name for name, tied in zip(names, known.tied, strict=True) if not tied] == [(3, 0, 3)]
    assert known.left.shape == (2, 2)
    assert known.right.shape == (2, 1)
    assert abs(vectors[2] @ known.right[:, 0]) < 1e-12
    inner = known.narrowed(rows)
    assert np.array_equal(lengths(inner) < 1e-9, known.tied)


# Tokens 0 and 1 after four last tokens, of which the first three add up to the fourth.
E = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 2], [3, 0, 1], [1, -1, 1], [4, 0, 4]])
CONTEXTS = [[0, 1, last] for last in (2, 3, 4, 5)]


def test_two_tokens_that_tie_after_dependent_last_tokens_leave_w():
    # 0 over 1 after 2, 3 and 4, but 1 over 0 after 5: tied, because e_2 + e_3 + e_4 = e_5.
    _, known, names = solved(CONTEXTS, [0, 0, 0, 1], E)
    tied = {name for name, own in zip(names, known.tied, strict=True) if own}
    assert tied == {(2, 0, 1), (3, 0, 1), (4, 0, 1), (5, 1, 0)}
    assert known.left.shape == (3, 2)
    assert np.abs((E[0] - E[1]) @ known.left).max() < 1e-12
    assert known.right.shape == (3, 3)


def test_control_what_no_positive_dependency_joins_is_not_tied():
    _, known, _ = solved(CONTEXTS, [0, 0, 0, 0], E)
    assert not known.tied.any()
    assert known.left.shape == known.right.shape == (3, 3)


def test_a_projection_takes_the_span_of_ties_and_nothing_else():
    rows, known, _ = solved(CONTEXTS, [0, 0, 0, 1], E)
    ties = taken(rows, np.flatnonzero(known.tied))
    W = np.random.default_rng(0).standard_normal((3, 3))
    off = off_ties(ties)(W)
    assert np.abs(ties.of_w(off)).max() < 1e-12
    # What was taken is orthogonal to what is left, and a second time nothing is.
    assert abs(float(((W - off) * off).sum())) < 1e-12
    assert np.allclose(off_ties(ties)(off), off, rtol=0, atol=1e-12)
