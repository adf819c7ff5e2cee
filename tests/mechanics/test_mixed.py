"""Some differences tied and some strict: interior points against the split one by one, and what must be refused."""

from dataclasses import replace
from itertools import count, islice

import numpy as np
import pytest
from tests import oracle

from attomaton.errors import SolverError
from attomaton.mechanics.data import Embeddings, check_embeddings
from attomaton.mechanics.theory import dependent, extremes, normal
from attomaton.mechanics.theory import mixed as mixed_module
from attomaton.mechanics.theory.extremes import Rows
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.interior import shortest, split
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.mechanics.theory.matrices import Matrices
from attomaton.mechanics.theory.mixed import mixed
from attomaton.mechanics.theory.partial import Known, partial_ties, taken


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    monkeypatch.setattr(mixed_module, "SMALL", 0)


def drawn(number: int) -> Limit:
    """A few last tokens with more samples than the others, in few dimensions: solved one by one."""
    rng = np.random.default_rng([17, number])
    raw = oracle.draw(rng, 20, 26, 8, repeats=True, weighted=True)
    E = check_embeddings(2.0 * oracle.unit_rows(rng, 20, 6))
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (extremes, "all_tied"),
            (extremes, "tied_apart"),
            (mixed_module, "mixed"),
        ):
            patch.setattr(module, name, lambda *_: None)
        return solve_limit(raw.samples(), E)


@pytest.fixture(scope="module")
def problems() -> list[Limit]:
    """The first draws in which linear dependencies tie something, and leave something strict."""
    both = (
        x
        for x in map(drawn, count())
        if x.graph.dag[0].size and len(x.graph.level) < len(build_graph(x.samples).level)
    )
    return list(islice(both, 5))


def again(limit: Limit) -> Limit | None:
    E = limit.embeddings
    assert isinstance(E, Embeddings)
    found = mixed(build_graph(limit.samples), limit.samples, E)
    return None if found is None else Limit(limit.samples, found[0], found[2], found[1], E)


def test_interior_points_find_what_a_split_one_by_one_finds(problems):
    for other in problems:
        one = again(other)
        assert one is not None
        assert np.array_equal(one.graph.component, other.graph.component)
        assert one.svm.certificate.worst <= 1e-9
        assert one.svm.multiplier.min() >= 0
        assert np.allclose(one.svm.score, other.svm.score, rtol=0, atol=1e-7)
        assert np.allclose(one.finite.log_pi, other.finite.log_pi, rtol=0, atol=1e-7)
        for part in ("svm", "finite"):
            W, W_other = (x.dense(getattr(x, part).coefficient) for x in (one, other))
            assert np.allclose(W, W_other, rtol=0, atol=1e-7 * np.linalg.norm(W_other))


def test_a_limit_takes_this_way_between_the_two_ends(problems, monkeypatch):
    monkeypatch.setattr(dependent, "linear_ties", None)  # would fail
    for other in problems[:2]:
        found = solve_limit(other.samples, other.embeddings)
        assert found.svm.norm == pytest.approx(other.svm.norm, rel=1e-8)


def all_rows(limit: Limit) -> Rows:
    graph = build_graph(limit.samples)
    space = Matrices.of(graph, limit.embeddings)
    return Rows(space, graph.edge_from, graph.edge_to, len(graph.edge_from))


def nothing(rows: Rows) -> normal.Span:
    """What no ties span."""
    return normal.Span(taken(rows, np.zeros(0, int)))


def strict_and_ties(limit: Limit) -> tuple[Rows, normal.Span]:
    """The rows that are strict, and what the others span."""
    rows = Rows.of(limit.graph, Matrices.of(limit.graph, limit.embeddings))
    ties = np.arange(rows.strict, len(rows.above))
    return taken(rows, np.arange(rows.strict)), normal.Span(taken(rows, ties))


def tied_edges(limit: Limit) -> np.ndarray:
    component, edges = limit.graph.component, build_graph(limit.samples)
    return component[edges.edge_from] == component[edges.edge_to]


def test_a_part_ties_nothing_that_the_whole_does_not(problems):
    shown = 0
    for limit in problems:
        known = partial_ties(build_graph(limit.samples), all_rows(limit))
        assert not (known.tied & ~tied_edges(limit)).any()
        shown += int(known.tied.sum())
        # Where W lost rows or columns, the one that was found without that is 0.
        W = limit.dense(limit.svm.coefficient)
        inner = known.left @ known.left.T @ W @ known.right @ known.right.T
        assert np.allclose(inner, W, rtol=0, atol=1e-9 * np.linalg.norm(W))
    assert shown


def test_ties_that_no_part_shows_are_found_by_the_program_over_all(problems, monkeypatch):
    monkeypatch.setattr(
        mixed_module,
        "partial_ties",
        lambda graph, rows: Known(np.zeros(len(rows.above), bool), np.eye(6), np.eye(6)),
    )
    for limit in problems:
        found = again(limit)
        assert found is not None
        assert np.array_equal(found.graph.component, limit.graph.component)
        assert np.allclose(found.svm.score, limit.svm.score, rtol=0, atol=1e-7)


