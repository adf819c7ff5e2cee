"""Tables as CSV, safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")  # of what a spreadsheet takes for a formula


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]], newline: str = "\n") -> str:
    """Rows as CSV, numbers at full precision, nothing for None.

    A word that a spreadsheet would run as a formula has a `'` before it, which spreadsheets take for "this is text".

    >>> print(csv_text(["token", "score"], [["=1+1", -0.5], ["tea", None]]), end="")
    token,score
    '=1+1,-0.5
    tea,
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=newline)
    writer.writerow([guarded(x) for x in header])
    writer.writerows([[guarded(x) for x in row] for row in rows])
    return out.getvalue()


def guarded(x: Any) -> Any:
    """A value as a cell of such a table."""
    if x is None or not isinstance(x, str):
        return "" if x is None else repr(x) if isinstance(x, float) else x
    return f"'{x}" if x.startswith(_STARTS) and not _is_number(x) else x


def _is_number(text: str) -> bool:
    try:
        return text == text.strip() and float(text) is not None
    except ValueError:
        return False
