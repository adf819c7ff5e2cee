"""How far log-odds are known: the bound against arithmetic with 80 digits, on data as ill-conditioned as they come."""

from collections.abc import Mapping
from decimal import Decimal, localcontext

import numpy as np
import pytest

from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import SolverError
from attomaton.mechanics.theory import finite
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.laplacian import newton_step, path_resistance, tree_bound
from attomaton.mechanics.theory.limit import solve_limit

DIGITS = 80
AIM = 1e-6  # nats that odds of 10¹⁴ : 1 must be right to


def fitted(rows, labels, weights):
    """All choices of a data set, the fit and the bound of each component."""
    samples = samples_from_sequences(rows, labels, weights)
    graph = build_graph(samples)
    items, choices, _ = finite.cyclic_choices(graph, samples, np.ones(1))
    return graph, items, choices, finite.luce_fit(choices)


def spread(found, exact: Mapping[int, Decimal]) -> float:
    """The largest error of a log-odds among these items."""
    with localcontext() as context:
        context.prec = DIGITS
        off = [Decimal(float(found[i])) - x for i, x in exact.items()]
        return float(max(off) - min(off))


# Trees of two-token comparisons, where log-odds are known: log(w_ij / w_ji) along each edge


def trees(rng, many, least, most, decades):
    """Chains, stars and random trees, one for each last token; weights, and parents with exact log-odds to them."""
    rows, labels, weights, shapes = [], [], [], []
    with localcontext() as context:
        context.prec = DIGITS
        for k in range(many):
            size, last, kind = int(rng.integers(least, most + 1)), 10**6 + k, k % 3
            parent = [0, *(i - 1 if kind == 0 else 0 if kind == 1 else int(rng.integers(i))
                           for i in range(1, size))]  # fmt: skip
            score = [Decimal(0)]
            for i in range(1, size):
                # Two weights of each edge at any scale, their ratio up to 10^±decades.
                scale, ratio = 10 ** rng.uniform(-8, 8), 10 ** rng.uniform(-decades, decades)
                up, down = float(scale), float(scale * ratio)
                rows += [[parent[i], i, last]] * 2
                labels += [parent[i], i]
                weights += [up, down]
                score.append(score[parent[i]] + Decimal(down).ln() - Decimal(up).ln())
            shapes.append(score)
    return rows, labels, weights, shapes


def compare_trees(seed, many, least, most, decades=14.0):
    """The worst error, and the worst ratio of error to bound."""
    rows, labels, weights, shapes = trees(
        np.random.default_rng([21, seed]), many, least, most, decades
    )
    graph, items, choices, (theta, error) = fitted(rows, labels, weights)
    assert len(error) == many
    worst = ratio = 0.0
    place = {
        (graph.vocabulary[graph.pair_last[p]], graph.vocabulary[graph.pair_token[p]]): n
        for n, p in enumerate(items)
    }
    for k, score in enumerate(shapes):
        at = [place[10**6 + k, i] for i in range(len(score))]
        true = spread(theta, dict(zip(at, score, strict=True)))
        worst, ratio = max(worst, true), max(ratio, true / error[choices.group[at[0]]])
    return worst, ratio, float(error.max())


@pytest.mark.parametrize("seed", range(2))
def test_a_thousand_ill_conditioned_trees(seed):
    """Odds up to 10¹⁴ : 1 on every edge, edges unlike by 10¹⁶: errors below their bound, both far below 1e-6."""
    worst, ratio, bound = compare_trees(seed, 500, 2, 12)
    assert ratio <= 1.0
    assert worst <= bound <= AIM


@pytest.mark.parametrize(("many", "least", "most"), [(9, 40, 64), (3, 70, 150)])
def test_long_chains_and_wide_stars(many, least, most):
    worst, ratio, bound = compare_trees(7, many, least, most)
    assert ratio <= 1.0
    assert worst <= bound <= AIM


