"""Windows as bags, one row each and in their own order: what every predictor is asked on.

A sample of the theory merges equal windows; a score is paired over windows, so here nothing is merged. A bag also
keeps what the layer itself does not look at: the order of its tokens, and how long ago each of them was seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attomaton.base.shapes import Bool, Float, Int, Shaped
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import Windows
from attomaton.errors import DataError, counted
from attomaton.numerics import ragged_indices, ragged_softmax, row_pointer
from attomaton.predictor.counts import places_in

BLOCK = 1 << 15  # windows scored at a time: bounds the memory of scoring
FEW = 5  # tokens that are named where none is known


@dataclass(frozen=True, eq=False)
class Bags:
    """Some windows, each as its distinct tokens in ascending order.

    The tokens of bag `i` are `token[start[i] : start[i + 1]]`, with their multiplicities in `count` and the distance
    of their last occurrence from the label in `distance` (the last token has distance 1). `before` is the token
    before the last one, −1 where there is none. `context` holds the contexts as they were read, one after the other;
    `order` are places in it, those of each incidence together, the earliest first.
    """

    start: Int[np.ndarray, " bags_and_one"]
    token: Int[np.ndarray, " incidences"]
    count: Int[np.ndarray, " incidences"]
    distance: Int[np.ndarray, " incidences"]
    last: Int[np.ndarray, " bags"]
    before: Int[np.ndarray, " bags"]
    label: Int[np.ndarray, " bags"]
    weight: Float[np.ndarray, " bags"]
    context: Int[np.ndarray, " tokens"]
    order: Int[np.ndarray, " tokens"]

    def __len__(self) -> int:
        return len(self.last)

    @cached_property
    def owner(self) -> Int[np.ndarray, " incidences"]:
        """The bag of each incidence."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    @cached_property
    def is_label(self) -> Bool[np.ndarray, " incidences"]:
        """Whether an incidence holds its bag's label."""
        return self.token == self.label[self.owner]

    @cached_property
    def label_at(self) -> Int[np.ndarray, " bags"]:
        """The incidence that holds each label, −1 where the label is absent from its context."""
        return self.place(np.arange(len(self)), self.label)

    @property
    def query(self) -> Int[np.ndarray, " incidences"]:
        """The last token of each incidence's bag."""
        return self.last[self.owner]

    @cached_property
    def length(self) -> Int[np.ndarray, " bags"]:
        """How many tokens each context has."""
        return np.add.reduceat(self.count, self.start[:-1])

    def recent(self, tokens: int | None = None) -> Int[np.ndarray, "bags places"]:
        """The contexts backwards, the last token first, −1 where there are no more: as many places as asked, or all."""
        back = np.arange(int(self.length.max()) if tokens is None else tokens)
        at = np.cumsum(self.length)[:, None] - 1 - back
        found = np.where(back < self.length[:, None], self.context[np.maximum(at, 0)], -1)
        return found.astype(np.int64)

    def over_places(
        self, most: np.ufunc, value: Shaped[np.ndarray, " tokens"]
    ) -> Shaped[np.ndarray, " incidences"]:
        """What a ufunc such as `np.maximum` makes of the values at all places of each incidence."""
        return np.asarray(most.reduceat(value[self.order], row_pointer(self.count)[:-1]))

    def hold(
        self, row: Int[np.ndarray, " n"], token: Int[np.ndarray, " n"]
    ) -> Bool[np.ndarray, " n"]:
        """Whether bag `row` holds `token`."""
        return self.place(row, token) >= 0

    def place(
        self, row: Int[np.ndarray, " n"], token: Int[np.ndarray, " n"]
    ) -> Int[np.ndarray, " n"]:
        """The incidence of `token` in bag `row`, −1 where the bag does not hold it."""
        size = 1 + max(int(self.token.max(initial=0)), int(token.max(initial=0)))
        keys = self.owner * size + self.token  # ascending
        return np.where(token >= 0, places_in(keys, row * size + token), -1)

    def sums(self, value: Float[np.ndarray, " incidences"]) -> Float[np.ndarray, " bags"]:
        """The sum over each bag."""
        return np.add.reduceat(value, self.start[:-1])

    def shares(self, score: Float[np.ndarray, " incidences"]) -> Float[np.ndarray, " incidences"]:
        """The softmax of the scores in each bag; −∞ is a share of 0."""
        return ragged_softmax(score, self.start)


