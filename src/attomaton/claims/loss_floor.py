r"""The loss floor: $L^* = \inf_W L(W)$, computed without training; nothing crosses it, the penalty path approaches it.

$L(W_\lambda) \to L^*$ as the penalty λ falls; and no W, drawn or trained, has a loss below it. The control takes
the floor of other data: half of every sample's weight moved to another label of its own context.
"""

from typing import NamedTuple

import numpy as np

from attomaton.base.lazily import jax, jnp
from attomaton.base.shapes import Float
from attomaton.claims.cases import Case, Given, assumptions, cyclic_cases, refuted, structure
from attomaton.claims.controls import doubted
from attomaton.claims.measure import problem_of, train_cases
from attomaton.claims.picture import level, line, theory_line
from attomaton.mechanics.experiment.path import penalty_path
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.numerics import float64, named_rng
from attomaton.results import Evidence, Panel, Verdict

K, D, N, T = 6, 8, 10, 4
LAMBDAS = tuple(float(x) for x in np.geomspace(1.0, 1e-8, 17))
BELOW = 1e-12  # how far rounding may carry a loss below the floor
NEAR = 1e-9  # of the path's end above the floor, where no token outranks another


class Losses(NamedTuple):
    """Losses of one data set: of random W by their size, of W in training, and along the penalty path."""

    size: Float[np.ndarray, " drawn"]
    drawn: Float[np.ndarray, " drawn"]
    trained: Float[np.ndarray, " records"]
    path: Float[np.ndarray, " prices"]

    @property
    def least(self) -> float:
        """The lowest loss seen anywhere."""
        return float(min(self.drawn.min(), np.nanmin(self.trained), self.path.min()))


def check(
    problems: int = 4, drawn: int = 400, steps: int = 20_000, given: Given | None = None
) -> Evidence:
    """The floor of random data sets, or of a user's, against everything that could cross it."""
    cases = cyclic_cases("loss floor", problems, K, D, N, T) if given is None else given.cases
    limits = [c.limit for c in cases]
    floor = [x.finite.loss_floor for x in limits]
    wrong = [
        solve_limit(doubted(c.samples, named_rng("floor control", i)), c.embeddings).finite.loss_floor
        for i, c in enumerate(cases)
    ]  # fmt: skip
    run = train_cases(cases, init="uniform", lr=1.0, steps=steps, every="log")
    found = [
        _losses(c, t, drawn, named_rng("floor drawn", i))
        for i, (c, t) in enumerate(zip(cases, run.records["loss"], strict=True))
    ]
    under = [f - x.least for f, x in zip(floor, found, strict=True)]
    above = [float(x.path[-1] - f) for f, x in zip(floor, found, strict=True)]
    falling = all((np.diff(x.path) <= BELOW).all() for x in found)
    reach = [NEAR + 2 * float(_told(x)[-1]) for x in limits]
    near = all(a <= r for a, r in zip(above, reach, strict=True))
    missed = [
        f - x.least > BELOW or x.path[-1] - f > r
        for f, x, r in zip(wrong, found, reach, strict=True)
    ]
    return Evidence(
        formula="L(W) ≥ L* for every W,   L(W_λ) − L* ~ λ‖W_svm‖² m,  m eᵐ = 1/(λ‖W_svm‖²)",
        assumptions=(*assumptions(cases, given), structure(limits)),
        verdict=Verdict.of(max(under) <= BELOW and near and falling),
        control=refuted(missed, given),
        prediction={"L*": floor, "end of the path above the floor": [float(_told(x)[-1]) for x in limits]},
        tolerance=f"no loss below L* − {BELOW:g}; the path falls with λ and ends above L* by at most twice what is "
        f"predicted, plus {NEAR:g}",
        reason="rounding of float64; how many samples share the margin enters by its log, and is left out",
        measured={
            "lowest loss below the floor": under,
            "end of the path above the floor": above,
            "losses looked at": int(sum(x.drawn.size + x.trained.size + x.path.size for x in found)),
        },
        control_measured={
            "floor with half of the labels shuffled": wrong,
            "lowest loss below it": [f - x.least for f, x in zip(wrong, found, strict=True)],
        },
        panels=_panels(found[0], limits[0], wrong[0]),
        settings={"problems": len(cases), "drawn": drawn, "steps": steps, "lambdas": [LAMBDAS[0], LAMBDAS[-1]]},
    )  # fmt: skip


def _losses(
    case: Case, trained: Float[np.ndarray, " records"], drawn: int, rng: np.random.Generator
) -> Losses:
    """Losses of random W of sizes from 0.01 to 30, of the trained ones, and of the penalty path."""

    from attomaton.mechanics.experiment.model import loss_value

    points = penalty_path(case.samples, LAMBDAS, case.embeddings)
    end = points[-1].params
    size = np.geomspace(0.01, 30, drawn)
    W = rng.normal(size=(drawn, *end.shape))
    W *= (size / np.linalg.norm(W.reshape(drawn, -1), axis=1)).reshape(-1, *[1] * end.ndim)
    # Half of them around the end of the path, where a floor that is too high would be crossed first.
    W[1::2] += end
    with float64():
        problem = problem_of(case)
        loss = np.asarray(jax.jit(jax.vmap(lambda w: loss_value(w, problem)))(jnp.asarray(W)))
    return Losses(size, loss, trained, np.array([p.loss for p in points]))


def _told(limit: Limit) -> Float[np.ndarray, " prices"]:
    """Theory's L(W_λ) − L* to leading order: a margin m costs λ m²‖W_svm‖²/2 and leaves e^−m of the loss."""
    from scipy.special import lambertw

    unit = np.array(LAMBDAS) * limit.svm.norm**2
    return unit * lambertw(1 / unit).real if limit.svm.norm > 0 else unit


def _panels(x: Losses, limit: Limit, wrong: float) -> tuple[Panel, ...]:
    floor = limit.finite.loss_floor
    price = np.array(LAMBDAS)
    lines = [line(price, np.maximum(x.path - floor, 1e-16), "L(W_λ) − L*")]
    if limit.svm.norm > 0:
        lines.append(theory_line(price, _told(limit), "λ‖W_svm‖² m"))
    # A logarithmic axis has no place for a floor of 0.
    drawn, yscale = (x.drawn, "log") if floor > 0 else (np.maximum(x.drawn, 0), "linear")
    return (
        Panel(
            "Random W", "size of W, or distance from the path's end", "loss",
            [line(x.size[::2], drawn[::2], "drawn around 0", "points", points=100),
             line(x.size[1::2], drawn[1::2], "drawn around W_λ", "points", points=100),
             level(x.size, floor, "L*"),
             line([x.size[0], x.size[-1]], [wrong, wrong], "control", "theory")],
            xscale="log", yscale=yscale,
        ),
        Panel(
            "Penalty path", "penalty λ", "loss above the floor",
            lines, xscale="log", yscale="log",
        ),
    )  # fmt: skip