def test_no_w_is_looked_for_where_ties_should_be_strict(problems):
    for limit in problems:
        rows = all_rows(limit)
        with pytest.raises(SolverError, match="no W makes all"):
            list(shortest(rows, nothing(rows)))


def test_the_first_program_splits_rows_of_fewer_keys_than_queries(problems):
    rows = all_rows(problems[0])
    narrow = replace(rows, space=replace(rows.space, key=rows.space.key[:, :4]))
    W, tied = split(narrow)
    assert W.shape == (4, 6)
    assert (narrow.of_w(W)[~tied] > 0).all()


@pytest.mark.parametrize("side", [True, False])
def test_control_a_split_with_one_difference_on_the_wrong_side_is_refused(
    problems, monkeypatch, side
):
    monkeypatch.setattr(mixed_module, "_all_ties", lambda rows, known, progress: known)
    for limit in problems[:3]:
        tied, known = tied_edges(limit), partial_ties(build_graph(limit.samples), all_rows(limit))
        at = np.arange(len(tied)) == np.flatnonzero(tied == side)[0]
        wrong = replace(known, tied=tied ^ at)
        monkeypatch.setattr(mixed_module, "partial_ties", lambda *_, wrong=wrong: wrong)
        assert again(limit) is None


def test_control_margins_that_are_not_the_smallest_are_refused(problems, monkeypatch):
    exact = mixed_module._exact
    monkeypatch.setattr(mixed_module, "_exact", lambda *a: [1.01 * x for x in exact(*a)])
    assert all(again(x) is None for x in problems[:2])


def test_wrong_active_margins_are_let_go_and_taken_in(problems):
    for limit in problems:
        rows, span = strict_and_ties(limit)
        right = limit.svm.multiplier * rows.space.unit**2
        active = right > 1e-9 * right.max()
        every = Rows.of(limit.graph, rows.space)
        score = limit.svm.score[every.above] - limit.svm.score[every.below]
        slack = np.where(active, np.inf, score[: every.strict])
        light = np.where(active, right, np.inf)
        some = active ^ np.isin(np.arange(len(right)), [light.argmin(), slack.argmin()])
        found, W = mixed_module._exact(rows, span, np.where(some, right.max(), 0.0))
        assert mixed_module._exact(rows, span, np.where(active, 0.0, right.max())) is None
        assert found.min() >= 0
        assert np.allclose(W, span.off(rows.back(found)), rtol=0, atol=1e-10 * np.linalg.norm(W))
        assert np.linalg.norm(W) == pytest.approx(limit.svm.norm * rows.space.unit, rel=1e-8)


def test_margins_are_exact_where_multipliers_are_too_large_to_tell():
    # Two differences that almost contradict each other: W = (1, 2/ε), multipliers 2/ε² + 1 and 2/ε².
    eps = 1e-4
    key = np.array([[1.0, 0.0], [0.0, 0.0], [-1.0, eps], [0.0, 0.0]])
    space = Matrices(key, np.ones((1, 1)), np.zeros(4, int), 1.0)
    rows = Rows(space, np.array([0, 2]), np.array([1, 3]), 2)
    y, W = mixed_module._exact(rows, nothing(rows), np.full(2, 2.001 / eps**2))
    assert np.allclose(rows.of_w(W), 1, rtol=0, atol=1e-11)
    assert np.allclose(W.ravel(), [1, 2 / eps], rtol=1e-9)
    assert np.allclose(y, 2 / eps**2, rtol=1e-7)


