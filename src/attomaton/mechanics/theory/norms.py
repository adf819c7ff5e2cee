r"""The direction of training in other norms: optimisers differ in what they call the steepest step.

For a norm $N$ the largest margin is $\gamma_N = 1/N(W_N)$ with

$$W_N = \arg\min N(W) \ \text{ s.t. } (e_i - e_j)^\top W e_k = 0 \ (i \asymp j), \quad \ge 1 \ (i \Rightarrow j)
\quad\text{in } G^{(k)}.$$

Its dual maximises $\sum\lambda$ over $\lambda \ge 0$ with $N^*(D) \le 1$: $D = \sum \lambda\,(e_i - e_j)e_k^\top$ plus
anything in $S_{fin}$, and $N^*$ the dual norm. Both are homogeneous: what a solver answers is shifted onto the ties and
scaled until every constraint holds, and its error then stands in the gap alone.

For one-hot tokens the max norm needs no solver. Scores in $[-v, v]$ that fall by 1 at each step of a chain of $c$
strict priorities need $2v \ge c$; and half the difference between the longest ways down and up from each component,
at most $c/2$, has all margins. So $\gamma_{max} = 2/c$, and the chain itself is the dual: $\lambda = \tfrac12$ on it.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from attomaton.base.face import Shown
from attomaton.base.shapes import Float, Int
from attomaton.corpus.samples import Samples
from attomaton.errors import SolverError, UsageError, number, one_of
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.theory.dependent import inside
from attomaton.mechanics.theory.graph import PriorityGraph
from attomaton.mechanics.theory.svm import balance, divergence, incidence, merged_nodes, violation
from attomaton.results import KKT

Norm = str | float | int  # a name, or the p of an entrywise norm
NAMES = ("frobenius", "max", "spectral", "nuclear")
DUAL: dict[Norm, Norm] = {
    "frobenius": "frobenius", "max": 1.0, 1.0: "max", "spectral": "nuclear", "nuclear": "spectral",
}  # fmt: skip
CERTIFIED = 1e-6  # residual above which an answer is an error
MOST_ENTRIES = 20_000  # of one program: components of a last token, or entries of W
MOST_NUMBERS = 4 * 10**6  # of all dense rows together
WIDEST = 64  # rows and columns of W together for the norms of singular values
MOST_WRITTEN = 25 * 10**6  # entries of W
ROUNDS = 300  # of reweighting
CLOSE = 1e-8  # gap at which it ends
SMALL = 1e-8  # least entry, and least weight, relative to the largest entry
SAME = 1e-9  # singular values, relative to the largest, that count as 0

Sparse = Any  # a SciPy matrix; SciPy is imported where something is solved, so that a model opens at once
Scores = Float[np.ndarray, " pairs"]
Multipliers = Float[np.ndarray, " dag_edges"]
Matrix = Float[np.ndarray, "keys queries"]


@dataclass(frozen=True)
class Chain:
    """Tokens of one last token's graph, each of which outranks the next (all by their ids)."""

    last: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class NormLimit(Shown):
    """W_N: a smallest W in a norm that has all margins, and what proves that none is smaller.

    `score` are its scores on the observed pairs. `W` is None where these, written out, are W itself: for one-hot
    tokens and an entrywise norm. `multiplier` has one number for each DAG edge, `flow` the coefficients on the pairs
    of D. There may be other W of the same value, but for 1 < p < ∞.
    """

    norm: Norm
    value: float  # N(W_N); 0 where no token outranks another
    score: Scores
    W: Matrix | None
    multiplier: Multipliers
    flow: Scores
    certificate: KKT
    chain: Chain | None = None  # a longest one, where that is the proof

    @property
    def margin(self) -> float:
        """The best margin γ_N of any W of norm 1: ∞ where none is asked for."""
        return 1.0 / self.value if self.value else np.inf


