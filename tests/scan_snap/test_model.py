"""The layer: a hand case, and its gradient against automatic and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attomaton.numerics import float64
from attomaton.scan_snap.experiment import model
from attomaton.scan_snap.experiment.model import Batch, Params
from attomaton.scan_snap.families import random_overlap, syn_medium, syn_small

# Compiled whole: operation by operation, the tests would spend their time compiling.
ascent = jax.jit(model.ascent, static_argnums=(3, 4))
mean_loss = jax.jit(model.mean_loss, static_argnums=(3, 4))
down = jax.jit(jax.grad(model.mean_loss), static_argnums=(3, 4))
signal = jax.jit(model.signal, static_argnums=(4, 5))

VARIANTS = [("l2", False), ("none", False), ("l2", True)]
ids = ["unit", "plain", "residual"]


def problem(classes, residual=False, size=7, bias=None, seed=0):
    """A layer, random parameters and a random batch of counts, as JAX arrays."""
    rng = np.random.default_rng(seed)
    L, Q, M = len(classes.context_tokens), len(classes.queries), classes.M
    n = rng.integers(0, classes.K, size)
    counts = np.stack([rng.multinomial(12, classes.P[k])[classes.context_tokens] for k in n])
    whole = model.population(classes)
    batch = Batch(counts.astype(float), whole.query[n], whole.label[n])
    params = Params(rng.normal(size=(M if residual else L, M)), rng.normal(size=(Q, L)))
    return jax.tree.map(jnp.asarray, (params, batch, model.layer_of(classes, bias)))


def test_two_tokens_by_hand():
    # counts 3:1 and a logit of log 3 on the rarer token make the attention even: f = (1, 1)/√2
    with float64():
        z = jnp.array([[0.0, np.log(3.0)]])
        c = model.attention(z, jnp.array([[3.0, 1.0]]))
    np.testing.assert_allclose(c, [[0.5, 0.5]], rtol=1e-15)


def test_a_token_that_does_not_occur_gets_nothing_however_large_its_logit():
    c = model.attention(jnp.array([[500.0, -500.0]]), jnp.array([[0.0, 2.0]]))
    np.testing.assert_array_equal(c, [[0.0, 1.0]])


def test_standardised_has_mean_zero_and_norm_one():
    with float64():
        x = model.standardised(jnp.array([[1.0, 2.0, 6.0]]))
    np.testing.assert_allclose(x, np.array([[-2.0, -1.0, 3.0]]) / np.sqrt(14), rtol=1e-14)


@pytest.mark.parametrize(("normalise", "residual"), VARIANTS, ids=ids)
@pytest.mark.parametrize("classes", [syn_small(), syn_medium(3)], ids=["small", "medium"])
def test_gradient_against_automatic_differentiation(classes, normalise, residual):
    with float64():
        L = len(classes.context_tokens)
        args = problem(classes, residual, bias=np.linspace(-1, 1, L))
        pair = ascent(*args, normalise, residual), down(*args, normalise, residual)
    for a, b in zip(*pair, strict=True):
        np.testing.assert_allclose(a, -b, atol=1e-10 * np.abs(b).max())


@pytest.mark.parametrize(("normalise", "residual"), VARIANTS, ids=ids)
def test_gradient_against_finite_differences(normalise, residual):
    classes = random_overlap(np.random.default_rng(3), 4, 3, 0.5, queries=2)
    with float64():
        params, batch, layer = problem(classes, residual)
        up = ascent(params, batch, layer, normalise, residual)
        rng = np.random.default_rng(5)
        for _ in range(5):
            way = Params(*(jnp.asarray(rng.normal(size=w.shape)) for w in params))
            h = 1e-5  # central differences: error h² against rounding 1e-16/h
            ends = [
                mean_loss(Params(*(w + s * h * d for w, d in zip(params, way, strict=True))),
                                batch, layer, normalise, residual)
                for s in (1, -1)
            ]  # fmt: skip
            slope = float(ends[1] - ends[0]) / (2 * h)
            inner = float(sum((g * d).sum() for g, d in zip(up, way, strict=True)))
            assert slope == pytest.approx(inner, rel=1e-6, abs=1e-8)


def test_a_layer_without_shared_tokens_has_a_gradient_too():
    classes = syn_medium(1)
    with float64():
        args = problem(classes)
        assert len(args[2].shared) == 0
        up, fall = ascent(*args), down(*args)
    np.testing.assert_allclose(up.Z, -fall.Z, atol=1e-12)


def test_rows_of_the_gradient_by_y_add_up_to_zero_and_attention_ignores_a_shift():
    with float64():
        params, batch, layer = problem(syn_medium(3))
        rows = np.asarray(ascent(params, batch, layer).Y).sum(axis=1)
        moved = params._replace(Z=params.Z + 3.0)
        a, b = mean_loss(params, batch, layer), mean_loss(moved, batch, layer)
        rate = np.asarray(ascent(params, batch, layer).Z).sum(axis=1)
    np.testing.assert_allclose(rows, 0, atol=1e-14)
    assert float(a) == pytest.approx(float(b), rel=1e-13)
    np.testing.assert_allclose(rate, 0, atol=1e-13)


@pytest.mark.parametrize(("normalise", "residual"), VARIANTS, ids=ids)
def test_scan_rate_against_automatic_differentiation(normalise, residual):
    classes = syn_medium(1)
    own = classes.distinct[:, classes.context_tokens]
    with float64():
        params, _, layer = problem(classes, residual)
        whole = jax.tree.map(jnp.asarray, model.population(classes))
        now = signal(params, whole, jnp.asarray(own), layer, normalise, residual)
        z = params.Z[whole.query]
        dz = jax.jit(
            jax.grad(
                lambda z: model.log_likelihood(params.Y, z, whole, layer, normalise, residual).sum()
            )
        )(z)
        loss = mean_loss(params, whole, layer, normalise, residual)
    c = classes.P[:, classes.context_tokens] * np.exp(np.asarray(z))
    f = c / np.linalg.norm(c, axis=1, keepdims=True)
    expected = (np.asarray(dz) * own * f**2).sum(axis=1) / (f**4 * own).sum(axis=1)
    np.testing.assert_allclose(now.scan_rate, expected, rtol=1e-10)
    assert float(now.loss) == pytest.approx(float(loss), rel=1e-12)


def test_signal_is_the_formula_of_the_decoder_gradient():
    classes = syn_small()
    with float64():
        params, _, layer = problem(classes)
        whole = jax.tree.map(jnp.asarray, model.population(classes))
        own = classes.distinct[:, classes.context_tokens]
        now = signal(params, whole, jnp.asarray(own), layer)
        Y, z = np.asarray(params.Y), np.asarray(params.Z)[np.asarray(whole.query)]
    w = classes.P[:, classes.context_tokens] * np.exp(z)
    f = w / np.linalg.norm(w, axis=1, keepdims=True)
    alpha = np.exp(f @ Y)
    alpha /= alpha.sum(axis=1, keepdims=True)
    r = np.eye(classes.M)[classes.next_of] - alpha
    g = r @ Y.T
    zdot = f * (g - f * (f * g).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(now.gram, f @ f.T, rtol=1e-12)
    np.testing.assert_allclose(now.onto, g @ f.T, rtol=1e-11)
    expected = (zdot * own * f**2).sum(axis=1) / (f**4 * own).sum(axis=1)
    np.testing.assert_allclose(now.scan_rate, expected, rtol=1e-11)
    rows = np.arange(classes.K)
    assert float(now.loss) == pytest.approx(-np.log(alpha[rows, classes.next_of]).mean())
