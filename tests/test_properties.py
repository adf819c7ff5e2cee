"""Invariants of the theory rooms, on data drawn and shrunk by Hypothesis."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests import oracle

from attomaton.mechanics.automaton import Automaton
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.finite import FiniteSubspace
from attomaton.mechanics.graph import build_graph
from attomaton.mechanics.limit import Limit, solve_limit

examples = settings(max_examples=60)

# Two runs of the solvers on one problem written differently: each is within 5e-7 of the optimum where
# a constraint is met without being needed, and far closer elsewhere.
SAME = 1e-6


@st.composite
def data(draw, weighted: bool = True) -> oracle.Raw:
    """Up to 12 samples over up to 6 tokens, repeats and weights included."""
    K = draw(st.integers(2, 6))
    token = st.integers(0, K - 1)
    rows, labels, weights = [], [], []
    for _ in range(draw(st.integers(1, 12))):
        row = draw(st.lists(token, min_size=1, max_size=5))
        rows.append(tuple(row))
        labels.append(draw(st.sampled_from(row)))
        weights.append(float(draw(st.sampled_from([1, 2, 5, 0.5]) if weighted else st.just(1))))
    return oracle.Raw(K, tuple(rows), tuple(labels), tuple(weights))


seeds = st.integers(0, 2**32 - 1)


def solved(raw: oracle.Raw, E: np.ndarray | None = None) -> Limit:
    return solve_limit(raw.samples(), None if E is None else check_embeddings(E))


def table(limit: Limit, value: np.ndarray) -> np.ndarray:
    """Values on pairs as a matrix [last, token], 0 where a pair does not occur."""
    K = len(limit.graph.vocabulary)
    full = np.zeros((K, K))
    full[limit.graph.pair_last, limit.graph.pair_token] = value
    return full


def embeddings(seed: int, K: int) -> np.ndarray:
    """Random unit vectors, not too close to dependent: tolerances below are for condition ≤ 30."""
    rng = np.random.default_rng(seed)
    while True:
        E = oracle.unit_rows(rng, K, K + 1)
        if np.linalg.cond(E) < 30:
            return E


def pick(raw: oracle.Raw, order) -> oracle.Raw:
    """The samples with these indices, in this order."""
    return oracle.Raw(
        raw.K,
        tuple(raw.rows[i] for i in order),
        tuple(raw.labels[i] for i in order),
        tuple(raw.weights[i] for i in order),
    )


@given(data(), seeds)
@examples
def test_relabelling_renames_the_graph(raw, seed):
    new = np.random.default_rng(seed).permutation(raw.K)
    a, b = build_graph(raw.samples()), build_graph(raw.relabelled(new).samples())
    for q in range(raw.K):
        for i in range(raw.K):
            for j in range(raw.K):
                renamed = (int(new[q]), int(new[i]), int(new[j]))
                assert a.tied(q, i, j) == b.tied(*renamed)
                assert a.outranks(q, i, j) == b.outranks(*renamed)


@given(data(), seeds)
@examples
def test_relabelling_permutes_the_scores(raw, seed):
    new = np.random.default_rng(seed).permutation(raw.K)
    a, b = solved(raw), solved(raw.relabelled(new))
    at = np.ix_(new, new)
    assert np.abs(table(b, b.svm.score)[at] - table(a, a.svm.score)).max() < SAME
    assert np.abs(table(b, b.finite.log_pi)[at] - table(a, a.finite.log_pi)).max() < 1e-9
    assert b.finite.loss_floor == pytest.approx(a.finite.loss_floor, abs=1e-12)


@given(data(), seeds)
@examples
def test_the_order_of_samples_does_not_matter(raw, seed):
    a, b = solved(raw), solved(pick(raw, np.random.default_rng(seed).permutation(len(raw.rows))))
    np.testing.assert_array_equal(a.svm.score, b.svm.score)  # same edges, same program
    np.testing.assert_allclose(a.finite.log_pi, b.finite.log_pi, rtol=0, atol=1e-9)


@given(data(), seeds)
@examples
def test_the_order_inside_a_context_does_not_matter(raw, seed):
    """All but the last token: a context is a bag."""
    rng = np.random.default_rng(seed)
    rows = tuple((*(int(x) for x in rng.permutation(row[:-1])), row[-1]) for row in raw.rows)
    a, b = solved(raw), solved(oracle.Raw(raw.K, rows, raw.labels, raw.weights))
    np.testing.assert_array_equal(a.svm.score, b.svm.score)
    np.testing.assert_array_equal(a.finite.log_pi, b.finite.log_pi)


@given(data(weighted=False), st.data())
@examples
def test_a_repeated_sample_is_a_weight(raw, draw):
    times = [draw.draw(st.integers(1, 4)) for _ in raw.rows]
    repeated = pick(raw, [i for i, k in enumerate(times) for _ in range(k)])
    weighted = oracle.Raw(raw.K, raw.rows, raw.labels, tuple(map(float, times)))
    a, b = solved(repeated), solved(weighted)
    np.testing.assert_array_equal(a.samples.weight, b.samples.weight)
    np.testing.assert_array_equal(a.finite.log_pi, b.finite.log_pi)
    np.testing.assert_array_equal(a.graph.edge_weight, b.graph.edge_weight)
    assert a.finite.loss_floor == b.finite.loss_floor


@given(data(), st.floats(0.05, 0.95))
@examples
def test_splitting_a_weight_changes_nothing(raw, share):
    split = oracle.Raw(
        raw.K,
        raw.rows * 2,
        raw.labels * 2,
        (*(share * w for w in raw.weights), *((1 - share) * w for w in raw.weights)),
    )
    a, b = solved(raw), solved(split)
    np.testing.assert_allclose(a.finite.log_pi, b.finite.log_pi, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(a.svm.score, b.svm.score)


@given(data(), st.floats(1e-3, 1e3))
@examples
def test_only_ratios_of_weights_count(raw, factor):
    scaled = oracle.Raw(raw.K, raw.rows, raw.labels, tuple(factor * w for w in raw.weights))
    a, b = solved(raw), solved(scaled)
    np.testing.assert_allclose(a.finite.log_pi, b.finite.log_pi, rtol=0, atol=1e-9)
    assert a.finite.loss_floor == pytest.approx(b.finite.loss_floor, rel=1e-9, abs=1e-12)


@given(data(), seeds)
@examples
def test_the_two_parts_are_orthogonal(raw, seed):
    """W_svm ⟂ S_fin, and W_fin lies inside: ⟨W_svm, W_fin⟩ = 0."""
    E = embeddings(seed, raw.K)
    limit = solved(raw, E)
    W, F = limit.dense(limit.svm.coefficient), limit.dense(limit.finite.coefficient)
    space = FiniteSubspace(limit.graph, check_embeddings(E))
    scale = max(1.0, limit.svm.norm)
    assert np.abs(space.project(W)).max() < 1e-9 * scale
    assert abs(np.vdot(W, F)) < 1e-9 * scale * max(1.0, limit.finite.norm)
    np.testing.assert_allclose(space.project(F), F, rtol=0, atol=1e-8 * max(1.0, limit.finite.norm))


@given(data())
@examples
def test_levels_rise_along_the_condensation(raw):
    graph = build_graph(raw.samples())
    a, b = graph.dag
    assert (graph.level[a] < graph.level[b]).all()
    # Every component below the top is exactly one below something.
    lowest = np.full(len(graph.level), -1)
    np.maximum.at(lowest, b, graph.level[a])
    np.testing.assert_array_equal(graph.level, lowest + 1)


@given(data())
@examples
def test_margins(raw):
    """0 between tied tokens, 1 or more where one outranks the other, along paths as along edges."""
    limit = solved(raw)
    S = table(limit, limit.svm.score)
    for q, part in oracle.components(raw).items():
        arrows = set(oracle.edges(raw)[q])
        for i in part:
            for j in oracle.reachable(i, arrows):
                if part[i] == part[j]:
                    assert abs(S[q, i] - S[q, j]) < 1e-9
                else:
                    assert S[q, i] - S[q, j] > 1 - 1e-9
                    assert not S[q, j] - S[q, i] > 1 - 1e-9  # control: not the other way round


@given(data(), seeds, st.floats(0.1, 20))
@examples
def test_no_matrix_beats_the_loss_floor(raw, seed, size):
    """L* ≤ L(S) for any scores S, the loss taken position by position as attention computes it."""
    limit = solved(raw)
    S = size * np.random.default_rng(seed).standard_normal((raw.K, raw.K))
    floor = limit.finite.loss_floor
    assert oracle.loss(raw, S) >= floor - 1e-12
    # Also not from nearby, where it is tight.
    near = table(limit, limit.finite.score) + 40 * table(limit, limit.svm.score)
    assert oracle.loss(raw, near) == pytest.approx(floor, abs=1e-9)
    assert oracle.loss(raw, near + 0.01 * S) >= floor - 1e-12


@given(data(), st.floats(0, 50) | st.just(np.inf))
@examples
def test_probabilities_sum_to_one(raw, radius):
    automaton = Automaton(solved(raw))
    for row in raw.rows:
        p = automaton.predict_proba(row, radius)
        assert list(p) == list(dict.fromkeys(row))
        assert sum(p.values()) == pytest.approx(1, abs=1e-13)
        assert min(p.values()) >= 0


@given(data())
@examples
def test_every_label_of_the_data_is_possible(raw):
    """The label's component outranks the rest of its context, so the limit never rules it out."""
    automaton = Automaton(solved(raw))
    for row, y, _ in raw:
        assert automaton.predict_proba(row)[y] > 0


