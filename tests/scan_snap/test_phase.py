"""Phases: B against quadrature and its own equation, and what is measured off trajectories."""

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

from attomaton.errors import UsageError
from attomaton.scan_snap.data import sequence_classes
from attomaton.scan_snap.theory.decoder import decoder_gain, gain_integral
from attomaton.scan_snap.theory.phase import (
    drop_times,
    gain_factor_bounds,
    gain_transition,
    measure_phases,
    scan_progress,
    scan_slope,
    scanning_end,
    snapping_start,
)
from attomaton.scan_snap.theory.reduced import run_reduced
from attomaton.scan_snap.trajectory import Dynamics, record_times

CLASSES = sequence_classes(
    [[0.3, 0.4, 0.2, 0.1, 0, 0, 0] + [0] * 13, [0.3, 0, 0, 0, 0.4, 0.2, 0.1] + [0] * 13],
    [7, 8],
    [9, 10],
)


@pytest.mark.parametrize(("K", "M", "eta_y", "eta_z"), [(10, 1000, 2.0, 0.5), (2, 34, 1.0, 8.0)])
@pytest.mark.parametrize("rho0", [1.0, 1.7])
def test_scan_progress_against_quadrature_and_its_own_equation(K, M, eta_y, eta_z, rho0):
    C0, times = rho0**4 / K, float(scanning_end(eta_y, K, M)) * np.array([0.3, 1.0, 5.0])
    closed = scan_progress(times, eta_y, eta_z, K, M, rho0)

    def gamma(s):
        return float(decoder_gain(float(s), eta_y, K, M))

    for t, B in zip(times, closed, strict=True):
        points = [float(scanning_end(eta_y, K, M))]
        integral = quad(gamma, 0, t, epsabs=0, epsrel=1e-12, points=points, limit=200)[0]
        np.testing.assert_allclose(np.log(1 + 4 * eta_z * integral / C0) / 4, B, rtol=1e-8)

    def field(t, x):
        push = eta_z * gamma(t) * np.exp(4 * x[0]) / C0
        return [-push, push]

    run = solve_ivp(
        field, (0, times[-1]), [0.0, 0.0], "DOP853", t_eval=times, rtol=1e-11, atol=1e-13
    )
    np.testing.assert_allclose(run.y[1], closed, rtol=1e-8)


def test_the_slope_is_the_derivative():
    t, step = np.geomspace(1e-2, 1e6, 40), 1e-5
    args = (2.0, 0.5, 10, 1000)
    numeric = (scan_progress(t * np.exp(step), *args) - scan_progress(t * np.exp(-step), *args)) / (
        2 * step
    )
    np.testing.assert_allclose(scan_slope(t, *args), numeric, rtol=1e-6)


@pytest.mark.parametrize("M", [20, 1000, 10**5])
def test_the_transition_lies_between_the_two_times(M):
    t = gain_transition(0.5, 7, M)
    assert scanning_end(0.5, 7, M) < t < snapping_start(0.5, 7, M)
    exponent = t * decoder_gain(t, 0.5, 7, M) / gain_integral(t, 0.5, 1.0, 7, M)
    assert exponent == pytest.approx(1.0, rel=1e-9)


def test_measured_transition_is_the_predicted_one():
    run = run_reduced(CLASSES, eta_y=[0.5, 1.0, 4.0], eta_z=1.0, times=record_times(1e5, 300, 0.01))
    for phases in measure_phases(run):
        low, high = phases.transition_range
        expected = float(gain_transition(phases.eta_y, 2, 20))
        assert phases.transition == pytest.approx(expected, rel=0.005)  # trapezoids of 0.05 in ln t
        assert low <= phases.transition <= high
        assert high / low < 1.06
        assert phases.knee_range[0] <= phases.knee <= phases.knee_range[1]
        assert phases.snapping_start == 2 * phases.scanning_end


def test_a_run_too_short_shows_no_transition():
    (phases,) = measure_phases(run_reduced(CLASSES, eta_y=0.1, eta_z=1.0, times=[0.0, 1.0, 2.0]))
    assert np.isnan(phases.transition)
    assert np.isnan(phases.knee)


def test_a_trajectory_without_records_still_has_entropy():
    t = np.array([0.0, 1.0, 2.0])
    z = np.zeros((1, 3, 2, 20))
    bare = Dynamics("sampled", CLASSES, np.ones(1), np.ones(1), t, z, {}, ("finished",), {})
    (phases,) = measure_phases(bare)
    assert np.isnan([phases.transition, phases.knee, phases.scanned]).all()
    p = np.array([0.4, 0.2, 0.1]) / 0.7
    assert phases.entropy == pytest.approx(-(p * np.log(p)).sum())
    assert phases.dropped == (0, 0)


def test_tokens_are_dropped_in_order_of_probability():
    own, none = np.linspace(0.1, 1, 10), np.zeros(10)
    P = np.array([[*np.ones(10), *own, *none], [*np.ones(10), *none, *own]]) / (10 + own.sum())
    classes = sequence_classes(np.pad(P, ((0, 0), (0, 4))), [30, 31], [32, 33])
    run = run_reduced(classes, eta_y=1.0, eta_z=10.0, times=record_times(1e8, 300, 0.01))
    (phases,) = measure_phases(run)
    assert min(phases.dropped) >= 5
    np.testing.assert_allclose(phases.drop_order, 1.0)


def test_drop_times():
    t = np.array([0.0, 1.0, 10.0, 100.0])
    c = np.array([[0.4, 0.4, 0.2], [0.1, 0.5, 0.4], [0.3, 0.3, 0.4], [0.1, 0.1, 0.8]])
    when = drop_times(t, c)
    # The first comes back once and counts when it goes for good: half of 0.4 between 0.3 and 0.1.
    np.testing.assert_allclose(when, [10 * np.sqrt(10), 10 * np.sqrt(10), np.inf])


def test_growth_bounds_enclose_and_order():
    low, high = gain_factor_bounds(np.array([0.0, 1.0, 2.0]), 0.3)
    assert (low <= high).all()
    assert low[0] == high[0] == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: scanning_end(0.0, 2, 10),
        lambda: scanning_end(1.0, 0, 10),
        lambda: scanning_end(1.0, 2, 1),
        lambda: snapping_start(1.0, 2, 10, delta=-0.1),
        lambda: gain_transition(-1.0, 2, 10),
        lambda: scan_progress(-1.0, 1.0, 1.0, 2, 10),
        lambda: scan_progress(1.0, 1.0, 0.0, 2, 10),
        lambda: scan_progress(1.0, 1.0, 1.0, 2, 10, rho0=0.0),
        lambda: gain_factor_bounds(1.0, 1.5),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(UsageError):
        call()
