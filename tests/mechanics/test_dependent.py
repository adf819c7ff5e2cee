"""More tokens than dimensions: ties by linear dependency, against a plain linear program and a second solver."""

from math import log

import clarabel
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csc_matrix
from tests import oracle
from tests.unchecked import unchecked_types

from attomaton.corpus.samples import Samples
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import SolverError, UsageError
from attomaton.mechanics.data import Embeddings, check_embeddings
from attomaton.mechanics.synthetic import draw_samples, unit_embeddings
from attomaton.mechanics.theory import dependent, extremes
from attomaton.mechanics.theory import limit as limit_module
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.extremes import all_tied, tied_apart
from attomaton.mechanics.theory.finite import FiniteSubspace
from attomaton.mechanics.theory.graph import PriorityGraph, build_graph
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.mechanics.theory.matrices import Matrices
from attomaton.numerics import named_rng

PROBLEMS = 120


class Problem:
    """A drawn data set with few dimensions, its limit, and its differences (e_y − e_x) e_qᵀ as rows."""

    def __init__(self, number: int):
        rng = np.random.default_rng([14, number])
        K, d = int(rng.integers(4, 31)), int(rng.integers(2, 31))
        n, lasts = int(rng.integers(2, 3 * K)), int(rng.integers(1, 4))
        self.raw = oracle.draw(rng, K, n, lasts, repeats=rng.random() < 0.5)
        self.E = oracle.unit_rows(rng, K, d)
        if number % 5 == 0:  # two tokens of one vector
            self.E[rng.integers(K)] = self.E[rng.integers(K)]
        self.limit = solve_limit(self.raw.samples(), self.E)
        self.edges = [(k, i, j) for k, some in oracle.edges(self.raw).items() for i, j in some]
        rows = [np.outer(self.E[i] - self.E[j], self.E[k]).ravel() for k, i, j in self.edges]
        self.rows = np.array(rows).reshape(len(rows), d * d)

    @property
    def strict(self) -> np.ndarray:
        graph = self.limit.graph
        return np.array([not graph.tied(*edge) for edge in self.edges], bool)


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    checked = [Problem(i) for i in range(20)]
    with unchecked_types():
        return checked + [Problem(i) for i in range(20, PROBLEMS)]


def plain_split(rows: np.ndarray) -> np.ndarray:
    """Which differences are strict, by the linear program as it stands in the book."""
    m, width = rows.shape
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(length > 1e-12, length, 1.0)
    answer = linprog(
        np.concatenate([np.zeros(width), -np.ones(m)]), A_ub=np.hstack([-unit, np.eye(m)]),
        b_ub=np.zeros(m), bounds=[(None, None)] * width + [(0, 1)] * m, method="highs",
    )  # fmt: skip
    return answer.x[width:] > 0.5


def second_svm(rows: np.ndarray, strict: np.ndarray) -> np.ndarray:
    """min ‖W‖ with 0 on the ties and at least 1 on the rest, on the raw constraints, by Clarabel."""
    ties, wins, n = rows[~strict], rows[strict], rows.shape[1]
    if not len(wins):
        return np.zeros(n)
    if len(ties):  # as many as are independent: an interior point stalls on redundant ones
        _, singular, right = np.linalg.svd(ties, full_matrices=False)
        ties = right[singular > 1e-9 * max(1.0, singular.max())]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    settings.static_regularization_constant = 1e-12
    cones = [clarabel.ZeroConeT(len(ties)), clarabel.NonnegativeConeT(len(wins))]
    solver = clarabel.DefaultSolver(
        csc_matrix(np.eye(n)), np.zeros(n), csc_matrix(np.vstack([ties, -wins])),
        np.concatenate([np.zeros(len(ties)), -np.ones(len(wins))]), cones, settings,
    )  # fmt: skip
    return np.array(solver.solve().x)


def test_draws_are_varied(problems):
    mixed = [p for p in problems if p.strict.any() and not p.strict.all()]
    linear = [
        p for p in mixed if len(p.limit.graph.level) < len(build_graph(p.raw.samples()).level)
    ]
    assert len(mixed) >= 50
    assert len(linear) >= 20
    assert sum(not p.strict.any() for p in problems) >= 10
    assert sum(not check_embeddings(p.E).independent for p in problems) >= 60


