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
    from attomaton.mechanics.experiment.whole import (
        quick_loss_and_gradient,
        whole_loss_and_gradient,
        whole_of,
    )

    rng = named_rng("whole", seed)
    samples = draw_samples(rng, K, n, T, repeats=True)
    scores = rng.normal(size=len(samples.pair_index()[0])) * 5
    whole = whole_of(samples)
    with float64():
        other_loss, other_g = jax.jit(loss_and_gradient)(scores, problem_of(samples))
        for ours in (quick_loss_and_gradient, whole_loss_and_gradient):
            loss, g = jax.jit(ours)(scores[whole.order], whole)
            assert float(loss) == pytest.approx(float(other_loss), rel=1e-13)
            np.testing.assert_allclose(g[whole.place], other_g, atol=1e-15)


@pytest.mark.parametrize("length", [1.0, 5.0, 500.0])
def test_the_loss_alone_is_that_beside_the_gradient_within_reach_and_beyond(length):
    import jax

    from attomaton.mechanics.experiment import whole as layout

    rng = named_rng("whole loss", 1)
    samples = draw_samples(rng, 6, 40, 5, repeats=True)
    whole = layout.whole_of(samples)
    scores = rng.normal(size=len(whole.order)) * length
    with float64():
        assert bool(jax.jit(layout.within_reach)(scores)) == (length < 500)
        alone = float(jax.jit(layout.whole_loss)(scores, whole))
        beside, _ = jax.jit(layout.whole_loss_and_gradient)(scores, whole)
    assert alone == pytest.approx(float(beside), rel=1e-13)


def test_tables_hold_every_incidence_once_and_at_most_half_padding():
    from attomaton.mechanics.experiment.whole import Table, whole_of

    samples = draw_samples(named_rng("whole", 1), 20, 300, 8, repeats=True)
    whole = whole_of(samples)
    pair = samples.pair_index()[1]
    tables = [*(Table(*(x.T for x in t)) for t in whole.narrow), *whole.wide]
    assert whole.narrow
    assert whole.wide
    terms = [(row, times) for t in tables for row, times in zip(*t, strict=True)]
    own = samples.token == samples.label[samples.sample_of]
    term = samples.sample_of + len(samples) * own
    want = zip(pair.tolist(), term.tolist(), np.where(own, 1, samples.count).tolist(), strict=True)
    found = [
        (int(p), int(i), int(m))
        for p, (row, times) in zip(whole.order, terms, strict=True)
        for i, m in zip(row, times, strict=True)
        if m
    ]
    assert sorted(found) == sorted(want)
    for t in tables:
        assert ((t.times > 0).sum(axis=1) > t.times.shape[1] // 2).all()
    np.testing.assert_array_equal(whole.order[whole.place], np.arange(len(whole.place)))


@pytest.mark.parametrize("which", ["quick", "whole"])
@pytest.mark.parametrize(
    ("up", "down"), [(40.0, 0.0), (229.0, 190.0), (-190.0, -229.0), (229.0, -229.0)]
)
def test_a_loss_near_zero_keeps_its_digits(which, up, down):
    import jax
    import jax.numpy as jnp

    from attomaton.mechanics.experiment import whole

    ours = getattr(whole, f"{which}_loss_and_gradient")
    data = whole.whole_of(samples_from_sequences([[0, 1]], [0]))
    assert data.place.tolist() == [0, 1]
    with float64():
        loss, g = jax.jit(ours)(jnp.array([up, down]), data)
    # log(1 + e^−gap) and its gradient ∓e^−gap/(1 + e^−gap)
    rest = np.exp(down - up)
    assert float(loss) == pytest.approx(np.log1p(rest), rel=1e-13)
    np.testing.assert_allclose(g, [-rest, rest], rtol=1e-13)


def test_samples_that_hold_their_label_alone_have_no_loss():
    import jax
    import jax.numpy as jnp

    from attomaton.mechanics.experiment import whole

    data = whole.whole_of(samples_from_sequences([[0], [1, 1]], [0, 1]))
    with float64():
        for ours in (whole.quick_loss_and_gradient, whole.whole_loss_and_gradient):
            loss, g = jax.jit(ours)(jnp.array([3.0, -2.0]), data)
            assert float(loss) == 0
            assert not np.asarray(g).any()


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


@pytest.mark.parametrize("lr", [40.0, 1e150])
def test_scores_beyond_the_reach_of_exponentials_train_as_the_others_do(lr):
    # Sign descent leaves the reach after 6 steps of 40, before its gradient underflows; at once with steps of 1e150.
    from attomaton.mechanics.experiment.whole import REACH

    samples = samples_from_sequences([[0, 1], [0, 2], [3, 1]], [0, 2, 3])
    options = {"optimizer": "sign", "lr": lr, "steps": 8, "every": 3}
    scatter, gather = (train(samples, layout=how, **options) for how in ("scatter", "gather"))
    assert np.abs(gather.scores).max() > REACH
    np.testing.assert_allclose(gather.scores, scatter.scores, rtol=1e-12)
    np.testing.assert_allclose(gather.records["loss"], scatter.records["loss"], rtol=1e-12, atol=0)
    assert gather.status == scatter.status


def test_a_step_that_leads_to_no_number_is_found_and_undone():
    samples = samples_from_sequences([[0, 1], [0, 1]], [0, 1])
    options = {"layout": "gather", "init": np.array([20.0, -20.0]), "lr": 1e308}
    run = train(samples, steps=40, **options)
    assert run.status[0].startswith("diverged at step ")
    before = int(run.status[0].split()[-1]) - 1
    np.testing.assert_array_equal(run.scores, train(samples, steps=before, **options).scores)
    assert np.isfinite(run.scores).all()


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
