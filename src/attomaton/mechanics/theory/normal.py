r"""The linear system of a step of interior points, and its factor.

$$\sum_p D_p\, \delta_p \delta_p^\top = \sum_q M_q \otimes e_q e_q^\top, \qquad
M_q = \sum_{p \text{ of } q} D_p\, (e_y - e_x)(e_y - e_x)^\top,$$

so one product of matrices of $d(d+1)/2$ columns, and Cholesky's method on the lower half: no difference is written out.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from attomaton.base.shapes import Float
from attomaton.errors import SolverError
from attomaton.mechanics.theory.dependent import SAME
from attomaton.mechanics.theory.extremes import Rows
from attomaton.mechanics.theory.matrices import conjugate_gradients

SHARP, PRODUCTS = 1e-9, 60  # residual of a linear system, relative, and products for it
TOGETHER = 1024  # rows written out at a time
FEW = 20  # products, beyond which a factor in single precision is given up
# Of a factor, relative: the one of single precision, then those of double
RIDGES: tuple[tuple[type[np.floating], float], ...] = (
    (np.float32, 1e-6), (np.float64, 1e-15), (np.float64, 1e-13), (np.float64, 1e-11), (np.float64, 1e-9),
)  # fmt: skip

Solve = Callable[[Float[np.ndarray, "keys queries"]], Float[np.ndarray, "keys queries"]]


class _Half:
    """The lower half of a symmetric matrix: rows and columns of its entries, and where in it each entry stands."""

    def __init__(self, width: int):
        self.row, self.column = np.tril_indices(width)
        place = np.zeros((width, width), np.int64)
        place[self.row, self.column] = np.arange(len(self.row))
        self.place = np.maximum(place, place.T)


class System:
    """Σ D δ δᵀ over rows, plus a multiple of the identity, and its factor."""

    def __init__(
        self,
        rows: Rows,
        kind: type[np.floating] = np.float64,
        sharp: float = SHARP,
        span: "Span | None" = None,
    ):
        space = rows.space
        self.rows, (self.order, self.start) = rows, rows.by_last()
        self.key, self.query = (_Half(x.shape[1]) for x in (space.key, space.query))
        self.kind, self.sharp, self.span = kind, sharp, span
        self.squares = space.query[:, self.query.row] * space.query[:, self.query.column]

    def factored(self, weight: Float[np.ndarray, " rows"], shift: float) -> Solve:
        """What solves Σ weight δ δᵀ X + shift X = B: by the factor, and conjugate gradients against its rounding.

        A factor in single precision takes half of the time. It serves until conjugate gradients do not mend it: half
        way through the first program, and never where ties weigh so much more than the rest.
        """
        rows, off = self.rows, self.span.off if self.span else np.copy
        M = self.by_last(weight)
        near = self._near(M, shift)

        def product(X: Float[np.ndarray, "keys queries"]) -> Float[np.ndarray, "keys queries"]:
            return shift * X + off(rows.back(weight * rows.of_w(X)))

        def solve(B: Float[np.ndarray, "keys queries"]) -> Float[np.ndarray, "keys queries"]:
            nonlocal near
            if self.kind is np.float32:
                found, arrived = conjugate_gradients(product, B, self.sharp, FEW, near)
                if arrived:
                    return found
                self.kind = np.float64
                near = self._near(M, shift)
            return conjugate_gradients(product, B, self.sharp, PRODUCTS, near)[0]

        return solve

    def _near(self, M: Float[np.ndarray, "half lasts"], shift: float) -> Solve:
        """What almost solves the system: its factor, with as small a ridge as it takes."""
        own = (x.place.diagonal() for x in (self.key, self.query))
        top = float((M[next(own)] @ self.squares[:, next(own)]).max()) + shift
        for kind, ridge in RIDGES[self.kind is np.float64 :]:
            self.kind = kind
            factor = self.factor(M / top, shift / top + ridge)
            if factor is not None:
                break
        else:
            raise SolverError("a linear system is too close to singular.")

        def near(R: Float[np.ndarray, "keys queries"]) -> Float[np.ndarray, "keys queries"]:
            size = float(np.linalg.norm(R)) or 1.0  # single precision has a small range
            return onto(substituted(factor, R.ravel() / size)).reshape(R.shape) * (size / top)

        onto = self.span.reached(factor) if self.span else np.copy

        return near

    def by_last(self, weight: Float[np.ndarray, " rows"]) -> Float[np.ndarray, "half lasts"]:
        """The lower halves of Σ weight (e_y − e_x)(e_y − e_x)ᵀ over the rows of each last token, one in each column."""
        half, found = self.key, np.zeros((len(self.key.row), len(self.squares)))
        key, weight = self.rows.keys(self.order), weight[self.order, None]
        for q, (first, end) in enumerate(pairwise(self.start.tolist())):
            if end > first:
                part = key[first:end]
                found[:, q] = (part.T @ (weight[first:end] * part))[half.row, half.column]
        return found

    def factor(
        self, M: Float[np.ndarray, "half lasts"], shift: float
    ) -> Float[np.ndarray, "numbers numbers"] | None:
        """Cholesky's factor, in place: the lower half of a matrix in Fortran's order. None where there is none."""
        from scipy.linalg.lapack import get_lapack_funcs

        M, squares = (x.astype(self.kind, copy=False) for x in (M, self.squares))
        keys, width = len(self.key.place), len(self.query.place)
        # Its transpose is factored; what is never touched takes no memory.
        whole = np.empty((keys * width, keys * width), self.kind)
        blocks = whole.reshape(keys, width, keys, width)
        for a in range(keys):
            products = M[self.key.place[a, a:]] @ squares
            blocks[a, :, a:] = products[:, self.query.place].transpose(1, 0, 2)
            blocks[a, range(width), a, range(width)] += shift
        (potrf,) = get_lapack_funcs(("potrf",), (whole,))
        factor, failed = potrf(whole.T, lower=True, clean=False, overwrite_a=True)
        return None if failed else factor


def substituted(
    factor: Float[np.ndarray, "numbers numbers"], b: Float[np.ndarray, " numbers"]
) -> Float[np.ndarray, " numbers"]:
    """The solution of L Lᵀ x = b."""
    from scipy.linalg.blas import get_blas_funcs

    (trsv,) = get_blas_funcs(("trsv",), (factor,))
    x = trsv(factor, b.astype(factor.dtype), lower=True, overwrite_x=True)
    return trsv(factor, x, lower=True, trans=True, overwrite_x=True).astype(float)


class Span:
    """What ties span: an orthonormal basis, written out. W is sought in what is orthogonal to it."""

    def __init__(self, ties: Rows):
        key, query = factors(ties)
        keys, queries = key.shape[1], query.shape[1]
        self.basis = np.zeros((keys * queries, 0))
        for first in range(0, len(key), TOGETHER):
            part = slice(first, first + TOGETHER)
            rows = (key[part, :, None] * query[part, None, :]).reshape(-1, keys * queries).T
            for _ in range(2):  # once leaves what rounding made of it
                rows = rows - self.basis @ (self.basis.T @ rows)
            left, size, _ = np.linalg.svd(rows, full_matrices=False)
            self.basis = np.hstack([self.basis, left[:, size > SAME]])
        self.matrices = self.basis.T.reshape(-1, keys, queries)

    def off(self, W: Float[np.ndarray, "keys queries"]) -> Float[np.ndarray, "keys queries"]:
        """W without what of it lies in the span."""
        flat = W.ravel()
        return (flat - self.basis @ (self.basis.T @ flat)).reshape(W.shape)

    def reached(
        self, factor: Float[np.ndarray, "numbers numbers"]
    ) -> Callable[[Float[np.ndarray, " numbers"]], Float[np.ndarray, " numbers"]]:
        """What makes of the solution with this factor the one that is orthogonal to the span."""
        from scipy.linalg.blas import get_blas_funcs

        if not self.basis.size:
            return np.copy
        (trsm,) = get_blas_funcs(("trsm",), (factor,))
        images = trsm(1.0, factor, self.basis.astype(factor.dtype), lower=True)
        images = trsm(1.0, factor, images, lower=True, trans_a=True).astype(float)
        inverse = np.linalg.inv(self.basis.T @ images)
        return lambda x: x - images @ (inverse @ (self.basis.T @ x))

    def gram(self, rows: Rows, shift: float) -> Float[np.ndarray, "rows rows"]:
        """Products of rows without what of them lies in the span, plus a multiple of the identity: the lower half.

        ⟨δ, δ'⟩ is a product of two products, of tokens and of last tokens.
        """
        key, query = factors(rows)
        inner = np.empty((len(key), len(self.matrices)))
        for column, matrix in zip(inner.T, self.matrices, strict=True):
            column[:] = ((key @ matrix) * query).sum(axis=1)
        found = np.empty((len(key), len(key)))
        for first in range(0, len(key), TOGETHER):
            part = slice(first, first + TOGETHER)
            block = found[part, : first + TOGETHER]
            end = block.shape[1]
            np.matmul(key[part], key[:end].T, out=block)
            block *= query[part] @ query[:end].T
            block -= inner[part] @ inner[:end].T
        found[np.diag_indices(len(key))] += shift
        return found


def factors(rows: Rows) -> tuple[Float[np.ndarray, "rows keys"], Float[np.ndarray, "rows queries"]]:
    """The two vectors whose outer product a difference is."""
    return rows.keys(), rows.space.query[rows.last]
