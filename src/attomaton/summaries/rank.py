"""Ordering things for a table: the heaviest first, and where two orders disagree."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attomaton.base.shapes import Float
from attomaton.mechanics.theory.many import TIE
from attomaton.numerics import cosine, heaviest
from attomaton.summaries.records import Disagreement

POINTS = 200  # things kept for a picture, from either end of the comparison


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


def disagreement(
    text: Float[np.ndarray, " n"],
    attention: Float[np.ndarray, " n"],
    top: int,
    rows: Callable[[list[int]], list[Any]] = list,
) -> Disagreement:
    """Where two orders of the same things differ, given their places: rank correlation, both extremes as `rows`."""
    middle = (len(text) + 1) / 2

    def ahead(high: np.ndarray, low: np.ndarray) -> list[Any]:
        lead = np.where(high <= middle, low - high, 0.0)
        return rows([int(i) for i in heaviest(lead, top) if lead[i] > 0])

    return Disagreement(
        cosine(text - middle, attention - middle), ahead(text, attention), ahead(attention, text)
    )


def compared(
    columns: Mapping[str, np.ndarray], top: int, rows: Callable[[list[int]], list[Any]]
) -> tuple[Disagreement, list[Any]]:
    """Where TF-IDF and attention disagree about the rows of a table, and those at either end, for a picture."""
    shown = np.union1d(
        heaviest(columns["tfidf"], POINTS), heaviest(-columns["priority_place"], POINTS)
    )
    apart = disagreement(columns["tfidf_place"], columns["priority_place"], top, rows)
    return apart, rows(shown.tolist())
