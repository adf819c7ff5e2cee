r"""What the stage sees of a token beside its tuned score: where it stood, after what, and what n-grams say of it.

For a token x of a context that ends with q:

    match     how many of the tokens before some place of x are the same, in the same order, as the last ones of the
              context (the longest over all places of x): what induction goes by
    alike     the largest cosine of q and a token before x, as left neighbours (`priors.Kin`): the same, for tokens
              that are used alike
    orders    p of x by the n-grams of all orders (`kneser_ney`)
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.predictor.bags import Bags
from attomaton.predictor.kneser_ney import KneserNey, Orders
from attomaton.predictor.priors import Kin

LONGEST_MATCH = 5
FREQUENCIES = 8  # bins of how often a token was the label in training
COMMON = 500  # tokens with a recency of their own
ROWS = 4096  # contexts whose cosines are taken at a time


@dataclass(frozen=True, eq=False)
class Tables:
    """What training says of tokens: their n-grams and their kin; how frequent each is follows from the first."""

    ngrams: KneserNey
    kin: Kin

    @property
    def K(self) -> int:
        """How many tokens training saw."""
        return self.ngrams.K

    @cached_property
    def times(self) -> Float[np.ndarray, " vocab"]:
        """How often each token was the label."""
        found = np.zeros(self.K)
        first = self.ngrams.levels[0]
        found[first.grams.key] = first.windows
        return found

    @cached_property
    def frequency(self) -> Int[np.ndarray, " vocab_and_one"]:
        """The bin of each token, equally wide in log(1 + times); the last for any word never seen."""
        log = np.log1p(self.times)
        bins = np.minimum((log / log.max() * FREQUENCIES).astype(np.int64), FREQUENCIES - 1)
        return np.append(bins, FREQUENCIES)

    @cached_property
    def common(self) -> Int[np.ndarray, " vocab_and_one"]:
        """The place of each token among the most frequent ones, −1 for the others."""
        place = np.full(self.K + 1, -1)
        first = np.argsort(-self.times, kind="stable")[:COMMON]
        place[first] = np.arange(len(first))
        return place

    def histories(self, bags: Bags) -> Int[np.ndarray, "bags tokens"]:
        """What the n-grams look back at."""
        return bags.recent(self.ngrams.order - 1)

    def known(self, x: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """The same ids with K for every word never seen."""
        return np.where((x >= 0) & (x < self.K), x, self.K)


@dataclass(frozen=True, eq=False)
class Look:
    """Some bags with all that the stage sees of their tokens."""

    bags: Bags
    score: Float[np.ndarray, " incidences"]  # the tuned one
    match: Int[np.ndarray, " incidences"]
    alike: Float[np.ndarray, " incidences"]
    orders: Orders

    @property
    def p(self) -> Float[np.ndarray, " incidences"]:
        """What the longest n-grams make of each token."""
        return np.asarray(self.orders.p[-1])


def look_at(bags: Bags, score: Float[np.ndarray, " incidences"], tables: Tables) -> Look:
    """What the stage sees of these bags."""
    recent = bags.recent()
    there = recent >= 0
    # Places are looked at backwards and bags list them forwards: `[:, ::-1]` before they are laid end to end.
    match = matches(recent)
    alike = _alike(recent, tables.kin)
    return Look(
        bags,
        score,
        bags.over_places(np.maximum, match[:, ::-1][there[:, ::-1]]),
        bags.over_places(np.maximum, alike[:, ::-1][there[:, ::-1]]),
        tables.ngrams.of_each_order(tables.histories(bags), bags.owner, bags.token),
    )


def matches(
    recent: Int[np.ndarray, "bags places"], longest: int = LONGEST_MATCH
) -> Int[np.ndarray, "bags places"]:
    """For every place of contexts given backwards: how many tokens before it are the last ones of the context.

    The context *a b c a b*: before its *c* stand *a b*, and these are its last tokens.

    >>> matches(np.array([[1, 0, 2, 1, 0]])).tolist()
    [[0, 0, 2, 0, 0]]
    """
    bags, places = recent.shape
    found = np.zeros((bags, places), dtype=np.int16)
    going: Bool[np.ndarray, "bags places"] = np.ones((bags, places), dtype=bool)
    for k in range(min(longest, places - 1)):
        same = np.zeros((bags, places), dtype=bool)
        before = recent[:, k + 1 :]
        same[:, : places - 1 - k] = (before == recent[:, k, None]) & (before >= 0)
        going &= same
        found += going
    return found


def _alike(recent: Int[np.ndarray, "bags places"], kin: Kin) -> Float[np.ndarray, "bags places"]:
    """The cosine of the last token and the one before each place, both as left neighbours; 0 where one is unknown."""
    K = len(kin.left)
    rows = np.concatenate([kin.left, np.zeros((1, kin.left.shape[1]), kin.left.dtype)])
    ids = np.where((recent >= 0) & (recent < K), recent, K)
    found = np.zeros(recent.shape, dtype=np.float32)
    for begin in range(0, len(ids), ROWS):
        some = ids[begin : begin + ROWS]
        last = rows[some[:, 0]]
        found[begin : begin + ROWS, :-1] = np.matmul(rows[some[:, 1:]], last[:, :, None])[:, :, 0]
    return found
