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

from attomaton.base.face import Shown
from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.samples import Samples
from attomaton.errors import SolverError, UsageError
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.theory.graph import PriorityGraph
from attomaton.numerics import (
    inner,
    order_by,
    row_pointer,
    scramble,
    shortened,
    sum_by,
    unique_inverse,
)
from attomaton.results import KKT

CERTIFIED = 1e-8  # residual above which an answer is an error
NEAR = (1e-4, 1e-5, 1e-6)  # slacks and multipliers below this may be exactly 0: tried in this order
POLISHED = 1e-11  # residual at which an active set counts as the right one
DEEP = 1000  # levels above which a program is solved in units of its depth
BATCH = (
    4000  # components solved together: amortises the solver's set-up over many small last tokens
)
ACTIVE = 2  # differences for each dimension up to which active margins are guessed
COUPLED_PAIRS = (
    6000  # pairs above which the coupled program's dense matrices no longer fit in memory
)

Sparse = Any  # a SciPy matrix; SciPy is imported where something is solved, so that a model opens at once


@dataclass(frozen=True, eq=False, repr=False)
class GraphSVM(Shown):
    """W_svm as coefficients and scores on the observed pairs, with one multiplier per DAG edge."""

    coefficient: Float[np.ndarray, " pairs"]
    score: Float[np.ndarray, " pairs"]
    multiplier: Float[np.ndarray, " dag_edges"]
    certificate: KKT
    norm: float  # ‖W_svm‖_F; 0 where no token outranks another


def graph_svm(
    graph: PriorityGraph, samples: Samples, embeddings: Embeddings | None = None
) -> GraphSVM:
    """The Graph-SVM solution for all last tokens, certified against the samples themselves."""
    if embeddings is None or embeddings.orthonormal:
        coefficient, multiplier = _solve_by_last_token(graph)
        score = coefficient
        cause = (
            f"The deepest priority graph has {int(graph.level.max()) + 1:,} levels; thousands of them, or "
            "components of very unlike sizes, cause this. Fit fewer samples at a time."
        )
    else:
        H = pair_gram(graph, embeddings)
        # Solved in units of the embeddings' own length, so that tolerances mean the same for all.
        unit = float(np.mean(np.diag(H)))
        try:
            coefficient, multiplier = (x / unit for x in _solve_coupled(graph, H / unit))
        except np.linalg.LinAlgError as error:
            raise embeddings.too_close("no Graph-SVM") from error
        score = H @ coefficient
        cause = embeddings.why_inexact
    return certified(graph, samples, coefficient, score, multiplier, cause)


def certified(
    graph: PriorityGraph,
    samples: Samples,
    coefficient: Float[np.ndarray, " pairs"],
    score: Float[np.ndarray, " pairs"],
    multiplier: Float[np.ndarray, " dag_edges"],
    cause: str,
) -> GraphSVM:
    """The answer with its certificate; one that certifies nothing is an error, which tells its usual cause."""
    certificate = certify(graph, samples, coefficient, score, multiplier)
    if not certificate.worst <= CERTIFIED:
        raise SolverError(
            f"Graph-SVM: no certified answer (residuals: primal {certificate.primal:.1e}, dual "
            f"{certificate.dual:.1e}, gap {certificate.gap:.1e}; at most {CERTIFIED:.0e} is needed). {cause}"
        )
    norm = float(np.sqrt(max(0.0, inner(coefficient, score))))
    return GraphSVM(coefficient, score, multiplier, certificate, norm)


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
    flow = divergence(graph, multiplier)
    if not all(np.isfinite(x).all() for x in (score, flow, coefficient)):
        return KKT(np.inf, np.inf, np.inf)  # `max` passes over a NaN
    # Relative, so that the scale of the embeddings cancels; 0 only where nothing outranks anything. A token above
    # thousands has as many small multipliers: what they add up to is the scale, not the largest of them.
    objective = inner(coefficient, score)
    size = float(max(np.abs(multiplier).max(initial=0.0), np.abs(flow).max(initial=0.0))) or 1.0
    return KKT(
        primal=violation(graph, samples, score),
        dual=max(balance(graph, coefficient, multiplier), -float(multiplier.min(initial=0.0)))
        / size,
        gap=float(abs(objective - multiplier.sum()) / (objective or 1.0)),
    )


