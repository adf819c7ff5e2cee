r"""N-gram counts of all windows, and the probabilities that absolute discounting makes of them.

$$p_1(x) = \frac{c(x) + \frac12}{N + \frac12 (K + 1)}, \qquad
  p_2(x \mid q) = \frac{\max(c(q, x) - D_2, 0) + D_2\, u(q)\, p_1(x)}{c(q)},$$

and $p_3(x \mid b, q)$ from $p_2$ and $D_3$ in the same way; u(q) is how many different tokens followed q
(with weights below $D_2$: what was really taken away). A history
never seen falls through to the shorter one. The vocabulary has one word more than training: *any word never seen*
is one event, so every label has a probability and all of them add up to 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.windows import Windows
from attomaton.numerics import ragged_indices, row_pointer, sorted_unique
from attomaton.predictor.counts import Counts, counted, looked_up, pair_key

Ids = Int[np.ndarray, " n"]
Numbers = Float[np.ndarray, " n"]

HALF = 0.5  # what every word, seen or not, is counted on top
SLACK = 4  # cells of a table for each number in it, up to which its rows are sorted one by one


class Best(NamedTuple):
    """The most probable tokens of some histories: (histories, places), best first, token −1 where there are fewer."""

    token: Int[np.ndarray, "histories places"]
    p: Float[np.ndarray, "histories places"]


@dataclass(frozen=True, eq=False)
class NGrams:
    """Counts of (label), (last, label), (before, last, label), over K tokens."""

    K: int
    one: Float[np.ndarray, " vocab"]
    two: Counts
    three: Counts
    discounts: tuple[float, float] = (0.8, 0.8)  # D_2, D_3

    def counted_after(self, q: Ids, x: Ids) -> Numbers:
        """c(q, x)."""
        return self.two.of(pair_key(self.K, q, x))

    def followed(self, q: Ids) -> Bool[np.ndarray, " n"]:
        """Whether anything followed q in training; where nothing did, p₂ is p₁."""
        return looked_up(self._after[0], q) > 0

    def unigram(self, x: Ids) -> Numbers:
        """p₁; an id outside the vocabulary stands for any word never seen."""
        return (looked_up(self.one, x) + HALF) / (self.one.sum() + HALF * (self.K + 1))

    def bigram(self, q: Ids, x: Ids) -> Numbers:
        """p₂(x | q)."""
        count = self.counted_after(q, x)
        total, freed = (looked_up(value, q) for value in self._after)
        return _discounted(count, total, freed, self.discounts[0], self.unigram(x))

    def trigram(self, b: Ids, q: Ids, x: Ids) -> Numbers:
        """p₃(x | b, q)."""
        history = pair_key(self.K, b, q)
        total, freed = (counts.of(history) for counts in self._histories)
        inside = (history >= 0) & (x >= 0) & (x < self.K)
        count = self.three.of(np.where(inside, history * self.K + x, -1))
        return _discounted(count, total, freed, self.discounts[1], self.bigram(q, x))

    @cached_property
    def _after(self) -> tuple[Float[np.ndarray, " vocab"], Float[np.ndarray, " vocab"]]:
        """c(q), and what discounting takes away from it."""
        last, taken = self.two.key // self.K, np.minimum(self.two.count, self.discounts[0])
        return np.bincount(last, self.two.count, self.K), np.bincount(last, taken, self.K)

    @cached_property
    def _histories(self) -> tuple[Counts, Counts]:
        """c(b, q), and what discounting takes away from it."""
        history, taken = self.three.key // self.K, np.minimum(self.three.count, self.discounts[1])
        return counted(history, self.three.count), counted(history, taken)

    def best_bigrams(self, q: Int[np.ndarray, " histories"], places: int) -> Best:
        """The `places` most probable tokens after each q.

        They are among its continuations and the most frequent tokens: all others share p₁'s order.
        """
        q, which = np.unique(q, return_inverse=True)
        known = np.where((q >= 0) & (q < self.K), q, -1).astype(np.int64)
        common = np.argsort(-self.one, kind="stable")[:places]
        owner, token = _candidates(self.K, self.two, known, np.tile(common, (len(q), 1)))
        best = first_places(owner, token, self.bigram(q[owner], token), len(q), places)
        return Best(best.token[which], best.p[which])

    def best_trigrams(
        self, b: Int[np.ndarray, " histories"], q: Int[np.ndarray, " histories"], places: int
    ) -> Best:
        """The `places` most probable tokens after each (b, q): continuations, and the best after q alone."""
        both = b.astype(np.int64) * (int(q.max(initial=0)) + 1) + q
        _, first, which = np.unique(both, return_index=True, return_inverse=True)
        b, q = b[first], q[first]
        common = self.best_bigrams(q, places).token
        owner, token = _candidates(self.K, self.three, pair_key(self.K, b, q), common)
        p = self.trigram(b[owner], q[owner], token)
        best = first_places(owner, token, p, len(q), places)
        return Best(best.token[which], best.p[which])


def _candidates(
    K: int, counts: Counts, history: Ids, common: Int[np.ndarray, "histories places"]
) -> Sequence[Int[np.ndarray, " m"]]:
    """What followed each history (none at −1) and its `common` tokens (none at −1), once each: owners and tokens."""
    begin, end = np.searchsorted(counts.key, [history * K, (history + 1) * K])
    many = np.where(history >= 0, end - begin, 0)
    row = np.arange(len(history))
    owner = np.concatenate([np.repeat(row, many), np.repeat(row, common.shape[1])])
    token = np.concatenate([counts.key[ragged_indices(begin, many)] % K, common.ravel()])
    return np.divmod(sorted_unique((owner * K + token)[token >= 0]), K)


def count_ngrams(windows: Windows) -> NGrams:
    """The counts of all windows, those whose label is absent from their context included."""
    K, label, last = len(windows.vocabulary), windows.label, windows.last
    before = token_before(windows)
    one = np.bincount(label, windows.weight, K)
    two = counted(pair_key(K, last, label), windows.weight)
    known = before >= 0
    history = pair_key(K, before[known], last[known])
    return NGrams(K, one, two, counted(history * K + label[known], windows.weight[known]))


def token_before(windows: Windows) -> Int[np.ndarray, " windows"]:
    """The token before the last one of each context, −1 where there is none."""
    end = windows.left + windows.length - 1
    return np.where(windows.length > 1, windows.ids[np.maximum(end - 1, 0)], -1)


def token_back(windows: Windows, rows: Int[np.ndarray, " n"], back: int) -> Int[np.ndarray, " n"]:
    """The token so far before the last one of each of these windows, −1 where there is none."""
    length = windows.length[rows].astype(np.int64)
    at = windows.left[rows] + np.maximum(length - 1 - back, 0)
    return np.where(length > back, windows.ids[at], -1).astype(np.int64)


def _discounted(
    count: Numbers, total: Numbers, freed: Numbers, D: float, shorter: Numbers
) -> Numbers:
    p = (np.maximum(count - D, 0.0) + freed * shorter) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, p, shorter)


def _stably(key: Ids, order: Ids) -> Ids:
    """This order, sorted by keys (0 or more); equal ones stay as they are. Keys of 16 bits are sorted far faster."""
    key = key[order]
    narrow = key.astype(np.uint16) if key.max(initial=0) < 1 << 16 else key
    return order[np.argsort(narrow, kind="stable")]


def first_places(owner: Ids, token: Ids, p: Numbers, histories: int, places: int) -> Best:
    """The first `places` of each owner, ordered by p and, where equal, by token."""
    order = _stably(owner, _stably(token, np.arange(len(p))))
    many = np.bincount(owner, minlength=histories)
    width = int(many.max(initial=1))
    if histories * width <= SLACK * len(p):  # as rows of a table, which are sorted by themselves
        at = owner[order], np.arange(len(p)) - row_pointer(many)[owner[order]]
        table = np.full((histories, width), np.inf)
        table[at] = -p[order]
        by_p = np.argsort(table, axis=1, kind="stable")
        place = np.empty((histories, width), np.int64)
        np.put_along_axis(place, by_p, np.arange(width)[None], axis=1)
        rank = place[at]
    else:
        order = _stably(owner, order[np.argsort(-p[order], kind="stable")])
        rank = np.arange(len(p)) - row_pointer(many)[owner[order]]
    owner, token, p = owner[order], token[order], p[order]
    kept = rank < places
    best = Best(np.full((histories, places), -1), np.zeros((histories, places)))
    best.token[owner[kept], rank[kept]] = token[kept]
    best.p[owner[kept], rank[kept]] = p[kept]
    return best
