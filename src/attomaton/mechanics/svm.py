r"""Graph-SVM: the direction in which training grows without bound, with its optimality certificate.

$$W_{svm} = \arg\min \|W\|_F \ \text{ s.t. } (e_i - e_j)^\top W e_k = 0 \ (i \asymp j), \quad \ge 1 \ (i \Rightarrow j)
\quad\text{in } G^{(k)}.$$

The solution lives on the observed pairs, $W = \sum_p M_p\, e_{x_p} e_{k_p}^\top$, so it is kept as its
coefficients $M$; its scores are $s = H M$ with $H_{pp'} = G_{k_p k_{p'}} G_{x_p x_{p'}}$. Stationarity says: the
coefficients of a component sum to the multipliers on its outgoing DAG edges minus those on its incoming
ones. For orthonormal embeddings $H = I$ and the problem splits by last token into

$$\min_u \tfrac12 \sum_C |C|\, u_C^2 \quad\text{s.t. } u_A - u_B \ge 1 \text{ for every DAG edge } A \to B.$$
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csc_matrix, diags

from attomaton.corpus.samples import Samples
from attomaton.errors import SolverError, UsageError
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.graph import PriorityGraph
from attomaton.numerics import sum_by
from attomaton.results import KKT

CERTIFIED = 1e-8  # residual above which an answer is an error
BATCH = 4000  # components solved together: amortises the solver's set-up over many small last tokens
COUPLED_PAIRS = 6000  # pairs above which the coupled program's dense matrices no longer fit in memory


@dataclass(frozen=True, eq=False)
class GraphSVM:
    """W_svm as coefficients and scores on the observed pairs, with one multiplier per DAG edge."""

    coefficient: Float[np.ndarray, " pairs"]
    score: Float[np.ndarray, " pairs"]
    multiplier: Float[np.ndarray, " dag_edges"]
    certificate: KKT

    @property
    def norm(self) -> float:
        """‖W_svm‖_F; 0 where no token outranks another."""
        return float(np.sqrt(max(0.0, self.coefficient @ self.score)))


def graph_svm(
    graph: PriorityGraph, samples: Samples, embeddings: Embeddings | None = None
) -> GraphSVM:
    """The Graph-SVM solution for all last tokens, certified against the samples themselves."""
    if embeddings is None or embeddings.orthonormal:
        coefficient, multiplier = _solve_by_last_token(graph)
        score = coefficient
    else:
        H = pair_gram(graph, embeddings)
        coefficient, multiplier = _solve_coupled(graph, H)
        score = H @ coefficient
    certificate = certify(graph, samples, coefficient, score, multiplier)
    if not certificate.worst <= CERTIFIED:
        raise SolverError(
            f"Graph-SVM: no certified answer (residuals: primal {certificate.primal:.1e}, dual "
            f"{certificate.dual:.1e}, gap {certificate.gap:.1e}; at most {CERTIFIED:.0e} is needed). "
            "Nearly dependent embeddings cause this; use better separated ones."
        )
    return GraphSVM(coefficient, score, multiplier, certificate)


def pair_gram(graph: PriorityGraph, embeddings: Embeddings) -> Float[np.ndarray, "pairs pairs"]:
    """H: inner products of the matrices e_x e_kᵀ of all observed pairs."""
    P = len(graph.pair_last)
    if P > COUPLED_PAIRS:
        raise UsageError(
            f"non-orthonormal embeddings couple all {P:,} pairs (last token, token) into one dense "
            f"problem of about {3e-9 * 8 * P * P:.0f} GB; the limit is {COUPLED_PAIRS:,} pairs. "
            "Use orthonormal embeddings (the default) for data of this size."
        )
    G = embeddings.gram
    return (
        G[np.ix_(graph.pair_last, graph.pair_last)] * G[np.ix_(graph.pair_token, graph.pair_token)]
    )


def certify(
    graph: PriorityGraph,
    samples: Samples,
    coefficient: Float[np.ndarray, " pairs"],
    score: Float[np.ndarray, " pairs"],
    multiplier: Float[np.ndarray, " dag_edges"],
) -> KKT:
    """Residuals of the optimality conditions, margins taken sample by sample from the raw data."""
    owner = samples.sample_of
    winner = graph.pairs(samples.last, samples.label)[owner]
    other = graph.pairs(samples.last[owner], samples.token)
    margin = score[winner] - score[other]
    tied = graph.component[winner] == graph.component[other]
    violation = np.where(tied, np.abs(margin), 1.0 - margin)
    stationarity = _component_sum(graph, coefficient) - _divergence(graph, multiplier)
    objective = float(coefficient @ score)
    return KKT(
        primal=float(max(0.0, violation.max(initial=0.0))),
        dual=float(max(np.abs(stationarity).max(initial=0.0), -multiplier.min(initial=0.0))),
        gap=float(abs(objective - multiplier.sum()) / max(1.0, objective)),
    )


def _component_sum(
    graph: PriorityGraph, value: Float[np.ndarray, " pairs"]
) -> Float[np.ndarray, " components"]:
    """Coefficients summed over each component."""
    return sum_by(graph.component, value, len(graph.level))


def _divergence(
    graph: PriorityGraph, multiplier: Float[np.ndarray, " dag_edges"]
) -> Float[np.ndarray, " components"]:
    """Multipliers leaving each component minus those entering it."""
    a, b = graph.dag
    n = len(graph.level)
    return sum_by(a, multiplier, n) - sum_by(b, multiplier, n)


def _solve_by_last_token(
    graph: PriorityGraph,
) -> tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, " dag_edges"]]:
    """Orthonormal case: independent programs, many last tokens to one solver call."""
    a, b = graph.dag
    multiplier = np.zeros(len(a))
    for lo, hi in _batches(graph):
        first, stop = np.searchsorted(a, [lo, hi])
        if stop > first:
            part = slice(first, stop)
            multiplier[part] = _solve_batch(graph.component_size[lo:hi], a[part] - lo, b[part] - lo)
    # u = D⁻¹ Aᵀ λ: stationarity then holds exactly, and the solver's error is all in the margins,
    # where the certificate looks for it.
    u = _divergence(graph, multiplier) / graph.component_size
    return u[graph.component], multiplier


def _batches(graph: PriorityGraph) -> Iterator[tuple[int, int]]:
    """Ranges of components that hold whole last tokens, about `BATCH` components each."""
    ends = np.flatnonzero(np.diff(graph.component_last, append=-1)) + 1
    lo = 0
    for hi in ends:
        if hi - lo >= BATCH or hi == ends[-1]:
            yield lo, int(hi)
            lo = int(hi)


def _solve_batch(
    size: Int[np.ndarray, " components"],
    a: Int[np.ndarray, " dag_edges"],
    b: Int[np.ndarray, " dag_edges"],
) -> Float[np.ndarray, " dag_edges"]:
    """Multipliers of min ½ Σ |C| u_C², u_A − u_B ≥ 1, by a sparse interior-point method."""
    import piqp

    m, n = len(a), len(size)
    row = np.arange(m)
    A = csc_matrix(
        (np.repeat([1.0, -1.0], m), (np.tile(row, 2), np.concatenate([a, b]))), shape=(m, n)
    )
    solver = piqp.SparseSolver()
    _tighten(solver)
    solver.setup(csc_matrix(diags(size.astype(float))), np.zeros(n), G=A, h_l=np.ones(m))
    solver.solve()
    return np.maximum(solver.result.z_l, 0.0)


def _tighten(solver: Any) -> None:
    """Absolute tolerances well below what the certificate asks for; its verdict, not the status, decides."""
    solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-11
    solver.settings.eps_rel = solver.settings.eps_duality_gap_rel = 0.0
    solver.settings.max_iter = 60


def _solve_coupled(
    graph: PriorityGraph, H: Float[np.ndarray, "pairs pairs"]
) -> tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, " dag_edges"]]:
    """Any independent embeddings: one dense program in whitened coordinates w, s = L w with H = L Lᵀ."""
    import piqp

    a, b = graph.dag
    P, m = len(H), len(a)
    if not m:
        return np.zeros(P), np.zeros(0)
    root = np.unique(graph.component, return_index=True)[1]
    ties = np.setdiff1d(np.arange(P), root)
    L = np.linalg.cholesky(H)
    equal = L[ties] - L[root[graph.component[ties]]]
    above = L[root[a]] - L[root[b]]
    solver = piqp.DenseSolver()
    _tighten(solver)
    equality = {"A": equal, "b": np.zeros(len(ties))} if len(ties) else {}
    solver.setup(np.eye(P), np.zeros(P), **equality, G=above, h_l=np.ones(m))
    solver.solve()
    multiplier = np.maximum(solver.result.z_l, 0.0)
    free = -solver.result.y if len(ties) else np.zeros(0)
    free, multiplier = _polish(equal, above, free, multiplier)
    coefficient = np.zeros(P)
    for index, value in (
        (ties, free),
        (root[graph.component[ties]], -free),
        (root[a], multiplier),
        (root[b], -multiplier),
    ):
        np.add.at(coefficient, index, value)
    return coefficient, multiplier


def _polish(
    equal: Float[np.ndarray, "ties pairs"],
    above: Float[np.ndarray, "dag_edges pairs"],
    free: Float[np.ndarray, " ties"],
    multiplier: Float[np.ndarray, " dag_edges"],
) -> tuple[Float[np.ndarray, " ties"], Float[np.ndarray, " dag_edges"]]:
    """Multipliers corrected on the active set, so that its margins come out exactly 1 and its ties 0."""
    active = np.flatnonzero(multiplier > 1e-7 * multiplier.max())
    rows = np.concatenate([equal, above[active]])
    target = np.concatenate([np.zeros(len(equal)), np.ones(len(active))])
    now = np.concatenate([free, multiplier[active]])
    inactive = np.zeros(len(multiplier))
    correction = np.linalg.lstsq(rows @ rows.T, target - rows @ (rows.T @ now), rcond=None)[0]
    inactive[active] = np.maximum(now[len(equal) :] + correction[len(equal) :], 0.0)
    return now[: len(equal)] + correction[: len(equal)], inactive
