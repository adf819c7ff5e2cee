"""One corpus cut in two, to learn from and to choose on; and sequences that go on where another file left off.

Which cut is right depends on what there is, so it is found out and said:

    time        sequences that begin later, where their events tell when they happened
    sequence    some whole sequences, drawn at random but the same each time
    tail        the last part of each sequence, where there are only a few (a long text is one)
    row         some rows, where contexts were given as such

A context of the later part may reach back into the earlier one: what somebody did before is known by then.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attomaton.base.shapes import Bool, Int
from attomaton.corpus.vocabulary import Label, Vocabulary
from attomaton.corpus.windows import Windows, windows_from_streams
from attomaton.errors import DataError, UsageError, counted
from attomaton.numerics import named_rng, ragged_indices, row_pointer

SHARE = 0.1  # of all windows, to choose on
FEW = 20  # sequences below which each is cut, not all of them dealt out


@dataclass(frozen=True)
class Split:
    """How one corpus became two."""

    kind: str  # time, sequence, tail or row
    share: float
    noun: str  # what was dealt out
    train: int  # so many of them, or of windows where each was cut
    valid: int

    def text(self) -> str:
        """In one sentence.

        >>> Split("time", 0.1, "sequence", 90, 10).text()
        'no --validate: chosen on the 10 sequences that begin last, fitted on the 90 before them'
        """
        plural = "" if self.valid == 1 else "s"
        many = f"{self.valid:,} {self.noun}{plural}", f"{self.train:,}"
        how = {
            "time": f"the {many[0]} that begin last, fitted on the {many[1]} before them",
            "sequence": f"{many[0]} drawn at random, fitted on the other {many[1]}",
            "tail": f"the last {100 * self.share:.0f} % of each sequence ({many[0]}), fitted on what comes before "
            f"({many[1]}); contexts reach back into it",
            "row": f"{many[0]} drawn at random, fitted on the other {many[1]}",
        }  # fmt: skip
        return f"no --validate: chosen on {how[self.kind]}"


def split_windows(windows: Windows, share: float = SHARE) -> tuple[Windows, Windows, Split]:
    """Windows to learn from and windows to choose on, and how they were told apart.

    The first have the vocabulary of what they hold: a word that only the others have is as new to them as any word of
    a file to come.

    >>> from attomaton import as_windows
    >>> train, valid, how = split_windows(as_windows([list("abcabcabcabd")], context=3), 0.2)
    >>> how.kind, "".join(train.vocabulary[i] for i in train.ids), len(valid)
    ('tail', 'abcabcabc', 3)
    """
    if len(windows) < 2:
        raise DataError(
            f"{counted(len(windows), 'window')}: too few to choose settings on; say --validate FILE."
        )
    if windows.starts is None:
        chosen = _drawn(len(windows), np.ones(len(windows)), share)
        train, valid = (_rows(windows, x) for x in (~chosen, chosen))
        return train, valid, Split("row", share, "row", len(train), len(valid))
    owner = windows.sequence_of(windows.source)
    of = np.bincount(owner, minlength=len(windows.starts))
    if np.count_nonzero(of) < FEW:
        return _cut_each(windows, share, owner)
    timed = windows.ordering is not None and windows.ordering.across
    if timed:
        after = np.cumsum(of[::-1])[::-1]  # windows of a sequence and those behind it
        later = after <= max(share * len(windows), of[of > 0][-1])
    else:
        later = _drawn(len(of), of, share)
    token = later[windows.sequence_of(np.arange(len(windows.ids)))]
    train, valid = (_kept(windows, token == x, later[owner] == x) for x in (False, True))
    counts = (int(np.count_nonzero(of[later == x])) for x in (False, True))
    return train, valid, Split("time" if timed else "sequence", share, "sequence", *counts)


def _drawn(many: int, size: np.ndarray, share: float) -> Bool[np.ndarray, " many"]:
    """Some of so many, which hold about this share of the whole: at least one of them, never all."""
    order = named_rng("split", 0).permutation(many)
    order = order[size[order] > 0]
    reached = np.cumsum(size[order]) >= share * size.sum()
    chosen = np.zeros(many, dtype=bool)
    chosen[order[: min(int(np.argmax(reached)) + 1, len(order) - 1)]] = True
    return chosen


def _cut_each(
    windows: Windows, share: float, owner: Int[np.ndarray, " windows"]
) -> tuple[Windows, Windows, Split]:
    """The last windows of each sequence apart from those before."""
    first = np.searchsorted(owner, owner)  # windows are in the order of the corpus
    of = np.bincount(owner)[owner]
    late = np.arange(len(windows)) - first >= np.floor((1 - share) * of)
    if not late.any() or late.all():
        late = np.arange(len(windows)) == len(windows) - 1
    cut = np.full(len(windows.starts) if windows.starts is not None else 0, len(windows.ids))
    np.minimum.at(cut, owner[late], windows.source[late])
    place = np.arange(len(windows.ids))
    before = place < cut[windows.sequence_of(place)]
    train = _kept(windows, before, ~late)
    valid = _kept(windows, np.ones(len(place), dtype=bool), late)
    return train, valid, Split("tail", share, "window", len(train), len(valid))


def _kept(
    windows: Windows, token: Bool[np.ndarray, " tokens"], row: Bool[np.ndarray, " windows"]
) -> Windows:
    """Some windows of some tokens, which hold their contexts and labels; sequences without a token go."""
    assert windows.starts is not None
    place = (np.cumsum(token) - 1).astype(windows.left.dtype)
    owner = windows.sequence_of(np.flatnonzero(token))
    there, first = np.unique(owner, return_index=True)
    made = replace(
        windows, ids=windows.ids[token], left=place[windows.left[row]], source=place[windows.source[row]],
        numbers=np.flatnonzero(token) if windows.numbers is None else windows.numbers[token], starts=first,
        names=None if windows.names is None else windows.names[there],
        span=None if windows.span is None else windows.span[there],
        **_columns(windows, row), documents=len(np.unique(windows.sequence_of(windows.source[row]))), too_short=0,
    )  # fmt: skip
    return _with_own_words(made)


def _rows(windows: Windows, row: Bool[np.ndarray, " windows"]) -> Windows:
    """Some contexts of those that were given as such."""
    length, number = windows.length[row], windows.source[row]
    made = replace(
        windows, ids=windows.ids[ragged_indices(windows.left[row], length)], left=row_pointer(length)[:-1],
        source=np.arange(len(length)), **_columns(windows, row),
        numbers=number if windows.numbers is None else windows.numbers[number],
    )  # fmt: skip
    return _with_own_words(made)


def _columns(windows: Windows, row: Bool[np.ndarray, " windows"]) -> dict[str, Any]:
    return {x: getattr(windows, x)[row] for x in ("length", "label", "weight", "realizable")}


def _with_own_words(windows: Windows) -> Windows:
    """The same windows with the vocabulary of their own tokens, in its order."""
    seen = np.zeros(len(windows.vocabulary), dtype=bool)
    seen[windows.ids] = seen[windows.label] = True
    move = (np.cumsum(seen) - 1).astype(windows.ids.dtype)
    words = Vocabulary([windows.vocabulary[i] for i in np.flatnonzero(seen).tolist()])
    return replace(windows, vocabulary=words, ids=move[windows.ids], label=move[windows.label])


# Sequences that go on


@dataclass(frozen=True)
class History:
    """What sequences held at their ends, by name, and when that was; `context` is how much of it is wanted."""

    context: int
    tokens: dict[str, list[Label]]
    end: dict[str, float]  # the last place of each by the order column, where that can be compared

    @staticmethod
    def of(earlier: Sequence[Windows], context: int) -> "History":
        """The last tokens of sequences that have names, of one file after the other."""
        tokens: dict[str, list[Label]] = {}
        end: dict[str, float] = {}
        for windows in earlier:
            if windows.names is None or windows.starts is None:
                continue
            words = windows.vocabulary
            edges = [*windows.starts.tolist(), len(windows.ids)]
            for j, name in enumerate(windows.names.tolist()):
                own = windows.ids[max(edges[j], edges[j + 1] - context) : edges[j + 1]]
                tokens[name] = [*tokens.get(name, ()), *(words[i] for i in own.tolist())][-context:]
                if windows.span is not None:
                    end[name] = float(windows.span[j, 1])
        return History(context, tokens, end)

    def shared(self, later: Windows) -> int:
        """How many sequences of these windows have a name that is known."""
        return 0 if later.names is None else sum(name in self.tokens for name in later.names)

    def precedes(self, later: Windows) -> bool:
        """Whether all sequences of a known name begin where, by their order column, the known part has ended."""
        if later.names is None or later.span is None or not self.shared(later):
            return False
        begins = zip(later.names.tolist(), later.span[:, 0].tolist(), strict=True)
        return all(name in self.end and at >= self.end[name] for name, at in begins if name in self.tokens)  # fmt: skip

    def before(self, later: Windows) -> Windows:
        """The same events as labels, their contexts reaching back into what is known of their sequence."""
        if later.names is None or later.starts is None or not self.shared(later):
            raise DataError("no sequence has a name that the earlier data have, so none goes on.")
        known = [self.tokens.get(name, []) for name in later.names.tolist()]
        new = dict.fromkeys(x for some in known for x in some if x not in later.vocabulary)
        words = Vocabulary([*later.vocabulary.labels, *new])
        ahead = words.ids_of([x for some in known for x in some])
        extra = np.array([len(some) for some in known])
        start = np.append(later.starts, len(later.ids))
        length = np.diff(start) + extra
        begin = row_pointer(length)
        own = np.ones(begin[-1], dtype=bool)  # the rest is history
        for j in np.flatnonzero(extra).tolist():
            own[begin[j] : begin[j] + extra[j]] = False
        ids = np.empty(begin[-1], dtype=np.int64)
        ids[own], ids[~own] = later.ids, ahead
        windows = windows_from_streams(words, ids, begin, self.context, partial=True)
        row = own[windows.source]
        numbers = np.zeros(len(ids), dtype=np.int64)
        numbers[own] = np.arange(len(later.ids)) if later.numbers is None else later.numbers
        return replace(
            windows, left=windows.left[row], source=windows.source[row], **_columns(windows, row), numbers=numbers,
            noun=later.noun, origin=later.origin, ordering=later.ordering, guesses=later.guesses, names=later.names,
            span=later.span,
        )  # fmt: skip


# Both together


@dataclass(frozen=True, eq=False)
class Corpora:
    """What to learn from, what to choose on, and how they came about."""

    train: Windows
    valid: Windows
    split: Split | None = None  # where both are of one file
    history: int | None = None  # sequences that go on from one to the other
    said: tuple[str, ...] = ()


def pair_up(
    train: Windows, valid: Windows | None, context: int | None, history: bool | None = None
) -> Corpora:
    """What to learn from and what to choose on: some of the former where there is nothing for it.

    With `history` contexts of the second reach back into the first where a sequence of the same name goes on; by
    default they do where the order column says so.
    """
    if valid is None:
        if history:
            raise UsageError("--history is about data of their own to --validate on.")
        train, valid, split = split_windows(train)
        return Corpora(train, valid, split, said=(split.text(),))
    if history is False or context is None:
        return Corpora(train, valid)
    known = History.of([train], context)
    going_on = known.shared(valid)
    here, there = valid.origin or "validation data", train.origin or "the training data"
    if history or known.precedes(valid):
        said = (
            f"{here}: contexts reach back into {there}, where {counted(going_on, 'sequence')} began"
        )
        return Corpora(train, known.before(valid), history=going_on, said=(said,))
    said = (
        f"{here}: {counted(going_on, 'sequence')} are called as in {there}, but nothing says that they go on; "
        "if they do, say --history"
    )
    return Corpora(train, valid, said=(said,) if going_on else ())