def check_norm(norm: object) -> Norm:
    """A norm by its name, or by the p of the entrywise p-norm.

    >>> check_norm("max"), check_norm(2), check_norm(float("inf")), check_norm(3)
    ('max', 'frobenius', 'max', 3.0)
    """
    if isinstance(norm, str):
        one_of("norm", norm, NAMES)
        return norm
    p = number("norm", norm, least=1)
    return {2.0: "frobenius", np.inf: "max"}.get(p, p)


def norm_key(norm: Norm) -> str:
    """A norm as records of a run are named after it: `margin_max`, `cosine_1.5`."""
    return norm if isinstance(norm, str) else f"{norm:g}"


def norm_of(W: Float[np.ndarray, "*shape"], norm: Norm) -> float:
    """N(W). Entrywise norms take entries of any shape.

    >>> [round(norm_of(np.array([[3.0, 0.0], [0.0, -4.0]]), x), 3) for x in ("frobenius", "max", "nuclear", 1.0)]
    [5.0, 4.0, 7.0, 7.0]
    """
    if norm in ("spectral", "nuclear"):
        singular = np.linalg.svd(W, compute_uv=False)
        return float(singular.max(initial=0.0) if norm == "spectral" else singular.sum())
    size = np.abs(W)
    most = float(size.max(initial=0.0))
    if norm == "max" or not most:
        return most
    p = 2.0 if norm == "frobenius" else float(norm)
    return most * float(((size / most) ** p).sum() ** (1 / p))


def dual_of(norm: Norm) -> Norm:
    """The norm N* with ⟨W, D⟩ ≤ N(W) N*(D)."""
    return DUAL[norm] if norm in DUAL else float(norm) / (float(norm) - 1)


def certify(
    graph: PriorityGraph,
    samples: Samples,
    embeddings: Embeddings | None,
    norm: Norm,
    W: Matrix | None,
    score: Scores,
    multiplier: Multipliers,
    flow: Scores,
) -> KKT:
    """Residuals that prove an answer where they are 0: margins sample by sample, N*(D) ≤ 1, N(W) = Σ λ."""
    if not all(np.isfinite(x).all() for x in (score, flow, multiplier)):
        return KKT(np.inf, np.inf, np.inf)
    entries, D = (score, flow) if W is None else (W, _matrix(graph, embeddings, flow))
    given = np.abs(score - (score if W is None else _scores(graph, embeddings, W)))
    value = norm_of(entries, norm)
    size = float(max(multiplier.max(initial=0.0), np.abs(flow).max(initial=0.0))) or 1.0
    return KKT(
        primal=max(violation(graph, samples, score), float(given.max(initial=0.0))),
        dual=max(
            max(balance(graph, flow, multiplier), -float(multiplier.min(initial=0.0))) / size,
            norm_of(D, dual_of(norm)) - 1.0,
        ),
        gap=abs(value - float(multiplier.sum())) / (value or 1.0),
    )


def norm_limit(
    graph: PriorityGraph, samples: Samples, embeddings: Embeddings | None, norm: Norm
) -> NormLimit:
    """W_N of the ties and priorities of a graph, certified against the samples."""
    W, chain = None, None
    if embeddings is None and norm == "max":
        score, flow, multiplier, chain = _longest(graph)
    elif embeddings is None and norm not in ("spectral", "nuclear"):
        score, flow, multiplier = _by_components(graph, norm)
    else:
        W, flow, multiplier = _by_matrix(graph, embeddings, norm)
        score = _scores(graph, embeddings, W)
    certificate = certify(graph, samples, embeddings, norm, W, score, multiplier, flow)
    if not certificate.worst <= CERTIFIED:
        raise SolverError(
            f"norm {norm}: no certified answer (residuals: primal {certificate.primal:.1e}, dual "
            f"{certificate.dual:.1e}, gap {certificate.gap:.1e}; at most {CERTIFIED:.0e} is needed)."
        )
    value = norm_of(score if W is None else W, norm)
    return NormLimit(norm, value, score, W, multiplier, flow, certificate, chain)


