r"""Kernels for a GPU, in Pallas: from logits to $\alpha - e_y$ in two passes over memory, where XLA makes four.

Pieces of a row are summed side by side; then the errors replace the logits where they stand. On processors the same
kernels are interpreted, which is slow and for tests.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float, Int

ROWS, LANES, WARPS = 2, 2048, 4  # tokens and logits that one program reads, and what runs it
LOG2_E = float(np.log2(np.e))  # a power of 2 takes one instruction, one of e ten


def _call(kernel: Any, grid: tuple[int, ...], out: Any, **more: Any) -> Any:
    """The kernel at every place of the grid; its programs address whole arrays by themselves."""
    on_gpu = jax.default_backend() == "gpu"
    if on_gpu:
        more["compiler_params"] = triton.CompilerParams(num_warps=WARPS)
    return pl.pallas_call(kernel, grid=grid, out_shape=out, interpret=not on_gpu, **more)


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
        part = jnp.arange(1 << (chunks - 1).bit_length())[None]
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
