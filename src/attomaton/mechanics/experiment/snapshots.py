"""Snapshots of a run: scores of pairs at steps evenly on a logarithmic axis, within a bound of bytes.

Of a small vocabulary every pair is kept. Of a large one whole last tokens are, those asked for first, then those with
the most samples; of a last token that is too large by itself fewer snapshots, and then fewer of its tokens, those that
came next most often.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attomaton.base.lazily import jnp
from attomaton.base.shapes import Float, Int
from attomaton.corpus.samples import Samples
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.experiment.arguments import log_steps
from attomaton.numerics import sum_by

if TYPE_CHECKING:
    from jax import Array

SNAPSHOTS = 201  # of one run, that of step 0 among them
FEWEST = 21  # before single tokens are left out
SIZE = 4  # bytes of a score


@dataclass(frozen=True, eq=False)
class Snapshots:
    """The scores ⟨W, e_x e_qᵀ⟩ of pairs of a last token q and a token x, at some steps of the first seed's run."""

    steps: Int[np.ndarray, " snapshots"]
    scores: Float[np.ndarray, "snapshots kept"]  # float32
    last: Int[np.ndarray, " kept"]
    token: Int[np.ndarray, " kept"]
    pairs: int  # of the data set, kept or not
    last_tokens: int


@dataclass(frozen=True, eq=False)
class Watched:
    """Which pairs are kept, by their place among all sorted ones, and at which steps."""

    steps: Int[np.ndarray, " snapshots"]
    pair: Int[np.ndarray, " kept"]
    last: Int[np.ndarray, " kept"]
    token: Int[np.ndarray, " kept"]
    pairs: int
    last_tokens: int

    def kept(
        self, steps: Int[np.ndarray, " stops"], scores: Float[np.ndarray, "stops kept"]
    ) -> Snapshots:
        """The snapshots among all stops of a run, as long as its scores were finite."""
        at = np.flatnonzero(np.isin(steps, self.steps) & np.isfinite(scores).all(axis=1))
        return Snapshots(steps[at], scores[at], self.last, self.token, self.pairs, self.last_tokens)


class Seen(NamedTuple):
    """How the scores that are kept come from the parameters: as places of pairs, or through vectors of tokens."""

    pair: Any = None
    keys: Any = None
    queries: Any = None  # of the last tokens that are watched
    token: Any = None
    which: Any = None  # the last token of each pair among them


def snapshot_steps(steps: int, most: int = SNAPSHOTS) -> Int[np.ndarray, " snapshots"]:
    """At most so many steps from 0 to the last, evenly on a logarithmic axis as far as whole numbers allow.

    >>> snapshot_steps(3).tolist(), snapshot_steps(1000, 8).tolist()
    ([0, 1, 2, 3], [0, 1, 3, 10, 32, 100, 316, 1000])
    """
    if steps < most:
        return np.arange(steps + 1)
    # Rounding makes early ones fall together: so many points that the distinct ones are as many as may be.
    fewest, enough = most - 1, 50 * most
    while enough - fewest > 1:
        middle = (fewest + enough) // 2
        fewest, enough = (
            (middle, enough) if len(log_steps(steps, middle)) <= most else (fewest, middle)
        )
    return log_steps(steps, fewest)


def watched(samples: Samples, steps: int, room: int, wanted: Sequence[int] = ()) -> Watched:
    """What a run of so many steps keeps within `room` bytes; `wanted` are last tokens that come first."""
    key, pair = samples.pair_index()
    last, token = np.divmod(key, len(samples.vocabulary))
    lasts, first, size = np.unique(last, return_index=True, return_counts=True)
    marks = snapshot_steps(steps)
    weight = sum_by(np.searchsorted(lasts, samples.last), samples.weight, len(lasts))
    heaviest = np.lexsort((-weight, ~np.isin(lasts, wanted)))
    within = np.cumsum(size[heaviest]) * len(marks) * SIZE <= room
    if within.any():
        kept = np.flatnonzero(np.isin(last, lasts[heaviest[within]]))
    else:
        one = heaviest[0]
        marks = snapshot_steps(steps, max(FEWEST, room // (SIZE * int(size[one]))))
        owner = samples.sample_of
        came = (samples.token == samples.label[owner]) * samples.weight[owner]
        own, seen = (sum_by(pair, x, len(key)) for x in (came, samples.weight[owner]))
        places = np.arange(first[one], first[one] + size[one])
        order = places[np.lexsort((-seen[places], -own[places]))]
        kept = np.sort(order[: max(1, room // (SIZE * len(marks)))])
    return Watched(marks, kept, last[kept], token[kept], len(key), len(lasts))


def seen_through(watch: Watched | None, tables: Sequence[Embeddings] | None) -> Seen | None:
    """What training needs to tell the scores that are kept; None where none are."""
    if watch is None or tables is None:
        return None if watch is None else Seen(pair=watch.pair)
    table = tables[0]
    lasts, which = np.unique(watch.last, return_inverse=True)
    return Seen(None, table.keys, table.queries[lasts], watch.token, which)


def scores_seen(W: "Array", seen: Seen) -> "Array":
    """The scores that are kept, in single precision; `W` are the scores of all pairs, or a matrix."""
    found = (
        W[seen.pair]
        if seen.keys is None
        else (seen.keys @ W @ seen.queries.T)[seen.token, seen.which]
    )
    return jnp.asarray(found, jnp.float32)
