"""The finite component: Luce fits against three other methods, the loss floor, S_fin and W_fin."""

from dataclasses import replace
from itertools import pairwise
from math import log

import choix
import numpy as np
import pytest
from scipy.optimize import minimize
from tests import oracle
from tests.unchecked import unchecked_types

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import SolverError
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.theory import finite
from attomaton.mechanics.theory.finite import (
    FiniteSubspace,
    active_subspace,
    cyclic_samples,
    finite_component,
)
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.limit import solve_limit

CERTIFIED = 1e-10


def fit(raw: oracle.Raw, E: np.ndarray | None = None):
    samples = raw.samples()
    graph = build_graph(samples)
    return graph, finite_component(graph, samples, None if E is None else check_embeddings(E))


def as_dict(graph, value) -> dict[tuple[int, int], float]:
    """A value for each pair, keyed by (last token, token)."""
    return dict(
        zip(
            zip(graph.pair_last.tolist(), graph.pair_token.tolist(), strict=True),
            value.tolist(),
            strict=True,
        )
    )


@pytest.fixture(scope="module")
def fits():
    """1,000 random data sets with ties, half of them with repeats, a third with weights."""

    def drawn(i):
        rng = np.random.default_rng([6, i])
        K = int(rng.integers(2, 8))
        n, lasts = int(rng.integers(K, 6 * K)), int(rng.integers(1, 3))
        raw = oracle.draw(rng, K, n, lasts, repeats=bool(i % 2), weighted=i % 3 == 0)
        return raw, *fit(raw)

    checked = [drawn(i) for i in range(20)]
    with unchecked_types():
        return checked + [drawn(i) for i in range(20, 1000)]


def plain_gradient(raw: oracle.Raw, score: dict[tuple[int, int], float]) -> float:
    """The largest gradient entry, each component on its own scale, by a loop over the raw samples."""
    part = oracle.components(raw)
    push: dict[tuple[int, int], float] = {}
    total: dict[tuple[int, frozenset], float] = {}
    for q, counts, y, w in oracle.cyclic_part(raw):
        mass = {x: m * np.exp(score[q, x]) for x, m in counts.items()}
        group = (q, part[q][y])
        total[group] = total.get(group, 0.0) + w
        for x in counts:
            slope = w * (mass[x] / sum(mass.values()) - (x == y))
            push[q, x] = push.get((q, x), 0.0) + slope
    return max((abs(g) / total[q, part[q][x]] for (q, x), g in push.items()), default=0.0)


def test_draws_are_varied(fits):
    assert sum(bool(graph.cyclic.any()) for _, graph, _ in fits) > 800
    assert sum(not graph.cyclic.any() for _, graph, _ in fits) > 20
    assert sum(len(np.unique(graph.component_size)) > 1 for _, graph, _ in fits) > 200


def test_gradients(fits):
    for raw, graph, found in fits:
        assert found.gradient <= CERTIFIED
        assert plain_gradient(raw, as_dict(graph, found.log_pi)) <= CERTIFIED


def test_control_gradients_see_a_wrong_answer(fits):
    for raw, graph, found in fits[:50]:
        if graph.cyclic.any():
            wrong = found.log_pi + 0.01 * np.arange(len(found.log_pi))
            assert plain_gradient(raw, as_dict(graph, wrong)) > 1e-5


def test_gradients_by_finite_differences(fits):
    """A central difference with step h errs by h² ≈ 1e-10, and by 1e-16/h ≈ 1e-11 of rounding."""
    h = 1e-5
    for raw, graph, found in fits[:10]:
        score = as_dict(graph, found.log_pi)
        for p in score:
            up = oracle.cyclic_loss(raw, {**score, p: score[p] + h})
            down = oracle.cyclic_loss(raw, {**score, p: score[p] - h})
            assert abs(up - down) / (2 * h) < 1e-9


