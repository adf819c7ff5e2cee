"""W_svm, the direction in which training grows: margins, optimality, and what it does not depend on."""

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.optimize import nnls
from tests import oracle
from tests.invariants.harness import holds_for, refuted
from tests.invariants.strategies import (
    checked,
    data,
    embeddings,
    graph_of,
    pick,
    priorities,
    rotation,
    seeds,
    shuffled,
    table,
    with_weights,
)

from attomaton.mechanics.theory import svm as room
from attomaton.mechanics.theory.finite import FiniteSubspace
from attomaton.mechanics.theory.graph import build_graph

# Two runs of the solver on one problem written differently: each is within 5e-7 of the optimum where
# a constraint is met without being needed, and far closer elsewhere.
SAME = 1e-6


def directed(raw, E=None):
    """Graph and Graph-SVM of a data set, nothing else solved."""
    samples = raw.samples()
    graph = build_graph(samples)
    return graph, room.graph_svm(graph, samples, checked(E))


def scores(raw, E=None):
    graph, svm = directed(raw, E)
    return table(graph, svm.score)


def dense(raw, E):
    """W_svm itself, from its coefficients on the pairs."""
    graph, svm = directed(raw, E)
    return E.T @ table(graph, svm.coefficient).T @ E


def shortest(raw, E):
    """The shortest W with every margin of the definition, over paths as over edges.

    min ‖x‖ s.t. A x = 0, G x ≥ 1 for x = vec W: on the null space of A by Lawson and Hanson's reduction of least
    distance to non-negative least squares. Margins that coincide there are named once: the method may stall on copies.
    """
    tied, above = priorities(raw)
    A, G = (
        np.array([np.outer(E[i] - E[j], E[q]).ravel() for q, i, j in np.argwhere(relation)])
        for relation in (tied, above)
    )
    if not len(G):
        return np.zeros(E.shape[1] ** 2)
    free = null_space(A) if len(A) else np.eye(G.shape[1])
    G = np.unique((G @ free).round(12), axis=0)
    stacked, target = np.vstack([G.T, np.ones(len(G))]), np.zeros(G.shape[1] + 1)
    target[-1] = 1.0
    r = stacked @ nnls(stacked, target)[0] - target
    return free @ (-r[:-1] / r[-1])


@holds_for(data())
def test_margins_are_0_inside_and_at_least_1_between_components(raw):
    S = scores(raw)
    tied, above = priorities(raw)
    margin = S[:, :, None] - S[:, None, :]
    assert np.abs(margin[tied]).max(initial=0) < 1e-9
    assert margin[above].min(initial=1) > 1 - 1e-9


@holds_for(data(lasts=3))
def test_no_shorter_matrix_has_the_margins(raw):
    x = shortest(raw, np.eye(raw.K))
    assert np.abs(scores(raw).T.ravel() - x).max() < SAME


@holds_for(data(lasts=3), seeds, share=0.25)
def test_no_shorter_matrix_has_the_margins_under_embeddings(raw, seed):
    E = embeddings(seed, raw.K)
    x = shortest(raw, E)
    assert np.abs(dense(raw, E).ravel() - x).max() < SAME * max(1, np.linalg.norm(x))


@holds_for(data(), share=0.5)
def test_multipliers_certify_the_norm(raw):
    """λ ≥ 0, λ > 0 only on margins of exactly 1, and ‖W_svm‖² = Σ λ."""
    graph, svm = directed(raw)
    a, b = graph.dag
    score = np.zeros(len(graph.level))
    score[graph.component] = svm.score
    slack = score[a] - score[b] - 1
    assert svm.multiplier.min(initial=0) >= 0
    assert np.abs(svm.multiplier * slack).max(initial=0) < 1e-8
    assert svm.norm**2 == pytest.approx((svm.score**2).sum(), abs=1e-9)
    assert svm.norm**2 == pytest.approx(svm.multiplier.sum(), abs=1e-8)


@holds_for(data(), share=0.5)
def test_scores_sum_to_zero_over_related_tokens(raw):
    """W_svm is a combination of differences: its scores cancel on each weakly connected part of a graph."""
    S = scores(raw)
    tied, above = priorities(raw)
    for q in range(raw.K):
        near = tied[q] | above[q] | above[q].T | np.eye(raw.K, dtype=bool)
        for _ in range(3):
            near = near @ near
        assert np.abs(near @ S[q]).max() < 1e-9


