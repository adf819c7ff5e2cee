"""The priority graph as a picture: components as boxes, levels from top to bottom, relations as arrows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from attomaton.errors import cut
from attomaton.mechanics.theory.view import GraphView
from attomaton.report.figures.canvas import (
    BLACK,
    BLUE,
    COMPONENT_CAP,
    GREY,
    LEVEL_CAP,
    PALE,
    SKY,
    TOKEN_CAP,
    Figure,
    Point,
    Real,
    drawn,
    mention,
    put_text,
    text_width,
)
from attomaton.report.graphs import is_active, readable
from attomaton.report.words import percent, signed

# All lengths are inches, and data coordinates are inches too.
_ROW_WIDTH = 6.6  # a level wider than this continues on another row
_GAP, _LANE = 0.22, 0.16  # between boxes; width of the lane of an arrow that passes a row
_ROW_GAP, _SAME_LEVEL_GAP = 0.55, 0.3
_LINE, _PAD, _BAR = 0.2, 0.12, 0.5  # text line, padding and longest share bar in a box
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.95, 0.25, 0.55, 0.5  # margins: level names, title, legend


@dataclass
class _Box:
    """One component on its way to the page: what it says, how large it is, where it stands."""

    id: int
    level: int
    score: float
    weight: float
    lines: list[tuple[str, float]]  # token as shown, its share of the component
    more: int = 0  # tokens left out
    width: float = 0.0
    height: float = 0.0
    row: int = -1
    x: float = 0.0  # centre
    y: float = 0.0  # centre


@dataclass
class _Lane:
    """The place where an arrow passes a row it does not stop at."""

    row: int
    width: float = _LANE
    x: float = 0.0


@dataclass
class _Arrow:
    """One relation between components: `stops` are the box it leaves, lanes, the box it meets."""

    source: int
    target: int
    margin: float
    stops: list[Any] = field(default_factory=list)


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
        return _empty_figure(title, "no sample ends in this token: nothing is learned about it")
    relations = _relations(view, {box.id for box in boxes})
    arrows = _reduced(relations)
    rows = _stack(boxes)
    slots = _lay_lanes(rows, {box.id: box for box in boxes}, arrows)
    width = max(4.4, *(sum(_need(s) for s in row) for row in slots)) + _LEFT + _RIGHT
    shown = f"shown {len(boxes)} of {total:,} components" if len(boxes) < total else ""
    width = max(width, 1.15 * text_width(title, 12) + text_width(shown, 9) + 0.6)  # bold is wider
    _order(slots, arrows)
    _place(slots, arrows, _LEFT, width - _RIGHT)
    height = _stand(rows, slots)
    figure, axes = _canvas(title, width, height)
    _draw_levels(axes, rows, width, _level_counts(view))
    for arrow in arrows:
        _draw_arrow(axes, arrow, arrows, rows)
    for box in boxes:
        _draw_box(axes, box)
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
        first = inside[0]
        box = _Box(c, first.level, first.svm_score, weight[c], lines[:keep])
        box.more = len(lines) - keep
        boxes.append(box)
    chosen = _chosen(boxes)
    for box in chosen:
        _measure(box)
    return chosen, len(boxes)


def _chosen(boxes: list[_Box]) -> list[_Box]:
    """All boxes, or the heaviest of each level from the top down to the cap."""
    if len(boxes) <= COMPONENT_CAP:
        return boxes
    ranked = sorted(boxes, key=lambda b: (b.level, -b.weight, b.id))
    seen: dict[int, int] = {}
    first: list[_Box] = []
    spare: list[_Box] = []
    for box in ranked:
        seen[box.level] = seen.get(box.level, 0) + 1
        (first if seen[box.level] <= LEVEL_CAP else spare).append(box)
    return (first + spare)[:COMPONENT_CAP]


def _measure(box: _Box) -> None:
    score = text_width(f"score {signed(box.score)}", 7)
    name = max(text_width(text, 9.5) for text, _ in box.lines)
    if len(box.lines) == 1:
        box.width, box.height = max(name, score) + 2 * _PAD, 2 * _LINE + _PAD
        return
    tied = text_width("tied, ", 7)
    rows = len(box.lines) + 1 + (box.more > 0)
    box.width = max(name + _BAR + 0.55, score + tied) + 2 * _PAD
    box.height = rows * _LINE + _PAD


def _relations(view: GraphView, shown: set[int]) -> list[_Arrow]:
    """One arrow for each pair of shown components with an edge between them."""
    component = view.component_of
    margin: dict[tuple[int, int], float] = {}
    for link in view.links:
        a, b = component[link.source], component[link.target]
        if a != b and a in shown and b in shown:
            margin[a, b] = min(link.margin, margin.get((a, b), np.inf))
    return [_Arrow(a, b, m) for (a, b), m in sorted(margin.items())]


def _reduced(arrows: list[_Arrow]) -> list[_Arrow]:
    """The arrows that no longer way implies; as margins add along a way, active ones stay."""
    below: dict[int, set[int]] = {}
    for arrow in arrows:
        below.setdefault(arrow.source, set()).add(arrow.target)

    @cache
    def reach(a: int) -> frozenset[int]:
        return frozenset(below.get(a, ())).union(*(reach(b) for b in below.get(a, ())))

    return [
        arrow
        for arrow in arrows
        if not any(arrow.target in reach(b) for b in below[arrow.source] - {arrow.target})
    ]


def _stack(boxes: list[_Box]) -> list[list[_Box]]:
    """Rows from top to bottom: one per level, more where a level is too wide."""
    rows: list[list[_Box]] = []
    for level in sorted({box.level for box in boxes}):
        inside = sorted((b for b in boxes if b.level == level), key=lambda b: (-b.score, b.id))
        count = np.ceil(sum(_need(b) for b in inside) / _ROW_WIDTH)
        fair = sum(_need(b) for b in inside) / count  # even rows look better than a full and a rest
        rows.append([])
        for box in inside:
            used = sum(_need(b) for b in rows[-1])
            if rows[-1] and used + _need(box) / 2 > fair:
                rows.append([])
            rows[-1].append(box)
    for i, row in enumerate(rows):
        for box in row:
            box.row = i
    return rows


def _need(slot: Any) -> float:
    return slot.width + (_GAP if isinstance(slot, _Box) else 0.0)


def _lay_lanes(
    rows: list[list[_Box]], boxes: dict[int, _Box], arrows: list[_Arrow]
) -> list[list[Any]]:
    """Rows with a lane for each arrow that passes them."""
    slots: list[list[Any]] = [list(row) for row in rows]
    for arrow in arrows:
        a, b = boxes[arrow.source], boxes[arrow.target]
        lanes = [_Lane(row) for row in range(a.row + 1, b.row)]
        for lane in lanes:
            slots[lane.row].append(lane)
        arrow.stops = [a, *lanes, b]
    return slots


def _neighbours(arrows: list[_Arrow]) -> tuple[dict[int, list[Any]], dict[int, list[Any]]]:
    """What stands above and below each slot along the arrows, by the slot's identity."""
    above: dict[int, list[Any]] = {}
    below: dict[int, list[Any]] = {}
    for arrow in arrows:
        for a, b in pairwise(arrow.stops):
            below.setdefault(id(a), []).append(b)
            above.setdefault(id(b), []).append(a)
    return above, below


