r"""The layer of Scan and Snap as pure JAX functions: attention, logits, loss and gradient of a batch.

A context is a bag: `counts[b, l]` says how often context token $l$ occurs in it (any non-negative weights
will do: with $P(l|n)$ for counts the same functions give the long-sequence layer). With query $m$ and next
token $n$,

$$c_l = \frac{m_l e^{z_{ml}}}{\sum_{l'} m_{l'} e^{z_{ml'}}}, \qquad f = c / \|c\|_2, \qquad
\alpha = \mathrm{softmax}(Y^\top f), \qquad \text{loss} = -\log \alpha_n.$$

Parameters are kept only where they can move or matter: `Y` has the rows of the L context tokens and all M
columns, `Z` the rows of the Q queries and the columns of the context tokens. All other rows of Y meet only
zeros of f, all other entries of Z never enter. Two variants are offered: `normalise="none"`, where $f = c$,
and the residual one, $f = \mathrm{LN}(\mathrm{LN}(c) + e_m)$ with $\mathrm{LN}(x) = (x - \bar x)/\|x - \bar x\|_2$ over
all M tokens and nothing learned in it; its f has no zeros, so there `Y` has all M rows. A context has no
order, so a positional bias is an additive prior on the attention logits: one number per context token.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from attomaton.scan_snap.data import SequenceClasses


class Layer(NamedTuple):
    """What the layer knows of its data set besides contexts; context tokens and queries in ascending order."""

    token: Int[Array, " tokens"]  # vocabulary id of each context token
    query: Int[Array, " queries"]  # vocabulary id of each query
    shared: Int[
        Array | np.ndarray, " shared"
    ]  # context tokens, by position, met under several queries
    alone: Bool[Array, "queries tokens"]  # token l is met under query q and no other
    bias: Float[Array, " tokens"]  # prior on the attention logits


class Params(NamedTuple):
    """Y, decoder logits, and Z, attention logits; `rows` is tokens, or vocab in the residual variant."""

    Y: Float[Array, "rows vocab"]
    Z: Float[Array, "queries tokens"]


class Batch(NamedTuple):
    """Contexts as bags, with the position of their query in `Layer.query` and the id of their next token."""

    counts: Float[Array, "batch tokens"]
    query: Int[Array, " batch"]
    label: Int[Array, " batch"]


def layer_of(
    classes: SequenceClasses,
    bias: Float[np.ndarray, " tokens"] | None = None,
    dtype: type = np.float64,
) -> Layer:
    """The layer for these classes, in NumPy.

    >>> from attomaton.scan_snap.data import sequence_classes
    >>> P = [[0.5, 0.5, 0, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0, 0, 0]]
    >>> layer = layer_of(sequence_classes(P, [3, 4], [5, 6]))
    >>> layer.shared.tolist(), layer.alone.astype(int).tolist()
    ([1], [[1, 0, 0], [0, 0, 1]])
    """
    token, query = classes.context_tokens, classes.queries
    has = classes.P[:, token] > 0
    met = np.stack([has[classes.query_of == q].any(axis=0) for q in query])
    several = met.sum(axis=0) > 1
    prior = np.zeros(len(token)) if bias is None else bias
    return Layer._make((token, query, np.flatnonzero(several), met & ~several, prior.astype(dtype)))


def population(classes: SequenceClasses, dtype: type = np.float64) -> Batch:
    """Every class once, as a context of infinite length: its law in place of counts."""
    query = np.searchsorted(classes.queries, classes.query_of)
    law: np.ndarray = classes.P[:, classes.context_tokens].astype(dtype)
    return Batch._make((law, query, classes.next_of))


def attention(
    z: Float[Array, "batch tokens"], counts: Float[Array, "batch tokens"]
) -> Float[Array, "batch tokens"]:
    r"""$c_l \propto m_l e^{z_l}$, adding up to 1; exactly 0 for a token that does not occur."""
    present = counts > 0
    peak = jax.lax.stop_gradient(jnp.where(present, z, -jnp.inf).max(axis=-1, keepdims=True))
    e = counts * jnp.exp(jnp.where(present, z - peak, -jnp.inf))
    return e / e.sum(axis=-1, keepdims=True)


def standardised(x: Float[Array, "batch vocab"]) -> Float[Array, "batch vocab"]:
    r"""$\mathrm{LN}(x) = (x - \bar x) / \|x - \bar x\|_2$, without learned scale or shift."""
    x = x - x.mean(axis=-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).sum(axis=-1, keepdims=True))


def features(
    z: Float[Array, "batch tokens"],
    batch: Batch,
    layer: Layer,
    vocab: int,
    normalise: str = "l2",
    residual: bool = False,
) -> Float[Array, "batch rows"]:
    """f: what the decoder reads, for attention logits given context by context."""
    c = attention(z + layer.bias, batch.counts)
    if residual:
        whole = jnp.zeros((len(c), vocab), c.dtype).at[:, layer.token].set(c)
        own = jax.nn.one_hot(jnp.asarray(layer.query)[batch.query], vocab, dtype=c.dtype)
        return standardised(standardised(whole) + own)
    if normalise == "l2":
        return c * jax.lax.rsqrt((c * c).sum(axis=-1, keepdims=True))
    return c


def log_likelihood(
    Y: Float[Array, "rows vocab"],
    z: Float[Array, "batch tokens"],
    batch: Batch,
    layer: Layer,
    normalise: str = "l2",
    residual: bool = False,
) -> Float[Array, " batch"]:
    r"""$\log \alpha_n$ of every context, for attention logits given context by context."""
    logits = features(z, batch, layer, Y.shape[1], normalise, residual) @ Y
    at = jnp.take_along_axis(logits, batch.label[:, None], axis=1)[:, 0]
    return at - jax.nn.logsumexp(logits, axis=-1)


def mean_loss(
    params: Params, batch: Batch, layer: Layer, normalise: str = "l2", residual: bool = False
) -> Float[Array, ""]:
    r"""The mean of $-\log \alpha_n$ over the batch."""
    z = params.Z[batch.query]
    return -log_likelihood(params.Y, z, batch, layer, normalise, residual).mean()


def ascent(
    params: Params, batch: Batch, layer: Layer, normalise: str = "l2", residual: bool = False
) -> Params:
    r"""The direction of steepest ascent of the mean of $\log \alpha_n$: the gradient of `-mean_loss`.

    With $r = e_n - \alpha$ and $g = Y r$, each context contributes

    $$\dot Y = f r^\top, \qquad \dot z_m = f \circ (g - f\,(f^\top g)) \quad
    \text{(without normalisation } c \circ (g - c^\top g)\text{)}.$$

    Two identities save a product of matrices: $f^\top g = (Y^\top f)^\top r$ needs the logits only; and for a token
    $l$ met under one query, $\sum_b f_{bl} g_{bl} = \sum_j Y_{lj} \dot Y_{lj}$, a by-product of $\dot Y$. Only tokens
    that several queries share need their own $g$. The residual variant is left to automatic differentiation.
    """
    if residual:
        down = jax.grad(mean_loss)(params, batch, layer, normalise, residual)
        return jax.tree.map(jnp.negative, down)
    Y, Z = params
    size, vocab = len(batch.query), Y.shape[1]
    f = features(Z[batch.query], batch, layer, vocab, normalise)
    logits = f @ Y
    r = (jnp.arange(vocab) == batch.label[:, None]) - jax.nn.softmax(logits, axis=-1)
    along = (logits * r).sum(axis=-1, keepdims=True)  # fᵀg
    dY = f.T @ r
    by_query = (batch.query == jnp.arange(len(Z))[:, None]).astype(Y.dtype)
    met = layer.alone * (dY * Y).sum(axis=-1)
    g = r @ Y[layer.shared].T
    met = met.at[:, layer.shared].set(by_query @ (f[:, layer.shared] * g))
    dZ = met - by_query @ (f * (f if normalise == "l2" else 1) * along)
    return Params(dY / size, dZ / size)


class Signal(NamedTuple):
    r"""What the expected dynamics are like at one moment, class by class.

    `gram[n, n']` is $f_n^\top f_{n'}$ and `onto[n, n']` is $f_{n'}^\top g_n$, from which follow the coefficients of
    $g_n$ on the family $f_1 \dots f_K$; `scan_rate` is $\xi_n$.
    """

    loss: Float[Array, ""]
    gram: Float[Array, "classes classes"]
    onto: Float[Array, "classes classes"]
    scan_rate: Float[Array, " classes"]


def signal(
    params: Params,
    whole: Batch,
    distinct: Bool[Array, "classes tokens"],
    layer: Layer,
    normalise: str = "l2",
    residual: bool = False,
) -> Signal:
    r"""Loss, decoder signal and scan rate of the long-sequence layer on the `population` of classes.

    If distinct tokens moved by $\dot z_l = (\eta_Z/K) f_{nl}^2 \xi_n$ exactly, all would give one $\xi_n$. As on the
    other levels it is the least-squares rate over the distinct tokens $l$ of $n$:
    $\xi_n = (K/\eta_Z) \sum_l \dot z_l f_{nl}^2 / \sum_l f_{nl}^4$, with $\dot z$ class n's own share of the gradient
    and $f_n = c_n/\|c_n\|_2$ in every variant; NaN where a class has none.
    """
    Y, z, vocab = params.Y, params.Z[whole.query], params.Y.shape[1]
    F = features(z, whole, layer, vocab, normalise, residual)
    logits = F @ Y
    log_alpha = jax.nn.log_softmax(logits, axis=-1)
    own = whole.label[:, None] == jnp.arange(vocab)
    r = own - jnp.exp(log_alpha)
    if residual:
        dz = jax.grad(lambda z: log_likelihood(Y, z, whole, layer, normalise, True).sum())(z)
    else:
        g, along = r @ Y.T, (logits * r).sum(axis=-1, keepdims=True)
        dz = F * (g - (F if normalise == "l2" else 1) * along)
    c = attention(z + layer.bias, whole.counts)
    f2 = distinct * c**2 / (c**2).sum(axis=-1, keepdims=True)
    weight = (f2 * f2).sum(axis=-1)
    rate = (f2 * dz).sum(axis=-1) / jnp.where(weight > 0, weight, 1)
    loss = -jnp.where(own, log_alpha, 0).sum(axis=-1).mean()
    return Signal(loss, F @ F.T, r @ logits.T, jnp.where(weight > 0, rate, jnp.nan))
