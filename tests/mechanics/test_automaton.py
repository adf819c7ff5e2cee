"""The automaton: hard retrieval, soft composition, the way there, and reasons that are true."""

import pickle
from math import exp, inf, nan

import numpy as np
import pytest
from scipy.stats import chisquare
from tests import oracle

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import DataError, UsageError
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.theory.automaton import Automaton, samples_behind
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.mechanics.theory.view import graph_view


@pytest.fixture(scope="module")
def fitted() -> list[tuple[oracle.Raw, Limit]]:
    """60 random data sets and their limits, every other one with random embeddings."""
    found = []
    for i in range(60):
        rng = np.random.default_rng([10, i])
        K = int(rng.integers(3, 9))
        raw = oracle.draw(rng, K, 3 * K, 2, repeats=bool(i % 3))
        E = check_embeddings(oracle.unit_rows(rng, K, K + 2)) if i % 2 else None
        found.append((raw, solve_limit(raw.samples(), E)))
    return found


def highest(raw: oracle.Raw, context: tuple[int, ...]) -> frozenset[int] | None:
    """The tokens of the one component that reaches all others in the context, or None."""
    q = context[-1]
    if q not in oracle.nodes(raw) or not set(context) <= oracle.nodes(raw)[q]:
        return None
    arrows, part = set(oracle.edges(raw)[q]), oracle.components(raw)[q]
    for x in set(context):
        if set(context) <= oracle.reachable(x, arrows):
            return part[x] & set(context)
    return None


def luce(raw: oracle.Raw, limit: Limit, context: tuple[int, ...]) -> dict[int, float]:
    """m π over the highest component present, normalised; π from the fit, counts from the context."""
    q, kept = context[-1], highest(raw, context)
    assert kept is not None
    mass = {x: context.count(x) * exp(limit.finite.log_pi[limit.graph.pair(q, x)]) for x in kept}
    return {x: mass.get(x, 0.0) / sum(mass.values()) for x in dict.fromkeys(context)}


def contexts(raw: oracle.Raw, seed: int) -> list[tuple[int, ...]]:
    """The contexts of the data, and new ones over the same tokens whose top is determined."""
    rng = np.random.default_rng(seed)
    new = []
    for row in raw.rows:
        seen = sorted(oracle.nodes(raw)[row[-1]])
        size = int(rng.integers(1, 6))
        new.append((*map(int, rng.choice(seen, size=size)), row[-1]))
    return [*raw.rows, *(row for row in new if highest(raw, row) is not None)]


def test_retrieval_and_composition(fitted):
    """T4: exactly the highest component present is kept, mixed in proportion to m π."""
    several = 0
    for seed, (raw, limit) in enumerate(fitted):
        automaton = Automaton(limit)
        for context in contexts(raw, seed):
            found = automaton.predict_proba(context)
            assert {x for x, p in found.items() if p > 0} == highest(raw, context)
            # Odds carry the errors of log π (1e-12) and, coupled, of a linear solve.
            assert found == pytest.approx(luce(raw, limit, context), abs=1e-9)
            assert found[automaton.predict(context)] == max(found.values())
            several += len(highest(raw, context)) > 1
    assert several > 100


def test_control_counts_alone_or_a_turned_order_do_not_pass(fitted):
    counts = turned = 0
    for raw, limit in fitted:
        automaton = Automaton(limit)
        upside_down = oracle.Raw(raw.K, raw.rows, tuple(row[0] for row in raw.rows), raw.weights)
        for context in raw.rows:
            found = automaton.predict_proba(context)
            share = {x: context.count(x) / len(context) for x in found}
            counts += found != pytest.approx(share, abs=1e-3)
            turned += highest(upside_down, context) != {x for x, p in found.items() if p > 0}
    assert min(counts, turned) > 200


