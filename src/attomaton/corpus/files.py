"""A data file before and while it is read: its format, whether it holds what its name says, whether it stays as it is.

The suffix says the format, unless `format` does; that of a compressed file is the one before `.gz` or `.zst`. XES logs
and SPMF sequences, which come under any name, are known by how they begin, and so is all that comes through standard
input. Content that is plainly something else is refused, not read as words: archives and other binary files by their
first bytes, JSON, XML, HTML and tables named like a text by their first lines. Where in doubt a text is a text.
"""

import csv
import errno
import json
import os
import re
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attomaton.corpus.guesses import Guess
from attomaton.disk.doors import data_stream, packing
from attomaton.disk.spool import is_spooled, shown
from attomaton.errors import DataError, UsageError, one_of

SUFFIXES = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".xes": "xes",
    ".spmf": "spmf",
}  # fmt: skip
FORMATS = ("text", "jsonl", "csv", "tsv", "parquet", "xes", "spmf", "events")
LOGS = ("csv", "tsv", "parquet", "xes")  # formats of event logs, which have columns
LISTS = ("spmf", "events")  # sequences without columns
SEPARATED = {"csv": ",", "tsv": "\t"}  # what stands between values, unless it is said
EVENTS = tuple(suffix for suffix, format in SUFFIXES.items() if format in LOGS)

PACKED = (".gz", ".gzip", ".zst", ".zstd")  # suffixes behind the one that says the format
LOOK = 1 << 16  # bytes of a file that are looked at
LINES = 20  # of a text that are looked at
_MAGIC = {
    b"PAR1": "parquet",
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"SQLite format 3\x00": "SQLite",
    b"ARROW1": "Arrow",
    b"\x89HDF\r\n": "HDF5",
    b"\x93NUMPY": "NumPy",
    b"%PDF-": "PDF",
}
_UNPACK = {
    "gzip": "gunzip -k", "zip": "unzip", "zstd": "unzstd", "bzip2": "bunzip2 -k", "xz": "unxz -k", "7z": "7z x",
}  # fmt: skip
_LOOKS = {
    "jsonl": "one JSON object a line", "csv": "a table with commas", "tsv": "a table with tabs", "parquet": "Parquet",
}  # fmt: skip
_PICKLE = re.compile(rb"\x80[\x02-\x05](\x95|c|\}|\]|q|K|X)", re.DOTALL)
_JSON = re.compile(r'\s*(\{|\[\s*\{)\s*"(\\.|[^"\\])*"\s*:')
_XES = re.compile(
    r"\s*(<\?xml[^>]*\?>\s*)?(<!--.*?-->\s*)*<log(\s[^>]*(xes\.|xes-standard)|[\s>].*?<trace[\s>])",
    re.IGNORECASE | re.DOTALL,
)
_SPMF = re.compile(r"(<\d+> +)?\d+( +\d+)* +-1( +(<\d+> +)?\d+( +\d+)* +-1)* +-2")
_NOTE = re.compile(r"[#%@]")  # begins a line of SPMF that holds no sequence
_XML = re.compile(r"\s*<\?xml\s|\s*<(log|svg)\s[^>]*xmlns|\s*<log\s[^>]*xes\.", re.IGNORECASE)
_HTML = re.compile(r"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html)[\s>]", re.IGNORECASE | re.DOTALL)
_HEADER = re.compile(r"[^\W\d][\w :.@#/()-]{0,39}")
_VALUE = re.compile(r"[+-]?[0-9][0-9.,:/eETZ +-]*")


def format_of(path: Path, said: str | None = None) -> str:
    """The format of a data file: the one `said`, or the one its suffix stands for; plain text for any other."""
    if said is not None:
        one_of("format", said, FORMATS)
        return said
    return _found(path)[0]


def guessed_format(path: Path, said: str | None = None) -> tuple[Guess, ...]:
    """The format of a file where neither its name nor an option says it, but what it holds."""
    format, why = ("", "") if said is not None else _found(path)
    return (Guess("format", format, why),) if why else ()


