"""The kernels for a GPU, interpreted here, against what they replace."""

from functools import partial
from importlib.metadata import version
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attomaton.base.programs import _compiled
from attomaton.transformer import fused, kernels, model
from attomaton.transformer.model import Settings, next_token_loss
from attomaton.transformer.train import _build_steps, _Plan, _State, train

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


def drawn_logits(pieces, each, vocab, tokens=6):
    rng = np.random.default_rng(0)
    products = 20 * rng.standard_normal((pieces, tokens, each)).astype(np.float32)
    there = np.arange(pieces * each) < vocab
    bias = np.where(there, rng.standard_normal(pieces * each), -np.inf).astype(np.float32)
    target = rng.integers(0, vocab, tokens).astype(np.int32)
    target[:3] = 0, vocab - 1, 0  # the first, the last, and one twice
    return products, bias.reshape(pieces, each), target


# One piece, several, and one that is filled up with tokens there are not.
@pytest.mark.parametrize(("pieces", "each", "vocab"), [(1, 128, 100), (3, 40, 120), (2, 300, 555)])
def test_shares_are_those_of_softmax(pieces, each, vocab):
    products, bias, target = drawn_logits(pieces, each, vocab)
    raised, most, sums, own = jax.jit(kernels.shares)(products, bias, target)
    logits = (products + bias[:, None]).astype(float).transpose(1, 0, 2)
    mine = np.arange(pieces * each).reshape(pieces, each) == target[:, None, None]
    np.testing.assert_allclose(own, logits[mine] * np.log2(np.e), rtol=1e-6)
    others = np.where(mine, -np.inf, logits)
    largest = others.max(axis=2)
    np.testing.assert_allclose(most, largest * np.log2(np.e), rtol=1e-6)
    expected = np.exp(others - largest[..., None])
    np.testing.assert_allclose(np.asarray(raised).transpose(1, 0, 2), expected, **CLOSE)
    np.testing.assert_allclose(sums, expected.sum(axis=2), rtol=1e-5)


# A width that is the side of a tile, one that is a sum of three, one whose tiles find no room: another way is taken.
@pytest.mark.parametrize(("width", "tokens"), [(16, 8), (208, 72), (1040, 8)])
def test_loss_and_slopes_are_the_textbook_ones_where_nothing_is_rounded(width, tokens):
    rng = np.random.default_rng(1)
    pieces, each, vocab = 3, 200, 590
    x = rng.standard_normal((tokens, width)).astype(np.float32)
    R = rng.standard_normal((pieces * each, width)).astype(np.float32)
    bias = np.where(np.arange(len(R)) < vocab, R[:, -1], -np.inf).astype(np.float32)
    target = rng.integers(0, 9, tokens)  # most of them met several times
    target[:2] = vocab - 1, 300
    counted = (np.arange(tokens) < tokens - 3).astype(np.float32)
    x[:, -1], R[:, -1] = 1, bias.clip(-9)
    plain, rows = x * (np.arange(width) < width - 1), R * (np.arange(width) < width - 1)
    found = jax.jit(kernels.loss_and_slopes, static_argnums=7)(
        plain, x, R, rows, bias, target.astype(np.int32), counted, pieces
    )
    logits = plain.astype(float) @ R.T.astype(float) + bias
    alpha = np.exp(logits - logits.max(axis=1, keepdims=True))
    alpha /= alpha.sum(axis=1, keepdims=True)
    error = (alpha - (np.arange(len(R)) == target[:, None])) * counted[:, None]
    loss = -(counted * np.log(alpha[np.arange(tokens), target])).sum()
    assert float(found[0]) == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(found[1], error.T @ x, rtol=0, atol=1e-4)
    np.testing.assert_allclose(found[2][:, :-1], (error @ R)[:, :-1], rtol=0, atol=1e-4)


def test_what_exponents_cannot_hold_is_infinite_and_not_another_number(used):
    x, D = jnp.ones((8, 4), jnp.float32), jnp.zeros((64, 4), jnp.float32)
    for above, finite in ((80.0, True), (95.0, False)):
        b = jnp.zeros(64).at[3].set(above)
        loss, slope = jax.value_and_grad(
            lambda b: next_token_loss(x, D, b, jnp.zeros(8, int), "bfloat16")
        )(b)
        assert bool(jnp.isfinite(loss)) is finite
        if finite:
            assert float(loss) == pytest.approx(above, rel=1e-6)
            assert float(slope[3]) == pytest.approx(1, abs=2**-8)


# A layer

SHAPES = [  # batch, length, and the layer: two heads; no dropout; rows and sequences that fill no tile
    (3, 6, Settings(17, width=8, heads=2, hidden=12)),
    (2, 17, Settings(17, width=40, hidden=24, dropout=0.0)),
    (1, 35, Settings(17, width=72, hidden=72)),
]


