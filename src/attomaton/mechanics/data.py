"""Token embeddings, and the check that the main theorem applies to them (assumption A2).

Where no embeddings are given they are the standard basis: one orthonormal vector per token, never stored.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from attomaton.errors import AssumptionError, DataError

INDEPENDENT = (
    1e-10  # smallest singular value of E, relative to the largest, that counts as non-zero
)


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The matrix E, one row per token, with independent rows."""

    E: Float[np.ndarray, "vocab width"]

    @cached_property
    def gram(self) -> Float[np.ndarray, "vocab vocab"]:
        """G = E Eᵀ: all that training in token space needs to know of E."""
        return self.E @ self.E.T

    @cached_property
    def orthonormal(self) -> bool:
        """Whether G is the identity, so that every last token trains by itself."""
        return bool(np.abs(self.gram - np.eye(len(self.E))).max() < 1e-12)


def check_embeddings(E: object, K: int | None = None) -> Embeddings:
    """The embeddings of `K` tokens, or an error that says what is wrong with them.

    Dependent rows are refused with a witness: then a token's vector is a mixture of others', no head
    can tell them apart (A2 fails) and the Graph-SVM may ask for the impossible.
    """
    E = np.asarray(E)
    if E.ndim != 2 or E.dtype.kind not in "fiu" or not E.size:
        raise DataError(
            f"embeddings: expected a matrix of numbers (tokens × width), got shape {E.shape}, "
            f"type {E.dtype}."
        )
    if K is not None and len(E) != K:
        raise DataError(
            f"embeddings: {len(E)} rows for a vocabulary of {K} tokens; one each is needed."
        )
    E = E.astype(np.float64)
    wrong = np.argwhere(~np.isfinite(E))
    if len(wrong):
        i, j = wrong[0]
        raise DataError(
            f"embeddings: {len(wrong)} entries are not finite, the first is {E[i, j]} at row {i}, "
            f"column {j}."
        )
    left, singular, _ = np.linalg.svd(E)
    rank = int((singular > INDEPENDENT * singular.max(initial=0.0)).sum())
    if rank < len(E):
        a = left[:, -1] / np.abs(left[:, -1]).max()
        top = np.argsort(-np.abs(a), kind="stable")[:4]
        witness = " ".join(f"{a[k]:+.3g}·e_{k}" for k in top)
        more = " + …" if (np.abs(a) > 1e-9).sum() > 4 else ""
        raise AssumptionError(
            f"embeddings: {len(E)} rows of rank {rank} (width {E.shape[1]}) are dependent, so no head "
            f"can separate the tokens:\n  0 = {witness}{more}\n"
            f"Use independent rows (width at least {len(E)})."
        )
    return Embeddings(E)
