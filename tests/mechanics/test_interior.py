"""Some differences tied and some strict: interior points against the split one by one, and what must be refused."""

from itertools import count, islice

import numpy as np
import pytest
from tests import oracle

from attomaton.mechanics.data import Embeddings, check_embeddings
from attomaton.mechanics.theory import interior
from attomaton.mechanics.theory import limit as limit_module
from attomaton.mechanics.theory.extremes import Rows
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.interior import mixed
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.mechanics.theory.matrices import Matrices


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    monkeypatch.setattr(interior, "SMALL", 0)


def drawn(number: int) -> Limit:
    """A few last tokens with more samples than the others, in few dimensions: solved one by one."""
    rng = np.random.default_rng([17, number])
    raw = oracle.draw(rng, 20, 26, 8, repeats=True, weighted=True)
    E = check_embeddings(2.0 * oracle.unit_rows(rng, 20, 6))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("all_tied", "tied_apart", "mixed"):
            patch.setattr(limit_module, name, lambda *_: None)
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


@pytest.mark.parametrize("panel", [8, 512])
def test_interior_points_find_what_a_split_one_by_one_finds(problems, monkeypatch, panel):
    monkeypatch.setattr(interior, "PANEL", panel)
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
    monkeypatch.setattr(limit_module, "linear_ties", None)  # would fail
    for other in problems[:2]:
        found = solve_limit(other.samples, other.embeddings)
        assert found.svm.norm == pytest.approx(other.svm.norm, rel=1e-8)


def test_control_a_split_with_one_difference_on_the_wrong_side_is_refused(problems, monkeypatch):
    split = interior._split
    for side in (True, False):

        def wrong(rows, side=side):
            W, tied = split(rows)
            at = int(np.flatnonzero(tied == side)[0])
            return W, tied ^ (np.arange(len(tied)) == at)

        monkeypatch.setattr(interior, "_split", wrong)
        assert all(again(x) is None for x in problems[:3])


def test_control_margins_that_are_not_the_smallest_are_refused(problems, monkeypatch):
    exact = interior._exact
    monkeypatch.setattr(interior, "_exact", lambda *a: [1.01 * x for x in exact(*a)])
    assert all(again(x) is None for x in problems[:2])


def test_wrong_active_margins_are_let_go_and_taken_in(problems):
    for limit in problems:
        rows = Rows.of(limit.graph, Matrices.of(limit.graph, limit.embeddings))
        right = limit.svm.multiplier * rows.space.unit**2
        active = right > 1e-9 * right.max()
        score = limit.svm.score[rows.above] - limit.svm.score[rows.below]
        slack = np.where(active, np.inf, score[: rows.strict])
        some = active ^ np.isin(np.arange(len(right)), [right.argmax(), slack.argmin()])
        start = np.append(np.where(some, right.max(), 0.0), np.zeros(len(rows.above) - rows.strict))
        found, W = interior._exact(rows, start)
        assert found[: rows.strict].min() >= 0
        assert np.allclose(W, rows.back(found), rtol=0, atol=1e-10 * np.linalg.norm(W))
        assert np.linalg.norm(rows.back(found)) == pytest.approx(
            limit.svm.norm * rows.space.unit, rel=1e-8
        )


def test_margins_are_exact_where_multipliers_are_too_large_to_tell():
    # Two differences that almost contradict each other: W = (1, 2/ε), multipliers 2/ε² + 1 and 2/ε².
    eps = 1e-4
    key = np.array([[1.0, 0.0], [0.0, 0.0], [-1.0, eps], [0.0, 0.0]])
    space = Matrices(key, np.ones((1, 1)), np.zeros(4, int), 1.0)
    rows = Rows(space, np.array([0, 2]), np.array([1, 3]), 2)
    y, W = interior._exact(rows, np.full(2, 2.001 / eps**2))
    assert np.allclose(rows.of_w(W), 1, rtol=0, atol=1e-11)
    assert np.allclose(W.ravel(), [1, 2 / eps], rtol=1e-9)
    assert np.allclose(y, 2 / eps**2, rtol=1e-7)


def test_single_precision_is_left_where_conjugate_gradients_do_not_mend_it(monkeypatch):
    rng = np.random.default_rng(5)
    raw = oracle.draw(rng, 9, 30, 4)
    samples, E = raw.samples(), check_embeddings(oracle.unit_rows(rng, 9, 4))
    graph = build_graph(samples)
    rows = Rows(Matrices.of(graph, E), graph.edge_from, graph.edge_to, len(graph.edge_from))
    system, B = interior._System(rows, np.float32), rng.standard_normal((4, 4))
    assert system.kind is np.float32
    even = system.factored(np.ones(len(rows.above)), 1.0)(B)
    assert system.kind is np.float32
    assert np.allclose(even + rows.back(rows.of_w(even)), B, rtol=0, atol=1e-8)
    monkeypatch.setattr(interior, "FEW", 1)
    weight = 10 ** rng.uniform(-6, 6, len(rows.above))
    uneven = system.factored(weight, 1.0)(B)
    assert system.kind is np.float64
    assert np.allclose(uneven + rows.back(weight * rows.of_w(uneven)), B, rtol=0, atol=1e-7)


def test_a_factor_in_panels_solves_what_is_written_out(monkeypatch):
    monkeypatch.setattr(interior, "PANEL", 6)
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
    found = interior._System(rows).factored(weight, 0.3)(B)
    assert np.allclose(found.ravel(), np.linalg.solve(whole, B.ravel()), rtol=1e-10, atol=1e-12)
    # By the factor alone, without what conjugate gradients mend.
    for kind, off in ((np.float64, 1e-9), (np.float32, 1e-3)):
        system = interior._System(rows, kind)
        panels = system._panels(system._by_last(weight), 0.3)
        assert len(panels) == 4
        assert panels[0].dtype == kind
        direct = interior._substituted(panels, B.ravel())
        assert np.allclose(direct, np.linalg.solve(whole, B.ravel()), rtol=off, atol=1e-3 * off)


def test_other_sizes_are_left_to_others(problems, monkeypatch):
    monkeypatch.setattr(interior, "LARGEST", 35)  # 6 dimensions have 36
    assert again(problems[0]) is None
    monkeypatch.setattr(interior, "LARGEST", 36)
    monkeypatch.setattr(interior, "SMALL", 10**6)
    assert again(problems[0]) is None
