"""The limit level: the differential equation, its discrete steps, and what they must obey."""

import re

import numpy as np
import pytest

from attomaton.base import programs
from attomaton.errors import UsageError
from attomaton.numerics import float64
from attomaton.scan_snap.data import sequence_classes
from attomaton.scan_snap.experiment.limit import run_limit
from attomaton.scan_snap.trajectory import record_times

EXACT = 1e-10  # two ways of computing the same numbers in float64
SOLVED = 1e-6  # two solutions at rtol 1e-8: some hundred solver steps, each off by that much


def pair_of_classes(spare=0):
    """Two classes, each with its own query: three common tokens of weight 1, tokens of their own of 0.2, 0.6, 1."""
    P = np.zeros((2, 13 + spare))
    P[:, :3] = 1.0
    P[0, 3:6] = P[1, 6:9] = [0.2, 0.6, 1.0]
    return sequence_classes(P / P.sum(axis=1, keepdims=True), [9, 10], [11, 12])


PAIR = pair_of_classes()
RATES = {"eta_y": [1.0, 10.0, 1.0, 0.1], "eta_z": [1.0, 1.0, 10.0, 0.1]}
LONG = record_times(1e8, 200)


@pytest.fixture(scope="module")
def far():
    """Four pairs of rates to t = 10⁸."""
    return run_limit(PAIR, **RATES, times=LONG)


def stepped(classes, eta_y, eta_z, steps, momentum=0.0, start=None):
    """z of every class after each discrete step, on full matrices in plain NumPy."""
    M = classes.M
    Y, Z = np.zeros((2, M, M)) if start is None else start
    vY, vZ = np.zeros((2, M, M))
    out = [Z[classes.query_of]]
    for _ in range(steps):
        gY, gZ = np.zeros((2, M, M))
        for n, (m, following) in enumerate(zip(classes.query_of, classes.next_of, strict=True)):
            c = classes.P[n] * np.exp(Z[m])
            f = c / np.linalg.norm(c)
            alpha = np.exp(Y.T @ f)
            r = np.eye(M)[following] - alpha / alpha.sum()
            g = Y @ r
            gY += np.outer(f, r) / classes.K
            gZ[m] += f * (g - f * (f @ g)) / classes.K
        vY, vZ = momentum * vY + gY, momentum * vZ + gZ
        Y, Z = Y + eta_y * vY, Z + eta_z * vZ
        out.append(Z[classes.query_of])
    return np.array(out), Y


# Long runs


def test_ten_to_the_eighth_is_reached_with_falling_loss(far):
    assert far.status == ("finished",) * 4
    assert far.level == "limit"
    assert far.z.shape == (4, 201, 2, 13)
    loss = far.records["loss"]
    assert np.isfinite(loss).all()
    assert (np.diff(loss, axis=1) < 0).all()
    # Residuals decay like 1/t.
    late = LONG > 1e5
    slope = [np.polyfit(np.log(LONG[late]), np.log(run[late]), 1)[0] for run in loss]
    np.testing.assert_allclose(slope, -1, atol=0.02)
    assert far.seconds["run"] < 2


def test_logits_sum_to_zero_and_stay_zero_off_the_context(far):
    assert abs(far.z.sum(axis=-1)).max() < EXACT
    assert not np.delete(far.z, PAIR.context_tokens, axis=-1).any()
    assert abs(far.z[:, -1]).max() > 0.5


def test_tokens_and_classes_in_equal_roles_move_alike(far):
    z = far.z
    np.testing.assert_allclose(z[..., 0, :3], z[..., 0, :1].repeat(3, -1), atol=EXACT)
    np.testing.assert_allclose(z[..., 0, 3:6], z[..., 1, 6:9], atol=EXACT)
    # A class never has the other's tokens, and nothing moves their logits.
    assert not z[..., 0, 6:9].any()


def test_scan_progress_is_the_integral_of_the_scan_rate(far):
    rate = far.records["xi"] * far.eta_z[:, None, None] / PAIR.K
    late = LONG > 0.9  # before that, one interval: too coarse for a trapezoid in log t
    s = np.log(LONG[late])
    field = rate[:, late] * LONG[late][:, None]
    steps = (field[:, 1:] + field[:, :-1]) / 2 * np.diff(s)[:, None]
    gained = far.records["B"][:, late] - far.records["B"][:, late][:, :1]
    # The trapezoid's own error: Δs²/12 relative, Δs = 0.09, and more where the rate bends.
    np.testing.assert_allclose(gained[:, 1:], np.cumsum(steps, axis=1), rtol=5e-3, atol=1e-2)


