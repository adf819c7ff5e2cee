r"""Plain text in one pass: bytes, lines, tokens, ids; the whole text is never held.

A line ends at `\n`, `\r\n` or a lone `\r`. What becomes of line ends is the `split`:

- `stream`: the file is one sequence, every line end is the token `<eos>`;
- `lines`: every line is a document, and windows never cross from one to the next;
- `paragraphs`: documents are separated by blank lines, line ends inside them are `<eos>`.

A stream has a window only where `context` tokens come before the label. Documents are often shorter than
that, so their windows begin with the second token and take what there is, as those of event logs do.
"""

import codecs
import math
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import IncrementalNewlineDecoder
from pathlib import Path
from typing import BinaryIO

import numpy as np

from attomaton.corpus.files import about
from attomaton.corpus.tokenisers import Tokeniser, after_line_end, named_tokeniser
from attomaton.corpus.vocabulary import INTEGER, Label, Vocabulary, outside, unknown_tokens
from attomaton.corpus.windows import Windows, windows_from_streams
from attomaton.disk.doors import data_stream
from attomaton.errors import DataError

SPLITS = ("stream", "lines", "paragraphs")
EOS = "<eos>"  # what a line end becomes
BLOCK = 1 << 18  # bytes looked at together

Span = tuple[int, int] | None  # the bytes of a file that are read, from and to; all of them


def read_text(
    path: Path, context: int, vocabulary: Vocabulary | None, split: str, tokeniser: Tokeniser
) -> Windows:
    """The windows of a plain text."""
    read = add_text(path, vocabulary, split, tokeniser)
    if read.blank:
        raise no_words(path)
    return windows_from_streams(
        read.vocabulary, read.ids, read.start, context, partial=split != "stream"
    )


@dataclass(frozen=True)
class Read:
    """A text, or a range of it, as ids; those that were written to a file are not here."""

    vocabulary: Vocabulary
    ids: np.ndarray
    start: np.ndarray  # where documents begin, and where the last one ends
    blank: bool  # nothing but white space


def add_text(
    path: Path,
    vocabulary: Vocabulary | None,
    split: str,
    tokeniser: Tokeniser,
    file: BinaryIO | None = None,
    span: Span = None,
) -> Read:
    """All tokens of a text, or of a range of its bytes; with a `file`, ids go there as 32-bit integers."""
    into = _Ids(vocabulary, file)
    add = {"stream": _add_stream, "lines": _add_lines, "paragraphs": _add_paragraphs}[split]
    end = list(add(into, path, tokeniser, span))
    if file is not None:
        into.flush()
    ids = np.frombuffer(into.ids, dtype=np.int32)
    return Read(into.known(), ids, np.array([0, *end]), into.blank)


def no_words(path: Path) -> DataError:
    """The error about a text without a word."""
    what = "the file is empty" if not path.stat().st_size else "nothing but white space"
    return DataError(f"no words: {what}.")


def read_stream(path: Path | str) -> tuple[Vocabulary, np.ndarray]:
    """The words of a plain text as one stream: the vocabulary by first appearance, and the ids."""
    with about(path := Path(path)):
        read = add_text(path, None, "stream", named_tokeniser("words"))
        if read.blank:
            raise DataError("no words: the file is empty.")
    return read.vocabulary, read.ids


def _add_stream(into: "_Ids", path: Path, tokeniser: Tokeniser, span: Span) -> Iterator[int]:
    """Where the one stream ends."""
    for text in whole(decoded(path, span), tokeniser.cut):
        into.blank = into.blank and (not text or text.isspace())
        for i, tokens in enumerate(tokeniser.tokens(text.split("\n"))):
            if i:
                into.add_line_end()
                into.line += 1
            into.add(tokens)
    yield into.count


def _add_lines(into: "_Ids", path: Path, tokeniser: Tokeniser, span: Span) -> Iterator[int]:
    """Where each line ends; a blank line ends where it began."""
    for tokens in _lines(into, path, tokeniser, span):
        into.add(tokens)
        yield into.count


def _add_paragraphs(into: "_Ids", path: Path, tokeniser: Tokeniser, span: Span) -> Iterator[int]:
    """Where each paragraph ends."""
    begin = 0
    for tokens in _lines(into, path, tokeniser, span):
        if tokens:
            if into.count > begin:
                into.add_line_end()
            into.add(tokens)
        elif into.count > begin:
            begin = into.count
            yield begin
    if into.count > begin:
        yield into.count


def _lines(into: "_Ids", path: Path, tokeniser: Tokeniser, span: Span) -> Iterator[list[str]]:
    """The tokens of each line, none for a blank one."""
    for lines in line_blocks(path, span):
        full = ["" if line.isspace() else line for line in lines]
        into.blank = into.blank and not any(full)
        for tokens in tokeniser.tokens(full):
            yield tokens
            into.line += 1


