r"""The log-loss of a whole corpus and its gradient by the pair scores, every sum taken where its terms lie.

A step visits each incidence (sample, token) twice. By *samples*, a row of slots each, the label first:
$Z_i = \sum_x m_x e^{s_x}$ and the part $R_i$ of it that is not the label's. Then by *pairs*, a row each of the
samples that hold the pair: $\partial L/\partial s_p = \sum_i w_i\, m_{ip}\, e^{s_p}/Z_i$ over the samples where $p$
is not the label, minus $\sum_i w_i R_i/Z_i$ over those where it is. Nothing is scattered: a GPU does not wait for its
own additions, and gives the same answer every time.

Pairs occur once or ten thousand times, so their rows are kept in tables of widths 1, 2, 4, …: at most half of a
table is padding. Pairs are numbered in the order of those rows, so that sums are the gradient as they come;
`order` and `place` lead to the numbering of everyone else and back.

While scores stay within `REACH`, one exponential for each pair serves all samples (`quick_loss_and_gradient`);
beyond it exponentials are taken of differences, one for each incidence (`whole_loss_and_gradient`).
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from attomaton.corpus.samples import Samples
from attomaton.numerics import row_pointer

REACH = 230.0  # of scores: a product of three exponentials is then within the range of float64


class Table(NamedTuple):
    """Rows of one width, of pairs in sequence: where each term lies, and how often it counts (0 in padding).

    A term i below the number of samples n is the pair as a rival in sample i, n + i is it as the label of sample i.
    """

    term: Int[Array, "rows width"]
    times: Int[Array, "rows width"]


class Whole(NamedTuple):
    """A corpus by samples and by pairs; a slot past a sample's last has count 0 and points at pair 0."""

    label: Int[Array, " samples"]
    label_times: Int[Array, " samples"]
    slot: Int[Array, "samples rivals"]
    times: Int[Array, "samples rivals"]
    weight: Float[Array, " samples"]  # sums to 1
    log: Float[Array, " counts"]  # log 0 = −∞, log 1, log 2, …
    tables: tuple[Table, ...]
    order: Int[Array, " pairs"]  # the pair of each row, by (last token, token)
    place: Int[Array, " pairs"]  # the row of each pair


def whole_of(samples: Samples) -> Whole:
    """The samples in both orders, as NumPy arrays."""
    keys, pair = samples.pair_index()
    n, owner = len(samples), samples.sample_of
    count = samples.count.astype(np.uint8 if samples.count.max() < 256 else np.int32)
    own = samples.token == samples.label[owner]
    order, tables = _tables(
        pair, np.where(own, n + owner, owner), np.where(own, count.dtype.type(1), count)
    )
    place = np.empty(len(keys), np.int32)
    place[order] = np.arange(len(keys))
    shape = (n, int(samples.size.max()) - 1)
    slot, times = np.zeros(shape, np.int32), np.zeros(shape, count.dtype)
    # The label leaves a gap in its sample's row, which the tokens after it close.
    at = np.arange(len(owner)) - samples.start[owner]
    at -= at > np.repeat(at[own], samples.size)
    to = owner[~own], at[~own]
    slot[to], times[to] = place[pair[~own]], count[~own]
    with np.errstate(divide="ignore"):
        log = np.log(np.arange(int(samples.count.max()) + 1))
    weight = samples.weight / samples.total_weight
    return Whole._make(
        (place[pair[own]], count[own], slot, times, weight, log, tables, order, place)
    )


def _tables(
    pair: np.ndarray, term: np.ndarray, count: np.ndarray
) -> tuple[Int[np.ndarray, " pairs"], tuple[Table, ...]]:
    """The terms of each pair as a row, rows sorted into tables by width; and the pair of each row."""
    by_pair = np.argsort(pair, kind="stable")
    degree = np.bincount(pair)
    start = row_pointer(degree)[:-1]
    width = np.left_shift(1, np.ceil(np.log2(degree)).astype(np.int64))
    order, tables = [], []
    for w in np.unique(width):
        rows = np.flatnonzero(width == w)
        full = np.arange(w) < degree[rows][:, None]
        at = by_pair[(start[rows][:, None] + np.arange(w))[full]]
        table = np.zeros((len(rows), w), np.int32), np.zeros((len(rows), w), count.dtype)
        table[0][full], table[1][full] = term[at], count[at]
        order.append(rows.astype(np.int32))
        tables.append(Table._make(table))
    return np.concatenate(order), tuple(tables)


def within_reach(scores: Float[Array, " pairs"]) -> Bool[Array, ""]:
    """Whether `quick_loss_and_gradient` holds for these scores; not where one is no number."""
    return (jnp.abs(scores) < REACH).all()


def quick_loss_and_gradient(
    scores: Float[Array, " pairs"], whole: Whole
) -> tuple[Float[Array, ""], Float[Array, " pairs"]]:
    """What `whole_loss_and_gradient` gives, for scores within reach."""
    e = jnp.exp(scores)
    label = e[whole.label] * whole.label_times
    others = (e[whole.slot] * whole.times).sum(axis=1)
    share = whole.weight / (label + others)
    # A label's own term is divided by what its row is multiplied with.
    terms = jnp.concatenate([share, -share * others / e[whole.label]])
    rows = [(terms[t.term] * t.times).sum(axis=1) for t in whole.tables]
    return whole.weight @ jnp.log1p(others / label), e * jnp.concatenate(rows)


def whole_loss_and_gradient(
    scores: Float[Array, " pairs"], whole: Whole
) -> tuple[Float[Array, ""], Float[Array, " pairs"]]:
    """The mean log-loss and its gradient by the scores of pairs in the order of their rows.

    Both keep their digits when the layer is almost sure.
    """
    z_label = scores[whole.label] + whole.log[whole.label_times]
    gap = scores[whole.slot] + whole.log[whole.times] - z_label[:, None]
    top = gap.max(axis=1, initial=0.0)
    others = jnp.exp(gap - top[:, None]).sum(axis=1)
    total = others + jnp.exp(-top)
    loss = whole.weight @ (top + jnp.log1p(others + jnp.expm1(-top)))
    log_share = jnp.log(whole.weight) - (z_label + top + jnp.log(total))  # log w_i − log Z_i
    lost = whole.weight * others / total  # w_i (1 − p_i(y_i))
    none = jnp.zeros_like(lost)
    log_share, lost = (
        jnp.concatenate([log_share, none - jnp.inf]),
        jnp.concatenate([none, lost]),
    )
    rows, first = [], 0
    for t in whole.tables:
        own = scores[first : first + len(t.term), None]
        first += len(t.term)
        gained = jnp.exp(own + whole.log[t.times] + log_share[t.term])
        rows.append((gained - jnp.where(t.times > 0, lost[t.term], 0.0)).sum(axis=1))
    return loss, jnp.concatenate(rows)