def test_runs_side_by_side_equal_runs_alone(far):
    for i in (1, 2):
        alone = run_limit(PAIR, eta_y=RATES["eta_y"][i], eta_z=RATES["eta_z"][i], times=LONG)
        np.testing.assert_allclose(alone.z[0], far.z[i], atol=EXACT)
        for name, value in alone.records.items():
            np.testing.assert_allclose(value[0], far.records[name][i], atol=EXACT, err_msg=name)


def test_other_rates_of_the_same_shape_compile_nothing(far):
    before = programs._compiled.cache_info().misses
    run_limit(PAIR, eta_y=[1.0, 2.0, 3.0, 4.0], eta_z=0.5, times=record_times(10.0, 200), rtol=1e-6)
    assert programs._compiled.cache_info().misses == before


def test_a_watched_run_is_the_same_run(far):
    seen = []
    watched = run_limit(PAIR, **RATES, times=LONG, progress=lambda *a: seen.append(a))
    np.testing.assert_allclose(watched.z, far.z, atol=EXACT)
    assert watched.records["loss"].shape == far.records["loss"].shape
    done, total, said = seen[-1]
    assert (done, total) == (201, 201)
    assert said == f"loss {watched.records['loss'][:, -1].mean():.6g}"
    assert len(seen) > 20


# Accuracy


def test_tighter_tolerances_give_smaller_errors():
    times = [0.0, 1.0, 10.0, 100.0]
    runs = {
        r: run_limit(PAIR, eta_y=1.0, eta_z=1.0, times=times, rtol=r, atol=r / 100)
        for r in (1e-4, 1e-6, 1e-8, 1e-11)
    }
    error = [abs(runs[r].z - runs[1e-11].z).max() for r in (1e-4, 1e-6, 1e-8)]
    assert error[0] > 3 * error[1] > 9 * error[2]
    assert all(e < 100 * r for e, r in zip(error, (1e-4, 1e-6, 1e-8), strict=True))


def test_small_steps_approach_the_differential_equation_at_first_order():
    end, sizes = 20.0, np.array([0.2, 0.1, 0.05, 0.025])
    exact = run_limit(
        PAIR, eta_y=1.0, eta_z=1.0, times=[0.0, 1.0, 10.0, end], rtol=1e-11, atol=1e-13
    )
    error = []
    for h in sizes:
        run = run_limit(PAIR, eta_y=h, eta_z=h, method="steps", times=[0, round(end / h)])
        error.append(abs(run.z[0, -1] - exact.z[0, -1]).max())
        assert abs(run.records["B"][0, -1] - exact.records["B"][0, -1]).max() < h
    slope = np.polyfit(np.log(sizes), np.log(error), 1)[0]
    assert slope == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_are_those_of_full_matrices(momentum):
    classes = pair_of_classes(spare=5)
    expected, Y = stepped(classes, 1.0, 0.5, 40, momentum)
    run = run_limit(classes, eta_y=1.0, eta_z=0.5, method="steps", steps=40, momentum=momentum)
    assert run.t.tolist() == list(range(41))
    np.testing.assert_allclose(run.z[0], expected, atol=EXACT)
    assert abs(Y.sum(axis=1)).max() < EXACT
    assert run.records["y_norm"][0, -1] == pytest.approx(np.linalg.norm(Y), abs=EXACT)


def test_uniform_starts_are_those_of_full_matrices():
    from attomaton.scan_snap.experiment.draws import uniform_start

    run = run_limit(
        PAIR,
        eta_y=[1.0, 2.0],
        eta_z=0.5,
        method="steps",
        steps=20,
        start="uniform",
        seed=7,
        seeds=2,
    )
    assert run.eta_y.tolist() == [1.0, 1.0, 2.0, 2.0]
    tokens = PAIR.context_tokens
    for i, (eta, j) in enumerate([(1.0, 0), (1.0, 1), (2.0, 0), (2.0, 1)]):
        start = np.zeros((2, PAIR.M, PAIR.M))
        start[0][tokens], start[1][np.ix_(PAIR.queries, tokens)] = uniform_start(PAIR, 7, j)
        expected, Y = stepped(PAIR, eta, 0.5, 20, start=start)
        np.testing.assert_allclose(run.z[i], expected, atol=EXACT)
        assert run.records["y_norm"][i, 0] == pytest.approx(np.linalg.norm(start[0]), abs=EXACT)
        assert run.records["y_norm"][i, -1] == pytest.approx(np.linalg.norm(Y), abs=EXACT)


