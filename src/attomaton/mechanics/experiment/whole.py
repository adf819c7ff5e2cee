r"""The log-loss of a whole corpus and its gradient by the pair scores, every sum taken where its terms lie.

A step visits each incidence (sample, token) twice. By *samples*, a row of slots each: $\log Z_i = \log \sum_x m_x
e^{s_x}$ and the mass $1 - p_i(y_i)$ of the tokens that are not the label. Then by *pairs*, a row of the samples that
hold the pair each: $\partial L/\partial s_p = \sum_i w_i\, m_{ip}\, e^{s_p - \log Z_i}$ over the samples where $p$ is
not the label, minus $\sum_i w_i (1 - p_i(y_i))$ over those where it is. Nothing is scattered: a GPU does not wait
for its own additions, and gives the same answer every time.

Pairs occur once or ten thousand times, so their rows are kept in tables of widths 1, 2, 4, …: at most half of a
table is padding.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from attomaton.corpus.samples import Samples
from attomaton.numerics import row_pointer


class Table(NamedTuple):
    """Rows of one width: the pair each row is about, its samples, how often each holds it (0 in padding)."""

    pair: Int[Array, " rows"]
    sample: Int[Array, "rows width"]
    times: Int[Array, "rows width"]


class Whole(NamedTuple):
    """A corpus by samples and by pairs; a slot past a sample's last has count 0 and points at pair 0."""

    slot: Int[Array, "samples slots"]
    times: Int[Array, "samples slots"]
    label: Int[Array, " samples"]
    label_times: Int[Array, " samples"]
    weight: Float[Array, " samples"]  # sums to 1
    log: Float[Array, " counts"]  # log 0 = −∞, log 1, log 2, …
    rivals: tuple[Table, ...]  # incidences of tokens that are not the label
    winners: tuple[Table, ...]  # incidences of labels
    place: Int[
        Array, " pairs"
    ]  # of each pair's row among the rows of all rival tables; past them where it has none


def whole_of(samples: Samples) -> Whole:
    """The samples in both orders, as NumPy arrays."""
    keys, pair = samples.pair_index()
    owner = samples.sample_of
    small = np.uint8 if samples.count.max() < 256 else np.int32
    shape = (len(samples), int(samples.size.max()))
    slot, count = np.zeros(shape, np.int32), np.zeros(shape, small)
    at = owner, np.arange(len(owner)) - samples.start[owner]
    slot[at], count[at] = pair, samples.count
    own = samples.token == samples.label[owner]
    rivals = _tables(pair[~own], owner[~own], samples.count[~own].astype(small))
    winners = _tables(pair[own], owner[own], samples.count[own].astype(small))
    rows = np.concatenate([t.pair for t in rivals]) if rivals else np.zeros(0, np.int32)
    place = np.full(len(keys), len(rows), np.int32)
    place[rows] = np.arange(len(rows))
    with np.errstate(divide="ignore"):
        log = np.log(np.arange(int(samples.count.max()) + 1))
    return Whole._make(
        (slot, count, pair[own].astype(np.int32), samples.count[own].astype(small),
         samples.weight / samples.total_weight, log, rivals, winners, place)
    )  # fmt: skip


def _tables(pair: np.ndarray, sample: np.ndarray, count: np.ndarray) -> tuple[Table, ...]:
    """The incidences of each pair as a row, rows sorted into tables by width."""
    order = np.argsort(pair, kind="stable")
    pairs, degree = np.unique(pair, return_counts=True)
    start = row_pointer(degree)[:-1]
    width = np.left_shift(1, np.ceil(np.log2(degree)).astype(np.int64)) if len(degree) else degree
    tables = []
    for w in np.unique(width):
        rows = np.flatnonzero(width == w)
        slot = np.arange(w) < degree[rows][:, None]
        at = order[(start[rows][:, None] + np.arange(w))[slot]]
        table = np.zeros((len(rows), w), np.int32), np.zeros((len(rows), w), count.dtype)
        table[0][slot], table[1][slot] = sample[at], count[at]
        tables.append(Table._make((pairs[rows].astype(np.int32), *table)))
    return tuple(tables)


def whole_loss_and_gradient(
    scores: Float[Array, " pairs"], whole: Whole
) -> tuple[Float[Array, ""], Float[Array, " pairs"]]:
    """The mean log-loss and its gradient by the pair scores; both keep their digits when the layer is almost sure."""
    z_label = scores[whole.label] + whole.log[whole.label_times]
    gap = scores[whole.slot] + whole.log[whole.times] - z_label[:, None]
    top = gap.max(axis=1)
    mass = jnp.where(whole.slot == whole.label[:, None], 0.0, jnp.exp(gap - top[:, None]))
    others = mass.sum(axis=1)
    total = others + jnp.exp(-top)
    loss = whole.weight @ (top + jnp.log1p(others + jnp.expm1(-top)))
    log_share = jnp.log(whole.weight) - (z_label + top + jnp.log(total))  # log w_i − log Z_i
    rows = [
        jnp.exp(scores[t.pair][:, None] + whole.log[t.times] + log_share[t.sample]).sum(axis=1)
        for t in whole.rivals
    ]
    gradient = jnp.concatenate([*rows, jnp.zeros(1, scores.dtype)])[whole.place]
    lost = whole.weight * others / total  # w_i (1 − p_i(y_i))
    for t in whole.winners:
        missing = jnp.where(t.times > 0, lost[t.sample], 0.0).sum(axis=1)
        gradient = gradient.at[t.pair].add(-missing, unique_indices=True, indices_are_sorted=True)
    return loss, gradient
