r"""Fits in W itself: scores by two products, and nothing of the size pairs × d² written out.

A score is $e_x^\top W e_q$: two products give those of all pairs, two more the gradient, four what curvature makes of a
direction. Newton's steps come from conjugate gradients, so that large data in a hundred dimensions fit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.theory.finite import Choices, Look, centred_in, luce_loss
from attomaton.mechanics.theory.graph import PriorityGraph
from attomaton.numerics import row_pointer, sum_by

CONVERGED = 1e-11  # nats by which a step still moves scores when Newton stops
STEPS = 200
PRODUCTS = 3000  # with the curvature, for one step
SHARP = 1e-10  # residual of a step near the end, relative
NOISE = 1e-14  # of a slope, relative to the first one


@runtime_checkable
class Space(Protocol):
    """What a fit is sought in: how parameters give scores of items, and where a slope by scores leads."""

    def scores(self, v: np.ndarray) -> Float[np.ndarray, " items"]:
        """The scores that parameters give."""

    def back(self, r: Float[np.ndarray, " items"]) -> np.ndarray:
        """The slope by the parameters, from that by the scores."""

    def step(
        self, choices: Choices, look: Look, gradient: np.ndarray, sharp: float
    ) -> tuple[np.ndarray, float]:
        """Newton's step, and which share of the slope it leaves: ∞ where curvature is not known in all directions."""


def newton(
    choices: Choices, space: Space, start: np.ndarray, total: float, largest: float = np.inf
) -> tuple[np.ndarray, float]:
    """Newton's method with step halving: the answer, and by how many nats its scores may be off.

    It is given up, with an endless error, once scores exceed `largest`.
    """
    v, error, first, reach = start, np.inf, 0.0, 0.0
    for _ in range(STEPS):
        theta = space.scores(v)
        look = luce_loss(choices, theta)
        gradient = space.back(look.gradient)
        slope = float(np.linalg.norm(gradient))
        first = first or slope
        # Below the rounding of its own terms a slope points anywhere, and steps along it would never end.
        done = slope / first if first else 0.0
        sharp = max(SHARP, min(0.1, done**0.75), NOISE / done if done else 1.0)
        step, left = space.step(choices, look, gradient, sharp)
        # Where odds are extreme, a slope that is nothing still leaves scores undecided: the step says by how much.
        moved = float(np.abs(space.scores(step)).max(initial=0.0))
        reach = max(reach, moved / slope if slope else 0.0)
        error = 2.0 * (moved + (left * slope * reach if left else 0.0))
        if moved <= CONVERGED:
            break
        if np.abs(theta).max(initial=0.0) > largest:
            return v, np.inf
        size, downhill = 1.0, float((gradient * step).sum())
        while size > 1e-12:
            new = v - size * step
            after = luce_loss(choices, space.scores(new))
            gain = float((look.loss - after.loss).sum())
            # Near the end gains are lost in rounding, while gradients still tell better from worse.
            if gain >= 1e-4 * size * downhill or (
                abs(gain) <= 1e-12 * total
                and np.abs(space.back(after.gradient)).max() < 0.5 * np.abs(gradient).max()
            ):
                break
            size /= 2
        else:
            break  # rounding is all that is left
        v = new
    return v, error