def _longest(graph: PriorityGraph) -> tuple[Scores, Scores, Multipliers, Chain | None]:
    """Scores, flow, multipliers and the chain of the max norm for one-hot tokens."""
    a, b = graph.dag
    flow, multiplier = np.zeros(len(graph.pair_last)), np.zeros(len(a))
    score = ((graph.height - graph.level) / 2.0)[graph.component]
    if not len(a):
        return score, flow, multiplier, None
    way = [int(graph.height.argmax())]
    while graph.height[way[-1]]:
        lo, hi = np.searchsorted(a, [way[-1], way[-1] + 1])
        step = lo + int((graph.height[b[lo:hi]] == graph.height[way[-1]] - 1).argmax())
        multiplier[step] = 0.5
        way.append(int(b[step]))
    last = int(graph.component_last[way[0]])
    pairs = graph.pairs_of(last)
    head = [pairs.start + int((graph.component[pairs] == c).argmax()) for c in way]
    flow[head[0]], flow[head[-1]] = 0.5, -0.5
    return score, flow, multiplier, Chain(last, tuple(int(x) for x in graph.pair_token[head]))


def _scores(graph: PriorityGraph, embeddings: Embeddings | None, W: Matrix) -> Scores:
    """e_xᵀ W e_q of every pair."""
    if embeddings is None:
        return W[graph.pair_token, graph.pair_last]
    keys, queries = embeddings.keys, embeddings.queries
    return ((keys @ W)[graph.pair_token] * queries[graph.pair_last]).sum(axis=1)


def _matrix(graph: PriorityGraph, embeddings: Embeddings | None, flow: Scores) -> Matrix:
    """Σ flow e_x e_qᵀ over the pairs; for one-hot tokens without the rows and columns that hold nothing."""
    from scipy.sparse import csr_array

    tokens, row = np.unique(graph.pair_token, return_inverse=True)
    lasts, column = np.unique(graph.pair_last, return_inverse=True)
    M = csr_array((flow, (row, column)), shape=(len(tokens), len(lasts)))
    if embeddings is None:
        return M.toarray()
    return embeddings.keys[tokens].T @ (M @ embeddings.queries[lasts])


