"""Times written as text, a whole column by one form: where a column can be read in two ways, both are given back.

A form is a way to write the date (`YYYY-MM-DD`, `M/D/YYYY`, `D Mon YYYY`, …), with or without a time of day, with or
without a zone. Rows may leave out seconds and fractions, but not the time of day or the zone that others have: where a
row would go among the others could then only be guessed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.lazily import pa, pc
from attomaton.base.shapes import Bool, Float, Int
from attomaton.errors import DataError, counted, listed, visible

SAMPLE = 1000  # rows that the form of a column is chosen by
DATES = ("day-first", "month-first")  # what 2/3/2024 is: 2 March, or 3 February

_GAP = r"[\s\x{a0}\x{202f}]"
_CLOCK = (
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?)?"
    rf"(?:{_GAP}?(?P<half>[AaPp])\.?[Mm]\.?)?"
)
_BASIC = r"(?P<hour>[0-9]{2}):?(?P<minute>[0-9]{2})(?::?(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?)?"
_ZONE = rf"(?:{_GAP}?(?P<zone>[Zz]|UTC|GMT|[+-][0-9]{{2}}(?::?[0-9]{{2}})?))?"
_BETWEEN = rf"(?:[Tt:]|,?{_GAP}+)"
_DAY = r"(?:[A-Z][a-z]{2,8},?\s+)?"  # of the week
_YEAR, _TWO = r"(?P<year>[0-9]{4})", "[0-9]{1,2}"
_NAME = r"(?P<name>[A-Za-z]{3,9})\.?"
_LAYOUTS = {
    **{
        f"YYYY{s}MM{s}DD": rf"{_YEAR}[{s}](?P<month>{_TWO})[{s}](?P<day>{_TWO})"
        for s in ("-", "/", ".")
    },
    **{f"A{s}B{s}YYYY": rf"(?P<a>{_TWO})[{s}](?P<b>{_TWO})[{s}]{_YEAR}" for s in ("/", "-", ".")},
    "D Mon YYYY": rf"(?P<day>{_TWO})(?:[-/]|\.?\s){_NAME}(?:[-/]|,?\s){_YEAR}",
    "Mon D, YYYY": rf"{_NAME}[- ](?P<day>{_TWO})(?:,?\s|-){_YEAR}",
}
_FORMS = {
    **{
        name: rf"^\s*{_DAY}{date}(?:{_BETWEEN}{_CLOCK}{_ZONE})?\s*$"
        for name, date in _LAYOUTS.items()
    },
    "YYYYMMDD": rf"^\s*{_YEAR}(?P<month>[0-9]{{2}})(?P<day>[0-9]{{2}}){_BETWEEN}{_BASIC}{_ZONE}\s*$",
    "": rf"^\s*{_CLOCK}{_ZONE}\s*$",
}
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Times:
    """A column read as times: the form they are written in, and one number for each, larger for later."""

    form: str
    key: Int[np.ndarray, " rows"]  # in `unit` since 1970, in Greenwich
    unit: str = "ns"

    @property
    def seconds(self) -> Float[np.ndarray, " rows"]:
        """Since 1970."""
        return self.key / {"ns": 1e9, "us": 1e6}[self.unit]


def read_times(column: Any, name: str, dates: str | None = None) -> list[Times]:
    """The ways to read a text column as times: none where it is something else, two where day and month may swap.

    `dates` says what comes first where a date begins with two small numbers. Rows that are unlike the rest, in a column
    that is mostly times, are refused; so are days that no calendar has.
    """
    some = column.slice(0, SAMPLE)
    fits = {layout: pc.sum(pc.match_substring_regex(some, form)).as_py() or 0
            for layout, form in _FORMS.items()}  # fmt: skip
    layout = max(fits, key=lambda x: fits[x])
    if not fits[layout]:
        return []
    like = pc.match_substring_regex(column, _FORMS[layout]).to_numpy(zero_copy_only=False)
    if 2 * like.sum() < len(like):
        return []
    if not like.all():
        said = layout.replace("A", "D").replace("B", "M") or "HH:MM"
        raise _unlike(column, name, np.flatnonzero(~like), f"most are times written {said}")
    parts = pc.extract_regex(column, _FORMS[layout])
    found = {field.name: parts.field(field.name) for field in parts.type}
    clock, form = _clock(found, column, name)
    order = dates and (dates == "day-first")
    if "a" not in found:
        ways = [(layout, found.get("day"), _month(found))]
    else:
        spelled = [
            (layout.replace("A", "D").replace("B", "M"), found["a"], found["b"]),
            (layout.replace("A", "M").replace("B", "D"), found["b"], found["a"]),
        ]
        if order is None and "." in layout:
            order = True  # nobody writes the month first with dots
        spelled = spelled if order is None else [spelled[0 if order else 1]]
        ways = [(said, day, _whole(month)) for said, day, month in spelled]
    if not layout:
        return [Times(form.strip(), clock)]
    read = [
        (f"{said}{form}", *_days(_whole(found["year"]), month, _whole(day)))
        for said, day, month in ways
    ]
    fine = [(said, days) for said, days, wrong in read if not wrong.any()]
    if not fine:
        said, _, wrong = min(read, key=lambda x: int(x[2].sum()))
        raise _unlike(column, name, np.flatnonzero(wrong), f"read as {said}")
    return [_joined(said, days, clock) for said, days in fine]


def _unlike(column: Any, name: str, rows: Int[np.ndarray, " faults"], rest: str) -> DataError:
    """The error about rows of a column that are no times, or not as the others are."""
    heading = f"{counted(len(rows), 'value')} of column {name!r} cannot be placed in time ({rest}):"
    faults = [f"row {row + 1}: {visible(repr(column[int(row)].as_py()))}" for row in rows]
    cure = "Write all of them in one form, such as 2024-01-31 09:30:00, or name another --order."
    return DataError(listed(heading, faults, cure))


def _whole(text: Any) -> Int[np.ndarray, " rows"]:
    """Digits as numbers; 0 where there are none."""
    filled = pc.if_else(pc.equal(text, ""), "0", text)
    return filled.cast(pa.int64()).to_numpy(zero_copy_only=False)


def _month(found: dict[str, Any]) -> Int[np.ndarray, " rows"]:
    """The month by its number or its English name; 0 for a name that is none."""
    if "name" not in found:
        return _whole(found["month"]) if "month" in found else np.zeros(0, np.int64)
    coded = found["name"].dictionary_encode()
    names = [str(x).lower() for x in coded.dictionary.to_pylist()]
    number = [next((i for i, m in enumerate(_MONTHS, 1) if m.startswith(x)), 0) for x in names]
    return np.array(number, dtype=np.int64)[coded.indices.to_numpy()]


def _days(
    year: Int[np.ndarray, " rows"], month: Int[np.ndarray, " rows"], day: Int[np.ndarray, " rows"]
) -> tuple[Int[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]:
    """Days since 1970, and the rows whose day no calendar has."""
    wrong = (month < 1) | (month > 12) | (day < 1)
    months = (year - 1970) * 12 + np.clip(month, 1, 12) - 1
    first, following = (
        (months + i).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        for i in (0, 1)
    )
    days = first + np.maximum(day, 1) - 1
    return days, wrong | (days >= following)


def _clock(found: dict[str, Any], column: Any, name: str) -> tuple[Int[np.ndarray, " rows"], str]:
    """Nanoseconds since midnight in Greenwich, and how the time of day is written."""
    there = {field: pc.not_equal(found[field], "").to_numpy(zero_copy_only=False)
             for field in ("hour", "zone", "half", "second") if field in found}  # fmt: skip
    for field, rest in (("hour", "others have a time of day"), ("zone", "others have a zone"),
                        ("half", "others have AM or PM")):  # fmt: skip
        if field in there and there[field].any() and not there[field].all():
            raise _unlike(column, name, np.flatnonzero(~there[field]), rest)
    written = {field for field in there if there[field].any()}
    hour, minute, second = (_whole(found[x]) for x in ("hour", "minute", "second"))
    # Nine digits of a fraction are nanoseconds; what is finer is cut off.
    padded = pc.utf8_slice_codeunits(pc.utf8_rpad(found["fraction"], 9, "0"), 0, 9)
    fraction = _whole(padded)
    wrong = (minute > 59) | (second > 60)  # 60: a leap second
    if "half" in written:
        wrong |= (hour < 1) | (hour > 12)
        late = pc.equal(pc.utf8_lower(found["half"]), "p").to_numpy(zero_copy_only=False)
        hour = hour % 12 + 12 * late
    else:
        wrong |= hour > 23
    if wrong.any():
        raise _unlike(column, name, np.flatnonzero(wrong), "no clock shows these")
    seconds = hour * 3600 + minute * 60 + second - _offsets(found["zone"])
    form = (" HH:MM:SS" if "second" in written else " HH:MM") if "hour" in written else ""
    form += " AM/PM" if "half" in written else ""
    form += ", zones taken into account" if "zone" in written else ""
    return seconds * 10**9 + fraction, form


def _offsets(zone: Any) -> Int[np.ndarray, " rows"]:
    """Seconds that a zone's clocks are ahead of Greenwich; 0 where there is none."""
    coded = zone.dictionary_encode()
    offsets = np.array([_offset(x) for x in coded.dictionary.to_pylist()], dtype=np.int64)
    return offsets[coded.indices.to_numpy()]