def test_odds_of_a_second_implementation(fitted):
    """The mixture with π from Hunter's iteration instead of Newton's."""
    compared = 0
    for raw, limit in fitted[::3]:
        other = oracle.minorize_maximize(raw, 3000)
        for context in raw.rows if other else ():
            kept, q = highest(raw, context), context[-1]
            if len(kept) > 1:
                mass = {x: context.count(x) * exp(other[q, x]) for x in kept}
                found = Automaton(limit).predict_proba(context)
                expected = {x: m / sum(mass.values()) for x, m in mass.items()}
                assert {x: found[x] for x in kept} == pytest.approx(expected, abs=1e-7)
                compared += 1
    assert compared > 50


def test_growing_along_the_direction_tends_to_the_limit(fitted):
    """softmax(log m + S_fin + R S_svm/‖W_svm‖): from plain mixing to retrieval, at rate e^{−R/‖W‖}."""
    for raw, limit in fitted[:20]:
        automaton, graph = Automaton(limit), limit.graph
        norm = limit.svm.norm
        for context in raw.rows[:5]:
            ids = list(dict.fromkeys(context))
            pair = [graph.pair(context[-1], x) for x in ids]
            count = np.array([context.count(x) for x in ids])
            soft, hard = limit.finite.score[pair], limit.svm.score[pair]
            end = automaton.predict_proba(context)
            for R in (0.0, 1.0, 50.0 * norm):
                z = np.log(count) + soft + (R * hard / norm if norm else 0.0)
                plain = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
                found = automaton.predict_proba(context, R)
                assert found == pytest.approx(dict(zip(ids, plain, strict=True)), abs=1e-12)
            # Margins are at least 1, so what is lost at R = 50 ‖W_svm‖ weighs e^{−50} e^{spread}.
            assert found == pytest.approx(end, abs=exp(-50 + 2 * np.ptp(soft)) * 10 + 1e-9)


def test_probabilities_sum_to_one(fitted):
    for raw, limit in fitted:
        for context in raw.rows[:5]:
            for radius in (0.0, 3.0, inf):
                p = Automaton(limit).predict_proba(context, radius)
                assert sum(p.values()) == pytest.approx(1.0, abs=1e-14)
                assert min(p.values()) >= 0


WORDS = samples_from_sequences(
    [["a", "b", "e"], ["a", "b", "e"], ["c", "d", "e"], ["c", "d", "e"], ["c", "d", "e"]],
    ["a", "b", "c", "c", "d"],
)
LOW = samples_from_sequences([["a", "b", "z"], ["c", "z"], ["b", "z"]], ["a", "c", "b"])


@pytest.mark.parametrize(
    ("last", "why", "near"),
    [("a", "never a last token", None), ("E", "not in the vocabulary", "e")],
)
def test_nothing_is_predicted_after_a_token_that_never_was_last(last, why, near):
    automaton = Automaton(solve_limit(WORDS))
    context = ["c", "c", "b", last]
    for radius in (inf, 1.0):
        p = automaton.predict_proba(context, radius)
        assert p == {}
        assert not p.known_last
    assert automaton.predict(context) is None
    assert automaton.sample(context, np.random.default_rng(0), 3) == []
    reasons = automaton.explain(context)
    assert reasons.prediction is None
    assert not reasons.known_last
    assert reasons.undetermined
    assert why in reasons.note
    assert "there is no prediction" in reasons.note
    assert "theorem" not in reasons.note
    assert {fate.probability for fate in reasons.fates} == {None}
    assert reasons.record()["unknown"] == [{"token": last, "nearest": near, "why": why}]
    assert reasons.soft_to_hard == ()


def test_tokens_outside_the_vocabulary_are_named_and_left_out():
    automaton = Automaton(solve_limit(WORDS))
    without = automaton.predict_proba(["a", "c", "d", "e"])
    p = automaton.predict_proba(["a", "new", "c", "A", "d", "new", "e"])
    assert p == without
    assert p.unknown == ("new", "A")
    assert without.unknown == ()
    reasons = automaton.explain(["a", "new", "c", "A", "d", "new", "e"])
    fates = {fate.token: fate for fate in reasons.fates}
    assert (fates["new"].probability, fates["new"].count) == (None, 2)
    assert fates["new"].reason == "not in the vocabulary"
    assert [(x.token, x.nearest) for x in reasons.unknown] == [("new", None), ("A", "a")]
    assert reasons.note.startswith("‘new’ is not in the vocabulary.")
    assert "did you mean ‘a’" in reasons.note
    assert reasons.prediction == automaton.explain(["a", "c", "d", "e"]).prediction
    assert pickle.loads(pickle.dumps(p)).unknown == p.unknown


