r"""One self-attention layer in token space: attention, losses and gradients, as pure JAX functions.

A sample is a bag: last token $q$, distinct tokens $x$ with multiplicities $m_x$, label $y$. The
layer's logit of token $x$ is $s_x = e_x^\top W e_q = S[q, x]$: the scores $S$ decide all it does.
Two *spaces* of parameters give the scores, and pull the gradient back:

- *pairs* (orthonormal embeddings): the parameters are the scores of the pairs $(q, x)$ that occur,
  sorted by (last token, token). $E$ is never stored, so a full vocabulary fits.
- *dense* (given embeddings): the parameters are $W$, and only tokens that occur have scores. Kept in a
  *table* of last tokens by tokens they are $S = Q W^\top E^\top$, with gradient $E^\top D^\top Q$ where $D = \partial
  L/\partial S$ ($Q$: the rows of $E$ that are last tokens). Where that is larger than the samples, scores are taken
  *by samples*: $s_i = X_i W q_i$ and $\sum_i X_i^\top r_i q_i^\top$, with residuals $r_i$.

`E` is $E$, `W` is $W$, `z` is $s_x + \log m_x$ per sample and slot, `a` the attention, `C` the head, whose score
of the label is $u = c_y^\top f = \sum_x a_x c_y^\top e_x$: under the identity head the attention mass on $y$.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from attomaton.corpus.samples import Samples
from attomaton.errors import UsageError
from attomaton.mechanics.data import Embeddings, expect_rows
from attomaton.mechanics.experiment.arguments import SCORE_LOSSES
from attomaton.numerics import ragged_softmax


class Bags(NamedTuple):
    """One data set padded to a rectangle, so that many can be stacked and trained side by side.

    Row `i` is a sample, slot `j` one of its distinct tokens; slots past its last are padding, of
    count 0. Rows past the last sample are padding too: weight 0, one token that is also the label,
    so that their loss is 0 and nothing in them can become NaN. In dense space tokens are rows of `Problem.E`.
    """

    score: Int[Array, "samples slots"] | None  # where a token's score stands; None by samples
    token: Int[Array, "samples slots"]
    last: Int[Array, " samples"]
    log_count: Float[Array, "samples slots"]  # log m_x; −inf in padding slots
    label_slot: Int[Array, " samples"]
    label: Int[Array, " samples"]
    weight: Float[Array, " samples"]  # sums to 1
    X: Float[Array, "samples slots width"] | None = None  # by samples, once spread: e_x
    q: Float[Array, "samples query_width"] | None = None  # and e_q


class Problem(NamedTuple):
    """What a gradient step needs to know: bags, embeddings (dense space only), vocabulary size, a general head."""

    bags: Bags
    E: Float[Array, "tokens width"] | None
    # Tokens of the vocabulary; of E, where all of them have rows, the rest is padding
    K: Float[Array, ""]
    Q: Float[Array, "lasts query_width"] | None = None  # e_q of the table's rows; None by samples
    C: Float[Array, "vocab width"] | None = None  # a general head, padded as E is


class Sizes(NamedTuple):
    """The rectangle that problems trained side by side are padded to, and the table of their scores."""

    rows: int
    slots: int
    tokens: int
    lasts: int

    @property
    def table(self) -> bool:
        """Whether the table of all scores is no larger than the samples."""
        return self.tokens * self.lasts <= self.rows * self.slots


def sizes_of(sets: Sequence[Samples], whole: bool = False) -> Sizes:
    """What fits all of these data sets; `whole` counts all tokens of a vocabulary, not only those that occur."""
    tokens = (len(s.vocabulary) if whole else len(_used(s)) for s in sets)
    lasts = (len(np.unique(s.last)) for s in sets)
    slots = max(int(s.size.max()) for s in sets)
    return Sizes(max(map(len, sets)), slots, max(tokens), max(lasts))


def _used(samples: Samples) -> Int[np.ndarray, " tokens"]:
    """The tokens that occur; of restricted samples (the cyclic data) a last token may be outside its own context."""
    return np.union1d(samples.token, samples.last)


def problem_of(
    samples: Samples,
    E: Embeddings | Float[np.ndarray, "vocab width"] | None = None,
    sizes: Sizes | None = None,
    whole: bool = True,
    C: Float[np.ndarray, "tokens columns"] | None = None,
) -> Problem:
    """The samples as a problem in NumPy: with `E` in dense space, without it in pairs space.

    Heads other than the identity need the vectors of the `whole` vocabulary. `sizes` asks for a larger rectangle;
    `C`, a general head, comes padded.

    >>> from attomaton.corpus.windows import samples_from_sequences
    >>> bags = problem_of(samples_from_sequences([[0, 1], [0, 0, 1]], [0, 1])).bags
    >>> bags.score.tolist(), np.exp(bags.log_count).tolist(), bags.label_slot.tolist()
    ([[0, 1], [0, 1]], [[1.0, 1.0], [2.0, 1.0]], [0, 1])
    """
    size = sizes or sizes_of([samples], whole)
    K = np.float64(len(samples.vocabulary))
    if E is None:
        numbers = samples.token, samples.last, samples.label
        return Problem._make(
            (_bags(samples, size, samples.pair_index()[1], *numbers), None, K, None, C)
        )
    table = _table(E)
    used = np.arange(len(table.E)) if whole else _used(samples)
    token, last, label = (
        np.searchsorted(used, x) for x in (samples.token, samples.last, samples.label)
    )
    keys, queries = (_filled(x[used], size.tokens) for x in (table.keys, table.queries))
    if not size.table:
        bags = _bags(samples, size, None, token, last, label)
        if table.split is not None:  # `spread` knows one table only
            bags = bags._replace(X=keys[bags.token], q=queries[bags.last])
        return Problem._make((bags, keys, K, None, C))
    lasts, row = np.unique(last, return_inverse=True)
    score = row[samples.sample_of] * size.tokens + token
    bags = _bags(samples, size, score, token, last, label)
    return Problem._make((bags, keys, K, _filled(queries[lasts], size.lasts), C))


def _table(E: Embeddings | np.ndarray) -> Embeddings:
    return E if isinstance(E, Embeddings) else Embeddings(np.asarray(E, float))


def _filled(rows: np.ndarray, length: int) -> np.ndarray:
    """With rows of zeros after the last, so many in all."""
    return np.concatenate([rows, np.zeros((length - len(rows), *rows.shape[1:]), rows.dtype)])


def _bags(
    samples: Samples,
    size: Sizes,
    score: Int[np.ndarray, " incidences"] | None,
    token: Int[np.ndarray, " incidences"],
    last: Int[np.ndarray, " samples"],
    label: Int[np.ndarray, " samples"],
) -> Bags:
    """The samples padded, with these numbers of scores and tokens."""
    shape = size.rows, size.slots
    owner = samples.sample_of
    slot = np.arange(len(owner)) - samples.start[owner]

    def padded(values: np.ndarray) -> Int[np.ndarray, "samples slots"]:
        found = np.zeros(shape, np.int32)
        found[owner, slot] = values
        return found

    log_count = np.full(shape, -np.inf)
    log_count[len(samples) :, 0] = 0.0
    log_count[owner, slot] = np.log(samples.count)
    own = samples.token == samples.label[owner]
    by_sample = (_filled(x, size.rows).astype(np.int32) for x in (last, slot[own], label))
    q, label_slot, y = by_sample
    weight = _filled(samples.weight / samples.total_weight, size.rows)
    scores = None if score is None else padded(score)
    return Bags._make((scores, padded(token), q, log_count, label_slot, y, weight, None, None))


def spread(problem: Problem) -> Problem:
    """The same problem; by samples, with the vectors of every slot at hand, so that a loop finds them once."""
    bags, E = problem.bags, problem.E
    if bags.score is not None or bags.X is not None or E is None:
        return problem
    return problem._replace(bags=bags._replace(X=E[bags.token], q=E[bags.last]))


def logits(params: Float[Array, "*shape"], problem: Problem) -> Float[Array, "samples slots"]:
    r"""$z = s_x + \log m_x$: a token that occurs $m$ times counts $m$ times; padding gets −inf."""
    bags, E, _, Q, _ = spread(problem)
    if bags.X is not None and bags.q is not None:
        scores = jnp.einsum("isd,id->is", bags.X, bags.q @ params.T)
    elif E is not None and Q is not None:
        scores = (Q @ params.T @ E.T).ravel()[bags.score]
    else:
        scores = params[bags.score]
    return scores + bags.log_count


def pull_back(
    residual: Float[Array, "samples slots"], params: Float[Array, "*shape"], problem: Problem
) -> Float[Array, "*shape"]:
    r"""The gradient by the parameters, given that by the logits: summed over the samples that share a score.

    $\partial L/\partial S[q, x] = \sum_i \partial L/\partial z_{ix}$.
    """
    bags, E, _, Q, _ = spread(problem)
    if bags.X is not None and bags.q is not None:
        return jnp.einsum("is,isd->id", residual, bags.X).T @ bags.q
    if E is not None and Q is not None:
        D = jnp.zeros(len(Q) * len(E), params.dtype).at[bags.score].add(residual)
        return (D.reshape(len(Q), len(E)) @ E).T @ Q
    return jnp.zeros_like(params).at[bags.score].add(residual)


def attention(params: Float[Array, "*shape"], problem: Problem) -> Float[Array, "samples slots"]:
    r"""The attention each sample pays to its distinct tokens, multiplicities included.

    $$a_x = m_x e^{s_x} / \sum_{x'} m_{x'} e^{s_{x'}}.$$
    """
    return jax.nn.softmax(logits(params, problem), axis=-1)


def loss_value(
    params: Float[Array, "*shape"], problem: Problem, head: str = "identity", loss: str = "log"
) -> Float[Array, ""]:
    """The training loss L, the weighted mean of the samples' losses."""
    z = logits(params, problem)
    if loss == "log":
        return problem.bags.weight @ _log_loss(z, problem.bags)
    return _choice_loss(jax.nn.softmax(z, axis=-1), problem, head, loss)


def loss_and_gradient(
    params: Float[Array, "*shape"], problem: Problem, head: str = "identity", loss: str = "log"
) -> tuple[Float[Array, ""], Float[Array, "*shape"]]:
    """The training loss and its gradient by the parameters: by the logits of every sample first, then pulled back."""
    problem = spread(problem)
    z = logits(params, problem)
    if loss == "log":
        value = problem.bags.weight @ _log_loss(z, problem.bags)
        residual = log_residual(z, problem.bags)
    else:
        a = jax.nn.softmax(z, axis=-1)
        value, v = jax.value_and_grad(_choice_loss)(a, problem, head, loss)
        residual = softmax_residual(a, v)
    return value, pull_back(residual, params, problem)


def log_residual(z: Float[Array, "samples slots"], bags: Bags) -> Float[Array, "samples slots"]:
    r"""The gradient of the mean log-loss by the logits, $w_i (p_i(x) - 1[x = y_i])$.

    The label's entry is taken as $-\sum_{x \ne y} p(x)$: the plain $p(y) - 1$ loses all its digits
    once $p(y)$ is close to 1, and normalised descent would then follow rounding noise.
    """
    label = _is_label(bags)
    others = jnp.where(label, 0.0, jax.nn.softmax(z, axis=-1))
    return bags.weight[:, None] * jnp.where(label, -others.sum(-1, keepdims=True), others)


def _is_label(bags: Bags) -> Array:
    return jnp.arange(bags.token.shape[1]) == bags.label_slot[:, None]


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


def _choice_loss(
    a: Float[Array, "samples slots"], problem: Problem, head: str, loss: str
) -> Float[Array, ""]:
    """The weighted mean of every loss but the log-loss, from the samples' attention."""
    if loss in SCORE_LOSSES:
        u_top, short = _score(a, problem, head)
        # 1 − u as a sum of what is missing: exact where the layer is almost sure.
        each = (
            (1 - u_top + short) ** 2 if loss == "squared-score" else jax.nn.softplus(short - u_top)
        )
    else:
        log_u = _log_choice(a, problem, head)
        # 1 − u as −expm1(log u): exact where the layer is almost sure.
        each = -log_u if loss == "cross-entropy" else jnp.expm1(log_u) ** 2
    return problem.bags.weight @ each


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
    logit $a_x$, the $K - |X|$ others logit 0: no vector of vocabulary length is needed. Else it is $C f$ with
    $f = E^\top a$.
    """
    bags, E, K, _, _ = problem
    C = _head(problem, head)
    if C is None:
        present = jnp.isfinite(bags.log_count)
        total = jnp.where(present, jnp.exp(a), 0.0).sum(-1) + (K - present.sum(-1))
        return jnp.take_along_axis(a, bags.label_slot[:, None], axis=-1)[:, 0] - jnp.log(total)
    row = jnp.arange(len(a))
    mass = jnp.zeros((len(a), len(C)), a.dtype).at[row[:, None], bags.token].add(a)
    Cf = jnp.where(jnp.arange(len(C)) < K, (mass if E is None else mass @ E) @ C.T, -jnp.inf)
    return Cf[row, bags.label] - jax.nn.logsumexp(Cf, axis=-1)


def _score(
    a: Float[Array, "samples slots"], problem: Problem, head: str
) -> tuple[Float[Array, " samples"], Float[Array, " samples"]]:
    r"""The score $u = c_y^\top f$ as $c_y^\top e_y$ and what is missing to it, $\sum_x a_x c_y^\top (e_y - e_x)$."""
    bags, E = problem.bags, problem.E
    C = _head(problem, head)
    if C is None:
        return jnp.ones(len(a)), jnp.where(_is_label(bags), 0.0, a).sum(-1)
    y = bags.label[:, None]
    s = C[y, bags.token] if E is None else (C[y] * E[bags.token]).sum(-1)
    s_y = jnp.take_along_axis(s, bags.label_slot[:, None], axis=-1)
    return s_y[:, 0], (a * (s_y - s)).sum(-1)


def _head(problem: Problem, head: str) -> Float[Array, "vocab width"] | None:
    """The head C; None where $C f$ is the attention mass of each token (Assumption 1)."""
    return problem.E if head == "tied" else problem.C


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
        E = _table(embeddings)
        shape = E.keys.shape[1], E.queries.shape[1]
        if params.shape != shape:
            raise UsageError(
                f"W: expected shape {shape} for embeddings of width {E.E.shape[1]}, got {params.shape}."
            )
        expect_rows(E.E, len(samples.vocabulary))
        lasts, which = np.unique(samples.last, return_inverse=True)
        query = E.queries[lasts] @ params.T
        z = np.einsum("id,id->i", E.keys[samples.token], query[which[owner]])
    return ragged_softmax(z + np.log(samples.count), samples.start)
