"""The kernels for a GPU, interpreted here, against what they replace."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attomaton.base.programs import _compiled
from attomaton.transformer import kernels, model
from attomaton.transformer.model import Settings, next_token_loss
from attomaton.transformer.train import train

# Sums of single precision
CLOSE = {"rtol": 0, "atol": 3e-6}


@pytest.fixture
def used(monkeypatch):
    """As if the device had them."""
    monkeypatch.setattr(model, "with_kernels", lambda precision: precision in ("tf32", "bfloat16"))
    jax.clear_caches()
    _compiled.cache_clear()
    yield
    jax.clear_caches()
    _compiled.cache_clear()


# A row in one piece, in several, and one whose last piece is filled up with tokens there are not.
@pytest.mark.parametrize(("vocab", "filled"), [(100, 128), (2048, 2048), (5001, 5120)])
def test_errors_are_what_softmax_leaves(vocab, filled):
    rng = np.random.default_rng(0)
    products = 20 * rng.standard_normal((6, filled)).astype(np.float32)
    bias = np.where(np.arange(filled) < vocab, rng.standard_normal(filled), -np.inf)
    target, weight = rng.integers(0, vocab, 6), np.array([1, 0.5, 2, 0, 1, 1], np.float32)
    target[0], target[1] = 0, vocab - 1
    given = (products, bias.astype(np.float32), target.astype(np.int32), weight)
    loss, error = jax.jit(kernels.errors)(*given)
    logits = products.astype(float) + bias
    log_alpha = logits - logits.max(1, keepdims=True)
    log_alpha -= np.log(np.exp(log_alpha).sum(1, keepdims=True))
    expected = (np.exp(log_alpha) - (np.arange(filled) == target[:, None])) * weight[:, None]
    np.testing.assert_allclose(loss, -log_alpha[np.arange(6), target], rtol=1e-5)
    np.testing.assert_allclose(error, expected, **CLOSE)
    assert not np.asarray(error)[:, vocab:].any()


def plain_attention(qkv, noise, heads, edge):
    batch, length, _, width = qkv.shape
    q, k, v = (qkv[:, :, i].reshape(batch, length, heads, -1) for i in range(3))
    scores = jnp.einsum("bthe,bshe->bhts", q, k) / np.sqrt(width // heads)
    p = jax.nn.softmax(jnp.where(np.tri(length, dtype=bool), scores, -jnp.inf))
    if noise is not None:
        p = jnp.where(noise >= edge, p * 2**16 / (2**16 - edge), 0)
    return jnp.einsum("bhts,bshe->bthe", p, v).reshape(batch, length, width)


# Columns of a head in one piece and in several, lengths that fill a block and that do not.
@pytest.mark.parametrize(("length", "width", "heads"), [(35, 200, 1), (16, 24, 3), (5, 70, 1)])
@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_attention_and_its_gradient_are_the_plain_ones(length, width, heads, rate):
    rng = np.random.default_rng(1)
    qkv = jnp.asarray(rng.standard_normal((2, length, 3, width)), jnp.float32)
    push = jnp.asarray(rng.standard_normal((2, length, width)), jnp.float32)
    bits = rng.integers(0, 2**16, (2, heads, length, length))
    noise, edge = (jnp.asarray(bits, jnp.uint16), round(rate * 2**16)) if rate else (None, 0)

    def both(attention):
        value, back = jax.vjp(lambda x: attention(x, noise, heads, edge), qkv)
        return value, *back(push)

    for mine, plain in zip(both(kernels.attend), both(plain_attention), strict=True):
        np.testing.assert_allclose(mine, plain, rtol=0, atol=2e-5)
    # It is causal: what comes later moves nothing before.
    later = qkv.at[:, -1].add(1.0)
    moved = kernels.attend(later, noise, heads, edge) - kernels.attend(qkv, noise, heads, edge)
    assert not np.asarray(moved)[:, :-1].any()
    assert np.asarray(moved)[:, -1].any()


def gradients(precision, longest=None, monkeypatch=None):
    rng = np.random.default_rng(2)
    x, D, b = (rng.standard_normal(s).astype(np.float32) for s in ((29, 8), (150, 8), (150,)))
    target = jnp.asarray(rng.integers(0, 150, 29))
    if longest:
        monkeypatch.setattr(model, "CHUNK_BYTES", {"cpu": longest * 2 * 256})
    both = jax.value_and_grad(lambda *w: next_token_loss(*w, target, precision), argnums=(0, 1, 2))
    loss, slopes = jax.jit(both)(x, D, b)
    return [np.asarray(y) for y in (loss, *slopes)]


# Entries of ten bits are off by at most 2⁻¹¹, of eight by 2⁻⁹; products of two and a rounded result by thrice that.
@pytest.mark.parametrize(("precision", "most"), [("tf32", 3 * 2**-11), ("bfloat16", 3 * 2**-9)])
@pytest.mark.parametrize("longest", [None, 12])  # all tokens at once, and in three chunks
def test_the_loss_is_rounded_as_its_precision_says(used, monkeypatch, precision, most, longest):
    exact = gradients("float32")
    rounded = gradients(precision, longest, monkeypatch)
    for a, b in zip(rounded, exact, strict=True):
        assert a.dtype == np.float32
        assert 0 < np.linalg.norm(a - b) < most * np.linalg.norm(b)


def test_rare_tokens_keep_their_gradient_in_sixteen_bits(used):
    # α of some 1e-7: unscaled, half precision would round it to a multiple of 6e-8.
    rng = np.random.default_rng(3)
    x, D = jnp.ones((8, 4), jnp.float32), jnp.zeros((64, 4), jnp.float32)
    b = np.where(np.arange(64) == 5, 16.0, 0.1 * rng.standard_normal(64)).astype(np.float32)
    target = jnp.full(8, 5)
    slope = jax.grad(lambda b: next_token_loss(x, D, b, target, "tf32"))(jnp.asarray(b))
    alpha = np.exp(b - b.max()) / np.exp(b - b.max()).sum()
    rare = np.arange(64) != 5
    np.testing.assert_allclose(np.asarray(slope)[rare], alpha[rare], rtol=2e-3)


def test_a_training_with_them_is_the_training_without(used, monkeypatch, text):
    settings = Settings(17, width=8, heads=2, hidden=8, layers=2, dropout=0.2)
    choice = {"lr": 0.5, "seeds": 2, "steps": 20, "every": 5, "precision": "tf32"}
    mine = train(text, settings, **choice)
    monkeypatch.setattr(model, "with_kernels", lambda precision: False)
    jax.clear_caches()
    _compiled.cache_clear()
    plain = train(text, settings, **choice)
    other = train(text, settings, **(choice | {"seed": 1}))
    apart = np.abs(mine.loss - plain.loss)
    assert 0 < apart.max() < 2e-3  # rounded to ten bits, the same dropout
    assert np.abs(other.loss - plain.loss).max() > 0.1  # the control


def test_processors_and_exact_precisions_do_without_them():
    assert not any(model.with_kernels(p) for p in model.PRECISIONS)
    assert not kernels.present()
    assert kernels.fits(64)
    assert not kernels.fits(65)

