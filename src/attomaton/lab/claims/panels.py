"""The pictures of a claim as charts: theory dashed, measurement solid, on the same axes; or a heat map."""

import math
from collections.abc import Sequence
from typing import Any

from attomaton.lab.kit.charts import VIRIDIS, Chart, thinned
from attomaton.report.figures.verification import BAD_PANEL, panel_table, words
from attomaton.results import Line, Numbers, Panel

CURVES = ("$blue", "$vermilion", "$green", "$purple", "$orange", "$sky", "$ink")
SYMBOLS = ("circle", "rect", "diamond", "triangle", "pin", "arrow", "roundRect")


def draw_panel(panel: Panel, name: str) -> Chart:
    """One picture with its numbers."""
    title = words(panel.title or name)
    try:
        header, rows = panel_table(panel)
    except BAD_PANEL:
        header, rows = ["no numbers"], []
    options = line_options(panel) if panel.heat is None else heat_options(panel)
    bands = any(_band(line) for line in panel.lines)
    note = "Thin lines: lowest and highest." if bands else ""
    filled = [["" if x is None else x for x in row] for row in rows]
    return Chart(title, options, header, filled, name=name, height="19rem", note=note)


def line_options(panel: Panel) -> dict[str, Any]:
    """Curves and points as ECharts takes them.

    >>> lines = [Line([1.0, 2.0], [0.0, 3.0], "theory", "W")]
    >>> made = line_options(Panel(lines=lines, yscale="log"))
    >>> made["series"][0]["name"], made["series"][0]["data"], made["series"][0]["lineStyle"]["type"]
    ('W', [[1.0, None], [2.0, 3.0]], 'dashed')
    """
    log = panel.xscale == "log", panel.yscale == "log"
    series: list[dict[str, Any]] = []
    of_colour: dict[int | None, str] = {None: ""}
    for i, line in enumerate(panel.lines):
        name = words(line.label or "") or of_colour.get(line.colour, "")
        of_colour.setdefault(line.colour, name)
        colour = CURVES[(i if line.colour is None else line.colour) % len(CURVES)]
        series += [_series(line, line.y, i, name, colour, log)]
        series += [
            {**_series(line, y, i, name, colour, log), "type": "line", "symbol": "none",
             "lineStyle": {"width": 1, "opacity": 0.45, "color": colour}}
            for y in _band(line)
        ]  # fmt: skip
    marks = [
        {"xAxis": _number(mark.x), "name": words(mark.label or "")} for mark in panel.marks or ()
    ]
    if marks and series:
        series[0]["markLine"] = {
            "symbol": "none", "silent": True, "data": marks,
            "lineStyle": {"color": "$ink", "type": "dotted"},
            "label": {"formatter": "{b}", "color": "$soft", "position": "insideEndTop"},
        }  # fmt: skip
    named = list(dict.fromkeys(s["name"] for s in series if s["name"]))
    return {
        "grid": {"left": 10, "right": 24, "top": 56 if named else 32, "bottom": 28, "containLabel": True},
        **({"legend": {"data": named, "type": "scroll", "top": 0}} if named else {}),
        "tooltip": {"trigger": "item"},
        "xAxis": _across(panel, log[0]),
        "yAxis": _up(panel, log[1]),
        "series": series,
    }  # fmt: skip


def _series(
    line: Line, y: Sequence[float | None], i: int, name: str, colour: str, log: tuple[bool, ...]
) -> dict[str, Any]:
    ink = "$ink" if line.ink else colour
    data = [[_number(line.x[k], log[0]), _number(y[k], log[1])] for k in thinned(len(line.x))]
    if line.style == "points":
        return {"type": "scatter", "name": name, "data": data, "symbol": SYMBOLS[i % len(SYMBOLS)],
                "symbolSize": 7, "itemStyle": {"color": colour, "opacity": 0.75}}  # fmt: skip
    theory = line.style == "theory"
    return {
        "type": "line", "name": name, "data": data, "z": 3 if theory else 2,
        "showSymbol": not theory and len(data) < 12, "symbolSize": 6,
        "itemStyle": {"color": ink if theory else colour},
        "lineStyle": {"type": "dashed" if theory else "solid", "width": 1.6 if theory else 2,
                      "color": ink if theory else colour},
    }  # fmt: skip


def _band(line: Line) -> list[Numbers]:
    """The lowest and the highest values of a line, where it has them."""
    if line.low is not None and line.high is not None:
        return [line.low, line.high]
    if line.error is None:
        return []
    both = list(zip(line.y, line.error, strict=True))
    return [[None if y is None or e is None else y + sign * e for y, e in both] for sign in (-1, 1)]


def _across(panel: Panel, log: bool) -> dict[str, Any]:
    name = words(panel.xlabel)
    return {
        "type": "log" if log else "value",
        "scale": True,
        "name": name,
        "nameLocation": "middle",
        "nameGap": 28,
    }


def _up(panel: Panel, log: bool) -> dict[str, Any]:
    """The name stands above the axis, where no number of it can reach."""
    name = words(panel.ylabel)
    return {"type": "log" if log else "value", "scale": True, "name": name, "nameLocation": "end",
            "nameTextStyle": {"align": "left"}}  # fmt: skip


def _number(x: Any, positive: bool = False) -> float | None:
    """A number that can be drawn, on a logarithmic axis a positive one."""
    if x is None or not math.isfinite(float(x)) or (positive and float(x) <= 0):
        return None
    return float(x)


def heat_options(panel: Panel) -> dict[str, Any]:
    """A heat map as ECharts takes it.

    >>> made = heat_options(Panel(heat=[[1.0, 2.0], [3.0, None]], xticks=["a", "b"]))
    >>> made["series"][0]["data"], made["xAxis"]["data"], made["visualMap"]["max"]
    ([[0, 0, 1.0], [1, 0, 2.0], [0, 1, 3.0], [1, 1, None]], ['a', 'b'], 3.0)
    """
    values = [[_number(x) for x in row] for row in panel.heat or ()]
    known = [x for row in values for x in row if x is not None]
    width = max(map(len, values), default=0)
    across, down = (
        [words(str(x)) for x in (range(n) if ticks is None else ticks)]
        for ticks, n in ((panel.xticks, width), (panel.yticks, len(values)))
    )
    low = min(known, default=0.0) if panel.low is None else panel.low
    high = max(known, default=0.0) if panel.high is None else panel.high
    return {
        "grid": {"left": 10, "right": 90, "top": 32, "bottom": 28, "containLabel": True},
        "tooltip": {"trigger": "item"},
        "xAxis": {**_across(panel, False), "type": "category", "data": across},
        "yAxis": {**_up(panel, False), "type": "category", "data": down, "inverse": True,
                  "nameLocation": "start"},
        "visualMap": {"min": low, "max": high, "calculable": True, "right": 0, "top": "middle",
                      "text": [words(panel.colour or ""), ""], "inRange": {"color": VIRIDIS}},
        "series": [{"type": "heatmap", "data": [[j, i, x] for i, row in enumerate(values) for j, x in enumerate(row)]}],
    }  # fmt: skip
