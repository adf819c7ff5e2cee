"""A corpus cut into parts on disk, so that no process ever holds all of it.

    PARTS/parts.json         what is in each part; written last, so a folder that has it is complete
          vocabulary.json    token labels in id order
          runs/NNNNN.run     the windows of one shard of the corpus, sorted by part
          runs/NNNNN.at.npy  where each part begins in that run: its windows, and their contexts' ids

A part holds all windows of some last tokens, with their contexts written out: whoever has the runs and the
vocabulary can solve it. A run holds the lengths, labels, weights and sources of its windows and the ids of their
contexts, column after column; inside a part windows keep the order of the corpus.

A last token with more incidences than one process should hold is a part of its own, *divided* into shards by label.
So no two shards have an edge in common, but for a label that is too large itself: its windows go by their bags, equal
bags into one shard. A run is sorted by *slot*: an ordinary part is one slot, a divided one has a slot for each shard.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from attomaton.base.shapes import Int
from attomaton.corpus.guesses import Guess
from attomaton.corpus.ordering import Ordering
from attomaton.corpus.samples import Samples, SetAside, collect_bags, joined, merge_samples
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import PART, Windows
from attomaton.disk.formats import read_arrays, read_json, read_matrix, write_arrays
from attomaton.disk.records import read_record
from attomaton.disk.storage import write_whole
from attomaton.errors import DataError
from attomaton.numerics import ragged_indices, row_pointer, scramble, unique_inverse

AGAIN = "start again."
EXAMPLES = 5  # windows set aside that are told in words
MOST = 4096  # parts of a corpus; beyond that they grow, or finding their pieces would take longer than solving them
RUNS = "runs"
BLOCK = 1 << 14  # windows whose contexts are written out together
MERGED = 1 << 22  # incidences of a shard that become bags together
FILLED = 0.8  # of the most incidences a shard may have, that it is meant to have: labels are not cut to measure
FINER = 5  # times more groups of bags than shards, where a label is divided by bags
_COLUMNS = (("length", "<i4"), ("label", "<i4"), ("weight", "<f8"), ("source", "<i8"))
# And 4 for each token of a context
ROW_BYTES = sum(np.dtype(kind).itemsize for _, kind in _COLUMNS)


@dataclass(frozen=True)
class Shard:
    """One shard of a divided last token: its windows and incidences."""

    windows: int
    incidences: int


@dataclass(frozen=True)
class Part:
    """One part: its last tokens (from, to, both included), windows and incidences; its shards, if it is divided."""

    number: int
    first_last: int
    final_last: int
    windows: int
    incidences: int
    shards: tuple[Shard, ...] = ()


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
        numbers = [p.number for p in found.parts]
        if found.runs < 1 or not numbers or numbers != list(range(len(numbers))):
            raise DataError(f"{path}: no runs, or parts that are not numbered from 0; {AGAIN}")
        return found

    def slot(self, number: int, shard: int | None = None) -> int:
        """Where a part, or one of its shards, stands in every run."""
        return sum(max(len(p.shards), 1) for p in self.parts[:number]) + (shard or 0)


def open_parts(folder: Path) -> tuple[Vocabulary, Parts]:
    """The vocabulary and the table of a corpus in parts."""
    return _opened(str(folder), (folder / "parts.json").stat().st_mtime_ns)


@lru_cache(maxsize=1)  # a worker solves many parts of one corpus
def _opened(folder: str, written: int) -> tuple[Vocabulary, Parts]:
    """As they lie there; `written` tells one corpus from another at the same place."""
    words = Path(folder) / "vocabulary.json"
    return Vocabulary.from_record(read_json(words), words), Parts.read(Path(folder) / "parts.json")


@dataclass(frozen=True, eq=False)
class Division:
    """How one last token is divided: the key at which each of its shards begins, the first at 0.

    The key of a window is its label, and below it in `bits` bits a number that equal bags have in common.
    """

    last: int
    bits: int
    begin: Int[np.ndarray, " shards"]


@dataclass(frozen=True, eq=False)
class Slots:
    """The slot of each last token, −1 for none; of a divided one, its first."""

    first: Int[np.ndarray, " vocab"]
    many: int  # slots there are
    divisions: tuple[Division, ...] = ()

    def of(self, shard: Windows, rows: Int[np.ndarray, " rows"]) -> Int[np.ndarray, " rows"]:
        """The slots of some windows."""
        last = shard.last[rows]
        slot = self.first[last]
        for x in self.divisions:
            own = np.flatnonzero(last == x.last)
            slot[own] += (
                np.searchsorted(x.begin, window_keys(shard, rows[own], x.bits), "right") - 1
            )
        return slot

    def write(self, path: Path) -> None:
        """For workers."""
        arrays = {"first": self.first, "many": np.array([self.many])}
        arrays |= {f"begin-{x.last}-{x.bits}": x.begin for x in self.divisions}
        write_whole(path, write_arrays, arrays)

    @staticmethod
    def read(path: Path) -> "Slots":
        """As they were written."""
        arrays = read_arrays(path)
        named = (name.split("-")[1:] for name in arrays if name.startswith("begin-"))
        divided = sorted((int(last), int(bits)) for last, bits in named)
        return Slots(
            arrays["first"], int(arrays["many"][0]),
            tuple(Division(k, bits, arrays[f"begin-{k}-{bits}"]) for k, bits in divided),
        )  # fmt: skip


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
            (shard.number(int(i)), int(shard.label[i]), shard.context(int(i)).tolist())
            for i in bad[:EXAMPLES]
        ]
        return Tally(
            last.astype(np.int64), np.bincount(row, minlength=len(last)),
            np.bincount(row, shard.length[kept], len(last)).astype(np.int64), tokens, len(shard),
            shard.documents, shard.too_short, len(bad), float(shard.weight[bad].sum()), examples,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class KeyTally:
    """What one shard of the corpus holds of a last token that is to be divided: windows and incidences of each key."""

    key: Int[np.ndarray, " keys"]
    windows: Int[np.ndarray, " keys"]
    incidences: Int[np.ndarray, " keys"]


def window_keys(
    shard: Windows, rows: Int[np.ndarray, " rows"], bits: int
) -> Int[np.ndarray, " rows"]:
    """The keys of some windows (see `Division`): a sum over the tokens of a context knows no order."""
    key = shard.label[rows].astype(np.int64) << bits
    for low in range(0, len(rows) if bits else 0, BLOCK):
        some = rows[low : low + BLOCK]
        length = shard.length[some].astype(np.int64)
        x = scramble(shard.ids[ragged_indices(shard.left[some], length)])
        bag = scramble(np.add.reduceat(x, row_pointer(length)[:-1])) >> np.uint64(64 - bits)
        key[low : low + BLOCK] |= bag.astype(np.int64)
    return key


def tally_keys(shard: Windows, heavy: Sequence[tuple[int, int]]) -> list[KeyTally]:
    """The keys of the last tokens that are to be divided, each given with its bits."""
    rows, found = np.flatnonzero(shard.realizable), []
    last = shard.last[rows]
    for k, bits in heavy:
        own = rows[last == k]
        key, which = unique_inverse(window_keys(shard, own, bits))
        length = np.bincount(which, shard.length[own], len(key)).astype(np.int64)
        found.append(KeyTally(key, np.bincount(which, minlength=len(key)), length))
    return found


# Tallies of the keys of some last tokens, one list for each shard of the corpus.
Keys = Callable[[Sequence[tuple[int, int]]], Iterable[Sequence[KeyTally]]]


def cut_into_parts(
    tallies: Iterable[Tally],
    vocabulary: Vocabulary,
    noun: str,
    size: int = PART,
    most: int | None = None,
    keys: Keys = lambda heavy: (),
) -> tuple[Slots, Parts]:
    """Where the windows of each last token go, parts being of about `size` incidences, and their table.

    The tallies are those of all shards, in the order of the corpus; `noun` is what their sources count. A last token
    with more than `most` incidences is divided; `keys` then goes through the corpus once more.
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
    part_of, parts = _cut(by_last, size, most)
    parts, divisions = _divided(parts, most, keys)
    first = row_pointer(np.array([max(len(p.shards), 1) for p in parts], np.int64))
    return Slots(np.where(part_of < 0, -1, first[part_of]), int(first[-1]), divisions), Parts(
        parts, runs, tokens, windows, documents, too_short, SetAside(aside, weight, told)
    )


