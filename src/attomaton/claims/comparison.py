r"""Trained layers side by side against the exact limit of their data: what each learned, when, and where they differ.

A strict priority is an edge of the exact graph between two components, and is learned at the first step looked at from
which its order stays right. An answer is the token of largest mass in a context of the data: the automaton's by its
component and $m_x \pi_x$, a layer's by $m_x e^{s_x}$ over the whole context. Of tied tokens log-odds are compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.vocabulary import Label
from attomaton.mechanics.theory.limit import Limit

EQUAL = 1e-9  # masses, in logarithms, that are one


@dataclass(frozen=True, eq=False)
class Trained:
    """One trained layer: the scores of all pairs, and since when each strict priority is right (−1: it is wrong)."""

    name: str
    optimizer: str
    steps: int
    score: Float[np.ndarray, " pairs"]
    learned: Int[np.ndarray, " strict"]


@dataclass(frozen=True)
class Point:
    """The share of priorities that are right at a step and stay so."""

    step: int
    share: float


@dataclass(frozen=True)
class Layer:
    """What one layer learned; `half` and `all` are steps, None where it did not come to that."""

    name: str
    optimizer: str
    steps: int
    right: int
    half: int | None
    all: int | None
    answers: int
    odds_mean: float | None  # how far log-odds of tied tokens are off, in nats
    odds_worst: float | None
    # Rank correlation of the steps at which priorities were learned with those of the first layer
    order: float | None
    curve: list[Point]


@dataclass(frozen=True)
class Priority:
    """One strict priority: by how much each layer has the winner above the loser, and since which step."""

    last: Label
    winner: Label
    loser: Label
    weight: float
    margins: list[float]
    learned: list[int | None]


@dataclass(frozen=True)
class Answer:
    """A context for which not all layers answer as the automaton does; `exact` are its likeliest tokens."""

    context: list[Label]
    last: Label
    samples: int
    exact: list[Label]
    given: list[Label]


@dataclass(frozen=True)
class Odds:
    """The log-odds of two tied tokens, in the limit and in each layer."""

    last: Label
    token: Label
    other: Label
    exact: float
    given: list[float]


@dataclass(frozen=True)
class Comparison:
    """Layers side by side; lists hold the first of what was counted."""

    data: str
    priorities: int
    samples: int
    tied: int  # pairs of tokens that meet in both orders
    disputed: int  # priorities that some layers have right and others wrong
    wrong: int  # that all have wrong
    different: int  # samples that not all layers answer as the automaton does
    layers: list[Layer]
    disputes: list[Priority]
    late: list[Priority]  # learned last by the first layer, or not at all
    answers: list[Answer]
    odds: list[Odds]


def compare(limit: Limit, layers: Sequence[Trained], data: str, top: int = 20) -> Comparison:
    """Trained layers against the limit of their data; `top` rows of each list."""
    graph, samples = limit.graph, limit.samples
    strict = np.flatnonzero(graph.strict)
    above, below = graph.edge_from[strict], graph.edge_to[strict]
    margin = np.stack([x.score[above] - x.score[below] for x in layers])
    right = margin > 0
    since = np.stack([x.learned for x in layers])
    weight = graph.edge_weight[strict]
    word = graph.vocabulary.__getitem__

    def priorities(places: Int[np.ndarray, " some"]) -> list[Priority]:
        return [
            Priority(
                word(int(graph.pair_last[above[i]])), word(int(graph.pair_token[above[i]])),
                word(int(graph.pair_token[below[i]])), float(weight[i]), margin[:, i].tolist(),
                [int(x) if x >= 0 else None for x in since[:, i]],
            )
            for i in places
        ]  # fmt: skip

    disputed = np.flatnonzero(right.any(axis=0) & ~right.all(axis=0))
    never = np.iinfo(since.dtype).max
    when = np.where(since[0] < 0, never, since[0])
    late = np.lexsort((-weight, -when))[:top]
    # Tied tokens of which one was chosen over the other, whichever it was: each pair of them once.
    tied = np.stack([graph.edge_from, graph.edge_to])[:, ~graph.strict]
    a, b = np.unique(np.sort(tied, axis=0), axis=1)
    exact = limit.finite.score[a] - limit.finite.score[b]
    odds = np.stack([x.score[a] - x.score[b] for x in layers])
    off = np.abs(odds - exact)
    least, best, told = _answers(limit, layers)
    fits = np.stack([best[x] >= least - EQUAL for x in told])
    unlike = np.flatnonzero(~fits.all(axis=0))
    worst = np.argsort(-off.max(axis=0, initial=0.0), kind="stable")[:top]
    return Comparison(
        data=data,
        priorities=len(strict),
        samples=int(samples.rows.sum()),
        tied=len(a),
        disputed=len(disputed),
        wrong=int((~right).all(axis=0).sum()),
        different=int(samples.rows[unlike].sum()),
        layers=[
            Layer(
                x.name, x.optimizer, x.steps, int(right[i].sum()), *_reached(since[i]),
                int(samples.rows[fits[i]].sum()),
                float(off[i].mean()) if len(a) else None, float(off[i].max()) if len(a) else None,
                _rank_correlation(since[0], since[i]), _curve(since[i], x.steps),
            )
            for i, x in enumerate(layers)
        ],
        disputes=priorities(disputed[np.argsort(-weight[disputed], kind="stable")[:top]]),
        late=priorities(late),
        answers=_shown(limit, unlike, (least, best, told), top, word),
        odds=[
            Odds(
                word(int(graph.pair_last[a[i]])), word(int(graph.pair_token[a[i]])),
                word(int(graph.pair_token[b[i]])), float(exact[i]), odds[:, i].tolist(),
            )
            for i in worst
        ],
    )  # fmt: skip


def _answers(
    limit: Limit, layers: Sequence[Trained]
) -> tuple[
    Float[np.ndarray, " samples"],
    Float[np.ndarray, " incidences"],
    list[Int[np.ndarray, " samples"]],
]:
    """The largest mass of the automaton in each sample, that of each of its tokens, and where each layer has its own.

    Of a context that was seen, the component retrieved is its label's: the label was chosen over all others.
    """
    graph, samples = limit.graph, limit.samples
    pair, owner = samples.pair_index()[1], samples.sample_of
    label = graph.component[graph.pairs(samples.last, samples.label)][owner]
    offset = np.log(samples.count)
    exact = np.where(graph.component[pair] == label, limit.finite.score[pair] + offset, -np.inf)
    begin = samples.start[:-1]
    told = []
    for layer in layers:
        mass = layer.score[pair] + offset
        top = np.flatnonzero(mass >= np.maximum.reduceat(mass, begin)[owner])
        told.append(top[np.unique(owner[top], return_index=True)[1]])
    return np.maximum.reduceat(exact, begin), exact, told


def _shown(
    limit: Limit,
    unlike: Int[np.ndarray, " unlike"],
    found: tuple[np.ndarray, np.ndarray, list[np.ndarray]],
    top: int,
    word: Callable[[int], Label],
) -> list[Answer]:
    """Contexts with unlike answers, those of most samples first; each of them once, whatever its labels."""
    samples, (least, best, told) = limit.samples, found
    rows: dict[tuple[int, bytes], int] = {}
    first: dict[tuple[int, bytes], int] = {}
    for i in unlike.tolist():
        own = slice(samples.start[i], samples.start[i + 1])
        key = int(samples.last[i]), samples.token[own].tobytes() + samples.count[own].tobytes()
        rows[key] = rows.get(key, 0) + int(samples.rows[i])
        first.setdefault(key, i)
    answers = []
    for key in sorted(rows, key=lambda k: -rows[k])[:top]:
        i = first[key]
        bag = np.arange(samples.start[i], samples.start[i + 1])
        context = np.repeat(samples.token[bag], samples.count[bag].astype(int))
        likely = samples.token[bag[best[bag] >= least[i] - EQUAL]]
        answers.append(
            Answer(
                [word(int(x)) for x in context], word(key[0]), rows[key], [word(int(x)) for x in likely],
                [word(int(samples.token[x[i]])) for x in told],
            )
        )  # fmt: skip
    return answers


def _reached(since: Int[np.ndarray, " strict"]) -> tuple[int | None, int | None]:
    """The steps at which half of the priorities, and all of them, were learned."""
    known: Bool[np.ndarray, " strict"] = since >= 0
    n, steps = len(since), np.sort(since[known])
    half = -(-n // 2)
    return (
        int(steps[half - 1]) if half and len(steps) >= half else None,
        int(steps[-1]) if n and len(steps) == n else None,
    )


def _curve(since: Int[np.ndarray, " strict"], end: int) -> list[Point]:
    steps, counts = np.unique(since[since >= 0], return_counts=True)
    share = np.cumsum(counts) / max(len(since), 1)
    points = [Point(int(s), float(y)) for s, y in zip(steps, share, strict=True)]
    if not points or points[-1].step < end:
        points.append(Point(end, points[-1].share if points else 0.0))
    return points


def _rank_correlation(a: Int[np.ndarray, " strict"], b: Int[np.ndarray, " strict"]) -> float | None:
    """Spearman's, over what both learned; None where one of them learned all of it at once."""
    from scipy.stats import rankdata

    both = (a >= 0) & (b >= 0)
    x, y = rankdata(a[both]), rankdata(b[both])
    if len(x) < 2 or not x.std() or not y.std():
        return None
    return float(np.corrcoef(x, y)[0, 1])
