r"""The regularisation path: the best layer of each size, and the best layer at each price of size.

    norm path       W_R = argmin L(W)  s.t.  ‖W‖_F ≤ R
    penalty path    W_λ = argmin L(W) + λ/2 ‖W − W_0‖_F²

with the log-loss $L$ of the layer (for the penalty path also of its cousin in which a token that occurs
m times weighs m^θ instead of m). Both trace the same curve when $W_0 = 0$: λ is the multiplier of
the ball. As R grows, W_R takes the direction and the finite part that gradient descent takes.

The problems are convex and solved by Newton's method, each step by conjugate gradients. Gradient
and Hessian products are sums over the incidences (sample, token): no matrix of samples by
parameters is ever built. All iterates stay in the span of $e_x e_q^\top$ over the pairs that occur.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attomaton.base.face import Shown
from attomaton.base.shapes import Float, Int
from attomaton.corpus.samples import Samples, expect_samples
from attomaton.errors import DataError, SolverError, UsageError
from attomaton.mechanics.data import Embeddings, check_embeddings

TOLERANCE = 1e-10  # stationarity residual, relative to the largest gradient the data can have
NEWTON_STEPS = 200
CG_STEPS = 5000  # for one Newton step, which is a descent step however early this stops
LEAST_LAMBDA = 1e-14  # below this, relative to the same scale, rounding decides the answer

Params = Float[np.ndarray, "*shape"]


@dataclass(frozen=True, eq=False, repr=False)
class PathPoint(Shown):
    """One certified point of the path.

    `W` with embeddings, else `scores` of the pairs that occur, sorted by (last token, token).
    `gradient` is the largest entry of ∇L(W) + λ(W − W_0), computed afresh from the answer. A point
    of the norm path inside its ball has `lam` 0.

    >>> from attomaton import norm_path, samples_from_sequences
    >>> norm_path(samples_from_sequences([[0, 1]], [0]), [1.0])[0].scores.round(4).tolist()
    [0.7071, -0.7071]
    """

    radius: float  # ‖W‖_F
    lam: float
    loss: float
    W: Float[np.ndarray, "width width"] | None
    scores: Float[np.ndarray, " pairs"] | None
    gradient: float
    steps: int

    @property
    def params(self) -> Params:
        """W, or the scores of the pairs."""
        params = self.scores if self.W is None else self.W
        assert params is not None
        return params


def penalty_path(
    samples: Samples,
    lambdas: Sequence[float | int] | np.ndarray,
    embeddings: Embeddings | np.ndarray | None = None,
    prior: np.ndarray | None = None,
    *,
    theta: float = 1.0,
    total: float | None = None,
    tolerance: float = TOLERANCE,
) -> list[PathPoint]:
    """The minimiser of L(W) + λ/2 ‖W − W_0‖² for every λ, in the order asked for.

    `prior` is W_0: W itself with `embeddings`, scores of the pairs without; 0 where none is given.
    `theta` is the exponent of the multiplicities, `total` the n of L's 1/n where these samples are a
    part of more (then λ means the same for every part), and `tolerance` the residual aimed at,
    relative to the largest gradient the data can have.

    Three wins against one: log-odds near 0 at a high price, near log 3 (twice 0.5493) at a low one.

    >>> from attomaton.corpus.windows import samples_from_sequences
    >>> samples = samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1])
    >>> [round(float(p.scores[0]), 4) for p in penalty_path(samples, [10, 1e-9])]
    [0.0238, 0.5493]
    """
    prices = _positive("lambdas", lambdas)
    if not (np.isfinite(theta) and theta >= 0):
        raise UsageError(f"theta must be 0 or more and finite, not {theta:g}.")
    task = _task(samples, embeddings, theta, total)
    origin = _origin(prior, task)
    points: dict[int, PathPoint] = {}
    at = origin
    # From the highest price to the lowest: each answer is a good start for the next.
    for i in np.argsort(-prices, kind="stable"):
        found = _minimise(task, float(prices[i]), origin, at, tolerance)
        points[int(i)] = _certified(task, found, float(prices[i]), origin)
        at = found.params
    return [points[i] for i in range(len(prices))]


def norm_path(
    samples: Samples,
    radii: Sequence[float | int] | np.ndarray,
    embeddings: Embeddings | np.ndarray | None = None,
) -> list[PathPoint]:
    """The minimiser of L(W) over the ball ‖W‖ ≤ R for every R, in the order asked for.

    ‖W_λ‖ falls as λ rises, so λ is found as the root of ‖W_λ‖ = R on a logarithmic scale. Where
    L has a minimiser inside the ball, that one (of least norm) is the answer, with λ = 0. Radii that are no positive
    numbers raise a `UsageError`, those beyond what float64 can tell a `SolverError`.

    >>> from attomaton import example_samples
    >>> [round(point.loss, 4) for point in norm_path(example_samples(), [0.5, 2])]
    [0.9287, 0.7163]
    """
    sizes = _positive("radii", radii)
    task = _task(samples, embeddings)
    origin = np.zeros(task.shape)
    points: dict[int, PathPoint] = {}
    at = origin
    for i in np.argsort(sizes, kind="stable"):
        points[int(i)] = _on_sphere(task, float(sizes[i]), at)
        at = points[int(i)].params
    return [points[i] for i in range(len(sizes))]


# What is asked for


def _positive(
    name: str, values: Sequence[float | int] | np.ndarray
) -> Float[np.ndarray, " points"]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"{name}={values!r:.60}: a list of numbers is needed.") from None
    if array.ndim != 1 or not array.size:
        raise UsageError(f"{name}: expected a list of numbers, got shape {array.shape}.")
    wrong = np.flatnonzero(~(np.isfinite(array) & (array > 0)))
    if len(wrong):
        raise UsageError(
            f"{name}: entry {wrong[0]} is {array[wrong[0]]:g}; all must be positive and finite."
        )
    return array


def _origin(prior: np.ndarray | None, task: "_Task") -> Params:
    """W_0, in the shape of the parameters."""
    if prior is None:
        return np.zeros(task.shape)
    prior = np.asarray(prior, dtype=np.float64)
    if prior.shape != task.shape:
        raise UsageError(f"prior: expected shape {task.shape}, got {prior.shape}.")
    if not np.isfinite(prior).all():
        at = tuple(np.argwhere(~np.isfinite(prior))[0].tolist())
        raise DataError(f"prior: entry {at[0] if len(at) == 1 else at} is {prior[at]}; not finite.")
    return prior


# The loss, its gradient and its curvature


class _Look(NamedTuple):
    """The loss at one point: value, gradient, and the attention p that its curvature is made of."""

    value: float
    gradient: Params
    p: Float[np.ndarray, " incidences"]


class _Vectors(NamedTuple):
    """The embeddings of the pairs, which stand sorted by last token."""

    key: Float[np.ndarray, "pairs width"]
    query: Float[np.ndarray, "lasts width"]
    row: Int[np.ndarray, " pairs"]  # the last token of each pair
    first: Int[np.ndarray, " lasts"]  # the first pair of each last token


@dataclass(frozen=True, eq=False)
class _Task:
    """The log-loss as a function of the parameters (pair scores, or W where there is an E)."""

    samples: Samples
    pairs: Int[np.ndarray, " pairs"]  # sorted keys of the pairs that occur: last · K + token
    index: Int[np.ndarray, " incidences"]  # the pair of each incidence
    E: Float[np.ndarray, "vocab width"] | None
    theta: float = 1.0
    total: float | None = None  # the n of 1/n; the samples' own weight where it is not given

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pairs.shape if self.E is None else (self.E.shape[1], self.E.shape[1])

    @cached_property
    def owner(self) -> Int[np.ndarray, " incidences"]:
        return self.samples.sample_of

    @cached_property
    def label(self) -> Int[np.ndarray, " samples"]:
        """The incidence that holds each sample's label."""
        return np.flatnonzero(self.samples.token == self.samples.label[self.owner])

    @cached_property
    def log_count(self) -> Float[np.ndarray, " incidences"]:
        return self.theta * np.log(self.samples.count)

    @cached_property
    def weight(self) -> Float[np.ndarray, " samples"]:
        return self.samples.weight / (self.total or self.samples.total_weight)

    @cached_property
    def scale(self) -> float:
        """The largest weight that meets in one score: a bound of every ∂L/∂S."""
        meets = np.bincount(self.index, self.weight[self.owner], len(self.pairs))
        return float(meets.max()) * (1.0 if self.E is None else float((self.E**2).sum(1).max()))

    @cached_property
    def vectors(self) -> "_Vectors | None":
        """The embeddings of the pairs."""
        if self.E is None:
            return None
        q, x = np.divmod(self.pairs, len(self.samples.vocabulary))
        lasts, first, row = np.unique(q, return_index=True, return_inverse=True)
        return _Vectors(self.E[x], self.E[lasts], row, first)

    def spread(self, params: Params) -> Float[np.ndarray, " incidences"]:
        """The score of every incidence: e_xᵀ W e_q."""
        v = self.vectors
        if v is not None:
            params = np.einsum("pd,pd->p", v.key, (v.query @ params.T)[v.row])
        return params[self.index]

    def gather(self, values: Float[np.ndarray, " incidences"]) -> Params:
        """The transpose of `spread`: sums by score, pulled back to the parameters."""
        flat, v = np.bincount(self.index, values, len(self.pairs)), self.vectors
        if v is None:
            return flat
        return np.add.reduceat(flat[:, None] * v.key, v.first).T @ v.query

    def sums(self, values: Float[np.ndarray, " incidences"]) -> Float[np.ndarray, " samples"]:
        return np.add.reduceat(values, self.samples.start[:-1])

    def look(self, params: Params) -> _Look:
        r"""Value, gradient and attention at one point.

        The label's residual is $-\sum_{x \ne y} p(x)$ rather than $p(y) - 1$, and the loss a
        `log1p` of the others' mass, so that both keep their digits when the layer is almost sure.
        """
        z = self.spread(params) + self.log_count
        gap = z - z[self.label][self.owner]
        top = np.maximum.reduceat(gap, self.samples.start[:-1])
        mass = np.exp(gap - top[self.owner])
        p = mass / self.sums(mass)[self.owner]
        mass[self.label] = 0.0
        value = self.weight @ (top + np.log1p(self.sums(mass) + np.expm1(-top)))
        residual = p.copy()
        residual[self.label] = 0.0
        residual[self.label] = -self.sums(residual)
        return _Look(float(value), self.gather(self.weight[self.owner] * residual), p)

    def curvature(self, p: Float[np.ndarray, " incidences"], v: Params) -> Params:
        r"""The Hessian of L times v: per sample $w\,(\mathrm{diag}(p) - p p^\top) v$.

        v is taken relative to the label, which changes nothing but rounding.
        """
        u = self.spread(v)
        u = u - u[self.label][self.owner]
        mean = self.sums(p * u)[self.owner]
        return self.gather(self.weight[self.owner] * p * (u - mean))

    def steepness(self, p: Float[np.ndarray, " incidences"]) -> Params | float:
        """The Hessian's diagonal, to balance the equations (those of W need none: 0)."""
        return self.gather(self.weight[self.owner] * p * (1 - p)) if self.E is None else 0.0


