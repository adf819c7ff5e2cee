"""Sampled training: what is drawn, against a plain loop, against a published log, and what goes wrong."""

import numpy as np
import pytest
from tests.unchecked import unchecked_types

from attomaton.errors import UsageError
from attomaton.scan_snap.data import sequence_classes
from attomaton.scan_snap.experiment import train
from attomaton.scan_snap.experiment.draws import draw_contexts
from attomaton.scan_snap.experiment.train import _start, train_sampled
from attomaton.scan_snap.families import random_overlap, syn_medium, syn_small

TINY = sequence_classes([[0.5, 0.3, 0.2, 0, 0, 0, 0], [0, 0.25, 0, 0.75, 0, 0, 0]], [4, 4], [5, 6])
SHORT = {"T": 16, "batch": 12, "steps": 9}
FEW = {"every": 4, **SHORT}  # one program for all tests that ask for one run of it


@pytest.fixture(params=["numpy", "compiled"])
def way(request, monkeypatch):
    """Both ways of training: class by class in NumPy, and compiled by JAX."""
    monkeypatch.setattr(train, "TURNS", 0 if request.param == "compiled" else 10**9)
    return request.param


def plain_loop(classes, eta_y, eta_z, optimizer, index=0, start=None, **shape):
    """Training on whole M × M matrices, token by token as in the paper, in NumPy; losses, Y and Z."""
    of_class, counts = draw_contexts(classes, index=index, **shape)
    M = classes.M
    w = {"Y": np.zeros((M, M)), "Z": np.zeros((M, M))}
    if start is not None:
        w["Y"][classes.context_tokens] = start[0]
        w["Z"][np.ix_(classes.queries, classes.context_tokens)] = start[1]
    eta, losses = {"Y": eta_y, "Z": eta_z}, []
    first = {k: np.zeros((M, M)) for k in w}
    second = {k: np.zeros((M, M)) for k in w}
    for t, (n, m) in enumerate(zip(of_class, counts, strict=True)):
        query, label = classes.query_of[n], classes.next_of[n]
        e = m * np.exp(w["Z"][query])
        f = e / np.linalg.norm(e, axis=1, keepdims=True)
        alpha = np.exp(f @ w["Y"])
        alpha /= alpha.sum(axis=1, keepdims=True)
        losses.append(-np.log(alpha[np.arange(len(n)), label]).mean())
        r = np.eye(M)[label] - alpha
        g = r @ w["Y"].T
        grad = {"Y": f.T @ r / len(n), "Z": np.zeros((M, M))}
        np.add.at(grad["Z"], query, f * (g - f * (f * g).sum(axis=1, keepdims=True)) / len(n))
        for k in w:
            if optimizer == "sgd":
                w[k] += eta[k] * grad[k]
            elif optimizer == "momentum":
                first[k] = 0.9 * first[k] + grad[k]
                w[k] += eta[k] * first[k]
            else:
                first[k] = 0.9 * first[k] + 0.1 * grad[k]
                second[k] = 0.999 * second[k] + 0.001 * grad[k] ** 2
                fair = second[k] / (1 - 0.999 ** (t + 1))
                w[k] += eta[k] * first[k] / (1 - 0.9 ** (t + 1)) / (np.sqrt(fair) + 1e-8)
    return np.array(losses), w["Y"], w["Z"]


def test_a_context_has_t_minus_one_tokens_of_its_class():
    of_class, counts = draw_contexts(TINY, **SHORT)
    assert (counts.sum(axis=-1) == 15).all()
    assert ((counts > 0) <= (TINY.P[of_class] > 0)).all()


