"""Many contexts at once: the likeliest next tokens of each, and why the first of them is ahead of the second.

One by one that is what `Predictor.predict_proba` and `Predictor.explain` say.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.vocabulary import Label
from attomaton.predictor.bags import Bags, bagged
from attomaton.predictor.model import Predictor
from attomaton.predictor.ngrams import Best, first_places
from attomaton.predictor.reasons import Reasons

SOME = 1 << 13  # contexts at a time
EXPLAINED = 1 << 11  # contexts at a time that are explained
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
    row, token, q = _elsewhere(predictor, bags, found.best, top)
    rest, n = found.rest, len(bags)
    never = rest * predictor.by_ngrams(bags, np.full(n, K))
    owner = np.concatenate([bags.owner, row, np.arange(n)])
    tokens = np.concatenate([bags.token, token, np.full(n, K)])
    p = np.concatenate([found.gate[bags.owner] * found.share, rest[row] * q, never])
    best = first_places(owner, tokens, p, n, top)
    rows = np.repeat(np.arange(n), top)
    inside = bags.hold(rows, best.token.ravel()).reshape(best.token.shape)
    return best.token, best.p, inside, found.gate


def _elsewhere(
    predictor: Predictor, bags: Bags, best: Best, top: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The likeliest tokens that each bag does not hold, at least so many (`best`: the first choices): bag, token, p."""
    row, token, q = not_held(bags, best, np.arange(len(bags)))
    short = np.flatnonzero((np.bincount(row, minlength=len(bags)) < top) & (best.token[:, -1] >= 0))
    if len(short):
        more = predictor.first_outside(bags, top + int(np.diff(bags.start).max()), short)
        kept = ~np.isin(row, short)
        again = not_held(bags, more, short)
        row, token, q = (
            np.concatenate([x[kept], y]) for x, y in zip((row, token, q), again, strict=True)
        )
    return row, token, q


def not_held(
    bags: Bags, best: Best, rows: Int[np.ndarray, " rows"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tokens among the first choices for these bags that they do not hold: bag, token and p."""
    at, place = np.nonzero(best.token >= 0)
    absent = ~bags.hold(rows[at], best.token[at, place])
    at, place = at[absent], place[absent]
    return rows[at], best.token[at, place], best.p[at, place]


def explained(
    predictor: Predictor, contexts: Sequence[Sequence[Label]], backoff: bool = True
) -> Iterator[Reasons]:
    """What `Predictor.explain` says of each context about its two likeliest tokens.

    Terms are those of these two alone; of other tokens, and of words that training never saw, nothing is said.
    """
    for begin in range(0, len(contexts), EXPLAINED):
        yield from _explained(predictor, contexts[begin : begin + EXPLAINED], backoff)


def _explained(
    predictor: Predictor, contexts: Sequence[Sequence[Label]], backoff: bool
) -> Iterator[Reasons]:
    K, words = len(predictor.vocabulary), [predictor.looked_at(x) for x in contexts]
    rows = [predictor.ids_of(x) for x in words]
    length = np.array([len(x) for x in words])
    ids, left = np.concatenate(rows), np.cumsum(length) - length
    bags = bagged(ids, left, length, np.full(len(words), -1), np.ones(len(words)))
    seen = predictor.seen(bags, 2 + SPARE)
    found = seen.mixture
    owner, token, p = bags.owner, bags.token, found.share
    if backoff:
        row, other, q = _elsewhere(predictor, bags, found.best, 2)
        owner, token = np.concatenate([owner, row]), np.concatenate([token, other])
        p = np.concatenate([found.gate[bags.owner] * p, found.rest[row] * q])
    two = first_places(owner, token, p, len(bags), 2)
    behind = predictor.behind(bags, seen, two.token)
    firsts: list[list[Label]] = []
    for i, context in enumerate(words):
        new = dict(zip(rows[i].tolist(), context, strict=True))
        some = two.token[i, : 2 if two.p[i, 1] > 0 else 1].tolist()
        firsts.append([predictor.vocabulary[x] if x < K else new[x] for x in some])
    place = bags.place(np.repeat(np.arange(len(bags)), 2), two.token.ravel())
    held = [j for j in np.flatnonzero(place >= 0).tolist() if j % 2 < len(firsts[j // 2])]
    named = [firsts[j // 2][j % 2] for j in held]
    terms_at = dict(zip(held, predictor.terms(bags, seen, place[held], named), strict=True))
    order = predictor.order_outside(bags)
    gate_terms = {name: value.tolist() for name, value in seen.gate.items()} if backoff else {}
    for i, context in enumerate(words):
        first = firsts[i]
        terms = [terms_at.get(2 * i + k) for k in range(len(first))]
        gate, chance = float(found.gate[i]) if backoff else None, two.p[i].tolist()
        against = (
            behind.contrast(i, first, chance, terms, gate, context) if len(first) > 1 else None
        )
        yield Reasons(
            tuple(context), first[0], chance[0], terms[0] is not None, backoff, gate,
            tuple(x for x in terms if x is not None), (), (), "", order[i], against,
            {name: value[i] for name, value in gate_terms.items()},
        )  # fmt: skip
