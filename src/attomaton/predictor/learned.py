"""What a predictor has learned, as records: the terms that pay, their strongest weights, its order after one token."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.corpus.vocabulary import Label
from attomaton.errors import DataError
from attomaton.predictor.model import Predictor
from attomaton.predictor.stage.looking import FREQUENCIES, LONGEST_MATCH
from attomaton.predictor.stage.model import ConvexStage
from attomaton.predictor.stage.terms import DISTANCES, GROUPS, RARITIES

LEAST_WINDOWS = 5  # of a history that is called telling
COMING = 5  # tokens that are told to have come next


@dataclass(frozen=True)
class Group:
    """A group of terms of the stage: what leaving it out would cost, in nats on the windows that judge it."""

    name: str
    kept: bool
    weights: int
    gain: float
    error: float


@dataclass(frozen=True)
class Recency:
    """What having stood so many places back (or more, up to the next of these) adds, for rare and frequent tokens."""

    distance: int
    rare: float
    frequent: float


@dataclass(frozen=True)
class Step:
    """A weight and what it is of."""

    name: str
    weight: float


@dataclass(frozen=True)
class Telling:
    """Two tokens that say more than the last of them alone: how often a third came after both, and after the last."""

    history: tuple[Label, Label]
    token: Label
    times: float
    of: float
    after_last: float
    of_last: float


@dataclass(frozen=True)
class Pair:
    """What was learned about a token after a last token, beyond the prior."""

    last: Label
    token: Label
    learned: float


@dataclass(frozen=True)
class Learned:
    """What a predictor has learned; without a stage `reason` says why, and there are no groups."""

    tokens: int
    pairs: int
    context: int | None
    theta: float
    prior: Mapping[str, float]
    penalty: float
    slope: float
    order: int
    reason: str
    tuned_loss: float
    stage_loss: float
    groups: tuple[Group, ...]
    recency: tuple[Recency, ...]
    induction: tuple[Step, ...]
    orders: tuple[Step, ...]
    telling: tuple[Telling, ...]
    strongest: tuple[Pair, ...]


@dataclass(frozen=True)
class Ranked:
    """One token in the order after a last token: score = Σ prior + learned; it followed in `times` windows."""

    token: Label
    score: float
    prior: Mapping[str, float]
    learned: float
    times: float


@dataclass(frozen=True)
class Came:
    """A token and in how many training windows it came next."""

    token: Label
    times: float


@dataclass(frozen=True)
class Order:
    """The order that a predictor learned after one last token: the first of `seen` tokens.

    `of` training windows ended with the last token; `came` are the tokens that came next most often.
    """

    last: Label
    seen: int
    of: float
    tokens: tuple[Ranked, ...]
    came: tuple[Came, ...]


def learned(predictor: Predictor, top: int = 10) -> Learned:
    """What a predictor has learned, at most `top` rows of each kind."""
    record, stage = predictor.record, predictor.stage
    told = record.get("stage") or {"reason": "made before there was one"}
    return Learned(
        len(predictor.vocabulary),
        len(predictor.corrections.key),
        record["reading"].get("context"),
        predictor.theta,
        predictor.prior.weight,
        float(record["chosen"]["lambda"]),
        1.0 if stage is None else stage.slope,
        2 if stage is None else stage.tables.ngrams.order,
        told["reason"],
        float(told.get("tuned_loss") or 0.0),
        float(told.get("stage_loss") or 0.0),
        () if stage is None else _groups(told, stage),
        () if stage is None else _recency(stage),
        () if stage is None else _induction(stage),
        () if stage is None else _orders(stage),
        _telling(predictor, top),
        _strongest(predictor, top),
    )


def order_after(predictor: Predictor, last: Label, top: int = 20) -> Order:
    """The first tokens in the order after a last token, among those that windows ending with it held."""
    vocabulary = predictor.vocabulary
    q = vocabulary.id_of(last)
    if q is None:
        near = vocabulary.nearest(last)
        raise DataError(
            f"{last!r} is not in the vocabulary{'' if near is None else f'; did you mean {near!r}?'}"
        )
    K, corrections, two = len(vocabulary), predictor.corrections, predictor.baselines.ngrams.two
    begin, end = np.searchsorted(corrections.key, [q * K, (q + 1) * K])
    x, value = corrections.key[begin:end] - q * K, corrections.count[begin:end]
    prior = predictor.prior.terms(np.full(len(x), q), x)
    score = value + sum(prior.values(), np.zeros(len(x)))
    times = two.of(q * K + x)
    first, behind = np.searchsorted(two.key, [q * K, (q + 1) * K])
    ranked = [
        Ranked(
            vocabulary[x[i]], float(score[i]), {name: float(v[i]) for name, v in prior.items()}, float(value[i]),
            float(times[i]),
        )
        for i in np.argsort(-score, kind="stable")[:top]
    ]  # fmt: skip
    count = two.count[first:behind]
    came = [
        Came(vocabulary[two.key[first + i] - q * K], float(count[i]))
        for i in np.argsort(-count, kind="stable")[:COMING]
    ]
    return Order(vocabulary[q], len(x), float(count.sum()), tuple(ranked), tuple(came))


# The stage


def _groups(told: Mapping[str, Any], stage: ConvexStage) -> tuple[Group, ...]:
    """Every group with the last trial that left it out."""
    trials = told.get("trials") or ()
    found = {x["group"]: (-x["gain"], x["error"]) for x in trials if x["price"] is None}
    return tuple(
        Group(name, name in stage.weight, len(stage.weight.get(name, ())), *found[name])
        for name in GROUPS
        if name in found
    )


def _recency(stage: ConvexStage) -> tuple[Recency, ...]:
    """The curves of rare and of frequent tokens: means over half of the bins of frequency, from their first point."""
    if "recency" not in stage.weight:
        return ()
    curve = stage.weight["recency"].reshape(len(DISTANCES), RARITIES)[:, :FREQUENCIES]
    half = FREQUENCIES // 2
    rare, frequent = curve[:, :half].mean(axis=1), curve[:, half:].mean(axis=1)
    return tuple(
        Recency(int(d), float(a - rare[0]), float(b - frequent[0]))
        for d, a, b in zip(DISTANCES, rare, frequent, strict=True)
        if a or b
    )


def _induction(stage: ConvexStage) -> tuple[Step, ...]:
    """What a match of so many tokens adds to none, on average over how frequent the last token is."""
    if "induction" not in stage.weight:
        return ()
    exact = stage.weight["induction"][: (LONGEST_MATCH + 1) * RARITIES]
    mean = exact.reshape(LONGEST_MATCH + 1, RARITIES)[:, :FREQUENCIES].mean(axis=1)
    return tuple(Step(str(k), float(mean[k] - mean[0])) for k in range(1, LONGEST_MATCH + 1))


def _orders(stage: ConvexStage) -> tuple[Step, ...]:
    if "n-grams" not in stage.weight:
        return ()
    n = stage.tables.ngrams.order
    names = [*(f"{k}-gram" for k in range(1, n + 1)), "lower orders where a history is new", "kin"]
    return tuple(map(Step, names, stage.weight["n-grams"].tolist()))


# Counts and corrections


def _telling(predictor: Predictor, top: int) -> tuple[Telling, ...]:
    """The trigrams that gain most over bigrams: times · log of the ratio of the two shares."""
    ngrams, K, label = predictor.baselines.ngrams, len(predictor.vocabulary), predictor.vocabulary
    key, times = ngrams.three.key, ngrams.three.count
    if not len(key):
        return ()
    history = np.cumsum(np.diff(key // K, prepend=-1) != 0) - 1  # those of one stand together
    of = np.bincount(history, times)[history]
    pair = key % (K * K)
    after, last = ngrams.two.of(pair), pair // K
    total = np.bincount(ngrams.two.key // K, ngrams.two.count, K)
    gain = times * (np.log(times / of) - np.log(np.maximum(after, times) / total[last]))
    gain[of < LEAST_WINDOWS] = 0.0
    return tuple(
        Telling(
            (label[key[i] // (K * K)], label[last[i]]), label[key[i] % K], float(times[i]), float(of[i]),
            float(after[i]), float(total[last[i]]),
        )
        for i in np.argsort(-gain, kind="stable")[:top]
        if gain[i] > 0
    )  # fmt: skip


def _strongest(predictor: Predictor, top: int) -> tuple[Pair, ...]:
    """The largest corrections, for or against."""
    K, corrections, label = len(predictor.vocabulary), predictor.corrections, predictor.vocabulary
    return tuple(
        Pair(label[corrections.key[i] // K], label[corrections.key[i] % K], float(corrections.count[i]))
        for i in np.argsort(-np.abs(corrections.count), kind="stable")[:top]
    )  # fmt: skip
