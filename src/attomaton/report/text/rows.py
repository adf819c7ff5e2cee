"""Tables of any length as lines of text, made column by column: JSON, one object a row, or CSV."""

import io
import json
from json.encoder import encode_basestring
from typing import Any

from attomaton.report.text.spreadsheets import guarded


def json_lines(table: Any) -> str:
    """A `pyarrow.Table` as JSON, one object a line; empty places are null.

    >>> import pyarrow as pa
    >>> print(json_lines(pa.table({"token": ["tea", None], "p": [0.5, 1.0], "all": [[{"n": 1}], []]})), end="")
    {"token": "tea", "p": 0.5, "all": [{"n": 1}]}
    {"token": null, "p": 1, "all": []}
    """
    import pyarrow.compute as pc

    parts: list[Any] = []
    for i, name in enumerate(table.column_names):
        parts += [f"{', ' if i else '{'}{json.dumps(name)}: ", json_texts(table[name])]
    lines = pc.binary_join_element_wise(*parts, "}\n", "")
    return "".join(lines.to_pylist()) if len(table) else ""


def csv_lines(table: Any, header: bool) -> str:
    """A `pyarrow.Table` as CSV; lists are JSON, empty places empty, and no word is a spreadsheet's formula.

    >>> import pyarrow as pa
    >>> print(csv_lines(pa.table({"token": ["=1", None], "p": [0.5, None], "all": [["a"], None]}), True), end="")
    token,p,all
    "'=1",0.5,"[""a""]"
    ,,
    """
    import pyarrow as pa
    from pyarrow import csv

    columns = {name: _cells(table[name]) for name in table.column_names}
    out = io.BytesIO()
    if header:
        out.write((",".join(table.column_names) + "\n").encode())
    how = csv.WriteOptions(include_header=False, quoting_style="needed")
    csv.write_csv(pa.table(columns), out, how)
    return out.getvalue().decode()


def json_texts(column: Any) -> Any:
    """Every value of a column as JSON, as a column of texts without empty places."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        # By the offsets: an empty place has no room of its own.
        texts = json_texts(column.flatten())
        length = pc.fill_null(pc.list_value_length(column), 0)
        at = pa.array([0, *pc.cumulative_sum(length).to_pylist()], pa.int64())
        inside = pc.binary_join(pa.LargeListArray.from_arrays(at, texts), ", ")
        texts = pc.binary_join_element_wise("[", inside, "]", "")
    elif pa.types.is_struct(kind):
        parts: list[Any] = []
        for i, each in enumerate(kind):
            parts += [f"{', ' if i else '{'}{json.dumps(each.name)}: ", json_texts(column.field(i))]
        texts = pc.binary_join_element_wise(*parts, "}", "")
    elif pa.types.is_boolean(kind):
        texts = pc.if_else(column, "true", "false")
    elif pa.types.is_dictionary(kind) or pa.types.is_string(kind):
        coded = column if pa.types.is_dictionary(kind) else column.dictionary_encode()
        words = pa.array([_as_json(x) for x in coded.dictionary.to_pylist()], pa.string())
        texts = words.take(coded.indices)
    else:
        texts = column.cast(pa.string())
    none = pc.is_null(column)
    return pc.if_else(none, "null", texts)


def _as_json(x: str | int) -> str:
    return encode_basestring(x) if isinstance(x, str) else str(x)


def _cells(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.combine_chunks()
    kind = column.type
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
        coded = column if pa.types.is_dictionary(kind) else column.dictionary_encode()
        words = [str(guarded(x)) for x in coded.dictionary.to_pylist()]
        return pa.array(words, pa.string()).take(coded.indices)
    if not pa.types.is_nested(kind):
        return column
    return pc.if_else(pc.is_null(column), pa.scalar(None, pa.string()), json_texts(column))
