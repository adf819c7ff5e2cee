"""Data at the edge of float64: heavy and light weights, deep chains, long, short and nearly dependent embeddings."""

import json

import numpy as np
import pytest

from attomaton.corpus.readers import read_samples
from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import AssumptionError, DataError, SolverError
from attomaton.estimator import NextTokenClassifier
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.theory import limit as room
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.mechanics.theory.svm import certify, graph_svm

PAIR = [["a", "b"], ["a", "b"]]
MIXED = ([[0, 1, 2], [1, 2], [0, 1, 2], [0, 1, 2]], [0, 1, 1, 0])


# Weights


@pytest.mark.parametrize("weight", [1e308, 1e200, 1e-200, 1e-320])
@pytest.mark.parametrize("labels", [["a", "b"], ["a", "a"]])
def test_weights_whose_sums_overflow_are_refused_by_name(weight, labels):
    with pytest.raises(
        DataError, match=r"(?s)between 1e-150 and 1e\+150.*sample 1: weight"
    ) as told:
        samples_from_sequences(PAIR, labels, [1.0, weight])
    assert "sample 0" not in str(told.value)


def test_rows_of_a_file_are_refused_by_line(call, tmp_path):
    path = tmp_path / "heavy.jsonl"
    rows = [{"tokens": ["a", "b"], "next": x, "weight": w} for x, w in (("a", 1), ("b", 1e308))]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match=r"line 2: weight 1e\+308 is not between"):
        read_samples(path)
    code, _, told = call("fit", path, "-o", tmp_path / "model")
    assert code == 3
    assert "line 2" in told
    assert not (tmp_path / "model").exists()


def test_the_estimator_refuses_them_too():
    model = NextTokenClassifier()
    with pytest.raises(DataError, match="sample 0: weight"):
        model.fit(PAIR, ["a", "b"], sample_weight=[1e308, 1e308])
    model.fit(PAIR, ["a", "b"])
    with pytest.raises(DataError, match="sample 0: weight"):
        model.score(PAIR, ["a", "b"], sample_weight=[1e308, 1e308])


@pytest.mark.parametrize("scale", [1e-150, 1e149])
def test_only_ratios_of_weights_matter(scale):
    light, plain = (
        solve_limit(samples_from_sequences(PAIR, ["a", "b"], [3 * s, s])) for s in (scale, 1.0)
    )
    np.testing.assert_allclose(light.finite.log_pi, plain.finite.log_pi, rtol=0, atol=1e-12)
    assert light.finite.loss_floor == pytest.approx(plain.finite.loss_floor, rel=1e-12)


def test_a_number_that_is_none_is_an_error(monkeypatch):
    """Whatever stage made it: no summary, no model."""
    samples = samples_from_sequences(PAIR, ["a", "b"])
    honest = room.finite_component

    def broken(*arguments):
        from dataclasses import replace

        return replace(honest(*arguments), loss_floor=float("nan"))

    monkeypatch.setattr(room, "finite_component", broken)
    with pytest.raises(SolverError, match="beyond float64 in loss floor"):
        solve_limit(samples)


def test_a_nan_is_no_certificate():
    samples = samples_from_sequences(*MIXED)
    graph = build_graph(samples)
    svm = graph_svm(graph, samples)
    none = np.full_like(svm.score, np.nan)
    assert certify(graph, samples, none, none, svm.multiplier).worst == np.inf


# Chains


@pytest.mark.parametrize("depth", [9_000, 12_000])
def test_deep_chains_are_solved(depth):
    """Scores one apart, their mean 0; ‖W‖² = Σ u² in whole numbers."""
    rows = [[i, i + 1, depth] for i in range(depth - 1)] + [[depth - 1, depth]]
    samples = samples_from_sequences(rows, list(range(depth)))
    graph = build_graph(samples)
    svm = graph_svm(graph, samples)
    order = np.argsort([graph.vocabulary[x] for x in graph.pair_token])
    np.testing.assert_allclose(
        svm.score[order], depth / 2 - np.arange(depth + 1), rtol=0, atol=1e-9
    )
    assert svm.norm**2 == pytest.approx(depth * (depth + 1) * (depth + 2) / 12, rel=1e-12)
    assert svm.certificate.worst < 1e-12