def test_loss_floor_by_a_plain_loop(fits):
    for raw, graph, found in fits:
        plain = oracle.cyclic_loss(raw, as_dict(graph, found.log_pi))
        assert found.loss_floor == pytest.approx(plain, rel=1e-13, abs=1e-15)
        assert found.cyclic_samples == len(oracle.cyclic_part(raw))


def test_log_pi_is_centred_in_each_component(fits):
    for _, graph, found in fits:
        total = np.bincount(graph.component, found.log_pi, len(graph.level))
        assert np.abs(total).max() < 1e-12
        assert (found.log_pi[~graph.cyclic] == 0).all()


def test_second_implementation_with_multiplicities(fits):
    """Hunter's MM iteration, stopped when a step moves log π by less than 1e-13."""
    compared = differ = 0
    for raw, graph, found in fits[1:400:2]:  # the ones with repeats
        other = oracle.minorize_maximize(raw, 2000)
        if not other:
            continue
        mine = as_dict(graph, found.log_pi)
        # Linear convergence: the rest of the way is the last step over (1 − rate), rate ≤ 0.999.
        assert max(abs(mine[p] - value) for p, value in other.items()) < 1e-8
        compared += 1
        blind = oracle.minorize_maximize(raw, 2000, count_repeats=False)
        differ += blind is None or max(abs(mine[p] - value) for p, value in blind.items()) > 0.01
    assert compared > 100
    assert differ > 50  # control: an iteration blind to repeats ends elsewhere


def strongly_connected(seed: int) -> oracle.Raw:
    """Data without repeats whose only priority graph is one component."""
    rng = np.random.default_rng([7, seed])
    while True:
        raw = oracle.draw(rng, int(rng.integers(3, 8)), 40, 1, repeats=False)
        if all(len(set(part.values())) == 1 for part in oracle.components(raw).values()):
            return raw


def top1_data(raw: oracle.Raw, number: dict[int, int]):
    """choix's form: the winner, then everything it was chosen from but itself."""
    return [
        (number[y], tuple(number[x] for x in sorted(set(row) - {y})))
        for row, y, _ in raw
        if len(set(row)) > 1
    ]


@pytest.mark.parametrize("method", ["ilsr_top1", "mm_top1", "opt_top1"])
@pytest.mark.parametrize("seed", range(10))
def test_choix_agrees(method, seed):
    """Its methods stop when a step is short (1e-12 here) or on a small gradient (opt: 1e-10)."""
    raw = strongly_connected(seed)
    graph, found = fit(raw)
    number = {int(x): i for i, x in enumerate(graph.pair_token)}
    options = {"alpha": 1e-10, "tol": 1e-10} if method == "opt_top1" else {"tol": 1e-12}
    other = getattr(choix, method)(len(number), top1_data(raw, number), **options)
    assert np.abs(other - other.mean() - found.log_pi).max() < 1e-6


def test_control_choix_on_other_winners_disagrees():
    raw = strongly_connected(0)
    graph, found = fit(raw)
    number = {int(x): i for i, x in enumerate(graph.pair_token)}
    data = [(losers[0], (winner, *losers[1:])) for winner, losers in top1_data(raw, number)]
    other = choix.ilsr_top1(len(number), data, alpha=1e-3)
    assert np.abs(other - other.mean() - found.log_pi).max() > 0.1


def test_ford_the_fit_is_finite_exactly_on_components():
    """Inside a component scores stay put; add a token nobody loses to and they run away.

    The unrestricted likelihood is pushed along W_svm: it goes on rising for data with a priority and
    not for data that are one component.
    """
    tied = oracle.Raw(2, ((0, 1), (0, 1)), (0, 1), (1.0, 3.0))
    ranked = oracle.Raw(2, ((0, 1), (0, 1)), (1, 1), (1.0, 3.0))
    for raw, bounded in ((tied, True), (ranked, False)):
        losses = [oracle.loss(raw, np.array([[0.0, 0.0], [0.0, s]])) for s in range(0, 40, 4)]
        assert (np.diff(losses) > 0).any() == bounded
        graph, found = fit(raw)
        assert bool(graph.cyclic.all()) == bounded
        assert bool(found.norm > 0) == bounded
        assert np.isfinite(found.log_pi).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("skew", [False, True])