def test_the_split_is_that_of_a_plain_linear_program(problems):
    for number, p in enumerate(problems):
        assert (p.strict == plain_split(p.rows)).all(), number


def test_the_direction_is_that_of_a_second_solver(problems):
    for number, p in enumerate(problems):
        W = p.limit.dense(p.limit.svm.coefficient).ravel()
        other = second_svm(p.rows, p.strict)
        assert np.linalg.norm(W - other) <= 1e-6 * max(1.0, np.linalg.norm(other)), number


def test_certificates_hold_and_are_those_of_the_raw_samples(problems):
    for number, p in enumerate(problems):
        limit = p.limit
        W = limit.dense(limit.svm.coefficient).ravel()
        margin = p.rows @ W
        assert np.abs(margin[~p.strict]).max(initial=0.0) <= 1e-8, number
        assert (1.0 - margin[p.strict]).max(initial=0.0) <= 1e-8, number
        assert limit.svm.certificate.worst <= 1e-8
        assert limit.finite.gradient <= 1e-10
        assert limit.finite.error <= 1e-8
        np.testing.assert_allclose(limit.svm.norm, np.linalg.norm(W), rtol=1e-9, atol=1e-12)


def test_a_fit_without_slope_is_a_positive_dependency_of_all_ties(problems):
    """λ of a tie: the probabilities with which it lost. All are positive, and the ties add up to nothing."""
    for number, p in enumerate(problems):
        W = p.limit.dense(p.limit.finite.coefficient)
        sums, scale = np.zeros(p.rows.shape[1]), 0.0
        row = dict(zip(p.edges, p.rows, strict=True))
        strict = dict(zip(p.edges, p.strict, strict=True))
        for tokens, y, weight in p.raw:
            q = tokens[-1]
            tied = [x for x in set(tokens) if x == y or not strict[q, y, x]]
            mass = {x: tokens.count(x) * np.exp(p.E[x] @ W @ p.E[q]) for x in tied}
            for x in tied:
                if x != y:
                    share = weight * mass[x] / sum(mass.values())
                    assert share > 0
                    sums, scale = sums + share * row[q, y, x], scale + share
        assert np.abs(sums).max() <= 1e-9 * max(scale, 1.0), number


def test_the_two_parts_are_orthogonal_and_the_finite_one_lies_in_its_space(problems):
    for p in problems[:40]:
        limit = p.limit
        space = FiniteSubspace(limit.graph, limit.embeddings)
        finite = limit.dense(limit.finite.coefficient)
        direction = limit.dense(limit.svm.coefficient)
        np.testing.assert_allclose(space.project(finite), finite, atol=1e-8)
        np.testing.assert_allclose(space.project(direction), 0.0, atol=1e-8)


def test_independent_rows_give_the_same_by_both_ways():
    for number in range(40):
        rng = np.random.default_rng([15, number])
        K = int(rng.integers(3, 9))
        raw = oracle.draw(rng, K, int(rng.integers(2, 3 * K)), 2, repeats=True)
        E = oracle.unit_rows(rng, K, K + 1)
        samples = raw.samples()
        usual = solve_limit(samples, E)
        features = dependent.pair_features(usual.graph, check_embeddings(E))
        ties = dependent.linear_ties(build_graph(samples), features)
        graph = ties.graph
        assert (graph.component == usual.graph.component).all()
        assert (graph.level == usual.graph.level).all()
        finite = dependent.dependent_finite(ties, samples)
        svm = dependent.dependent_svm(ties, samples)
        np.testing.assert_allclose(svm.score, usual.svm.score, atol=1e-9)
        np.testing.assert_allclose(finite.log_pi, usual.finite.log_pi, atol=1e-9)
        assert finite.loss_floor == pytest.approx(usual.finite.loss_floor, abs=1e-9)
        assert finite.norm == pytest.approx(usual.finite.norm, abs=1e-8)


