r"""The limit for any embeddings: more tokens than dimensions, repeated or dependent rows.

Samples only speak of *differences* $\delta = (e_y - e_x) e_q^\top$. A difference is a *tie* where it is 0 under every
$W$ that has $\langle W, \delta'\rangle \ge 0$ for all of them, and *strict* otherwise. By Stiemke's lemma ties are what
takes part in a positive dependency, $\sum \lambda \delta = 0$ with $\lambda > 0$: a cycle, or several differences that
add up to nothing because the vectors of their tokens do. With independent rows only cycles do.

The point of the convex hull of the differences that is next to 0 splits them: away from 0 it is a $W$ under which all
are positive; at 0 it is a positive dependency, and what remains once its span is projected out is asked again.
Tokens $i, j$ are tied after $q$ iff $(e_i - e_j)e_q^\top$ lies in $S_{fin}$, the span of the ties: an equivalence, so
that components, levels, the Graph-SVM and the automaton mean the same as for independent rows.

The split itself need not be believed: a finite fit whose gradient vanishes *is* a positive dependency of all ties
($\lambda$ are the probabilities of what lost), and margins of at least 1 prove that the rest is strict.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.samples import Samples
from attomaton.errors import SolverError, UsageError
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.theory.finite import (
    CERTIFIED,
    KNOWN,
    Choices,
    FiniteComponent,
    Look,
    centred_in,
    cyclic_choices,
    luce_loss,
)
from attomaton.mechanics.theory.graph import PriorityGraph, regrouped
from attomaton.mechanics.theory.matrices import newton
from attomaton.mechanics.theory.svm import GraphSVM, certified, solve_whitened, tighten
from attomaton.numerics import shortened, unit_scale

AWAY = 1e-8  # margin of unit differences at which they count as positive
SAME = 1e-9  # distance, in units of the longest, at which two directions are one
ALIKE = 1e-7  # the same for the vectors of two tokens, outside S_fin
MOST_NUMBERS = 2 * 10**8  # of all matrices together: 1.6 GB
CURVED = 1e-14  # smallest curvature, relative to the largest, that rounding leaves
TOGETHER = 512  # choices whose curvature is summed at a time


@dataclass(frozen=True, eq=False)
class Features:
    """The matrices e_x e_kᵀ of all observed pairs in coordinates of their span: inner products stay what they are."""

    value: Float[np.ndarray, "pairs rank"]
    unit: float  # what lengths were divided by

    def differences(
        self, i: Int[np.ndarray, " n"], j: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n rank"]:
        """Rows i minus rows j."""
        return self.value[i] - self.value[j]


def pair_features(graph: PriorityGraph, embeddings: Embeddings) -> Features:
    """The smaller of d_q · d_k coordinates (the ranks of last tokens and of tokens) and as many as there are pairs."""
    used = np.unique(np.concatenate([graph.pair_last, graph.pair_token]))
    unit = float(np.sqrt(np.mean(np.square(embeddings.E[used]).sum(axis=1)))) or 1.0
    query, key = (_coordinates(embeddings.E, x) / unit for x in (graph.pair_last, graph.pair_token))
    P, d = len(graph.pair_last), query.shape[1] * key.shape[1]
    _check_size(P, key.shape[1], d, len(graph.dag[0]))
    root = None if d <= P else _root((query @ query.T) * (key @ key.T))
    if root is not None:
        return Features(root, unit**2)
    flat = (query[:, :, None] * key[:, None, :]).reshape(P, d)
    return Features(flat if d <= P else shortened(flat), unit**2)


def _coordinates(
    E: Float[np.ndarray, "vocab width"], row: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n rank"]:
    """These rows of E in coordinates of their span."""
    used, at = np.unique(row, return_inverse=True)
    left, singular, _ = np.linalg.svd(E[used], full_matrices=False)
    kept = singular > SAME * singular.max(initial=0.0)
    return (left[:, kept] * singular[kept])[at]


def _root(H: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"] | None:
    """L with H = L Lᵀ where H is far from singular, so that nothing is lost by squaring; None where it is not."""
    try:
        root = np.linalg.cholesky(H)
    except np.linalg.LinAlgError:
        return None
    size = np.diag(root)
    return root if size.min(initial=1.0) > 1e-3 * size.max(initial=1.0) else None


def _independent(unit: Float[np.ndarray, "n rank"]) -> bool:
    """Whether rows of length 1 are independent."""
    if _root(unit @ unit.T) is not None:
        return True
    singular = np.linalg.svd(unit, compute_uv=False)
    return bool(singular.min() > SAME * singular.max())


def _check_size(P: int, d: int, products: int, edges: int) -> None:
    numbers = (P + edges) * min(products, P) + (P * products if products > P else 0)
    if numbers > MOST_NUMBERS:
        raise UsageError(
            f"embeddings: {P:,} pairs (last token, token) and {edges:,} differences in {d} dimensions need "
            f"{numbers:.1e} numbers ({numbers * 8e-9:.0f} GB) at once; at most {MOST_NUMBERS:.0e} are allowed. "
            "Use fewer samples, fewer dimensions, or orthonormal embeddings (the default)."
        )


@dataclass(frozen=True, eq=False)
class Ties:
    """A graph whose components are classes of linear ties, and an orthonormal basis of S_fin as columns."""

    graph: PriorityGraph
    features: Features
    basis: Float[np.ndarray, "rank ties"]


def inside(graph: PriorityGraph) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Pairs of a component but its first, and the first of theirs."""
    first = np.unique(graph.component, return_index=True)[1][graph.component]
    other = np.flatnonzero(first != np.arange(len(first)))
    return other, first[other]


