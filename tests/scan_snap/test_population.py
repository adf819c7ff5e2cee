"""The long-sequence objective, its velocities and its measures, against independent computations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attomaton.numerics import float64
from attomaton.scan_snap.data import sequence_classes
from attomaton.scan_snap.experiment import population
from attomaton.scan_snap.experiment.draws import uniform_start
from attomaton.scan_snap.experiment.population import (
    decoder_gain,
    loss,
    population_of,
    residual,
    unit_attention,
)

EXACT = 1e-10  # two ways of computing the same numbers of order 1 in float64

# As programs, the way training calls them: one by one, every operation would be a program of its own.
velocity, population_measures = (
    jax.jit(population.velocity),
    jax.jit(population.population_measures),
)


def draw_classes(seed, K=4, queries=2, common=3, distinct=3, spare=2, bare=0):
    """Random laws over common tokens, tokens of their own (none for the first `bare` classes), and spare tokens."""
    rng = np.random.default_rng(seed)
    tokens = common + K * distinct
    P = np.zeros((K, tokens + queries + K + spare))
    P[:, :common] = rng.uniform(0.2, 1, (K, common))
    for n in range(bare, K):
        own = slice(common + n * distinct, common + (n + 1) * distinct)
        P[n, own] = rng.uniform(0.2, 1, distinct)
    P /= P.sum(axis=1, keepdims=True)
    return sequence_classes(P, tokens + np.arange(K) % queries, tokens + queries + np.arange(K))


def draw_full(classes, seed, size=1.0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, size, (2, classes.M, classes.M))


def kept(classes, Y, Z):
    """The rows and columns of full matrices that `Population` keeps."""
    tokens = classes.context_tokens
    return jnp.asarray(Y[tokens]), jnp.asarray(Z[np.ix_(classes.queries, tokens)])


def objective(Y, Z, classes):
    """J on full matrices, as plainly as it can be written."""
    total = 0.0
    for n in range(classes.K):
        weight = classes.P[n] * jnp.exp(Z[classes.query_of[n]])
        c = weight / weight.sum()
        f = c / jnp.sqrt((c * c).sum())
        total += jax.nn.log_softmax(Y.T @ f)[classes.next_of[n]]
    return total / classes.K


def by_hand(Y, Z, classes):
    """Both velocities on full matrices, projector by projector, in NumPy."""
    dY, dZ = np.zeros_like(Y), np.zeros_like(Z)
    each = []
    for n, (m, following) in enumerate(zip(classes.query_of, classes.next_of, strict=True)):
        c = classes.P[n] * np.exp(Z[m])
        f = c / np.linalg.norm(c)
        alpha = np.exp(Y.T @ f)
        r = np.eye(classes.M)[following] - alpha / alpha.sum()
        pull = np.diag(f) @ (np.eye(classes.M) - np.outer(f, f)) @ Y @ r
        dY += np.outer(f, r) / classes.K
        dZ[m] += pull / classes.K
        each.append((f, Y @ r, pull))
    return dY, dZ, each


@pytest.mark.parametrize("seed", range(3))
def test_velocities_are_the_gradient_of_the_objective(seed):
    classes = draw_classes(seed)
    Y, Z = draw_full(classes, seed)
    with float64():
        gradient = jax.jit(jax.grad(lambda Y, Z: objective(Y, Z, classes), argnums=(0, 1)))
        gY, gZ = gradient(Y, Z)
        v = velocity(*kept(classes, Y, Z), population_of(classes))
        expected = kept(classes, np.asarray(gY), np.asarray(gZ))
    np.testing.assert_allclose(v.Y, expected[0], atol=EXACT)
    np.testing.assert_allclose(v.Z, expected[1], atol=EXACT)
    # What is not kept does not move.
    assert not np.delete(gY, classes.context_tokens, axis=0).any()
    assert not np.delete(gZ, classes.queries, axis=0).any()
    assert not np.delete(gZ, classes.context_tokens, axis=1).any()


def test_velocities_match_finite_differences():
    classes = draw_classes(5)
    Y, Z = draw_full(classes, 5)
    rng = np.random.default_rng(6)
    whole, h = population_of(classes), 1e-5
    with float64():
        y, z = kept(classes, Y, Z)
        v = velocity(y, z, whole)

        def J(y, z):
            return -float(loss(y, unit_attention(z, whole), whole))

        for _ in range(5):
            a, b = jnp.asarray(rng.normal(size=y.shape)), jnp.asarray(rng.normal(size=z.shape))
            slope = (J(y + h * a, z + h * b) - J(y - h * a, z - h * b)) / (2 * h)
            # Central differences: h² from truncation, 1e-16/h from rounding, times some ten in size.
            assert slope == pytest.approx(float((v.Y * a).sum() + (v.Z * b).sum()), abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_velocities_and_measures_match_numpy_on_full_matrices(seed):
    classes = draw_classes(seed, bare=1)
    Y, Z = draw_full(classes, seed)
    dY, dZ, each = by_hand(Y, Z, classes)
    with float64():
        v = velocity(*kept(classes, Y, Z), population_of(classes))
        expected = kept(classes, dY, dZ)
        measures = population_measures(*kept(classes, Y, Z), population_of(classes))
    np.testing.assert_allclose(v.Y, expected[0], atol=EXACT)
    np.testing.assert_allclose(v.Z, expected[1], atol=EXACT)
    F = np.array([f for f, _, _ in each])
    a = np.array([np.linalg.lstsq(F.T, g, rcond=None)[0] for _, g, _ in each])
    assert float(measures["gamma"]) == pytest.approx(np.trace(a) / classes.K, abs=EXACT)
    assert np.isnan(measures["xi"][0])  # class 0 has no token of its own
    for n in range(1, classes.K):
        own = classes.distinct[n]
        f, m = F[n, own], classes.query_of[n]
        rate = np.linalg.lstsq(f[:, None] ** 2 / classes.K, dZ[m, own], rcond=None)[0]
        assert float(measures["xi"][n]) == pytest.approx(rate[0], abs=EXACT)
    with float64():
        J = float(objective(jnp.asarray(Y), jnp.asarray(Z), classes))
    assert float(measures["loss"]) == pytest.approx(-J, abs=EXACT)


def test_one_column_stands_for_all_that_are_nobodys_next_token():
    classes = draw_classes(2, spare=50)
    merged, full = population_of(classes, merged=True), population_of(classes)
    rng = np.random.default_rng(0)
    small = rng.normal(size=(len(classes.context_tokens), classes.K + 1))
    Y = np.repeat(small[:, -1:], classes.M, axis=1)
    Y[:, classes.next_of] = small[:, :-1]
    Z = rng.normal(size=(len(classes.queries), len(small)))
    with float64():
        a = velocity(jnp.asarray(small), jnp.asarray(Z), merged)
        b = velocity(jnp.asarray(Y), jnp.asarray(Z), full)
        c = population_measures(jnp.asarray(small), jnp.asarray(Z), merged)
        d = population_measures(jnp.asarray(Y), jnp.asarray(Z), full)
    others = np.setdiff1d(np.arange(classes.M), classes.next_of)
    np.testing.assert_allclose(a.Y[:, :-1], np.asarray(b.Y)[:, classes.next_of], atol=EXACT)
    spread = np.repeat(a.Y[:, -1:], len(others), axis=1)
    np.testing.assert_allclose(spread, np.asarray(b.Y)[:, others], atol=EXACT)
    np.testing.assert_allclose(a.Z, b.Z, atol=EXACT)
    for name in c:
        np.testing.assert_allclose(c[name], d[name], atol=EXACT, err_msg=name)


def test_a_vocabulary_of_next_tokens_only_has_nothing_to_merge():
    P = [[0.5, 0.5, 0, 0], [0.2, 0.8, 0, 0], [0.5, 0.5, 0, 0], [0.9, 0.1, 0, 0]]
    classes = sequence_classes(P, [2, 2, 3, 3], [0, 1, 2, 3])
    assert population_of(classes, merged=True).multiplicity.tolist() == [1.0] * 4


def test_row_sums_stay_zero_from_a_zero_start():
    classes = draw_classes(3)
    Y, Z = np.zeros((2, classes.M, classes.M))
    for _ in range(200):
        dY, dZ, _ = by_hand(Y, Z, classes)
        Y, Z = Y + 0.5 * dY, Z + 0.5 * dZ
    whole = population_of(classes)
    with float64():
        y, z = kept(classes, np.zeros_like(Y), np.zeros_like(Z))
        for _ in range(200):
            v = velocity(y, z, whole)
            y, z = y + 0.5 * v.Y, z + 0.5 * v.Z
        expected = kept(classes, Y, Z)
    y, z = np.asarray(y), np.asarray(z)
    assert abs(y.sum(-1)).max() < EXACT
    assert abs(z.sum(-1)).max() < EXACT
    assert abs(z).max() > 0.05  # attention did move
    np.testing.assert_allclose(y, expected[0], atol=EXACT)
    np.testing.assert_allclose(z, expected[1], atol=EXACT)


def test_a_sure_layer_keeps_its_digits():
    # One token, five columns, a margin of 60: each of the four others has e^-60 of the mass.
    classes = sequence_classes([[1.0, 0, 0, 0, 0]], [1], [4])
    whole = population_of(classes)
    with float64():
        Y = jnp.zeros((1, 5)).at[0, 4].set(60.0)
        f = jnp.ones((1, 1))
        r, value = residual(Y, f, whole), loss(Y, f, whole)
    assert float(value) == pytest.approx(4 * np.exp(-60.0), rel=1e-12)
    assert float(r[0, 4]) == pytest.approx(4 * np.exp(-60.0), rel=1e-12)


def test_gain_of_a_known_mixture():
    rng = np.random.default_rng(0)
    f = rng.uniform(size=(3, 8))
    f /= np.linalg.norm(f, axis=1, keepdims=True)
    a = rng.normal(size=(3, 3))
    with float64():
        gain = decoder_gain(jnp.asarray(f), jnp.asarray(a @ f))
        assert float(gain) == pytest.approx(np.trace(a) / 3, abs=EXACT)
        # Classes that attend alike share the gain: the smallest of all fits.
        alike = jnp.asarray(f[[0, 0]])
        assert float(decoder_gain(alike, 3.0 * alike)) == pytest.approx(1.5, abs=EXACT)


def test_relabelling_tokens_permutes_everything():
    classes = draw_classes(4)
    rng = np.random.default_rng(4)
    order = rng.permutation(classes.M)  # new token i is old token order[i]
    new = np.argsort(order)
    other = sequence_classes(classes.P[:, order], new[classes.query_of], new[classes.next_of])
    Y, Z = draw_full(classes, 4)
    with float64():
        a = velocity(*kept(classes, Y, Z), population_of(classes))
        again = kept(other, Y[np.ix_(order, order)], Z[np.ix_(order, order)])
        b = velocity(*again, population_of(other))
    full_a, full_b = np.zeros((2, classes.M, classes.M))
    full_a[classes.context_tokens] = a.Y
    full_b[other.context_tokens] = b.Y
    np.testing.assert_allclose(full_b, full_a[np.ix_(order, order)], atol=EXACT)
    full_a, full_b = np.zeros((2, classes.M, classes.M))
    full_a[np.ix_(classes.queries, classes.context_tokens)] = a.Z
    full_b[np.ix_(other.queries, other.context_tokens)] = b.Z
    np.testing.assert_allclose(full_b, full_a[np.ix_(order, order)], atol=EXACT)
    np.testing.assert_allclose(a.xi, b.xi, atol=EXACT)


def test_uniform_starts_are_bounded_repeatable_and_different():
    classes = draw_classes(0)
    Y, Z = uniform_start(classes, 3)
    assert Y.shape == (len(classes.context_tokens), classes.M)
    assert Z.shape == (len(classes.queries), len(classes.context_tokens))
    reach = classes.M**-0.5
    assert 0.9 * reach < abs(Y).max() < reach
    assert np.array_equal(Y, uniform_start(classes, 3)[0])
    assert not np.array_equal(Y, uniform_start(classes, 3, 1)[0])
    assert not np.array_equal(Y, uniform_start(classes, 4)[0])