def test_counts_follow_the_law():
    of_class, counts = draw_contexts(syn_small(), T=128, batch=200, steps=20)
    # Pearson's statistic against its quantile at 1 − 10⁻⁴; the draw is fixed, so this fails always or never.
    share = (of_class == 0).mean()
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(of_class.size)
    from scipy.stats import chi2

    for n in range(2):
        p = syn_small().P[n]
        seen = counts[of_class == n].sum(axis=0)
        own = p > 0
        expected = seen.sum() * p[own]
        assert ((seen[own] - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-4, own.sum() - 1)


@pytest.mark.usefixtures("way")
def test_both_precisions_see_the_same_contexts():
    single = train_sampled(TINY, eta_y=1.0, eta_z=1.0, **FEW)
    double = train_sampled(TINY, eta_y=1.0, eta_z=1.0, precision="float64", **FEW)
    np.testing.assert_allclose(single.z, double.z, atol=1e-5)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_against_a_plain_loop_on_the_same_contexts(optimizer):
    classes = random_overlap(np.random.default_rng(1), 4, 3, 0.5, queries=2)
    run = train_sampled(
        classes, eta_y=[0.5, 2.0], eta_z=[1.0, 0.3], optimizer=optimizer, start="uniform",
        seeds=2, precision="float64", every=4, **SHORT,
    )  # fmt: skip
    for cell, (eta_y, eta_z) in enumerate([(0.5, 1.0), (2.0, 0.3)]):
        for i in range(2):
            start = _start(classes, "uniform", False, 0, i)
            _, Y, Z = plain_loop(classes, eta_y, eta_z, optimizer, i, start, **SHORT)
            b = 2 * cell + i
            np.testing.assert_allclose(run.z[b, -1], Z[classes.query_of], atol=1e-10)
            norm = run.records["y_norm"][b, -1]
            assert norm == pytest.approx(np.linalg.norm(Y[classes.context_tokens]), rel=1e-10)


def test_the_published_log_of_figure_4():
    # Losses the authors printed for one stream of their own; ours scatter around them by sampling.
    printed = {0: 3.5264, 2: 2.3679, 4: 0.7335, 6: 0.1608, 8: 0.0444, 10: 0.01295}
    losses = np.array([plain_loop(syn_small(), 1, 1, "momentum", i, steps=11)[0] for i in range(6)])
    for step, value in printed.items():
        spread = losses[:, step].std(ddof=1)
        assert abs(losses[:, step].mean() - value) < 4 * spread + 1e-4


@pytest.mark.usefixtures("way")
def test_rows_of_y_and_z_add_up_to_zero_from_a_zero_start():
    classes = syn_medium(3)
    _, Y, Z = plain_loop(classes, 1.0, 1.0, "sgd", **SHORT)
    np.testing.assert_allclose(Y.sum(axis=1), 0, atol=1e-10)
    np.testing.assert_allclose(Z.sum(axis=1), 0, atol=1e-10)
    run = train_sampled(classes, eta_y=1.0, eta_z=1.0, precision="float64", **SHORT)
    # All of Z's rows that move are rows of z, and all its other columns are 0: these are the full rows.
    np.testing.assert_allclose(run.z.sum(axis=-1), 0, atol=1e-10)


@pytest.mark.usefixtures("way")
def test_a_stream_alone_equals_the_stream_among_many():
    kwargs = {"start": "uniform", "precision": "float64", "optimizer": "momentum", **SHORT}
    many = train_sampled(TINY, eta_y=[1.0, 2.0, 3.0], eta_z=1.0, seeds=40, **kwargs)
    few = train_sampled(TINY, eta_y=2.0, eta_z=1.0, seeds=3, **kwargs)
    np.testing.assert_allclose(many.z[40:43], few.z, rtol=1e-9, atol=1e-12)
    assert many.status == ("finished",) * 120
    assert (np.diff(few.z[:, -1, 0, 0]) != 0).all()


@pytest.fixture(scope="module")
def many():
    """Three cells on 20 streams, more runs than the program takes at once; and what was told of progress."""
    seen = []
    run = train_sampled(
        TINY, eta_y=[1.0, 1.0, 2.0], eta_z=1.0, seeds=20, start="uniform", **SHORT,
        progress=lambda *told: seen.append(told),
    )  # fmt: skip
    return run, seen


def test_all_cells_see_the_same_contexts_and_start(many):
    run, _ = many
    assert run.eta_y.tolist() == [1] * 40 + [2] * 20
    np.testing.assert_array_equal(run.z[:20], run.z[20:40])
    np.testing.assert_array_equal(run.z[:20, 0], run.z[40:, 0])
    assert (run.z[:20, -1] != run.z[40:, -1]).any(axis=(1, 2)).all()


def test_other_seeds_draw_other_contexts():
    first, again, other = (draw_contexts(TINY, seed=s, **SHORT)[1] for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.usefixtures("way")
def test_records_are_taken_when_asked_and_at_the_end():
    run = train_sampled(TINY, eta_y=1.0, eta_z=0.5, **FEW)
    assert run.t.tolist() == [0, 4, 8, 9]
    assert run.z.shape == (1, 4, 2, 7)
    assert set(run.records) == {"loss", "y_norm", "gamma", "xi", "B"}
    assert run.records["loss"][0, 0] == pytest.approx(np.log(7))
    assert run.records["y_norm"][0, 0] == 0
    rate = 0.5 / 2 * run.records["xi"][0]
    area = (rate[1:] + rate[:-1]) / 2 * np.diff(run.t)[:, None]
    np.testing.assert_allclose(run.records["B"][0, 1:], np.cumsum(area, axis=0), rtol=1e-12)
    assert (run.records["gamma"][0, 1:] > 0).all()
    assert set(run.seconds) == {"compile", "run", "other"}


def test_distinct_tokens_gain_and_the_common_one_loses():
    run = train_sampled(TINY, eta_y=1.0, eta_z=1.0, optimizer="momentum")
    last = run.z[0, -1, 0]
    assert last[0] > 0 > last[1]
    assert run.records["loss"][0, -1] < 0.05


def test_entropy_of_a_hand_case():
    run = train_sampled(TINY, eta_y=1.0, eta_z=1e-9, **FEW)
    p = np.array([0.5, 0.2]) / 0.7  # the distinct tokens of class 0, at z = 0
    expected = [-(p * np.log(p)).sum(), 0.0]
    np.testing.assert_allclose(run.entropy[0, -1], expected, atol=1e-6)


@pytest.mark.usefixtures("way")
def test_the_bias_is_a_prior_on_the_attention():
    prior = np.array([0.0, -np.log(2.0), 0.0, 0.0])
    run = train_sampled(TINY, eta_y=1.0, eta_z=1.0, bias=prior, **FEW)
    np.testing.assert_allclose(run.attention[0, 0, 0, :3], np.array([0.5, 0.15, 0.2]) / 0.85)
    plain = train_sampled(TINY, eta_y=1.0, eta_z=1.0, **FEW)
    assert abs(run.z[0, -1] - plain.z[0, -1]).max() > 0.1


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("variant", [{"normalise": "none"}, {"residual": True}])
def test_variants_learn_the_task(variant):
    run = train_sampled(
        TINY, eta_y=1.0, eta_z=0.3, optimizer="momentum", start="uniform", **variant
    )
    assert run.status == ("finished",)
    assert run.records["loss"][0, -1] < 0.2 * run.records["loss"][0, 0]


@pytest.mark.usefixtures("way")
def test_divergence_is_kept_and_leaves_the_others_alone():
    run = train_sampled(TINY, eta_y=[1.0, 3e38], eta_z=1.0, optimizer="momentum", every=1, **SHORT)
    alone = train_sampled(TINY, eta_y=[1.0, 1.0], eta_z=1.0, optimizer="momentum", every=1, **SHORT)
    assert run.status[0] == "finished"
    assert run.status[1].startswith("diverged at step ")
    at = int(run.status[1].split()[-1])
    assert 1 <= at <= 3
    assert np.isfinite(run.z[1, :at]).all()
    assert np.isnan(run.z[1, at:]).all()
    assert np.isnan(run.records["gamma"][1, at:]).all()
    np.testing.assert_array_equal(run.z[0], alone.z[0])


def test_progress_counts_runs(many):
    _, seen = many
    assert [told[:2] for told in seen] == [(30, 60), (60, 60)]
    assert all(np.isfinite(float(told[2].removeprefix("loss "))) for told in seen)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"T": 1}, "T=1: at least 2"),
        ({"batch": 0}, "batch=0: at least 1"),
        ({"steps": 0}, "steps=0: at least 1"),
        ({"seeds": 0}, "seeds=0: at least 1"),
        ({"every": 0}, "every=0: at least 1"),
        ({"seed": -1}, "seed=-1: at least 0"),
        ({"seed": 2**32}, "below 2\\^32"),
        ({"momentum": 1.0}, "momentum=1.0"),
        ({"eta_y": 0.0}, "eta_y=0: rates must be positive"),
        ({"eta_z": [1.0, np.nan]}, "eta_z=nan: rates must be positive"),
        ({"eta_z": np.inf}, "eta_z=inf"),
        ({"eta_y": [1.0, 2.0], "eta_z": [1.0, 2.0, 3.0]}, "do not broadcast"),
        ({"eta_y": []}, "eta_y: one number or a list"),
        ({"optimizer": "momentun"}, "did you mean 'momentum'"),
        ({"start": "zeros"}, "did you mean 'zero'"),
        ({"normalise": "L2"}, 'choose from "l2", "none"'),
        ({"precision": "float16"}, "did you mean"),
        ({"bias": np.zeros(3)}, "bias: 4 finite numbers"),
        ({"bias": np.full(4, np.inf)}, "bias: 4 finite numbers"),
    ],
)
def test_options_that_make_no_sense(wrong, message):
    with pytest.raises(UsageError, match=message):
        train_sampled(TINY, **({"eta_y": 1.0, "eta_z": 1.0} | wrong))


@pytest.mark.parametrize("name", ["seeds", "first"])
def test_streams_are_counted_in_whole_numbers(name):
    with unchecked_types(), pytest.raises(UsageError, match=f"{name}=1.5: a whole number"):
        train_sampled(TINY, eta_y=1.0, eta_z=1.0, **{name: 1.5})
