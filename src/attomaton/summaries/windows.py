"""Windows of a corpus in their order, one at a time: which one to look at, and those that made an edge.

A fit keeps bags, which have no order; the words of a window stand in the corpus alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from attomaton.base.shapes import Bool, Int
from attomaton.corpus.vocabulary import Label
from attomaton.corpus.windows import Windows
from attomaton.errors import UsageError, one_of
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import ragged_indices
from attomaton.summaries.outcomes import EQUAL

ANY, RIGHT, WRONG, ABSENT = ANSWERS = ("any", "right", "wrong", "absent")
BLOCK = 512  # windows that are asked at once
BLOCKS = 40  # of which one search looks at, where each must be asked
TOLD = 200  # samples among which the one that shows most is looked for
LASTS = 64  # last tokens that one search opens


@dataclass(frozen=True)
class Window:
    """One window in words: its number, where it stands in its file, its context, and what came next."""

    number: int
    place: str
    context: tuple[Label, ...]
    next: Label
    realizable: bool


def window(windows: Windows, i: int) -> Window:
    """Window `i` in words.

    >>> from attomaton import as_windows
    >>> window(as_windows([["tea", "soup", "tea", "bell"]], context=2), 1).context
    ('tea', 'soup')
    """
    words = (windows.vocabulary[x] for x in windows.context(i).tolist())
    label = windows.vocabulary[int(windows.label[i])]
    return Window(int(i), windows.place(i), tuple(words), label, bool(windows.realizable[i]))


def find_window(
    windows: Windows,
    limit_of: Callable[[Label], Limit],
    at: int,
    step: int = 1,
    last: Label | None = None,
    answer: str = ANY,
) -> int | None:
    """The next window from `at` on (included; −1 goes back), around the corpus, that is as wanted; None without one.

    `last` is its last token, `answer` whether the automaton's is *right* (no token is likelier than the label),
    *wrong*, or the label *absent* from the context. `limit_of` gives the limit for contexts that end in a token. Where
    windows must be asked, a search ends after some tens of thousands of them, or after `LASTS` last tokens.
    """
    one_of("answer", answer, ANSWERS)
    wanted = windows.realizable if answer in (RIGHT, WRONG) else np.ones(len(windows), bool)
    wanted = ~windows.realizable if answer == ABSENT else wanted
    if last is not None:
        q = windows.vocabulary.id_of(last)
        if q is None:
            raise UsageError(f"{last!r} is not a token of these data.")
        wanted = wanted & (windows.last == q)
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return None
    begin = int(np.searchsorted(rows, at, "left" if step > 0 else "right")) - (step < 0)
    if answer in (ANY, ABSENT):
        return int(rows[begin % len(rows)])
    opened: dict[int, Automaton] = {}
    for block in range(min(BLOCKS, -(-len(rows) // BLOCK))):
        places = begin + step * np.arange(block * BLOCK, min((block + 1) * BLOCK, len(rows)))
        some = rows[places % len(rows)]
        # A few at first: most often one of them is as wanted, and each last token has to be opened.
        for part in np.split(some, np.flatnonzero(np.diff(windows.last[some])) + 1):
            q = int(windows.last[part[0]])
            if q not in opened:
                if len(opened) >= LASTS:
                    return None
                opened[q] = Automaton(limit_of(windows.vocabulary[q]))
            right = is_right(windows, opened[q], part)
            found = part[right if answer == RIGHT else ~right]
            if len(found):
                return int(found[0])
    return None


def is_right(
    windows: Windows, automaton: Automaton, rows: Int[np.ndarray, " rows"]
) -> Bool[np.ndarray, " rows"]:
    """Whether no token is likelier than the label, of windows in the automaton's own vocabulary."""
    length = windows.length[rows].astype(np.int64)
    ids = windows.ids[ragged_indices(windows.left[rows].astype(np.int64), length)]
    answers = automaton.predict_ids(ids.astype(np.int64), length)
    p, best = np.zeros(len(rows)), answers.probability
    at = answers.token == windows.label[rows][answers.owner]
    p[answers.owner[at]] = answers.p[at]
    return answers.answered & (p > 0) & (p >= (1 - EQUAL) * np.nan_to_num(best))


def edge_windows(
    windows: Windows, last: Label, winner: Label, loser: Label, most: int = 3
) -> list[Window]:
    """The first windows that made an edge: they end in `last`, hold `loser`, and `winner` came next."""
    ids = [windows.vocabulary.id_of(x) for x in (last, winner, loser)]
    if None in ids:
        return []
    q, y, x = ids
    rows = np.flatnonzero((windows.label == y) & (windows.last == q) & windows.realizable)
    held = (i for i in rows.tolist() if (windows.context(i) == x).any())
    return [window(windows, i) for i in islice(held, most)]


def telling_sample(limit: Limit, last: int) -> int | None:
    """The sample of a last token that shows most: several tokens are retrieved, with unlike shares, others fall.

    The shares on the way from the soft part alone to the limit change as much as they can among the first `TOLD`.
    """
    samples = limit.samples
    rows = np.flatnonzero(samples.last == last)
    rows = rows[np.argsort(-samples.size[rows], kind="stable")][:TOLD]
    if not len(rows):
        return None
    some = samples.take(rows)
    owner, times = np.repeat(some.sample_of, some.count), np.repeat(some.token, some.count)
    # The last token last.
    order = np.lexsort((times == some.last[owner], owner))
    length = np.bincount(owner, minlength=len(rows))
    automaton = Automaton(limit)
    soft, hard = (automaton.predict_ids(times[order], length, r) for r in (0.0, np.inf))
    change = np.bincount(hard.owner, np.abs(hard.p - soft.p), len(rows)) / 2
    # Entropy of the answer: one token alone has none, equal shares have most.
    kept = hard.p > 0
    mixed = np.bincount(
        hard.owner[kept], -hard.p[kept] * np.log(hard.p[kept]), len(rows)
    )  # fmt: skip
    several = np.minimum(mixed, 1.0) * (hard.many > 1)
    return int(rows[np.argmax(change + several)])


def of_sample(windows: Windows, source: int) -> int | None:
    """The window a sample was made of, by its place in the corpus; of merged ones the first."""
    at = int(np.searchsorted(windows.source, source))
    if at < len(windows) and windows.source[at] == source:
        return at
    found = np.flatnonzero(windows.source == source)  # windows that are not in the file's order
    return int(found[0]) if len(found) else None
