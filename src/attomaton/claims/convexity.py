r"""The log-loss is convex in W: midpoints lie below chords, and second differences are never negative.

Along a line $W + tV$ a sample's loss is $\log \sum_x m_x e^{s_x + t u_x} - s_y - t u_y$ with $u_x = e_x^\top V e_q$.
Its second derivative is the variance of $u$ under the choice probabilities: theory predicts the curvature itself, not
only its sign. The squared loss with a tied head has no such form, and is the control.
"""

from typing import Any, NamedTuple

import numpy as np

from attomaton.base.lazily import jax, jnp
from attomaton.base.shapes import Float
from attomaton.claims.cases import Case, Given, assumptions, drawn_case
from attomaton.claims.measure import problem_of
from attomaton.claims.picture import level, line, theory_line
from attomaton.corpus.samples import Samples
from attomaton.mechanics.theory.finite import Choices, luce_loss
from attomaton.numerics import float64, named_rng
from attomaton.results import Evidence, Panel, Verdict

K, D, N, T = 6, 8, 12, 4
# How far apart the two ends of a line are, in standard deviations of an entry
SCALES = (0.3, 3.0, 10.0)
POINTS = 101  # along a line
AT = np.linspace(0, 1, POINTS)  # where they are, from one end to the other
ROUNDING = 1e-12  # of a loss of order 1 to 100 in float64, relative


def _draws(problems: int) -> list[Case]:
    return [drawn_case("convexity", i, K, D, N, T, repeats=i % 2 == 0) for i in range(problems)]


class Line(NamedTuple):
    """The loss at the places `AT` of a line from A to B, under one head and loss."""

    log: Float[np.ndarray, " points"]
    squared: Float[np.ndarray, " points"]
    curvature: Float[np.ndarray, " points"]  # of the log-loss, by theory


def choices_of(samples: Samples) -> Choices:
    """All samples as Luce choices among the pairs (last token, token) that occur."""
    key, pair = samples.pair_index()
    own = samples.token == samples.label[samples.sample_of]
    weight = samples.weight / samples.total_weight
    group = np.zeros(len(key), np.int64)
    return Choices(samples.start, pair, np.log(samples.count), pair[own], weight, group)


