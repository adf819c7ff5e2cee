"""What a file seems to be before it is read: its format, its delimiter, what its columns are, how it may be cut.

All of it is guessed from the file's name and its first rows, each guess with its reason. Nothing is computed here: who
looks (`attomaton data inspect`, the lab) shows the guesses first, and they can be said otherwise.
"""

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attomaton.base.lazily import pa, pc
from attomaton.corpus.events import csv_options, first_lines
from attomaton.corpus.files import (
    LOGS,
    SEPARATED,
    SUFFIXES,
    about,
    beginning,
    binary_format,
    delimiter_of,
    format_of,
    guessed_format,
    suffix_of,
    text_format,
    whole_lines,
)
from attomaton.corpus.guesses import Guess, bare, family_columns
from attomaton.corpus.ordering import USUAL, holds_times, likely
from attomaton.corpus.reading import AS_NAMED, Reading
from attomaton.corpus.tables import first_rows
from attomaton.corpus.times import python_values
from attomaton.corpus.xes import xes_table

ROWS = 20_000  # of a table that are looked at
CONTEXT = 8  # events or words before a label, until somebody says otherwise
SOME = 3  # values of a column that are shown
NEAR = 0.8  # how like a usual name a mistyped one has to be
RUNS = 0.5  # share of rows that repeat the one before: the rows of a sequence stand together
WRAPPED = 120  # characters a line has at most where lines are wrapped
_HELD = {  # what a file of a format is seen to hold
    "parquet": "Parquet",
    "jsonl": "one JSON object a line",
    "csv": "rows under a header",
    "tsv": "rows with tabs",
}


@dataclass(frozen=True)
class Column:
    """A column by its first rows: `kind` is times, numbers or words; `runs` the share of rows like the one before."""

    name: str
    kind: str
    distinct: int = 0
    some: tuple[str, ...] = ()
    runs: float = 0.0


@dataclass(frozen=True)
class Look:
    """A file at first sight: `reading` says all that reading it needs, `guesses` what of it nobody said, and why."""

    format: str
    reading: Reading
    guesses: tuple[Guess, ...] = ()
    columns: tuple[Column, ...] = ()
    wanting: tuple[str, ...] = ()  # guessed options without which no command reads the file

    def why(self, option: str) -> str:
        """Why an option was guessed; nothing where it was said."""
        return next((g.why for g in self.guesses if g.option == option), "")


def look_at_file(path: str | os.PathLike[str], given: Reading = AS_NAMED) -> Look:
    """What a file seems to be; what was `given` is not guessed.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "log.csv")
    ...     _ = path.write_text("visit;page;at\\n1;home;2024-05-01\\n1;cart;2024-05-02\\n2;home;2024-05-01\\n")
    ...     look_at_file(path).reading
    Reading(context=8, sequence='visit', item='page', order='at', delimiter=';')
    """
    with about(path := Path(path)):
        return _look(path, given)


def _look(path: Path, given: Reading) -> Look:
    found = list(_format(path, given))
    reading = _with(given, found)
    kind = format_of(path, reading.format)
    if kind in SEPARATED and reading.delimiter is None:
        if (other := delimiter_of(path, SEPARATED[kind])) is not None:
            why = "it cuts every row into as many values as the header"
            found.append(Guess("delimiter", "tab" if other == "\t" else other, why))
        reading = _with(given, found)
    table, columns = _table(path, kind, reading) if kind in LOGS else (None, ())
    if columns:
        found += _roles(reading, columns, table)
    if kind == "text" and given.split is None:
        found += _split(path)
    if kind != "jsonl" and given.context is None:
        what = "words" if kind == "text" else "events"
        found.append(Guess("context", str(CONTEXT), f"{CONTEXT} {what} are a usual beginning"))
    known = {g.option for g in guessed_format(path, given.format)}
    known |= {g.option for g in family_columns(given.columns, [c.name for c in columns])}
    known |= {"order", "split"}  # without them rows stay as they stand, and text is one stream
    wanting = tuple(g.option for g in found if g.option not in known)
    return Look(kind, _with(given, found), tuple(found), columns, wanting)


def _with(given: Reading, guesses: Sequence[Guess]) -> Reading:
    """What was given, and what was guessed besides; what the file's name says already need not be said."""
    named = {g.option: g.value for g in guesses}
    said: dict[str, Any] = {k: int(v) if k == "context" else v for k, v in named.items()}
    return replace(given, **said)


def _format(path: Path, given: Reading) -> tuple[Guess, ...]:
    if given.format is not None or SUFFIXES.get(suffix_of(path)):
        return ()
    known = guessed_format(path, None)
    if known and known[0].value != "text":
        return known
    head, text, complete = beginning(path)
    found = binary_format(head) or text_format(text, complete) or ""
    found = "csv" if found.startswith("table") else found
    return (Guess("format", found, f"it holds {_HELD[found]}"),) if found in _HELD else ()


# Columns


def _table(path: Path, kind: str, reading: Reading) -> tuple[Any, tuple[Column, ...]]:
    """The first rows of a table and its columns; none where it cannot be read, and reading it says what is wrong."""
    try:
        if kind == "xes":
            table = _xes_sample(path)
        elif kind == "parquet":
            table = first_rows(path, ROWS)
        else:
            table = first_lines(path, csv_options(reading, kind), ROWS)
        return table, tuple(_described(table, name) for name in table.column_names)
    except (ValueError, KeyError, pa.ArrowException):
        return None, ()


