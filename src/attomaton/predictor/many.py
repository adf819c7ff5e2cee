"""Many contexts at once: the likeliest next tokens of each, as `Predictor.predict_proba` gives them one by one."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from attomaton.corpus.vocabulary import Label
from attomaton.predictor.bags import Bags, bagged
from attomaton.predictor.model import Predictor
from attomaton.predictor.ngrams import Best, first_places

SOME = 1 << 13  # contexts at a time
SPARE = 8  # first choices of the n-grams beyond those asked for: the ones that the context holds fall away


class Likeliest(NamedTuple):
    """The likeliest tokens of each context, the best first, −1 where there are no more.

    An id of K is *any word never seen*, larger ones are words of the contexts that training never saw (`new`, in their
    order, from K + 1). `gate` is the chance that the next token is one of the context's.
    """

    token: Int[np.ndarray, "contexts places"]
    p: Float[np.ndarray, "contexts places"]
    inside: Bool[np.ndarray, "contexts places"]
    gate: Float[np.ndarray, " contexts"]
    new: tuple[Label, ...]


def likeliest(
    predictor: Predictor,
    ids: Int[np.ndarray, " tokens"],
    length: Int[np.ndarray, " contexts"],
    outside: Mapping[int, Label],
    top: int,
    backoff: bool = True,
) -> Likeliest:
    """The `top` likeliest tokens after contexts laid end to end; `outside` are words never seen, by place in `ids`."""
    K = len(predictor.vocabulary)
    new: dict[Label, int] = {}
    ids = ids.astype(np.int64)
    for at, label in outside.items():
        ids[at] = new.setdefault(label, K + 1 + len(new))
    end = np.cumsum(length)
    T = predictor.record["reading"].get("context") or int(length.max())
    length = np.minimum(length, T)
    left = end - length
    parts = []
    for begin in range(0, len(length), SOME):
        some = slice(begin, begin + SOME)
        blank = np.full(len(length[some]), -1)
        bags = bagged(ids, left[some], length[some], blank, np.ones(len(blank)))
        parts.append(_ranked(predictor, bags, top, backoff))
    token, p, inside, gate = (np.concatenate(x) for x in zip(*parts, strict=True))
    return Likeliest(token, p, inside, gate, tuple(new))


def _ranked(
    predictor: Predictor, bags: Bags, top: int, backoff: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    K = len(predictor.vocabulary)
    if not backoff:
        share = bags.shares(predictor.log_weights(bags))
        best = first_places(bags.owner, bags.token, share, len(bags), top)
        return best.token, best.p, best.token >= 0, np.ones(len(bags))
    found = predictor.mixture(bags, top + SPARE)
    row, token, q = _absent(bags, found.best, np.arange(len(bags)))
    short = np.flatnonzero(
        (np.bincount(row, minlength=len(bags)) < top) & (found.best.token[:, -1] >= 0)
    )
    if len(short):
        more = predictor.first_outside(bags, top + int(np.diff(bags.start).max()), short)
        kept = ~np.isin(row, short)
        again = _absent(bags, more, short)
        row, token, q = (
            np.concatenate([x[kept], y]) for x, y in zip((row, token, q), again, strict=True)
        )
    rest, n = found.rest, len(bags)
    never = rest * predictor.by_ngrams(bags, np.full(n, K))
    owner = np.concatenate([bags.owner, row, np.arange(n)])
    tokens = np.concatenate([bags.token, token, np.full(n, K)])
    p = np.concatenate([found.gate[bags.owner] * found.share, rest[row] * q, never])
    best = first_places(owner, tokens, p, n, top)
    rows = np.repeat(np.arange(n), top)
    inside = bags.hold(rows, best.token.ravel()).reshape(best.token.shape)
    return best.token, best.p, inside, found.gate


def _absent(
    bags: Bags, best: Best, rows: Int[np.ndarray, " rows"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tokens among the first choices for these bags that they do not hold: bag, token and p."""
    at, place = np.nonzero(best.token >= 0)
    token = best.token[at, place]
    absent = ~bags.hold(rows[at], token)
    at, place = at[absent], place[absent]
    return rows[at], best.token[at, place], best.p[at, place]
