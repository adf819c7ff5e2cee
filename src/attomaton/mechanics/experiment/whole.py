r"""The log-loss of a whole corpus and its gradient by the pair scores, every sum taken where its terms lie.

A step visits each incidence (sample, token) twice. By *samples*, a column of slots each beside its label:
$Z_i = \sum_x m_x e^{s_x}$ and the part $R_i$ of it that is not the label's. Then by *pairs*, a row each of the
samples that hold the pair: $\partial L/\partial s_p = \sum_i w_i\, m_{ip}\, e^{s_p}/Z_i$ over the samples where $p$
is not the label, minus $\sum_i w_i R_i/Z_i$ over those where it is. Nothing is scattered: a GPU does not wait for its
own additions, and gives the same answer every time.

Pairs occur once or ten thousand times, so their rows are kept in tables of widths 1, 2, 4, …: at most half of a
table is padding. Narrow tables and slots lie on their side, so that neighbours in memory are added to neighbours, and
the most frequent pairs of each sample come first: threads of a GPU then read the same places. Pairs are numbered in
the order of their rows, so that sums are the gradient as they come; `order` and `place` lead to the numbering of
everyone else and back.

While scores stay within `REACH`, one exponential for each pair serves all samples (`quick_loss_and_gradient`);
beyond it exponentials are taken of differences, one for each incidence (`whole_loss_and_gradient`).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer

from attomaton.corpus.samples import Samples
from attomaton.numerics import row_pointer

REACH = 230.0  # of scores: a product of three exponentials is then within the range of float64
NARROW = 16  # widths up to which a table lies on its side


class Table(NamedTuple):
    """Rows of one width, of pairs in sequence: where each term lies, and how often it counts (0 in padding).

    A term i below the number of samples n is the pair as a rival in sample i, n + i is it as the label of sample i.
    """

    term: Int[Array, "rows width"]  # a narrow table: width rows
    times: Int[Array, "rows width"]


class Whole(NamedTuple):
    """A corpus by samples and by pairs; a slot past a sample's last has count 0 and points at pair 0."""

    label: Int[Array, " samples"]
    label_times: Int[Array, " samples"]
    slot: Int[Array, "rivals samples"]
    times: Int[Array, "rivals samples"]
    weight: Float[Array, " samples"]  # sums to 1
    log: Float[Array, " counts"]  # log 0 = −∞, log 1, log 2, …
    narrow: tuple[Table, ...]
    wide: tuple[Table, ...]
    order: Int[Array, " pairs"]  # the pair of each row, by (last token, token)
    place: Int[Array, " pairs"]  # the row of each pair


def whole_of(samples: Samples) -> Whole:
    """The samples in both orders, as NumPy arrays."""
    keys, pair = samples.pair_index()
    n, owner = len(samples), samples.sample_of
    count = samples.count.astype(np.uint8 if samples.count.max() < 256 else np.int32)
    own = samples.token == samples.label[owner]
    order, narrow, wide = _tables(
        pair, np.where(own, n + owner, owner), np.where(own, count.dtype.type(1), count)
    )
    place = np.empty(len(keys), np.int32)
    place[order] = np.arange(len(keys))
    shape = (int(samples.size.max()) - 1, n)
    slot, times = np.zeros(shape, np.int32), np.zeros(shape, count.dtype)
    # Rows are sorted by width: the last ones are the most frequent pairs.
    rival = np.flatnonzero(~own)
    rival = rival[np.lexsort((-place[pair[rival]], owner[rival]))]
    to = np.arange(len(rival)) - row_pointer(samples.size - 1)[owner[rival]], owner[rival]
    slot[to], times[to] = place[pair[rival]], count[rival]
    with np.errstate(divide="ignore"):
        log = np.log(np.arange(int(samples.count.max()) + 1))
    weight = samples.weight / samples.total_weight
    label = place[pair[own]], count[own]
    return Whole._make((*label, slot, times, weight, log, narrow, wide, order, place))


