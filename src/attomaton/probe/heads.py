r"""Heads on given text: how hard each attends, to what kind of key, and whether to what the automaton retrieves."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from attomaton.base.progress import Progress, quiet
from attomaton.probe.asking import answers
from attomaton.probe.records import Estimate, Head
from attomaton.probe.statistics import estimate
from attomaton.trained.forward import Network

QUANTILES = (0.1, 0.5, 0.9)


class Seen(NamedTuple):
    """What is kept of the heads of a layer: by context and head; NaN where a context has no such place."""

    largest: Any
    entropy: Any
    previous: Any
    first: Any
    same: Any
    induction: Any
    last: Any  # the attention of the last place, by key
    margin: Any  # by place: the gap between the two highest scores


def looked_at(attention: Any, scores: Any, tokens: Any) -> Seen:
    """The measures of every head on a batch of contexts; attention is (batch, heads, length, length)."""
    import jax
    import jax.numpy as jnp

    length = attention.shape[-1]
    place = jnp.arange(length)
    keys = (scores > -jnp.inf).sum(axis=-1)  # (…, length): as many as the place may see
    entropy = -jax.scipy.special.xlogy(attention, attention).sum(axis=-1)
    ratio = entropy / jnp.log(jnp.maximum(keys, 2))
    equal = tokens[:, :, None] == tokens[:, None, :]
    same = equal & (place[None, :] < place[:, None])
    # A key behind an earlier token that is the same as the present one.
    behind = jnp.pad(equal[:, :, :-1], ((0, 0), (0, 0), (1, 0))) & (
        place[None, :] <= place[:, None]
    )
    top = jax.lax.top_k(scores, min(2, length))[0]
    before = jnp.diagonal(attention[..., 1:, :-1], axis1=-2, axis2=-1)
    return Seen(
        attention.max(axis=-1)[..., 1:].mean(axis=-1),
        ratio[..., 1:].mean(axis=-1),
        before.mean(axis=-1),
        attention[..., 1:, 0].mean(axis=-1),
        _mass(attention, same),
        _mass(attention, behind),
        attention[..., -1, :],
        (top[..., 0] - top[..., -1])[..., 1:],
    )


def _mass(attention: Any, wanted: Any) -> Any:
    """The mean mass on wanted keys, over the places that have one; NaN in contexts without."""
    import jax.numpy as jnp

    there = wanted.any(axis=-1)[:, None]
    mass = (attention * wanted[:, None]).sum(axis=-1)
    many = there.sum(axis=-1)
    return jnp.where(many > 0, (mass * there).sum(axis=-1) / jnp.maximum(many, 1), jnp.nan)


def heads_of(
    network: Network,
    contexts: Sequence[np.ndarray],
    retrieved: Bool[np.ndarray, "contexts length"] | None,
    progress: Progress = quiet,
) -> tuple[Head, ...]:
    """The table of all heads on contexts of one length; `retrieved` marks the keys the automaton retrieves."""
    _, kept = answers(network, contexts, looked_at, progress, "heads")
    return _table(kept, retrieved, scored=True)


def heads_of_attention(
    tokens: Int[np.ndarray, "contexts length"],
    attention: Float[np.ndarray, "contexts layers heads length length"],
    scores: Float[np.ndarray, "contexts layers heads length length"] | None,
    retrieved: Bool[np.ndarray, "contexts length"] | None = None,
) -> tuple[Head, ...]:
    """The same of attention that another program computed; margins only where scores came with it."""
    import jax

    T, look = tokens.shape[1], jax.jit(looked_at)
    allowed = np.where(np.tri(T, dtype=bool), 0.0, -np.inf)
    layers = []
    for i in range(attention.shape[1]):
        given = (
            allowed if scores is None else np.where(np.tri(T, dtype=bool), scores[:, i], -np.inf)
        )
        given = np.broadcast_to(given, attention[:, i].shape)
        layers.append([np.asarray(x) for x in look(attention[:, i], given, tokens)])
    kept = [np.stack(field) for field in zip(*layers, strict=True)]
    return _table([kept], retrieved, scored=scores is not None)


def even_head(
    tokens: Int[np.ndarray, "contexts length"],
    retrieved: Bool[np.ndarray, "contexts length"] | None,
) -> Head:
    """What a head that spreads its attention evenly scores on the same contexts: the level of chance."""
    T = tokens.shape[1]
    even = np.tri(T) / np.arange(1, T + 1)[:, None]
    attention = np.broadcast_to(even, (len(tokens), 1, 1, T, T))
    return heads_of_attention(tokens, attention, None, retrieved)[0]


def _table(
    kept: Sequence[Sequence[np.ndarray]], retrieved: np.ndarray | None, scored: bool
) -> tuple[Head, ...]:
    seen = Seen(*(np.concatenate(field, axis=1) for field in zip(*kept, strict=True)))
    layers, _, heads = seen.largest.shape[:3]
    return tuple(_head(seen, i, h, retrieved, scored) for i in range(layers) for h in range(heads))


def _head(seen: Seen, layer: int, head: int, retrieved: np.ndarray | None, scored: bool) -> Head:
    def of(value: np.ndarray) -> Estimate | None:
        return estimate(value[layer, :, head])

    margin = seen.margin[layer, :, head]
    margin = margin[np.isfinite(margin)]
    quantiles = None
    if scored and margin.size:
        low, middle, high = np.quantile(margin, QUANTILES)
        quantiles = (float(low), float(middle), float(high))
    mass = hits = None
    if retrieved is not None and retrieved.any():
        rows = retrieved.any(axis=1)
        last = seen.last[layer, rows, head]
        mass = estimate((last * retrieved[rows]).sum(axis=-1))
        hits = estimate(retrieved[rows][np.arange(len(last)), last.argmax(axis=-1)].astype(float))
    return Head(
        layer, head, _there(of(seen.largest)), _there(of(seen.entropy)), quantiles, _there(of(seen.previous)),
        _there(of(seen.first)), of(seen.same), of(seen.induction), mass, hits,
    )  # fmt: skip


def _there(found: Estimate | None) -> Estimate:
    assert found is not None  # every context has places with more than one key
    return found
