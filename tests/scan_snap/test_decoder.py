"""h and γ: closed form against integration, exact arithmetic, discrete steps and limits at both ends."""

from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

from attomaton.errors import UsageError
from attomaton.scan_snap.families import family
from attomaton.scan_snap.levels import run_level
from attomaton.scan_snap.theory.decoder import (
    decoder_gain,
    decoder_growth,
    decoder_growth_discrete,
    decoder_logit_gap,
    gain_integral,
    gain_peak,
    predicted_loss,
)


def exact_gap(t, eta, M):
    """The root of e^u + (M−1)u = Mηt + 1 in 60 digits, by bisection and then Newton."""
    with localcontext() as context:
        context.prec = 60
        x = Decimal(M) * Decimal(eta) * Decimal(t)
        low, high = Decimal(0), min(x / M, (x + 1).ln())
        for _ in range(60):
            middle = (low + high) / 2
            right = middle.exp() + (M - 1) * middle > x + 1
            low, high = (low, middle) if right else (middle, high)
        u = high
        for _ in range(6):
            u -= (u.exp() + (M - 1) * u - x - 1) / (u.exp() + M - 1)
        return float(u)


@pytest.mark.parametrize("M", [2, 3, 50, 1000, 100_000])
@pytest.mark.parametrize("eta", [0.01, 1.0, 8.0])
def test_h_is_the_root_of_its_closed_form_at_any_time(M, eta):
    t = np.concatenate([10.0 ** np.arange(-12, 13), [np.log(M), M / 3]])
    u = decoder_logit_gap(t, eta, M)
    expected = np.array([exact_gap(x, eta, M) for x in t])
    np.testing.assert_allclose(u, expected, rtol=1e-14)  # Newton's last step is below 4e-16 of u
    np.testing.assert_array_equal(decoder_growth(t, eta, M), u / M)


@pytest.mark.parametrize(("M", "eta"), [(2, 1.0), (50, 0.5), (1000, 2.0), (100_000, 1.0)])
def test_h_solves_its_differential_equation(M, eta):
    t = np.array([0.1, 1.0, 5.0, 20.0, 200.0])

    def field(_, u):
        return M * eta / (M - 1 + np.exp(u))

    run = solve_ivp(
        field, (0, 200), [0.0], "DOP853", t_eval=t, rtol=1e-13, atol=1e-15, max_step=0.2
    )
    np.testing.assert_allclose(decoder_logit_gap(t, eta, M), run.y[0], rtol=1e-12)


def test_both_ends_of_h():
    M, eta = 1000, 0.7
    assert decoder_growth(0.0, eta, M) == 0.0
    np.testing.assert_allclose(decoder_growth(1e-9, eta, M), eta * 1e-9 / M, rtol=1e-9)
    # At the far end (M − 1) u is a part of order u/(ηt) of the equation.
    np.testing.assert_allclose(decoder_logit_gap(1e12, eta, M), np.log(M * eta * 1e12), rtol=1e-11)


def test_shapes_broadcast():
    t, eta = np.array([0.0, 1.0, 2.0]), np.array([[0.5], [1.0]])
    h = decoder_growth(t, eta, 10)
    assert h.shape == (2, 3)
    assert h[1, 1] == decoder_growth(1.0, 1.0, 10) == decoder_growth(2.0, 0.5, 10) == h[0, 2]


@pytest.mark.parametrize(
    ("M", "eta"), [(2, 1.9), (50, 0.1), (50, 2.0), (1000, 0.2), (1000, 4.0), (10, 40.0)]
)
def test_discrete_steps_run_ahead_by_at_most_one_first_step(M, eta):
    h_star = decoder_growth_discrete(2000, eta, M)
    h = decoder_growth(np.arange(2001), eta, M)
    gap = h_star - h
    speed = eta / (M - 1 + np.exp(M * h))
    assert (gap >= -1e-15).all()
    assert (gap <= speed[0] - speed + 1e-15).all()
    assert gap.max() <= eta / M


def test_discrete_steps_never_overflow():
    h = decoder_growth_discrete(3, 5000.0, 2)
    assert np.isfinite(h).all()
    assert (np.diff(h) >= 0).all()


@pytest.mark.parametrize(("K", "M", "eta_y"), [(1, 10, 1.0), (10, 1000, 0.5), (3, 100_000, 5.0)])
def test_gain_and_its_integral(K, M, eta_y):
    t = K * np.log(M) / eta_y * np.array([0.1, 1.0, 3.0, 20.0])
    edges = np.concatenate([[0.0], t])
    pieces = [
        quad(
            lambda s: float(decoder_gain(s, eta_y, K, M)), a, b, epsabs=0, epsrel=1e-12, limit=200
        )[0]
        for a, b in pairwise(edges)
    ]
    np.testing.assert_allclose(
        gain_integral(t, eta_y, 0.3, K, M), 0.3 * np.cumsum(pieces), rtol=1e-10
    )


@pytest.mark.parametrize("M", [2, 20, 1000, 10**6])
def test_the_peak_of_the_gain(M):
    peak = gain_peak(0.5, 7, M)
    around = peak * (1 + np.linspace(-0.1, 0.1, 201))
    gain = decoder_gain(around, 0.5, 7, M)
    # The top is flat: γ falls by a 1e-4 part of itself within a few per cent.
    assert abs(int(gain.argmax()) - 100) <= 1
    assert gain.max() <= decoder_gain(peak, 0.5, 7, M) * (1 + 1e-12)


def test_loss_of_an_untrained_and_of_a_trained_decoder():
    assert predicted_loss(0.0, 1.0, 3, 50) == np.log(50)
    late = predicted_loss(1e9, 1.0, 3, 50)
    np.testing.assert_allclose(late, 3 / 1e9, rtol=0.03)  # 1 − α ≈ (1 − 1/M) K / (η t)


@pytest.mark.parametrize(
    "call",
    [
        lambda: decoder_growth(-1.0, 1.0, 10),
        lambda: decoder_growth(np.array([0.0, np.nan]), 1.0, 10),
        lambda: decoder_growth(1.0, 0.0, 10),
        lambda: decoder_growth(1.0, np.inf, 10),
        lambda: decoder_growth(1.0, 1.0, 1),
        lambda: decoder_growth_discrete(-1, 1.0, 10),
        lambda: decoder_growth_discrete(3, -1.0, 10),
        lambda: decoder_gain(1.0, 1.0, 0, 10),
        lambda: gain_integral(1.0, 1.0, 0.0, 2, 10),
        lambda: gain_peak(1.0, 2, 1),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(UsageError, match=r"needed|must be"):
        call()


def test_a_rate_that_is_refused_is_named_as_it_was_typed():
    with pytest.raises(UsageError, match=r"^eta_z=-1: a positive"):
        run_level("reduced", family("symmetric"), 1.0, -1.0)
