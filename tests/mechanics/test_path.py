"""The regularisation path against a general-purpose optimiser and answers known by hand."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint, minimize

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import DataError, SolverError, UsageError
from attomaton.mechanics.experiment import path as module
from attomaton.mechanics.experiment.path import norm_path, penalty_path

CYCLE = samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1])
CHAIN = samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1])
MIXED = samples_from_sequences([[0, 1, 2, 3], [0, 1, 3], [0, 1, 3]], [0, 1, 0])


def some_data(seed=0, K=4, d=5, n=7, T=4):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, K, size=(n, T))
    y = np.array([rng.choice(x) for x in X])
    weight = rng.uniform(0.5, 2.0, size=n)
    samples = samples_from_sequences(X, y, weight, Vocabulary(range(K)))
    E = rng.normal(size=(K, d))
    return X, y, weight / weight.sum(), samples, E / np.linalg.norm(E, axis=1, keepdims=True)


def plain_loss(X, y, weight, S):
    """−log of the softmax mass on the positions that hold the label, one position after the other."""
    total = 0.0
    for x, label, w in zip(X, y, weight, strict=True):
        s = S[x[-1], x]
        total += w * (np.logaddexp.reduce(s) - np.logaddexp.reduce(s[x == label]))
    return total


def test_penalty_path_agrees_with_a_general_optimiser():
    X, y, weight, samples, E = some_data()
    prior = np.random.default_rng(1).normal(size=(5, 5))
    for lam, found in zip([0.5, 0.01], penalty_path(samples, [0.5, 0.01], E, prior), strict=True):

        def objective(w, lam=lam):
            W = w.reshape(5, 5)
            return plain_loss(X, y, weight, E @ W.T @ E.T) + lam / 2 * ((W - prior) ** 2).sum()

        best = minimize(objective, prior.ravel(), method="BFGS", options={"gtol": 1e-7})
        # BFGS on difference quotients knows its minimum to about their error, 1e-8/λ.
        assert np.abs(found.W - best.x.reshape(5, 5)).max() < 1e-4
        assert objective(found.W.ravel()) <= best.fun + 1e-13
        assert found.loss == pytest.approx(plain_loss(X, y, weight, E @ found.W.T @ E.T), rel=1e-12)


def test_norm_path_agrees_with_a_general_optimiser():
    X, y, weight, samples, E = some_data(2)
    for R, found in zip([0.7, 3.0], norm_path(samples, [0.7, 3.0], E), strict=True):
        ball = NonlinearConstraint(lambda w: w @ w, -np.inf, R**2)
        start = np.full(25, 0.01)
        best = minimize(
            lambda w: plain_loss(X, y, weight, E @ w.reshape(5, 5).T @ E.T),
            start, method="SLSQP", constraints=ball, options={"ftol": 1e-12, "maxiter": 500},
        )  # fmt: skip
        assert found.loss <= best.fun + 1e-9
        assert np.abs(found.W.ravel() - best.x).max() < 1e-3  # the loss is flat to second order
        assert found.radius == pytest.approx(R, rel=1e-8)


def test_both_paths_are_one_curve():
    _, _, _, samples, E = some_data(3)
    for embeddings in (None, E):
        for point in norm_path(samples, [0.5, 2.0, 8.0], embeddings):
            (same,) = penalty_path(samples, [point.lam], embeddings)
            a, b = (p.scores if embeddings is None else p.W for p in (point, same))
            assert np.abs(a - b).max() < 1e-7 * point.radius


def test_dense_with_the_identity_is_pairs():
    _, _, _, samples, _ = some_data(4)
    owner = samples.sample_of
    key = np.unique(samples.last[owner] * 4 + samples.token)
    pairs = norm_path(samples, [1.0, 5.0])
    dense = norm_path(samples, [1.0, 5.0], np.eye(4))
    for p, q in zip(pairs, dense, strict=True):
        assert np.abs(q.W.T.ravel()[key] - p.scores).max() < 1e-8
        assert p.lam == pytest.approx(q.lam, rel=1e-7)


def test_loss_falls_and_radius_is_attained_along_the_path():
    _, _, _, samples, E = some_data(5)
    radii = [0.1, 0.5, 1, 2, 4, 8, 16]
    path = norm_path(samples, radii, E)
    loss = np.array([p.loss for p in path])
    lam = np.array([p.lam for p in path])
    assert (np.diff(loss) < 0).all()
    assert (np.diff(lam) < 0).all()
    assert [p.radius for p in path] == pytest.approx(radii, rel=1e-8)
    assert max(p.gradient for p in path) < 1e-10


def test_solutions_stay_in_the_span_of_the_pairs_that_occur():
    _, _, _, samples, E = some_data(6)
    owner = samples.sample_of
    pairs = sorted({*zip(samples.last[owner].tolist(), samples.token.tolist(), strict=True)})
    span = np.array([np.outer(E[x], E[q]).ravel() for q, x in pairs]).T
    for point in norm_path(samples, [1.0, 10.0], E):
        w = point.W.ravel()
        outside = w - span @ np.linalg.lstsq(span, w)[0]
        assert np.abs(outside).max() < 1e-12 * point.radius


def test_a_chain_takes_its_direction():
    # theory: the direction is (1, 0, −1)/√2; the loss near the end is about e^(−R/√2).
    cosines = [
        p.scores @ [1, 0, -1] / 2**0.5 / p.radius for p in norm_path(CHAIN, [1, 5, 10, 20, 30])
    ]
    assert (np.diff(1 - np.array(cosines)) <= 1e-15).all()
    assert cosines[-1] == pytest.approx(1, abs=1e-14)


def test_a_cycle_ends_at_its_finite_minimum():
    goal = np.array([0.5, -0.5]) * np.log(3)
    inside, below = norm_path(CYCLE, [5.0, 0.5])
    assert inside.lam == 0
    assert inside.scores == pytest.approx(goal, abs=1e-9)
    assert below.radius == pytest.approx(0.5, rel=1e-9)
    even = samples_from_sequences([[0, 1]] * 2, [0, 1])
    (none,) = norm_path(even, [1.0])
    assert (none.lam, none.radius) == (0, 0)


def test_the_mixed_case_takes_both_limits():
    # Tokens 0 and 1 outrank 2 and 3; of three samples 0 wins twice: log-odds log 2 in the end.
    (far,) = norm_path(MIXED, [20.0])
    assert far.scores[0] - far.scores[1] == pytest.approx(np.log(2), abs=1e-3)
    # The part left of W_R's direction is of constant size, so the angle closes like 1/R.
    assert far.scores @ [0.5, 0.5, -0.5, -0.5] / far.radius > 1 - 1 / far.radius


def test_prices_may_come_in_any_order():
    up, down = penalty_path(CYCLE, [0.1, 1.0]), penalty_path(CYCLE, [1.0, 0.1])
    for p, q in zip(up, reversed(down), strict=True):
        assert p.lam == q.lam
        assert p.scores == pytest.approx(q.scores, abs=1e-10)
    prior = np.array([2.0, -1.0])
    (stay,) = penalty_path(CYCLE, [1e6], prior=prior)
    assert stay.scores == pytest.approx(prior, abs=1e-6)


def test_relabelled_tokens_permute_the_answer():
    _, _, _, samples, _ = some_data(7)
    order = np.random.default_rng(0).permutation(4)
    sequences = [[0, 1, 2, 3], [1, 1, 2, 3], [2, 0, 3]]
    plain = samples_from_sequences(sequences, [0, 2, 0], vocabulary=samples.vocabulary)
    moved = samples_from_sequences(
        [[int(order[x]) for x in row] for row in sequences],
        [int(order[x]) for x in (0, 2, 0)],
        vocabulary=samples.vocabulary,
    )
    p, q = (penalty_path(s, [0.1])[0].scores for s in (plain, moved))
    assert q[order] == pytest.approx(p, abs=1e-10)  # one last token, all four tokens occur


def test_refusals(monkeypatch):
    for bad in ([], [0.0], [-1.0], [float("nan")], np.ones((2, 2))):
        with pytest.raises(UsageError, match="lambdas"):
            penalty_path(CYCLE, bad)
        with pytest.raises(UsageError, match="radii"):
            norm_path(CYCLE, bad)
    with pytest.raises(UsageError, match=r"prior: expected shape \(2,\), got \(3,\)"):
        penalty_path(CYCLE, [1.0], prior=np.zeros(3))
    with pytest.raises(DataError, match="prior: entry 1 is nan"):
        penalty_path(CYCLE, [1.0], prior=np.array([0.0, np.nan]))
    with pytest.raises(DataError, match="3 rows for a vocabulary of 2"):
        penalty_path(CYCLE, [1.0], np.eye(3))
    with pytest.raises(SolverError, match="radius 1000 needs lambda below"):
        norm_path(CHAIN, [1000.0])
    monkeypatch.setattr(module, "NEWTON_STEPS", 2)
    with pytest.raises(SolverError, match=r"lambda = 1e-06 .* the residual is"):
        penalty_path(CHAIN, [1e-6])


def test_the_path_needs_no_jax():
    code = "import sys, attomaton.mechanics.experiment.path; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
