"""Graph-SVM: our certified solver against CVXPY with SCS, set to a tolerance of 1e-6, on W itself."""

import warnings
from collections.abc import Iterator

import cvxpy as cp
import numpy as np

from attomaton.mechanics.data import Embeddings, check_embeddings
from attomaton.mechanics.synthetic import draw_samples
from attomaton.mechanics.theory.graph import PriorityGraph, build_graph
from attomaton.mechanics.theory.svm import GraphSVM, graph_svm
from benchmarks.table import Row, best_of, say

PROBLEMS, K, N, LENGTH = 10, 20, 80, 5
SCS_TOLERANCE = 1e-6


def constraints(graph: PriorityGraph, E: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(e_i − e_j) e_kᵀ flattened for every edge: those inside components, those across."""
    i, j = graph.edge_from, graph.edge_to
    difference = E[graph.pair_token[i]] - E[graph.pair_token[j]]
    A = np.einsum("na,nb->nab", difference, E[graph.pair_last[i]]).reshape(len(i), -1)
    tied = graph.component[i] == graph.component[j]
    return A[tied], A[~tied]


def scs_answer(ties: np.ndarray, wins: np.ndarray, d: int) -> tuple[np.ndarray, float]:
    """W by CVXPY, and the seconds SCS itself took."""
    W = cp.Variable(d * d)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(W)), [ties @ W == 0, wins @ W >= 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.SCS, eps_abs=SCS_TOLERANCE, eps_rel=SCS_TOLERANCE)
    return W.value, problem.solver_stats.solve_time


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for kind in ("orthonormal", "random"):
        say(f"graph-svm: {PROBLEMS} problems, {kind} embeddings")
        ours = whole = inner = 0.0
        worst, residual = 0.0, 0.0
        for _ in range(PROBLEMS):
            samples = draw_samples(rng, K, N, LENGTH, kind="cyclic", lasts=4)
            graph = build_graph(samples)
            E, embeddings = np.eye(K), None
            if kind == "random":
                E = rng.standard_normal((K, K + 4))
                E /= np.linalg.norm(E, axis=1, keepdims=True)
                embeddings = check_embeddings(E)
            seconds, found = best_of(lambda g=graph, s=samples, e=embeddings: solve(g, s, e))
            ours += seconds
            worst = max(worst, found.certificate.worst)
            ties, wins = constraints(graph, E)
            begin, (W, solve_time) = best_of(
                lambda t=ties, w=wins, e=E: scs_answer(t, w, e.shape[1]), 1
            )
            whole += begin
            inner += solve_time
            residual = max(residual, np.abs(ties @ W).max(initial=0), (1 - wins @ W).max(initial=0))
        for name, theirs in (("CVXPY+SCS", whole), ("SCS alone", inner)):
            yield Row(
                "graph-svm",
                f"{name} (tol 1e-6) / ours ({kind} E, K={K}, {PROBLEMS} problems)",
                theirs / ours,
                f"worst residual {residual:.0e} / {worst:.0e}",
                {"other_s": theirs, "ours_s": ours},
            )


def solve(graph: PriorityGraph, samples: object, embeddings: Embeddings | None) -> GraphSVM:
    return graph_svm(graph, samples, embeddings)