@pytest.mark.parametrize("odds", [1e3, 1e12, 1e13, 1e14, 1e16, 1e30])
@pytest.mark.parametrize("scale", [1.0, 1e-140, 1e110])
def test_odds_of_two_tokens(odds, scale):
    rows, labels = [[0, 1], [0, 1]], [0, 1]
    limit = solve_limit(samples_from_sequences(rows, labels, [odds * scale, scale]))
    with localcontext() as context:
        context.prec = DIGITS
        ratio = Decimal(odds * scale).ln() - Decimal(scale).ln()
    true = spread(limit.finite.log_pi, {0: ratio, 1: Decimal(0)})
    bound = limit.summary().certificates.luce_error
    assert true <= bound <= AIM
    # L* = −Σ w log(w / Σ w) / Σ w, to all digits even where it is tiny.
    share = 1 / (1 + odds)
    floor = share * np.log1p(odds) + odds * share * np.log1p(1 / odds)
    assert limit.finite.loss_floor == pytest.approx(floor, rel=1e-12)


# Any choices, against Newton's method in decimal arithmetic


def solve_exactly(A, b):
    """Gaussian elimination with pivots, in decimals."""
    n = len(b)
    A = [[*row, b[i]] for i, row in enumerate(A)]
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(A[i][k]))
        A[k], A[pivot] = A[pivot], A[k]
        for i in range(k + 1, n):
            f = A[i][k] / A[k][k]
            A[i] = [x - f * y for x, y in zip(A[i], A[k], strict=True)]
    x = [Decimal(0)] * n
    for k in range(n - 1, -1, -1):
        x[k] = (A[k][n] - sum(A[k][j] * x[j] for j in range(k + 1, n))) / A[k][k]
    return x


def exact_scores(choices, group, theta) -> dict[int, Decimal]:
    """The optimum of one group, its first score 0, to some forty digits."""
    items = [int(i) for i in np.flatnonzero(choices.group == group)]
    rows = []
    for n in np.flatnonzero(choices.group_of_choice == group):
        at = slice(choices.start[n], choices.start[n + 1])
        counts = np.exp(choices.log_count[at]).round().astype(int)
        bag = dict(zip(choices.item[at].tolist(), map(int, counts), strict=True))
        rows.append((bag, int(choices.winner[n]), Decimal(float(choices.weight[n]))))
    score = {i: Decimal(float(theta[i])) - Decimal(float(theta[items[0]])) for i in items}
    for _ in range(300):
        g = dict.fromkeys(items, Decimal(0))
        H = {(i, j): Decimal(0) for i in items for j in items}
        for bag, winner, w in rows:
            mass = {x: m * score[x].exp() for x, m in bag.items()}
            p = {x: v / sum(mass.values()) for x, v in mass.items()}
            for x in bag:
                g[x] += w * (p[x] - (x == winner))
                for z in bag:
                    H[x, z] += w * (p[x] * (x == z) - p[x] * p[z])
        free = items[1:]
        step = solve_exactly([[H[i, j] for j in free] for i in free], [-g[i] for i in free])
        longest = max(map(abs, step))
        short = min(Decimal(1), (1 + longest).ln() / longest) if longest else Decimal(1)
        for i, x in zip(free, step, strict=True):
            score[i] += short * x
        if longest < Decimal("1e-40"):
            return score
    raise AssertionError("decimal Newton did not settle")


def drawn(rng, many, decades):
    """Small components with cycles, repeats and choices among several, weights over 2·`decades` decades."""
    rows, labels, weights = [], [], []
    for k in range(many):
        size, last = int(rng.integers(2, 6)), 100 + k
        ring = rng.permutation(size)
        bags = [[int(ring[i]), int(ring[(i + 1) % size])] for i in range(size)]
        for bag in bags:
            bag.extend([x for x in range(size) if x not in bag and rng.random() < 0.3])
            bag.extend([bag[0]] * int(rng.integers(3)))
        winners = [bag[0] for bag in bags]
        for _ in range(int(rng.integers(2 * size))):
            bags.append(rng.permutation(size)[: rng.integers(2, size + 1)].tolist())
            winners.append(int(rng.choice(bags[-1])))
        rows += [[*bag, last] for bag in bags]
        labels += winners
        weights += (10 ** rng.uniform(-decades, decades, len(bags))).tolist()
    return rows, labels, weights


@pytest.mark.parametrize("decades", [0, 4, 8, 14])
def test_the_bound_holds_for_any_choices(decades):
    *_, choices, (theta, error) = fitted(*drawn(np.random.default_rng([22, decades]), 60, decades))
    assert (error <= AIM).all()
    with localcontext() as context:
        context.prec = DIGITS
        for group in range(len(error)):
            assert spread(theta, exact_scores(choices, group, theta)) <= error[group]


