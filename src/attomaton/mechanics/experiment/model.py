r"""One self-attention layer in token space: attention, losses and gradients, as pure JAX functions.

A sample is a bag: last token $q$, distinct tokens $x$ with multiplicities $m_x$, label $y$. The
layer's logit of token $x$ is $s_x = e_x^\top W e_q = S[q, x]$: the scores $S$ decide all it does.
Two *spaces* of parameters give the scores, and pull the gradient back:

- *pairs* (orthonormal embeddings): the parameters are the scores of the pairs $(q, x)$ that occur,
  sorted by (last token, token). $E$ is never stored, so a full vocabulary fits.
- *dense* (given embeddings): the parameters are $W$; $S = E W^\top E^\top$ and
  $\nabla_W L = E^\top (\partial L/\partial S)^\top E$.

`E` is $E$, `W` is $W$, `z` is $s_x + \log m_x$ per sample and slot, `a` the attention.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from attomaton.corpus.samples import Samples
from attomaton.errors import DataError, UsageError
from attomaton.mechanics.data import Embeddings
from attomaton.numerics import ragged_softmax


class Bags(NamedTuple):
    """One data set padded to a rectangle, so that many can be stacked and trained side by side.

    Row `i` is a sample, slot `j` one of its distinct tokens; slots past its last are padding, of
    count 0. Rows past the last sample are padding too: weight 0, one token that is also the label,
    so that their loss is 0 and nothing in them can become NaN.
    """

    score: Int[Array, "samples slots"]  # where this token's score stands in the flat score vector
    token: Int[Array, "samples slots"]
    log_count: Float[Array, "samples slots"]  # log m_x; −inf in padding slots
    label_slot: Int[Array, " samples"]
    label: Int[Array, " samples"]
    weight: Float[Array, " samples"]  # sums to 1


class Problem(NamedTuple):
    """What a gradient step needs to know: bags, embeddings (dense space only), vocabulary size."""

    bags: Bags
    E: Float[Array, "vocab width"] | None
    K: Float[Array, ""]  # real tokens: rows of E past this many are padding


def bags_of(
    samples: Samples,
    vocab: int | None = None,
    rows: int | None = None,
    slots: int | None = None,
) -> Bags:
    """The samples as NumPy `Bags`, for the dense space of `vocab` tokens or (without it) for pairs.

    `rows` and `slots` ask for a larger rectangle than these samples need.

    >>> from attomaton.corpus.windows import samples_from_sequences
    >>> bags = bags_of(samples_from_sequences([[0, 1], [0, 0, 1]], [0, 1]))
    >>> bags.score.tolist(), np.exp(bags.log_count).tolist(), bags.label_slot.tolist()
    ([[0, 1], [0, 1]], [[1.0, 1.0], [2.0, 1.0]], [0, 1])
    """
    shape = (rows or len(samples), slots or int(samples.size.max()))
    owner = samples.sample_of
    slot = np.arange(len(owner)) - samples.start[owner]
    flat = samples.last[owner].astype(np.int64) * (vocab or 0) + samples.token
    index = samples.pair_index()[1] if vocab is None else flat
    score, token = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    log_count = np.full(shape, -np.inf)
    log_count[len(samples) :, 0] = 0.0
    score[owner, slot], token[owner, slot] = index, samples.token
    log_count[owner, slot] = np.log(samples.count)
    label_slot, label = np.zeros(shape[0], np.int32), np.zeros(shape[0], np.int32)
    own = samples.token == samples.label[owner]
    label_slot[: len(samples)], label[: len(samples)] = slot[own], samples.label
    weight = np.zeros(shape[0])
    weight[: len(samples)] = samples.weight / samples.total_weight
    return Bags._make((score, token, log_count, label_slot, label, weight))


def flat_scores(params: Float[Array, "*shape"], E: Array | None) -> Float[Array, " scores"]:
    r"""The flat score vector: the parameters themselves, or $S[q, x] = e_x^\top W e_q$ by rows."""
    return params if E is None else (E @ params.T @ E.T).ravel()


def pull_back(D: Float[Array, " scores"], E: Array | None) -> Float[Array, "*shape"]:
    r"""The gradient by the parameters ($E^\top D^\top E$ in dense space), given $D = ∂L/∂S$."""
    return D if E is None else E.T @ D.reshape(len(E), len(E)).T @ E


def logits(scores: Float[Array, " scores"], bags: Bags) -> Float[Array, "samples slots"]:
    r"""$z = s_x + \log m_x$: a token that occurs $m$ times counts $m$ times; padding gets −inf."""
    return scores[bags.score] + bags.log_count


def attention(scores: Float[Array, " scores"], bags: Bags) -> Float[Array, "samples slots"]:
    r"""The attention each sample pays to its distinct tokens, multiplicities included.

    $$a_x = m_x e^{s_x} / \sum_{x'} m_{x'} e^{s_{x'}}.$$
    """
    return jax.nn.softmax(logits(scores, bags), axis=-1)


def loss_value(
    params: Float[Array, "*shape"], problem: Problem, head: str = "identity", loss: str = "log"
) -> Float[Array, ""]:
    """The training loss L, the weighted mean of the samples' losses."""
    z = logits(flat_scores(params, problem.E), problem.bags)
    return _mean_loss(z, problem, head, loss)


def loss_and_gradient(
    params: Float[Array, "*shape"], problem: Problem, head: str = "identity", loss: str = "log"
) -> tuple[Float[Array, ""], Float[Array, "*shape"]]:
    r"""The training loss and its gradient by the parameters.

    First by the logits `z` of every sample, then summed over the samples that share a score,
    $\partial L/\partial S[q, x] = \sum_i \partial L/\partial z_{ix}$, then pulled back to the
    parameters.
    """
    bags, E = problem.bags, problem.E
    scores = flat_scores(params, E)
    z = logits(scores, bags)
    if loss == "log":
        value, residual = _mean_loss(z, problem, head, loss), log_residual(z, bags)
    else:
        a = jax.nn.softmax(z, axis=-1)
        value, v = jax.value_and_grad(_choice_loss)(a, problem, head, loss)
        residual = softmax_residual(a, v)
    return value, pull_back(jnp.zeros_like(scores).at[bags.score].add(residual), E)


def log_residual(z: Float[Array, "samples slots"], bags: Bags) -> Float[Array, "samples slots"]:
    r"""The gradient of the mean log-loss by the logits, $w_i (p_i(x) - 1[x = y_i])$.

    The label's entry is taken as $-\sum_{x \ne y} p(x)$: the plain $p(y) - 1$ loses all its digits
    once $p(y)$ is close to 1, and normalised descent would then follow rounding noise.
    """
    label = _is_label(bags)
    others = jnp.where(label, 0.0, jax.nn.softmax(z, axis=-1))
    return bags.weight[:, None] * jnp.where(label, -others.sum(-1, keepdims=True), others)


def _is_label(bags: Bags) -> Array:
    return jnp.arange(bags.score.shape[1]) == bags.label_slot[:, None]


def softmax_residual(
    a: Float[Array, "samples slots"], v: Float[Array, "samples slots"]
) -> Float[Array, "samples slots"]:
    r"""The gradient by the logits, $a_x (v_x - \sum_{x'} a_{x'} v_{x'})$, given that by the attention.

    Taken relative to the token with most attention, whose own term is then exactly 0: once attention has
    nearly settled, the plain difference is rounding noise, and normalised descent would follow it.
    """
    top = jnp.take_along_axis(v, a.argmax(-1, keepdims=True), axis=-1)
    v = jnp.where(a > 0, v - top, 0.0)
    return a * (v - (a * v).sum(-1, keepdims=True))


def _mean_loss(
    z: Float[Array, "samples slots"], problem: Problem, head: str, loss: str
) -> Float[Array, ""]:
    """The weighted mean of one loss per sample, from the samples' logits."""
    if loss == "log":
        return problem.bags.weight @ _log_loss(z, problem.bags)
    return _choice_loss(jax.nn.softmax(z, axis=-1), problem, head, loss)


def _choice_loss(
    a: Float[Array, "samples slots"], problem: Problem, head: str, loss: str
) -> Float[Array, ""]:
    """The weighted mean of the squared loss or the cross-entropy, from the samples' attention."""
    log_u = _log_choice(a, problem, head)
    # 1 − u as −expm1(log u): exact where the layer is almost sure.
    return problem.bags.weight @ (-log_u if loss == "cross-entropy" else jnp.expm1(log_u) ** 2)


def _log_loss(z: Float[Array, "samples slots"], bags: Bags) -> Float[Array, " samples"]:
    r"""$-\log p(y) = \log \sum_x e^{z_x - z_y}$, to full relative precision however small.

    With $m = \max_x (z_x - z_y) \ge 0$ it is
    $m + \log(1 + \sum_{x \ne y} e^{z_x - z_y - m} + (e^{-m} - 1))$.
    """
    label = _is_label(bags)
    gap = z - jnp.take_along_axis(z, bags.label_slot[:, None], axis=-1)
    m = jax.lax.stop_gradient(gap.max(-1))
    others = jnp.where(label, 0.0, jnp.exp(gap - m[:, None])).sum(-1)
    return m + jnp.log1p(others + jnp.expm1(-m))


def _log_choice(
    a: Float[Array, "samples slots"], problem: Problem, head: str
) -> Float[Array, " samples"]:
    r"""$\log \mathrm{softmax}(C f)_y$ over the whole vocabulary.

    Under the identity head $C f$ is the attention mass of each token: tokens of the sample have
    logit $a_x$, the $K - |X|$ others logit 0: no vector of vocabulary length is needed. Under the
    tied head, $C = E$, it is $E f$ with $f = E^\top a$ (orthonormal embeddings: again the mass).
    """
    bags, E, K = problem
    if head == "identity" or E is None:
        present = jnp.isfinite(bags.log_count)
        total = jnp.where(present, jnp.exp(a), 0.0).sum(-1) + (K - present.sum(-1))
        return jnp.take_along_axis(a, bags.label_slot[:, None], axis=-1)[:, 0] - jnp.log(total)
    row = jnp.arange(len(a))
    mass = jnp.zeros((len(a), len(E)), a.dtype).at[row[:, None], bags.token].add(a)
    Cf = jnp.where(jnp.arange(len(E)) < K, mass @ E @ E.T, -jnp.inf)
    return Cf[row, bags.label] - jax.nn.logsumexp(Cf, axis=-1)


def attention_of(
    samples: Samples,
    params: Float[np.ndarray, "*shape"],
    embeddings: Embeddings | Float[np.ndarray, "vocab width"] | None = None,
) -> Float[np.ndarray, " incidences"]:
    """The attention each sample pays to its tokens, aligned with `samples.token`.

    `params` are the pair scores, or with `embeddings` the matrix W.

    >>> from attomaton.corpus.windows import samples_from_sequences
    >>> attention_of(samples_from_sequences([[0, 0, 1]], [0]), np.zeros(2)).round(3).tolist()
    [0.667, 0.333]
    """
    params = np.asarray(params, dtype=np.float64)
    owner = samples.sample_of
    if embeddings is None:
        keys, pair = samples.pair_index()
        if params.shape != keys.shape:
            raise UsageError(
                f"pair scores: expected shape {keys.shape}, one score for each pair (last token, "
                f"token) of the samples, got {params.shape}."
            )
        z = params[pair]
    else:
        E = embeddings.E if isinstance(embeddings, Embeddings) else np.asarray(embeddings, float)
        if params.shape != (E.shape[1], E.shape[1]):
            raise UsageError(
                f"W: expected shape ({E.shape[1]}, {E.shape[1]}) for embeddings of width "
                f"{E.shape[1]}, got {params.shape}."
            )
        if len(E) != len(samples.vocabulary):
            raise DataError(
                f"embeddings: {len(E)} rows for a vocabulary of {len(samples.vocabulary)} tokens; "
                "one each is needed."
            )
        z = (E @ params.T @ E.T)[samples.last[owner], samples.token]
    return ragged_softmax(z + np.log(samples.count), samples.start)
