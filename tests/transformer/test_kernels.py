"""The kernels for a GPU, interpreted here, against what they replace."""

from types import SimpleNamespace

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
    settings = Settings(17, width=8, hidden=8, dropout=0.2)
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


def test_programs_never_leave_a_token_over():
    # The last token of an odd number would belong to no program, and keep its product for an error.
    assert model.TOKENS_MULTIPLE % kernels.ROWS == 0


def test_exact_precisions_and_other_devices_do_without_them(monkeypatch):
    def asked(**device):
        monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(**device)])
        return [p for p in model.PRECISIONS if model.with_kernels(p)]

    assert not any(model.with_kernels(p) for p in model.PRECISIONS)
    assert asked(platform="gpu", compute_capability="9.0") == ["tf32", "bfloat16"]
    assert asked(platform="gpu", compute_capability="10.0") == ["tf32", "bfloat16"]
    assert not asked(platform="gpu", compute_capability="7.5")
    assert not asked(platform="gpu", compute_capability="gfx942")
    assert not asked(platform="tpu")
    monkeypatch.setattr(model, "TRITON", "jax.experimental.pallas.none")
    assert not asked(platform="gpu", compute_capability="9.0")
