"""The embedded example shows what its page says it shows."""

import json
from collections import Counter
from fractions import Fraction
from importlib.resources import files

import networkx as nx
import pytest

from attomaton.corpus.example import example_samples

ROWS = [
    json.loads(line)
    for line in (files("attomaton.corpus") / "example.jsonl").read_text("utf-8").splitlines()
]


@pytest.fixture(scope="module")
def graphs():
    """Priority graphs straight from their definition and from the file's rows."""
    graph = {}
    for row in ROWS:
        if row["next"] in row["tokens"]:
            g = graph.setdefault(row["tokens"][-1], nx.DiGraph())
            g.add_edges_from((row["next"], x) for x in row["tokens"] if x != row["next"])
    return graph


def components(graph):
    """The priority order: a graph whose nodes are the sets of tied tokens."""
    dag = nx.condensation(graph)
    return nx.relabel_nodes(dag, {i: frozenset(dag.nodes[i]["members"]) for i in dag})


def odds(last, tied):
    """Label counts of each restricted context: {counts of tied tokens: Counter of labels}."""
    seen = {}
    for row in ROWS:
        if row["tokens"][-1] == last and row["next"] in tied:
            bag = Counter(x for x in row["tokens"] if x in tied)
            if len(bag) > 1:
                seen.setdefault(frozenset(bag.items()), Counter())[row["next"]] += 1
    return seen


def is_luce(seen, strength):
    """Whether every context's label shares are exactly m_x π_x / Σ: then π is the Luce MLE."""
    for bag, wins in seen.items():
        whole = sum(m * strength[x] for x, m in bag)
        for x, m in bag:
            if Fraction(wins[x], wins.total()) != Fraction(m * strength[x], whole):
                return False
    return True


def test_it_is_small_enough_to_read():
    s = example_samples()
    assert (len(ROWS), len(s), s.windows, s.rows.sum()) == (41, 26, 41, 39)
    assert len(s.vocabulary) == 12
    assert all(3 <= len(row["tokens"]) <= 6 for row in ROWS)
    assert all(x.isalpha() for x in s.vocabulary)


def test_three_last_tokens():
    s = example_samples()
    assert {s.vocabulary[q] for q in s.last} == {"bell", "phone", "guest"}


def test_two_rows_are_set_aside():
    s = example_samples()
    assert (s.set_aside.rows, s.set_aside.weight) == (2, 2.0)
    assert s.set_aside.examples == (
        "line 40: label 'espresso', tokens ['tea', 'cake', 'bell']",
        "line 41: label 'phone', tokens ['floor', 'dishes', 'guest']",
    )


def test_some_rows_repeat_and_some_differ_only_in_order():
    s = example_samples()
    assert s.rows.max() == 6
    lists = Counter((tuple(row["tokens"]), row["next"]) for row in ROWS)
    assert max(lists.values()) > 1
    assert len(lists) > len(s) + s.set_aside.rows


def test_bell_is_hard_with_a_chain_of_five(graphs):
    assert nx.is_directed_acyclic_graph(graphs["bell"])
    assert nx.dag_longest_path(graphs["bell"]) == ["espresso", "soup", "toast", "cake", "bell"]


def test_bell_leaves_tea_unrelated_to_the_other_hot_things(graphs):
    g = graphs["bell"]
    for other in ("espresso", "soup", "toast"):
        assert not nx.has_path(g, "tea", other)
        assert not nx.has_path(g, other, "tea")
    assert nx.has_path(g, "tea", "cake")


def test_phone_is_soft_at_odds_of_three_to_one(graphs):
    assert nx.is_strongly_connected(graphs["phone"])
    seen = odds("phone", set(graphs["phone"]))
    assert {tuple(sorted(bag)): dict(wins) for bag, wins in seen.items()} == {
        (("dishes", 1), ("phone", 2)): {"phone": 6, "dishes": 1},
        (("dishes", 2), ("phone", 1)): {"phone": 3, "dishes": 2},
    }
    assert is_luce(seen, {"phone": 3, "dishes": 1})
    assert not is_luce(seen, {"phone": 2, "dishes": 1})


def test_guest_is_mixed_a_tied_group_above_the_chores(graphs):
    dag = components(graphs["guest"])
    top, dishes, floor = frozenset({"guest", "order", "bill"}), {"dishes"}, {"floor"}
    assert set(dag) == {top, frozenset(dishes), frozenset(floor)}
    assert set(dag.edges) == {(top, frozenset(dishes)), (top, frozenset(floor))}
    seen = odds("guest", top)
    assert is_luce(seen, {"guest": 2, "order": 2, "bill": 1})
    assert not is_luce(seen, {"guest": 1, "order": 1, "bill": 1})