def linear_ties(graph: PriorityGraph, features: Features) -> Ties:
    """The graph with its components widened to all linear ties."""
    a, b = graph.dag
    head = np.unique(graph.component, return_index=True)[1]
    across = features.differences(head[a], head[b])
    cycles = _unit(features.differences(*inside(graph)))
    basis = _span(cycles)
    across -= (across @ basis) @ basis.T
    tied = ~strict_rows(across)
    if tied.any():
        basis = _span(np.concatenate([cycles, _unit(across[tied])]))
    return Ties(_by_residual(graph, features, basis), features, basis)


def _unit(rows: Float[np.ndarray, "n rank"]) -> Float[np.ndarray, "m rank"]:
    """Rows of length 1, without those that are nothing."""
    length = np.linalg.norm(rows, axis=1)
    some = length > SAME
    return rows[some] / length[some, None]


def _span(rows: Float[np.ndarray, "n rank"]) -> Float[np.ndarray, "rank span"]:
    if not len(rows):
        return np.zeros((rows.shape[1], 0))
    square = np.asarray(np.linalg.qr(rows, mode="r")) if len(rows) > rows.shape[1] else rows
    left, singular, _ = np.linalg.svd(square.T, full_matrices=False)
    return left[:, singular > SAME * max(1.0, singular.max(initial=0.0))]


def strict_rows(rows: Float[np.ndarray, "n rank"]) -> Bool[np.ndarray, " n"]:
    """Which differences are positive under some W that makes none of them negative.

    The point of their convex hull next to 0 decides: away from 0 it is positive on all of them; at 0 it is a positive
    dependency. What that ties is projected out, and the rest is asked again.
    """
    strict = np.zeros(len(rows), bool)
    rest = np.arange(len(rows))
    left = rows
    for _ in range(len(rows) + 1):
        length = np.linalg.norm(left, axis=1)
        some = length > SAME
        rest, left = rest[some], left[some] / length[some, None]
        if not len(rest):
            return strict
        short = shortened(left) if len(left) < left.shape[1] else left
        if len(left) <= left.shape[1] and _independent(left):
            strict[rest] = True
            return strict
        point, share = _nearest(short)
        if (short @ point).min() > AWAY:
            strict[rest] = True
            return strict
        basis = _span(left[_dependent(short, share)])
        left = left - (left @ basis) @ basis.T
    raise SolverError("ties of the embeddings: no positive dependency could be confirmed.")


