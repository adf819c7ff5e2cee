"""Weights of mixtures: by hand, against another solver, from the conditions of the optimum."""

import numpy as np
import pytest
from scipy.optimize import minimize

from attomaton.predictor.rivals.mixing import FLOOR, PSEUDO, fit_weights, mixture_weights

NOTHING = np.full(3, 1e-6)


def test_by_hand():
    # One component is sure of three labels, the other of one: ¾ and ¼.
    p = np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0]])
    w, residual = mixture_weights(p, np.ones(4), np.full(2, 1e-9))
    assert w == pytest.approx([0.75, 0.25], abs=1e-8)
    assert residual < 1e-9
    w, _ = mixture_weights(p, np.array([1.0, 1, 1, 9]), np.full(2, 1e-9))
    assert w == pytest.approx([0.25, 0.75], abs=1e-8)
    # Pseudo-counts count like windows of which that component alone was sure.
    w, _ = mixture_weights(p, np.ones(4), np.array([0.0 + 1e-9, 2.0]))
    assert w == pytest.approx([0.5, 0.5], abs=1e-8)


def test_against_another_solver():
    rng = np.random.default_rng(0)
    p, weight = rng.gamma(0.4, size=(200, 3)), rng.uniform(0.5, 2, 200)
    w, residual = mixture_weights(p, weight, NOTHING)
    assert residual < 1e-9

    def loss(z):
        v = np.exp(z - z.max())
        return -weight @ np.log(p @ (v / v.sum())) - NOTHING @ np.log(v / v.sum())

    other = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-7}).x
    other = np.exp(other - other.max())
    assert w == pytest.approx(other / other.sum(), abs=1e-5)
    # No component is better than the mixture on average of p_c/p (the condition of the optimum).
    gain = weight @ (p / (p @ w)[:, None]) / weight.sum()
    assert gain.max() < 1 + 1e-6


def test_a_useless_component_gets_nothing_and_labels_without_room_say_nothing():
    rng = np.random.default_rng(1)
    good = rng.uniform(0.2, 1, 100)
    p = np.stack([good, good / 3, np.zeros(100)], axis=1)
    w, residual = mixture_weights(p, np.ones(100), NOTHING)
    assert w[0] > 1 - 1e-5
    assert residual < 1e-9
    more = np.concatenate([p, np.zeros((7, 3))])
    assert mixture_weights(more, np.ones(107), NOTHING)[0] == pytest.approx(w, abs=1e-9)


def test_buckets_are_drawn_towards_all_windows():
    p = np.array([[0.8, 0.2]] * 50 + [[0.2, 0.8]] * 50 + [[0.1, 0.9]])
    bucket = np.repeat([0, 1, 2], [50, 50, 1])
    found = fit_weights(p, np.ones(101), bucket, 4)
    overall, _ = mixture_weights(p, np.ones(101), np.full(2, FLOOR / 2))
    assert found.residual < 1e-9
    assert found.value.sum(axis=1) == pytest.approx(1)
    assert found.value[3] == pytest.approx(overall)  # never seen
    assert overall[1] < found.value[2, 1] < found.value[1, 1]  # seen once
    # By hand for the first: 50 windows of p = (0.8, 0.2), PSEUDO of the overall weights.
    w = found.value[0, 0]
    a = PSEUDO * overall + FLOOR / 2
    mix = 0.8 * w + 0.2 * (1 - w)
    assert 50 * 0.8 / mix + a[0] / w == pytest.approx(50 * 0.2 / mix + a[1] / (1 - w), rel=1e-6)


def test_one_component_is_taken_as_it_is():
    assert fit_weights(np.ones((3, 1)), np.ones(3), np.zeros(3, dtype=int), 1).value.tolist() == [[1.0]]  # fmt: skip
