"""Plain text of any size, shard by shard, each read by whoever is free; the parts are those of reading it in one go.

    FOLDER/shards/NNNNN.ids    the tokens of a shard as 32-bit ids: by first appearance in that shard
                  NNNNN.ends   where its documents end, as 64-bit counts of tokens
                  NNNNN.json   its words in the order of their ids, and what was counted; written last
                  NNNNN.map    the ids of these words in the whole corpus
                  NNNNN.run    its windows sorted by part, where shards are so many that runs are merged

Words get their ids in the order of the shards, so they are numbered by first appearance in the whole text. Windows of
documents stay inside them, and shards are cut between documents; those of a stream reach back into the shards before.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from attomaton.base.progress import Progress
from attomaton.base.shapes import Int
from attomaton.corpus.parts import (
    RUNS,
    KeyTally,
    Parts,
    Slots,
    Tally,
    cut_into_parts,
    has_run,
    merge_runs,
    tally_keys,
    write_run,
)
from attomaton.corpus.reading import Reading
from attomaton.corpus.text import add_text, no_words
from attomaton.corpus.tokenisers import Tokeniser, after_line_end, named_tokeniser
from attomaton.corpus.vocabulary import Label, Vocabulary
from attomaton.corpus.windows import Windows, no_window, previous_places
from attomaton.disk.formats import fresh, read_json, write_json
from attomaton.disk.records import as_record
from attomaton.disk.storage import write_whole

SHARD = 1 << 22  # bytes of text in a shard
MOST = 512  # shards of a text; beyond that they grow
# Bytes of the largest shard; beyond that they are more, and their runs are merged into `MOST`
LARGEST = 1 << 27

# Calls a function of a module for each of some plain tasks, anywhere and in any order: the number and result of each.
Run = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[tuple[int, Any]]]


@dataclass(frozen=True)
class TextShard:
    """One range of bytes of a text, for whoever cuts it into tokens."""

    folder: str
    number: int
    path: str
    span: tuple[int, int]
    reading: Reading


@dataclass(frozen=True)
class Head:
    """What was counted of a shard: its tokens, whether it was blank, its longest document."""

    tokens: int
    blank: bool
    longest: int


@dataclass(frozen=True)
class TextShards:
    """A text in shards: what a worker must know of all of them to cut the windows of one."""

    folder: str
    tokens: tuple[int, ...]  # of each shard
    vocabulary: int  # its size
    context: int
    partial: bool  # windows of documents, which may be shorter than the context

    merging: bool = False  # whether their runs are merged afterwards

    @property
    def place(self) -> str:
        """Where their runs are written."""
        return "shards" if self.merging else RUNS


def one_after_the_other(
    work: Callable[[Any], Any], tasks: Sequence[Any]
) -> Iterator[tuple[int, Any]]:
    """The plainest `Run`: here and in order."""
    for i, task in enumerate(tasks):
        yield i, work(task)


def read_shards(
    path: Path,
    folder: Path,
    reading: Reading,
    vocabulary: Vocabulary | None,
    size: int,
    most: int | None,
    run: Run,
    progress: Progress,
) -> tuple[Vocabulary, Parts]:
    """Cut a plain text into parts of about `size` incidences; `progress` is told the tokens gone through.

    Last tokens with more than `most` incidences are divided into shards of their own.

    Shards that an interrupted process finished are taken as they are.
    """
    (folder / "shards").mkdir(exist_ok=True)
    context, partial = reading.window, reading.splitting != "stream"
    heads: list[Head]
    if vocabulary is None:
        ranges = shard_ranges(path, reading.splitting, named_tokeniser(reading.tokenising))
        texts = [
            TextShard(str(folder), i, str(path), span, reading) for i, span in enumerate(ranges)
        ]
        heads = list(_in_order(run(write_shard, texts), lambda x: x.tokens, progress, 0))
        words = _merged_words(folder, len(ranges))
    else:  # tokens outside it are told with their lines: by one reader, who counts them
        text = TextShard(str(folder), 0, str(path), (0, path.stat().st_size), reading)
        heads, words = [_write_shard(text, vocabulary)], vocabulary
    if all(head.blank for head in heads):
        raise no_words(path)
    tokens = tuple(head.tokens for head in heads)
    longest = max(head.longest for head in heads) if partial else sum(tokens)
    if longest < (2 if partial else context + 1):
        raise no_window(longest, context, partial)
    shards = TextShards(
        str(folder), tokens, len(words), context, partial, merging=len(tokens) > MOST
    )
    total, tasks = sum(tokens), [(shards, i) for i in range(len(tokens))]
    tallies = _in_order(run(tally_shard, tasks), lambda x: x.tokens, progress, total)

    def keys(heavy: Sequence[tuple[int, int]]) -> Iterable[list[KeyTally]]:
        return (tally for _, tally in run(tally_heavy, [(*task, heavy) for task in tasks]))

    slots, parts = cut_into_parts(tallies, words, "position", size, most, keys)
    slots.write(folder / "slots.safetensors")
    for _ in _in_order(run(sort_shard, tasks), int, progress, 2 * total):
        pass
    if not shards.merging:
        return words, parts
    # Neighbours together, as evenly as may be: a part has a piece in every run.
    groups = np.array_split(np.arange(len(tokens)), MOST)
    merging = [(str(folder), i, group.tolist()) for i, group in enumerate(groups)]
    for _ in run(merge_group, merging):
        progress(0, 1, "reading: merging what was sorted")
    return words, replace(parts, runs=len(groups))


def _in_order(
    results: Iterable[tuple[int, Any]],
    tokens: Callable[[Any], int],
    progress: Progress,
    done: int,
) -> Iterator[Any]:
    """Results in the order of the shards, however they come; `done` tokens were gone through before."""

    def told() -> Iterator[tuple[int, Any]]:
        nonlocal done
        for i, result in results:
            done += tokens(result)
            progress(0, 1, f"reading: {done:,} tokens gone through")
            yield i, result

    return in_order(told())


def in_order(results: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """The results of tasks 0, 1, … in this order, however they come; those that come early wait.

    >>> list(in_order([(1, "b"), (0, "a"), (2, "c")]))
    ['a', 'b', 'c']
    """
    waiting: dict[int, Any] = {}
    following = 0
    for number, result in results:
        waiting[number] = result
        while following in waiting:
            yield waiting.pop(following)
            following += 1


# Bytes to ids


def shard_ranges(path: Path, split: str, tokeniser: Tokeniser) -> list[tuple[int, int]]:
    """A text cut into ranges of bytes, where nothing is torn apart: no token, and no document that is not a stream."""
    mark = shard_mark(split, tokeniser)
    total = path.stat().st_size
    size = min(max(SHARD, total // MOST), max(SHARD, LARGEST))
    cuts = [0]
    with path.open("rb") as file:
        while (at := cuts[-1] + size) < total and (cut := mark_after(file, at, mark)) < total:
            cuts.append(cut)
    return list(zip(cuts, [*cuts[1:], total], strict=True))


def shard_mark(split: str, tokeniser: Tokeniser) -> re.Pattern[bytes]:
    """What a text may be cut after."""
    if split == "paragraphs":
        return re.compile(rb"\n\r?\n")
    if split == "lines" or tokeniser.cut is after_line_end:
        return re.compile(rb"\n")
    return re.compile(rb"[ \n]")


def mark_after(file: Any, at: int, mark: re.Pattern[bytes], block: int = 1 << 16) -> int:
    """Where the first mark that begins at `at` or later ends; the end of the file where there is none."""
    file.seek(at)
    kept = b""
    while raw := file.read(block):
        if found := mark.search(kept + raw):
            return file.tell() - len(raw) - len(kept) + found.end()
        kept = (kept + raw)[-2:]
    return file.tell()


def write_shard(text: TextShard) -> Head:
    """Cut the text of one shard into tokens, unless that is done."""
    done = _file(Path(text.folder), text.number, "json")
    if done.is_file():
        return as_record(Head, read_json(done)["head"], done)
    return _write_shard(text, None)


def _write_shard(text: TextShard, vocabulary: Vocabulary | None) -> Head:
    place, tokeniser = Path(text.folder), named_tokeniser(text.reading.tokenising)
    with fresh(_file(place, text.number, "ids")).open("xb") as file:
        read = add_text(
            Path(text.path), vocabulary, text.reading.splitting, tokeniser, file, text.span
        )
        _push(file)
    with fresh(_file(place, text.number, "ends")).open("xb") as file:
        file.write(np.ascontiguousarray(read.start[1:], "<i8").data)
        _push(file)
    head = Head(int(read.start[-1]), read.blank, int(np.diff(read.start).max(initial=0)))
    words: Sequence[Label] = () if vocabulary is not None else read.vocabulary.labels
    record = {"head": head, "words": words}
    write_whole(_file(place, text.number, "json"), write_json, record)
    return head


def _push(file: BinaryIO) -> None:
    """To the disk: the record that comes after must not be there before."""
    file.flush()
    os.fsync(file.fileno())


def _merged_words(folder: Path, count: int) -> Vocabulary:
    """The words of all shards by first appearance; each shard's ids are mapped to theirs."""
    index: dict[Label, int] = {}
    for number in range(count):
        words = read_json(_file(folder, number, "json"))["words"]
        ids = np.array([index.setdefault(word, len(index)) for word in words], "<i4")
        fresh(_file(folder, number, "map")).write_bytes(ids.data)
    return Vocabulary(index)