def test_sampled_training_starts_where_the_limit_does():
    from attomaton.scan_snap.experiment.train import train_sampled

    options = {"eta_y": 1.0, "eta_z": 1.0, "steps": 2, "start": "uniform", "seeds": 2, "seed": 3}
    a = train_sampled(PAIR, **options, batch=8, T=8, precision="float64")
    b = run_limit(PAIR, **options, method="steps")
    np.testing.assert_allclose(a.z[:, 0], b.z[:, 0], atol=EXACT)
    for name in ("loss", "y_norm", "gamma"):
        np.testing.assert_allclose(a.records[name][:, 0], b.records[name][:, 0], atol=EXACT)


def test_relabelling_tokens_permutes_the_dynamics():
    order = np.random.default_rng(0).permutation(PAIR.M)  # new token i is old token order[i]
    new = np.argsort(order)
    other = sequence_classes(PAIR.P[:, order], new[PAIR.query_of], new[PAIR.next_of])
    times = [0.0, 1.0, 10.0, 100.0]
    a = run_limit(PAIR, eta_y=2.0, eta_z=1.0, times=times)
    b = run_limit(other, eta_y=2.0, eta_z=1.0, times=times)
    np.testing.assert_allclose(b.z, a.z[..., order], atol=EXACT)
    for name in a.records:
        np.testing.assert_allclose(b.records[name], a.records[name], atol=EXACT, err_msg=name)


# Cases solved by hand


def test_a_single_class_never_moves_its_attention():
    # Y grows along f alone, Y = f hᵀ, so g = (h·r) f and (I − f fᵀ) g = 0, however unequal the tokens are.
    classes = sequence_classes([[0.6, 0.3, 0.1, 0, 0]], [3], [4])
    run = run_limit(classes, eta_y=1.0, eta_z=5.0, times=[0.0, 1.0, 10.0, 1000.0])
    assert abs(run.z).max() < EXACT
    assert run.records["loss"][0, -1] < 0.01
    # g = γ f exactly: what the fit finds is the decoder's own gain.
    assert run.records["gamma"][0, 1] > 0.1
    assert abs(run.records["xi"]).max() < EXACT


def test_without_common_tokens_the_decoder_has_a_closed_form():
    # Orthogonal f: every class trains its own row direction, margin Mh with e^{Mh} + (M−1)Mh = Mηt/K + 1.
    P = np.zeros((2, 8))
    P[0, :2] = P[1, 2:4] = [0.75, 0.25]
    classes = sequence_classes(P, [4, 5], [6, 7])
    t = np.array([0.0, 1.0, 10.0, 100.0, 1e4, 1e6])
    run = run_limit(classes, eta_y=0.7, eta_z=3.0, times=t)
    margin = -np.log(np.expm1(run.records["loss"][0]) / 7)
    np.testing.assert_allclose(np.exp(margin) + 7 * margin, 8 * 0.7 * t / 2 + 1, rtol=SOLVED)
    assert abs(run.z).max() < EXACT


def test_attention_sets_out_as_the_square_of_time():
    # α = 1/M at first, so r_n·r_n' = −1/M and ż_l = −(η_Z η_Y t / K²M) f_nl (f_n'l − f_nl f_n·f_n').
    t, f = 0.01, PAIR.P / np.linalg.norm(PAIR.P, axis=1, keepdims=True)
    run = run_limit(
        PAIR, eta_y=1.0, eta_z=2.0, times=[t / 8, t / 4, t / 2, t], rtol=1e-11, atol=1e-16
    )
    expected = -(2.0 * t**2 / 2) / (4 * PAIR.M) * f * (f[::-1] - f * (f[0] @ f[1]))
    # The next order is t times smaller.
    np.testing.assert_allclose(run.z[0, -1], expected, atol=2 * t * abs(expected).max())
    assert (expected[0, :3] < 0).all()
    assert (expected[0, 3:6] > 0).all()


