"""Files of contexts to ask a model about: read a few thousand rows at a time, a bad row never losing the others.

    .jsonl      {"tokens": ["a", "b"]} a line (other keys are passed over), or the list alone
    .csv .tsv   a column `tokens`: words with spaces between them, or a list in JSON
    .parquet    a column `tokens`: lists of strings or integers, or texts as above
    others      plain text: a context a line, words with spaces between them

Words are read as on the command line (a number where the vocabulary holds that), lists keep their types.
"""

import codecs
import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.lazily import pa, pq
from attomaton.base.shapes import Int
from attomaton.corpus.files import SEPARATED, about, check_content, format_of, unchanged
from attomaton.corpus.tables import LONGEST, MOST_ROWS
from attomaton.corpus.vocabulary import Label, Vocabulary, as_spelled, is_text, label_fault
from attomaton.disk.doors import data_stream, is_packed, opened
from attomaton.disk.pages import check_pages, read_footer
from attomaton.disk.spool import DASH, shown, standard_input
from attomaton.errors import DataError, UsageError, counted, cut, nearest

ROWS = 10_000  # answered together
LETTERS = 1 << 24  # of their text, at most, but for a single row that is longer
COLUMN = "tokens"
BLOCK = 1 << 20  # bytes of lines that are read at a time
TOO_LONG = f"a line of more than {LONGEST:,} characters"
KINDS = ("text", "jsonl", "csv", "tsv", "parquet")
EMPTY = "no tokens: a context needs at least one"


@dataclass(frozen=True)
class Lines:
    r"""Lines as one text: cut only where they are to be read one by one.

    >>> lines = Lines(b"[1]\n[2]")
    >>> len(lines), list(lines)
    (2, [b'[1]', b'[2]'])
    """

    text: bytes

    def __len__(self) -> int:
        return self.text.count(b"\n") + 1

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.text.split(b"\n"))

    @property
    def holed(self) -> bool:
        """Whether one of them is empty."""
        return not self.text or b"\n\n" in self.text or b"\n" in (self.text[:1], self.text[-1:])


@dataclass(frozen=True)
class Rows:
    """Some rows as the file has them; `faults` are those that could not even be cut out, by place among them.

    `done` of `total` were read so far: bytes, or rows of Parquet; of pipes and compressed files nobody knows
    the total (0).
    """

    listed: bool  # a row is a line of JSON; else a cell, words or a list
    first: int  # the number of the first, from 1
    cells: Any  # lines, a list, or an Arrow column
    faults: dict[int, str] = field(default_factory=dict)
    done: int = 0
    total: int = 0


@dataclass(frozen=True, eq=False)
class Read:
    """Contexts as places in a vocabulary, end to end; `outside` has the labels it does not hold, by place in `ids`.

    `faults` are the rows that are no contexts, by place among all of them.
    """

    ids: Int[np.ndarray, " tokens"]
    length: Int[np.ndarray, " contexts"]
    outside: dict[int, Label]
    faults: dict[int, str]

    def unknown(self) -> dict[int, tuple[Label, ...]]:
        """The distinct labels outside the vocabulary, by context."""
        owner = np.repeat(np.arange(len(self.length)), self.length)
        found: dict[int, dict[Label, None]] = {}
        for at, label in self.outside.items():
            found.setdefault(int(owner[at]), {})[label] = None
        return {i: tuple(labels) for i, labels in found.items()}

    def ends(self) -> dict[int, Label]:
        """The last tokens outside the vocabulary, by context."""
        end = np.cumsum(self.length) - 1
        at = np.flatnonzero(self.ids[end] < 0)
        return {i: self.outside[int(end[i])] for i in at.tolist()}

    def labels(self, vocabulary: Vocabulary) -> list[list[Label]]:
        """The contexts in words."""
        words = [
            vocabulary[x] if x >= 0 else self.outside[i] for i, x in enumerate(self.ids.tolist())
        ]
        end = np.cumsum(self.length).tolist()
        return [words[a:b] for a, b in zip([0, *end], end, strict=False)]


