"""The automaton attention becomes: hard retrieval, soft composition, and reasons that can be checked."""

from dataclasses import replace
from itertools import pairwise
from math import exp

import numpy as np
import pytest
from hypothesis import strategies as st
from tests import oracle
from tests.invariants.harness import holds_for, refuted
from tests.invariants.strategies import (
    contexts,
    data,
    embeddings,
    priorities,
    rotation,
    seeds,
    shuffled,
    solved,
    table,
)

from attomaton.mechanics.theory import automaton as room
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.many import TIE

radii = st.floats(0, 50)


def by_positions(limit, context, radius):
    """The layer itself, position by position, at W_fin + radius · W_svm/‖W_svm‖."""
    S = table(limit.graph, limit.finite.score)
    if limit.svm.norm:
        S = S + radius * table(limit.graph, limit.svm.score) / limit.svm.norm
    z = np.array([S[context[-1], x] for x in context])
    a = np.exp(z - z.max())
    return {x: sum(p for p, t in zip(a / a.sum(), context, strict=True) if t == x) for x in context}


@holds_for(data(), contexts(), radii | st.just(np.inf), share=0.25)
def test_predictions_are_distributions_over_what_is_known_of_the_context(raw, context, radius):
    """Whatever the context: known or not, long or short; nothing where its last token never was one."""
    automaton = Automaton(solved(raw))
    for row in (context, raw.rows[0]):
        p = automaton.predict_proba(row, radius)
        if row[-1] not in oracle.nodes(raw):
            assert p == {}
            continue
        assert list(p) == [x for x in dict.fromkeys(row) if x < raw.K]
        assert sum(p.values()) == pytest.approx(1, abs=1e-13)
        assert min(p.values()) >= 0


def ending(raw, context):
    """A context of known tokens that ends in one that was a last token."""
    return [*(x % raw.K for x in context[:-1]), raw.rows[context[-1] % len(raw.rows)][-1]]


@holds_for(data(), contexts(), radii, share=0.25)
def test_a_finite_radius_is_the_layer_position_by_position(raw, context, radius):
    limit = solved(raw)
    context = ending(raw, context)
    p = Automaton(limit).predict_proba(context, radius)
    assert p == pytest.approx(by_positions(limit, context, radius), abs=1e-12)


@holds_for(data(), contexts(), share=0.25)
def test_the_limit_is_what_large_radii_tend_to(raw, context):
    """Margins between retrieved and other tokens are multiples of something: e^(−100) is nothing."""
    limit = solved(raw)
    context = ending(raw, context)
    gaps = np.abs(np.subtract.outer(limit.svm.score, limit.svm.score))
    least = gaps[gaps > 2 * TIE].min(initial=1.0)
    far = by_positions(limit, context, 100 * max(limit.svm.norm, 1) / least)
    # Scores that tie exactly differ by the solver's 1e-9 at most, here a hundredfold over the least gap.
    assert Automaton(limit).predict_proba(context) == pytest.approx(far, abs=1e-6 / least)


@holds_for(data(lasts=1), contexts(), share=0.25)
def test_what_is_outranked_in_the_context_is_not_retrieved(raw, context):
    context = [*context, raw.rows[0][-1]]
    context = [x for x in context if x < raw.K]
    p = Automaton(solved(raw)).predict_proba(context)
    _, above = priorities(raw)
    q = context[-1]
    for x in p:
        assert p[x] == 0 or not any(above[q, y, x] for y in p)
    # Where the graph speaks about all of them, what nothing outranks is retrieved.
    top = [x for x in p if all(y == x or above[q, x, y] for y in p)]
    assert all(p[x] == 1 for x in top)


@holds_for(data(lasts=1), st.lists(st.integers(0, 3), min_size=6, max_size=6), share=0.25)
def test_tied_tokens_are_mixed_by_count_times_odds(raw, times):
    """On contexts from one component and the last token, repeats included."""
    limit = solved(raw)
    q, tied = raw.rows[0][-1], priorities(raw)[0]
    mates = max(range(raw.K), key=lambda x: tied[q, x].sum())
    part = [mates, *np.flatnonzero(tied[q, mates]).tolist()]
    context = [*(x for x, m in zip(part, times, strict=False) for _ in range(m)), q]
    p = Automaton(limit).predict_proba(context)
    log_pi = table(limit.graph, limit.finite.log_pi)[q]
    for i in p:
        for j in p:
            if tied[q, i, j]:
                mi, mj = (context.count(x) * exp(log_pi[x]) for x in (i, j))
                assert p[i] * mj == pytest.approx(p[j] * mi, abs=1e-10 * max(mi, mj))


@holds_for(data(), share=0.25)
def test_every_label_of_the_data_is_possible(raw):
    """The label's component outranks the rest of its context, so the limit never rules it out."""
    automaton = Automaton(solved(raw))
    for row, y, _ in raw:
        assert automaton.predict_proba(row)[y] > 0


@holds_for(data(), share=0.25)
def test_its_predictions_lose_exactly_the_floor(raw):
    """Σ −log p over the samples is n L*: the two parts of the limit and its loss tell one story."""
    limit = solved(raw)
    automaton = Automaton(limit)
    lost = sum(w * -np.log(automaton.predict_proba(row)[y]) for row, y, w in raw)
    assert lost / sum(raw.weights) == pytest.approx(limit.finite.loss_floor, abs=1e-9)


