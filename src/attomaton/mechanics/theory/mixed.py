"""Between the two ends: some differences tied and some strict.

Parts of the data show their ties in small problems (`partial`). That these are all is tried first: then the Graph-SVM
in what is left of W, by interior points, has an answer. Where it has none, a linear program over all differences splits
them (`interior`). Once it is plain which margins are active, they are made exact. Nothing of this is believed: the
finite fit proves the ties, margins of 1 prove the rest.
"""

from dataclasses import replace

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Float
from attomaton.corpus.samples import Samples
from attomaton.errors import SolverError
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.theory.dependent import SAME
from attomaton.mechanics.theory.extremes import SMALL, Rows, alike, soft
from attomaton.mechanics.theory.finite import FiniteComponent
from attomaton.mechanics.theory.graph import PriorityGraph, regrouped
from attomaton.mechanics.theory.interior import shortest, split
from attomaton.mechanics.theory.matrices import Matrices
from attomaton.mechanics.theory.normal import Span
from attomaton.mechanics.theory.partial import Known, lengths, off_ties, partial_ties, taken
from attomaton.mechanics.theory.svm import GraphSVM, certified

LARGEST = 128**2  # numbers of W: from there on a factor takes more than half a minute of one core
SUMMED = 1e-9  # distance of W from what its multipliers add up to, relative
EXACT = 1e-10  # residual of a margin made exact
SWAPS = 8  # times the set of active margins may change
FEW = 8  # margins that may be wrong again: of more, half have to be right the next time

Found = tuple[PriorityGraph, FiniteComponent, GraphSVM]


def mixed(
    graph: PriorityGraph, samples: Samples, embeddings: Embeddings, progress: Progress = quiet
) -> Found | None:
    """Graph and both parts where some differences are tied and some strict; None where that could not be shown."""
    pairs, numbers = len(graph.pair_last), embeddings.E.shape[1] ** 2
    if numbers > min(pairs, LARGEST) or (pairs + len(graph.dag[0])) * numbers <= SMALL:
        return None  # then splitting one by one takes less time
    space = Matrices.of(graph, embeddings)
    rows = Rows(space, graph.edge_from, graph.edge_to, len(graph.edge_from))
    try:
        progress(0, 1, "ties in parts of the data")
        known = partial_ties(graph, rows)
        try:
            return _solved(graph, samples, rows, known, progress)
        except SolverError:  # they were not all
            return _solved(graph, samples, rows, _all_ties(rows, known, progress), progress)
    except (SolverError, np.linalg.LinAlgError):
        return None


def _all_ties(rows: Rows, known: Known, progress: Progress) -> Known:
    """Those that are known and all others."""
    inner = known.narrowed(rows)
    tied = known.tied.copy()
    some = np.flatnonzero(lengths(inner) > SAME)
    tied[some] = split(taken(inner, some), progress)[1]
    return replace(known, tied=tied)


def _solved(
    graph: PriorityGraph, samples: Samples, rows: Rows, known: Known, progress: Progress
) -> Found:
    """Both parts, if these are all ties; a `SolverError` if not."""
    space = rows.space
    off = off_ties(taken(rows, np.flatnonzero(known.tied)))
    graph = regrouped(graph, alike(space, off))
    if (known.tied != (graph.component[rows.above] == graph.component[rows.below])).any():
        raise SolverError("ties of the embeddings: others lie in their span.")
    rows = Rows.of(graph, space)
    inner = known.narrowed(rows)
    # Ties between what is 0 anyway say nothing of W.
    ties = np.flatnonzero((lengths(inner) > SAME) & (np.arange(len(rows.above)) >= rows.strict))
    part, span = taken(inner, np.arange(rows.strict)), Span(taken(inner, ties))
    tried = (_exact(part, span, about) for about in shortest(part, span, progress))
    y, W = next(found for found in tried if found is not None)
    W = known.widened(W)
    coefficient = rows.pairs(np.append(y, np.zeros(len(rows.above) - rows.strict)))
    coefficient = coefficient + space.coefficients(graph, W - space.back(coefficient))
    if not np.linalg.norm(W - space.back(coefficient)) <= SUMMED * np.linalg.norm(W):
        raise SolverError("Graph-SVM: its multipliers do not add up to it.")
    progress(1, 1, "finite part")
    finite = soft(space, graph, samples)
    if finite is None:
        raise SolverError("ties of the embeddings: no finite fit proves them.")
    unit = space.unit**2
    svm = certified(graph, samples, coefficient / unit, space.scores(W), y / unit, "")
    return graph, finite, svm


def _exact(
    rows: Rows, span: Span, y: Float[np.ndarray, " rows"]
) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, "keys queries"]] | None:
    """The smallest W that is 1 where y is positive, rows let go and taken in until none is wrong, and multipliers.

    None where that leads nowhere: y was too far away. W is summed step by step beside multipliers: of millions, that
    leave margins of 1, rounding would leave no such margins.
    """
    from scipy.linalg import cho_factor, cho_solve

    if not len(y):
        return y, np.zeros((rows.space.key.shape[1], rows.space.query.shape[1]))
    part, about, least, most = y > 0, y, 1e-3 / float(y.max()), len(y)
    for _ in range(SWAPS):
        active = taken(rows, np.flatnonzero(part))
        factor = cho_factor(
            span.gram(active, least), lower=True, overwrite_a=True, check_finite=False
        )
        now = about[part]
        # Of large multipliers rounding leaves something on ties; of W itself it does not.
        W, before = span.off(span.off(active.back(now))), np.inf
        while True:
            left = 1 - active.of_w(W)
            off = float(np.abs(left).max())
            if off <= EXACT or off > 0.5 * before:
                break
            before = off
            step = cho_solve(factor, left, check_finite=False)
            now, W = now + step, span.off(W + active.back(step))
        y = np.zeros(len(part))
        y[part] = now
        wrong = np.where(part, y < 0, rows.of_w(W) < 1 - 1e-9)
        if not wrong.any():
            return y, W
        part, fewer, most = part ^ wrong, most // 2, int(wrong.sum())
        if most > max(FEW, fewer):
            break
    return None
