"""Token labels and their ids: the one place where a user's words become integers."""

import json
import logging
import re
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np

from attomaton.base.lazily import pa, pc
from attomaton.disk.formats import to_json
from attomaton.errors import DataError, UsageError, closest, counted, cut, listed, visible

Label = str | int

_log = logging.getLogger("attomaton")

# Digits that say a number and nothing else: `007` is a code and stays a word.
INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"


def is_text(text: str) -> bool:
    """Whether a string can be written as UTF-8: neither half a character nor a stray byte of a command line."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def label_fault(x: object) -> str:
    """What keeps a value from being a label, if anything does."""
    if isinstance(x, str):
        return "" if is_text(x) else "holds half a character"
    if isinstance(x, bool) or not isinstance(x, int):
        return "is neither a string nor an integer"
    return "has more than 64 bits; write it as a string" if abs(x) >> 63 else ""


def as_spelled(x: object) -> str:
    """A value as its file spells it, cut short."""
    try:
        text = json.dumps(x, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    except RecursionError:
        text = "[[[…"
    return cut(text, 40)


class Vocabulary(Sequence[Label]):
    """An ordered set of token labels; a token's id is its place in it.

    Labels are strings or integers and keep their type: the word `"3"` and the number `3` are two tokens.

    >>> v = Vocabulary(["a", "b", 7])
    >>> v.id_of(7), v[0], "b" in v, len(v)
    (2, 'a', True, 3)
    """

    def __init__(self, labels: Iterable[Label]):
        self.labels: tuple[Label, ...] = tuple(labels)
        if not all(issubclass(kind, (str, int)) for kind in set(map(type, self.labels))):
            strange = next(x for x in self.labels if not isinstance(x, (str, int)))
            raise DataError(
                f"vocabulary: {strange!r:.60} is no label; labels are strings or integers."
            )
        if len(self._id) != len(self.labels):
            twice = next(x for i, x in enumerate(self.labels) if self._id[x] != i)
            raise DataError(f"vocabulary: label {twice!r} occurs twice; labels must differ.")

    @classmethod
    def from_record(cls, labels: object, place: object) -> "Vocabulary":
        """The vocabulary in a JSON record; `place` is where it was found."""
        if not isinstance(labels, list) or not labels or bool in set(map(type, labels)):
            raise DataError(
                f"{place}: no list of labels; restore the file, or make its folder again."
            )
        try:
            return cls(labels)
        except DataError as fault:
            raise DataError(f"{place}: {fault}") from None

    @cached_property
    def _id(self) -> dict[Label, int]:
        return {label: i for i, label in enumerate(self.labels)}

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: Any) -> Any:
        return self.labels[i]

    def __contains__(self, label: object) -> bool:
        return isinstance(label, Hashable) and label in self._id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.labels == other.labels

    def __hash__(self) -> int:
        return hash(self.labels)

    def __repr__(self) -> str:
        few = ", ".join(
            f"{visible(x, 20)!r}" if isinstance(x, str) else str(x) for x in self.labels[:4]
        )
        return f"Vocabulary({len(self)} tokens: {few}{', …' if len(self) > 4 else ''})"

    def column(self, ids: np.ndarray) -> Any:
        """Tokens as an Arrow column of their labels, coded, so that long columns take no room for words.

        Where some labels are words and some are numbers, all are text; a number that is also a word stands in brackets.
        """
        return pa.DictionaryArray.from_arrays(pa.array(ids, pa.int32()), self._column)

    @cached_property
    def _column(self) -> Any:
        labels: list[Label] = list(self.labels)
        if {*map(type, labels)} == {str, int}:
            labels = [
                x if isinstance(x, str) else f"[{x}]" if str(x) in self else str(x) for x in labels
            ]
        return pa.array(labels)

    def column_ids(self, labels: Any) -> np.ndarray:
        """The ids of an Arrow column of words, or of numbers; −1 outside the vocabulary.

        >>> import pyarrow as pa
        >>> Vocabulary(["tea", 7, "7"]).column_ids(pa.array(["7", "soup", "tea"])).tolist()
        [2, -1, 0]
        """
        values, ids = self._values[pa.types.is_integer(labels.type)]
        at = pc.index_in(labels.cast(values.type), value_set=values).fill_null(-1).to_numpy()
        return ids[at]

    @cached_property
    def _values(self) -> list[tuple[Any, np.ndarray]]:
        """The words and the numbers as Arrow columns, each with its ids and −1 behind them."""
        found = []
        for kind, coded in ((str, pa.string()), (int, pa.int64())):
            at = [i for i, x in enumerate(self.labels) if isinstance(x, kind)]
            values = pa.array([self.labels[i] for i in at], coded)
            found.append((values, np.array([*at, -1])))
        return found

    def id_of(self, label: Label) -> int | None:
        """The id of a label, or None where the vocabulary does not hold it."""
        return self._id.get(label)

    def ids_of(self, labels: Sequence[Label]) -> np.ndarray:
        """The ids of many labels; −1 outside the vocabulary.

        >>> Vocabulary(["tea", "bell"]).ids_of(["bell", "soup", "tea"]).tolist()
        [1, -1, 0]
        """
        known = {x: self._id.get(x, -1) for x in set(labels)}
        return np.fromiter(map(known.__getitem__, labels), np.int64, len(labels))

    def nearest(self, label: Label) -> Label | None:
        """The label most like one that the vocabulary does not hold; None where none is like it.

        >>> v = Vocabulary(["tea", "bell", 7])
        >>> v.nearest("bel"), v.nearest("TEA"), v.nearest("7"), v.nearest("soup"), v.nearest(8)
        ('bell', 'tea', 7, None, None)
        """
        if isinstance(label, int):
            alike = str(label) if abs(label) < 10**18 else ""
            return alike if alike in self._id else None
        if not is_text(label):
            return None
        for same in (self.read(label.strip()), label.lower(), label.capitalize(), label.upper()):
            if same in self._id:
                return same
        return closest(label, self._words)

    @cached_property
    def _words(self) -> list[str]:
        return [x for x in self.labels if isinstance(x, str)]

    def read(self, text: str) -> Label:
        """The label a person means by `text` on a command line: the word, else the number, else the word.

        Where a word and a number look alike, JSON in brackets tells them apart: `["3"]` is the word, `[3]` the number.

        >>> Vocabulary([3, "x"]).read("3"), Vocabulary([3, "3"]).read("[3]"), Vocabulary([3, "3"]).read('["3"]')
        (3, 3, '3')
        """
        if not is_text(text):
            raise UsageError(f"{text!r:.60} is no text in UTF-8.")
        number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,20}", text) else None
        if text in self._id:
            if number in self._id and str(number) == text:
                _log.warning(
                    "%s is two tokens here, a word and a number; read as the word. Write [%s] for the number.",
                    text, text,
                )  # fmt: skip
            return text
        if number in self._id:
            return number
        spelled = _in_brackets(text)
        return text if spelled is None or spelled not in self._id else spelled


def _in_brackets(text: str) -> Label | None:
    """The label that is spelled as JSON in brackets, if one is."""
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    fine = isinstance(found, list) and len(found) == 1 and type(found[0]) in (str, int)
    return found[0] if fine else None


def encode(labels: Iterable[Label]) -> tuple[Vocabulary, np.ndarray]:
    """Ids in order of first appearance, and the vocabulary they point into.

    >>> v, ids = encode(["b", "a", "b"])
    >>> v.labels, ids.tolist()
    (('b', 'a'), [0, 1, 0])
    """
    index: dict[Label, int] = {}
    ids = np.fromiter((index.setdefault(x, len(index)) for x in labels), dtype=np.int64)
    return Vocabulary(index), ids


def outside(token: Label, place: str, vocabulary: Vocabulary) -> str:
    """The fault of a token that the vocabulary does not hold."""
    K = len(vocabulary)
    if vocabulary.labels == tuple(range(K)):
        return (
            f"token {token!r} at {place}: the embeddings have {K} rows, so tokens are 0 … {K - 1}"
        )
    return f"token {token!r} at {place}: not among the {K} tokens of the vocabulary"


def unknown_tokens(faults: list[str]) -> str:
    """The message about all of them."""
    heading = f"{counted(len(faults), 'token')} outside the vocabulary:"
    return listed(heading, faults, "Name only tokens of the vocabulary.")


def fingerprint(labels: Sequence[Label], *arrays: np.ndarray) -> str:
    """What a corpus holds, its vocabulary and its arrays, in a few letters."""
    digest = sha256(to_json(list(labels), indent=None).encode())
    for x in arrays:
        digest.update(np.ascontiguousarray(x).data)
    return digest.hexdigest()