def _found(path: Path) -> tuple[str, str]:
    """The format of a file, and by what it is known where its name does not say it."""
    kind = SUFFIXES.get(suffix_of(path))
    if kind is not None or not path.is_file():
        return kind or "text", ""
    try:
        head, text, complete = beginning(path)
    except (OSError, ValueError):
        return "text", ""  # reading it says what is wrong
    if _XES.match(text):
        return "xes", "it begins as an XES log does"
    if is_spmf(whole_lines(text, complete)):
        return "spmf", "its lines are numbers with -1 behind each set and -2 at the end"
    if not is_spooled(path):
        return "text", ""
    found = "parquet" if binary_format(head) == "parquet" else text_format(text, complete)
    return (found, f"it is {_LOOKS[found]}") if found in _LOOKS else ("text", "it holds words")


def is_spmf(lines: list[str]) -> bool:
    """Whether lines are sequences as SPMF writes them, with notes between them or without.

    >>> is_spmf(["@ITEM=1=tea", "1 -1 2 3 -1 -2"]), is_spmf(["1 2", "-1 -2"])
    (True, False)
    """
    rows = [line.strip() for line in lines if not _NOTE.match(line.lstrip())]
    return bool(rows) and all(map(_SPMF.fullmatch, rows[:LINES]))


def beginning(path: Path) -> tuple[bytes, str, bool]:
    """How a file begins, unpacked: its first bytes, the same as text, and whether that is all of it."""
    with data_stream(path) as stream:
        head = stream.read(LOOK)
    return head, head.decode("utf-8-sig", "replace"), len(head) < LOOK


def whole_lines(text: str, complete: bool) -> list[str]:
    """The lines of a text that hold something; the last only where the text is `complete`."""
    lines = [line for line in text.split("\n") if line.strip()]
    if not complete and len(lines) > 1:
        lines.pop()  # cut off somewhere
    return lines


def suffix_of(path: Path) -> str:
    """The suffix that says the format of a file, in small letters.

    >>> suffix_of(Path("log.CSV")), suffix_of(Path("log.csv.gz"))
    ('.csv', '.csv')
    """
    suffix = path.suffix.lower()
    return path.with_suffix("").suffix.lower() if suffix in PACKED else suffix


def check_content(path: Path, said: str | None = None) -> None:
    """Refuse a file whose content is plainly of another format than the one it would be read as."""
    kind = format_of(path, said)
    if not path.is_file():
        return  # a pipe can be read only once
    with path.open("rb") as file:
        head = file.read(4)
        if kind == "parquet" and packing(head):
            raise DataError(_about_binary(path, str(packing(head)), kind))
    head, text, complete = beginning(path)
    found = binary_format(head)
    if found is not None and found != kind:
        raise DataError(_about_binary(path, found, kind))
    if kind == "text" and said is None and (what := text_format(text, complete)):
        raise DataError(_about_text(what))


def binary_format(head: bytes) -> str | None:
    """What a file is by its first bytes, where that is no text."""
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    return "pickle" if _PICKLE.match(head) else None


def text_format(text: str, complete: bool) -> str | None:
    """What the beginning of a text plainly is: JSON lines, JSON, XML, HTML, csv, tsv, a table by ';'; None for words.

    >>> text_format('{"a": 1}\\n{"a": 2}\\n', True), text_format('"Well," she said, "{x}".', True)
    ('jsonl', None)
    """
    lines = whole_lines(text, complete)
    if _JSON.match(text) and (found := _json_format(text, lines[:LINES], complete)):
        return found
    if _HTML.match(text):
        return "HTML"
    if _XML.match(text):
        return "XML"
    return next((name for d, name in ((",", "csv"), ("\t", "tsv"), (";", "table with ';'"))
                 if _is_table(lines[:LINES], d)), None)  # fmt: skip


def _json_format(text: str, lines: list[str], complete: bool) -> str | None:
    """What a text is that begins as JSON does, broken or not; None for words after all."""
    rows = 5 * sum(_json_type(line) is dict for line in lines) >= 4 * len(lines) > 0
    objects = sum(bool(_JSON.match(x)) and x.rstrip().endswith(("}", "},")) for x in lines)
    if rows or (len(lines) > 1 and 2 * objects > len(lines)):
        return "jsonl"  # where rows are broken, their reader names every line
    if not complete or _json_type(text) is not None:
        return "JSON"
    like = 2 * sum(line.lstrip()[0] in '{}[]"' for line in lines) > len(lines)
    return "broken JSON" if like else None