def test_ties_are_exact_where_multipliers_are_too_large_to_tell():
    # The same two beside a tie, along which either leans: what they add up to there is 10⁸ times what W is.
    eps = 1e-4
    key = np.array([[1.0, 0.0, 0.7], [-1.0, eps, 0.4], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    space = Matrices(key @ turn, np.ones((1, 1)), np.zeros(4, int), 1.0)
    rows = Rows(space, np.array([0, 1]), np.array([3, 3]), 2)
    tie = Rows(space, np.array([2]), np.array([3]), 0)
    _, W = mixed_module._exact(rows, normal.Span(tie), np.full(2, 2.001 / eps**2))
    assert np.allclose(rows.of_w(W), 1, rtol=0, atol=1e-10)
    assert np.abs(tie.of_w(W)).max() <= 1e-10
    assert np.allclose(turn @ W.ravel(), [1, 2 / eps, 0], rtol=1e-8, atol=1e-10)


def test_single_precision_is_left_where_conjugate_gradients_do_not_mend_it(monkeypatch):
    rng = np.random.default_rng(5)
    raw = oracle.draw(rng, 9, 30, 4)
    samples, E = raw.samples(), check_embeddings(oracle.unit_rows(rng, 9, 4))
    graph = build_graph(samples)
    rows = Rows(Matrices.of(graph, E), graph.edge_from, graph.edge_to, len(graph.edge_from))
    system, B = normal.System(rows, np.float32), rng.standard_normal((4, 4))
    assert system.kind is np.float32
    even = system.factored(np.ones(len(rows.above)), 1.0)(B)
    assert system.kind is np.float32
    assert np.allclose(even + rows.back(rows.of_w(even)), B, rtol=0, atol=1e-8)
    monkeypatch.setattr(normal, "FEW", 1)
    weight = 10 ** rng.uniform(-6, 6, len(rows.above))
    uneven = system.factored(weight, 1.0)(B)
    assert system.kind is np.float64
    assert np.allclose(uneven + rows.back(weight * rows.of_w(uneven)), B, rtol=0, atol=1e-7)


def test_a_factor_solves_what_is_written_out():
    rng = np.random.default_rng(5)
    raw = oracle.draw(rng, 9, 30, 4)
    samples, E = raw.samples(), check_embeddings(oracle.unit_rows(rng, 9, 4))
    graph = build_graph(samples)
    space = Matrices.of(graph, E)
    rows = Rows(space, graph.edge_from, graph.edge_to, len(graph.edge_from))
    weight, B = rng.uniform(0.1, 10, len(rows.above)), rng.standard_normal((4, 4))
    key = space.key[rows.above] - space.key[rows.below]
    delta = np.einsum("na,nb->nab", key, space.query[space.last[rows.above]]).reshape(-1, 16)
    whole = delta.T @ (weight[:, None] * delta) + 0.3 * np.eye(16)
    found = normal.System(rows).factored(weight, 0.3)(B)
    assert np.allclose(found.ravel(), np.linalg.solve(whole, B.ravel()), rtol=1e-10, atol=1e-12)
    # By the factor alone, without what conjugate gradients mend.
    for kind, off in ((np.float64, 1e-9), (np.float32, 1e-3)):
        system = normal.System(rows, kind)
        factor = system.factor(system.by_last(weight), 0.3)
        assert factor.dtype == kind
        direct = normal.substituted(factor, B.ravel())
        assert np.allclose(direct, np.linalg.solve(whole, B.ravel()), rtol=off, atol=1e-3 * off)


def written_out(rows: Rows) -> np.ndarray:
    key, query = normal.factors(rows)
    return np.einsum("na,nb->nab", key, query).reshape(len(key), -1)


@pytest.mark.parametrize("together", [1024, 3])
def test_rows_are_freed_of_what_ties_span(problems, monkeypatch, together):
    monkeypatch.setattr(normal, "TOGETHER", together)
    for limit in problems:
        rows, span = strict_and_ties(limit)
        every = Rows.of(limit.graph, Matrices.of(limit.graph, limit.embeddings))
        tied = written_out(every)[every.strict :]
        assert span.basis.shape[1] == np.linalg.matrix_rank(tied, tol=1e-9) > 0
        delta = written_out(rows)
        free = delta - delta @ np.linalg.pinv(tied, rcond=1e-9) @ tied
        assert np.allclose(span.off(delta[0].reshape(6, 6)).ravel(), free[0], rtol=0, atol=1e-12)
        half = np.tril_indices(len(delta))
        gram = span.gram(rows, 0.5) - 0.5 * np.eye(len(delta))
        assert np.allclose(gram[half], (free @ free.T)[half], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_system_off_the_span_of_ties_is_the_one_with_their_equations(problems, kind):
    rng = np.random.default_rng(6)
    for limit in problems:
        rows, span = strict_and_ties(limit)
        delta, Q = written_out(rows), span.basis
        weight, B = 10 ** rng.uniform(-1, 2, len(delta)), span.off(rng.standard_normal((6, 6)))
        H = delta.T @ (weight[:, None] * delta) + np.eye(36)
        none = np.zeros((Q.shape[1], Q.shape[1]))
        bordered = np.linalg.solve(
            np.block([[H, Q], [Q.T, none]]), np.append(B.ravel(), np.zeros(len(none)))
        )
        system = normal.System(rows, kind, span=span)
        X = system.factored(weight, 1.0)(B)
        assert system.kind is kind  # it was enough
        assert np.allclose(X.ravel(), bordered[:36], rtol=0, atol=1e-8 * np.abs(X).max())
        # Control: without them it is another one.
        other = normal.System(rows, kind).factored(weight, 1.0)(B)
        assert np.abs(Q.T @ other.ravel()).max() > 1e-6 > np.abs(Q.T @ X.ravel()).max()


def test_progress_is_told_between_ties_and_the_finite_part(problems):
    told = []
    limit = problems[0]
    mixed(build_graph(limit.samples), limit.samples, limit.embeddings, lambda *x: told.append(x))
    words = [what for _, _, what in told]
    assert words[0] == "ties in parts of the data"
    assert words[-1] == "finite part"
    steps = [(done, total) for done, total, what in told if what.startswith("W_svm, step ")]
    assert len(steps) == len(words) - 2 > 3
    assert steps[0][0] <= steps[-1][0] < steps[-1][1] == 100


def test_other_sizes_are_left_to_others(problems, monkeypatch):
    monkeypatch.setattr(mixed_module, "LARGEST", 35)  # 6 dimensions have 36
    assert again(problems[0]) is None
    monkeypatch.setattr(mixed_module, "LARGEST", 36)
    monkeypatch.setattr(mixed_module, "SMALL", 10**6)
    assert again(problems[0]) is None
