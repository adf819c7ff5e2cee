"""Charts: what is drawn, in axes, series and marks; and the card that shows it, its numbers as a table, files of both.

No other module writes options of ECharts. `more` is for what one chart alone tells ECharts of a part. Colours are
named "$blue", "$ink", "$soft", "$line" and so on, and follow the page.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

from nicegui import ui
from nicegui.elements.echart import EChart

from attomaton.lab.kit.parts import card, emptied, heading, icon_button, menu_item
from attomaton.lab.kit.table import Rows, numbers, save_csv
from attomaton.report.text.spreadsheets import csv_text

Option = dict[str, Any]  # as ECharts reads it
POINTS = 2000  # of one series
COLOURS = ("$blue", "$vermilion", "$green", "$purple", "$orange", "$sky", "$soft")
# A scale that reads the same to every eye and in grey.
VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58",
           "#b5de2b", "#fde725"]  # fmt: skip
# What is said of what the mouse is on: of all series there, of a row of bars, of one point.
ALONG = {"trigger": "axis"}
ROW = {"trigger": "axis", "axisPointer": {"type": "shadow"}}
ONE = {"trigger": "item"}


class Margins(NamedTuple):
    """Pixels around what is drawn; those inside `labels` are left for the labels of the axes too."""

    left: int
    right: int
    top: int
    bottom: int
    labels: bool = False


USUAL = Margins(8, 16, 34, 26, labels=True)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a chart."""

    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Axis(Part):
    """Numbers from `low` to `high`, their logarithms, or `names`; its own name stands in the middle, `gap` away."""

    name: str = ""
    log: bool = False
    names: Sequence[str] | None = None
    low: float | int | str | None = None
    high: float | int | str | None = None
    gap: int | None = 26  # None: the name stands at the end

    def _option(self) -> Option:
        middle = {"nameLocation": "middle", "nameGap": self.gap} if self.gap and self.name else {}
        kind = "category" if self.names is not None else "log" if self.log else "value"
        said = {"name": self.name or None, "data": self.names, "min": self.low, "max": self.high}
        return _said(type=kind, **said) | middle | dict(self.more)


def names_down(names: Iterable[str]) -> Axis:
    """An axis of names for bars, the first on top, all of them written."""
    label = {"width": 110, "overflow": "truncate", "interval": 0, "color": "$ink"}
    more = {"inverse": True, "axisLabel": label, "axisTick": {"show": False}}
    return Axis(names=list(names), more=more)


AXES = {"log": "log steps", "linear": "linear steps"}  # of training, to choose from


def steps_axis(linear: bool) -> Axis:
    """The axis of a curve of training."""
    ends = {"axisLine": {"onZero": False}}
    return Axis("step", log=not linear, low="dataMin", high="dataMax", more=ends)


def drawable(x: float | int | None, log: bool = False) -> float | None:
    """A number that an axis can show: a finite one, on a logarithmic axis a positive one; else nothing.

    >>> drawable(2), drawable(0.0, log=True), drawable(float("nan"))
    (2.0, None, None)
    """
    return None if x is None or not isfinite(x) or (log and x <= 0) else float(x)


@dataclass(frozen=True)
class Mark:
    """A line across the chart at one value of x or of y, with a few words beside it."""

    text: str
    x: float | int | None = None
    y: float | int | None = None
    colour: str = "$ink"
    dash: str = "dashed"
    place: str = "insideEndTop"
    ink: str = "$soft"  # of the words
    size: int = 12

    def _option(self) -> Option:
        label = {"formatter": "{b}", "position": self.place, "color": self.ink}
        style = {"color": self.colour, "type": self.dash, "width": 1.5}
        made = {"name": self.text, "lineStyle": style, "label": label | {"fontSize": self.size}}
        return _said(xAxis=self.x, yAxis=self.y) | made


@dataclass(frozen=True)
class Span:
    """A shaded stretch of the x axis, with its name above."""

    text: str
    low: float | int
    high: float | int
    colour: str