def _xes_sample(path: Path) -> Any:
    names: list[str] = []

    def choose(found: list[str]) -> list[str]:
        names.extend(found)
        asked = dict.fromkeys(("sequence", "item", "order"))
        return [g.value for g in family_columns(asked, found)] or found[:1]

    table, _ = xes_table(path, choose)
    none = pa.nulls(min(table.num_rows, ROWS), pa.large_string())
    seen = table.slice(0, ROWS)
    return pa.table({n: seen.column(n) if n in seen.column_names else none for n in names})


def _described(table: Any, name: str) -> Column:
    column = table.column(name).combine_chunks()
    filled = column.drop_null()
    if not len(filled):
        return Column(name, "words")
    if holds_times(table, name):
        kind = "times"
    elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        kind = "numbers"
    else:
        text = filled.cast(pa.large_string())
        number = pc.match_substring_regex(text, r"^\s*[+-]?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?\s*$")
        kind = "numbers" if pc.all(number).as_py() else "words"
    unique = pc.unique(filled)
    same = pc.equal(column.slice(1), column.slice(0, len(column) - 1))
    runs = pc.mean(same.cast(pa.float64())).as_py() or 0.0 if len(column) > 1 else 0.0
    some = tuple(str(x) for x in python_values(unique.slice(0, SOME)))
    return Column(name, kind, len(unique), some, runs)


def _roles(reading: Reading, columns: tuple[Column, ...], table: Any) -> list[Guess]:
    """Which column is the sequence, which the item, which the order: by names that say so, then by what they hold."""
    asked = reading.columns
    names = [c.name for c in columns]
    found = {g.option: g for g in family_columns(asked, names)}
    found |= {r: Guess(r, r, "") for r in asked if asked[r] is None and r in names}
    for role in ("sequence", "item", "order"):
        if asked[role] is None and role not in found:
            taken = {x for x in asked.values() if x} | {g.value for g in found.values()}
            free = [c for c in columns if c.name not in taken and names.count(c.name) == 1]
            sequence = found["sequence"].value if "sequence" in found else asked["sequence"]
            if guess := _by_name(role, free) or _by_content(role, free, table, sequence):
                found[role] = guess
    return [g for r in asked if (g := found.get(r)) is not None and g.value != r]


def _by_name(role: str, free: list[Column]) -> Guess | None:
    if role == "order":
        free = [c for c in free if c.kind != "words"]
        timed = [c for c in free if c.kind == "times"]
        free = timed or free
    names = [c.name for c in free]
    if (name := likely(role, names)) is not None:
        return Guess(role, name, f"it is called as the {role} of many logs is")
    usual = {bare(x): x for x in USUAL[role]}
    for name in names:
        near = difflib.get_close_matches(bare(name), usual, 1, NEAR)
        if near and len(near[0]) > 3:
            return Guess(role, name, f"its name is nearly “{usual[near[0]]}”")
    return None


def _by_content(role: str, free: list[Column], table: Any, sequence: str | None) -> Guess | None:
    if role == "order":
        return _order(free, table, sequence)
    return (_sequence if role == "sequence" else _item)(free, table.num_rows)


def _sequence(free: list[Column], rows: int) -> Guess | None:
    some = [c for c in free if c.kind != "times" and 1 < c.distinct < rows]
    together = [c for c in some if c.runs >= RUNS]
    if not together and len(some) < 2:
        return None
    best = max(together or some, key=lambda c: c.distinct)
    if together:
        return Guess("sequence", best.name, "rows of one value stand together")
    return Guess("sequence", best.name, "its values repeat, and it has the most of them")


def _item(free: list[Column], rows: int) -> Guess | None:
    some = [c for c in free if c.kind != "times" and 1 < c.distinct < max(rows, 3)]
    words = [c for c in some if c.kind == "words"] or some
    if not words:
        return None
    best = max(words, key=lambda c: c.distinct)
    return Guess("item", best.name, f"its {best.distinct:,} values come again and again")


def _order(free: list[Column], table: Any, sequence: str | None) -> Guess | None:
    """A column of times, or one that numbers the events of each sequence: none twice in one, but in several of them."""
    if timed := [c for c in free if c.kind == "times"]:
        return Guess("order", timed[0].name, "it holds times")
    for column in free if sequence in table.column_names else []:
        if column.kind == "numbers" and 1 < column.distinct < table.num_rows:
            pairs = table.group_by([sequence, column.name]).aggregate([])
            if pairs.num_rows == table.num_rows:
                return Guess("order", column.name, "it numbers the rows of each sequence")
    return None


# Text


def _split(path: Path) -> list[Guess]:
    """What the documents of a text seem to be; none where it reads on from line to line."""
    _, text, complete = beginning(path)
    text = text.replace("\r\n", "\n")
    lines = whole_lines(text, complete)
    if len(lines) < 4:
        return []
    blank = text.count("\n\n")
    long = max(map(len, lines))
    if blank > len(lines) // 20 and long <= WRAPPED and len(lines) > blank + 2:
        return [Guess("split", "paragraphs", "blank lines stand between its wrapped lines")]
    ends = sum(line.rstrip().endswith((".", "!", "?", ";", ":")) for line in lines)
    if long <= WRAPPED and not blank and ends * 10 < len(lines):
        return [Guess("split", "lines", "its lines are short and end in no full stop")]
    return []
