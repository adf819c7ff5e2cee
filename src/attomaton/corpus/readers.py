"""Files -> `Windows` and `Samples`: rows of contexts, plain text and event logs, told apart by their suffix.

Everything a file can get wrong is said at once, with its line or row, before any sample is built.
"""

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from attomaton.corpus.samples import Samples
from attomaton.corpus.vocabulary import Label, Vocabulary, encode
from attomaton.corpus.windows import Windows, windows_from_sequences, windows_from_streams
from attomaton.errors import DataError, UsageError, listed, nearest
from attomaton.numerics import row_pointer

ROWS = (".jsonl", ".ndjson")
EVENTS = (".csv", ".tsv", ".parquet")
KEYS = ("tokens", "next", "weight")
EOS = "<eos>"  # what a line end in plain text becomes

# Digits that say a number and nothing else: `007` is a code and stays a word.
_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"
_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"


def read_windows(
    path: str | os.PathLike[str],
    *,
    context: int | None = None,
    sequence: str | None = None,
    item: str | None = None,
    order: str | None = None,
    vocabulary: Vocabulary | None = None,
) -> Windows:
    """The contexts of a file; its suffix says how it is read.

    - `.jsonl`, `.ndjson`: one object `{"tokens": [...], "next": ..., "weight": ...}` a line, with
      weight 1 where none is given. The rows are contexts already: `context` has no place here.
    - `.csv`, `.tsv`, `.parquet`: an event log. `sequence`, `item` and `order` name its columns (by
      default they are called just that). Events are sorted by `order` inside their sequence,
      numbers by size and anything else as text; without such a column the file's order counts. A
      label's context is the up to `context` events before it in its sequence. Integer items stay
      integers.
    - anything else: plain text, one stream of words with `<eos>` for each line end, cut into
      windows of `context` words.

    A `vocabulary` fixes the ids and no token may lie outside it. Words of a plain text that it does
    not hold are then read as integers where they look like one, and line ends are mere white space
    unless it holds `<eos>`.
    """
    path = Path(path)
    columns = {"sequence": sequence, "item": item, "order": order}
    try:
        _check_exists(path)
        _check_options(path, context, columns)
        suffix = path.suffix.lower()
        if suffix in ROWS:
            return _read_rows(path, vocabulary)
        assert context is not None  # checked above
        if suffix in EVENTS:
            return _read_events(path, context, columns, vocabulary)
        return _read_text(path, context, vocabulary)
    except DataError as fault:
        raise DataError(f"{path}: {fault}") from None
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault.strerror or fault}") from None


def read_samples(path: str | os.PathLike[str], **reading: Any) -> Samples:
    """The samples of a file: its realizable windows as merged bags, read as `read_windows` says."""
    windows = read_windows(path, **reading)
    try:
        return windows.samples()
    except DataError as fault:
        raise DataError(f"{path}: {fault}") from None


def write_jsonl(samples: Samples, path: str | os.PathLike[str]) -> Path:
    """Samples as a `.jsonl` file, one distinct sample a line; returns the path for `read_samples`.

    A bag has no order, so its tokens come by id and the last token last. Samples set aside are not
    written.
    """
    path = Path(path)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for i in range(len(samples)):
            bag, last = samples.bag(i), samples.vocabulary[samples.last[i]]
            bag[last] -= 1
            tokens = [x for x, m in bag.items() for _ in range(m)]
            weight = float(samples.weight[i])
            row = {
                "tokens": [*tokens, last],
                "next": samples.vocabulary[samples.label[i]],
                "weight": int(weight) if weight.is_integer() else weight,
            }
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return path


# What every file has to pass


def _check_exists(path: Path) -> None:
    if path.is_dir():
        raise DataError("a directory, not a file; name one file in it.")
    if not path.exists():
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise DataError(f"no such file{nearest(path.name, beside)}")


def _check_options(path: Path, context: int | None, columns: dict[str, str | None]) -> None:
    """Whether the options make sense for this kind of file."""
    suffix = path.suffix.lower()
    named = [f"--{role}" for role, name in columns.items() if name is not None]
    if named and suffix not in EVENTS:
        raise UsageError(
            f"{path}: {', '.join(named)} names a column, and only event logs "
            f"({', '.join(EVENTS)}) have columns."
        )
    if suffix in ROWS:
        if context is not None:
            raise UsageError(
                f"{path}: --context {context} has no meaning here, the rows of a {suffix} file "
                "already are contexts. Leave it out."
            )
    elif context is None:
        kind = "an event log" if suffix in EVENTS else "plain text"
        raise UsageError(f"{path}: {kind} is cut into contexts of N tokens; say --context N.")
    elif context < 1:
        raise UsageError(f"{path}: --context must be at least 1, not {context}.")