def _nearest(
    rows: Float[np.ndarray, "n rank"],
) -> tuple[Float[np.ndarray, " rank"], Float[np.ndarray, " n"]]:
    """The point z = Σ λ row of the convex hull next to 0, and λ: max ρ − ½‖z‖² with rows · z ≥ ρ."""
    import piqp

    width = rows.shape[1]
    square = np.eye(width + 1)
    square[-1, -1] = 0.0
    solver = piqp.DenseSolver()
    tighten(solver)
    solver.setup(
        square, np.append(np.zeros(width), -1.0),
        G=np.column_stack([rows, -np.ones(len(rows))]), h_l=np.zeros(len(rows)),
    )  # fmt: skip
    solver.solve()
    return solver.result.x[:-1], np.maximum(solver.result.z_l, 0.0)


def _dependent(
    rows: Float[np.ndarray, "n rank"], share: Float[np.ndarray, " n"]
) -> Int[np.ndarray, " ties"]:
    """Rows of a dependency with positive coefficients, all that an approximate one has confirmed.

    Where a row takes part in none, bringing the sum to 0 takes its share away: it is left out, the rest tried again.
    """
    some = np.flatnonzero(share > 1e-9 * share.max())
    while len(some):
        part, now = rows[some], share[some]
        exact = now - part @ (np.linalg.pinv(part.T @ part, hermitian=True) @ (part.T @ now))
        right = exact > 0.5 * now
        if right.all():
            return some
        some = some[right]
    raise SolverError("ties of the embeddings: no positive dependency could be confirmed.")


def _by_residual(
    graph: PriorityGraph, features: Features, basis: Float[np.ndarray, "rank ties"]
) -> PriorityGraph:
    """Pairs of one last token tied where they differ by nothing outside S_fin."""
    rest = features.value - (features.value @ basis) @ basis.T
    scale = float(np.linalg.norm(features.value, axis=1).max(initial=0.0)) or 1.0
    # Equal rows have equal products with any vector; unlike ones, almost surely, have not.
    mark = rest @ np.random.default_rng(0).standard_normal(rest.shape[1])
    order = np.lexsort((mark, graph.pair_last))
    near = np.linalg.norm(np.diff(rest[order], axis=0), axis=1) <= ALIKE * scale
    near &= np.diff(graph.pair_last[order]) == 0
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(np.concatenate([[False], ~near]))
    return regrouped(graph, group)


def dependent_svm(ties: Ties, samples: Samples) -> GraphSVM:
    """The Graph-SVM of a graph whose components are linear ties."""
    graph, features = ties.graph, ties.features
    a, b = graph.dag
    head = np.unique(graph.component, return_index=True)[1]
    above = features.differences(head[a], head[b])
    multiplier = solve_whitened(above - (above @ ties.basis) @ ties.basis.T)
    coefficient = np.zeros(len(graph.pair_last))
    np.add.at(coefficient, head[a], multiplier)
    np.add.at(coefficient, head[b], -multiplier)
    # What of this lies in S_fin is taken away by the multipliers of the ties.
    within = ties.basis @ (ties.basis.T @ (features.value.T @ coefficient))
    coefficient = (coefficient - _tie_coefficients(ties, within)) / features.unit**2
    score = features.unit**2 * (features.value @ (features.value.T @ coefficient))
    return certified(
        graph, samples, coefficient, score, multiplier / features.unit**2,
        "Differences that almost depend on each other, or vectors of very unlike lengths, cause this.",
    )  # fmt: skip


