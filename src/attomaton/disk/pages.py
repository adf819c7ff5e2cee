"""What a Parquet file takes in memory, known before anything is decoded: by its footer and the headers of its pages.

A page of a few bytes can stand for two billion values, or for a gigabyte of text a thousand times. What the footer says
of sizes may be a lie; the headers of pages are what a decoder goes by. Both are read here, byte by byte, since Arrow
ends the process over some footers when it is asked about them.
"""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.disk.doors import check_memory
from attomaton.errors import DataError

MOST_FOOTER = 1 << 24  # bytes
MOST_PAGES = 1 << 20
WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}  # bytes of a value, by its physical type's number
INT32, INT64, TEXT = 1, 2, 6  # such numbers
LEVELS = 4  # bytes for each value of a list, or of a column with empty places, while it is read
INDEX = 4  # bytes of a text that is kept as its number in a dictionary
OFFSET = 8  # bytes that say where a text ends
DEEPEST = 16  # structures in structures
# How many times its own size a file of columns may take: priorities repeat few weights, and our models reach 16.
PRESSED = 32
_DATA, _INDEX, _DICTIONARY, _DATA_2 = range(4)  # types of pages
_HEADERS = {_DATA: (5, 2), _DICTIONARY: (7, 2), _DATA_2: (8, 4)}  # fields: header, its encoding
_BY_NUMBER = (2, 8)  # encodings: values by their number in a dictionary
_BY_PREFIX = 7  # each text begins as the one before it: any length from a few bytes
_OLD = re.compile(rb"parquet-mr version 1\.[0-2]\b")  # understated its sizes: Arrow reads on a bit
_BLOCKS = (256, 1 << 12, 1 << 16, 1 << 20, 1 << 24)  # bytes in which a header is looked for
_FAULTS = (LookupError, TypeError, ValueError, AttributeError, OSError)


@dataclass(frozen=True)
class Leaf:
    """A column as it is stored: its path, physical type, bytes of a value, and whether rows may hold none or many."""

    path: str
    kind: int
    width: int
    nested: bool


@dataclass(frozen=True)
class Footer:
    """What the end of a Parquet file says: its columns and, for each group of rows, where they are stored."""

    leaves: list[Leaf]
    groups: list[list[dict[int, Any]]]
    more: int  # bytes behind a column that are read too

    def groups_with(self, name: str, wanted: np.ndarray) -> list[int]:
        """The groups of rows that may hold a wanted value of a column of whole numbers, by its least and largest."""
        at = next((i for i, leaf in enumerate(self.leaves) if leaf.path == name), None)
        if at is None or self.leaves[at].kind not in (INT32, INT64):
            return list(range(len(self.groups)))
        spans = (_span(columns[at].get(12), self.leaves[at].width) for columns in self.groups)
        # A group without statistics, as other tools may write it, has to be looked at.
        return [
            i
            for i, span in enumerate(spans)
            if span is None or ((span[0] <= wanted) & (wanted <= span[1])).any()
        ]


def _span(statistics: Any, width: int) -> tuple[int, int] | None:
    found = statistics if isinstance(statistics, dict) else {}
    for least, largest in ((6, 5), (2, 1)):
        ends = found.get(least), found.get(largest)
        if all(isinstance(end, bytes) and len(end) == width for end in ends):
            low, high = (int.from_bytes(end or b"", "little", signed=True) for end in ends)
            return low, high
    return None


def read_footer(path: Path, handle: int) -> Footer:
    """The footer of an open Parquet file, as far as sizes and places go."""
    try:
        end = os.fstat(handle).st_size
        tail = os.pread(handle, 8, max(0, end - 8))
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != b"PAR1" or length > min(end - 12, MOST_FOOTER):
            raise ValueError("no footer where one should be")
        fields, _ = _struct(os.pread(handle, length, end - 8 - length), 0, 0)
        leaves = _leaves(fields[2])
        groups = [[column[3] for column in group[1]] for group in fields.get(4) or []]
        if any(len(columns) != len(leaves) for columns in groups):
            raise ValueError("a group of rows that lacks a column")
        return Footer(leaves, groups, 100 if _OLD.match(fields.get(6) or b"") else 0)
    except _FAULTS as error:
        raise DataError(f"{path}: cannot be read as Parquet ({error!r}).") from error


def _leaves(elements: list[dict[int, Any]]) -> list[Leaf]:
    """The columns of a schema: a tree, written from its root downwards."""
    found: list[Leaf] = []
    above = [["", False, elements[0][5]]]  # path, nested, children still to come
    for element in elements[1:]:
        while not above[-1][2]:
            above.pop()
        above[-1][2] -= 1
        name = element[4].decode("utf-8", "replace")
        path = f"{above[-1][0]}.{name}" if above[-1][0] else name
        nested = above[-1][1] or element.get(3, 0) != 0
        if element.get(5):
            above.append([path, nested, element[5]])
        else:
            width = WIDTHS.get(element[1], max(element.get(2, 0), 1))
            found.append(Leaf(path, element[1], width, nested))
    return found


@dataclass
class Taken:
    """What files that are read as one take so far: bytes of memory, bytes on the disk."""

    memory: int = 0
    disk: int = 0


