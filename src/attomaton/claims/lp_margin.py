r"""Mirror descent in $\ell_p$ tends to $W_p$, the smallest W in that norm with all margins, on data with cycles too.

Julistiono, Tarzanagh and Azizan (arXiv 2410.14581). The ties keep finite scores, so the cosine of W with $W_p$ tends to
1 as W grows. It is looked at as long as the loss is well above its floor: closer, the gradients of tied tokens are
differences that float64 has lost, and W no longer goes where exact steps would. Control: $W_2$, the direction of
gradient descent, which must agree less on every data set. Step sizes were chosen on draws of another name.
"""

from typing import Any

import numpy as np

from attomaton.base.lazily import jnp
from attomaton.base.shapes import Float
from attomaton.claims.cases import assumptions, refuted, structure
from attomaton.claims.measure import train_cases
from attomaton.claims.optimiser_norm import ALIGNED, draws, limits_of
from attomaton.claims.picture import bundle, level
from attomaton.mechanics.theory.limit import Limit
from attomaton.results import Evidence, Panel, Verdict

RATES = {1.5: 0.1, 3.0: 10.0}
ABOVE = 1e-12  # of the loss over its floor, while gradients of tied tokens have digits


def _unit(limit: Limit) -> Float[np.ndarray, "keys queries"]:
    found = limit.svm if limit.direction is None else limit.direction
    W = limit.dense(found.score)
    return W / np.linalg.norm(W)


def _cosines(W: Any, units: Any) -> dict[str, Any]:
    """Of W with W_p and with W_2."""
    size = jnp.linalg.norm(W)
    own, two = (units * W).sum((1, 2)) / jnp.where(size > 0, size, 1.0)
    return {"own": own, "two": two}


def check(problems: int = 3, steps: int = 100_000) -> Evidence:
    """Mirror descent with p = 1.5 and 3 on random data sets that have cycles."""
    cases = draws("lp margin", problems, "cyclic")
    two = limits_of(cases, "frobenius")
    floor = np.array([x.finite.loss_floor for x in two])[:, None]
    own, other, above, panels = {}, {}, {}, []
    for p, lr in RATES.items():
        directions = zip(limits_of(cases, p), two, strict=True)
        run = train_cases(
            cases, optimizer=f"mirror:{p:g}", lr=lr, steps=steps, every="log", schedule="inverse-sqrt",
            record=_cosines, context=np.array([[_unit(a), _unit(b)] for a, b in directions]),
        )  # fmt: skip
        gap = run.records["loss"] - floor
        seen = np.logical_and.accumulate(gap >= ABOVE, axis=1)
        last = np.arange(problems), seen.sum(axis=1) - 1
        own[p], other[p] = (run.records[k][last].tolist() for k in ("own", "two"))
        above[p] = gap[last].tolist()
        t = run.steps[1:]
        curves = [np.where(seen, run.records[k], np.nan)[:, 1:] for k in ("own", "two")]
        panels.append(
            Panel(
                f"Mirror descent, p = {p:g}", "step", "cosine",
                [*bundle(t, curves[0], "with W_p"), *bundle(t, curves[1], "control: with W_2", 1),
                 level(t, 1.0, "theory")],
                xscale="log",
            )
        )  # fmt: skip
    return Evidence(
        formula="W/‖W‖_p → W_p/‖W_p‖_p",
        assumptions=(*assumptions(cases), structure(two)),
        verdict=Verdict.of(min(map(min, own.values())) >= ALIGNED),
        control=refuted(b < a for p in RATES for a, b in zip(own[p], other[p], strict=True)),
        prediction={"cosine": 1.0},
        tolerance=f"cosines with W_p ≥ {ALIGNED:g}; control: with W_2 less on every data set",
        reason=f"what is tied stays finite while W grows; the last record with L − L* ≥ {ABOVE:g}",
        measured={
            **{f"p = {p:g}: cosine with W_p": x for p, x in own.items()},
            **{f"p = {p:g}: L − L*": x for p, x in above.items()},
        },
        control_measured={f"p = {p:g}: cosine with W_2": x for p, x in other.items()},
        panels=panels,
        settings={"problems": problems, "steps": steps, **{f"lr of p = {p:g}": x for p, x in RATES.items()}},
    )  # fmt: skip
