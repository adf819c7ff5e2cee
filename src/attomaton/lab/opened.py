"""A model while it is looked at: its last tokens at once, everything else when it is asked for."""

from collections import OrderedDict
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from attomaton.corpus.vocabulary import Label
from attomaton.folders.model import ModelFolder, ModelRecord
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.limit import Limit
from attomaton.summaries.last_token import find_last_token

KEPT = 64  # last tokens whose part of the model stays in memory


class Opened:
    """One model folder; safe to use from several pages at once."""

    def __init__(self, folder: Path):
        self.model = ModelFolder(folder)
        self.folder, self.vocabulary = folder, self.model.vocabulary
        self.lasts = self.model.last_tokens()
        self._parts: OrderedDict[int, Limit] = OrderedDict()
        self._lock = Lock()

    @property
    def record(self) -> ModelRecord:
        """What it says of itself: its summary, and where it came from."""
        return self.model.record

    def heaviest(self) -> Label:
        """The last token with the most samples behind it, shown first."""
        return self.vocabulary[int(self.lasts["last"][int(np.argmax(self.lasts["weight"]))])]

    def read(self, word: str | Label) -> Label:
        """A token as typed, as the vocabulary knows it."""
        return self.vocabulary.read(word) if isinstance(word, str) else word

    def last_id(self, word: str | Label) -> int:
        """The id of a last token; an error names the nearest where there is none."""
        at = self.vocabulary.id_of(self.read(word))
        if at is None or not len(self._row(at)):
            return find_last_token(self.vocabulary, self.lasts["last"], str(word))  # says why not
        return at

    def search(self, text: str, most: int = 20) -> list[dict[str, Any]]:
        """Last tokens by what is typed: exact, then beginning with it, then holding it; the heaviest first."""
        wanted = text.strip().casefold()
        order = np.argsort(-self.lasts["weight"], kind="stable")
        ranked: list[list[int]] = [[], [], []]
        for i in order.tolist():
            word = self._folded[i]
            if wanted in word:
                ranked[0 if word == wanted else 1 if word.startswith(wanted) else 2].append(i)
                if len(ranked[1]) >= most and (not wanted or ranked[0]):
                    break
        return [self._described(i) for i in (ranked[0] + ranked[1] + ranked[2])[:most]]

    def limit(self, last: str | Label) -> Limit:
        """What belongs to one last token; of an unknown one, nothing."""
        word = self.read(last)
        key = self.vocabulary.id_of(word)
        key = -1 if key is None else key
        with self._lock:
            if key not in self._parts:
                self._parts[key] = self.model.limit([word])
            self._parts.move_to_end(key)
            while len(self._parts) > KEPT:
                self._parts.popitem(last=False)
            return self._parts[key]

    def automaton(self, last: str | Label) -> Automaton:
        """The automaton for contexts that end in this token."""
        return Automaton(self.limit(last))

    @cached_property
    def whole(self) -> Limit:
        """All of it: a few seconds and gigabytes for millions of pairs, so from a job only."""
        return self.model.limit()

    @cached_property
    def _labels(self) -> list[Label]:
        return [self.vocabulary[i] for i in self.lasts["last"].tolist()]

    @cached_property
    def _folded(self) -> list[str]:
        return [str(x).casefold() for x in self._labels]

    def _row(self, last: int) -> np.ndarray:
        at = np.searchsorted(self.lasts["last"], last)
        return self.lasts["last"][at : at + 1][self.lasts["last"][at : at + 1] == last]

    def _described(self, i: int) -> dict[str, Any]:
        return {
            "last": self._labels[i],
            "samples": int(self.lasts["rows"][i]),
            "weight": float(self.lasts["weight"][i]),
            "tokens": int(self.lasts["tokens"][i]),
            "edges": int(self.lasts["edges"][i]),
        }
