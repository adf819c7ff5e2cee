r"""Ties that a part of the data shows, found in small problems.

What is tied among some of the differences is tied among all. Two kinds of parts tie most of what is tied in text: the
differences after one last token $q$, which live in the $d$ numbers $W e_q$, and those among a few frequent tokens,
which live in their span times the $d$ of last tokens. Where they tie a direction of keys with all queries, or a query
with all keys, $W$ is 0 there: it has fewer rows or columns from then on, and what ties next is asked in that space.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.errors import SolverError
from attomaton.mechanics.theory.dependent import ALIKE, SAME, strict_rows
from attomaton.mechanics.theory.extremes import Rows
from attomaton.mechanics.theory.graph import PriorityGraph
from attomaton.mechanics.theory.interior import split
from attomaton.mechanics.theory.matrices import conjugate_gradients

FREQUENT = 4  # of the dimensions, one for each frequent token
FEWEST = 8  # frequent tokens
SHARP, OFF = 1e-13, 1e-11  # residual of a projection, relative: aimed at, and allowed


@dataclass(frozen=True, eq=False)
class Known:
    """Which differences are known as ties, and bases of the keys and queries between which W may still be something."""

    tied: Bool[np.ndarray, " rows"]
    left: Float[np.ndarray, "width keys"]
    right: Float[np.ndarray, "width queries"]

    def narrowed(self, rows: Rows) -> Rows:
        """The rows in coordinates of these bases."""
        key, query = rows.space.key @ self.left, rows.space.query @ self.right
        return replace(rows, space=replace(rows.space, key=key, query=query))

    def widened(self, W: Float[np.ndarray, "keys queries"]) -> Float[np.ndarray, "width width"]:
        """A W of those coordinates as one of all."""
        return self.left @ W @ self.right.T


def lengths(rows: Rows) -> Float[np.ndarray, " rows"]:
    """‖δ‖ of every row."""
    query = np.linalg.norm(rows.space.query, axis=1)
    return np.linalg.norm(rows.keys(), axis=1) * query[rows.last]


def partial_ties(graph: PriorityGraph, rows: Rows) -> Known:
    """All ties that parts of the differences show: of one last token, or among frequent tokens."""
    width = rows.space.query.shape[1]
    known = Known(np.zeros(len(rows.above), bool), np.eye(width), np.eye(width))
    asked = 0  # queries with which frequent tokens were asked last
    while True:
        known = _of_last_tokens(rows, known)
        if asked == known.right.shape[1]:
            return known
        asked, before = known.right.shape[1], known
        known = _among_frequent(graph, rows, known)
        if known is before:
            return known


def _of_last_tokens(rows: Rows, known: Known) -> Known:
    """What every last token ties by itself; a query that ties all keys leaves the basis."""
    inner = known.narrowed(rows)
    order, start = inner.by_last()
    key, here = inner.keys(), np.linalg.norm(inner.space.query, axis=1) > SAME
    tied, full = known.tied.copy(), []
    for q, (first, end) in enumerate(pairwise(start.tolist())):
        some = order[first:end]
        if not here[q]:
            tied[some] = True
        elif len(some):
            own = some[~strict_rows(key[some])]
            tied[own] = True
            if len(own) > key.shape[1] and _span(key[own].T).shape[1] == key.shape[1]:
                full.append(q)
    if not full:
        return replace(known, tied=tied)
    # All others after the same queries, and queries between them, are tied with them: seen when asked again.
    right = known.right @ _rest(inner.space.query[full].T)
    return replace(known, tied=tied, right=right)


def _among_frequent(graph: PriorityGraph, rows: Rows, known: Known) -> Known:
    """What frequent tokens tie among themselves; a direction of keys that ties all queries leaves the basis."""
    token = graph.pair_token
    a, b = token[rows.above], token[rows.below]
    count = np.bincount(np.append(a, b))
    many = max(FEWEST, len(known.left) // FREQUENT)
    frequent = np.zeros(len(count), bool)
    frequent[np.argsort(-count, kind="stable")[:many]] = True
    inner = known.narrowed(rows)
    some = np.flatnonzero(frequent[a] & frequent[b] & (lengths(inner) > SAME))
    if not len(some):
        return known
    part = taken(inner, some)
    apart = part.keys()
    keys = _span(apart.T)
    part = replace(part, space=replace(part.space, key=part.space.key @ keys))
    own = split(part)[1]
    if not (own & ~known.tied[some]).any():
        return known
    tied = known.tied.copy()
    tied[some[own]] = True
    rng = np.random.default_rng(1)
    off = off_ties(taken(part, np.flatnonzero(own)))
    shape = keys.shape[1], known.right.shape[1]
    alive = _span(np.hstack([off(rng.standard_normal(shape)) for _ in range(2)]))
    # A projection is known to some digits only, differences of tokens to all.
    gone = np.linalg.norm(apart @ (keys @ alive), axis=1) <= ALIKE
    return replace(known, tied=tied, left=known.left @ _rest(apart[gone].T))


def off_ties(
    ties: Rows,
) -> Callable[[Float[np.ndarray, "keys queries"]], Float[np.ndarray, "keys queries"]]:
    """W without what of it lies in the span of ties."""

    def project(W: Float[np.ndarray, "keys queries"]) -> Float[np.ndarray, "keys queries"]:
        y, _ = conjugate_gradients(lambda y: ties.of_w(ties.back(y)), ties.of_w(W), SHARP)
        off = W - ties.back(y)
        if not np.abs(ties.of_w(off)).max(initial=0.0) <= OFF * float(np.linalg.norm(W)):
            raise SolverError("ties of the embeddings: their span is not known well enough.")
        return off

    return project


def taken(rows: Rows, some: Int[np.ndarray, " some"]) -> Rows:
    """Some of the rows, over the pairs that they speak of."""
    pairs, at = np.unique(np.append(rows.above[some], rows.below[some]), return_inverse=True)
    above, below = np.split(at, 2)
    return Rows(rows.space.take(pairs), above, below, int((some < rows.strict).sum()))


def _span(columns: Float[np.ndarray, "width _"]) -> Float[np.ndarray, "width rank"]:
    """An orthonormal basis of what columns span."""
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, singular > SAME * max(1.0, singular.max(initial=0.0))]


def _rest(columns: Float[np.ndarray, "width _"]) -> Float[np.ndarray, "width rank"]:
    """An orthonormal basis of what is orthogonal to columns."""
    left, singular, _ = np.linalg.svd(columns)
    return left[:, int((singular > SAME * max(1.0, singular.max(initial=0.0))).sum()) :]
