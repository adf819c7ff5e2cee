"""Training: the textbook's loss curve, runs that do not see each other, and runs that are broken off."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attomaton.errors import DataError, SolverError, UsageError
from attomaton.numerics import float64
from attomaton.transformer import train as module
from attomaton.transformer.model import Params, Settings
from attomaton.transformer.train import train


@pytest.mark.parametrize("clip", [0.05, 1e6])
def test_the_loss_curve_is_the_textbook_one(reference, text, small, clip):
    few = text[:25]  # so that windows come round again
    run = train(few, small, lr=2.0, steps=60, every=20, clip=clip, precision="float64")
    with float64():
        params, loss = reference.train_plainly(few, small, 2.0, 60, clip, dtype=np.float64)
    # Both are exact to rounding, which 60 steps of rate 2 enlarge to about 1e-12.
    np.testing.assert_allclose(run.loss[0], loss, rtol=0, atol=1e-10)
    for mine, theirs in zip(jax.tree.leaves(run.params), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(mine[0], theirs, rtol=0, atol=1e-9)
    assert np.abs(np.diff(run.loss[0])).min() > 1e-4  # it moves at every step


def adam_step(reference):
    """A textbook Adam; its memory travels with the weights."""

    def step(state, tokens, target, key, settings, lr, clip):
        params, m, v, t = state
        loss, g = jax.value_and_grad(reference.loss_of)(params, tokens, target, key, settings)
        g = reference.clip_gradient(g, clip)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, v, g)
        t = t + 1
        params = jax.tree.map(
            lambda w, m, v: w - lr * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8),
            params, m, v,
        )  # fmt: skip
        return (params, m, v, t), loss

    return step


def test_adam_is_the_textbook_one(reference, text, flat):
    run = train(text, flat, lr=0.01, steps=30, optimizer="adam", precision="float64")
    with float64():
        start = reference.initial_params(flat, 0, 0, np.float64)
        zeros = jax.tree.map(np.zeros_like, start)
        state, losses = (start, zeros, zeros, 0.0), []
        step = jax.jit(adam_step(reference), static_argnums=(4,))
        for window in text[:30]:
            state, loss = step(state, window[:, :-1], window[:, 1:], None, flat, 0.01, 0.5)
            losses.append(float(loss))
    np.testing.assert_allclose(run.loss[0], losses, rtol=0, atol=1e-10)


def test_dropout_agrees_with_the_textbook_in_the_mean(reference, text):
    settings = Settings(17, width=8, hidden=8, dropout=0.3)
    run = train(text, settings, lr=1.0, steps=60, seeds=12)
    plain = np.stack(
        [reference.train_plainly(text, settings, 1.0, 60, index=i)[1] for i in range(12)]
    )
    mine, theirs = run.loss[:, 30:].mean(axis=1), plain[:, 30:].mean(axis=1)
    error = np.std(mine - theirs, ddof=1) / np.sqrt(12)
    assert abs((mine - theirs).mean()) < 4 * error
    # It is not the curve without dropout: that one is lower by more than the noise.
    without = train(text, settings._replace(dropout=0.0), lr=1.0, steps=60, seeds=12).loss
    assert (mine - without[:, 30:].mean(axis=1)).mean() > 4 * error


def test_runs_side_by_side_are_the_runs_alone(text):
    settings = Settings(17, width=8, hidden=8, dropout=0.2)
    together = train(text, settings, lr=[0.5, 2.0], steps=20, seeds=2, precision="float64")
    alone = train(text, settings, lr=2.0, steps=20, seeds=1, precision="float64")
    np.testing.assert_array_equal(together.lr, [0.5, 0.5, 2.0, 2.0])
    np.testing.assert_array_equal(together.index, [0, 1, 0, 1])
    np.testing.assert_allclose(together.loss[2], alone.loss[0], rtol=0, atol=1e-12)
    # Seeds differ from the first step on, rates from the second.
    assert together.loss[0, 0] == together.loss[2, 0] != together.loss[1, 0]
    assert together.loss[0, 1] != together.loss[2, 1]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_run_broken_off_goes_on_to_the_same_bits(monkeypatch, text, optimizer):
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)
    settings = Settings(17, width=8, hidden=8, dropout=0.2)
    choice = {"lr": [0.01, 0.02], "seeds": 2, "optimizer": optimizer, "every": 5}
    watched = {"valid": text[-2:], "probes": text[-1, :2, :-1]}
    whole = train(text, settings, steps=20, **choice, **watched)
    saved = []
    train(text, settings, steps=10, save=saved.append, **choice, **watched)
    assert [int(s["step"][0]) for s in saved] == [5, 10]
    for point in saved:
        rest = train(text, settings, steps=20, saved=point, **choice, **watched)
        np.testing.assert_array_equal(rest.loss, whole.loss)
        for name, value in whole.records.items():
            np.testing.assert_array_equal(rest.records[name], value)
        assert jax.tree.all(jax.tree.map(np.array_equal, rest.params, whole.params))
    with pytest.raises(DataError, match="other settings"):
        train(text, settings, steps=20, saved=saved[0], seed=1, **choice, **watched)


def test_records_are_those_of_the_weights(reference, text, small):
    valid, probes = text[-3:], text[-1, :2, :-1]
    said = []
    run = train(
        text, small, lr=1.0, steps=8, every=4, valid=valid, probes=probes,
        progress=lambda *x: said.append(x[:2]),
    )  # fmt: skip
    assert said == [(4, 8), (8, 8)]
    assert run.marks.tolist() == [0, 4, 8]
    assert run.records["maps"].shape == (1, 3, 2, 2, 6, 6)
    params = jax.tree.map(lambda w: w[0], run.params)
    _, maps = reference.forward(params, probes, small)
    np.testing.assert_allclose(run.records["maps"][0, -1], maps[0], atol=1e-6)
    losses, nats = [], []
    for window in valid:
        logits, seen = reference.forward(params, window[:, :-1], small)
        log_alpha = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        losses.append(-np.take_along_axis(log_alpha, window[:, 1:, None], -1).mean())
        nats.append([reference.entropy(m) for m in seen])
    assert run.records["valid_loss"][0, -1] == pytest.approx(np.mean(losses), rel=1e-6)
    np.testing.assert_allclose(run.records["entropy"][0, -1], np.array(nats)[..., 0], rtol=1e-5)
    np.testing.assert_allclose(
        run.records["entropy_share"][0, -1], np.array(nats)[..., 1], rtol=1e-5
    )


def test_compiling_otherwise_or_stopping_more_often_computes_the_same(text, flat):
    a = train(text, flat, lr=1.0, steps=12, precision="float64")
    b = train(text, flat, lr=1.0, steps=12, autotune=True, every=4, precision="float64")
    np.testing.assert_allclose(a.loss, b.loss, rtol=0, atol=1e-12)


def test_rounding_the_decoder_hardly_bends_the_curve(text, flat):
    a, b = (train(text, flat, lr=1.0, steps=60, precision=p) for p in ("float32", "bfloat16"))
    # Rounding to 8 bits moves single losses by a per cent or so, and not all one way.
    assert 0 < np.abs(a.loss - b.loss).mean() < 0.02


def test_what_makes_no_sense_is_refused(text, small):
    ask = {"lr": 1.0, "steps": 4}
    for change, word in (
        ({"lr": -1.0}, "positive"), ({"lr": []}, "one number"), ({"every": 3}, "multiple"),
        ({"steps": 0}, "steps=0"), ({"clip": 0.0}, "clip"), ({"optimizer": "sdg"}, "did you mean"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=word):
            train(text, small, **(ask | change))
    with pytest.raises(DataError, match="windows: ids 0 … 16"):
        train(text, small._replace(vocab=16), **ask)


def test_a_run_that_diverges_is_named(monkeypatch, text, flat):
    def broken(settings, seed, index, dtype):
        start = good(settings, seed, index, dtype)
        return Params(start.U * (np.nan if index == 1 else 1), *start[1:])

    from attomaton.transformer import model

    good = model.initial_params
    monkeypatch.setattr(model, "initial_params", broken)
    with pytest.raises(SolverError, match="rate 1, start 1: step 0"):
        train(text, flat, lr=1.0, steps=4, seeds=2)
