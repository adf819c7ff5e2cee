r"""Two programs by interior points in W itself.

The first splits: under $\max \sum t_p$ with $\langle W, \delta_p\rangle \ge t_p$, $0 \le t_p \le 1$ ties
end at $t = 0$, the rest at 1. The second is the Graph-SVM, $\min \tfrac12\|W\|^2$ with 0 on ties and at least 1 on the
rest. A step of either is one linear system (`normal`). Nothing of this is believed: whoever asks has to prove it.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Bool, Float
from attomaton.errors import SolverError
from attomaton.mechanics.theory.extremes import Rows
from attomaton.mechanics.theory.normal import Span, System

STEPS = 60  # of either program
CORRECTORS = 3  # further directions from one factor
FAR = 500.0, 1e4  # slacks and multipliers to start from: with smaller ones it takes twice the steps
FIRST = 200.0  # margins to start the second program from: too small ones cost more steps than too large ones
LIGHT = 1e-3  # ridge of the fit that makes them
HEAVY = 100.0  # its first multipliers, in units of those that balance W
WIDE, SOLVED = 100.0, 1e-4  # gap, relative: about the first one, and where active margins are tried
# Residual of a step of the second program, relative: what it leaves is seen by the next
ENOUGH = 1e-6
LONGEST = 1e7  # ‖W‖ beyond which differences count as tied


class _Move(NamedTuple):
    """A step: of W, and of slacks and their multipliers (one row for each kind)."""

    W: Float[np.ndarray, "keys queries"]
    slack: Float[np.ndarray, "kinds rows"]
    multiplier: Float[np.ndarray, "kinds rows"]


def split(
    rows: Rows, progress: Progress = quiet
) -> tuple[Float[np.ndarray, "keys queries"], Bool[np.ndarray, " rows"]]:
    """max Σ t with rows · W ≥ t, 0 ≤ t ≤ 1: a W that is positive where t ends at 1, and where it ends at 0."""
    count, width = len(rows.above), rows.space.query.shape[1]
    system = System(rows, np.float32)
    W = np.zeros((rows.space.key.shape[1], width))
    # The slacks of the three, and their multipliers.
    V = np.repeat([[FAR[0]], [0.5], [0.5]], count, axis=1)
    Z = np.repeat([[FAR[1]], [FAR[1]], [1.0]], count, axis=1)
    for step in range(STEPS):
        t, y = V[1], Z[0]
        progress(step, STEPS, f"ties among all differences, step {step + 1}")
        if (((t < 0.1) & (y > 0.5)) | ((t > 0.9) & (y < 0.5))).all():
            return W, t < 0.1
        found, (ahead, beside) = _split_step(rows, system, W, V, Z)
        W, V, Z = W + ahead * found.W, V + ahead * found.slack, Z + beside * found.multiplier
    raise SolverError("ties of the embeddings: the linear program did not end.")


def _split_step(
    rows: Rows, system: System, W: np.ndarray, V: np.ndarray, Z: np.ndarray
) -> tuple[_Move, tuple[float, float]]:
    (s, t, _), (y, low, high), (a, b, c) = V, Z, Z / V
    apart, rest, whole = rows.of_w(W) - t - s, 1 - y + low - high, a + b + c
    weight = a * (b + c) / whole
    solve = system.factored(weight, 0.0)

    def move(right: np.ndarray) -> _Move:
        p, q, r = right / V
        p = p - a * apart
        t_0 = (rest - p + q - r) / whole
        y_0 = p + a * t_0
        step = solve(rows.back(y + y_0))
        along = rows.of_w(step)
        dt = t_0 + a / whole * along
        slack = np.array([along - dt + apart, dt, -dt])
        return _Move(step, slack, np.array([y_0 - weight * along, q - b * dt, r + c * dt]))

    found, sizes, _ = _direction(V, Z, move)
    return found, sizes


def shortest(
    rows: Rows, span: Span, progress: Progress = quiet
) -> Iterator[Float[np.ndarray, " rows"]]:
    """Better and better multipliers of min ½‖W‖² with rows · W ≥ 1, W orthogonal to a span; 0 where not active.

    It starts from the W whose margins are next to 1, in the mean of squares, enlarged: that one is never far.
    """
    if not len(rows.above):
        yield np.zeros(0)
        return
    one, off, system = np.ones(len(rows.above)), span.off, System(rows, np.float32, ENOUGH, span)
    W = FIRST * system.factored(one, LIGHT)(off(rows.back(one)))
    margin = rows.of_w(W)
    s = np.maximum(margin - 1, FIRST / 3)
    balanced = float((W * W).sum()) / float((np.maximum(margin, 1.0) / s).sum())
    y = HEAVY * balanced / s
    for step in range(STEPS):
        gap = float(y @ s) / float((W * W).sum())
        done = int(100 * np.clip(np.log10(gap / WIDE) / np.log10(SOLVED / WIDE), 0, 1))
        progress(done, 100, f"W_svm, step {step + 1}, gap {gap:.0e}")
        found, size, affine = _shortest_step(rows, system, span, W, s, y)
        # What grows by its own share least is what stays: multipliers of active margins, slacks of the others.
        active = np.abs(affine.multiplier[0] / y) < np.abs(affine.slack[0] / s)
        W, s, y = W + size * found.W, s + size * found.slack[0], y + size * found.multiplier[0]
        sums = off(rows.back(y))
        left = float(np.linalg.norm(W - sums))
        if float(y @ s) <= SOLVED * float((W * W).sum()) and left <= 1e-3 * np.linalg.norm(W):
            yield np.where(active, y, 0.0)
        # Any W with these margins has ⟨W, Σ y δ⟩ ≥ Σ y: it is longer than that divided by the length of the sum.
        if float(y.sum()) > LONGEST * float(np.linalg.norm(sums)):
            raise SolverError(
                "Graph-SVM: no W makes all of these differences strict, or only a very long one."
            )
    raise SolverError("Graph-SVM: the quadratic program did not end.")


def _shortest_step(
    rows: Rows, system: System, span: Span, W: np.ndarray, s: np.ndarray, y: np.ndarray
) -> tuple[_Move, float, _Move]:
    apart = rows.of_w(W) - 1 - s
    rest = span.off(rows.back(y)) - W
    weight = y / s
    solve = system.factored(weight, 1.0)

    def move(right: np.ndarray) -> _Move:
        y_0 = (right[0] - y * apart) / s
        step = solve(rest + span.off(rows.back(y_0)))
        along = rows.of_w(step)
        return _Move(step, (along + apart)[None], (y_0 - weight * along)[None])

    found, sizes, first = _direction(s[None], y[None], move)
    return found, min(sizes), first


def _direction(
    V: Float[np.ndarray, "kinds rows"],
    Z: Float[np.ndarray, "kinds rows"],
    move: Callable[[np.ndarray], _Move],
) -> tuple[_Move, tuple[float, float], _Move]:
    """The step, how far slacks and multipliers may follow it, and the first one, which aims at products of 0.

    As Mehrotra's (1992): what that one brings decides how small products are to be next, and mends its own second
    order. Then as Gondzio's (1996): products that would be too unlike are brought together, while steps grow longer.
    """

    def reach(found: _Move) -> tuple[float, float]:
        return _reach(V, found.slack), _reach(Z, found.multiplier)

    def products(found: _Move, ahead: float, beside: float) -> np.ndarray:
        return (V + ahead * found.slack) * (Z + beside * found.multiplier)

    mean = float((V * Z).mean())
    first = move(-V * Z)
    target = mean * (float(products(first, *reach(first)).mean()) / mean) ** 3
    right = target - V * Z - first.slack * first.multiplier
    found = move(right)
    sizes = reach(found)
    for _ in range(CORRECTORS):
        now = products(found, *(min(1.0, 1.08 * x + 0.08) for x in sizes))
        mend = np.maximum(np.clip(now, 0.1 * target, 10 * target) - now, -10 * target)
        other = move(right + mend)
        longer = reach(other)
        if sum(longer) < sum(sizes) + 0.01 or min(longer) < min(sizes):
            break
        found, sizes, right = other, longer, right + mend
    return found, (min(1.0, 0.995 * sizes[0]), min(1.0, 0.995 * sizes[1])), first


def _reach(value: np.ndarray, step: np.ndarray) -> float:
    """How far a step may go, 1 at most, until a value is 0."""
    return 1.0 / max(1.0, float((-step / value).max(initial=0.0)))
