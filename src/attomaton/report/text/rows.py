"""Tables of any length as lines of text, made column by column: JSON, one object a row, or CSV."""

import io
import json
from json.encoder import encode_basestring
from typing import Any

import numpy as np

from attomaton.numerics import row_pointer
from attomaton.report.text.spreadsheets import guarded


def json_lines(table: Any) -> bytes:
    """A `pyarrow.Table` as JSON in UTF-8, one object a line; empty places are null.

    >>> import pyarrow as pa
    >>> table = pa.table({"token": ["tea", None], "p": [0.5, 1.0], "all": [[{"n": 1}], []]})
    >>> print(json_lines(table).decode(), end="")
    {"token": "tea", "p": 0.5, "all": [{"n": 1}]}
    {"token": null, "p": 1, "all": []}
    """
    import pyarrow.compute as pc

    parts: list[Any] = []
    for i, name in enumerate(table.column_names):
        parts += [f"{', ' if i else '{'}{json.dumps(name)}: ", json_texts(table[name])]
    lines = pc.binary_join_element_wise(*parts, "}\n", "")
    return _bytes(lines) if len(table) else b""


def _bytes(texts: Any) -> bytes:
    """Texts one after the other; none of them is an empty place."""
    import pyarrow as pa

    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    at, data = texts.buffers()[1:]
    begin, end = np.frombuffer(at, np.int64 if pa.types.is_large_string(texts.type) else np.int32)[
        [texts.offset, texts.offset + len(texts)]
    ]
    return data.slice(int(begin), int(end - begin)).to_pybytes()


def csv_lines(table: Any, header: bool) -> bytes:
    """A `pyarrow.Table` as CSV in UTF-8; lists are JSON, empty places empty, and no word is a spreadsheet's formula.

    >>> import pyarrow as pa
    >>> table = pa.table({"token": ["=1", None], "p": [0.5, None], "all": [["a"], None]})
    >>> print(csv_lines(table, True).decode(), end="")
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
    return out.getvalue()


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
        at = pa.array(row_pointer(length.to_numpy()))
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
        texts = _quoted(coded.dictionary).take(coded.indices)
    else:
        texts = column.cast(pa.string())
    return pc.if_else(pc.is_null(column), "null", texts) if column.null_count else texts


def _quoted(words: Any) -> Any:
    """Words or numbers as JSON."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(words.type):
        return words.cast(pa.string())
    texts = pc.binary_join_element_wise('"', words, '"', "")
    hard = pc.match_substring_regex(words, r'["\\\x00-\x1f]')
    spelled = [encode_basestring(x) for x in words.filter(hard).to_pylist()]
    return pc.replace_with_mask(texts, hard, pa.array(spelled, pa.string())) if spelled else texts


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
