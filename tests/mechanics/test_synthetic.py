"""Random data sets keep the promises in their names."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from scipy.stats import chisquare

from attomaton.errors import AssumptionError, DataError, UsageError
from attomaton.mechanics import synthetic
from attomaton.mechanics.synthetic import (
    KINDS,
    draw_samples,
    general_head,
    orthonormal_embeddings,
    planted_samples,
    unit_embeddings,
)

# A draw of a true law falls below this p-value once in ten thousand; the seeds are fixed.
UNLIKELY = 1e-4


def graphs(samples):
    """Priority graphs from their definition, last token by last token."""
    found = {}
    for i in range(len(samples)):
        g = found.setdefault(int(samples.last[i]), nx.DiGraph())
        y = int(samples.label[i])
        g.add_node(y)
        g.add_edges_from((y, x) for x in samples.bag(i) if x != y)
    return found


def raw_rows(samples):
    return int(samples.rows.sum())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("repeats", [False, True])
def test_every_kind_has_the_sizes_asked_for(kind, repeats):
    for seed in range(5):
        s = draw_samples(np.random.default_rng(seed), 6, 12, 4, kind=kind, repeats=repeats)
        assert s.vocabulary.labels == tuple(range(6))
        assert raw_rows(s) == 12 if kind != "fully-cyclic" else raw_rows(s) >= 12
        assert s.set_aside.rows == 0
        bags = [s.bag(i) for i in range(len(s))]
        assert {sum(bag.values()) for bag in bags} == {4}
        assert any(max(bag.values()) > 1 for bag in bags) == repeats


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_names_a_data_set(kind):
    first, again, other = (
        draw_samples(np.random.default_rng(seed), 6, 12, 4, kind=kind) for seed in (3, 3, 4)
    )
    for name in ("last", "label", "token", "weight"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    assert not np.array_equal(first.token, other.token)


@pytest.mark.parametrize("repeats", [False, True])
def test_acyclic_graphs_have_no_cycle(repeats):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        s = draw_samples(rng, 7, 200, 4, kind="acyclic", repeats=repeats)
        assert all(nx.is_directed_acyclic_graph(g) for g in graphs(s).values())


def test_cyclic_data_have_a_cycle_where_general_data_may_have_none():
    def cyclic(kind, seed):
        s = draw_samples(np.random.default_rng(seed), 6, 6, 4, kind=kind)
        return not all(nx.is_directed_acyclic_graph(g) for g in graphs(s).values())

    assert all(cyclic("cyclic", seed) for seed in range(30))
    assert 0 < sum(cyclic("general", seed) for seed in range(30)) < 30


@pytest.mark.parametrize("lasts", [None, 1])
def test_cycles_are_seen_in_the_contexts_before_samples_are_made(lasts):
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        contexts = synthetic._draw_contexts(rng, 9, 4, 4, repeats=seed % 2 == 0, lasts=lasts)
        labels = synthetic._uniform_labels(rng, 9, contexts)
        seen = graphs(synthetic._samples(9, contexts, labels)).values()
        found.append(not all(map(nx.is_directed_acyclic_graph, seen)))
        assert synthetic._has_cycle(9, contexts, labels) == found[-1]
    assert 0 < sum(found) < 60


def test_a_cycle_that_cannot_be_is_given_up(monkeypatch):
    monkeypatch.setattr(synthetic, "TRIES", 20)
    with pytest.raises(DataError) as caught:
        draw_samples(np.random.default_rng(0), 5, 1, 3, kind="cyclic")
    assert str(caught.value) == (
        "no cycle in 20 draws of 1 samples of 3 out of 5 tokens. "
        "Draw more samples, longer contexts or fewer last tokens."
    )


@pytest.mark.parametrize(
    ("K", "n", "T", "repeats"),
    [(6, 6, 4, False), (6, 6, 4, True), (9, 3, 2, False), (3, 40, 3, False), (4, 2, 7, True)],
)
def test_fully_cyclic_graphs_are_one_component_each(K, n, T, repeats):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        s = draw_samples(rng, K, n, T, kind="fully-cyclic", repeats=repeats)
        assert all(nx.is_strongly_connected(g) for g in graphs(s).values())
        # The samples drawn are still there: tying adds tokens to no graph.
        plain = draw_samples(np.random.default_rng(seed), K, n, T, repeats=repeats)
        drawn, tied = graphs(plain), graphs(s)
        assert {q: set(g) for q, g in drawn.items()} == {q: set(g) for q, g in tied.items()}
        assert all(set(drawn[q].edges) <= set(tied[q].edges) for q in drawn)


def test_contexts_of_one_token():
    s = draw_samples(np.random.default_rng(0), 3, 30, 1, kind="fully-cyclic")
    assert s.label.tolist() == s.last.tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("repeats", [False, True])
def test_few_last_tokens(kind, repeats):
    s = draw_samples(np.random.default_rng(0), 9, 300, 4, kind=kind, repeats=repeats, lasts=2)
    assert len(np.unique(s.last)) == 2
    assert {sum(s.bag(i).values()) for i in range(len(s))} == {4}
    assert len(np.unique(draw_samples(np.random.default_rng(0), 9, 300, 4).last)) == 9


@pytest.mark.parametrize("lasts", [None, 5])
def test_contexts_without_repeats_are_uniform(lasts):
    s = draw_samples(np.random.default_rng(1), 5, 30_000, 3, lasts=lasts)
    # Each of the 5 · C(4, 2) pairs of a last token and a set of others is equally likely.
    seen = Counter()
    for i in range(len(s)):
        seen[int(s.last[i]), frozenset(s.bag(i))] += s.weight[i]
    assert len(seen) == 30
    assert chisquare(list(seen.values())).pvalue > UNLIKELY


def test_general_labels_are_uniform_over_the_context():
    # Without repeats both steps of the draw are symmetric in the context's tokens.
    s = draw_samples(np.random.default_rng(2), 4, 20_000, 2)
    own = s.weight[s.label == s.last].sum()
    assert chisquare([own, s.total_weight - own]).pvalue > UNLIKELY


def test_general_labels_with_repeats_are_drawn_from_the_vocabulary_first():
    # X = [0, 0, 1] out of K = 4: label 0 with probability 1/4 + 1/2 · 2/3, not 2/3.
    s = draw_samples(np.random.default_rng(3), 4, 60_000, 3, repeats=True)
    wins = np.zeros(2)
    for i in range(len(s)):
        if s.last[i] == 1 and s.bag(i) == {0: 2, 1: 1}:
            wins[s.label[i]] += s.weight[i]
    assert chisquare(wins, wins.sum() * np.array([7 / 12, 5 / 12])).pvalue > UNLIKELY
    assert chisquare(wins, wins.sum() * np.array([2 / 3, 1 / 3])).pvalue < UNLIKELY


# Planted orders


@pytest.mark.parametrize("repeats", [False, True])
def test_planted_labels_come_from_the_best_group_present(repeats):
    planted = planted_samples(np.random.default_rng(0), 8, 500, 4, 3, repeats=repeats)
    s = planted.samples
    assert raw_rows(s) == 500
    for i in range(len(s)):
        best = min(planted.level[s.last[i], x] for x in s.bag(i))
        assert planted.level[s.last[i], s.label[i]] == best


def test_planted_groups_are_dealt_evenly_and_anew_for_each_last_token():
    planted = planted_samples(np.random.default_rng(0), 8, 10, 4, 3)
    assert planted.level.shape == planted.log_pi.shape == (8, 8)
    for level, log_pi in zip(planted.level, planted.log_pi, strict=True):
        assert sorted(np.bincount(level)) == [2, 3, 3]
        for group in range(3):
            # A mean of at most three numbers near 1, up to rounding.
            assert abs(log_pi[level == group].mean()) < 1e-14
    assert len({tuple(level) for level in planted.level}) > 1


def test_one_group_is_soft_and_as_many_groups_as_tokens_are_hard():
    hard = planted_samples(np.random.default_rng(1), 6, 400, 3, 6)
    assert all(nx.is_directed_acyclic_graph(g) for g in graphs(hard.samples).values())
    assert not hard.log_pi.any()
    soft = planted_samples(np.random.default_rng(1), 6, 4000, 3, 1)
    assert not soft.level.any()
    assert all(nx.is_strongly_connected(g) for g in graphs(soft.samples).values())


def test_planted_odds_are_luce_odds_times_counts():
    planted = planted_samples(np.random.default_rng(5), 3, 60_000, 3, 1, repeats=True, lasts=1)
    s = planted.samples
    (q,) = np.unique(s.last)
    wins = {}
    for i in range(len(s)):
        bag = tuple(sorted(s.bag(i).items()))
        wins.setdefault(bag, Counter())[int(s.label[i])] += s.weight[i]
    assert len(wins) == 6
    plain = []
    for bag, won in wins.items():
        x, m = np.array(bag).T
        if len(x) == 1:
            continue
        share = m * np.exp(planted.log_pi[q, x])
        seen = np.array([won[i] for i in x.tolist()])
        assert chisquare(seen, seen.sum() * share / share.sum()).pvalue > UNLIKELY
        plain.append(chisquare(seen, seen.sum() * m / m.sum()).pvalue)
    assert min(plain) < UNLIKELY  # control: equal odds do not explain the labels


# Embeddings


def test_a_general_head_puts_every_token_first_and_no_score_above_one():
    for K, d in ((6, 8), (30, 4), (3, 3)):
        E = 3 * unit_embeddings(np.random.default_rng(K), K, d)
        C = general_head(np.random.default_rng(0), E)
        assert (C @ E.T).argmax(axis=1).tolist() == list(range(K))
        assert np.linalg.norm(C, axis=1) == pytest.approx(np.full(K, 1 / 3))
        assert (C @ E.T).max() <= 1
        assert np.abs(C - E).max() > 0.1
    # Given that its token comes first, a row is a uniform direction.
    rows = np.array([general_head(np.random.default_rng(i), np.eye(2))[0] for i in range(2000)])
    angle = np.arctan2(rows[:, 1], rows[:, 0]) / np.pi  # uniform between −3/4 and 1/4
    assert np.quantile(angle, [0.25, 0.5, 0.75]) == pytest.approx([-0.5, -0.25, 0], abs=0.04)


def test_no_general_head_exists_for_a_token_inside_the_others():
    E = np.array([[1.0, 0], [-1, 1], [-1, -1], [0, 0.1]])  # the last is a mixture of the others
    with pytest.raises(AssumptionError, match="left out:\n  token 3\n"):
        general_head(np.random.default_rng(0), E)


def test_unit_embeddings():
    E = unit_embeddings(np.random.default_rng(0), 6, 8)
    assert E.shape == (6, 8)
    np.testing.assert_allclose(np.linalg.norm(E, axis=1), 1, rtol=1e-15)
    assert np.linalg.matrix_rank(E) == 6
    assert np.abs(E @ E.T - np.eye(6)).max() > 0.1  # but not orthogonal
    assert unit_embeddings(np.random.default_rng(0), 6, 2).shape == (6, 2)


@pytest.mark.parametrize("d", [6, 8])
def test_orthonormal_embeddings(d):
    E = orthonormal_embeddings(np.random.default_rng(0), 6, d)
    assert E.shape == (6, d)
    # Householder QR is orthogonal to a few units of rounding (2e-16).
    np.testing.assert_allclose(E @ E.T, np.eye(6), atol=1e-14)


def test_orthonormal_embeddings_have_no_preferred_sign():
    rng = np.random.default_rng(0)
    positive = sum(orthonormal_embeddings(rng, 2, 3)[0, 0] > 0 for _ in range(200))
    assert 60 < positive < 140  # ±5.6 standard deviations of a fair coin


# Refusals


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda rng: draw_samples(rng, 0, -1, 0),
            "Sizes must be at least 1:\n  K = 0\n  n = -1\n  T = 0\nAsk for more.",
        ),
        (
            lambda rng: draw_samples(rng, 3, 5, 4),
            "contexts of 4 different tokens need K >= 4, not 3; allow repeats=True.",
        ),
        (
            lambda rng: draw_samples(rng, 3, 5, 2, kind="cylic"),
            "kind 'cylic' is not one of general, acyclic, cyclic, fully-cyclic.",
        ),
        (
            lambda rng: draw_samples(rng, 3, 5, 2, lasts=4),
            "lasts must be between 1 and K = 3, not 4.",
        ),
        (
            lambda rng: draw_samples(rng, 3, 5, 2, lasts=0),
            "lasts must be between 1 and K = 3, not 0.",
        ),
        (
            lambda rng: planted_samples(rng, 3, 5, 4, 2),
            "contexts of 4 different tokens need K >= 4, not 3; allow repeats=True.",
        ),
        (
            lambda rng: planted_samples(rng, 3, 5, 2, 4),
            "levels must be between 1 and K = 3, not 4.",
        ),
        (
            lambda rng: planted_samples(rng, 3, 5, 2, 0),
            "levels must be between 1 and K = 3, not 0.",
        ),
        (
            lambda rng: unit_embeddings(rng, 3, 0),
            "Sizes must be at least 1:\n  d = 0\nAsk for more.",
        ),
        (
            lambda rng: orthonormal_embeddings(rng, 4, 3),
            "4 orthonormal embeddings need d >= 4 dimensions, not 3.",
        ),
    ],
)
def test_sizes_that_cannot_be(call, message):
    with pytest.raises(UsageError) as caught:
        call(np.random.default_rng(0))
    assert str(caught.value) == message
