"""Graph-SVM: certificates recomputed from raw samples, a second solver, invariants, refusals."""

from dataclasses import dataclass

import clarabel
import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.sparse import csc_matrix
from tests import oracle
from tests.unchecked import unchecked_types

from attomaton.errors import AssumptionError, DataError, SolverError, UsageError
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.theory import svm
from attomaton.mechanics.theory.finite import FiniteSubspace
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.limit import Limit, solve_limit

CERTIFIED = 1e-9

# Half the squared distance to the optimum is bounded by the duality gap: a second interior-point
# solver at 1e-13 promises 5e-7 (relative to ‖W‖) where a constraint is met without being needed.
SAME = 1e-6


@dataclass(frozen=True)
class Problem:
    raw: oracle.Raw
    E: np.ndarray
    limit: Limit
    W: np.ndarray
    ties: list[np.ndarray]
    wins: list[np.ndarray]


def constraints(raw: oracle.Raw, E: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(e_i − e_j) e_kᵀ flattened for every edge i → j of G^(k): inside components, and across."""
    part = oracle.components(raw)
    ties, wins = [], []
    for k, arrows in oracle.edges(raw).items():
        for i, j in arrows:
            a = np.outer(E[i] - E[j], E[k]).ravel()
            (ties if part[k][i] == part[k][j] else wins).append(a)
    return ties, wins


def make(i: int) -> Problem:
    """Problem number i: even ones orthonormal, odd ones with random unit vectors."""
    rng = np.random.default_rng([2, i])
    K = int(rng.integers(3, 10))
    n, lasts = int(rng.integers(2, 3 * K)), int(rng.integers(1, 4))
    raw = oracle.draw(rng, K, n, lasts, repeats=rng.random() < 0.5)
    E = oracle.unit_rows(rng, K, K + int(rng.integers(3))) if i % 2 else np.eye(K)
    limit = solve_limit(raw.samples(), check_embeddings(E) if i % 2 else None)
    return Problem(raw, E, limit, limit.dense(limit.svm.coefficient), *constraints(raw, E))


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    checked = [make(i) for i in range(20)]
    with unchecked_types():
        return checked + [make(i) for i in range(20, 1000)]


def clarabel_answer(ties: list[np.ndarray], wins: list[np.ndarray], size: int) -> np.ndarray:
    """min ½‖w‖² with ties · w = 0 and wins · w ≥ 1, in the d² coordinates of W."""
    A = np.vstack([*ties, *(-a for a in wins)])
    b = np.concatenate([np.zeros(len(ties)), -np.ones(len(wins))])
    cones = [clarabel.ZeroConeT(len(ties)), clarabel.NonnegativeConeT(len(wins))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    settings.static_regularization_constant = 1e-12  # its usual 1e-8 stalls on redundant ties
    settings.iterative_refinement_max_iter = 50
    settings.iterative_refinement_abstol = settings.iterative_refinement_reltol = 1e-14
    identity = csc_matrix(np.eye(size))
    solver = clarabel.DefaultSolver(identity, np.zeros(size), csc_matrix(A), b, cones, settings)
    return np.array(solver.solve().x)


def plain_violation(problem: Problem, W: np.ndarray) -> float:
    """The worst violated constraint, position by position over the raw samples."""
    part, worst = oracle.components(problem.raw), 0.0
    for row, y, _ in problem.raw:
        k = row[-1]
        for x in row:
            margin = float((problem.E[y] - problem.E[x]) @ W @ problem.E[k])
            worst = max(worst, abs(margin) if part[k][x] == part[k][y] else 1.0 - margin)
    return worst


def plain_stationarity(problem: Problem, W: np.ndarray) -> float:
    """How far W is from a non-negative mixture of its active constraints (ties: of any sign).

    The multipliers are found anew by non-negative least squares, so that nothing of the solver under
    test is used. A W that is feasible and such a mixture is optimal: its duality gap is 0.
    """
    w = W.ravel()
    active = [a for a in problem.wins if a @ w < 1 + 1e-6]
    columns = [*active, *problem.ties, *(-a for a in problem.ties)]
    if not columns:
        return float(np.linalg.norm(w))
    return float(nnls(np.column_stack(columns), w, maxiter=10_000)[1])


def test_draws_are_varied(problems):
    """Ties together with priorities, single last tokens and several: the loop below sees them all."""
    assert sum(bool(p.ties) and bool(p.wins) for p in problems) > 300
    assert sum(not p.wins for p in problems) > 10
    assert sum(not p.ties for p in problems) > 100
    assert sum(len(oracle.nodes(p.raw)) > 1 for p in problems) > 300
    assert sum(any(len(set(row)) < len(row) for row in p.raw.rows) for p in problems) > 300


def test_certificates(problems):
    for p in problems:
        found = p.limit.svm.certificate
        assert max(found.primal, found.dual, found.gap) <= CERTIFIED


def test_certificates_recomputed_from_raw_samples(problems):
    for p in problems:
        assert plain_violation(p, p.W) <= CERTIFIED
        # Least squares ends with a residual of rounding size, relative to ‖W‖ (up to some 10²).
        assert plain_stationarity(p, p.W) <= CERTIFIED * max(1.0, p.limit.svm.norm)


def test_multipliers_prove_optimality(problems):
    """‖W‖² = Σλ and λ ≥ 0 on the condensation's edges, in dense coordinates."""
    for p in problems:
        multiplier = p.limit.svm.multiplier
        assert (multiplier >= 0).all()
        gap = np.vdot(p.W, p.W) - multiplier.sum()
        assert abs(gap) <= CERTIFIED * max(1.0, np.vdot(p.W, p.W))
        assert p.limit.svm.norm == pytest.approx(np.linalg.norm(p.W), rel=1e-12, abs=1e-12)


def test_scores_are_those_of_the_dense_matrix(problems):
    for p in problems:
        graph = p.limit.graph
        S = p.E @ p.W @ p.E.T
        np.testing.assert_allclose(
            p.limit.svm.score, S[graph.pair_token, graph.pair_last], rtol=1e-11, atol=1e-11
        )


def test_a_second_solver_agrees(problems):
    for p in problems:
        if p.wins:
            other = clarabel_answer(p.ties, p.wins, p.W.size).reshape(p.W.shape)
            assert np.abs(other - p.W).max() <= SAME * max(1.0, p.limit.svm.norm)
        else:
            assert p.limit.svm.norm == 0


def test_control_reversed_edges_disagree(problems):
    """The same check on turned edges must fail, or it would accept anything."""
    some = [p for p in problems if p.wins][:50]
    for p in some:
        turned = clarabel_answer(p.ties, [-a for a in p.wins], p.W.size).reshape(p.W.shape)
        assert np.abs(turned - p.W).max() > 0.1
        assert plain_violation(p, -p.W) > 1
        assert plain_stationarity(p, 1.01 * p.W) > 1e-3  # feasible, but longer than it need be


def test_control_forgetting_the_ties_disagrees(problems):
    differ = 0
    some = [p for p in problems if p.ties and p.wins][:50]
    for p in some:
        loose = clarabel_answer([np.zeros(p.W.size)], p.wins, p.W.size).reshape(p.W.shape)
        differ += np.abs(loose - p.W).max() > 0.01
    assert differ > len(some) / 2


def test_orthogonal_to_the_finite_subspace(problems):
    for p in problems[:200]:
        space = FiniteSubspace(p.limit.graph, check_embeddings(p.E))
        inside = np.einsum("nab,ab->n", space.basis, p.W)
        assert np.abs(inside).max(initial=0.0) <= CERTIFIED * max(1.0, p.limit.svm.norm)


def test_relabelling_tokens_permutes_the_answer(problems):
    for i, p in enumerate(problems[:100]):
        new = np.random.default_rng([3, i]).permutation(p.raw.K)
        E = np.empty_like(p.E)
        E[new] = p.E
        embeddings = check_embeddings(E) if i % 2 else None
        other = solve_limit(p.raw.relabelled(new).samples(), embeddings)
        W = other.dense(other.svm.coefficient)
        # Renamed tokens keep their vectors (same W); the standard basis is renamed with them.
        back = W if i % 2 else W[np.ix_(new, new)]
        assert np.abs(back - p.W).max() <= SAME * max(1.0, p.limit.svm.norm)


def test_duplicates_and_weights_change_nothing(problems):
    for i, p in enumerate(problems[:100]):
        weights = tuple(np.random.default_rng([4, i]).uniform(0.1, 9, 2 * len(p.raw.rows)))
        twice = oracle.Raw(p.raw.K, p.raw.rows * 2, p.raw.labels * 2, weights)
        other = solve_limit(twice.samples(), p.limit.embeddings)
        np.testing.assert_array_equal(other.svm.score, p.limit.svm.score)


@pytest.mark.parametrize("seed", range(30))
def test_rotating_embeddings_rotates_the_answer(seed):
    """(e_i Q)ᵀ W' (e_k Q) = e_iᵀ W e_k for W' = Qᵀ W Q, of the same norm."""
    p = make(2 * seed + 1)
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((p.E.shape[1],) * 2))[0]
    other = solve_limit(p.raw.samples(), check_embeddings(p.E @ Q))
    W = other.dense(other.svm.coefficient)
    assert np.abs(W - Q.T @ p.W @ Q).max() <= SAME * max(1.0, p.limit.svm.norm)


