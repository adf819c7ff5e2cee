"""Files of contexts to ask a model about: read a few thousand rows at a time, a bad row never losing the others.

    .jsonl      {"tokens": ["a", "b"]} a line (other keys are passed over), or the list alone
    .csv .tsv   a column `tokens`: words with spaces between them, or a list in JSON
    .parquet    a column `tokens`: lists of strings or integers, or texts as above
    others      plain text: a context a line, words with spaces between them

Words are read as on the command line (a number where the vocabulary holds that), lists keep their types.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attomaton.corpus.files import changed, check_content, format_of, identity
from attomaton.corpus.tables import LONGEST, MOST_ROWS
from attomaton.corpus.vocabulary import Label, Vocabulary, as_spelled, is_text, label_fault
from attomaton.disk.doors import data_stream, is_packed, opened
from attomaton.disk.pages import check_pages, read_footer
from attomaton.errors import DataError, UsageError, counted, cut, nearest

ROWS = 10_000  # answered together
LETTERS = 1 << 24  # of their text, at most, but for a single row that is longer
COLUMN = "tokens"
EMPTY = "no tokens: a context needs at least one"


@dataclass(frozen=True)
class Rows:
    """Some rows as the file has them; `faults` are those that could not even be cut out, by place among them.

    `done` of `total` were read so far: bytes, or rows of Parquet; of pipes and compressed files nobody knows
    the total (0).
    """

    listed: bool  # a row is a line of JSON; else a cell, words or a list
    first: int  # the number of the first, from 1
    cells: list[Any]
    faults: dict[int, str] = field(default_factory=dict)
    done: int = 0
    total: int = 0


def context_rows(
    path: Path, format: str | None = None, column: str | None = None
) -> Iterator[Rows]:
    """The rows of a file of contexts, some at a time; a file that changes meanwhile is a `DataError`."""
    if not path.exists() or path.is_dir():
        what = "a directory, not a file" if path.is_dir() else "no such file"
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise DataError(f"{path}: {what}{nearest(path.name, beside)}")
    kind = format_of(path, format)
    if column is not None and kind in ("jsonl", "text"):
        raise UsageError(f"--column: {kind} has no columns.")
    before = identity(path)
    try:
        check_content(path, format)
        if kind == "parquet":
            yield from _parquet(path, column)
        else:
            with data_stream(path) as raw:
                yield from _texts(raw, path, kind, column)
    except DataError as fault:
        said = str(fault)
        raise DataError(said if said.startswith(f"{path}:") else f"{path}: {said}") from None
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault.strerror or fault}") from None
    if before is not None and identity(path) != before:
        raise DataError(f"{path}: {changed()}")


def _texts(raw: io.BufferedReader, path: Path, kind: str, column: str | None) -> Iterator[Rows]:
    """Rows of lines or of separated values. Bytes that are no UTF-8 make a bad row, not a bad file."""
    total = path.stat().st_size if path.is_file() and not is_packed(path) else 0
    table = kind in ("csv", "tsv")
    newline = "" if table else None
    first, held, letters, faults = 1, list[str](), 0, dict[int, str]()
    with io.TextIOWrapper(raw, "utf-8-sig", "surrogateescape", newline) as text:
        lines = _lines(text, blank=kind == "text")
        for cell, fault in _cells(text, "," if kind == "csv" else "\t", column) if table else lines:
            if fault:
                faults[len(held)] = fault
            held.append(cell)
            letters += len(cell)
            if len(held) == ROWS or letters > LETTERS:
                done = raw.tell() if total else 0
                yield Rows(kind == "jsonl", first, held, faults, done, total)
                first, held, letters, faults = first + len(held), [], 0, {}
    if held:
        yield Rows(kind == "jsonl", first, held, faults, total, total)


def _bounded(text: io.TextIOWrapper) -> Iterator[tuple[str, str]]:
    """Lines, or of one too long to hold nothing but that."""
    while line := text.readline(LONGEST):
        if len(line) < LONGEST or line.endswith("\n"):
            yield line, ""
            continue
        while (more := text.readline(LONGEST)) and not more.endswith("\n"):
            pass
        yield "", f"a line of more than {LONGEST:,} characters"


def _lines(text: io.TextIOWrapper, blank: bool) -> Iterator[tuple[str, str]]:
    for line, fault in _bounded(text):
        if fault or blank or not line.isspace():
            yield line, fault


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
    import pyarrow as pa
    from pyarrow import parquet

    with opened(path, links=True) as raw:
        try:
            with parquet.ParquetFile(raw, page_checksum_verification=True) as file:
                total = file.metadata.num_rows
                if not 0 <= total <= MOST_ROWS:
                    raise DataError(f"claims to hold {total:,} rows.")
                name = _column(file.schema_arrow.names, column)
                footer, first = read_footer(path, raw.fileno()), 1
                for group in range(len(footer.groups)):
                    check_pages(path, raw.fileno(), footer, [group], [name])
                    for batch in file.iter_batches(ROWS, [group], [name], use_threads=False):
                        batch.validate(full=True)
                        cells = batch.column(0).to_pylist()
                        yield Rows(False, first, cells, {}, first + len(cells) - 1, total)
                        first += len(cells)
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"cannot be read as Parquet ({error}).") from error


def read_cells(rows: Rows, vocabulary: Vocabulary) -> tuple[list[list[Label]], dict[int, str]]:
    """The contexts of these rows, those without a fault in their order; and the faults, by place among all of them.

    >>> rows = Rows(True, 1, ['["tea", 3]', '{"tokens": []}', '["tea"'])
    >>> contexts, faults = read_cells(rows, Vocabulary(["tea", 3]))
    >>> contexts, list(faults)
    ([['tea', 3]], [1, 2])
    """
    contexts: list[list[Label]] = []
    faults = dict(rows.faults)
    for i, cell in enumerate(rows.cells):
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
    return contexts, faults


def _of_json(line: str) -> tuple[list[Any] | str, bool]:
    """The tokens of a line of JSON, or what is wrong with it; they are not typed words."""
    try:
        value = json.loads(line)
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
