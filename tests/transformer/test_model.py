"""The model against the textbook, its hand-written gradient against finite truth, dropout against its law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attomaton.errors import UsageError
from attomaton.numerics import float64
from attomaton.transformer import model
from attomaton.transformer.model import (
    Noise,
    Settings,
    attention_entropy,
    check_settings,
    draw_noise,
    hidden_states,
    initial_params,
    joined,
    next_token_loss,
    window_loss,
)


def on_device(params):
    return jax.tree.map(jnp.asarray, params)


def shaken(settings):
    """A start whose biases and norms are no longer 0 and 1, so that every weight matters."""
    rng = np.random.default_rng(1)
    start = initial_params(settings, 0, 0, np.float64)
    return jax.tree.map(lambda w: w + 0.3 * rng.standard_normal(w.shape), start)


@pytest.mark.parametrize("change", [{}, {"positions": False}, {"heads": 1, "layers": 1}])
def test_loss_and_maps_equal_a_loop_over_queries(reference, text, small, change):
    settings = small._replace(**change)
    params = shaken(settings)
    tokens, target = text[0, :, :-1], text[0, :, 1:]
    logits, maps = reference.forward(params, tokens, settings)
    log_alpha = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = -np.take_along_axis(log_alpha, target[..., None], -1).mean()
    with float64():
        U, layers, *decoder = on_device(params)
        rest = layers, joined(*decoder)
        loss, found = window_loss(U[tokens], rest, jnp.asarray(target), settings, "float64")
        entropies = [attention_entropy(m) for m in found]
    assert loss == pytest.approx(expected, rel=1e-12)
    for mine, theirs, both in zip(found, maps, entropies, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-13)
        np.testing.assert_allclose(both, reference.entropy(theirs), rtol=1e-12)


def test_attention_never_looks_ahead(text, small):
    params = on_device(initial_params(small, 0, 0))
    tokens = text[0, :, :-1]
    other = tokens.copy()
    other[:, 4:] = (other[:, 4:] + 1) % 17
    a, maps = hidden_states(params.U[tokens], params.layers, small)
    b, _ = hidden_states(params.U[other], params.layers, small)
    np.testing.assert_array_equal(a[:, :4], b[:, :4])
    assert not np.allclose(a[:, 4:], b[:, 4:])
    for attention in maps:
        assert (np.triu(np.asarray(attention), 1) == 0).all()
        np.testing.assert_allclose(attention.sum(-1), 1, rtol=1e-6)


def plain_loss(x, D, b, target):
    log_alpha = jax.nn.log_softmax(x @ D.T + b)
    return -jnp.take_along_axis(log_alpha, target[:, None], 1).mean()


def draw_decoder(dtype, vocab=50, width=8):
    rng = np.random.default_rng(2)
    shapes = ((30, width), (vocab, width), (vocab,))
    x, D, b = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    return x, D, b, rng.integers(0, vocab, 30)


@pytest.mark.parametrize(("vocab", "width"), [(50, 8), (128, 15), (130, 16)])
def test_the_gradient_written_out_is_the_gradient(vocab, width):
    with float64():
        *weights, target = map(jnp.asarray, draw_decoder(np.float64, vocab, width))
        written = jax.jit(jax.grad(next_token_loss, argnums=(0, 1, 2)), static_argnums=4)
        mine = written(*weights, target, "float64")
        plain = jax.jit(jax.grad(plain_loss, argnums=(0, 1, 2)))(*weights, target)
        for a, b in zip(mine, plain, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-14)


def test_rounded_products_change_the_loss_by_their_rounding_only():
    # Entries rounded to 8 bits are off by at most 2⁻⁹ of themselves.
    *weights, target = map(jnp.asarray, draw_decoder(np.float32))
    gradient = jax.value_and_grad(next_token_loss, argnums=(0, 1, 2))
    exact, to_exact = gradient(*weights, target, "float32")
    rounded, to_rounded = gradient(*weights, target, "bfloat16")
    assert 0 < abs(float(rounded - exact)) < 2**-7
    for a, b in zip(to_rounded, to_exact, strict=True):
        assert a.dtype == jnp.float32
        assert 0 < np.linalg.norm(a - b) < 2**-6 * np.linalg.norm(b)


def test_large_logits_do_not_overflow():
    x, D, b, target = map(jnp.asarray, draw_decoder(np.float32))
    loss, to_x = jax.value_and_grad(next_token_loss)(1e4 * x, D, b, target, "float32")
    assert np.isfinite(float(loss))
    assert np.isfinite(np.asarray(to_x)).all()


def test_noise_drops_the_share_it_says_and_keeps_the_mean(monkeypatch):
    settings = Settings(17, width=64, hidden=32, heads=2, layers=2, dropout=0.2)
    noise = draw_noise(jax.random.key(0), settings, 20, 35)
    handed = []

    class Watched(Noise):
        def take(self, shape):
            handed.append((self.taken, shape))
            return super().take(shape)

    monkeypatch.setattr(model, "Noise", Watched)
    layers = on_device(initial_params(settings, 0, 0)).layers
    hidden_states(jnp.ones((20, 35, settings.width)), layers, settings, noise)
    # Each bit is used once, and none is left.
    ends = np.cumsum([0, *(np.prod(shape) for _, shape in handed)])
    assert [first for first, _ in handed] == ends[:-1].tolist()
    assert len(handed) == 1 + 4 * settings.layers
    assert ends[-1] == noise.size
    bits = np.asarray(noise)
    share = (bits < round(0.2 * 2**16)).mean()
    # Five standard deviations of a mean of so many Bernoulli numbers.
    assert abs(share - 0.2) < 5 * 0.4 / np.sqrt(bits.size)


def test_dropout_without_a_rate_changes_nothing(text, small):
    params = on_device(initial_params(small, 0, 0))
    rows = params.U[text[0, :, :-1]]
    noise = draw_noise(jax.random.key(0), small, *rows.shape[:2])
    plain, _ = hidden_states(rows, params.layers, small)
    dropped, _ = hidden_states(rows, params.layers, small, noise)
    np.testing.assert_allclose(dropped, plain, rtol=1e-6)
    some, _ = hidden_states(rows, params.layers, small._replace(dropout=0.5), noise)
    assert not np.allclose(some, plain)


@pytest.mark.parametrize(
    ("change", "word"), [({"heads": 3}, "divide"), ({"dropout": 1.0}, "dropout"), ({"layers": 0}, "layers")]
)  # fmt: skip
def test_shapes_no_model_has_are_refused(small, change, word):
    with pytest.raises(UsageError, match=word):
        check_settings(small._replace(**change))


def test_starts_have_their_law_and_their_name():
    settings = Settings(500, width=40, hidden=60)
    a, again, other = (initial_params(settings, 0, i) for i in (0, 0, 1))
    assert jax.tree.all(jax.tree.map(np.array_equal, a, again))
    assert not np.allclose(a.U, other.U)
    for w, edge in ((a.U, 0.1), (a.D, 0.1), (a.layers[0].W_1, np.sqrt(6 / 100))):
        assert 0.99 * edge < np.abs(w).max() <= edge
        assert abs(w.std() / (edge / np.sqrt(3)) - 1) < 0.05
    assert not a.b.any()
