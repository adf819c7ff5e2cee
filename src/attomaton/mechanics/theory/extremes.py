r"""The two ends at any size: everything tied, or last tokens apart. Either is guessed, and kept only if proven.

With many samples in few dimensions differences contradict each other until all are tied: the limit is one fit in W.
That it ends proves the ties: its slope is 0 and every loser keeps a probability, which are the coefficients of a
positive dependency. With few samples in many dimensions last tokens do not disturb each other: what each ties by itself
is all that is tied, and a W under which all other differences are at least 1 proves that. It comes from the method of
multipliers, with Newton's steps by conjugate gradients: only differences that are violated take part in a step. Between
the two ends differences are split one by one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.samples import Samples
from attomaton.errors import SolverError
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.theory.dependent import (
    ALIKE,
    MOST_NUMBERS,
    inside,
    linear_ties,
    pair_features,
)
from attomaton.mechanics.theory.finite import (
    CERTIFIED,
    KNOWN,
    FiniteComponent,
    centred_in,
    cyclic_choices,
    luce_loss,
)
from attomaton.mechanics.theory.graph import PriorityGraph, build_graph, connected, regrouped
from attomaton.mechanics.theory.matrices import Matrices, conjugate_gradients, newton
from attomaton.mechanics.theory.svm import GraphSVM, certified
from attomaton.numerics import row_pointer, sum_by, unit_scale

LARGEST_ODDS = 40.0  # nats: beyond them a tie cannot be told from a strict difference by a fit
SMALL = 10**6  # numbers of all differences written out
MOST_WORK = 10**12  # numbers that products may read before an end is given up
# How far differences may be below 1 before active ones are made exact, and then
NEAR, EXACT = 1e-7, 1e-13
ROUNDS, STEPS = 40, 30  # of multipliers, and of Newton's method in each


def all_tied(
    graph: PriorityGraph, samples: Samples, embeddings: Embeddings
) -> tuple[PriorityGraph, FiniteComponent] | None:
    """The graph in which all tokens of a last token are tied, and its soft part; None where that could not be shown."""
    pairs, width = len(graph.pair_last), embeddings.E.shape[1]
    if len(graph.edge_from) < 2 * _coordinates(graph, width) or pairs * width > MOST_NUMBERS:
        return None  # fewer differences than that hardly ever tie everything
    group = connected(graph.edge_from, graph.edge_to, pairs, directed=False)
    if int(group.max()) + 1 != len(graph.last_tokens):
        return None
    tied = regrouped(graph, group)
    finite = soft(Matrices.of(graph, embeddings), tied, samples, LARGEST_ODDS)
    return None if finite is None else (tied, finite)


def _coordinates(graph: PriorityGraph, width: int) -> int:
    """How many numbers of W the pairs can tell apart, at most."""
    lasts, tokens = len(graph.last_tokens), len(np.unique(graph.pair_token))
    return min(width, lasts) * min(width, tokens)


def soft(
    space: Matrices, graph: PriorityGraph, samples: Samples, largest: float = np.inf
) -> FiniteComponent | None:
    """The finite part with the ties of a graph; None where no fit ends, or only with scores beyond the largest."""
    scale = unit_scale(samples.weight.max(keepdims=True))
    total = float((samples.weight * scale).sum())
    items, choices, kept = cyclic_choices(graph, samples, scale)
    some, width = space.take(items), space.query.shape[1]
    W, error = newton(choices, some, np.zeros((width, width)), total, largest)
    if not error <= KNOWN:
        return None
    coefficient = space.coefficients(graph, W)
    found = space.back(coefficient)
    score = space.scores(found)
    error += 2.0 * float(np.abs(score - space.scores(W)).max())
    look = luce_loss(choices, score[items])
    slope = float(np.abs(some.back(look.gradient)).max()) / total
    if not (slope <= CERTIFIED and error <= KNOWN):
        return None
    return FiniteComponent(
        centred_in(graph, score), coefficient / space.unit**2, score, float(look.loss.sum()) / total, slope,
        kept, float(np.linalg.norm(found)) / space.unit, error,
    )  # fmt: skip


def tied_apart(
    graph: PriorityGraph, samples: Samples, embeddings: Embeddings
) -> tuple[PriorityGraph, FiniteComponent, GraphSVM] | None:
    """Graph and both parts where last tokens tie nothing but each by itself; None where that could not be shown."""
    pairs, edges, width = len(graph.pair_last), len(graph.dag[0]), embeddings.E.shape[1]
    room = _coordinates(graph, width)
    small = (pairs + edges) * min(pairs, room) <= SMALL  # then splitting one by one takes less time
    if small or edges > 2 * room or pairs * width > MOST_NUMBERS:
        return None  # so many differences hardly ever leave each other alone
    graph = _own_ties(graph, samples, embeddings)
    space = Matrices.of(graph, embeddings)
    rows = Rows.of(graph, space)
    if _coincide(graph, rows):
        return None
    found = _direction(rows)
    if found is None:
        return None
    multiplier, coefficient = (x / space.unit**2 for x in found)
    finite = soft(space, graph, samples, LARGEST_ODDS)
    if finite is None:
        return None
    score = space.unit**2 * space.scores(space.back(coefficient))
    try:
        svm = certified(graph, samples, coefficient, score, multiplier[: rows.strict], "")
    except SolverError:
        return None
    return graph, finite, svm


def _own_ties(graph: PriorityGraph, samples: Samples, embeddings: Embeddings) -> PriorityGraph:
    """The graph with all that each last token ties by itself: a small problem, in the dimensions of a token."""
    group = graph.component.copy()
    lasts, count = np.unique(graph.pair_last[graph.edge_from], return_counts=True)
    for q in lasts[count > embeddings.E.shape[1]]:  # fewer differences are independent, or all but
        part = build_graph(samples.take(np.flatnonzero(samples.last == q)))
        own = linear_ties(part, pair_features(part, embeddings)).graph
        group[graph.pair_last == q] = group.max() + 1 + own.component
    return regrouped(graph, np.unique(group, return_inverse=True)[1])


@dataclass(frozen=True, eq=False)
class Rows:
    """Differences as rows of a matrix that is never written out: first those to be strict, then those that are tied."""

    space: Matrices
    above: Int[np.ndarray, " rows"]
    below: Int[np.ndarray, " rows"]
    strict: int

    @classmethod
    def of(cls, graph: PriorityGraph, space: Matrices) -> "Rows":
        """Those of a graph: one for each edge between components, and what ties the others of one to its first."""
        head = np.unique(graph.component, return_index=True)[1]
        a, b = graph.dag
        other, first = inside(graph)
        above, below = np.append(head[a], other), np.append(head[b], first)
        return cls(space, above, below, len(a))

    @property
    def last(self) -> Int[np.ndarray, " rows"]:
        """The last token of every row."""
        return self.space.last[self.above]

    def by_last(self) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, " lasts_and_one"]]:
        """The rows in the order of their last tokens, and where those of each begin."""
        many = np.bincount(self.last, minlength=len(self.space.query))
        return np.argsort(self.last, kind="stable"), row_pointer(many)

    def keys(
        self, some: Int[np.ndarray, " some"] | slice = slice(None)
    ) -> Float[np.ndarray, "some keys"]:
        """e_y − e_x of some rows."""
        return self.space.key[self.above[some]] - self.space.key[self.below[some]]

    def of_w(self, W: np.ndarray) -> Float[np.ndarray, " rows"]:
        """⟨W, δ⟩ of every row."""
        score = self.space.scores(W)
        return score[self.above] - score[self.below]

    def pairs(self, y: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " pairs"]:
        """Σ y δ as coefficients on the pairs."""
        size = len(self.space.key)
        return sum_by(self.above, y, size) - sum_by(self.below, y, size)

    def back(self, y: Float[np.ndarray, " rows"]) -> Float[np.ndarray, "keys queries"]:
        """Σ y δ."""
        return self.space.back(self.pairs(y))


def _coincide(graph: PriorityGraph, rows: Rows) -> bool:
    """Whether tokens of two components differ by nothing outside S_fin, though no difference was seen."""
    tied = np.arange(len(rows.above)) >= rows.strict

    def off(W: np.ndarray) -> np.ndarray:
        return W - rows.back(_least(rows, tied, rows.of_w(W))) if tied.any() else W

    group = alike(rows.space, off)
    return int(group.max(initial=-1)) + 1 < len(graph.level)


def alike(space: Matrices, off: Callable[[np.ndarray], np.ndarray]) -> Int[np.ndarray, " pairs"]:
    """Numbers, the same for pairs of one last token that differ by nothing outside S_fin; `off` takes that from a W."""
    rng, marks = np.random.default_rng(0), []
    for _ in range(3):  # of thousands of tokens two may look alike once
        marks.append(space.scores(off(rng.standard_normal((space.query.shape[1],) * 2))))
    order = np.lexsort((marks[0], space.last))
    near = np.diff(space.last[order]) == 0
    for mark in marks:
        near &= np.abs(np.diff(mark[order])) <= ALIKE * np.abs(mark).max(initial=0.0)
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(np.concatenate([[False], ~near]))
    return group


def _least(
    rows: Rows, some: Bool[np.ndarray, " rows"], value: Float[np.ndarray, " rows"]
) -> Float[np.ndarray, " rows"]:
    """Multipliers of the smallest W that has these values on some rows."""
    return conjugate_gradients(
        lambda y: np.where(some, rows.of_w(rows.back(y)), 0.0),
        np.where(some, value, 0.0),
        EXACT,
        10**5,
    )[0]


def _direction(rows: Rows) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " pairs"]] | None:
    """Multipliers of W_svm and its coefficients on the pairs, by the method of multipliers; None if it takes too long.

    One round minimises ½‖W‖² + ‖max(0, y + σ(1 − rows · W))‖²/2σ, tied rows with 0 for 1 and no max; y follows.
    """
    strict = np.arange(len(rows.above)) < rows.strict
    goal, width = strict.astype(float), rows.space.query.shape[1]
    left = MOST_WORK // (rows.space.key.size + rows.space.query.size * width)
    y, W, sigma, off = np.zeros(len(goal)), np.zeros((width, width)), 1.0, 1.0

    def pushed(margin: np.ndarray) -> np.ndarray:
        z = y + sigma * (goal - margin)
        return np.where(strict, np.maximum(z, 0.0), z)

    def curved(part: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        def product(V: np.ndarray) -> np.ndarray:
            nonlocal left
            left -= 1
            return V + sigma * rows.back(np.where(part, rows.of_w(V), 0.0))

        return product

    for _ in range(ROUNDS):
        for _ in range(STEPS):
            margin = rows.of_w(W)
            z = pushed(margin)
            slope = W - rows.back(z)
            if np.linalg.norm(slope) <= 1e-3 * min(1.0, off) * max(1.0, float(np.linalg.norm(W))):
                break
            step, _ = conjugate_gradients(curved((z > 0) | ~strict), slope, 1e-3)
            if left < 0:
                return None
            along = rows.of_w(step)
            size, downhill = 1.0, float((slope * step).sum())
            before = _lagrangian(W, z, sigma)
            while size > 1e-9:
                new = W - size * step
                gain = before - _lagrangian(new, pushed(margin - size * along), sigma)
                if gain >= 1e-4 * size * downhill:
                    break
                size /= 2
            W = W - size * step
        margin = rows.of_w(W)
        y = pushed(margin)
        off = float(
            np.where(strict, np.maximum(1.0 - margin, 0.0), np.abs(margin)).max(initial=0.0)
        )
        if off <= NEAR:
            return _exact(rows, y, strict)
        sigma *= 2.0
    return None


def _lagrangian(W: np.ndarray, z: Float[np.ndarray, " rows"], sigma: float) -> float:
    return 0.5 * float((W * W).sum()) + float(z @ z) / (2 * sigma)


def _exact(
    rows: Rows, y: Float[np.ndarray, " rows"], strict: Bool[np.ndarray, " rows"]
) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " pairs"]] | None:
    """The smallest W that is 1 where multipliers are positive, rows left out and taken in until none is wrong."""
    part = (y > 0) | ~strict
    for _ in range(20):
        y = _least(rows, part, (part & strict).astype(float))
        margin = rows.of_w(rows.back(y))
        wrong = strict & np.where(part, y < 0, margin < 1 - NEAR)
        if not wrong.any():
            return y, rows.pairs(y)
        part ^= wrong
    return None
