"""Standard errors: a case by hand, repeats and new names, two other ways to compute them, and how they fall with n."""

import numpy as np
import pytest
from tests.unchecked import unchecked_types

from attomaton.corpus.given import as_windows
from attomaton.errors import DataError, UsageError
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.theory import information
from attomaton.mechanics.theory.finite import luce_loss
from attomaton.mechanics.theory.limit import solve_limit

CLOSE = {"rtol": 1e-8}


def drawn(n: int, K: int = 6, seed: int = 0, size: int = 4):
    """Contexts of some of K tokens and a last token that never wins, with next tokens by a Luce model."""
    rng = np.random.default_rng(seed)
    pi = np.exp(rng.normal(size=K))
    rows = [rng.choice(K, size, replace=True) for _ in range(n)]
    labels = [rng.choice(row, p=pi[row] / pi[row].sum()) for row in rows]
    return [[*map(int, row), K] for row in rows], [int(y) for y in labels]


def fitted(rows, labels, weights=None):
    windows = as_windows(rows, labels, weights=weights)
    return solve_limit(windows.samples()), windows


def dense(errors: information.StandardErrors, group: int = 0):
    """Items, centred covariance and score of each choice of one component, by plain NumPy."""
    part, items = errors.choices.restrict(np.arange(len(errors._size)) == group)
    P = np.zeros((len(part.winner), len(items)))
    P[part.choice_of, part.item] = luce_loss(part, errors.theta[items]).p
    H = np.diag(part.weight @ P) - P.T @ (part.weight[:, None] * P)
    score = P.copy()
    score[np.arange(len(P)), part.winner] -= 1
    return items, np.linalg.pinv(H, hermitian=True), part.weight[:, None] * score


@pytest.mark.parametrize(("a", "b"), [(3, 1), (1, 1), (700, 40)])
def test_two_tokens_by_hand(a, b):
    limit, _ = fitted([["x", "y"]] * (a + b), ["x"] * a + ["y"] * b)
    errors = limit.standard_errors()
    odds = errors.odds("y", "x", "y")
    assert odds.value == pytest.approx(np.log(a / b), abs=1e-9)
    assert odds.se == pytest.approx(np.sqrt(1 / a + 1 / b), rel=1e-9)
    assert (odds.high - odds.value) / odds.se == pytest.approx(1.959964, abs=1e-6)
    share = errors.shares(errors.items, np.array([1, 1]))[0]  # a share's delta method, by hand
    p, n = a / (a + b), a + b
    assert share.value == pytest.approx(p)
    assert share.se == pytest.approx(np.sqrt(p * (1 - p) / n))
    assert 0 < share.low < p < share.high < 1
    surprise = np.array([-np.log(p)] * a + [-np.log(1 - p)] * b)
    assert errors.loss_floor.se == pytest.approx(surprise.std() / np.sqrt(n), abs=1e-12)


def test_a_row_for_each_sequence_is_a_robust_error_by_hand():
    """Each row its own sequence: of two tokens, the sandwich is the information again, times n/(n − 1)."""
    limit, windows = fitted([["x", "y"]] * 12, ["x"] * 9 + ["y"] * 3)
    odds = limit.standard_errors(windows).odds("y", "x", "y")
    assert odds.se == pytest.approx(np.sqrt((1 / 9 + 1 / 3) * 12 / 11))
    assert (odds.high - odds.value) / odds.se == pytest.approx(
        2.200985, abs=1e-6
    )  # Student's t, 11


def test_against_a_dense_pseudo_inverse(monkeypatch):
    limit, _ = fitted(*drawn(4000, K=90, size=6))
    errors = limit.standard_errors()
    assert errors._size.tolist() == [90]  # above the size at which inverses are written otherwise
    items, V, _ = dense(errors)
    np.testing.assert_allclose(errors.to_arrow()["se"], np.sqrt(np.diag(V)), **CLOSE)
    i, j = errors._edges
    expected = np.sqrt(V[i, i] + V[j, j] - 2 * V[i, j])
    np.testing.assert_allclose(errors.odds_table()["se"], expected, **CLOSE)
    one = limit.graph.vocabulary[limit.graph.pair_token[items[3]]], limit.graph.vocabulary[0]
    told = errors.odds(90, *one)
    monkeypatch.setattr(information, "SOLVED", 2)  # as if it were too large to write out
    assert errors.odds(90, *one).se == pytest.approx(told.se, rel=1e-6)


