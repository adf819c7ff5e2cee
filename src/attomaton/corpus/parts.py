"""A corpus cut into parts on disk, so that no process ever holds all of it.

    PARTS/parts.json        what is in each part; written last, so a folder that has it is complete
          vocabulary.json   token labels in id order
          NNNNN.windows     the contexts of one part

A part holds all windows of some last tokens, with their contexts written out: whoever has the file and the
vocabulary can solve it. It is a series of runs, one for each piece of the corpus that was read, in the order of the
corpus: two counts, then lengths, labels, weights, sources and the contexts' ids, laid end to end.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Int

from attomaton.corpus.samples import Samples, SetAside, collect_bags
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import PART, Windows
from attomaton.errors import DataError
from attomaton.numerics import ragged_indices, row_pointer

EXAMPLES = 5  # windows set aside that are told in words
_RUN = np.dtype([("windows", "<i8"), ("ids", "<i8")])
_COLUMNS = (("length", "<i4"), ("label", "<i4"), ("weight", "<f8"), ("source", "<i8"))


@dataclass(frozen=True)
class Part:
    """One part: its last tokens (from, to, both included), windows and incidences."""

    number: int
    first_last: int
    final_last: int
    windows: int
    incidences: int


@dataclass(frozen=True)
class Parts:
    """The table of a corpus in parts, and what was counted while it was read."""

    parts: tuple[Part, ...]
    tokens: int
    windows: int
    documents: int
    too_short: int
    set_aside: SetAside

    def record(self) -> dict[str, Any]:
        """Plain data; `from_record` reads it."""
        return asdict(self)

    @staticmethod
    def from_record(record: dict[str, Any]) -> "Parts":
        """What `record` wrote."""
        aside = record["set_aside"]
        return Parts(
            **{
                **record,
                "parts": tuple(Part(**p) for p in record["parts"]),
                "set_aside": SetAside(aside["rows"], aside["weight"], tuple(aside["examples"])),
            }
        )


def cut_into_parts(
    folder: Path,
    pieces: Callable[[], Iterable[tuple[int, Windows]]],
    K: int,
    size: int = PART,
    progress: Callable[[int], object] = lambda done: None,
) -> Parts:
    """Write the windows of a corpus, piece by piece, into parts of about `size` incidences.

    `pieces` is called twice, to count what belongs to each last token and to write it; it gives the number of new
    tokens and the windows of each piece, whose `source` counts through the whole corpus. `progress` is told the tokens
    gone through.
    """
    count = _Counts(K)
    for tokens, piece in pieces():
        count.add(tokens, piece)
        progress(count.tokens)
    part_of, parts = count.cut(size)
    done = count.tokens
    for tokens, piece in pieces():
        _write_piece(folder, piece, part_of)
        done += tokens
        progress(done)
    for part in parts:
        _push_to_disk(_file(folder, part.number))
    return Parts(
        parts, count.tokens, count.windows, count.documents, count.too_short,
        SetAside(count.aside, count.aside_weight, tuple(count.examples)),
    )  # fmt: skip


class _Counts:
    """Windows and incidences by last token, and what is set aside."""

    def __init__(self, K: int):
        self.by_last = np.zeros((2, K), np.int64)
        self.tokens = self.windows = self.documents = self.too_short = self.aside = 0
        self.aside_weight = 0.0
        self.examples: list[str] = []

    def add(self, tokens: int, piece: Windows) -> None:
        K, kept = self.by_last.shape[1], piece.realizable
        last = piece.last[kept]
        self.by_last[0] += np.bincount(last, minlength=K)
        self.by_last[1] += np.bincount(last, piece.length[kept], K).astype(np.int64)
        self.tokens += tokens
        self.windows += len(piece)
        self.documents += piece.documents
        self.too_short += piece.too_short
        aside = piece.set_aside
        self.aside += aside.rows
        self.aside_weight += aside.weight
        self.examples += aside.examples[: EXAMPLES - len(self.examples)]

    def cut(self, size: int) -> tuple[Int[np.ndarray, " vocab"], tuple[Part, ...]]:
        """The part of each last token, and the parts; those of `Windows.parts`."""
        lasts = np.flatnonzero(self.by_last[0])
        windows, incidences = self.by_last[:, lasts]
        before = row_pointer(incidences)[:-1]
        new = np.diff(before // size, prepend=0) > 0
        number = np.cumsum(new)
        part_of = np.full(self.by_last.shape[1], -1, np.int64)
        part_of[lasts] = number
        heads = np.flatnonzero(np.diff(number, prepend=-1))
        ends = np.append(heads[1:], len(lasts)) - 1 if len(lasts) else heads
        sums = [
            np.add.reduceat(x, heads).tolist() if len(heads) else [] for x in (windows, incidences)
        ]
        return part_of, tuple(
            Part(i, int(lasts[a]), int(lasts[b]), n, m)
            for i, (a, b, n, m) in enumerate(zip(heads, ends, *sums, strict=True))
        )


def _write_piece(folder: Path, piece: Windows, part_of: Int[np.ndarray, " vocab"]) -> None:
    """Add a run to every part that has windows in this piece."""
    at = np.flatnonzero(piece.realizable)
    number = part_of[piece.last[at]]
    order = np.argsort(number, kind="stable")
    heads = np.flatnonzero(np.diff(number[order], prepend=-1))
    for rows in np.split(at[order], heads[1:]) if len(heads) else ():
        part = int(part_of[piece.last[rows[0]]])
        with _file(folder, part).open("ab") as file:
            _write_run(file, piece, rows)


def _write_run(file: BinaryIO, piece: Windows, rows: Int[np.ndarray, " rows"]) -> None:
    ids = piece.ids[ragged_indices(piece.left[rows], piece.length[rows])]
    np.array([(len(rows), len(ids))], _RUN).tofile(file)
    for name, kind in _COLUMNS:
        np.ascontiguousarray(getattr(piece, name)[rows], kind).tofile(file)
    np.ascontiguousarray(ids, "<i4").tofile(file)


def read_part(folder: Path, number: int, vocabulary: Vocabulary, parts: Parts) -> Samples:
    """The samples of one part."""
    path = _file(folder, number)
    runs = list(_runs(path))
    columns = {name: np.concatenate([run[name] for run in runs]) for name, _ in _COLUMNS}
    ids = np.concatenate([run["ids"] for run in runs])
    if len(columns["label"]) != parts.parts[number].windows:
        raise DataError(f"{path}: holds other windows than its table says; start again.")
    length = columns["length"]
    return collect_bags(
        vocabulary, ids, row_pointer(length)[:-1], length, columns["label"], columns["weight"],
        columns["source"], parts.set_aside, parts.tokens, parts.windows,
    )  # fmt: skip


def _runs(path: Path) -> Iterator[dict[str, np.ndarray]]:
    """The runs of a part, in the order of the corpus."""
    end = path.stat().st_size
    with path.open("rb") as file:
        while file.tell() < end:
            head = np.fromfile(file, _RUN, 1)
            windows, ids = (int(head[name][0]) for name in ("windows", "ids"))
            run = {name: np.fromfile(file, kind, windows) for name, kind in _COLUMNS}
            run["ids"] = np.fromfile(file, "<i4", ids)
            if len(run["ids"]) != ids:
                raise DataError(f"{path}: ends in the middle of a run; start again.")
            yield run


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.windows"


def _push_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