@holds_for(data(), seeds, share=0.25)
def test_the_two_parts_are_orthogonal(raw, seed):
    E = embeddings(seed, raw.K)
    W = dense(raw, E)
    inside = FiniteSubspace(graph_of(raw), checked(E)).project(W)
    assert np.abs(inside).max() < 1e-9 * max(1.0, np.linalg.norm(W))
    tied, _ = priorities(raw)
    for q, i, j in np.argwhere(tied):
        assert abs((E[i] - E[j]) @ W @ E[q]) < 1e-8 * max(1.0, np.linalg.norm(W))


@holds_for(data(), seeds, share=0.25)
def test_relabelling_permutes_the_direction(raw, seed):
    new = shuffled(seed, raw.K)
    renamed = scores(raw.relabelled(new))[np.ix_(new, new)]
    assert np.abs(renamed - scores(raw)).max() < SAME


@holds_for(data(), seeds, share=0.5)
def test_weights_and_order_leave_the_direction_alone(raw, seed):
    """Only the edges count: same edges, same program, same bits."""
    weights = np.random.default_rng(seed).uniform(0.01, 100, len(raw.rows))
    other = pick(with_weights(raw, weights), shuffled(seed, len(raw.rows)))
    np.testing.assert_array_equal(scores(raw), scores(other))


@holds_for(data(), seeds, share=0.25)
def test_rotated_embeddings_rotate_the_direction(raw, seed):
    E = embeddings(seed, raw.K)
    Q = rotation(seed, E.shape[1])
    W, turned = dense(raw, E), dense(raw, E @ Q)
    scale = max(1.0, np.linalg.norm(W))
    assert np.abs(turned - Q.T @ W @ Q).max() < SAME * scale
    assert np.abs(scores(raw, E) - scores(raw, E @ Q)).max() < SAME * scale


@holds_for(data(lasts=2), share=0.5)
def test_implied_edges_change_nothing(raw):
    """A sample that says again, in one edge, what a path says already."""
    _, above = priorities(raw)
    said = [
        (i, q, np.flatnonzero(above[q, i]).tolist())
        for q in range(raw.K)
        for i in range(raw.K)
        if above[q, i, q]
    ]
    rows = tuple((i, *(x for x in below if x != q), q) for i, q, below in said)
    labels = tuple(i for i, _, _ in said)
    more = oracle.Raw(raw.K, raw.rows + rows, raw.labels + labels, raw.weights + (1.0,) * len(rows))
    assert np.abs(scores(more) - scores(raw)).max() < SAME


@holds_for(data(), share=0.25)
def test_last_tokens_are_problems_of_their_own(raw):
    """With orthonormal embeddings the program is the direct sum over last tokens."""
    whole = scores(raw)
    for q in {row[-1] for row in raw.rows}:
        part = scores(pick(raw, [i for i, row in enumerate(raw.rows) if row[-1] == q]))
        assert np.abs(part[q] - whole[q]).max() < SAME
        assert np.abs(np.delete(part, q, axis=0)).max() == 0


# Controls


def test_control_reversed_margins(monkeypatch):
    honest = room._solve_by_last_token
    monkeypatch.setattr(
        room, "_solve_by_last_token", lambda graph: tuple(-x for x in honest(graph))
    )
    monkeypatch.setattr(room, "CERTIFIED", np.inf)
    refuted(test_margins_are_0_inside_and_at_least_1_between_components)


def test_control_a_feasible_direction_that_is_too_long(monkeypatch):
    """Levels meet every margin; only optimality tells them from the answer."""

    def by_level(graph):
        score = -graph.level[graph.component].astype(float)
        return score, np.zeros(len(graph.dag[0]))

    monkeypatch.setattr(room, "_solve_by_last_token", by_level)
    monkeypatch.setattr(room, "CERTIFIED", np.inf)
    test_margins_are_0_inside_and_at_least_1_between_components()
    refuted(test_no_shorter_matrix_has_the_margins)
    refuted(test_multipliers_certify_the_norm)
    refuted(test_scores_sum_to_zero_over_related_tokens)


def test_control_components_counted_as_single_tokens(monkeypatch):
    """Without |C| in the objective ties weigh too little."""
    honest = room._solve_batch
    monkeypatch.setattr(room, "_solve_batch", lambda size, *rest: honest(np.ones_like(size), *rest))
    monkeypatch.setattr(room, "CERTIFIED", np.inf)
    refuted(test_no_shorter_matrix_has_the_margins)
