r"""Next-token prediction with a linear decoder, as the same problem with other keys and queries.

Thrampoulidis (arXiv 2402.18551): contexts $h_j$ with next-token distributions $p_j$ on a support $S_j$, logits
$W h_j$. A sample for each token of a support, whose context holds the whole vocabulary, says that this token is above
all others: those of $S_j$ tie, and outrank the rest. So the Graph-SVM of keys $e_v$ and queries $h_j$ is $W_{mm}$ (0
inside $S_j$, at least 1 to the outside), its finite part is $W^*$ (log-odds of $p_j$ inside $S_j$), and the loss floor
is the entropy of the $p_j$ where one $W$ can have all these log-odds.

Keys and queries stand in one table as blocks, $e_v = (key_v, 0)$ and $h_j = (0, query_j)$.
"""

import numpy as np

from attomaton.corpus.samples import Samples, check_weights
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.errors import DataError, UsageError, listed
from attomaton.mechanics.data import Embeddings, check_embeddings
from attomaton.numerics import row_pointer


def decoder_samples(keys: object, queries: object, support: object) -> tuple[Samples, Embeddings]:
    """The samples and embeddings of a decoder: tokens are numbered from 0, contexts are called `context 0`, ….

    >>> samples, embeddings = decoder_samples(None, [[1.0, 2.0]], [[3, 1, 0]])
    >>> samples, samples.weight.tolist(), embeddings.keys.shape, embeddings.queries.shape
    (Samples(2 samples, 4 tokens, 1 last token), [3.0, 1.0], (4, 3), (4, 2))
    """
    if queries is None or support is None:
        raise UsageError("a decoder needs queries and support: solve_limit(queries=H, support=P).")
    h = _table("queries", queries)
    counts = _table("support", support, len(h))
    faults = [f"row {j}: {_fault(row)}" for j, row in enumerate(counts) if _fault(row)]
    if faults:
        cure = "Give the number of times, or the probability, with which each token came next."
        raise DataError(listed("support: rows that are no distributions:", faults, cure))
    m, V = counts.shape
    e = np.eye(V) if keys is None else _table("keys", keys, V)
    E = np.zeros((V + m, e.shape[1] + h.shape[1]))
    E[:V, : e.shape[1]], E[V:, e.shape[1] :] = e, h
    context, label = np.nonzero(counts)
    n = len(label)
    check_weights(counts[context, label])
    vocabulary = Vocabulary([*range(V), *(f"context {j}" for j in range(m))])
    samples = Samples(
        vocabulary, (V + context).astype(np.int32), label.astype(np.int32), counts[context, label],
        row_pointer(np.full(n, V)), np.tile(np.arange(V, dtype=np.int32), n), np.ones(n * V, np.int32),
        np.ones(n, np.int64), np.arange(n), tokens=n, windows=n,
    )  # fmt: skip
    return samples, Embeddings(E, e.shape[1])


def _table(name: str, x: object, rows: int | None = None) -> np.ndarray:
    """A matrix of finite numbers with so many rows."""
    try:
        found = check_embeddings(x.E if isinstance(x, Embeddings) else x).E
    except DataError as error:
        raise DataError(str(error).replace("embeddings", name)) from None
    if rows is not None and len(found) != rows:
        raise DataError(f"{name}: {len(found)} rows, {rows} are needed.")
    return found


def _fault(row: np.ndarray) -> str:
    """What is wrong with the counts of a context."""
    if (row < 0).any():
        return f"{row.min():g} is negative"
    return "" if row.any() else "no token ever came next"
