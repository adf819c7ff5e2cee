"""The pictures of scan and snap as options for charts: attention over time and now, curves with their phases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.lab.kit.charts import (
    POINTS,
    ROW,
    Axis,
    Legend,
    Margins,
    Mark,
    Picture,
    Series,
    Shades,
    Span,
)
from attomaton.lab.scan_snap.runs import Predicted, Result
from attomaton.report.figures.dynamics import middle
from attomaton.report.words import evenly
from attomaton.scan_snap.data import SequenceClasses

COLUMNS = 200  # of a heat map, at most
# Fixed margins in pixels, so that a marker can be laid over a chart without drawing the chart again.
ROWS = Margins(96, 16, 8, 70)
CURVE = Margins(52, 26, 38, 42)
COLOURS = {"reduced": "$green", "limit": "$blue", "sampled": "$vermilion"}
# So that colour is never alone.
DASHES = {"reduced": "dashed", "limit": "solid", "sampled": "dotted"}
CURVES = {
    "entropy": "Entropy over distinct tokens (nats)",
    "gamma": "Decoder gain γ",
    "B": "Scan progress B",
}
NO_GRID = {"splitLine": {"show": False}}


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
    named = zip((classes.names[l] for l in own), kinds, strict=True)
    marked = [x if x.startswith(kind) else f"{x} ({kind})" for x, kind in named]
    return Tokens(own, marked, kinds)


def attention_of(result: Result, n: int, tokens: Tokens) -> np.ndarray:
    """c_n at every recorded time, (times, tokens): the median over runs, as `attomaton dynamics` draws it."""
    return np.median(result.run.attention[:, :, n][..., tokens.at], axis=0)


def scales_of(sides: Sequence[Mapping[str, Result]], level: str, n: int) -> Scales:
    """Axes that hold all levels of all sides; a logarithmic one of times has no 0."""
    results = [result for side in sides for result in side.values()]
    times = [result.run.t[result.run.t > 0] for result in results]
    span = min(float(t[0]) for t in times), max(float(t[-1]) for t in times)
    tokens = tokens_of(results[0].run.classes, n)
    most = max(float(np.nanmax(attention_of(side[level], n, tokens))) for side in sides)
    return Scales(span, _short(most), {key: _reach(key, results) for key in CURVES})


def _reach(key: str, results: Sequence[Result]) -> tuple[float, float]:
    """The values a quantity takes, with a little room."""
    flat = np.concatenate([middle(result.run, key)[result.run.t > 0] for result in results])
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


def heat(c: np.ndarray, t: np.ndarray, tokens: Tokens, high: float) -> Picture:
    """Attention to every token of a class (rows) at the recorded times (columns)."""
    shown = columns_of(len(t), len(tokens.at))
    cells = [
        {"value": [j, l, _short(c[i, l])], "name": f"{name} at t = {moment(t[i])}"}
        for j, i in enumerate(shown)
        for l, name in enumerate(tokens.names)
    ]
    # Without emphasis: or every move of the mouse draws all cells again.
    still = {"progressive": 0, "animation": False, "emphasis": {"disabled": True}}
    scale = {"itemHeight": 140, "itemWidth": 12, "precision": 3, "seriesIndex": 0}
    return Picture(
        x=Axis("time", names=[moment(t[i]) for i in shown], more=NO_GRID),
        y=_rows(tokens),
        series=[Series("heatmap", cells, "attention", more=still)],
        header=["time", *tokens.names],
        rows=[[float(t[i]), *map(float, c[i])] for i in range(len(t))],
        margins=ROWS,
        shades=Shades(0, high, ["attention", ""], more=scale),
        hover={"position": "top"},
    )


def bars(c: np.ndarray, tokens: Tokens, high: float, now: int) -> Picture:
    """Attention to every token of a class at one time, beside what it was at first."""
    tick = {"symbol": "rect", "symbolSize": [2, 12], "animation": False}
    # Distinct tokens in full colour, common ones hollow.
    hollow = {"itemStyle": {"color": "$fill", "borderColor": "$orange", "borderWidth": 1.5}}
    data = [
        {"value": _short(x), **(hollow if kind == "common" else {})}
        for x, kind in zip(c[now], tokens.kinds, strict=True)
    ]
    return Picture(
        x=Axis("attention", low=0, high=_short(high), more={"axisLabel": {"showMaxLabel": False}}),
        y=_rows(tokens),
        series=[
            Series("bar", data, "now", "$blue", more={"id": "now", "animation": False}),
            Series("scatter", [_short(x) for x in c[0]], "at first", "$ink", more=tick),
        ],
        header=["token", "kind", "attention now", "at first"],
        rows=[
            [name, kind, float(c[now, l]), float(c[0, l])]
            for l, (name, kind) in enumerate(zip(tokens.names, tokens.kinds, strict=True))
        ],
        margins=ROWS,
        legend=Legend(["now", "at first"], more={"top": "auto", "bottom": 0}),
        hover=ROW,
    )


def _rows(tokens: Tokens) -> Axis:
    label = {"interval": 0, "fontSize": 11, "width": 88, "overflow": "truncate"}
    more = {"inverse": True, "axisTick": {"show": False}, "axisLabel": label}
    return Axis(names=tokens.names, more=more)


# Curves


def curves(key: str, sides: Mapping[str, Result], times: Predicted, scales: Scales) -> Picture:
    """One quantity on every level, with the spans of scanning and snapping; `times` are the predicted ones."""
    span, (low, high) = scales.span, scales.curves[key]
    series: list[Series] = []
    rows: list[list[object]] = []
    logarithmic = key == "gamma"
    lines = [(level, level, side.run.t, middle(side.run, key)) for level, side in sides.items()]
    if logarithmic:
        from attomaton.scan_snap.theory.decoder import decoder_gain

        # The gain of the reduced level is the closed form, drawn last.
        t, run = np.geomspace(*span, 200), next(iter(sides.values())).run
        closed = decoder_gain(t, float(run.eta_y[0]), run.classes.K, run.classes.M)
        lines = [line for line in lines if line[0] != "reduced"]
        lines.append(("closed form", "reduced", t, closed))
    for name, level, t, value in lines:
        fine = np.flatnonzero((t > 0) & np.isfinite(value) & ((value > 0) | (not logarithmic)))
        data = [[float(t[fine[k]]), float(value[fine[k]])] for k in evenly(len(fine), POINTS)]
        still = {"showSymbol": False, "animation": False}
        series.append(Series("line", data, name, COLOURS[level], dash=DASHES[level], more=still))
        rows += [[name, float(a), float(b)] for a, b in zip(t, value, strict=True)]
    label = {"axisLabel": {"showMinLabel": False, "showMaxLabel": False}}
    return Picture(
        x=Axis("time", log=True, low=span[0], high=span[1], more=NO_GRID),
        y=Axis(log=logarithmic, low=low, high=high, more=label),
        series=[*series, _phases(sides, times, span)],
        header=["level", "time", key],
        rows=rows,
        margins=CURVE,
        legend=Legend([s.name for s in series], more={"left": 0, "itemWidth": 30}),
    )


def columns_of(times: int, tokens: int) -> list[int]:
    """The recorded times a heat map shows: as many as its columns and its points allow.

    >>> len(columns_of(201, 8)), len(columns_of(201, 20)), columns_of(3, 20)
    (200, 100, [0, 1, 2])
    """
    return evenly(times, max(2, min(COLUMNS, POINTS // tokens)))


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


def _phases(sides: Mapping[str, Result], times: Predicted, span: tuple[float, float]) -> Series:
    """Shaded spans, the predicted snap, and the measured one of each level, labelled at different heights."""
    low, high = span
    areas = [
        Span(name, max(a, low), min(b, high), colour)
        for name, a, b, colour in (
            ("scanning", low, times.scanning_end, "$orange"),
            ("snapping", times.snapping_start, high, "$sky"),
        )
        if max(a, low) < min(b, high)
    ]
    # A label stands left of its line, unless the axis is there already.
    near = times.transition < low * (high / low) ** 0.1
    place = "insideStartBottom" if near else "insideEndTop"
    lines = [("predicted", times.transition, "$ink", "dashed", place)]
    # Of the reduced level the gain is the prediction.
    for level, height in (("limit", "insideMiddleBottom"), ("sampled", "insideEndBottom")):
        if level in sides:
            at = float(np.median([phases.transition for phases in sides[level].phases]))
            lines.append((level, at, COLOURS[level], DASHES[level], height))
    marks = [
        Mark(f"{name} {moment(at)}", at, None, colour, dash, place, ink=colour, size=11)
        for name, at, colour, dash, place in lines
        if low <= at <= high
    ]
    more = {"id": "phases", "silent": True, "tooltip": {"show": False}}
    return Series("line", [], marks=marks, spans=areas, more=more)


def _short(x: float) -> float:
    """A number in as many digits as a picture can show."""
    return float(f"{x:.5g}")
