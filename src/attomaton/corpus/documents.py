"""A plain text as documents: one stream of words cut at headings, blank lines or line ends.

The stream is the one samples are made of (`<eos>` for each line end), and every word of it belongs to exactly
one document, so that the windows of all documents are the windows of the text.
"""

import os
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

from attomaton.base.shapes import Int
from attomaton.corpus.datasets import data_file
from attomaton.corpus.files import about, check_content, format_of, unchanged
from attomaton.corpus.reading import AS_NAMED, Reading
from attomaton.corpus.text import EOS, decoded
from attomaton.corpus.tokenisers import named_tokeniser
from attomaton.corpus.vocabulary import Label, Vocabulary, encode
from attomaton.disk.spool import shown
from attomaton.errors import DataError, UsageError, nearest, one_of

SPLITS = ("articles", "paragraphs", "lines")
TITLE = 60  # characters of a document's first line that stand for a title

_HEADING = re.compile(r"=\s+(?!=)(.*[^=\s])\s+=")  # ` = Title = `; sections have two or more =


@dataclass(frozen=True, eq=False)
class Documents:
    """Documents of one text: document `i` is the words `ids[start[i] : start[i + 1]]` of the stream."""

    titles: tuple[str, ...]
    vocabulary: Vocabulary
    ids: Int[np.ndarray, " words"]
    start: Int[np.ndarray, " documents_and_one"]
    apart: bool = False  # no window crosses from one to the next

    def __len__(self) -> int:
        return len(self.titles)

    @cached_property
    def owner(self) -> Int[np.ndarray, " words"]:
        """The document each word of the stream belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    @cached_property
    def terms(self) -> "Terms":
        """Words and pairs of neighbouring words, counted in each document; line ends are no words."""
        V = len(self.vocabulary)
        end = self.vocabulary.id_of(EOS)
        real = np.flatnonzero(self.ids != (-1 if end is None else end))
        word, owner = self.ids[real], self.owner[real]
        together = owner[1:] == owner[:-1]
        pair, which = np.unique((word[:-1] * V + word[1:])[together], return_inverse=True)
        row = np.concatenate([owner, owner[1:][together]])
        column = np.concatenate([word, V + which])
        counts = csr_array((np.ones(len(row)), (row, column)), shape=(len(self), V + len(pair)))
        counts.sum_duplicates()
        none = np.full(V, -1)
        return Terms(
            counts, np.concatenate([np.arange(V), pair // V]), np.concatenate([none, pair % V])
        )

    def lasts(self, i: int) -> set[Label]:
        """The words that windows of document `i` end in: its own, and the one before it."""
        begin, end = self.start[i : i + 2]
        return {self.vocabulary[x] for x in self.ids[max(begin - 1, 0) : end]}

    def find(self, wanted: str) -> int:
        """The document a person means by its number or its title."""
        if re.fullmatch(r"-?[0-9]+", wanted) and wanted not in self.titles:
            if not 0 <= int(wanted) < len(self):
                raise UsageError(f"document {wanted}: there are 0 … {len(self) - 1}.")
            return int(wanted)
        plain = [title.casefold() for title in self.titles]
        if wanted.casefold() not in plain:
            raise UsageError(f"no document is called {wanted!r}{nearest(wanted, self.titles)}")
        return plain.index(wanted.casefold())


@dataclass(frozen=True, eq=False)
class Terms:
    """Counts of terms, documents × terms; a term is the word `first`, or `first second` (−1: one word)."""

    counts: csr_array
    first: Int[np.ndarray, " terms"]
    second: Int[np.ndarray, " terms"]


def read_documents(
    path: str | os.PathLike[str],
    split: str = "articles",
    reading: Reading = AS_NAMED,
    *,
    line_ends: bool = True,
) -> Documents:
    """The documents of a plain text file, or of a data set by name.

    `articles` begin at a line ` = Title = `, `paragraphs` after a blank line, `lines` are lines that are
    not blank. Without `line_ends` the stream has no `<eos>`, for models that know none. `reading` is how the text of a
    model was read: where it was split into lines or paragraphs, no window crosses from one to the next, and no `<eos>`
    stands between them.
    """
    apart = reading.splitting != "stream"
    one_of("split", split, SPLITS[1:] if apart else SPLITS)
    path = data_file(path)
    if format_of(path, reading.format) != "text":
        said = f"{path}: documents are parts of a plain text, not of {path.suffix or 'this'}."
        raise UsageError(shown(path, said))
    with about(path):
        try:
            with unchanged(path):
                check_content(path, reading.format)
                lines = "".join(decoded(path)).split("\n")
        except OSError as fault:
            why = fault.strerror or fault
            raise DataError(f"cannot be read: {why}. Name the text by --data FILE.") from None
    heads = _heads(lines, split)
    if not heads:
        cure = " Use --split paragraphs or lines." if split == "articles" else ""
        raise DataError(f"{path}: no {split} found.{cure}")
    full = [bool(line.strip()) for line in lines]
    if apart:
        lines = [line if there else "" for line, there in zip(lines, full, strict=True)]
    words = [list(tokens) for tokens in named_tokeniser(reading.tokenising).tokens(lines)]
    if line_ends:
        for piece, (here, below) in zip(words[:-1], pairwise(full), strict=True):
            if not apart or (split == "paragraphs" and here and below):
                piece.append(EOS)
    begin = np.concatenate([[0], np.cumsum([len(piece) for piece in words])])
    vocabulary, ids = encode(word for piece in words for word in piece)
    # Words before the first document belong to it: nothing of the stream is lost.
    start = np.array([0, *(begin[at] for at, _ in heads[1:]), len(ids)], dtype=np.int64)
    return Documents(tuple(title for _, title in heads), vocabulary, ids, start, apart)


def _heads(lines: list[str], split: str) -> list[tuple[int, str]]:
    """The line each document begins with, and its title."""
    if split == "articles":
        found = ((at, _HEADING.fullmatch(line.strip())) for at, line in enumerate(lines))
        return [(at, match[1]) for at, match in found if match]
    full = [bool(line.strip()) for line in lines]
    first = [
        at for at, there in enumerate(full)
        if there and (split == "lines" or at == 0 or not full[at - 1])
    ]  # fmt: skip
    return [(at, _title(lines[at])) for at in first]


def _title(line: str) -> str:
    plain = " ".join(line.split())
    return plain if len(plain) <= TITLE else plain[: TITLE - 1].rstrip() + "…"