def violation(graph: PriorityGraph, samples: Samples, score: Float[np.ndarray, " pairs"]) -> float:
    """The worst violated margin, sample by sample: how far ties are from 0, and the rest below 1."""
    size, winner = samples.size, graph.pairs(samples.last, samples.label)
    other = graph.pairs(np.repeat(samples.last, size), samples.token)
    margin = np.repeat(score[winner], size) - score[other]
    tied = np.repeat(graph.component[winner], size) == graph.component[other]
    return float(np.where(tied, np.abs(margin), 1.0 - margin).max(initial=0.0))


def balance(
    graph: PriorityGraph,
    coefficient: Float[np.ndarray, " pairs"],
    multiplier: Float[np.ndarray, " dag_edges"],
) -> float:
    """By how much the coefficients of a component differ from what its multipliers leave there, at worst."""
    summed = sum_by(graph.component, coefficient, len(graph.level))
    rest = summed - divergence(graph, multiplier)
    return float(np.abs(rest).max(initial=0.0))


def divergence(
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
    nodes = merged_nodes(graph)
    start, end, last = nodes.start, nodes.end, nodes.last
    levels = np.zeros(int(last.max(initial=-1)) + 1, np.int64)
    np.maximum.at(levels, graph.component_last, graph.level + 1)
    # Multipliers grow like the square of the depth, and the solver takes large ones for a program without answer.
    unit = np.where(levels > DEEP, levels, 1)[last]
    u, multiplier = np.zeros(len(last)), np.zeros(len(start))
    for lo, hi in _batches(last):
        first, stop = np.searchsorted(start, [lo, hi])
        if stop > first:
            part = slice(first, stop)
            u[lo:hi], multiplier[part] = _solve_batch(
                nodes.size[lo:hi], start[part] - lo, end[part] - lo, last[lo:hi], unit[lo:hi]
            )
    return u[nodes.of][graph.component], multiplier[nodes.edge] * nodes.share


@dataclass(frozen=True, eq=False)
class Nodes:
    """Components with equal leaves merged, ascending by last token, and the distinct edges between them, sorted."""

    of: Int[np.ndarray, " components"]
    size: Int[np.ndarray, " nodes"]
    last: Int[np.ndarray, " nodes"]
    start: Int[np.ndarray, " edges"]
    end: Int[np.ndarray, " edges"]
    edge: Int[np.ndarray, " dag_edges"]  # what each edge of the DAG became
    share: Float[
        np.ndarray, " dag_edges"
    ]  # of its multiplier, by size: each leaf is then balanced itself


def merged_nodes(graph: PriorityGraph) -> Nodes:
    """The graph with one node for all leaves below the same components."""
    a, b = graph.dag
    node = _merge_leaves(graph)
    count = int(node.max(initial=-1)) + 1
    size = np.bincount(node, graph.component_size, count).astype(np.int64)
    last = np.zeros(count, np.int64)
    last[node] = graph.component_last
    edge, which = unique_inverse(node[a] * count + node[b])
    start, end = edge // max(count, 1), edge % max(count, 1)
    return Nodes(node, size, last, start, end, which, graph.component_size[b] / size[node[b]])


def _merge_leaves(graph: PriorityGraph) -> Int[np.ndarray, " components"]:
    """A number for each component, the same for leaves below the same components, ascending by last token.

    A leaf outranks nothing, so all that binds it is what outranks it: leaves below the same components have the
    same score, and one of their joint size can stand for them. On text most tokens are leaves, and few of them are
    unlike. Equal sets are told by a fingerprint; were it ever wrong, the certificate would say so.
    """
    a, b = graph.dag
    n = len(graph.level)
    into = np.bincount(b, minlength=n)
    leaf = (np.bincount(a, minlength=n) == 0) & (into > 0)
    order = order_by(b)
    order = order[leaf[b[order]]]
    mark = np.arange(n, dtype=np.uint64)  # unlike for all that are no leaves
    mark[leaf] = np.add.reduceat(scramble(a[order]), row_pointer(into[leaf])[:-1])
    order = np.lexsort((mark, 2 * graph.component_last + leaf))
    same = (
        leaf[order[1:]] & (np.diff(mark[order]) == 0) & (np.diff(graph.component_last[order]) == 0)
    )
    node = np.empty(n, np.int64)
    node[order] = np.cumsum(np.concatenate([[True], ~(same & leaf[order[:-1]])])) - 1
    return node


def _batches(last: Int[np.ndarray, " nodes"]) -> Iterator[tuple[int, int]]:
    """Ranges of nodes that hold whole last tokens, about `BATCH` nodes each."""
    ends = np.flatnonzero(np.diff(last, append=-1)) + 1
    lo = 0
    for hi in ends:
        if hi - lo >= BATCH or hi == ends[-1]:
            yield lo, int(hi)
            lo = int(hi)


def _solve_batch(
    size: Int[np.ndarray, " components"],
    a: Int[np.ndarray, " dag_edges"],
    b: Int[np.ndarray, " dag_edges"],
    block: Int[np.ndarray, " components"],
    unit: Int[np.ndarray, " components"],
) -> tuple[Float[np.ndarray, " components"], Float[np.ndarray, " dag_edges"]]:
    """min ½ Σ |C| u_C², u_A − u_B ≥ 1, by a sparse interior-point method; u and the multipliers.

    `block` numbers the last token of each component: programs that share nothing but this call. `unit` is the same
    for all components of a block; its objective is divided by it while it is solved.
    """
    import piqp
    from scipy.sparse import csc_matrix, diags

    m, n = len(a), len(size)
    A = incidence(a, b, n)
    solver = piqp.SparseSolver()
    tighten(solver, float(unit.max()))
    solver.setup(csc_matrix(diags(size / unit)), np.zeros(n), G=A, h_l=np.ones(m))
    solver.solve()
    multiplier = np.maximum(solver.result.z_l, 0.0) * unit[a]
    # u = D⁻¹ Aᵀ λ: stationarity holds exactly, and the solver's error is all in the margins.
    u = (A.T @ multiplier) / size
    _polish_batch(A, size, block, u, multiplier)
    return u, multiplier


def incidence(a: Int[np.ndarray, " dag_edges"], b: Int[np.ndarray, " dag_edges"], n: int) -> Sparse:
    """The matrix A with A u = u_a − u_b, one row per edge."""
    from scipy.sparse import csc_matrix

    row = np.tile(np.arange(len(a)), 2)
    value = np.repeat([1.0, -1.0], len(a))
    return csc_matrix((value, (row, np.concatenate([a, b]))), shape=(len(a), n))


def _polish_batch(
    A: Sparse,
    size: Int[np.ndarray, " components"],
    block: Int[np.ndarray, " components"],
    u: Float[np.ndarray, " components"],
    multiplier: Float[np.ndarray, " dag_edges"],
) -> None:
    """Replace, in place, each doubtful block's answer by the exact one on its active set.

    Doubtful are degenerate blocks, and deep ones whose scores are small differences of large multipliers.

    An interior point leaves an active margin whose multiplier is 0 undecided by the square root of its
    tolerance, and ties between scores then look like differences. On the edges with (almost) no slack
    the scores are known up to one constant per connected group, and the weighted mean of a group is 0.
    The multipliers of edges that carry (almost) none become 0; the others balance the rest.
    """
    rows = A.tocsr()
    edge_block = block[rows.indices[::2]]
    for near in NEAR:
        slack = rows @ u - 1.0
        doubtful = np.unique(
            edge_block[((slack < near) & (multiplier < near)) | (slack < -POLISHED)]
        )
        nodes = np.flatnonzero(np.isin(block, doubtful))
        edges = np.flatnonzero(np.isin(edge_block, doubtful))
        if not len(edges):
            return
        part, weight, carried = rows[edges][:, nodes], size[nodes], multiplier[edges] > near
        exact = _potential(part, weight, part @ u[nodes] - 1.0 < near)
        flow = np.where(carried, multiplier[edges], 0.0)
        carrying = part[np.flatnonzero(carried)]
        for _ in range(2):  # the second time against the rounding of the first
            # The smallest change on the carrying edges that brings every component's balance to 0
            rest = weight * exact - part.T @ flow
            flow[carried] += carrying @ _solve_laplacian(carrying, rest)[0]
        fault, most = np.zeros(block.max() + 1), np.ones(block.max() + 1)
        np.maximum.at(most, edge_block[edges], flow)
        left = np.abs(weight * exact - part.T @ flow) / weight
        np.maximum.at(fault, block[nodes], left / most[block[nodes]])
        np.maximum.at(fault, edge_block[edges], -flow / most[edge_block[edges]])
        np.maximum.at(fault, edge_block[edges], 1.0 - part @ exact)
        right = fault <= POLISHED
        good = right[block[nodes]]
        u[nodes[good]] = exact[good]
        good = right[edge_block[edges]]
        multiplier[edges[good]] = np.maximum(flow[good], 0.0)


def _potential(
    A: Sparse, size: Int[np.ndarray, " components"], active: Bool[np.ndarray, " dag_edges"]
) -> Float[np.ndarray, " components"]:
    """Scores with margin 1 on every active edge and weighted mean 0 on every group they connect."""
    rows = A[np.flatnonzero(active)]
    p, group = _solve_laplacian(rows, rows.T @ np.ones(rows.shape[0]))
    # Margins of 1 make whole numbers of the differences: rounding them takes the solver's own rounding away.
    p = np.rint(p)
    mean = np.bincount(group, size * p) / np.bincount(group, size)
    return p - mean[group]


def _solve_laplacian(
    rows: Sparse, right: Float[np.ndarray, " components"]
) -> tuple[Float[np.ndarray, " components"], Int[np.ndarray, " components"]]:
    """x with AᵀA x = right on every group that rows connect, x = 0 at its first member; and these groups."""
    from scipy.sparse import csc_matrix, diags
    from scipy.sparse.csgraph import connected_components
    from scipy.sparse.linalg import splu

    square = rows.T @ rows
    group = connected_components(square, directed=False)[1]
    ground = np.zeros(len(group))
    ground[np.unique(group, return_index=True)[1]] = 1.0
    L = csc_matrix(square + diags(ground))
    factor = splu(L)
    x = factor.solve(right)
    return x + factor.solve(right - L @ x), group


def tighten(solver: Any, unit: float = 1.0) -> None:
    """Absolute tolerances well below what the certificate asks for; its verdict, not the status, decides."""
    solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-11 * unit
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
    tighten(solver)
    equality = {"A": equal, "b": np.zeros(len(ties))} if len(ties) else {}
    solver.setup(np.eye(P), np.zeros(P), **equality, G=above, h_l=np.ones(m))
    solver.solve()
    multiplier = np.maximum(solver.result.z_l, 0.0)
    free = -solver.result.y if len(ties) else np.zeros(0)
    free, multiplier = _polish_coupled(equal, above, free, multiplier)
    coefficient = np.zeros(P)
    for index, value in (
        (ties, free),
        (root[graph.component[ties]], -free),
        (root[a], multiplier),
        (root[b], -multiplier),
    ):
        np.add.at(coefficient, index, value)
    return coefficient, multiplier


def solve_whitened(rows: Float[np.ndarray, "dag_edges rank"]) -> Float[np.ndarray, " dag_edges"]:
    """The multipliers of min ½‖w‖² with rows · w ≥ 1; w is rowsᵀ times them."""
    import piqp

    direct = np.zeros(0) if not len(rows) else _active_set(rows)
    if direct is not None:
        return direct
    short = rows if len(rows) >= rows.shape[1] else shortened(rows)
    width = short.shape[1]
    for unit in (1.0, 10.0, 100.0, 1e3, 1e4):  # of w: a long one looks infeasible in a smaller unit
        solver = piqp.DenseSolver()
        tighten(solver)
        solver.setup(np.eye(width), np.zeros(width), G=unit * short, h_l=np.ones(len(short)))
        if solver.solve() != piqp.PIQP_PRIMAL_INFEASIBLE:
            break
    multiplier = unit**2 * np.maximum(solver.result.z_l, 0.0)
    return _polish_coupled(rows[:0], rows, np.zeros(0), multiplier)[1]


def _active_set(rows: Float[np.ndarray, "n rank"]) -> Float[np.ndarray, " n"] | None:
    """Multipliers of min ½‖w‖², rows · w ≥ 1: solved exactly on the margins believed active, until belief is right.

    Quick where few margins are slack, as with many dimensions; None where it goes round in circles.
    """
    from scipy.linalg import cho_factor, cho_solve

    if len(rows) > ACTIVE * rows.shape[1]:
        return None
    gram = rows @ rows.T
    active = np.ones(len(rows), bool)
    for _ in range(50):
        multiplier = np.zeros(len(rows))
        try:
            factor = cho_factor(gram[np.ix_(active, active)], lower=True)
        except np.linalg.LinAlgError:
            return None
        for _ in range(2):  # the second time against the rounding of the first
            multiplier[active] += cho_solve(factor, 1.0 - rows[active] @ (rows.T @ multiplier))
        slack = rows @ (rows.T @ multiplier) - 1.0
        exact = np.abs(slack[active]).max(initial=0.0) <= POLISHED
        believed = np.where(active, multiplier >= 0, slack < -POLISHED)
        if (believed == active).all():
            return multiplier if exact else None
        active = believed
    return None


def _polish_coupled(
    equal: Float[np.ndarray, "ties pairs"],
    above: Float[np.ndarray, "dag_edges pairs"],
    free: Float[np.ndarray, " ties"],
    multiplier: Float[np.ndarray, " dag_edges"],
) -> tuple[Float[np.ndarray, " ties"], Float[np.ndarray, " dag_edges"]]:
    """As `_polish_batch`, in whitened coordinates: exact on the active set, where that certifies."""
    w = equal.T @ free + above.T @ multiplier
    for near in NEAR:
        active = np.flatnonzero(above @ w - 1.0 < near)
        carried = np.flatnonzero(multiplier > near)
        target = np.concatenate([np.zeros(len(equal)), np.ones(len(active))])
        exact = np.linalg.lstsq(np.concatenate([equal, above[active]]), target, rcond=None)[0]
        rows = np.concatenate([equal, above[carried]])
        now = np.concatenate([free, multiplier[carried]])
        now = now + np.linalg.lstsq(rows.T, exact - rows.T @ now, rcond=None)[0]
        reached = rows.T @ now
        fault = max(
            np.abs(equal @ reached).max(initial=0.0),
            (1.0 - above @ reached).max(),
            -now[len(equal) :].min(initial=0.0),
            np.abs(reached - exact).max(),
        )
        if fault <= POLISHED * max(1.0, np.abs(now).max()):
            answer = np.zeros(len(multiplier))
            answer[carried] = np.maximum(now[len(equal) :], 0.0)
            return now[: len(equal)], answer
    return free, multiplier
