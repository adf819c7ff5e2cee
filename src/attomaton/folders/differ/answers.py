"""How the answers of two models differ: what each retrieves and finds likeliest in the contexts of either."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.samples import Samples
from attomaton.corpus.vocabulary import Label
from attomaton.folders.model import ModelFolder
from attomaton.mechanics.theory.limit import Limit
from attomaton.mechanics.theory.many import TIE, mixing_scores

SHOWN = 12  # tokens of a context


@dataclass(frozen=True)
class Answered:
    """A context, the first of its distinct tokens in words, and the likeliest next token by either model."""

    last: Label
    tokens: list[Label]
    weight: float
    a: Label | None
    b: Label | None


@dataclass(frozen=True)
class Answers:
    """Of the contexts of one model: in how many the answers differ, and some of these: another likeliest token first.

    `retrieved` counts those in which the two retrieve other tokens, `likeliest` those in which the likeliest token of
    one is not a likeliest one of the other, `unanswered` those whose last token the other never saw as one. `same` is
    the weight of the contexts in which both retrieve the same, over that of all.
    """

    contexts: int
    same: float
    retrieved: int
    likeliest: int
    unanswered: int
    examples: list[Answered]


def answers_difference(a: Path, b: Path, most: int) -> dict[str, Answers]:
    """The answers of both models in the contexts of a, and in those of b."""
    x, y = (ModelFolder(folder).limit() for folder in (a, b))
    return {"of_a": _compared(x.samples, x, y, most), "of_b": _compared(y.samples, x, y, most)}


class _Scores(NamedTuple):
    """What one model says of many bags."""

    kept: Bool[np.ndarray, " entries"]
    score: Float[np.ndarray, " entries"]  # −∞ for what is not retrieved
    answered: Bool[np.ndarray, " samples"]


def _compared(samples: Samples, x: Limit, y: Limit, most: int) -> Answers:
    one, two = _scored(samples, x), _scored(samples, y)
    head, end = samples.start[:-1], samples.start[1:]
    both = one.answered & two.answered
    unlike = both & np.logical_or.reduceat(one.kept != two.kept, head)
    first, second = (_likeliest(s.score, samples.start) for s in (one, two))
    best = [np.maximum.reduceat(s.score, head) for s in (one, two)]
    other = both & ((two.score[first] < best[1] - TIE) | (one.score[second] < best[0] - TIE))
    at = np.flatnonzero(unlike | other)
    at = at[np.lexsort((-samples.weight[at], ~other[at]))][:most]
    word = samples.vocabulary
    return Answers(
        len(samples), float(samples.weight[both & ~unlike].sum() / samples.weight.sum()),
        int(unlike.sum()), int(other.sum()), int((~both).sum()),
        [
            Answered(
                word[samples.last[i]], [word[t] for t in samples.token[head[i] : end[i]][:SHOWN]],
                float(samples.weight[i]),
                word[samples.token[first[i]]], word[samples.token[second[i]]],
            )
            for i in at.tolist()
        ],
    )  # fmt: skip


def _scored(samples: Samples, limit: Limit) -> _Scores:
    """The bags through one model, in whose vocabulary tokens are looked up by name; those it does not know lose."""
    own = limit.graph.vocabulary
    ids = own.ids_of(samples.vocabulary.labels)
    last, token = ids[samples.last], ids[samples.token]
    each = np.repeat(last, samples.size)
    svm = limit.scores(limit.svm.coefficient, each, token)
    finite = limit.scores(limit.finite.coefficient, each, token)
    score = mixing_scores(samples.start, samples.count, np.where(token < 0, -np.inf, svm), finite)
    coupled = limit.embeddings is not None and not limit.embeddings.orthonormal
    answered = (last >= 0) & (coupled | np.isin(last, limit.graph.last_tokens))
    return _Scores(np.isfinite(score) & (token >= 0), score, answered)


def _likeliest(
    score: Float[np.ndarray, " entries"], start: Int[np.ndarray, " samples_and_one"]
) -> Int[np.ndarray, " samples"]:
    """Where the first of the best entries of each bag stands."""
    best = np.repeat(np.maximum.reduceat(score, start[:-1]), np.diff(start))
    at = np.flatnonzero(score == best)
    return at[np.searchsorted(at, start[:-1])]