def test_deep_chains_with_ties_and_branches():
    """The optimum is unique, and the certificate recomputed from the samples is a proof of it."""
    rng = np.random.default_rng(31)
    n = 3000
    above = [max(0, i - int(rng.integers(1, 3))) for i in range(1, n)]
    rows = [[p, i, n] for i, p in enumerate(above, 1)]
    labels = list(above)
    for i in range(0, n - 1, 5):
        rows.append([above[i], i + 1, n])
        labels.append(i + 1)
    samples = samples_from_sequences(rows, labels)
    graph = build_graph(samples)
    assert graph.level.max() > 1000
    assert graph.cyclic.any()
    assert graph_svm(graph, samples).certificate.worst < 1e-11


def test_what_is_not_certified_speaks_of_embeddings_only_where_there_are_some(monkeypatch):
    from attomaton.mechanics.theory import svm

    monkeypatch.setattr(svm, "CERTIFIED", -1.0)
    samples = samples_from_sequences(*MIXED)
    with pytest.raises(SolverError, match="priority graph has 2 levels") as told:
        solve_limit(samples)
    assert "mbeddings" not in str(told.value)
    with pytest.raises(SolverError, match="condition number"):
        solve_limit(samples, np.eye(3) + 0.1)


# Embeddings


def test_a_matrix_or_a_list_will_do():
    samples = samples_from_sequences(*MIXED)
    E = np.eye(3) + 0.1
    by_hand = solve_limit(samples, check_embeddings(E))
    for given in (E, E.tolist()):
        found = solve_limit(samples, given)
        np.testing.assert_array_equal(found.svm.coefficient, by_hand.svm.coefficient)
    with pytest.raises(DataError, match="2 rows for a vocabulary of 3"):
        solve_limit(samples, np.eye(2))
    for wrong in ("abc", [[1.0, 0.0], [1.0]], [["a"]], []):
        with pytest.raises(DataError, match="expected a matrix"):
            solve_limit(samples, wrong)
    assert (
        solve_limit(samples, np.ones((3, 3))).svm.norm == 0.0
    )  # tokens of one vector are all tied


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_lengths_beyond_float64_are_refused(scale):
    with pytest.raises(DataError, match=r"(?s)row 0: length 1e[+-]100.*Divide all rows"):
        check_embeddings(scale * np.eye(3))


@pytest.mark.parametrize("scale", [1e-45, 1e-8, 1e8, 1e45])
def test_scaled_embeddings_scale_the_answer(scale):
    """W is 1/s² times as large; scores, odds and the loss floor are the same."""
    samples = samples_from_sequences(*MIXED)
    E = np.eye(3) + 0.1
    plain, scaled = solve_limit(samples, E), solve_limit(samples, scale * E)
    np.testing.assert_allclose(scaled.svm.score, plain.svm.score, rtol=0, atol=1e-9)
    np.testing.assert_allclose(scaled.finite.score, plain.finite.score, rtol=0, atol=1e-9)
    for part in ("svm", "finite"):
        found, expected = getattr(scaled, part).norm, getattr(plain, part).norm / scale**2
        assert found == pytest.approx(expected, rel=1e-9)


def test_a_short_row_is_not_a_dependent_one():
    """Orthogonal rows of lengths 10⁻⁵ to 10⁵: solved; of 10⁻⁸ to 10⁸: refused for what they are."""
    samples = samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1])
    limit = solve_limit(samples, np.diag([1e5, 1.0, 1e-5]))
    assert limit.svm.certificate.worst <= 1e-8
    tied = samples_from_sequences(*MIXED)
    with pytest.raises((SolverError, AssumptionError), match=r"1\.0e-08 to 1\.0e\+08"):
        solve_limit(tied, np.diag([1e8, 1.0, 1e-8]))


def test_nearly_dependent_rows_are_an_assumption_that_fails():
    tied = samples_from_sequences([[0, 1], [0, 1]], [0, 1], [3.0, 1.0])
    E = [[1, 0], [1, 1e-9]]
    with pytest.raises(AssumptionError, match=r"(?s)condition number 2\.0e\+09.*better separated"):
        solve_limit(tied, E)
    ranked = samples_from_sequences([[0, 1], [1]], [0, 1])
    with pytest.raises((AssumptionError, SolverError), match=r"condition number 2\.0e\+09"):
        solve_limit(ranked, E)
