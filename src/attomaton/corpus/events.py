"""Event logs: tables with one event a row, read as one sequence of items for each user, session or case."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from attomaton.corpus.text import decoded
from attomaton.corpus.vocabulary import INTEGER, Label, Vocabulary, outside, unknown_tokens
from attomaton.corpus.windows import Windows, windows_from_streams
from attomaton.errors import DataError, counted, listed, nearest
from attomaton.numerics import row_pointer

EVENTS = (".csv", ".tsv", ".parquet")
MOST_ROWS = 1 << 31  # of a Parquet file: a small file may claim to hold any number
_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"


def read_events(
    path: Path, context: int, asked: dict[str, str | None], vocabulary: Vocabulary | None
) -> Windows:
    """The windows of an event log; `asked` names the columns that play the roles sequence, item and order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        table, name = _read_table(path, asked)
        if not table.num_rows:
            raise DataError("no events: the file has no rows.")
        columns = {role: _plain(table.column(column)) for role, column in name.items()}
        if "order" in columns:
            columns["order"] = _sortable(columns["order"], name["order"])
        _check_filled(columns, name)
        group = columns["sequence"].dictionary_encode().indices  # by first appearance
        keys = pa.table({"group": group, "order": columns.get("order", group)})
        sort = [("group", "ascending"), ("order", "ascending")]
        at = pc.sort_indices(keys, sort_keys=sort)  # stable: ties keep the file's order
        items = columns["item"].take(at)
        if not pa.types.is_integer(items.type):
            items = items.cast(pa.large_string())
        coded = items.dictionary_encode()  # by first appearance, as everywhere
    except DataError:
        raise
    except (ValueError, KeyError, pa.ArrowException) as fault:
        raise DataError(f"cannot be read as an event log: {fault}") from None
    length = np.bincount(group.to_numpy())
    if length.max() < 2:
        raise DataError(
            "every sequence is a single event, so no event has a context. "
            f"Does column {name['sequence']!r} name the sequence?"
        )
    labels, ids = coded.dictionary.to_pylist(), coded.indices.to_numpy()
    if vocabulary is None:
        vocabulary = Vocabulary(labels)
    else:
        ids = _known_ids(vocabulary, labels, ids, at.to_numpy().astype(np.int64))
    return windows_from_streams(vocabulary, ids, row_pointer(length), context, partial=True)


def _known_ids(
    vocabulary: Vocabulary,
    labels: list[Label],
    code: Int[np.ndarray, " events"],
    row: Int[np.ndarray, " events"],
) -> Int[np.ndarray, " events"]:
    """Ids in a given vocabulary of the items `labels[code]`, which stand at the file's rows `row`."""
    known = [vocabulary.id_of(label) for label in labels]
    strange = np.flatnonzero(np.array([i is None for i in known])[code])
    if len(strange):
        places = [(labels[code[i]], f"row {row[i] + 1}") for i in strange]
        raise DataError(unknown_tokens([outside(x, place, vocabulary) for x, place in places]))
    return np.array(known, dtype=np.int32)[code]


def _read_table(path: Path, asked: dict[str, str | None]) -> tuple[Any, dict[str, str]]:
    """The columns an event log needs, and the name of the column that plays each role."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    if path.suffix.lower() == ".parquet":
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            if not 0 <= file.metadata.num_rows <= MOST_ROWS:
                raise DataError(f"claims to hold {file.metadata.num_rows:,} events.")
            name = _column_names(asked, file.schema_arrow.names)
            table = file.read(columns=sorted(set(name.values())))
            table.validate(full=True)  # Parquet may call any bytes a text
            return table, name
    # Read once to be sure that it is text, with the place where it is not.
    if all([not text or text.isspace() for text in decoded(path)]):
        raise DataError("no events: the file is empty.")
    parse = csv.ParseOptions(
        delimiter="\t" if path.suffix.lower() == ".tsv" else ",", newlines_in_values=True
    )
    with csv.open_csv(path, parse_options=parse) as file:
        name = _column_names(asked, file.schema.names)
    wanted = sorted(set(name.values()))
    # As text first: a guessed type would turn the words NA and 1.0 into something else.
    convert = csv.ConvertOptions(
        include_columns=wanted,
        column_types=dict.fromkeys(wanted, pa.large_string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    table = csv.read_csv(path, parse_options=parse, convert_options=convert)
    column = table.schema.get_field_index(name["item"])
    return table.set_column(column, name["item"], _integers(table.column(column))), name


def _column_names(asked: dict[str, str | None], found: list[str]) -> dict[str, str]:
    """Which column plays each role; `order` plays none where nobody asked for it or has it."""
    name = {role: column or role for role, column in asked.items()}
    if asked["order"] is None and "order" not in found:
        del name["order"]
    faults = []
    for role, column in name.items():
        if column not in found:
            faults.append(f"no column {column!r} for the {role}{nearest(column, found)}")
        elif found.count(column) > 1:
            faults.append(f"{found.count(column)} columns are called {column!r}.")
    if faults:
        cure = f"Columns found: {', '.join(found)}. Name yours with --sequence, --item, --order."
        raise DataError(listed(f"{counted(len(faults), 'fault')}:", faults, cure))
    return name


def _check_filled(columns: dict[str, Any], name: dict[str, str]) -> None:
    """No event may lack its sequence, its item or its place."""
    import pyarrow.compute as pc

    faults = []
    for role, column in columns.items():
        empty = pc.indices_nonzero(pc.is_null(column, nan_is_null=True)).to_pylist()
        faults += [(row, f"row {row + 1}: no {role} in column {name[role]!r}") for row in empty]
    if faults:
        heading = f"{counted(len(faults), 'empty field')} (the first event is row 1):"
        lines = [fault for _, fault in sorted(faults, key=lambda fault: fault[0])]
        raise DataError(listed(heading, lines, "Fill them or drop the rows."))


def _plain(column: Any) -> Any:
    """A column as one array of plain values, dictionary codes undone."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _is_text(column: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_string(column.type) or pa.types.is_large_string(column.type)


def _integers(column: Any) -> Any:
    """A text column as integers where it holds nothing else."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count == len(column):
        return column
    integral = pc.all(pc.match_substring_regex(column, INTEGER)).as_py()
    return column.cast(pa.int64()) if integral else column


def _sortable(column: Any, name: str) -> Any:
    """An order column whose sorting is what its reader expects: 9 before 10, even as text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _is_text(column):
        return column
    whole = _integers(column)
    if not _is_text(whole):
        return whole
    number = pc.match_substring_regex(column, _NUMBER)
    if pc.all(number, min_count=1).as_py():
        return pc.utf8_trim_whitespace(column).cast(pa.float64())
    if pc.any(number).as_py():
        row = pc.index(number, False).as_py()
        raise DataError(
            f"column {name!r} mixes numbers and text, so it gives no order: "
            f"row {row + 1} has {column[row].as_py()!r}. Mend it or name another --order."
        )
    return column