def context_rows(
    path: Path, format: str | None = None, column: str | None = None
) -> Iterator[Rows]:
    """The rows of a file of contexts, some at a time; a file that changes meanwhile is a `DataError`.

    `-` is standard input.
    """
    if str(path) == DASH:
        path = standard_input()
    if not path.exists() or path.is_dir():
        what = "a directory, not a file" if path.is_dir() else "no such file"
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise DataError(f"{path}: {what}{nearest(path.name, beside)}")
    kind = format_of(path, format)
    if kind not in KINDS:
        said = f"{path}: {kind} holds sequences, not contexts to ask about; --format text reads lines of words."
        raise DataError(shown(path, said))
    if column is not None and kind in ("jsonl", "text"):
        raise UsageError(f"--column: {kind} has no columns.")
    with about(path), unchanged(path):
        check_content(path, format)
        if kind == "parquet":
            yield from _parquet(path, column)
            return
        total = path.stat().st_size if path.is_file() and not is_packed(path) else 0
        with data_stream(path) as raw:
            texts = _texts(raw, total, kind, column)
            yield from _json_lines(raw, total) if kind == "jsonl" else texts


def _texts(raw: io.BufferedReader, total: int, kind: str, column: str | None) -> Iterator[Rows]:
    """Rows of lines or of separated values. Bytes that are no UTF-8 make a bad row, not a bad file."""
    newline = "" if kind in SEPARATED else None
    first, held, letters, faults = 1, list[str](), 0, dict[int, str]()
    with io.TextIOWrapper(raw, "utf-8-sig", "surrogateescape", newline) as text:
        lines = _bounded(text) if kind == "text" else _cells(text, SEPARATED[kind], column)
        for cell, fault in lines:
            if fault:
                faults[len(held)] = fault
            held.append(cell)
            letters += len(cell)
            if len(held) == ROWS or letters > LETTERS:
                yield Rows(False, first, held, faults, raw.tell() if total else 0, total)
                first, held, letters, faults = first + len(held), [], 0, {}
    if held:
        yield Rows(False, first, held, faults, total, total)


def _json_lines(raw: io.BufferedReader, total: int) -> Iterator[Rows]:
    """Rows of lines of JSON, in bytes, without their ends and without blank ones."""
    first, held, many = 1, list[bytes](), 0
    for text in chain(_blocks(raw), [None]):
        if text is not None:
            held.append(text)
            many += text.count(b"\n") + 1
        if (many >= ROWS or len(held) * BLOCK > LETTERS) if text is not None else held:
            for lines in _cut(b"\n".join(held), many):
                faults = {i: TOO_LONG for i, x in enumerate(lines) if not x} if lines.holed else {}
                yield Rows(True, first, lines, faults, raw.tell() if total else 0, total)
                first += len(lines)
            held, many = [], 0


def _cut(text: bytes, many: int) -> Iterator[Lines]:
    """Lines, fewer than twice `ROWS` at a time."""
    begin = 0
    if many >= 2 * ROWS:
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        for end in ends[ROWS - 1 : many - ROWS : ROWS].tolist():
            yield Lines(text[begin:end])
            begin = end + 1
    yield Lines(text[begin:])


