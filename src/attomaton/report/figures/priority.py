"""The priority graph as a picture: components as boxes, levels from top to bottom, relations as arrows."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, groupby, pairwise
from typing import Any

import numpy as np

from attomaton.errors import cut
from attomaton.mechanics.theory.view import GraphView
from attomaton.report.figures.canvas import Figure, drawn, mention, put_text, text_width
from attomaton.report.figures.colours import BLACK, BLUE, GREY, PALE, SKY
from attomaton.report.graphs import Real, is_active, readable
from attomaton.report.layout import Point, Spacing, place_blocks
from attomaton.report.words import percent, signed

COMPONENT_CAP = 40  # components in one figure
LEVEL_CAP = 12  # components of one level, while a capped figure still has deeper levels to show
TOKEN_CAP = 8  # tokens inside one component's box
# All lengths are inches, and data coordinates are inches too.
_SPACING = Spacing(
    gap=0.22,
    row_gap=0.3,
    level_gap=0.55,
    edge=0.1,
    row_width=6.6,
    narrowest=4.2,
    lane=0.16,
    turn=0.012,
    port=0.2,
)
_HEAD = 0.08  # of an arrow
_Arrows = dict[tuple[int, int], float]  # from component to component, each with its margin
_LINE, _PAD, _BAR = 0.2, 0.12, 0.5  # text line, padding and longest share bar in a box
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.95, 0.25, 0.55, 0.6  # margins: level names, title, legend


@dataclass(frozen=True)
class _Box:
    """One component on its way to the page: what it says and how large it is."""

    id: int
    level: int
    score: float
    weight: float
    lines: list[tuple[str, float]]  # token as shown, its share of the component
    more: int  # tokens left out

    @cached_property
    def width(self) -> float:
        """Room for its widest line."""
        score = text_width(f"score {signed(self.score)}", 7)
        name = max(text_width(text, 9.5) for text, _ in self.lines)
        if len(self.lines) == 1:
            return max(name, score) + 2 * _PAD
        return max(name + _BAR + 0.55, score + text_width("tied, ", 7)) + 2 * _PAD

    @property
    def height(self) -> float:
        """Room for all its lines, of which the score is one."""
        return (len(self.lines) + 1 + (self.more > 0)) * _LINE + _PAD


@drawn
def priority_figure(view: GraphView) -> Figure:
    """Who outranks whom after one last token: components as boxes, highest priority on top.

    A component of several tokens shows each one's soft share. Arrows that others imply are left
    out. Solid ones have the margin 1, the smallest allowed (active); dashed ones more (slack). Above
    `COMPONENT_CAP` components the figure shows the heaviest of the top levels and says so.
    """
    title = f"after {mention(view.last)}: who outranks whom"
    boxes, total = _boxes(view)
    if not boxes:
        figure, axes = _canvas(title, 6.4, 1.2)
        said = "no sample ends in this token: nothing is learned about it"
        put_text(axes, 0.2, 0.45, said, 9.5, ha="left", color=GREY)
        return figure
    relations = _relations(view, {box.id for box in boxes})
    arrows = _reduced(relations)
    shown = f"shown {len(boxes)} of {total:,} components" if len(boxes) < total else ""
    titles = 1.15 * text_width(title, 12) + text_width(shown, 9) + 0.6  # bold is wider
    number = {box.id: i for i, box in enumerate(boxes)}
    placed = place_blocks(
        np.array([box.width for box in boxes]),
        np.array([box.height for box in boxes]),
        np.array([box.level for box in boxes]),
        np.array([number[a] for a, _ in arrows], np.int64),
        np.array([number[b] for _, b in arrows], np.int64),
        replace(_SPACING, narrowest=max(_SPACING.narrowest, titles - _LEFT - _RIGHT)),
    )
    top, low = placed.bands[0].top, placed.bands[-1].bottom
    width, height = placed.width + _LEFT + _RIGHT, low - top + _TOP + _BOTTOM
    figure, axes = _canvas(title, width, height)

    def on_page(x: float, y: float) -> Point:
        return _LEFT + placed.width / 2 + x, height - _TOP + top - y

    counts = Counter(component.level for component in view.components)
    for band in placed.bands:
        strip = on_page(0.0, band.bottom)[1], on_page(0.0, band.top)[1]
        inside = sum(box.level == band.level for box in boxes)
        _draw_level(axes, f"level {band.level}", strip, width, inside, counts[band.level])
    for ends, way in zip(arrows, placed.ways, strict=True):
        line = [on_page(x, y) for x, y in way]
        _draw_arrow(axes, "arrow-{}-{}".format(*ends), is_active(arrows[ends]), line)
    for box, x, y in zip(boxes, placed.x, placed.y, strict=True):
        _draw_box(axes, box, *on_page(x, y))
    _draw_key(figure, boxes, arrows)
    if len(arrows) < len(relations):
        put_text(
            axes, 0.2, 0.45, "an arrow that others imply is left out", 7, ha="left", color=GREY
        )
    if shown:
        put_text(axes, width - 0.2, height - 0.3, shown, 9, ha="right", color=GREY)
    return figure


def _boxes(view: GraphView) -> tuple[list[_Box], int]:
    """The components to draw, measured, and how many there are in all."""
    names = readable(node.token for node in view.nodes)
    nodes, component = view.members, view.component_of
    weight = dict.fromkeys(nodes, 0.0)
    for link in view.links:
        for end in (link.source, link.target):
            weight[component[end]] += link.weight
    boxes = []
    for c, inside in nodes.items():
        share = np.exp([node.log_pi for node in inside])
        order = np.argsort(-share, kind="stable")
        lines = [(cut(names[inside[i].token], 18), float(share[i] / share.sum())) for i in order]
        keep = TOKEN_CAP if len(lines) > TOKEN_CAP + 1 else len(lines)
        about = inside[0].level, inside[0].svm_score, weight[c]
        boxes.append(_Box(c, *about, lines[:keep], len(lines) - keep))
    chosen = sorted(_chosen(boxes), key=lambda box: (box.level, -box.score, box.id))
    return chosen, len(boxes)


def _chosen(boxes: list[_Box]) -> list[_Box]:
    """All boxes, or the heaviest of each level from the top down to the cap."""
    if len(boxes) <= COMPONENT_CAP:
        return boxes
    ranked = sorted(boxes, key=lambda b: (b.level, -b.weight, b.id))
    levels = [list(same) for _, same in groupby(ranked, key=lambda b: b.level)]
    parts = [same[:LEVEL_CAP] for same in levels] + [same[LEVEL_CAP:] for same in levels]
    return list(chain.from_iterable(parts))[:COMPONENT_CAP]


def _relations(view: GraphView, shown: set[int]) -> _Arrows:
    """One arrow for each pair of shown components with an edge between them."""
    component = view.component_of
    margin: _Arrows = {}
    for link in view.links:
        a, b = component[link.source], component[link.target]
        if a != b and a in shown and b in shown:
            margin[a, b] = min(link.margin, margin.get((a, b), np.inf))
    return dict(sorted(margin.items()))


def _reduced(arrows: _Arrows) -> _Arrows:
    """The arrows that no longer way implies; as margins add along a way, active ones stay."""
    below: dict[int, set[int]] = {}
    for a, b in arrows:
        below.setdefault(a, set()).add(b)

    @cache
    def reach(a: int) -> frozenset[int]:
        return frozenset(below.get(a, ())).union(*(reach(b) for b in below.get(a, ())))

    return {
        (a, b): margin
        for (a, b), margin in arrows.items()
        if not any(b in reach(c) for c in below[a] - {b})
    }


def _canvas(title: str, width: Real, height: Real) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure as NewFigure

    figure = NewFigure(figsize=(width, height), label=title)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    put_text(axes, 0.2, height - 0.3, title, 12, weight="bold", ha="left")
    return figure, axes


def _draw_level(
    axes: Any, name: str, ends: tuple[float, float], width: float, shown: int, total: int
) -> None:
    """A pale band and a name at the left."""
    from matplotlib.patches import Rectangle

    low, top = ends
    axes.add_patch(Rectangle((0, low), width, top - low, color=PALE, lw=0, zorder=0))
    y = (top + low) / 2
    put_text(axes, 0.2, y, name, 8, ha="left", color=GREY)
    if shown < total:
        put_text(axes, 0.2, y - 0.15, f"{shown} of {total:,}", 7, ha="left", color=GREY)


def _draw_arrow(axes: Any, name: str, active: bool, points: list[Point]) -> None:
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path as Curve

    x, y = points[-1]
    points = [*points[:-1], (x, y + _HEAD)]
    vertices, codes = [points[0]], [Curve.MOVETO]
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        vertices += [(x0, middle), (x1, middle), (x1, y1)]
        codes += [Curve.CURVE4] * 3
    colour = BLACK if active else GREY
    style = {"lw": 1.5, "ls": "-"} if active else {"lw": 0.8, "ls": (0, (4, 2.5))}
    line = PathPatch(Curve(vertices, codes), fc="none", ec=colour, zorder=2, **style)
    line.set_gid(name)
    axes.add_patch(line)
    head = [(x, y), (x - _HEAD / 2, y + _HEAD + 0.02), (x + _HEAD / 2, y + _HEAD + 0.02)]
    axes.add_patch(Polygon(head, closed=True, fc=colour, ec=colour, lw=0.5, zorder=3))


def _draw_box(axes: Any, box: _Box, x: float, y: float) -> None:
    from matplotlib.patches import FancyBboxPatch, Rectangle

    tied = len(box.lines) > 1
    left, low = x - box.width / 2, y - box.height / 2
    frame = FancyBboxPatch(
        (left, low),
        box.width,
        box.height,
        boxstyle="round,pad=0,rounding_size=0.08",
        fc="white",
        ec=BLUE,
        lw=2.2 if tied else 1.2,
        zorder=4,
    )
    frame.set_gid(f"component-{box.id}")
    axes.add_patch(frame)
    score = f"score {signed(box.score)}"
    y = low + box.height - _PAD / 2 - _LINE / 2
    if not tied:
        put_text(axes, x, y, box.lines[0][0], 9.5, zorder=5)
        put_text(axes, x, y - _LINE * 0.9, score, 7, color=GREY, zorder=5)
        return
    put_text(axes, x, y, f"tied, {score}", 7, color=GREY, zorder=5)
    largest = max(share for _, share in box.lines)
    right = left + box.width - _PAD
    for text, share in box.lines:
        y -= _LINE
        put_text(axes, left + _PAD, y, text, 9.5, ha="left", zorder=5)
        put_text(axes, right, y, percent(share), 8, ha="right", zorder=5)
        bar = (right - 0.42 - _BAR, y - 0.055)
        long = _BAR * share / largest
        axes.add_patch(Rectangle(bar, long, 0.11, fc=SKY, ec=BLUE, lw=0.6, zorder=5))
    if box.more:
        left_over = 1 - sum(share for _, share in box.lines)
        rest = f"and {box.more:,} more, {percent(left_over)} together"
        put_text(axes, x, y - _LINE, rest, 7, color=GREY, zorder=5)


def _draw_key(figure: Figure, boxes: list[_Box], arrows: _Arrows) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    key: list[Any] = []
    if any(map(is_active, arrows.values())):
        key.append(Line2D([], [], color=BLACK, lw=1.5, label="outranks, margin 1 (active)"))
    if not all(map(is_active, arrows.values())):
        key.append(Line2D([], [], color=GREY, lw=0.8, ls="--", label="margin above 1 (slack)"))
    if any(len(box.lines) > 1 for box in boxes):
        key.append(Patch(fc=SKY, ec=BLUE, lw=0.6, label="share among the tied"))
    width, height = figure.get_size_inches()
    corner = (0.2 / width, 0.12 / height)
    figure.legend(handles=key, loc="lower left", bbox_to_anchor=corner, ncols=3, borderpad=0,
                  borderaxespad=0, columnspacing=1.4)  # fmt: skip
