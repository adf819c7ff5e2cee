"""What a Parquet file takes in memory, known before anything is decoded: by the headers of its pages.

A page of a few bytes can stand for two billion values, or for a gigabyte of text a thousand times. What the file says
of its size elsewhere may be a lie; the headers of pages are what a decoder goes by.
"""

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.doors import check_memory
from attomaton.errors import DataError

MOST_PAGES = 1 << 20
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
DEEPEST = 8  # structures in structures of a header
LEVELS = 4  # bytes for each value of a list, or of a column with empty places, while it is read
INDEX = 4  # bytes of a text that is kept as its number in a dictionary
OFFSET = 8  # bytes that say where a text ends
_DATA, _INDEX, _DICTIONARY, _DATA_2 = range(4)  # types of pages
_HEADERS = {
    _DATA: (5, 2),
    _DICTIONARY: (7, 2),
    _DATA_2: (8, 4),
}  # fields of the header, of its encoding
_BY_NUMBER = (2, 8)  # encodings: values by their number in a dictionary
_BY_PREFIX = 7  # each text begins as the one before it: any length from a few bytes
_OLD = re.compile(
    r"parquet-mr version 1\.[0-2]\b"
)  # wrote less than its pages' size; Arrow reads on a bit
_BLOCKS = (256, 1 << 12, 1 << 16, 1 << 20, 1 << 24)  # bytes in which a header is looked for


@dataclass
class Taken:
    """What files that are read as one take so far: bytes of memory, bytes on the disk."""

    memory: int = 0
    disk: int = 0


def check_pages(
    path: Path,
    handle: int,
    file: Any,
    groups: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    taken: Taken | None = None,
    coded: Collection[str] = (),
) -> int:
    """Refuse a Parquet file whose pages would take too much memory: those of some groups of rows and columns, or all.

    Columns that are `coded` are read as numbers in a dictionary of texts. Returns how long a text of theirs may become
    beyond what its page says; 0 where none does.
    """
    taken = taken or Taken()
    taken.disk += os.fstat(handle).st_size
    metadata, schema = file.metadata, file.schema
    wanted = [
        i
        for i in range(metadata.num_columns)
        if columns is None
        or any(f"{schema.column(i).path}.".startswith(f"{name}.") for name in columns)
    ]
    more = 100 if _OLD.match(metadata.created_by or "") else 0
    pages, longest, held = 0, 0, 0  # the largest page is held while it is decoded
    for group in range(metadata.num_row_groups) if groups is None else groups:
        row_group = metadata.row_group(group)
        for i in wanted:
            chunk, kind = row_group.column(i), schema.column(i)
            if chunk.num_values <= 0:
                continue  # no page of it is read, and its places may say anything
            nested = kind.max_definition_level or kind.max_repetition_level
            text = kind.physical_type == "BYTE_ARRAY"
            width = WIDTHS.get(kind.physical_type, max(kind.length or 0, 1))
            width = (INDEX if kind.path in coded else OFFSET) if text else width
            begin = chunk.data_page_offset
            first = chunk.dictionary_page_offset
            if chunk.has_dictionary_page and first is not None and 0 < first < begin:
                begin = first
            end = begin + chunk.total_compressed_size
            dictionary = 0
            for page in _pages(path, handle, begin, end, more):
                pages += 1
                if pages > MOST_PAGES:
                    raise DataError(f"{path}: more than {MOST_PAGES:,} pages; make it again.")
                taken.memory += page.values * (width + (LEVELS if nested else 0))
                held = max(held, page.bytes)
                if not text:
                    continue
                taken.memory += page.bytes
                if page.dictionary:
                    dictionary = max(dictionary, page.bytes)
                elif page.encoding in _BY_NUMBER and kind.path not in coded:
                    taken.memory += page.values * dictionary
                elif page.encoding == _BY_PREFIX:
                    if kind.path in coded:
                        longest = max(longest, page.bytes, dictionary)
                    else:
                        taken.memory += page.values * page.bytes
            check_memory(path, taken.memory + held, taken.disk)
    return longest


@dataclass(frozen=True)
class _Page:
    """What the header of a page says: bytes once it is decompressed, values, how they are written."""

    bytes: int
    values: int
    encoding: int
    dictionary: bool


def _pages(path: Path, handle: int, begin: int, end: int, more: int) -> Any:
    """The pages that lie in a range of bytes, and those that begin up to `more` bytes behind it, if any do."""
    at = begin
    while at < end + more:
        try:
            fields, length = _header(handle, at)
            kind, unpacked, packed = (fields[n] for n in (1, 2, 3))
            _check_numbers(kind, unpacked, packed)
            if kind != _INDEX:
                place, encoding = _HEADERS[kind]
                values, how = (fields[place][n] for n in (1, encoding))
                _check_numbers(values, how)
                yield _Page(max(unpacked, packed), values, how, kind == _DICTIONARY)
        except (LookupError, TypeError, ValueError, OSError) as error:
            if at >= end:
                return
            raise DataError(f"{path}: a page of it cannot be read ({error!r}).") from error
        at += length + packed


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


# Thrift's compact form, as far as headers use it: numbers and structures are kept, all else is passed over

_FIXED = {1: 0, 2: 0, 3: 1, 7: 8}  # bytes of true, false, a byte, a float


def _struct(block: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    fields: dict[int, Any] = {}
    number = 0
    while kind := block[at]:
        at += 1
        if kind >> 4:
            number += kind >> 4
        else:
            number, at = _number(block, at)
        fields[number], at = _value(block, at, kind & 15, depth)
    return fields, at + 1


def _value(block: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if depth > DEEPEST:
        raise ValueError("nested too deep")
    if kind in (4, 5, 6):
        return _number(block, at)
    if kind in _FIXED:
        return None, _within(block, at + _FIXED[kind])
    if kind == 8:  # bytes
        length, at = _varint(block, at)
        return None, _within(block, at + length)
    if kind in (9, 10):  # a list, a set
        length, inner = block[at] >> 4, block[at] & 15
        at += 1
        if length == 15:
            length, at = _varint(block, at)
        for _ in range(length):
            _, at = _value(block, _within(block, at), 3 if inner in (1, 2) else inner, depth + 1)
        return None, at
    if kind == 12:
        return _struct(block, at, depth + 1)
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
