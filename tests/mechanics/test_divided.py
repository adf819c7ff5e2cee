"""The limit of a last token in shards: unions, maxima and sums over any division are those of all samples at once."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attomaton.corpus.samples import merge_samples
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.mechanics.theory.divided import (
    Bound,
    Dense,
    Keep,
    Sparse,
    Sums,
    as_samples,
    bound_sums,
    careful_fit,
    component_choices,
    condensed_graph,
    dense_sums,
    edge_multipliers,
    newton_fit,
    shard_edges,
    sparse_sums,
    tied_entries,
    tied_groups,
    united,
    worst_margin,
)
from attomaton.mechanics.theory.finite import finite_component, tied_with_label
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.svm import graph_svm, violation
from attomaton.numerics import named_rng

LAST = 0


def drawn(seed, rows=60, words=9, length=4):
    """Samples of one last token whose labels are in their contexts, tokens named by their ids."""
    rng = named_rng("divided", seed)
    contexts = rng.integers(1, words, (rows, length))
    labels = contexts[np.arange(rows), rng.integers(0, length, rows)]
    labels[rng.random(rows) < 0.1] = LAST
    vocabulary = Vocabulary(range(words))
    return samples_from_sequences(
        [[*x, LAST] for x in contexts.tolist()], labels.tolist(), vocabulary=vocabulary
    )


def divided(samples, into, seed):
    """The samples in some shards, whichever way they fall."""
    of = named_rng("shards", seed).integers(0, into, len(samples))
    return [samples.take(np.flatnonzero(of == i)) for i in range(into) if (of == i).any()]


def graph_of(shards, most=1 << 20):
    edges = [shard_edges(s) for s in shards]
    group = tied_groups(len(shards[0].vocabulary), lambda: edges, most)
    return condensed_graph(shards[0].vocabulary, LAST, group, lambda: edges)


@given(st.integers(0, 10**6), st.integers(1, 7), st.sampled_from([1, 5, 1 << 20]))
def test_any_division_has_the_graph_of_the_whole(seed, into, most):
    samples = drawn(seed)
    whole, found = build_graph(samples), graph_of(divided(samples, into, seed), most)
    for name in ("pair_last", "pair_token", "component", "level", "dag_key"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))


def test_a_graph_without_one_of_its_shards_is_another():
    samples = drawn(3)
    shards = divided(samples, 3, 3)
    found, whole = graph_of(shards[:1]), build_graph(samples)
    assert not np.array_equal(found.dag_key, whole.dag_key)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_margins_and_multipliers_of_edges_are_those_of_samples(seed, into):
    samples = drawn(seed)
    whole, shards = build_graph(samples), divided(samples, into, seed)
    graph = graph_of(shards)
    svm, known = graph_svm(graph, as_samples(graph)), graph_svm(whole, samples)
    np.testing.assert_allclose(svm.score, known.score, atol=1e-9)
    score = svm.score + named_rng("off", seed).normal(size=len(svm.score))
    worst = max(worst_margin(graph, score, shard_edges(s)) for s in shards)
    assert worst == violation(whole, samples, score)
    edges = united([shard_edges(s) for s in shards], len(samples.vocabulary))
    np.testing.assert_array_equal(whole.pair_token[whole.edge_from], edges.label)
    np.testing.assert_array_equal(whole.pair_token[whole.edge_to], edges.token)
    np.testing.assert_allclose(whole.edge_weight, edges.weight)
    carried = edge_multipliers(graph, svm.multiplier, edges)
    # Each multiplier lies on one edge, the first between its two components.
    assert np.isclose(carried.sum(), svm.multiplier.sum())
    a, b = whole.component[whole.edge_from], whole.component[whole.edge_to]
    between = np.flatnonzero(a != b)
    first = np.unique((a * len(whole.level) + b)[between], return_index=True)[1]
    np.testing.assert_array_equal(carried[between[first]], svm.multiplier)


def fits(samples, shards):
    """Every component of the whole, fitted in sums over shards both ways; log π, loss and the worst bound of each."""
    graph = graph_of(shards)
    cyclic = [merge_samples(tied_with_label(graph, s)) for s in shards]
    weight = sum(tied_entries(graph, c)[1] for c in cyclic)
    answers = []
    for careful in (True, False):
        log_pi, loss, error = np.zeros(len(graph.pair_last)), 0.0, 0.0
        for component in np.flatnonzero(weight).tolist():
            items = np.flatnonzero(graph.component == component)

            def over(work, add, component=component):
                def of(shard):
                    return component_choices(graph, shard, component, 1.0)

                return lambda x: reduce(add, (work(of(shard), x) for shard in cyclic))

            kept = []
            begin = Keep(np.zeros(len(items)))
            if careful:
                found = careful_fit(over(dense_sums, Dense.plus), weight[component], begin, kept.append)  # fmt: skip
            else:
                halves = []

                def look(choices, theta, halves=halves):
                    return sparse_sums(choices, theta, halves.append)

                def push(way, halves=halves):
                    return sum(half.T @ (half @ way) for half in halves)

                def looked(theta, halves=halves, over=over, look=look):
                    halves.clear()
                    return over(look, Sparse.plus)(theta)

                sums = Sums(looked, push, over(bound_sums, Bound.plus))
                found = newton_fit(sums, weight[component], begin, kept.append)
                assert kept[-1].arrived
            log_pi[items] = found.theta
            loss, error = loss + found.loss, max(error, found.error)
        answers.append((log_pi, loss / samples.total_weight, error))
    return answers


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_luce_fits_in_sums_over_any_division_are_those_of_the_whole(seed, into):
    samples = drawn(seed)
    known = finite_component(build_graph(samples), samples)
    for log_pi, floor, error in fits(samples, divided(samples, into, seed)):
        assert error < 1e-6
        np.testing.assert_allclose(log_pi, known.log_pi, atol=error + known.error)
        np.testing.assert_allclose(floor, known.loss_floor, rtol=1e-12)


def test_three_to_one_is_known_by_hand_whatever_shard_a_choice_is_in():
    # After 0: of 1 and 2, three times 1 and once 2; 3 is below both.
    samples = samples_from_sequences(
        [[1, 2, 3, 0], [1, 2, 0], [1, 1, 2, 0], [1, 2, 0, 0]],
        [1, 1, 2, 1],
        vocabulary=Vocabulary(range(4)),
    )
    # π = (1, x), with counts (2 of 1 against 1 of 2) in the third: d/dx of 3 log(1+x) + log(2+x) − log x is 0.
    x = max(np.roots([3, 4, -2]).real)
    assert 3 / (1 + x) + 1 / (2 + x) - 1 / x == pytest.approx(0, abs=1e-12)
    for into in (1, 2, 4):
        for log_pi, floor, _ in fits(samples, divided(samples, into, 1)):
            assert log_pi[1] - log_pi[2] == pytest.approx(-np.log(x))
            assert floor == pytest.approx((3 * np.log(1 + x) + np.log(2 + x) - np.log(x)) / 4)


def test_a_fit_goes_on_where_it_was_kept_to_the_same_bits():
    samples = drawn(5, rows=200)
    graph = graph_of([samples])
    cyclic = merge_samples(tied_with_label(graph, samples))
    component = int(np.argmax(tied_entries(graph, cyclic)[0]))

    def sums(theta):
        return dense_sums(component_choices(graph, cyclic, component, 1.0), theta)

    n, kept = int((graph.component == component).sum()), []
    whole = careful_fit(sums, 1.0, Keep(np.zeros(n)), kept.append)
    assert len(kept) > 2
    again = careful_fit(sums, 1.0, kept[1], lambda x: None)
    np.testing.assert_array_equal(again.theta, whole.theta)
    assert again[1:] == whole[1:]
