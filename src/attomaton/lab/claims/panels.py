"""The pictures of a claim as charts: theory dashed, measurement solid, on the same axes; or a heat map."""

from dataclasses import replace

from attomaton.lab.kit.charts import (
    COLOURS,
    ONE,
    POINTS,
    Axis,
    Chart,
    Legend,
    Margins,
    Mark,
    Picture,
    Series,
    Shades,
    drawable,
)
from attomaton.report.figures.verification import BAD_PANEL, panel_table, words
from attomaton.report.words import evenly
from attomaton.results import Line, Numbers, Panel

CURVES = (*COLOURS[:-1], "$ink")
# The name of the axis that goes up stands above it, where no number of it can reach.
UP = {"scale": True, "nameLocation": "end", "nameTextStyle": {"align": "left"}}
SYMBOLS = ("circle", "rect", "diamond", "triangle", "pin", "arrow", "roundRect")


def draw_panel(panel: Panel, name: str) -> Chart:
    """One picture with its numbers."""
    title = words(panel.title or name)
    try:
        header, rows = panel_table(panel)
    except BAD_PANEL:
        header, rows = ["no numbers"], []
    bands = any(_band(line) for line in panel.lines)
    picture = replace(
        lines_of(panel) if panel.heat is None else heat_of(panel),
        header=header,
        rows=[["" if x is None else x for x in row] for row in rows],
        note="Thin lines: lowest and highest." if bands else "",
    )
    return Chart(title, picture, name=name, height="19rem")


def lines_of(panel: Panel) -> Picture:
    """Curves and points.

    >>> made = lines_of(Panel(lines=[Line([1.0, 2.0], [0.0, 3.0], "theory", "W")], yscale="log"))
    >>> made.series[0].name, made.series[0].data, made.series[0].dash
    ('W', [[1.0, None], [2.0, 3.0]], 'dashed')
    """
    log = panel.xscale == "log", panel.yscale == "log"
    series: list[Series] = []
    of_colour: dict[int | None, str] = {None: ""}
    for i, line in enumerate(panel.lines):
        name = words(line.label or "") or of_colour.get(line.colour, "")
        of_colour.setdefault(line.colour, name)
        colour = CURVES[(i if line.colour is None else line.colour) % len(CURVES)]
        series.append(_series(line, i, name, colour, log))
        thin = {"symbol": "none", "lineStyle": {"width": 1, "opacity": 0.45, "color": colour}}
        series += [
            Series("line", _points(line, y, log), name, colour, more=thin) for y in _band(line)
        ]
    marks = [Mark(words(m.label or ""), drawable(m.x), dash="dotted") for m in panel.marks or ()]
    if marks and series:
        series[0] = replace(series[0], marks=marks)
    named = list(dict.fromkeys(s.name for s in series if s.name))
    return Picture(
        x=_across(panel, log[0]),
        y=Axis(words(panel.ylabel), log[1], gap=None, more=UP),
        series=series,
        margins=Margins(10, 24, 56 if named else 32, 28, labels=True),
        legend=Legend(named) if named else None,
        hover=ONE,
    )


def _points(line: Line, y: Numbers, log: tuple[bool, bool]) -> list[list[float | None]]:
    kept = evenly(len(line.x), POINTS)
    return [[drawable(line.x[k], log[0]), drawable(y[k], log[1])] for k in kept]


def _series(line: Line, i: int, name: str, colour: str, log: tuple[bool, bool]) -> Series:
    data = _points(line, line.y, log)
    if line.style == "points":
        style = {"color": colour, "opacity": 0.75}
        more = {"symbol": SYMBOLS[i % len(SYMBOLS)], "symbolSize": 7, "itemStyle": style}
        return Series("scatter", data, name, more=more)
    if line.style == "theory":
        ink = "$ink" if line.ink else colour
        top = {"z": 3, "showSymbol": False}
        return Series("line", data, name, ink, dash="dashed", width=1.6, more=top)
    dots = {"showSymbol": len(data) < 12, "symbolSize": 6}
    return Series("line", data, name, colour, more=dots)


def _band(line: Line) -> list[Numbers]:
    """The lowest and the highest values of a line, where it has them."""
    if line.low is not None and line.high is not None:
        return [line.low, line.high]
    if line.error is None:
        return []
    both = list(zip(line.y, line.error, strict=True))
    return [[None if y is None or e is None else y + sign * e for y, e in both] for sign in (-1, 1)]


def _across(panel: Panel, log: bool) -> Axis:
    return Axis(words(panel.xlabel), log, gap=28, more={"scale": True})


def heat_of(panel: Panel) -> Picture:
    """A heat map.

    >>> made = heat_of(Panel(heat=[[1.0, 2.0], [3.0, None]], xticks=["a", "b"]))
    >>> made.series[0].data, made.x.names, made.shades.high
    ([[0, 0, 1.0], [1, 0, 2.0], [0, 1, 3.0], [1, 1, None]], ['a', 'b'], 3.0)
    """
    values = [[drawable(x) for x in row] for row in panel.heat or ()]
    known = [x for row in values for x in row if x is not None]
    width = max(map(len, values), default=0)
    across, down = (
        [words(str(x)) for x in (range(n) if ticks is None else ticks)]
        for ticks, n in ((panel.xticks, width), (panel.yticks, len(values)))
    )
    low = min(known, default=0.0) if panel.low is None else panel.low
    high = max(known, default=0.0) if panel.high is None else panel.high
    side = {
        "calculable": True,
        "right": 0,
        "top": "middle",
        "text": [words(panel.colour or ""), ""],
    }
    cells = [[j, i, x] for i, row in enumerate(values) for j, x in enumerate(row)]
    return Picture(
        x=replace(_across(panel, False), names=across),
        y=Axis(
            words(panel.ylabel),
            names=down,
            gap=None,
            more={**UP, "inverse": True, "nameLocation": "start"},
        ),
        series=[Series("heatmap", cells)],
        margins=Margins(10, 90, 32, 28, labels=True),
        shades=Shades(low, high, more=side),
        hover=ONE,
    )
