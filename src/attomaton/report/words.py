"""Numbers, moments and texts as people read them: one way for every table, page and picture.

What lower rooms say too is made in `errors`: `cut`, `size_text`, `counted` and `visible`.
"""

import math
import re
from collections.abc import Callable
from typing import Any

NONE = "–"  # where a number would stand
DIGEST = 64  # letters of a hash
EXACT_INTEGER = 10**15  # integers below keep every digit


def number(x: int | float) -> str:
    """A number as a reader wants it: four digits, integers whole, a real minus sign.

    >>> number(0.992662247), number(-2.220446e-16), number(289), number(123456.0)
    ('0.9927', '−2.220e−16', '289', '123,500')
    """
    if isinstance(x, bool):
        return "yes" if x else "no"
    if isinstance(x, int) and abs(x) < EXACT_INTEGER:
        text = f"{x:,}"
    elif isinstance(x, float) and not math.isfinite(x):
        text = "NaN" if math.isnan(x) else "∞" if x > 0 else "-∞"
    elif abs(x) > float(10**300):  # an integer may be larger than any float
        text = f"about 10^{len(str(abs(x))) - 1}" if isinstance(x, int) else f"{x:.4g}"
    elif 1e3 <= abs(x) < 1e6:
        text = f"{float(f'{x:.4g}'):,.0f}"
    else:
        text = f"{x:.4g}"
        if float(text) != x:  # 0.99996 is not 1: what was rounded shows all its digits
            text = f"{x:#.4g}"
    return re.sub(r"e\+?(-?)0*(\d+)$", r"e\1\2", text).replace("-", "−")


def signed(score: float | int) -> str:
    """A score with its sign and two decimals; solver dust around 0 reads as 0.

    >>> signed(1.5), signed(-0.6), signed(-4e-7)
    ('+1.50', '−0.60', '0.00')
    """
    score = round(score, 2)
    return f"{score:+.2f}".replace("-", "−") if score else "0.00"


def tick(x: float | int) -> str:
    """A number on an axis: two digits, from 10 on whole.

    >>> tick(0.125), tick(125.4)
    ('0.12', '125')
    """
    return f"{x:.2g}" if x < 10 else f"{x:.0f}"


def value_text(value: Any, digits: int = 7) -> str:
    """A value in a few letters; none is a dash.

    >>> value_text(0.46415761884), value_text(1234567), value_text(None), value_text(["a", "b"])
    ('0.4641576', '1,234,567', '–', 'a, b')
    """
    match value:
        case None:
            text = NONE
        case bool():
            text = "yes" if value else "no"
        case int():
            text = f"{value:,}"
        case float():
            text = f"{value:.{digits}g}"
        case list():
            text = ", ".join(value_text(x, digits) for x in value)
        case dict():
            text = ", ".join(f"{k} {value_text(v, digits)}" for k, v in value.items())
        case _:
            text = str(value)
    return text


def setting_text(value: Any) -> str:
    """A setting as it was typed; what a file held is known by its first letters.

    >>> setting_text(40000), setting_text("0123456789ab" + 52 * "f"), setting_text(None)
    ('40000', 'content 0123456789ab…', '–')
    """
    if isinstance(value, str) and len(value) == DIGEST and not value.strip("0123456789abcdef"):
        return f"content {value[:12]}…"
    return (
        value_text(value) if value is None or isinstance(value, (bool, list, dict)) else str(value)
    )


def share_text(share: float | int | None) -> str:
    """A share of 1 in per cent, to the digits that matter in a sentence.

    >>> share_text(0.1234), share_text(0.00123), share_text(None)
    ('12.3%', '0.12%', 'none')
    """
    if share is None:
        return "none"
    return f"{100 * share:.{2 if share < 0.01 else 3}g}%"


def percent(share: float | int) -> str:
    """A share of 1 in per cent, as short as a picture needs it.

    >>> percent(0.1234), percent(0.0123), percent(0.0001)
    ('12%', '1.2%', '<0.1%')
    """
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{100 * share:.0f}%" if share >= 0.0995 or share == 0 else f"{100 * share:.1f}%"


def evenly(n: int, most: int) -> list[int]:
    """Which of n things are shown: all, or `most` spread evenly, the first and the last among them.

    >>> evenly(3, 4), evenly(10, 4)
    ([0, 1, 2], [0, 3, 6, 9])
    """
    return list(range(n)) if n <= most else [round(i * (n - 1) / (most - 1)) for i in range(most)]


def odds_text(odds: float | int) -> str:
    """Odds of one against another, the smaller of both as 1.

    >>> odds_text(2), odds_text(0.25), odds_text(1.449), odds_text(1500.2)
    ('2 : 1', '1 : 4', '1.4 : 1', '1,500 : 1')
    """
    larger = max(odds, 1 / odds)
    said = f"{larger:,.0f}" if larger >= 10 else f"{larger:.2g}"
    return f"{said} : 1" if odds >= 1 else f"1 : {said}"


def count_text(n: float | int) -> str:
    """About how many.

    >>> count_text(950), count_text(1_500), count_text(104_000_000)
    ('950', '1.5k', '104 M')
    """
    for unit, word in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, "k")):
        if n >= unit:
            return f"{n / unit:.{0 if n >= 10 * unit else 1}f}{word}"
    return f"{n:.0f}"


def time_text(seconds: float | int) -> str:
    """About how long.

    >>> time_text(0.2), time_text(1320), time_text(9000)
    ('1 s', '22 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def seconds_text(seconds: float | int | None) -> str:
    """How many seconds something took.

    >>> seconds_text(12.34), seconds_text(1234.5), seconds_text(None)
    ('12.3', '1,234', '')
    """
    return "" if seconds is None else f"{seconds:.1f}" if seconds < 100 else f"{seconds:,.0f}"


def or_none(x: Any, text: Callable[[Any], Any] = lambda x: x) -> Any:
    """Something as it is, or as a text says it; a dash where there is none.

    >>> or_none(3), or_none(None), or_none(0.5, "{:.0%}".format)
    (3, '–', '50%')
    """
    return NONE if x is None else text(x)


def when_text(moment: str) -> str:
    """A moment to the minute.

    >>> when_text("2026-01-31T12:00:05Z")
    '2026-01-31 12:00'
    """
    return moment[:16].replace("T", " ")


def give_or_take(se: float | None) -> str:
    """A standard error behind a number; nothing where none is known.

    >>> f"0.4{give_or_take(0.1234)}", f"0.4{give_or_take(None)}"
    ('0.4 ± 0.12', '0.4')
    """
    return "" if se is None else f" ± {se:.2g}"


def interval(low: float | None, high: float | None) -> str:
    """The ends of an interval of a probability; nothing where there is none.

    >>> interval(0.2418, 0.3661), interval(None, None)
    ('0.242–0.366', '')
    """
    return "" if low is None or high is None else f"{low:.3f}–{high:.3f}"
