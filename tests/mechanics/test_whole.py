"""Summing the gradient by pairs: the same numbers as scattering it, on every shape of corpus."""

import numpy as np
import pytest

from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import UsageError
from attomaton.mechanics.experiment.train import train
from attomaton.mechanics.synthetic import draw_samples
from attomaton.numerics import float64, named_rng


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("K", "n", "T"), [(3, 5, 2), (6, 40, 5), (30, 200, 9)])
def test_the_two_layouts_give_one_gradient(K, n, T, seed):
    import jax

    from attomaton.mechanics.experiment.model import loss_and_gradient, problem_of
    from attomaton.mechanics.experiment.whole import whole_loss_and_gradient, whole_of

    rng = named_rng("whole", seed)
    samples = draw_samples(rng, K, n, T, repeats=True)
    scores = rng.normal(size=len(samples.pair_index()[0])) * 5
    with float64():
        loss, g = jax.jit(whole_loss_and_gradient)(scores, whole_of(samples))
        other_loss, other_g = jax.jit(loss_and_gradient)(scores, problem_of(samples))
    assert float(loss) == pytest.approx(float(other_loss), rel=1e-13)
    np.testing.assert_allclose(g, other_g, atol=1e-15)


def test_tables_hold_every_incidence_once_and_at_most_half_padding():
    from attomaton.mechanics.experiment.whole import whole_of

    samples = draw_samples(named_rng("whole", 1), 20, 300, 8, repeats=True)
    whole = whole_of(samples)
    pair = samples.pair_index()[1]
    found = [
        (int(p), int(i), int(m))
        for t in (*whole.rivals, *whole.winners)
        for p, row, times in zip(t.pair, t.sample, t.times, strict=True)
        for i, m in zip(row, times, strict=True)
        if m
    ]
    want = zip(pair.tolist(), samples.sample_of.tolist(), samples.count.tolist(), strict=True)
    assert sorted(found) == sorted(want)
    for t in whole.rivals:
        assert ((t.times > 0).sum(axis=1) > t.times.shape[1] // 2).all()


def test_a_loss_near_zero_keeps_its_digits():
    import jax.numpy as jnp

    from attomaton.mechanics.experiment.whole import whole_loss_and_gradient, whole_of

    samples = samples_from_sequences([[0, 1]], [0])
    with float64():
        loss, g = whole_loss_and_gradient(jnp.array([40.0, 0.0]), whole_of(samples))
    # log(1 + e⁻⁴⁰) and its gradient ∓e⁻⁴⁰/(1 + e⁻⁴⁰)
    assert float(loss) == pytest.approx(np.log1p(np.exp(-40.0)), rel=1e-14)
    np.testing.assert_allclose(g, [-np.exp(-40.0), np.exp(-40.0)], rtol=1e-14)


@pytest.mark.parametrize("optimizer", ["gd", "ngd", "polyak", "adam"])
def test_training_is_the_same_in_both_layouts(optimizer):
    samples = draw_samples(named_rng("whole", 2), 8, 60, 5, repeats=True)
    # Polyak's step over a floor that is too low jumps about, and rounding grows with every jump.
    steps = 10 if optimizer == "polyak" else 60
    options = {"optimizer": optimizer, "steps": steps, "seeds": 2, "init": "uniform",
               "lr": None if optimizer == "polyak" else 0.05, "loss_floor": 0.0}  # fmt: skip
    scatter, gather = (train(samples, layout=how, **options) for how in ("scatter", "gather"))
    np.testing.assert_allclose(gather.scores, scatter.scores, atol=1e-10)
    np.testing.assert_allclose(gather.records["loss"], scatter.records["loss"], rtol=1e-10)


@pytest.mark.parametrize(
    "options",
    [{"loss": "squared"}, {"embeddings": np.eye(8)}, {"optimizer": "sgd", "batch_size": 3}],
)
def test_gathering_is_refused_where_it_does_not_apply(options):
    samples = draw_samples(named_rng("whole", 2), 8, 60, 5)
    with pytest.raises(UsageError, match="log-loss of one data set"):
        train(samples, layout="gather", steps=1, **options)
    with pytest.raises(UsageError, match="scatter"):
        train(samples, layout="gathr", steps=1)
