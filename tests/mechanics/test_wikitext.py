"""WikiText-2's validation text, contexts of 16 tokens: known counts and the exact loss floor."""

from collections import Counter
from itertools import pairwise
from math import exp, log

import networkx as nx
import numpy as np
import pytest

from attomaton.corpus.readers import read_samples
from attomaton.mechanics.theory.finite import luce_loss
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.mechanics.theory.norms import norm_limit

COUNTS = {
    "tokens": 217_646,
    "vocab": 13_777,
    "windows": 217_630,
    "samples": 44_722,
    "last_tokens": 7_251,
    "pairs": 310_109,
    "edges": 389_460,
    "components": 306_276,
    "cyclic_components": 1_131,
    "pairs_in_cyclic": 4_964,
    "largest_component": 209,
    "cyclic_samples": 26_452,
}
LOSS_FLOOR = 0.5032687881680581


@pytest.fixture(scope="module")
def limit(wikitext) -> Limit:
    return solve_limit(read_samples(wikitext / "valid.txt", context=16))


def plain_loss(limit: Limit, log_pi: np.ndarray) -> float:
    """The mean loss of the cyclic data at log π, sample by sample and without merging them again."""
    samples, graph = limit.samples, limit.graph
    component, total = graph.component, 0.0
    pair = graph.pairs(samples.last[samples.sample_of], samples.token)
    winner = graph.pairs(samples.last, samples.label)
    for i in range(len(samples)):
        inside = [
            (p, m)
            for p, m in zip(
                pair[samples.start[i] : samples.start[i + 1]],
                samples.count[samples.start[i] : samples.start[i + 1]],
                strict=True,
            )
            if component[p] == component[winner[i]]
        ]
        if len(inside) > 1:
            mass = {p: m * exp(log_pi[p]) for p, m in inside}
            total -= samples.weight[i] * log(mass[winner[i]] / sum(mass.values()))
    return total / samples.total_weight


def test_standard_errors_are_those_of_a_dense_inverse(limit):
    errors = limit.standard_errors()
    se, choices = errors._all[0], errors.choices
    p = luce_loss(choices, errors.theta).p
    first = np.flatnonzero(np.diff(choices.group, prepend=-1, append=-1))
    of = choices.group_of_choice
    for g in [*range(0, len(first) - 1, 40), int(np.argmax(np.diff(first)))]:
        P = np.zeros(((of == g).sum(), first[g + 1] - first[g]))
        row = np.cumsum(of == g) - 1
        inside = of[choices.choice_of] == g
        P[row[choices.choice_of[inside]], choices.item[inside] - first[g]] = p[inside]
        w = choices.weight[of == g]
        V = np.linalg.pinv(np.diag(w @ P) - P.T @ (w[:, None] * P), hermitian=True)
        np.testing.assert_allclose(se[first[g] : first[g + 1]], np.sqrt(np.diag(V)), rtol=1e-8)
    assert len(se) == COUNTS["pairs_in_cyclic"]
    assert np.isfinite(se).all()


def test_counts(limit):
    summary = limit.summary()
    assert {name: getattr(summary, name) for name in COUNTS} == COUNTS


def test_loss_floor_and_certificates(limit):
    # The floor is flat to first order: a gradient of 1e-11 leaves an error far below 1e-12.
    assert limit.finite.loss_floor == pytest.approx(LOSS_FLOOR, rel=0, abs=1e-12)
    assert limit.finite.gradient <= 1e-11
    assert limit.svm.certificate.worst <= 1e-9


def test_loss_floor_by_a_plain_loop(limit):
    # 26,452 terms of order 1, summed in another order: rounding stays below 1e-12.
    assert plain_loss(limit, limit.finite.log_pi) == pytest.approx(LOSS_FLOOR, rel=0, abs=1e-12)


def test_control_other_odds_cost_more(limit):
    rng = np.random.default_rng(0)
    shaken = limit.finite.log_pi + 1e-3 * rng.standard_normal(len(limit.finite.log_pi))
    assert plain_loss(limit, shaken) > LOSS_FLOOR + 1e-8


def test_components_of_a_second_algorithm(limit):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(limit.graph.pair_last)))
    graph.add_edges_from(
        zip(limit.graph.edge_from.tolist(), limit.graph.edge_to.tolist(), strict=True)
    )
    sizes = Counter(map(len, nx.strongly_connected_components(graph)))
    assert sizes == Counter(limit.graph.component_size.tolist())


def test_the_longest_chain_is_the_max_norm(limit):
    """By another algorithm: the longest path of the condensation, and every step of the chain outranks the next."""
    found = norm_limit(limit.graph, limit.samples, None, "max")
    dag = nx.DiGraph(zip(*(x.tolist() for x in limit.graph.dag), strict=True))
    assert 2 * found.value == nx.dag_longest_path_length(dag, weight=None, default_weight=1) == 6
    assert found.certificate.worst == 0.0
    for i, j in pairwise(found.chain.tokens):
        assert limit.graph.outranks(found.chain.last, i, j)