@holds_for(data(), contexts(), seeds, share=0.1)
def test_relabelling_permutes_the_predictions(raw, context, seed):
    new = shuffled(seed, raw.K)
    context = [x % raw.K for x in context]
    p = Automaton(solved(raw)).predict_proba(context)
    renamed = Automaton(solved(raw.relabelled(new))).predict_proba([int(new[x]) for x in context])
    assert renamed == pytest.approx({int(new[x]): v for x, v in p.items()}, abs=1e-9)


@holds_for(data(), contexts(), seeds, share=0.25)
def test_the_order_of_a_context_does_not_matter(raw, context, seed):
    automaton = Automaton(solved(raw))
    other = [*(context[i] for i in shuffled(seed, len(context) - 1)), context[-1]]
    assert automaton.predict_proba(other) == pytest.approx(
        automaton.predict_proba(context), abs=1e-13
    )


@holds_for(data(), contexts(), share=0.25)
def test_what_is_unknown_changes_no_prediction(raw, context):
    """Tokens outside the vocabulary are left out; as last token they leave no answer."""
    automaton, context = Automaton(solved(raw)), ending(raw, context)
    p = automaton.predict_proba(["never", *context[:-1], "seen", *context[-1:]])
    assert p == automaton.predict_proba(context)
    assert p.unknown == ("never", "seen")
    assert automaton.predict_proba([*context, "never"]) == {}


@holds_for(data(), seeds, share=0.1)
def test_orthonormal_embeddings_change_no_prediction(raw, seed):
    """Any orthonormal basis is as good as the standard one."""
    a, b = Automaton(solved(raw)), Automaton(solved(raw, rotation(seed, raw.K)))
    for row in raw.rows:
        assert b.predict_proba(row) == pytest.approx(a.predict_proba(row), abs=1e-9)


@holds_for(data(), seeds, share=0.1)
def test_embeddings_change_no_prediction_on_the_data(raw, seed):
    """Samples are decided by margins and odds, which every embedding keeps."""
    a, b = Automaton(solved(raw)), Automaton(solved(raw, embeddings(seed, raw.K)))
    for row in raw.rows:
        assert b.predict_proba(row) == pytest.approx(a.predict_proba(row), abs=1e-7)


@holds_for(data(lasts=1), contexts(), share=0.25)
def test_reasons_are_true(raw, context):
    """Paths are walks on edges of the data, from a retrieved token down to the loser, with the weight behind."""
    q = raw.rows[0][-1]
    context = [*context, q]
    answer = Automaton(solved(raw)).explain(context)
    edges, seen = oracle.edges(raw)[q], oracle.nodes(raw)[q]
    _, above = priorities(raw)
    kept = {fate.token for fate in answer.fates if fate.reason == "retrieved"}
    assert kept == {fate.token for fate in answer.fates if (fate.probability or 0) > 0}
    assert answer.prediction in kept
    for fate in answer.fates:
        x = fate.token
        assert fate.count == context.count(x)
        if fate.reason == "outranked":
            assert fate.path[0].winner in kept
            assert fate.path[-1].loser == x
            assert all(a.loser == b.winner for a, b in pairwise(fate.path))
            for edge in fate.path:
                assert edge.weight == pytest.approx(edges.get((edge.winner, edge.loser), 0))
                for sample in edge.evidence:
                    assert sample.next == edge.winner
                    assert edge.loser in sample.tokens
        elif fate.reason == "never seen with the last token":
            assert x not in seen
        elif fate.reason == "not in the vocabulary":
            assert x >= raw.K
            assert fate.probability is None
        elif fate.reason == "lower score":
            assert x in seen
            assert not any(above[q, y, x] for y in kept if y < raw.K)
        else:
            assert x in kept


# Controls


def test_control_retrieval_by_the_lowest_score(monkeypatch):
    honest = room.mixing_scores

    def upside_down(start, count, svm, finite, radius=np.inf, norm=1.0):
        return honest(start, count, -svm, finite, radius, norm)

    monkeypatch.setattr(room, "mixing_scores", upside_down)
    test_predictions_are_distributions_over_what_is_known_of_the_context()  # still distributions
    refuted(test_what_is_outranked_in_the_context_is_not_retrieved)
    refuted(test_every_label_of_the_data_is_possible)
    refuted(test_a_finite_radius_is_the_layer_position_by_position)


def test_control_composition_without_counts(monkeypatch):
    honest = room.mixing_scores

    def uncounted(start, count, *rest):
        return honest(start, np.ones_like(count), *rest)

    monkeypatch.setattr(room, "mixing_scores", uncounted)
    refuted(test_tied_tokens_are_mixed_by_count_times_odds)


def test_control_paths_backwards(monkeypatch):
    honest = Automaton._edge

    def flipped(self, q, i, j, *rest):
        edge = honest(self, q, i, j, *rest)
        return replace(edge, winner=edge.loser, loser=edge.winner)

    monkeypatch.setattr(Automaton, "_edge", flipped)
    refuted(test_reasons_are_true)
