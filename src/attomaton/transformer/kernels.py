r"""Kernels for a GPU, in Pallas, where XLA makes several passes over memory or many small programs.

- `errors`: from logits to $\alpha - e_y$ in two passes. Pieces of a row are summed side by side; then the errors
  replace the logits where they stand.
- `attend`: causal attention in one kernel each way; nothing of size length² stands in memory.

On processors the same kernels are interpreted, which is slow and for tests.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float, Int, UInt16

ROWS, LANES = 2, 2048  # tokens and logits that one program of `errors` reads
LONGEST, COLUMNS = 64, 64  # the longest sequence for `attend`, and the columns of a head it reads at once
WARPS = 4
LOG2_E = float(np.log2(np.e))  # a power of 2 takes one instruction, one of e ten


def present() -> bool:
    """Whether the device takes these kernels as machine code: NVIDIA's from Ampere on."""
    device = jax.devices()[0]
    found = getattr(device, "compute_capability", "")
    return device.platform == "gpu" and "." in found and float(found) >= 8


def _call(kernel: Any, grid: tuple[int, ...], out: Any, **more: Any) -> Any:
    """The kernel at every place of the grid; its programs address whole arrays by themselves."""
    on_gpu = jax.default_backend() == "gpu"
    if on_gpu:
        more["compiler_params"] = triton.CompilerParams(num_warps=WARPS)
    return pl.pallas_call(kernel, grid=grid, out_shape=out, interpret=not on_gpu, **more)


def _block(size: int) -> int:
    """The size of a block that holds `size` entries: a power of two, and as large as products of blocks need.

    >>> _block(35), _block(3)
    (64, 16)
    """
    return max(16, 1 << (size - 1).bit_length())


# The errors of next tokens


