r"""A layer in two kernels and a product each way, for a GPU, in Pallas; XLA makes seventy that wait for each other.

Attention is one kernel: queries and keys of a sequence and head at once. All that follows it is the other, sixteen rows
at a time; what that hands to itself goes through memory, behind a barrier, since the next product wants it in another
shape. Its products are rounded to sixteen bits, as those of the decoder. On processors the same kernels are
interpreted, which is slow and for tests.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float, Int

from attomaton.transformer.kernels import call, on_gpu, roomy
from attomaton.transformer.model import EPSILON, Layer, Noise, Settings, dropout_edge, run_layer

ROWS, DEPTH, COLUMNS = 16, 32, 64  # of a tile; how many terms of a sum are added at a time
# A program holds whole rows, and the attention of a whole sequence.
MOST_WIDTH, MOST_LENGTH = 256, 64
SMALLEST = 1e-30  # rows below it are not enlarged: there is nothing in them

Ref = Any  # an array in the device's memory, as kernels see it


def _tile(size: int) -> int:
    """The sides that tiles may have are powers of two."""
    return max(16, 1 << (size - 1).bit_length())


def _read(at: Ref, i: Array, j: Array, rows: int, columns: int) -> Array:
    """Rows i and columns j of a matrix of this size; zeros beyond it."""
    there = (i < rows)[:, None] & (j < columns)[None]
    return triton.load(at.at[i[:, None], j[None]], mask=there, other=0)


def _write(at: Ref, i: Array, j: Array, rows: int, columns: int, value: Array) -> None:
    there = (i < rows)[:, None] & (j < columns)[None]
    triton.store(at.at[i[:, None], j[None]], value, mask=there)


def _line(at: Ref, j: Array, columns: int) -> Array:
    return triton.load(at.at[j], mask=j < columns, other=0)[None]


def _dot(a: Array, b: Array, contract: tuple[int, int]) -> Array:
    axes = (((contract[0],), (contract[1],)), ((), ()))
    return jax.lax.dot_general(a, b, axes, preferred_element_type=jnp.float32)


def _product(
    left: Ref, i: Array, right: Ref, j: Array, turned: bool = False, scale: Array | None = None
) -> Array:
    """Rows i of the left matrix times columns j of the right one, or of the right one `turned`.

    Both are rounded to the type of the right one; rows are multiplied by `scale` before, and divided by it after.
    """
    rows, depth = left.shape
    columns = right.shape[0 if turned else 1]

    def add(step: Array, total: Array) -> Array:
        k = step * DEPTH + jnp.arange(DEPTH)
        a = _read(left, i, k, rows, depth)
        if scale is not None:
            a = a * scale[:, None]
        a = a.astype(right.dtype)
        if turned:
            return total + _dot(a, _read(right, j, k, columns, depth), (1, 1))
        return total + _dot(a, _read(right, k, j, depth, columns), (1, 0))

    zero = jnp.zeros((len(i), len(j)), jnp.float32)
    total = jax.lax.fori_loop(0, -(-depth // DEPTH), add, zero)
    return total if scale is None else total / scale[:, None]


def _scale(x: Array) -> Array:
    """By what every row is multiplied so that half precision holds it, however small it is."""
    most = jnp.abs(x).max(axis=1)
    return jnp.where(most > SMALLEST, 1 / most, 1)


def _wait() -> None:
    """What this program has written before can be read after, by all of its threads."""
    if on_gpu():
        triton.debug_barrier()


class _Drop(NamedTuple):
    """Dropout in kernels: its rate, and where the bits of attention, both branches and hidden numbers begin."""

    edge: int
    attention: int
    branch: int
    hidden: int
    outer: int

    @property
    def larger(self) -> np.float32:
        """By what the numbers that stay are multiplied."""
        return np.float32(2**16 / (2**16 - self.edge))

    def factor(self, bits: Array) -> Array:
        return jnp.where(bits.astype(jnp.int32) >= self.edge, self.larger, 0)

    def factors(self, at: Ref, first: int, i: Array, j: Array, rows: int, columns: int) -> Array:
        """What rows i and columns j of a matrix are multiplied by."""
        there = (i < rows)[:, None] & (j < columns)[None]
        place = first + i[:, None] * columns + j[None]
        return self.factor(triton.load(at.at[place], mask=there, other=0))


def sums_by_token(
    tokens: Int[Array, " places"], x: Float[Array, "places width"]
) -> tuple[Float[Array, "places width"], Float[Array, ""]]:
    """At every place the sum of x over all places of the same token, and the sum of all its products with x."""
    (places, width), tall = x.shape, 2 * ROWS

    def add_up(tokens_at: Ref, x_at: Ref, sum_at: Ref, along_at: Ref) -> None:
        row, column = pl.program_id(0), pl.program_id(1)
        i, j = row * tall + jnp.arange(tall), column * COLUMNS + jnp.arange(COLUMNS)
        own = triton.load(tokens_at.at[i], mask=i < places, other=-1)

        def add(step: Array, total: Array) -> Array:
            k = step * COLUMNS + jnp.arange(COLUMNS)
            other = triton.load(tokens_at.at[k], mask=k < places, other=-2)
            same = (own[:, None] == other[None]).astype(x.dtype)
            return total + _dot(same, _read(x_at, k, j, places, width), (1, 0))

        zero = jnp.zeros((tall, COLUMNS), jnp.float32)
        total = jax.lax.fori_loop(0, -(-places // COLUMNS), add, zero)
        _write(sum_at, i, j, places, width, total)
        along_at[row, column] = (total * _read(x_at, i, j, places, width)).sum()

    grid = (-(-places // tall), -(-width // COLUMNS))
    out = [jax.ShapeDtypeStruct(shape, x.dtype) for shape in (x.shape, grid)]
    sums, along = call(add_up, grid, out)(tokens, x)
    return sums, along.sum()


# Attention


class _Heads(NamedTuple):
    """Sequences and heads: how long, how many, how wide together."""

    length: int
    heads: int
    width: int

    @property
    def each(self) -> int:
        return self.width // self.heads


class _Head:
    """The sequence and head of a program: where their numbers stand among q, k, v, side by side, and in squares."""

    def __init__(self, among: _Heads) -> None:
        sequence, head, part = (pl.program_id(axis) for axis in range(3))
        self.length, self.width, self.each = among.length, among.width, among.each
        self.t = jnp.arange(_tile(among.length))
        self.there = self.t < among.length
        self.rows, self.first = sequence * among.length + self.t, head * among.each
        self.lines = (sequence * among.heads + head) * among.length + self.t
        # Programs share a sequence and head by columns; what all of them find, the first one writes.
        self.own, self.leads = part * COLUMNS + jnp.arange(COLUMNS), part == 0

    def _columns(self, which: int, part: Array) -> tuple[Array, Array]:
        mask = self.there[:, None] & (part < self.each)[None]
        return which * self.width + self.first + part, mask

    def read(self, at: Ref, which: int, part: Array) -> Array:
        """A part of the columns of q, k or v."""
        columns, mask = self._columns(which, part)
        return triton.load(at.at[self.rows[:, None], columns[None]], mask=mask, other=0)

    def write(self, at: Ref, which: int, value: Array) -> None:
        """The program's own columns of q, k or v."""
        columns, mask = self._columns(which, self.own)
        triton.store(at.at[self.rows[:, None], columns[None]], value, mask=mask)

    def products(self, left: Ref, a: int, right: Ref, b: int) -> Array:
        """Products of all rows of one with all rows of the other."""

        def add(step: Array, total: Array) -> Array:
            part = step * DEPTH + jnp.arange(DEPTH)
            return total + _dot(self.read(left, a, part), self.read(right, b, part), (1, 1))

        zero = jnp.zeros((len(self.t), len(self.t)), jnp.float32)
        return jax.lax.fori_loop(0, -(-self.each // DEPTH), add, zero)

    def square(self, at: Ref) -> Array:
        """What stands for every query and key."""
        mask = self.there[:, None] & self.there[None]
        return triton.load(at.at[self.lines[:, None], self.t[None]], mask=mask, other=0)

    def factors(self, drop: _Drop, at: Ref) -> Array:
        """What dropout multiplies these by."""
        place = drop.attention + self.lines[:, None] * self.length + self.t[None]
        mask = self.there[:, None] & self.there[None]
        return drop.factor(triton.load(at.at[place], mask=mask, other=0))

    def write_square(self, at: Ref, value: Array) -> None:
        mask = (self.there & self.leads)[:, None] & self.there[None]
        triton.store(at.at[self.lines[:, None], self.t[None]], value, mask=mask)


def _attend(
    qkv: Array, among: _Heads, drop: _Drop | None, noise: tuple[Array, ...]
) -> tuple[Array, Array]:
    """The mixed values of all tokens, and the attention: a row for each sequence, head and query."""

    def attend(qkv_at: Ref, *rest: Ref) -> None:
        *noise_at, mixed_at, attention_at = rest
        head = _Head(among)
        scores = head.products(qkv_at, 0, qkv_at, 1) / np.float32(np.sqrt(head.each))
        seen = (head.t[:, None] >= head.t[None]) & head.there[None]
        scores = jnp.where(seen, scores, -jnp.inf)
        raised = jnp.exp(scores - scores.max(axis=1)[:, None])
        attention = raised / raised.sum(axis=1)[:, None]
        head.write_square(attention_at, attention)
        if drop:
            attention = attention * head.factors(drop, noise_at[0])
        head.write(mixed_at, 0, _dot(attention, head.read(qkv_at, 2, head.own), (1, 0)))

    tokens, length = len(qkv), among.length
    shapes = ((tokens, among.width), (tokens * among.heads, length))
    out = [jax.ShapeDtypeStruct(shape, qkv.dtype) for shape in shapes]
    return call(attend, _grid(among, tokens), out)(qkv, *noise)


def _attend_back(
    qkv: Array, attention: Array, to_mixed: Array, among: _Heads, drop: _Drop | None,
    noise: tuple[Array, ...],
) -> Array:  # fmt: skip
    """What reaches q, k and v, side by side."""

    def attend_back(qkv_at: Ref, attention_at: Ref, mixed_at: Ref, *rest: Ref) -> None:
        *noise_at, out_at = rest
        head = _Head(among)
        dropped = attention = head.square(attention_at)
        back = head.products(mixed_at, 0, qkv_at, 2)
        if drop:
            factor = head.factors(drop, noise_at[0])
            back, dropped = back * factor, attention * factor
        back = attention * (back - (attention * back).sum(axis=1)[:, None])
        back = back * np.float32(1 / np.sqrt(head.each))
        q, k = (head.read(qkv_at, which, head.own) for which in range(2))
        head.write(out_at, 0, _dot(back, k, (1, 0)))
        head.write(out_at, 1, _dot(back, q, (0, 0)))
        head.write(out_at, 2, _dot(dropped, head.read(mixed_at, 0, head.own), (0, 0)))

    out = jax.ShapeDtypeStruct(qkv.shape, qkv.dtype)
    return call(attend_back, _grid(among, len(qkv)), out)(qkv, attention, to_mixed, *noise)


def _grid(among: _Heads, tokens: int) -> tuple[int, int, int]:
    """A program for each sequence, head and part of its columns."""
    return tokens // among.length, among.heads, -(-among.each // COLUMNS)


# What follows attention


class _Kept(NamedTuple):
    """What the way back reads of what follows attention."""

    inner: Float[Array, "tokens width"]  # after the first norm
    unit_1: Float[Array, "tokens width"]  # the same before scale and shift
    spread_1: Float[Array, " tokens"]  # by what the first norm multiplies
    hidden: Float[Array, "tokens hidden"]
    unit_2: Float[Array, "tokens width"]
    spread_2: Float[Array, " tokens"]


def _normed(x: Array, j: Array, width: int) -> tuple[Array, Array]:
    """Rows with mean 0 and mean square 1, and by what they were multiplied."""
    there = (j < width)[None]
    centred = jnp.where(there, x - x.sum(axis=1)[:, None] / width, 0)
    spread = jax.lax.rsqrt((centred * centred).sum(axis=1) / width + EPSILON)
    return centred * spread[:, None], spread


def _norm_back(back: Array, unit: Array, spread: Array, width: int) -> Array:
    """What reaches a norm's input; `back` is what reached its unit rows, zeros beyond the width."""
    mean = back.sum(axis=1)[:, None] / width
    along = (back * unit).sum(axis=1)[:, None] / width
    return spread[:, None] * (back - mean - unit * along)


def _halved(layer: Layer, factor: Any) -> Layer:
    """The layer with what multiplies rows in sixteen bits."""
    names = ("W_O", "W_1", "W_2")
    return layer._replace(**{name: getattr(layer, name).astype(factor) for name in names})


def _follow(
    layer: Layer, x: Array, mixed: Array, drop: _Drop | None, noise: tuple[Array, ...], factor: Any
) -> tuple[Array, _Kept]:
    """What the layer makes of mixed values, and what the way back needs."""
    (tokens, width), hidden = x.shape, layer.W_1.shape[1]

    def follow(
        x_at: Ref, mixed_at: Ref, W_O: Ref, b_O: Ref, scale_1: Ref, shift_1: Ref, W_1: Ref, b_1: Ref,
        W_2: Ref, b_2: Ref, scale_2: Ref, shift_2: Ref, *rest: Ref,
    ) -> None:  # fmt: skip
        *noise_at, out_at, inner_at, unit_1_at, spread_1_at, hidden_at = rest[:-2]
        unit_2_at, spread_2_at = rest[-2:]
        i = pl.program_id(0) * ROWS + jnp.arange(ROWS)
        j, h = jnp.arange(_tile(width)), jnp.arange(_tile(hidden))
        write = partial(_write, i=i, j=j, rows=tokens, columns=width)

        def branch(left: Ref, W: Ref, b: Ref, columns: Array, size: int) -> Array:
            return _product(left, i, W, columns) + _line(b, columns, size)

        def dropped(value: Array, name: str, columns: Array, size: int) -> Array:
            if not drop:
                return value
            first = getattr(drop, name)
            return value * drop.factors(noise_at[0], first, i, columns, tokens, size)

        added = dropped(branch(mixed_at, W_O, b_O, j, width), "branch", j, width)
        unit, spread = _normed(_read(x_at, i, j, tokens, width) + added, j, width)
        inner = unit * _line(scale_1, j, width) + _line(shift_1, j, width)
        write(unit_1_at, value=unit)
        triton.store(spread_1_at.at[i], spread, mask=i < tokens)
        write(inner_at, value=inner)
        _wait()
        active = jnp.maximum(branch(inner_at, W_1, b_1, h, hidden), 0)
        _write(hidden_at, i, h, tokens, hidden, dropped(active, "hidden", h, hidden))
        _wait()
        added = dropped(branch(hidden_at, W_2, b_2, j, width), "outer", j, width)
        unit, spread = _normed(inner + added, j, width)
        write(unit_2_at, value=unit)
        triton.store(spread_2_at.at[i], spread, mask=i < tokens)
        write(out_at, value=unit * _line(scale_2, j, width) + _line(shift_2, j, width))

    wide, line = ((tokens, width), (tokens,))
    shapes = (wide, wide, wide, line, (tokens, hidden), wide, line)
    out, *kept = call(
        follow, (-(-tokens // ROWS),), [jax.ShapeDtypeStruct(s, x.dtype) for s in shapes], warps=8
    )(x, mixed, *_halved(layer, factor)[2:], *noise)
    return out, _Kept(*kept)


class _Back(NamedTuple):
    """What reaches the parts of what follows attention; `sums` of what reaches vectors, over a program's tokens."""

    sums: Float[Array, "programs 7 most"]
    outer: Float[Array, "tokens width"]  # the second branch
    active: Float[Array, "tokens hidden"]  # before relu
    inner: Float[Array, "tokens width"]  # after the first norm
    branch: Float[Array, "tokens width"]  # the first branch
    straight: Float[Array, "tokens width"]  # past attention
    mixed: Float[Array, "tokens width"]


def _follow_back(
    layer: Layer, kept: _Kept, back: Array, drop: _Drop | None, noise: tuple[Array, ...],
    factor: Any,
) -> _Back:  # fmt: skip
    """What reaches all parts, from what reached the layer's end."""
    (tokens, width), hidden = back.shape, layer.W_1.shape[1]
    most = max(width, hidden)

    def follow_back(
        back_at: Ref, unit_1_at: Ref, spread_1_at: Ref, hidden_at: Ref, unit_2_at: Ref,
        spread_2_at: Ref, W_O: Ref, scale_1: Ref, W_1: Ref, W_2: Ref, scale_2: Ref, *rest: Ref,
    ) -> None:  # fmt: skip
        *noise_at, sums_at, outer_at, active_at, inner_at, branch_at, straight_at, mixed_at = rest
        i = pl.program_id(0) * ROWS + jnp.arange(ROWS)
        j, h = jnp.arange(_tile(width)), jnp.arange(_tile(hidden))
        read = partial(_read, i=i, j=j, rows=tokens, columns=width)
        write = partial(_write, i=i, j=j, rows=tokens, columns=width)

        def norm_back(value: Array, unit_at: Ref, spread_at: Ref, scale: Ref) -> Array:
            spread = triton.load(spread_at.at[i], mask=i < tokens, other=0)
            return _norm_back(value * _line(scale, j, width), read(unit_at), spread, width)

        def dropped(value: Array, name: str) -> Array:
            if not drop:
                return value
            first = getattr(drop, name)
            return value * drop.factors(noise_at[0], first, i, j, tokens, width)

        def add_up(place: int, value: Array) -> None:
            there = jnp.arange(value.shape[1]) < most
            line = sums_at.at[pl.program_id(0), place, jnp.arange(value.shape[1])]
            triton.store(line, value.sum(axis=0), mask=there)

        back = read(back_at)
        straight = norm_back(back, unit_2_at, spread_2_at, scale_2)
        outer = dropped(straight, "outer")
        write(outer_at, value=outer)
        _wait()
        active = _product(outer_at, i, W_2, h, True, _scale(outer))
        # What dropout or relu has put to zero stays there; the rest was enlarged.
        on = _read(hidden_at, i, h, tokens, hidden) > 0
        active = jnp.where(on, active * (drop.larger if drop else 1), 0)
        _write(active_at, i, h, tokens, hidden, active)
        _wait()
        add_up(0, back * read(unit_2_at))
        add_up(1, back)
        add_up(2, outer)
        add_up(3, active)
        inner = straight + _product(active_at, i, W_1, j, True, _scale(active))
        write(inner_at, value=inner)
        straight = norm_back(inner, unit_1_at, spread_1_at, scale_1)
        write(straight_at, value=straight)
        branch = dropped(straight, "branch")
        write(branch_at, value=branch)
        add_up(4, inner * read(unit_1_at))
        add_up(5, inner)
        add_up(6, branch)
        _wait()
        write(mixed_at, value=_product(branch_at, i, W_O, j, True, _scale(branch)))

    wide, programs = (tokens, width), -(-tokens // ROWS)
    shapes = ((programs, 7, most), wide, (tokens, hidden), wide, wide, wide, wide)
    layer = _halved(layer, factor)
    given = (
        back, *kept[1:], layer.W_O, layer.scale_1, layer.W_1, layer.W_2, layer.scale_2, *noise,
    )  # fmt: skip
    out = [jax.ShapeDtypeStruct(s, back.dtype) for s in shapes]
    return _Back(*call(follow_back, (programs,), out, warps=8)(*given))


# The layer


def runner(settings: Settings, length: int, precision: str) -> Callable:
    """What runs a layer of this size at this precision: kernels, where they take it."""
    large = max(settings.width, settings.hidden) > MOST_WIDTH or length > MOST_LENGTH
    if large or not roomy():
        return run_layer
    factor = jnp.bfloat16 if precision == "bfloat16" else jnp.float16
    return partial(run_next_layer, factor=factor)


def run_next_layer(
    layer: Layer,
    x: Float[Array, "batch length width"],
    settings: Settings,
    noise: Noise | None,
    factor: Any,
) -> tuple[Float[Array, "batch length width"], Float[Array, "batch heads length length"]]:
    """What the layer makes of x, and its attention, to be looked at: no slope goes through it."""
    if noise is None:
        return _run_layer(layer, x, None, settings, None, factor)
    batch, length, width = x.shape
    sizes = (settings.heads * length**2, length * width, length * settings.hidden, length * width)
    places = (noise.place(batch * size) for size in sizes)
    drop = _Drop(dropout_edge(settings.dropout), *places)
    return _run_layer(layer, x, noise.bits, settings, drop, factor)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def _run_layer(
    layer: Layer, x: Array, bits: Array | None, settings: Settings, drop: _Drop | None, factor: Any
) -> tuple[Array, Array]:
    return _forward(layer, x, bits, settings, drop, factor)[0]


def _forward(
    layer: Layer, x: Array, bits: Array | None, settings: Settings, drop: _Drop | None, factor: Any
) -> tuple[tuple[Array, Array], tuple]:
    batch, length, width = x.shape
    rows, among = x.reshape(-1, width), _Heads(length, settings.heads, width)
    noise = () if bits is None else (bits,)
    qkv = rows @ layer.W_QKV.reshape(width, -1) + layer.b_QKV.reshape(-1)
    mixed, attention = _attend(qkv, among, drop, noise)
    out, kept = _follow(layer, rows, mixed, drop, noise, factor)
    maps = attention.reshape(batch, settings.heads, length, length)
    return (out.reshape(x.shape), maps), (layer, x, noise, qkv, mixed, attention, kept)


def _backward(
    settings: Settings, drop: _Drop | None, factor: Any, saved: tuple, back: tuple[Array, Array]
) -> tuple[Layer, Array, None]:
    layer, x, noise, qkv, mixed, attention, kept = saved
    _, length, width = x.shape
    rows, outer = x.reshape(-1, width), back[0].reshape(-1, width)
    to = _follow_back(layer, kept, outer, drop, noise, factor)
    among = _Heads(length, settings.heads, width)
    to_qkv = _attend_back(qkv, attention, to.mixed, among, drop, noise)
    to_x = _dot(to_qkv, layer.W_QKV.reshape(width, -1), (1, 1)) + to.straight
    scale_2, shift_2, b_2, b_1, scale_1, shift_1, b_O = to.sums.sum(axis=0)
    to_layer = Layer(
        _dot(rows, to_qkv, (0, 0)).reshape(layer.W_QKV.shape),
        to_qkv.sum(axis=0).reshape(layer.b_QKV.shape),
        _dot(mixed, to.branch, (0, 0)), b_O[:width], scale_1[:width], shift_1[:width],
        _dot(kept.inner, to.active, (0, 0)), b_1[: settings.hidden],
        _dot(kept.hidden, to.outer, (0, 0)), b_2[:width], scale_2[:width], shift_2[:width],
    )  # fmt: skip
    return to_layer, to_x.reshape(x.shape), None


_run_layer.defvjp(_forward, _backward)
