"""Figures 3, 8 and 9 of Scan and Snap as plain numbers: curves, a verdict and a control."""

import numpy as np

from attomaton.results import Result, Verdict
from attomaton.scan_snap.theory.decoder import decoder_growth, decoder_growth_discrete
from attomaton.scan_snap.theory.phase import (
    gain_factor_bounds,
    scan_progress,
    scan_slope,
    scanning_end,
    snapping_start,
)

POINTS = 200


def fig3() -> Result:
    r"""Growth factor $\chi = e^{2B}$ over time for four $\eta_Y$ (K = 10, M = 1000, $\eta_Z$ = 0.5), with $t_0$.

    χ grows almost in proportion to time until $t_0'$ (its exponent is $2\, dB/d\ln t \approx 1$) and hardly any more
    after $t_0$ (below one half). Control: the same at a tenth of each $t_0$.
    """
    K, M, eta_z = 10, 1000, 0.5
    curves, slopes = [], []
    for eta_y in (0.5, 1.0, 2.0, 5.0):
        end, start = (float(f(eta_y, K, M)) for f in (scanning_end, snapping_start))
        t = np.geomspace(1.0, 1e4, POINTS)
        _, chi = gain_factor_bounds(scan_progress(t, eta_y, eta_z, K, M), 1.0)
        curves.append({"eta_y": eta_y, "t": t.tolist(), "chi": chi.tolist(), "t_0": start})
        slopes.append(2 * scan_slope(np.array([end / 2, start, start / 10]), eta_y, eta_z, K, M))
    before, after, early = np.transpose(slopes).tolist()
    return {
        "title": "Growth factor before and after the transition",
        "K": K,
        "M": M,
        "eta_z": eta_z,
        "curves": curves,
        "exponent while scanning": before,
        "exponent at t_0": after,
        "verdict": Verdict.of(min(before) >= 0.9 and max(after) < 0.5).value,
        "control": Verdict.of(max(early) < 0.5).value,
    }


def fig8() -> Result:
    r"""h against the discrete h*: two vocabularies, five step sizes each.

    Holds where $0 \le h^* - h \le \eta_Y / M$ at every step; the control asks the same of steps that know nothing of α,
    $\eta_Y s / M$.
    """
    curves, lead, blind = [], [], []
    for M, rates, steps in (
        (50, (0.1, 0.25, 0.5, 1.0, 2.0), 200),
        (1000, (0.2, 0.5, 1.0, 2.0, 4.0), 200),
    ):
        s = np.arange(steps + 1)
        for eta_y in rates:
            h, discrete = decoder_growth(s, eta_y, M), decoder_growth_discrete(steps, eta_y, M)
            curves.append(
                {"M": M, "eta_y": eta_y, "h": h.tolist(), "h_discrete": discrete.tolist()}
            )
            lead.append(_in_steps(discrete - h, eta_y, M))
            blind.append(_in_steps(eta_y * s / M - h, eta_y, M))
    return {
        "title": "Decoder growth, continuous and in steps",
        "curves": curves,
        "lead in units of eta_Y / M": [high for _, high in lead],
        "verdict": Verdict.of(all(low >= -1e-12 and high <= 1 for low, high in lead)).value,
        "control": Verdict.of(all(low >= -1e-12 and high <= 1 for low, high in blind)).value,
    }


def fig9() -> Result:
    r"""$B_n(t)$ at a fixed ratio of learning rates: at $t_0$ all curves have the same value.

    Ratio 10 with M = 100, ratio 1 with M = 10000; $\eta_Z$ = 0.5 … 8. Control: the values at one common time.
    """
    K, curves, spread, elsewhere = 10, [], [], []
    for M, ratio in ((100, 10.0), (10_000, 1.0)):
        at_snap, at_once = [], []
        for eta_z in (0.5, 1.0, 2.0, 4.0, 8.0):
            eta_y = ratio * eta_z
            start = float(snapping_start(eta_y, K, M))
            t = np.geomspace(1e-2, 1e4, POINTS)
            B = scan_progress(t, eta_y, eta_z, K, M)
            at_snap.append(float(scan_progress(start, eta_y, eta_z, K, M)))
            at_once.append(float(scan_progress(10.0, eta_y, eta_z, K, M)))
            curves.append(
                {"M": M, "eta_y": eta_y, "eta_z": eta_z, "t": t.tolist(), "B": B.tolist(),
                 "t_0": start, "B_at_t_0": at_snap[-1]}
            )  # fmt: skip
        spread.append(float(np.ptp(at_snap)))
        elsewhere.append(float(np.ptp(at_once)))
    return {
        "title": "Scan progress at a fixed ratio of learning rates",
        "K": K,
        "curves": curves,
        "spread at t_0": spread,
        "spread at t = 10": elsewhere,
        "verdict": Verdict.of(max(spread) <= 1e-12).value,
        "control": Verdict.of(max(elsewhere) <= 1e-12).value,
    }


def _in_steps(lead: np.ndarray, eta_y: float, M: int) -> tuple[float, float]:
    """The least and the largest lead, in units of the first step."""
    return float(lead.min() * M / eta_y), float(lead.max() * M / eta_y)
