r"""Labels outside the context: the layer inside, an n-gram outside, and a gate between them.

$$P(y \mid X, q) = g\, p(y \mid X, q) \;\; (y \in X), \qquad
  P(y \mid X, q) = (1 - g)\, \frac{p_2(y \mid q)}{1 - r} \;\; (y \notin X), \qquad
  r = \sum_{x \in X} p_2(x \mid q),$$

$$g = \sigma\bigl(a + b\, \mathrm{logit}\, g_q + c\, \mathrm{logit}\, r\bigr),$$

with $g_q$ the smoothed share of windows ending with q whose label was in their context, $p_2$ the discounted bigram,
and a, b, c fitted on validation windows; logit r is held to the range it has there, for nothing says how the line goes
on beyond. Words that training never saw are one event of $p_2$, *any word never seen*;
one that stands in the context belongs to the first case like every other token.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.windows import Windows
from attomaton.predictor.bags import Bags, blocks
from attomaton.predictor.ngrams import Best, NGrams

SMOOTHING = 20.0  # windows that the overall share is worth
NEWTON_STEPS = 50
FAR = float(np.finfo(float).max)  # of a feature that is held nowhere
EDGE = 1e-9  # shares are kept this far from 0 and 1 before their logit is taken


class Mixture(NamedTuple):
    """A distribution over everything, for some bags: shares inside the context, g, r, and the n-grams' first choices.

    A token of the context has g · share, any other (1 − g)/(1 − r) · its p by the n-grams.
    """

    share: Float[np.ndarray, " incidences"]
    gate: Float[np.ndarray, " bags"]
    reach: Float[np.ndarray, " bags"]
    best: Best

    @property
    def rest(self) -> Float[np.ndarray, " bags"]:
        """What the n-grams' p of a token outside is multiplied with."""
        return (1.0 - self.gate) / (1.0 - self.reach)


@dataclass(frozen=True, eq=False)
class Gate:
    """The chance that the next token is one of the context's."""

    inside: Float[np.ndarray, " vocab"]  # g_q
    overall: float  # g_q of a last token never seen
    weight: Float[np.ndarray, " three"]  # a, b, c
    held: tuple[float, float] = (-FAR, FAR)  # the least and the largest logit r it was fitted on

    def features(
        self, bags: Bags, r: Float[np.ndarray, " bags"]
    ) -> Float[np.ndarray, "bags three"]:
        """1, logit g_q, logit r as far as it is held."""
        by_last, by_reach = logit(self.share_after(bags.last)), np.clip(logit(r), *self.held)
        return np.stack([np.ones(len(bags)), by_last, by_reach], axis=1)

    def share_after(self, last: Int[np.ndarray, " bags"]) -> Float[np.ndarray, " bags"]:
        """g_q of these last tokens."""
        inside = np.append(self.inside, self.overall)
        return inside[np.where((last >= 0) & (last < len(self.inside)), last, len(self.inside))]

    def of(self, bags: Bags, r: Float[np.ndarray, " bags"]) -> Float[np.ndarray, " bags"]:
        """g of these bags, whose tokens hold r of p₂."""
        return squashed(self.features(bags, r) @ self.weight)


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
    held = float(F[:, 2].min()), float(F[:, 2].max())
    return Gate(share, overall, _logistic_fit(F, valid.realizable, valid.weight), held)


def _logistic_fit(
    F: Float[np.ndarray, "n three"], hit: Bool[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " three"]:
    """Newton's method from g = g_q, with a ridge towards it worth one window: a few windows are soon told apart."""
    start = np.array([0.0, 1.0, 0.0])
    ridge = 1.0 / float(weight.sum())
    weight, at = weight / weight.sum(), start

    def loss(w: Float[np.ndarray, " three"]) -> float:
        z = F @ w
        return float(
            weight @ np.logaddexp(0.0, np.where(hit, -z, z))
            + 0.5 * ridge * ((w - start) ** 2).sum()
        )

    value = loss(at)
    for _ in range(NEWTON_STEPS):
        g = squashed(F @ at)
        slope = (weight * (g - hit)) @ F + ridge * (at - start)
        if np.abs(slope).max() < 1e-10:
            break
        step = np.linalg.solve((F.T * (weight * g * (1 - g))) @ F + ridge * np.eye(3), slope)
        length = 1.0
        while (new := loss(at - length * step)) > value + 1e-12 and length > 1e-6:
            length /= 2
        at, value = at - length * step, new
    return at


def logit(p: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """log p/(1 − p), finite for 0 and 1 too."""
    p = np.clip(p, EDGE, 1.0 - EDGE)
    return np.log(p) - np.log1p(-p)


def squashed(z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The p whose logit is z, kept away from 0 and 1."""
    # A gate that is quite shut would make labels impossible.
    return np.clip(0.5 * (1.0 + np.tanh(0.5 * z)), EDGE, 1.0 - EDGE)
