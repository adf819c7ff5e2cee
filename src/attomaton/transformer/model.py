r"""The transformer as pure JAX functions: attention, layer norms, feed-forward, and the loss of next tokens.

With $u_x$ the embedding of token x and $p_t$ the position t, a layer maps $x_t$ (at first $\sqrt d\, u_{x_t} + p_t$) to

$$b_{ts} \propto e^{q_t^\top k_s / \sqrt{d}} \;(s \le t), \qquad
x' = \mathrm{LN}\big(x + W_O^\top \textstyle\sum_s b_{ts} v_s\big), \qquad
x'' = \mathrm{LN}\big(x' + W_2^\top \mathrm{relu}(W_1^\top x')\big)$$

with $q, k, v = W_Q^\top x, W_K^\top x, W_V^\top x$ (and biases), in heads of width d / heads where there are several.
The decoder gives the logits of the next token. Dropout is applied to the embedded input, the attention, the hidden
units and both branches before they are added.
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt16

from attomaton.errors import UsageError
from attomaton.numerics import named_rng

# How numbers are multiplied. "tf32" leaves single-precision matrices to the device, which may round their entries to
# ten bits (a CPU does not); "bfloat16" besides rounds what the decoder multiplies to eight. Sums are kept in single
# precision. Kernels of ours multiply in sixteen bits, the decoder's rows and those after attention: float16, which has
# ten bits as well, or bfloat16.
PRECISIONS = ("float64", "float32", "tf32", "bfloat16")
# Sizes that matrix units take without copying
VOCAB_MULTIPLE, WIDTH_MULTIPLE, TOKENS_MULTIPLE = 128, 16, 8
PIECE = 2048  # tokens of the vocabulary that kernels of ours take at a time
# Chunks of tokens are as long as their logits stay within this. Each chunk reads and writes the gradient of the whole
# decoder (27 MB for WikiText-2 at width 200), so few are wanted: on processors as long as their caches are served
# well, elsewhere as long as memory allows (an H200 takes 0.7 of the time with one chunk instead of three).
CHUNK_BYTES = {"cpu": 1 << 25}
CHUNK_BYTES_ELSEWHERE = 1 << 28
TRITON = "jax.experimental.pallas.triton"  # what they need; not every version of JAX has it
EPSILON = 1e-5  # added to the variance in layer norms
EDGE = 0.1  # embeddings and decoder start uniform in ±EDGE


class Settings(NamedTuple):
    """The shape of the model; the defaults are those of the published Figure 7."""

    vocab: int
    width: int = 200
    heads: int = 1
    hidden: int = 200
    layers: int = 1
    dropout: float = 0.2
    positions: bool = True


class Layer(NamedTuple):
    """Weights of one layer; query, key and value side by side, so that one product gives all three."""

    W_QKV: Float[Array, "*runs width 3 width"]
    b_QKV: Float[Array, "*runs 3 width"]
    W_O: Float[Array, "*runs width width"]
    b_O: Float[Array, "*runs width"]
    scale_1: Float[Array, "*runs width"]
    shift_1: Float[Array, "*runs width"]
    W_1: Float[Array, "*runs width hidden"]
    b_1: Float[Array, "*runs hidden"]
    W_2: Float[Array, "*runs hidden width"]
    b_2: Float[Array, "*runs width"]
    scale_2: Float[Array, "*runs width"]
    shift_2: Float[Array, "*runs width"]


class Params(NamedTuple):
    """All weights: embeddings U, layers, and the decoder with its bias.

    Where b is None, D is both of them: see `joined`.
    """

    U: Float[Array, "*runs vocab width"]
    layers: tuple[Layer, ...]
    D: Float[Array, "*runs vocab width"]
    b: Float[Array, "*runs vocab"] | None


def joined(
    D: Float[Array, "vocab width"], b: Float[Array, " vocab"]
) -> Float[Array, "filled wide"]:
    """[D | b | 0], filled up with zeros to sizes that matrix units take: one product gives logits, one all slopes.

    >>> joined(jnp.ones((3, 4)), jnp.ones(3)).shape
    (128, 16)
    """
    vocab, width = D.shape
    both = jnp.concatenate([D, b[:, None]], axis=1)
    return jnp.pad(both, ((0, filled(vocab) - vocab), (0, -(width + 1) % WIDTH_MULTIPLE)))


def filled(vocab: int) -> int:
    """How many rows the joined matrix has: pieces of one length, which matrix units take as they are.

    >>> filled(33_279), piece_count(33_279)
    (33280, 20)
    """
    units, count = -(-vocab // VOCAB_MULTIPLE), piece_count(vocab)
    return count * -(-units // count) * VOCAB_MULTIPLE


def piece_count(vocab: int) -> int:
    """Into how many pieces the vocabulary is cut: of at most `PIECE` tokens, and so that little is filled up."""
    units = -(-vocab // VOCAB_MULTIPLE)
    least = -(-units * VOCAB_MULTIPLE // PIECE)
    return min(range(least, 2 * least), key=lambda count: count * -(-units // count))


def parted(
    R: Float[Array, "filled wide"], vocab: int, width: int
) -> tuple[Float[Array, "vocab width"], Float[Array, " vocab"]]:
    """D and b of the joined matrix."""
    return R[:vocab, :width], R[:vocab, width]


def check_settings(settings: Settings) -> None:
    """Refuse a shape that no model has."""
    for name in ("vocab", "width", "heads", "hidden", "layers"):
        if getattr(settings, name) < 1:
            raise UsageError(f"{name}={getattr(settings, name)}: at least 1 is needed.")
    if settings.width % settings.heads:
        raise UsageError(f"heads={settings.heads} do not divide the width {settings.width}.")
    if not 0 <= settings.dropout < 1:
        raise UsageError(f"dropout={settings.dropout}: a share from 0 to below 1 is needed.")


def initial_params(settings: Settings, seed: int, index: int, dtype: Any = np.float32) -> Params:
    """The start that (seed, index) names: tokens ±0.1, other matrices Xavier uniform, biases 0; in NumPy.

    Query, key and value count as one matrix, as in the published program.
    """
    rng = named_rng(f"transformer start {index}", seed)
    d, h = settings.width, settings.hidden

    def xavier(rows: int, columns: int) -> np.ndarray:
        edge = np.sqrt(6 / (rows + columns))
        return rng.uniform(-edge, edge, (rows, columns)).astype(dtype)

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, dtype)

    def ones() -> np.ndarray:
        return np.ones(d, dtype)

    U = rng.uniform(-EDGE, EDGE, (settings.vocab, d)).astype(dtype)
    layers = tuple(
        Layer._make(
            (
                xavier(d, 3 * d).reshape(d, 3, d), zeros(3, d),
                xavier(d, d), zeros(d), ones(), zeros(d),
                xavier(d, h), zeros(h), xavier(h, d), zeros(d), ones(), zeros(d),
            )
        )
        for _ in range(settings.layers)
    )  # fmt: skip
    D = rng.uniform(-EDGE, EDGE, (settings.vocab, d)).astype(dtype)
    return Params._make((U, layers, D, zeros(settings.vocab)))


def position_codes(length: int, width: int) -> Float[np.ndarray, "length width"]:
    """Sines and cosines of each position, with wavelengths from 2π to 2π · 10,000.

    >>> position_codes(2, 4).round(3).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.841, 0.54, 0.01, 1.0]]
    """
    even = np.arange(0, width, 2)
    angle = np.arange(length)[:, None] / 10_000 ** (even / width)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, -1)[:, :width]


# Dropout


def draw_noise(
    key: Array, settings: Settings, batch: int, length: int
) -> UInt16[Array, " numbers"]:
    """Random bits for one step, drawn all at once: sixteen for each number that may be dropped."""
    wide = length * settings.width
    layer = settings.heads * length**2 + length * settings.hidden + 2 * wide
    return jax.random.bits(key, (batch * (wide + settings.layers * layer),), jnp.uint16)


class Noise:
    """The random bits of a step, handed out in the order in which `hidden_states` drops numbers."""

    def __init__(self, bits: UInt16[Array, " numbers"]) -> None:
        self.bits, self.taken = bits, 0

    def place(self, size: int) -> int:
        """Where the next so many begin."""
        self.taken += size
        return self.taken - size

    def take(self, shape: tuple[int, ...]) -> UInt16[Array, "..."]:
        """The next ones, for an array of this shape."""
        size = int(np.prod(shape))
        first = self.place(size)
        return self.bits[first : first + size].reshape(shape)


def dropout_edge(rate: float) -> int:
    """Noise below it drops a number; others are enlarged by 2¹⁶ / (2¹⁶ − edge), which leaves no bias.

    >>> dropout_edge(0.25)
    16384
    """
    return round(rate * 2**16)


def _drop(x: Float[Array, "*shape"], noise: Noise | None, rate: float) -> Float[Array, "*shape"]:
    """x with a share `rate` of its entries set to 0 and the others enlarged, so that the mean stays."""
    if noise is None:
        return x
    edge = dropout_edge(rate)
    return jnp.where(noise.take(x.shape) >= edge, x * x.dtype.type(2**16 / (2**16 - edge)), 0)


# Layers


def _norm(
    x: Float[Array, "*n width"], scale: Float[Array, " width"], shift: Float[Array, " width"]
) -> Float[Array, "*n width"]:
    centred = x - x.mean(axis=-1, keepdims=True)
    return (
        centred * jax.lax.rsqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON) * scale + shift
    )


def attention_scores(
    layer: Layer, x: Float[Array, "batch length width"], heads: int
) -> tuple[Float[Array, "batch heads length length"], Float[Array, "batch length heads each"]]:
    """The logits of causal attention, −∞ at later positions, and the values."""
    batch, length, width = x.shape
    qkv = jnp.einsum("btd,dce->btce", x, layer.W_QKV) + layer.b_QKV
    q, k, v = (qkv[:, :, i].reshape(batch, length, heads, -1) for i in range(3))
    scores = jnp.einsum("bthe,bshe->bhts", q, k) / np.sqrt(width // heads)
    return jnp.where(np.tri(length, dtype=bool), scores, -jnp.inf), v


def run_layer(
    layer: Layer,
    x: Float[Array, "batch length width"],
    settings: Settings,
    noise: Noise | None,
) -> tuple[Float[Array, "batch length width"], Float[Array, "batch heads length length"]]:
    """What the layer makes of x, and its attention."""
    scores, v = attention_scores(layer, x, settings.heads)
    attention = jax.nn.softmax(scores, axis=-1)
    mixed = jnp.einsum("bhts,bshe->bthe", _drop(attention, noise, settings.dropout), v)
    branch = mixed.reshape(x.shape) @ layer.W_O + layer.b_O
    x = _norm(x + _drop(branch, noise, settings.dropout), layer.scale_1, layer.shift_1)
    hidden = _drop(jax.nn.relu(x @ layer.W_1 + layer.b_1), noise, settings.dropout)
    branch = hidden @ layer.W_2 + layer.b_2
    return (
        _norm(x + _drop(branch, noise, settings.dropout), layer.scale_2, layer.shift_2),
        attention,
    )


def hidden_states(
    rows: Float[Array, "batch length width"],
    layers: tuple[Layer, ...],
    settings: Settings,
    noise: UInt16[Array, " numbers"] | None = None,
    run: Callable = run_layer,
) -> tuple[
    Float[Array, "batch length width"], tuple[Float[Array, "batch heads length length"], ...]
]:
    """What the decoder reads, and the attention of every layer; `rows` are the embeddings of the tokens."""
    bits = None if noise is None else Noise(noise)
    x = rows * rows.dtype.type(np.sqrt(settings.width))
    if settings.positions:
        x = x + position_codes(rows.shape[1], settings.width).astype(rows.dtype)
    x = _drop(x, bits, settings.dropout)
    maps = []
    for layer in layers:
        x, attention = run(layer, x, settings, bits)
        maps.append(attention)
    return x, tuple(maps)


# The loss


def _product(a: Array, b: Array, contract: tuple[int, int], into: Any = None) -> Array:
    """A product of two matrices over one axis of each."""
    axes = (((contract[0],), (contract[1],)), ((), ()))
    return jax.lax.dot_general(a, b, axes, preferred_element_type=into)


def next_token_loss(
    x: Float[Array, "tokens width"],
    D: Float[Array, "vocab width"],
    b: Float[Array, " vocab"],
    target: Int[Array, " tokens"],
    precision: str,
) -> Float[Array, ""]:
    r"""The mean of $-\log \alpha_y$ over the tokens, $\alpha = \mathrm{softmax}(D x + b)$."""
    R = joined(D, b)
    return joined_loss(x, R, rounded(R, precision), target, len(b), precision)


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def joined_loss(
    x: Float[Array, "tokens width"],
    R: Float[Array, "filled wide"],
    rows: Float[Array, "filled wide"],
    target: Int[Array, " tokens"],
    vocab: int,
    precision: str,
) -> Float[Array, ""]:
    r"""The same of decoder and bias in one matrix (`joined`), `rows` being that as products read it (`rounded`).

    Tokens are taken in chunks, so that the logits of all of them never stand in memory. Where a gradient is asked for,
    a chunk's logits are formed once and give its loss and, as $(\alpha - e_y)/N$, its part of all gradients; the way
    back only multiplies these.
    """
    return _over_chunks(x, R, rows, target, vocab, precision, slopes=False)[0]


def rounded(R: Float[Array, "filled wide"], precision: str) -> Float[Array, "filled wide"]:
    """The joined matrix as products read it; kernels of ours hold what has ten bits in sixteen, half the memory."""
    if precision == "bfloat16":
        return R.astype(jnp.bfloat16)
    return R.astype(jnp.float16) if with_kernels(precision) else R


def with_kernels(precision: str) -> bool:
    """Whether products of this precision have kernels of ours: on NVIDIA's devices from Ampere on."""
    device = jax.devices()[0]
    found = getattr(device, "compute_capability", "")
    able = device.platform == "gpu" and "." in found and float(found) >= 8
    return able and precision in ("tf32", "bfloat16") and find_spec(TRITON) is not None


