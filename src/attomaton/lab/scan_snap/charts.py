"""The pictures of scan and snap as options for charts: attention over time and now, curves with their phases."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.lab.kit.charts import POINTS, VIRIDIS, Rows, thinned
from attomaton.lab.scan_snap.runs import Result
from attomaton.scan_snap.data import SequenceClasses

COLUMNS = 200  # of a heat map, at most
# Fixed margins in pixels, so that a marker can be laid over a chart without drawing the chart again.
ROWS = {"left": 96, "right": 16, "top": 8, "bottom": 70}
CURVE = {"left": 52, "right": 26, "top": 38, "bottom": 42}
COLOURS = {"reduced": "$green", "limit": "$blue", "sampled": "$vermilion"}
DASHES = {
    "reduced": "dashed",
    "limit": "solid",
    "sampled": "dotted",
}  # so that colour is never alone
CURVES = {
    "entropy": "Entropy over distinct tokens (nats)",
    "gamma": "Decoder gain γ",
    "B": "Scan progress B",
}
Drawn = tuple[dict[str, Any], list[str], Rows]


@dataclass(frozen=True)
class Scales:
    """What the axes show, the same on both sides: times, the highest attention, the values of each curve."""

    span: tuple[float, float]
    attention: float
    curves: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Tokens:
    """The rows of a class: its tokens, distinct first, each with its name and kind."""

    at: np.ndarray
    names: list[str]
    kinds: list[str]


def tokens_of(classes: SequenceClasses, n: int) -> Tokens:
    """What class n has, distinct tokens before common ones, each kind from likely to rare."""
    own = np.flatnonzero(classes.P[n] > 0)
    own = own[np.lexsort((-classes.P[n, own], classes.common[own]))]
    kinds = ["common" if classes.common[l] else "distinct" for l in own]
    names = [classes.names[l] for l in own]
    marked = [
        x if x.startswith(kind) else f"{x} ({kind})" for x, kind in zip(names, kinds, strict=True)
    ]
    return Tokens(own, marked, kinds)


def attention_of(result: Result, n: int, tokens: Tokens) -> np.ndarray:
    """c_n at every recorded time, (times, tokens): the median over runs, as `attomaton dynamics` draws it."""
    return np.median(result.run.attention[:, :, n][..., tokens.at], axis=0)


def curve(result: Result, key: str) -> np.ndarray:
    """Mean over classes, median over runs; the one point of a curve at each recorded time."""
    value = result.run.entropy if key == "entropy" else np.asarray(result.run.records[key], float)
    return np.median(value.mean(axis=-1) if value.ndim == 3 else value, axis=0)


def scales_of(sides: Sequence[dict[str, Result]], level: str, n: int) -> Scales:
    """Axes that hold all levels of all sides; a logarithmic one of times has no 0."""
    results = [result for side in sides for result in side.values()]
    times = [result.run.t[result.run.t > 0] for result in results]
    span = min(float(t[0]) for t in times), max(float(t[-1]) for t in times)
    tokens = tokens_of(results[0].run.classes, n)
    most = max(float(np.nanmax(attention_of(side[level], n, tokens))) for side in sides)
    return Scales(span, _short(most), {key: _reach(key, results) for key in CURVES})


def _reach(key: str, results: Sequence[Result]) -> tuple[float, float]:
    """The values a quantity takes, with a little room."""
    flat = np.concatenate([curve(result, key)[result.run.t > 0] for result in results])
    flat = flat[np.isfinite(flat) & ((flat > 0) | (key != "gamma"))]
    if not len(flat):
        return 0.1, 1.0
    low, high = float(flat.min()), float(flat.max())
    if key == "gamma":
        return _short(low / 1.5), _short(high * 2)
    room = 0.08 * (high - low) or 0.1
    return _short(low - room if key == "entropy" else min(0.0, low)), _short(high + room)


def moment(t: float) -> str:
    """A time as a label."""
    return f"{t:,.0f}" if t >= 100 else f"{t:.3g}"


# Attention over time, and at one time


def heat(c: np.ndarray, t: np.ndarray, tokens: Tokens, high: float) -> Drawn:
    """Attention to every token of a class (rows) at the recorded times (columns)."""
    shown = columns_of(len(t), len(tokens.at))
    cells = [
        {"value": [j, l, _short(c[i, l])], "name": f"{name} at t = {moment(t[i])}"}
        for j, i in enumerate(shown)
        for l, name in enumerate(tokens.names)
    ]
    options = {
        "grid": ROWS,
        "tooltip": {"position": "top"},
        "xAxis": {"type": "category", "data": [moment(t[i]) for i in shown], "name": "time", "nameLocation": "middle",
                  "nameGap": 26, "splitLine": {"show": False}},
        "yAxis": _rows(tokens),
        "visualMap": {"min": 0, "max": high, "orient": "horizontal", "left": "center", "bottom": 0, "itemHeight": 140,
                      "itemWidth": 12, "precision": 3, "text": ["attention", ""], "seriesIndex": 0,
                      "inRange": {"color": VIRIDIS}},
        "series": [{"type": "heatmap", "name": "attention", "data": cells, "progressive": 0, "animation": False,
                    "emphasis": {"disabled": True}}],  # or every move of the mouse draws all cells again
    }  # fmt: skip
    rows = [[float(t[i]), *map(float, c[i])] for i in range(len(t))]
    return options, ["time", *tokens.names], rows


def bars(c: np.ndarray, tokens: Tokens, high: float, now: int) -> Drawn:
    """Attention to every token of a class at one time, beside what it was at first."""
    options = {
        "grid": ROWS,
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}},
        "legend": {"bottom": 0, "data": ["now", "at first"]},
        "xAxis": {"type": "value", "min": 0, "max": _short(high), "name": "attention", "nameLocation": "middle",
                  "nameGap": 26, "axisLabel": {"showMaxLabel": False}},
        "yAxis": _rows(tokens),
        "series": [
            {"id": "now", "type": "bar", "name": "now", "data": _bars(c[now], tokens), "animation": False,
             "itemStyle": {"color": "$blue"}},
            {"type": "scatter", "name": "at first", "data": [_short(x) for x in c[0]], "symbol": "rect",
             "symbolSize": [2, 12], "itemStyle": {"color": "$ink"}, "animation": False},
        ],
    }  # fmt: skip
    rows = [
        [name, kind, float(c[now, l]), float(c[0, l])]
        for l, (name, kind) in enumerate(zip(tokens.names, tokens.kinds, strict=True))
    ]
    return options, ["token", "kind", "attention now", "at first"], rows


def _rows(tokens: Tokens) -> dict[str, Any]:
    return {"type": "category", "data": tokens.names, "inverse": True, "axisTick": {"show": False},
            "axisLabel": {"interval": 0, "fontSize": 11, "width": 88, "overflow": "truncate"}}  # fmt: skip


def bars_at(c: np.ndarray, tokens: Tokens, now: int) -> dict[str, Any]:
    """The change that moves the bars to another time."""
    return {"series": [{"id": "now", "data": _bars(c[now], tokens)}]}


def _bars(c: np.ndarray, tokens: Tokens) -> list[dict[str, Any]]:
    """Distinct tokens in full colour, common ones hollow."""
    hollow = {"color": "$fill", "borderColor": "$orange", "borderWidth": 1.5}
    return [
        {"value": _short(x), "itemStyle": hollow} if kind == "common" else {"value": _short(x)}
        for x, kind in zip(c, tokens.kinds, strict=True)
    ]


# Curves


def curves(key: str, sides: dict[str, Result], times: dict[str, Any], scales: Scales) -> Drawn:
    """One quantity on every level, with the spans of scanning and snapping; `times` are the predicted ones."""
    span, (low, high) = scales.span, scales.curves[key]
    series: list[dict[str, Any]] = []
    rows: list[list[object]] = []
    logarithmic = key == "gamma"
    for level, result in sides.items():
        if level == "reduced" and key == "gamma":
            continue  # its gain is the closed form, drawn below
        t, value = result.run.t, curve(result, key)
        fine = (t > 0) & np.isfinite(value) & ((value > 0) | (not logarithmic))
        series.append(_line(level, t[fine], value[fine], COLOURS[level], DASHES[level]))
        rows += [[level, float(a), float(b)] for a, b in zip(t, value, strict=True)]
    if key == "gamma":
        from attomaton.scan_snap.theory.decoder import decoder_gain

        t = np.geomspace(*span, 200)
        run = next(iter(sides.values())).run
        closed = decoder_gain(t, float(run.eta_y[0]), run.classes.K, run.classes.M)
        series.append(_line("closed form", t, closed, COLOURS["reduced"], "dashed"))
        rows += [["closed form", float(a), float(b)] for a, b in zip(t, closed, strict=True)]
    options = {
        "grid": CURVE,
        "tooltip": {"trigger": "axis"},
        "legend": {"top": 0, "left": 0, "data": [s["name"] for s in series], "itemWidth": 30},
        "xAxis": {"type": "log", "min": span[0], "max": span[1], "name": "time", "nameLocation": "middle",
                  "nameGap": 26, "splitLine": {"show": False}},
        "yAxis": {"type": "log" if logarithmic else "value", "min": low, "max": high,
                  "axisLabel": {"showMinLabel": False, "showMaxLabel": False}},
        "series": [*series, _phases(sides, times, span)],
    }  # fmt: skip
    return options, ["level", "time", key], rows


def columns_of(times: int, tokens: int) -> list[int]:
    """The recorded times a heat map shows: as many as its columns and its points allow.

    >>> len(columns_of(201, 8)), len(columns_of(201, 20)), columns_of(3, 20)
    (200, 100, [0, 1, 2])
    """
    return thinned(times, max(2, min(COLUMNS, POINTS // tokens)))


def column_at(now: int, times: int, tokens: int) -> float:
    """Where a recorded time is on the horizontal axis of a heat map, from 0 to 1: the middle of its column."""
    shown = np.array(columns_of(times, tokens))
    return (float(np.abs(shown - now).argmin()) + 0.5) / len(shown)


def curve_at(t: float, span: tuple[float, float]) -> float:
    """Where a time is on the logarithmic axis of a curve, from 0 to 1.

    >>> curve_at(0.0, (1.0, 100.0)), curve_at(10.0, (1.0, 100.0)), curve_at(100.0, (1.0, 100.0))
    (0.0, 0.5, 1.0)
    """
    low, high = span
    return float(np.log(max(t, low) / low) / np.log(high / low)) if high > low else 0.0


def _line(name: str, t: np.ndarray, value: np.ndarray, colour: str, dash: str) -> dict[str, Any]:
    return {
        "type": "line", "name": name, "showSymbol": False, "animation": False,
        "lineStyle": {"width": 2, "type": dash, "color": colour}, "itemStyle": {"color": colour},
        "data": [[float(t[i]), float(value[i])] for i in thinned(len(t))],
    }  # fmt: skip


def _phases(
    sides: dict[str, Result], times: dict[str, Any], span: tuple[float, float]
) -> dict[str, Any]:
    """Shaded spans, the predicted snap, and the measured one of each level, labelled at different heights."""
    low, high = span
    areas = [
        [
            {"name": name, "xAxis": max(a, low), "itemStyle": {"color": colour}},
            {"xAxis": min(b, high)},
        ]
        for name, a, b, colour in (
            ("scanning", low, times["scanning_end"], "$orange"),
            ("snapping", times["snapping_start"], high, "$sky"),
        )
        if max(a, low) < min(b, high)
    ]
    # A label stands left of its line, unless the axis is there already.
    near = times["transition"] < low * (high / low) ** 0.1
    place = "insideStartBottom" if near else "insideEndTop"
    lines = [_snap("predicted", times["transition"], "$ink", "dashed", place)]
    heights = {"limit": "insideMiddleBottom", "sampled": "insideEndBottom"}
    for level, result in sides.items():
        if level not in heights:
            continue  # the reduced level's gain is the prediction
        at = float(np.median([phases.transition for phases in result.phases]))
        lines.append(_snap(level, at, COLOURS[level], DASHES[level], heights[level]))
    return {
        "id": "phases", "type": "line", "data": [], "silent": True, "tooltip": {"show": False},
        "markArea": {"silent": True, "itemStyle": {"opacity": 0.15}, "data": areas,
                     "label": {"color": "$soft", "fontSize": 11, "position": "top"}},
        "markLine": {"symbol": "none", "silent": True, "animation": False,
                     "data": [line for line in lines if low <= line["xAxis"] <= high]},
    }  # fmt: skip


def _snap(name: str, at: float, colour: str, dash: str, place: str) -> dict[str, Any]:
    return {
        "name": name, "xAxis": at, "lineStyle": {"color": colour, "type": dash, "width": 1.5},
        "label": {"formatter": f"{name} {moment(at)}", "position": place, "color": colour, "fontSize": 11},
    }  # fmt: skip


def _short(x: float) -> float:
    """A number in as many digits as a picture can show."""
    return float(f"{x:.5g}")