def _task(
    samples: Samples,
    embeddings: Embeddings | np.ndarray | None,
    theta: float = 1.0,
    total: float | None = None,
) -> _Task:
    expect_samples(samples)
    E = embeddings.E if isinstance(embeddings, Embeddings) else embeddings
    if E is not None:
        E = check_embeddings(E, len(samples.vocabulary)).E
    return _Task(samples, *samples.pair_index(), E, theta, total)


# Newton's method


class _Found(NamedTuple):
    params: Params
    last_move: float  # the length of the last Newton step, relative to the answer's
    steps: int


def _minimise(
    task: _Task, lam: float, origin: Params, at: Params, tolerance: float = TOLERANCE
) -> _Found:
    """Damped Newton from `at`, until the residual is as small as rounding lets it be.

    Accepted at `tolerance` times the data's scale; but since a small λ is decided by gradients of
    size λ‖W − W_0‖, the iteration aims at that fraction of those and goes on while it gains.
    """
    look = task.look(at)
    slope = look.gradient + lam * (at - origin)
    best, idle, move = np.inf, 0, np.inf
    for step in range(NEWTON_STEPS):
        size = float(np.abs(slope).max())
        aim = tolerance * min(task.scale, lam * float(np.abs(at - origin).max()) or task.scale)
        idle = 0 if size < 0.5 * best else idle + 1
        best = min(best, size)
        # At least one step: its length tells a minimum from a slope that only fades away.
        if step and (size <= aim or (idle >= 3 and size <= tolerance * task.scale)):
            return _Found(at, move, step)
        direction = _newton_direction(task, look.p, lam, slope)
        value = look.value + 0.5 * lam * float(((at - origin) ** 2).sum())
        descent = float((slope * direction).sum())
        length = 1.0
        while True:
            new = at + length * direction
            look = task.look(new)
            price = 0.5 * lam * float(((new - origin) ** 2).sum())
            # Rounding of the value must not stop the last steps, which the residual still judges.
            slack = 1e-15 * (abs(value) + task.scale)
            if look.value + price <= value + 1e-4 * length * descent + slack or length < 1e-10:
                break
            length /= 2
        move = float(np.linalg.norm(new - at)) / max(1.0, float(np.linalg.norm(new)))
        at = new
        slope = look.gradient + lam * (at - origin)
    raise SolverError(
        f"regularisation path: Newton's method did not converge for lambda = {lam:g} within "
        f"{NEWTON_STEPS} steps; the residual is {np.abs(slope).max():.2g}, "
        f"{tolerance * task.scale:.2g} is needed."
    )


