"""A data set while it is looked at: its windows, what `attomaton data inspect` says of them, and rows to show."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attomaton.base.shapes import Int
from attomaton.corpus.inspect import Inspection, inspect_windows, length_counts, next_steps
from attomaton.corpus.vocabulary import Label
from attomaton.corpus.windows import Windows
from attomaton.errors import AttomatonError, UsageError, nearest
from attomaton.lab.jobs import Job
from attomaton.lab.kit.cache import Cache, Shared
from attomaton.lab.kit.contexts import visible
from attomaton.lab.shared import Lab
from attomaton.lab.shelf import Item, named

KEPT = 3  # data sets that stay in memory
RANKS = 2000  # most frequent tokens that are counted out
BINS = 60  # of the histogram of lengths
SHOWN = 60  # tokens of a context in a row of the preview


@dataclass(eq=False)
class Looked:
    """Windows and their numbers; `error` says why there are no numbers."""

    windows: Windows
    record: Inspection | None
    error: str = ""

    @property
    def memory(self) -> int:
        """Bytes of the bags before equal ones are merged: 8 for each token of a context, 40 for each sample."""
        kept = self.windows.realizable
        return int(8 * self.windows.length[kept].sum(dtype=np.int64) + 40 * kept.sum())

    @cached_property
    def lengths(self) -> list[tuple[int, int, int, int]]:
        """What is drawn of the contexts' lengths."""
        return length_counts(self.windows, BINS)

    def last_id(self, word: str) -> int:
        """The id of a last token as typed; an error names the nearest where there is none."""
        vocabulary = self.windows.vocabulary
        at = vocabulary.id_of(vocabulary.read(word))
        if at is None or at not in self._lasts:
            known = sorted(self._lasts) if len(self._lasts) <= 5000 else []
            near = nearest(word, [str(vocabulary[i]) for i in known])
            raise UsageError(f"{word!r} is never a last token in these data{near}")
        return at

    @cached_property
    def _lasts(self) -> set[int]:
        return set(np.unique(self.windows.last).tolist())

    def rows(self, last: int | None = None, aside: bool = False) -> Int[np.ndarray, " rows"]:
        """Which windows to show: all, or those that end in a token, or those set aside."""
        wanted = np.ones(len(self.windows), bool) if last is None else self.windows.last == last
        return np.flatnonzero(wanted & ~self.windows.realizable if aside else wanted)

    def row(self, i: int) -> dict[str, Any]:
        """One window in words: its tokens with their ids, and how many before them are `hidden`."""
        w = self.windows
        end = int(w.left[i] + w.length[i])
        begin = max(int(w.left[i]), end - SHOWN)
        return {
            "id": i,
            "source": w.place(i),
            "context": [(visible(w.vocabulary[x]), int(x)) for x in w.ids[begin:end]],
            "hidden": begin - int(w.left[i]),
            "next": (visible(w.vocabulary[w.label[i]]), int(w.label[i])),
            "weight": float(w.weight[i]),
            "kept": bool(w.realizable[i]),
        }

    def nexts(
        self, last: int | None = None, most: int = 50
    ) -> list[tuple[Label, Label, int, float]]:
        """The commonest steps from a last token to the next."""
        return next_steps(self.windows, last, most)


LOOKED_AT = Shared[Cache[str, Looked]](lambda: Cache(KEPT))


def look_at(lab: Lab, item: Item) -> Looked | Job:
    """The data set of an item: at hand, or the job that reads and counts it."""
    kept = LOOKED_AT.of(lab)
    if (found := kept.get(item.id)) is not None:
        return found

    def work(job: Job) -> bool:
        job.progress(0, 2, "reading")
        windows = item.windows()
        job.progress(1, 2, f"counting {len(windows):,} contexts")
        try:
            found = Looked(windows, named(item, inspect_windows, windows, RANKS))
        except AttomatonError as error:
            found = Looked(windows, None, str(error))
        kept.keep(item.id, found)
        return True

    return lab.jobs.start(f"inspect {item.id}", f"Reading {item.title}", work)
