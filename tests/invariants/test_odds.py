"""π and L*, what training mixes and how low the loss can go: maximum likelihood, by definition and by symmetry."""

from collections import Counter
from dataclasses import replace
from math import exp

import numpy as np
import pytest
from hypothesis import strategies as st
from tests import oracle
from tests.invariants.harness import holds_for, refuted
from tests.invariants.strategies import (
    checked,
    data,
    embeddings,
    pick,
    priorities,
    seeds,
    shuffled,
    solved,
    table,
    with_weights,
)

from attomaton.corpus import samples as samples_room
from attomaton.mechanics.theory import finite as room
from attomaton.mechanics.theory.graph import build_graph

# A gradient of 1e-12, the fit's stopping point, leaves about as much error times the ratio of the weights
# in log π; draws have ratios of some hundreds.
SAME = 1e-9


def fitted(raw, E=None):
    """Graph and finite part of a data set, nothing else solved."""
    samples = raw.samples()
    graph = build_graph(samples)
    return graph, room.finite_component(graph, samples, checked(E))


def odds(raw):
    """log π as a matrix [last, token], and L*."""
    graph, finite = fitted(raw)
    return table(graph, finite.log_pi), finite.loss_floor


def as_scores(log_pi):
    return {(q, x): float(v) for (q, x), v in np.ndenumerate(log_pi)}


@holds_for(data(lasts=2))
def test_expected_wins_are_observed_wins(raw):
    """The stationarity of the likelihood, sample by sample: convexity makes it the maximum."""
    log_pi, _ = odds(raw)
    excess = Counter()
    for q, counts, y, w in oracle.cyclic_part(raw):
        mass = {x: m * exp(log_pi[q, x]) for x, m in counts.items()}
        for x in counts:
            excess[q, x] += w * (mass[x] / sum(mass.values()) - (x == y))
    assert max(map(abs, excess.values()), default=0) < 1e-9 * sum(raw.weights)


@holds_for(data(lasts=2), seeds, st.floats(1e-3, 10))
def test_no_other_odds_fit_better(raw, seed, size):
    log_pi, floor = odds(raw)
    assert oracle.cyclic_loss(raw, as_scores(log_pi)) == pytest.approx(floor, abs=1e-12)
    moved = log_pi + size * np.random.default_rng(seed).standard_normal(log_pi.shape)
    assert oracle.cyclic_loss(raw, as_scores(moved)) >= floor - 1e-12


@holds_for(data(lasts=2), share=0.5)
def test_log_odds_are_centred_on_each_component_and_0_off_them(raw):
    log_pi, _ = odds(raw)
    tied, _ = priorities(raw)
    for q in range(raw.K):
        for i in range(raw.K):
            mates = np.flatnonzero(tied[q, i])
            assert abs(log_pi[q, i] + log_pi[q, mates].sum()) < 1e-9
            assert len(mates) or log_pi[q, i] == 0


@holds_for(data(), seeds, share=0.25)
def test_relabelling_permutes_the_odds(raw, seed):
    new = shuffled(seed, raw.K)
    (a, floor), (b, same_floor) = odds(raw), odds(raw.relabelled(new))
    assert np.abs(b[np.ix_(new, new)] - a).max() < SAME
    assert same_floor == pytest.approx(floor, abs=1e-12)


@holds_for(data(), seeds, share=0.25)
def test_the_order_of_samples_leaves_the_odds_alone(raw, seed):
    (a, floor), (b, same_floor) = odds(raw), odds(pick(raw, shuffled(seed, len(raw.rows))))
    assert np.abs(a - b).max() < SAME
    assert same_floor == pytest.approx(floor, abs=1e-12)


@holds_for(data(), seeds, share=0.25)
def test_a_context_is_a_bag(raw, seed):
    """All but the last token in any order: the same samples, to the last bit."""
    rng = np.random.default_rng(seed)
    rows = tuple((*map(int, rng.permutation(row[:-1])), row[-1]) for row in raw.rows)
    (a, floor), (b, same_floor) = odds(raw), odds(oracle.Raw(raw.K, rows, raw.labels, raw.weights))
    np.testing.assert_array_equal(a, b)
    assert floor == same_floor