def _tie_coefficients(
    ties: Ties, member: Float[np.ndarray, " rank"]
) -> Float[np.ndarray, " pairs"]:
    """Coefficients on the pairs of a member of S_fin: they sum to 0 in each component."""
    other, first = inside(ties.graph)
    coefficient = np.zeros(len(ties.graph.pair_last))
    if len(other) and member.any():
        rows = ties.features.differences(other, first)
        square = ties.basis.T @ rows.T
        # The smallest of all that give it; the rows span S_fin, so the square matrix is regular.
        free = square.T @ np.linalg.solve(square @ square.T, ties.basis.T @ member)
        free += square.T @ np.linalg.solve(square @ square.T, ties.basis.T @ member - square @ free)
        np.add.at(coefficient, other, free)
        np.add.at(coefficient, first, -free)
    return coefficient


def dependent_finite(ties: Ties, samples: Samples) -> FiniteComponent:
    """The soft part: the minimiser over S_fin of the loss in which every sample keeps what is tied with its label."""
    graph, features = ties.graph, ties.features
    scale = unit_scale(samples.weight.max(keepdims=True))
    total = float((samples.weight * scale).sum())
    items, choices, kept = cyclic_choices(graph, samples, scale)
    F = features.value[items] @ ties.basis
    v, error = newton(choices, _Rows(F), np.zeros(F.shape[1]), total)
    look = luce_loss(choices, F @ v)
    gradient = float(np.abs(F.T @ look.gradient).max(initial=0.0)) / total
    if not (gradient <= CERTIFIED and error <= KNOWN):
        raise SolverError(
            f"finite part: no certified answer (gradient {gradient:.1e}, at most {CERTIFIED:.0e} is needed; log-odds "
            f"known to {error:.1e} nats, {KNOWN:.0e} is needed). Samples of very unlike weights, or embeddings "
            "that are nearly dependent, cause this."
        )
    coefficient = _tie_coefficients(ties, ties.basis @ v)
    score = features.value @ (features.value.T @ coefficient)
    return FiniteComponent(
        centred_in(graph, score), coefficient / features.unit**2, score, float(look.loss.sum()) / total, gradient,
        kept, float(np.linalg.norm(v)) / features.unit, error,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Rows:
    """A space given by one row of features for each item."""

    F: Float[np.ndarray, "items ties"]

    def scores(self, v: Float[np.ndarray, " ties"]) -> Float[np.ndarray, " items"]:
        return self.F @ v

    def back(self, r: Float[np.ndarray, " items"]) -> Float[np.ndarray, " ties"]:
        return self.F.T @ r

    def step(
        self, choices: Choices, look: Look, gradient: Float[np.ndarray, " ties"], sharp: float
    ) -> tuple[Float[np.ndarray, " ties"], float]:
        from scipy.linalg import cho_factor, cho_solve

        hessian = _hessian(choices, look.p, self.F)
        try:
            factor = cho_factor(hessian)
        except np.linalg.LinAlgError:
            return np.linalg.lstsq(hessian, gradient, rcond=None)[0], np.inf
        pivot = np.square(np.diag(factor[0]))
        known = pivot.min(initial=1.0) > CURVED * pivot.max(initial=1.0)
        return cho_solve(factor, gradient), 0.0 if known else np.inf


def _hessian(
    choices: Choices, p: Float[np.ndarray, " entries"], F: Float[np.ndarray, "items ties"]
) -> Float[np.ndarray, "ties ties"]:
    """Σ w (E_p[g gᵀ] − E_p[g] E_p[g]ᵀ) over the choices, g seen from the winner.

    From there both terms are as small as what the others hold, so that nothing cancels near certainty.
    """
    found = np.zeros((F.shape[1], F.shape[1]))
    for first in range(0, len(choices.winner), TOGETHER):
        last = min(first + TOGETHER, len(choices.winner))
        part = slice(choices.start[first], choices.start[last])
        owner = choices.choice_of[part]
        g = F[choices.item[part]] - F[choices.winner[owner]]
        mean = np.add.reduceat(p[part, None] * g, choices.start[first:last] - choices.start[first])
        found += g.T @ ((choices.entry_weight[part] * p[part])[:, None] * g)
        found -= mean.T @ (choices.weight[first:last, None] * mean)
    return found
