"""What the context itself tells: what followed its longest repeated suffix (induction), what stood lately (cache)."""

from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.corpus.windows import Windows
from attomaton.predictor.kneser_ney import histories_of
from attomaton.predictor.rivals.counting import LONGEST
from attomaton.predictor.rivals.mixing import FLOOR, mixture_weights
from attomaton.predictor.rivals.spreads import Sparse, layer_of
from attomaton.predictor.stage.looking import matches

MATCHES = (1, 2, 3, 5)  # buckets of the longest match begin here


@dataclass(frozen=True, eq=False)
class Induction:
    """Even shares of the tokens that followed the longest earlier match of the end of the context."""

    # Where the last token did not stand earlier in the context
    base: Float[np.ndarray, " vocab_and_one"]

    @property
    def buckets(self) -> int:
        """By the length of the match; 0 where there is none."""
        return len(MATCHES) + 1

    def on(self, windows: Windows, rows: Int[np.ndarray, " rows"]) -> Sparse:
        """What followed, once for each place of the longest match."""
        recent = recent_of(windows, rows)
        match = matches(recent, recent.shape[1])
        longest = match.max(axis=1, initial=0)
        row, lag = np.nonzero((match == longest[:, None]) & (longest[:, None] > 0))
        token = np.minimum(recent[row, lag], len(self.base) - 1)
        share = 1.0 / np.bincount(row, minlength=len(rows))[row]
        bucket = np.searchsorted(MATCHES, longest, "right")
        scale = (longest == 0).astype(float)
        return Sparse(self.base, scale, [layer_of(row, token, share, len(rows))], bucket)


@dataclass(frozen=True, eq=False)
class Cache:
    """The token that stood d places back has weight w_d, made shares of what the context has."""

    weight: Float[np.ndarray, " places"]  # of the last token, of the one before, …
    base: Float[np.ndarray, " vocab_and_one"]
    buckets: int = 1

    def on(self, windows: Windows, rows: Int[np.ndarray, " rows"]) -> Sparse:
        """The weights of the places at which each token stands."""
        recent = recent_of(windows, rows)[:, : len(self.weight)]
        row, back = np.nonzero(recent >= 0)
        value = self.weight[back]
        value = value / np.bincount(row, value, len(rows))[row]
        layer = layer_of(row, np.minimum(recent[row, back], len(self.base) - 1), value, len(rows))
        nothing = np.zeros(len(rows))
        return Sparse(self.base, nothing, [layer], np.zeros(len(rows), dtype=np.int64))


def fit_cache(
    windows: Windows, rows: Int[np.ndarray, " rows"], base: Float[np.ndarray, " vocab_and_one"]
) -> Cache:
    """w_d that make the labels of these windows most probable, mixed with the base (a convex problem)."""
    recent = recent_of(windows, rows)
    label = windows.label[rows].astype(np.int64)
    there = base[np.minimum(label, len(base) - 1)]
    p = np.concatenate([recent == label[:, None], there[:, None]], axis=1).astype(float)
    C = p.shape[1]
    weight, _ = mixture_weights(p, windows.weight[rows], np.full(C, max(FLOOR, 1.0) / C))
    return Cache(weight[:-1], base)


def recent_of(windows: Windows, rows: Int[np.ndarray, " rows"]) -> Int[np.ndarray, "rows tokens"]:
    """The tokens of these contexts, the latest first, −1 where there are no more."""
    return histories_of(windows, rows, min(LONGEST, int(windows.length.max(initial=1))))