def test_loss_floor_is_the_minimum_over_all_matrices(seed, skew):
    """On one component the floor is attained: SciPy, searching all of W, finds the same value."""
    raw = strongly_connected(seed)
    rng = np.random.default_rng(seed)
    E = oracle.unit_rows(rng, raw.K, raw.K + 1) if skew else np.eye(raw.K)

    def value(w: np.ndarray) -> float:
        W = w.reshape(E.shape[1], -1)
        return oracle.loss(raw, E @ W.T @ E.T)

    d = E.shape[1]
    start = rng.standard_normal(d * d)
    best = minimize(value, start, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-8,
                                                             "maxfun": 10**6})  # fmt: skip
    _, found = fit(raw, E)
    # Differences of order 1e-8 in the gradient cost their square over the curvature.
    assert best.fun == pytest.approx(found.loss_floor, abs=1e-8)
    assert best.fun >= found.loss_floor - 1e-12


def test_loss_floor_is_the_infimum_where_it_is_not_attained():
    """Along W_fin + R·W_svm the loss falls to L*, at the rate e^{−R} of the smallest margin."""
    for seed in range(20):
        raw = oracle.draw(np.random.default_rng([8, seed]), 6, 14, 2)
        limit = solve_limit(raw.samples())
        S = limit.dense(limit.finite.coefficient).T
        D = limit.dense(limit.svm.coefficient).T
        above = [oracle.loss(raw, S + R * D) - limit.finite.loss_floor for R in (5, 10, 20, 40)]
        spread = raw.K * 4 * np.exp(2 * np.abs(S).max())
        assert all(-1e-13 < a < spread * np.exp(-R) + 1e-13
                   for a, R in zip(above, (5, 10, 20, 40), strict=True))  # fmt: skip


def test_sparse_and_dense_steps_agree(fits, monkeypatch):
    """Conjugate gradients end at a relative 1e-10 and Newton repeats them: the same optimum."""
    monkeypatch.setattr(finite, "DENSE", 1)
    for raw, _, found in fits[:60]:
        _, other = fit(raw)
        assert other.gradient <= CERTIFIED
        np.testing.assert_allclose(other.log_pi, found.log_pi, rtol=0, atol=1e-9)


def zipf_choices(items, many):
    """Choices among items as frequent as words are, the first of which stand in every one."""
    rng = np.random.default_rng(0)
    p = 1 / np.arange(1, items + 1)
    count = rng.poisson(20 * p / p.sum(), size=(many, items))
    count[:, :2] += 1
    winner = (rng.gumbel(size=count.shape) + np.where(count, np.log(p), -np.inf)).argmax(axis=1)
    row, item = np.nonzero(count)
    start = np.searchsorted(row, np.arange(many + 1))
    return finite.Choices(
        start, item, np.log(count[row, item]), winner, np.ones(many), np.zeros(items, np.int64)
    )  # fmt: skip


def test_a_step_by_conjugate_gradients_has_three_digits_from_the_start():
    """With one digit, items that stand in most choices ran away from the answer on 100 million tokens."""
    n = 2 * finite.DENSE
    choices = zipf_choices(n, 3000)
    look = finite.luce_loss(choices, np.zeros(n))
    step = finite._solve_hessian(choices, look.gradient, look.p)
    H = np.zeros((n, n))  # choice by choice
    for i in range(3000):
        at = slice(*choices.start[i : i + 2])
        x, p = choices.item[at], look.p[at]
        H[np.ix_(x, x)] += np.diag(p) - np.outer(p, p)
    residual = H @ step - look.gradient
    assert np.linalg.norm(residual) <= 1e-3 * np.linalg.norm(look.gradient)


