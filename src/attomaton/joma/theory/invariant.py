r"""Attention follows from the hidden layer's weights: the invariant of Theorem 1.

Let $g_{nk}$ be the slope that reaches node $k$ of class $n$, whatever stands above it. Under gradient flow
$\dot v_k = -\mathbb E[g_k b]$, and the scores move by the same products:

- exp: $T \dot z = -\mathbb E[b \circ \sum_k g_k v_k] = \sum_k v_k \circ \dot v_k$, so
  $z = \tfrac1{2T}\sum_k v_k^2 + c$;
- linear: $z \circ \dot z = \sum_k v_k \circ \dot v_k$, so $z^2 = \sum_k v_k^2 + c$;
- softmax: $T \dot z = \sum_k v_k \circ \dot v_k + \mathbb E[b \sum_k g_k\, b^\top v_k]$. With the mean context
  $\bar x$ for the first $b$ of the last term,
  $z \approx \tfrac1{2T}\big(\sum_k v_k^2 - \bar x \sum_k \|w_k\|^2\big) + c$.

The first two are exact, the third as good as that mean; steps of length η add errors of order η.
"""

from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Float
from attomaton.joma.course import Course


class Predicted(NamedTuple):
    """Scores that the weights predict: their sum and its two terms, without what was there at the start."""

    score: Float[np.ndarray, "kept tokens"]
    growth: Float[np.ndarray, "kept tokens"]
    shared: Float[np.ndarray, "kept tokens"]


def predicted_scores(run: Course, mean: Float[np.ndarray, " tokens"]) -> Predicted:
    """What z must be at every kept step, from the weights alone and z at the first; `mean` is x̄."""
    squares = np.square(run.tokens).sum(axis=1)
    nothing = np.zeros_like(squares)
    if run.attention == "linear":
        squared = np.square(run.score[0]) + squares - squares[0]
        sign = np.where(run.score[0] < 0, -1.0, 1.0)
        return Predicted(sign * np.sqrt(np.maximum(squared, 0.0)), squares, nothing)
    growth = squares / (2 * run.temperature)
    shared = nothing
    if run.attention == "softmax":
        size = np.square(run.weight).sum(axis=(1, 2))
        shared = -size[:, None] * mean / (2 * run.temperature)
    both = growth + shared
    return Predicted(run.score[0] + both - both[0], growth, shared)


def correlations(
    a: Float[np.ndarray, "kept tokens"], b: Float[np.ndarray, "kept tokens"]
) -> Float[np.ndarray, " kept"]:
    """Pearson's correlation over tokens at every step; 0 where one of them is the same for all tokens.

    >>> correlations(np.array([[1.0, 2.0, 3.0]]), np.array([[2.0, 4.0, 6.0]]))
    array([1.])
    """
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (a, b))
    size = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.divide((a * b).sum(axis=1), size, out=np.zeros(len(a)), where=size > 0)
