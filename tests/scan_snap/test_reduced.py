"""Level reduced: against the formula integrated over time, against the limit level, and its invariants."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from attomaton.errors import AssumptionError, UsageError
from attomaton.scan_snap.data import sequence_classes
from attomaton.scan_snap.experiment.limit import run_limit
from attomaton.scan_snap.theory.attention import overlap, scan_rate
from attomaton.scan_snap.theory.decoder import decoder_gain
from attomaton.scan_snap.theory.reduced import run_reduced
from attomaton.scan_snap.trajectory import class_attention, record_times


def family(K=3, M=100, common=(0.3,), own=(3.0, 2.0, 1.0), one_query=True):
    """K classes, each with its own tokens in the proportions `own`; the common ones have these probabilities."""
    C, D = len(common), len(own)
    P = np.zeros((K, M))
    P[:, :C] = common
    for n in range(K):
        P[n, C + n * D : C + (n + 1) * D] = (1 - sum(common)) * np.array(own) / sum(own)
    q = C + K * D
    query_of = np.full(K, q) if one_query else np.arange(q, q + K)
    return sequence_classes(P, query_of, np.arange(q + K, q + 2 * K))


UNEVEN = sequence_classes(
    [
        [0.3, 0.1, 0.4, 0.2, 0.0, 0.0, 0, 0, 0, 0, 0],
        [0.1, 0.4, 0.0, 0.0, 0.5, 0.0, 0, 0, 0, 0, 0],
        [0.2, 0.2, 0.0, 0.0, 0.0, 0.6, 0, 0, 0, 0, 0],
    ],
    [6, 7, 6],
    [8, 9, 10],
)


def over_log_time(classes, eta_y, eta_z, times):
    """z by the formula of the theory, class by class, over ln t, with rate η_Z / K."""
    K, M = classes.K, classes.M
    rows = {m: i for i, m in enumerate(classes.queries)}

    def field(s, x):
        t, Z = np.exp(s), x.reshape(len(rows), M)
        c = class_attention(Z[[rows[m] for m in classes.query_of]], classes.P)
        f = c / np.linalg.norm(c, axis=1, keepdims=True)
        beta = np.eye(K) - np.linalg.inv(f @ f.T)
        dz = np.zeros_like(Z)
        for n in range(K):
            for other in set(range(K)) - {n}:
                v = (f[n] @ f[other]) * f[n] - f[other]
                dz[rows[classes.query_of[n]]] += beta[n, other] * f[n] * v
        return (t * eta_z / K * decoder_gain(float(t), eta_y, K, M) * dz).ravel()

    first = np.log(1e-7)  # z is of order t² there
    run = solve_ivp(
        field, (first, np.log(times[-1])), np.zeros(len(rows) * M), "DOP853",
        t_eval=np.log(times), rtol=1e-11, atol=1e-13,
    )  # fmt: skip
    Z = run.y.T.reshape(len(times), len(rows), M)
    return Z[:, [rows[m] for m in classes.query_of]]


@pytest.mark.parametrize("classes", [UNEVEN, family(common=(0.2, 0.1))], ids=["uneven", "even"])
def test_over_the_logit_gap_or_over_time_is_the_same(classes):
    times = np.array([0.5, 5.0, 50.0, 1e4, 1e8])
    run = run_reduced(classes, eta_y=0.5, eta_z=0.8, times=times)
    np.testing.assert_allclose(run.z[0], over_log_time(classes, 0.5, 0.8, times), atol=1e-8)


@pytest.mark.parametrize("mixing", ["inverse", "weak", "memory"])
def test_scan_progress_is_the_integral_of_the_scan_rate(mixing):
    run = run_reduced(
        UNEVEN, eta_y=1.0, eta_z=2.0, times=record_times(1e3, 4000, 1e-2), mixing=mixing
    )
    xi, s = run.records["xi"][0, 1:], np.log(run.t[1:])
    pace = run.t[1:, None] * xi
    total = np.cumsum(np.diff(s)[:, None] * (pace[1:] + pace[:-1]) / 2, axis=0) * 2.0 / 3
    np.testing.assert_allclose(run.records["B"][0, -1], total[-1], rtol=1e-4)  # trapezoids of 0.003


def test_runs_of_one_ratio_go_through_the_same_states():
    times = record_times(1e4, 50)
    slow = run_reduced(UNEVEN, eta_y=0.5, eta_z=0.25, times=4 * times)
    both = run_reduced(UNEVEN, eta_y=[2.0, 2.0], eta_z=[1.0, 3.0], times=times)
    np.testing.assert_allclose(both.z[0], slow.z[0], atol=1e-10)
    alone = run_reduced(UNEVEN, eta_y=2.0, eta_z=3.0, times=times)
    np.testing.assert_allclose(both.z[1], alone.z[0], atol=1e-10)
    assert both.z.shape == (2, 51, 3, 11)
    assert both.status == ("finished", "finished")


@pytest.mark.parametrize("mixing", ["inverse", "weak", "memory"])
def test_row_sums_of_the_logits_stay_where_they_were(mixing):
    z0 = np.random.default_rng(1).normal(size=(11, 11))
    run = run_reduced(UNEVEN, eta_y=1.0, eta_z=1.0, times=[0.0, 10.0, 1e5], z0=z0, mixing=mixing)
    np.testing.assert_array_equal(run.z[0, 0], z0[UNEVEN.query_of])
    np.testing.assert_allclose(
        run.z[0].sum(axis=-1), np.tile(z0[UNEVEN.query_of].sum(axis=-1), (3, 1)), atol=1e-9
    )


def test_relabelling_tokens_permutes_the_run():
    shuffle = np.random.default_rng(2).permutation(11)
    back = np.argsort(shuffle)
    other = sequence_classes(UNEVEN.P[:, shuffle], back[UNEVEN.query_of], back[UNEVEN.next_of])
    a = run_reduced(UNEVEN, eta_y=1.0, eta_z=1.0, times=[0.0, 100.0])
    b = run_reduced(other, eta_y=1.0, eta_z=1.0, times=[0.0, 100.0])
    np.testing.assert_allclose(b.z, a.z[..., shuffle], atol=1e-12)
    np.testing.assert_allclose(b.records["B"], a.records["B"], atol=1e-12)


def test_records():
    run = run_reduced(UNEVEN, eta_y=[1.0, 2.0], eta_z=1.0, times=[0.0, 3.0, 30.0])
    assert run.level == "reduced"
    assert {k: v.shape for k, v in run.records.items()} == {
        "gamma": (2, 3), "gamma_predicted": (2, 3), "loss": (2, 3), "y_norm": (2, 3),
        "xi": (2, 3, 3), "B": (2, 3, 3),
    }  # fmt: skip
    np.testing.assert_allclose(run.records["gamma"][1], decoder_gain(run.t, 2.0, 3, 11))
    f = run.unit_attention[1, 2]
    np.testing.assert_allclose(
        run.records["xi"][1, 2], scan_rate(f, float(run.records["gamma"][1, 2])), rtol=1e-10
    )


def limit_and_reduced(classes, eta_z, mixing, times):
    limit = run_limit(classes, eta_y=1.0, eta_z=eta_z, times=times)
    return limit, run_reduced(classes, eta_y=1.0, eta_z=eta_z, times=times, mixing=mixing)


@pytest.mark.parametrize("one_query", [True, False], ids=["one query", "a query each"])
def test_the_rate_of_the_reduced_form_is_eta_z_over_k(one_query):
    """Early velocities of the same run: equal with η_Z/K, K times too large with η_Z."""
    K, M = 5, 1000
    classes = family(K, M, (0.15,), one_query=one_query)
    times = K * np.log(M) * np.array([0.0, 0.02, 0.05])
    limit, reduced = limit_and_reduced(classes, 1e-3, "weak", times)
    moved = np.abs(limit.z[0, 1]) > 0
    ratio = reduced.z[0, 1:, moved] / limit.z[0, 1:, moved]
    # Corrections are of order 1/M and of order (E u)² (u ≤ 0.35, E = 0.07).
    np.testing.assert_allclose(ratio, 1.0, atol=0.01)
    np.testing.assert_allclose(K * ratio, K, atol=0.05)
    np.testing.assert_allclose(reduced.records["B"][0, 1:], limit.records["B"][0, 1:], rtol=0.01)


def test_a_decoder_trained_from_zero_does_not_mix_like_the_inverse():
    """Weakly correlated classes, M ≫ K², slow attention: ξ starts at γ E/(M−1) per other class, not at γ E E′.

    At first Y = (η_Y t/K) Σ_n f_n (e_n − 1/M)ᵀ exactly, so −w_n′ᵀ(e_n − α_n) = η_Y t/(K M).
    """
    K, M = 4, 1000
    classes = family(K, M, (0.15,))
    t = K * np.log(M) * np.array([0.0, 0.01, 0.7, 3.0])
    limit, weak = limit_and_reduced(classes, 1e-4, "weak", t)
    inverse = run_reduced(classes, eta_y=1.0, eta_z=1e-4, times=t)
    E = overlap(limit.unit_attention[0, 0])[0, 1]
    assert K * (K - 1) * E < 1  # weakly correlated: K |λ_1(E)| < 1
    measured, predicted = limit.records["xi"][0, 1:, 0], weak.records["xi"][0, 1:, 0]
    np.testing.assert_allclose(predicted, measured, rtol=0.02)
    np.testing.assert_allclose(measured[0], t[1] / K * (K - 1) * E / M, rtol=0.03)
    excess = inverse.records["xi"][0, 1:, 0] / measured
    assert (excess > 20).all()
    assert excess[0] == pytest.approx(M * E / (1 + (K - 1) * E), rel=0.1)
    # The decoder itself is as predicted all the while.
    np.testing.assert_allclose(limit.records["gamma"], inverse.records["gamma"], rtol=0.01)
    np.testing.assert_allclose(limit.records["loss"], inverse.records["loss"], rtol=0.01)


@pytest.mark.parametrize("eta_z", [0.1, 1.0, 10.0])
def test_with_memory_the_reduced_form_follows_the_limit_at_any_ratio(eta_z):
    K, M = 4, 1000
    classes = family(K, M, (0.15,))
    times = record_times(K * np.log(M) * 1e3, 40, 1.0)
    limit, memory = limit_and_reduced(classes, eta_z, "memory", times)
    np.testing.assert_allclose(memory.records["B"], limit.records["B"], rtol=0.01)
    np.testing.assert_allclose(memory.z, limit.z, rtol=0.01, atol=1e-12)
    np.testing.assert_allclose(memory.records["y_norm"], limit.records["y_norm"], rtol=0.01)


@pytest.mark.parametrize(
    "wrong",
    [
        {"eta_y": 0.0},
        {"eta_z": -1.0},
        {"times": [-1.0, 2.0]},
        {"times": [2.0, 1.0]},
        {"times": []},
        {"mixing": "inverted"},
        {"z0": np.zeros((UNEVEN.M + 1, UNEVEN.M + 1))},
    ],
)
def test_bad_input_is_refused(wrong):
    with pytest.raises(UsageError):
        run_reduced(UNEVEN, **({"eta_y": 1.0, "eta_z": 1.0} | wrong))


def test_classes_that_attend_alike_have_no_inverse():
    alike = sequence_classes([[0.5, 0.5, 0, 0, 0]] * 2, [2, 2], [3, 4])
    with pytest.raises(AssumptionError, match="classes 0 and 1"):
        run_reduced(alike, eta_y=1.0, eta_z=1.0)
    weak = run_reduced(alike, eta_y=1.0, eta_z=1.0, times=[0.0, 1.0], mixing="weak")
    assert np.abs(weak.z).max() < 1e-15  # nothing tells the two tokens apart
