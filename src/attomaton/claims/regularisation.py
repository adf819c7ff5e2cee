r"""Theorem T2: the regularisation path ends where gradient descent does.

$W_R = \arg\min_{\|W\| \le R} L(W)$: as R grows its direction tends to W_svm's, its part in S_fin to W_fin, its loss to
L*. What is left outside the direction is bounded, so the angle falls like 1/R. Measured on the part outside S_fin, at
radii $R^2 = \|W_{fin}\|^2 + (r \|W_{svm}\|)^2$: what lies inside is judged by itself.
"""

from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.cases import (
    Case,
    Given,
    assumptions,
    cyclic_cases,
    judged,
    not_applicable,
    refuted,
    sizes,
    structure,
)
from attomaton.claims.controls import shuffled_limits
from attomaton.claims.measure import in_space
from attomaton.claims.picture import bundle, level, theory_line
from attomaton.mechanics.experiment.path import norm_path
from attomaton.mechanics.theory.finite import FiniteSubspace
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import cosine
from attomaton.results import Assumption, Evidence, Panel

K, D, N, T = 6, 8, 8, 4
RADII = (8.0, 11.0, 15.0, 20.0)  # in units of ‖W_svm‖: margins of about 8 to 20
ALIGNED = 0.99


class Path(NamedTuple):
    """One data set's path, split into its part inside S_fin and the rest."""

    loss: float  # at its end
    inside: list[Float[np.ndarray, "*shape"]]
    outside: list[Float[np.ndarray, "*shape"]]


def _path(case: Case) -> Path:
    limit = case.limit
    radii = [float(np.hypot(limit.finite.norm, r * limit.svm.norm)) for r in RADII]
    points = norm_path(case.samples, radii, case.embeddings)
    subspace = FiniteSubspace(limit.graph, case.embeddings)
    inside = [subspace.part(p.params) for p in points]
    outside = [p.params - x for p, x in zip(points, inside, strict=True)]
    return Path(points[-1].loss, inside, outside)


def check(problems: int = 5, given: Given | None = None) -> Evidence:
    """T2 on random data sets with cycles and non-orthonormal embeddings, or on a user's data."""
    cases = cyclic_cases("T2", problems, K, D, N, T) if given is None else given.cases
    hard = [c for c in cases if c.limit.svm.norm > 0]
    if not hard:
        why = Assumption("W_svm ≠ 0", False, "no token outranks another, so W has no direction")
        return not_applicable(*assumptions(cases, given), why)
    paths, limits = [_path(c) for c in hard], [c.limit for c in hard]
    angle = np.array([_angles(p, x) for p, x in zip(paths, limits, strict=True)])
    far = np.array([
        [float(np.linalg.norm(y - in_space(x, x.finite))) for y in p.inside]
        for p, x in zip(paths, limits, strict=True)
    ])  # fmt: skip
    wrong = shuffled_limits(hard, "T2 control")
    control = [cosine(p.outside[-1], in_space(x, x.svm)) for p, x in zip(paths, wrong, strict=True)]
    measured = {
        "cosine_svm": np.cos(angle[:, -1]).tolist(),
        "distance_fin": far[:, -1].tolist(),
        "loss_gap": [p.loss - x.finite.loss_floor for p, x in zip(paths, limits, strict=True)],
        "angle_rate": np.polyfit(np.log(RADII), np.log(angle.T), 1)[0].tolist(),
    }
    holds = (
        min(measured["cosine_svm"]) >= ALIGNED
        and max(measured["distance_fin"]) <= 1e-3
        and max(measured["loss_gap"]) <= 1e-6
        and (given is not None or all(-1.2 <= s <= -0.6 for s in measured["angle_rate"]))
    )
    settling = max(measured["angle_rate"]) < 0
    return Evidence(
        formula="W_R = argmin{L(W) : ‖W‖ ≤ R}:  W_R/R → W_svm/‖W_svm‖,  Π_fin W_R → W_fin,  angle ~ 1/R",
        assumptions=(*assumptions(cases, given), structure([c.limit for c in cases])),
        verdict=judged(holds, given, settling),
        control=refuted((c < ALIGNED for c in control), given),
        prediction={
            "‖W_svm‖": [x.svm.norm for x in limits],
            "‖W_fin‖": [x.finite.norm for x in limits],
            "L*": [x.finite.loss_floor for x in limits],
        },
        tolerance=(
            f"at r = 20: cosine ≥ {ALIGNED}, distance to W_fin ≤ 1e-3, loss − L* ≤ 1e-6"
            + ("" if given is not None else "; angle falls like 1/R (slope −1.2 to −0.6)")
        ),
        reason=(
            "a margin of 20 leaves e^−20 of the loss and 1/20 of the angle; an inactive margin close to 1 delays the "
            "angle's fall"
        ),
        measured=measured,
        control_measured={"cosine_svm of shuffled labels": control},
        panels=_panels(angle, far),
        settings={
            "problems": len(hard),
            "radii in units of ‖W_svm‖": list(RADII),
            **sizes(given, K=K, d=D, n=N, T=T),
        },
    )


def _angles(path: Path, limit: Limit) -> list[float]:
    """The angle with W_svm, of the part outside S_fin, at every radius; by its sine, which small angles keep."""
    W = in_space(limit, limit.svm)
    angles = []
    for x in path.outside:
        along = np.vdot(x, W) / np.vdot(W, W) * W
        angles.append(float(np.arctan2(np.linalg.norm(x - along), np.vdot(x, W) / limit.svm.norm)))
    return [max(a, 1e-16) for a in angles]


def _panels(
    angle: Float[np.ndarray, "problems radii"], far: Float[np.ndarray, "problems radii"]
) -> tuple[Panel, ...]:
    R = np.array(RADII)
    middle = float(np.median(angle[:, 0]))
    return (
        Panel(
            "Direction", "r = R/‖W_svm‖", "angle with W_svm (radians)",
            [*bundle(R, angle, "W_R, each data set"), theory_line(R, middle * R[0] / R, "1/R")],
            xscale="log", yscale="log",
        ),
        Panel(
            "Finite part", "r = R/‖W_svm‖", "‖Π_fin W_R − W_fin‖",
            [*bundle(R, np.maximum(far, 1e-16), "W_R, each data set"), level(R, 1e-3, "tolerance")],
            yscale="log",
        ),
    )  # fmt: skip
