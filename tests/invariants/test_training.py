"""The layer and its training: the gradient by definition, descent that never rises, symmetries that survive every step.

Problems are trained beside a frame of the largest size, so that all of them are one compiled program.
"""

from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import strategies as st
from tests import oracle
from tests.invariants.harness import holds_for, refuted
from tests.invariants.strategies import (
    LONGEST,
    MOST_ROWS,
    MOST_TOKENS,
    data,
    graph_of,
    pick,
    priorities,
    seeds,
    shuffled,
    with_weights,
)

from attomaton.mechanics.experiment import model as room
from attomaton.mechanics.experiment.path import penalty_path
from attomaton.mechanics.experiment.train import train
from attomaton.mechanics.theory.finite import finite_component
from attomaton.numerics import float64

K = MOST_TOKENS
FRAME = oracle.Raw(
    K,
    tuple((*((i + j) % K for j in range(LONGEST)), i % K) for i in range(MOST_ROWS)),
    tuple((i + 1) % K for i in range(MOST_ROWS)),
    tuple(float(i + 1) for i in range(MOST_ROWS)),
)
STEPS = 40


def gradient(raw, S):
    """∂L/∂S by the formula: Σ (p(x) − 1[x = y]), position by position."""
    D = np.zeros((raw.K, raw.K))
    for row, y, w in raw:
        z = np.array([S[row[-1], x] for x in row])
        a = np.exp(z - z.max())
        for x, p in zip(row, a / a.sum(), strict=True):
            D[row[-1], x] += w * p
        D[row[-1], y] -= w
    return D / sum(raw.weights)


def wide(raw):
    """The same data over all 6 tokens."""
    return oracle.Raw(K, raw.rows, raw.labels, raw.weights)


def layer(raw, S, E=None):
    """Loss and gradient as training computes them, in dense space, at Wᵀ = S over 6 tokens."""
    with float64():
        sizes = room.Sizes(MOST_ROWS, LONGEST, K, K)
        problem = room.problem_of(wide(raw).samples(), np.eye(K) if E is None else E, sizes)
        value, D = compiled(S.T, problem)
        return float(value), np.asarray(D).T


compiled = jax.jit(room.loss_and_gradient)


def trained(raws, lr):
    """Scores of each problem on its own pairs, and its losses, after a few steps."""
    sets = [raw.samples() for raw in raws]
    frames = [FRAME.samples()] * (3 - len(sets))
    run = train([*sets, *frames], lr=lr, steps=STEPS, every=4)
    answers = []
    for i, samples in enumerate(sets):
        S = np.zeros((raws[i].K,) * 2)
        key, _ = samples.pair_index()
        S.ravel()[key] = run.scores[i, : len(key)]
        answers.append((S, run.records["loss"][i]))
    return answers


def scores_of(seed, n=K, size=2.0):
    return size * np.random.default_rng(seed).standard_normal((n, n))


@holds_for(data(), seeds)
def test_the_gradient_is_its_formula(raw, seed):
    S = scores_of(seed)
    loss, D = layer(raw, S)
    assert loss == pytest.approx(oracle.loss(raw, S), abs=1e-13)
    np.testing.assert_allclose(D, gradient(wide(raw), S), rtol=0, atol=1e-14)


@holds_for(data(), seeds, share=0.5)
def test_under_embeddings_the_gradient_is_pulled_back(raw, seed):
    """L(W) = L(S) at S = E Wᵀ Eᵀ, and ∇_W L = Eᵀ (∂L/∂S)ᵀ E, whatever the embeddings."""
    E, W = scores_of(seed, size=1.0), scores_of(seed + 1, size=1.0)
    S = E @ W.T @ E.T
    loss, D = layer(raw, W.T, E)
    assert loss == pytest.approx(oracle.loss(raw, S), abs=1e-12)
    np.testing.assert_allclose(D.T, E.T @ gradient(wide(raw), S).T @ E, rtol=0, atol=1e-12)


@holds_for(data(), seeds, share=0.5)
def test_the_gradient_sums_to_zero_for_each_last_token(raw, seed):
    """It lies in span{(e_y − e_x) e_qᵀ} of the observed edges: also 0 off the observed pairs."""
    _, D = layer(raw, scores_of(seed))
    assert np.abs(D.sum(axis=1)).max() < 1e-15 * K * 10
    seen = np.zeros((K, K), bool)
    for row in raw.rows:
        seen[row[-1], list(row)] = True
    assert (D[~seen] == 0).all()


@holds_for(data(), seeds, seeds, st.floats(0, 1), share=0.5)
def test_the_loss_is_convex(raw, a, b, share):
    A, B = scores_of(a, size=5.0), scores_of(b, size=5.0)
    (left, _), (right, _), (middle, _) = (
        layer(raw, S) for S in (A, B, share * A + (1 - share) * B)
    )
    assert middle <= share * left + (1 - share) * right + 1e-12