def _blocks(raw: io.BufferedReader) -> Iterator[bytes]:
    """The lines of each block of bytes that are no blank; an empty one stands for one too long to hold."""
    begun, too_long, mark = b"", False, codecs.BOM_UTF8
    while block := raw.read(BLOCK):
        if block.endswith(b"\r"):  # the other half of a line's end may follow
            block += raw.read(1)
        if b"\r" in block:  # ends a line as well, with a newline behind it or without
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        text, newline, begun = (begun + block).removeprefix(mark).rpartition(b"\n")
        mark, dropped = b"", too_long and bool(newline)
        if dropped:  # what is left of a line too long
            _, newline, text = text.partition(b"\n")
            too_long = False
        if too_long or len(begun) > LONGEST:
            begun, too_long = b"", True
        # Most texts hold objects alone, none of which is blank.
        if newline and not (text[:1] == b"{" and text.count(b"\n{") == text.count(b"\n")):
            lines = [line for line in text.split(b"\n") if not _blank(line)]
            text, newline = b"\n".join(lines), newline if lines else b""
        if dropped or newline:
            yield b"\n" * dropped + text if newline else b""
    if too_long or not _blank(begun):
        yield b"" if too_long else begun


def _blank(line: bytes) -> bool:
    return line[:1] not in (b"{", b"[") and not line.decode("utf-8", "surrogateescape").strip()


def _bounded(text: io.TextIOWrapper) -> Iterator[tuple[str, str]]:
    """Lines, or of one too long to hold nothing but that."""
    while line := text.readline(LONGEST):
        if len(line) < LONGEST or line.endswith("\n"):
            yield line, ""
            continue
        while (more := text.readline(LONGEST)) and not more.endswith("\n"):
            pass
        yield "", TOO_LONG


def _cells(text: io.TextIOWrapper, delimiter: str, column: str | None) -> Iterator[tuple[str, str]]:
    """The cells of one column, below the header."""
    rows = csv.reader((line for line, _ in _bounded(text)), delimiter=delimiter)
    names = next(rows, None)
    if names is None:
        raise DataError("the file is empty; its first line is to name its columns.")
    at = names.index(_column(names, column))
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as fault:
            yield "", f"broken row ({fault})"
            continue
        if row and at >= len(row):
            yield "", f"{counted(len(row), 'field')}; the header names {len(names)}"
        elif row:
            yield row[at], ""


def _column(names: Sequence[str], asked: str | None) -> str:
    wanted = COLUMN if asked is None else asked
    if asked is None and wanted not in names and len(names) == 1:
        return names[0]
    if list(names).count(wanted) == 1:
        return wanted
    said = "occurs twice" if wanted in names else f"is missing{nearest(wanted, names)}"
    known = ", ".join(names[:10])
    raise DataError(f"column {wanted!r} {said} Columns are {known}; say which: --column NAME.")


def _parquet(path: Path, column: str | None) -> Iterator[Rows]:
    with opened(path, links=True) as raw:
        try:
            with pq.ParquetFile(raw, page_checksum_verification=True) as file:
                total = file.metadata.num_rows
                if not 0 <= total <= MOST_ROWS:
                    raise DataError(f"claims to hold {total:,} rows.")
                name = _column(file.schema_arrow.names, column)
                footer, first = read_footer(path, raw.fileno()), 1
                for group in range(len(footer.groups)):
                    check_pages(path, raw.fileno(), footer, [group], [name])
                    for batch in file.iter_batches(ROWS, [group], [name], use_threads=False):
                        batch.validate(full=True)
                        cells = batch.column(0)
                        yield Rows(False, first, cells, {}, first + len(cells) - 1, total)
                        first += len(cells)
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"cannot be read as Parquet ({error}).") from error


def read_cells(rows: Rows, vocabulary: Vocabulary) -> Read:
    r"""The contexts of these rows, those without a fault in their order.

    >>> rows = Rows(True, 1, Lines(b'["tea", 3]\n{"tokens": []}\n["tea"'))
    >>> read = read_cells(rows, Vocabulary(["tea", 3]))
    >>> read.labels(Vocabulary(["tea", 3])), list(read.faults)
    ([['tea', 3]], [1, 2])
    """
    found = None
    if not rows.faults:
        found = _json_column(rows.cells) if rows.listed else rows.cells
    read = None if found is None or isinstance(found, list) else _read_column(found, vocabulary)
    return _read_each(rows, vocabulary) if read is None else read