@pytest.mark.parametrize("scale", [1e-3, 0.1, 10.0, 1e3])
def test_scaling_embeddings_scales_the_answer(scale):
    """c·E asks for margins of 1 again, so W becomes W/c², and the certificate stays as good."""
    for i in range(1, 60, 2):
        p = make(i)
        other = solve_limit(p.raw.samples(), check_embeddings(scale * p.E))
        W = scale**2 * other.dense(other.svm.coefficient)
        assert np.abs(W - p.W).max() <= SAME * max(1.0, p.limit.svm.norm)
        assert other.svm.certificate.worst <= CERTIFIED


def test_both_solvers_agree_where_both_apply():
    """A rotation Q is orthonormal: the split and the coupled program describe one problem."""
    for i in range(0, 60, 2):
        p = make(i)
        H = svm.pair_gram(p.limit.graph, check_embeddings(p.E))
        coefficient, _ = svm._solve_coupled(p.limit.graph, H)
        np.testing.assert_allclose(coefficient, p.limit.svm.score, rtol=0, atol=SAME)


def test_small_batches_give_the_same(monkeypatch):
    raw = oracle.draw(np.random.default_rng(5), 9, 80, 9)
    whole = solve_limit(raw.samples())
    monkeypatch.setattr(svm, "BATCH", 1)
    assert np.abs(solve_limit(raw.samples()).svm.score - whole.svm.score).max() <= SAME