def test_the_bound_of_large_components_holds(monkeypatch):
    """The tree's bound, on components small enough for the exact answer."""
    *_, choices, (theta, _) = fitted(*drawn(np.random.default_rng(23), 60, 1))
    rng = np.random.default_rng(24)
    useful = 0
    with localcontext() as context:
        context.prec = DIGITS
        for group in range(len(choices.group_weight)):
            part, items = choices.restrict(np.arange(len(choices.group_weight)) == group)
            exact = exact_scores(choices, group, theta)
            for off in (0.0, 1e-12, 1e-8, 1e-4):
                moved = theta[items] + off * rng.standard_normal(len(items))
                bound = finite.Flows.of(part, moved).bound()
                true = spread(moved, dict(zip(range(len(items)), exact.values(), strict=True)))
                assert true <= bound
                useful += bool(bound <= 1e3 * max(true, 1e-12))
    assert useful > 150  # control: it says more than "perhaps anything"


def test_control_scores_moved_by_hand_are_seen():
    """The certificate of a wrong answer is large, however small its gradient."""
    *_, choices, (theta, error) = fitted([[0, 1], [0, 1]], [0, 1], [1e13, 1.0])
    assert error[0] < 1e-11
    wrong = theta + np.array([-0.5, 0.5])
    slope = finite.luce_loss(choices, wrong).gradient / choices.group_weight[0]
    assert np.abs(slope).max() < 2e-13
    step, doubt, _ = finite._careful_step(choices, wrong)
    assert np.ptp(step) + doubt[0] > 0.5


def test_odds_that_are_not_known_are_refused(monkeypatch):
    """A component too large for careful steps, as ill-conditioned as above: the message says what is known."""
    monkeypatch.setattr(finite, "CAREFUL", 64)
    rows, labels, weights, _ = trees(np.random.default_rng(26), 1, 80, 80, 14.0)
    with pytest.raises(
        SolverError, match=r"(?s)after last token 1000000 .* 80 tied tokens .* nats"
    ):
        solve_limit(samples_from_sequences(rows, labels, weights))


# Elimination and bounds, each by itself


def test_elimination_solves_the_laplacian():
    rng = np.random.default_rng(25)
    graphs, size = 40, 7
    real = np.arange(size) < rng.integers(2, size + 1, graphs)[:, None]
    inside = real[:, :, None] & real[:, None, :] & ~np.eye(size, dtype=bool)
    C = np.where(inside, rng.uniform(0.1, 1.0, (graphs, size, size)), 0.0)
    C = C + C.transpose(0, 2, 1)
    A = np.where(inside, rng.uniform(0.1, 1.0, (graphs, size, size)), 0.0)
    step, error = newton_step(C, A, np.full_like(A, 1e-16), real)
    assert (error < 1e-12).all()
    for k in range(graphs):
        H = np.diag(C[k].sum(axis=1)) - C[k]
        gradient = A[k].sum(axis=1) - A[k].sum(axis=0)
        np.testing.assert_allclose(H @ step[k], -gradient, atol=1e-13)
        assert (step[k][~real[k]] == 0).all()
        resistance = path_resistance(C[k : k + 1])[0]
        inverse = np.linalg.pinv(H)
        n = int(real[k].sum())
        one, other = np.triu_indices(n, 1)
        effective = inverse[one, one] + inverse[other, other] - 2 * inverse[one, other]
        assert (resistance[one, other] >= effective - 1e-12).all()
        bound = tree_bound(one, other, C[k][one, other], gradient[:n], np.zeros(n))
        assert np.ptp(step[k][:n]) <= bound


def test_a_graph_in_two_pieces_has_no_bound():
    C = np.zeros((1, 4, 4))
    C[0, 0, 1] = C[0, 1, 0] = C[0, 2, 3] = C[0, 3, 2] = 1.0
    assert newton_step(C, C, 0 * C, np.ones((1, 4), bool)).error[0] == np.inf
    one, other = np.array([0, 2]), np.array([1, 3])
    assert tree_bound(one, other, np.ones(2), np.zeros(4), np.zeros(4)) == np.inf
