"""Random data sets for tests and claims: drawn at large, or from a planted priority order.

Tokens are the integers 0 … K−1. All randomness comes from the generator that is handed in, so a
seed names a data set.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.corpus.samples import Samples
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import windows_from_ids
from attomaton.errors import AssumptionError, DataError, UsageError, listed, whole_number
from attomaton.mechanics.data import BLOCK, Embeddings, row_lengths
from attomaton.numerics import named_rng

KINDS = ("general", "acyclic", "cyclic", "fully-cyclic")
TRIES = 1000  # draws before `cyclic` gives up
MOST_DRAWN = 2 * 10**8  # numbers of embeddings: 1.6 GB


@dataclass(frozen=True)
class Planted:
    """Samples and the truth behind them, one row of it for each possible last token.

    `level[q, x]` is the priority group of token x under last token q, 0 the best; `log_pi[q, x]` is
    its log-odds inside that group, with mean 0 over the group.
    """

    samples: Samples
    level: Int[np.ndarray, "K K"]
    log_pi: Float[np.ndarray, "K K"]


def draw_samples(
    rng: np.random.Generator,
    K: int,
    n: int,
    T: int,
    *,
    kind: str = "general",
    repeats: bool = False,
    lasts: int | None = None,
) -> Samples:
    """Random samples: n contexts of T tokens out of K, with labels of the kind asked for.

    - `general`: a label is uniform over the vocabulary, redrawn from its context where absent.
    - `cyclic`: general, all of it redrawn until some priority graph has a cycle.
    - `acyclic`: every last token has a random strict order of the tokens, and the first one in the
      context is the label.
    - `fully-cyclic`: general, then samples are added until each priority graph is one strongly
      connected component. So n is a lower bound here.

    Contexts hold T different tokens unless `repeats`. At most `lasts` last tokens are used. Numbers that make no sense
    raise a `UsageError`; a `DataError` says that no data of the kind were found.

    >>> draw_samples(np.random.default_rng(0), K=5, n=20, T=3)
    Samples(20 samples, 17 distinct, 5 tokens, 5 last tokens)
    """
    _check(K, n, T, repeats=repeats, lasts=lasts)
    if kind not in KINDS:
        raise UsageError(f"kind {kind!r} is not one of {', '.join(KINDS)}.")
    for _ in range(TRIES):
        contexts = _draw_contexts(rng, K, n, T, repeats=repeats, lasts=lasts)
        if kind == "acyclic":
            return _samples(K, contexts, _ordered_labels(rng, K, contexts))
        labels = _uniform_labels(rng, K, contexts)
        if kind == "cyclic" and not _has_cycle(K, contexts, labels):
            continue
        samples = _samples(K, contexts, labels)
        if kind == "fully-cyclic":
            return _samples(K, *_tied(rng, contexts, labels, samples, repeats=repeats))
        return samples
    raise DataError(
        f"no cycle in {TRIES} draws of {n} samples of {T} out of {K} tokens. "
        "Draw more samples, longer contexts or fewer last tokens."
    )


def draw_ordered(
    rng: np.random.Generator, K: int, n: int, T: int, *, shared: bool
) -> tuple[Samples, Int[np.ndarray, "K K"]]:
    """Acyclic samples and the orders they follow: one for all last tokens (`shared`), or one for each.

    `place[q, x]` is where token x stands under last token q, 0 the best.

    >>> samples, place = draw_ordered(np.random.default_rng(0), 5, 20, 3, shared=True)
    >>> samples, bool((place == place[0]).all())
    (Samples(20 samples, 14 distinct, 5 tokens, 5 last tokens), True)
    """
    _check(K, n, T, repeats=False, lasts=None)
    contexts = _draw_contexts(rng, K, n, T, repeats=False, lasts=None)
    orders = np.tile(rng.permutation(K), (K, 1))
    place = orders if shared else rng.permuted(orders, axis=1)
    first = place[contexts[:, -1:], contexts].argmin(axis=1)
    return _samples(K, contexts, contexts[np.arange(n), first]), place


def planted_samples(
    rng: np.random.Generator,
    K: int,
    n: int,
    T: int,
    levels: int,
    *,
    repeats: bool = False,
    lasts: int | None = None,
) -> Planted:
    r"""Samples whose labels follow a planted priority order, and that order.

    For each last token q the tokens are dealt into `levels` groups of nearly equal size, with
    standard normal log-odds inside a group. A label is drawn as the automaton draws it: only the
    best group present in the context counts, and in it $p(x) \propto m_x \pi_x$.
    """
    _check(K, n, T, repeats=repeats, lasts=lasts)
    if not 1 <= levels <= K:
        raise UsageError(f"levels must be between 1 and K = {K}, not {levels}.")
    level = rng.permuted(np.tile(np.arange(K) % levels, (K, 1)), axis=1)
    log_pi = rng.standard_normal((K, K))
    for group in range(levels):
        inside = level == group
        mean = (log_pi * inside).sum(axis=1, keepdims=True) / inside.sum(axis=1, keepdims=True)
        log_pi -= mean * inside
    contexts = _draw_contexts(rng, K, n, T, repeats=repeats, lasts=lasts)
    q = contexts[:, -1:]
    depth = level[q, contexts]
    # Gumbel noise turns a maximum into a Luce choice; over positions it brings the factor m_x.
    score = log_pi[q, contexts] + rng.gumbel(size=contexts.shape)
    score[depth > depth.min(axis=1, keepdims=True)] = -np.inf
    labels = contexts[np.arange(n), score.argmax(axis=1)]
    return Planted(_samples(K, contexts, labels), level, log_pi)


def unit_embeddings(rng: np.random.Generator, K: int, d: int) -> Float[np.ndarray, "K d"]:
    """K independent directions, uniform on the sphere in d dimensions."""
    _check_positive(K=K, d=d)
    E = rng.standard_normal((K, d))
    return E / np.linalg.norm(E, axis=1, keepdims=True)


def drawn_embeddings(K: int, d: int, seed: int = 0) -> Embeddings:
    """The embeddings that `--dimension d` draws for K tokens: unit vectors, the same wherever they are asked for.

    >>> drawn_embeddings(5, 3)
    Embeddings(E=<5×3>)
    """
    whole_number("dimension", d, least=1)
    whole_number("seed", seed, least=0)
    if K * d > MOST_DRAWN:
        raise UsageError(
            f"{K:,} vectors in {d:,} dimensions are {K * d:,} numbers; at most {MOST_DRAWN:,} are drawn."
        )
    return Embeddings(unit_embeddings(named_rng("embeddings", seed), K, d))


def orthonormal_embeddings(rng: np.random.Generator, K: int, d: int) -> Float[np.ndarray, "K d"]:
    """K orthonormal vectors in d ≥ K dimensions, uniform among all such frames."""
    _check_positive(K=K, d=d)
    if d < K:
        raise UsageError(f"{K} orthonormal embeddings need d >= {K} dimensions, not {d}.")
    Q, R = np.linalg.qr(rng.standard_normal((d, K)))
    # The factorisation is unique only up to signs; these make Q uniform.
    return (Q * np.where(np.diag(R) < 0, -1.0, 1.0)).T


def general_head(rng: np.random.Generator, E: Float[np.ndarray, "K d"]) -> Float[np.ndarray, "K d"]:
    r"""A head that satisfies Assumption 3 and nothing else: $\arg\max_k c_y^\top e_k = y$ for every token $y$.

    Row $c_y$ is a uniform direction, given that token $y$ comes first under it, of length $1/\max_k \|e_k\|$: no
    score exceeds 1, where $(1 - u)^2$ stops falling. Where an embedding is a mixture of others no such row exists,
    and an `AssumptionError` names the tokens that none was found for.

    >>> C = general_head(np.random.default_rng(0), np.eye(3))
    >>> C.argmax(axis=1).tolist()
    [0, 1, 2]
    """
    K, d = E.shape
    C, missing = np.zeros((K, d)), np.ones(K, dtype=bool)
    for _ in range(TRIES):
        drawn = rng.standard_normal((max(1, min(4 * K, BLOCK // K)), d))
        token, at = np.unique((drawn @ E.T).argmax(axis=1), return_index=True)
        new = missing[token]
        C[token[new]] = drawn[at[new]]
        missing[token] = False
        if not missing.any():
            return C / np.linalg.norm(C, axis=1, keepdims=True) / row_lengths(E).max()
    raise AssumptionError(
        listed(
            f"no head found under which every token comes first in its own row (Assumption 3); {TRIES:,} tries "
            "left out:",
            [f"token {k}" for k in np.flatnonzero(missing)],
            "An embedding that repeats one, or is a mixture of others, never does: use different ones of one length.",
        )
    )


# Arguments


def _check_positive(**sizes: int) -> None:
    faults = [f"{name} = {size}" for name, size in sizes.items() if size < 1]
    if faults:
        raise UsageError(listed("Sizes must be at least 1:", faults, "Ask for more."))


def _check(K: int, n: int, T: int, *, repeats: bool, lasts: int | None) -> None:
    _check_positive(K=K, n=n, T=T)
    if T > K and not repeats:
        raise UsageError(
            f"contexts of {T} different tokens need K >= {T}, not {K}; allow repeats=True."
        )
    if lasts is not None and not 1 <= lasts <= K:
        raise UsageError(f"lasts must be between 1 and K = {K}, not {lasts}.")


# Contexts and labels


def _draw_contexts(
    rng: np.random.Generator, K: int, n: int, T: int, *, repeats: bool, lasts: int | None
) -> Int[np.ndarray, "n T"]:
    """Uniform contexts; with `lasts`, their last tokens are uniform over that many tokens."""
    contexts = rng.integers(K, size=(n, T)) if repeats else _draw_distinct(rng, K, n, T)
    if lasts is not None:
        pool = rng.choice(K, size=lasts, replace=False)
        q = pool[rng.integers(lasts, size=n)]
        if not repeats:
            # A last token drawn already changes places with the one it displaces.
            row, column = np.nonzero(contexts == q[:, None])
            contexts[row, column] = contexts[row, -1]
        contexts[:, -1] = q
    return contexts


def _draw_distinct(rng: np.random.Generator, K: int, n: int, T: int) -> Int[np.ndarray, "n T"]:
    """Rows of T different tokens, every ordered choice equally likely (Floyd's algorithm)."""
    chosen = np.full((n, T), -1, dtype=np.int64)
    for column, top in enumerate(range(K - T, K)):
        # So far: a uniform subset of 0 … top−1. A token drawn again gives way to the new one, top.
        t = rng.integers(top + 1, size=n)
        taken = (chosen == t[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, top, t)
    return rng.permuted(chosen, axis=1)


def _uniform_labels(
    rng: np.random.Generator, K: int, contexts: Int[np.ndarray, "n T"]
) -> Int[np.ndarray, " n"]:
    n, T = contexts.shape
    label = rng.integers(K, size=(n,))
    redrawn = contexts[np.arange(n), rng.integers(T, size=(n,))]
    return np.where((contexts == label[:, None]).any(axis=1), label, redrawn)


def _ordered_labels(
    rng: np.random.Generator, K: int, contexts: Int[np.ndarray, "n T"]
) -> Int[np.ndarray, " n"]:
    """The token that comes first in a random order of all tokens, one order for each last token."""
    q, which = np.unique(contexts[:, -1], return_inverse=True)
    place = rng.permuted(np.tile(np.arange(K), (len(q), 1)), axis=1)
    first = place[which[:, None], contexts].argmin(axis=1)
    return contexts[np.arange(len(contexts)), first]


def _samples(K: int, contexts: Int[np.ndarray, "n T"], labels: Int[np.ndarray, " n"]) -> Samples:
    n, T = contexts.shape
    return windows_from_ids(Vocabulary(range(K)), contexts.ravel(), np.full(n, T), labels).samples()


# Cycles


def _components(
    samples: Samples,
) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """The pairs (last token, token) that occur, and the component each lies in."""
    K = len(samples.vocabulary)
    of = samples.sample_of
    q = samples.last.astype(np.int64) * K
    pair, head = np.unique(q[of] + samples.token, return_inverse=True)
    tail = np.searchsorted(pair, (q + samples.label)[of])
    _, component = _strong_parts(tail, head, len(pair))
    return pair // K, pair % K, component


def _has_cycle(K: int, contexts: Int[np.ndarray, "n T"], labels: Int[np.ndarray, " n"]) -> bool:
    """Whether some priority graph has a cycle. All tokens of a cycle are labels: the others need not be looked at."""
    q = contexts[:, -1] * K
    pair, tail = np.unique(q + labels, return_inverse=True)
    seen = q[:, None] + contexts
    head = np.searchsorted(pair, seen) % len(pair)
    row, column = np.nonzero((pair[head] == seen) & (head != tail[:, None]))
    parts, _ = _strong_parts(tail[row], head[row, column], len(pair))
    return bool(parts < len(pair))


def _strong_parts(
    tail: Int[np.ndarray, " edges"], head: Int[np.ndarray, " edges"], size: int
) -> tuple[int, Int[np.ndarray, " pairs"]]:
    """How many parts a directed graph has in which all reach each other, and the part of each node."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(len(tail)), (tail, head)), shape=(size, size))
    return connected_components(edges, directed=True, connection="strong")


def _tied(
    rng: np.random.Generator,
    contexts: Int[np.ndarray, "n T"],
    labels: Int[np.ndarray, " n"],
    samples: Samples,
    *,
    repeats: bool,
) -> tuple[Int[np.ndarray, "m T"], Int[np.ndarray, " m"]]:
    """The samples, and more, so that every priority graph is one component.

    A last token q is in all of its contexts, so it serves as the hub: one token x of each other
    component gets a sample that x wins and one that q wins. New contexts use only tokens that
    occur with q, or the graph would grow while it is being tied.
    """
    T = contexts.shape[1]
    last, token, component = _components(samples)
    more, wins = [], []
    for q in np.unique(last):
        mine = last == q
        known, part = token[mine], component[mine]
        _, first = np.unique(part, return_index=True)
        for x in known[first[part[first] != part[known == q]]]:
            others = known if repeats else known[(known != q) & (known != x)]
            for winner in (x, q):
                rest = rng.choice(others, size=T - 2, replace=repeats)
                more.append(np.concatenate([rest, [x, q]]))
                wins.append(winner)
    if not more:
        return contexts, labels
    return np.vstack([contexts, more]), np.concatenate([labels, wins])
