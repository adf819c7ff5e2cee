"""Nearest neighbours, as recommenders use them on logs of many sequences: of items, and of whole sequences.

    item-kNN       Σ over the items i of the context: sim(i, x)/place back, with sim(i, x) the cosine of the sets of
                   sequences that hold i and x; each item keeps its nearest `NEAREST`
    session-kNN    Σ over the `NEAREST` sequences most like the context that hold x of their likeness: the cosine of
                   their set of items and the context's, whose items weigh 1/place back; of the `SESSIONS` latest

Both are made shares of the vocabulary, and the base where nothing is near.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.corpus.windows import Windows
from attomaton.predictor.rivals.copying import recent_of
from attomaton.predictor.rivals.spreads import Dense

NEAREST = 100
SESSIONS = 5000
ENOUGH = 30  # sequences; below, being in one sequence says nothing


def sequences(windows: Windows) -> int:
    """How many sequences the windows come from, where they were cut from sequences."""
    return 0 if windows.starts is None else len(np.unique(windows.sequence_of(windows.source)))


def incidence(windows: Windows, K: int) -> Any:
    """Which sequence holds which items, as a sparse matrix of 0 and 1, in the order of the corpus."""
    from scipy.sparse import csr_array

    assert windows.starts is not None
    row = windows.sequence_of(np.arange(len(windows.ids)))
    shape = (len(windows.starts), K)
    found = csr_array((np.ones(len(row), dtype=np.float32), (row, windows.ids)), shape=shape)
    found.sum_duplicates()
    found.data[:] = 1.0
    return found


@dataclass(frozen=True, eq=False)
class Neighbours:
    """What is near a context: scores of all items from the weights of its own."""

    scores: Callable[[Any], Float[np.ndarray, "rows vocab"]]  # of contexts × items, sparse
    base: Float[np.ndarray, " vocab_and_one"]
    buckets: int = 1

    def on(self, windows: Windows, rows: Int[np.ndarray, " rows"]) -> "_Scores":
        """Shares by likeness to the items of the context."""
        return _Scores(_context_weights(windows, rows, len(self.base) - 1), self)


@dataclass(frozen=True, eq=False)
class _Scores:
    """Scores of blocks of contexts, made shares."""

    weights: Any  # contexts × items, sparse
    owner: Neighbours

    @cached_property
    def bucket(self) -> Int[np.ndarray, " rows"]:
        """One state."""
        return np.zeros(self.weights.shape[0], dtype=np.int64)

    def dense(self, begin: int, end: int) -> Dense:
        """The distributions of rows begin … end − 1."""
        score = self.owner.scores(self.weights[begin:end])
        base = self.owner.base
        p = np.zeros((end - begin, len(base)))
        p[:, :-1] = score
        total = p.sum(axis=1)
        near = total > 0
        p[near] /= total[near, None]
        p[~near] = base
        return p


def _context_weights(windows: Windows, rows: Int[np.ndarray, " rows"], K: int) -> Any:
    """1/place back of the latest place of each known item, contexts × items."""
    from scipy.sparse import csr_array

    recent = recent_of(windows, rows)
    row, back = np.nonzero((recent >= 0) & (recent < K))
    item = recent[row, back]
    # The latest place comes first in its row: later ones of the same item go.
    _, first = np.unique(row * K + item, return_index=True)
    value = (1.0 / (back[first] + 1)).astype(np.float32)
    return csr_array((value, (row[first], item[first])), shape=(len(rows), K))


def fit_items(windows: Windows, base: Float[np.ndarray, " vocab_and_one"]) -> Neighbours:
    """The nearest items by the cosine of the sets of sequences that hold them."""
    from scipy.sparse import diags_array, vstack

    holds = incidence(windows, len(base) - 1)
    many = np.maximum(np.asarray(holds.sum(axis=0)).ravel(), 1.0)
    unit = holds @ diags_array((1.0 / np.sqrt(many)).astype(np.float32))
    items = unit.T.tocsr()
    kept = [_largest(items[a : a + 512] @ unit, NEAREST) for a in range(0, items.shape[0], 512)]
    nearest = vstack(kept).tocsr()

    def scores(weights: Any) -> Float[np.ndarray, "rows vocab"]:
        """Σ_i weight_i sim(i, x)."""
        return (weights @ nearest).toarray().astype(np.float64)

    return Neighbours(scores, base)


def _largest(rows: Any, most: int) -> Any:
    """The largest entries of each row of a sparse matrix."""
    from scipy.sparse import csr_array

    rows = rows.tocsr()
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    order = np.lexsort((rows.indices, -rows.data, row))
    rank = np.arange(len(order)) - rows.indptr[row]  # rows stay where they are when sorted inside
    kept = order[rank < most]
    return csr_array((rows.data[kept], (row[kept], rows.indices[kept])), shape=rows.shape)


def fit_sessions(windows: Windows, base: Float[np.ndarray, " vocab_and_one"]) -> Neighbours:
    """The latest sequences, those without an item left out."""
    from scipy.sparse import diags_array

    holds = incidence(windows, len(base) - 1)[-SESSIONS:]
    many = np.maximum(np.asarray(holds.sum(axis=1)).ravel(), 1.0)
    unit = (diags_array((1.0 / np.sqrt(many)).astype(np.float32)) @ holds).T.tocsr()

    def scores(weights: Any) -> Float[np.ndarray, "rows vocab"]:
        """Σ over the nearest sequences of their cosine with the context, on the items they hold."""
        near = (weights @ unit).toarray()  # the context's own length only scales its row
        if near.shape[1] > NEAREST:
            least = np.partition(near, -NEAREST, axis=1)[:, -NEAREST, None]
            near = np.where(near >= np.maximum(least, 1e-12), near, 0.0)
        return np.asarray(near @ holds, dtype=np.float64)

    return Neighbours(scores, base)
