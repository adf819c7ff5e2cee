r"""Theorem S2: tokens distinct to a class gain attention, common tokens lose it.

A single common token always loses, at a rate that is a formula of attention and scan progress; several all lose when
classes are equal up to the names of their distinct tokens.
Common tokens with other probabilities in every class need not: that is the control. Nor need distinct tokens gain where
the decoder is slow and classes are uneven, which is beyond the theorem, and reported.
"""

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.picture import line, theory_line
from attomaton.numerics import named_rng
from attomaton.results import Assumption, Evidence, Panel, Verdict
from attomaton.scan_snap.data import SequenceClasses
from attomaton.scan_snap.experiment.limit import run_limit
from attomaton.scan_snap.families import random_overlap, single_common, symmetric, syn_small
from attomaton.scan_snap.theory.attention import distinct_velocity, single_common_velocity
from attomaton.scan_snap.theory.phase import scanning_end
from attomaton.scan_snap.theory.reduced import run_reduced
from attomaton.scan_snap.trajectory import Dynamics, record_times

RATIOS = (0.001, 0.01, 1.0)  # η_Z / η_Y
FAST = 2  # how many of them have a fast decoder, as the theorem asks
EXACT = 1e-3  # of the rates: what a sum over the records leaves of an integral
LEAST, MOST = "least gain of a distinct token", "most gain of a common token"


def check(small: bool = False) -> Evidence:
    """S2 on the reduced level at any ratio of learning rates, on the limit level with a fast decoder.

    Three of the four sets of classes have one shape, so the limit level compiles once for them; `small` leaves out the
    fourth.
    """
    families = {
        "single common": single_common(3, 5, (0.1, 0.3, 0.5)),
        "symmetric": symmetric(3, 4, 4, 0.4),
    }
    if not small:
        families["syn-small"] = syn_small()
    runs = {name: _runs(classes) for name, classes in families.items()}
    fates = {name: _levels(*both) for name, both in runs.items()}
    broken = _levels(*_runs(random_overlap(named_rng("S2 control", 0), 3, 4, 0.6)))
    bound = [
        family[level] for family in fates.values() for level in ("reduced", "limit, fast decoder")
    ]
    single, measured = runs["single common"]
    shared, distinct = single.classes.common, single.classes.distinct
    common, own = _told(single)
    z = single.z[:, 1:] - single.z[:, :1]
    gaps = {
        "gap of the common token's rate": float(np.abs(common / z[:, :, 0, shared][..., 0] - 1).max()),
        "gap of the distinct tokens' rates": float(np.abs(own[..., distinct] / z[..., distinct] - 1).max()),
    }  # fmt: skip
    holds = all(f[LEAST] > 0 > f[MOST] for f in bound) and max(gaps.values()) <= EXACT
    wrong = [broken[level][MOST] for level in ("reduced", "limit, fast decoder")]
    return Evidence(
        formula="ż_{ml} = η_Z f_{nl}² ξ_n > 0 (distinct l),  ż_{ml} = −η_Z Σ_n (1 − f_{nl}²) ξ_n < 0 (single common l)",
        assumptions=(
            Assumption("single common token, or classes equal up to names", True,
                       "; ".join(f"{k}: {c.common.sum()} common of {c.M} tokens" for k, c in families.items())),
            Assumption("fast decoder", True, f"η_Z/η_Y = {', '.join(map(str, RATIOS[:FAST]))} on the limit level"),
        ),
        verdict=Verdict.of(holds),
        control=Verdict.FAILS if min(wrong) > 0 else Verdict.HOLDS,
        prediction={"sign of a distinct token's change": 1, "sign of a common token's change": -1,
                    "change of the common token": common[:, -1].tolist()},
        tolerance=(
            "every change of z between two records has its sign: reduced for η_Z/η_Y = 0.001, 0.01 and 1, "
            f"limit for 0.001 and 0.01; rates, summed up, within {EXACT:g} of the reduced level's z"
        ),
        reason="signs need no tolerance; of the rates, a sum over 120 records leaves about 1e-4 of an integral",
        measured={**gaps, **fates},
        control_measured={"common tokens of unequal probabilities": broken},
        panels=_panels(measured),
        settings={"families": list(families), "eta_Z / eta_Y": list(RATIOS)},
    )  # fmt: skip


def _runs(classes: SequenceClasses) -> tuple[Dynamics, Dynamics]:
    """The reduced and the limit level, at every ratio of the rates."""
    end = float(scanning_end(1.0, classes.K, classes.M))
    y, z = np.ones(len(RATIOS)), np.array(RATIOS)
    times = record_times(1e3 * end, 120, end / 10)
    reduced = run_reduced(classes, eta_y=y, eta_z=z, times=times)
    return reduced, run_limit(classes, eta_y=y, eta_z=z, times=times)


def _told(
    run: Dynamics,
) -> tuple[Float[np.ndarray, "runs times"], Float[np.ndarray, "runs times classes vocab"]]:
    """Theory's z of the single common token, and of all tokens as if distinct: rates summed up over the records.

    Between two records $f$ is taken at their middle, and the integral of η_Z ξ is the change of B.
    """
    f = run.unit_attention
    middle = (f[:, 1:] + f[:, :-1]) / 2
    change = np.diff(run.records["B"], axis=1)
    shared = int(np.flatnonzero(run.classes.common)[0])
    common = single_common_velocity(middle[..., shared], change, run.classes.query_of, rate=1.0)
    own = distinct_velocity(middle, change, rate=1.0)
    return common[..., 0].cumsum(axis=1), own.cumsum(axis=1)


def _panels(limit: Dynamics) -> tuple[Panel, ...]:
    """z of class 0's likeliest distinct token and of the common one, in time, at the middle ratio of the rates."""
    classes, t, ratio = limit.classes, limit.t[1:], RATIOS[1]
    common, own = _told(limit)
    l = int(np.where(classes.distinct[0], classes.P[0], 0).argmax())
    shared = int(np.flatnonzero(classes.common)[0])
    return tuple(
        Panel(
            title, "time t", "z / η_Z",
            [line(t, limit.z[1, 1:, 0, token] / ratio, "limit level"),
             theory_line(t, told / ratio, "rates of theory, summed up")],
            xscale="log",
        )
        for title, token, told in (
            ("A distinct token gains", l, own[1, :, 0, l]), ("The common token loses", shared, common[1]),
        )
    )  # fmt: skip


def _levels(reduced: Dynamics, limit: Dynamics) -> dict[str, dict[str, float]]:
    """The extreme changes of z on both levels."""
    return {
        "reduced": _extremes(reduced, slice(None)),
        "limit, fast decoder": _extremes(limit, slice(FAST)),
        "limit, slow decoder": _extremes(limit, slice(FAST, None)),
    }


def _extremes(run: Dynamics, runs: slice) -> dict[str, float]:
    """The least change of a distinct and the largest of a common token, between two records, in units of η_Z."""
    change = (np.diff(run.z, axis=1) / run.eta_z[:, None, None, None])[runs]
    common = run.classes.common & (run.classes.P > 0)
    return {
        LEAST: float(change[..., run.classes.distinct].min()),
        MOST: float(change[..., common].max()),
    }
