r"""The terms of the stage: groups of weights, each group reading one thing off a token.

log-odds(x) = slope · (tuned score) + Σ over groups; a group adds up a few cells of a table of weights:

    recency       how long ago x stood last × how frequent x is
    induction     the longest match before x × how frequent the last token is; without one, how alike to the last token
                  something before x is
    own recency   how long ago, for each of the most frequent tokens by itself
    n-grams       log p₁ of x, what each order adds to it, what lower orders say where a history is new; kin of the
                  last but one token with x
    count         how often x stands in the context × how frequent x is; that x is the last token itself
    token         x itself
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.predictor.kneser_ney import Orders
from attomaton.predictor.stage.looking import COMMON, FREQUENCIES, LONGEST_MATCH, Look, Tables

DISTANCES = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128])  # where bins of distances begin
COSINES = 10  # bins of how alike, from −0.2 to 1
MOST = 4  # as often or more is one bin
RARITIES = FREQUENCIES + 1


class Cells(NamedTuple):
    """For every incidence the cells of a table that are added up, and how often each (a value)."""

    at: Int[np.ndarray, "incidences cells"]
    value: Float[np.ndarray, "incidences cells"]


@dataclass(frozen=True)
class Group:
    """A table of weights: its size, the cells of a token, and the prices of the ridge that are tried, dearest last."""

    name: str
    size: Callable[[Tables], int]
    cells: Callable[[Look, Tables], Cells]
    price: float  # to begin with, in units of one window


def distance_bin(distance: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The bin of each distance.

    >>> distance_bin(np.array([1, 5, 6, 999])).tolist()
    [0, 3, 4, 11]
    """
    return np.searchsorted(DISTANCES, distance, "right") - 1


def _one(at: Int[np.ndarray, " incidences"]) -> Cells:
    return Cells(at[:, None], np.ones((len(at), 1)))


def _recency(look: Look, tables: Tables) -> Cells:
    rarity = tables.frequency[tables.known(look.bags.token)]
    return _one(distance_bin(look.bags.distance) * RARITIES + rarity)


def _induction(look: Look, tables: Tables) -> Cells:
    of_last = tables.frequency[tables.known(look.bags.last)][look.bags.owner]
    match = look.match.astype(np.int64)
    exact = (LONGEST_MATCH + 1) * RARITIES
    bins = np.clip(((look.alike + 0.2) / 1.2 * COSINES).astype(np.int64), 0, COSINES - 1)
    at = np.stack([match * RARITIES + of_last, exact + bins], axis=1)
    return Cells(at, np.stack([np.ones(len(match)), (match == 0).astype(float)], axis=1))


def _own_recency(look: Look, tables: Tables) -> Cells:
    own = tables.common[tables.known(look.bags.token)]
    at = np.maximum(own, 0) * len(DISTANCES) + distance_bin(look.bags.distance)
    return Cells(at[:, None], (own >= 0).astype(float)[:, None])


def ngram_steps(
    orders: Orders, owner: Int[np.ndarray, " incidences"]
) -> Float[np.ndarray, "steps incidences"]:
    """log p₁, what each order adds to it where its history was seen, and what the longest says beside all that.

    They add up to log p of the longest.
    """
    log = np.log(orders.p)
    steps = np.zeros((len(log) + 1, log.shape[1]))
    steps[0] = reached = log[0]
    for n in range(1, len(log)):
        steps[n] = np.where(orders.seen[n][owner], log[n] - reached, 0.0)
        reached = reached + steps[n]
    steps[-1] = log[-1] - reached
    return steps


def _ngrams(look: Look, tables: Tables) -> Cells:
    bags = look.bags
    kin = tables.kin.of(bags.before[bags.owner], bags.token)
    value = np.concatenate([ngram_steps(look.orders, bags.owner), kin[None]]).T
    return Cells(np.broadcast_to(np.arange(value.shape[1]), value.shape), value)


def _count(look: Look, tables: Tables) -> Cells:
    bags = look.bags
    rarity = tables.frequency[tables.known(bags.token)]
    often = np.minimum(bags.count, MOST) - 1
    at = np.stack([often * RARITIES + rarity, MOST * RARITIES + rarity], axis=1)
    return Cells(at, np.stack([often > 0, bags.token == bags.query], axis=1).astype(float))


def _token(look: Look, tables: Tables) -> Cells:
    return _one(tables.known(look.bags.token))


GROUPS: Mapping[str, Group] = {
    group.name: group
    for group in (
        Group("recency", lambda t: len(DISTANCES) * RARITIES, _recency, 1.0),
        Group("induction", lambda t: (LONGEST_MATCH + 1) * RARITIES + COSINES, _induction, 1.0),
        Group("own recency", lambda t: min(COMMON, t.K) * len(DISTANCES), _own_recency, 3.0),
        Group("n-grams", lambda t: t.ngrams.order + 2, _ngrams, 0.3),
        Group("count", lambda t: (MOST + 1) * RARITIES, _count, 1.0),
        Group("token", lambda t: t.K + 1, _token, 3.0),
    )
}