@holds_for(data(), seeds, share=0.5)
def test_attention_is_that_of_the_positions(raw, seed):
    """Bags with counts against the layer as it is written: a softmax over positions."""
    S, samples = scores_of(seed, raw.K), raw.samples()
    a = room.attention_of(samples, S[graph_pairs(samples)])
    for i in range(len(samples)):
        row = [x for x, m in samples.bag(i).items() for _ in range(m)]
        z = np.exp([S[samples.last[i], x] for x in row])
        wanted = {x: (z / z.sum())[[t == x for t in row]].sum() for x in row}
        part = slice(samples.start[i], samples.start[i + 1])
        np.testing.assert_allclose(a[part], [wanted[x] for x in samples.token[part]], atol=1e-14)


def graph_pairs(samples):
    key, _ = samples.pair_index()
    return np.divmod(key, len(samples.vocabulary))


@holds_for(data(), st.floats(0.01, 4), share=0.1)
def test_descent_never_raises_the_loss(raw, lr):
    """Softmax has curvature ½ at most, so any step up to 2/½ = 4 is safe; and no step goes below L*."""
    ((_, loss),) = trained([raw], lr)
    assert (np.diff(loss) <= 1e-14).all()
    floor = finite_component(graph_of(raw), raw.samples()).loss_floor
    assert loss[-1] >= floor - 1e-12


@holds_for(data(), st.floats(0.01, 4), share=0.1)
def test_training_from_zero_stays_in_the_span_of_the_edges(raw, lr):
    """Scores cancel on each weakly connected part of a graph, as those of W_svm and W_fin do."""
    ((S, _),) = trained([raw], lr)
    tied, above = priorities(raw)
    for q in range(raw.K):
        near = tied[q] | above[q] | above[q].T | np.eye(raw.K, dtype=bool)
        for _ in range(3):
            near = near @ near
        assert np.abs(near @ S[q]).max() < 1e-12


@holds_for(data(), seeds, share=0.25)
def test_relabelling_permutes_training(raw, seed):
    new = shuffled(seed, raw.K)
    (a, loss), (b, same) = trained([raw, raw.relabelled(new)], 1.0)
    assert np.abs(b[np.ix_(new, new)] - a).max() < 1e-12
    np.testing.assert_allclose(loss, same, rtol=0, atol=1e-13)


@holds_for(data(weighted=False), st.lists(st.integers(1, 4), min_size=10, max_size=10), share=0.25)
def test_a_repeated_sample_trains_as_a_weight(raw, times):
    times = times[: len(raw.rows)]
    repeated = pick(raw, [i for i, k in enumerate(times) for _ in range(k)])
    (a, _), (b, _) = trained([repeated, with_weights(raw, times)], 1.0)
    np.testing.assert_array_equal(a, b)


@holds_for(data(), data(), share=0.1)
def test_problems_side_by_side_do_not_see_each_other(raw, other):
    """Neither what a problem is trained beside nor its place in the batch changes a bit of it."""
    (a, loss), _ = trained([raw, other], 1.0)
    _, (b, same) = trained([other, raw], 1.0)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(loss, same)


@holds_for(data(), st.floats(1e-3, 1), st.floats(1.1, 10), share=0.25)
def test_along_the_penalty_path_loss_falls_as_size_grows(raw, lam, factor):
    """∇L + λS = 0 by the formula; a lower price buys a larger norm and a lower loss, and the loss stays above L*."""
    samples = raw.samples()
    dear, cheap = penalty_path(samples, [lam * factor, lam])
    assert cheap.radius >= dear.radius - 1e-9
    assert cheap.loss <= dear.loss + 1e-12
    for point in (dear, cheap):
        S = np.zeros((raw.K, raw.K))
        S[graph_pairs(samples)] = point.scores
        assert np.abs(gradient(raw, S) + point.lam * S).max() < 1e-9
        assert point.loss == pytest.approx(oracle.loss(raw, S), abs=1e-12)
    assert cheap.loss >= finite_component(graph_of(raw), samples).loss_floor - 1e-12


# Controls


def test_control_steps_too_long():
    """Beyond 2/L the same data do rise, so that the bound is no accident."""
    ups = 0
    for wins in ((1, 1), (2, 1), (9, 1)):
        raw = oracle.Raw(2, ((0, 1),) * 2, (0, 1), tuple(map(float, wins)))
        ((_, loss),) = trained([raw], 40.0)
        ups += bool((np.diff(loss) > 1e-6).any())
    assert ups


def test_control_a_gradient_without_its_label(monkeypatch):
    def forgetful(raw, S, honest=gradient):
        D = honest(raw, S)
        for row, y, w in raw:
            D[row[-1], y] += w / sum(raw.weights)
        return D

    monkeypatch.setitem(globals(), "gradient", forgetful)
    refuted(test_the_gradient_is_its_formula)


def test_control_attention_without_multiplicities(monkeypatch):
    class Flat:
        def __getattr__(self, name):
            return getattr(np, name)

        @staticmethod
        def log(x):
            return np.zeros_like(x, float)

    monkeypatch.setattr(room, "np", Flat())
    refuted(test_attention_is_that_of_the_positions)


def test_control_a_path_that_stops_early(monkeypatch):
    monkeypatch.setitem(globals(), "penalty_path", partial(penalty_path, tolerance=1e-2))
    refuted(test_along_the_penalty_path_loss_falls_as_size_grows)