def _newton_direction(
    task: _Task, p: Float[np.ndarray, " incidences"], lam: float, slope: Params
) -> Params:
    """−(∇²L + λ)⁻¹ slope, by conjugate gradients balanced with the diagonal."""
    diagonal = task.steepness(p) + lam
    balance = 1.0 / np.maximum(diagonal, 1e-300) if np.ndim(diagonal) else np.float64(1.0)
    # Few digits suffice far from the answer; near it, enough for Newton to converge superlinearly.
    digits = min(0.1, float(np.abs(slope).max() / task.scale) ** 0.5)
    return -_conjugate_gradients(
        lambda v: task.curvature(p, v) + lam * v, slope, balance, max(digits, 1e-8)
    )


def _conjugate_gradients(
    product: Callable[[Params], Params],
    b: Params,
    balance: Float[np.ndarray, "*shape"] | np.float64,
    digits: float,
) -> Params:
    """x with product(x) = b, the residual reduced by `digits` or as far as rounding lets it be."""
    x, r = np.zeros_like(b), b
    y = balance * r
    d, rho = y, float((r * y).sum())
    goal = rho * digits**2
    for _ in range(min(10 * b.size + 100, CG_STEPS)):
        if rho <= goal:
            break
        Ad = product(d)
        bend = float((d * Ad).sum())
        if bend <= 0.0:  # the Hessian is 0 along d as far as rounding can tell
            break
        x = x + (rho / bend) * d
        r = r - (rho / bend) * Ad
        y = balance * r
        rho, before = float((r * y).sum()), rho
        d = y + (rho / before) * d
    return x if x.any() else balance * b