def _offset(zone: str) -> int:
    if zone[:1] not in ("+", "-"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return int(f"{zone[0]}1") * (int(digits[:2]) * 3600 + int(digits[2:]) * 60)


def _joined(form: str, days: Int[np.ndarray, " rows"], clock: Int[np.ndarray, " rows"]) -> Times:
    """Days and nanoseconds as one number: in nanoseconds where 64 bits hold them, else in microseconds."""
    if np.abs(days).max(initial=0) < 100_000:  # the years 1697 to 2243
        return Times(form, days * (86_400 * 10**9) + clock)
    return Times(form, days * (86_400 * 10**6) + clock // 1000, "us")


def looks_like_times(values: Any) -> bool:
    """Whether some values of a text column are all times of one form."""
    try:
        return bool(len(values)) and bool(read_times(values, ""))
    except DataError:
        return False


def python_values(column: Any) -> list[Any]:
    """The values of a column as Python has them; times that it cannot hold (nanoseconds, far years) as text."""
    try:
        return column.to_pylist()
    except (ValueError, OverflowError):
        return column.cast(pa.large_string()).to_pylist()


def examples(times: list[Times], column: Any, most: int = 3) -> Iterator[str]:
    """The first rows of a column that two readings place differently, in words."""
    seen = [t.key.astype(f"datetime64[{t.unit}]") for t in times]
    unlike = np.flatnonzero(seen[0] != seen[1])
    for row in unlike[:most]:
        days = [str(x[row].astype("datetime64[D]")) for x in seen]
        said = " or ".join(f"{day} ({dates})" for day, dates in zip(days, DATES, strict=True))
        yield f"row {row + 1}: {visible(repr(column[int(row)].as_py()))} is {said}"