def test_a_long_direction_is_no_infeasible_program():
    """Margins of 1/417 of a unit vector: in units of 1 the solver takes the program for infeasible."""
    rng = named_rng("any embeddings", 198)
    samples = draw_samples(rng, 8, 7, 4)
    limit = solve_limit(samples, unit_embeddings(rng, 8, 4))
    assert limit.svm.certificate.worst <= 1e-8
    assert limit.svm.norm == pytest.approx(416.6825, abs=1e-3)


# By hand: e_a + e_c = e_b + e_d, so that "a over b" and "c over d" add up to nothing.


def square(first: float, second: float) -> tuple[Limit, np.ndarray]:
    a, b, c, d, q = range(5)
    E = np.array([[1.0, 0, 0], [0, 1, 0], [-0.5, 0.5, 0], [0.5, -0.5, 0], [0, 0, 1]])
    assert (E[a] + E[c] == E[b] + E[d]).all()
    samples = samples_from_sequences(
        [[a, b, q], [c, d, q]], [a, c], [first, second], vocabulary=Vocabulary(range(5))
    )
    return solve_limit(samples, E), E


def test_two_orders_that_contradict_each_other_are_ties_without_a_cycle():
    limit, E = square(3.0, 1.0)
    a, b, c, d, q = range(5)
    free = solve_limit(limit.samples)
    assert not free.graph.tied(q, a, b)  # control: with a dimension for each token nothing is tied
    assert free.finite.loss_floor == 0.0
    graph = limit.graph
    assert graph.tied(q, a, b)
    assert graph.tied(q, c, d)
    assert graph.cycle(q, a, b) is None
    assert not graph.tied(q, a, q)
    # One number u = s_a − s_b = s_d − s_c is chosen three times of four: u = log 3.
    W = limit.dense(limit.finite.coefficient)
    assert (E[a] - E[b]) @ W @ E[q] == pytest.approx(log(3), abs=1e-10)
    assert (E[c] - E[d]) @ W @ E[q] == pytest.approx(-log(3), abs=1e-10)
    floor = -(0.75 * log(0.75) + 0.25 * log(0.25))
    assert limit.finite.loss_floor == pytest.approx(floor, abs=1e-12)


def test_the_automaton_mixes_linear_ties():
    limit, _ = square(3.0, 1.0)
    p = Automaton(limit).predict_proba([0, 1, 4])
    assert p[0] == pytest.approx(0.75)
    assert p[1] == pytest.approx(0.25)
    assert p[4] == 0.0


def test_two_tokens_of_one_vector_are_tied_with_even_odds():
    E = np.array([[1.0, 0], [1.0, 0], [0, 1.0]])
    limit = solve_limit(samples_from_sequences([[0, 1, 2]], [0]), E)
    assert limit.graph.tied(2, 0, 1)
    assert limit.finite.loss_floor == pytest.approx(log(2))
    assert not limit.graph.tied(2, 0, 2)


def test_vectors_that_are_nothing_tie_everything():
    limit = solve_limit(samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1]), np.zeros((3, 2)))
    assert limit.svm.norm == limit.finite.norm == 0.0
    assert limit.finite.loss_floor == pytest.approx((log(3) + log(2)) / 2)


# Controls: a wrong split is not believed


def test_control_a_strict_difference_called_a_tie_is_refused(monkeypatch):
    """The fit then has no minimiser: its slope vanishes on the way to infinity, its step does not."""
    samples = samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1])
    E = np.array([[2.0, 0], [1.0, 0], [0, 1.0]])  # two dimensions, and still nothing contradicts
    assert solve_limit(samples, E).finite.loss_floor == 0.0
    monkeypatch.setattr(dependent, "strict_rows", lambda rows: np.zeros(len(rows), bool))
    with pytest.raises(SolverError, match="finite part: no certified answer"):
        solve_limit(samples, E)


def test_control_a_tie_called_strict_is_refused(monkeypatch):
    """No W has a margin on both of two differences that add up to nothing."""
    monkeypatch.setattr(dependent, "strict_rows", lambda rows: np.ones(len(rows), bool))
    with pytest.raises(SolverError, match="Graph-SVM: no certified answer"):
        square(3.0, 1.0)


