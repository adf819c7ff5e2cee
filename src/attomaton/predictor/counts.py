"""Counts by key: sorted keys, their counts, and a lookup that answers 0 for what never occurred."""

from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class Counts:
    """How much weight fell on each key.

    >>> counts = counted(np.array([7, 3, 7]))
    >>> counts.of(np.array([3, 4, 7])).tolist()
    [1.0, 0.0, 2.0]
    """

    key: Int[np.ndarray, " keys"]  # ascending, none negative
    count: Float[np.ndarray, " keys"]

    def place(self, key: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Where each key stands, −1 for those never seen."""
        return places_in(self.key, key)

    def of(self, key: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The count of each key, 0 for those never seen."""
        at = self.place(key)
        if not len(self.key):
            return np.zeros(len(key))
        return np.where(at >= 0, self.count[at], 0.0)


def places_in(keys: Int[np.ndarray, " keys"], key: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Where each key stands among sorted ones, −1 for those that are not there."""
    if not len(keys):
        return np.full(len(key), -1)
    at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    return np.where(keys[at] == key, at, -1)


def looked_up(
    value: Float[np.ndarray, " vocab"], x: Int[np.ndarray, " n"], other: float = 0.0
) -> Float[np.ndarray, " n"]:
    """The value of each id, `other` for ids outside the vocabulary."""
    inside = (x >= 0) & (x < len(value))
    return np.where(inside, value[np.where(inside, x, 0)], other)


def counted(key: Int[np.ndarray, " n"], weight: Float[np.ndarray, " n"] | None = None) -> Counts:
    """The keys and their total weights (1 each where none is given)."""
    keys, index = np.unique(key, return_inverse=True)
    return Counts(keys, np.bincount(index, weight, len(keys)).astype(np.float64))


def pair_key(
    K: int, first: Int[np.ndarray, " n"], second: Int[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
    """`first · K + second`, or −1 where either lies outside the vocabulary of K tokens."""
    inside = (first >= 0) & (first < K) & (second >= 0) & (second < K)
    return np.where(inside, first.astype(np.int64) * K + second, -1)