def test_a_number_is_told_from_a_word():
    automaton = Automaton(solve_limit(samples_from_sequences([["3", 4]], ["3"])))
    assert [(x.token, x.nearest) for x in automaton.unknown([3, "4", 4])] == [(3, "3"), ("4", 4)]


def test_tokens_never_seen_with_the_last_one_score_zero_and_are_marked():
    """Below what the last token ranks above 0 (a), above what it ranks below (f itself)."""
    words = samples_from_sequences([["a", "b", "e"], ["b", "e"], ["c", "f"]], ["a", "b", "c"])
    automaton = Automaton(solve_limit(words))
    p = automaton.predict_proba(["a", "c", "e"])
    assert (p, p.unknown, p.unseen, p.known_last) == (
        {"a": 1.0, "c": 0.0, "e": 0.0},
        (),
        ("c",),
        True,
    )
    fates = {fate.token: fate for fate in automaton.explain(["a", "c", "e"]).fates}
    assert (fates["c"].reason, fates["c"].seen) == ("never seen with the last token", False)
    assert fates["a"].seen
    reasons = automaton.explain(["c", "e"])
    assert reasons.fates[0].token == "c"
    assert (reasons.fates[0].reason, reasons.fates[0].seen) == ("retrieved", False)
    assert "Retrieved, but never seen with the last token: ‘c’" in reasons.note
    assert "fixes all odds" not in reasons.note
    assert reasons.unknown == ()


def test_with_embeddings_a_token_that_never_was_last_is_answered_by_its_vector():
    E = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.6, 0.8]])
    words = samples_from_sequences([[0, 1]], [0], vocabulary=Vocabulary(range(3)))
    automaton = Automaton(solve_limit(words, check_embeddings(E)))
    reasons = automaton.explain([0, 1, 2])  # 2 lies near 1, the only last token
    assert reasons.prediction == 0
    assert not reasons.known_last
    assert [x.why for x in reasons.unknown] == ["never a last token"]
    assert "follow from the embeddings" in reasons.note


def test_unrelated_components_with_equal_scores_keep_both():
    automaton = Automaton(solve_limit(WORDS))  # scores 1/5 for {a, b} and for {c, d}, odds 2:1
    reasons = automaton.explain(["a", "c", "d", "e"])
    assert reasons.undetermined
    assert "unrelated" in reasons.note
    total = 1 + 2**0.5 + 2**-0.5
    found = automaton.predict_proba(["a", "c", "d", "e"])
    expected = {"a": 1 / total, "c": 2**0.5 / total, "d": 2**-0.5 / total, "e": 0.0}
    assert found == pytest.approx(expected, abs=1e-12)
    alone = automaton.explain(["c", "d", "e"])  # control: one component
    assert not alone.undetermined
    assert "unrelated" not in alone.note


def test_unrelated_components_with_unequal_scores():
    """a > b > z and c > z: c, unrelated to a and b, scores 0 like b; a stands alone at the top."""
    limit = solve_limit(LOW)
    automaton = Automaton(limit)
    assert not limit.graph.outranks(*(LOW.vocabulary.id_of(x) for x in "zac"))
    reasons = automaton.explain(["a", "c", "z"])
    fates = {fate.token: fate for fate in reasons.fates}
    assert (fates["a"].svm_score, fates["c"].svm_score) == pytest.approx((1.0, 0.0), abs=1e-6)
    assert fates["c"].reason == "lower score"
    assert fates["c"].path == ()
    assert not reasons.undetermined
    assert automaton.explain(["b", "c", "z"]).undetermined  # both at 0


