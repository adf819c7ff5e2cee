"""Contexts drawn from sequence classes: which one a stream shows at a step, on every device and in every precision.

A stream is named by a seed and an index, a batch by its step: no number depends on how many were drawn before it.
Only counts are formed, never the tokens themselves. JAX is imported when something is drawn.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from attomaton.base.shapes import Float, Int, UInt32
from attomaton.numerics import named_rng
from attomaton.scan_snap.data import SequenceClasses


def draw_contexts(
    classes: SequenceClasses,
    *,
    T: int = 128,
    batch: int = 128,
    steps: int = 100,
    index: int = 0,
    seed: int = 0,
) -> tuple[Int[np.ndarray, "steps batch"], Int[np.ndarray, "steps batch vocab"]]:
    """The contexts stream `index` of `seed` trains on: their classes, and how often each token occurs."""
    of_class = np.zeros((steps, batch), np.int64)
    counts = np.zeros((steps, batch, classes.M), np.int64)
    slot = sampler_of(classes).slot
    asked = contexts_of(classes, T=T, batch=batch, steps=steps, index=index, seed=seed)
    for step, (n, slots) in enumerate(asked):
        of_class[step] = n
        counts[step][:, classes.context_tokens] = np.take_along_axis(slots, slot[n], axis=1)
    return of_class, counts


def uniform_start(
    classes: SequenceClasses, seed: int, index: int = 0, residual: bool = False
) -> tuple[Float[np.ndarray, "rows vocab"], Float[np.ndarray, "queries tokens"]]:
    r"""The moving parts of Y and Z, uniform on $\pm 1/\sqrt M$, that (seed, index) names; `residual` moves all of Y."""
    L, M = len(classes.context_tokens), classes.M
    rng = named_rng(f"scan-snap start {index}", seed)
    Y, Z = (rng.uniform(-1, 1, s) for s in ((M if residual else L, M), (len(classes.queries), L)))
    return Y / np.sqrt(M), Z / np.sqrt(M)


class Sampler(NamedTuple):
    """The laws in the form drawing needs; slots are a class's own tokens, padded to the largest class."""

    edge: Any  # (classes − 1,): the cumulative law of the classes, in units of 2⁻³²
    below: Any  # (classes, slots): the cumulative law of each class's tokens, likewise
    slot: (
        Any  # (classes, tokens): which slot counts token l for class n; one past the last for none
    )


def sampler_of(classes: SequenceClasses) -> Sampler:
    """Cumulative laws over each class's support.

    Whole numbers of 32 bits are compared, not floating-point ones, so both precisions see the same contexts.
    """
    law = classes.P[:, classes.context_tokens]
    size = int((law > 0).sum(axis=1).max())
    below = np.full((len(law), size), 2**32 - 1, np.uint32)
    slot = np.full(law.shape, size, np.int32)
    for n, p in enumerate(law):
        own = np.flatnonzero(p)
        below[n, : len(own) - 1] = _edges(np.cumsum(p[own])[:-1])
        slot[n, own] = np.arange(len(own))
    return Sampler(_edges(np.arange(1, len(law)) / len(law)), below, slot)


def _edges(cumulative: Float[np.ndarray, " n"]) -> UInt32[np.ndarray, " n"]:
    """The largest whole number of 32 bits that still counts as below each probability."""
    return np.clip(np.ceil(cumulative * 2.0**32) - 1, 0, 2**32 - 1).astype(np.uint32)


def stream_key(seed: Any, index: Any) -> Any:
    """The stream of contexts that (seed, index) names."""
    import jax

    key = jax.random.key(seed, impl="threefry2x32")
    return jax.random.fold_in(jax.random.fold_in(key, crc32(b"contexts")), index)


def draw(T: int, batch: int, sampler: Sampler, key: Any, step: Any) -> tuple[Any, Any]:
    """Classes and token counts of the batch that a stream shows at a step."""
    import jax
    import jax.numpy as jnp

    # Classes have a stream of their own, so that they are the same for every T. A token lies in slot s when its
    # number exceeds edge s − 1 but not edge s: counting numbers up to every edge and taking differences never forms
    # the tokens.
    of_class, of_token = jax.random.split(jax.random.fold_in(key, step))
    n = (jax.random.bits(of_class, (batch, 1), jnp.uint32) > sampler.edge).sum(
        axis=-1, dtype=jnp.int32
    )
    u = jax.random.bits(of_token, (batch, T - 1), jnp.uint32)
    upto = (u[:, None] <= sampler.below[n][:, :, None]).sum(axis=-1, dtype=jnp.int32)
    counts = jnp.diff(upto, axis=1, prepend=0, append=upto[:, -1:])
    return n, jnp.take_along_axis(counts, sampler.slot[n], axis=1)