class _Ids:
    """Tokens as they come, kept as ids: by first appearance, or those of a given vocabulary."""

    def __init__(self, vocabulary: Vocabulary | None, file: BinaryIO | None = None):
        self.ids = array("i")  # with a file, those not written to it yet
        self._file, self._written = file, 0
        self.line = 1  # where the next token stands
        self.blank = True  # nothing but white space so far
        self._given = vocabulary
        self._faults: list[str] = []
        self._index: dict[Label, int] = defaultdict(lambda: len(self._index))
        self._look: Callable[[str], int] = (
            self._index.__getitem__ if vocabulary is None else self._find
        )
        # Where tokens name rows of an array, a line end has no row to point at.
        self._line_end = [EOS] if vocabulary is None or EOS in vocabulary else []

    @property
    def count(self) -> int:
        """Tokens so far."""
        return self._written + len(self.ids)

    def add(self, tokens: Iterable[str]) -> None:
        self.ids.extend(map(self._look, tokens))
        if self._file is not None and len(self.ids) >= BLOCK:
            self.flush()

    def flush(self) -> None:
        """Write to the file what is not there yet."""
        assert self._file is not None
        self.ids.tofile(self._file)
        self._written += len(self.ids)
        del self.ids[:]

    def add_line_end(self) -> None:
        self.add(self._line_end)

    def known(self) -> Vocabulary:
        """The vocabulary of the ids; tokens that a given one does not hold are refused, all of them."""
        if self._faults:
            raise DataError(unknown_tokens(self._faults))
        return Vocabulary(self._index) if self._given is None else self._given

    def _find(self, word: str) -> int:
        assert self._given is not None
        label = as_label(word, self._given)
        found = self._given.id_of(label)
        if found is None:
            self._faults.append(outside(label, f"line {self.line}", self._given))
            return 0
        return found


def as_label(word: str, vocabulary: Vocabulary) -> Label:
    """The word itself where the vocabulary has it, else the integer it spells, else the word."""
    if word in vocabulary or not re.fullmatch(INTEGER, word):
        return word
    return int(word)


# Bytes to text


def line_blocks(path: Path, span: Span = None) -> Iterator[list[str]]:
    """The lines of a text file, some at a time; behind the last line end there is no line."""
    for text in whole(decoded(path, span), after_line_end):
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        yield lines


def decoded(path: Path, span: Span = None) -> Iterator[str]:
    r"""The text of a file, a block at a time: without a byte-order mark, every line end as `\n`.

    Bytes that are no UTF-8 and zero bytes are refused with their place.
    """
    begin, end = span or (0, math.inf)  # a pipe does not know its length
    letters = codecs.getincrementaldecoder("utf-8" if begin else "utf-8-sig")()
    decoder = IncrementalNewlineDecoder(letters, translate=True)
    past = _Past(begin)
    with data_stream(path) as file:
        if begin:
            file.seek(begin)
        while True:
            raw = file.read(int(min(BLOCK, end - past.offset)))
            try:
                text = decoder.decode(raw, final=not raw)
            except UnicodeDecodeError as fault:
                # The decoder may have kept bytes back: count from the end of what it has seen.
                at = len(raw) - len(fault.object) + fault.start
                byte, place = fault.object[fault.start], past.place(raw, at, path, begin)
                said = f"not UTF-8 text: byte 0x{byte:02x} at {place}. Save it as UTF-8."
                raise DataError(said) from None
            if 0 in raw:
                place = past.place(raw, raw.index(0), path, begin)
                raise DataError(f"not text: a zero byte at {place}.")
            yield text
            if not raw:
                return
            past = past.after(raw)


@dataclass(frozen=True)
class _Past:
    """How far a file has been read."""

    offset: int = 0
    line: int = 1
    last: bytes = b""

    def after(self, raw: bytes) -> "_Past":
        # A `\n` right after a `\r` belongs to it and ends no second line.
        ends = raw.count(b"\n") + raw.count(b"\r") - raw.count(b"\r\n")
        ends -= self.last == b"\r" and raw.startswith(b"\n")
        return _Past(self.offset + len(raw), self.line + ends, raw[-1:])

    def place(self, raw: bytes, at: int, path: Path, begin: int) -> str:
        """In words, byte `at` of the block `raw` that comes next; negative for one kept back before it.

        What lies before `begin` was not read so far: its lines are counted now.
        """
        ahead = _Past()
        if begin:
            with path.open("rb") as file:
                while block := file.read(min(BLOCK, begin - ahead.offset)):
                    ahead = ahead.after(block)
        line = ahead.line - 1 + self.after(raw[: max(at, 0)]).line
        return f"offset {self.offset + at} (line {line})"


def whole(blocks: Iterable[str], cut: Callable[[str], int]) -> Iterator[str]:
    """The same text in pieces that tear nothing apart: `cut` says how much of a block may be let go."""
    kept: list[str] = []
    for block in blocks:
        at = cut(block)
        if at:
            yield "".join([*kept, block[:at]])
            kept = [block[at:]]
        else:
            kept.append(block)
    yield "".join(kept)
