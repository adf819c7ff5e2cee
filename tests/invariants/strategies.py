"""What invariants are tested on: small data sets, orders of things, embeddings, sequence classes.

All drawn values are plain (numbers, strings, lists, `Raw`), so that an example can be kept as JSON; what needs an array
is made from them here.
"""

from collections.abc import Iterable

import numpy as np
from hypothesis import strategies as st
from tests.oracle import Raw, unit_rows

from attomaton.mechanics.data import Embeddings, check_embeddings
from attomaton.mechanics.theory.graph import PriorityGraph, build_graph
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.scan_snap.data import SequenceClasses, sequence_classes

WEIGHTS = (1.0, 2.0, 5.0, 0.5)
MOST_TOKENS, MOST_ROWS, LONGEST = 6, 10, 5
BYTES = LONGEST + 3  # length, last token, label, weight, and the tokens before the last
LEAST_ROWS = 4  # fewer seldom make a cycle, and what is drawn should

seeds = st.integers(0, 2**32 - 1)


@st.composite
def data(draw: st.DrawFn, weighted: bool = True, lasts: int = 3) -> Raw:
    """4 to 10 samples over 2 to 6 tokens, of up to 5 tokens each, repeats and weights included.

    Last tokens are among the first `lasts`: the fewer, the more samples meet in one graph. A sample is drawn as some
    bytes, which is far quicker than token by token and shrinks to short contexts of small tokens.
    """
    K = draw(st.integers(2, MOST_TOKENS))
    code = draw(st.binary(min_size=LEAST_ROWS * BYTES, max_size=MOST_ROWS * BYTES))
    samples = [
        _decoded(code[at : at + BYTES], K, min(lasts, K))
        for at in range(0, len(code) - BYTES + 1, BYTES)
    ]
    rows, labels, weights = zip(*samples, strict=True)
    return Raw(K, rows, labels, weights if weighted else (1.0,) * len(rows))


def _decoded(code: bytes, K: int, lasts: int) -> tuple[tuple[int, ...], int, float]:
    """The context, label and weight that some bytes stand for."""
    length, last, label, weight, *head = code
    row = (*(x % K for x in head[: length % LONGEST]), last % lasts)
    return row, row[label % len(row)], WEIGHTS[weight % len(WEIGHTS)]


def contexts(K: int = MOST_TOKENS) -> st.SearchStrategy[list[int]]:
    """A context to predict from, tokens never seen included."""
    return st.lists(st.integers(0, K - 1), min_size=1, max_size=LONGEST)


# From drawn values to what is tested


def shuffled(seed: int, n: int) -> np.ndarray:
    """A permutation of n things."""
    return np.random.default_rng(seed).permutation(n)


def pick(raw: Raw, order: Iterable[int]) -> Raw:
    """The samples with these indices, in this order."""
    at = [int(i) for i in order]
    parts = (tuple(column[i] for i in at) for column in (raw.rows, raw.labels, raw.weights))
    return Raw(raw.K, *parts)


def with_weights(raw: Raw, weights: Iterable[float]) -> Raw:
    """The same samples, weighed otherwise."""
    return Raw(raw.K, raw.rows, raw.labels, tuple(map(float, weights)))


def graph_of(raw: Raw) -> PriorityGraph:
    """The priority graphs of a data set."""
    return build_graph(raw.samples())


def solved(raw: Raw, E: np.ndarray | None = None) -> Limit:
    """The limit of training on a data set."""
    return solve_limit(raw.samples(), None if E is None else check_embeddings(E))


def embeddings(seed: int, K: int) -> np.ndarray:
    """Random unit vectors, not too close to dependent: tolerances are for condition ≤ 30."""
    rng = np.random.default_rng(seed)
    while True:
        E = unit_rows(rng, K, K + 1)
        if np.linalg.cond(E) < 30:
            return E


def rotation(seed: int, d: int) -> np.ndarray:
    """A random orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def table(graph: PriorityGraph, value: np.ndarray) -> np.ndarray:
    """Values on pairs as a matrix [last, token], 0 where a pair does not occur."""
    K = len(graph.vocabulary)
    full = np.zeros((K, K))
    full[graph.pair_last, graph.pair_token] = value
    return full


def checked(E: np.ndarray | None) -> Embeddings | None:
    """Embeddings as the rooms take them."""
    return None if E is None else check_embeddings(E)


# The priority order by brute force


def closure(raw: Raw) -> np.ndarray:
    """`reach[q, i, j]`: whether a path of one or more edges leads from i to j in the graph of q (Warshall)."""
    reach = np.zeros((raw.K, raw.K, raw.K), bool)
    for row, y, _ in raw:
        for x in set(row) - {y}:
            reach[row[-1], y, x] = True
    for k in range(raw.K):
        reach |= reach[:, :, k, None] & reach[:, None, k, :]
    return reach


def priorities(raw: Raw) -> tuple[np.ndarray, np.ndarray]:
    """`tied[q, i, j]` for i ≠ j in one component, and `above[q, i, j]` where i outranks j."""
    reach = closure(raw)
    back = reach.transpose(0, 2, 1)
    return reach & back & ~np.eye(raw.K, dtype=bool), reach & ~back


# Sequence classes


@st.composite
def laws(draw: st.DrawFn, K: int | None = None, L: int = 5) -> list[list[int]]:
    """Weights of L context tokens in each of 2 to 4 classes; every class has a token."""
    classes = draw(st.integers(2, 4)) if K is None else K
    row = st.lists(st.integers(0, 4), min_size=L, max_size=L).filter(any)
    return draw(st.lists(row, min_size=classes, max_size=classes))


def classes_of(weights: list[list[int]], queries: int = 1) -> SequenceClasses:
    """Classes with these laws, class n asked by query n mod `queries`, each with its own next token."""
    P = np.array(weights, float)
    K, L = P.shape
    P = np.hstack([P / P.sum(axis=1, keepdims=True), np.zeros((K, queries + K))])
    return sequence_classes(P, L + np.arange(K) % queries, L + queries + np.arange(K))


def attention_logits(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random logits."""
    return np.random.default_rng(seed).normal(size=shape)
