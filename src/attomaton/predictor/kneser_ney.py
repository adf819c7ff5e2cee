r"""An interpolated Kneser–Ney n-gram with three discounts for each order (Chen and Goodman 1999).

$$p_n(x \mid h) = \frac{c_n(h, x) - D_n(c_n(h, x)) + \sum_y D_n(c_n(h, y))\; p_{n-1}(x \mid h')}{\sum_y c_n(h, y)},$$

with h the last n − 1 tokens, h′ the same without its oldest, and $p_0 = 1/(K + 1)$: the vocabulary and one event more,
*any word never seen*, so everything adds up to 1. At the longest history $c_n$ counts windows (their weights), at
shorter ones how many different tokens stood before (h, x): a word that only ever follows one other is no likely word
elsewhere. The beginning of a sequence is such a token too; nothing stands before it, so histories that reach back to it
count windows. A history never seen falls through to the shorter one.

Beside what stood before, every order keeps how many windows each n-gram had (`windows`), so that the models of all
orders up to the longest are there: each takes its own last step from windows (`of_each_order`).

Histories are interned: that of n tokens is its place in a sorted table of (history of n − 1 tokens, next older token).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.windows import Windows
from attomaton.disk.formats import AGAIN, expect_arrays
from attomaton.errors import DataError
from attomaton.numerics import ragged_indices, rising, row_pointer
from attomaton.predictor.counts import Counts, counted, places_in
from attomaton.predictor.ngrams import Best, Ids, Numbers, first_places

Recent = Int[np.ndarray, "rows tokens"]  # histories, the latest token first

ORDER = 5
USUAL = (0.5, 1.0, 1.5)  # discounts of counts 1, 2, 3 and more where counts of counts say nothing


class Discounts(NamedTuple):
    """What is taken away from a count of about 1, of about 2, of more."""

    one: float
    two: float
    more: float


class Orders(NamedTuple):
    """The p of some tokens by the models of all orders, and which histories of each order training saw."""

    p: Float[np.ndarray, "orders n"]
    seen: Bool[np.ndarray, "orders rows"]


@dataclass(frozen=True, eq=False)
class Level:
    """The n-grams of one order: how histories are found, and what followed them."""

    K: int
    # (id of the shorter) · (K + 1) + older token; its place is its id
    histories: Int[np.ndarray, " histories"]
    grams: Counts  # (id of the history) · (K + 1) + token
    windows: Float[np.ndarray, " grams"]  # how many windows each of `grams` had

    @cached_property
    def outright(self) -> "Level":
        """The same n-grams counted by windows: the last step of a model that ends with this order."""
        return Level(self.K, self.histories, Counts(self.grams.key, self.windows), self.windows)

    @cached_property
    def discounts(self) -> Discounts:
        """Estimated from how many n-grams occur once, twice, three and four times."""
        return discounts_of(self.grams.count)

    @cached_property
    def sums(self) -> tuple[Float[np.ndarray, " histories"], Float[np.ndarray, " histories"]]:
        """All that followed each history, and what discounting takes away from it."""
        owner, rows = self.grams.key // (self.K + 1), len(self.histories)
        count = self.grams.count
        return np.bincount(owner, count, rows), np.bincount(owner, self.taken(count), rows)

    @cached_property
    def start(self) -> Int[np.ndarray, " histories_and_one"]:
        """Where the n-grams of each history begin."""
        owner, rows = self.grams.key // (self.K + 1), len(self.histories)
        return row_pointer(np.bincount(owner, minlength=rows))

    def taken(self, count: Numbers) -> Numbers:
        """What discounting takes away from these counts."""
        return np.minimum(count, np.array(self.discounts)[_kind(count)])

    def smoothed(self, history: Ids, x: Ids, shorter: Numbers) -> Numbers:
        """The p of x after histories given by id (−1: never seen), from that of the shorter ones."""
        return self.smoothed_at(history, self.places(history, x), shorter)

    def places(self, history: Ids, x: Ids) -> Ids:
        """Where (history, x) stands among the n-grams, −1 where training never saw it."""
        found = np.full(len(x), -1)
        at = np.flatnonzero((history >= 0) & (x >= 0) & (x < self.K))
        found[at] = self.grams.place(history[at] * (self.K + 1) + x[at])
        return found

    def smoothed_at(self, history: Ids, place: Ids, shorter: Numbers) -> Numbers:
        """The same for n-grams whose place is known."""
        p = shorter.copy()
        at = np.flatnonzero(history >= 0)
        history, place = history[at], place[at]
        count = np.where(place >= 0, self.grams.count[place], 0.0)
        total, freed = (value[history] for value in self.sums)
        p[at] = (count - self.taken(count) + freed * shorter[at]) / total
        return p


@dataclass(frozen=True, eq=False)
class KneserNey:
    """The n-grams of a corpus over K tokens, for orders 1, 2, …

    Histories are rows of ids, the latest token first, −1 beyond the beginning of their sequence; an id of K or more
    is a word never seen. `histories_of` makes them.
    """

    K: int
    levels: tuple[Level, ...]

    @property
    def order(self) -> int:
        """The longest n-gram."""
        return len(self.levels)

    def histories(self, recent: Recent) -> Int[np.ndarray, "rows orders"]:
        """The id of the history of each order, −1 where training never saw it."""
        found = np.zeros((len(recent), self.order), dtype=np.int64)
        for n in range(1, self.order):
            older = recent[:, n - 1] if n <= recent.shape[1] else np.full(len(recent), -1)
            before = recent[:, n - 2] if n > 1 else np.zeros(len(recent), dtype=np.int64)
            # The first place beyond the beginning is the token K, those further back are nothing.
            older = np.where(
                (older < 0) & (before >= 0), self.K, np.where(older < self.K, older, -1)
            )
            key = np.where(
                (found[:, n - 1] >= 0) & (older >= 0), found[:, n - 1] * (self.K + 1) + older, -1
            )
            found[:, n] = places_in(self.levels[n].histories, key)
        return found

    def probabilities(self, recent: Recent, row: Ids, x: Ids) -> Float[np.ndarray, "orders n"]:
        """p_1, p_2, … of the tokens x, each after the history of its row."""
        history = self.histories(recent)
        p = np.full((self.order, len(x)), 1.0 / (self.K + 1))
        for n, level in enumerate(self.levels):
            p[n] = level.smoothed(history[row, n], x, p[max(n - 1, 0)])
        return p

    def of_each_order(self, recent: Recent, row: Ids, x: Ids) -> "Orders":
        """What the models of orders 1, 2, … make of the tokens x, each after the history of its row."""
        history = self.histories(recent)
        p = np.empty((self.order, len(x)))
        shorter = np.full(len(x), 1.0 / (self.K + 1))
        for n, level in enumerate(self.levels):
            mine = history[row, n]
            place = level.places(mine, x)
            p[n] = level.outright.smoothed_at(mine, place, shorter)
            if n + 1 < self.order:
                shorter = level.smoothed_at(mine, place, shorter)
        return Orders(p, (history >= 0).T)

    def cut(self, order: int) -> "KneserNey":
        """The model of a smaller order."""
        return KneserNey(self.K, (*self.levels[: order - 1], self.levels[order - 1].outright))

    def counts(
        self, recent: Recent, row: Ids, x: Ids
    ) -> tuple[Float[np.ndarray, "orders n"], Float[np.ndarray, "orders n"]]:
        """For each order: how many windows each x had after the history of its row, and how many the history had."""
        history = self.histories(recent)[row].T
        times, of_all = np.zeros(history.shape), np.zeros(history.shape)
        for n, level in enumerate(self.levels):
            place, seen = level.places(history[n], x), history[n] >= 0
            times[n, place >= 0] = level.windows[place[place >= 0]]
            of_all[n, seen] = level.outright.sums[0][history[n, seen]]
        return times, of_all

    def spread(
        self, recent: Int[np.ndarray, " tokens"], order: int | None = None
    ) -> Float[np.ndarray, " vocab_and_one"]:
        """The whole distribution after one history, the last entry for any word never seen."""
        history = self.histories(recent[None])[0]
        p = np.full(self.K + 1, 1.0 / (self.K + 1))
        for level, at in zip(self.levels[:order], history[:order], strict=True):
            if at >= 0:
                total, freed = (value[at] for value in level.sums)
                grams = slice(level.start[at], level.start[at + 1])
                p *= freed / total
                count = level.grams.count[grams]
                p[level.grams.key[grams] % (self.K + 1)] += (count - level.taken(count)) / total
        return p

    def best(self, recent: Recent, places: int) -> Best:
        """The `places` most probable tokens after each history.

        What never followed a history keeps the order of the shorter one: the best are among what followed and the best
        there.
        """
        history = self.histories(recent)
        common = self._first_tokens(places)
        of_row = np.zeros(len(recent), dtype=np.int64)  # the row of `common` that speaks for each
        for n in range(1, self.order):
            seen = np.flatnonzero(history[:, n] >= 0)
            ids, first, which = np.unique(history[seen, n], return_index=True, return_inverse=True)
            rows = seen[first]
            if n == 1:
                better = self._after_one(ids, recent[rows], common, places)
            else:
                better = self._better(
                    n, ids, recent[rows], Best(*(x[of_row[rows]] for x in common))
                )
            of_row[seen] = len(common.token) + which
            common = Best(*(np.concatenate(v) for v in zip(common, better, strict=True)))
        return Best(common.token[of_row], common.p[of_row])

    def _first_tokens(self, places: int) -> Best:
        """The most probable tokens of all."""
        tokens = np.arange(self.K)
        zeros = np.zeros(self.K, dtype=np.int64)
        p = self.levels[0].smoothed(zeros, tokens, np.full(self.K, 1.0 / (self.K + 1)))
        return first_places(zeros, tokens, p, 1, places)

    def _after_one(
        self, ids: Int[np.ndarray, " rows"], recent: np.ndarray, first: Best, places: int
    ) -> Best:
        """The most probable tokens after single tokens: few, and met again and again, so they are kept."""
        if places not in self._kept:
            shape = (len(self.levels[1].histories), places)
            self._kept[places] = Best(np.full(shape, -2), np.zeros(shape))
        kept = self._kept[places]
        new = np.flatnonzero(kept.token[ids, 0] == -2)
        if len(new):
            before = Best(*(np.repeat(x, len(new), axis=0) for x in first))
            for known, found in zip(
                kept, self._better(1, ids[new], recent[new], before), strict=True
            ):
                known[ids[new]] = found
        return Best(kept.token[ids], kept.p[ids])

    @cached_property
    def _kept(self) -> dict[int, Best]:
        return {}

    def _better(
        self, n: int, ids: Int[np.ndarray, " rows"], recent: np.ndarray, before: Best
    ) -> Best:
        """The most probable tokens after histories of an order, from those after the shorter ones."""
        level, places = self.levels[n], before.token.shape[1]
        length = level.start[ids + 1] - level.start[ids]
        at = ragged_indices(level.start[ids], length)
        after, follows = np.repeat(np.arange(len(ids)), length), level.grams.key[at] % (self.K + 1)
        row, place = np.nonzero(before.token >= 0)
        token, p = before.token[row, place], before.p[row, place]
        # Of what followed these histories, the best after the shorter ones are known; the others are asked for.
        found = places_in(after * self.K + follows, row * self.K + token)
        shorter = np.full(len(at), np.nan)
        shorter[found[found >= 0]] = p[found >= 0]
        others = np.flatnonzero(np.isnan(shorter))
        known = KneserNey(self.K, self.levels[:n])
        shorter[others] = known.probabilities(recent, after[others], follows[others])[n - 1]
        total, freed = (value[ids] for value in level.sums)
        count = level.grams.count[at]
        mine = (count - level.taken(count) + freed[after] * shorter) / total[after]
        p = np.where(found >= 0, mine[found] if len(at) else 0.0, freed[row] * p / total[row])
        # What is less probable than all of the best there are by the shorter one is none of the best.
        least = np.full(before.token.shape, 0.0)
        least[row, place] = p
        kept = np.flatnonzero(mine >= least.min(axis=1)[after])
        kept = np.setdiff1d(kept, found, assume_unique=True)
        return first_places(
            np.concatenate([row, after[kept]]), np.concatenate([token, follows[kept]]),
            np.concatenate([p, mine[kept]]), len(ids), places,
        )  # fmt: skip

    # On disk

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays, as narrow as they can be."""
        found: dict[str, np.ndarray] = {}
        parents = 1
        for n, level in enumerate(self.levels, 1):
            found |= _table(f"histories_{n}", level.histories, self.K, parents)
            parents = len(level.histories)
            found |= _table(f"grams_{n}", level.grams.key, self.K, parents)
            found[f"count_{n}"] = _narrow(level.grams.count)
            if n < self.order:
                found[f"windows_{n}"] = _narrow(level.windows)
        return found

    @classmethod
    def from_arrays(cls, path: Path, arrays: Mapping[str, np.ndarray], K: int) -> "KneserNey":
        """The n-grams that `arrays` wrote; anything else is refused in the name of this file."""
        levels: list[Level] = []
        parents = 1
        while f"count_{len(levels) + 1}" in arrays:
            n = len(levels) + 1
            histories = _read_table(path, arrays, f"histories_{n}", K, parents)
            parents = len(histories)
            grams = _read_table(path, arrays, f"grams_{n}", K, parents)
            count = arrays[f"count_{n}"].astype(np.float64)
            alone = np.diff(arrays[f"grams_{n}_start"]) == 0
            if count.shape != grams.shape or not (count > 0).all() or alone.any():
                raise DataError(f"{path}: counts of order {n} do not fit; {AGAIN}.")
            windows = arrays.get(f"windows_{n}", count).astype(np.float64)
            if windows.shape != count.shape or not (windows > 0).all():
                raise DataError(f"{path}: windows of order {n} do not fit; {AGAIN}.")
            levels.append(Level(K, histories, Counts(grams, count), windows))
        if not levels or len(levels[0].histories) != 1:
            raise DataError(f"{path}: holds no n-grams; {AGAIN}.")
        return cls(K, tuple(levels))


