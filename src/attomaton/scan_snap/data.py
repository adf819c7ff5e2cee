r"""Sequence classes: what is drawn, which tokens are distinct or common, and whether theorems apply.

Class $n$ has a law $P(\cdot|n)$ of its context tokens, a query $\psi(n)$ and a next token. A token is *distinct* to
a class when no other class has it, *common* when several have it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.face import Shown
from attomaton.base.shapes import Bool, Float, Int
from attomaton.errors import DataError, counted, listed

SUM = 1e-9  # how far a law's probabilities may be from adding up to 1


@dataclass(frozen=True, eq=False, repr=False)
class SequenceClasses(Shown):
    """K classes over a vocabulary of M tokens, drawn uniformly.

    `P[n, l]` is $P(l|n)$, `query_of[n]` is $\\psi(n)$, `next_of[n]` the next token; all three index the same
    vocabulary. Made by `sequence_classes`, which checks them.

    >>> from attomaton import sequence_classes
    >>> sequence_classes([[0.5, 0.5, 0, 0]], [2], [3])
    SequenceClasses(1 class, 4 tokens, 1 query)
    """

    P: Float[np.ndarray, "classes vocab"]
    query_of: Int[np.ndarray, " classes"]
    next_of: Int[np.ndarray, " classes"]
    names: tuple[str, ...]

    def _in_short(self) -> str:
        classes = "1 class" if self.K == 1 else f"{self.K} classes"
        return f"{classes}, {counted(self.M, 'token')}, {counted(len(self.queries), 'query')}"

    @property
    def K(self) -> int:
        """How many classes there are."""
        return len(self.P)

    @property
    def M(self) -> int:
        """How many tokens the vocabulary has: context tokens, queries and next tokens."""
        return self.P.shape[1]

    @cached_property
    def context_tokens(self) -> Int[np.ndarray, " tokens"]:
        """Tokens that occur in some context, ascending: the only rows of Y and columns of Z that move."""
        return np.flatnonzero((self.P > 0).any(axis=0))

    @cached_property
    def queries(self) -> Int[np.ndarray, " queries"]:
        """The queries, ascending: the only rows of Z that move."""
        return np.unique(self.query_of)

    @cached_property
    def distinct(self) -> Bool[np.ndarray, "classes vocab"]:
        """Whether token l is distinct to class n: no other class has it."""
        has = self.P > 0
        return has & (has.sum(axis=0) == 1)

    @cached_property
    def common(self) -> Bool[np.ndarray, " vocab"]:
        """Whether several classes have token l."""
        return (self.P > 0).sum(axis=0) > 1


def sequence_classes(
    P: object,
    query_of: object,
    next_of: object,
    names: tuple[str, ...] | None = None,
) -> SequenceClasses:
    """Checked classes; every fault is listed at once.

    >>> sequence_classes([[0.5, 0.5, 0, 0]], [2], [3]).M
    4
    """
    law = np.asarray(P, dtype=float)
    query, following = np.asarray(query_of), np.asarray(next_of)
    if law.ndim != 2 or not law.size:
        raise DataError(f"P must be a matrix (classes × vocabulary) with entries, not {law.shape}.")
    K, M = law.shape
    for name, value in (("query_of", query), ("next_of", following)):
        if value.shape != (K,) or value.dtype.kind not in "iu":
            raise DataError(f"{name} must hold one token id for each of the {K} classes.")
    faults = [fault for n in range(K) for fault in _class_faults(n, law, query[n], following[n])]
    if len(np.unique(following)) < K:
        faults.append("two classes share a next token, so they are one class with two laws")
    if names is not None and len(names) != M:
        faults.append(f"{len(names)} names for a vocabulary of {M}")
    if faults:
        raise DataError(listed(f"{len(faults)} faults in the classes:", faults, "Mend them."))
    return SequenceClasses(
        law, query.astype(np.int64), following.astype(np.int64),
        names or tuple(f"token {l}" for l in range(M)),
    )  # fmt: skip


def _class_faults(
    n: int, law: Float[np.ndarray, "classes vocab"], query: np.integer, following: np.integer
) -> Iterator[str]:
    """What is wrong with one class."""
    p, M = law[n], law.shape[1]
    if not np.isfinite(p).all():
        yield f"class {n}: a probability is not finite"
    elif (p < 0).any():
        yield f"class {n}: probability {p.min():g} of token {p.argmin()}"
    elif abs(p.sum() - 1) > SUM:
        yield f"class {n}: probabilities add up to {p.sum():.12g}, not 1"
    for what, token in (("query", query), ("next token", following)):
        if not 0 <= token < M:
            yield f"class {n}: {what} {token} is outside the vocabulary 0 … {M - 1}"
    if 0 <= query < M and (law[:, query] > 0).any():
        yield f"class {n}: query {query} is also a context token"