def errors(
    products: Float[Array, "tokens filled"],
    bias: Float[Array, " filled"],
    target: Int[Array, " tokens"],
    weight: Float[Array, " tokens"],
) -> tuple[Float[Array, " tokens"], Float[Array, "tokens filled"]]:
    r"""$-\log\alpha_y$ of every token, and its error $w\,(\alpha - e_y)$ in the type of the products.

    Logits are products and biases; a bias of −∞ is that of no token. The number of tokens is a multiple of `ROWS`.
    """
    tokens, filled = products.shape
    chunks = -(-filled // LANES)
    grid = (tokens // ROWS, chunks)

    def read(product_at: Any, bias_at: Any) -> tuple[Any, Any, Any]:
        i = pl.program_id(0) * ROWS + jnp.arange(ROWS)
        place = pl.program_id(1) * LANES + jnp.arange(LANES)
        there = place < filled
        z = triton.load(product_at.at[i[:, None], place[None]], mask=there[None], other=0.0)
        b = triton.load(bias_at.at[place], mask=there, other=-jnp.inf)
        return i, place, LOG2_E * z.astype(jnp.float32) + (LOG2_E * b)[None]

    def add_up(product_at: Any, bias_at: Any, most_at: Any, sum_at: Any) -> None:
        i, _, z = read(product_at, bias_at)
        j, most = pl.program_id(1), z.max(axis=1)
        most_at[i, j] = most
        sum_at[i, j] = jnp.exp2(z - most[:, None]).sum(axis=1)

    def replace(
        product_at: Any, bias_at: Any, target_at: Any, weight_at: Any, most_at: Any, sum_at: Any,
        error_at: Any, loss_at: Any,
    ) -> None:  # fmt: skip
        i, place, z = read(product_at, bias_at)
        part = jnp.arange(_block(chunks))[None]
        most = triton.load(most_at.at[i[:, None], part], mask=part < chunks, other=-jnp.inf)
        sums = triton.load(sum_at.at[i[:, None], part], mask=part < chunks, other=0.0)
        top = most.max(axis=1)
        total = (sums * jnp.exp2(most - top[:, None])).sum(axis=1)
        weight, target = weight_at[i], target_at[i]
        error = jnp.exp2(z - top[:, None]) * (weight / total)[:, None]
        here = target // LANES == pl.program_id(1)

        def with_target(error: Any) -> Any:
            hit = place[None] == target[:, None]
            own = jnp.where(hit, z, 0.0).sum(axis=1)
            loss = jnp.log(total) + (top - own) / LOG2_E
            triton.store(loss_at.at[i], loss, mask=here)
            return error - jnp.where(hit, weight[:, None], 0.0)

        error = jax.lax.cond(
            here.astype(jnp.int32).max() > 0, with_target, lambda error: error, error
        )
        triton.store(
            error_at.at[i[:, None], place[None]], error.astype(error_at.dtype),
            mask=(place < filled)[None],
        )  # fmt: skip

    part = jax.ShapeDtypeStruct((tokens, chunks), jnp.float32)
    most, sums = _call(add_up, grid, [part] * 2)(products, bias)
    like = jax.ShapeDtypeStruct(products.shape, products.dtype)
    loss = jax.ShapeDtypeStruct((tokens,), jnp.float32)
    swap = _call(replace, grid, (like, loss), input_output_aliases={0: 0})
    return swap(products, bias, target, weight, most, sums)[::-1]


# Attention


def fits(length: int) -> bool:
    """Whether `attend` takes sequences of this length."""
    return length <= LONGEST


def _product(a: Any, b: Any, turned: bool = False) -> Any:
    """a b, or a bᵀ."""
    return jax.lax.dot_general(a, b, (((1,), (int(turned),)), ((), ())))


class _Head:
    """What one program of `attend` reads and writes: a head of a sequence, and some columns of what comes out."""

    def __init__(self, length: int, each: int) -> None:
        self.length, self.each = length, each
        self.b, self.h, self.own = (pl.program_id(i) for i in range(3))
        self.t = jnp.arange(_block(length))
        self.block = min(COLUMNS, _block(each))
        self.parts = range(-(-each // self.block))

    def _place(self, part: Any) -> tuple[Any, Any, Any]:
        e = part * self.block + jnp.arange(self.block)
        there = (self.t < self.length)[:, None] & (e < self.each)[None]
        return self.t[:, None], self.h * self.each + e[None], there

    def read(self, at: Any, part: Any, *which: int) -> Any:
        t, e, there = self._place(part)
        return triton.load(at.at[(self.b, t, *which, e)], mask=there, other=0.0)

    def write(self, at: Any, value: Any, *which: int) -> None:
        t, e, there = self._place(self.own)
        triton.store(at.at[(self.b, t, *which, e)], value, mask=there)

    def over_columns(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> Any:
        """a bᵀ of two arrays; all their columns are asked for before any is needed."""
        read = [(self.read(a[0], i, *a[1:]), self.read(b[0], i, *b[1:])) for i in self.parts]
        return sum(_product(x, y, turned=True) for x, y in read)

    def attention(self, qkv_at: Any) -> Any:
        """Softmax over the keys up to each query."""
        seen = (self.t[None] <= self.t[:, None]) & (self.t < self.length)[None]
        scores = self.over_columns((qkv_at, 0), (qkv_at, 1))
        scores = jnp.where(seen, scores / np.sqrt(self.each), -jnp.inf)
        p = jnp.exp(scores - scores.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def larger(self, noise_at: list[Any], edge: int) -> Any:
        """By how much each entry of attention is enlarged: 0 for those that are dropped."""
        if not noise_at:
            return 1.0
        t, s = self.t[:, None], self.t[None]
        there = (t < self.length) & (s < self.length)
        bits = triton.load(noise_at[0].at[self.b, self.h, t, s], mask=there, other=0)
        return jnp.where(bits.astype(jnp.int32) >= edge, 2**16 / (2**16 - edge), 0.0)


def _for_heads(kernel: Any, qkv: Array, heads: int, out: Any) -> Any:
    batch, length, _, width = qkv.shape
    each = width // heads
    parts = -(-each // min(COLUMNS, _block(each)))

    def program(*at: Any) -> None:
        kernel(_Head(length, each), *at)

    return _call(program, (batch, heads, parts), out)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def attend(
    qkv: Float[Array, "batch length 3 width"],
    noise: UInt16[Array, "batch heads length length"] | None,
    heads: int,
    edge: int,
) -> Float[Array, "batch length width"]:
    """Causal attention on the values; entries whose noise is below `edge` are dropped, the others enlarged.

    A program makes some columns of a head's output, and the attention for it anew: more of them are at work.
    """

    def kernel(head: _Head, qkv_at: Any, *rest: Any) -> None:
        *noise_at, mixed_at = rest
        p = head.attention(qkv_at) * head.larger(noise_at, edge)
        head.write(mixed_at, _product(p, head.read(qkv_at, head.own, 2)))

    batch, length, _, width = qkv.shape
    out = jax.ShapeDtypeStruct((batch, length, width), qkv.dtype)
    return _for_heads(kernel, qkv, heads, out)(qkv, *_given(noise))


def _given(noise: Array | None) -> tuple[Array, ...]:
    return () if noise is None else (noise,)


def _attend_forward(
    qkv: Array, noise: Array | None, heads: int, edge: int
) -> tuple[Array, tuple[Array, Array | None]]:
    return attend(qkv, noise, heads, edge), (qkv, noise)


def _attend_backward(
    heads: int, edge: int, kept: tuple[Array, Array | None], push: Array
) -> tuple[Array, None]:
    qkv, noise = kept

    def kernel(head: _Head, qkv_at: Any, push_at: Any, *rest: Any) -> None:
        *noise_at, slope_at = rest
        p, larger = head.attention(qkv_at), head.larger(noise_at, edge)
        to_p = larger * head.over_columns((push_at,), (qkv_at, 2))
        to_scores = p * (to_p - (to_p * p).sum(axis=1, keepdims=True)) / np.sqrt(head.each)
        head.write(slope_at, _product(to_scores, head.read(qkv_at, head.own, 1)), 0)
        head.write(slope_at, _product(to_scores.T, head.read(qkv_at, head.own, 0)), 1)
        head.write(slope_at, _product((p * larger).T, head.read(push_at, head.own)), 2)

    out = jax.ShapeDtypeStruct(qkv.shape, qkv.dtype)
    return _for_heads(kernel, qkv, heads, out)(qkv, push, *_given(noise)), None


attend.defvjp(_attend_forward, _attend_backward)
