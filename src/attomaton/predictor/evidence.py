"""The training windows behind a predictor's answer: those that its n-gram counts and its learned part rest on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Int
from attomaton.corpus.vocabulary import Label
from attomaton.corpus.windows import Windows
from attomaton.predictor.ngrams import token_back
from attomaton.predictor.reasons import Reasons

NGRAMS, LEARNED = "n-grams", "learned"


@dataclass(frozen=True)
class Row:
    """One training window: its place in the data, its context, and what came next."""

    place: str
    context: tuple[Label, ...]
    next: Label


@dataclass(frozen=True)
class Behind:
    """The windows behind one count: some of `windows` (their weights) in which `token` came after the `history`.

    Of the n-grams `history` is the longest after which training saw the token, None its beginning. Of the learned part
    it is the last token alone, and the contexts hold the token: windows that it won.
    """

    kind: str
    token: Label
    history: tuple[Label | None, ...]
    windows: float
    rows: tuple[Row, ...]


def behind(reasons: Reasons, train: Windows, most: int = 3) -> tuple[Behind, ...]:
    """What speaks for the prediction and for the next best in the training data, at most so many rows of each kind."""
    c = reasons.against
    tokens = [reasons.prediction] if c is None else [c.winner, c.runner_up]
    inside = {t.token for t in reasons.terms}
    facts = {} if c is None else {f.token: f for f in c.facts}
    word, found = train.vocabulary, []

    def told(kind: str, token: Label, history: tuple[Label | None, ...]) -> Behind:
        at = after(train, history, token)
        if kind == LEARNED:
            at = at[train.realizable[at]]
        rows = tuple(
            Row(train.place(i), tuple(word[x] for x in train.context(i)), token)
            for i in at[:most].tolist()
        )
        return Behind(kind, token, history, float(train.weight[at].sum()), rows)

    for token in tokens:
        history: tuple[Label | None, ...] = (reasons.context[-1],)
        if token in facts:
            seen = [g.history for g in facts[token].grams if g.times > 0 and g.history]
            history = seen[-1] if seen else history
        found.append(told(NGRAMS, token, history))
        if token in inside:
            found.append(told(LEARNED, token, (reasons.context[-1],)))
    return tuple(found)


def after(
    train: Windows, history: Sequence[Label | None], token: Label
) -> Int[np.ndarray, " windows"]:
    """The windows that end with this history and go on with this token."""
    id_of = train.vocabulary.id_of
    ids, y = [-1 if x is None else id_of(x) for x in history], id_of(token)
    if None in (y, *ids):
        return np.zeros(0, dtype=np.int64)
    at = np.flatnonzero(train.label == y)
    for back, x in enumerate(reversed(ids)):
        at = at[token_back(train, at, back) == x]
    return at
