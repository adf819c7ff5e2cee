"""Figures 11 and 12 of Mechanics: how many components n samples leave, and how many dimensions retrieval needs."""

from typing import Any

import numpy as np

from attomaton.base.shapes import Int
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.mechanics.synthetic import unit_embeddings
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.mechanics.theory.retrieval import over_draws, retrieval
from attomaton.numerics import named_rng
from attomaton.results import Result, Verdict

K_11, T_11, N_11 = 10_000, 64, (10, 100, 1_000, 10_000, 100_000)
# Components, and how far a mean may be off
PUBLISHED_11 = {1_000: (9_055, 40), 10_000: (3_701, 60)}
K_12, T_12, N_12, D_12 = 512, 128, 16, (2, 4, 8, 12, 16, 32, 512)
PUBLISHED_12 = {2: 0.46, 8: 0.96, 32: 1.0, 512: 1.0}


def fig11(seeds: int = 5, K: int = K_11, T: int = T_11, n: tuple[int, ...] = N_11) -> Result:
    r"""The number of strongly connected components of one last token's graph against the number of samples.

    Once contexts connect everything, a token stands alone as long as it never was a label: $1 + K e^{-n/K}$. Of the
    largest data one draw says enough. Control: contexts of two tokens, where one win does not close a cycle.
    """
    rows: list[dict[str, float | int]] = []
    for some in n:
        draws = range(seeds if some < N_11[-1] else 1)
        found = [_components(named_rng(f"fig11 {some}", i), some, T, K) for i in draws]
        pairs = [_components(named_rng(f"fig11 control {some}", i), some, 2, K) for i in draws]
        rows.append(
            {"n": some, "components": float(np.mean(found)), "error": _error(found),
             "theory": 1 + K * float(np.exp(-some / K)), "pairs": float(np.mean(pairs))}
        )  # fmt: skip
    return {
        "title": "Components against samples",
        "rows": rows,
        "verdict": Verdict.of(_as_published(rows, "components")).value,
        "control": Verdict.of(_as_published(rows, "pairs")).value,
    }


def _as_published(rows: list[dict[str, float | int]], name: str) -> bool:
    told = [(row[name], PUBLISHED_11[int(row["n"])]) for row in rows if row["n"] in PUBLISHED_11]
    return all(abs(mean - value) <= off for mean, (value, off) in told)


def _components(rng: np.random.Generator, n: int, T: int, K: int = K_11) -> int:
    X = rng.integers(0, K, (n, T))
    X[:, -1] = 0  # one last token
    graph = build_graph(samples_from_sequences(X, _labels(rng, X)))
    return K - len(graph.pair_last) + len(graph.level)  # tokens that never occur stand alone


def _labels(rng: np.random.Generator, X: Int[np.ndarray, "n T"]) -> Int[np.ndarray, " n"]:
    return X[np.arange(len(X)), rng.integers(0, X.shape[1], len(X))]


def fig12(
    seeds: int = 3, K: int = K_12, T: int = T_12, n: int = N_12, d: tuple[int, ...] = D_12
) -> Result:
    """The mass that the limit leaves on the label's component of the graph, against the dimension.

    With a dimension for each token it is 1; with few, linear ties mix in tokens that the data never tied. Control: the
    same at 4 dimensions.
    """
    rows: list[dict[str, float | None]] = []
    mass: list[float] = []
    for width in d:
        found = []
        for i in range(seeds):
            rng = named_rng("fig12", i)
            X = rng.integers(0, K, (n, T))
            samples = samples_from_sequences(X, _labels(rng, X), vocabulary=Vocabulary(range(K)))
            found.append(retrieval(solve_limit(samples, unit_embeddings(rng, K, width))))
        row = over_draws(width, found, 0.0)
        mass.append(row.selected.mean)
        rows.append(
            {"d": width, "selected": mass[-1], "error": _error([one.selected for one in found]),
             "strict": row.strict.mean, "loss_floor": row.loss_floor.mean,
             "published": PUBLISHED_12.get(width)}
        )  # fmt: skip
    few = mass[d.index(4)] if 4 in d else 0.0
    return {
        "title": "How many dimensions does hard retrieval need?",
        "rows": rows,
        "verdict": Verdict.of((np.diff(mass) >= -1e-12).all() and mass[-1] >= 1 - 1e-12).value,
        "control": Verdict.of(few >= 1 - 1e-12).value,
    }


def _error(values: list[Any]) -> float:
    """The standard error of a mean, 0 of a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
