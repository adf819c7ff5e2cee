"""Why tokens tie: dependencies of the data, taken again from the vectors, and what users read of them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize

from attomaton import (
    Automaton,
    NextTokenClassifier,
    Vocabulary,
    samples_from_sequences,
    solve_limit,
)
from attomaton.errors import AssumptionError
from attomaton.folders.model import save_model
from attomaton.mechanics.synthetic import draw_samples, unit_embeddings
from attomaton.mechanics.theory.dependency import EXACT, TieFinder
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.view import graph_view
from attomaton.numerics import named_rng
from attomaton.report.text.terminal import explanation_text, graph_text

WORDS = "abcdq"
FIVE = np.array(
    [[1, 0, 0], [0, 1, 0], [-0.5, 0.5, 0], [0.5, -0.5, 0], [0, 0, 1.0]]
)  # e_a + e_c = e_b + e_d, as in docs/any_embeddings.md


def limit_of(contexts, nexts, E, words, weights=None):
    samples = samples_from_sequences(
        [list(x) for x in contexts], list(nexts), weights=weights, vocabulary=Vocabulary(words)
    )
    return solve_limit(samples, E)


@pytest.fixture(scope="module")
def five():
    return limit_of(["abq", "cdq"], "ac", FIVE, WORDS, [3, 1])


def test_the_five_tokens_are_solved_by_hand(five):
    why = TieFinder(five, 4).why(0, 1)
    (above,), (below,) = why.above, why.below
    assert (above.factor, above.winner, above.loser, above.weight) == (1, "a", "b", 3)
    assert (below.factor, below.winner, below.loser, below.weight) == (1, "c", "d", 1)
    assert not why.cycle
    assert why.residual <= 1e-15
    assert why.words().startswith(
        "‘a’ and ‘b’ tie: ‘a’ over ‘b’ (×3) and ‘c’ over ‘d’ (×1) add up to nothing, "
        "because e_a + e_c = e_b + e_d within "
    )
    assert TieFinder(five, 4).why(0, 2) is None  # e_a − e_c is no multiple of e_a − e_b
    assert TieFinder(five, 4).why(0, 4) is None  # a outranks q


def test_a_cycle_needs_no_embeddings():
    limit = limit_of(["ab", "ab"], "ab", None, "ab", [3, 1])
    why = TieFinder(limit, 1).why(0, 1)
    assert (why.cycle, why.residual) == (True, 0)
    assert why.words().endswith(
        "‘a’ over ‘b’ (×3) and ‘b’ over ‘a’ (×1) add up to nothing: a cycle."
    )


def test_equal_vectors_tie_without_a_difference():
    limit = limit_of(["abq"], "a", FIVE[[0, 0, 4]], "abq")
    why = TieFinder(limit, 2).why(0, 1)
    assert len(why.above) == 1
    assert why.below == ()
    assert "their vectors are the same there" in why.words()


def test_other_last_tokens_may_close_a_dependency():
    """a over b after q, b over a after r, and e_q is twice e_r: λ = 1 and 2."""
    E = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 2], [0, 0, 1.0]])
    limit = limit_of(["abq", "abr"], "ab", E, "abqr")
    why = TieFinder(limit, 2).why(0, 1)
    (below,) = why.below
    assert (below.factor, below.last, below.winner) == (2, "r", "b")
    assert "2 · ‘b’ over ‘a’ after ‘r’ (×1)" in why.words()
    assert "(e_a − e_b) e_qᵀ + 2 (e_b − e_a) e_rᵀ = 0" in why.words()


def test_the_same_two_tokens_after_others_may_close_one():
    """a over b after q, b over a after r and s, and e_q = e_r + e_s."""
    E = np.zeros((5, 4))
    E[0, 0] = E[1, 1] = E[3, 2] = E[4, 3] = 1
    E[2] = E[3] + E[4]
    limit = limit_of(["abq", "abr", "abs"], "abb", E, "abqrs")
    why = TieFinder(limit, 2).why(0, 1)
    assert {(t.factor, t.last, t.winner) for t in why.below} == {(1, "r", "b"), (1, "s", "b")}


def test_a_linear_program_is_not_believed(five, monkeypatch):
    """One that would take all differences: of them only some with negative factors add up to the sum."""
    finder = TieFinder(five, 4)
    assert finder.sum_to(1, 0) is not None
    wrong = SimpleNamespace(x=np.ones(2))
    monkeypatch.setattr(optimize, "linprog", lambda *given, **options: wrong)
    assert finder.sum_to(1, 0) is None
    with monkeypatch.context() as patch:
        patch.setattr(wrong, "x", np.array([1.0, 0.0]))  # "a over b" alone is the reverse
        assert finder.sum_to(1, 0) is None


@pytest.mark.parametrize(("n", "d", "draws"), [(7, 4, range(8, 12)), (10, 3, range(3))])
def test_dependencies_of_random_data_add_up_to_nothing(n, d, draws):
    """Taken again from the vectors alone; every tied pair has one, no other pair has."""
    found = linear = several = 0
    for number in draws:
        rng = named_rng("dependency", number)
        samples = draw_samples(rng, 8, n, 4)
        limit = solve_limit(samples, unit_embeddings(rng, 8, d))
        graph, E, id_of = limit.graph, limit.embeddings.E, limit.graph.vocabulary.id_of
        edges = {
            (int(graph.pair_last[a]), int(graph.pair_token[a]), int(graph.pair_token[b])): w
            for a, b, w in zip(graph.edge_from, graph.edge_to, graph.edge_weight, strict=True)
        }
        for q in graph.last_tokens.tolist():
            finder = TieFinder(limit, q)
            tokens = graph.pair_token[graph.pairs_of(q)].tolist()
            for i, j in ((i, j) for i in tokens for j in tokens if i < j):
                why = finder.why(i, j)
                assert (why is not None) == graph.tied(q, i, j)
                if why is None:
                    continue
                assert why.residual <= EXACT
                for terms, sign in ((why.above, 1), (why.below, -1)):
                    total = np.zeros((d, d))
                    for t in terms:
                        last, win, lose = map(id_of, (t.last, t.winner, t.loser))
                        assert t.factor > 0
                        assert t.weight == edges[last, win, lose]
                        total += t.factor * np.outer(E[win] - E[lose], E[last])
                    want = sign * np.outer(E[i] - E[j], E[q])
                    np.testing.assert_allclose(total, want, atol=1e-9)
                found += 1
                linear += not why.cycle
                several += len({t.last for t in why.above + why.below}) > 1
    assert found > linear > 10
    assert (several > 10) == (d == 3)


def test_a_token_never_seen_there_is_tied_where_its_difference_lies_in_the_span():
    """Everything is tied in two dimensions: then no odds are left to the start of training."""
    rng = named_rng("dependency span", 0)
    samples = draw_samples(rng, 12, 30, 5)
    limit = solve_limit(samples, unit_embeddings(rng, 12, 2))
    assert limit.svm.norm == 0
    graph = limit.graph
    q = next(q for q in graph.last_tokens.tolist() if len(graph.pair_token[graph.pairs_of(q)]) < 12)
    seen = graph.pair_token[graph.pairs_of(q)].tolist()
    new = next(x for x in range(12) if x not in seen)
    finder = TieFinder(limit, q)
    assert finder.tied(seen[0], new)
    assert finder.why(seen[0], new).residual <= EXACT
    answer = Automaton(limit).explain([seen[0], new, q])
    assert not answer.undetermined
    assert "leaves the odds" not in answer.note


def test_a_token_outside_the_span_stays_undetermined(five):
    E = np.vstack([FIVE, [0, 1, 0], [0.3, 0.2, 0]])  # f is b's twin; g is nobody's
    limit = limit_of(["abq", "cdq"], "ac", E, "abcdqfg", [3, 1])
    finder = TieFinder(limit, 4)
    assert finder.tied(0, 5)
    assert not finder.tied(0, 6)
    twins = Automaton(limit).explain(["a", "f", "q"])
    assert not twins.undetermined
    assert twins.fates[1].tie is not None


# What users read


def test_explain_says_why(five):
    why = Automaton(five).explain(["a", "b", "q"])
    assert [fate.tie is None for fate in why.fates] == [True, False, True]
    text = explanation_text(why)
    assert "because e_a + e_c = e_b + e_d within" in text
    assert "e-17" not in text.split("\n  ‘a’")[0]  # scores that are nothing are shown as 0
    record = why.record()
    assert "tie" not in record["fates"][0]
    assert record["fates"][1]["tie"]["below"][0]["factor"] == 1
    json.dumps(record)
    model = NextTokenClassifier(embeddings=FIVE).fit([[0, 1, 4], [2, 3, 4]], [0, 2], [3, 1])
    assert model.explain([0, 1, 4]).fates[1].tie.words().count("over") == 2


def test_with_a_dimension_for_each_token_nothing_is_added():
    limit = limit_of(["ab", "ab"], "ab", None, "ab", [3, 1])
    assert "tie" not in json.dumps(Automaton(limit).explain(["a", "b"]).record())


def test_a_path_down_may_step_over_a_tie():
    """r over b and a over s, and only the embeddings lead from b back to a: s lost to r through them."""
    E = np.zeros((8, 6))
    E[1:6, :3] = FIVE
    E[6, 3] = E[7, 4] = E[0, 5] = 1
    contexts, nexts = ["abq", "cdq", "orbq", "asq"], "acra"
    limit = limit_of(contexts, nexts, E, "oabcdqrs")
    graph = limit.graph
    assert graph.path(5, 6, 7) is None
    assert graph.outranks(5, 6, 7)
    assert not graph.outranks(5, 7, 6)
    why = Automaton(limit).explain(["s", "r", "q"])
    lost = next(fate for fate in why.fates if fate.token == "s")
    assert lost.reason == "outranked"
    assert [edge.loser for edge in lost.path] == ["b", "a", "s"]
    assert [edge.tie is None for edge in lost.path] == [True, False, True]
    assert "‘b’ and ‘a’ tie" in explanation_text(why)
    assert lost.svm_score <= next(f for f in why.fates if f.token == "r").svm_score - 2 + 1e-9


def test_graphs_mark_what_the_embeddings_tie(five, call, tmp_path):
    view = graph_view(five, 4)
    assert [c.linear for c in view.components] == [True, True, None]
    assert "* tied by the embeddings" in graph_text(view)
    assert all(abs(x.margin) < 1e-9 for x in view.links if x.target != 4)
    save_model(five, tmp_path / "M")
    code, out, _ = call("explain", tmp_path / "M", "a", "b", "q")
    assert code == 0
    assert "because e_a + e_c = e_b + e_d within" in out
    for ask in (
        ["graph", "--last", "q", "-o", tmp_path / "q.svg"],
        ["summary"],
        ["summary", "--last", "q"],
    ):
        assert call(ask[0], tmp_path / "M", *ask[1:])[0] == 0
    with pytest.raises(AssumptionError, match="its embeddings tie tokens"):
        five.graph.priority_order(4)


def test_cycles_of_a_dependent_model_are_no_linear_ties():
    E = np.vstack([np.eye(3), [1, 1, 1]])  # dependent only through a token nobody meets
    limit = limit_of(["abq", "abq"], "ab", E, "abqz")
    assert limit.dependent
    assert not len(limit.graph.linear_components(2))
    assert TieFinder(limit, 2).why(0, 1).cycle
    assert len(build_graph(limit.samples).linear_components(2)) == 0