def test_long_chain():
    """1,000 tokens in a row: scores (n−1)/2, …, −(n−1)/2, so ‖W‖² = n(n² − 1)/12 exactly."""
    n = 1000
    rows = tuple((i, i + 1, n - 1) for i in range(n - 1))
    raw = oracle.Raw(n, rows, tuple(range(n - 1)), (1.0,) * (n - 1))
    limit = solve_limit(raw.samples())
    np.testing.assert_allclose(limit.svm.score, (n - 1) / 2 - np.arange(n), rtol=0, atol=1e-9 * n)
    assert limit.svm.norm**2 == pytest.approx(n * (n**2 - 1) / 12, rel=1e-12)


# What is refused


@pytest.mark.parametrize("seed", range(5))
def test_dependent_rows_are_told_from_independent_ones(seed):
    rng = np.random.default_rng(seed)
    E = oracle.unit_rows(rng, 4, 6)
    assert check_embeddings(E).independent
    E[2] = 0.5 * E[0] - 2 * E[3]
    assert check_embeddings(E).rank == 3
    assert not check_embeddings(E).independent


def test_too_narrow_embeddings_are_dependent():
    assert check_embeddings(oracle.unit_rows(np.random.default_rng(0), 5, 3)).rank == 3
    assert check_embeddings(np.zeros((2, 2))).rank == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_embeddings_must_be_finite(bad):
    E = np.eye(3)
    E[1, 2] = bad
    with pytest.raises(DataError, match="row 1, column 2"):
        check_embeddings(E)


@pytest.mark.parametrize(
    "E", [np.ones(3), np.ones((2, 2, 2)), np.ones((0, 3)), [["a", "b"]], np.eye(2) * 1j]
)
def test_embeddings_must_be_a_matrix_of_numbers(E):
    with pytest.raises(DataError, match="expected a matrix"):
        check_embeddings(E)


def test_embeddings_must_have_a_row_for_each_token():
    with pytest.raises(DataError, match="3 rows for a vocabulary of 4"):
        check_embeddings(np.eye(3), 4)
    raw = oracle.draw(np.random.default_rng(0), 4, 5, 2)
    with pytest.raises(DataError, match="3 rows for a vocabulary of 4"):
        solve_limit(raw.samples(), check_embeddings(np.eye(3)))


@pytest.mark.parametrize("gap", [1e-4, 1e-5, 1e-6, 1e-8])
def test_nearly_dependent_embeddings_are_certified_or_refused(gap):
    """Never an uncertified answer, never an error from the linear algebra below."""
    E = np.eye(6)
    E[1] = E[0] + gap * E[1]
    rng = np.random.default_rng(0)
    named = []
    for _ in range(5):
        raw = oracle.draw(rng, 6, 6, 2, repeats=False)
        try:
            worst = solve_limit(raw.samples(), check_embeddings(E)).svm.certificate.worst
        except (AssumptionError, SolverError) as refused:
            named.append("condition number" in str(refused))
            continue
        assert worst <= svm.CERTIFIED
    assert all(named)


def test_too_many_coupled_pairs_are_refused(monkeypatch):
    monkeypatch.setattr(svm, "COUPLED_PAIRS", 3)
    raw = oracle.draw(np.random.default_rng(0), 5, 9, 2)
    graph = build_graph(raw.samples())
    E = check_embeddings(oracle.unit_rows(np.random.default_rng(1), 5, 5))
    with pytest.raises(UsageError, match="limit is 3 pairs"):
        svm.graph_svm(graph, raw.samples(), E)


def test_an_uncertified_answer_is_an_error(monkeypatch):
    monkeypatch.setattr(svm, "CERTIFIED", -1.0)
    with pytest.raises(SolverError, match="no certified answer"):
        solve_limit(oracle.draw(np.random.default_rng(0), 5, 9, 2).samples())


def test_dense_matrices_of_a_large_vocabulary_are_refused():
    raw = oracle.Raw(5001, ((0, 5000),), (0,), (1.0,))
    limit = solve_limit(raw.samples())
    with pytest.raises(UsageError, match="dense matrix"):
        limit.dense(limit.svm.coefficient)