def test_large_groups_are_fitted_as_each_alone_however_their_choices_are_mixed():
    n, many = finite.DENSE + 10, 1000
    rng = np.random.default_rng(1)
    one = zipf_choices(n, many)
    # Winners drawn evenly, so that each item wins some choices: all are one component.
    winner = one.item[one.start[:-1] + rng.integers(np.diff(one.start))]
    one = replace(one, winner=winner)
    order = rng.permutation(2 * many)  # choices of both groups, shuffled
    size = np.tile(np.diff(one.start), 2)[order]
    at = np.concatenate([np.arange(*one.start[i % many :][:2]) for i in order])
    own = np.repeat(order // many * n, size)  # the second group's items follow the first's
    both = finite.Choices(
        np.append(0, np.cumsum(size)), one.item[at] + own, one.log_count[at],
        np.concatenate([one.winner, one.winner + n])[order], np.ones(2 * many), np.arange(2 * n) // n,
    )  # fmt: skip
    alone, found = finite.luce_fit(one), finite.luce_fit(both)
    assert max(alone.error.max(), found.error.max()) <= finite.SURE
    np.testing.assert_allclose(found.theta, np.tile(alone.theta, 2), rtol=0, atol=1e-9)
    assert np.abs(finite.luce_loss(both, found.theta).gradient).max() <= 1e-9


def test_a_winner_without_a_chance_has_its_loss_and_others_keep_theirs():
    """Odds of e^−800 are 0 in float64; the loss is 800, beside a choice at even odds."""
    item, start = np.array([0, 1, 2, 3]), np.array([0, 2, 4])
    choices = finite.Choices(
        start, item, np.zeros(4), np.array([1, 2]), np.ones(2), np.array([0, 0, 1, 1])
    )
    loss = finite.luce_loss(choices, np.array([0.0, -800.0, 0.0, 0.0])).loss
    np.testing.assert_allclose(loss, [800.0, log(2)], rtol=1e-15)


@pytest.mark.parametrize("ratio", [1e3, 1e6, 1e9])
def test_extreme_weights(ratio):
    """Odds of 10⁶ : 1 and beyond, in a pair and around a cycle.

    The curvature of the mean loss is 1/ratio, so a gradient of 1e-15 leaves 1e-15 · ratio in log π.
    """
    graph, found = fit(oracle.Raw(2, ((0, 1), (0, 1)), (0, 1), (ratio, 1.0)))
    expected = [log(ratio) / 2, -log(ratio) / 2]
    np.testing.assert_allclose(found.log_pi, expected, rtol=0, atol=1e-15 * ratio + 1e-12)
    assert found.gradient <= CERTIFIED
    rows = ((0, 1, 3), (1, 2, 3), (2, 0, 3), (0, 3))
    ring = oracle.Raw(4, rows, (0, 1, 2, 3), (ratio, 1.0, ratio, 1.0))
    graph, found = fit(ring)
    assert graph.cyclic.all()
    assert plain_gradient(ring, as_dict(graph, found.log_pi)) <= CERTIFIED


def test_an_uncertified_fit_is_an_error(monkeypatch):
    monkeypatch.setattr(finite, "CERTIFIED", -1.0)
    with pytest.raises(SolverError, match="Luce fit"):
        fit(strongly_connected(0))


def test_rescaling_all_weights_changes_nothing(fits):
    for raw, _, found in fits[:50]:
        heavy = oracle.Raw(raw.K, raw.rows, raw.labels, tuple(1e5 * w for w in raw.weights))
        _, other = fit(heavy)
        np.testing.assert_allclose(other.log_pi, found.log_pi, rtol=0, atol=1e-10)
        assert other.loss_floor == pytest.approx(found.loss_floor, rel=1e-12)


# S_fin and W_fin


def spaces():
    """Data with ties, with orthonormal and with random embeddings, and a few without any tie."""
    for i in range(40):
        rng = np.random.default_rng([9, i])
        K = int(rng.integers(3, 7))
        raw = oracle.draw(rng, K, 3 * K if i % 10 else 2, 2)
        E = oracle.unit_rows(rng, K, K + int(rng.integers(3))) if i % 2 else np.eye(K)
        yield rng, raw, E, check_embeddings(E)


def tied_rows(raw: oracle.Raw, E: np.ndarray) -> list[tuple[np.ndarray, tuple[int, int, int]]]:
    """(e_i − e_j) e_kᵀ flattened for all tied i, j of every last token k."""
    return [
        (np.outer(E[i] - E[j], E[k]).ravel(), (k, i, j))
        for k, part in oracle.components(raw).items()
        for i in part
        for j in part[i]
        if i < j
    ]


def test_subspace_is_a_projector_onto_the_span():
    for rng, raw, E, embeddings in spaces():
        space = FiniteSubspace(build_graph(raw.samples()), embeddings)
        d = E.shape[1]
        rows = [a for a, _ in tied_rows(raw, E)]
        span = np.array(rows).reshape(-1, d * d)
        assert space.dimension == len(space.basis) == np.linalg.matrix_rank(span)
        flat = space.basis.reshape(-1, d * d)
        np.testing.assert_allclose(flat @ flat.T, np.eye(len(flat)), atol=1e-12)
        P = np.array([space.project(e.reshape(d, d)).ravel() for e in np.eye(d * d)])
        np.testing.assert_allclose(P, P.T, atol=1e-12)  # symmetric
        np.testing.assert_allclose(P @ P, P, atol=1e-12)  # idempotent
        np.testing.assert_allclose(P, np.linalg.pinv(span) @ span, atol=1e-9)
        np.testing.assert_allclose(span @ P, span, atol=1e-12)
        W = rng.standard_normal((d, d))
        assert len(flat) == d * d or np.abs(space.project(W) - W).max() > 1e-3  # control


def test_coefficients_are_the_projection_in_token_space():
    for rng, raw, E, embeddings in spaces():
        graph = build_graph(raw.samples())
        space = FiniteSubspace(graph, embeddings)
        W = rng.standard_normal((E.shape[1],) * 2)
        score = (E @ W @ E.T)[graph.pair_token, graph.pair_last]
        coefficient = space.coefficients(score)
        dense = np.zeros_like(W)
        for m, x, k in zip(coefficient, graph.pair_token, graph.pair_last, strict=True):
            dense += m * np.outer(E[x], E[k])
        # Errors grow with the condition of the tied pairs' Gram matrix, 10⁴ at worst here.
        np.testing.assert_allclose(dense, space.project(W), atol=1e-9)
        np.testing.assert_allclose(
            space.scores(coefficient), (E @ dense @ E.T)[graph.pair_token, graph.pair_last],
            atol=1e-9,
        )  # fmt: skip


def test_finite_part_is_the_minimum_norm_solution():
    moved = 0
    for _, raw, E, embeddings in spaces():
        limit = solve_limit(raw.samples(), embeddings)
        log_pi = as_dict(limit.graph, limit.finite.log_pi)
        rows = tied_rows(raw, E)
        W = limit.dense(limit.finite.coefficient)
        if not rows:
            assert (W == 0).all()
            continue
        A = np.array([a for a, _ in rows])
        b = np.array([log_pi[k, i] - log_pi[k, j] for _, (k, i, j) in rows])
        other = np.linalg.lstsq(A, b, rcond=1e-12)[0].reshape(W.shape)
        np.testing.assert_allclose(W, other, atol=1e-8 * max(1.0, np.abs(other).max()))
        assert limit.finite.norm == pytest.approx(np.linalg.norm(W), abs=1e-9)
        moved += np.abs(np.linalg.lstsq(A, -b, rcond=1e-12)[0].reshape(W.shape) - W).max() > 0.01
    assert moved > 10  # control: turned odds give another matrix


def test_acyclic_data_have_no_finite_part():
    raw = oracle.Raw(4, ((0, 1, 2, 3), (1, 2, 3)), (0, 1), (1.0, 1.0))
    graph, found = fit(raw, oracle.unit_rows(np.random.default_rng(0), 4, 5))
    assert (found.norm, found.loss_floor, found.gradient, found.cyclic_samples) == (0, 0, 0, 0)
    assert FiniteSubspace(graph, check_embeddings(np.eye(4))).basis.shape == (0, 4, 4)


@pytest.mark.parametrize("width", [None, 3, 8])
def test_the_active_subspace_is_the_span_of_all_edges(width):
    """Against the edges written out one by one; with fewer dimensions than tokens, and with as many."""
    many = False  # more rows than dimensions
    for number in range(10):
        rng = np.random.default_rng([21, number])
        raw = oracle.draw(rng, 6, 4 + number, 2 + number % 3, repeats=bool(number % 2))
        E = np.eye(6) if width is None else oracle.unit_rows(rng, 6, width)
        graph = build_graph(raw.samples())
        space = active_subspace(graph, None if width is None else check_embeddings(E))
        rows = np.array([
            np.outer(E[i] - E[j], E[k]).ravel()
            for k, some in oracle.edges(raw).items() for i, j in some
        ])  # fmt: skip
        _, singular, right = np.linalg.svd(rows, full_matrices=False)
        span = right[singular > 1e-9]
        assert space.dimension == len(space.basis) == len(span)
        many |= len(graph.pair_last) - len(graph.last_tokens) > E.shape[1] ** 2
        W = rng.normal(size=(E.shape[1],) * 2)
        np.testing.assert_allclose(
            space.project(W).ravel(), (W.ravel() @ span.T) @ span, atol=1e-12
        )
        if width is None:
            scores = W.T[graph.pair_last, graph.pair_token]
            inside = space.project(W).T[graph.pair_last, graph.pair_token]
            np.testing.assert_allclose(space.coefficients(scores), inside, atol=1e-12)
    assert many == (width == 3)


def test_cyclic_data_under_the_graph_of_other_samples():
    """A token the graph does not hold is tied with nothing, whatever the last pair's component is."""
    own = samples_from_sequences(
        [[0, 1, 2, 3], [0, 1, 2, 3], [4, 1, 3]], [0, 1, 4], vocabulary=Vocabulary(range(5))
    )
    graph = build_graph(
        samples_from_sequences([[0, 1, 3], [0, 1, 3]], [0, 1], vocabulary=Vocabulary(range(5)))
    )
    cyclic = cyclic_samples(graph, own)  # 2 and 4 are unknown to it after 3; 0 and 1 are tied
    assert [sorted(cyclic.token[a:b].tolist()) for a, b in pairwise(cyclic.start)] == [[0, 1]] * 2
    assert sorted(cyclic.label.tolist()) == [0, 1]


def test_winners_of_fewer_choices_are_where_a_search_finds_them():
    rng = np.random.default_rng(0)
    rows = [rng.permutation(4)[: rng.integers(2, 5)] + 4 * g for g in rng.integers(0, 3, 40)]
    start = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    item, winner = np.concatenate(rows), np.array([rng.choice(row) for row in rows])
    choices = finite.Choices(
        start, item, np.zeros(len(item)), winner, np.ones(len(rows)), np.repeat(np.arange(3), 4)
    )
    part, _ = choices.restrict(np.array([True, False, True]))
    assert 0 < len(part.winner) < len(winner)
    np.testing.assert_array_equal(
        part.winner_at, np.flatnonzero(part.item == part.winner[part.choice_of])
    )
