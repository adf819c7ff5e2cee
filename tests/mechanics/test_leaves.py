"""Leaves of a priority graph below the same tokens stand as one in the program, and come out as themselves."""

import numpy as np
import pytest

from attomaton.corpus.windows import samples_from_sequences
from attomaton.mechanics.synthetic import draw_samples
from attomaton.mechanics.theory import svm
from attomaton.mechanics.theory.graph import build_graph
from attomaton.numerics import named_rng


def test_only_leaves_below_the_same_tokens_are_merged():
    # After q: a beats x, y, z; b beats x, w; so y and z have one fate, x and w each their own.
    samples = samples_from_sequences(
        [list("axyzq"), list("bxwq"), list("axr")], ["a", "b", "a"], vocabulary=None
    )
    graph = build_graph(samples)
    node = svm._merge_leaves(graph)
    name = {}
    for p, c in enumerate(graph.component):
        last, token = (graph.vocabulary[i[p]] for i in (graph.pair_last, graph.pair_token))
        name[last + token] = node[c]
    assert name["qy"] == name["qz"]
    together = [x for x in name if list(name.values()).count(name[x]) > 1]
    # q itself is below a and b, as x is; after r both x and r are below a.
    assert sorted(together) == ["qq", "qx", "qy", "qz", "rr", "rx"]
    assert name["qq"] == name["qx"] != name["qy"]


@pytest.mark.parametrize("seed", range(20))
def test_the_merged_program_has_the_answer_of_the_whole_one(monkeypatch, seed):
    rng = named_rng("leaves", seed)
    samples = draw_samples(rng, 25, int(rng.integers(5, 80)), 6, repeats=True)
    graph = build_graph(samples)
    merged = svm.graph_svm(graph, samples)
    monkeypatch.setattr(svm, "_merge_leaves", lambda graph: np.arange(len(graph.level)))
    whole = svm.graph_svm(graph, samples)
    np.testing.assert_allclose(merged.score, whole.score, atol=1e-10)
    assert merged.certificate.worst < 1e-10
    assert merged.multiplier.sum() == pytest.approx(whole.multiplier.sum(), rel=1e-9)


def test_a_wrong_fingerprint_is_found_out_by_the_certificate(monkeypatch):
    """Control: merging leaves that are not alike breaks a margin, or pushes one too far; both show."""
    from attomaton.errors import SolverError

    samples = samples_from_sequences([list("abxq"), list("byq"), list("azq")], ["a", "b", "a"])
    graph = build_graph(samples)
    svm.graph_svm(graph, samples)
    monkeypatch.setattr(svm, "scramble", lambda a: np.ones(len(a), np.uint64))
    with pytest.raises(SolverError, match="no certified answer"):
        svm.graph_svm(graph, samples)
