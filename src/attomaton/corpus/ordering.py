"""The order of an event log's rows: by a column of numbers or times, or that of the file; and how it came about.

Whatever was done is kept as an `Ordering` and said: a log in the wrong order gives an answer as readily as one in the
right order.
"""

import logging
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.lazily import pa, pc
from attomaton.base.shapes import Float, Int
from attomaton.corpus.guesses import bare
from attomaton.corpus.times import DATES, examples, looks_like_times, python_values, read_times
from attomaton.corpus.vocabulary import INTEGER
from attomaton.errors import DataError, counted, listed, visible

_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
_PLAIN = r"^\s*[+-]?[0-9]{1,19}(\.[0-9]{0,18})?\s*$"  # exact as a decimal number
# What columns of event logs are usually called, by the role they play; most telling first.
USUAL = {
    "sequence": ("case:concept:name", "case_id", "session_id", "user_id", "customer_id", "visitor_id", "trace_id",
                 "case", "session", "user", "customer", "visitor", "trace", "uid"),
    "item": ("concept:name", "item_id", "product_id", "activity", "item", "event", "product", "action", "page", "url",
             "event_name", "event_type", "track", "movie_id"),
    "order": ("time:timestamp", "timestamp", "event_time", "datetime", "date_time", "time", "ts", "date", "when",
              "created_at", "start_time", "order", "step", "position", "seq"),
}  # fmt: skip

_log = logging.getLogger("attomaton")


@dataclass(frozen=True)
class Ordering:
    """How the rows of an event log were put in order; `kind` is numbers, times, codes, or file (as they stand)."""

    kind: str
    column: str | None = None
    form: str = ""  # in which times are written
    first: str = ""
    last: str = ""
    # Rows that share their place with another of their sequence: the file's order decides
    ties: int = 0
    hint: str = ""  # how to name a column, where none was
    across: bool = False  # whether it also tells which sequences begin later than others

    def text(self) -> str:
        """In one sentence."""
        if self.kind == "file":
            return f"events are in the order of the file's rows. {self.hint}"
        said = (
            f"events are in the order of column {visible(repr(self.column))} ({self.kind}"
            f"{', ' + self.form if self.form else ''}), from {visible(self.first)} to {visible(self.last)}"
        )
        if self.ties:
            shares = "shares its" if self.ties == 1 else "share their"
            said += (
                f"; {counted(self.ties, 'row')} {shares} place with another of the same sequence "
                "and stay in the file's order"
            )
        return f"{said}."


def announce(place: object, ordering: Ordering | None) -> None:
    """Say to whoever listens how a file's rows were put in order; more loudly where nobody said how."""
    if ordering is not None:
        level = logging.WARNING if ordering.kind == "file" else logging.INFO
        _log.log(level, "%s: %s", place, ordering.text())


@dataclass(frozen=True, eq=False)
class Ranked:
    """A column whose values can be compared: the place of each row's value among all, equal for equal ones."""

    kind: str
    form: str
    rank: Int[np.ndarray, " rows"]
    # Seconds since 1970, or the numbers: the same in every file
    place: Float[np.ndarray, " rows"] | None = None


def ranked(column: Any, name: str, dates: str | None, group: Int[np.ndarray, " rows"]) -> Ranked:
    """The places of a column's values; `group` is the sequence of each row, `dates` one of `DATES`.

    Numbers go by size, even where they are written as text, and times by time. Text that is neither gives no order,
    unless it is a code around one number of fixed width, such as A007.
    """
    if pa.types.is_temporal(column.type):
        return Ranked("times", str(column.type), _rank(column), _moments(column))
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if _is_text(column):
        number = _numbers(column, name)
    elif any(fits(column.type) for fits in kinds):
        number = column
    else:
        raise DataError(
            f"column {name!r} holds {column.type}, so it gives no order; name another --order."
        )
    if number is not None:
        place = number.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return Ranked("numbers", "", _rank(number), np.asarray(place))
    readings = read_times(column, name, dates)
    if readings:
        rank = np.unique(readings[0].key, return_inverse=True)[1]
        if len(readings) == 1:
            return Ranked("times", readings[0].form, rank, readings[0].seconds)
        one, two = (t.form for t in readings)
        places = [np.lexsort((t.key, group)) for t in readings]
        if not np.array_equal(places[0], places[1]):
            heading = f"column {name!r} can be read as {one} and as {two}, which order the rows differently:"
            cure = f"Say which it is: --dates {DATES[0]} or --dates {DATES[1]}."
            raise DataError(listed(heading, list(examples(readings, column)), cure))
        return Ranked("times", f"{one} or {two}, in the same order", rank)
    # Where values differ in the digits of one number of fixed width only, text sorts as these numbers do.
    shapes = pc.unique(pc.replace_substring_regex(column, "[0-9]", "0"))
    if len(shapes) == 1 and re.fullmatch("[^0]*0+[^0]*", shapes[0].as_py()):
        return Ranked("codes", "", _rank(column))
    some = [f"row {i + 1}: {visible(repr(column[i].as_py()))}" for i in range(min(3, len(column)))]
    raise DataError(
        listed(
            f"column {name!r} holds neither numbers nor times, so it gives no order:", some,
            "Write numbers, or times such as 2024-01-31 09:30:00, or name another --order.",
        )
    )  # fmt: skip