def chunk_count(tokens: int, vocab: int, size: int) -> int:
    """How many chunks of nearly equal length keep a chunk's logits, of `size` bytes each, within the bounds.

    >>> chunk_count(80, 1000, 4)
    1
    """
    most = CHUNK_BYTES.get(jax.default_backend(), CHUNK_BYTES_ELSEWHERE)
    longest = max(1, most // (size * (vocab - vocab % -VOCAB_MULTIPLE)))
    return -(-tokens // longest)


def _over_chunks(
    x: Array, R: Array, rows: Array, target: Array, vocab: int, precision: str, slopes: bool
) -> tuple[Array, ...]:
    """The loss and, with `slopes`, its gradients in x and R."""
    (tokens, width), dtype = x.shape, x.dtype
    kernels = slopes and with_kernels(precision)
    chunks = chunk_count(tokens, vocab, jnp.dtype(rows.dtype if kernels else dtype).itemsize)
    # Tokens that fill up a chunk do not count.
    fill = -tokens % (chunks * TOKENS_MULTIPLE if kernels else chunks)
    counted = jnp.pad(jnp.ones(tokens, dtype), (0, fill))
    x, target = jnp.pad(x, ((0, fill), (0, R.shape[1] - width))), jnp.pad(target, (0, fill))
    place, at_bias = jnp.arange(len(R)), np.eye(1, R.shape[1], width, dtype=dtype)
    bias = jnp.where(place < vocab, R[:, width], -jnp.inf)

    def chunk(x: Array, target: Array, counted: Array) -> tuple[Array, ...]:
        # Biases are added unrounded: products leave them out, and their slopes are those of a column of 1.
        plain, beside = x.astype(rows.dtype), x + at_bias
        if kernels:
            from attomaton.transformer.kernels import loss_and_slopes

            given = plain, beside, R, rows, bias, target, counted, piece_count(vocab)
            return tuple(y / tokens for y in loss_and_slopes(*given))
        logits = _product(plain, rows, (1, 1), dtype) + bias
        total = jax.nn.logsumexp(logits, axis=1)
        each = total - jnp.take_along_axis(logits, target[:, None], axis=1)[:, 0]
        loss = (counted * each).sum() / tokens
        if not slopes:
            return (loss,)
        error = jnp.exp(logits - total[:, None]) - (place == target[:, None])
        error = (error * (counted / tokens)[:, None]).astype(rows.dtype)
        to_R = _product(error, beside.astype(rows.dtype), (0, 0), dtype)
        return loss, to_R, _product(error, rows, (1, 0), dtype)

    def add(sums: tuple[Array, ...], given: tuple[Array, ...]) -> tuple[Any, Any]:
        parts = chunk(*given)
        return tuple(s + p for s, p in zip(sums, parts, strict=False)), parts[2:]

    if chunks == 1:
        sums, each = (found := chunk(x, target, counted))[:2], found[2:]
    else:
        given = tuple(y.reshape(chunks, -1, *y.shape[1:]) for y in (x, target, counted))
        nothing = (jnp.zeros((), dtype), jnp.zeros_like(R))[: 1 + slopes]
        sums, each = jax.lax.scan(add, nothing, given)
    return (*sums, *(y.reshape(-1, R.shape[1])[:tokens, :width] for y in each))


def _loss_forward(
    x: Array, R: Array, rows: Array, target: Array, vocab: int, precision: str
) -> tuple[Array, tuple[Array, Array]]:
    loss, to_R, to_x = _over_chunks(x, R, rows, target, vocab, precision, slopes=True)
    return loss, (to_x, to_R)


def _loss_backward(
    _: int, __: str, kept: tuple[Array, Array], push: Array
) -> tuple[Array, Array, None, None]:
    to_x, to_R = kept
    return push * to_x, push * to_R, None, None


joined_loss.defvjp(_loss_forward, _loss_backward)


def window_loss(
    rows: Float[Array, "batch length width"],
    rest: tuple[tuple[Layer, ...], Float[Array, "filled wide"]],
    target: Int[Array, "batch length"],
    settings: Settings,
    precision: str,
    noise: UInt16[Array, " numbers"] | None = None,
    rounds: Float[Array, "filled wide"] | None = None,
    run: Callable = run_layer,
) -> tuple[Float[Array, ""], tuple[Float[Array, "batch heads length length"], ...]]:
    """The mean loss of a step's tokens, and every layer's attention.

    `rest` are the layers and the joined decoder, `rounds` the latter as `rounded`, where it is at hand; `run` runs a
    layer.
    """
    layers, R = rest
    x, maps = hidden_states(rows, layers, settings, noise, run)
    rounds = rounded(R, precision) if rounds is None else rounds
    flat = x.reshape(-1, settings.width), R, rounds, target.reshape(-1)
    return joined_loss(*flat, settings.vocab, precision), maps


# What attention looks like


def attention_entropy(
    attention: Float[Array, "batch heads length length"],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The mean entropy of attention in nats, and as a share of the largest possible.

    Means over all positions that see more than one key.

    >>> even, share = attention_entropy(jnp.tri(3)[None, None] / jnp.arange(1, 4)[:, None])
    >>> round(float(even), 4), round(float(share), 6)  # log 2 and log 3
    (0.8959, 1.0)
    """
    entropy = -jax.scipy.special.xlogy(attention, attention).sum(axis=-1)[..., 1:]
    most = np.log(np.arange(2, attention.shape[-1] + 1)).astype(entropy.dtype)
    return entropy.mean(), (entropy / most).mean()
