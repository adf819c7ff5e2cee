"""Contexts as places in a stream of tokens: what a corpus is before any bag is built.

A window takes a few numbers however long its context is, so all windows of a corpus fit in memory where their
bags would not. Bags are built for some windows at a time: everything the theory computes belongs to one last
token, so a *part* (all windows of some last tokens) can be solved, written and forgotten.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from attomaton.base.face import Tabular
from attomaton.base.lazily import pa
from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.guesses import Guess
from attomaton.corpus.ordering import Ordering
from attomaton.corpus.samples import (
    Samples,
    SetAside,
    check_weights,
    collect_bags,
    list_of,
    numbers_of,
    read_context,
)
from attomaton.corpus.vocabulary import Label, Vocabulary, encode, fingerprint
from attomaton.errors import DataError, UsageError, counted, listed
from attomaton.numerics import ragged_indices, row_pointer

PART = 1 << 20  # incidences in a part: some tens of megabytes while it is being solved


@dataclass(frozen=True, eq=False, repr=False)
class Windows(Tabular):
    """All contexts of a corpus, in its own order.

    The context of window `i` is `ids[left[i] : left[i] + length[i]]`, its last token last; `label[i]` came next.
    `realizable[i]` says whether the label occurs in the context; the theorems speak about those windows only.
    `source[i]` is its place in the corpus: the position of the label in a stream, the number of a row.
    Arrays may hold 32-bit integers: widen them before a product such as `last * K + label`. As a table it has one row
    for each: `tokens` (a list), `next`, `weight`, `realizable`.

    >>> from attomaton import as_windows
    >>> windows = as_windows([["tea", "soup", "tea", "bell"]], context=2)
    >>> windows
    Windows(3 contexts, 3 tokens, 2 without their label)
    >>> windows.samples().to_arrow().column("next").to_pylist()
    ['tea']
    """

    vocabulary: Vocabulary
    ids: Int[np.ndarray, " tokens"]
    left: Int[np.ndarray, " windows"]
    length: Int[np.ndarray, " windows"]
    label: Int[np.ndarray, " windows"]
    weight: Float[np.ndarray, " windows"]
    source: Int[np.ndarray, " windows"]
    realizable: Bool[np.ndarray, " windows"]
    noun: str = field(default="position")  # what `source` counts, or `numbers`
    # The number of each source in the file, from 1: its line, or its row where rows were put in order.
    numbers: Int[np.ndarray, " sources"] | None = None
    documents: int = 0  # sequences the windows were cut from; 0 where they were given as such
    too_short: int = 0  # sequences without a window, empty ones too
    origin: str = ""  # the file they were read from
    ordering: Ordering | None = None  # how the rows of an event log were put in order
    guesses: tuple[Guess, ...] = ()  # what was found out about the file without being told
    # Where each sequence begins in `ids`; None where contexts were given as such.
    starts: Int[np.ndarray, " sequences"] | None = None
    # Of an event log: what each sequence is called, and its first and last place by the order column.
    names: Any = None  # an array of texts
    span: Float[np.ndarray, "sequences 2"] | None = None

    def __len__(self) -> int:
        return len(self.label)

    @cached_property
    def last(self) -> Int[np.ndarray, " windows"]:
        """The last token of each context."""
        return self.ids[self.left + self.length - 1]

    @property
    def mark(self) -> str:
        """What they hold, in a few letters."""
        places = (self.ids, self.left, self.length, self.label, self.weight)
        return fingerprint(self.vocabulary, *places)

    @cached_property
    def set_aside(self) -> SetAside:
        """The account of windows whose label is absent from their context, the first few in words."""
        bad = np.flatnonzero(~self.realizable)
        words, examples = self.vocabulary, []
        for i in bad[:5].tolist():
            tokens = [words[x] for x in self.context(i)]
            examples.append(f"{self.place(i)}: label {words[self.label[i]]!r}, tokens {tokens}")
        return SetAside(len(bad), float(self.weight[bad].sum()), tuple(examples))

    def _in_short(self) -> str:
        outside = int((~self.realizable).sum())
        absent = f", {outside:,} without their label" if outside else ""
        return f"{counted(len(self), 'context')}, {counted(len(self.vocabulary), 'token')}{absent}"

    def to_arrow(self) -> Any:
        """One row for each context, in the order of the corpus, its tokens in words, as a `pyarrow.Table`."""
        words = self.vocabulary.column(self.ids[ragged_indices(self.left, self.length)])
        start = pa.array(row_pointer(self.length))
        return pa.table(
            {
                "tokens": pa.LargeListArray.from_arrays(start, words.dictionary_decode()),
                "next": self.vocabulary.column(self.label),
                "weight": np.ascontiguousarray(self.weight),
                "realizable": self.realizable,
            }
        )

    def number(self, i: int) -> int:
        """Where window `i` stands in its file; `noun` says what is counted."""
        source = self.source[i]
        return int(source if self.numbers is None else self.numbers[source])

    def context(self, i: int | np.integer) -> Int[np.ndarray, " tokens"]:
        """The tokens of context `i`."""
        begin = int(self.left[i])
        return self.ids[begin : begin + int(self.length[i])]

    def place(self, i: int) -> str:
        """Where window `i` stands in its file, in words."""
        return f"{self.noun} {self.number(i)}"

    def sequence_of(self, source: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """The sequence each place in the corpus lies in; contexts given as such are one each.

        >>> windows = windows_from_streams(Vocabulary("ab"), np.array([0, 1, 0, 1]), np.array([0, 2, 4]), 1, True)
        >>> windows.source.tolist(), windows.sequence_of(windows.source).tolist()
        ([1, 3], [0, 1])
        """
        return source if self.starts is None else np.searchsorted(self.starts, source, "right") - 1

    def samples(self, rows: Int[np.ndarray, " rows"] | None = None, merge: bool = True) -> Samples:
        """The realizable windows, or the given ones, as bags: merged, or one for each window, sorted alike."""
        at = np.flatnonzero(self.realizable) if rows is None else rows
        if not len(at):
            raise nothing_left(self.origin, len(self), self.set_aside)
        return collect_bags(
            self.vocabulary, self.ids, self.left[at], self.length[at], self.label[at],
            self.weight[at], self.source[at], self.set_aside, len(self.ids), len(self), merge,
        )  # fmt: skip

    def parts(self, size: int = PART) -> list[Int[np.ndarray, " rows"]]:
        """The realizable windows in groups of whole last tokens, ascending, of about `size` incidences each.

        Solved one after the other, the parts give what all samples at once give, in the same order.
        """
        at = np.flatnonzero(self.realizable)
        at = at[np.argsort(self.last[at], kind="stable")]
        head = np.flatnonzero(np.diff(self.last[at], prepend=-1))
        before = row_pointer(self.length[at])[head]
        cuts = head[np.flatnonzero(np.diff(before // size, prepend=0))]
        return [rows for rows in np.split(at, cuts) if len(rows)]


def nothing_left(origin: str, windows: int, aside: SetAside) -> DataError:
    """The error about a corpus without a realizable window."""
    heading = (f"{origin}: " if origin else "") + (
        f"none of the {windows} contexts contains its own label, so there is nothing the "
        "theorem speaks about:"
    )
    cure = "Use longer contexts, or check what is given as the label."
    return DataError(listed(heading, list(aside.examples), cure))


def no_window(longest: int, context: int, partial: bool) -> DataError:
    """The error about sequences too short for a single window."""
    need = 2 if partial else context + 1
    return DataError(
        f"no window: a context and its label need a sequence of {need} tokens, the longest has "
        f"{longest}. Use a shorter context or longer sequences."
    )


def windows_from_streams(
    vocabulary: Vocabulary,
    ids: Int[np.ndarray, " tokens"],
    start: Int[np.ndarray, " streams_and_one"],
    context: int,
    partial: bool,
) -> Windows:
    """A window for every position of each stream; none crosses from one stream to the next.

    Every position is a label once, with the `context` tokens before it as its context. Positions with
    fewer tokens before them are skipped, or with `partial` get what there is (at least one token).
    """
    if context < 1:
        raise UsageError(f"context must be at least 1 token, not {context}.")
    # A corpus of 100 million tokens has as many windows: every number kept of each is worth its width.
    place = np.int32 if len(ids) < 1 << 31 else np.int64
    position: Int[np.ndarray, " tokens"] = np.arange(len(ids), dtype=place)
    left = np.repeat(start[:-1].astype(place), np.diff(start))
    np.maximum(left, position - min(context, len(ids)), out=left)
    wanted = position[position - left >= (1 if partial else context)]
    if not len(wanted):
        raise no_window(int(np.diff(start).max(initial=0)), context, partial)
    previous = previous_places(ids, np.full(len(vocabulary), -1, place))
    left, many = left[wanted], np.diff(start) >= (2 if partial else context + 1)
    return Windows(
        vocabulary, ids, left, wanted - left, ids[wanted],
        np.broadcast_to(np.float64(1), len(wanted)), wanted, previous[wanted] >= left,
        documents=int(many.sum()), too_short=int((~many).sum()), starts=start[:-1],
    )  # fmt: skip


def previous_places(
    ids: Int[np.ndarray, " tokens"], seen: Int[np.ndarray, " vocab"], first: int = 0
) -> Int[np.ndarray, " tokens"]:
    """Where each token occurred before, −1 for never; `ids` begin at position `first`, `seen` is brought up to date.

    A label occurs in its window exactly when its previous occurrence does: no need to build the window.
    """
    narrow = ids.astype(np.uint16) if len(seen) <= 1 << 16 else ids  # sorted far faster
    order = np.argsort(narrow, kind="stable").astype(seen.dtype)
    previous = seen[ids]
    same = narrow[order[1:]] == narrow[order[:-1]]
    previous[order[1:][same]] = order[:-1][same] + first
    latest = np.append(~same, True)[: len(order)]
    seen[ids[order[latest]]] = order[latest] + first
    return previous


def windows_from_ids(
    vocabulary: Vocabulary,
    ids: Int[np.ndarray, " tokens"],
    length: Int[np.ndarray, " rows"],
    label: Int[np.ndarray, " rows"],
    weight: Float[np.ndarray, " weights"] | None = None,
) -> Windows:
    """Contexts laid end to end (`length[i]` ids each), one label each."""
    if not len(length):
        raise DataError("no samples: the data are empty.")
    if weight is None:
        weight = np.ones(len(length))
    if weight.shape != length.shape:
        found = f"{weight.size} weights" if weight.ndim == 1 else f"weights of shape {weight.shape}"
        raise DataError(f"{len(length)} samples but {found}; one each is needed.")
    check_weights(weight)
    row = np.repeat(np.arange(len(length)), length)
    realizable = np.bincount(row[ids == label[row]], minlength=len(length)) > 0
    return Windows(
        vocabulary, ids, row_pointer(length)[:-1], length, label, weight, np.arange(len(length)),
        realizable, "sample",
    )  # fmt: skip


def windows_from_sequences(
    sequences: Sequence[Sequence[Label]] | np.ndarray | Any,
    labels: Sequence[Label] | np.ndarray | Any,
    weights: Sequence[float | int] | np.ndarray | Any | None = None,
    vocabulary: Vocabulary | None = None,
) -> Windows:
    """Contexts and their next tokens, as lists, arrays, or anything that holds tokens in order.

    The last element of each sequence is the last token. Without a `vocabulary`, ids go by first
    appearance; with one, a label outside it is an error.
    """
    given = list_of(sequences, "sequences", 'a list of contexts such as [["a", "b"], ["b"]]')
    rows = [read_context(row, f"sequence {i}") for i, row in enumerate(given)]
    nexts = read_context(labels, "labels")
    if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
        vocabulary = Vocabulary(read_context(vocabulary, "vocabulary"))
    if len(rows) != len(nexts):
        raise DataError(f"{len(rows)} sequences but {len(nexts)} next tokens; one each is needed.")
    empty = [f"sequence {i}" for i, row in enumerate(rows) if not row]
    if empty:
        raise DataError(listed("Sequences without a token:", empty, "Drop them or fill them."))
    vocabulary, ids, length = encode_rows(rows, vocabulary, nexts)
    weight = None if weights is None else numbers_of(weights, "weights")
    end = int(length.sum())
    return windows_from_ids(vocabulary, ids[:end], length, ids[end:], weight)


def encode_rows(
    rows: list[list[Label]], vocabulary: Vocabulary | None, nexts: Sequence[Label] = ()
) -> tuple[Vocabulary, Int[np.ndarray, " tokens_and_labels"], Int[np.ndarray, " rows"]]:
    """Ids of contexts, then of labels, by first appearance or in a vocabulary that must hold all; the lengths."""
    length = np.array([len(row) for row in rows], dtype=np.int64)
    if vocabulary is None:
        return *encode(chain(*rows, nexts)), length
    places = [(i, x) for i, row in enumerate(rows) for x in row] + list(enumerate(nexts))
    unknown = [f"sequence {i}: {x!r}" for i, x in places if x not in vocabulary]
    if unknown:
        heading = f"{len(unknown)} tokens are outside the vocabulary of {len(vocabulary)}:"
        raise DataError(listed(heading, unknown, "Name only tokens of the vocabulary."))
    return vocabulary, np.array([vocabulary.id_of(x) for _, x in places], dtype=np.int64), length


def samples_from_sequences(
    sequences: Sequence[Sequence[Label]] | np.ndarray | Any,
    labels: Sequence[Label] | np.ndarray | Any,
    weights: Sequence[float | int] | np.ndarray | Any | None = None,
    vocabulary: Vocabulary | None = None,
) -> Samples:
    """Samples from contexts and their next tokens, as `windows_from_sequences` reads them.

    >>> s = samples_from_sequences([[0, 1], [1, 0, 1], [0, 1]], [0, 0, 0])
    >>> len(s), s.weight.tolist(), s.bag(1)
    (2, [2.0, 1.0], {0: 1, 1: 2})
    """
    return windows_from_sequences(sequences, labels, weights, vocabulary).samples()
