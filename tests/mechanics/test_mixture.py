"""Two corpora mixed: orders that survive, orders that turn into ties, and the path back."""

import networkx as nx
import numpy as np
import pytest

from attomaton import build_graph, draw_samples, samples_from_sequences
from attomaton.corpus.windows import windows_from_sequences
from attomaton.mechanics.theory.mixture import mix, mixed
from attomaton.numerics import named_rng


def corpus(seed, name, tokens=7, n=12):
    """A corpus of labels in an order of its own, some of which the other corpus does not have."""
    rng = named_rng(f"mixture, {name}", seed)
    samples = draw_samples(rng, tokens, n, 3, repeats=True)
    words = rng.permutation(tokens + 2)[:tokens]
    rows, labels = [], []
    for i in range(len(samples)):
        bag = samples.bag(i)
        last = samples.vocabulary[samples.last[i]]
        bag[last] -= 1
        rows.append([int(words[x]) for x, m in bag.items() for _ in range(m)] + [int(words[last])])
        labels.append(int(words[samples.vocabulary[samples.label[i]]]))
    return rows, labels, samples.weight.tolist()


def edges(graph):
    rows = graph.to_arrow().to_pylist()
    return sorted((x["last"], x["from"], x["to"], x["weight"]) for x in rows)


def components(graph):
    word, found = graph.vocabulary, {}
    for p, c in enumerate(graph.component):
        pair = (word[graph.pair_last[p]], word[graph.pair_token[p]])
        found.setdefault(int(c), set()).add(pair)
    return sorted(map(sorted, found.values()))


@pytest.mark.parametrize("seed", range(8))
def test_both_together_are_the_data_laid_end_to_end(seed):
    a, b = corpus(seed, "a"), corpus(seed, "b")
    found = mix(samples_from_sequences(*a), samples_from_sequences(*b))
    whole = samples_from_sequences(*(x + y for x, y in zip(a, b, strict=True)))
    assert edges(found.both) == edges(build_graph(whole))
    assert components(found.both) == components(build_graph(whole))
    assert (len(found.samples), found.samples.total_weight) == (len(whole), whole.total_weight)
    assert edges(found.a) == edges(build_graph(samples_from_sequences(*a)))
    assert edges(found.b) == edges(build_graph(samples_from_sequences(*b)))


def by_search(found, one, other):
    """A second implementation: networkx looks for a path back; and the wrong rule, an edge of the other corpus back."""
    turned, contradicted = set(), set()
    for last, i, j, _ in edges(one):
        inside, both = one.to_networkx(last), found.both.to_networkx(last)
        if not nx.has_path(inside, j, i):
            if nx.has_path(both, j, i):
                turned.add((last, i, j))
            if last in other and other[last].has_edge(j, i):
                contradicted.add((last, i, j))
    return turned, contradicted


def test_an_order_turns_exactly_where_a_path_leads_back():
    wrong = 0
    for seed in range(12):
        found = mix(*(samples_from_sequences(*corpus(seed, x, n=30)) for x in "ab"))
        for one, two in ((found.a, found.b), (found.b, found.a)):
            word = one.vocabulary
            names = {word[k]: two.to_networkx(word[k]) for k in two.last_tokens}
            turned, contradicted = by_search(found, one, names)
            told = found.survival(one, 1000)
            assert {(x.last, x.winner, x.loser) for x in told.turned} == turned
            assert told.turn == len(turned)
            assert told.survive + told.turn + told.tied == len(one.edge_from)
            wrong += turned != contradicted
            for x in told.turned:
                assert [x.path[0].winner, x.path[-1].loser] == [x.loser, x.winner]
                assert any(step.own == 0 and step.other > 0 for step in x.path)
                assert all(step.own + step.other > 0 for step in x.path)
    assert wrong, "an edge back for a path back would not be seen"


def test_by_hand():
    """A: tea over cake over pie after bell. B: pie over tea, by a token that A does not have."""
    a = samples_from_sequences(
        [["tea", "cake", "bell"], ["cake", "pie", "bell"]], ["tea", "cake"], [3, 2]
    )
    b = samples_from_sequences([["pie", "jam", "bell"], ["jam", "tea", "bell"]], ["pie", "jam"])
    m = mixed(a, b, ("A", "B"), 10)
    assert (m.common_tokens, m.a.only, m.b.only) == (3, ("cake",), ("jam",))
    assert (m.a.orders.strict, m.a.orders.survive, m.a.orders.turn) == (4, 2, 2)
    first, second = m.a.orders.turned
    assert (first.winner, first.loser, first.weight) == ("tea", "cake", 3)
    steps = [(x.winner, x.loser, x.own, x.other) for x in first.path]
    assert steps == [("cake", "pie", 2, 0), ("pie", "jam", 0, 1), ("jam", "tea", 0, 1)]
    assert [(x.winner, x.loser) for x in second.path] == [
        ("pie", "jam"),
        ("jam", "tea"),
        ("tea", "cake"),
    ]
    assert (m.components, m.largest_component) == (1, 4)
    assert [(x.last, x.strict, x.turn) for x in m.a.orders.by_last] == [("bell", 4, 2)]


def test_a_corpus_mixed_with_itself_keeps_all_and_the_order_of_the_two_does_not_matter():
    a, b = (samples_from_sequences(*corpus(3, x, n=30)) for x in "ab")
    assert mixed(a, a, ("A", "A"), 3).a.orders.turn == 0
    one, two = mixed(a, b, ("A", "B"), 0), mixed(b, a, ("B", "A"), 0)
    assert (one.a, one.b, one.components) == (two.b, two.a, two.components)


def test_numbers_and_words_are_two_tokens():
    rows = (
        windows_from_sequences([[1, 2]], [1]).samples(),
        windows_from_sequences([["1", "2"]], ["1"]).samples(),
    )
    found = mix(*rows)
    assert found.only_a == (1, 2)
    assert found.only_b == ("1", "2")
    assert np.array_equal(found.both.edge_weight, [1, 1])
