"""Event logs: tables with one event a row, read as one sequence of items for each user, session or case."""

import shlex
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.lazily import pa, pc
from attomaton.base.shapes import Float, Int
from attomaton.corpus.files import SEPARATED, other_delimiter
from attomaton.corpus.guesses import Guess, family_columns
from attomaton.corpus.ordering import Ordering, as_in_the_file, described, likely, ranked
from attomaton.corpus.reading import Reading
from attomaton.corpus.tables import as_text, csv_table, first_rows, parquet_table
from attomaton.corpus.times import python_values
from attomaton.corpus.vocabulary import INTEGER, Label, Vocabulary, outside, unknown_tokens
from attomaton.corpus.windows import Windows, windows_from_streams
from attomaton.corpus.xes import xes_table
from attomaton.disk.doors import data_stream
from attomaton.errors import DataError, counted, listed, nearest, visible
from attomaton.numerics import row_pointer

SAMPLE = 1000  # rows looked at to tell what a column holds


def read_events(
    path: Path, format: str, reading: Reading, vocabulary: Vocabulary | None
) -> Windows:
    """The windows of an event log: see `windows_from_events`."""
    if not path.is_file():
        raise DataError(
            "an event log is read more than once, and a pipe cannot be; save it as a file."
        )
    try:
        table, columns = _read_table(path, format, reading)
    except (ValueError, KeyError, pa.ArrowException) as fault:
        hint = other_delimiter(path, reading.separator(format)) if format in SEPARATED else ""
        raise DataError(f"{_unreadable(fault)}{hint}") from None
    windows = windows_from_events(table, columns, reading, vocabulary)
    return replace(windows, noun="event") if format == "xes" else windows


