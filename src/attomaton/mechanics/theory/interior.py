r"""Between the two ends: some differences tied and some strict, by interior points in W itself.

Two programs. The first splits: under $\max \sum t_p$ with $\langle W, \delta_p\rangle \ge t_p$, $0 \le t_p \le 1$ ties
end at $t = 0$, the rest at 1. The second is the Graph-SVM, $\min \tfrac12\|W\|^2$ with 0 on ties and at least 1 on the
rest; once it is plain which margins are active, they are made exact. A step of either is one linear system,

$$\sum_p D_p\, \delta_p \delta_p^\top = \sum_q M_q \otimes e_q e_q^\top, \qquad
M_q = \sum_{p \text{ of } q} D_p\, (e_y - e_x)(e_y - e_x)^\top,$$

so one product of matrices of $d(d+1)/2$ columns, and Cholesky's method on the lower half: no difference is written out.
Nothing of this is believed: the finite fit proves the ties, margins of 1 prove the rest.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from attomaton.corpus.samples import Samples
from attomaton.errors import SolverError
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.theory.extremes import SMALL, Rows, alike, soft
from attomaton.mechanics.theory.finite import FiniteComponent
from attomaton.mechanics.theory.graph import PriorityGraph, regrouped
from attomaton.mechanics.theory.matrices import Matrices, conjugate_gradients
from attomaton.mechanics.theory.svm import GraphSVM, certified
from attomaton.numerics import row_pointer

LARGEST = 96**2  # numbers of W: 10,000 tokens of text were certified in 96 dimensions
PANEL = 512  # rows of that matrix that are filled and factored at a time
STEPS = 60  # of either program
CORRECTORS = 3  # further directions from one factor
FAR = 500.0, 1e4  # slacks and multipliers to start from: with smaller ones it takes twice the steps
FIRST = 0.01  # share of margins below 1 at the start of the second program
HEAVY = 100.0  # its first multipliers, in units of those that balance W
TIED = 1e5  # weight of ties, in units of a large one among strict differences
SOLVED = 1e-5  # gap, relative, at which the active margins are tried
SHARP, PRODUCTS = 1e-9, 60  # residual of a linear system, relative, and products for it
FEW = 30  # products, beyond which a factor in single precision is given up
RIDGES = {
    np.float32: (1e-6, 1e-5),
    np.float64: (1e-15, 1e-13, 1e-11, 1e-9),
}  # of a factor, relative
SAME = 1e-10  # distance of W from what its multipliers add up to, relative
EXACT = 1e-10  # residual of a margin made exact
SWAPS = 16  # times the set of active margins may change


class _Move(NamedTuple):
    """A step: of W, of slacks and of their multipliers (one row for each kind), and of multipliers without a slack."""

    W: Float[np.ndarray, "keys queries"]
    slack: Float[np.ndarray, "kinds rows"]
    multiplier: Float[np.ndarray, "kinds rows"]
    free: Float[np.ndarray, " ties"] = np.zeros(0)


def mixed(
    graph: PriorityGraph, samples: Samples, embeddings: Embeddings
) -> tuple[PriorityGraph, FiniteComponent, GraphSVM] | None:
    """Graph and both parts where some differences are tied and some strict; None where that could not be shown."""
    pairs, numbers = len(graph.pair_last), embeddings.E.shape[1] ** 2
    if numbers > min(pairs, LARGEST) or (pairs + len(graph.dag[0])) * numbers <= SMALL:
        return None  # then splitting one by one takes less time
    space = Matrices.of(graph, embeddings)
    rows = Rows(space, graph.edge_from, graph.edge_to, len(graph.edge_from))
    try:
        W, tied = _split(rows)
        off = _off(rows, tied)
        graph = regrouped(graph, alike(space, off))
        if (tied != (graph.component[rows.above] == graph.component[rows.below])).any():
            return None
        finite = soft(space, graph, samples)
        if finite is None:
            return None
        rows = Rows.of(graph, space)
        y, W = _exact(rows, _nearly_shortest(rows, W, off))
        if not np.linalg.norm(W - rows.back(y)) <= SAME * np.linalg.norm(W):
            return None
        y = y / space.unit**2
        score = space.scores(W)
        return graph, finite, certified(graph, samples, rows.pairs(y), score, y[: rows.strict], "")
    except (SolverError, np.linalg.LinAlgError):
        return None


def _split(rows: Rows) -> tuple[Float[np.ndarray, "keys queries"], Bool[np.ndarray, " rows"]]:
    """max Σ t with rows · W ≥ t, 0 ≤ t ≤ 1: a W that is positive where t ends at 1, and where it ends at 0."""
    count, width = len(rows.above), rows.space.query.shape[1]
    system = _System(rows, np.float32)
    W = np.zeros((width, width))
    # The slacks of the three, and their multipliers.
    V = np.repeat([[FAR[0]], [0.5], [0.5]], count, axis=1)
    Z = np.repeat([[FAR[1]], [FAR[1]], [1.0]], count, axis=1)
    for _ in range(STEPS):
        t, y = V[1], Z[0]
        if (((t < 0.1) & (y > 0.5)) | ((t > 0.9) & (y < 0.5))).all():
            return W, t < 0.1
        found, (ahead, beside) = _split_step(rows, system, W, V, Z)
        W, V, Z = W + ahead * found.W, V + ahead * found.slack, Z + beside * found.multiplier
    raise SolverError("ties of the embeddings: the linear program did not end.")


def _split_step(
    rows: Rows, system: "_System", W: np.ndarray, V: np.ndarray, Z: np.ndarray
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


def _nearly_shortest(
    rows: Rows, W: Float[np.ndarray, "keys queries"], off: Callable[[np.ndarray], np.ndarray]
) -> Float[np.ndarray, " rows"]:
    """About the multipliers of min ½‖W‖² with rows · W ≥ 1 on strict differences and 0 on ties; 0 where not active.

    W is one that is positive on the former; `off` takes S_fin away. Ties of frequent tokens, as last tokens or before
    many, leave directions in which any such W is 0: without them the program is smaller.
    """
    if not rows.strict:
        return np.zeros(len(rows.above))
    space, rng = rows.space, np.random.default_rng(1)
    some = [off(rng.standard_normal(W.shape)) for _ in range(2)]
    left, right = _directions(np.hstack(some)), _directions(np.vstack(some).T)
    narrow = replace(space, key=space.key @ left, query=space.query @ right)
    return _shortest(replace(rows, space=narrow), left.T @ W @ right)


def _directions(columns: Float[np.ndarray, "width _"]) -> Float[np.ndarray, "width rank"]:
    """An orthonormal basis of their span."""
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, singular > 1e-9 * singular.max(initial=0.0)]


def _shortest(rows: Rows, W: Float[np.ndarray, "keys queries"]) -> Float[np.ndarray, " rows"]:
    """As `_nearly_shortest`, in all directions there are."""
    strict, system = rows.strict, _System(rows)
    first = float(np.quantile(rows.of_w(W)[:strict], FIRST))
    if not first > 0:
        raise SolverError("Graph-SVM: no W is known that is positive on strict differences.")
    W = W / first
    margin = rows.of_w(W)[:strict]
    s = np.maximum(margin - 1, 1.0)
    balanced = float((W * W).sum()) / float((np.maximum(margin, 1.0) / s).sum())
    y, free = HEAVY * balanced / s, np.zeros(len(rows.above) - strict)
    for _ in range(STEPS):
        found, size, affine = _shortest_step(rows, system, W, s, y, free)
        # What grows by its own share least is what stays: multipliers of active margins, slacks of the others.
        active = np.abs(affine.multiplier[0] / y) < np.abs(affine.slack[0] / s)
        W, s = W + size * found.W, s + size * found.slack[0]
        y, free = y + size * found.multiplier[0], free + size * found.free
        left = float(np.linalg.norm(W - rows.back(np.append(y, free))))
        if float(y @ s) <= SOLVED * float((W * W).sum()) and left <= 1e-3 * np.linalg.norm(W):
            return np.append(np.where(active, y, 0.0), np.zeros(len(free)))
    raise SolverError("Graph-SVM: the quadratic program did not end.")


def _shortest_step(
    rows: Rows, system: "_System", W: np.ndarray, s: np.ndarray, y: np.ndarray, free: np.ndarray
) -> tuple[_Move, float, _Move]:
    margin, strict = rows.of_w(W), rows.strict
    apart, off = margin[:strict] - 1 - s, rows.back(np.append(y, free)) - W
    heavy = TIED * float(np.quantile(y / s, 0.9))
    weight = np.append(y / s, np.full(len(free), heavy))
    solve = system.factored(weight, 1.0)

    def move(right: np.ndarray) -> _Move:
        y_0 = np.append((right[0] - y * apart) / s, -heavy * margin[strict:])
        step = solve(off + rows.back(y_0))
        along = rows.of_w(step)
        dy = y_0 - weight * along
        return _Move(step, (along[:strict] + apart)[None], dy[None, :strict], dy[strict:])

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


def _exact(
    rows: Rows, y: Float[np.ndarray, " rows"]
) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, "keys queries"]]:
    """The smallest W that is 1 where y is positive, rows let go and taken in until none is wrong, and multipliers.

    W is summed step by step beside them: of multipliers of millions, that leave margins of 1, rounding would leave no
    such margins.
    """
    if not rows.strict:
        return y, rows.back(y)
    strict, system = np.arange(len(y)) < rows.strict, _System(rows)
    part, about, heavy = (y > 0) | ~strict, y, 1e3 * float(np.abs(y).max())
    for swap in range(SWAPS):
        goal, y, before = (part & strict).astype(float), np.where(part, about, 0.0), np.inf
        W, solve = rows.back(y), system.factored(heavy * part, 1.0)
        while True:
            left = np.where(part, goal - rows.of_w(W), 0.0)
            off = float(np.abs(left).max())
            if off <= EXACT or off > 0.5 * before:
                break
            before = off
            step = heavy * np.where(part, left - rows.of_w(solve(heavy * rows.back(left))), 0.0)
            y, W = y + step, W + rows.back(step)
        margin = rows.of_w(W)
        wrong = np.where(strict, np.where(part, -y / np.abs(y).max(), 1 - 1e-9 - margin), 0.0)
        if wrong.max() <= 0:
            return y, W
        # All at once is quick, one at a time does not go round in circles.
        part ^= wrong > (0 if swap < SWAPS // 2 else 0.999 * wrong.max())
    raise SolverError("Graph-SVM: no set of active margins was found.")


def _off(
    rows: Rows, tied: Bool[np.ndarray, " rows"]
) -> Callable[[Float[np.ndarray, "keys queries"]], Float[np.ndarray, "keys queries"]]:
    """W without what of it lies in the span of ties."""
    solve = _System(rows).factored(np.where(tied, 1e8, 0.0), 1.0)

    def project(W: Float[np.ndarray, "keys queries"]) -> Float[np.ndarray, "keys queries"]:
        most = 1e-12 * float(np.linalg.norm(W))
        for _ in range(STEPS):  # each takes a large part of what is left there, and nothing else
            if np.abs(rows.of_w(W)[tied]).max(initial=0.0) <= most:
                return W
            W = solve(W)
        raise SolverError("ties of the embeddings: their span is not known well enough.")

    return project


class _Half:
    """The lower half of a symmetric matrix: rows and columns of its entries, and where in it each entry stands."""

    def __init__(self, width: int):
        self.row, self.column = np.tril_indices(width)
        place = np.zeros((width, width), np.int64)
        place[self.row, self.column] = np.arange(len(self.row))
        self.place = np.maximum(place, place.T)


class _System:
    """Σ D δ δᵀ over rows, plus a multiple of the identity, and its factor."""

    def __init__(self, rows: Rows, kind: type[np.floating] = np.float64):
        space = rows.space
        last = space.last[rows.above]
        self.rows, self.order = rows, np.argsort(last, kind="stable")
        self.start = row_pointer(np.bincount(last, minlength=len(space.query)))
        self.key, self.query = (_Half(x.shape[1]) for x in (space.key, space.query))
        self.kind = kind
        self.squares = space.query[:, self.query.row] * space.query[:, self.query.column]

    def factored(
        self, weight: Float[np.ndarray, " rows"], shift: float
    ) -> Callable[[Float[np.ndarray, "keys queries"]], Float[np.ndarray, "keys queries"]]:
        """What solves Σ weight δ δᵀ X + shift X = B: by the factor, and conjugate gradients against its rounding.

        A factor in single precision takes half of the time. It serves until conjugate gradients do not mend it: half
        way through the first program, and never where ties weigh so much more than the rest.
        """
        rows = self.rows
        M = self._by_last(weight)
        near = self._near(M, shift)

        def product(X: Float[np.ndarray, "keys queries"]) -> Float[np.ndarray, "keys queries"]:
            return shift * X + rows.back(weight * rows.of_w(X))

        def solve(B: Float[np.ndarray, "keys queries"]) -> Float[np.ndarray, "keys queries"]:
            nonlocal near
            if self.kind is np.float32:
                found, arrived = conjugate_gradients(product, B, SHARP, FEW, near)
                if arrived:
                    return found
                self.kind = np.float64
                near = self._near(M, shift)
            return conjugate_gradients(product, B, SHARP, PRODUCTS, near)[0]

        return solve

    def _near(
        self, M: Float[np.ndarray, "lasts half"], shift: float
    ) -> Callable[[Float[np.ndarray, "keys queries"]], Float[np.ndarray, "keys queries"]]:
        """What almost solves the system: its factor, with as small a ridge as it takes."""
        own = (x.place.diagonal() for x in (self.key, self.query))
        top = float((M[:, next(own)].T @ self.squares[:, next(own)]).max()) + shift
        while True:
            for ridge in RIDGES[self.kind]:
                try:
                    panels = self._panels(M / top, shift / top + ridge)
                    break
                except np.linalg.LinAlgError:
                    continue
            else:
                if self.kind is np.float64:
                    raise SolverError("a linear system is too close to singular.")
                self.kind = np.float64
                continue
            break

        def near(R: Float[np.ndarray, "keys queries"]) -> Float[np.ndarray, "keys queries"]:
            size = float(np.linalg.norm(R)) or 1.0  # single precision has a small range
            return _substituted(panels, R.ravel() / size).reshape(R.shape) * (size / top)

        return near

    def _by_last(self, weight: Float[np.ndarray, " rows"]) -> Float[np.ndarray, "lasts half"]:
        """The lower halves of Σ weight (e_y − e_x)(e_y − e_x)ᵀ over the rows of each last token."""
        rows, half = self.rows, self.key
        found = np.zeros((len(self.squares), len(half.row)))
        key = rows.space.key[rows.above[self.order]] - rows.space.key[rows.below[self.order]]
        weight = weight[self.order, None]
        for M, (first, end) in zip(found, pairwise(self.start.tolist()), strict=True):
            if end > first:
                M[:] = (key[first:end].T @ (weight[first:end] * key[first:end]))[
                    half.row, half.column
                ]
        return found

    def _panels(
        self, M: Float[np.ndarray, "lasts half"], shift: float
    ) -> list[Float[np.ndarray, "_ _"]]:
        """Cholesky's factor, some rows at a time, without what is right of its diagonal."""
        from scipy.linalg import cholesky, solve_triangular

        M, squares = (x.astype(self.kind, copy=False) for x in (M, self.squares))
        keys, width = len(self.key.place), len(self.query.place)
        at_once = max(1, PANEL // width)
        panels: list[np.ndarray] = []
        for first in range(0, keys, at_once):
            end = min(first + at_once, keys)
            part = np.zeros((end - first, width, end, width), self.kind)
            for a in range(first, end):
                G = M[:, self.key.place[a, : a + 1]].T @ squares
                for c in range(a + 1):
                    part[a - first, :, c] = G[c][self.query.place]
                part[a - first, range(width), a, range(width)] += shift
            P = part.reshape((end - first) * width, end * width)
            for before in panels:
                stop = before.shape[1]
                start = stop - before.shape[0]
                block = P[:, start:stop]
                block -= P[:, :start] @ before[:, :start].T
                block[:] = solve_triangular(before[:, start:], block.T, lower=True).T
            start = first * width
            P[:, start:] -= P[:, :start] @ P[:, :start].T
            P[:, start:] = cholesky(P[:, start:], lower=True)
            panels.append(P)
        return panels


def _substituted(
    panels: list[Float[np.ndarray, "_ _"]], b: Float[np.ndarray, " numbers"]
) -> Float[np.ndarray, " numbers"]:
    """The solution of L Lᵀ x = b."""
    from scipy.linalg import solve_triangular

    x = b.astype(panels[0].dtype)
    for P in panels:
        start, stop = P.shape[1] - P.shape[0], P.shape[1]
        x[start:stop] = solve_triangular(
            P[:, start:], x[start:stop] - P[:, :start] @ x[:start], lower=True
        )
    for P in reversed(panels):
        start, stop = P.shape[1] - P.shape[0], P.shape[1]
        x[start:stop] = solve_triangular(P[:, start:], x[start:stop], lower=True, trans=1)
        x[:start] -= x[start:stop] @ P[:, :start]
    return x.astype(float)