def test_sampling_follows_the_probabilities():
    """A true law falls below this p-value once in ten thousand seeds; the seed is fixed."""
    automaton = Automaton(solve_limit(WORDS))
    context = ["c", "d", "d", "e"]
    rng = np.random.default_rng(0)
    draws = [automaton.sample(context, rng)[0] for _ in range(3000)]
    p = automaton.predict_proba(context)
    kept = [x for x in p if p[x] > 0]
    observed = [draws.count(x) for x in kept]
    assert sum(observed) == 3000
    assert chisquare(observed, [3000 * p[x] for x in kept]).pvalue > 1e-4
    assert chisquare(observed, [1000.0, 2000.0]).pvalue < 1e-4  # control: counts alone


def test_sampling_is_repeatable_and_goes_on_from_what_it_drew():
    round_ = samples_from_sequences([["a", "b"], ["a", "b"], ["b", "a"], ["b", "a"]], list("abab"))
    automaton = Automaton(solve_limit(round_))
    first, again = (automaton.sample(["a", "b"], np.random.default_rng(3), 5) for _ in "ab")
    assert first == again
    assert len(first) == 5
    rng = np.random.default_rng(3)
    words = ["a", "b"]
    for drawn in first:  # one at a time, each draw becoming the last token
        assert automaton.sample(words, rng) == [drawn]
        words.append(drawn)


def test_sampling_draws_what_looking_at_the_whole_context_each_time_draws(fitted, monkeypatch):
    """And looks at it no more often than there are tokens in it."""
    drawn = 0
    for i, (_, limit) in enumerate(fitted[:20]):
        automaton, graph = Automaton(limit), limit.graph
        context = [graph.vocabulary[int(q)] for q in graph.last_tokens]
        words, rng = [*context, context[0]], np.random.default_rng(i)
        begin = len(words)
        for _ in range(40):
            if not (p := automaton.predict_proba(words)):
                break
            words.append(list(p)[rng.choice(len(p), p=list(p.values()))])
        looks, look_up = [], automaton._look_up
        monkeypatch.setattr(
            automaton, "_look_up", lambda c, l=looks, f=look_up: l.append(1) or f(c)
        )
        assert automaton.sample(words[:begin], np.random.default_rng(i), 40) == words[begin:]
        assert len(looks) <= 1 + len(context)
        drawn += len(words) - begin
    assert drawn > 100


def test_sampling_ends_where_nothing_was_learned():
    automaton = Automaton(solve_limit(WORDS))  # e is the only last token
    assert len(automaton.sample(["c", "d", "e"], np.random.default_rng(3), 5)) == 1


def test_explanations_are_true(fitted):
    """Paths lead down edges of the graph from a retrieved token; evidence made those edges."""
    shown = 0
    for seed, (raw, limit) in enumerate(fitted):
        automaton = Automaton(limit)
        for context in contexts(raw, seed)[::4]:
            reasons, q = automaton.explain(context), context[-1]
            arrows, p = oracle.edges(raw)[q], automaton.predict_proba(context)
            assert reasons.prediction == automaton.predict(context)
            assert {f.token: f.probability for f in reasons.fates} == p
            assert {f.token: f.count for f in reasons.fates} == {x: context.count(x) for x in p}
            assert [f.probability for f in reasons.fates] == sorted(p.values(), reverse=True)
            for fate in reasons.fates:
                assert (fate.reason == "retrieved") == (p[fate.token] > 0)
                if fate.probability > 0:
                    assert fate.path == ()
                    continue
                assert fate.reason == "outranked"  # the top reaches every token here
                way = [fate.path[0].winner, *(edge.loser for edge in fate.path)]
                assert p[way[0]] > 0
                assert way[-1] == fate.token
                assert way[1:-1] == [edge.winner for edge in fate.path[1:]]
                for edge in fate.path:
                    check_edge(raw, q, edge, arrows)
                    shown += 1
    assert shown > 300