def test_clustered_against_plain_sums():
    rows, labels = drawn(300)
    windows = as_windows([[*row, y] for row, y in zip(rows, labels, strict=True)], context=5)
    limit = solve_limit(windows.samples())
    errors = limit.standard_errors(windows)
    for group in range(len(errors._size)):
        items, V, score = dense(errors, group)
        sequence = errors.sequence[errors.choices.group_of_choice == group]
        sums = np.array([score[sequence == s].sum(axis=0) for s in np.unique(sequence)])
        G = len(sums)
        wide = V @ sums.T @ sums @ V * (G / (G - min(len(items) - 1, G / 2)))
        expected = np.sqrt(np.maximum(np.diag(V), np.diag(wide)))
        if G == 1:
            expected[:] = np.nan
        np.testing.assert_allclose(errors._all[0][items], expected, **CLOSE)


def test_what_one_sequence_says_alone_has_no_clustered_error():
    windows = as_windows([["x", "y", "x", "y", "x", "x", "y", "y", "x"]], context=2)
    errors = solve_limit(windows.samples()).standard_errors(windows)
    assert np.isnan(errors._all[0]).all()
    assert np.isnan(errors.loss_floor.se)


def test_weights_are_repeats():
    rows, labels = drawn(60)
    once, _ = fitted(rows, labels, np.full(60, 3.0))
    thrice, _ = fitted(rows * 3, labels * 3)
    a, b = once.standard_errors(), thrice.standard_errors()
    np.testing.assert_allclose(a._all[0], b._all[0], **CLOSE)
    assert a.loss_floor.se == pytest.approx(b.loss_floor.se)


def test_weights_far_from_one_lose_no_digits():
    rows, labels = drawn(200)
    plain, _ = fitted(rows, labels)
    heavy, _ = fitted(rows, labels, np.full(200, 1e120))
    np.testing.assert_allclose(
        heavy.standard_errors()._all[0] * 1e60, plain.standard_errors()._all[0], **CLOSE
    )


def test_new_names_change_nothing():
    rows, labels = drawn(200)
    name = {x: f"token {(5 * x) % 7}" for x in range(7)}
    there, _ = fitted([[name[x] for x in row] for row in rows], [name[y] for y in labels])
    here, _ = fitted(rows, labels)
    a, b = (
        here.standard_errors().odds(6, 0, 3),
        there.standard_errors().odds(name[6], name[0], name[3]),
    )
    assert a.value == pytest.approx(b.value)
    assert a.se == pytest.approx(b.se)


def test_errors_fall_with_the_square_root_of_n():
    se = [fitted(*drawn(n, seed=1))[0].standard_errors().odds(6, 0, 1).se for n in (500, 8000)]
    assert np.log(se[1] / se[0]) / np.log(16) == pytest.approx(-0.5, abs=0.05)


def test_what_has_no_standard_error_is_refused():
    limit, _ = fitted([["x", "y"], ["x", "y"], ["z", "y"]], ["x", "y", "z"])
    errors = limit.standard_errors()
    for other in ("z", "x", "nobody"):
        with pytest.raises(UsageError, match="not two that tie"):
            errors.odds("y", "x", other)
    with pytest.raises(DataError, match="not those the limit was fitted to"):
        limit.standard_errors(as_windows([["x", "y"]], ["x"]))
    with unchecked_types(), pytest.raises(UsageError, match="is no Windows"):
        limit.standard_errors(limit.samples)
    narrow = solve_limit(limit.samples, check_embeddings([[1.0], [2.0], [3.0]]))
    with pytest.raises(UsageError, match="depend on each other"):
        narrow.standard_errors()


def test_the_reach_of_an_interval_is_the_quantile_of_its_level():
    from scipy.special import ndtri

    assert ndtri((1 + information.LEVEL) / 2) == information.NORMAL


@pytest.mark.parametrize("mixed", [2, 4, 6])
def test_intervals_of_one_row_are_those_among_many(mixed):
    """Bit for bit: pieces of any length and workers write the same file."""
    errors = fitted(*drawn(400))[0].standard_errors()
    rng = np.random.default_rng(1)
    pairs = np.stack([rng.choice(errors.items, mixed, replace=False) for _ in range(40)])
    count = rng.integers(1, 4, pairs.shape)
    made = errors.covariances()
    together = np.stack(made.shares(pairs, count))
    alone = [made.shares(pairs[i : i + 1], count[i : i + 1]) for i in range(len(pairs))]
    assert np.array_equal(together, np.concatenate(alone, axis=1))
    plain = [errors.shares(*row) for row in zip(pairs, count, strict=True)]
    assert np.allclose(together[0], [[x.low for x in row] for row in plain], rtol=1e-9)
