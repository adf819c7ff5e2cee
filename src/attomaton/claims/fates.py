r"""Theorem S2: tokens distinct to a class gain attention, common tokens lose it.

A single common token always loses; several all lose when classes are equal up to the names of their distinct tokens.
Common tokens with other probabilities in every class need not: that is the control. Nor need distinct tokens gain where
the decoder is slow and classes are uneven, which is beyond the theorem, and reported.
"""

from typing import Any

import numpy as np

from attomaton.numerics import named_rng
from attomaton.results import Evidence, Verdict
from attomaton.scan_snap.data import SequenceClasses
from attomaton.scan_snap.families import random_overlap, single_common, symmetric, syn_small
from attomaton.scan_snap.limit import run_limit
from attomaton.scan_snap.phase import scanning_end
from attomaton.scan_snap.reduced import run_reduced
from attomaton.scan_snap.trajectory import Dynamics, record_times

RATIOS = (0.001, 0.01, 1.0)  # η_Z / η_Y
FAST = 2  # how many of them have a fast decoder, as the theorem asks
LEAST, MOST = "least gain of a distinct token", "most gain of a common token"


def check() -> Evidence:
    """S2 on the reduced level at any ratio of learning rates, on the limit level with a fast decoder."""
    # Three of the four sets of classes have one shape, so the limit level compiles once for them.
    families = {
        "single common": single_common(3, 5, (0.1, 0.3, 0.5)),
        "symmetric": symmetric(3, 4, 4, 0.4),
        "syn-small": syn_small(),
    }
    fates = {name: _levels(classes) for name, classes in families.items()}
    broken = _levels(random_overlap(named_rng("S2 control", 0), 3, 4, 0.6))
    bound = [
        family[level] for family in fates.values() for level in ("reduced", "limit, fast decoder")
    ]
    holds = all(f[LEAST] > 0 > f[MOST] for f in bound)
    wrong = [broken[level][MOST] for level in ("reduced", "limit, fast decoder")]
    return Evidence(
        claim="S2",
        statement="Distinct tokens gain, and common tokens lose, at every moment.",
        verdict=Verdict.HOLDS if holds else Verdict.FAILS,
        control=Verdict.FAILS if min(wrong) > 0 else Verdict.HOLDS,
        tolerance=(
            "every change of z between two records has its sign: reduced for η_Z/η_Y = 0.001, 0.01 and 1, limit for "
            "0.001 and 0.01 (the theorem supposes a fast decoder; what a slow one does is reported)"
        ),
        measured=fates,
        control_measured={"common tokens of unequal probabilities": broken},
    )


def _levels(classes: SequenceClasses) -> dict[str, dict[str, float]]:
    """The extreme changes of z on both levels."""
    end = float(scanning_end(1.0, classes.K, classes.M))
    given: dict[str, Any] = {
        "eta_y": np.ones(len(RATIOS)),
        "eta_z": np.array(RATIOS),
        "times": record_times(1e3 * end, 60, end / 10),
    }
    limit = run_limit(classes, **given)
    return {
        "reduced": _extremes(run_reduced(classes, **given), slice(None)),
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
