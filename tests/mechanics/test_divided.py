"""The limit of a last token in shards: unions, maxima and sums over any division are those of all samples at once."""

import os
import subprocess
import sys
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attomaton.corpus.samples import merge_samples
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.mechanics.theory import divided as theory
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
    edges = [theory.shard_edges(s) for s in shards]
    group = theory.tied_groups(len(shards[0].vocabulary), lambda: edges, most)
    return theory.condensed_graph(shards[0].vocabulary, LAST, group, lambda: edges)


@given(st.integers(0, 10**6), st.integers(1, 7), st.sampled_from([1, 5, 1 << 20]))
def test_any_division_has_the_graph_of_the_whole(seed, into, most):
    samples = drawn(seed)
    whole, found = build_graph(samples), graph_of(divided(samples, into, seed), most)
    for name in ("pair_last", "pair_token", "component", "level", "dag_key"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))


@given(st.integers(0, 10**6), st.integers(1, 7), st.sampled_from([1, 5, 1 << 20]))
def test_outlines_of_shards_have_the_graph_of_all_their_edges(seed, into, most):
    samples = drawn(seed, words=9 + seed % 20)
    K = len(samples.vocabulary)
    edges = [theory.shard_edges(s) for s in divided(samples, into, seed)]
    short = [theory.outline(x, K) for x in edges]
    graphs = []
    for shards in (edges, short):
        group = theory.tied_groups(K, lambda shards=shards: shards, most)
        graphs.append(
            theory.condensed_graph(samples.vocabulary, LAST, group, lambda shards=shards: shards)
        )
    for name in ("pair_last", "pair_token", "component", "level", "edge_from", "edge_to"):
        np.testing.assert_array_equal(getattr(graphs[0], name), getattr(graphs[1], name))


def test_the_outline_of_what_is_tied_is_a_star_by_hand():
    # 1, 2 and 3 go round; all lead to 7, the second to 8 as well; 5 leads to 1.
    ways = [(1, 2), (1, 7), (2, 3), (2, 7), (2, 8), (3, 1), (3, 7), (5, 1)]
    label, token = np.array(ways, np.int64).T
    found = theory.outline(theory.Edges(label, token, np.arange(8.0)), 9)
    assert list(zip(*(x.tolist() for x in found), strict=True)) == [
        (1, 2, 0.0), (1, 3, 0.0), (1, 7, 1.0), (2, 1, 0.0), (2, 8, 4.0), (3, 1, 0.0), (5, 1, 7.0)
    ]  # fmt: skip


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 30))
def test_pieces_hold_every_tie_once_and_ties_are_the_samples_they_were(seed, into, most):
    samples = drawn(seed, rows=90)
    shards = divided(samples, into, seed)
    graph = graph_of(shards)
    for shard in shards:
        ties, cyclic = ties_in(graph, shard), merge_samples(tied_with_label(graph, shard))
        assert ties.entries.sum() == len(cyclic.token)
        for i, entries in enumerate(ties.entries.tolist()):
            cuts = ties.pieces(i, most)
            assert len(cuts) == theory.pieces_of(entries, most) + 1
            assert cuts[[0, -1]].tolist() == ties.first[i : i + 2].tolist()
            longest = np.diff(ties.start).max()
            assert (np.diff(ties.start[cuts]) < most + longest).all()
        back = theory.tied_samples(graph, ties, np.arange(len(graph.level)))
        again = back.take(np.lexsort((back.source, back.label, back.last)))
        for name in ("last", "label", "weight", "start", "token", "count", "rows", "source"):
            np.testing.assert_array_equal(getattr(again, name), getattr(cyclic, name))


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
    svm, known = graph_svm(graph, theory.as_samples(graph)), graph_svm(whole, samples)
    np.testing.assert_allclose(svm.score, known.score, atol=1e-9)
    score = svm.score + named_rng("off", seed).normal(size=len(svm.score))
    worst = max(theory.worst_margin(graph, score, theory.shard_edges(s)) for s in shards)
    assert worst == violation(whole, samples, score)
    edges = theory.united([theory.shard_edges(s) for s in shards], len(samples.vocabulary))
    np.testing.assert_array_equal(whole.pair_token[whole.edge_from], edges.label)
    np.testing.assert_array_equal(whole.pair_token[whole.edge_to], edges.token)
    np.testing.assert_allclose(whole.edge_weight, edges.weight)
    carried = theory.edge_multipliers(graph, svm.multiplier, edges)
    # Each multiplier lies on one edge, the first between its two components.
    assert np.isclose(carried.sum(), svm.multiplier.sum())
    a, b = whole.component[whole.edge_from], whole.component[whole.edge_to]
    between = np.flatnonzero(a != b)
    first = np.unique((a * len(whole.level) + b)[between], return_index=True)[1]
    np.testing.assert_array_equal(carried[between[first]], svm.multiplier)