def test_what_does_not_fit_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(dependent, "MOST_NUMBERS", 4)
    with pytest.raises(UsageError, match=r"numbers .* at once; at most 4e\+00"):
        solve_limit(samples_from_sequences([[0, 1, 2]], [0]), np.ones((3, 2)))


def crowded(number: int) -> Limit:
    """Many samples in few dimensions: everything is tied."""
    rng = np.random.default_rng([15, number])
    raw = oracle.draw(rng, 12, 120, 5, repeats=True)
    return solve_limit(raw.samples(), oracle.unit_rows(rng, 12, 3))


def test_a_fit_in_w_itself_equals_the_one_by_features(monkeypatch):
    direct = [crowded(i) for i in range(4)]
    monkeypatch.setattr(extremes, "all_tied", lambda *_: None)
    for one, other in zip(direct, [crowded(i) for i in range(4)], strict=True):
        assert not one.graph.dag[0].size
        assert np.array_equal(one.graph.component, other.graph.component)
        assert np.allclose(one.finite.log_pi, other.finite.log_pi, rtol=0, atol=1e-9)
        W, W_other = (x.dense(x.finite.coefficient) for x in (one, other))
        assert np.allclose(W, W_other, rtol=1e-9, atol=1e-9)
        assert one.finite.norm == pytest.approx(np.linalg.norm(W), rel=1e-12)
        assert one.finite.loss_floor == pytest.approx(other.finite.loss_floor, rel=1e-12)
        assert one.finite.gradient <= 1e-12
        assert one.finite.error <= 1e-8
        off = np.abs(one.finite.log_pi - other.finite.log_pi).max()
        assert off <= one.finite.error + other.finite.error + 1e-12


def test_coefficients_of_a_last_token_sum_to_nothing():
    limit = crowded(0)
    sums = np.bincount(limit.graph.pair_last, limit.finite.coefficient)
    assert np.abs(sums).max() <= 1e-12 * np.abs(limit.finite.coefficient).max()


def test_control_what_is_strict_has_no_fit_in_w_itself():
    rng = np.random.default_rng(0)
    raw = oracle.draw(rng, 12, 150, 1)
    loser = next(x for x in range(12) if x not in {row[-1] for row in raw.rows})
    told = [(row, y, w) for row, y, w in raw if y != loser]
    rows, labels, weights = zip(*told, strict=True)
    samples = samples_from_sequences(rows, labels, weights, vocabulary=Vocabulary(range(12)))
    graph, E = build_graph(samples), np.zeros((12, 4))
    E[:, :3] = oracle.unit_rows(rng, 12, 3)
    assert len(graph.edge_from) >= 2 * 4**2
    assert all_tied(graph, samples, check_embeddings(E)) is not None
    E[loser] = [0, 0, 0, 1.0]  # a direction of its own, and it always loses
    assert all_tied(graph, samples, check_embeddings(E)) is None
    limit = solve_limit(samples, E)
    assert limit.graph.dag[0].size
    assert limit.svm.norm > 0


def roomy(number: int) -> tuple[Limit, PriorityGraph, Samples, Embeddings]:
    """Few samples in many dimensions, though fewer than tokens: only cycles tie."""
    rng = np.random.default_rng([16, number])
    raw = oracle.draw(rng, 40, 30, 6, repeats=True, weighted=True)
    samples, E = raw.samples(), check_embeddings(3.0 * oracle.unit_rows(rng, 40, 25))
    return solve_limit(samples, E), build_graph(samples), samples, E


