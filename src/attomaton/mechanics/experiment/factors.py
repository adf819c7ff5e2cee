r"""W as a product $K Q^\top$ of keys and queries, trained in their place from a small start.

`factors` is $(K, Q)$ stacked, $2 \times d \times r$. The gradients are $G Q$ and $G^\top K$ with $G = \nabla_W L$.
Where W is never built (one-hot tokens of a large vocabulary) only the pairs that occur have scores, $K_x \cdot Q_q$ for
token $x$ under last token $q$, and $G$ is as sparse as they are.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from attomaton.corpus.samples import Samples


class Pairs(NamedTuple):
    """Token and last token of every pair; of padding a row that the factors do not have."""

    token: Any
    last: Any


def pairs_of(sets: list[Samples], shared: bool) -> Pairs:
    """The pairs of data sets trained side by side, stacked and padded (one that all share as it is)."""
    found = [np.divmod(s.pair_index()[0], len(s.vocabulary)) for s in sets]
    absent, most = max(len(s.vocabulary) for s in sets), max(len(last) for last, _ in found)
    last, token = (
        np.stack([np.pad(x[i], (0, most - len(x[i])), constant_values=absent) for x in found])
        for i in (0, 1)
    )
    return Pairs(token[0], last[0]) if shared else Pairs(token, last)


def product(
    factors: Float[Array, "2 width rank"], pairs: Pairs | None
) -> Float[Array, "width width"] | Float[Array, " pairs"]:
    """W, or the scores of the pairs that occur, 0 of padding."""
    K, Q = factors
    if pairs is None:
        return K @ Q.T
    return (_rows(K, pairs.token) * _rows(Q, pairs.last)).sum(-1)


def pull_back_product(
    gradient: Float[Array, "*shape"], factors: Float[Array, "2 width rank"], pairs: Pairs | None
) -> Float[Array, "2 width rank"]:
    """The gradient by the factors, given that by their `product`."""
    K, Q = factors
    if pairs is None:
        return jnp.stack([gradient @ Q, gradient.T @ K])
    g, zero = gradient[:, None], jnp.zeros_like(K)
    return jnp.stack(
        [
            zero.at[pairs.token].add(g * _rows(Q, pairs.last)),
            zero.at[pairs.last].add(g * _rows(K, pairs.token)),
        ]
    )


def product_norm(factors: Float[Array, "2 width rank"]) -> Float[Array, ""]:
    r"""$\|K Q^\top\|_F$, by the Gram matrices of the columns."""
    K, Q = factors
    return jnp.sqrt(((K.T @ K) * (Q.T @ Q)).sum())


def _rows(x: Float[Array, "width rank"], at: Any) -> Float[Array, "pairs rank"]:
    return x.at[at].get(mode="fill", fill_value=0.0)