def histories_of(
    windows: Windows, rows: Int[np.ndarray, " rows"] | None = None, tokens: int = ORDER - 1
) -> Recent:
    """The last tokens of these windows (all of them without `rows`), the latest first, −1 where there are no more."""
    length, left = (v if rows is None else v[rows] for v in (windows.length, windows.left))
    back = np.arange(tokens)
    at = (left + length - 1)[:, None] - back
    return np.where(back < length[:, None], windows.ids[np.maximum(at, 0)], -1).astype(np.int64)


def fit_kneser_ney(windows: Windows, order: int = ORDER) -> KneserNey:
    """The n-grams of all windows, those whose label is absent from their context included.

    No history is longer than the longest context.

    >>> from attomaton import as_windows
    >>> model = fit_kneser_ney(as_windows([["tea", "soup", "tea", "soup"]], context=2))
    >>> model.order, model.spread(np.array([1, 0])).round(2).tolist()
    (3, [0.85, 0.1, 0.04])
    """
    K = len(windows.vocabulary)
    order = min(order, int(windows.length.max()) + 1)
    recent = histories_of(windows, tokens=order - 1)
    label, weight = windows.label.astype(np.int64), windows.weight
    history, rows = np.zeros(len(label), dtype=np.int64), np.arange(len(label))
    tables, grams = [np.zeros(1, dtype=np.int64)], [counted(label, weight)]
    for n in range(1, order):
        older = recent[rows, n - 1]
        # Beyond the beginning stands the token K, and nothing further back.
        kept = older >= 0 if n == 1 else recent[rows, n - 2] >= 0
        history, rows, older = history[kept], rows[kept], older[kept]
        key = history * (K + 1) + np.where(older < 0, K, older)
        table, history = np.unique(key, return_inverse=True)
        tables.append(table)
        grams.append(counted(history * (K + 1) + label[rows], weight[rows]))
    windows_of = [g.count for g in grams]
    for n in range(order - 1):
        longer, x = np.divmod(grams[n + 1].key, K + 1)
        before = counted(tables[n + 1][longer] // (K + 1) * (K + 1) + x)
        reaches_back = tables[n][grams[n].key // (K + 1)] % (K + 1) == K if n else False
        grams[n] = Counts(
            grams[n].key, np.where(reaches_back, grams[n].count, before.of(grams[n].key))
        )
    # Counts as they are kept, in single precision, so that what is read again is the same.
    levels = [
        Level(K, table, Counts(g.key, _kept(g.count)), _kept(of))
        for table, g, of in zip(tables, grams, windows_of, strict=True)
    ]
    return KneserNey(K, tuple(levels))


def choose_order(model: KneserNey, windows: Windows, near: float = 0.001) -> int:
    """The shortest order whose log-loss on these windows is near that of the best: no more than this share above it."""
    recent, rows = histories_of(windows, tokens=model.order - 1), np.arange(len(windows))
    p = model.of_each_order(recent, rows, windows.label).p
    loss = -np.log(p) @ windows.weight / windows.weight.sum()
    return int(np.flatnonzero(loss <= loss.min() * (1 + near))[0]) + 1


def discounts_of(count: Numbers) -> Discounts:
    r"""$D_k = k - (k + 1) Y n_{k+1}/n_k$ with $Y = n_1/(n_1 + 2 n_2)$, the usual ones where that makes no sense.

    >>> discounts_of(np.array([1.0] * 6 + [2.0] * 3 + [3.0] * 2 + [4.0])).one
    0.5
    >>> discounts_of(np.array([5.0, 7.0])) == USUAL
    True
    """
    n = np.array([np.count_nonzero(np.abs(count - k) < 0.5) for k in (1, 2, 3, 4)], dtype=float)
    if not n[:3].all():
        return Discounts(*USUAL)
    k = np.array([1.0, 2.0, 3.0])
    D = k - (k + 1) * n[0] / (n[0] + 2 * n[1]) * n[1:] / n[:3]
    return Discounts(*np.where((D > 0) & (k > D), D, USUAL).tolist())


def _kind(count: Numbers) -> Ids:
    """0 for counts of about 1 (and 0, which loses nothing), 1 for those of about 2, 2 for more."""
    return (count >= 1.5).astype(np.int8) + (count >= 2.5)


def _table(name: str, key: Ids, K: int, rows: int) -> dict[str, np.ndarray]:
    """Sorted keys (row · (K + 1) + token) as where each row begins, and the tokens."""
    row, token = np.divmod(key, K + 1)
    start = row_pointer(np.bincount(row, minlength=rows))
    small = np.int32 if len(key) < 1 << 31 else np.int64
    return {f"{name}_start": start.astype(small), f"{name}_token": token.astype(np.int32)}


def _read_table(path: Path, arrays: Mapping[str, np.ndarray], name: str, K: int, rows: int) -> Ids:
    expect_arrays(
        path, arrays, {f"{name}_start": ("i", (rows + 1,)), f"{name}_token": ("i", (None,))}
    )
    start, token = (arrays[f"{name}_{x}"].astype(np.int64) for x in ("start", "token"))
    length = np.diff(start)
    fits = start[0] == 0 and (length >= 0).all() and start[-1] == len(token)
    if not fits or token.min(initial=0) < 0 or token.max(initial=0) > K:
        raise DataError(f"{path}: {name!r} does not fit together; {AGAIN}.")
    key = np.repeat(np.arange(rows), length) * (K + 1) + token
    if not rising(key):
        raise DataError(f"{path}: {name!r} is out of order; {AGAIN}.")
    return key


def _kept(count: Numbers) -> Numbers:
    return count.astype(np.float32).astype(np.float64)


def _narrow(count: Numbers) -> np.ndarray:
    """Counts in the narrowest type that holds them."""
    whole = (count == np.floor(count)).all()
    for kind in (np.uint8, np.uint16) if whole else ():
        if count.max(initial=0) <= np.iinfo(kind).max:
            return count.astype(kind)
    return count.astype(np.float32)
