"""The table behind an event log, loaded with suspicion: texts of bounded length, memory that is known before."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.lazily import pa, pc, pq
from attomaton.corpus.text import decoded
from attomaton.disk.doors import check_memory, data_stream, opened
from attomaton.disk.pages import Taken, check_pages, read_footer
from attomaton.errors import DataError

MOST_ROWS = 1 << 31  # of a Parquet file: a small file may claim to hold any number
LONGEST = 1 << 26  # characters of a text in a table, or of a line
# Bytes of texts that are decoded together where their lengths are not known before
TOGETHER = 1 << 26

# Which of the columns found are needed, or an error
Choose = Callable[[list[str]], Collection[str]]


def parquet_table(path: Path, choose: Choose) -> tuple[Any, list[str]]:
    """The chosen columns of a Parquet file, its texts as numbers in dictionaries; and the names of all columns."""
    with opened(path, links=True) as raw:
        with pq.ParquetFile(raw) as file:
            rows, schema = file.metadata.num_rows, file.schema_arrow
        if not 0 <= rows <= MOST_ROWS:
            raise DataError(f"claims to hold {rows:,} events.")
        wanted = sorted(set(choose(schema.names)))
        texts = [name for name in wanted if _is_text(schema.field(name).type)]
        footer = read_footer(path, raw.fileno())
        longest = check_pages(path, raw.fileno(), footer, columns=wanted, coded=texts)
        if longest:
            table = _in_pieces(path, raw, wanted, longest)
        else:
            # As numbers in a dictionary, a long text that stands in every row takes its room once.
            with _parquet(raw, texts) as file:
                table = file.read(columns=wanted)
        table.validate(full=True)  # Parquet may call any bytes a text
        _check_texts(path, table, raw.seek(0, 2))
        return table, schema.names


def first_rows(path: Path, rows: int) -> Any:
    """The first rows of a Parquet file, of those columns of plain values that take little memory."""
    with opened(path, links=True) as raw:
        with pq.ParquetFile(raw) as file:
            schema = file.schema_arrow
        flat = [
            x for x in schema if schema.names.count(x.name) == 1 and not pa.types.is_nested(x.type)
        ]
        texts = [x.name for x in flat if _is_text(x.type)]
        footer, taken, fine = read_footer(path, raw.fileno()), Taken(), []
        for name in (x.name for x in flat if footer.groups):
            before = taken.memory
            try:
                long = check_pages(path, raw.fileno(), footer, [0], [name], texts, taken)
            except DataError:
                long = 1
            if long:
                taken.memory = before
            else:
                fine.append(name)
        with _parquet(raw, [name for name in texts if name in fine]) as file:
            batch = next(file.iter_batches(rows, columns=fine, use_threads=False), None)
        if batch is None:
            return pa.table({})
        table, kept = pa.Table.from_batches([batch]), {}
        table.validate(full=True)
        for name, column in zip(table.column_names, table.columns, strict=True):
            coded = pa.types.is_dictionary(column.type)
            try:
                _check_texts(path, table.select([name]), 0)
            except DataError:
                continue
            kept[name] = column.cast(column.type.value_type) if coded else column
        return pa.table(kept)


def _parquet(raw: Any, texts: list[str]) -> Any:
    return pq.ParquetFile(raw, read_dictionary=texts, page_checksum_verification=True)


def _in_pieces(path: Path, raw: Any, wanted: list[str], longest: int) -> Any:
    """A table whose texts say how they begin like the ones before them: few rows at a time, and what they take."""
    size, held, batches = raw.seek(0, 2), 0, []
    with pq.ParquetFile(raw, page_checksum_verification=True) as file:
        rows = max(1, min(1 << 16, TOGETHER // longest))
        for batch in file.iter_batches(rows, columns=wanted, use_threads=False):
            batches.append(batch)
            held += batch.nbytes
            check_memory(path, held, size)
        kinds = [file.schema_arrow.field(name) for name in wanted]
    return pa.Table.from_batches(batches, batches[0].schema if batches else pa.schema(kinds))


def _check_texts(path: Path, table: Any, size: int) -> None:
    """Refuse texts that are too long, or too many once each stands in its row."""
    needed = 0
    for name in table.column_names:
        for chunk in table[name].chunks:
            coded = pa.types.is_dictionary(chunk.type)
            texts = chunk.dictionary if coded else chunk
            if not _is_text(texts.type) or not len(texts):
                continue
            length = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
            if length.max() > LONGEST:
                raise DataError(
                    f"column {name!r} holds a text of {length.max():,} bytes; at most {LONGEST:,}."
                )
            if coded:
                used = chunk.indices.drop_null().to_numpy()
                needed += int(np.bincount(used, minlength=len(length)) @ length.astype(np.int64))
    check_memory(path, needed, size)


def _is_text(kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return str(kind) in ("string", "large_string", "binary", "large_binary")


def csv_table(path: Path, parse: Any, choose: Choose) -> tuple[Any, list[str]]:
    """The chosen columns of a file of separated values, all of them as texts; and the names of all columns."""
    from pyarrow import csv

    # Read once to be sure that it is text, with the place where it is not.
    blank, rows, letters = True, 0, 0
    for text in decoded(path):
        blank = blank and (not text or text.isspace())
        rows += text.count("\n")
        letters += len(text)
    if blank:
        raise DataError("no events: the file is empty.")
    with data_stream(path) as raw, csv.open_csv(raw, parse_options=parse) as file:
        names = file.schema.names
    wanted = sorted(set(choose(names)))
    check_memory(path, max(path.stat().st_size, letters) + 8 * rows * len(wanted))
    with data_stream(path) as raw:
        return csv.read_csv(raw, parse_options=parse, convert_options=as_text(wanted)), names


def as_text(columns: list[str]) -> Any:
    """Columns as text first: a guessed type would turn the words NA and 1.0 into something else."""
    from pyarrow import csv

    return csv.ConvertOptions(
        include_columns=columns,
        column_types=dict.fromkeys(columns, pa.large_string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
