r"""Labels outside the context: the layer inside, an n-gram outside, and a gate between them.

$$P(y \mid X, q) = g\, p(y \mid X, q) \;\; (y \in X), \qquad
  P(y \mid X, q) = (1 - g)\, \frac{p_2(y \mid q)}{1 - r} \;\; (y \notin X), \qquad
  r = \sum_{x \in X} p_2(x \mid q),$$

$$g = \sigma\bigl(a + b\, \mathrm{logit}\, g_q + c\, \mathrm{logit}\, r\bigr),$$

with $g_q$ the smoothed share of windows ending with q whose label was in their context, $p_2$ the discounted bigram,
and a, b, c fitted on validation windows. Words that training never saw are one event of $p_2$, *any word never seen*;
one that stands in the context belongs to the first case like every other token.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from attomaton.corpus.windows import Windows
from attomaton.predictor.bags import Bags, blocks
from attomaton.predictor.ngrams import NGrams

SMOOTHING = 20.0  # windows that the overall share is worth
NEWTON_STEPS = 50
EDGE = 1e-9  # shares are kept this far from 0 and 1 before their logit is taken


@dataclass(frozen=True, eq=False)
class Gate:
    """The chance that the next token is one of the context's."""

    inside: Float[np.ndarray, " vocab"]  # g_q
    overall: float  # g_q of a last token never seen
    weight: Float[np.ndarray, " three"]  # a, b, c

    def features(
        self, bags: Bags, r: Float[np.ndarray, " bags"]
    ) -> Float[np.ndarray, "bags three"]:
        """1, logit g_q, logit r."""
        known = (bags.last >= 0) & (bags.last < len(self.inside))
        g = np.where(known, self.inside[np.where(known, bags.last, 0)], self.overall)
        return np.stack([np.ones(len(bags)), _logit(g), _logit(r)], axis=1)

    def of(self, bags: Bags, r: Float[np.ndarray, " bags"]) -> Float[np.ndarray, " bags"]:
        """g of these bags, whose tokens hold r of p₂."""
        return _logistic(self.features(bags, r) @ self.weight)


def reach(bags: Bags, ngrams: NGrams) -> Float[np.ndarray, " bags"]:
    """r: how much of p₂ falls on the tokens of the context.

    A word never seen has no part in it: *any word never seen* stays an event outside every context.
    """
    p = np.where(bags.token < ngrams.K, ngrams.bigram(bags.query, bags.token), 0.0)
    return np.minimum(bags.sums(p), 1.0 - EDGE)


def fit_gate(train: Windows, valid: Windows, ngrams: NGrams) -> Gate:
    """g_q counted on one corpus; a, b, c fitted on another (with the ids of the first)."""
    K = len(train.vocabulary)
    seen = np.bincount(train.last, train.weight, K)
    hits = np.bincount(train.last, train.weight * train.realizable, K)
    overall = float(hits.sum() / seen.sum())
    share = (hits + SMOOTHING * overall) / (seen + SMOOTHING)
    gate = Gate(share, overall, np.array([0.0, 1.0, 0.0]))
    rows = np.arange(len(valid))
    F = np.concatenate([gate.features(bags, reach(bags, ngrams)) for bags in blocks(valid, rows)])
    return Gate(share, overall, _logistic_fit(F, valid.realizable, valid.weight))


def _logistic_fit(
    F: Float[np.ndarray, "n three"], hit: Bool[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " three"]:
    """Newton's method from g = g_q, with a whiff of ridge for features that never vary."""
    start = np.array([0.0, 1.0, 0.0])
    weight, at = weight / weight.sum(), start

    def loss(w: Float[np.ndarray, " three"]) -> float:
        z = F @ w
        return float(
            weight @ np.logaddexp(0.0, np.where(hit, -z, z)) + 0.5e-6 * ((w - start) ** 2).sum()
        )

    value = loss(at)
    for _ in range(NEWTON_STEPS):
        g = _logistic(F @ at)
        slope = (weight * (g - hit)) @ F + 1e-6 * (at - start)
        if np.abs(slope).max() < 1e-10:
            break
        step = np.linalg.solve((F.T * (weight * g * (1 - g))) @ F + 1e-6 * np.eye(3), slope)
        length = 1.0
        while (new := loss(at - length * step)) > value + 1e-12 and length > 1e-6:
            length /= 2
        at, value = at - length * step, new
    return at


def _logit(p: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    p = np.clip(p, EDGE, 1.0 - EDGE)
    return np.log(p) - np.log1p(-p)


def _logistic(z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    # A gate that is quite shut would make labels impossible.
    return np.clip(0.5 * (1.0 + np.tanh(0.5 * z)), EDGE, 1.0 - EDGE)
