"""The rows of the benchmark table, and the clock."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any


@dataclass(frozen=True)
class Row:
    """One comparison: `ratio` is the other's cost over ours (or a growth factor), with its terms."""

    topic: str
    what: str
    ratio: float
    quality: str
    measured: dict[str, Any] = field(default_factory=dict)


def say(text: str) -> None:
    """A progress line, kept away from the table."""
    print(text, file=sys.stderr, flush=True)


def best_of(function: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """The shortest of a few runs, in seconds, and what the function returned."""
    seconds, answer = float("inf"), None
    for _ in range(repeats):
        begin = perf_counter()
        answer = function()
        seconds = min(seconds, perf_counter() - begin)
    return seconds, answer


def lines(rows: list[Row]) -> Iterator[str]:
    """The table as aligned plain text."""
    head = ("topic", "comparison", "ratio", "how good the answers are")
    body = [(row.topic, row.what, f"{row.ratio:,.3g}×", row.quality) for row in rows]
    width = [max(len(line[i]) for line in (head, *body)) for i in range(4)]
    for line in (head, tuple("-" * w for w in width), *body):
        left, what, ratio, quality = line
        yield (f"{left:<{width[0]}}  {what:<{width[1]}}  {ratio:>{width[2]}}  {quality}".rstrip())