@dataclass(frozen=True, eq=False)
class _Program:
    """min N(w), above · w ≥ 1, ties · w = 0: the entries w of W, or of what stands for it."""

    above: Sparse
    ties: Float[np.ndarray, "ties entries"]  # orthonormal rows
    shape: tuple[int, int]  # of the matrix with entries w

    def solve(self, norm: Norm) -> "_Found":
        """w, the multipliers λ and those of the ties, scaled so that all constraints of either program hold."""
        by_name = {"spectral": self._spectral, "nuclear": self._nuclear}
        if norm in by_name:
            w, multiplier, free = by_name[str(norm)]()
        elif norm in ("max", 1.0):
            w, multiplier, free = self._linear(norm)
        else:
            w, multiplier, free = self._reweighted(float(norm))
        w = w - self.ties.T @ (self.ties @ w)
        multiplier = np.maximum(multiplier, 0.0)
        D = self.above.T @ multiplier + self.ties.T @ free
        if not (np.isfinite(D).all() and np.isfinite(w).all() and (self.above @ w).min() > 0):
            raise SolverError(f"norm {norm}: its solver found no W with all margins.")
        size = norm_of(D.reshape(self.shape), dual_of(norm))
        return w / (self.above @ w).min(), multiplier / size, free / size

    def _linear(self, norm: Norm) -> "_Found":
        """The norms max and 1 by HiGHS: |w| ≤ t, one t for all entries or one for each."""
        from scipy.optimize import linprog
        from scipy.sparse import block_array, coo_array, eye_array

        edges, n = self.above.shape
        one = eye_array(n)
        bound = one if norm == 1.0 else coo_array(np.ones((n, 1)))
        k = bound.shape[1]
        equal = block_array([[coo_array((len(self.ties), k)), coo_array(self.ties)]], format="csc")
        answer = linprog(
            np.repeat([1.0, 0.0], [k, n]),
            block_array([[-bound, one], [-bound, -one], [None, -self.above]], format="csc"),
            np.repeat([0.0, -1.0], [2 * n, edges]),
            equal,
            np.zeros(len(self.ties)),
            bounds=(None, None),
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if answer.status:
            raise SolverError(f"norm {norm}: {answer.message}")
        return answer.x[k:], -answer.ineqlin.marginals[2 * n :], answer.eqlin.marginals

    def _reweighted(self, p: float) -> "_Found":
        """Entrywise p-norms by Newton's method: quadratic programs with the weights |w|^(p−2), and a line search.

        Each of them bounds the value from below, too; it ends when the best bound is as good as w.
        """
        from scipy.optimize import minimize_scalar

        w, *found = self._quadratic(np.ones(self.above.shape[1]))
        best, bound = found, 0.0
        for _ in range(ROUNDS):
            D = self.above.T @ found[0] + self.ties.T @ found[1]
            here = float(found[0].sum()) / norm_of(D, dual_of(p))
            if here > bound:
                best, bound = found, here
            if norm_of(w, p) - bound <= CLOSE * bound:
                break
            size = np.abs(w) / np.abs(w).max()
            # No weight is endless, none is nothing: a program has to be solved with them.
            weight = np.maximum(np.maximum(size, SMALL) ** (p - 2), SMALL)
            new, *found = self._quadratic(weight)
            move = new - w
            length = minimize_scalar(
                lambda x, w=w, move=move: norm_of(w + x * move, p), bounds=(0, 1),
                method="bounded", options={"xatol": 1e-9},
            ).x  # fmt: skip
            w = w + length * move
        return w, best[0], best[1]

    def _quadratic(self, weight: Float[np.ndarray, " entries"]) -> "_Found":
        """min Σ weight w², by PIQP, scaled to have all margins."""
        import piqp
        from scipy.sparse import csc_matrix, diags_array

        edges, n = self.above.shape
        solver = piqp.SparseSolver()
        settings = solver.settings
        settings.eps_abs = settings.eps_rel = 1e-10
        settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = 1e-10
        ties = {"A": csc_matrix(self.ties), "b": np.zeros(len(self.ties))} if len(self.ties) else {}
        square = csc_matrix(diags_array(weight))
        solver.setup(square, np.zeros(n), **ties, G=csc_matrix(self.above), h_l=np.ones(edges))
        solver.solve()
        w = np.array(solver.result.x)
        free = -np.array(solver.result.y) if len(self.ties) else np.zeros(0)
        return w / (self.above @ w).min(), np.maximum(solver.result.z_l, 0.0), free

    def _spectral(self) -> "_Found":
        """The least t with t I ± [0 W; Wᵀ 0] positive semidefinite; variables t, w."""
        import clarabel
        from scipy.sparse import block_array, coo_array

        edges, n = self.above.shape
        diagonal, off, size = self._triangle
        row, column = np.append(diagonal, off), np.append(0 * diagonal, 1 + np.arange(n))
        entry = np.repeat([-1.0, -np.sqrt(2)], [len(diagonal), n])
        cone = coo_array((entry, (row, column)), shape=(size, n + 1))
        k = len(self.ties)
        A = block_array(
            [[coo_array((k, 1)), coo_array(self.ties)], [coo_array((edges, 1)), -self.above]]
        )
        cones = [
            clarabel.ZeroConeT(k),
            clarabel.NonnegativeConeT(edges),
            clarabel.PSDTriangleConeT(len(diagonal)),
        ]
        b = np.repeat([0.0, -1.0, 0.0], [k, edges, size])
        x, z = _conic(np.append(1.0, np.zeros(n)), block_array([[A], [cone]]), b, cones)
        return x[1:], z[k : k + edges], -z[:k]

    def _nuclear(self) -> "_Found":
        """The largest Σ λ with I ± [0 D; Dᵀ 0] positive semidefinite, whose own multipliers are W."""
        import clarabel
        from scipy.sparse import block_array, coo_array, eye_array

        edges, n = self.above.shape
        diagonal, off, size = self._triangle
        k = len(self.ties)
        place = coo_array((np.full(n, -np.sqrt(2)), (off, np.arange(n))), shape=(size, n))
        rows = place @ block_array([[self.above], [coo_array(self.ties)]]).T
        A = block_array([[block_array([[-eye_array(edges), coo_array((edges, k))]])], [rows]])
        b = np.zeros(edges + size)
        b[edges + diagonal] = 1.0
        cones = [clarabel.NonnegativeConeT(edges), clarabel.PSDTriangleConeT(len(diagonal))]
        x, z = _conic(np.repeat([-1.0, 0.0], [edges, k]), A, b, cones)
        return -np.sqrt(2) * z[edges + off], x[:edges], x[edges:]

    @cached_property
    def _triangle(self) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " entries"], int]:
        """Where the diagonal and W stand in the upper triangle, column by column, of [· W; Wᵀ ·], and its size."""
        rows, columns = self.shape
        k = np.arange(rows + columns)
        i, j = np.divmod(np.arange(rows * columns), columns)
        column = rows + j
        return k * (k + 3) // 2, column * (column + 1) // 2 + i, len(k) * (len(k) + 1) // 2