@dataclass(frozen=True, eq=False)
class Matrices:
    """All W: the vectors of tokens, one for each pair of a last token and a token, and those of last tokens."""

    key: Float[np.ndarray, "pairs keys"]
    query: Float[np.ndarray, "lasts queries"]
    last: Int[np.ndarray, " pairs"]  # sorted
    unit: float  # what lengths of products were divided by

    @classmethod
    def of(cls, graph: PriorityGraph, embeddings: Embeddings) -> "Matrices":
        """The space of the pairs of a graph."""
        lasts, last = np.unique(graph.pair_last, return_inverse=True)
        key = embeddings.E[graph.pair_token]
        unit = float(np.sqrt(np.mean(np.square(key).sum(axis=1)))) or 1.0
        return cls(key / unit, embeddings.E[lasts] / unit, last, unit**2)

    def take(self, pairs: Int[np.ndarray, " some"]) -> "Matrices":
        """The space of some of the pairs, which stay in the order of their last tokens."""
        lasts, last = np.unique(self.last[pairs], return_inverse=True)
        return Matrices(self.key[pairs], self.query[lasts], last, self.unit)

    @cached_property
    def _scratch(self) -> Float[np.ndarray, " pairs"]:
        return np.empty(len(self.key))

    @cached_property
    def _parts(self) -> list[tuple[Float[np.ndarray, "_ keys"], Float[np.ndarray, " _"]]]:
        """Vectors and scratch of each last token, cut once: cutting takes longer than multiplying."""
        start = row_pointer(np.bincount(self.last, minlength=len(self.query))).tolist()
        cuts = [slice(*ends) for ends in pairwise(start)]
        return [(self.key[cut], self._scratch[cut]) for cut in cuts]

    def scores(self, v: Float[np.ndarray, "keys queries"]) -> Float[np.ndarray, " pairs"]:
        """e_xᵀ W e_q of every pair."""
        for (key, part), image in zip(self._parts, self.query @ v.T, strict=True):
            np.dot(key, image, out=part)
        return self._scratch.copy()

    def back(self, r: Float[np.ndarray, " pairs"]) -> Float[np.ndarray, "keys queries"]:
        """Σ r e_x e_qᵀ over the pairs."""
        self._scratch[:] = r
        sums = np.empty((len(self.query), self.key.shape[1]))
        for (key, part), row in zip(self._parts, sums, strict=True):
            np.dot(part, key, out=row)
        return sums.T @ self.query

    def step(
        self, choices: Choices, look: Look, gradient: np.ndarray, sharp: float
    ) -> tuple[np.ndarray, float]:
        """Newton's step by conjugate gradients, and which share of the slope it leaves."""
        head, size = choices.start[:-1], len(self.key)

        def curvature(V: np.ndarray) -> np.ndarray:
            u = self.scores(V)
            # Seen from the winner, and its own flow summed from the others', nothing cancels near certainty.
            seen = u[choices.item] - u[choices.winner][choices.choice_of]
            mean = np.add.reduceat(look.p * seen, head)[choices.choice_of]
            flow = choices.entry_weight * look.p * (seen - mean)
            flow[choices.winner_at] = 0.0
            flow[choices.winner_at] = -np.add.reduceat(flow, head)
            return self.back(sum_by(choices.item, flow, size))

        step, arrived = conjugate_gradients(curvature, gradient, sharp)
        return step, sharp if arrived else np.inf

    def coefficients(
        self, graph: PriorityGraph, W: Float[np.ndarray, "keys queries"]
    ) -> Float[np.ndarray, " pairs"]:
        """The smallest coefficients with W = Σ c e_x e_qᵀ that sum to 0 in every component."""
        found, rest = np.zeros(len(self.key)), W
        size = left = float(np.linalg.norm(W))
        for _ in range(3):  # what rounding left of W is asked for again
            if left <= NOISE * size:
                break
            V, _ = conjugate_gradients(
                lambda V: self.back(centred_in(graph, self.scores(V))),
                rest,
                max(SHARP, NOISE * size / left),
            )
            new = found + centred_in(graph, self.scores(V))
            rest = W - self.back(new)
            before, left = left, float(np.linalg.norm(rest))
            if not left < before:
                break  # what is left lies outside their span
            found = new
        return found


def conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray],
    b: np.ndarray,
    sharp: float,
    most: int = PRODUCTS,
    near: Callable[[np.ndarray], np.ndarray] = np.copy,
) -> tuple[np.ndarray, bool]:
    """x with product(x) = b, to `sharp` of its size, and whether that was reached; `near` almost undoes `product`."""
    x, rest = np.zeros_like(b), b.copy()
    direction = near(rest)
    square, size = float((rest * direction).sum()), float((b * b).sum())
    for _ in range(most):
        if float((rest * rest).sum()) <= sharp**2 * size:
            return x, True
        image = product(direction)
        curved = float((direction * image).sum())
        if not curved > 0:
            return x, False
        x += square / curved * direction
        rest -= square / curved * image
        image = near(rest)
        before, square = square, float((rest * image).sum())
        direction = image + square / before * direction
    return x, False