# Ids to runs


def tally_shard(task: tuple[TextShards, int]) -> Tally:
    """What one shard holds."""
    shards, number = task
    return Tally.of(shards.tokens[number], shard_windows(shards, number))


def tally_heavy(task: tuple[TextShards, int, Sequence[tuple[int, int]]]) -> list[KeyTally]:
    """What one shard holds of the last tokens that are to be divided."""
    shards, number, heavy = task
    return tally_keys(shard_windows(shards, number), heavy)


def sort_shard(task: tuple[TextShards, int]) -> int:
    """Write the windows of one shard, sorted by part; its tokens."""
    shards, number = task
    folder = Path(shards.folder)
    if not has_run(folder, number, shards.place):
        slots = Slots.read(folder / "slots.safetensors")
        write_run(folder, number, shard_windows(shards, number), slots, shards.place)
    return shards.tokens[number]


def merge_group(task: tuple[str, int, list[int]]) -> None:
    """Merge the runs of some neighbours into one, unless that is done."""
    folder, number, several = Path(task[0]), task[1], task[2]
    if not has_run(folder, number):
        merge_runs(folder, number, "shards", several)


def shard_windows(shards: TextShards, number: int) -> Windows:
    """The windows whose label stands in one shard; their ids are those of the whole, words are not at hand."""
    own = _ids(shards, number)
    tail = _tail(shards, number)
    near = np.concatenate([tail, own])
    first = sum(shards.tokens[:number])
    before = first - len(tail)
    position = np.arange(first, first + len(own))
    if shards.partial:
        ends = np.fromfile(_file(Path(shards.folder), number, "ends"), "<i8")
        start = first + np.append(0, ends)
        left = start[np.searchsorted(start, position, "right") - 1]
        many = np.diff(start) >= 2
    else:
        left = np.zeros(len(own), np.int64)
        # One stream, told once
        many = np.full(int(number == 0), sum(shards.tokens) > shards.context)
    left = np.maximum(left, position - shards.context)
    seen = np.full(shards.vocabulary, -1, np.int64)
    previous = previous_places(near, seen, before)[len(tail) :]
    wanted = np.flatnonzero(position - left >= (1 if shards.partial else shards.context))
    left, position, previous = left[wanted], position[wanted], previous[wanted]
    return Windows(
        Vocabulary(()), near, left - before, position - left, near[position - before],
        np.broadcast_to(np.float64(1), len(wanted)), position, previous >= left,
        documents=int(many.sum()), too_short=int((~many).sum()),
    )  # fmt: skip


def _tail(shards: TextShards, number: int) -> Int[np.ndarray, " tail"]:
    """The tokens before a shard that its first windows need."""
    found = [np.zeros(0, np.int32)]
    missing = 0 if shards.partial else shards.context
    while missing and number:
        number -= 1
        found.append(_ids(shards, number, missing))
        missing -= len(found[-1])
    return np.concatenate(found[::-1])


def _ids(shards: TextShards, number: int, last: int | None = None) -> Int[np.ndarray, " tokens"]:
    """The tokens of a shard, or its last few, in ids of the whole."""
    folder = Path(shards.folder)
    path, map_path = _file(folder, number, "ids"), _file(folder, number, "map")
    skipped = 0 if last is None else max(shards.tokens[number] - last, 0)
    ids = np.fromfile(path, "<i4", offset=4 * skipped)
    return np.fromfile(map_path, "<i4")[ids] if map_path.is_file() else ids


def _file(folder: Path, number: int, kind: str) -> Path:
    return folder / "shards" / f"{number:05d}.{kind}"