def described(
    found: Ranked,
    column: Any,
    name: str,
    at: Int[np.ndarray, " rows"],
    group: Int[np.ndarray, " rows"],
) -> Ordering:
    """What was done: rows went to the places `at`, by what was `found` of a column, inside their `group`."""
    rank, where = found.rank[at], group[at]
    same = (rank[1:] == rank[:-1]) & (where[1:] == where[:-1])
    ties = np.append(same, False) | np.append(False, same)
    ends = (int(found.rank.argmin()), int(found.rank.argmax()))
    first, last = map(str, python_values(column.take(pa.array(ends))))
    begin = rank[np.diff(where, prepend=-1) != 0]
    across = found.kind != "codes" and 2 * len(np.unique(begin)) > len(begin) > 1
    return Ordering(found.kind, name, found.form, first, last, int(ties.sum()), across=bool(across))


def as_in_the_file(
    names: list[str], look: Callable[[], Any], taken: Mapping[str, str]
) -> Ordering | None:
    """The file's own order, and which of its columns may say better; None where one of those `taken` says.

    `look` gives a table of some rows.
    """
    if "order" in taken:
        return None
    sample = look()
    hint = "Name the column that says when they happened: --order COLUMN"
    free = [x for x in names if x not in taken.values() and names.count(x) == 1]
    timed = [x for x in free if holds_times(sample, x)]
    best = likely("order", timed) or next(iter(timed), None) or likely("order", free)
    if best is not None:
        hint += f"; perhaps --order {visible(shlex.quote(best))}"
    return Ordering("file", hint=f"{hint}.")


def likely(role: str, names: list[str]) -> str | None:
    """The column that by its name plays a role, if one does."""
    plain = {bare(x): x for x in reversed(names)}
    return next((plain[bare(x)] for x in USUAL[role] if bare(x) in plain), None)


def holds_times(sample: Any, name: str) -> bool:
    """Whether a column of some rows holds times."""
    if name not in sample.column_names:
        return False
    column = sample.column(name)
    if pa.types.is_temporal(column.type):
        return True
    return _is_text(column) and looks_like_times(column.combine_chunks().drop_null())


def _is_text(column: Any) -> bool:
    return pa.types.is_string(column.type) or pa.types.is_large_string(column.type)


def _numbers(column: Any, name: str) -> Any:
    """A text column as numbers, exact where digits allow; None where none of it is one."""
    if pc.all(pc.match_substring_regex(column, INTEGER), min_count=1).as_py():
        return column.cast(pa.int64())
    trimmed = pc.utf8_trim_whitespace(column)
    if pc.all(pc.match_substring_regex(trimmed, _PLAIN), min_count=1).as_py():
        return trimmed.cast(pa.decimal128(38, 18))
    number = pc.match_substring_regex(trimmed, _NUMBER)
    if pc.all(number, min_count=1).as_py():
        return trimmed.cast(pa.float64())
    if pc.any(number).as_py():
        row = pc.index(number, False).as_py()
        raise DataError(
            f"column {name!r} mixes numbers and text, so it gives no order: "
            f"row {row + 1} has {visible(repr(column[row].as_py()))}. Mend it or name another --order."
        )
    return None


def _rank(column: Any) -> Int[np.ndarray, " rows"]:
    return pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)


def _moments(column: Any) -> Float[np.ndarray, " rows"] | None:
    """Seconds since 1970 of timestamps and dates; None of times of day and of durations."""
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return None
    zone = column.type.tz if pa.types.is_timestamp(column.type) else None
    fine = column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    return np.asarray(fine.to_numpy(zero_copy_only=False)) / 1e6
