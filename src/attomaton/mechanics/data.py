"""Token embeddings, and whether their rows are independent, as the main theorem asks (Assumption 1).

Where no embeddings are given they are the standard basis: one orthonormal vector per token, never stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.face import Shown
from attomaton.base.shapes import Float
from attomaton.errors import AssumptionError, DataError, listed

# Smallest singular value of unit rows, relative to the largest, that counts as non-zero
INDEPENDENT = 1e-10
BLOCK = 2**22  # products of a head with embeddings computed at a time
SHORTEST, LONGEST = 1e-50, 1e50  # rows between which float64 holds products of four of them


@dataclass(frozen=True, eq=False, repr=False)
class Embeddings(Shown):
    """The matrix E, one row per token: fewer dimensions than tokens, repeated and dependent rows are allowed."""

    E: Float[np.ndarray, "vocab width"]
    # Keys have the dimensions before it, queries those from it on; None: both have all
    split: int | None = None

    def _in_short(self) -> str:
        apart = "" if self.split is None else f", split={self.split}"
        return f"E=<{len(self.E)}×{self.E.shape[1]}>{apart}"

    @property
    def keys(self) -> Float[np.ndarray, "vocab key_width"]:
        """What the rows of W belong to: a score is keys[x] · W queries[q]."""
        return self.E[:, : self.split]

    @property
    def queries(self) -> Float[np.ndarray, "vocab query_width"]:
        """What the columns of W belong to."""
        return self.E[:, self.split :]

    @cached_property
    def gram(self) -> Float[np.ndarray, "vocab vocab"]:
        """G = E Eᵀ: all that training in token space needs to know of E."""
        return self.E @ self.E.T

    @cached_property
    def orthonormal(self) -> bool:
        """Whether G is the identity, so that every last token trains by itself."""
        few = len(self.E) <= self.E.shape[1]
        return few and bool(np.abs(self.gram - np.eye(len(self.E))).max() < 1e-12)

    @cached_property
    def rank(self) -> int:
        """How many dimensions the rows span, whatever their lengths: a short row is not a dependent one."""
        length = row_lengths(self.E)
        unit = self.E / np.where(length > 0, length, 1.0)[:, None]
        singular = np.linalg.svd(unit, compute_uv=False)
        return int((singular > INDEPENDENT * singular.max(initial=0.0)).sum())

    @property
    def independent(self) -> bool:
        """Whether no row is a mixture of others, so that a head can tell all tokens apart (Assumption 1)."""
        return len(self.E) <= self.E.shape[1] and self.rank == len(self.E)

    @cached_property
    def condition(self) -> float:
        """How near the rows are to dependent, whatever their lengths: 1 for orthogonal ones."""
        singular = np.linalg.svd(self.E / row_lengths(self.E)[:, None], compute_uv=False)
        return float(singular.max() / max(singular.min(), 1e-300))

    @property
    def why_inexact(self) -> str:
        """What makes an answer for such embeddings inexact."""
        length = row_lengths(self.E)
        return (
            f"Embeddings cause this that are nearly dependent (condition number {self.condition:.1e}) or of "
            f"unlike lengths ({length.min():.1e} to {length.max():.1e}); use better separated ones of one length."
        )

    def too_close(self, found: str) -> AssumptionError:
        """The error about rows that are independent on paper and not in float64."""
        length = row_lengths(self.E)
        return AssumptionError(
            f"embeddings: {found}: the rows are too close to dependent for float64 (condition number "
            f"{self.condition:.1e}, lengths {length.min():.1e} to {length.max():.1e}; its fourth power must stay "
            "below about 1e16). Use better separated rows, orthonormal ones at best (the default), of similar length."
        )


def row_lengths(E: Float[np.ndarray, "vocab width"]) -> Float[np.ndarray, " vocab"]:
    """‖e_k‖ of every row, without overflow."""
    largest = np.abs(E).max(axis=1)
    unit = np.where(largest > 0, largest, 1.0)
    return unit * np.linalg.norm(E / unit[:, None], axis=1)


def check_embeddings(E: object, K: int | None = None) -> Embeddings:
    """The embeddings of `K` tokens; what is no matrix of finite numbers is a `DataError` that says what is wrong.

    There may be more tokens than dimensions, and rows may repeat or depend on each other.

    >>> check_embeddings([[2, 0], [1, 1]])
    Embeddings(E=<2×2>)
    """
    try:
        E = np.asarray(E)
    except ValueError as error:  # rows of unlike lengths
        raise DataError(f"embeddings: expected a matrix (tokens × width): {error}.") from error
    if E.ndim != 2 or E.dtype.kind not in "fiu" or not E.size:
        raise DataError(
            f"embeddings: expected a matrix of numbers (tokens × width), got shape {E.shape}, "
            f"type {E.dtype}."
        )
    if K is not None:
        expect_rows(E, K)
    E = E.astype(np.float64)
    wrong = np.argwhere(~np.isfinite(E))
    if len(wrong):
        i, j = wrong[0]
        raise DataError(
            f"embeddings: {len(wrong)} entries are not finite, the first is {E[i, j]} at row {i}, "
            f"column {j}."
        )
    length = row_lengths(E)
    odd = np.flatnonzero((length > 0) & ~((length >= SHORTEST) & (length <= LONGEST)))
    if len(odd):
        faults = [f"row {i}: length {length[i]:.3g}" for i in odd]
        heading = f"embeddings: rows must have lengths between {SHORTEST:g} and {LONGEST:g}, or W overflows:"
        cure = "Divide all rows by one number s; W is then s² times as large, and nothing else changes."
        raise DataError(listed(heading, faults, cure))
    return Embeddings(E)


def expect_rows(E: np.ndarray, K: int) -> None:
    """Refuse a matrix that has not one row for each of K tokens."""
    if len(E) != K:
        raise DataError(
            f"embeddings: {len(E)} rows for a vocabulary of {K} tokens; one each is needed."
        )


def check_head(
    C: object, E: Float[np.ndarray, "vocab width"], labels: Sequence[object] | None = None
) -> Float[np.ndarray, "vocab width"]:
    r"""The head C, if it satisfies Assumption 3: $\arg\max_k c_y^\top e_k = y$ for every token $y$.

    A token for which another comes first is named in an `AssumptionError`, by its label where `labels` are given.

    >>> check_head([[2, 1], [0, 1]], np.eye(2)).tolist()
    [[2.0, 1.0], [0.0, 1.0]]
    """
    try:
        C = np.asarray(C, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"head: expected a matrix (tokens × width): {error}.") from error
    if C.shape != E.shape or not np.isfinite(C).all():
        found = "one that is not finite" if C.shape == E.shape else f"shape {C.shape}"
        raise DataError(
            f"head: expected a matrix of finite numbers of the embeddings' shape {E.shape}, got {found}."
        )
    names = range(len(E)) if labels is None else labels
    faults = []
    for rows in np.array_split(np.arange(len(E)), max(1, E.shape[0] ** 2 // BLOCK)):
        score = C[rows] @ E.T
        own = score[np.arange(len(rows)), rows]
        score[np.arange(len(rows)), rows] = -np.inf
        rival = score.argmax(axis=1)
        most = score.max(axis=1)
        faults += [
            f"token {names[rows[i]]!r}: c·e = {own[i]:.6g}, and {most[i]:.6g} for token {names[rival[i]]!r}"
            for i in np.flatnonzero(most >= own)
        ]
    if faults:
        heading = (
            f"head: {len(faults)} of {len(E)} rows do not put their own token first (Assumption 3):"
        )
        raise AssumptionError(
            listed(heading, faults, "Use a head whose row c_y has its largest product with e_y.")
        )
    return C
