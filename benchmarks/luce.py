"""Luce fits: ours against choix (I-LSR and MM), one component of 100 tokens, 10⁵ choices without repeats."""

from collections.abc import Iterator

import choix
import numpy as np

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import windows_from_ids
from attomaton.mechanics.theory.finite import finite_component
from attomaton.mechanics.theory.graph import build_graph
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
        samples = windows_from_ids(vocabulary, contexts.ravel(), np.full(N, SIZE), winner).samples()
        return build_graph(samples), samples

    build_s, (graph, samples) = best_of(build)
    assert len(graph.level) == 1, "the data must be one component"
    fit_s, found = best_of(lambda: finite_component(graph, samples))
    data = [
        (int(y), tuple(int(x) for x in row if x != y))
        for row, y in zip(contexts, winner, strict=True)
    ]
    mine = np.empty(ITEMS)
    mine[graph.pair_token] = found.log_pi
    reached = gradient(contexts, winner, mine)
    for method in ("ilsr", "mm"):
        say(f"luce: choix {method}")
        fit = getattr(choix, f"{method}_top1")
        choix_s, theta = best_of(lambda fit=fit: fit(ITEMS, data), 1)
        for name, ours in (("fit", fit_s), ("samples, graph and fit", build_s + fit_s)):
            yield Row(
                "luce fit",
                f"choix {method} / our {name} ({N:,} choices, {ITEMS} items)",
                choix_s / ours,
                f"gradient {gradient(contexts, winner, theta):.0e} / {reached:.0e}",
                {"other_s": choix_s, "ours_s": ours},
            )
