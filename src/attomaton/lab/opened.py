"""A model while it is looked at: its last tokens at once, everything else when it is asked for."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from attomaton.corpus.vocabulary import Label
from attomaton.folders.model import ModelFolder, ModelRecord
from attomaton.lab.kit.cache import Cache
from attomaton.lab.kit.matches import Found, matches
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.limit import Limit
from attomaton.report.graphs import readable
from attomaton.summaries.last_token import find_last_token

KEPT = 64  # last tokens whose part of the model stays in memory


@dataclass(frozen=True)
class LastToken:
    """A last token, with the samples behind it and the size of its graph."""

    last: Label
    rows: int
    weight: float
    tokens: int
    edges: int

    @property
    def name(self) -> str:
        """The token as it is shown."""
        return readable([self.last])[self.last]


class Opened:
    """One model folder; safe to use from several pages at once."""

    def __init__(self, folder: Path):
        self.model = ModelFolder(folder)
        self.folder, self.vocabulary = folder, self.model.vocabulary
        self.lasts = self.model.last_tokens()
        self._parts = Cache[int | None, Limit](KEPT)

    @property
    def record(self) -> ModelRecord:
        """What it says of itself: its summary, and where it came from."""
        return self.model.record

    def heaviest(self) -> Label:
        """The last token with the most samples behind it, shown first."""
        return self._labels[self._heaviest[0]]

    def read(self, word: str | Label) -> Label:
        """A token as typed, as the vocabulary knows it."""
        return self.vocabulary.read(word) if isinstance(word, str) else word

    def is_last(self, word: str | Label) -> bool:
        """Whether contexts of the model end in this token."""
        return self.vocabulary.id_of(self.read(word)) in self._last_ids

    def last_id(self, word: str | Label) -> int:
        """The id of a last token; an error names the nearest where there is none."""
        at = self.vocabulary.id_of(self.read(word))
        if at is None or at not in self._last_ids:
            return find_last_token(self.vocabulary, self.lasts["last"], str(word))  # says why not
        return at

    def search(self, text: str, most: int = 20) -> list[LastToken]:
        """Last tokens by what is typed: exact, then beginning with it, then holding it; the heaviest first."""
        return [self._described(i) for i in matches(self._folded, self._heaviest, text, most)]

    def suggested(self, text: str) -> list[Found]:
        """The same for a field in which one is chosen, each with its weight."""
        return [(str(r.last), r.name, f"{r.weight:,.12g}") for r in self.search(text, 12)]

    def limit(self, last: str | Label) -> Limit:
        """What belongs to one last token; of an unknown one, nothing."""
        word = self.read(last)
        return self._parts.found(self.vocabulary.id_of(word), lambda: self.model.limit([word]))

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
    def _heaviest(self) -> list[int]:
        return np.argsort(-self.lasts["weight"], kind="stable").tolist()

    @cached_property
    def _folded(self) -> list[str]:
        return [str(x).casefold() for x in self._labels]

    @cached_property
    def _last_ids(self) -> frozenset[int]:
        return frozenset(self.lasts["last"].tolist())

    def _described(self, i: int) -> LastToken:
        row = {name: column[i].item() for name, column in self.lasts.items() if name != "last"}
        return LastToken(self._labels[i], **row)