def _tables(
    pair: np.ndarray, term: np.ndarray, count: np.ndarray
) -> tuple[Int[np.ndarray, " pairs"], tuple[Table, ...], tuple[Table, ...]]:
    """The terms of each pair as a row, rows sorted into tables by width; the pair of each row goes before them."""
    by_pair = np.argsort(pair, kind="stable")
    degree = np.bincount(pair)
    start = row_pointer(degree)[:-1]
    width = np.left_shift(1, np.ceil(np.log2(degree)).astype(np.int64))
    order, narrow, wide = [], [], []
    for w in np.unique(width):
        rows = np.flatnonzero(width == w)
        full = np.arange(w) < degree[rows][:, None]
        at = by_pair[(start[rows][:, None] + np.arange(w))[full]]
        table = np.zeros((len(rows), w), np.int32), np.zeros((len(rows), w), count.dtype)
        table[0][full], table[1][full] = term[at], count[at]
        order.append(rows.astype(np.int32))
        if w > NARROW:
            wide.append(Table._make(table))
        else:
            narrow.append(Table._make(np.ascontiguousarray(x.T) for x in table))
    return np.concatenate(order), tuple(narrow), tuple(wide)


def within_reach(scores: Float[Array, " pairs"]) -> Bool[Array, ""]:
    """Whether `quick_loss_and_gradient` holds for these scores; not where one is no number."""
    return (jnp.abs(scores) < REACH).all()


def quick_loss_and_gradient(
    scores: Float[Array, " pairs"], whole: Whole
) -> tuple[Float[Array, ""], Float[Array, " pairs"]]:
    """What `whole_loss_and_gradient` gives, for scores within reach."""
    e = jnp.exp(scores)
    own = _taken(e, whole.label)
    label = own * whole.label_times
    others = _added(e, whole.slot, whole.times)
    share = whole.weight / (label + others)
    # A label's own term is divided by what its row is multiplied with.
    terms = jnp.concatenate([share, -share * others / own])
    rows = [_added(terms, *t) for t in whole.narrow]
    rows += [(_taken(terms, t.term) * t.times).sum(axis=1) for t in whole.wide]
    if jax.default_backend() == "cpu":  # which would find each term's table again
        rows = jax.lax.optimization_barrier(rows)
    # Where the loss is asked for, it is not to add the slots up a second time.
    label, others = jax.lax.optimization_barrier((label, others))
    return whole.weight @ jnp.log1p(others / label), e * jnp.concatenate(rows)


def _added(
    terms: Float[Array, " terms"], at: Int[Array, "width rows"], times: Integer[Array, "width rows"]
) -> Float[Array, " rows"]:
    """The sum of each column, written out row by row: compilers then go through all columns once."""
    total = jnp.zeros(at.shape[1], terms.dtype)
    for where, often in zip(at, times, strict=True):
        total += _taken(terms, where) * often
    return total


def _taken(terms: Float[Array, " terms"], at: Int[Array, "*shape"]) -> Float[Array, "*shape"]:
    """`terms[at]` without a look at whether the places are there: `whole_of` made them."""
    return terms.at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)


def whole_loss_and_gradient(
    scores: Float[Array, " pairs"], whole: Whole
) -> tuple[Float[Array, ""], Float[Array, " pairs"]]:
    """The mean log-loss and its gradient by the scores of pairs in the order of their rows.

    Both keep their digits when the layer is almost sure.
    """
    z_label = scores[whole.label] + whole.log[whole.label_times]
    gap = scores[whole.slot] + whole.log[whole.times] - z_label
    top = gap.max(axis=0, initial=0.0)
    others = jnp.exp(gap - top).sum(axis=0)
    total = others + jnp.exp(-top)
    loss = whole.weight @ (top + jnp.log1p(others + jnp.expm1(-top)))
    log_share = jnp.log(whole.weight) - (z_label + top + jnp.log(total))  # log w_i − log Z_i
    lost = whole.weight * others / total  # w_i (1 − p_i(y_i))
    none = jnp.zeros_like(lost)
    log_share = jnp.concatenate([log_share, none - jnp.inf])
    lost = jnp.concatenate([none, lost])

    def sums(own: Array, table: Table, axis: int) -> Array:
        gained = jnp.exp(own + whole.log[table.times] + log_share[table.term])
        return (gained - jnp.where(table.times > 0, lost[table.term], 0.0)).sum(axis=axis)

    rows, first = [], 0
    for table in whole.narrow:
        last = first + table.term.shape[1]
        rows.append(sums(scores[first:last], table, 0))
        first = last
    for table in whole.wide:
        last = first + len(table.term)
        rows.append(sums(scores[first:last, None], table, 1))
        first = last
    return loss, jnp.concatenate(rows)


def whole_loss(scores: Float[Array, " pairs"], whole: Whole) -> Float[Array, ""]:
    """The mean log-loss alone, the quicker way where scores are within reach."""
    return jax.lax.cond(
        within_reach(scores),
        lambda scores: quick_loss_and_gradient(scores, whole)[0],
        lambda scores: whole_loss_and_gradient(scores, whole)[0],
        scores,
    )
