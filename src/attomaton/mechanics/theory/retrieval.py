"""How much of a data set the limit decides by retrieval, and how much it mixes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.limit import Limit


@dataclass(frozen=True)
class Retrieval:
    """A limit in shares and sizes.

    `strict` is the share of differences (last token, label, other token) that are strict, `hard` that of samples whose
    label is retrieved alone, `selected` the mass left on tokens that the label's own priority graph ties with it.
    `residual` is the worst of W_svm's certificate and the slope of W_fin, `error` what log-odds may be off, in nats
    (None where nobody can say).
    """

    strict: float
    hard: float
    selected: float
    loss_floor: float
    svm_norm: float
    finite_norm: float
    residual: float
    error: float | None


@dataclass(frozen=True)
class Spread:
    """The mean over draws, and the smallest and largest of them."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Dimension:
    """What `Retrieval` says in one dimension over draws of the embeddings: the worst of certificates, all seconds."""

    d: int
    draws: int
    strict: Spread
    hard: Spread
    selected: Spread
    loss_floor: Spread
    svm_norm: Spread
    finite_norm: Spread
    residual: float
    error: float | None
    seconds: float


def over_draws(d: int, found: Sequence[Retrieval], seconds: float) -> Dimension:
    """Several draws in one dimension as one record.

    >>> over_draws(2, [Retrieval(*[x] * 8) for x in (2.0, 3.0)], 0.1).loss_floor
    Spread(mean=2.5, low=2.0, high=3.0)
    """

    def spread(name: str) -> Spread:
        values = [getattr(one, name) for one in found]
        return Spread(float(np.mean(values)), float(min(values)), float(max(values)))

    errors = [one.error for one in found]
    return Dimension(
        d, len(found), spread("strict"), spread("hard"), spread("selected"), spread("loss_floor"),
        spread("svm_norm"), spread("finite_norm"), max(one.residual for one in found),
        None if None in errors else max(x for x in errors if x is not None), seconds,
    )  # fmt: skip


def rule_of_thumb(differences: int) -> float:
    """The dimension around which retrieval turns hard: √(n / 2) for n differences.

    n vectors in general position lie on one side of some plane, half of the time, in n / 2 dimensions (Cover 1965), and
    W has d². Differences share tokens, so that this is no theorem here.

    >>> rule_of_thumb(200)
    10.0
    """
    return float(np.sqrt(differences / 2))


def retrieval(limit: Limit) -> Retrieval:
    """What the limit retrieves on its own samples.

    >>> from attomaton import example_samples, solve_limit
    >>> found = retrieval(solve_limit(example_samples()))
    >>> round(found.strict, 3), round(found.hard, 3), found.selected
    (0.692, 0.308, 1.0)
    """
    samples, graph = limit.samples, limit.graph
    apart = graph.strict
    pair = graph.pairs(samples.last[samples.sample_of], samples.token)
    label = graph.pairs(samples.last, samples.label)[samples.sample_of]
    kept = graph.component[pair] == graph.component[label]
    alone = np.add.reduceat(kept, samples.start[:-1], dtype=np.int64) == 1
    score = np.where(kept, np.log(samples.count) + limit.finite.score[pair], -np.inf)
    most = np.maximum.reduceat(score, samples.start[:-1])[samples.sample_of]
    mass = np.exp(score - most)  # of what is kept, 1 for the largest of a sample
    own = build_graph(samples).component
    inside = np.add.reduceat(mass * (own[pair] == own[label]), samples.start[:-1])
    return Retrieval(
        float(apart.mean()) if len(apart) else 1.0,
        float(np.average(alone, weights=samples.weight)),
        float(
            np.average(inside / np.add.reduceat(mass, samples.start[:-1]), weights=samples.weight)
        ),
        limit.finite.loss_floor,
        limit.svm.norm,
        limit.finite.norm,
        max(limit.svm.certificate.worst, limit.finite.gradient),
        limit.finite.error,
    )
