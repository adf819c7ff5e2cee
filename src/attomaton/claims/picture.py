"""Pictures of claims as plain data: theory and measurement on the same axes, few enough points to read."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from attomaton.base.shapes import Float
from attomaton.results import Line, Panel, Scalar

POINTS = 200  # of one line, at most
FEW = 80  # of one line among many
BLACK = "#000000"

Values = Sequence[float] | Sequence[int] | Sequence[float | None] | np.ndarray


def line(
    x: Values,
    y: Values,
    label: str | None = None,
    style: str = "measured",
    points: int | None = POINTS,
    error: Values | None = None,
    colour: int | None = None,
    ink: str | None = None,
) -> Line:
    """One line of a panel, thinned to at most `points`; `style` is "measured", "theory" or "points".

    >>> line([1, 2], [3, 4], "W", "points").y
    [3.0, 4.0]
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), points or len(x))).round().astype(int))
    bars = None if error is None else np.asarray(error, float)[kept].tolist()
    return Line(
        x[kept].tolist(), y[kept].tolist(), style, label, error=bars, colour=colour, ink=ink
    )


def theory_line(
    x: Values, y: Values, label: str | None, points: int = POINTS, colour: int | None = None
) -> Line:
    """A line of what theory says, in black."""
    return line(x, y, label, "theory", points, colour=colour, ink=BLACK)


def level(x: Values, value: float, label: str) -> Line:
    """A horizontal line at what theory says."""
    x = np.asarray(x, float)
    return theory_line([x.min(), x.max()], [value, value], label)


def band(
    x: Values, ys: Float[np.ndarray, "curves points"], label: str, colour: int | None = None
) -> Line:
    """The mean of several measured curves; the band holds all but the highest and the lowest tenth of them."""
    known = np.isfinite(ys).any(axis=0)
    ys, at = np.asarray(ys, float)[:, known], np.asarray(x, float)[known]
    if not len(at):
        return Line([], [], "measured", label, colour=colour)
    low, high = np.nanquantile(ys, [0.1, 0.9], axis=0)
    return Line(
        at.tolist(), np.nanmean(ys, axis=0).tolist(), "measured", label, low.tolist(), high.tolist(), colour=colour
    )  # fmt: skip


def bundle(
    x: Values,
    ys: Float[np.ndarray, "curves points"] | Sequence[np.ndarray],
    label: str,
    colour: int = 0,
) -> list[Line]:
    """Several measured curves of one kind in one colour, named once, the first eight; what is no number is left out."""
    lines: list[Line] = []
    for y in np.asarray(ys, float)[:8]:
        known = np.isfinite(y)
        if known.any():
            at = np.asarray(x)[known]
            lines.append(line(at, y[known], None if lines else label, points=FEW, colour=colour))
    return lines


def heat(
    title: str,
    xlabel: str,
    ylabel: str,
    values: Float[np.ndarray, "rows columns"],
    xticks: Sequence[Scalar],
    yticks: Sequence[Scalar],
    colour: str,
    low: float | None = None,
    high: float | None = None,
) -> Panel:
    """A heat map, its first row on top; `colour` says what its colours mean, from `low` to `high`."""
    return Panel(
        title, xlabel, ylabel, heat=values.tolist(), xticks=list(xticks), yticks=list(yticks), colour=colour,
        low=low, high=high,
    )  # fmt: skip


def grouped(
    rows: Iterable[Mapping[str, Any]], name: str
) -> Iterable[tuple[Any, list[Mapping[str, Any]]]]:
    """The values that rows have under a name, in the order they come, each with its rows."""
    found: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row[name], []).append(row)
    return found.items()
