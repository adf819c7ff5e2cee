"""The pictures of a verification, one for each panel: small SVG that a page can darken, and the numbers in it."""

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any
from xml.etree import ElementTree

from attomaton.errors import UsageError
from attomaton.report.figures.canvas import to_svg
from attomaton.report.figures.colours import BLACK, GREY
from attomaton.report.figures.panels import panels_figure
from attomaton.report.text.verification import slugs
from attomaton.results import Checked, Line, Panel

Table = tuple[list[str], list[list[Any]]]

SIZE = (4.4, 3.3)  # inches
TITLE_WIDTH = 54  # characters of a title to a line
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
# Paper, ink and grid take the page's colours; the curves' own are legible on both papers.
_THEME = {BLACK: "ink", GREY: "soft", "#DDDDDD": "grid", "#FFFFFF": "paper"}
BAD_PANEL = (ValueError, TypeError, KeyError, IndexError, UsageError)  # what a panel may fail with


def report_figures(records: Sequence[Checked]) -> dict[str, str]:
    """The picture of every panel that can be drawn, as SVG text by file name."""
    drawn = {
        f"{slug}-{i}.svg": panel_or_fault(panel)[0]
        for record, slug in zip(records, slugs(records), strict=True)
        for i, panel in enumerate(record.panels, 1)
    }
    return {name: svg for name, svg in drawn.items() if svg}


def panel_svg(panel: Panel) -> str:
    """One panel as a picture of its own."""
    figure = panels_figure("", [replace(panel, title=_wrapped(panel.title))])
    figure.set_size_inches(SIZE)
    figure.set_label(words(panel.title))
    for axes in figure.axes:
        _plain_powers(axes)
    return _smaller(to_svg(figure))


def panel_or_fault(panel: Panel) -> tuple[str, str]:
    """The picture, or why there is none: a report of many claims must not fall with one picture."""
    try:
        return panel_svg(panel), ""
    except BAD_PANEL as fault:
        return "", f"{type(fault).__name__}: {fault}"


def themed(svg: str) -> str:
    """The picture with paper, ink and grid in the colours of the page it stands in."""
    for colour, name in _THEME.items():
        svg = re.sub(rf"(?i)(?<=:){colour}\b", f"var(--{name})", svg)
    return svg.replace("<svg ", '<svg fill="var(--ink)" ', 1)


def words(label: str) -> str:
    r"""A label without its TeX, for tables and for reading aloud.

    >>> words(r"$\eta_Y$ / $W_{\mathrm{svm}}$")
    'η_Y / W_svm'
    """

    def letter(found: re.Match[str]) -> str:
        size = "CAPITAL" if found[1][0].isupper() else "SMALL"
        try:
            return unicodedata.lookup(f"GREEK {size} LETTER {found[1].upper()}")
        except KeyError:
            return "" if found[1] in ("mathrm", "mathbf", "mathit", "text") else found[1]

    def formula(found: re.Match[str]) -> str:
        return re.sub(r"[{}]", "", re.sub(r"\\([A-Za-z]+)\s?", letter, found[1]))

    return re.sub(r"\$([^$]*)\$", formula, label)


def panel_table(panel: Panel) -> Table:
    """Every number of a panel: rows by x where that is clear, else one row for each point."""
    if panel.heat is not None:
        return _heat_table(panel)
    names = line_names(panel)
    places = [[_float(x) for x in line.x] for line in panel.lines]
    clear = all(len(set(x)) == len(x) and all(map(math.isfinite, x)) for x in places)
    return _wide(panel, names) if clear else _long(panel, names)


def full(x: Any) -> str:
    """A number with all its digits."""
    return "" if x is None else repr(x) if isinstance(x, float) else str(x)


def _plain_powers(axes: Any) -> None:
    """Powers of ten as plain text, small ticks on short logarithmic axes only: both halve the cost of a picture."""
    from matplotlib.ticker import LogFormatter, NullLocator

    class Powers(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            if not super().__call__(x, pos):
                return ""
            digits, power = f"{x:.3e}".split("e")
            if -2 <= int(power) <= 2:
                return f"{x:g}"
            raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
            return f"10{raised}" if float(digits) == 1 else f"{float(digits):g}·10{raised}"

    for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() == "log":
            axis.set_major_formatter(Powers())
            axis.set_minor_formatter(Powers(labelOnlyBase=False))
            if max(ends) > 100 * min(ends):
                axis.set_minor_locator(NullLocator())


def _float(x: Any) -> float:
    return math.nan if x is None else float(x)


def _wrapped(title: str) -> str:
    """The title on several lines where it is long; formulas stay whole."""
    lines = [""]
    for word in re.findall(r"(?:\$[^$]*\$|\S)+", title):
        if lines[-1] and len(lines[-1]) + len(word) >= TITLE_WIDTH:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)


