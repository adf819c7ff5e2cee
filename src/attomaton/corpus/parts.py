"""A corpus cut into parts on disk, so that no process ever holds all of it.

    PARTS/parts.json         what is in each part; written last, so a folder that has it is complete
          vocabulary.json    token labels in id order
          runs/NNNNN.run     the windows of one shard of the corpus, sorted by part
          runs/NNNNN.at.npy  where each part begins in that run: its windows, and their contexts' ids

A part holds all windows of some last tokens, with their contexts written out: whoever has the runs and the
vocabulary can solve it. A run holds the lengths, labels, weights and sources of its windows and the ids of their
contexts, column after column; inside a part windows keep the order of the corpus.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Int

from attomaton.corpus.guesses import Guess
from attomaton.corpus.ordering import Ordering
from attomaton.corpus.samples import Samples, SetAside, collect_bags
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import PART, Windows
from attomaton.disk.formats import read_matrix
from attomaton.disk.records import read_record
from attomaton.disk.storage import write_whole
from attomaton.errors import DataError
from attomaton.numerics import ragged_indices, row_pointer

AGAIN = "start again."
EXAMPLES = 5  # windows set aside that are told in words
MOST = 4096  # parts of a corpus; beyond that they grow, or finding their pieces would take longer than solving them
BLOCK = 1 << 14  # windows whose contexts are written out together
_COLUMNS = (("length", "<i4"), ("label", "<i4"), ("weight", "<f8"), ("source", "<i8"))
ROW_BYTES = sum(
    np.dtype(kind).itemsize for _, kind in _COLUMNS
)  # and 4 for each token of a context


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
    runs: int
    tokens: int
    windows: int
    documents: int
    too_short: int
    set_aside: SetAside
    ordering: Ordering | None = None  # of the rows of an event log
    guesses: tuple[Guess, ...] = ()

    @staticmethod
    def read(path: Path) -> "Parts":
        """The table that lies at a path."""
        found = read_record(path, Parts)
        if found.runs < 1 or [p.number for p in found.parts] != list(
            range(max(len(found.parts), 1))
        ):
            raise DataError(f"{path}: no runs, or parts that are not numbered from 0; {AGAIN}")
        return found


# Counting


@dataclass
class Tally:
    """What one shard holds: windows and incidences of each last token that occurs, and what is set aside."""

    last: Int[np.ndarray, " lasts"]
    windows_of: Int[np.ndarray, " lasts"]
    incidences_of: Int[np.ndarray, " lasts"]
    tokens: int
    windows: int
    documents: int
    too_short: int
    aside: int
    aside_weight: float
    examples: list[tuple[int, int, list[int]]] = field(default_factory=list)  # number, label, ids

    @staticmethod
    def of(tokens: int, shard: Windows) -> "Tally":
        """The tally of a shard with so many tokens of its own."""
        kept, bad = shard.realizable, np.flatnonzero(~shard.realizable)
        last, row = np.unique(shard.last[kept], return_inverse=True)
        examples = [
            (shard.number(int(i)), int(shard.label[i]),
             shard.ids[shard.left[i] : shard.left[i] + shard.length[i]].tolist())
            for i in bad[:EXAMPLES]
        ]  # fmt: skip
        return Tally(
            last.astype(np.int64), np.bincount(row, minlength=len(last)),
            np.bincount(row, shard.length[kept], len(last)).astype(np.int64), tokens, len(shard),
            shard.documents, shard.too_short, len(bad), float(shard.weight[bad].sum()), examples,
        )  # fmt: skip


def cut_into_parts(
    tallies: Iterable[Tally], vocabulary: Vocabulary, noun: str, size: int = PART
) -> tuple[Int[np.ndarray, " vocab"], Parts]:
    """The part of each last token (−1 for none), parts being of about `size` incidences, and their table.

    The tallies are those of all shards, in the order of the corpus; `noun` is what their sources count.
    """
    by_last = np.zeros((2, len(vocabulary)), np.int64)
    tokens = windows = documents = too_short = aside = runs = 0
    weight = 0.0
    examples: list[tuple[int, int, list[int]]] = []
    for tally in tallies:
        by_last[0, tally.last] += tally.windows_of
        by_last[1, tally.last] += tally.incidences_of
        tokens, windows = tokens + tally.tokens, windows + tally.windows
        documents, too_short = documents + tally.documents, too_short + tally.too_short
        aside, weight, runs = aside + tally.aside, weight + tally.aside_weight, runs + 1
        examples += tally.examples[: EXAMPLES - len(examples)]
    told = tuple(
        f"{noun} {source}: label {vocabulary[label]!r}, tokens {[vocabulary[x] for x in ids]}"
        for source, label, ids in examples
    )
    part_of, parts = _cut(by_last, size)
    return part_of, Parts(
        parts, runs, tokens, windows, documents, too_short, SetAside(aside, weight, told)
    )


def _cut(
    by_last: Int[np.ndarray, "two vocab"], size: int
) -> tuple[Int[np.ndarray, " vocab"], tuple[Part, ...]]:
    """Last tokens in groups of about `size` incidences, as `Windows.parts` makes them."""
    lasts = np.flatnonzero(by_last[0])
    windows, incidences = by_last[:, lasts]
    size = max(size, int(incidences.sum()) // MOST)
    number = np.cumsum(np.diff(row_pointer(incidences)[:-1] // size, prepend=0) > 0)
    part_of = np.full(by_last.shape[1], -1, np.int64)
    part_of[lasts] = number
    heads = np.flatnonzero(np.diff(number, prepend=-1))
    ends = np.append(heads[1:], len(lasts)) - 1 if len(lasts) else heads
    sums = [np.add.reduceat(x, heads).tolist() if len(heads) else [] for x in (windows, incidences)]
    return part_of, tuple(
        Part(i, int(lasts[a]), int(lasts[b]), n, m)
        for i, (a, b, n, m) in enumerate(zip(heads, ends, *sums, strict=True))
    )


# Runs


def write_run(
    folder: Path, number: int, shard: Windows, part_of: Int[np.ndarray, " vocab"]
) -> None:
    """Write the realizable windows of a shard, sorted by part."""
    (folder / "runs").mkdir(exist_ok=True)
    rows = np.flatnonzero(shard.realizable)
    part = part_of[shard.last[rows]]
    order = np.argsort(part, kind="stable")
    rows, part = rows[order], part[order]
    length = shard.length[rows].astype(np.int64)
    first = np.searchsorted(part, np.arange(part_of.max(initial=-1) + 2))
    at = np.stack([first, row_pointer(length)[first]])

    def write(path: Path) -> None:
        with path.open("wb") as file:
            for name, kind in _COLUMNS:
                file.write(np.ascontiguousarray(getattr(shard, name)[rows], kind).data)
            for low in range(0, len(rows), BLOCK):
                some = rows[low : low + BLOCK]
                ids = shard.ids[ragged_indices(shard.left[some], shard.length[some])]
                file.write(np.ascontiguousarray(ids, "<i4").data)

    def write_places(path: Path) -> None:
        with path.open("wb") as file:
            np.save(file, at)

    write_whole(_run(folder, number), write)
    write_whole(_places(folder, number), write_places)


def has_run(folder: Path, number: int) -> bool:
    """Whether a shard's run is there, complete."""
    return _places(folder, number).is_file()


