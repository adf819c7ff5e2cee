"""Why a predictor answers as it does: every term of its scores, and the first token beside the second."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.corpus.vocabulary import Label
from attomaton.mechanics.theory.automaton import Unknown, naming
from attomaton.predictor.stage.model import SCORE
from attomaton.predictor.stage.reasons import BRANCH, WITHIN, Contrast, Facts, FactsBehind, Share


@dataclass(frozen=True)
class Term:
    """Why one token of a context is as probable as it is: the terms add up to its score.

    The tuned score is count_term + Σ prior + learned; `prior` has one entry for each feature, `learned` is the
    correction, 0 for a pair that training never saw (`seen` says which). Without a stage p ∝ exp(tuned score); with one
    p ∝ exp(slope · tuned score + Σ stage), and `stage` has one entry for each of its groups.
    """

    token: Label
    count: int
    count_term: float  # θ log m
    prior: dict[str, float]
    learned: float
    seen: bool
    p: float
    slope: float = 1.0
    stage: dict[str, float] = field(default_factory=dict)

    @property
    def tuned(self) -> float:
        """The tuned score."""
        return self.count_term + sum(self.prior.values()) + self.learned

    @property
    def score(self) -> float:
        """The sum of all terms."""
        return self.slope * self.tuned + sum(self.stage.values())


@dataclass(frozen=True)
class Reasons:
    """Why a predictor answers as it does: the branch that answered, the odds of the winner, the terms behind them.

    With `backoff` the next token is one of the context's with probability `gate`; `inside` says whether the
    `prediction` is one, and its probability is `p`. A token of the context has gate · its share (`terms`), one outside
    (1 − gate) · its share of the n-grams (`outside`, the likeliest first): the longest ones of the stage, or the
    bigram after the last token (`order` 2; 1 where nothing followed it in training). Without back-off `gate` is None
    and nothing lies outside. `against` is the prediction beside the next best; `gate_terms` are what the gate of a
    stage goes by, adding up to logit gate.
    """

    context: tuple[Label, ...]  # the tokens that were looked at
    prediction: Label
    p: float
    inside: bool
    backoff: bool
    gate: float | None
    terms: tuple[Term, ...]
    outside: tuple[tuple[Label | None, float], ...]
    unknown: tuple[Unknown, ...]
    note: str
    order: int = 2
    against: Contrast | None = None
    gate_terms: dict[str, float] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """All of it as plain data."""
        record = asdict(self)
        record["outside"] = [{"token": x, "p": p} for x, p in self.outside]
        return record


@dataclass(frozen=True, eq=False)
class Behind:
    """What stands behind the log-odds of two tokens after each of some bags.

    `steps` has a column for each of them, bag by bag: what the n-grams of each order add to its log p. `facts` are
    there with a stage.
    """

    two: Int[np.ndarray, "bags 2"]
    names: tuple[str, ...]
    steps: Float[np.ndarray, "steps twice_as_many"]
    facts: FactsBehind | None

    def contrast(
        self,
        i: int,
        first: Sequence[Label],
        p: Sequence[float],
        terms: Sequence[Term | None],
        gate: float | None,
        words: Sequence[Label],
    ) -> Contrast:
        """The two tokens after bag i, whose context has these words, side by side; outside it they have no terms."""
        parts: list[dict[str, float]]
        mine, other = terms
        if mine is not None and other is not None:
            parts = [scored(mine), scored(other)]
        elif mine is None and other is None:
            both = self.steps[:, 2 * i : 2 * i + 2].T.tolist()
            parts = [dict(zip(self.names, steps, strict=True)) for steps in both]
        else:
            g = 1.0 if gate is None else gate
            chance = [1.0 - g if term is None else g for term in terms]
            parts = [
                {BRANCH: float(np.log(c)), WITHIN: float(np.log(q / c))}
                for q, c in zip(p, chance, strict=True)
            ]
        facts: tuple[Facts, ...] = ()
        if self.facts is not None:
            both = zip(first, self.two[i].tolist(), strict=True)
            facts = tuple(
                self.facts.of(x, at, i, 2 * i + k, words) for k, (x, at) in enumerate(both)
            )
        shares = tuple(Share(name, value, parts[1][name]) for name, value in parts[0].items())
        odds = sum(share.difference for share in shares)
        return Contrast(
            first[0], first[1], mine is not None, other is not None, odds, shares, facts
        )


def scored(term: Term) -> dict[str, float]:
    """The terms of a score, the tuned one as a whole where a stage stands above it."""
    if term.stage:
        return {SCORE: term.slope * term.tuned, **term.stage}
    parts = {"count": term.count_term, **term.prior, "learned": term.learned}
    return {name: term.slope * value for name, value in parts.items()}


def taken_as(unknown: Sequence[Unknown]) -> str:
    """What a predictor makes of words it has never seen, in sentences; nothing where it knows all."""
    if not unknown:
        return ""
    return (
        f"{naming(unknown)} The prior speaks for words never seen; nothing was learned about them."
    )