def test_the_direction_by_multipliers_equals_the_one_by_features(monkeypatch):
    monkeypatch.setattr(extremes, "SMALL", 0)
    soft = 0
    for number in range(6):
        limit, graph, samples, E = roomy(number)
        answer = tied_apart(graph, samples, E)
        assert answer is not None
        with monkeypatch.context() as patch:
            patch.setattr(extremes, "SMALL", 10**9)
            other = solve_limit(samples, E)
        for one in (Limit(samples, answer[0], answer[2], answer[1], E), limit):
            assert np.array_equal(one.graph.component, other.graph.component)
            assert one.svm.certificate.worst <= 1e-9
            assert np.allclose(one.svm.score, other.svm.score, rtol=0, atol=1e-9)
            assert np.allclose(one.finite.log_pi, other.finite.log_pi, rtol=0, atol=1e-9)
            for part in ("svm", "finite"):
                W, W_other = (x.dense(getattr(x, part).coefficient) for x in (one, other))
                assert np.allclose(W, W_other, rtol=1e-9, atol=1e-10)
        soft += bool(graph.cyclic.any())
    assert soft


def test_independent_vectors_of_many_pairs_take_the_way_of_dependent_ones(monkeypatch):
    rng = np.random.default_rng(18)
    samples = oracle.draw(rng, 20, 60, 6, repeats=True).samples()
    E = check_embeddings(oracle.unit_rows(rng, 20, 24))
    one = solve_limit(samples, E)
    for module, name, value in (
        (limit_module, "COUPLED_PAIRS", 10), (extremes, "SMALL", 0), (dependent, "linear_ties", None)
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    other = solve_limit(samples, E)
    assert other.graph.cyclic.any()
    assert np.array_equal(one.graph.component, other.graph.component)
    assert np.allclose(one.svm.score, other.svm.score, rtol=0, atol=1e-9)
    assert np.allclose(one.finite.log_pi, other.finite.log_pi, rtol=0, atol=1e-9)


def test_control_ties_between_last_tokens_are_not_found_apart(monkeypatch):
    monkeypatch.setattr(extremes, "SMALL", 0)
    monkeypatch.setattr(extremes, "MOST_WORK", 10**8)

    def apart(rows, labels, E):
        samples = samples_from_sequences(rows, labels, vocabulary=Vocabulary(range(len(E))))
        return tied_apart(build_graph(samples), samples, check_embeddings(E))

    # Last tokens of one vector that want opposite orders: a tie that neither makes by itself.
    opposed = np.eye(4)
    opposed[3] = opposed[2]
    assert apart([[0, 1, 2], [0, 1, 3]], [0, 1], opposed) is None
    assert apart([[0, 1, 2], [0, 1, 3]], [0, 1], np.eye(4)) is not None
    # Two orders after one last token that add up to nothing: it makes that tie by itself.
    contrary = np.array([[1, 0, 0], [0, 1, 0], [-0.5, 0.5, 0], [0.5, -0.5, 0], [0, 0, 1.0]])
    found = apart([[0, 1, 4], [2, 3, 4]], [0, 2], contrary)
    assert found is not None
    assert found[0].tied(4, 0, 1)
    # Two tokens of one vector that never met are tied all the same.
    same = np.eye(5)
    same[2] = same[1]
    assert apart([[0, 1, 4], [2, 3, 4]], [0, 2], same) is None


def test_differences_that_push_the_wrong_way_are_let_go():
    for number in range(3):
        limit, graph, _, E = roomy(number)
        rows = extremes.Rows.of(graph, Matrices.of(graph, E))
        strict = np.arange(len(rows.above)) < rows.strict
        found = extremes._exact(rows, np.ones(len(strict)), strict)  # as if all were active
        assert found is not None
        multiplier, coefficient = found
        assert multiplier[strict].min() >= 0
        assert (multiplier[strict] == 0).any()
        W, unit = limit.dense(coefficient), rows.space.unit**2
        assert np.allclose(W / unit, limit.dense(limit.svm.coefficient), rtol=1e-7, atol=1e-9)


def test_what_coefficients_lose_of_w_counts_as_error(monkeypatch):
    clean, honest = crowded(0), Matrices.coefficients
    monkeypatch.setattr(Matrices, "coefficients", lambda *a: honest(*a) * (1 + 3e-10))
    worse = crowded(0)
    off = np.abs(worse.finite.score - clean.finite.score).max()
    assert off > 10 * clean.finite.error
    assert worse.finite.error >= off
