"""Why the first token wins against the second: each term's share in their log-odds, and the facts behind the terms."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Int
from attomaton.corpus.vocabulary import Label
from attomaton.numerics import row_pointer
from attomaton.predictor.bags import Bags
from attomaton.predictor.priors import Kin
from attomaton.predictor.stage.looking import Tables, matches

BRANCH, WITHIN = "branch", "share within the branch"


@dataclass(frozen=True)
class Gram:
    """How often a token followed a history in training: so many of so many windows."""

    history: tuple[Label | None, ...]  # in reading order; None is the beginning of the sequence
    times: float
    of: float


@dataclass(frozen=True)
class Facts:
    """What the terms of one token go by.

    `distance` is how long ago it stood last (1: it is the last token), None for a token outside the context. Before its
    place `match_distance` steps ago stood the tokens `matched`, which are the last ones of the context too. Where
    nothing matched, `alike` stood before one of its places, the most like the last token (`cosine`). `grams` are its
    n-grams, the shortest first, as far back as training saw the history.
    """

    token: Label
    distance: int | None
    count: int
    matched: tuple[Label, ...]
    match_distance: int | None
    alike: Label | None
    cosine: float
    grams: tuple[Gram, ...]


@dataclass(frozen=True)
class Share:
    """One term: what it adds for the winner and for the runner-up."""

    term: str
    winner: float
    runner_up: float

    @property
    def difference(self) -> float:
        """Its share in the log-odds."""
        return self.winner - self.runner_up


@dataclass(frozen=True)
class Contrast:
    """The most probable token against the next: `log_odds` is the sum of the differences of all shares.

    Of two tokens of the context the shares are the terms of their scores, of two others those of their n-grams; of one
    and the other, which branch is likelier (`branch`) and what each has within its own.
    """

    winner: Label
    runner_up: Label
    winner_inside: bool
    runner_up_inside: bool
    log_odds: float
    shares: tuple[Share, ...]
    facts: tuple[Facts, ...]  # of the winner, of the runner-up; none without a stage


class FactsBehind:
    """What the facts about the tokens x, each after the bag `row`, are taken from."""

    def __init__(
        self,
        bags: Bags,
        row: Int[np.ndarray, " asked"],
        x: Int[np.ndarray, " asked"],
        tables: Tables,
    ):
        self.tables, self.ids, self.begin = tables, bags.context, row_pointer(bags.length)
        recent = bags.recent()
        # What `matches` says of every place, the contexts laid end to end
        self.match: Int[np.ndarray, " tokens"] = matches(recent)[:, ::-1][recent[:, ::-1] >= 0]
        # Windows of training, by order and token asked about
        self.times, self.of_all = tables.ngrams.counts(tables.histories(bags), row, x)

    def of(self, token: Label, x: int, bag: int, asked: int, words: Sequence[Label]) -> Facts:
        """The facts about one token (its id is x) after a bag, whose context is given in words."""
        here = slice(self.begin[bag], self.begin[bag + 1])
        ids = self.ids[here]
        T = len(ids)
        places = np.flatnonzero(ids == x)
        matched, at, alike, cosine = 0, None, None, 0.0
        if len(places):
            lengths = self.match[here][places]
            matched = int(lengths.max())
            at = int(T - places[np.flatnonzero(lengths == matched)[-1]]) if matched else None
            before = places[places > 0] - 1
            if not matched and len(before):
                near = _cosines(self.tables.kin, ids[before], int(ids[-1]))
                best = int(np.argmax(near))
                cosine = float(near[best])
                alike = words[before[best]] if cosine > 0 else None
        beginning: list[Label | None] = [None, *words]
        counts = zip(self.times[:, asked].tolist(), self.of_all[:, asked].tolist(), strict=True)
        grams = tuple(
            Gram(tuple(beginning[len(beginning) - n :]), times, of)
            for n, (times, of) in enumerate(counts)
            if of > 0
        )
        return Facts(
            token, int(T - places[-1]) if len(places) else None, len(places),
            tuple(words[T - matched :]) if matched else (), at, alike, cosine, grams,
        )  # fmt: skip


def _cosines(kin: Kin, x: Int[np.ndarray, " n"], last: int) -> np.ndarray:
    K = len(kin.left)
    known = (x < K) & (last < K)
    found = np.zeros(len(x))
    found[known] = kin.left[x[known]] @ kin.left[last if last < K else 0]
    return found
