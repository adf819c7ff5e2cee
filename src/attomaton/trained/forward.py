r"""The forward pass of a trained transformer, in JAX: what it predicts, and what every head attends to.

With $x_t$ the embedding of token t (and its position, where positions are added), a layer adds to it

$$\mathrm{attn}(x)_t = b_O + \sum_h W_O^{h\top} \sum_s a^h_{ts}\, v^h_s, \qquad
a^h_{t\cdot} = \mathrm{softmax}_{s \le t}\; q^{h\top}_t k^h_s / c$$

of the normed $\hat x$, then $W_2^\top \phi(W_1^\top \hat x)$. Layers have one shape and are gone through by `scan`, so
that a deep model compiles as fast as a shallow one; what is kept of each layer's attention is a function's choice.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from attomaton.base.lazily import jax, jnp
from attomaton.base.programs import compiled_program
from attomaton.base.shapes import Float, Int
from attomaton.numerics import float64
from attomaton.trained.folder import Trained, check_tokens
from attomaton.trained.form import Form, Rotary, frequencies
from attomaton.trained.names import Block, Weights

if TYPE_CHECKING:
    from jax import Array

FAR = 1 << 30  # a window that sees everything

# What is kept of a layer: attention and scores, (batch, heads, length, length), and the tokens -> arrays.
Keep = Callable[[Any, Any, Any], Any]


def nothing(attention: Any, scores: Any, tokens: Any) -> tuple:
    """Keep nothing of the attention."""
    return ()


def everything(attention: Any, scores: Any, tokens: Any) -> tuple[Any, Any]:
    """Keep the attention and the scores it comes from, −∞ where a query may not look."""
    return attention, scores


class Network:
    """A trained model ready to run: its weights lie where JAX computes."""

    def __init__(self, model: Trained):
        self.form, self.words, self.files = model.form, model.words, model.files
        with _as_exact_as(model.weights):
            self.weights: Weights = jax.device_put(model.weights)

    def run(
        self, tokens: Int[np.ndarray, "batch length"], keep: Keep = nothing
    ) -> tuple[Float[np.ndarray, "batch length vocab"], Any]:
        """Logits at every position, and what `keep` makes of the attention, layers first."""
        return self._call(tokens, (), keep)

    def logits_at(
        self,
        tokens: Int[np.ndarray, "batch length"],
        place: Int[np.ndarray, " batch"],
        keep: Keep = nothing,
    ) -> tuple[Float[np.ndarray, "batch vocab"], Any]:
        """Logits at one place of every context: what stands behind it has no say in them."""
        return self._call(tokens, (np.asarray(place, np.int32),), keep)

    def pair_scores(
        self,
        last: Int[np.ndarray, " queries"],
        tokens: Int[np.ndarray, " keys"],
        length: int,
        offset: int,
    ) -> Float[np.ndarray, "heads queries keys"]:
        """Scores of layer 0 between tokens, each key `offset` places before its query.

        What is added for positions is taken at its mean over `length` of them.
        """
        turn: tuple[np.ndarray, ...] = ()
        if self.form.rotary is not None:
            turns = _turns(self.form.rotary, offset + 1, self.weights.U.dtype)
            turn = tuple(y[-1] for y in turns)
        given = (last.astype(np.int32), tokens.astype(np.int32), *turn)
        return self._run(_build_pairs, (self.form, length), given)

    def _call(self, tokens: np.ndarray, place: tuple[np.ndarray, ...], keep: Keep) -> Any:
        check_tokens(self.form, tokens)
        return self._run(_build, (self.form, keep), (np.asarray(tokens, np.int32), *place))

    def _run(self, build: Callable[[Any], Callable], plan: Any, given: tuple) -> Any:
        """What a program of this plan makes of the weights and of what is given."""
        with _as_exact_as(self.weights):
            program = compiled_program(build, plan, (self.weights, *given))
            return jax.tree.map(np.asarray, program(self.weights, *given))


@contextmanager
def _as_exact_as(weights: Weights) -> Iterator[None]:
    """Numbers are as long as the weights, and products of them are not rounded further."""
    exact = float64() if weights.U.dtype == np.float64 else nullcontext()
    with exact, jax.default_matmul_precision("highest"):
        yield


def compile_for(model: Trained, size: int, length: int, keep: Keep) -> None:
    """Compile, before it is needed, what answers `size` contexts of `length` tokens."""
    given = (model.weights, np.zeros((size, length), np.int32), np.zeros(size, np.int32))
    with _as_exact_as(model.weights):
        compiled_program(_build, (model.form, keep), given)


def _build(plan: tuple[Form, Keep]) -> Callable:
    form, keep = plan

    def program(weights: Weights, tokens: "Array", place: "Array | None" = None) -> Any:
        x, kept = states(form, weights, tokens, keep)
        if place is not None:
            x = x[jnp.arange(len(x)), place]
        return decoded(form, weights, x), kept

    return program


def decoder(weights: Weights) -> "Array":
    """The matrix that gives logits: the embeddings, where no other is there."""
    return weights.U if weights.D is None else weights.D


def decoded(form: Form, weights: Weights, x: "Array") -> "Array":
    """Logits of the next token."""
    logits = x @ decoder(weights).T
    return logits if weights.b is None else logits + weights.b


def states(form: Form, weights: Weights, tokens: "Array", keep: Keep) -> tuple["Array", Any]:
    """What the decoder reads at every position, and what is kept of each layer."""
    x = embedded(form, weights, tokens)
    length = tokens.shape[1]
    offset = np.arange(length)[:, None] - np.arange(length)
    window = np.array([w or FAR for w in form.window], np.int32)
    scale = np.array([1 / c for c in form.divisor]).astype(x.dtype)
    turns = None if form.rotary is None else _turns(form.rotary, length, x.dtype)

    def seen_by(attention: Any, scores: Any) -> Any:
        return keep(attention, scores, tokens)

    def layer(x: "Array", own: tuple[Block, Any, Any]) -> tuple["Array", Any]:
        block, width, factor = own
        seen = (offset >= 0) & (offset < width)
        return _layer(form, block, x, seen, factor, turns, seen_by)

    x, kept = jax.lax.scan(layer, x, (weights.blocks, jnp.asarray(window), jnp.asarray(scale)))
    return (x if form.post else _norm(form, x, weights.scale, weights.shift)), kept


def embedded(form: Form, weights: Weights, tokens: "Array") -> "Array":
    """Tokens as vectors, with their positions where these are added."""
    x = weights.U[tokens]
    if form.positions == "learned":
        return x + weights.P[: tokens.shape[1]]
    if form.family == "attomaton":
        x = x * x.dtype.type(np.sqrt(form.width))
    if form.positions == "sine":
        from attomaton.transformer.model import position_codes

        x = x + position_codes(tokens.shape[1], form.width).astype(x.dtype)
    return x


def _layer(
    form: Form, block: Block, x: "Array", seen: Any, factor: Any, turns: Any, keep: Callable
) -> tuple["Array", Any]:
    """One layer: both branches, added one after the other or together, with norms before or behind them."""
    read = x if form.post else _norm(form, x, block.scale_1, block.shift_1)
    branch, kept = _attend(form, block, read, seen, factor, turns, keep)
    if form.post:
        x = _norm(form, x + branch, block.scale_1, block.shift_1)
        return _norm(form, x + _hidden(form, block, x), block.scale_2, block.shift_2), kept
    between = x if form.parallel else x + branch
    hidden = _hidden(form, block, _norm(form, between, block.scale_2, block.shift_2))
    return x + branch + hidden, kept


def _norm(form: Form, x: "Array", scale: Any, shift: Any) -> "Array":
    if form.norm == "layer":
        x = x - x.mean(axis=-1, keepdims=True)
    x = x * jax.lax.rsqrt((x**2).mean(axis=-1, keepdims=True) + form.epsilon)
    x = x if scale is None else x * scale
    return x if shift is None else x + shift


def queries_and_keys(
    form: Form, block: Block, x: "Array", turns: tuple[Any, Any] | None
) -> tuple["Array", "Array"]:
    """Queries and keys of one layer, (batch, length, heads or key heads, each), turned where positions are turns."""
    q, k = _by_head(x, block.W_Q, block.b_Q), _by_head(x, block.W_K, block.b_K)
    if form.query_key_norm:
        q, k = (_rms(form, y, scale) for y, scale in ((q, block.scale_Q), (k, block.scale_K)))
    return (q, k) if turns is None else (_turned(q, *turns), _turned(k, *turns))


def _rms(form: Form, x: "Array", scale: Any) -> "Array":
    return x * jax.lax.rsqrt((x**2).mean(axis=-1, keepdims=True) + form.epsilon) * scale


def _by_head(x: "Array", W: Any, b: Any) -> "Array":
    y = jnp.einsum("btd,dhe->bthe", x, W)
    return y if b is None else y + b


def _attend(
    form: Form, block: Block, x: "Array", seen: Any, factor: Any, turns: Any, keep: Callable
) -> tuple["Array", Any]:
    q, k = queries_and_keys(form, block, x, turns)
    v = _by_head(x, block.W_V, block.b_V)
    batch, length = x.shape[:2]
    # Queries that share a key stand together: (batch, length, key heads, queries of each, numbers).
    q = q.reshape(batch, length, form.key_heads, -1, form.each)
    scores = jnp.einsum("btkge,bske->bkgts", q, k) * factor
    scores = jnp.where(seen, scores, -jnp.inf)
    attention = jax.nn.softmax(scores, axis=-1)
    mixed = jnp.einsum("bkgts,bske->btkge", attention, v)
    mixed = mixed.reshape(batch, length, form.heads, form.each)
    out = jnp.einsum("bthe,hed->btd", mixed, block.W_O)
    kept = keep(*(y.reshape(batch, form.heads, length, length) for y in (attention, scores)))
    return (out if block.b_O is None else out + block.b_O), kept


def _hidden(form: Form, block: Block, x: "Array") -> "Array":
    y = x @ block.W_1
    y = y if block.b_1 is None else y + block.b_1
    if form.gated:
        gate = x @ block.W_G
        y = y * _activation(form.activation, gate if block.b_G is None else gate + block.b_G)
    else:
        y = _activation(form.activation, y)
    y = y @ block.W_2
    return y if block.b_2 is None else y + block.b_2


def _activation(name: str, x: "Array") -> "Array":
    known: dict[str, Callable] = {
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
        "gelu_quick": lambda x: x * jax.nn.sigmoid(1.702 * x),
        "relu": jax.nn.relu,
        "silu": jax.nn.silu,
    }
    return known[name](x)


def _build_pairs(plan: tuple[Form, int]) -> Callable:
    form, length = plan

    def program(weights: Weights, last: "Array", tokens: "Array", *turn: "Array") -> "Array":
        block = Block(*(None if w is None else w[0] for w in weights.blocks))

        def read(ids: "Array") -> "Array":
            x = weights.U[ids]
            if form.family == "attomaton":
                x = x * x.dtype.type(np.sqrt(form.width))
            if form.positions == "learned":
                x = x + weights.P[:length].mean(axis=0)
            elif form.positions == "sine":
                from attomaton.transformer.model import position_codes

                x = x + position_codes(length, form.width).mean(axis=0).astype(x.dtype)
            return x if form.post else _norm(form, x, block.scale_1, block.shift_1)

        q, _ = queries_and_keys(form, block, read(last)[None], None)
        _, k = queries_and_keys(form, block, read(tokens)[None], None)
        if turn:  # the query, in front of a key at the beginning
            q = _turned(q, *(jnp.broadcast_to(y, (len(last), len(y))) for y in turn))
        k = jnp.repeat(k, form.heads // form.key_heads, axis=2)
        return jnp.einsum("bqhe,bkhe->hqk", q, k) / q.dtype.type(form.divisor[0])

    return program


# Positions as turns


def _turns(rotary: Rotary, length: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of every position's turns, (length, width of the turned part)."""
    angle = np.arange(length)[:, None] * frequencies(rotary)
    both = np.concatenate([angle, angle], axis=-1)
    return np.cos(both).astype(dtype), np.sin(both).astype(dtype)


def _turned(y: "Array", cos: Any, sin: Any) -> "Array":
    """The first numbers of every head turned: number i with number i + half."""
    width = cos.shape[-1]
    part, rest = y[..., :width], y[..., width:]
    one, two = part[..., : width // 2], part[..., width // 2 :]
    across = jnp.concatenate([-two, one], axis=-1)
    part = part * cos[:, None] + across * sin[:, None]
    return jnp.concatenate([part, rest], axis=-1)