def _json_type(text: str) -> type | None:
    """What a text stands for as JSON, None where it is none."""
    try:
        return type(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _is_table(lines: list[str], delimiter: str) -> bool:
    """Whether lines are rows under a header: all of one width, fields not padded as after a comma in a sentence, a
    column of numbers or times, or a header that says what an event is.
    """
    try:
        rows = [row for row in csv.reader(lines, delimiter=delimiter, strict=True) if row]
    except csv.Error:
        return False
    if len(rows) < 3 or len(rows[0]) < 2 or {len(row) for row in rows} != {len(rows[0])}:
        return False
    header, body = rows[0], rows[1:]
    if any(field != field.strip() for row in rows for field in row) and delimiter != ";":
        return False
    if len(set(header)) < len(header) or not all(map(_HEADER.fullmatch, header)):
        return False
    if {"sequence", "item"} <= set(header):
        return True
    return any(all(_VALUE.fullmatch(row[i].strip()) for row in body) for i in range(len(header)))


def _about_binary(path: Path, found: str, kind: str) -> str:
    if found in _UNPACK:
        name = shlex.quote(path.name)
        return f"compressed with {found}, and is not unpacked here. Unpack it first: {_UNPACK[found]} {name}"
    if found == "parquet":
        return (
            f"holds Parquet, not {_names(kind)}. Name it .parquet, or say --format parquet, to read it "
            "as an event log."
        )
    return f"a file of {found}, not {_names(kind)}. Export the data as .jsonl, .csv, .parquet or plain text."


def _about_text(what: str) -> str:
    held, cure = what, "Export its content as text or as .csv."
    if what in _LOOKS:
        held, cure = _LOOKS[what], f"Name it .{what}, or say --format {what}."
    elif "JSON" in what:
        cure = 'Write one object {"tokens": […], "next": …} a line into a .jsonl file.'
    elif what.startswith("table"):
        held, cure = f"a {what}", "Say --format csv --delimiter ';'."
    return (
        f"holds {held}, not plain text. {cure} To read it as words all the same, say --format text."
    )


def other_delimiter(path: Path, delimiter: str) -> str:
    """What to say where a table is plainly separated by something else; nothing where it is not."""
    other = delimiter_of(path, delimiter)
    if other is None:
        return ""
    typed = "tab" if other == "\t" else f"'{other}'"
    return f" The delimiter seems to be {other!r}: say --delimiter {typed}."


def delimiter_of(path: Path, delimiter: str) -> str | None:
    """What separates the values of a table, where it is plainly not `delimiter`."""
    lines = whole_lines(*beginning(path)[1:])[:LINES]
    for other in (";", "\t", ",", "|"):
        if other != delimiter and _width(lines, other) > max(1, _width(lines, delimiter)):
            return other
    return None


def _width(lines: list[str], delimiter: str) -> int:
    """Fields in each line, where all have as many; 0 where not."""
    try:
        widths = {len(row) for row in csv.reader(lines, delimiter=delimiter) if row}
    except csv.Error:
        return 0
    return widths.pop() if len(widths) == 1 else 0


def _names(kind: str) -> str:
    return "plain text" if kind == "text" else kind


# Errors while a file is read

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what a full disk says, or a user's share of it


@contextmanager
def about(path: Path) -> Iterator[None]:
    """Errors about a file's content begin with its name."""
    try:
        yield
    except UsageError as fault:
        raise UsageError(shown(path, str(fault))) from None
    except DataError as fault:
        named = str(fault).startswith(f"{path}:")
        raise DataError(shown(path, str(fault) if named else f"{path}: {fault}")) from None
    except MemoryError:
        raise DataError(shown(path, f"{path}: there is not enough memory to read it.")) from None
    except OSError as fault:
        if fault.errno in FULL:
            raise  # what is written on the way has no room; the file itself is fine
        raise DataError(shown(path, f"{path}: cannot be read: {fault.strerror or fault}")) from None


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Refuse what was read of a file that was written to meanwhile: it may be half of one version, half of another.

    Of a pipe there is one reading and nothing to compare: what came through it is what is read.
    """
    before = identity(path)
    try:
        yield
    except (DataError, OSError):  # perhaps no fault of either version
        if before is not None and identity(path) != before:
            raise changed() from None
        raise
    if before is not None and identity(path) != before:
        raise changed()


def changed() -> DataError:
    """The error about a file that was written to while it was read."""
    return DataError("changed while it was read. Run again, once nobody writes to it.")


def identity(path: Path) -> tuple[int, ...] | None:
    """What a file's metadata says of its content: device, inode, size, times. None where it is no regular file."""
    try:
        seen = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(seen.st_mode):
        return None
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns
