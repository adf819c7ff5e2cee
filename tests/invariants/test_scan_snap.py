"""Scan and snap: what the formulas keep, whatever the classes, the logits, the rates and the times."""

import jax
import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st
from tests.invariants.harness import holds_for, refuted
from tests.invariants.strategies import attention_logits, classes_of, laws, seeds, shuffled

from attomaton.numerics import float64
from attomaton.scan_snap import trajectory as trajectory_room
from attomaton.scan_snap.experiment.population import attention, loss, population_of, velocity
from attomaton.scan_snap.families import sequence_classes
from attomaton.scan_snap.theory import attention as room
from attomaton.scan_snap.theory import decoder as decoder_room
from attomaton.scan_snap.theory.attention import (
    class_velocity,
    inverse_mixing,
    overlap,
    reduced_velocity,
    scan_rate,
    single_common_velocity,
)
from attomaton.scan_snap.theory.decoder import (
    decoder_gain,
    decoder_growth_discrete,
    decoder_logit_gap,
    gain_integral,
    gain_peak,
)
from attomaton.scan_snap.theory.phase import scan_progress, snapping_start
from attomaton.scan_snap.theory.reduced import run_reduced
from attomaton.scan_snap.trajectory import class_attention

times = st.floats(0, 1e6)
rates = st.floats(0.01, 10)
sizes = st.integers(2, 10_000)


def unit(classes, z):
    """f_n for logits given class by class."""
    c = class_attention(z, classes.P)
    return c / np.linalg.norm(c, axis=-1, keepdims=True)


def logits(seed, classes):
    """Random logits, the same for classes of one query."""
    return attention_logits(seed, (classes.M, classes.M))[classes.query_of]


def apart(f):
    """Whether the classes can be told apart: β = E′ exists and keeps its digits."""
    return np.linalg.eigvalsh(np.eye(len(f)) + overlap(f))[0] > 1e-4


@holds_for(laws(), seeds, st.floats(-50, 50))
def test_attention_is_a_distribution_over_the_tokens_of_its_class(weights, seed, shift):
    """Exactly 0 elsewhere, and a constant added to the logits changes nothing."""
    classes = classes_of(weights)
    z = logits(seed, classes)
    c = class_attention(z, classes.P)
    np.testing.assert_allclose(c.sum(axis=-1), 1, rtol=0, atol=1e-14)
    assert ((c > 0) == (classes.P > 0)).all()
    np.testing.assert_allclose(class_attention(z + shift, classes.P), c, rtol=0, atol=1e-13)


@holds_for(laws(), seeds, seeds, share=0.5)
def test_odds_of_two_tokens_change_by_their_logits_alone(weights, seed, later):
    """1 + r_{l/l'|n} = (P(l|n)/P(l'|n))² e^{2(z_l − z_l')}: the same for every class that has both."""
    classes = classes_of(weights)
    z, new = logits(seed, classes), logits(later, classes)
    c, moved = class_attention(z, classes.P), class_attention(new, classes.P)
    for n in range(classes.K):
        tokens = np.flatnonzero(classes.P[n])
        for l in tokens:
            for other in tokens:
                before, after = c[n, l] / c[n, other], moved[n, l] / moved[n, other]
                change = np.exp((new - z)[n, l] - (new - z)[n, other])
                assert after == pytest.approx(before * change, rel=1e-9)


@holds_for(laws(), seeds, share=0.5)
def test_the_scan_rate_is_what_other_classes_explain(weights, seed):
    """ξ_n = γ R²/(1 − R²) with R² of a least-squares fit of f_n by the other classes: never negative."""
    classes = classes_of(weights)
    f = unit(classes, logits(seed, classes))
    assume(apart(f))
    xi = scan_rate(f, 1.0)
    for n in range(classes.K):
        others = np.delete(f, n, axis=0).T
        fit = others @ np.linalg.lstsq(others, f[n], rcond=None)[0]
        R2 = fit @ fit
        assert xi[n] == pytest.approx(R2 / (1 - R2), rel=1e-7, abs=1e-9)
        assert xi[n] >= -1e-12


@holds_for(laws(), seeds, st.integers(1, 3), st.floats(0.01, 5), share=0.5)
def test_logits_move_by_differences_and_distinct_tokens_gain(weights, seed, queries, gamma):
    """Σ_l ż_ml = 0 for every query, and ż_ml = η f² ξ_n ≥ 0 for what is distinct to n."""
    classes = classes_of(weights, queries)
    f = unit(classes, logits(seed, classes))
    assume(apart(f))
    dz = reduced_velocity(f, classes.query_of, rate=0.5, gamma=gamma)
    scale = max(1.0, np.abs(dz).max())
    assert np.abs(dz.sum(axis=-1)).max() < 1e-12 * scale
    xi = scan_rate(f, gamma)
    row = np.searchsorted(classes.queries, classes.query_of)
    for n, l in np.argwhere(classes.distinct):
        assert dz[row[n], l] == pytest.approx(0.5 * f[n, l] ** 2 * xi[n], abs=1e-9 * scale)
        assert dz[row[n], l] >= -1e-12 * scale


@holds_for(
    st.lists(st.integers(1, 9), min_size=2, max_size=4),
    st.lists(st.integers(1, 9), min_size=4, max_size=4),
    seeds,
)
def test_the_only_common_token_loses(common, distinct, seed):
    """ż_ml = −η Σ_n (1 − f_nl²) ξ_n ≤ 0."""
    K = len(common)
    P = np.zeros((K, 2 * K + 2))
    P[:, 0], P[np.arange(K), 1 + np.arange(K)] = common, distinct[:K]
    P /= P.sum(axis=1, keepdims=True)
    classes = sequence_classes(P, [K + 1] * K, K + 2 + np.arange(K))
    f = unit(classes, logits(seed, classes))
    assume(apart(f))
    dz = reduced_velocity(f, classes.query_of, rate=1.0, gamma=1.0)[0]
    formula = single_common_velocity(f[:, 0], scan_rate(f), classes.query_of, rate=1.0)[0]
    assert dz[0] == pytest.approx(formula, abs=1e-9 * max(1, abs(dz[0])))
    assert dz[0] <= 0


@holds_for(laws(), seeds, seeds, share=0.5)
def test_relabelling_permutes_the_velocity(weights, seed, order):
    """Tokens renamed and classes in another order."""
    classes = classes_of(weights)
    f = unit(classes, logits(seed, classes))
    assume(apart(f))
    token, row = shuffled(order, classes.M), shuffled(order, classes.K)
    a = class_velocity(f, inverse_mixing(overlap(f)))
    g = f[row][:, token]
    b = class_velocity(g, inverse_mixing(overlap(g)))
    np.testing.assert_allclose(b, a[row][:, token], rtol=0, atol=1e-9 * max(1, np.abs(a).max()))


@holds_for(st.lists(st.integers(1, 9), min_size=6, max_size=6), rates, rates, share=0.1)
def test_relative_gains_grow_by_the_growth_factor(law, eta_y, eta_z):
    """r_{l/l'|n}(t) = r(0) χ_l(t) for distinct tokens of one class, in the reduced dynamics."""
    classes = classes_of([[*law[:3], 0, 0], [law[3], 0, 0, *law[4:]]])
    run = run_reduced(classes, eta_y=eta_y, eta_z=eta_z, times=[0.0, 1.0, 10.0])
    assert run.z.sum(axis=-1) == pytest.approx(0, abs=1e-8)
    for n in range(classes.K):
        own = np.flatnonzero(classes.distinct[n])
        for l in own:
            assert (np.diff(run.z[0, :, n, l]) >= -1e-9).all()
            for other in own:
                r, chi = run.relative_gain(n, l, other)[0], run.growth(n, l)[0]
                np.testing.assert_allclose(r, r[0] * chi, rtol=1e-6, atol=1e-7)


@holds_for(times, rates, sizes)
def test_the_decoder_solves_its_closed_form(t, eta, M):
    """e^u − 1 + (M − 1) u = M η t with u = M h ≥ 0, and u grows with t."""
    u, later = decoder_logit_gap(np.array([t, t * 1.01 + 1e-3]), eta, M)
    assert np.expm1(u) + (M - 1) * u == pytest.approx(M * eta * t, rel=1e-12, abs=1e-300)
    assert 0 <= u < later


@holds_for(st.integers(0, 200), rates, sizes)
def test_discrete_steps_run_ahead_by_one_first_step_at_most(steps, eta, M):
    lead = decoder_growth_discrete(steps, eta, M)[-1] - decoder_logit_gap(float(steps), eta, M) / M
    assert -1e-12 <= lead <= eta / M + 1e-12


@holds_for(times, rates, st.integers(1, 50), sizes, st.floats(0.1, 10))
def test_rates_and_classes_only_set_the_clock(t, eta_y, K, M, factor):
    """γ is a function of η_Y t/K alone, and Γ of that and K η_Z/η_Y."""
    gamma = decoder_gain(t, eta_y, K, M)
    assert decoder_gain(t / factor, eta_y * factor, K, M) == pytest.approx(float(gamma), rel=1e-9)
    assert decoder_gain(t * 3, eta_y, 3 * K, M) == pytest.approx(float(gamma), rel=1e-9)
    Gamma = gain_integral(t, eta_y, 1.0, K, M)
    same = gain_integral(t / factor, eta_y * factor, factor, K, M)
    assert same == pytest.approx(float(Gamma), rel=1e-9)


@holds_for(st.floats(1e-3, 1e4), rates, rates, st.integers(1, 50), sizes)
def test_the_gain_is_the_slope_of_its_integral(t, eta_y, eta_z, K, M):
    """Γ(b) − Γ(a) = η_Z ∫γ, by Gauss's rule on a short stretch; both are never negative."""
    x, w = np.polynomial.legendre.leggauss(8)
    a, b = t, 1.01 * t
    inside = decoder_gain((a + b) / 2 + (b - a) / 2 * x, eta_y, K, M)
    stretch = np.diff(gain_integral(np.array([a, b]), eta_y, eta_z, K, M))[0]
    assert stretch == pytest.approx(eta_z * (b - a) / 2 * (w @ inside), rel=1e-6)
    assert (inside >= 0).all()


@holds_for(times, rates, st.integers(1, 50), sizes)
def test_the_gain_is_largest_at_its_peak(t, eta_y, K, M):
    top = decoder_gain(gain_peak(eta_y, K, M), eta_y, K, M)
    assert decoder_gain(t, eta_y, K, M) <= top * (1 + 1e-12)


@holds_for(rates, rates, st.floats(0.1, 10), st.integers(1, 50), sizes)
def test_progress_at_the_snap_depends_on_the_ratio_of_rates_only(eta_y, eta_z, factor, K, M):
    here, there = (
        scan_progress(snapping_start(y, K, M), y, z, K, M)
        for y, z in ((eta_y, eta_z), (factor * eta_y, factor * eta_z))
    )
    assert here == pytest.approx(float(there), rel=1e-9)


# The limit level, compiled once for three classes over five context tokens


moving = jax.jit(velocity)
losing = jax.jit(lambda Y, Z, population: loss(Y, _unit(Z, population), population))


def _unit(Z, population):
    c = attention(Z, population)
    return c / jax.numpy.linalg.norm(c, axis=-1, keepdims=True)


def limit_state(weights, seed):
    """Classes whose five context tokens all occur, and a state of Y and Z."""
    assume(all(any(row[l] for row in weights) for l in range(5)))
    classes = classes_of(weights, 2)
    rng = np.random.default_rng(seed)
    return classes, rng.normal(size=(5, classes.M)), rng.normal(size=(2, 5))


@holds_for(laws(K=3), seeds, share=0.1)
def test_the_flow_is_the_gradient_and_keeps_row_sums(weights, seed):
    """(Ẏ, Ż) against a plain loop over classes; Σ_v Ẏ_lv = 0 and Σ_l Ż_ml = 0."""
    classes, Y, Z = limit_state(weights, seed)
    with float64():
        found = moving(Y, Z, population_of(classes))
        dY, dZ = np.asarray(found.Y), np.asarray(found.Z)
    want_Y, want_Z = np.zeros_like(Y), np.zeros_like(Z)
    for n in range(classes.K):
        m = classes.query_of[n] - 5
        c = classes.P[n, :5] * np.exp(Z[m])
        f = c / np.linalg.norm(c)
        e = np.exp(f @ Y)
        r = -e / e.sum()
        r[classes.next_of[n]] += 1
        g = Y @ r
        want_Y += np.outer(f, r) / classes.K
        want_Z[m] += f * (g - f * (f @ g)) / classes.K
    np.testing.assert_allclose(dY, want_Y, rtol=0, atol=1e-13)
    np.testing.assert_allclose(dZ, want_Z, rtol=0, atol=1e-13)
    assert np.abs(dY.sum(axis=1)).max() < 1e-13
    assert np.abs(dZ.sum(axis=1)).max() < 1e-13


@holds_for(laws(K=3), seeds, share=0.1)
def test_along_the_flow_the_loss_falls_by_the_squared_speed(weights, seed):
    """dL/dt = −‖Ẏ‖² − ‖Ż‖², by central differences."""
    classes, Y, Z = limit_state(weights, seed)
    with float64():
        population = population_of(classes)
        v, step = moving(Y, Z, population), 1e-4
        ahead, behind = (
            float(losing(Y + s * np.asarray(v.Y), Z + s * np.asarray(v.Z), population))
            for s in (step, -step)
        )
        speed = float((v.Y**2).sum() + (v.Z**2).sum())
    assert (ahead - behind) / (2 * step) == pytest.approx(-speed, rel=1e-5, abs=1e-7)


@holds_for(laws(K=3), seeds, share=0.1)
def test_one_column_stands_for_all_that_are_nobodys_next_token(weights, seed):
    """Merged with its multiplicity: the same loss and the same motion, column by column."""
    classes, Y, Z = limit_state(weights, seed)
    spare = np.setdiff1d(np.arange(classes.M), classes.next_of)
    Y[:, spare] = Y[:, spare[:1]]
    few = np.hstack([Y[:, classes.next_of], Y[:, spare[:1]]])
    with float64():
        whole, part = population_of(classes), population_of(classes, merged=True)
        a, b = moving(Y, Z, whole), moving(few, Z, part)
        losses = float(losing(Y, Z, whole)), float(losing(few, Z, part))
        dY, dY_few = np.asarray(a.Y), np.asarray(b.Y)
        dZ, dZ_few = np.asarray(a.Z), np.asarray(b.Z)
    assert losses[0] == pytest.approx(losses[1], abs=1e-13)
    np.testing.assert_allclose(dZ, dZ_few, rtol=0, atol=1e-13)
    np.testing.assert_allclose(dY[:, classes.next_of], dY_few[:, :-1], rtol=0, atol=1e-13)
    np.testing.assert_allclose(dY[:, spare] - dY_few[:, -1:], 0, rtol=0, atol=1e-13)


# Controls


def test_control_attention_that_forgets_the_law(monkeypatch):
    def lawless(z, P):
        e = np.exp(z - z.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    monkeypatch.setitem(globals(), "class_attention", lawless)
    refuted(test_attention_is_a_distribution_over_the_tokens_of_its_class)


def test_control_mixing_by_the_overlap_itself(monkeypatch):
    """β = E instead of E′: right to first order only."""
    monkeypatch.setattr(room, "inverse_mixing", lambda E: E)
    refuted(test_the_scan_rate_is_what_other_classes_explain)


def test_control_gains_without_their_square(monkeypatch):
    """χ = e^{Δz} where e^{2Δz} is right."""
    monkeypatch.setattr(
        trajectory_room.Dynamics, "growth", lambda self, n, l: np.exp(self.z[:, :, n, l])
    )
    refuted(test_relative_gains_grow_by_the_growth_factor)


def test_control_a_gain_without_its_square(monkeypatch):
    """(M − 1) for (M − 1)² in γ."""
    honest = decoder_room.decoder_gain
    monkeypatch.setitem(
        globals(), "decoder_gain", lambda t, y, K, M: honest(t, y, K, M) / max(M - 1, 2)
    )
    refuted(test_the_gain_is_the_slope_of_its_integral)