def drawn_layer(batch, length, settings, factor, scale=1.0):
    """What a layer makes of x and sends back, with kernels and without."""
    rng = np.random.default_rng(5)

    def more(w):
        return jnp.asarray(w + 0.1 * rng.standard_normal(w.shape).astype(np.float32))

    layer = jax.tree.map(more, model.initial_params(settings, 0, 0).layers[0])
    x, back = (
        jnp.asarray(rng.standard_normal((batch, length, settings.width)).astype(np.float32))
        for _ in range(2)
    )
    bits = model.draw_noise(jax.random.key(3), settings, batch, length)
    # Noise is told apart from that of the embeddings before it
    runs = (partial(fused.run_next_layer, factor=factor), model.run_layer)

    def both(run):
        def forward(layer, x):
            noise = model.Noise(bits) if settings.dropout else None
            if noise:
                noise.place(x.size)
            return run(layer, x, settings, noise)

        (out, maps), pull = jax.vjp(forward, layer, x)
        return out, maps, *jax.tree.leaves(pull((scale * back, jnp.zeros_like(maps))))

    return [jax.tree.map(np.asarray, jax.jit(both, static_argnums=0)(run)) for run in runs]


@pytest.mark.parametrize(("batch", "length", "settings"), SHAPES)
def test_a_layer_of_kernels_is_the_layer(batch, length, settings):
    mine, plain = drawn_layer(batch, length, settings, jnp.float32)
    assert len(mine) == 2 + 12 + 1
    for a, b in zip(mine, plain, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * max(1, np.abs(b).max()))


@pytest.mark.parametrize(("factor", "digits"), [(jnp.float16, 11), (jnp.bfloat16, 8)])
def test_a_layer_is_rounded_as_its_type_says_however_small_slopes_are(factor, digits):
    mine, plain = drawn_layer(*SHAPES[1], factor, scale=1e-12)
    for a, b in zip(mine, plain, strict=True):
        # A relu that rounding turns over costs more than rounding itself.
        assert np.linalg.norm(a - b) < 40 * 2.0**-digits * np.linalg.norm(b)
    apart = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(mine, plain, strict=True)]
    assert max(apart) > 2.0 ** -(digits + 4)  # the control: rounded they are


def test_sums_by_token_are_those_of_its_places():
    rng = np.random.default_rng(4)
    tokens, x = rng.integers(0, 9, 75), rng.standard_normal((75, 70)).astype(np.float32)
    sums, along = jax.jit(fused.sums_by_token)(tokens, x)
    expected = np.array([x[tokens == token].sum(axis=0) for token in tokens])
    np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-5)
    assert float(along) == pytest.approx(float((x * expected).sum()), rel=1e-5)


def test_layers_too_large_for_a_program_are_left_to_xla():
    small = Settings(17, width=8, hidden=12)
    for settings, length in (
        (small._replace(width=257), 6),
        (small._replace(hidden=257), 6),
        (small, 65),
    ):
        assert fused.runner(settings, length, "tf32") is model.run_layer
    assert fused.runner(small, 64, "tf32") is not model.run_layer


def test_devices_with_little_shared_memory_hold_no_tiles(monkeypatch):
    monkeypatch.setattr(kernels, "on_gpu", lambda: True)
    for capability, able in (("9.0", True), ("8.0", True), ("8.6", False), ("12.0", False)):
        device = SimpleNamespace(compute_capability=capability)
        monkeypatch.setattr(jax, "devices", lambda device=device: [device])
        assert kernels.roomy() is able
        run = fused.runner(Settings(17, width=8, hidden=12), 6, "tf32")
        assert (run is not model.run_layer) is able


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
    choice = {"lr": 0.5, "seeds": 2, "steps": 10, "every": 5, "precision": "tf32"}
    mine = train(text, settings, **choice)
    monkeypatch.setattr(model, "with_kernels", lambda precision: False)
    jax.clear_caches()
    _compiled.cache_clear()
    plain = train(text, settings, **choice)
    other = train(text, settings, **(choice | {"seed": 1}))
    apart = np.abs(mine.loss - plain.loss)
    assert 0 < apart.max() < 2e-3  # rounded to ten bits, the same dropout
    assert np.abs(other.loss - plain.loss).max() > 0.1  # the control


# Kernels that are interpreted may do what no GPU can: that is found out when the whole program is written for one.
@pytest.mark.skipif(
    not version("jaxlib").startswith("0.10."),
    reason="until other versions were seen to write programs for a GPU without having one",
)
@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize(
    ("precision", "loss"), [("tf32", "raise_"), ("bfloat16", "raise_products")]
)
def test_the_whole_program_can_be_written_for_a_gpu(used, monkeypatch, precision, loss, seeds):
    for module in (kernels, fused):
        monkeypatch.setattr(module, "on_gpu", lambda: True)
        monkeypatch.setattr(module, "roomy", lambda: True)
    settings = Settings(3000, width=24, heads=2, hidden=20)
    start = model.initial_params(settings, 0, 0)
    params = jax.tree.map(lambda w: np.stack([w] * seeds), start)
    given = (
        _State(params, ()), np.ones(seeds, np.float32), np.arange(seeds, dtype=np.int32),
        np.zeros((5, 4, 8), np.int32), np.uint32(0), np.int32(0),
    )  # fmt: skip
    steps = jax.jit(_build_steps(_Plan(settings, "sgd", 0.5, precision, 2)))
    text = steps.trace(*given).lower(lowering_platforms=("cuda",)).as_text()
    names = ("attend", "attend_back", "follow", "follow_back", "add_up", loss)
    assert [name for name in names if f'name = "{name}"' not in text] == []
    other = {"raise_", "raise_products"} - {loss}  # the control: the loss of the other precision
    assert f'name = "{other.pop()}"' not in text


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