def _order(slots: list[list[Any]], arrows: list[_Arrow]) -> None:
    """Few crossings: every row sorted by the mean place of its neighbours, up and down in turn."""
    above, below = _neighbours(arrows)
    for row in slots:
        _spread(row)
    for sweep in range(8):
        near, rows = (above, slots) if sweep % 2 == 0 else (below, slots[::-1])
        for row in rows:
            row.sort(key=lambda s: np.mean([n.x for n in near.get(id(s), [s])]))
            _spread(row)


def _spread(row: list[Any]) -> None:
    """Slots side by side, the row's middle at 0."""
    x = -sum(_need(s) for s in row) / 2
    for slot in row:
        slot.x = x + _need(slot) / 2
        x += _need(slot)


def _place(slots: list[list[Any]], arrows: list[_Arrow], left: float, right: float) -> None:
    """Each slot as near to its neighbours' mean as order and page allow."""
    above, below = _neighbours(arrows)
    middle = (left + right) / 2
    for row in slots:
        for slot in row:
            slot.x += middle
    for sweep in range(40):
        for row in slots if sweep % 2 == 0 else slots[::-1]:
            near = [above.get(id(s), []) + below.get(id(s), []) for s in row]
            wish, pull = [], []
            for slot, others in zip(row, near, strict=True):
                # A bend between two lanes is uglier than an arrow that leaves its box aslant.
                weight = [_stiffness(slot, other) for other in others]
                wish.append(np.average([o.x for o in others], weights=weight) if others else slot.x)
                pull.append(float(sum(weight)) or 0.1)
            for slot, x in zip(row, _fit(row, wish, pull, left, right), strict=True):
                slot.x = x