@dataclass(frozen=True)
class Square:
    """One square of a heat map: coloured by its value, or by a colour of its own, hatched."""

    value: Sequence[float | int]  # column, row, and what the colour says
    name: str
    label: str = ""
    ink: str = "$ink"
    colour: str = ""
    hatch: str = "$paper"
    framed: bool = False

    def _option(self) -> Option:
        frame = {"borderColor": "$vermilion", "borderWidth": 4}
        style = frame if self.framed else {"borderColor": "$paper", "borderWidth": 1}
        label = {"show": bool(self.label), "formatter": self.label, "color": self.ink}
        made = {"value": self.value, "name": self.name, "itemStyle": style, "label": label}
        if not self.colour:
            return made
        lines = {"rotation": -0.785, "dashArrayX": [1, 0], "dashArrayY": [3, 5]}
        hatched = {"color": self.colour, "decal": {"color": self.hatch, **lines}}
        bold = {"fontSize": 14, "fontWeight": "bold"}
        return made | {"visualMap": False, "itemStyle": style | hatched, "label": label | bold}


@dataclass(frozen=True)
class Series(Part):
    """What is drawn together: `kind` is line, bar, scatter or heatmap."""

    kind: str
    data: Sequence[Any]
    name: str = ""
    colour: str = ""
    dash: str | Sequence[int] = "solid"
    width: float | int = 2
    marks: Sequence[Mark] = ()
    spans: Sequence[Span] = ()

    def _option(self) -> Option:
        data = [x._option() if isinstance(x, Square) else x for x in self.data]
        made = _said(type=self.kind, name=self.name or None, data=data)
        if self.colour:
            made["itemStyle"] = {"color": self.colour}
        if self.kind == "line":
            colour = {"color": self.colour} if self.colour else {}
            made["lineStyle"] = {"width": self.width, "type": self.dash} | colour
        still = {"silent": True, "animation": False}
        if self.marks:
            made["markLine"] = still | {"symbol": "none", "data": [x._option() for x in self.marks]}
        if self.spans:
            made["markArea"] = still | {
                "itemStyle": {"opacity": 0.15},
                "label": {"color": "$soft", "fontSize": 11, "position": "top"},
                "data": [
                    [{"name": s.text, "xAxis": s.low, "itemStyle": {"color": s.colour}}, {"xAxis": s.high}]
                    for s in self.spans
                ],
            }  # fmt: skip
        return made | dict(self.more)


@dataclass(frozen=True)
class Legend(Part):
    """The names of series, above the chart; without `names`, of all."""

    names: Sequence[str] | None = None

    def _option(self) -> Option:
        return _said(type="scroll", top=0, data=self.names) | dict(self.more)


@dataclass(frozen=True)
class Shades(Part):
    """Values as colours, from `low` to `high`, with a scale to read them by: below, where its `ends` have names."""

    low: float | int
    high: float | int
    ends: Sequence[str] = ()  # what is high, what is low

    def _option(self) -> Option:
        scale: Option = {"min": self.low, "max": self.high, "inRange": {"color": VIRIDIS}}
        if self.ends:
            place = {"orient": "horizontal", "left": "center", "bottom": 0}
            scale |= place | {"itemWidth": 14, "itemHeight": 160, "text": self.ends}
        return scale | dict(self.more)


@dataclass(frozen=True)
class Word:
    """A few words inside a chart, so many pixels from its edges."""

    text: str
    left: int | str | None = None
    top: int | str | None = None
    bottom: int | None = None

    def _option(self) -> Option:
        place = _said(left=self.left, top=self.top, bottom=self.bottom)
        style = {"text": self.text, "fill": "$soft", "fontSize": 12}
        return {"type": "text", "silent": True, "style": style} | place


@dataclass(frozen=True)
class Picture(Part):
    """A chart without its card: what is drawn, the table of its numbers, and what is said below."""

    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    series: Sequence[Series] = ()
    header: Sequence[str] = ()
    rows: Rows = ()
    note: str = ""
    margins: Margins = USUAL
    hover: Mapping[str, Any] = field(default_factory=lambda: ALONG)
    legend: Legend | None = None
    shades: Shades | None = None
    words: Sequence[Word] = ()

    def options(self) -> Option:
        """As ECharts takes it."""
        left, right, top, bottom, labels = self.margins
        grid = {"left": left, "right": right, "top": top, "bottom": bottom}
        made = _said(
            grid=grid | ({"containLabel": True} if labels else {}),
            tooltip=dict(self.hover),
            xAxis=self.x._option(),
            yAxis=self.y._option(),
            series=[one._option() for one in self.series],
            legend=self.legend and self.legend._option(),
            visualMap=self.shades and self.shades._option(),
            graphic=[word._option() for word in self.words] or None,
        )
        return made | dict(self.more)


