"""β, ξ and the reduced velocity: a case by hand, two further implementations, and what stays the same."""

import numpy as np
import pytest

from attomaton.scan_snap.theory.attention import (
    class_velocity,
    distinct_velocity,
    inverse_mixing,
    overlap,
    reduced_velocity,
    scan_rate,
    single_common_velocity,
    weak_mixing,
)

RNG = np.random.default_rng(3)


def unit(c):
    return c / np.linalg.norm(c, axis=-1, keepdims=True)


def random_attention(K=4, M=9, batch=()):
    return unit(RNG.random((*batch, K, M)) * (RNG.random((*batch, K, M)) < 0.6) + 1e-3)


def literal_velocity(f, query_of, rate, gamma, beta):
    """The formula, sum by sum."""
    queries = np.unique(query_of)
    z = np.zeros((len(queries), f.shape[1]))
    for i, m in enumerate(queries):
        for n in np.flatnonzero(query_of == m):
            for other in range(len(f)):
                if other != n:
                    project = np.outer(f[n], f[n]) - np.eye(f.shape[1])
                    z[i] += rate * gamma * beta[n, other] * f[n] * (project @ f[other])
    return z


def test_two_classes_by_hand():
    """f = (a, b, 0), (a, 0, b): E = a², E′ = a²/(1 − a⁴), ξ = γ a⁴/(1 − a⁴)."""
    a, b = 0.6, 0.8
    f = np.array([[a, b, 0.0], [a, 0.0, b]])
    assert overlap(f)[0, 1] == pytest.approx(a**2, abs=1e-15)
    beta = a**2 / (1 - a**4)
    assert inverse_mixing(overlap(f))[0, 1] == pytest.approx(beta, rel=1e-14)
    xi = 3.0 * beta * a**2
    np.testing.assert_allclose(scan_rate(f, 3.0), [xi, xi], rtol=1e-14)
    # Own token: f² ξ from its class; common token: −(1 − a²) ξ from each of the two.
    one_query = reduced_velocity(f, np.array([5, 5]), rate=0.1, gamma=3.0)
    np.testing.assert_allclose(
        one_query, 0.1 * xi * np.array([[-2 * b**2, b**2, b**2]]), rtol=1e-13
    )
    two_queries = reduced_velocity(f, np.array([6, 5]), rate=0.1, gamma=3.0)
    np.testing.assert_allclose(
        two_queries, 0.1 * xi * b**2 * np.array([[-1, 0, 1], [-1, 1, 0]]), rtol=1e-13, atol=1e-17
    )


def test_velocity_is_the_formula():
    f, query_of = random_attention(5, 8), np.array([3, 1, 3, 3, 0])
    beta = inverse_mixing(overlap(f))
    np.testing.assert_allclose(
        reduced_velocity(f, query_of, rate=0.2, gamma=1.7),
        literal_velocity(f, query_of, 0.2, 1.7, beta),
        atol=1e-14,
    )


def test_batches_are_single_cases():
    f, query_of = random_attention(4, 6, (2, 3)), np.array([0, 1, 1, 0])
    gamma = RNG.random((2, 3))
    many = reduced_velocity(f, query_of, rate=1.0, gamma=gamma)
    rates = scan_rate(f, gamma)
    for i in np.ndindex(2, 3):
        one = reduced_velocity(f[i], query_of, rate=1.0, gamma=float(gamma[i]))
        np.testing.assert_allclose(many[i], one, atol=1e-14)
        np.testing.assert_allclose(rates[i], scan_rate(f[i], float(gamma[i])), atol=1e-14)


def test_distinct_and_single_common_forms():
    """One token in every class but one, all others distinct: both closed forms, at 1e-14."""
    K, M = 4, 9
    c = np.zeros((K, M))
    c[:3, 0] = [0.3, 0.5, 0.2]
    for n in range(K):
        c[n, 1 + 2 * n : 3 + 2 * n] = RNG.random(2)
    f, query_of = unit(c), np.array([1, 0, 0, 0])
    xi = scan_rate(f, 2.0)
    full = reduced_velocity(f, query_of, rate=0.5, gamma=2.0)
    common = single_common_velocity(f[:, 0], xi, query_of, rate=0.5)
    np.testing.assert_allclose(full[:, 0], common, atol=1e-15)
    own = distinct_velocity(f, xi, rate=0.5)
    by_query = np.stack([own[1:, 1:].sum(0), own[0, 1:]])
    np.testing.assert_allclose(full[:, 1:], by_query, atol=1e-15)
    assert xi[3] == 0  # it shares nothing
    assert (common < 0).all()


@pytest.mark.parametrize("K", [2, 5, 8])
def test_the_scan_rate_is_positive_at_any_correlation(K):
    """γ([(I + E)⁻¹]_nn − 1), the variance inflation of class n less 1: no weak correlation needed."""
    for share in (0.0, 0.5, 0.99):
        f = unit((1 - share) * random_attention(K, 12) + share)
        inflation = np.linalg.inv(np.eye(K) + overlap(f)).diagonal()
        np.testing.assert_allclose(scan_rate(f), inflation - 1, rtol=1e-6, atol=1e-12)
        assert (scan_rate(f) > 0).all()


def test_the_scan_rate_keeps_its_digits_when_classes_hardly_overlap():
    f = unit(np.array([[1e-6, 1.0, 0.0], [1e-6, 0.0, 1.0]]))
    np.testing.assert_allclose(scan_rate(f), 1e-24, rtol=1e-9)


def test_rows_of_the_velocity_add_up_to_zero():
    for _ in range(5):
        f, query_of = random_attention(6, 10), RNG.integers(0, 3, 6)
        for beta in (None, weak_mixing(overlap(f), 4.0, 30), RNG.random((6, 6))):
            z = reduced_velocity(f, query_of, rate=1.0, gamma=1.0, beta=beta)
            np.testing.assert_allclose(z.sum(axis=1), 0, atol=1e-13)


def test_relabelling_tokens_and_classes_permutes_the_answer():
    f, query_of = random_attention(5, 7), np.array([0, 1, 1, 2, 0])
    tokens, classes = RNG.permutation(7), RNG.permutation(5)
    z = reduced_velocity(f, query_of, rate=1.0, gamma=1.0)
    moved = reduced_velocity(f[classes][:, tokens], query_of[classes], rate=1.0, gamma=1.0)
    np.testing.assert_allclose(moved, z[:, tokens], atol=1e-14)
    np.testing.assert_allclose(scan_rate(f[classes]), scan_rate(f)[classes], atol=1e-14)


def test_weak_mixing_starts_at_one_over_the_other_tokens_and_grows():
    E = overlap(random_attention(3, 6))
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(weak_mixing(E, 0.0, 101)[off], 0.01, rtol=1e-12)
    x = 2.0 * E[off]
    np.testing.assert_allclose(
        weak_mixing(E, 2.0, 101)[off], ((np.exp(x) - 1) / x + np.exp(x) - 1) / 100, rtol=1e-12
    )
    assert (weak_mixing(E, 2.0, 101)[~off] == 0).all()


def test_a_class_pulls_nothing_along_itself():
    """β_nn is beside the point: (f fᵀ − I) f = 0."""
    f = random_attention(4, 6)
    beta = RNG.random((4, 4))
    np.testing.assert_allclose(
        class_velocity(f, beta), class_velocity(f, beta + np.diag([5.0, 1, 2, 3])), atol=1e-14
    )