def bags_of(windows: Windows, rows: Int[np.ndarray, " rows"]) -> Bags:
    """These windows as bags, in this order."""
    return bagged(
        windows.ids, windows.left[rows], windows.length[rows], windows.label[rows],
        windows.weight[rows],
    )  # fmt: skip


def bagged(
    stream: Int[np.ndarray, " tokens"],
    left: Int[np.ndarray, " bags"],
    length: Int[np.ndarray, " bags"],
    label: Int[np.ndarray, " bags"],
    weight: Float[np.ndarray, " bags"],
) -> Bags:
    """Contexts as places in a stream, as bags."""
    row = np.repeat(np.arange(len(left)), length)
    context = ids = stream[ragged_indices(left, length)]
    ago = np.repeat(np.cumsum(length), length) - np.arange(len(ids))
    size = int(stream.max()) + 1
    order = np.argsort(row * size + ids, kind="stable")
    row, ids, ago = row[order], ids[order], ago[order]
    first = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(ids, prepend=-1) != 0))
    end = np.append(first[1:], len(ids))
    last = left + length - 1
    before = np.where(length > 1, stream[np.maximum(last - 1, 0)], -1)
    return Bags(
        row_pointer(np.bincount(row[first], minlength=len(left))), ids[first], end - first,
        ago[end - 1], stream[last], before, label, weight, context, order,
    )  # fmt: skip


def blocks(windows: Windows, rows: Int[np.ndarray, " rows"], size: int = BLOCK) -> Iterator[Bags]:
    """The bags of these windows, some at a time."""
    for begin in range(0, len(rows), size):
        yield bags_of(windows, rows[begin : begin + size])


def thinned(rows: Int[np.ndarray, " rows"], most: int) -> Int[np.ndarray, " fewer"]:
    """At most so many of the rows, evenly spread."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


def aligned(windows: Windows, vocabulary: Vocabulary) -> Windows:
    """The same windows with the ids of another vocabulary; words it does not hold get ids behind it.

    So a word that training never saw can still be recognised when it comes again.
    """
    if windows.vocabulary == vocabulary:
        return windows
    new = [x for x in windows.vocabulary.labels if x not in vocabulary]
    together = Vocabulary([*vocabulary.labels, *new])
    move = together.ids_of(windows.vocabulary.labels)
    return replace(windows, vocabulary=together, ids=move[windows.ids], label=move[windows.label])


def aligned_where_known(windows: Windows, vocabulary: Vocabulary) -> Windows:
    """The same as `aligned`; windows of which the vocabulary holds no token at all are refused.

    They are of another kind, or were read in another way: whatever is found on them says nothing.
    """
    found = aligned(windows, vocabulary)
    K = len(vocabulary)
    if not (found.ids < K).any() and not (found.label < K).any():
        some = ", ".join(repr(x) for x in windows.vocabulary.labels[:FEW])
        raise DataError(
            f"{windows.origin + ': ' if windows.origin else ''}training saw none of these "
            f"{counted(len(windows.vocabulary), 'token')} ({some}{', …' if len(windows.vocabulary) > FEW else ''}); "
            "are both of the same kind, and read in the same way?"
        )
    return found


def bag_of(ids: Int[np.ndarray, " tokens"]) -> Bags:
    """One context as a bag, its label unknown (−1)."""
    return bagged(ids, np.array([0]), np.array([len(ids)]), np.array([-1]), np.ones(1))