NOTHING = Picture()


@dataclass(frozen=True)
class Point:
    """What was clicked: the series and the place in its data; `value` as it was given."""

    series: int
    index: int
    value: Sequence[object]


class Canvas(EChart, component="chart.js", dependencies=["saved.js"]):
    """ECharts in the colours of the page; `chart` is its card, where it has one."""

    chart: "Chart | None" = None

    def __init__(self, picture: Picture, label: str, can: bool = False):
        super().__init__(picture.options())
        self._props |= {"label": label, "can": can}

    def show(self, picture: Picture) -> None:
        """Draw something else."""
        self._props["options"] = picture.options()
        self.update()

    def patch(self, *series: Series) -> None:
        """Change these series, which have an id, in the browser alone."""
        self.run_method("patch", {"series": [one._option() for one in series]})


class Chart:
    """A card with a chart, its table twin and its exports; `name` is the stem of saved files."""

    def __init__(
        self,
        title: str,
        picture: Picture = NOTHING,
        *,
        name: str,
        height: str = "20rem",
        on_click: Callable[[Point], Any] | None = None,
    ):
        self.name, self.picture = name, picture
        self._stale = True
        with card(label=title) as self.card:
            with ui.row().classes("card-head"):
                self.title = heading(title)
                ui.space()
                icon_button("table_rows", "Show the numbers as a table", self._toggle)
                with icon_button("download", "Save this chart"), ui.menu():
                    for kind in ("svg", "png", "pdf"):
                        menu_item(kind.upper(), partial(self._save, kind))
                    menu_item("CSV", lambda: save_csv(name, self.picture.header, self.picture.rows))
            self.canvas = Canvas(picture, title, on_click is not None)
            self.canvas.style(f"height: {height}; width: 100%")
            self.canvas.chart = self
            if on_click is not None:
                self.canvas.on("point", lambda e: _clicked(e.args, on_click))
            self.note = ui.label().classes("note")
            self._twin = ui.element("div").classes("twin")
            self._twin.set_visibility(False)
        self._say()

    def show(self, picture: Picture) -> None:
        """Draw something else in the same place."""
        self.canvas.show(picture)
        self.follow(picture)

    def follow(self, picture: Picture) -> None:
        """Take over what the browser has drawn by itself, for the table and the files."""
        self.picture, self._stale = picture, True
        self._say()
        if self._twin.visible:
            self._fill()

    def _say(self) -> None:
        self.note.set_text(self.picture.note)
        self.note.set_visibility(bool(self.picture.note))

    def _save(self, kind: str) -> None:
        csv = csv_text(self.picture.header, self.picture.rows, "\n")
        self.canvas.run_method("save", kind, self.name, self.title.text, csv)

    def _toggle(self) -> None:
        self._twin.set_visibility(not self._twin.visible)
        if self._twin.visible and self._stale:
            self._fill()

    def _fill(self) -> None:
        with emptied(self._twin):
            numbers(self.picture.header, self.picture.rows)
        self._stale = False


def charts_here() -> list[Chart]:
    """The charts of the page that asks."""
    there = ui.context.client.elements.values()
    return [e.chart for e in there if isinstance(e, Canvas) and e.chart is not None]


def _clicked(said: object, do: Callable[[Point], Any]) -> Any:
    """Tell of a click, if it fell on something that is drawn: what a browser says is looked at first."""
    match said:
        case {"seriesIndex": int(series), "dataIndex": int(index), "value": value}:
            return do(Point(series, index, value if isinstance(value, list) else [value]))
    return None


def _said(**options: Any) -> Option:
    """Options that were given."""
    return {name: value for name, value in options.items() if value is not None}
