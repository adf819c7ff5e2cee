r"""The population of all sequences of infinite length: its objective, velocities and measures, in JAX.

Only what moves is kept. Y has the rows of the context tokens, Z the rows of the queries and the columns of the context
tokens. Columns of Y that are nobody's next token and start equal stay equal, so one of them may stand for all: it is
counted with its *multiplicity*. With $m = \psi(n)$ and every sum over columns $v$ weighted by $\mu_v$,

$$c_{l|n} \propto P(l|n)\, e^{z_{ml}}, \quad f_n = c_n/\|c_n\|_2, \quad
  \alpha_{nv} = e^{f_n^\top y_v} / \textstyle\sum_w \mu_w e^{f_n^\top y_w}, \quad
  J = \tfrac1K \textstyle\sum_n \log \alpha_{nn}.$$

The velocities are the gradient of J (that by a column of multiplicity $\mu$ divided by $\mu$: each of the columns it
stands for moves by itself).

All functions are pure; `Y` is (tokens, columns), `Z` is (queries, tokens), `f`, `r` and `g` have one row per class.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from attomaton.scan_snap.data import SequenceClasses


class Population(NamedTuple):
    """Sequence classes, restricted to the tokens, queries and columns that matter.

    `row[n]` is the row of class n's query in Z, `column[n]` the column of its next token in Y. Arrays are NumPy when
    made, and JAX's own inside a compiled program.
    """

    log_P: Float[Array | np.ndarray, "classes tokens"]  # −inf where a class never has a token
    row: Int[Array | np.ndarray, " classes"]
    column: Int[Array | np.ndarray, " classes"]
    multiplicity: Float[Array | np.ndarray, " columns"]
    distinct: Bool[Array | np.ndarray, "classes tokens"]


class Velocity(NamedTuple):
    """How fast everything moves at unit learning rates, and what that was computed from."""

    Y: Float[Array, "tokens columns"]
    Z: Float[Array, "queries tokens"]
    xi: Float[Array, " classes"]  # scan rate; 0 for a class without distinct tokens


def population_of(classes: SequenceClasses, *, merged: bool = False) -> Population:
    """The classes as a `Population`: all M columns of Y, or (`merged`) the next tokens' and one for all others.

    >>> from attomaton.scan_snap.data import sequence_classes
    >>> classes = sequence_classes([[0.5, 0.5, 0, 0, 0]], [2], [4])
    >>> population_of(classes).multiplicity.tolist(), population_of(classes).column.tolist()
    ([1.0, 1.0, 1.0, 1.0, 1.0], [4])
    >>> population_of(classes, merged=True).multiplicity.tolist()
    [1.0, 4.0]
    """
    tokens, K, M = classes.context_tokens, classes.K, classes.M
    with np.errstate(divide="ignore"):
        log_P = np.log(classes.P[:, tokens])
    column = np.arange(K) if merged else classes.next_of
    rest = [float(M - K)] if M > K else []
    multiplicity = np.array([*[1.0] * K, *rest]) if merged else np.ones(M)
    row = np.searchsorted(classes.queries, classes.query_of)
    return Population(log_P, row, column, multiplicity, classes.distinct[:, tokens])


def attention(
    Z: Float[Array, "queries tokens"], population: Population
) -> Float[Array, "classes tokens"]:
    r"""Attention per class, $c_{l|n} \propto P(l|n)\, e^{z_{ml}}$."""
    # log 0 = −inf is intended: a token a class never has keeps attention exactly 0.
    return jax.nn.softmax(population.log_P + Z[population.row], axis=-1)


def unit_attention(
    Z: Float[Array, "queries tokens"], population: Population
) -> Float[Array, "classes tokens"]:
    r"""$f_n = c_n / \|c_n\|_2$."""
    c = attention(Z, population)
    return c / jnp.linalg.norm(c, axis=-1, keepdims=True)


def residual(
    Y: Float[Array, "tokens columns"], f: Float[Array, "classes tokens"], population: Population
) -> Float[Array, "classes columns"]:
    r"""$r_n = e_n - \alpha_n$, one entry per column (not times its multiplicity).

    The next token's entry is taken as $\sum_{v \ne n} \mu_v \alpha_{nv}$: once the layer is almost sure,
    $1 - \alpha_{nn}$ would lose its digits.
    """
    own, mu = _is_next(population), population.multiplicity
    alpha = jax.nn.softmax(f @ Y + jnp.log(mu), axis=-1)  # μ_v α_v
    others = jnp.where(own, 0.0, alpha)
    return jnp.where(own, others.sum(-1, keepdims=True), -others / mu)


def backward(
    Y: Float[Array, "tokens columns"], r: Float[Array, "classes columns"], population: Population
) -> Float[Array, "classes tokens"]:
    r"""$g_n = Y (e_n - \alpha_n)$, what the decoder sends back to the attention."""
    return (r * population.multiplicity) @ Y.T


def velocity(
    Y: Float[Array, "tokens columns"], Z: Float[Array, "queries tokens"], population: Population
) -> Velocity:
    r"""The velocities at $\eta_Y = \eta_Z = 1$, and the scan rates.

    $$\dot Y = \tfrac1K \sum_n f_n (e_n - \alpha_n)^\top, \qquad
      \dot z_m = \tfrac1K \sum_{n \in \psi^{-1}(m)} \mathrm{diag}(f_n)(I - f_n f_n^\top)\, g_n.$$
    """
    f = unit_attention(Z, population)
    r = residual(Y, f, population)
    pull = _pull(f, backward(Y, r, population))
    return Velocity(
        Y=f.T @ r / len(f),
        Z=jnp.zeros_like(Z).at[population.row].add(pull) / len(f),
        xi=_scan_rate(f, pull, population),
    )


def loss(
    Y: Float[Array, "tokens columns"], f: Float[Array, "classes tokens"], population: Population
) -> Float[Array, ""]:
    r"""The expected loss $-J = -\tfrac1K \sum_n \log \alpha_{nn}$, to full relative precision however small.

    With $d_v = f_n^\top(y_v - y_n)$ and $m = \max_v d_v \ge 0$, a class's loss is
    $m + \log(1 + \sum_{v \ne n} \mu_v e^{d_v - m} + (e^{-m} - 1))$.
    """
    logits = f @ Y
    d = logits - jnp.take_along_axis(logits, population.column[:, None], axis=-1)
    m = jax.lax.stop_gradient(d.max(-1, keepdims=True))
    each = jnp.where(_is_next(population), 0.0, population.multiplicity * jnp.exp(d - m))
    return (m[:, 0] + jnp.log1p(each.sum(-1) + jnp.expm1(-m[:, 0]))).mean()


def decoder_gain(
    f: Float[Array, "classes tokens"], g: Float[Array, "classes tokens"]
) -> Float[Array, ""]:
    r"""$\gamma$ as measured: the mean of $a_{nn}$ in the least-squares fits $g_n \approx \sum_{n'} a_{nn'} f_{n'}$.

    Classes that attend alike make the fit ambiguous; the smallest solution is taken.
    """
    overlap = f @ f.T
    return jnp.trace(g @ f.T @ jnp.linalg.pinv(overlap, hermitian=True)) / len(f)


def population_measures(
    Y: Float[Array, "tokens columns"],
    Z: Float[Array, "queries tokens"],
    population: Population,
) -> dict[str, Array]:
    r"""What every level records: `loss`, `y_norm`, `gamma` (scalars) and `xi` (per class), for infinite length.

    `y_norm` is the Frobenius norm of Y, whose other rows are 0. With $D_n$ the tokens distinct to class n,

    $$\xi_n = \sum_{l \in D_n} \dot z_{ml} f_{nl}^2 \Big/ \tfrac{\eta_Z}{K} \sum_{l \in D_n} f_{nl}^4,$$

    the least-squares common rate in $\dot z_{ml} = \tfrac{\eta_Z}{K} \xi_n f_{nl}^2$; NaN for a class without distinct
    tokens.
    """
    f = unit_attention(Z, population)
    g = backward(Y, residual(Y, f, population), population)
    return {
        "loss": loss(Y, f, population),
        "y_norm": jnp.sqrt((population.multiplicity * Y**2).sum()),
        "gamma": decoder_gain(f, g),
        "xi": jnp.where(has_distinct(population), _scan_rate(f, _pull(f, g), population), jnp.nan),
    }


def has_distinct(population: Population) -> Bool[Array, " classes"]:
    """Whether a class has any distinct token: without one it has no scan rate."""
    return jnp.asarray(population.distinct).any(-1)


def _is_next(population: Population) -> Bool[Array, "classes columns"]:
    return jnp.arange(len(population.multiplicity)) == population.column[:, None]


def _pull(
    f: Float[Array, "classes tokens"], g: Float[Array, "classes tokens"]
) -> Float[Array, "classes tokens"]:
    r"""What one class asks of its query's logits: $\mathrm{diag}(f_n)(I - f_n f_n^\top)\, g_n$."""
    return f * (g - f * (f * g).sum(-1, keepdims=True))


def _scan_rate(
    f: Float[Array, "classes tokens"],
    pull: Float[Array, "classes tokens"],
    population: Population,
) -> Float[Array, " classes"]:
    """The least-squares rate of `population_measures`; 0 for a class without distinct tokens.

    A distinct token is moved by its own class alone, so the class's pull is the whole velocity.
    """
    # In units of the largest one, so that no fourth power underflows.
    own = jnp.where(population.distinct, f, 0.0)
    top = own.max(-1, keepdims=True)
    u = own / jnp.where(top > 0, top, 1.0)
    rate = (pull * u**2).sum(-1) / jnp.maximum((u**4).sum(-1), 1.0)
    return rate / jnp.where(top > 0, top, 1.0)[:, 0] ** 2
