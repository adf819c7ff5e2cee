r"""The penalised fit: scores near a prior that explain the realizable windows, last token by last token.

$$\min_S \; -\frac1n \sum_i w_i \log p(y_i \mid X_i, q_i) + \frac{\lambda}{2n} \sum_{(q,x)\ \text{seen}} (S - S_0)^2,
  \qquad p(x \mid X, q) \propto m_x^\theta e^{S[q,x]},$$

with n the weight of all realizable windows, so that `lam` here is the λ·n of the penalty path: a price in units of
one window. What is kept is the correction S − S_0 on the pairs that occur; elsewhere it is 0.

Everything separates by last token, validation included, so a *part* (some last tokens) is solved, judged and
forgotten; several processes may share the parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.corpus.samples import Samples
from attomaton.corpus.windows import Windows
from attomaton.mechanics.experiment.path import penalty_path
from attomaton.predictor.bags import Bags, bags_of
from attomaton.predictor.counts import Counts, pair_key
from attomaton.predictor.priors import Prior

LOOSE = 1e-4  # residual while settings are compared
TIGHT = 1e-8  # residual of the answer
RANKS = 10  # places of a label that count


class Setting(NamedTuple):
    """One point of the grid: which prior (by its place in the list), θ, and the price."""

    prior: int
    theta: float
    lam: float


class Judged(NamedTuple):
    """Sums over validation windows: their weight, the log-loss, the hits, the reciprocal ranks among the first ten."""

    weight: float
    loss: float
    hits: float
    ranks: float = 0.0


@dataclass(frozen=True, eq=False)
class Work:
    """What every part needs: the corpora, the priors, and which windows belong together."""

    train: Windows
    valid: Windows  # with the ids of `train`
    priors: Sequence[Prior]

    @property
    def total(self) -> float:
        """The n of 1/n."""
        return float(self.train.weight[self.train.realizable].sum())


class Fitted(NamedTuple):
    """The corrections of one part, and how exact they are."""

    key: Int[np.ndarray, " pairs"]
    correction: Float[np.ndarray, " pairs"]
    loss: float  # the part's share of L
    residual: float  # largest gradient entry relative to `certificate`'s scale
    steps: int


# One part


def judge_part(
    work: Work, rows: Int[np.ndarray, " rows"], settings: Sequence[Setting]
) -> list[Judged]:
    """Every setting fitted on one part and judged on the validation windows with the same last tokens."""
    samples = work.train.samples(rows)
    key, _ = samples.pair_index()
    q, x = np.divmod(key, len(samples.vocabulary))
    mine = np.isin(work.valid.last, np.unique(q)) & work.valid.realizable
    at = np.flatnonzero(mine)
    if not len(at):
        return [Judged(0.0, 0.0, 0.0)] * len(settings)
    bags = bags_of(work.valid, at)
    wanted = pair_key(len(samples.vocabulary), bags.query, bags.token)
    place = Counts(key, np.zeros(len(key))).place(wanted)
    judged: dict[Setting, Judged] = {}
    for prior, theta in dict.fromkeys((s.prior, s.theta) for s in settings):
        prices = [s.lam for s in settings if (s.prior, s.theta) == (prior, theta)]
        origin = work.priors[prior].scores(q, x)
        start = work.priors[prior].scores(bags.query, bags.token) + theta * np.log(bags.count)
        path = penalty_path(
            samples, np.array(prices) / work.total, prior=origin, theta=theta,
            total=work.total, tolerance=LOOSE,
        )  # fmt: skip
        for lam, point in zip(prices, path, strict=True):
            assert point.scores is not None
            correction = np.where(place >= 0, (point.scores - origin)[place], 0.0)
            judged[Setting(prior, theta, lam)] = judge(bags, bags.shares(start + correction))
    return [judged[s] for s in settings]


def judge(bags: Bags, p: Float[np.ndarray, " incidences"]) -> Judged:
    """Log-loss, hits and reciprocal ranks of these shares on realizable bags."""
    mine = p[bags.label_at]
    rivals = bags.sums(((p >= mine[bags.owner]) & ~bags.is_label).astype(float))
    loss = -np.log(np.maximum(mine, 1e-300))
    ranks = np.where(rivals < RANKS, 1 / (1 + rivals), 0.0)
    return Judged(
        float(bags.weight.sum()), float(bags.weight @ loss), float(bags.weight @ (rivals == 0)),
        float(bags.weight @ ranks),
    )  # fmt: skip


def fit_part(work: Work, rows: Int[np.ndarray, " rows"], setting: Setting) -> Fitted:
    """The corrections of one part, certified."""
    samples = work.train.samples(rows)
    key, _ = samples.pair_index()
    origin = work.priors[setting.prior].scores(*np.divmod(key, len(samples.vocabulary)))
    (point,) = penalty_path(
        samples, [setting.lam / work.total], prior=origin, theta=setting.theta,
        total=work.total, tolerance=TIGHT,
    )  # fmt: skip
    assert point.scores is not None
    residual = certificate(samples, point.scores, origin, setting.theta, setting.lam)
    return Fitted(key, point.scores - origin, point.loss, residual, point.steps)


def certificate(
    samples: Samples,
    scores: Float[np.ndarray, " pairs"],
    origin: Float[np.ndarray, " pairs"],
    theta: float,
    lam: float,
) -> float:
    """The largest entry of the gradient, computed from the answer alone, relative to what one entry can be.

    An entry is Σ w (p(x) − 1[x = y]) + λ(S − S_0) over the windows that hold x: at most their weight.
    """
    _, index = samples.pair_index()
    owner = samples.sample_of
    mass = samples.count**theta * np.exp(scores[index])
    p = mass / np.add.reduceat(mass, samples.start[:-1])[owner]
    weight = samples.weight[owner]
    slope = np.bincount(index, weight * (p - (samples.token == samples.label[owner])))
    meets = np.bincount(index, weight)
    return float(np.abs(slope + lam * (scores - origin)).max() / meets.max())