# The same in NumPy

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
BLOCK = 128  # steps whose keys are made together
KEPT = 1 << 14  # counts in a batch, up to which batches are kept

Words = UInt32[np.ndarray, "..."]
Key = tuple[Words, Words]  # one key in arrays of length 1, or several


def contexts_of(
    classes: SequenceClasses, *, T: int, batch: int, steps: int, index: int, seed: int
) -> Iterator[tuple[Int[np.ndarray, " batch"], Int[np.ndarray, "batch slots_and_none"]]]:
    """The batches of a stream, step after step: their classes, and how often each slot of the class occurs.

    Number for number what `draw` gives inside a compiled program. The column after the last slot is 0.
    """
    sampler = sampler_of(classes)
    first = sampler.below[0]
    alike = bool((sampler.below == first).all()) and batch * len(first) <= KEPT
    stream = _words(0), _words(seed)
    for name in (crc32(b"contexts"), index):
        stream = _threefry(stream, _words(name))
    for start in range(0, steps, BLOCK):
        now = np.arange(start, min(start + BLOCK, steps), dtype=np.uint32)
        a, b = _threefry(_threefry(stream, now), np.arange(2, dtype=np.uint32)[:, None])
        u = _bits((a[0], b[0]), batch)
        of_class = (u[..., None] > sampler.edge).sum(axis=-1)
        for n, high, low in zip(of_class, a[1].tolist(), b[1].tolist(), strict=True):
            if alike:
                yield n, _alike(high, low, T, batch, first.tobytes())
            else:
                yield n, _slots(high, low, T, sampler.below[n])


@lru_cache(maxsize=1 << 10)
def _alike(
    a: int, b: int, T: int, batch: int, below: bytes
) -> Int[np.ndarray, "batch slots_and_none"]:
    """`_slots` where all classes have one law of slots: kept, since figures train several families on one stream."""
    return _slots(a, b, T, np.tile(np.frombuffer(below, np.uint32), (batch, 1)))


def _slots(
    a: int, b: int, T: int, below: UInt32[np.ndarray, "batch slots"]
) -> Int[np.ndarray, "batch slots_and_none"]:
    """How many of T − 1 numbers, drawn by the key (a, b), fall between the edges of each slot."""
    batch, size = below.shape
    u = _bits((_words(a), _words(b)), batch * (T - 1)).reshape(batch, T - 1)
    slot = np.zeros(u.shape, np.min_scalar_type(size))
    for edge in below.T[:-1]:  # beyond how many edges a number lies
        slot += u > edge[:, None]
    places = slot + (size + 1) * np.arange(batch)[:, None]
    counts = np.bincount(places.ravel(), minlength=batch * (size + 1))
    return counts.astype(np.int32).reshape(batch, size + 1)


def _words(*numbers: int) -> Words:
    return np.array(numbers, np.uint32)


def _bits(key: Key, size: int) -> Words:
    """`size` numbers of every key, as `jax.random.bits` gives them."""
    a, b = _threefry((key[0][..., None], key[1][..., None]), np.arange(size, dtype=np.uint32))
    return np.bitwise_xor(a, b, out=a)


def _threefry(key: Key, count: Words) -> Key:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011) of the counters (0, count), as JAX folds, splits and draws."""
    words = (*key, key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    b = count + words[1]
    a, spare = np.zeros_like(b) + words[0], np.empty_like(b)
    for turn in range(5):
        for rotation in ROTATIONS[turn % 2]:
            a += b
            np.left_shift(b, np.uint32(rotation), out=spare)
            b >>= np.uint32(32 - rotation)
            b |= spare
            b ^= a
        a += words[(turn + 1) % 3]
        b += words[(turn + 2) % 3] + np.uint32(turn + 1)
    return a, b