def _json_column(lines: Lines) -> Any:
    """Lines of plain objects as an Arrow column of lists of words; None where they are to be read one by one."""
    from pyarrow import json as fast

    # So no object can reach over a line: behind a brace that ends one, none can begin another inside it.
    text, many = lines.text, len(lines)
    if text[:1] != b"{" or text[-1:] != b"}" or text.count(b"}\n{") != many - 1:
        return None
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return None
    schema = pa.schema({COLUMN: pa.list_(pa.string())})
    how = fast.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        table = fast.read_json(
            pa.BufferReader(text),
            fast.ReadOptions(use_threads=False, block_size=len(text) + 1),
            how,
        )
    except pa.ArrowException:  # also tokens that are no words
        return None
    return table[COLUMN].combine_chunks() if len(table) == many else None


def _read_column(column: Any, vocabulary: Vocabulary) -> Read | None:
    """Contexts of an Arrow column of lists; None where there are empty places, or something else than labels."""
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or column.null_count:
        return None
    words, length = column.flatten(), column.value_lengths().to_numpy()
    plain = pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type)
    signed = pa.types.is_signed_integer(kind.value_type)
    if words.null_count or not (plain or signed) or not length.all():
        return None
    ids = vocabulary.column_ids(words)
    at = np.flatnonzero(ids < 0)
    outside = dict(zip(at.tolist(), words.take(pa.array(at)).to_pylist(), strict=True))
    return Read(ids, length.astype(np.int64), outside, {})


def _read_each(rows: Rows, vocabulary: Vocabulary) -> Read:
    """Rows of any kind, one by one."""
    contexts: list[list[Label]] = []
    faults = dict(rows.faults)
    cells = rows.cells if isinstance(rows.cells, list | Lines) else rows.cells.to_pylist()
    for i, cell in enumerate(cells):
        if i in faults:
            continue
        found, typed = _of_json(cell) if rows.listed else _of_cell(cell)
        fault = found if isinstance(found, str) else _fault(found)
        if fault:
            faults[i] = fault
        elif typed:
            contexts.append([x if x in vocabulary else vocabulary.read(x) for x in found])
        else:
            contexts.append(found)  # type: ignore[arg-type]
    flat = list(chain.from_iterable(contexts))
    ids = vocabulary.ids_of(flat)
    outside = {i: flat[i] for i in np.flatnonzero(ids < 0).tolist()}
    return Read(ids, np.array([len(x) for x in contexts], np.int64), outside, faults)


def _of_json(line: bytes) -> tuple[list[Any] | str, bool]:
    """The tokens of a line of JSON, or what is wrong with it; they are not typed words."""
    try:
        value = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as fault:  # broken, absurdly long numbers, absurd nesting
        return f"broken JSON ({cut(str(fault), 80)})", False
    tokens = value.get(COLUMN) if isinstance(value, dict) else value
    if isinstance(tokens, list):
        return tokens, False
    return f'{as_spelled(value)} holds no list of tokens, as {{"tokens": ["a", "b"]}} does', False


def _of_cell(cell: object) -> tuple[list[Any] | str, bool]:
    """The tokens of a cell, or what is wrong with it; and whether they are words as one types them."""
    if isinstance(cell, list) or cell is None:
        return cell or [], False
    if not isinstance(cell, str):
        return f"{cut(repr(cell), 40)} is neither a list nor a text", False
    if cell.lstrip().startswith("["):
        try:
            found = json.loads(cell)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, list):
            return found, False
    return cell.split(), True


def _fault(tokens: list[Any]) -> str:
    """What keeps tokens from being a context, if anything does."""
    if not tokens:
        return EMPTY
    if {*map(type, tokens)} == {str} and is_text("".join(tokens)):  # quickly, of most
        return ""
    wrong = ((x, label_fault(x)) for x in tokens)
    return next((f"token {as_spelled(x)} {why}" for x, why in wrong if why), "")
