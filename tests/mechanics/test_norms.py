"""Directions in other norms: hand-solved, by other solvers on raw constraints, invariants, false answers refused."""

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from scipy.linalg import orth
from scipy.optimize import linprog
from tests import oracle
from tests.unchecked import unchecked_types

from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import SolverError, UsageError
from attomaton.mechanics.theory import norms
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.mechanics.theory.norms import NormLimit, certify, norm_of

NORMS = ("max", 1.0, 1.5, 3.0, "spectral", "nuclear")
SAME = 1e-6  # what two solvers, each certified to 1e-6 or better, may differ by


def direction(samples, norm, E=None) -> NormLimit:
    found = solve_limit(samples, E, norm=norm).direction
    assert found is not None
    assert found.certificate.worst <= norms.CERTIFIED
    return found


def make(i: int) -> tuple[oracle.Raw, np.ndarray | None]:
    """Problem number i: even ones one-hot, odd ones with random unit vectors."""
    rng = np.random.default_rng([15, i])
    K = int(rng.integers(3, 9))
    raw = oracle.draw(rng, K, int(rng.integers(2, 2 * K)), int(rng.integers(1, 4)))
    return raw, oracle.unit_rows(rng, K, K + int(rng.integers(3))) if i % 2 else None


def constraints(limit: Limit, raw: oracle.Raw, E: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(e_i − e_j) e_kᵀ flattened for every edge i → j of G^(k): an orthonormal basis of the ties, and the rest."""
    ties, wins = [np.zeros(E.shape[1] ** 2)], [np.zeros((0, E.shape[1] ** 2))]
    for k, arrows in oracle.edges(raw).items():
        for i, j in arrows:
            row = np.outer(E[i] - E[j], E[k]).ravel()
            (ties if limit.graph.tied(k, i, j) else wins).append(row)
    return orth(np.vstack(ties).T, 1e-9).T, np.vstack(wins)


def by_cvxpy(ties: np.ndarray, wins: np.ndarray, norm) -> float:
    """The value of the program as CVXPY writes it."""
    if not len(wins):
        return 0.0
    d = round(wins.shape[1] ** 0.5)
    W = cp.Variable((d, d))
    w = cp.vec(W, order="C")
    named = {"max": cp.norm_inf(w), "spectral": cp.sigma_max(W), "nuclear": cp.normNuc(W)}
    size = named[norm] if norm in named else cp.pnorm(w, norm)
    return cp.Problem(cp.Minimize(size), [ties @ w == 0, wins @ w >= 1]).solve(solver="CLARABEL")


CHAIN = samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1])
MIXED = samples_from_sequences([[0, 1, 2, 3], [0, 1, 3]], [0, 1])
APART = samples_from_sequences([[1, 0], [3, 2]], [1, 3])  # two last tokens that share nothing
CYCLE = samples_from_sequences([[0, 1]] * 2, [0, 1])


@pytest.mark.parametrize(
    ("samples", "norm", "value"),
    [
        (CHAIN, "max", 1), (CHAIN, 1, 2), (CHAIN, 3, 2 ** (1 / 3)), (CHAIN, "spectral", 2**0.5),
        (CHAIN, "nuclear", 2**0.5),
        (MIXED, "max", 1 / 2), (MIXED, 1, 2), (MIXED, 1.5, 4 ** (2 / 3) / 2), (MIXED, "spectral", 1),
        (APART, "max", 1 / 2), (APART, 3, 4 ** (1 / 3) / 2), (APART, "spectral", 0.5**0.5),
        (APART, "nuclear", 2**0.5),
    ],
)  # fmt: skip
def test_hand_solved(samples, norm, value):
    for E in (None, np.eye(len(samples.vocabulary))):
        found = direction(samples, norm, E)
        assert found.value == pytest.approx(value, abs=1e-8)
        assert found.margin == pytest.approx(1 / value, abs=1e-8)


def test_a_chain_is_its_own_witness():
    found = direction(CHAIN, "max")
    assert found.score.tolist() == [1.0, 0.0, -1.0]
    assert found.chain == norms.Chain(2, (0, 1, 2))
    assert found.multiplier.sum() == 1.0
    assert np.abs(found.flow).sum() == 1.0


def test_gradient_descent_keeps_its_own_path():
    for norm in ("frobenius", 2, 2.0):
        limit = solve_limit(CHAIN, norm=norm)
        assert limit.direction is None
        assert limit.svm.norm == pytest.approx(2**0.5, abs=1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_nothing_strict_is_0_in_every_norm(norm):
    for E in (None, np.eye(2), np.ones((2, 1))):
        found = direction(CYCLE, norm, E)
        assert found.value == 0.0
        assert not found.score.any()
        assert found.margin == np.inf


def test_the_best_margin_in_max_norm_is_2_over_the_longest_chain():
    with unchecked_types():
        for i in range(0, 200, 2):
            raw, _ = make(i)
            limit = solve_limit(raw.samples(), norm="max")
            ties, wins = constraints(limit, raw, np.eye(raw.K))
            n = raw.K**2
            bound = -np.ones((n, 1))
            rows = np.block(
                [[bound, np.eye(n)], [bound, -np.eye(n)], [np.zeros((len(wins), 1)), -wins]]
            )
            right = np.repeat([0.0, -1.0], [2 * n, len(wins)])
            equal = np.hstack([np.zeros((len(ties), 1)), ties])
            value = linprog(
                np.eye(n + 1)[0], rows, right, equal, np.zeros(len(ties)), bounds=(None, None)
            ).fun
            assert limit.direction.value == pytest.approx(value, abs=1e-9)
            chain = limit.direction.chain
            assert 2 * value == pytest.approx(len(chain.tokens) - 1 if chain else 0, abs=1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_values_are_those_of_cvxpy(norm):
    with unchecked_types():
        for i in range(20):
            raw, E = make(i)
            limit = solve_limit(raw.samples(), E, norm=norm)
            rows = constraints(limit, raw, np.eye(raw.K) if E is None else E)
            assert limit.direction.certificate.worst <= norms.CERTIFIED
            assert limit.direction.value == pytest.approx(by_cvxpy(*rows, norm), rel=SAME)


def test_hundreds_of_equal_leaves_are_one():
    """One token above n: u for it and u − 1 for all others, with u^(p−1) = n (1 − u)^(p−1)."""
    n = 400
    samples = samples_from_sequences([list(range(n + 1))], [0])
    for p in (1.5, 3.0, 6.0):
        odds = n ** (1 / (p - 1))
        u = odds / (1 + odds)
        found = direction(samples, p)
        assert found.value == pytest.approx((u**p + n * (1 - u) ** p) ** (1 / p), rel=1e-8)
        assert found.score[0] == pytest.approx(u, abs=1e-4)  # the value is flat there: √1e-8


@pytest.mark.parametrize("norm", NORMS)
def test_more_tokens_than_dimensions(norm):
    """Ties are linear ones, as the limit found them."""
    strict = 0
    for i in range(6):
        rng = np.random.default_rng([16, i])
        raw, E = oracle.draw(rng, 7, 5, 2), oracle.unit_rows(rng, 7, 3)
        limit = solve_limit(raw.samples(), E, norm=norm)
        value = by_cvxpy(*constraints(limit, raw, E), norm)
        assert limit.direction.value == pytest.approx(value, rel=SAME)
        strict += limit.direction.value > 0
    assert strict >= 3


@pytest.mark.parametrize("norm", NORMS)
def test_names_of_tokens_change_nothing(norm):
    for i in range(4):
        raw, _ = make(2 * i)
        new = np.random.default_rng(i).permutation(raw.K)
        value = direction(raw.samples(), norm).value
        assert direction(raw.relabelled(new).samples(), norm).value == pytest.approx(
            value, rel=SAME
        )


@pytest.mark.parametrize("norm", NORMS)
def test_longer_vectors_need_smaller_weights(norm):
    raw, E = make(3)
    value = direction(raw.samples(), norm, E).value
    assert direction(raw.samples(), norm, 10 * E).value == pytest.approx(value / 100, rel=SAME)


@pytest.mark.parametrize("norm", ["spectral", "nuclear"])
def test_singular_values_do_not_see_rotations(norm):
    for i in range(4):
        raw, _ = make(2 * i)
        R = np.linalg.qr(np.random.default_rng(i).standard_normal((raw.K + 2, raw.K)))[0].T
        value = direction(raw.samples(), norm).value
        assert direction(raw.samples(), norm, R).value == pytest.approx(value, rel=SAME)


def test_values_are_in_the_order_of_their_norms():
    for i in range(8):
        raw, E = make(i)
        limit = solve_limit(raw.samples(), E)
        value = {x: direction(raw.samples(), x, E).value for x in NORMS} | {2.0: limit.svm.norm}
        for order in (("max", 3.0, 2.0, 1.5, 1.0), ("max", "spectral", 2.0, "nuclear", 1.0)):
            for a, b in pairwise(order):
                assert value[a] <= value[b] * (1 + SAME)


def test_each_direction_is_best_in_its_own_norm():
    raw, E = make(5)
    found = {x: direction(raw.samples(), x, E) for x in NORMS}
    for x in NORMS:
        for y in NORMS:
            assert found[x].W is not None
            assert found[y].W is not None
            assert norm_of(found[y].W, x) >= found[x].value * (1 - SAME)


def judged(limit: Limit, **changed):
    found = limit.direction
    kept = {x: getattr(found, x) for x in ("W", "score", "multiplier", "flow")} | changed
    return certify(limit.graph, limit.samples, limit.embeddings, found.norm, **kept)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("table", [False, True])
def test_a_wrong_answer_is_refused(norm, table):
    raw, _ = make(2)
    limit = solve_limit(raw.samples(), np.eye(raw.K) if table else None, norm=norm)
    found = limit.direction
    assert found.value > 0
    assert judged(limit).worst <= norms.CERTIFIED
    # Too short, too long, a multiplier too many, a flow that is not theirs, scores that are not W's.
    W = found.W
    shorter = {"score": 0.9 * found.score} | ({} if W is None else {"W": 0.9 * W})
    longer = {"score": 1.1 * found.score} | ({} if W is None else {"W": 1.1 * W})
    assert judged(limit, **shorter).primal == pytest.approx(0.1, abs=1e-5)
    assert judged(limit, **longer).gap == pytest.approx(1 - 1 / 1.1, abs=1e-5)
    more = found.multiplier + np.eye(len(found.multiplier))[0]
    assert judged(limit, multiplier=more).dual > 0.1
    assert judged(limit, multiplier=-found.multiplier).dual > 0.1
    assert judged(limit, flow=2 * found.flow).dual > 0.4
    both = {"multiplier": 1.1 * found.multiplier, "flow": 1.1 * found.flow}
    assert judged(limit, **both).dual == pytest.approx(0.1, abs=1e-5)
    if W is not None:
        assert judged(limit, score=found.score + 1).primal >= 0.99
    assert judged(limit, score=np.nan * found.score).worst == np.inf


def test_a_chain_with_a_step_too_many_is_refused():
    """½ on an edge that does not go on from the chain's end: what enters there does not leave."""
    limit = solve_limit(CHAIN, norm="max")
    wrong = np.full(3, 0.5)  # 0 → 1, 0 → 2 and 1 → 2
    assert judged(limit, multiplier=wrong).dual > 0.4


def test_an_answer_without_certificate_is_an_error(monkeypatch):
    monkeypatch.setattr(norms, "CERTIFIED", -1.0)
    with pytest.raises(SolverError, match="no certified answer"):
        solve_limit(CHAIN, norm=3)


def test_a_solver_that_ends_nowhere_is_an_error(monkeypatch):
    nothing = (np.full(3, np.nan), np.zeros(3), np.zeros(0))
    monkeypatch.setattr(norms._Program, "_spectral", lambda self: nothing)
    with pytest.raises(SolverError, match="no W with all margins"):
        solve_limit(CHAIN, norm="spectral")


def test_what_is_no_norm_or_too_large_is_refused(monkeypatch):
    for wrong in ("maximum", 0.5, None, float("nan"), True):
        with unchecked_types(), pytest.raises(UsageError, match="norm"):
            solve_limit(CHAIN, norm=wrong)
    monkeypatch.setattr(norms, "WIDEST", 3)
    monkeypatch.setattr(norms, "MOST_ENTRIES", 2)
    for norm in NORMS[1:]:
        with pytest.raises(UsageError, match=r"at most|allowed"):
            solve_limit(CHAIN, norm=norm)
    assert direction(CHAIN, "max").value == 1.0
