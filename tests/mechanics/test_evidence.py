"""What orders rest on: groups, counts, the bound of 0 of n, and contexts judged as one search after the other would."""

from dataclasses import replace

import numpy as np
import pytest
from tests.mechanics.test_information import drawn

from attomaton.corpus.given import as_windows
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.mechanics.theory import evidence
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.resampling import resampling


def test_the_bound_is_exact_and_the_rule_of_three():
    for n in (1, 2, 50, 1000):
        assert (1 - evidence.contrary_bound(n)) ** n == pytest.approx(0.05)
    assert 1000 * evidence.contrary_bound(1000) == pytest.approx(3, abs=0.01)


def test_groups_are_those_seen_together_among_tokens_that_came_next():
    rows = ["ab", "ba", "cd", "dc", "ae"]
    samples = samples_from_sequences([[*row, "q"] for row in rows], [row[0] for row in rows])
    graph = build_graph(samples)
    word = [graph.vocabulary[x] for x in graph.pair_token]
    group = dict(zip(word, evidence.seen_together(graph, samples).tolist(), strict=True))
    # e and the last token never came next: through them nothing is compared.
    assert group == {"a": 0, "b": 0, "c": 1, "d": 1, "e": -1, "q": -1}
    linked = samples_from_sequences(
        [[*row, "q"] for row in [*rows, "bc"]], [r[0] for r in [*rows, "bc"]]
    )
    assert set(evidence.seen_together(build_graph(linked), linked)) == {0, -1}


def test_groups_number_from_zero_after_every_last_token():
    rows = [("ab", "q"), ("cd", "q"), ("ab", "r"), ("cd", "r"), ("ef", "r")]
    samples = samples_from_sequences([[*row, q] for row, q in rows], [row[0] for row, _ in rows])
    graph = build_graph(samples)
    group = evidence.seen_together(graph, samples)
    for q, groups in (("q", 2), ("r", 3)):
        part = graph.pairs_of(graph.vocabulary.id_of(q))
        assert sorted(set(group[part].tolist())) == [-1, *range(groups)]


def test_rows_and_sequences_of_an_edge_by_hand():
    logs = [list("abaqa"), list("abaqa"), list("baqb")]
    windows = as_windows(logs, context=3)
    samples = windows.samples()
    graph = build_graph(samples)
    id_of = graph.vocabulary.id_of
    q, a, b = (id_of(x) for x in "qab")
    edge = np.flatnonzero(
        (graph.edge_from == graph.pair(q, a)) & (graph.edge_to == graph.pair(q, b))
    )
    assert evidence.edge_rows(graph, samples)[edge].tolist() == [2]
    assert resampling(windows).support[edge].tolist() == [2]
    heavy = samples_from_sequences([["a", "q"]] * 3, ["a"] * 3, [0.5, 2.5, 4.0])
    assert evidence.edge_rows(build_graph(heavy), heavy).tolist() == [3]


@pytest.mark.parametrize("seed", range(4))
def test_orders_that_rest_on_one_row_have_no_other_path(seed):
    samples = samples_from_sequences(*drawn(8, K=9, seed=seed, size=3))
    graph = build_graph(samples)
    rows = evidence.edge_rows(graph, samples)
    found = set(evidence.resting_on_one(graph, rows).tolist())
    last = graph.vocabulary.id_of(9)
    both = set()
    for e in range(len(graph.edge_from)):
        i, j = graph.pair_token[[graph.edge_from[e], graph.edge_to[e]]].tolist()
        names = ("edge_from", "edge_to", "edge_weight")
        without = replace(graph, **{x: np.delete(getattr(graph, x), e) for x in names})
        around = without.paths(last, [i], [j], ties=True)[0] is not None
        expected = rows[e] == 1 and not graph.tied(last, i, j) and not around
        assert (e in found) == expected
        both.add(expected)
    assert both == {True, False}


@pytest.mark.parametrize("seed", range(3))
def test_contexts_are_judged_as_one_search_after_the_other_would(seed):
    rows, labels = drawn(9, K=12, seed=seed, size=3)
    samples = samples_from_sequences(rows, labels, vocabulary=Vocabulary(range(13)))
    graph = build_graph(samples)
    rng = np.random.default_rng(seed)
    contexts = [sorted({*rng.choice(13, 3).tolist(), 12}) for _ in range(200)]
    start = np.cumsum([0, *map(len, contexts)])
    token = np.concatenate(contexts)
    judged = evidence.judge(graph, np.full(200, 12), start, token)
    for n, context in enumerate(contexts):
        if any(graph.pair(12, x) is None for x in context):
            expected = "unseen"
        else:
            beats = [
                all(graph.tied(12, i, j) or graph.outranks(12, i, j) for j in context)
                for i in context
            ]
            expected = "determined" if any(beats) else "undetermined"
        assert evidence.VERDICTS[judged.verdict[n]] == expected
        if expected == "undetermined":
            top, rival = judged.top[n], judged.rival[n]
            i, j = (int(graph.pair_token[graph.component == c][0]) for c in (top, rival))
            assert not graph.outranks(12, i, j)
            assert not graph.outranks(12, j, i)
    assert len(set(judged.verdict)) == 3  # all three occur
