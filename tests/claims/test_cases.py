"""What theorems assume of data, looked at; and which part of a user's data is looked at."""

import numpy as np
import pytest

from attomaton.claims import cases, convexity, gradient_descent, loss_floor, luce_identity
from attomaton.claims.cases import (
    REALIZABLE,
    Case,
    Given,
    assumptions,
    judged,
    refuted,
    step_size,
)
from attomaton.claims.controls import doubted
from attomaton.claims.picture import bundle, line
from attomaton.corpus.windows import samples_from_sequences
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.numerics import named_rng
from attomaton.results import Assumption, Verdict

FOUND = Assumption(REALIZABLE, True, "all")


def given(contexts, labels):
    return Given(samples_from_sequences(contexts, labels), FOUND)


def test_cases_are_last_tokens_with_something_to_learn_heaviest_first(monkeypatch):
    rows = [["a", "b"]] * 3 + [["a", "c"]] * 2 + [["d"]] * 9
    data = given(rows, ["a", "a", "b", "a", "c", *["d"] * 9])
    words = data.samples.vocabulary
    assert [words[c.samples.last[0]] for c in data.cases] == ["b", "c"]
    assert "2 of 3 last tokens" in data.looked_at.found
    monkeypatch.setattr(cases, "CASES", 1)
    fewer = given(rows, ["a", "a", "b", "a", "c", *["d"] * 9])
    assert [words[c.samples.last[0]] for c in fewer.cases] == ["b"]


def test_a_case_that_is_too_large_gives_way_and_the_smallest_is_always_there(monkeypatch):
    rows = [["a", "b", "c", "x"], ["a", "b", "d", "x"], ["a", "y"]]
    data = given(rows, ["a", "b", "a"])
    monkeypatch.setattr(cases, "CELLS", 4)
    assert [len(c.samples.vocabulary) for c in data.cases] == [6]
    assert [c.samples.vocabulary[c.samples.last[0]] for c in data.cases] == ["y"]
    monkeypatch.setattr(cases, "CELLS", 1)
    smallest = given(rows, ["a", "b", "a"]).cases
    assert [c.samples.vocabulary[c.samples.last[0]] for c in smallest] == ["y"]


def test_assumptions_are_measured():
    samples = samples_from_sequences([[0, 1]] * 2, [0, 1])
    E = check_embeddings([[1.0, 0.0], [1.0, 1e-3]])
    a1, a2 = assumptions([Case(samples, E)])
    assert a1.holds
    assert "2 of 2" in a1.found
    assert "0.0005" in a2.found
    # Two unit vectors at a right angle: β ≤ ‖e_i − e_j‖²/4 = ½, so the step must stay below 4.
    orthonormal = [Case(samples)]
    assert step_size(orthonormal, 3.9).holds
    assert not step_size(orthonormal, 4.1).holds


def test_the_step_bound_is_true_of_the_curvature():
    """No random direction has more curvature than the bound says."""
    rng = named_rng("smooth", 0)
    case = gradient_descent._draws(1)[0]
    bound = float(step_size([case], 1.0).found.rpartition("= ")[2].rstrip(")"))
    for _ in range(50):
        W, V = rng.normal(size=(2, 8, 8))
        assert convexity._curvature(case, W, V / np.linalg.norm(V), 0.0) <= bound * 1.01


def test_verdicts():
    data = given([["a", "b"]] * 2, ["a", "b"])
    assert judged(True) is Verdict.HOLDS
    assert judged(False, None, settling=True) is Verdict.FAILS
    assert judged(False, data, settling=True) is Verdict.INCONCLUSIVE
    assert judged(False, data) is Verdict.FAILS
    assert refuted([True, True]) is Verdict.FAILS
    assert refuted([True, False]) is Verdict.HOLDS
    assert refuted([True, False], data) is Verdict.FAILS
    assert refuted([]) is Verdict.HOLDS


def test_doubted_labels_keep_contexts_and_weight():
    samples = samples_from_sequences([[0, 1, 2], [0, 1]], [0, 1], [3.0, 1.0])
    other = doubted(samples, named_rng("doubt", 0))
    assert other.total_weight == samples.total_weight
    assert len(other) == 4
    assert set(other.weight.tolist()) == {1.5, 0.5}


def test_lines_are_thinned_to_their_ends():
    thin = line(np.arange(1000), np.arange(1000))
    assert len(thin.x) == 200
    assert (thin.x[0], thin.x[-1]) == (0.0, 999.0)
    curves = bundle([1, 2], np.array([[1.0, np.nan], [np.nan, np.nan], [1.0, 2.0]]), "all")
    assert [c.x for c in curves] == [[1.0], [1.0, 2.0]]
    assert [c.label for c in curves] == ["all", None]


@pytest.mark.parametrize("claim", [convexity, loss_floor, luce_identity], ids=lambda m: m.__name__)
def test_the_claim_holds_and_its_control_fails(claim):
    evidence = claim.check(problems=2)
    assert evidence.verdict is Verdict.HOLDS, evidence.measured
    assert evidence.control is Verdict.FAILS, evidence.control_measured
    assert all(a.holds for a in evidence.assumptions)
    styles = {x.style for p in evidence.panels for x in p.lines}
    assert "theory" in styles
    assert styles & {"measured", "points"}


def test_a_floor_that_is_too_high_or_too_low_is_found_out(monkeypatch):
    for shift in (1e-3, -1e-3):

        def wrong(samples, embeddings=None, shift=shift):
            from dataclasses import replace

            limit = solve_limit(samples, embeddings)
            floor = limit.finite.loss_floor + shift
            return replace(limit, finite=replace(limit.finite, loss_floor=floor))

        monkeypatch.setattr(cases, "solve_limit", wrong)
        assert loss_floor.check(problems=1, drawn=50, steps=2000).verdict is Verdict.FAILS


def test_the_plain_layer_by_hand():
    """Attention of 2 : 1 over [0, 0, 1] at W = 0, whatever the embeddings."""
    samples = samples_from_sequences([[0, 0, 1]], [0])
    case = Case(samples, check_embeddings([[2.0, 0.0], [1.0, 1.0]]))
    both = luce_identity._at(case, np.zeros((2, 2)), repeats=True)
    assert both.p == pytest.approx([2 / 3])
    assert both.luce == pytest.approx([2 / 3])
    assert both.blind == pytest.approx([1 / 2])