def test_many_spare_tokens_cost_nothing():
    big, small = pair_of_classes(spare=10_000), pair_of_classes(spare=1)
    times = [0.0, 1.0, 10.0, 100.0]
    before = programs._compiled.cache_info().misses
    a = run_limit(big, eta_y=1.0, eta_z=1.0, times=times)
    run_limit(small, eta_y=1.0, eta_z=1.0, times=times)
    assert programs._compiled.cache_info().misses <= before + 1
    assert a.records["loss"][0, 0] == pytest.approx(np.log(big.M))


# Failures


def test_a_run_that_diverges_keeps_its_records_and_leaves_the_others_alone(far):
    rates = {name: [first, 1e300, *rest] for name, (first, _, *rest) in RATES.items()}
    run = run_limit(PAIR, **rates, times=LONG)
    assert run.status == ("finished", f"diverged at t={LONG[1]:g}", "finished", "finished")
    np.testing.assert_allclose(run.z[[0, 2, 3]], far.z[[0, 2, 3]], atol=EXACT)
    assert run.records["loss"][1, 0] == pytest.approx(np.log(13))
    assert np.isnan(run.records["loss"][1, 1:]).all()
    assert np.isnan(run.z[1, 1:, :, :9]).all()


def test_a_step_that_overflows_is_named():
    run = run_limit(
        PAIR, eta_y=[1.0, 1.5e308], eta_z=[1.0, 1.5e308], method="steps", steps=40, momentum=0.9
    )
    assert run.status[0] == "finished"
    step = int(run.status[1].removeprefix("diverged at step "))
    assert 0 < step <= 40
    assert np.isfinite(run.records["loss"][1, :step]).all()
    assert np.isnan(run.records["loss"][1, step:]).all()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"eta_y": 0.0}, "eta_y=0: a learning rate must be positive"),
        ({"eta_z": [1.0, -2.0]}, "eta_z=-2"),
        ({"eta_z": np.inf}, "eta_z=inf"),
        ({"eta_y": np.nan}, "eta_y=nan"),
        ({"eta_y": []}, "eta_y"),
        ({"eta_y": [1.0, 2.0], "eta_z": [1.0, 2.0, 3.0]}, "as many of one as of the other"),
        ({"times": [0.0, 2.0, 2.0]}, "increasing"),
        ({"times": [-1.0, 2.0]}, "0 or more"),
        ({"times": []}, "list of times"),
        ({"times": [0.0, np.inf]}, "finite"),
        ({"method": "adaptative"}, "did you mean 'adaptive'?"),
        ({"start": "zeros"}, "did you mean 'zero'?"),
        ({"method": "steps"}, "needs steps or times"),
        ({"method": "steps", "steps": 0}, "at least 1"),
        ({"method": "steps", "steps": 2**31}, "at most 2,147,483,647 is possible"),
        ({"method": "steps", "times": [0.0, 0.5]}, "whole numbers"),
        ({"method": "steps", "times": [0, 50], "steps": 10}, "times go to 50"),
        ({"steps": 10}, 'steps is for method="steps"'),
        ({"momentum": 0.9}, "momentum is for discrete steps"),
        ({"momentum": 1.0}, "momentum=1.0"),
        ({"seeds": 0}, "seeds=0"),
        ({"seeds": 2}, "all be the same run"),
        ({"seed": -1}, "seed=-1"),
        ({"rtol": 0.0}, "rtol=0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, says):
    with pytest.raises(UsageError, match=re.escape(says)):
        run_limit(PAIR, **{"eta_y": 1.0, "eta_z": 1.0, **options})


def test_no_global_setting_is_touched():
    import jax

    before = jax.config.jax_enable_x64
    run_limit(PAIR, eta_y=1.0, eta_z=1.0, times=[0.0, 1.0, 10.0, 100.0])
    assert jax.config.jax_enable_x64 == before
    with float64():
        assert run_limit(PAIR, eta_y=1.0, eta_z=1.0, times=[0.0, 1.0, 10.0, 100.0]).z.dtype == float
