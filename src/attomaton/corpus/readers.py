"""Files -> `Windows` and `Samples`: contexts, event logs and text, told apart by their suffix or by what they hold.

Everything a file can get wrong is said at once, with its line or row, before any sample is built.
"""

import json
import logging
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.corpus.datasets import DATASETS, data_file
from attomaton.corpus.events import read_events
from attomaton.corpus.files import LOGS, about, format_of, guessed_format, unchanged
from attomaton.corpus.guesses import tell
from attomaton.corpus.lists import read_event_lines, read_spmf
from attomaton.corpus.ordering import announce
from attomaton.corpus.parts import Parts, Tally, cut_into_parts, tally_keys, write_run
from attomaton.corpus.reading import AS_NAMED, Reading
from attomaton.corpus.samples import HEAVIEST, LIGHTEST, Samples
from attomaton.corpus.shards import Run, one_after_the_other, read_shards
from attomaton.corpus.tables import LONGEST
from attomaton.corpus.text import line_blocks, read_text
from attomaton.corpus.tokenisers import named_tokeniser
from attomaton.corpus.vocabulary import (
    Label,
    Vocabulary,
    as_spelled,
    label_fault,
    outside,
    unknown_tokens,
)
from attomaton.corpus.windows import PART, Windows, nothing_left, windows_from_sequences
from attomaton.disk.doors import check_memory, is_packed
from attomaton.disk.spool import shown
from attomaton.disk.storage import check_file, write_whole
from attomaton.errors import DataError, counted, listed, nearest

ROW, VALUE = 500, 72  # bytes a row takes once it is read, and each value in it
CHECKED = 1 << 12  # rows after which they are added up
_log = logging.getLogger("attomaton")
KEYS = ("tokens", "next", "weight")


def read_windows(
    path: str | os.PathLike[str],
    reading: Reading = AS_NAMED,
    vocabulary: Vocabulary | None = None,
    **options: Any,
) -> Windows:
    """The contexts of a file, or of a data set by name (`wikitext-2`, `wikitext-2:valid`).

    `options` say how it is read, those of `read_samples`; or `reading` says all of them at once.

    A `vocabulary` fixes the ids and no token may lie outside it. Words of a plain text that it does
    not hold are then read as integers where they look like one, and line ends are mere white space
    unless it holds `<eos>`. A file that is written to while it is read is refused, and so is one that plainly holds
    another format than its suffix says: a `DataError`, as all that is wrong with a file. Options that do not fit its
    format raise a `UsageError`.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "corpus.txt")
    ...     _ = path.write_text("the cat and the dog and the cat")
    ...     read_windows(path, context=4)
    Windows(4 contexts, 4 tokens, 2 without their label)
    """
    reading = replace(reading, **options) if options else reading
    path = data_file(path)
    with about(path):
        _check_exists(path)
        with unchanged(path):
            kind = reading.check(path)
            if kind == "jsonl":
                windows = _read_rows(path, vocabulary)
            elif kind in LOGS:
                windows = read_events(path, kind, reading, vocabulary)
            elif kind == "spmf":
                windows = read_spmf(path, reading.window, vocabulary)
            elif kind == "events":
                windows = read_event_lines(path, reading.window, vocabulary)
            else:
                if reading.format is None and not path.is_file() and not path.suffix:
                    _log.warning("%s: a pipe, read as words; --format says what else it is.", path)
                tokeniser = named_tokeniser(reading.tokenising)
                windows = read_text(path, reading.window, vocabulary, reading.splitting, tokeniser)
        guesses = (*guessed_format(path, reading.format), *windows.guesses)
    said = shown(path, str(path))
    tell(said, guesses)
    announce(said, windows.ordering)
    return replace(windows, origin=said, guesses=guesses)


