r"""The regularisation path without convexity: the lowest of many local minimisers of $L(W) + \frac\lambda2 \|W\|_F^2$.

A global minimiser at some price λ is also one over the ball of its own radius, $W_R = \arg\min_{\|W\| \le R} L(W)$ with
$R = \|W_\lambda\|$. Under heads and losses other than the log-loss L is not convex in W, so each price is tried from
several starts: nothing, where the price before ended, the log-loss's own minimiser, and random ones. What is found is
stationary, and the lowest that was found; that nothing is lower is not proved.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attomaton.base.lazily import jax, jnp
from attomaton.base.shapes import Float
from attomaton.corpus.samples import Samples
from attomaton.errors import SolverError, UsageError
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.experiment.path import penalty_path
from attomaton.numerics import float64, named_rng

if TYPE_CHECKING:
    from attomaton.mechanics.experiment.model import Problem

LARGEST = 1000  # parameters: their curvature is a matrix
STATIONARY = 1e-2  # ‖∇L + λW‖ relative to λ‖W‖, or to λ where W is short
AIM = 1e-5  # of the same
ROUNDS, STEPS = 4, 300  # of the trust-region method, each round with a fresh radius
POLISH = 8  # plain Newton steps at the end
SPREAD = 3.0  # standard deviation of the entries of a random start

Params = Float[np.ndarray, "*shape"]


@dataclass(frozen=True, eq=False)
class Minimum:
    """The lowest minimiser that was found at one price λ, and how many of the starts ended higher."""

    lam: float
    radius: float  # ‖W‖_F
    loss: float
    params: Params  # W, or without embeddings the scores of the pairs
    residual: float  # ‖∇L + λW‖ relative to λ max(1, ‖W‖)
    starts: int
    higher: int


def lowest_minima(
    sets: Sequence[Samples],
    lambdas: Sequence[float],
    embeddings: Sequence[Embeddings] | None = None,
    *,
    loss: str,
    heads: Sequence[np.ndarray] | None = None,
    starts: int = 3,
    among: Sequence[Samples] = (),
) -> list[list[Minimum]]:
    """For each data set the lowest minimiser at every λ, the highest price first; `starts` of them are random.

    `heads` are general heads, one for each data set; without them the head reads off the attention on the label. All
    data sets are padded to one shape, `among` to that of others too: calls of one shape share what is compiled.

    >>> from attomaton.corpus.windows import samples_from_sequences
    >>> found = lowest_minima([samples_from_sequences([[0, 1]], [0])], [1e-3, 1e-6], loss="squared-score")
    >>> [round(float(x.params[0]) / x.radius, 4) for x in found[0]]
    [0.7071, 0.7071]
    """

    from attomaton.mechanics.experiment.model import problem_of, sizes_of

    sizes = sizes_of([*sets, *among], whole=True)
    pairs = max(len(s.pair_index()[0]) for s in (*sets, *among))
    numbers = pairs if embeddings is None else embeddings[0].E.shape[1] ** 2
    if numbers > LARGEST:
        raise UsageError(f"minima of {numbers:,} parameters: at most {LARGEST:,} are allowed.")
    programs = _programs("identity" if heads is None else "general", loss)
    answers = []
    with float64():
        for i, samples in enumerate(sets):
            E = None if embeddings is None else embeddings[i]
            C = None if heads is None else heads[i]
            table = None if E is None else E.E
            problem = jax.tree.map(jnp.asarray, problem_of(samples, table, sizes, True, C))
            more = 0 if E is not None else pairs - len(samples.pair_index()[0])
            rng, found = named_rng("minima", i), list[Minimum]()
            for point in penalty_path(samples, lambdas, E):
                guide = point.params
                places = [np.zeros_like(guide), guide, *(x.params for x in found[-1:])]
                places += [SPREAD * rng.normal(size=guide.shape) for _ in range(starts)]
                places = [np.pad(x, (0, more)) for x in places] if more else places
                ends = [_descend(*programs, x, point.lam, problem) for x in places]
                found.append(_lowest(ends, point.lam, guide.shape))
            answers.append(found)
    return answers


@lru_cache(maxsize=16)
def _programs(head: str, loss: str) -> tuple[Callable, Callable]:
    """L(W) + λ/2 ‖W‖² with its gradient, and its curvature, of flat parameters; compiled for each shape."""

    from attomaton.mechanics.experiment.model import loss_and_gradient

    def slope(w: Any, lam: Any, problem: "Problem") -> tuple[Any, Any]:
        width = 0 if problem.E is None else problem.E.shape[1]
        value, g = loss_and_gradient(w.reshape(width, width) if width else w, problem, head, loss)
        return value + lam / 2 * (w @ w), g.ravel() + lam * w

    def bend(w: Any, lam: Any, problem: "Problem") -> Any:
        product = lambda v: jax.jvp(lambda x: slope(x, lam, problem)[1], (w,), (v,))[1]  # noqa: E731
        return jax.vmap(product)(jnp.eye(len(w)))

    return jax.jit(slope), jax.jit(bend)


class _End(NamedTuple):
    value: float  # with its price
    slope: float  # length of the gradient of that
    params: Params


def _lowest(ends: Sequence[_End], lam: float, shape: tuple[int, ...]) -> Minimum:
    """The lowest of several ends, if it is stationary, without the padding."""
    best = min(ends, key=lambda end: end.value)
    radius = float(np.linalg.norm(best.params))
    residual = best.slope / (lam * max(1.0, radius))
    if not residual <= STATIONARY:
        raise SolverError(
            f"minima: none found at λ = {lam:g}; the residual is {residual:.1e} λ‖W‖, {STATIONARY:g} is needed."
        )
    price = lam * radius**2 / 2
    higher = sum(end.value > best.value + AIM * price for end in ends)
    params = best.params[tuple(map(slice, shape))]
    return Minimum(lam, radius, best.value - price, params, residual, len(ends), higher)


def _descend(
    slope: Callable, bend: Callable, start: Params, lam: float, problem: "Problem"
) -> _End:
    """Newton's method in a trust region."""
    from scipy.optimize import minimize

    at = start.ravel()

    def look(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, g = slope(x, lam, problem)
        return float(value), np.asarray(g)

    def curvature(x: np.ndarray) -> np.ndarray:
        return np.asarray(bend(x, lam, problem))

    for _ in range(ROUNDS):
        aim = AIM * lam * max(1.0, float(np.linalg.norm(at)))
        answer = minimize(
            look, at, jac=True, hess=curvature, method="trust-exact",
            options={"gtol": aim, "maxiter": STEPS, "initial_trust_radius": 1.0, "max_trust_radius": 5.0},
        )  # fmt: skip
        at = answer.x
        if np.linalg.norm(answer.jac) <= 100 * aim:
            break
    # Values are flat to rounding long before slopes are: the last steps go by slopes alone.
    value, g = look(at)
    for _ in range(POLISH):
        new = at - np.linalg.lstsq(curvature(at), g, rcond=None)[0]
        after, less = look(new)
        if not np.linalg.norm(less) < 0.5 * np.linalg.norm(g):
            break
        at, value, g = new, after, less
    return _End(value, float(np.linalg.norm(g)), at.reshape(start.shape))