def check_pages(
    path: Path,
    handle: int,
    footer: Footer,
    groups: Sequence[int] | None = None,
    columns: Collection[str] | None = None,
    coded: Collection[str] = (),
    taken: Taken | None = None,
) -> int:
    """Refuse a Parquet file whose pages would take too much memory: those of some groups of rows and columns, or all.

    Columns that are `coded` are read as numbers in a dictionary of texts. Returns how long a text of theirs may become
    beyond what its page says; 0 where none does.
    """
    taken = taken or Taken()
    taken.disk += os.fstat(handle).st_size
    wanted = [
        (i, leaf)
        for i, leaf in enumerate(footer.leaves)
        if columns is None or any(f"{leaf.path}.".startswith(f"{name}.") for name in columns)
    ]
    count, longest, held = 0, 0, 0  # the largest page is held while it is decoded
    for group in range(len(footer.groups)) if groups is None else groups:
        for i, leaf in wanted:
            whole, text = leaf.path not in coded, leaf.kind == TEXT
            width = (OFFSET if whole else INDEX) if text else leaf.width
            width += LEVELS if leaf.nested else 0
            dictionary = 0
            for page in _pages(path, handle, footer.groups[group][i], footer.more):
                count += 1
                if count > MOST_PAGES:
                    raise DataError(f"{path}: more than {MOST_PAGES:,} pages.")
                taken.memory += page.values * width
                held = max(held, page.bytes)
                if not text:
                    continue
                taken.memory += page.bytes
                if page.dictionary:
                    dictionary = max(dictionary, page.bytes)
                elif page.encoding in _BY_NUMBER and whole:
                    taken.memory += page.values * dictionary
                elif page.encoding == _BY_PREFIX and whole:
                    taken.memory += page.values * page.bytes
                elif page.encoding == _BY_PREFIX:
                    longest = max(longest, page.bytes, dictionary)
    check_memory(path, taken.memory + held, taken.disk, PRESSED)
    return longest


@dataclass(frozen=True)
class _Page:
    """What the header of a page says: bytes once it is decompressed, values, how they are written."""

    bytes: int
    values: int
    encoding: int
    dictionary: bool


def _pages(path: Path, handle: int, column: dict[int, Any], more: int) -> Iterator[_Page]:
    """The pages of a column in a group of rows, and those that begin up to `more` bytes behind it, if any do."""
    end = 0
    try:
        if column[5] <= 0:
            return  # no page of it is read, and its places may say anything
        at, first = column[9], column.get(11)
        at = first if first is not None and 0 < first < at else at
        end = at + column[7]
        while at < end + more:
            fields, length = _header(handle, at)
            kind, unpacked, packed = (fields[n] for n in (1, 2, 3))
            _check_numbers(kind, unpacked, packed)
            if kind != _INDEX:
                place, encoding = _HEADERS[kind]
                values, how = (fields[place][n] for n in (1, encoding))
                _check_numbers(values, how)
                yield _Page(max(unpacked, packed), values, how, kind == _DICTIONARY)
            at += length + packed
    except _FAULTS as error:
        if not end or at < end:
            raise DataError(f"{path}: a page of it cannot be read ({error!r}).") from error


def _check_numbers(*numbers: int) -> None:
    # A decoder would take 2³² + 1 for 1.
    if not all(0 <= n < 1 << 31 for n in numbers):
        raise ValueError("a number that no page has")


def _header(handle: int, at: int) -> tuple[dict[int, Any], int]:
    """The header that begins at a byte, and its length."""
    for size in _BLOCKS:
        block = os.pread(handle, size, at)
        try:
            return _struct(block, 0, 0)
        except IndexError:
            if len(block) < size:
                break
    raise ValueError(f"no header at byte {at:,}")


# Thrift's compact form: structures as dictionaries by the numbers of their fields


def _struct(block: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    fields: dict[int, Any] = {}
    number = 0
    if depth > DEEPEST:
        raise ValueError("nested too deep")
    while head := block[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _number(block, at)
        kind = head & 15
        if 4 <= kind <= 6 and (n := block[at]) < 128:  # most fields are small numbers
            fields[number] = (n >> 1) ^ -(n & 1)
            at += 1
        else:
            fields[number], at = _value(block, at, kind, depth)
    return fields, at + 1


_FIXED = {1: 0, 2: 0, 3: 1, 7: 8}  # bytes of true, false, a byte, a float: passed over


def _value(block: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if 4 <= kind <= 6:
        return _number(block, at)
    if kind == 8:
        length, at = _varint(block, at)
        return block[at : _within(block, at + length)], at + length
    if kind == 12:
        return _struct(block, at, depth + 1)
    if kind in (9, 10):  # a list, a set
        length, inner = block[at] >> 4, block[at] & 15
        at += 1
        if length == 15:
            length, at = _varint(block, at)
        inner = 3 if inner in (1, 2) else inner
        values = []
        if depth > DEEPEST:
            raise ValueError("nested too deep")
        for _ in range(length):
            value, at = _value(block, _within(block, at), inner, depth + 1)
            values.append(value)
        return values, at
    if kind in _FIXED:
        return None, _within(block, at + _FIXED[kind])
    raise ValueError(f"unknown kind {kind}")


def _within(block: bytes, at: int) -> int:
    """The place itself, if the block reaches as far."""
    if at > len(block):
        raise IndexError
    return at


def _number(block: bytes, at: int) -> tuple[int, int]:
    n, at = _varint(block, at)
    return (n >> 1) ^ -(n & 1), at


def _varint(block: bytes, at: int) -> tuple[int, int]:
    n = shift = 0
    while True:
        byte = block[at]
        at += 1
        n |= (byte & 127) << shift
        if byte < 128:
            return n, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
