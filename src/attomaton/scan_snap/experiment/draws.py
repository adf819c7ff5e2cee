"""Contexts drawn from sequence classes: which one a stream shows at a step, on every device and in every precision.

A stream is named by a seed and an index, a batch by its step: no number depends on how many were drawn before it.
Only counts are formed, never the tokens themselves. JAX is imported when something is drawn.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from jaxtyping import Float, Int, UInt32

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
    import jax

    sampler = jax.device_put(sampler_of(classes))
    of_class, slots = _drawing(T, batch)(
        sampler, stream_key(np.uint32(seed), index), np.arange(steps)
    )
    counts = np.zeros((steps, batch, classes.M), np.int64)
    counts[..., classes.context_tokens] = np.asarray(slots)
    return np.asarray(of_class).astype(np.int64), counts


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


@lru_cache(maxsize=32)
def _drawing(T: int, batch: int) -> Callable:
    """The compiled program that draws the batches of several steps."""
    import jax

    return jax.jit(jax.vmap(partial(draw, T, batch), in_axes=(None, None, 0)))


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