@given(data())
@examples
def test_one_last_token_at_a_time(raw):
    """With orthonormal embeddings the graphs of different last tokens know nothing of each other."""
    whole = solved(raw)
    svm, soft = table(whole, whole.svm.score), table(whole, whole.finite.log_pi)
    floor = 0.0
    for q in sorted({row[-1] for row in raw.rows}):
        mine = [i for i, row in enumerate(raw.rows) if row[-1] == q]
        part = solved(pick(raw, mine))
        assert np.abs(table(part, part.svm.score)[q] - svm[q]).max() < SAME
        assert np.abs(table(part, part.finite.log_pi)[q] - soft[q]).max() < 1e-9
        floor += part.finite.loss_floor * sum(raw.weights[i] for i in mine)
    assert whole.finite.loss_floor == pytest.approx(floor / sum(raw.weights), abs=1e-12)


@given(data(), seeds)
@examples
def test_rotated_embeddings_give_the_same_scores(raw, seed):
    E = embeddings(seed, raw.K)
    d = E.shape[1]
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]
    a, b = solved(raw, E), solved(raw, E @ Q)
    scale = max(1.0, a.svm.norm)
    assert np.abs(a.svm.score - b.svm.score).max() < SAME * scale
    np.testing.assert_allclose(a.finite.log_pi, b.finite.log_pi, rtol=0, atol=1e-12)


