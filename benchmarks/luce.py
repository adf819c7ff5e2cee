"""Luce fits: ours against choix (I-LSR), one component of 100 tokens, 10⁵ choices without repeats."""

from collections.abc import Iterator

import choix
import numpy as np

from attomaton.corpus.samples import samples_from_ids
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.mechanics.finite import finite_component
from attomaton.mechanics.graph import build_graph
from benchmarks.table import Row, best_of, say

ITEMS, N, SIZE = 100, 100_000, 5


def draw() -> tuple[np.ndarray, np.ndarray]:
    """Contexts of five different tokens, the last one always 0, and winners of a Luce law."""
    rng = np.random.default_rng(0)
    theta = rng.standard_normal(ITEMS)
    others = rng.random((N, ITEMS - 1)).argpartition(SIZE - 1, axis=1)[:, : SIZE - 1] + 1
    contexts = np.column_stack([others, np.zeros(N, int)])
    chosen = (theta[contexts] + rng.gumbel(size=contexts.shape)).argmax(axis=1)
    return contexts, contexts[np.arange(N), chosen]


def gradient(contexts: np.ndarray, winner: np.ndarray, theta: np.ndarray) -> float:
    """The largest entry of the mean loss's gradient: one yardstick for both."""
    e = np.exp(theta[contexts])
    p = e / e.sum(1, keepdims=True)
    push = np.bincount(contexts.ravel(), p.ravel(), ITEMS) - np.bincount(winner, minlength=ITEMS)
    return float(np.abs(push).max() / N)


def rows() -> Iterator[Row]:
    contexts, winner = draw()
    say("luce: ours")

    def build():
        vocabulary = Vocabulary(range(ITEMS))
        samples = samples_from_ids(vocabulary, contexts.ravel(), np.full(N, SIZE), winner)
        return build_graph(samples), samples

    build_s, (graph, samples) = best_of(build)
    assert len(graph.level) == 1, "the data must be one component"
    fit_s, found = best_of(lambda: finite_component(graph, samples))
    say("luce: choix")
    data = [
        (int(y), tuple(int(x) for x in row if x != y))
        for row, y in zip(contexts, winner, strict=True)
    ]
    choix_s, theta = best_of(lambda: choix.ilsr_top1(ITEMS, data), 1)
    mine = np.empty(ITEMS)
    mine[graph.pair_token] = found.log_pi
    quality = (
        f"gradient {gradient(contexts, winner, theta):.0e} / {gradient(contexts, winner, mine):.0e}"
    )
    for name, ours in (("fit", fit_s), ("samples, graph and fit", build_s + fit_s)):
        yield Row(
            "luce fit",
            f"choix I-LSR / our {name} ({N:,} choices, {ITEMS} items)",
            choix_s / ours,
            quality,
            {"other_s": choix_s, "ours_s": ours},
        )