def pair_scores(case: Case, params: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, " pairs"]:
    """e_xᵀ W e_q on the pairs that occur."""
    if case.embeddings is None:
        return params
    key, _ = case.samples.pair_index()
    size, E = len(case.samples.vocabulary), case.embeddings.E
    return np.einsum("pa,ab,pb->p", E[key % size], params, E[key // size])


def _curvature(case: Case, A: np.ndarray, V: np.ndarray, t: float) -> float:
    """Theory: the weighted mean over samples of the variance of u under their choice probabilities."""
    choices = choices_of(case.samples)
    p = luce_loss(choices, pair_scores(case, A + t * V)).p
    u = pair_scores(case, V)[choices.item]
    head = choices.start[:-1]
    mean = np.add.reduceat(p * u, head)
    return float(choices.weight @ np.add.reduceat(p * (u - mean[choices.choice_of]) ** 2, head))


def _lines(case: Case, ends: int, rng: np.random.Generator) -> list[Line]:
    """The loss along `ends` random lines at each scale."""

    from attomaton.mechanics.experiment.model import loss_value

    found = []
    with float64():
        problem = problem_of(case)

        def along(A: Any, V: Any) -> tuple[Any, Any]:
            def at(s: Any) -> tuple[Any, Any]:
                W = A + s * V
                return loss_value(W, problem), loss_value(W, problem, "tied", "squared")

            return jax.vmap(at)(jnp.asarray(AT))

        measured = jax.jit(along)
        for scale in np.repeat(SCALES, ends):
            A, B = scale * rng.normal(size=(2, *case.shape))
            log, squared = map(np.asarray, measured(A, B - A))
            theory = np.array([_curvature(case, A, B - A, s) for s in AT[1:-1:4]])
            found.append(Line(log, squared, theory))
    return found


def _bend(value: np.ndarray) -> Float[np.ndarray, " inner"]:
    """Second differences, as a second derivative."""
    return np.diff(value, 2) / (AT[1] - AT[0]) ** 2


def _below_chord(value: np.ndarray) -> float:
    """By how much the middle of a line rises above its chord, relative to the loss there: 0 or less when convex."""
    middle = value[len(value) // 2]
    return float((middle - (value[0] + value[-1]) / 2) / max(np.abs(value).max(), 1e-300))


def check(problems: int = 4, lines: int = 8, given: Given | None = None) -> Evidence:
    """Convexity along random lines, on random data sets or a user's."""
    cases = _draws(problems) if given is None else given.cases
    found = [
        x for i, c in enumerate(cases) for x in _lines(c, lines, named_rng("convexity line", i))
    ]
    chord = [_below_chord(x.log) for x in found]
    bend = [_least(x.log) for x in found]
    gap = [_against_theory(x) for x in found]
    measured = {
        "highest midpoint above its chord (relative)": max(chord),
        "least second difference (relative)": min(bend),
        "curvature against theory, largest gap": max(gap),
        "lines": len(found),
    }
    wrong = {
        "highest midpoint above its chord (relative)": max(_below_chord(x.squared) for x in found),
        "least second difference (relative)": min(_least(x.squared) for x in found),
    }
    holds = max(chord) <= ROUNDING and min(bend) >= -1e-6 and max(gap) <= 0.01
    convex = (
        wrong["highest midpoint above its chord (relative)"] <= ROUNDING
        and wrong["least second difference (relative)"] >= -1e-6
    )
    x = max(found, key=lambda one: _below_chord(one.squared))  # where the control shows best
    return Evidence(
        formula="L((A + B)/2) ≤ (L(A) + L(B))/2,   d²L(A + tV)/dt² = mean of Var_p(e_xᵀ V e_q) ≥ 0",
        assumptions=assumptions(cases, given),
        verdict=Verdict.of(holds),
        control=Verdict.of(convex),
        prediction={"least curvature": min(float(x.curvature.min()) for x in found),
                    "largest curvature": max(float(x.curvature.max()) for x in found)},
        tolerance=(
            f"midpoints above chords by ≤ {ROUNDING:g} of the loss; second differences ≥ −1e-6 and within 1% "
            "of the predicted curvature, both relative to the largest one on the line"
        ),
        reason="rounding of float64 (divided by the spacing squared), and the curvature's change between two places",
        measured=measured,
        control_measured={"squared loss, tied head": wrong},
        panels=(
            Panel(
                "Above the chord", "t, from A to B", "loss less its chord, over the loss",
                [line(AT, _over_chord(x.log), "log-loss"),
                 line(AT, _over_chord(x.squared), "control: squared loss, tied head"),
                 level([0, 1], 0.0, "convex: at most 0")],
                legend="outside",
            ),
            Panel(
                "Curvature along it", "t, from A to B", "second derivative",
                [line(AT[1:-1], _bend(x.log), "second differences", "points", points=50),
                 theory_line(AT[1:-1:4], x.curvature, "variance of u")],
            ),
        ),
        settings={"problems": len(cases), "lines": lines, "scales": list(SCALES), "points": POINTS},
    )  # fmt: skip


def _over_chord(value: np.ndarray) -> Float[np.ndarray, " points"]:
    return (value - (1 - AT) * value[0] - AT * value[-1]) / np.abs(value).max()


def _least(value: np.ndarray) -> float:
    """The least second difference, in units of the largest."""
    bend = _bend(value)
    return float(bend.min() / max(np.abs(bend).max(), 1e-300))


def _against_theory(x: Line) -> float:
    """The largest gap between second differences and predicted curvature, in units of the largest curvature.

    Over a step δ a second difference is a mean of the curvature around its place; three neighbours of the theory,
    each 4δ apart, bound what that can change, so places where they differ by more than 1% are passed over.
    """
    bend = _bend(x.log)[::4]
    scale = max(float(x.curvature.max()), 1e-300)
    smooth = np.abs(np.diff(x.curvature, 2)) <= 0.01 * scale
    return float(np.abs(bend - x.curvature)[1:-1][smooth].max(initial=0.0) / scale)