@given(data(), seeds)
@examples
def test_embeddings_move_neither_graph_nor_odds(raw, seed):
    """The graph, π and L* are facts of the data; only how W writes them down depends on E."""
    a, b = solved(raw), solved(raw, embeddings(seed, raw.K))
    np.testing.assert_array_equal(a.graph.component, b.graph.component)
    np.testing.assert_array_equal(a.finite.log_pi, b.finite.log_pi)
    assert a.finite.loss_floor == b.finite.loss_floor
    for row in raw.rows:
        p, q = Automaton(a).predict_proba(row), Automaton(b).predict_proba(row)
        assert p == pytest.approx(q, abs=1e-7)


@given(data())
@examples
def test_more_samples_never_break_a_tie_nor_a_path(raw):
    few, all_of_it = pick(raw, range((len(raw.rows) + 1) // 2)), build_graph(raw.samples())
    graph = build_graph(few.samples())
    for q in range(raw.K):
        for i in range(raw.K):
            for j in range(raw.K):
                assert not graph.tied(q, i, j) or all_of_it.tied(q, i, j)
                assert graph.path(q, i, j) is None or all_of_it.path(q, i, j) is not None


@given(data())
@examples
def test_the_direction_is_no_longer_than_it_need_be(raw):
    """Scores from levels also meet every margin, so they cannot be shorter."""
    limit = solved(raw)
    level = limit.graph.level[limit.graph.component].astype(float)
    for q in limit.graph.last_tokens:
        part = limit.graph.pairs_of(int(q))
        level[part] -= level[part].mean()
    assert limit.svm.norm <= np.linalg.norm(level) + 1e-9


@given(data(weighted=False))
@examples
def test_one_bag_gives_frequencies(raw):
    """All samples with the same bag and all tokens winning: m π is proportional to the wins."""
    row = raw.rows[0]
    wins = Counter(row) + Counter(y for y in raw.labels if y in row)
    assume(len(wins) > 1)
    same = oracle.Raw(raw.K, (row,) * len(wins), tuple(wins), tuple(map(float, wins.values())))
    limit = solved(same)
    p = Automaton(limit).predict_proba(row)
    total = sum(wins.values())
    assert p == pytest.approx({x: wins[x] / total for x in p}, abs=1e-9)
