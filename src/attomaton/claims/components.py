"""Figures 11 and 12 of Mechanics: how many components n samples leave, and how many dimensions retrieval needs."""

from typing import Any

import numpy as np
from jaxtyping import Int

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.mechanics.synthetic import unit_embeddings
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.mechanics.theory.retrieval import over_draws, retrieval
from attomaton.numerics import named_rng
from attomaton.results import Verdict

K_11, T_11, N_11 = 10_000, 64, (10, 100, 1_000, 10_000, 100_000)
PUBLISHED_11 = {
    1_000: (9_055, 40),
    10_000: (3_701, 60),
}  # components, and how far a mean may be off
K_12, T_12, N_12, D_12 = 512, 128, 16, (2, 4, 8, 12, 16, 32, 512)
PUBLISHED_12 = {2: 0.46, 8: 0.96, 32: 1.0, 512: 1.0}


def fig11(seeds: int = 5) -> dict[str, Any]:
    r"""The number of strongly connected components of one last token's graph against the number of samples.

    Once contexts connect everything, a token stands alone as long as it never was a label: $1 + K e^{-n/K}$. Of the
    largest data one draw says enough. Control: contexts of two tokens, where one win does not close a cycle.
    """
    rows: list[dict[str, float]] = []
    for n in N_11:
        draws = range(seeds if n < N_11[-1] else 1)
        found = [_components(named_rng(f"fig11 {n}", i), n, T_11) for i in draws]
        pairs = [_components(named_rng(f"fig11 control {n}", i), n, 2) for i in draws]
        rows.append(
            {"n": n, "components": float(np.mean(found)), "error": _error(found),
             "theory": 1 + K_11 * float(np.exp(-n / K_11)), "pairs": float(np.mean(pairs))}
        )  # fmt: skip
    return {
        "title": "Components against samples",
        "rows": rows,
        "verdict": _judged(_as_published([row["components"] for row in rows])),
        "control": _judged(_as_published([row["pairs"] for row in rows])),
    }


def _as_published(means: list[float]) -> bool:
    counted = dict(zip(N_11, means, strict=True))
    return all(abs(counted[n] - value) <= off for n, (value, off) in PUBLISHED_11.items())


def _components(rng: np.random.Generator, n: int, T: int) -> int:
    X = rng.integers(0, K_11, (n, T))
    X[:, -1] = 0  # one last token
    graph = build_graph(samples_from_sequences(X, _labels(rng, X)))
    return K_11 - len(graph.pair_last) + len(graph.level)  # tokens that never occur stand alone


def _labels(rng: np.random.Generator, X: Int[np.ndarray, "n T"]) -> Int[np.ndarray, " n"]:
    return X[np.arange(len(X)), rng.integers(0, X.shape[1], len(X))]


def fig12(seeds: int = 3) -> dict[str, Any]:
    """The mass that the limit leaves on the label's component of the graph, against the dimension.

    With a dimension for each token it is 1; with few, linear ties mix in tokens that the data never tied. Control: the
    same at 4 dimensions.
    """
    rows: list[dict[str, float | None]] = []
    mass: list[float] = []
    for d in D_12:
        found = []
        for i in range(seeds):
            rng = named_rng("fig12", i)
            X = rng.integers(0, K_12, (N_12, T_12))
            samples = samples_from_sequences(X, _labels(rng, X), vocabulary=Vocabulary(range(K_12)))
            found.append(retrieval(solve_limit(samples, unit_embeddings(rng, K_12, d))))
        row = over_draws(d, found, 0.0)
        mass.append(row.selected.mean)
        rows.append(
            {"d": d, "selected": mass[-1], "error": _error([one.selected for one in found]),
             "strict": row.strict.mean, "loss_floor": row.loss_floor.mean,
             "published": PUBLISHED_12.get(d)}
        )  # fmt: skip
    few = mass[D_12.index(4)]
    return {
        "title": "How many dimensions does hard retrieval need?",
        "rows": rows,
        "verdict": _judged(bool((np.diff(mass) >= -1e-12).all()) and mass[-1] >= 1 - 1e-12),
        "control": _judged(few >= 1 - 1e-12),
    }


def _error(values: list[Any]) -> float:
    """The standard error of a mean, 0 of a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _judged(holds: bool) -> str:
    return (Verdict.HOLDS if holds else Verdict.FAILS).value