def windows_from_events(
    table: Any, found: "Columns", reading: Reading, vocabulary: Vocabulary | None
) -> Windows:
    """The windows of an Arrow table with one event a row; `found` says which column plays each role.

    Sequences come in the order of their first events, those that begin together by name, so that the rows of a log may
    stand in any order; without an order column, as the table has them (`found.ordering` says so).
    """
    log = events_of(table, found, reading)
    if log.length.max() < 2:
        raise DataError(
            "every sequence is a single event, so no event has a context. "
            f"Does column {found.name['sequence']!r} name the sequence?"
        )
    ids = log.ids
    if vocabulary is None:
        vocabulary = Vocabulary(log.labels)
    else:
        ids = vocabulary.ids_of(log.labels).astype(np.int32)[ids]
        if len(strange := np.flatnonzero(ids < 0)):
            places = ((log.labels[log.ids[i]], f"row {log.row[i] + 1}") for i in strange)
            raise DataError(unknown_tokens([outside(x, at, vocabulary) for x, at in places]))
    windows = windows_from_streams(
        vocabulary, ids, row_pointer(log.length), reading.window, partial=True
    )
    return replace(
        windows, noun="row", numbers=log.row + 1, ordering=log.ordering, guesses=found.guesses,
        names=np.array([str(x) for x in log.names], dtype=object), span=log.span,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Events:
    """The events of a table, one sequence after the other, each in its order: items `labels[ids]`."""

    labels: list[Label]
    ids: Int[np.ndarray, " events"]
    row: Int[np.ndarray, " events"]  # where each stands in the table, from 0
    length: Int[np.ndarray, " sequences"]
    names: list[Any]
    span: Float[np.ndarray, "sequences 2"] | None  # first and last place by the order column
    ordering: Ordering | None


def events_of(table: Any, found: "Columns", reading: Reading) -> Events:
    """The events of an Arrow table, put in order."""
    name, ordering = found.name, found.ordering
    try:
        if not table.num_rows:
            raise DataError("no events: the file has no rows.")
        columns = {role: _plain(table.column(column)) for role, column in name.items()}
        _check_filled(columns, name)
        coded = columns["sequence"].dictionary_encode()  # by first appearance
        group, names = coded.indices.to_numpy().astype(np.int64), coded.dictionary
        span = None
        if "order" in columns:
            by = ranked(columns["order"], name["order"], reading.dates, group)
            # Sequences come by their first event, then by name.
            begin = np.full(len(names), len(group) + 1)
            np.minimum.at(begin, group, by.rank)
            order = np.lexsort((pc.rank(names, tiebreaker="first").to_numpy(), begin))
            names, group = names.take(pa.array(order)), np.argsort(order)[group]
            at = np.lexsort((by.rank, group))  # stable: ties keep the file's order
            if by.place is not None:
                end = np.cumsum(np.bincount(group))
                span = by.place[at][np.stack([np.append(0, end[:-1]), end - 1], axis=1)]
            ordering = described(by, columns["order"], name["order"], at, group)
        else:
            at = np.argsort(group, kind="stable")
        items = columns["item"].take(pa.array(at))
        if not pa.types.is_integer(items.type):
            items = items.cast(pa.large_string())
        coded = items.dictionary_encode()  # by first appearance, as everywhere
    except (ValueError, KeyError, pa.ArrowException) as fault:
        raise _unreadable(fault) from None
    labels, ids = coded.dictionary.to_pylist(), coded.indices.to_numpy()
    return Events(labels, ids, at, np.bincount(group), python_values(names), span, ordering)


def _unreadable(fault: Exception) -> DataError:
    """The error about a table; one that already says what is wrong stays as it is."""
    if isinstance(fault, DataError):
        return fault
    return DataError(f"cannot be read as an event log: {fault}")


@dataclass(frozen=True)
class Columns:
    """The name of the column that plays each role, which of them nobody said, and the order where none plays that."""

    name: dict[str, str]
    guesses: tuple[Guess, ...] = ()
    ordering: Ordering | None = None


def _read_table(path: Path, format: str, reading: Reading) -> tuple[Any, Columns]:
    """The columns an event log needs, and which of them plays which role."""
    chosen: list[Columns] = []

    def choose(found: list[str]) -> Collection[str]:
        chosen.append(column_names(reading.columns, found))
        return chosen[-1].name.values()

    look: Callable[[], Any]
    if format == "parquet":
        table, names = parquet_table(path, choose)
        look = partial(first_rows, path, SAMPLE)
    elif format == "xes":
        table, names = xes_table(path, choose)
        look = partial(table.slice, 0, 0)
    else:
        parse = csv_options(reading, format)
        table, names = csv_table(path, parse, choose)
        look = partial(first_lines, path, parse, SAMPLE)
    found = chosen[-1]
    if format != "parquet":  # which knows what is a number
        place = table.schema.get_field_index(found.name["item"])
        items = table.column(place)
        whole = pc.all(pc.match_substring_regex(items, INTEGER), min_count=1)
        if whole.as_py():
            table = table.set_column(place, found.name["item"], items.cast(pa.int64()))
    return table, replace(found, ordering=as_in_the_file(names, look, found.name))


def csv_options(reading: Reading, format: str) -> Any:
    """How a table in text is cut."""
    from pyarrow import csv

    return csv.ParseOptions(delimiter=reading.separator(format), newlines_in_values=True)


def first_lines(path: Path, parse: Any, rows: int) -> Any:
    """The first rows of a table in text, as text; columns that share a name are left out."""
    from pyarrow import csv

    with data_stream(path) as raw, csv.open_csv(raw, parse_options=parse) as file:
        names = file.schema.names
    once = [x for x in names if names.count(x) == 1]
    with (
        data_stream(path) as raw,
        csv.open_csv(raw, parse_options=parse, convert_options=as_text(once)) as file,
    ):
        return pa.Table.from_batches(
            [batch.slice(0, rows) for batch in islice(file, 1)], file.schema
        )


def column_names(asked: dict[str, str | None], found: list[str]) -> Columns:
    """Which column plays each role; `order` plays none where nobody asked for it or has it.

    Where columns are not called after their roles, the names that process mining gives them are known.
    """
    name = {role: column or role for role, column in asked.items()}
    missing = {role for role in ("sequence", "item") if asked[role] is None and role not in found}
    guesses = family_columns(asked, found) if missing else ()
    name |= {guess.option: guess.value for guess in guesses}
    if asked["order"] is None and name["order"] not in found:
        del name["order"]
    faults = []
    for role, column in name.items():
        if column not in found:
            faults.append(f"no column {column!r} for the {role}{nearest(column, found)}")
        elif found.count(column) > 1:
            faults.append(f"{found.count(column)} columns are called {column!r}.")
    if faults:
        known = ", ".join(visible(x) or "''" for x in found)
        cure = f"Columns found: {known}. Name yours with --sequence, --item, --order."
        cure += _suggested(asked, found)
        raise DataError(listed(f"{counted(len(faults), 'fault')}:", faults, cure))
    return Columns(name, guesses)


def _suggested(asked: dict[str, str | None], found: list[str]) -> str:
    """Options that name the columns, where their names tell which is which."""
    options, taken = [], {x for x in asked.values() if x is not None}
    for role, given in asked.items():
        free = [x for x in found if x not in taken and found.count(x) == 1]
        column = given if given in found else role if role in free else likely(role, free)
        if column is None:
            if role != "order":
                return ""
        elif column != role:
            options += [f"--{role}", shlex.quote(column)]
            taken.add(column)
    return f" Probably: {' '.join(options)}" if options else ""


def _check_filled(columns: dict[str, Any], name: dict[str, str]) -> None:
    """No event may lack its sequence, its item or its place."""
    faults = []
    for role, column in columns.items():
        empty = pc.indices_nonzero(pc.is_null(column, nan_is_null=True)).to_pylist()
        faults += [(row, f"row {row + 1}: no {role} in column {name[role]!r}") for row in empty]
    if faults:
        heading = f"{counted(len(faults), 'empty field')} (the first event is row 1):"
        lines = [fault for _, fault in sorted(faults, key=lambda fault: fault[0])]
        raise DataError(listed(heading, lines, "Fill them or drop the rows."))


def _plain(column: Any) -> Any:
    """A column as one array of plain values, dictionary codes undone, text as text."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if str(column.type) in ("binary", "large_binary", "binary_view", "string_view"):
        column = column.cast(pa.large_string())
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
