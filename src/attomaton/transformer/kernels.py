r"""Kernels for a GPU, in Pallas: the loss and its gradients with one pass over the logits, or none, not four.

The vocabulary is cut into pieces. In each, $e^{z_v}$ takes the place of $z_v$, relative to the piece's largest, so that
sixteen bits hold it; what a piece weighs is put together after, from a few numbers a token. Where the type has the
exponents of single precision, the logit of the token's target serves all pieces, and logits are never written at all.
On processors kernels are interpreted, which is slow and for tests.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float, Int

ROWS, WARPS = 2, 4  # tokens of a program that reads logits, and what runs it
# Tokens and logits of a tile where a program makes them; two such programs find room side by side.
TALL, WIDE, STAGES = 64, 128, 2
LOG2_E = float(np.log2(np.e))  # a power of 2 takes one instruction, one of e ten
FLOOR = -1e30  # the largest of nothing, still finite
# By it shares of x are enlarged in half precision, so that small ones keep their digits; x stays below 128.
ROOM = 2.0**9


# Bytes of shared memory that every program has on GPUs of data centres; on others it has less than 100 KiB.
SHARED = 160_000
ROOMY = ("8.0", "9.0", "10.0", "10.3")


def on_gpu() -> bool:
    """Whether kernels are compiled; elsewhere they are interpreted."""
    return jax.default_backend() == "gpu"


def roomy() -> bool:
    """Whether the tiles of matrices that kernels of ours hold find room."""
    return not on_gpu() or jax.devices()[0].compute_capability in ROOMY


def call(
    kernel: Any, grid: tuple[int, ...], out: Any, warps: int = WARPS, stages: int = 3, **more: Any
) -> Any:
    """The kernel at every place of the grid; its programs address whole arrays by themselves."""
    if on_gpu():
        more["compiler_params"] = triton.CompilerParams(num_warps=warps, num_stages=stages)
    return pl.pallas_call(kernel, grid=grid, out_shape=out, interpret=not on_gpu(), **more)


class Shares(NamedTuple):
    r"""The softmax of each token, in pieces, its target left out.

    `raised` is $c\,e^{z - m}$ (0 at the target) with c from `largest`, `sums` the sum of $e^{z - m}$ and `most` is
    $m \log_2 e$, of every piece or of all together; `own` is the target's $z \log_2 e$.
    """

    raised: Float[Array, "pieces tokens each"]
    most: Float[Array, "tokens pieces"]
    sums: Float[Array, "tokens pieces"]
    own: Float[Array, " tokens"]


def largest(dtype: Any) -> float:
    """By what `raised` is enlarged: small shares keep their digits where the exponents of the type are few."""
    return 2.0**15 if dtype == jnp.float16 else 1.0


def shares(
    products: Float[Array, "pieces tokens each"],
    bias: Float[Array, "pieces each"],
    target: Int[Array, " tokens"],
) -> Shares:
    """The shares of logits that are products and biases, every piece's largest being `most`.

    A bias of −∞ is that of no token. The number of tokens is a multiple of `ROWS`.
    """
    count, tokens, each = products.shape
    scale = largest(products.dtype)

    def raise_(
        product_at: Any, bias_at: Any, target_at: Any,
        raised_at: Any, most_at: Any, sum_at: Any, own_at: Any,
    ) -> None:  # fmt: skip
        piece, i = pl.program_id(1), pl.program_id(0) * ROWS + jnp.arange(ROWS)
        place = jnp.arange(1 << (each - 1).bit_length())
        there = place < each
        z = triton.load(product_at.at[piece, i[:, None], place[None]], mask=there[None], other=0)
        b = triton.load(bias_at.at[piece, place], mask=there, other=-jnp.inf)
        z = LOG2_E * z.astype(jnp.float32) + (LOG2_E * b)[None]
        target = target_at[i]
        here = target // each == piece

        def without_target(z: Any) -> Any:
            hit = (piece * each + place)[None] == target[:, None]
            triton.store(own_at.at[i], jnp.where(hit, z, 0).sum(axis=1), mask=here)
            return jnp.where(hit, -jnp.inf, z)

        z = jax.lax.cond(here.astype(jnp.int32).max() > 0, without_target, lambda z: z, z)
        most = jnp.maximum(z.max(axis=1), FLOOR)
        raised = jnp.exp2(z - most[:, None])
        most_at[i, piece] = most
        sum_at[i, piece] = raised.sum(axis=1)
        triton.store(
            raised_at.at[piece, i[:, None], place[None]],
            (scale * raised).astype(raised_at.dtype), mask=there[None],
        )  # fmt: skip

    line = jax.ShapeDtypeStruct((tokens, count), jnp.float32)
    own = jax.ShapeDtypeStruct((tokens,), jnp.float32)
    like = jax.ShapeDtypeStruct(products.shape, products.dtype)
    grid = (tokens // ROWS, count)
    found = call(raise_, grid, (like, line, line, own), input_output_aliases={0: 0})
    return Shares(*found(products, bias, target))


def products_and_shares(
    x: Float[Array, "tokens wide"],
    parts: Float[Array, "pieces each wide"],
    bias: Float[Array, "pieces each"],
    target: Int[Array, " tokens"],
) -> Shares:
    """The same of the logits of x, which are never written; `most` is the target's own product, for all pieces.

    The type of `parts` has the exponents of single precision: a logit 88 nats above the target's becomes infinite, and
    so does the loss.
    """
    (count, each, wide), tokens = parts.shape, len(x)
    x = x.astype(parts.dtype)
    rows = LOG2_E * parts.reshape(-1, wide)[target].astype(jnp.float32)
    below = (x.astype(jnp.float32) * rows).sum(axis=1)
    tiles = -(-each // WIDE)
    # Sides of tiles are powers of two: a width of 208 is one of 128, one of 64 and one of 16.
    depths = [1 << n for n in reversed(range(4, wide.bit_length())) if wide >> n & 1]
    firsts = np.cumsum([0, *depths[:-1]])

    def raise_products(
        x_at: Any, rows_at: Any, bias_at: Any, target_at: Any, below_at: Any, raised_at: Any, sum_at: Any
    ) -> None:  # fmt: skip
        program = pl.program_id(0)
        piece, tile = program // tiles, program % tiles
        place = tile * WIDE + jnp.arange(WIDE)
        inside = place < each
        columns = [
            int(first) + jnp.arange(depth) for first, depth in zip(firsts, depths, strict=True)
        ]
        held = [
            triton.load(
                rows_at.at[piece, place[:, None], k[None]], mask=inside[:, None], other=0
            )
            for k in columns
        ]  # fmt: skip
        b = LOG2_E * triton.load(bias_at.at[piece, place], mask=inside, other=-jnp.inf)

        def some(n: Any, kept: Any) -> Any:
            i = n * TALL + jnp.arange(TALL)
            there = i < tokens
            z = jnp.zeros((TALL, WIDE), jnp.float32)
            for k, right in zip(columns, held, strict=True):
                left = triton.load(x_at.at[i[:, None], k[None]], mask=there[:, None], other=0)
                axes = (((1,), (1,)), ((), ()))
                z += jax.lax.dot_general(left, right, axes, preferred_element_type=jnp.float32)
            below = triton.load(below_at.at[i], mask=there, other=0)
            target = triton.load(target_at.at[i], mask=there, other=0)
            raised = jnp.exp2(LOG2_E * z + b[None] - below[:, None])
            raised = jnp.where((piece * each + place)[None] == target[:, None], 0, raised)
            triton.store(sum_at.at[i, program], raised.sum(axis=1), mask=there)
            triton.store(
                raised_at.at[piece, i[:, None], place[None]], raised.astype(raised_at.dtype),
                mask=there[:, None] & inside[None],
            )  # fmt: skip
            return kept

        jax.lax.fori_loop(0, -(-tokens // TALL), some, 0)

    out = (
        jax.ShapeDtypeStruct((count, tokens, each), parts.dtype),
        jax.ShapeDtypeStruct((tokens, count * tiles), jnp.float32),
    )
    made = call(raise_products, (count * tiles,), out, stages=STAGES)
    raised, sums = made(x, parts, bias, target, below)
    own = below + LOG2_E * bias.reshape(-1)[target]
    return Shares(raised, below[:, None], sums.sum(axis=1, keepdims=True), own)


def loss_and_slopes(
    plain: Float[Array, "tokens wide"],
    x: Float[Array, "tokens wide"],
    R: Float[Array, "filled wide"],
    rows: Float[Array, "filled wide"],
    bias: Float[Array, " filled"],
    target: Int[Array, " tokens"],
    counted: Float[Array, " tokens"],
    pieces: int,
) -> tuple[Float[Array, ""], Float[Array, "filled wide"], Float[Array, "tokens wide"]]:
    r"""$-\sum \log\alpha_y$ over the tokens `counted` as 1, and its gradients in R and x.

    R is the joined decoder, `rows` the same as products read it, x as wide, with 1 where R has the bias, and `plain`
    has 0 there; `pieces` cut the vocabulary evenly. A target's error, $\alpha_y - 1$, is minus what the others weigh:
    nothing cancels, and it never meets sixteen bits.
    """
    factor = rows.dtype
    parts, bias = rows.reshape(pieces, -1, rows.shape[1]), bias.reshape(pieces, -1)
    held = (WIDE + STAGES * TALL) * rows.shape[1] * factor.itemsize
    if factor == jnp.float16 or not roomy() or held > SHARED:
        plain = jnp.broadcast_to(plain, (pieces, *plain.shape))
        raised, most, sums, own = shares(_batched(plain, parts, (2, 2), factor), bias, target)
    else:
        raised, most, sums, own = products_and_shares(plain, parts, bias, target)
    # Of all pieces together
    top = jnp.maximum(most.max(axis=1), own)
    part = jnp.exp2(most - top[:, None])
    others = (sums * part).sum(axis=1)
    total = others + jnp.exp2(own - top)
    loss = (counted * (jnp.log(total) + (top - own) / LOG2_E)).sum()
    missing = -counted * others / total
    # Known before the products begin: they leave no room on a device for small sums beside them.
    raised, share = jax.lax.optimization_barrier((raised, part * (counted / total)[:, None]))
    share = share.T[:, :, None]
    scale, room = largest(factor), ROOM if factor == jnp.float16 else 1.0
    to_x = (share / scale * _batched(raised, parts, (2, 1), R.dtype)).sum(axis=0)
    to_x = to_x + missing[:, None] * R[target]
    weighted = jnp.broadcast_to((room * share * x).astype(factor), (pieces, *x.shape))
    # What layers wait for comes first.
    raised, to_x = jax.lax.optimization_barrier((raised, to_x))
    to_R = (_batched(raised, weighted, (1, 1), R.dtype) / (scale * room)).reshape(R.shape)
    # A token's whole correction stands at each of its places, so that writing it twice does no harm. Read before it is
    # written, in steps of their own: otherwise all of `to_R` would be copied.
    same = (target[:, None] == target[None]).astype(x.dtype)
    correction = jax.lax.optimization_barrier(same @ (missing[:, None] * x))
    corrected = jax.lax.optimization_barrier(to_R[target] + correction)
    to_R = to_R.at[target].set(corrected, mode="promise_in_bounds")
    return loss, to_R, to_x


def _batched(a: Array, b: Array, contract: tuple[int, int], into: Any) -> Array:
    """Products of matrices piece by piece."""
    axes = (((contract[0],), (contract[1],)), ((0,), (0,)))
    return jax.lax.dot_general(a, b, axes, preferred_element_type=into)
