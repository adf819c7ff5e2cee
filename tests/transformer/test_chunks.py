"""The loss over chunks of tokens against the textbook loss, and what it holds in memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attomaton.base.programs import _compiled
from attomaton.numerics import float64
from attomaton.transformer import model, train
from attomaton.transformer.data import windows
from attomaton.transformer.model import Settings, chunk_count, next_token_loss

TOKENS, VOCAB, WIDTH = 29, 150, 8


def plain_loss(x, D, b, target, precision=None):
    log_alpha = jax.nn.log_softmax(x @ D.T + b)
    return -jnp.take_along_axis(log_alpha, target[:, None], 1).mean()


def plain_joined_loss(x, R, _, target, vocab, precision):
    return plain_loss(x, *model.parted(R, vocab, x.shape[1]), target)


def drawn(dtype, runs=()):
    rng = np.random.default_rng(3)
    shapes = ((TOKENS, WIDTH), (VOCAB, WIDTH), (VOCAB,))
    weights = (rng.standard_normal((*runs, *shape)).astype(dtype) for shape in shapes)
    return *map(jnp.asarray, weights), jnp.asarray(rng.integers(0, VOCAB, (*runs, TOKENS)))


def in_chunks(monkeypatch, longest, size):
    """Chunks of at most so many tokens, of numbers of so many bytes; a program kept from before would know others."""
    filled = VOCAB - VOCAB % -model.VOCAB_MULTIPLE
    monkeypatch.setattr(model, "CHUNK_BYTES", {"cpu": longest * size * filled})
    jax.clear_caches()
    _compiled.cache_clear()


def with_slopes(loss, push=1.0, precision="float64", runs=False):
    """One program for the loss and its gradients; of several runs side by side where there are some."""

    def both(*given):
        value, back = jax.vjp(lambda *w: loss(*w, given[3], precision), *given[:3])
        return value, *back(jnp.asarray(push, value.dtype))

    return jax.jit(jax.vmap(both) if runs else both)


def apart(mine, theirs):
    """The largest distance of two arrays, as a share of the length of the second."""
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(mine, theirs, strict=True)]
    return max(np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in pairs)


def test_chunks_are_as_long_as_their_bytes_allow(monkeypatch):
    for longest, chunks in ((1, 29), (4, 8), (7, 5), (28, 2), (29, 1), (99, 1)):
        in_chunks(monkeypatch, longest, 8)
        assert chunk_count(TOKENS, VOCAB, 8) == chunks
    monkeypatch.setattr(model, "CHUNK_BYTES", {"cpu": 1})  # not even one token fits
    assert chunk_count(TOKENS, VOCAB, 8) == TOKENS


@pytest.mark.parametrize("push", [1.0, -2.5])
@pytest.mark.parametrize("longest", [1, 4, 7, 29])  # 29, 8, 5 chunks, the last two not full; one
def test_value_and_gradients_are_the_textbook_ones(monkeypatch, longest, push):
    with float64():
        in_chunks(monkeypatch, longest, 8)
        given = drawn(np.float64)
        mine = with_slopes(next_token_loss, push)(*given)
        theirs = with_slopes(plain_loss, push)(*given)
        assert apart(mine, theirs) < 1e-12
        # Without a gradient another path is taken: the loss alone.
        alone = jax.jit(lambda *w: next_token_loss(*w, "float64"))(*given)
        assert float(alone) == pytest.approx(float(theirs[0]), rel=1e-12)


@pytest.mark.parametrize("longest", [7, 29])
def test_runs_side_by_side_have_their_own_gradients(monkeypatch, longest):
    with float64():
        in_chunks(monkeypatch, longest, 8)
        given = drawn(np.float64, (3,))
        mine = with_slopes(next_token_loss, runs=True)(*given)
        plain = with_slopes(plain_loss)
        for run in range(3):
            own = plain(*(x[run] for x in given))
            assert apart([x[run] for x in mine], own) < 1e-12


# Sums of 150 logits in single precision are off by some 1e-7; factors of eight bits by at most 2⁻⁹ each.
@pytest.mark.parametrize(("precision", "most"), [("float32", 2e-6), ("tf32", 2e-6), ("bfloat16", 2**-7)])  # fmt: skip
def test_rounding_is_that_of_the_precision(monkeypatch, precision, most):
    in_chunks(monkeypatch, 7, 4)
    mine = with_slopes(next_token_loss, 1.0, precision)(*drawn(np.float32))
    assert all(x.dtype == jnp.float32 for x in mine)
    with float64():
        *weights, target = drawn(np.float32)
        exact = with_slopes(plain_loss)(*(w.astype(np.float64) for w in weights), target)
    assert 0 < apart(mine, exact) < most


def sizes(jaxpr):
    """Numbers in every array of a program, those of its loops and calls included."""
    for equation in jaxpr.eqns:
        yield from (v.aval.size for v in equation.outvars)
        for inner in jax.tree.leaves(equation.params, is_leaf=lambda v: hasattr(v, "eqns")):
            if hasattr(inner, "eqns"):
                yield from sizes(inner)


@pytest.mark.parametrize("seeds", [1, 2])
def test_training_never_holds_the_logits_of_all_tokens(monkeypatch, seeds):
    settings = Settings(VOCAB, width=WIDTH, hidden=8, dropout=0.0)
    data = windows(np.random.default_rng(0).integers(0, VOCAB, 400), batch=8, length=16)
    tokens = data.shape[1] * (data.shape[2] - 1)
    in_chunks(monkeypatch, tokens // 4, 4)

    def program():
        plan = train._Plan(settings, "sgd", 0.5, "float32", 2)
        start = model.initial_params(settings, 0, 0)
        state = train._State(jax.tree.map(lambda w: np.stack([w] * seeds), start), ())
        lr, index = np.ones(seeds, np.float32), np.arange(seeds, dtype=np.int32)
        given = (state, lr, index, data.astype(np.int32), np.uint32(0), np.int32(0))
        steps = train._build_steps(plan)
        memory = jax.jit(steps).lower(*given).compile().memory_analysis()
        return max(sizes(jax.make_jaxpr(steps)(*given).jaxpr)), memory.temp_size_in_bytes

    largest, memory = program()
    assert largest < seeds * tokens * VOCAB
    monkeypatch.setattr(model, "joined_loss", plain_joined_loss)
    plain, plain_memory = program()
    assert plain >= seeds * tokens * VOCAB  # the control
    assert memory < plain_memory


def test_a_training_in_chunks_has_the_textbook_curve(monkeypatch, reference, text, small):
    # 24 tokens a step in chunks of 7 at most; the vocabulary of 17 is filled up to 128.
    monkeypatch.setattr(model, "CHUNK_BYTES", {"cpu": 7 * 8 * 128})
    _compiled.cache_clear()
    run = train.train(text, small, lr=[2.0, 1.0], steps=40, every=20, precision="float64")
    _compiled.cache_clear()
    for lr, mine in zip((2.0, 1.0), run.loss, strict=True):
        with float64():
            _, loss = reference.train_plainly(text, small, lr, 40, dtype=np.float64)
        np.testing.assert_allclose(mine, loss, rtol=0, atol=1e-10)