_Found = tuple[Float[np.ndarray, " entries"], Multipliers, Float[np.ndarray, " ties"]]


def _conic(
    q: Float[np.ndarray, " variables"], A: Sparse, b: Float[np.ndarray, " rows"], cones: list[Any]
) -> tuple[Float[np.ndarray, " variables"], Float[np.ndarray, " rows"]]:
    """min q · x with b − A x in the cones, by Clarabel: x and the multipliers; a certificate judges them."""
    import clarabel
    from scipy.sparse import csc_matrix

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    answer = clarabel.DefaultSolver(
        csc_matrix((len(q), len(q))), q, csc_matrix(A), b, cones, settings
    ).solve()
    return np.array(answer.x), np.array(answer.z)


def _differences(graph: PriorityGraph) -> tuple[Sparse, Sparse]:
    """DAG edges, and pairs of a component against its first, as differences of rows of the pairs."""
    (a, b), P = graph.dag, len(graph.pair_last)
    head = np.unique(graph.component, return_index=True)[1]
    return incidence(head[a], head[b], P), incidence(*inside(graph), P)


def _by_components(graph: PriorityGraph, norm: Norm) -> tuple[Scores, Scores, Multipliers]:
    """Scores, flow and multipliers of an entrywise norm for one-hot tokens: a program for each last token.

    It has one number for each component, longer than its score by the p-th root of its size, so that ties need no
    constraint; leaves below the same components are one.
    """
    merged, p = merged_nodes(graph), float(norm)
    length = merged.size ** (-1 / p)
    score, multiplier, value = np.zeros(len(length)), np.zeros(len(merged.start)), [0.0]
    cuts = np.flatnonzero(np.diff(merged.last[merged.start], append=-1)) + 1
    for lo, hi in pairwise([0, *cuts]):
        ends = np.concatenate([merged.start[lo:hi], merged.end[lo:hi]])
        nodes, which = np.unique(ends, return_inverse=True)
        _check_size(norm, (len(nodes), 1), 0, 0)
        rows = incidence(which[: hi - lo], which[hi - lo :], len(nodes))
        rows = rows.multiply(length[nodes]).tocsc()
        program = _Program(rows, np.zeros((0, len(nodes))), (len(nodes), 1))
        w, multiplier[lo:hi], _ = program.solve(norm)
        score[nodes] = length[nodes] * w
        value.append(norm_of(w, norm))
    # Last tokens share nothing but the norm of their values: that weighs their multipliers.
    whole = norm_of(np.array(value), norm)
    multiplier *= np.repeat((np.array(value) / (whole or 1.0)) ** (p - 1), np.diff([0, 0, *cuts]))
    multiplier = multiplier[merged.edge] * merged.share
    # What leaves a component is shared evenly by its tokens: the smallest flow in any of these norms.
    flow = divergence(graph, multiplier) / graph.component_size
    return score[merged.of][graph.component], flow[graph.component], multiplier


