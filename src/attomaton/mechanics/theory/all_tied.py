r"""The soft part where everything is tied: one convex fit in W itself, with nothing of size pairs × d² written out.

A score is $e_x^\top W e_q$: two products give those of all pairs, two more the gradient, four what curvature makes of a
direction. Newton's steps come from conjugate gradients, so that millions of differences in a hundred dimensions fit.

A fit that ends *proves* that everything is tied: its slope is 0 and every loser keeps a probability, which are the
coefficients of a positive dependency. Where something is strict, W grows without end and there is no answer here.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from attomaton.corpus.samples import Samples
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.theory.finite import (
    CERTIFIED,
    KNOWN,
    Choices,
    FiniteComponent,
    Look,
    cyclic_choices,
    luce_loss,
)
from attomaton.mechanics.theory.graph import PriorityGraph, regrouped
from attomaton.numerics import row_pointer, sum_by, unit_scale

CONVERGED = 1e-11  # nats by which a step still moves scores when Newton stops
STEPS = 200
LARGEST_ODDS = 40.0  # nats: beyond them a tie cannot be told from a strict difference by a fit
MOST_NUMBERS = 2 * 10**8  # of the vectors of all pairs: 1.6 GB
TOGETHER = (
    4096  # pairs whose scores are computed at a time: their vectors stay in the processor's cache
)
PRODUCTS = 3000  # with the curvature, for one step
SHARP = 1e-10  # residual of a step near the end, relative


@runtime_checkable
class Space(Protocol):
    """What a fit is sought in: how parameters give scores of items, and where a slope by scores leads."""

    def scores(self, v: np.ndarray) -> Float[np.ndarray, " items"]:
        """The scores that parameters give."""

    def back(self, r: Float[np.ndarray, " items"]) -> np.ndarray:
        """The slope by the parameters, from that by the scores."""

    def step(
        self, choices: Choices, look: Look, gradient: np.ndarray, sharp: float
    ) -> tuple[np.ndarray, bool]:
        """Newton's step, and whether all curvature is known: without it a step tells nothing of the end."""


def newton(
    choices: Choices, space: Space, start: np.ndarray, total: float, largest: float = np.inf
) -> tuple[np.ndarray, float]:
    """Newton's method with step halving: the answer, and by how many nats its scores may be off.

    It is given up, with an endless error, once scores exceed `largest`.
    """
    v, error, first = start, np.inf, 0.0
    for _ in range(STEPS):
        theta = space.scores(v)
        look = luce_loss(choices, theta)
        gradient = space.back(look.gradient)
        slope = float(np.linalg.norm(gradient))
        first = first or slope
        sharp = max(SHARP, min(0.1, (slope / first) ** 0.75 if first else 0.0))
        step, known = space.step(choices, look, gradient, sharp)
        # Where odds are extreme, a slope that is nothing still leaves scores undecided: the step says by how much.
        moved = float(np.abs(space.scores(step)).max(initial=0.0))
        error = 2.0 * moved if known else np.inf
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

    key: Float[np.ndarray, "pairs width"]
    query: Float[np.ndarray, "lasts width"]
    last: Int[np.ndarray, " pairs"]  # sorted
    unit: float  # what lengths of products were divided by

    @classmethod
    def of(cls, graph: PriorityGraph, embeddings: Embeddings) -> "Matrices":
        """The space of the pairs of a graph."""
        lasts, last = np.unique(graph.pair_last, return_inverse=True)
        key = embeddings.E[graph.pair_token]
        unit = float(np.sqrt(np.mean(np.square(key).sum(axis=1)))) or 1.0
        return cls(key / unit, embeddings.E[lasts] / unit, last, unit**2)

    @cached_property
    def _scratch(self) -> Float[np.ndarray, " pairs"]:
        return np.empty(len(self.key))

    @cached_property
    def _parts(self) -> list[tuple[Float[np.ndarray, "_ width"], Float[np.ndarray, " _"]]]:
        """Vectors and scratch of each last token, cut once: cutting takes longer than multiplying."""
        start = row_pointer(np.bincount(self.last, minlength=len(self.query))).tolist()
        cuts = [slice(*ends) for ends in pairwise(start)]
        return [(self.key[cut], self._scratch[cut]) for cut in cuts]

    def scores(self, v: Float[np.ndarray, "width width"]) -> Float[np.ndarray, " pairs"]:
        """e_xᵀ W e_q of every pair."""
        for (key, part), image in zip(self._parts, self.query @ v.T, strict=True):
            np.dot(key, image, out=part)
        return self._scratch.copy()

    def back(self, r: Float[np.ndarray, " pairs"]) -> Float[np.ndarray, "width width"]:
        """Σ r e_x e_qᵀ over the pairs."""
        self._scratch[:] = r
        sums = np.empty(self.query.shape)
        for (key, part), row in zip(self._parts, sums, strict=True):
            np.dot(part, key, out=row)
        return sums.T @ self.query

    def step(
        self, choices: Choices, look: Look, gradient: np.ndarray, sharp: float
    ) -> tuple[np.ndarray, bool]:
        """Newton's step by conjugate gradients, and whether they arrived."""
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

        return conjugate_gradients(curvature, gradient, sharp)

    def coefficients(self, W: Float[np.ndarray, "width width"]) -> Float[np.ndarray, " pairs"]:
        """The smallest coefficients with W = Σ c e_x e_qᵀ that sum to 0 for every last token."""
        share = 1.0 / np.bincount(self.last, minlength=len(self.query))

        def centred(V: np.ndarray) -> np.ndarray:
            u = self.scores(V)
            return u - (sum_by(self.last, u, len(share)) * share)[self.last]

        found = np.zeros(len(self.key))
        for _ in range(3):  # what rounding left of W is asked for again
            rest = W - self.back(found)
            found = found + centred(
                conjugate_gradients(lambda V: self.back(centred(V)), rest, SHARP)[0]
            )
        return found