def ties_in(graph, samples):
    return theory.ties_of(graph, merge_samples(tied_with_label(graph, samples)))


def pieces_in(ties, component, most):
    """The pieces of about `most` entries of one component in several shards: ties, and the rows of each."""
    for x in ties:
        for i in np.flatnonzero(x.component == component).tolist():
            yield from ((x, range(a, b)) for a, b in pairwise(x.pieces(i, most).tolist()))


def fits(samples, shards, most=7):
    """Every component of the whole, fitted in sums over shards both ways; log π, loss and the worst bound of each."""
    graph = graph_of(shards)
    ties = [ties_in(graph, s) for s in shards]
    weight = np.zeros(len(graph.level))
    for x in ties:
        weight[x.component] += x.weights
    answers = []
    for careful in (True, False):
        log_pi, loss, error = np.zeros(len(graph.pair_last)), 0.0, 0.0
        for component in np.flatnonzero(weight).tolist():
            items = np.flatnonzero(graph.component == component)
            pieces = list(pieces_in(ties, component, most))

            def over(work, add, pieces=pieces, items=items):
                def of(piece):
                    return theory.some_choices(*piece, len(items), 1.0)

                return lambda x: reduce(add, (work(of(piece), x) for piece in pieces))

            kept = []
            begin = theory.Keep(np.zeros(len(items)))
            if careful:
                dense = over(theory.dense_sums, theory.Dense.plus)
                found = theory.careful_fit(dense, weight[component], begin, kept.append)
            else:
                halves = []

                def look(choices, theta, halves=halves):
                    own = []
                    halves.append(own)
                    return theory.sparse_sums(choices, theta, lambda half: own.append(half.data))

                def push(way, halves=halves, pieces=pieces):
                    data = [np.concatenate([np.zeros(0), *own]) for own in halves]
                    return sum(
                        theory.hessian_product(*piece, half, way)
                        for piece, half in zip(pieces, data, strict=True)
                    )

                def looked(theta, halves=halves, over=over, look=look):
                    halves.clear()
                    return over(look, theory.Sparse.plus)(theta)

                sums = theory.Sums(looked, push, over(theory.bound_sums, theory.Bound.plus))
                found = theory.newton_fit(sums, weight[component], begin, kept.append)
                assert kept[-1].arrived
            log_pi[items] = found.theta
            loss, error = loss + found.loss, max(error, found.error)
        answers.append((log_pi, loss / samples.total_weight, error))
    return answers


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans())
def test_luce_fits_in_sums_over_any_division_are_those_of_the_whole(seed, into, small):
    samples = drawn(seed)
    known = finite_component(build_graph(samples), samples)
    with pytest.MonkeyPatch.context() as patched:
        if small:  # several blocks to a piece, several forests to a bound
            patched.setattr(theory, "BLOCK", 3)
            patched.setattr(theory, "HELD", 0)
        found = fits(samples, divided(samples, into, seed), most=40 if small else 7)
    for log_pi, floor, error in found:
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
    ties = ties_in(graph, samples)
    i = int(np.argmax(ties.entries))
    component, rows = int(ties.component[i]), range(*ties.first[i : i + 2].tolist())

    def sums(theta):
        return theory.dense_sums(theory.some_choices(ties, rows, len(theta), 1.0), theta)

    n, kept = int((graph.component == component).sum()), []
    whole = theory.careful_fit(sums, 1.0, theory.Keep(np.zeros(n)), kept.append)
    assert len(kept) > 2
    again = theory.careful_fit(sums, 1.0, kept[1], lambda x: None)
    np.testing.assert_array_equal(again.theta, whole.theta)
    assert again[1:] == whole[1:]


def test_a_large_step_is_the_same_however_many_threads_there_are():
    # BLAS cuts products of more than 10,000 numbers among its threads.
    code = (
        "import numpy as np\n"
        "from attomaton.mechanics.theory.finite import conjugate_gradients\n"
        "rng = np.random.default_rng(0)\n"
        "g, diagonal = rng.normal(size=20_000), rng.uniform(1, 9, 20_000)\n"
        "x = conjugate_gradients(lambda way: 0.3 * np.roll(way, 1) + 0.3 * np.roll(way, -1), diagonal, g, 1e9)\n"
        "print(x.tobytes().hex())\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OPENBLAS_NUM_THREADS": str(threads)},
            capture_output=True,
            check=True,
        ).stdout
        for threads in (1, 2)
    }
    assert len(said) == 1