def read_parts(
    path: str | os.PathLike[str],
    folder: Path,
    reading: Reading = AS_NAMED,
    *,
    size: int = PART,
    most: int | None = None,
    vocabulary: Vocabulary | None = None,
    run: Run = one_after_the_other,
    progress: Progress = quiet,
) -> tuple[Vocabulary, Parts]:
    """The windows of `read_windows`, written into a folder in parts of about `size` incidences.

    A last token with more than `most` of them is divided into shards.

    A plain text may be larger than memory: it is read in shards (`run` says by whom), and only its vocabulary is
    held. Rows, compressed files and event logs, whose events have to be sorted, are read in one go. `progress` is told
    the tokens gone through.
    """
    path = data_file(path)
    if format_of(path, reading.format) != "text" or not path.is_file() or is_packed(path):
        windows = read_windows(path, reading, vocabulary)
        tally = Tally.of(len(windows.ids), windows)
        slots, parts = cut_into_parts(
            [tally], windows.vocabulary, windows.noun, size, most,
            lambda heavy: [tally_keys(windows, heavy)],
        )  # fmt: skip
        write_run(folder, 0, windows, slots)
        return windows.vocabulary, _some(
            replace(parts, ordering=windows.ordering, guesses=windows.guesses), path
        )
    with about(path), unchanged(path):
        reading.check(path)
        words, parts = read_shards(path, folder, reading, vocabulary, size, most, run, progress)
        guesses = guessed_format(path, reading.format)
    tell(shown(path, str(path)), guesses)
    return words, _some(replace(parts, guesses=guesses), path)


def _some(parts: Parts, path: Path) -> Parts:
    if not parts.parts:
        raise nothing_left(shown(path, str(path)), parts.windows, parts.set_aside)
    return parts


def read_samples(
    path: str | os.PathLike[str],
    *,
    context: int | None = None,
    format: str | None = None,
    sequence: str | None = None,
    item: str | None = None,
    order: str | None = None,
    dates: str | None = None,
    split: str | None = None,
    tokenizer: str | os.PathLike[str] | None = None,
    delimiter: str | None = None,
    vocabulary: Vocabulary | None = None,
) -> Samples:
    r"""The samples of a file: its realizable windows (see `read_windows`) as merged bags.

    The file's suffix says its format, unless `format` does ("text", "jsonl", "csv", "tsv", "parquet", "xes", "spmf",
    "events"). Plain text and event logs are cut into contexts of `context` tokens; `split` and `tokenizer` say what
    documents and tokens of a text are, `sequence`, `item`, `order`, `dates` and `delimiter` what is what in an event
    log: docs/data.md tells all.
    What is wrong with a file raises a `DataError`, options that do not fit its format a `UsageError`.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "log.csv")
    ...     _ = path.write_text("user,page,time\n1,home,1\n1,cart,2\n2,home,1\n1,home,3\n")
    ...     read_samples(path, context=2, sequence="user", item="page", order="time")
    Samples(1 sample, 2 tokens, 1 last token, 1 set aside)
    """
    reading = Reading(context, format, sequence, item, order, dates, split, tokenizer, delimiter)
    return read_windows(path, reading, vocabulary).samples()


def write_jsonl(samples: Samples, path: str | os.PathLike[str]) -> Path:
    """Samples as a `.jsonl` file, one distinct sample a line; returns the path for `read_samples`.

    A bag has no order, so its tokens come by id and the last token last. Samples set aside are not
    written.
    """
    path = check_file(Path(path))

    def write(work: Path) -> None:
        with work.open("w", encoding="utf-8", newline="\n") as file:
            for i in range(len(samples)):
                bag, last = samples.bag(i), samples.vocabulary[samples.last[i]]
                bag[last] -= 1
                tokens = [x for x, m in bag.items() for _ in range(m)]
                weight = float(samples.weight[i])
                row = {
                    "tokens": [*tokens, last],
                    "next": samples.vocabulary[samples.label[i]],
                    "weight": int(weight) if weight.is_integer() else weight,
                }
                file.write(json.dumps(row, ensure_ascii=False) + "\n")

    write_whole(path, write)
    return path