def _decoded(raw: bytes) -> str:
    """The text in a file's bytes, without a byte-order mark."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise DataError(
            f"not UTF-8 text: byte 0x{raw[fault.start]:02x} at offset {fault.start}. "
            "Save it as UTF-8."
        ) from None
    if "\0" in text:
        raise DataError(f"not text: a zero byte at offset {raw.index(0)}.")
    return text.removeprefix("\ufeff")


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


# Tokens of a given vocabulary


def _outside(token: Label, place: str, vocabulary: Vocabulary) -> str:
    """The fault of a token that the vocabulary does not hold."""
    K = len(vocabulary)
    if vocabulary.labels == tuple(range(K)):
        return (
            f"token {token!r} at {place}: the embeddings have {K} rows, so tokens are 0 … {K - 1}"
        )
    return f"token {token!r} at {place}: not among the {K} tokens of the vocabulary"


def _ids(
    labels: Sequence[Label],
    vocabulary: Vocabulary | None,
    noun: str,
    number: Int[np.ndarray, " tokens"],
) -> tuple[Vocabulary, Int[np.ndarray, " tokens"]]:
    """Ids of the labels; `labels[i]` stands at line or row (`noun`) `number[i]`."""
    if vocabulary is None:
        return encode(labels)
    ids = [vocabulary.id_of(x) for x in labels]
    faults = [
        _outside(labels[i], f"{noun} {number[i]}", vocabulary)
        for i, found in enumerate(ids)
        if found is None
    ]
    if faults:
        raise DataError(_unknown(faults))
    return vocabulary, np.array(ids, dtype=np.int64)


def _unknown(faults: list[str]) -> str:
    heading = f"{_count(len(faults), 'token')} outside the vocabulary:"
    return listed(heading, faults, "Name only tokens of the vocabulary.")


# Rows of contexts


def _read_rows(path: Path, vocabulary: Vocabulary | None) -> Windows:
    rows: list[dict[str, Any]] = []
    faults: list[str] = []
    unknown: list[str] = []
    for number, line in enumerate(_decoded(path.read_bytes()).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as fault:
            faults.append(f"line {number}: broken JSON ({fault.msg}, column {fault.colno})")
            continue
        except (ValueError, RecursionError) as fault:  # absurdly long numbers, absurd nesting
            faults.append(f"line {number}: broken JSON ({fault})")
            continue
        wrong = [f"line {number}: {fault}" for fault in _row_faults(row)]
        if vocabulary is not None and not wrong:
            tokens = dict.fromkeys([*row["tokens"], row["next"]])
            place = f"line {number}"
            unknown += [_outside(x, place, vocabulary) for x in tokens if x not in vocabulary]
        faults += wrong
        rows.append(row)
    if faults:
        cure = 'A row reads {"tokens": ["a", "b"], "next": "a"}, with "weight" if it is not 1.'
        faults += unknown
        raise DataError(listed(f"{_count(len(faults), 'fault')}:", faults, cure))
    if unknown:
        raise DataError(_unknown(unknown))
    if not rows:
        raise DataError("no rows: the file is empty.")
    return windows_from_sequences(
        [row["tokens"] for row in rows],
        [row["next"] for row in rows],
        [float(row.get("weight", 1)) for row in rows],
        vocabulary,
    )


def _row_faults(row: object) -> Iterator[str]:
    """What keeps one parsed line from being a sample."""
    if not isinstance(row, dict):
        yield f"{_shown(row)} is not an object"
        return
    for key in row:
        if key not in KEYS:
            near = nearest(key, KEYS)
            yield f"unknown key {key!r}{near if near != '.' else ', keys are ' + ', '.join(KEYS)}"
    tokens = row.get("tokens", [])
    if "tokens" not in row:
        yield "key 'tokens' is missing"
    elif not isinstance(tokens, list):
        yield f"tokens {_shown(tokens)} is not a list"
    elif not tokens:
        yield "tokens is empty"
    else:
        yield from (
            f"token {_shown(x)} is neither a string nor an integer"
            for x in tokens
            if not _is_label(x)
        )
    if "next" not in row:
        yield "key 'next' is missing"
    elif not _is_label(row["next"]):
        yield f"next {_shown(row['next'])} is neither a string nor an integer"
    if not _is_weight(row.get("weight", 1)):
        yield f"weight {_shown(row['weight'])} is not a positive number"


def _is_label(x: object) -> bool:
    return isinstance(x, (str, int)) and not isinstance(x, bool)


def _is_weight(x: object) -> bool:
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        return False
    try:
        return math.isfinite(x) and float(x) > 0
    except OverflowError:  # an integer beyond every float
        return False


def _shown(x: object) -> str:
    """A value as its file spells it, cut short."""
    text = json.dumps(x, ensure_ascii=False)
    return text if len(text) <= 40 else text[:39] + "…"


# Plain text


def _read_text(path: Path, context: int, vocabulary: Vocabulary | None) -> Windows:
    text = _decoded(path.read_bytes())
    if not text.strip():
        raise DataError("no words: the file is empty.")
    if vocabulary is None:
        vocabulary, ids = encode(_words(text, EOS))
    else:
        # Where tokens name rows of an array, a line end has no row to point at.
        line_end = EOS if EOS in vocabulary else ""
        pieces = [_words(line + "\n", line_end) for line in text.split("\n")]
        if line_end:
            pieces[-1].pop()  # the text ended there, without a line end
        words = [_as_label(w, vocabulary) for piece in pieces for w in piece]
        line = np.repeat(np.arange(len(pieces)), list(map(len, pieces))) + 1
        vocabulary, ids = _ids(words, vocabulary, "line", line)
    return windows_from_streams(vocabulary, ids, np.array([0, len(ids)]), context, partial=False)


def _words(text: str, line_end: str) -> list[str]:
    return text.replace("\n", f" {line_end} ").split()


def _as_label(word: str, vocabulary: Vocabulary) -> Label:
    """The word itself where the vocabulary has it, else the integer it spells, else the word."""
    if word in vocabulary or not re.fullmatch(_INTEGER, word):
        return word
    return int(word)


# Event logs


def _read_events(
    path: Path, context: int, asked: dict[str, str | None], vocabulary: Vocabulary | None
) -> Windows:
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
    except pa.ArrowException as fault:
        raise DataError(f"cannot be read as an event log: {fault}") from None
    length = np.bincount(group.to_numpy())
    if length.max() < 2:
        raise DataError(
            "every sequence is a single event, so no event has a context. "
            f"Does column {name['sequence']!r} name the sequence?"
        )
    vocabulary, ids = _ids(items.to_pylist(), vocabulary, "row", at.to_numpy().astype(np.int64) + 1)
    return windows_from_streams(vocabulary, ids, row_pointer(length), context, partial=True)


def _read_table(path: Path, asked: dict[str, str | None]) -> tuple[Any, dict[str, str]]:
    """The columns an event log needs, and the name of the column that plays each role."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    if path.suffix.lower() == ".parquet":
        with parquet.ParquetFile(path) as file:
            name = _column_names(asked, file.schema_arrow.names)
            return file.read(columns=sorted(set(name.values()))), name
    raw = path.read_bytes()
    if not _decoded(raw).strip():
        raise DataError("no events: the file is empty.")
    parse = csv.ParseOptions(
        delimiter="\t" if path.suffix.lower() == ".tsv" else ",", newlines_in_values=True
    )
    with csv.open_csv(pa.BufferReader(raw), parse_options=parse) as file:
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
    table = csv.read_csv(pa.BufferReader(raw), parse_options=parse, convert_options=convert)
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
        raise DataError(listed(f"{_count(len(faults), 'fault')}:", faults, cure))
    return name


def _check_filled(columns: dict[str, Any], name: dict[str, str]) -> None:
    """No event may lack its sequence, its item or its place."""
    import pyarrow.compute as pc

    faults = []
    for role, column in columns.items():
        empty = pc.indices_nonzero(pc.is_null(column, nan_is_null=True)).to_pylist()
        faults += [(row, f"row {row + 1}: no {role} in column {name[role]!r}") for row in empty]
    if faults:
        heading = f"{_count(len(faults), 'empty field')} (the first event is row 1):"
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
    integral = pc.all(pc.match_substring_regex(column, _INTEGER)).as_py()
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
