"""What a fit will take, said before it starts: a few slices of the text are read and solved, the rest is arithmetic.

Incidences and sizes grow with the tokens, time a little faster (docs/scaling.md has the measurements), so the slices'
own costs on this machine are multiplied by how much more text there is. Memory is decided by the largest thing that is
solved at a time: a part, all windows of the most frequent last token, or a shard of it where it is divided.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attomaton.corpus.datasets import data_file
from attomaton.corpus.files import format_of
from attomaton.corpus.parts import ROW_BYTES
from attomaton.corpus.reading import AS_NAMED, Reading
from attomaton.corpus.shards import mark_after, shard_mark
from attomaton.corpus.text import add_text
from attomaton.corpus.tokenisers import named_tokeniser
from attomaton.corpus.windows import PART, Windows, windows_from_streams
from attomaton.disk.doors import is_packed
from attomaton.engine.processes import available_cores
from attomaton.errors import DataError, UsageError, counted, size_text
from attomaton.jobs.divided import BYTES, PROCESS, SHARD_SIZE
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.report.words import count_text, time_text

LARGE = 50e6  # bytes of a text whose fit takes minutes
SLICES, SLICE = 4, 1 << 18  # places looked at, and the bytes read there
FARTHEST = 4  # slices that a place may take up until a line or word ends: an estimate is no fit
GROWTH = 0.06  # solving k times the text takes k^(1 + GROWTH) times as long: components grow (docs/scaling.md)
PASSES = 2  # windows are cut twice, to count and to write them
DIVIDED = 20  # bytes on disk, while it is made, for each incidence of a last token that is divided
MODEL = 5  # bytes on disk for each incidence, about
FIRST_PROCESS = 100e6  # bytes held by the process that hands out work, beside the vocabulary
WORD = 200  # bytes of a word in a vocabulary in memory, about


@dataclass(frozen=True)
class Estimate:
    """What a fit of a text takes, about."""

    tokens: int
    samples: int  # windows that hold their label
    incidences: int
    seconds: float  # with this number of workers
    memory: float  # bytes, of all processes together
    disk: float  # bytes, while it is made
    model: float  # bytes that are left
    workers: int

    def text(self) -> str:
        """In one sentence."""
        return (
            f"about {count_text(self.tokens)} tokens, {count_text(self.samples)} samples: "
            f"{time_text(self.seconds)} with {counted(self.workers, 'worker')}, {size_text(self.memory)} of memory, "
            f"{size_text(self.disk)} of disk on the way, a model of {size_text(self.model)}"
        )


def takes_long(data: Path | str, format: str | None = None) -> bool:
    """Whether a data set is a text so large that its fit takes long enough to say so before."""
    path = data_file(data)
    return _is_plain(path, format) and path.stat().st_size > LARGE


def _is_plain(path: Path, format: str | None) -> bool:
    """Whether a file is a text that can be read from any place on."""
    return path.is_file() and format_of(path, format) == "text" and not is_packed(path)


def estimate_fit(
    data: Path | str,
    reading: Reading = AS_NAMED,
    *,
    engine: str = "local",
    workers: int | None = None,
    memory: int | None = None,
    shard_size: int | None = None,
) -> Estimate:
    """What fitting a plain text takes on an engine (see `open_engine`), read as `read_windows` says.

    Last tokens are divided beyond `shard_size`, as in `fit_run`.
    """
    path, context = data_file(data), reading.context
    if not _is_plain(path, reading.format) or not context:
        raise UsageError(
            f"{data}: only of a plain text and its --context can be said what it takes."
        )
    workers = 1 if engine == "local" else workers or available_cores()
    most = SHARD_SIZE if shard_size is None else shard_size
    slices = _slices(path, reading.splitting, reading.tokenising, context)
    size, looked = path.stat().st_size, sum(x.bytes for x in slices)
    more = size / looked
    begin = time.perf_counter()
    for x in slices:
        solve_limit(x.windows.samples())
    solving = time.perf_counter() - begin
    tokens = sum(len(x.windows.ids) for x in slices)
    samples = sum(int(x.windows.realizable.sum()) for x in slices)
    incidences = sum(int(x.windows.length[x.windows.realizable].sum()) for x in slices)
    total = more * incidences
    heaviest = max(x.largest for x in slices) * total
    largest = max(min(PART, total), min(most, heaviest))
    divided = DIVIDED * heaviest if heaviest > most else 0.0
    # Each slice was solved by itself.
    solving *= (size * len(slices) / looked) ** GROWTH
    seconds = (sum(x.seconds for x in slices) + solving) * more / workers
    words = max(len(x.windows.vocabulary) for x in slices)
    # Heaps' law: a vocabulary grows with the square root of the text, about.
    vocabulary = words * np.sqrt(more * len(slices))
    # What runs beside the largest is no larger, nor more than there is, nor more than memory allows.
    beside = min((workers - 1) * largest, total - largest)
    if memory is not None:
        beside = min(beside, max(0.0, (memory - workers * PROCESS) / BYTES - largest))
    return Estimate(
        int(tokens * more), int(samples * more), int(total), seconds,
        FIRST_PROCESS + WORD * vocabulary * (workers + 1) + workers * PROCESS + BYTES * (largest + beside),
        more * (ROW_BYTES * samples + 4 * incidences + 4 * tokens) + divided, MODEL * total,
        workers,
    )  # fmt: skip


@dataclass(frozen=True)
class _Slice:
    """One place of the text: its windows, what reading it took, and the share of its most frequent last token."""

    bytes: int
    windows: Windows
    seconds: float
    largest: float


def _slices(path: Path, split: str, tokenizer: str, context: int) -> list[_Slice]:
    tokeniser = named_tokeniser(tokenizer)
    mark, size = shard_mark(split, tokeniser), path.stat().st_size
    found, long = [], False
    for i in range(SLICES):
        with path.open("rb") as file:
            begin = 0 if i == 0 else mark_after(file, i * size // SLICES, mark)
            end = mark_after(file, min(begin + SLICE, size), mark)
        if not begin < end <= begin + FARTHEST * SLICE:
            long = long or end > begin
            continue
        clock = time.perf_counter()
        read = add_text(path, None, split, tokeniser, None, (begin, end))
        reading = time.perf_counter() - clock
        try:
            windows = windows_from_streams(
                read.vocabulary, read.ids, read.start, context, split != "stream"
            )
        except DataError:  # too short for a window, or blank
            continue
        cutting = time.perf_counter() - clock - reading
        if not windows.realizable.any():
            continue
        share = np.bincount(windows.last[windows.realizable], windows.length[windows.realizable])
        found.append(
            _Slice(end - begin, windows, reading + PASSES * cutting, float(share.max() / share.sum()))
        )  # fmt: skip
    if not found:
        what = "ends within a megabyte" if long else "has a context that holds its own label"
        raise DataError(
            f"{path}: none of the {SLICES} places looked at {what}, so what a fit takes cannot be said before."
        )
    return found
