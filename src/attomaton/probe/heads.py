r"""Heads on given text: how hard each attends, to what kind of key, and whether to what the automaton retrieves."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.lazily import jax, jnp
from attomaton.base.programs import compiled_program
from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Bool, Float, Int
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
    length = attention.shape[-1]
    place = jnp.arange(length)
    # As many as each place may see, in every head alike
    keys = (scores[0, 0] > -jnp.inf).sum(axis=-1)
    entropy = -jax.scipy.special.xlogy(attention, attention).sum(axis=-1)
    ratio = entropy / jnp.log(jnp.maximum(keys, 2))
    gap = place[:, None] - place[None, :]
    equal = tokens[:, :, None] == tokens[:, None, :]
    # A key behind an earlier token that is the same as the present one.
    behind = jnp.pad(equal[:, :, :-1], ((0, 0), (0, 0), (1, 0)))
    kinds = jnp.broadcast_arrays(
        gap == 1, (gap > 0) & (place == 0), equal & (gap > 0), behind & (gap >= 0)
    )
    previous, first, same, induction = jnp.moveaxis(
        _masses(attention, jnp.stack(kinds, axis=1)), -1, 0
    )
    return Seen(
        attention.max(axis=-1)[..., 1:].mean(axis=-1),
        ratio[..., 1:].mean(axis=-1),
        previous,
        first,
        same,
        induction,
        attention[..., -1, :],
        _margin(scores)[..., 1:],
    )


def _masses(attention: Any, wanted: Any) -> Any:
    """The mean mass on each kind of wanted keys, over the places that have one; NaN in contexts without.

    By batch, head and kind. On processors it is one product, which goes through attention once; elsewhere a product
    with so few rows and columns would leave most of the device idle.
    """
    many = wanted.any(axis=-1).sum(axis=-1)[:, None]
    if jax.default_backend() == "cpu":
        mass = jnp.einsum("bhts,bkts->bhk", attention, wanted.astype(attention.dtype))
    else:
        mass = jnp.where(wanted[:, None], attention[:, :, None], 0).sum(axis=(-2, -1))
    return jnp.where(many > 0, mass / jnp.maximum(many, 1), jnp.nan)


def _margin(scores: Any) -> Any:
    """The gap between the two highest scores of every place, 0 where the highest is there twice."""
    best = scores.max(axis=-1)
    top = scores == best[..., None]
    second = jnp.where(top, -jnp.inf, scores).max(axis=-1)
    return jnp.where(top.sum(axis=-1) > 1, 0, best - second)


def heads_of(
    network: Network,
    contexts: Sequence[np.ndarray],
    retrieved: Bool[np.ndarray, "contexts length"] | None,
    progress: Progress = quiet,
    logits: Float[np.ndarray, "contexts vocab"] | None = None,
) -> tuple[Head, ...]:
    """The table of all heads on contexts of one length; `retrieved` marks the keys the automaton retrieves.

    Logits behind the contexts are left in `logits`, where it is given.
    """
    kept = []
    for batch in answers(network, contexts, looked_at, progress, "heads"):
        kept.append(batch.kept)
        if logits is not None:
            logits[batch.at] = batch.logits
    return _table(kept, retrieved, scored=True)


def heads_of_attention(
    tokens: Int[np.ndarray, "contexts length"],
    attention: Float[np.ndarray, "contexts layers heads length length"],
    scores: Float[np.ndarray, "contexts layers heads length length"] | None,
    retrieved: Bool[np.ndarray, "contexts length"] | None = None,
) -> tuple[Head, ...]:
    """The same of attention that another program computed; margins only where scores came with it."""
    T = tokens.shape[1]
    allowed = np.where(np.tri(T, dtype=bool), 0.0, -np.inf)
    layers = []
    for i in range(attention.shape[1]):
        given = (
            allowed if scores is None else np.where(np.tri(T, dtype=bool), scores[:, i], -np.inf)
        )
        given = np.broadcast_to(given, attention[:, i].shape)
        own = tuple(jnp.asarray(x) for x in (attention[:, i], given, tokens))
        layers.append([np.asarray(x) for x in compiled_program(_build_look, None, own)(*own)])
    kept = [np.stack(field) for field in zip(*layers, strict=True)]
    return _table([kept], retrieved, scored=scores is not None)


def _build_look(_: None) -> Callable:
    return looked_at


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
