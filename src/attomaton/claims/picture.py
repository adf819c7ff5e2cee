"""Pictures of claims as plain data: theory and measurement on the same axes, few enough points to read."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

POINTS = 200  # of one line, at most
FEW = 80  # of one line among many

Numbers = Sequence[float] | Sequence[int] | np.ndarray


def line(
    x: Numbers,
    y: Numbers,
    label: str | None = None,
    style: str = "measured",
    points: int = POINTS,
    **more: Any,
) -> dict[str, Any]:
    """One line of a panel, thinned to at most `points`; `style` is "measured", "theory" or "points".

    >>> line([1, 2], [3, 4], "W", "points")
    {'x': [1.0, 2.0], 'y': [3.0, 4.0], 'style': 'points', 'label': 'W'}
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), points)).round().astype(int))
    named = {} if label is None else {"label": label}
    return {"x": x[kept].tolist(), "y": y[kept].tolist(), "style": style, **named, **more}


def panel(
    title: str, xlabel: str, ylabel: str, lines: Iterable[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    """One panel as `report.panels` draws it."""
    return {"title": title, "xlabel": xlabel, "ylabel": ylabel, "lines": list(lines), **more}


def bundle(x: Numbers, ys: Float[np.ndarray, "curves points"], label: str) -> list[dict[str, Any]]:
    """Several measured curves of one kind in one colour, named once, the first eight; what is no number is left out."""
    lines: list[dict[str, Any]] = []
    for y in np.asarray(ys, float)[:8]:
        known = np.isfinite(y)
        if known.any():
            at = np.asarray(x)[known]
            lines.append(line(at, y[known], None if lines else label, points=FEW, colour=0))
    return lines


def level(x: Numbers, value: float, label: str) -> dict[str, Any]:
    """A horizontal line at what theory says."""
    ends = [float(np.min(x)), float(np.max(x))]
    return line(ends, [value, value], label, "theory", ink="#000000")