def _by_matrix(
    graph: PriorityGraph, embeddings: Embeddings | None, norm: Norm
) -> tuple[Matrix, Scores, Multipliers]:
    """W, flow and multipliers where all entries of W matter: any embeddings, or a norm of singular values."""
    from scipy.linalg import orth
    from scipy.sparse import csr_array, eye_array

    singular, P = norm in ("spectral", "nuclear"), len(graph.pair_last)
    tokens, row = np.unique(graph.pair_token, return_inverse=True)
    lasts, column = np.unique(graph.pair_last, return_inverse=True)
    # W = left · core · rightᵀ: outside the span of what was seen a norm of singular values only grows.
    left: Any
    right: Any
    if embeddings is None:
        one = eye_array(len(graph.vocabulary), format="csc")
        left, right = one[:, tokens], one[:, lasts]
    else:
        keys, queries = embeddings.keys[tokens], embeddings.queries[lasts]
        spans = (orth(x.T, SAME) if singular else np.eye(x.shape[1]) for x in (keys, queries))
        left, right = spans
    shape = (left.shape[1], right.shape[1])
    _check_size(norm, shape, P + len(graph.dag[0]), left.shape[0] * right.shape[0])
    if not len(graph.dag[0]):
        return np.zeros((left.shape[0], right.shape[0])), np.zeros(P), np.zeros(0)
    if embeddings is None:
        keys, queries = np.eye(shape[0]), np.eye(shape[1])
    else:
        keys, queries = keys @ left, queries @ right
    unit = float(
        np.sqrt(np.square(keys).sum(axis=1).mean() * np.square(queries).sum(axis=1).mean())
    )
    pairs = csr_array((keys[row][:, :, None] * queries[column][:, None, :]).reshape(P, -1)) / unit
    above, ties = _differences(graph)
    tied = (ties @ pairs).toarray()
    basis = orth(tied.T, SAME).T if len(tied) else tied
    w, multiplier, free = _Program(above @ pairs, basis, shape).solve(norm)
    flow = above.T @ multiplier
    if len(tied):
        flow += ties.T @ np.linalg.lstsq(tied.T, basis.T @ free, rcond=None)[0]
    W = np.asarray(left @ w.reshape(shape) @ right.T)
    return W / unit, flow / unit, multiplier / unit


def _check_size(norm: Norm, shape: tuple[int, int], rows: int, written: int) -> None:
    """Refuse what its solver would not finish, and a W that nobody could hold."""
    entries = shape[0] * shape[1]
    if norm in ("spectral", "nuclear"):
        if sum(shape) > WIDEST or written > MOST_WRITTEN:
            raise UsageError(
                f"norm {norm}: tokens span {shape[0]:,} dimensions and last tokens {shape[1]:,}, and W has {written:,} "
                f"entries; at most {WIDEST} dimensions together and {MOST_WRITTEN:.1e} entries are allowed. Use fewer "
                "samples or dimensions."
            )
    elif entries > MOST_ENTRIES or rows * entries > MOST_NUMBERS:
        raise UsageError(
            f"norm {norm}: a program of {entries:,} numbers and {rows:,} dense rows is too large for its solver; at "
            f"most {MOST_ENTRIES:,} numbers, and {MOST_NUMBERS:.0e} in all rows, are allowed. Use fewer samples or "
            "dimensions. For one-hot tokens (the default) the norms frobenius and max have no bound."
        )
