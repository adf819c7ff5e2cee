"""What a predictor has to beat, on the same windows: counts, recency, n-grams.

Restricted to the tokens of the context:

    unigram            ∝ m_x, the count in the context
    most recent        ∝ h(d), d the distance of x's last occurrence; h(d) = how often a token last seen d steps ago
                       was the label, in training
    bigram             ∝ c(q, x); where all of these are 0, as unigram
    bigram, smoothed   ∝ c(q, x) + μ f(x), with f(x) = m_x^θ p(x) or m_x^θ
    bigram, mixed      p₂(x | q) of absolute discounting made shares of the context, mixed with unigram's shares by ν
    trigram, mixed     the same with p₃(x | b, q), which sees one word more: the b before the last token

On the whole vocabulary: the bigram p₂ and the trigram p₃ themselves. μ, f, θ, ν and the discounts are chosen on
validation windows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from attomaton.base.shapes import Float
from attomaton.corpus.windows import Windows
from attomaton.predictor.bags import Bags, blocks
from attomaton.predictor.ngrams import NGrams, count_ngrams, token_before

MUS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
THETAS = (0.0, 0.5, 1.0)
MIXES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5)
DISCOUNTS = (0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, eq=False)
class Baselines:
    """The statistics of a training corpus, and the settings chosen on validation windows."""

    ngrams: NGrams
    recency: Float[np.ndarray, " distances"]  # h(1), h(2), …; further away counts as the last
    mu: float = 1.0
    frequency: bool = False  # whether f(x) holds p(x)
    theta: float = 1.0
    mix: tuple[float, float] = (0.1, 0.1)  # ν of the bigram, of the trigram

    def unigram(self, bags: Bags) -> Float[np.ndarray, " incidences"]:
        """log m."""
        return np.log(bags.count)

    def most_recent(self, bags: Bags) -> Float[np.ndarray, " incidences"]:
        """log h(d)."""
        return np.log(self.recency[np.minimum(bags.distance, len(self.recency)) - 1])

    def bigram(self, bags: Bags) -> Float[np.ndarray, " incidences"]:
        """log c(q, x), or log m where no token of the context ever followed q."""
        count = self.ngrams.counted_after(bags.query, bags.token)
        none = (bags.sums(count) == 0)[bags.owner]
        with np.errstate(divide="ignore"):
            return np.log(np.where(none, bags.count, count))

    def smoothed_bigram(self, bags: Bags) -> Float[np.ndarray, " incidences"]:
        """log (c(q, x) + μ f(x))."""
        count = self.ngrams.counted_after(bags.query, bags.token)
        p = self.ngrams.unigram(bags.token) if self.frequency else 1.0
        return np.log(count + self.mu * p * bags.count**self.theta)

    def mixed(self, bags: Bags, order: int) -> Float[np.ndarray, " incidences"]:
        """log of p₂(x | q)'s or p₃(x | b, q)'s and m's shares, mixed."""
        return _mixed(bags, self.ngram_shares(bags, order), self.mix[order - 2])

    def ngram_shares(self, bags: Bags, order: int) -> Float[np.ndarray, " incidences"]:
        """p₂ or p₃ made shares of each context."""
        p = (
            self.ngrams.bigram(bags.query, bags.token)
            if order == 2
            else self.ngrams.trigram(bags.before[bags.owner], bags.query, bags.token)
        )
        return p / bags.sums(p)[bags.owner]

    @property
    def in_context(self) -> dict[str, Callable[[Bags], Float[np.ndarray, " incidences"]]]:
        """All of them by name: log-weights of the tokens of each context."""
        return {
            "unigram": self.unigram,
            "most recent": self.most_recent,
            "bigram": self.bigram,
            "bigram, smoothed": self.smoothed_bigram,
            "bigram, mixed": partial(self.mixed, order=2),
            "trigram, mixed": partial(self.mixed, order=3),
        }

    def settings(self) -> dict[str, Any]:
        """What was chosen, as plain data."""
        return {
            "mu": self.mu,
            "frequency": self.frequency,
            "theta": self.theta,
            "mix": list(self.mix),
            "discounts": list(self.ngrams.discounts),
            "recency": self.recency.tolist(),
        }