@holds_for(data(weighted=False), st.lists(st.integers(1, 4), min_size=10, max_size=10), share=0.5)
def test_a_repeated_sample_is_a_weight(raw, times):
    times = times[: len(raw.rows)]
    repeated = pick(raw, [i for i, k in enumerate(times) for _ in range(k)])
    (graph, a), (same, b) = fitted(repeated), fitted(with_weights(raw, times))
    np.testing.assert_array_equal(a.log_pi, b.log_pi)
    np.testing.assert_array_equal(graph.edge_weight, same.edge_weight)
    assert a.loss_floor == b.loss_floor


@holds_for(data(), st.floats(0.05, 0.95), share=0.25)
def test_splitting_a_weight_changes_nothing(raw, share):
    split = pick(raw, [*range(len(raw.rows)), *range(len(raw.rows))])
    halves = (*(share * w for w in raw.weights), *((1 - share) * w for w in raw.weights))
    (a, floor), (b, same_floor) = odds(raw), odds(with_weights(split, halves))
    assert np.abs(a - b).max() < SAME
    assert same_floor == pytest.approx(floor, abs=1e-12)


@holds_for(data(), st.floats(1e-3, 1e3), share=0.25)
def test_only_ratios_of_weights_count(raw, factor):
    scaled = with_weights(raw, [factor * w for w in raw.weights])
    (a, floor), (b, same_floor) = odds(raw), odds(scaled)
    assert np.abs(a - b).max() < SAME
    assert same_floor == pytest.approx(floor, rel=1e-9, abs=1e-12)


@holds_for(data(), share=0.25)
def test_last_tokens_know_nothing_of_each_other(raw):
    """Each alone has the odds it has among all, and n L* adds up: what a corpus in parts rests on."""
    whole, floor = odds(raw)
    total = 0.0
    for q in {row[-1] for row in raw.rows}:
        mine = pick(raw, [i for i, row in enumerate(raw.rows) if row[-1] == q])
        part, low = odds(mine)
        assert np.abs(part[q] - whole[q]).max() < 1e-12  # sums of more terms round otherwise
        total += low * sum(mine.weights)
    assert floor == pytest.approx(total / sum(raw.weights), abs=1e-12)


@holds_for(data(), seeds, st.floats(0.1, 20), share=0.25)
def test_no_matrix_beats_the_loss_floor(raw, seed, size):
    """L* ≤ L(S) for any scores S, the loss taken position by position as attention computes it."""
    limit = solved(raw)
    S = size * np.random.default_rng(seed).standard_normal((raw.K, raw.K))
    floor = limit.finite.loss_floor
    assert oracle.loss(raw, S) >= floor - 1e-12
    # Also not from nearby, where it is tight.
    soft, hard = (table(limit.graph, x) for x in (limit.finite.score, limit.svm.score))
    assert oracle.loss(raw, soft + 40 * hard + 0.01 * S) >= floor - 1e-12


@holds_for(data(), st.floats(0, 30), st.floats(0, 5), share=0.25)
def test_the_loss_falls_to_its_floor_along_the_direction(raw, c, more):
    """L(W_fin + c W_svm) never rises with c, and is within a·e^(−c) of L*."""
    limit = solved(raw)
    soft, hard = (table(limit.graph, x) for x in (limit.finite.score, limit.svm.score))
    floor = limit.finite.loss_floor
    here, there = (oracle.loss(raw, soft + k * hard) for k in (c, c + more))
    assert there <= here + 1e-12
    tied, _ = priorities(raw)
    a = 0.0  # the odds of what is outranked, at c = 0
    for row, y, w in raw:
        mates = {y, *np.flatnonzero(tied[row[-1], y])}
        mass = {x: row.count(x) * exp(soft[row[-1], x]) for x in row}
        a += (
            w
            * sum(m for x, m in mass.items() if x not in mates)
            / sum(m for x, m in mass.items() if x in mates)
        )
    # 1e-8: margins are met to 1e-9.
    assert -1e-12 <= here - floor <= a / sum(raw.weights) * exp(-c) * (1 + 1e-8 * c) + 1e-12


