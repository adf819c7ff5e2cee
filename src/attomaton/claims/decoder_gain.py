r"""Theorem S1: how loudly the decoder speaks to the attention, and how it mixes classes.

γ grows like $\eta_Y t / K$, is largest near $K \ln M / \eta_Y$, and falls like $K \ln(M \eta_Y t / K) / (\eta_Y t)$.
The mixing β of a decoder trained from zero is another matter: see `check_mixing`.
"""

from typing import Any

import numpy as np

from attomaton.results import Evidence, Verdict
from attomaton.scan_snap.data import SequenceClasses
from attomaton.scan_snap.decoder import decoder_gain, gain_peak
from attomaton.scan_snap.families import conditions, symmetric
from attomaton.scan_snap.limit import run_limit
from attomaton.scan_snap.phase import scanning_end
from attomaton.scan_snap.reduced import run_reduced
from attomaton.scan_snap.trajectory import record_times

SIZES = ((2, 100), (10, 1000), (10, 100_000))  # K, M
FAR = 1e6  # times t_0′: where the tail is compared


def weakly_correlated() -> SequenceClasses:
    """Four classes with 250 distinct tokens each and one rare common one: λ_1 < 1/K, M = 1006 ≫ K²."""
    return symmetric(4, 250, 1, 0.02)


def check(eta_y: float = 0.5) -> Evidence:
    """S1's shape of γ, from its formula and measured on the limit level."""
    shape = [_shape(K, M, eta_y) for K, M in SIZES]
    classes = weakly_correlated()
    end = float(scanning_end(eta_y, classes.K, classes.M))
    run = run_limit(
        classes, eta_y=eta_y, eta_z=eta_y / 10, times=record_times(1e4 * end, 120, end / 100)
    )
    gamma = run.records["gamma"][0, 1:]
    gap = _gap(gamma, decoder_gain(run.t[1:], eta_y, classes.K, classes.M))
    wrong = _gap(gamma, decoder_gain(run.t[1:], eta_y, 2 * classes.K, classes.M))
    measured = {
        "rise exponent": [s["rise"] for s in shape],
        "peak / (K ln M / eta_Y)": [s["peak"] for s in shape],
        "tail / formula": [s["tail"] for s in shape],
        "limit: largest gap of gamma": gap,
        "limit: peak / predicted peak": float(
            run.t[1:][gamma.argmax()] / gain_peak(eta_y, classes.K, classes.M)
        ),
        "conditions": conditions(classes, eta_y),
    }
    holds = (
        all(abs(s["rise"] - 1) <= 0.01 for s in shape)
        and all(0.75 <= s["peak"] <= 1.05 for s in shape)
        and all(abs(s["tail"] - 1) <= 0.03 for s in shape)
        and gap <= 0.02
    )
    return Evidence(
        claim="S1",
        statement="The decoder's backward signal rises with time, peaks near K ln M / η_Y, and fades like ln t / t.",
        verdict=Verdict.HOLDS if holds else Verdict.FAILS,
        control=Verdict.FAILS if wrong > 0.02 else Verdict.HOLDS,
        tolerance=(
            "rise exponent 1 ± 0.01, peak at 0.75 to 1.05 of K ln M / η_Y (ln ln M / ln M off), tail within 3% "
            "(of order 1/M) at 10⁶ t_0′, γ of the limit level within 2% at all times"
        ),
        measured=measured,
        control_measured={"gap of gamma, twice as many classes": wrong},
    )


def check_mixing(eta_y: float = 0.5) -> Evidence:
    r"""How a decoder trained from zero mixes classes: $1/(M-1)$ at first, with memory of past attention; not E′.

    With $Y = (\eta_Y t / K) \sum_n f_n (e_n - 1/M)^\top$ at first,
    $g_n \propto f_n - \tfrac{1}{M-1} \sum_{n' \ne n} f_{n'}$ exactly. E′ would need logits that separate the classes
    evenly, which weakly correlated ones reach only when $e^{u E} \gg M E$.
    """
    classes = weakly_correlated()
    end = float(scanning_end(eta_y, classes.K, classes.M))
    times, ratios = record_times(1e3 * end, 60, end / 100), np.array([0.01, 1.0, 10.0])
    rates: dict[str, Any] = {"eta_y": np.full(3, eta_y), "eta_z": eta_y * ratios, "times": times}
    B = run_limit(classes, **rates).records["B"][:, 1:]
    memory = run_reduced(classes, **rates, mixing="memory").records["B"][:, 1:]
    inverse = run_reduced(classes, **rates).records["B"][:, 1:]
    gap, wrong = _gap(B, memory), _gap(B, inverse)
    return Evidence(
        claim="S1 mixing",
        statement="A decoder trained from zero mixes classes by 1/(M − 1) at first and remembers past attention.",
        verdict=Verdict.HOLDS if gap <= 0.03 else Verdict.FAILS,
        control=Verdict.FAILS if wrong > 0.03 else Verdict.HOLDS,
        tolerance="scan progress B of the limit level within 3% at all times, for η_Z/η_Y = 0.01, 1 and 10",
        measured={
            "largest gap of B": gap,
            "B at the end": B[:, -1, 0].tolist(),
            "predicted": memory[:, -1, 0].tolist(),
        },
        control_measured={
            "largest gap of B, beta = E'": wrong,
            "B(first record) / limit": (inverse / B)[:, 0, 0].tolist(),
            "B(end) / limit": (inverse / B)[:, -1, 0].tolist(),
        },
    )


def _shape(K: int, M: int, eta_y: float) -> dict[str, float]:
    """Exponent of the rise, place of the peak, and the tail against its formula."""
    end = float(scanning_end(eta_y, K, M))
    early, late = end * np.geomspace(1e-3, 0.05, 30), FAR * end
    grid = end * np.geomspace(0.1, 10, 4001)
    tail = K * np.log(M * eta_y * late / K) / (eta_y * late)
    return {
        "rise": float(np.polyfit(np.log(early), np.log(decoder_gain(early, eta_y, K, M)), 1)[0]),
        "peak": float(grid[decoder_gain(grid, eta_y, K, M).argmax()] / end),
        "tail": float(decoder_gain(late, eta_y, K, M) / tail),
    }


def _gap(measured: np.ndarray, predicted: np.ndarray) -> float:
    """The largest relative difference."""
    return float(np.abs(predicted / measured - 1).max())
