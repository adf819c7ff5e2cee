"""Boosted trees that weigh candidates against each other (LightGBM, imported when asked for).

A window becomes some candidates, each with a few numbers; trees give each a score, the softmax of a window's scores is
the prediction, and its log-loss is what is boosted. Counts come from training windows, trees from validation windows
(whose labels the counts have not seen), some of them kept to stop early.

    same information   what the layer sees: count in the context, last token, and how often x followed it, won, stood by
    with order         also places back, the longest match before an earlier x, and the n-gram of all orders

Two forests are grown for each: one among the tokens of the context, on windows that hold their label; one on all
windows, among these tokens, the `OUTSIDE` likeliest of an n-gram (bigram, or 5-gram with order) and *any other*, whose
share is spread as the n-gram spreads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Float, Int
from attomaton.corpus.windows import Windows
from attomaton.numerics import ragged_softmax, row_pointer
from attomaton.predictor.bags import Bags, thinned
from attomaton.predictor.kneser_ney import KneserNey, histories_of
from attomaton.predictor.priors import Feature, measure_features
from attomaton.predictor.rivals.counting import NGram
from attomaton.predictor.rivals.spreads import Dense, Listed, Listing, Sparse
from attomaton.predictor.stage.looking import matches

OUTSIDE = 10
WINDOWS = 24_000  # validation windows that trees are grown on, at most
FOR_TREES = 50  # and at least, of those that hold their label
KEPT = 5  # every so many-th stretch of them says when to stop
ROUNDS, PATIENCE, RATE, LEAVES, LEAST = 300, 15, 0.1, 31, 40


class Candidates(NamedTuple):
    """Candidates of some windows, window by window, in ascending order; *any other* is the last of its window."""

    owner: Int[np.ndarray, " candidates"]
    token: Int[np.ndarray, " candidates"]
    number: Float[np.ndarray, "candidates numbers"]

    def start(self, rows: int) -> Int[np.ndarray, " rows_and_one"]:
        """Where those of each window begin."""
        return row_pointer(np.bincount(self.owner, minlength=rows))


class _Places(NamedTuple):
    """Where candidates stand in their contexts: how often, how far back at the latest, behind how long a match."""

    owner: Int[np.ndarray, " candidates"]
    token: Int[np.ndarray, " candidates"]
    many: Int[np.ndarray, " candidates"]
    distance: Float[np.ndarray, " candidates"]
    match: Float[np.ndarray, " candidates"]


def _places(
    recent: Int[np.ndarray, "rows tokens"], more: Int[np.ndarray, "rows more"], size: int
) -> _Places:
    """The tokens of contexts and some more, each once; ids are below `size`."""
    row, back = np.nonzero(recent >= 0)
    here = len(row)
    outside = np.repeat(np.arange(len(recent)), more.shape[1]) * size + more.ravel()
    # The latest place of a token comes first in its row.
    key, first, place = np.unique(
        np.concatenate([row * size + recent[row, back], outside]),
        return_index=True,
        return_inverse=True,
    )
    owner, token = np.divmod(key, size)
    many = np.bincount(place[:here], minlength=len(key))
    match = np.zeros(len(key))
    np.maximum.at(match, place[:here], matches(recent, recent.shape[1])[row, back].astype(float))
    inside = first < here
    distance = np.full(len(key), np.nan)
    distance[inside] = back[first[inside]] + 1.0
    return _Places(owner, token, many, distance, match)


@dataclass(frozen=True, eq=False)
class Sight:
    """What trees see of a window: tables counted on training windows, with or without order."""

    ngrams: KneserNey
    features: Mapping[str, Feature]
    order: bool

    def inside(self, windows: Windows, rows: Int[np.ndarray, " rows"]) -> Candidates:
        """The tokens of contexts."""
        recent = _contexts(windows, rows)
        nothing = np.zeros((len(rows), 0), dtype=np.int64)
        found = _places(recent, nothing, max(self.ngrams.K, int(recent.max())) + 1)
        numbers, _ = self._numbers(found, recent)
        return Candidates(found.owner, found.token, numbers)

    def everywhere(self, windows: Windows, rows: Int[np.ndarray, " rows"]) -> Candidates:
        """The tokens of contexts (K for new ones), the likeliest of the n-gram, and K + 1 for any other."""
        K = self.ngrams.K
        recent = np.minimum(_contexts(windows, rows), K)
        history = histories_of(windows, rows, max(self.ngrams.order - 1, 1))
        likeliest = self.ngrams.best(history, min(OUTSIDE, K))
        other = np.full((len(rows), 1), K + 1)
        more = np.concatenate([likeliest.token, other], axis=1)
        found = _places(recent, more, K + 2)
        numbers, p = self._numbers(found, recent)
        is_other = found.token == K + 1
        numbers[is_other] = np.nan
        left = 1.0 - np.bincount(found.owner, np.where(is_other, 0.0, p))
        rest = np.log(np.maximum(left, 1e-9))[found.owner]
        return Candidates(
            found.owner, found.token, np.column_stack([numbers, is_other, rest]).astype(np.float32)
        )

    def _numbers(
        self, found: _Places, recent: Int[np.ndarray, "rows tokens"]
    ) -> tuple[Float[np.ndarray, "candidates numbers"], Float[np.ndarray, " candidates"]]:
        """The numbers of candidates, and the probability the n-gram gives them."""
        ngrams = self.ngrams
        last, token = recent[:, 0][found.owner], found.token
        history = np.full((len(recent), max(ngrams.order - 1, 1)), -1)
        length = min(history.shape[1], recent.shape[1])
        history[:, :length] = recent[:, :length]
        p = ngrams.probabilities(history, found.owner, token)
        two = min(2, len(p))
        columns = [
            found.many, np.bincount(found.owner)[found.owner], token == last, *np.log(p[:two]),
            *(feature.of(last, token) for feature in self.features.values()),
        ]  # fmt: skip
        if self.order:
            longest = np.zeros(len(recent))
            np.maximum.at(longest, found.owner, found.match)
            columns += [found.distance, found.match, longest[found.owner], *np.log(p[two:])]
        numbers = np.stack([np.asarray(c, dtype=np.float32) for c in columns], axis=1)
        return numbers, p[-1]


def _contexts(windows: Windows, rows: Int[np.ndarray, " rows"]) -> Int[np.ndarray, "rows tokens"]:
    return histories_of(windows, rows, int(windows.length[rows].max()))


@dataclass(frozen=True, eq=False)
class Trees:
    """Both forests, and what they see."""

    sight: Sight
    inside: Any
    everywhere: Any
    buckets: int = 1

    def on(self, windows: Windows, rows: Int[np.ndarray, " rows"]) -> "Answers":
        """Scores of all candidates, made shares."""
        spread = NGram(self.sight.ngrams).on(windows, rows)
        found = self.sight.everywhere(windows, rows)
        start = found.start(len(rows))
        p = ragged_softmax(self.everywhere.predict(found.number), start)
        holding = rows[windows.realizable[rows]]
        among = np.zeros(0)
        if len(holding):
            inside = self.sight.inside(windows, holding)
            score = self.inside.predict(inside.number)
            among = ragged_softmax(score, inside.start(len(holding)))
        return Answers(spread, start, found, p, among)


@dataclass(frozen=True, eq=False)
class Answers:
    """Shares of candidates; that of *any other* is spread as the n-gram spreads it."""

    spread: Sparse
    start: Int[np.ndarray, " rows_and_one"]
    candidates: Candidates
    p: Float[np.ndarray, " candidates"]
    inside: Float[np.ndarray, " incidences"]

    @property
    def bucket(self) -> Int[np.ndarray, " rows"]:
        """One kind of window."""
        return np.zeros(len(self.start) - 1, dtype=np.int64)

    def among(self, bags: Bags) -> Float[np.ndarray, " incidences"]:
        """Shares of the tokens of contexts, from the forest grown for this."""
        return self.inside

    @property
    def base(self) -> Float[np.ndarray, " vocab_and_one"]:
        """That of the n-gram."""
        return self.spread.base

    def keys(self, begin: int, end: int) -> list[Int[np.ndarray, " _"]]:
        """Those of the n-gram, and the candidates."""
        row, token, _ = self._some(begin, end)
        named = token < len(self.base)
        return [*self.spread.keys(begin, end), row[named] * len(self.base) + token[named]]

    def listed(self, begin: int, end: int, there: Listing) -> Listed:
        """Candidates have their shares, the others what is left, as the n-gram spreads it."""
        row, token, p = self._some(begin, end)
        named, rows = token < len(self.base), end - begin
        spread, scale = self.spread.listed(begin, end, there)
        at = there.at(row[named] * len(self.base) + token[named])
        spread[at] = 0.0
        # What is not listed shares the rest of the base; where all is listed, that is nothing and no rounding.
        many = np.bincount(there.row, minlength=rows)
        apart = self.base.sum() - np.bincount(there.row, self.base[there.token], rows)
        apart = np.where(many < len(self.base), np.maximum(apart, 0.0), 0.0)
        left = np.bincount(there.row, spread, rows) + scale * apart
        other = np.zeros(rows)
        other[row[~named]] = p[~named]
        share = np.where(left > 0, other / np.where(left > 0, left, 1.0), 0.0)
        spread *= share[there.row]
        spread[at] = p[named] / np.where(left > 0, 1.0, 1.0 - other)[row[named]]
        return Listed(spread, scale * share)

    def _some(
        self, begin: int, end: int
    ) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """The candidates of rows begin … end − 1: row − begin, token and p."""
        at = slice(self.start[begin], self.start[end])
        return self.candidates.owner[at] - begin, self.candidates.token[at], self.p[at]

    def dense(self, begin: int, end: int) -> Dense:
        """The distributions of rows begin … end − 1."""
        dense = self.spread.dense(begin, end)
        row, token, p = self._some(begin, end)
        named = token < dense.shape[1]
        dense[row[named], token[named]] = 0.0
        left = dense.sum(axis=1)
        other = np.zeros(end - begin)
        other[row[~named]] = p[~named]
        # Where the n-gram leaves nothing, the candidates share all there is.
        dense *= np.where(left > 0, other / np.where(left > 0, left, 1.0), 0.0)[:, None]
        p = p[named] / np.where(left > 0, 1.0, 1.0 - other)[row[named]]
        dense[row[named], token[named]] = p
        return dense


def fit_trees(
    train: Windows, valid: Windows, ngrams: KneserNey, order: bool, progress: Progress = quiet
) -> Trees:
    """Both forests, counts from one corpus and trees from another (with the ids of the first)."""
    ngrams = ngrams if order or ngrams.order < 2 else ngrams.cut(2)
    sight = Sight(ngrams, measure_features(train, ("main", "bigram", "kin", "odds")), order)
    K = ngrams.K
    forests = []
    for number, held in enumerate((np.flatnonzero(valid.realizable), np.arange(len(valid)))):
        progress(number, 2, "growing trees")
        rows = thinned(held, WINDOWS)
        label = valid.label[rows].astype(np.int64)
        if number == 0:
            found = sight.inside(valid, rows)
        else:
            found = sight.everywhere(valid, rows)
            label = np.minimum(label, K)
            there = np.bincount(found.owner, found.token == label[found.owner]) > 0
            label = np.where(there, label, K + 1)
        forests.append(_grow(found, label, valid.weight[rows]))
    return Trees(sight, *forests)


def _grow(
    found: Candidates, label: Int[np.ndarray, " rows"], weight: Float[np.ndarray, " rows"]
) -> Any:
    """Trees for the softmax of each window's candidates; stretches of windows kept aside say when to stop."""
    import lightgbm as lgb

    kept = (np.arange(len(label)) * 10 * KEPT // len(label)) % KEPT == KEPT - 1
    parts = []
    for mine in (~kept, kept):
        at = mine[found.owner]
        start = row_pointer(np.bincount(found.owner, minlength=len(label))[mine])
        is_label = (found.token == label[found.owner])[at].astype(float)
        owner_weight = weight[found.owner[at]]
        parts.append((found.number[at], is_label, owner_weight, start))
    (X, y, w, start), (X_kept, y_kept, w_kept, start_kept) = parts

    def slope(score: Any, _: Any) -> tuple[Any, Any]:
        p = ragged_softmax(np.asarray(score), start)
        return w * (p - y), w * np.maximum(p * (1.0 - p), 1e-6)

    def loss(score: Any, _: Any) -> tuple[str, float, bool]:
        mine = ragged_softmax(np.asarray(score), start_kept)[y_kept > 0]
        heavy = w_kept[y_kept > 0]
        return "loss", float(-heavy @ np.log(np.maximum(mine, 1e-300)) / heavy.sum()), False

    settings = {
        "objective": slope, "learning_rate": RATE, "num_leaves": LEAVES, "min_data_in_leaf": LEAST,
        "metric": "none", "verbosity": -1, "seed": 0, "deterministic": True, "force_col_wise": True,
    }  # fmt: skip
    data = lgb.Dataset(X, y)
    aside = lgb.Dataset(X_kept, y_kept, reference=data)
    stop = lgb.early_stopping(PATIENCE, verbose=False)
    return lgb.train(settings, data, ROUNDS, [aside], feval=loss, callbacks=[stop])