@holds_for(data(), seeds, share=0.25)
def test_the_finite_part_reads_the_odds_and_no_smaller_one_does(raw, seed):
    """(e_i − e_j)ᵀ W_fin e_k = log π_i/π_j, for any embeddings, and W_fin lies in S_fin."""
    E = embeddings(seed, raw.K)
    graph, finite = fitted(raw, E)
    W = E.T @ table(graph, finite.coefficient).T @ E
    S, log_pi = E @ W.T @ E.T, table(graph, finite.log_pi)
    tied, _ = priorities(raw)
    scale = max(1.0, np.linalg.norm(W))
    at = np.argwhere(tied)
    for q, i, j in at:
        assert abs(S[q, i] - S[q, j] - log_pi[q, i] + log_pi[q, j]) < 1e-8 * scale
    span = np.array([np.outer(E[i] - E[j], E[q]).ravel() for q, i, j in at])
    span = span.reshape(-1, W.size)
    inside = np.linalg.pinv(span) @ (span @ W.ravel())
    assert np.abs(inside - W.ravel()).max() < 1e-8 * scale


@holds_for(data(), seeds, share=0.25)
def test_embeddings_move_neither_odds_nor_floor(raw, seed):
    (graph, a), (same, b) = fitted(raw), fitted(raw, embeddings(seed, raw.K))
    np.testing.assert_array_equal(graph.component, same.component)
    np.testing.assert_array_equal(a.log_pi, b.log_pi)
    assert a.loss_floor == b.loss_floor


@holds_for(
    st.lists(st.integers(0, 5), min_size=2, max_size=6),
    st.lists(st.integers(1, 5), min_size=6, max_size=6),
    share=0.5,
)
def test_one_bag_gives_frequencies(row, wins):
    """All samples with one bag and every token winning: m π is proportional to the wins."""
    tokens = list(dict.fromkeys(row))
    wins = dict(zip(tokens, wins, strict=False))
    raw = oracle.Raw(
        6, (tuple(row),) * len(tokens), tuple(tokens), tuple(map(float, wins.values()))
    )
    log_pi, _ = odds(raw)
    share = {x: row.count(x) * exp(log_pi[row[-1], x]) for x in tokens}
    for x in tokens:
        assert share[x] / sum(share.values()) == pytest.approx(
            wins[x] / sum(wins.values()), abs=1e-9
        )


# Controls


def test_control_multiplicities_forgotten(monkeypatch):
    def blind(graph, samples, scale, honest=room.cyclic_choices):
        items, choices, kept = honest(graph, samples, scale)
        return items, replace(choices, log_count=0 * choices.log_count), kept

    monkeypatch.setattr(room, "cyclic_choices", blind)
    refuted(test_expected_wins_are_observed_wins)
    refuted(test_one_bag_gives_frequencies)
    test_relabelling_permutes_the_odds()  # a symmetry alone cannot see it


def test_control_odds_shrunk_towards_even(monkeypatch):
    """As a prior would do it: then there are better odds, and losses below the floor."""
    monkeypatch.setattr(room, "CERTIFIED", np.inf)
    honest = room.luce_fit

    def shrunk(choices):
        fit = honest(choices)
        return fit._replace(theta=0.5 * fit.theta)

    monkeypatch.setattr(room, "luce_fit", shrunk)
    refuted(test_no_other_odds_fit_better)
    refuted(test_no_matrix_beats_the_loss_floor)


def test_control_weights_read_as_numbers_of_rows(monkeypatch):
    def counted(s, honest=samples_room.merge_samples):
        merged = honest(s)
        return replace(merged, weight=merged.rows.astype(float))

    monkeypatch.setattr(samples_room, "merge_samples", counted)
    refuted(test_a_repeated_sample_is_a_weight)
    refuted(test_expected_wins_are_observed_wins)