def line_names(panel: Panel) -> list[str]:
    """A name for each line; one without a label shares that of its colour, and like names are numbered."""
    found: list[str] = []
    of_colour: dict[int | None, str] = {None: ""}
    for line in panel.lines:
        shared = of_colour.get(line.colour, "")
        name = words(line.label or "") or shared or words(panel.ylabel) or "y"
        if line.style == "theory" and "theory" not in name.lower():
            name += " (theory)"
        of_colour.setdefault(line.colour, name)
        found.append(name)
    return [
        f"{name}, {found[: i + 1].count(name)}" if found.count(name) > 1 else name
        for i, name in enumerate(found)
    ]


def _parts(line: Line) -> dict[str, Sequence[float | None]]:
    """What a line has at each of its places."""
    every = {"y": line.y, "low": line.low, "high": line.high, "error": line.error}
    return {name: values for name, values in every.items() if values is not None}


def _wide(panel: Panel, names: list[str]) -> Table:
    header = [words(panel.xlabel or "x")]
    columns: list[dict[float, float | str]] = []
    for line, name in zip(panel.lines, names, strict=True):
        for part, values in _parts(line).items():
            header.append(name if part == "y" else f"{name}, {part}")
            columns.append(dict(zip(map(_float, line.x), map(_float, values), strict=False)))
    if panel.marks:
        header.append("vertical line")
        columns.append({_float(m.x): words(m.label or "mark") for m in panel.marks})
    places = sorted(set().union(*columns)) if columns else []
    return header, [[x, *(column.get(x) for column in columns)] for x in places]


def _long(panel: Panel, names: list[str]) -> Table:
    parts = list(dict.fromkeys(part for line in panel.lines for part in _parts(line)))
    rows: list[list[Any]] = [
        [name, *map(_float, point)]
        for line, name in zip(panel.lines, names, strict=True)
        for point in zip_longest(line.x, *(_parts(line).get(p, ()) for p in parts))
    ]
    for mark in panel.marks or ():
        rows.append(["vertical line", _float(mark.x), *[None] * len(parts)])
    return ["line", words(panel.xlabel or "x"), *parts], rows


def _heat_table(panel: Panel) -> Table:
    values = [[_float(x) for x in row] for row in panel.heat or ()]
    width = max(map(len, values), default=0)
    across = range(width) if panel.xticks is None else panel.xticks
    down = range(len(values)) if panel.yticks is None else panel.yticks
    corner = " \\ ".join(words(part) for part in (panel.ylabel, panel.xlabel) if part)
    rows = [[words(str(name)), *row] for name, row in zip(down, values, strict=True)]
    return [corner, *(words(str(x)) for x in across)], rows


def _smaller(svg: str) -> str:
    """The same picture in fewer bytes: hundredths of a point, one list of fonts, nothing that nothing points at."""
    root = ElementTree.fromstring(svg)
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", svg))
    fonts = max(re.findall(r"font-family: ([^;\"]*)", svg), key=len, default="sans-serif")
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        pairs = ((key.replace(f"{{{_XLINK}}}", "xlink:"), x) for key, x in element.attrib.items())
        element.attrib = {
            key: short
            for key, value in pairs
            if (key != "id" or value in used) and (short := _short_value(key, value))
        }
        if element.tag not in ("text", "tspan", "style", "title") or len(element):
            element.text = None
        element.tail = None
    _unwrap(root)
    root.attrib = {"xmlns": _SVG, "xmlns:xlink": _XLINK, "font-family": fonts, **root.attrib}
    return ElementTree.tostring(root, encoding="unicode")


def _unwrap(element: ElementTree.Element) -> None:
    """Takes away groups that say nothing, their members left in place."""
    members: list[ElementTree.Element] = []
    for child in element:
        _unwrap(child)
        if child.tag == "g" and not child.attrib:
            members += child
        elif child.tag != "metadata":
            members.append(child)
    element[:] = members


def _short_value(key: str, value: str) -> str:
    if key in ("d", "x", "y"):
        value = re.sub(r"-?\d+\.\d+", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), value)
        return re.sub(r"\s*([A-Za-z])\s*", r"\1", value).strip()
    if key == "transform":
        return re.sub(r"^rotate\(-?0 [^)]*\)$", "", value)
    if key == "style":
        return re.sub(r"font-family:[^;]*;?", "", re.sub(r"\s*([:;])\s*", r"\1", value)).strip(";")
    return value
