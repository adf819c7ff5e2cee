r"""Theorem S5: what the two learning rates do to attention.

$B_n(t_0)$ depends on K, M and $\eta_Y / \eta_Z$ only. A larger $\eta_Y$ brings the transition earlier; at a fixed
ratio, larger rates scan further by a given time (sparser attention); at a fixed $\eta_Z$, a larger $\eta_Y$ scans less
(denser attention).
"""

from typing import Any

import numpy as np

from attomaton.claims.picture import level, line
from attomaton.results import Assumption, Evidence, Line, Panel, Verdict
from attomaton.scan_snap.experiment.limit import run_limit
from attomaton.scan_snap.families import syn_small
from attomaton.scan_snap.theory.decoder import Numbers
from attomaton.scan_snap.theory.phase import (
    measure_phases,
    scan_progress,
    scanning_end,
    snapping_start,
)
from attomaton.scan_snap.theory.reduced import run_reduced
from attomaton.scan_snap.trajectory import Dynamics, record_times

K, M = 10, 1000
RATES = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
FAST = np.array([2.0, 4.0, 8.0, 16.0, 32.0])  # η_Y at η_Z = 1
LATE = 1e4
SAME = 1e-12


def check() -> Evidence:
    """S5 by its closed form, on the reduced and on the limit level (Syn-Small)."""
    formula = {
        "B at t_0, fixed ratio": _at_snap(RATES / 2),
        "B, fixed ratio": scan_progress(LATE, RATES, RATES / 2, K, M).tolist(),
        "B, fixed eta_Z": scan_progress(LATE, FAST, 1.0, K, M).tolist(),
    }
    levels = {"reduced": _measure(run_reduced), "limit": _measure(run_limit)}
    holds = (
        _spread(formula["B at t_0, fixed ratio"]) <= SAME
        and all(_orders(x) for x in (formula, *levels.values()))
        and all(_spread(x["B at t_0, fixed ratio"]) <= 1e-6 for x in levels.values())
        and all(_spread(x["transition times eta_Y"]) <= 0.02 for x in levels.values())
    )
    # Control: hold η_Z instead of the ratio; then B_n(t_0) must not coincide.
    wrong = _spread(_at_snap(1.0))
    return Evidence(
        formula="B(t_0) depends on K, M, η_Y/η_Z only;  fixed ratio: B ↑ with η;  fixed η_Z: B ↓ with η_Y ≥ 2 η_Z",
        assumptions=(
            Assumption("η_Y/η_Z ≥ 2", bool((FAST >= 2).all()),
                       f"η_Y/η_Z = 2 at a fixed ratio, {FAST[0]:g} to {FAST[-1]:g} at a fixed η_Z"),
        ),
        prediction=formula,
        reason="the formula is exact to rounding, the integrators' tolerance is 1e-8, records are 10% apart",
        verdict=Verdict.of(holds),
        control=Verdict.FAILS if wrong > SAME else Verdict.HOLDS,
        tolerance=(
            "B_n(t_0) equal to 1e-12 by formula, to 1e-6 as integrated; transition ∝ 1/η_Y within 2%; "
            "B strictly increasing at a fixed ratio, decreasing in η_Y ≥ 2 η_Z at a fixed η_Z"
        ),
        measured=levels,
        control_measured={"spread of B at t_0, fixed eta_Z": wrong},
        panels=_panels(levels),
        settings={"K": K, "M": M, "classes": "syn-small", "until": LATE},
    )  # fmt: skip


def _panels(levels: dict[str, dict[str, list[float]]]) -> tuple[Panel, ...]:
    """What theory says does not depend on the rates, relative to its mean; and the order it says B has."""

    def relative(values: list[float], label: str) -> Line:
        return line(RATES, np.divide(values, np.mean(values)), label, "points")

    same = [relative(x["B at t_0, fixed ratio"], name) for name, x in levels.items()]
    same.append(relative(_at_snap(1.0), "control: η_Z fixed instead"))
    same.append(level(RATES, 1.0, "formula"))
    pace = [relative(x["transition times eta_Y"], name) for name, x in levels.items()]
    pace.append(level(RATES, 1.0, "in proportion to 1/η_Y"))
    for y, said in ((0.98, "tolerance"), (1.02, None)):
        pace.append(line([RATES[0], RATES[-1]], [y, y], said, "theory", colour=7))
    return (
        Panel("Scan progress at t_0, η_Y/η_Z = 2", "η_Y", "B(t_0), relative to its mean", same),
        Panel("Time of the transition", "η_Y", "t · η_Y, relative to its mean", pace),
    )


def _at_snap(eta_z: Numbers) -> list[float]:
    """B_n(t_0) for every η_Y of `RATES`."""
    return scan_progress(snapping_start(RATES, K, M), RATES, eta_z, K, M).tolist()


def _measure(run: Any) -> dict[str, list[float]]:
    """The same on a level that integrates: B at t_0 and at the end, transitions, final entropy."""
    classes = syn_small()
    slowest = float(scanning_end(RATES[0], classes.K, classes.M))
    times = record_times(LATE, 120, slowest / 100)
    even: Dynamics = run(classes, eta_y=RATES, eta_z=RATES / 2, times=times)
    fast: Dynamics = run(classes, eta_y=FAST, eta_z=1.0, times=times)
    at_snap = [
        run(classes, eta_y=float(y), eta_z=float(y / 2), times=[0.0, float(snapping_start(y, classes.K, classes.M))])
        for y in RATES
    ]  # fmt: skip
    return {
        "B at t_0, fixed ratio": [float(x.records["B"][0, -1].mean()) for x in at_snap],
        "B, fixed ratio": even.records["B"][:, -1].mean(axis=1).tolist(),
        "B, fixed eta_Z": fast.records["B"][:, -1].mean(axis=1).tolist(),
        "entropy, fixed ratio": even.entropy[:, -1].mean(axis=1).tolist(),
        "entropy, fixed eta_Z": fast.entropy[:, -1].mean(axis=1).tolist(),
        "transition times eta_Y": [p.transition * p.eta_y for p in measure_phases(even)],
    }


def _spread(values: list[float]) -> float:
    """How far apart values are, relative to the largest."""
    return float(np.ptp(values) / np.max(values))


def _orders(x: dict[str, list[float]]) -> bool:
    """Whether larger rates scan further at a fixed ratio, and a larger η_Y less far at a fixed η_Z."""
    further, less = np.diff(x["B, fixed ratio"]) > 0, np.diff(x["B, fixed eta_Z"]) < 0
    return bool(further.all() and less.all())
