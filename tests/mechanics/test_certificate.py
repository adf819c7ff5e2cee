"""The certificate of the Graph-SVM must see every way in which an answer can be wrong."""

import numpy as np
import pytest

from attomaton.corpus.windows import samples_from_sequences
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.svm import certify, graph_svm


@pytest.fixture(scope="module")
def mixed():
    """Tokens 0 and 1 tied, above 2 and 3: scores ½, ½, −½, −½ and a multiplier of ½ on both edges."""
    samples = samples_from_sequences([[0, 1, 2, 3], [0, 1, 3]], [0, 1])
    graph = build_graph(samples)
    return graph, samples, graph_svm(graph, samples)


def judged(mixed, score=0.0, multiplier=0.0):
    graph, samples, svm = mixed
    wrong = svm.score + score
    return certify(graph, samples, wrong, wrong, svm.multiplier + multiplier)


def test_the_right_answer_has_no_residual(mixed):
    assert judged(mixed).worst < 1e-12


def test_a_broken_tie_is_a_primal_residual(mixed):
    """Moved apart by 0.2, sum kept: margins stay above 1 and stationarity holds, only the tie is wrong."""
    graph, samples, svm = mixed
    moved = svm.score + np.array([0.1, -0.1, 0.0, 0.0]) + np.array([0.0, 0.0, -0.1, -0.1])
    assert certify(graph, samples, moved, moved, svm.multiplier).primal == pytest.approx(0.2)


def test_a_margin_too_small_is_a_primal_residual(mixed):
    assert judged(mixed, score=np.array([-0.3, -0.3, 0.0, 0.0])).primal == pytest.approx(0.3)


def test_wrong_multipliers_are_dual_residuals_and_a_gap(mixed):
    found = judged(mixed, multiplier=np.array([0.1, 0.0]))
    assert found.dual == pytest.approx(0.1 / 1.1)  # of what leaves the tied tokens: 0.6 and 0.5
    assert found.gap == pytest.approx(0.1)
    negative = judged(mixed, multiplier=np.array([-0.6, 0.0]))
    assert negative.dual >= 0.1


def test_many_small_multipliers_are_judged_by_what_they_add_up_to():
    """One token above n others: its score is n/(n + 1), which n multipliers of 1/(n + 1) add up to."""
    n = 2000
    rows = np.arange(1, n).reshape(-1, 1).tolist()
    samples = samples_from_sequences([[0, *row, n] for row in rows], [0] * (n - 1))
    graph = build_graph(samples)
    svm = graph_svm(graph, samples)
    assert svm.score[0] == pytest.approx(n / (n + 1), abs=1e-12)
    assert svm.multiplier == pytest.approx(np.full(n, 1 / (n + 1)), abs=1e-12)
    off = svm.score.copy()
    off[0] += 1e-9
    assert certify(graph, samples, off, off, svm.multiplier).dual == pytest.approx(1e-9, rel=0.01)