# Points


def _certified(task: _Task, found: _Found, lam: float, origin: Params) -> PathPoint:
    """The answer with its residual computed afresh."""
    look = task.look(found.params)
    residual = float(np.abs(look.gradient + lam * (found.params - origin)).max())
    dense = task.E is not None
    return PathPoint(
        radius=float(np.linalg.norm(found.params)),
        lam=lam,
        loss=look.value,
        W=found.params if dense else None,
        scores=None if dense else found.params,
        gradient=residual,
        steps=found.steps,
    )


def _on_sphere(task: _Task, R: float, at: Params) -> PathPoint:
    """The point of the norm path at radius R, starting the search from a nearby answer."""
    from scipy.optimize import brentq

    origin = np.zeros(task.shape)
    steps = 0

    def solve(log_lam: float) -> float:
        nonlocal at, steps
        found = _minimise(task, float(np.exp(log_lam)), origin, at)
        at, steps = found.params, steps + found.steps
        return float(np.log(np.linalg.norm(at) / R))

    # ‖W_λ‖ ≤ ‖∇L(0)‖/λ, so this λ is too high, or just right.
    high = float(np.linalg.norm(task.look(origin).gradient)) / R
    floor = LEAST_LAMBDA * task.scale
    if high <= floor:
        return _certified(task, _Found(origin, 0.0, 0), 0.0, origin)
    log_high = float(np.log(high))
    excess = solve(log_high)
    while excess < 0:
        log_low = log_high - np.log(10)
        before, excess = excess, solve(log_low)
        if excess < 0:
            log_high = log_low
            # A minimiser at finite distance shows: the norm stops growing as λ falls.
            inside = _unconstrained(task, at) if excess - before < 1e-4 else None
            if inside is not None and np.linalg.norm(inside.params) <= R:
                return _certified(task, inside, 0.0, origin)
            if np.exp(log_low) < floor:
                raise SolverError(
                    f"norm path: radius {R:g} needs lambda below {floor:.1g}, where rounding "
                    f"decides; ‖W‖ = {R * np.exp(excess):.6g} was reached. Ask for a smaller radius."
                )
    log_lam = log_high if excess == 0 else brentq(solve, log_low, log_high, xtol=1e-14, rtol=1e-15)
    found = _minimise(task, float(np.exp(log_lam)), origin, at)
    return _certified(task, found._replace(steps=steps), float(np.exp(log_lam)), origin)


def _unconstrained(task: _Task, at: Params) -> _Found | None:
    """The minimiser of L itself, where there is one near `at` (Newton's steps then shrink to 0)."""
    try:
        found = _minimise(task, 0.0, np.zeros(task.shape), at)
    except SolverError:
        return None
    return found if found.last_move < 1e-6 else None
