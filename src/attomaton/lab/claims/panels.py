"""The pictures of a claim as charts: theory dashed, measurement solid, on the same axes; or a heat map."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attomaton.lab.kit.charts import VIRIDIS, Chart, thinned
from attomaton.report.figures.verification import BAD_PANEL, panel_table, words

Panel = Mapping[str, Any]

CURVES = ("$blue", "$vermilion", "$green", "$purple", "$orange", "$sky", "$ink")
SYMBOLS = ("circle", "rect", "diamond", "triangle", "pin", "arrow", "roundRect")


def draw_panel(panel: Panel, name: str) -> Chart:
    """One picture with its numbers."""
    title = words(str(panel.get("title") or name))
    try:
        header, rows = panel_table(panel)
    except BAD_PANEL:
        header, rows = ["no numbers"], []
    options = heat_options(panel) if "heat" in panel else line_options(panel)
    bands = any("low" in x or "error" in x for x in panel.get("lines", ()))
    note = "Thin lines: lowest and highest." if bands else ""
    filled = [["" if x is None else x for x in row] for row in rows]
    return Chart(title, options, header, filled, name=name, height="19rem", note=note)


def line_options(panel: Panel) -> dict[str, Any]:
    """Curves and points as ECharts takes them.

    >>> lines = [{"x": [1, 2], "y": [0, 3], "style": "theory", "label": "W"}]
    >>> made = line_options({"lines": lines, "yscale": "log"})
    >>> made["series"][0]["name"], made["series"][0]["data"], made["series"][0]["lineStyle"]["type"]
    ('W', [[1.0, None], [2.0, 3.0]], 'dashed')
    """
    log = tuple(panel.get(f"{a}scale") == "log" for a in "xy")
    series: list[dict[str, Any]] = []
    of_colour: dict[Any, str] = {}
    for i, line in enumerate(panel.get("lines", ())):
        name = words(str(line.get("label") or "")) or of_colour.get(line.get("colour"), "")
        if "colour" in line:
            of_colour.setdefault(line["colour"], name)
        colour = CURVES[line.get("colour", i) % len(CURVES)]
        series += [_series(line, line["y"], i, name, colour, log)]
        series += [
            {**_series(line, y, i, name, colour, log), "type": "line", "symbol": "none",
             "lineStyle": {"width": 1, "opacity": 0.45, "color": colour}}
            for y in _band(line)
        ]  # fmt: skip
    marks = [
        {"xAxis": _number(m["x"]), "name": words(str(m.get("label") or ""))}
        for m in panel.get("marks", ())
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
    line: Panel, y: Sequence[Any], i: int, name: str, colour: str, log: tuple[bool, ...]
) -> dict[str, Any]:
    style = line.get("style", "measured")
    ink = "$ink" if "ink" in line else colour
    kept = thinned(len(line["x"]))
    data = [[_number(line["x"][k], log[0]), _number(y[k], log[1])] for k in kept]
    if style == "points":
        return {"type": "scatter", "name": name, "data": data, "symbol": SYMBOLS[i % len(SYMBOLS)],
                "symbolSize": 7, "itemStyle": {"color": colour, "opacity": 0.75}}  # fmt: skip
    theory = style == "theory"
    return {
        "type": "line", "name": name, "data": data, "z": 3 if theory else 2,
        "showSymbol": not theory and len(data) < 12, "symbolSize": 6,
        "itemStyle": {"color": ink if theory else colour},
        "lineStyle": {"type": "dashed" if theory else "solid", "width": 1.6 if theory else 2,
                      "color": ink if theory else colour},
    }  # fmt: skip


def _band(line: Panel) -> list[list[Any]]:
    """The lowest and the highest values of a line, where it has them."""
    if "low" in line:
        return [line["low"], line["high"]]
    if "error" in line:
        both = list(zip(line["y"], line["error"], strict=True))
        return [[y - e for y, e in both], [y + e for y, e in both]]
    return []


def _across(panel: Panel, log: bool) -> dict[str, Any]:
    name = words(str(panel.get("xlabel") or ""))
    return {
        "type": "log" if log else "value",
        "scale": True,
        "name": name,
        "nameLocation": "middle",
        "nameGap": 28,
    }


def _up(panel: Panel, log: bool) -> dict[str, Any]:
    """The name stands above the axis, where no number of it can reach."""
    name = words(str(panel.get("ylabel") or ""))
    return {"type": "log" if log else "value", "scale": True, "name": name, "nameLocation": "end",
            "nameTextStyle": {"align": "left"}}  # fmt: skip


def _number(x: Any, positive: bool = False) -> float | None:
    """A number that can be drawn, on a logarithmic axis a positive one."""
    if x is None or not math.isfinite(float(x)) or (positive and float(x) <= 0):
        return None
    return float(x)


def heat_options(panel: Panel) -> dict[str, Any]:
    """A heat map as ECharts takes it.

    >>> made = heat_options({"heat": [[1, 2], [3, None]], "xticks": ["a", "b"]})
    >>> made["series"][0]["data"], made["xAxis"]["data"], made["visualMap"]["max"]
    ([[0, 0, 1.0], [1, 0, 2.0], [0, 1, 3.0], [1, 1, None]], ['a', 'b'], 3.0)
    """
    values = [[_number(x) for x in row] for row in panel["heat"]]
    known = [x for row in values for x in row if x is not None]
    width = max(map(len, values), default=0)
    ticks = {
        a: [words(str(x)) for x in panel.get(f"{a}ticks", range(n))]
        for a, n in (("x", width), ("y", len(values)))
    }
    low, high = (panel.get(k, f(known, default=0.0)) for k, f in (("low", min), ("high", max)))
    return {
        "grid": {"left": 10, "right": 90, "top": 32, "bottom": 28, "containLabel": True},
        "tooltip": {"trigger": "item"},
        "xAxis": {**_across(panel, False), "type": "category", "data": ticks["x"]},
        "yAxis": {**_up(panel, False), "type": "category", "data": ticks["y"], "inverse": True,
                  "nameLocation": "start"},
        "visualMap": {"min": low, "max": high, "calculable": True, "right": 0, "top": "middle",
                      "text": [words(str(panel.get("colour") or "")), ""], "inRange": {"color": VIRIDIS}},
        "series": [{"type": "heatmap", "data": [[j, i, x] for i, row in enumerate(values) for j, x in enumerate(row)]}],
    }  # fmt: skip
