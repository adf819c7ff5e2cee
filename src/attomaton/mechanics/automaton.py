r"""The automaton attention becomes: retrieve the highest priority (hard), mix what is tied (soft).

Given a context $X$ with last token $q$, the layer in the limit of training

1. *hard retrieval*: keeps the tokens of $X$ with the largest score $e_x^\top W_{svm} e_q$. On tokens that the
   priority graph of $q$ relates this is its highest component present in $X$; between unrelated components the
   scores decide, equal scores keep both;
2. *soft composition*: chooses among the kept tokens with probability $\propto m_x e^{e_x^\top W_{fin} e_q}$.

What the data do not speak about follows from the same two matrices and is said in the answer: a last token
never seen gives all scores 0, so the context's own counts decide; a token never seen with $q$ has score 0
(orthonormal embeddings), so it loses to what $q$ ranks above 0 and beats what $q$ ranks below.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attomaton.corpus.samples import Samples, plain_label
from attomaton.corpus.vocabulary import Label
from attomaton.errors import DataError, UsageError
from attomaton.mechanics.limit import Limit
from attomaton.numerics import sorted_unique

TIE = 1e-6  # scores this close are equal: far above the solvers' residuals, far below any margin


@dataclass(frozen=True)
class Edge:
    """One step of a path, `winner` over `loser`, with the samples that made it."""

    winner: Label
    loser: Label
    weight: float
    evidence: tuple[dict, ...]


@dataclass(frozen=True)
class Fate:
    """What became of one token of the context, and why.

    `reason` is one of `retrieved`, `outranked` (then `path` leads down from a retrieved token),
    `lower score` (unrelated in the graph; W_svm's scores decide) and `never seen with the last token`.
    """

    token: Label
    count: int
    probability: float
    reason: str
    svm_score: float
    finite_score: float
    path: tuple[Edge, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """A prediction with its reasons; `fates` come in order of falling probability, then score."""

    context: tuple[Label, ...]
    last: Label
    prediction: Label
    known_last: bool
    undetermined: bool
    fates: tuple[Fate, ...]
    soft_to_hard: tuple[tuple[float, dict[Label, float]], ...]
    note: str

    def record(self) -> dict[str, Any]:
        """All of it as plain data, tables instead of dictionaries keyed by token."""
        record = asdict(self)
        record["soft_to_hard"] = [
            {"radius": radius, "probability": [{"token": k, "p": v} for k, v in p.items()]}
            for radius, p in self.soft_to_hard
        ]
        for fate in record["fates"]:
            for edge in fate["path"]:
                for sample in edge["evidence"]:
                    sample["tokens"] = [
                        {"token": k, "count": m} for k, m in sample["tokens"].items()
                    ]
        return record


class Automaton:
    """Predictions of a fitted limit, and their reasons."""

    def __init__(self, limit: Limit):
        self.limit = limit

    def predict_proba(self, context: Sequence[Label], radius: float = np.inf) -> dict[Label, float]:
        """Next-token probabilities over the distinct tokens of the context.

        `radius` is ‖W‖ along W_svm: infinite is the limit of training, smaller values show the layer on
        its way there, W = W_fin + radius · W_svm/‖W_svm‖.
        """
        words, _, count, svm, finite = self._look_up(context)
        p = self._mix(count, svm, finite, radius)
        return dict(zip(words, p.tolist(), strict=True))

    def predict(self, context: Sequence[Label]) -> Label:
        """The likeliest next token (the first in the context among equals)."""
        probability = self.predict_proba(context)
        return max(probability, key=probability.__getitem__)

    def sample(
        self, context: Sequence[Label], rng: np.random.Generator, length: int = 1
    ) -> list[Label]:
        """A continuation drawn token by token; each drawn token becomes the next last token."""
        if length < 1:
            raise UsageError(f"length must be at least 1, not {length}.")
        words = list(context)
        for _ in range(length):
            probability = self.predict_proba(words)
            words.append(
                list(probability)[rng.choice(len(probability), p=list(probability.values()))]
            )
        return words[len(context) :]

    def explain(self, context: Sequence[Label], evidence: int = 3) -> Explanation:
        """The prediction for a context, and for every token of it why it won or lost.

        `evidence` is the number of samples shown for each edge of a path, heaviest first.
        """
        words, tokens, count, svm, finite = self._look_up(context)
        p = self._mix(count, svm, finite, np.inf)
        vocabulary, graph = self.limit.graph.vocabulary, self.limit.graph
        q = vocabulary.id_of(words_last := plain_label(context[-1]))
        known = q is not None and graph.pairs_of(q).stop > graph.pairs_of(q).start
        kept = np.flatnonzero(p > 0)
        parts = {graph.component[pair] if (pair := self._pair(q, int(tokens[i]))) is not None else -1 - i
                 for i in kept}  # fmt: skip
        lost = self._why_lost(q, tokens[kept], tokens[p == 0], evidence)
        fates = []
        for i, word in enumerate(words):
            reason, path = ("retrieved", ()) if p[i] > 0 else next(lost)
            values = int(count[i]), float(p[i]), reason, float(svm[i]), float(finite[i]), path
            fates.append(Fate(word, *values))
        order = sorted(range(len(words)), key=lambda i: (-p[i], -svm[i]))
        radii = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 8.0]) * max(self.limit.svm.norm, 1.0)
        return Explanation(
            tuple(map(plain_label, context)),
            words_last,
            words[int(np.argmax(p))],
            known,
            len(parts) > 1,
            tuple(fates[i] for i in order),
            tuple((float(r), dict(zip(words, self._mix(count, svm, finite, r).tolist(), strict=True)))
                  for r in radii),
            _note(known, len(parts)),
        )  # fmt: skip

    def _look_up(
        self, context: Sequence[Label]
    ) -> tuple[
        list[Label],
        Int[np.ndarray, " distinct"],
        Int[np.ndarray, " distinct"],
        Float[np.ndarray, " distinct"],
        Float[np.ndarray, " distinct"],
    ]:
        """Distinct tokens of a context in order of appearance: words, ids (−1 unknown), counts, scores."""
        if not len(context):
            raise DataError("the context is empty; a prediction needs at least one token.")
        counted: dict[Label, int] = {}
        for x in map(plain_label, context):
            counted[x] = counted.get(x, 0) + 1
        words = list(counted)
        ids = [self.limit.graph.vocabulary.id_of(x) for x in words]
        tokens = np.array([-1 if i is None else i for i in ids])
        last = np.full(len(words), tokens[words.index(plain_label(context[-1]))])
        svm = self.limit.scores(self.limit.svm.coefficient, last, tokens)
        finite = self.limit.scores(self.limit.finite.coefficient, last, tokens)
        return words, tokens, np.array(list(counted.values())), svm, finite

    def _mix(
        self,
        count: Int[np.ndarray, " distinct"],
        svm: Float[np.ndarray, " distinct"],
        finite: Float[np.ndarray, " distinct"],
        radius: float,
    ) -> Float[np.ndarray, " distinct"]:
        """The shares of one bag's tokens; see `mixing_scores`."""
        if not radius >= 0:
            raise UsageError(f"radius must be 0 or more, not {radius}.")
        whole = np.array([0, len(count)])
        score = mixing_scores(whole, count, svm, finite, radius, self.limit.svm.norm)
        e = np.exp(score - score.max())
        return e / e.sum()

    def _pair(self, last: int | None, token: int) -> int | None:
        return None if last is None or token < 0 else self.limit.graph.pair(last, int(token))

    def _why_lost(
        self,
        q: int | None,
        winners: Int[np.ndarray, " kept"],
        losers: Int[np.ndarray, " lost"],
        evidence: int,
    ) -> Iterator[tuple[str, tuple[Edge, ...]]]:
        """The reason of each loser, with the shortest path down to it from a winner."""
        if q is None:
            ways: list[list[int] | None] = [None for _ in losers]
        else:
            ways = self.limit.graph.paths(q, winners.tolist(), losers.tolist())
        for loser, way in zip(losers, ways, strict=True):
            if q is None or self._pair(q, int(loser)) is None:
                yield "never seen with the last token", ()
            elif way is None:
                yield "lower score", ()
            else:
                yield "outranked", tuple(self._edge(q, i, k, evidence) for i, k in pairwise(way))

    def _edge(self, q: int, i: int, j: int, evidence: int) -> Edge:
        samples, vocabulary = self.limit.samples, self.limit.graph.vocabulary
        rows = samples_behind(samples, q, i, j)
        heaviest = rows[np.argsort(-samples.weight[rows], kind="stable")][:evidence]
        return Edge(
            vocabulary[i],
            vocabulary[j],
            float(samples.weight[rows].sum()),
            tuple(
                {
                    "tokens": samples.bag(int(r)),
                    "next": vocabulary[samples.label[r]],
                    "weight": float(samples.weight[r]),
                    "source": int(samples.source[r]),
                }
                for r in heaviest
            ),
        )


def mixing_scores(
    start: Int[np.ndarray, " bags_and_one"],
    count: Int[np.ndarray, " entries"],
    svm: Float[np.ndarray, " entries"],
    finite: Float[np.ndarray, " entries"],
    radius: float = np.inf,
    norm: float = 1.0,
) -> Float[np.ndarray, " entries"]:
    r"""The score of every token of many bags: its softmax over a bag is what the automaton predicts.

    $\log m_x + e_x^\top W_{fin} e_q$ for the tokens with the highest score of $W_{svm}$ and −∞ for all others; on the
    way there, $W_{svm}$'s unit scores times `radius` are added instead (`norm` is $\|W_{svm}\|$).

    >>> mixing_scores(np.array([0, 3]), np.array([1, 1, 1]), np.array([1.0, 1.0, 0.0]), np.zeros(3)).tolist()
    [0.0, 0.0, -inf]
    """
    score = np.log(count) + finite
    if np.isinf(radius):
        top = np.repeat(np.maximum.reduceat(svm, start[:-1]), np.diff(start)) if len(svm) else svm
        return np.where(svm >= top - TIE, score, -np.inf)
    return score + radius * svm / norm if norm > 0 else score


def samples_behind(samples: Samples, last: int, i: int, j: int) -> Int[np.ndarray, " rows"]:
    """The samples that made the edge i → j in the graph of `last`: its label is i, it holds j."""
    lo, hi = np.searchsorted(samples.last, [last, last + 1])
    lo, hi = lo + np.searchsorted(samples.label[lo:hi], [i, i + 1])
    part = samples.take(np.arange(lo, hi))
    return lo + sorted_unique(part.sample_of[part.token == j])


def _note(known: bool, parts: int) -> str:
    note = "One component is retrieved; the theorem fixes all odds."
    if parts > 1:
        note = (
            "Tokens the data leave unrelated share the highest score: the theorem keeps them all "
            "but leaves the odds between them to the start of training; those of a start at zero "
            "are shown."
        )
    if not known:
        note = "The last token was never a last token in the data: no graph of its own. " + note
    return note
