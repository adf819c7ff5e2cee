"""What followed in training: the Kneser–Ney 5-gram, and the longest suffix of the context that ever occurred."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.corpus.windows import Windows
from attomaton.numerics import ragged_indices, row_pointer
from attomaton.predictor.kneser_ney import KneserNey, histories_of
from attomaton.predictor.ngrams import token_back
from attomaton.predictor.rivals.spreads import Layer, Sparse, layer_of

LONGEST = 64  # tokens of a context that rivals look back on
LENGTHS = (1, 2, 3, 4, 6, 10)  # buckets of the longest suffix begin here
SUPPORTS = (1, 2, 4, 16)  # and of how often it occurred


@dataclass(frozen=True, eq=False)
class NGram:
    """Kneser–Ney."""

    model: KneserNey
    buckets: int = 1

    def on(self, windows: Windows, rows: Int[np.ndarray, " rows"]) -> Sparse:
        """One layer for each order above the first, every value times what longer histories leave of it."""
        model = self.model
        levels = model.levels
        recent = histories_of(windows, rows, max(model.order - 1, 1))
        history = model.histories(recent)
        left = np.ones(len(rows))  # what all longer histories leave
        layers = []
        for n in range(len(levels) - 1, 0, -1):
            level, ids = levels[n], history[:, n]
            seen = np.flatnonzero(ids >= 0)
            at = ids[seen]
            total, freed = (value[at] for value in level.sums)
            length = level.start[at + 1] - level.start[at]
            grams = ragged_indices(level.start[at], length)
            value = self.kept[n][grams] * np.repeat(left[seen] / total, length)
            per_row = np.zeros(len(rows), dtype=np.int64)
            per_row[seen] = length
            layers.append(
                Layer(row_pointer(per_row), level.grams.key[grams] % (model.K + 1), value)
            )
            left[seen] *= freed / total
        return Sparse(self.unigram, left, layers, np.zeros(len(rows), dtype=np.int64))

    @cached_property
    def kept(self) -> list[Float[np.ndarray, " grams"]]:
        """What discounting leaves of the counts of each order."""
        return [level.grams.count - level.taken(level.grams.count) for level in self.model.levels]

    @cached_property
    def unigram(self) -> Float[np.ndarray, " vocab_and_one"]:
        """The lowest order: a token's share of the different tokens it followed."""
        return self.model.spread(np.full(max(self.model.order - 1, 1), -1), 1)


@dataclass(frozen=True, eq=False)
class Suffixes:
    """The contexts of training sorted from their last token backwards: those with a common suffix stand together."""

    windows: Windows
    order: Int[np.ndarray, " windows"]
    base: Float[np.ndarray, " vocab_and_one"]  # where not even the last token ever occurred

    @property
    def buckets(self) -> int:
        """By the length of the suffix, by how often it occurred; 0 where there is none."""
        return len(LENGTHS) * len(SUPPORTS) + 1

    def longest(
        self, recent: Int[np.ndarray, "rows tokens"]
    ) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, " rows"], Int[np.ndarray, " rows"]]:
        """Where the contexts with the longest common suffix begin and end in `order`, and its length."""
        begin = np.zeros(len(recent), dtype=np.int64)
        end = np.full(len(recent), len(self.order))
        length = np.zeros(len(recent), dtype=np.int64)
        going = np.arange(len(recent))
        for back in range(recent.shape[1]):
            token = recent[going, back]
            low = self._first(begin[going], end[going], back, token)
            high = self._first(low, end[going], back, token + 1)
            found = (token >= 0) & (high > low)
            going = going[found]
            if not len(going):
                break
            begin[going], end[going], length[going] = low[found], high[found], back + 1
        return begin, end, length

    def _first(
        self,
        begin: Int[np.ndarray, " n"],
        end: Int[np.ndarray, " n"],
        back: int,
        token: Int[np.ndarray, " n"],
    ) -> Int[np.ndarray, " n"]:
        """The first place in each range whose token so far back is `token` or more."""
        low, high = begin.copy(), end.copy()
        while (open_ := low < high).any():
            middle = (low + high) // 2
            there = self.order[np.where(open_, middle, 0)]
            less = open_ & (token_back(self.windows, there, back) < token)
            low = np.where(less, middle + 1, low)
            high = np.where(open_ & ~less, middle, high)
        return low

    def on(self, windows: Windows, rows: Int[np.ndarray, " rows"]) -> Sparse:
        """The shares of what followed the longest suffix that occurred."""
        back = min(LONGEST, int(windows.length.max(initial=1)))
        begin, end, length = self.longest(histories_of(windows, rows, back))
        at = np.flatnonzero(length > 0)
        layer, support = self._followers(begin[at], end[at])
        per_row = np.zeros(len(rows), dtype=np.int64)
        per_row[at] = np.diff(layer.start)
        bucket = np.zeros(len(rows), dtype=np.int64)
        kind = np.searchsorted(LENGTHS, length[at], "right") - 1
        often = np.searchsorted(SUPPORTS, np.maximum(support, 1), "right") - 1
        bucket[at] = 1 + kind * len(SUPPORTS) + often
        scale = (length == 0).astype(float)
        return Sparse(
            self.base, scale, [Layer(row_pointer(per_row), layer.token, layer.value)], bucket
        )

    def _followers(
        self, begin: Int[np.ndarray, " n"], end: Int[np.ndarray, " n"]
    ) -> tuple[Layer, Float[np.ndarray, " n"]]:
        """The shares of labels in each range, and its weight; equal ranges are counted once."""
        size = len(self.order) + 1
        _, first, which = np.unique(begin * size + end, return_index=True, return_inverse=True)
        many = (end - begin)[first]
        inside = self.order[ragged_indices(begin[first], many)]
        K = len(self.base)
        key, place = np.unique(
            np.repeat(np.arange(len(first)), many) * K + self.windows.label[inside],
            return_inverse=True,
        )
        count = np.bincount(place, self.windows.weight[inside], len(key))
        owner, token = np.divmod(key, K)
        total = np.bincount(owner, count, len(first))
        once = layer_of(owner, token, count / total[owner], len(first))
        length = np.diff(once.start)[which]
        at = ragged_indices(once.start[which], length)
        return Layer(row_pointer(length), once.token[at], once.value[at]), total[which]


def sort_suffixes(windows: Windows, base: Float[np.ndarray, " vocab_and_one"]) -> Suffixes:
    """Sort by the last token, then each group of equals by the one before, as far as contexts reach.

    Only windows that still share all of their suffix are sorted again: of a text, few after some tokens.
    """
    K = len(windows.vocabulary)
    token = windows.last.astype(np.int64)
    order = np.argsort(token, kind="stable")
    token = token[order]
    slot = np.arange(len(order))  # places that are not settled
    group = np.searchsorted(token, token)  # the first place of each one's group
    for back in range(1, min(LONGEST, int(windows.length.max()))):
        size = np.bincount(group, minlength=len(order))
        unsettled = size[group] > 1
        slot, group = slot[unsettled], group[unsettled]
        if not len(slot):
            break
        key = group * (K + 1) + token_back(windows, order[slot], back) + 1
        by = np.argsort(key, kind="stable")
        order[slot], key = order[slot[by]], key[by]
        group = slot[np.searchsorted(key, key)]
        # A context that ended here has nothing left to be sorted by.
        ended = key % (K + 1) == 0
        slot, group = slot[~ended], group[~ended]
    return Suffixes(windows, order, base)