# What every file has to pass


def _check_exists(path: Path) -> None:
    if path.is_dir():
        raise DataError("a directory, not a file; name one file in it.")
    if not path.exists():
        if path.is_symlink():
            raise DataError("a link that leads to no file; mend it or name the file itself.")
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        beside += DATASETS
        raise DataError(f"no such file{nearest(path.name, beside)}")


# Rows of contexts


def _read_rows(path: Path, vocabulary: Vocabulary | None) -> Windows:
    contexts: list[list[Label]] = []
    nexts: list[Label] = []
    weights: list[float] = []
    lines: list[int] = []
    held = 0  # bytes the rows take, about
    faults: list[str] = []
    unknown: list[str] = []
    for number, line in enumerate(chain.from_iterable(line_blocks(path)), 1):
        if not line.strip():
            continue
        if len(line) > LONGEST:
            faults.append(f"line {number}: {len(line):,} characters; at most {LONGEST:,}")
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as fault:
            faults.append(f"line {number}: broken JSON ({fault.msg}, column {fault.colno})")
            continue
        except (ValueError, RecursionError) as fault:  # absurdly long numbers, absurd nesting
            faults.append(f"line {number}: broken JSON ({fault})")
            continue
        if wrong := [f"line {number}: {fault}" for fault in _row_faults(row)]:
            faults += wrong
        else:
            contexts.append(row["tokens"])
            nexts.append(row["next"])
            weights.append(float(row.get("weight", 1)))
            lines.append(number)
            if vocabulary is not None:
                tokens, place = dict.fromkeys([*row["tokens"], row["next"]]), f"line {number}"
                unknown += [outside(x, place, vocabulary) for x in tokens if x not in vocabulary]
        held += ROW + VALUE * line.count(",") + 2 * len(line)
        if not number % CHECKED:
            check_memory(path, held)
    if faults:
        cure = 'A row reads {"tokens": ["a", "b"], "next": "a"}, with "weight" if it is not 1.'
        faults += unknown
        raise DataError(listed(f"{counted(len(faults), 'fault')}:", faults, cure))
    if unknown:
        raise DataError(unknown_tokens(unknown))
    if not lines:
        raise DataError("no rows: the file is empty.")
    windows = windows_from_sequences(contexts, nexts, weights, vocabulary)
    return replace(windows, noun="line", numbers=np.array(lines))


def _row_faults(row: object) -> Iterator[str]:
    """What keeps one parsed line from being a sample."""
    if not isinstance(row, dict):
        yield f"{as_spelled(row)} is not an object"
        return
    for key in row:
        if key not in KEYS:
            near = nearest(key, KEYS)
            yield f"unknown key {key!r}{near if near != '.' else ', keys are ' + ', '.join(KEYS)}"
    tokens = row.get("tokens", [])
    if "tokens" not in row:
        yield "key 'tokens' is missing"
    elif not isinstance(tokens, list):
        yield f"tokens {as_spelled(tokens)} is not a list"
    elif not tokens:
        yield "tokens is empty"
    else:
        yield from (f"token {as_spelled(x)} {why}" for x in tokens if (why := label_fault(x)))
    if "next" not in row:
        yield "key 'next' is missing"
    elif why := label_fault(row["next"]):
        yield f"next {as_spelled(row['next'])} {why}"
    if not _is_weight(row.get("weight", 1)):
        yield f"weight {as_spelled(row['weight'])} is not a positive number"
    elif not LIGHTEST <= float(row.get("weight", 1)) <= HEAVIEST:
        yield (
            f"weight {as_spelled(row['weight'])} is not between {LIGHTEST:g} and {HEAVIEST:g}; "
            "rescale all weights by one factor"
        )


def _is_weight(x: object) -> bool:
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        return False
    try:
        return math.isfinite(x) and float(x) > 0
    except OverflowError:  # an integer beyond every float
        return False
