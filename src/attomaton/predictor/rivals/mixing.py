r"""Convex mixtures: the weights that make what happened most probable.

$$\max_{w \ge 0,\ \sum w = 1} \; \sum_n v_n \log \sum_c w_c\, p_{nc} \; + \; \sum_c a_c \log w_c$$

is concave, and $a_c > 0$ (pseudo-counts) keep its optimum inside. With N = Σ v + Σ a, minimising the same plus
$N \sum w$ over w > 0 has its optimum at Σ w = 1 by itself, so that plain damped Newton steps suffice; what is left of
the gradient, divided by N, is the certificate.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Float, Int

STEPS = 200
EXACT = 1e-10  # of the scale: where Newton's method stops
PSEUDO = 20.0  # windows that the weights of all buckets together are worth in each of them
FLOOR = 0.01  # windows that even weights are worth: enough to keep every weight above 0


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of some components for each bucket of windows; `residual` is the largest gradient, of its scale."""

    value: Float[np.ndarray, "buckets components"]
    residual: float


def mixture_weights(
    p: Float[np.ndarray, "windows components"],
    weight: Float[np.ndarray, " windows"],
    prior: Float[np.ndarray, " components"],
) -> tuple[Float[np.ndarray, " components"], float]:
    """The best weights of components that gave the labels these probabilities, and the residual.

    Two components, each sure of half of the labels, weigh the same:

    >>> w, residual = mixture_weights(np.array([[1.0, 0.0], [0.0, 1.0]]), np.ones(2), np.full(2, 0.01))
    >>> w.round(6).tolist(), residual < 1e-9
    ([0.5, 0.5], True)
    """
    # A label that no component has room for says nothing about their weights.
    possible = p.max(axis=1, initial=0.0) > 0
    p, weight = p[possible], weight[possible]
    total = weight.sum() + prior.sum()
    w = np.full(p.shape[1], 1.0 / p.shape[1])

    def loss(w: Float[np.ndarray, " components"]) -> float:
        return float(-(weight @ np.log(p @ w)) - prior @ np.log(w)) / total + float(w.sum())

    value, residual = loss(w), np.inf
    for _ in range(STEPS):
        share = p / (p @ w)[:, None]
        slope = 1.0 - (weight @ share + prior / w) / total
        # The gradient in log w: what a weight that is nearly 0 would gain says nothing about the optimum.
        residual = float(np.abs(w * slope).max())
        if residual < EXACT:
            break
        curve = ((share * weight[:, None]).T @ share + np.diag(prior / w**2)) / total
        step = np.linalg.solve(curve, slope)
        length = min(1.0, 0.9 / max(float((step / w).max()), 1e-300))
        while (new := loss(w - length * step)) > value + 1e-14 and length > 1e-9:
            length /= 2
        w, value = w - length * step, new
    return w / w.sum(), residual


def fit_weights(
    p: Float[np.ndarray, "windows components"],
    weight: Float[np.ndarray, " windows"],
    bucket: Int[np.ndarray, " windows"],
    buckets: int,
) -> Weights:
    """Weights for each bucket, drawn towards those of all windows as if it had seen `PSEUDO` windows more."""
    C = p.shape[1]
    if C == 1:
        return Weights(np.ones((buckets, 1)), 0.0)
    overall, worst = mixture_weights(p, weight, np.full(C, FLOOR / C))
    value = np.tile(overall, (buckets, 1))
    for b in np.unique(bucket) if buckets > 1 else ():
        at = bucket == b
        value[b], residual = mixture_weights(p[at], weight[at], PSEUDO * overall + FLOOR / C)
        worst = max(worst, residual)
    return Weights(value, worst)