def check_edge(raw, q, edge, arrows):
    assert edge.weight == pytest.approx(arrows[edge.winner, edge.loser], rel=1e-12)
    assert 1 <= len(edge.evidence) <= 3
    weights = [sample.weight for sample in edge.evidence]
    assert weights == sorted(weights, reverse=True)
    for sample in edge.evidence:
        row, y = raw.rows[sample.source], raw.labels[sample.source]
        assert (row[-1], y, sample.next) == (q, edge.winner, edge.winner)
        assert edge.loser in row
        assert sample.tokens == {x: row.count(x) for x in row}


def test_the_way_from_soft_to_hard(fitted):
    for raw, limit in fitted[:10]:
        automaton = Automaton(limit)
        steps = automaton.explain(raw.rows[0]).soft_to_hard
        assert steps[0][0] == 0
        for radius, p in steps:
            assert p == automaton.predict_proba(raw.rows[0], radius)


def test_samples_behind_an_edge(fitted):
    raw, limit = fitted[1]
    for q, arrows in oracle.edges(raw).items():
        for i in range(raw.K):
            for j in range(raw.K):
                weight = limit.samples.weight[samples_behind(limit.samples, q, i, j)].sum()
                assert i == j or weight == pytest.approx(arrows.get((i, j), 0.0))


def test_scores_of_any_pair_are_those_of_the_dense_matrix(fitted):
    """Pairs never seen together included: zero on the standard basis, e_xᵀ W e_q otherwise."""
    for raw, limit in fitted[:20]:
        E = np.eye(raw.K) if limit.embeddings is None else limit.embeddings.E
        S = E @ limit.dense(limit.svm.coefficient) @ E.T
        q, x = map(np.ravel, np.indices((raw.K, raw.K)))
        found = limit.scores(limit.svm.coefficient, q, x)
        np.testing.assert_allclose(found, S[x, q], rtol=1e-10, atol=1e-10)
        nobody = np.full(
            raw.K, -1
        )  # a token outside the vocabulary, as last token or in the context
        for pair in ((nobody, np.arange(raw.K)), (np.arange(raw.K), nobody)):
            assert limit.scores(limit.svm.coefficient, *pair).tolist() == [0] * raw.K


@pytest.mark.parametrize("radius", [-1.0, -inf, nan])
def test_radius_must_not_be_negative(radius):
    with pytest.raises(UsageError, match="radius"):
        Automaton(solve_limit(WORDS)).predict_proba(["a", "e"], radius)


def test_what_makes_no_sense_is_refused():
    automaton = Automaton(solve_limit(WORDS))
    for ask in (automaton.predict, automaton.predict_proba, automaton.explain):
        with pytest.raises(DataError, match="empty"):
            ask([])
    with pytest.raises(UsageError, match="length"):
        automaton.sample(["a"], np.random.default_rng(0), 0)


# The graph as plain data


def test_view_counts_and_margins(fitted):
    for raw, limit in fitted:
        for q, arrows in oracle.edges(raw).items():
            view = graph_view(limit, q)
            assert view.last == q
            tokens = [node.token for node in view.nodes]
            assert [node.id for node in view.nodes] == list(range(len(tokens)))
            assert set(tokens) == oracle.nodes(raw)[q]
            found = {(tokens[link.source], tokens[link.target]): link.weight for link in view.links}
            assert found == pytest.approx(arrows)
            part = oracle.components(raw)[q]
            assert {frozenset(c.tokens) for c in view.components} == set(part.values())
            assert [c.id for c in view.components] == list(range(len(view.components)))
            for link in view.links:
                i, j = view.nodes[link.source], view.nodes[link.target]
                assert link.margin == pytest.approx(i.svm_score - j.svm_score, abs=1e-15)
                if i.component == j.component:
                    assert link.margin == pytest.approx(0, abs=1e-9)
                else:
                    assert link.margin >= 1 - 1e-9
                    assert i.level < j.level


def test_view_of_a_token_without_graph():
    view = graph_view(solve_limit(WORDS), 0)
    assert (view.nodes, view.links, view.components) == ((), (), ())
