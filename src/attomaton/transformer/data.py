"""Text as a transformer is trained on it: ids, parallel columns, windows of fixed length.

The stream of a file has `<eos>` for each line end and is split on white space. It is cut into `batch` columns of
equal length, read side by side; a step shows the next `length` tokens of every column, and each token's target is
the one after it. What does not fill a column or a window is dropped, so that all steps have one shape.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attomaton.base.shapes import Int
from attomaton.corpus.text import read_stream
from attomaton.corpus.vocabulary import Label, Vocabulary, encode
from attomaton.errors import DataError, listed

UNK = "<unk>"


@dataclass(frozen=True)
class Text:
    """Token ids of a training and a validation text in one vocabulary."""

    vocabulary: Vocabulary
    train: Int[np.ndarray, " tokens"]
    valid: Int[np.ndarray, " held_out"]


def read_text(train: Path | str, valid: Path | str, most: int | None = None) -> Text:
    """Two text files with the vocabulary of the first.

    With `most`, only so many tokens are kept, the most frequent ones; all others are read as `<unk>`. So are words
    of the validation text that the training text does not hold, provided it holds `<unk>`.
    """
    return text_of(_words(train), _words(valid), most)


def text_of(train: Iterable[Label], valid: Iterable[Label], most: int | None = None) -> Text:
    """Two streams of labels in the vocabulary of the first; see `read_text`.

    >>> text = text_of("a b a c a b <unk>".split(), "b c d".split(), most=3)
    >>> text.vocabulary.labels, text.train.tolist(), text.valid.tolist()
    (('a', 'b', '<unk>'), [0, 1, 0, 2, 0, 1, 2], [1, 2, 2])
    """
    vocabulary, ids = encode(train)
    if most is not None and most < len(vocabulary):
        vocabulary, ids = _most_frequent(vocabulary, ids, most)
    unknown = vocabulary.id_of(UNK)
    words = list(valid)
    found = [vocabulary.id_of(x) for x in words]
    missing = sorted({str(x) for x, i in zip(words, found, strict=True) if i is None})
    if missing and unknown is None:
        raise DataError(
            listed(
                f"{len(missing)} words of the validation text are not in the training text:",
                missing,
                f"Use texts of one vocabulary, or with {UNK} for rare words.",
            )
        )
    held_out = np.array([unknown if i is None else i for i in found], np.int64)
    return Text(vocabulary, ids, held_out)


def _words(path: Path | str) -> Iterable[Label]:
    """The stream of a file, word by word."""
    vocabulary, ids = read_stream(path)
    return map(vocabulary.labels.__getitem__, ids)


def _most_frequent(
    vocabulary: Vocabulary, ids: Int[np.ndarray, " tokens"], most: int
) -> tuple[Vocabulary, Int[np.ndarray, " tokens"]]:
    """The `most` frequent labels, `<unk>` always among them, and the ids with `<unk>` for the rest."""
    count = np.bincount(ids, minlength=len(vocabulary))
    unknown = vocabulary.id_of(UNK)
    if unknown is not None:
        count[unknown] = len(ids)
    first = np.sort(np.argsort(-count, kind="stable")[: most if unknown is not None else most - 1])
    labels = [vocabulary[i] for i in first]
    if unknown is None:
        labels.append(UNK)
    new = np.full(len(vocabulary), labels.index(UNK))
    new[first] = np.arange(len(first))
    return Vocabulary(labels), new[ids]


def batchify(ids: Int[np.ndarray, " tokens"], batch: int) -> Int[np.ndarray, "batch rows"]:
    """The stream cut into `batch` columns of equal length, one after the other; the remainder is dropped.

    >>> batchify(np.arange(7), 3).tolist()
    [[0, 1], [2, 3], [4, 5]]
    """
    rows = len(ids) // batch
    return ids[: rows * batch].reshape(batch, rows)


def windows(
    ids: Int[np.ndarray, " tokens"], batch: int = 20, length: int = 35
) -> Int[np.ndarray, "windows batch length_and_one"]:
    """What each step shows: `length` tokens of every column and the one after them.

    Inputs are all but the last of each row, targets all but the first.

    >>> windows(np.arange(10), batch=2, length=2).tolist()
    [[[0, 1, 2], [5, 6, 7]], [[2, 3, 4], [7, 8, 9]]]
    """
    columns = batchify(ids, batch)
    steps = (columns.shape[1] - 1) // length
    if steps < 1:
        raise DataError(
            f"{len(ids)} tokens are too few: {batch} columns of {length + 1} need {batch * (length + 1)}."
        )
    at = np.arange(steps)[:, None] * length + np.arange(length + 1)
    return columns[:, at].transpose(1, 0, 2).astype(np.int32)