def centred_in(
    graph: PriorityGraph, score: Float[np.ndarray, " pairs"]
) -> Float[np.ndarray, " pairs"]:
    """log π of every pair: scores with mean 0 in each component, 0 where a pair is tied with nothing."""
    mean = np.bincount(graph.component, score) / graph.component_size
    return np.where(graph.cyclic, score - mean[graph.component], 0.0)


def conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray], b: np.ndarray, sharp: float
) -> tuple[np.ndarray, bool]:
    """x with product(x) = b, to `sharp` of its size, and whether that was reached."""
    x, rest = np.zeros_like(b), b.copy()
    direction, square = b.copy(), float((b * b).sum())
    least = sharp**2 * square
    for _ in range(PRODUCTS):
        if square <= least:
            return x, True
        image = product(direction)
        curved = float((direction * image).sum())
        if not curved > 0:
            return x, False
        x += square / curved * direction
        rest -= square / curved * image
        before, square = square, float((rest * rest).sum())
        direction = rest + square / before * direction
    return x, False


def all_tied(
    graph: PriorityGraph, samples: Samples, embeddings: Embeddings
) -> tuple[PriorityGraph, FiniteComponent] | None:
    """The graph in which all tokens of a last token are tied, and its soft part; None where that could not be shown."""
    pairs, width = len(graph.pair_last), embeddings.E.shape[1]
    if len(graph.edge_from) < 2 * width**2 or pairs * width > MOST_NUMBERS:
        return None  # fewer differences than that hardly ever tie everything
    space = Matrices.of(graph, embeddings)
    edges = coo_array(
        (np.ones(len(graph.edge_from)), (graph.edge_from, graph.edge_to)), shape=(pairs, pairs)
    )
    count, group = connected_components(edges, directed=False)
    if count != len(space.query):
        return None
    tied = regrouped(graph, group)
    scale = unit_scale(samples.weight.max(keepdims=True))
    total = float((samples.weight * scale).sum())
    items, choices, kept = cyclic_choices(tied, samples, scale)
    choices = replace(choices, item=items[choices.item], winner=items[choices.winner])
    W, error = newton(choices, space, np.zeros((width, width)), total, LARGEST_ODDS)
    if not error <= KNOWN:
        return None
    coefficient = space.coefficients(W)
    found = space.back(coefficient)
    score = space.scores(found)
    error += 2.0 * float(np.abs(score - space.scores(W)).max())
    look = luce_loss(choices, score)
    slope = float(np.abs(space.back(look.gradient)).max()) / total
    if not (slope <= CERTIFIED and error <= KNOWN):
        return None
    return tied, FiniteComponent(
        centred_in(tied, score), coefficient / space.unit**2, score, float(look.loss.sum()) / total, slope,
        kept, float(np.linalg.norm(found)) / space.unit, error,
    )  # fmt: skip