def read_part(folder: Path, number: int, vocabulary: Vocabulary, parts: Parts) -> Samples:
    """The samples of one part, out of all runs."""
    found = [_slice(folder, run, number) for run in range(parts.runs)]
    columns = {name: np.concatenate([x[name] for x in found]) for name, _ in _COLUMNS}
    ids = np.concatenate([x["ids"] for x in found])
    table, length = parts.parts[number], columns["length"]
    if len(length) != table.windows or len(ids) != table.incidences or length.sum() != len(ids):
        raise DataError(f"{folder}: part {number} holds other windows than its table says; {AGAIN}")
    _check_windows(folder, number, columns, ids, len(vocabulary))
    return collect_bags(
        vocabulary, ids, row_pointer(length)[:-1], length, columns["label"], columns["weight"],
        columns["source"], parts.set_aside, parts.tokens, parts.windows,
    )  # fmt: skip


def _check_windows(
    folder: Path, number: int, columns: dict[str, np.ndarray], ids: np.ndarray, K: int
) -> None:
    """Refuse windows that nobody wrote: ids outside the vocabulary, labels outside their context, odd weights."""
    length, label, weight = (columns[name] for name in ("length", "label", "weight"))
    fine = len(length) and (length > 0).all() and ids.min() >= 0 and ids.max() < K
    fine = fine and bool((np.isfinite(weight) & (weight > 0)).all())
    if fine:
        row = np.repeat(np.arange(len(length)), length)
        fine = np.bincount(row[ids == label[row]], minlength=len(length)).all()
    if not fine:
        raise DataError(f"{folder}: part {number} holds windows that cannot be; {AGAIN}")


def _slice(folder: Path, run: int, part: int) -> dict[str, np.ndarray]:
    """The columns and ids of one part in one run."""
    path = _run(folder, run)
    try:
        at = read_matrix(_places(folder, run), "places").astype(np.int64)
        if at.ndim != 2 or len(at) != 2 or (at < 0).any() or (np.diff(at) < 0).any():
            raise ValueError("its places are out of order")
        (windows, ids), (low, first), (high, end) = at[:, -1], at[:, part], at[:, part + 1]
        if path.stat().st_size != windows * ROW_BYTES + 4 * ids:
            raise DataError(f"{path}: has another length than its table says; {AGAIN}")
        columns, begin = {}, 0
        with path.open("rb") as file:
            for name, kind in _COLUMNS:
                width = np.dtype(kind).itemsize
                file.seek(begin + width * low)
                columns[name] = np.fromfile(file, kind, high - low)
                begin += width * windows
            file.seek(begin + 4 * first)
            columns["ids"] = np.fromfile(file, "<i4", end - first)
        return columns
    except (OSError, ValueError, EOFError, IndexError) as error:
        raise DataError(f"{path}: cannot be read ({error}); {AGAIN}") from error


def _run(folder: Path, number: int) -> Path:
    return folder / "runs" / f"{number:05d}.run"


def _places(folder: Path, number: int) -> Path:
    return folder / "runs" / f"{number:05d}.at.npy"