def _stiffness(a: Any, b: Any) -> float:
    return (1.0, 2.0, 8.0)[isinstance(a, _Lane) + isinstance(b, _Lane)]


def _fit(
    row: list[Any], wish: Sequence[float], pull: Sequence[float], left: float, right: float
) -> list[float]:
    """Places nearest to the wishes (weighted squares) with every slot clear of the next.

    Shifted by the room taken so far, the places must not fall: pooling adjacent violators is exact.
    """
    half = np.array([_need(s) / 2 for s in row])
    offset = np.concatenate([[0.0], np.cumsum(half[:-1] + half[1:])])
    blocks: list[list[float]] = []  # mean, weight, slots
    for target, weight in zip(np.asarray(wish) - offset, pull, strict=True):
        blocks.append([target, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, w, m), (b, v, n) = blocks[-2:]
            blocks[-2:] = [[(a * w + b * v) / (w + v), w + v, m + n]]
    level = np.concatenate([[mean] * int(n) for mean, _, n in blocks])
    high = right - half[-1] - offset[-1]
    return list(np.clip(level, left + half[0], max(high, left + half[0])) + offset)


def _stand(rows: list[list[_Box]], slots: list[list[Any]]) -> float:
    """Gives every box its height on the page, title above and key below; the page's height."""
    tall = [max(box.height for box in row) for row in rows]
    same = [a[0].level == b[0].level for a, b in pairwise(rows)]
    # Many arrows between two rows need room to turn.
    turning = [0.012 * min(len(row), 30) for row in slots[1:]]
    gaps = [(_SAME_LEVEL_GAP if s else _ROW_GAP) + t for s, t in zip(same, turning, strict=True)]
    height = _TOP + sum(tall) + sum(gaps) + _BOTTOM + 0.3
    y = height - _TOP - 0.1
    for row, h, gap in zip(rows, tall, [*gaps, 0.0], strict=True):
        for box in row:
            box.y = y - h / 2
        y -= h + gap
    return height


def _canvas(title: str, width: Real, height: Real) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure as NewFigure

    figure = NewFigure(figsize=(width, height), label=title)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    put_text(axes, 0.2, height - 0.3, title, 12, weight="bold", ha="left")
    return figure, axes


def _empty_figure(title: str, message: str) -> Figure:
    figure, axes = _canvas(title, 6.4, 1.2)
    put_text(axes, 0.2, 0.45, message, 9.5, ha="left", color=GREY)
    return figure


def _level_counts(view: GraphView) -> dict[int, int]:
    levels = [component.level for component in view.components]
    return {level: levels.count(level) for level in set(levels)}


def _draw_levels(
    axes: Any, rows: list[list[_Box]], width: float, counts: Mapping[int, int]
) -> None:
    """A pale band and a name at the left for each level."""
    from matplotlib.patches import Rectangle

    for level in sorted({row[0].level for row in rows}):
        inside = [box for row in rows for box in row if box.level == level]
        top = max(box.y + box.height / 2 for box in inside) + 0.1
        low = min(box.y - box.height / 2 for box in inside) - 0.1
        axes.add_patch(Rectangle((0, low), width, top - low, color=PALE, lw=0, zorder=0))
        y = (top + low) / 2
        put_text(axes, 0.2, y, f"level {level}", 8, ha="left", color=GREY)
        if len(inside) < counts[level]:
            part = f"{len(inside)} of {counts[level]:,}"
            put_text(axes, 0.2, y - 0.15, part, 7, ha="left", color=GREY)


def _draw_arrow(axes: Any, arrow: _Arrow, arrows: list[_Arrow], rows: list[list[_Box]]) -> None:
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path as Curve

    active = is_active(arrow.margin)
    points = _way(arrow, arrows, rows)
    vertices, codes = [points[0]], [Curve.MOVETO]
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        vertices += [(x0, middle), (x1, middle), (x1, y1)]
        codes += [Curve.CURVE4] * 3
    colour = BLACK if active else GREY
    style = {"lw": 1.5, "ls": "-"} if active else {"lw": 0.8, "ls": (0, (4, 2.5))}
    line = PathPatch(Curve(vertices, codes), fc="none", ec=colour, zorder=2, **style)
    line.set_gid(f"arrow-{arrow.source}-{arrow.target}")
    axes.add_patch(line)
    x, y = points[-1]
    head = [(x, y - 0.08), (x - 0.04, y + 0.02), (x + 0.04, y + 0.02)]
    axes.add_patch(Polygon(head, closed=True, fc=colour, ec=colour, lw=0.5, zorder=3))


def _way(arrow: _Arrow, arrows: list[_Arrow], rows: list[list[_Box]]) -> list[Point]:
    """The points an arrow runs through: out of its box, straight past rows, into the next box."""
    a, *lanes, b = arrow.stops
    out = [x for x in arrows if x.source == arrow.source]
    into = [x for x in arrows if x.target == arrow.target]
    points = [(_port(a, sorted(out, key=lambda x: x.stops[1].x), arrow), a.y - a.height / 2)]
    for lane in lanes:
        half = max(box.height for box in rows[lane.row]) / 2 + 0.05
        middle = rows[lane.row][0].y
        points += [(lane.x, middle + half), (lane.x, middle - half)]
    x = _port(b, sorted(into, key=lambda x: x.stops[-2].x), arrow)
    return [*points, (x, b.y + b.height / 2 + 0.08)]


def _port(box: _Box, ordered: list[_Arrow], arrow: _Arrow) -> float:
    """Where on a box's edge an arrow docks: side by side, in the order the arrows come."""
    place = next(i for i, other in enumerate(ordered) if other is arrow)
    pitch = min(0.2, 0.8 * box.width / len(ordered))
    return box.x + pitch * (place - (len(ordered) - 1) / 2)


def _draw_box(axes: Any, box: _Box) -> None:
    from matplotlib.patches import FancyBboxPatch, Rectangle

    tied = len(box.lines) > 1
    left, low = box.x - box.width / 2, box.y - box.height / 2
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
        put_text(axes, box.x, y, box.lines[0][0], 9.5, zorder=5)
        put_text(axes, box.x, y - _LINE * 0.9, score, 7, color=GREY, zorder=5)
        return
    put_text(axes, box.x, y, f"tied, {score}", 7, color=GREY, zorder=5)
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
        put_text(axes, box.x, y - _LINE, rest, 7, color=GREY, zorder=5)


def _draw_key(figure: Figure, boxes: list[_Box], arrows: list[_Arrow]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    key: list[Any] = []
    if any(is_active(a.margin) for a in arrows):
        key.append(Line2D([], [], color=BLACK, lw=1.5, label="outranks, margin 1 (active)"))
    if not all(is_active(a.margin) for a in arrows):
        key.append(Line2D([], [], color=GREY, lw=0.8, ls="--", label="margin above 1 (slack)"))
    if any(len(box.lines) > 1 for box in boxes):
        key.append(Patch(fc=SKY, ec=BLUE, lw=0.6, label="share among the tied"))
    width, height = figure.get_size_inches()
    corner = (0.2 / width, 0.12 / height)
    figure.legend(handles=key, loc="lower left", bbox_to_anchor=corner, ncols=3, borderpad=0,
                  borderaxespad=0, columnspacing=1.4)  # fmt: skip