def fit_baselines(train: Windows, valid: Windows | None = None) -> Baselines:
    """Baselines counted on one corpus, their settings chosen on another (with the ids of the first)."""
    plain = Baselines(count_ngrams(train), _recency(train))
    if valid is None:
        return plain
    smooth = _choose_discounts(_choose_smoothing(plain, valid), valid)
    return _choose_mix(smooth, valid)


def _recency(windows: Windows) -> Float[np.ndarray, " distances"]:
    """How often a token last seen d steps ago was the label, for d = 1, 2, …; ½ of a win added to each."""
    longest = int(windows.length.max())
    wins, seen = np.zeros(longest), np.zeros(longest)
    for bags in blocks(windows, np.flatnonzero(windows.realizable)):
        weight = bags.weight[bags.owner]
        seen += np.bincount(bags.distance - 1, weight, longest)
        wins += np.bincount(bags.distance - 1, weight * bags.is_label, longest)
    return (wins + 0.5) / (seen + 1.0)


def _choose_smoothing(baselines: Baselines, valid: Windows) -> Baselines:
    """The μ, f and θ of least log-loss on the realizable validation windows."""
    choices = list(product(MUS, (False, True), THETAS))
    loss = np.zeros(len(choices))
    for bags in blocks(valid, np.flatnonzero(valid.realizable)):
        count = baselines.ngrams.counted_after(bags.query, bags.token)
        p, power = baselines.ngrams.unigram(bags.token), {t: bags.count**t for t in THETAS}
        for i, (mu, frequency, theta) in enumerate(choices):
            mass = count + mu * power[theta] * (p if frequency else 1.0)
            loss[i] -= bags.weight @ np.log(mass[bags.label_at] / bags.sums(mass))
    mu, frequency, theta = choices[int(np.argmin(loss))]
    return replace(baselines, mu=mu, frequency=frequency, theta=theta)


def _choose_mix(baselines: Baselines, valid: Windows) -> Baselines:
    """The ν of least log-loss on the realizable validation windows, for both orders."""
    loss = np.zeros((2, len(MIXES)))
    for bags in blocks(valid, np.flatnonzero(valid.realizable)):
        for order in (2, 3):
            p = baselines.ngram_shares(bags, order)
            loss[order - 2] -= [bags.weight @ _mixed(bags, p, v)[bags.label_at] for v in MIXES]
    two, three = (MIXES[i] for i in np.argmin(loss, axis=1))
    return replace(baselines, mix=(two, three))


def _mixed(
    bags: Bags, p: Float[np.ndarray, " incidences"], mix: float
) -> Float[np.ndarray, " incidences"]:
    m = bags.count / bags.sums(bags.count.astype(float))[bags.owner]
    return np.log((1 - mix) * p + mix * m)


def _choose_discounts(baselines: Baselines, valid: Windows) -> Baselines:
    """D₂ and then D₃ of least log-loss over the whole vocabulary, on all validation windows."""
    before, ngrams = token_before(valid), baselines.ngrams
    for order in (0, 1):
        losses = []
        for D in DISCOUNTS:
            pair = (D, ngrams.discounts[1]) if order == 0 else (ngrams.discounts[0], D)
            trial = replace(ngrams, discounts=pair)
            p = (
                trial.bigram(valid.last, valid.label)
                if order == 0
                else trial.trigram(before, valid.last, valid.label)
            )
            losses.append((-float(valid.weight @ np.log(p)), pair))
        ngrams = replace(ngrams, discounts=min(losses)[1])
    return replace(baselines, ngrams=ngrams)
