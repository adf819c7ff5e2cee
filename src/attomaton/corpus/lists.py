"""Sequences in lines: those of SPMF, and logs with one event a line.

    SPMF      3 -1 5 7 -1 4 -1 -2      a sequence a line: sets of items, -1 behind each, -2 at the end
              @ITEM=3=tea              names for the numbers, above them; lines with # or % are notes
    events    tea                      one event a line; a blank line ends a sequence
              cake

The items of a set come one after the other, as the line has them: this layer sees contexts as bags. Their times (`<7>`)
are passed over, the line is in their order already.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from attomaton.corpus.text import as_label, line_blocks
from attomaton.corpus.vocabulary import Label, Vocabulary, encode, outside, unknown_tokens
from attomaton.corpus.windows import Windows, windows_from_streams
from attomaton.disk.doors import check_memory
from attomaton.errors import DataError, counted, listed, visible

SET_END, END = "-1", "-2"
DIGITS = 18  # of an item's number
TOKEN = 80  # bytes an event takes while it is read, about
CHECKED = 1 << 14  # lines after which memory is looked at
_ITEM = re.compile(rf"[0-9]{{1,{DIGITS}}}")
_TIME = re.compile(r"<[0-9]+>")
_NAME = re.compile(r"@ITEM=(-?[0-9]{1,18})=(.*)", re.DOTALL)


def read_spmf(path: Path, context: int, vocabulary: Vocabulary | None) -> Windows:
    """The windows of a file of SPMF: a sequence a line."""
    names: dict[int, Label] = {}
    faults: list[str] = []
    events, lines, ends = list[int](), list[int](), [0]
    for number, line in _lines(path):
        if not line or line[0] in "#%":
            continue
        if line[0] == "@":
            if found := _NAME.fullmatch(line):
                names[int(found[1])] = found[2]
            continue
        items, fault = _items(line.split())
        if fault:
            faults.append(f"line {number}: {fault}")
            continue
        events += items
        lines += [number] * len(items)
        ends.append(len(events))
        if not number % CHECKED:
            check_memory(path, TOKEN * len(events))
    if faults:
        cure = "A sequence reads 3 -1 5 7 -1 -2: items are numbers, -1 ends a set, -2 the line."
        raise DataError(listed(f"{counted(len(faults), 'fault')}:", faults, cure))
    named: list[Label] = [names.get(x, x) for x in events]
    return _windows(path, named, lines, ends, context, vocabulary)


def _items(words: list[str]) -> tuple[list[int], str]:
    """The items of a line, and what is wrong with it.

    >>> _items("3 -1 5 7 -1 -2".split()), _items("3 -1 x".split())
    (([3, 5, 7], ''), ([3], "'x' is no item"))
    """
    items: list[int] = []
    *inner, last = words
    for word in inner if last == END else words:
        if _ITEM.fullmatch(word):
            items.append(int(word))
        elif word == END:
            return items, "something stands behind -2"
        elif word != SET_END and not _TIME.fullmatch(word):
            return items, f"{visible(repr(word), 40)} is no item"
    if last != END:
        return items, "no -2 at the end"
    return items, "" if items else "a sequence without an item"


def read_event_lines(path: Path, context: int, vocabulary: Vocabulary | None) -> Windows:
    """The windows of a log with one event a line; blank lines end a sequence."""
    events, lines, ends, held = list[Label](), list[int](), [0], 0
    for number, line in _lines(path):
        if line:
            events.append(line if vocabulary is None else as_label(line, vocabulary))
            lines.append(number)
            held += TOKEN + len(line)
        elif ends[-1] < len(events):
            ends.append(len(events))
        if not number % CHECKED:
            check_memory(path, held)
    if ends[-1] < len(events):
        ends.append(len(events))
    return _windows(path, events, lines, ends, context, vocabulary)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, without white space around them."""
    return enumerate(map(str.strip, chain.from_iterable(line_blocks(path))), 1)


def _windows(
    path: Path, events: list[Label], lines: list[int], ends: list[int], context: int,
    vocabulary: Vocabulary | None,
) -> Windows:  # fmt: skip
    if not events:
        raise DataError(
            f"no events: {'the file is empty' if not path.stat().st_size else 'no line holds one'}."
        )
    if vocabulary is None:
        vocabulary, ids = encode(events)
    else:
        ids = vocabulary.ids_of(events)
        if len(strange := np.flatnonzero(ids < 0)):
            places = ((events[i], f"line {lines[i]}") for i in strange)
            raise DataError(unknown_tokens([outside(x, at, vocabulary) for x, at in places]))
    windows = windows_from_streams(vocabulary, ids, np.array(ends), context, partial=True)
    return replace(windows, noun="line", numbers=np.array(lines))
