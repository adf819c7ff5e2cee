"""Ordering things for a table: the heaviest first, and where two orders disagree."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from attomaton.mechanics.theory.many import TIE
from attomaton.numerics import cosine

BLOCK = 1024


def heaviest(
    weight: Float[np.ndarray, " n"] | Int[np.ndarray, " n"], top: int
) -> Int[np.ndarray, " most"]:
    """The places of the `top` largest numbers, largest first, the earlier one among equals.

    >>> heaviest(np.array([1, 3, 2, 3]), 3).tolist()
    [1, 3, 2]
    """
    # The `top` largest of the blocks' maxima are as many numbers as wanted: nothing below them is needed.
    block = np.maximum.reduceat(weight, np.arange(0, len(weight), BLOCK)) if len(weight) else weight
    least = np.sort(block)[-top] if 0 < top <= len(block) else -np.inf
    there = np.flatnonzero(weight >= least)
    return there[np.argsort(-weight[there], kind="stable")][:top]


def places(*keys: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The place of each thing when the largest comes first: by the first key, where equal by the next.

    Differences below `TIE` are none, and equal things share the mean of their places.

    >>> places(np.array([5.0, 7, 5, 5]), np.array([0.0, 0, 0, 1])).tolist()
    [3.5, 1.0, 3.5, 2.0]
    """
    rounded = np.stack([np.round(key / TIE) for key in keys], axis=1)
    _, group, size = np.unique(-rounded, axis=0, return_inverse=True, return_counts=True)
    end = np.cumsum(size)
    return (end - (size - 1) / 2)[group.ravel()]


class Apart(NamedTuple):
    """Where two orders differ: indices, the widest difference first, of what the first-named has in its better half."""

    rank_correlation: float
    text_over_attention: list[int]
    attention_over_text: list[int]


def disagreement(
    text: Float[np.ndarray, " n"], attention: Float[np.ndarray, " n"], top: int
) -> Apart:
    """Where two orders of the same things differ, given their places: rank correlation, both extremes."""
    middle = (len(text) + 1) / 2

    def ahead(high: np.ndarray, low: np.ndarray) -> list[int]:
        lead = np.where(high <= middle, low - high, 0.0)
        return [int(i) for i in heaviest(lead, top) if lead[i] > 0]

    return Apart(
        cosine(text - middle, attention - middle), ahead(text, attention), ahead(attention, text)
    )