def _cut(
    by_last: Int[np.ndarray, "two vocab"], size: int, most: int | None
) -> tuple[Int[np.ndarray, " vocab"], tuple[Part, ...]]:
    """Last tokens in groups of about `size` incidences, as `Windows.parts` makes them; alone with more than `most`."""
    lasts = np.flatnonzero(by_last[0])
    windows, incidences = by_last[:, lasts]
    grown = max(size, int(incidences.sum()) // MOST)
    size = grown if most is None else min(grown, max(size, most))
    new = np.diff(row_pointer(incidences)[:-1] // size, prepend=0) > 0
    if most is not None:
        alone = np.flatnonzero(incidences > most)
        new[alone] = new[np.minimum(alone + 1, len(new) - 1)] = True
    new[:1] = False
    number = np.cumsum(new)
    part_of = np.full(by_last.shape[1], -1, np.int64)
    part_of[lasts] = number
    heads = np.flatnonzero(np.diff(number, prepend=-1))
    ends = np.append(heads[1:], len(lasts)) - 1 if len(lasts) else heads
    sums = [np.add.reduceat(x, heads).tolist() if len(heads) else [] for x in (windows, incidences)]
    return part_of, tuple(
        Part(i, int(lasts[a]), int(lasts[b]), n, m)
        for i, (a, b, n, m) in enumerate(zip(heads, ends, *sums, strict=True))
    )


def _divided(
    parts: tuple[Part, ...], most: int | None, keys: Keys
) -> tuple[tuple[Part, ...], tuple[Division, ...]]:
    """The same parts, those of one last token with more than `most` incidences in shards, and how they are divided."""
    large = [
        p for p in parts
        if most is not None and p.incidences > most and p.first_last == p.final_last
    ]  # fmt: skip
    if not large:
        return parts, ()
    assert most is not None
    many = [int(np.ceil(p.incidences / (FILLED * most))) for p in large]
    heavy = [(p.first_last, (FINER * n - 1).bit_length()) for p, n in zip(large, many, strict=True)]
    sums = [KeyTally(*(np.zeros(0, np.int64) for _ in range(3))) for _ in large]
    for found in keys(heavy):
        sums = [_added(a, b) for a, b in zip(sums, found, strict=True)]
    table, divisions = list(parts), []
    for part, n, (last, bits), x in zip(large, many, heavy, sums, strict=True):
        before = row_pointer(x.incidences)[:-1]
        number = before * n // max(part.incidences, 1)
        head = np.flatnonzero(np.diff(number, prepend=-1))
        begin = x.key[head]
        begin[0] = 0
        sizes = (np.add.reduceat(y, head).tolist() for y in (x.windows, x.incidences))
        shards = tuple(Shard(a, b) for a, b in zip(*sizes, strict=True))
        table[part.number] = replace(part, shards=shards)
        divisions.append(Division(last, bits, begin))
    return tuple(table), tuple(divisions)


def _added(a: KeyTally, b: KeyTally) -> KeyTally:
    key, which = unique_inverse(np.concatenate([a.key, b.key]))
    sums = (
        np.bincount(which, np.concatenate(pair), len(key)).astype(np.int64)
        for pair in ((a.windows, b.windows), (a.incidences, b.incidences))
    )
    return KeyTally(key, *sums)


# Runs


def write_run(folder: Path, number: int, shard: Windows, slots: Slots, place: str = RUNS) -> None:
    """Write the realizable windows of a shard, sorted by slot; elsewhere than into `runs`, to be merged with others."""
    (folder / place).mkdir(exist_ok=True)
    rows = np.flatnonzero(shard.realizable)
    slot = slots.of(shard, rows)
    order = np.argsort(slot, kind="stable")
    rows, slot = rows[order], slot[order]
    length = shard.length[rows].astype(np.int64)
    first = np.searchsorted(slot, np.arange(slots.many + 1))
    at = np.stack([first, row_pointer(length)[first]])

    def write(path: Path) -> None:
        with path.open("wb") as file:
            for name, kind in _COLUMNS:
                file.write(np.ascontiguousarray(getattr(shard, name)[rows], kind).data)
            for low in range(0, len(rows), BLOCK):
                some = rows[low : low + BLOCK]
                ids = shard.ids[ragged_indices(shard.left[some], shard.length[some])]
                file.write(np.ascontiguousarray(ids, "<i4").data)

    _write(_run(folder, number, place), write, at)


def merge_runs(folder: Path, number: int, place: str, several: Sequence[int]) -> None:
    """Write several runs that follow each other as one: every part is then in fewer pieces."""
    (folder / RUNS).mkdir(exist_ok=True)
    runs = [_run(folder, run, place) for run in several]
    places = np.stack([read_matrix(_places(run), "places") for run in runs]).astype(np.int64)
    at = places.sum(axis=0)
    rows, slots = int(at[0, -1]), at.shape[1] - 1
    # As many slots at a time as fit; of each run they are read in one go.
    cuts = np.flatnonzero(np.diff(at[1, :-1] // MERGED)) + 1

    def write(path: Path) -> None:
        with path.open("r+b") as file:
            for a, b in _between(cuts, slots):
                found = [_slice(run, a, b) for run in runs]
                slot = np.concatenate(
                    [np.repeat(np.arange(a, b), np.diff(x[0, a : b + 1])) for x in places]
                )
                order = np.argsort(slot, kind="stable")
                begin, length = 0, np.concatenate([x["length"] for x in found])
                for name, kind in _COLUMNS:
                    width = np.dtype(kind).itemsize
                    file.seek(begin + width * int(at[0, a]))
                    file.write(np.concatenate([x[name] for x in found])[order].data)
                    begin += width * rows
                first = row_pointer(length)[:-1]
                ids = np.concatenate([x["ids"] for x in found])
                file.seek(begin + 4 * int(at[1, a]))
                file.write(ids[ragged_indices(first[order], length[order].astype(np.int64))].data)

    _write(_run(folder, number), write, at)


def _write(run: Path, write: Callable[[Path], None], at: np.ndarray) -> None:
    """Write a run, and when it is there, where its slots begin."""

    def save(path: Path) -> None:
        with path.open("wb") as file:  # NumPy would add a suffix to a name
            np.save(file, at)

    write_whole(run, write)
    write_whole(_places(run), save)


def has_run(folder: Path, number: int, place: str = RUNS) -> bool:
    """Whether a shard's run is there, complete."""
    return _places(_run(folder, number, place)).is_file()


def read_part(
    folder: Path, number: int, vocabulary: Vocabulary, parts: Parts, shard: int | None = None
) -> Samples:
    """The samples of one part, or of one of its shards, out of all runs."""
    part, slot = parts.parts[number], parts.slot(number, shard)
    table: Part | Shard = part if shard is None else part.shards[shard]
    found = [_slice(_run(folder, run), slot, slot + 1) for run in range(parts.runs)]
    sizes, named = [len(x["ids"]) for x in found], f"{folder}: part {number}"
    if sum(len(x["length"]) for x in found) != table.windows or sum(sizes) != table.incidences:
        raise DataError(f"{named} holds other windows than its table says; {AGAIN}")
    # A shard becomes bags bit by bit: those that come again and again are never all there.
    cuts = np.flatnonzero(np.diff(row_pointer(np.array(sizes))[:-1] // MERGED)) + 1
    groups = [found] if shard is None else [found[a:b] for a, b in _between(cuts, len(found))]
    bags = [
        _bags_of(named, group, vocabulary, parts)
        for group in groups
        if any(len(x["length"]) for x in group)
    ]
    return bags[0] if len(bags) == 1 else merge_samples(joined(bags))


def _bags_of(
    named: str, found: list[dict[str, np.ndarray]], vocabulary: Vocabulary, parts: Parts
) -> Samples:
    length, label, weight, source, ids = (
        np.concatenate([x[name] for x in found])
        for name in ("length", "label", "weight", "source", "ids")
    )
    if length.sum() != len(ids):
        raise DataError(f"{named} holds other windows than its table says; {AGAIN}")
    # Ids outside the vocabulary, odd weights, labels outside their context: windows that nobody wrote.
    fine = len(length) and (length > 0).all() and ids.min() >= 0 and ids.max() < len(vocabulary)
    fine = fine and bool((np.isfinite(weight) & (weight > 0)).all())
    if not fine or not _labels_inside(ids, length, label):
        raise DataError(f"{named} holds windows that cannot be; {AGAIN}")
    return collect_bags(
        vocabulary, ids, row_pointer(length)[:-1], length, label, weight, source, parts.set_aside,
        parts.tokens, parts.windows,
    )  # fmt: skip


def _labels_inside(ids: np.ndarray, length: np.ndarray, label: np.ndarray) -> bool:
    """Whether every label occurs in its context."""
    row = np.repeat(np.arange(len(length)), length)
    return bool(np.bincount(row[ids == label[row]], minlength=len(length)).all())


def _between(cuts: Int[np.ndarray, " cuts"], end: int) -> list[tuple[int, int]]:
    return list(zip([0, *cuts.tolist()], [*cuts.tolist(), end], strict=True))


def _slice(path: Path, begin: int, behind: int) -> dict[str, np.ndarray]:
    """The columns and ids of some slots in one run."""
    try:
        at = read_matrix(_places(path), "places").astype(np.int64)
        if at.ndim != 2 or len(at) != 2 or (at < 0).any() or (np.diff(at) < 0).any():
            raise ValueError("its places are out of order")
        (windows, ids), (low, first), (high, end) = at[:, -1], at[:, begin], at[:, behind]
        if path.stat().st_size != windows * ROW_BYTES + 4 * ids:
            raise DataError(f"{path}: has another length than its table says; {AGAIN}")
        columns, column = {}, 0
        with path.open("rb") as file:
            for name, kind in _COLUMNS:
                width = np.dtype(kind).itemsize
                file.seek(column + width * low)
                columns[name] = np.fromfile(file, kind, high - low)
                column += width * windows
            file.seek(column + 4 * first)
            columns["ids"] = np.fromfile(file, "<i4", end - first)
        return columns
    except (OSError, ValueError, EOFError, IndexError) as error:
        raise DataError(f"{path}: cannot be read ({error}); {AGAIN}") from error


def _run(folder: Path, number: int, place: str = RUNS) -> Path:
    return folder / place / f"{number:05d}.run"


def _places(run: Path) -> Path:
    return run.with_suffix(".at.npy")
