"""Figures from plain records: priority graph, convergence, prediction, protocol.

Each function returns a `matplotlib.figure.Figure` that belongs to nobody else: no pyplot, no global
state left behind. Colours are Okabe and Ito's, and whatever a colour says, a line style, hatch,
marker or word says too. Parts of the figures carry ids (`component-3`, `arrow-0-3`, `bar-1`) that
survive into the SVG.
"""

import io
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, wraps
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from attomaton.errors import UsageError
from attomaton.report.graphs import Label, Real, View, is_active, readable, signed

Figure = Any  # matplotlib.figure.Figure; matplotlib is imported where it is used
Point = tuple[float, float]

COMPONENT_CAP = 40  # components in one priority figure
LEVEL_CAP = 12  # components of one level, while a capped figure still has deeper levels to show
TOKEN_CAP = 8  # tokens inside one component's box
BAR_CAP = 16  # tokens in a prediction figure
CURVE_CAP = 7  # curves told apart by colour and marker

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, BLACK, GREY, PALE = "#56B4E9", "#CC79A7", "#000000", "#595959", "#F3F5F7"
CURVES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = "osD^vPX"
SVM, FIN, S_FIN = (
    rf"${a}_{{\mathrm{{{b}}}}}$" for a, b in (("W", "svm"), ("W", "fin"), ("S", "fin"))
)

# DejaVu Sans comes with matplotlib and is wider than what browsers put in its place, so text that
# fits here fits there; the others fill in scripts that it lacks, where they are installed.
_FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Hiragino Sans",
    "Microsoft YaHei",
    "WenQuanYi Zen Hei",
    "Arial Unicode MS",
    "Noto Emoji",
)
_DRAWING = threading.RLock()  # matplotlib's settings are one per process


@contextmanager
def _style() -> Iterator[None]:
    """Our matplotlib settings for as long as the block runs, one block at a time."""
    try:
        import matplotlib
    except ImportError as missing:
        raise UsageError("figures need matplotlib; install attomaton[plot].") from missing
    settings: dict[Any, Any] = {
        "axes.axisbelow": True,
        "axes.edgecolor": GREY,
        "axes.grid": True,
        "axes.labelsize": 9,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 10,
        "figure.facecolor": "white",
        "figure.constrained_layout.h_pad": 0.08,
        "figure.constrained_layout.w_pad": 0.08,
        "font.family": "sans-serif",
        "font.sans-serif": list(_installed_fonts()),
        "font.size": 9,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "hatch.linewidth": 0.8,
        "legend.fontsize": 8,
        "legend.frameon": False,
        "svg.fonttype": "none",  # text stays text: selectable, searchable, read aloud
        "svg.hashsalt": "attomaton",  # the same figure gives the same bytes
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
    }
    with _DRAWING, matplotlib.rc_context(settings), warnings.catch_warnings():
        # A script no installed font holds: SVG leaves it to the reader's fonts, PNG shows a frame.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _drawn(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, run inside our style."""

    @wraps(function)
    def styled(*arguments: Any, **options: Any) -> Any:
        with _style():
            return function(*arguments, **options)

    return styled


@cache
def _installed_fonts() -> tuple[str, ...]:
    from matplotlib.font_manager import fontManager

    there = set(fontManager.get_font_names())
    return tuple(name for name in _FONTS if name in there)


# --- files ---------------------------------------------------------------------------------------


@_drawn
def to_svg(figure: Figure) -> str:
    """The figure as SVG text, the same bytes for the same figure."""
    out = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(out, format="svg", metadata={**nothing, "Title": figure.get_label() or None})
    return out.getvalue()


@_drawn
def save(figure: Figure, folder: str | Path, name: str) -> list[Path]:
    """Writes `name.svg` and `name.png` into the folder, made if need be; returns the two paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    svg, png = folder / f"{name}.svg", folder / f"{name}.png"
    svg.write_text(to_svg(figure), encoding="utf-8")
    figure.savefig(png, format="png", dpi=200, metadata={"Software": None})
    return [svg, png]


# --- priority graph ------------------------------------------------------------------------------

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


@_drawn
def priority_figure(view: View) -> Figure:
    """Who outranks whom after one last token: components as boxes, highest priority on top.

    A component of several tokens shows each one's soft share. Arrows that others imply are left
    out. Solid ones have the margin 1, the smallest allowed (active); dashed ones more (slack). Above
    `COMPONENT_CAP` components the figure shows the heaviest of the top levels and says so.
    """
    title = f"after {_mention(view['last'])}: who outranks whom"
    boxes, total = _boxes(view)
    if not boxes:
        return _empty_figure(title, "no sample ends in this token: nothing is learned about it")
    relations = _relations(view, {box.id for box in boxes})
    arrows = _reduced(relations)
    rows = _stack(boxes)
    slots = _lay_lanes(rows, {box.id: box for box in boxes}, arrows)
    width = max(4.4, *(sum(_need(s) for s in row) for row in slots)) + _LEFT + _RIGHT
    shown = f"shown {len(boxes)} of {total:,} components" if len(boxes) < total else ""
    width = max(width, 1.15 * _text_width(title, 12) + _text_width(shown, 9) + 0.6)  # bold is wider
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
        _write(axes, 0.2, 0.45, "an arrow that others imply is left out", 7, ha="left", color=GREY)
    if shown:
        _write(axes, width - 0.2, height - 0.3, shown, 9, ha="right", color=GREY)
    return figure


def _boxes(view: View) -> tuple[list[_Box], int]:
    """The components to draw, measured, and how many there are in all."""
    names = readable(node["token"] for node in view["nodes"])
    nodes: dict[int, list[dict[str, Any]]] = {}
    for node in view["nodes"]:
        nodes.setdefault(node["component"], []).append(node)
    component = {node["id"]: node["component"] for node in view["nodes"]}
    weight = dict.fromkeys(nodes, 0.0)
    for link in view["links"]:
        for end in ("source", "target"):
            weight[component[link[end]]] += link["weight"]
    boxes = []
    for c, inside in nodes.items():
        share = np.exp([node["log_pi"] for node in inside])
        order = np.argsort(-share, kind="stable")
        lines = [
            (_short(names[inside[i]["token"]], 18), float(share[i] / share.sum())) for i in order
        ]
        keep = TOKEN_CAP if len(lines) > TOKEN_CAP + 1 else len(lines)
        first = inside[0]
        box = _Box(c, first["level"], first["svm_score"], weight[c], lines[:keep])
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
    score = _text_width(f"score {signed(box.score)}", 7)
    name = max(_text_width(text, 9.5) for text, _ in box.lines)
    if len(box.lines) == 1:
        box.width, box.height = max(name, score) + 2 * _PAD, 2 * _LINE + _PAD
        return
    tied = _text_width("tied, ", 7)
    rows = len(box.lines) + 1 + (box.more > 0)
    box.width = max(name + _BAR + 0.55, score + tied) + 2 * _PAD
    box.height = rows * _LINE + _PAD


def _relations(view: View, shown: set[int]) -> list[_Arrow]:
    """One arrow for each pair of shown components with an edge between them."""
    component = {node["id"]: node["component"] for node in view["nodes"]}
    margin: dict[tuple[int, int], float] = {}
    for link in view["links"]:
        a, b = component[link["source"]], component[link["target"]]
        if a != b and a in shown and b in shown:
            margin[a, b] = min(link["margin"], margin.get((a, b), np.inf))
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
    _write(axes, 0.2, height - 0.3, title, 12, weight="bold", ha="left")
    return figure, axes


def _empty_figure(title: str, message: str) -> Figure:
    figure, axes = _canvas(title, 6.4, 1.2)
    _write(axes, 0.2, 0.45, message, 9.5, ha="left", color=GREY)
    return figure


def _level_counts(view: View) -> dict[int, int]:
    levels = [component["level"] for component in view["components"]]
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
        _write(axes, 0.2, y, f"level {level}", 8, ha="left", color=GREY)
        if len(inside) < counts[level]:
            part = f"{len(inside)} of {counts[level]:,}"
            _write(axes, 0.2, y - 0.15, part, 7, ha="left", color=GREY)


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
        _write(axes, box.x, y, box.lines[0][0], 9.5, zorder=5)
        _write(axes, box.x, y - _LINE * 0.9, score, 7, color=GREY, zorder=5)
        return
    _write(axes, box.x, y, f"tied, {score}", 7, color=GREY, zorder=5)
    largest = max(share for _, share in box.lines)
    right = left + box.width - _PAD
    for text, share in box.lines:
        y -= _LINE
        _write(axes, left + _PAD, y, text, 9.5, ha="left", zorder=5)
        _write(axes, right, y, _percent(share), 8, ha="right", zorder=5)
        bar = (right - 0.42 - _BAR, y - 0.055)
        long = _BAR * share / largest
        axes.add_patch(Rectangle(bar, long, 0.11, fc=SKY, ec=BLUE, lw=0.6, zorder=5))
    if box.more:
        left_over = 1 - sum(share for _, share in box.lines)
        rest = f"and {box.more:,} more, {_percent(left_over)} together"
        _write(axes, box.x, y - _LINE, rest, 7, color=GREY, zorder=5)


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


# --- convergence ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Panel:
    """One quantity over training: which records, which axis, and where theory says it goes."""

    title: str
    curves: tuple[tuple[str, str], ...]  # record, name in the key (empty: only one curve)
    theory: float | None  # the limit; infinite: grows without bound; None: not said
    log: bool = True


_PANELS = (
    _Panel(r"loss above its floor, $L - L_*$", (("loss", ""),), 0.0),
    _Panel(
        f"cosine with {SVM}",
        (("cosine_svm", "of W"), ("cosine_outside", f"of W outside {S_FIN}")),
        1.0,
        log=False,
    ),
    _Panel(f"distance to {FIN} inside {S_FIN}", (("distance_fin", ""),), 0.0),
    _Panel("attention on the retrieved component", (("mass_retrieved", ""),), 1.0, log=False),
    _Panel("norm of W", (("norm", ""),), np.inf),
)


@_drawn
def convergence_figure(records: Mapping[str, Any]) -> Figure:
    """Training on its way to the limit: median and range over seeds, theory dashed.

    `records` holds `steps`, `loss` (seeds × records) and what else was measured: `loss_floor`,
    `cosine_svm`, `cosine_outside`, `distance_fin`, `mass_retrieved`, `norm`.
    """
    from matplotlib.figure import Figure as NewFigure

    steps = np.asarray(records["steps"], dtype=float)
    loss = np.atleast_2d(np.asarray(records["loss"], dtype=float))
    measured = {
        name: np.atleast_2d(np.asarray(records[name], dtype=float))
        for panel in _PANELS
        for name, _ in panel.curves
        if records.get(name) is not None
    }
    if (floor := records.get("loss_floor")) is not None:
        measured["loss"] = loss - floor
    panels = [p for p in _PANELS if any(name in measured for name, _ in p.curves)]
    columns = min(3, len(panels)) if len(panels) != 4 else 2
    lines = -(-len(panels) // columns)
    title = f"training approaches its limit ({len(loss)} seed{'s' if len(loss) > 1 else ''})"
    size = (max(3.3 * columns + 0.4, 4.8), 2.6 * lines + 0.5)
    figure = NewFigure(figsize=size, layout="constrained", label=title)
    figure.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
    for i, panel in enumerate(panels):
        axes = figure.add_subplot(lines, columns, i + 1)
        if panel.curves[0][0] == "loss" and floor is None:
            panel = _Panel("loss", (("loss", ""),), None, log=False)  # noqa: PLW2901
        _draw_panel(axes, panel, steps, measured)
        _step_axis(axes, steps)
        if i == 0 and len(loss) > 1:
            _seed_key(axes)
    return figure


def _draw_panel(
    axes: Any, panel: _Panel, steps: np.ndarray, measured: Mapping[str, np.ndarray]
) -> None:
    axes.set_title(panel.title)
    axes.set_gid(f"panel-{panel.curves[0][0]}")
    styles = ((BLUE, "-"), (VERMILION, "-."))
    there = [(*curve, *style) for curve, style in zip(panel.curves, styles, strict=False)
             if curve[0] in measured]  # fmt: skip
    if panel.log and not any((measured[name] > 0).any() for name, *_ in there):
        axes.text(0.5, 0.5, "0 throughout", transform=axes.transAxes, ha="center", color=GREY)
        axes.set_yticks([])
        return
    for name, label, colour, style in there:
        look = {"colour": colour, "style": style, "label": label}
        _curve(axes, steps, measured[name], log=panel.log, **look)
    if panel.log:
        axes.set_yscale("log")
    # The norm grows without bound only where there is a direction to grow in.
    if panel.theory is not None and (np.isfinite(panel.theory) or "cosine_svm" in measured):
        _draw_theory(axes, panel)
    if len(there) > 1:
        axes.legend(loc="lower right")


def _draw_theory(axes: Any, panel: _Panel) -> None:
    """The limit as a dashed line; on a log axis, which shows neither 0 nor infinity, at its edge."""
    assert panel.theory is not None
    look = {"ls": "--", "color": BLACK, "lw": 1.2, "gid": f"theory-{panel.curves[0][0]}"}
    word = {"transform": axes.get_yaxis_transform(), "fontsize": 8}
    if not panel.log:
        low = axes.get_ylim()[0]
        room = 0.16 * max(panel.theory - low, 1e-3)
        axes.set_ylim(low, panel.theory + room)
        axes.axhline(panel.theory, **look)
        text = f"theory: {panel.theory:g}"
        axes.text(0.02, panel.theory + 0.12 * room, text, va="bottom", **word)
        return
    up = np.isinf(panel.theory)
    axes.spines["bottom"].set_visible(up)
    axes.plot([0, 1], [up, up], transform=axes.transAxes, clip_on=False, **look)
    word["transform"] = axes.transAxes
    text = "theory: up, without bound ↑" if up else "theory: down to 0 ↓"
    axes.text(0.02, 0.97 if up else 0.02, text, va="top" if up else "bottom", **word)


def _curve(
    axes: Any,
    steps: np.ndarray,
    rows: np.ndarray,
    *,
    log: bool,
    colour: str = BLUE,
    style: str = "-",
    label: str = "",
) -> None:
    """Median over seeds, and the range as a band; `rows` are seeds × records."""
    middle, low, high = np.median(rows, axis=0), rows.min(axis=0), rows.max(axis=0)
    if log:
        # Rounding can put a gap at or below 0, which has no place on the axis.
        least = rows[rows > 0].min()
        low, high = np.maximum(low, least), np.maximum(high, least)
        middle = np.where(middle > 0, middle, np.nan)
    if len(rows) > 1:
        axes.fill_between(steps, low, high, color=colour, alpha=0.22, lw=0)
    axes.plot(steps, middle, style, color=colour, lw=1.8, label=label or None)


def _step_axis(axes: Any, steps: np.ndarray) -> None:
    """A logarithmic axis of steps; step 0, where there is one, gets a place of its own."""
    if steps.size and steps.min() <= 0:
        axes.set_xscale("symlog", linthresh=1, linscale=0.3)
        axes.xaxis.get_minor_locator().set_params(subs=range(2, 10))
    else:
        axes.set_xscale("log")
    if steps.max() < 1e5:
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    if steps.max() > steps.min():
        axes.set_xlim(max(0, steps.min()), steps.max())
    axes.set_xlabel("step")


def _seed_key(axes: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    axes.legend(
        handles=[
            Line2D([], [], color=BLUE, lw=1.8, label="median"),
            Patch(fc=BLUE, alpha=0.22, label="all seeds"),
        ],
        loc="upper right",
    )


# --- prediction ----------------------------------------------------------------------------------


@_drawn
def prediction_figure(explanation: Mapping[str, Any]) -> Figure:
    """One prediction and its reasons: who is retrieved and who lost, and the way from soft to hard.

    `explanation` is `dataclasses.asdict` of an `Explanation`.
    """
    from matplotlib.figure import Figure as NewFigure

    fates = list(explanation["fates"])
    names = readable([*(fate["token"] for fate in fates), explanation["last"]])
    best = max((fate["probability"] for fate in fates), default=0.0)
    answer = f"{_mention(explanation['prediction'])} with {_percent(best)}"
    title = f"after {_tail(explanation['context'])}: {answer}"
    bars = min(len(fates), BAR_CAP)
    figure = NewFigure(figsize=(9, max(3.2, 1.3 + 0.26 * bars)), layout="constrained", label=title)
    size = 12 if len(title) < 70 else 10
    figure.suptitle(title, fontsize=size, fontweight="bold", x=0.01, ha="left", parse_math=False)
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
    _draw_fates(left, fates, names)
    _draw_soft_to_hard(right, explanation, names)
    if note := explanation.get("note"):
        figure.supxlabel(
            fill(note, 115), fontsize=8, color=GREY, x=0.01, ha="left", parse_math=False
        )
    return figure


def _draw_fates(axes: Any, fates: list[dict[str, Any]], names: dict[Label, str]) -> None:
    from matplotlib.patches import Patch

    axes.set_title("next token, in the limit of training")
    shown = fates[:BAR_CAP]
    for i, fate in enumerate(shown):
        kept = fate["probability"] > 0
        # A lost token has no bar; a hatched stub stands where it would begin.
        length = fate["probability"] if kept else 0.012
        look = (
            {"fc": BLUE, "ec": BLUE} if kept else {"fc": "white", "ec": VERMILION, "hatch": "/////"}
        )
        bar = axes.barh(i, length, height=0.62, **look)[0]
        bar.set_gid(f"bar-{i}")
        inside = length > 0.7
        axes.text(
            length + (-0.015 if inside else 0.015), i, _fate_word(fate, names), va="center",
            ha="right" if inside else "left", fontsize=8, parse_math=False,
            color="white" if inside else BLACK,
        )  # fmt: skip
    axes.set_yticks(range(len(shown)))
    labels = [_short(names[fate["token"]], 16) + _times(fate["count"]) for fate in shown]
    axes.set_yticklabels(labels, fontsize=9, parse_math=False)
    axes.set(xlim=(0, 1.02), ylim=(max(len(shown), 4) - 0.4, -0.6), xlabel="probability")
    axes.grid(axis="y", visible=False)
    key = [Patch(fc=BLUE, ec=BLUE, label="retrieved")]
    if any(fate["probability"] == 0 for fate in shown):
        key.append(Patch(fc="white", ec=VERMILION, hatch="/////", label="lost: probability 0"))
    axes.legend(handles=key, loc="lower right")
    if len(fates) > len(shown):
        axes.set_ylabel(f"shown {len(shown)} of {len(fates):,} tokens", fontsize=8, color=GREY)


def _fate_word(fate: Mapping[str, Any], names: dict[Label, str]) -> str:
    if fate["probability"] > 0:
        return _percent(fate["probability"])
    if fate["reason"] == "outranked" and fate["path"]:
        winner = fate["path"][0]["winner"]
        return f"outranked by {_short(names.get(winner, str(winner)), 16)}"
    if fate["reason"] == "lower score":
        return f"lower score, {signed(fate['svm_score'])}"
    return str(fate["reason"])


def _draw_soft_to_hard(axes: Any, explanation: Mapping[str, Any], names: dict[Label, str]) -> None:
    """Probabilities against the radius; the last place on the axis is the limit."""
    axes.set_title("from soft to hard")
    finite = [(r, p) for r, p in explanation["soft_to_hard"] if np.isfinite(r)]
    fates = explanation["fates"]
    for i, fate in enumerate(fates[:CURVE_CAP]):
        token, kept = fate["token"], fate["probability"] > 0
        curve = [p[token] for _, p in finite] + [fate["probability"]]
        # Hollow markers that shrink: curves lying on each other are all seen.
        axes.plot(
            range(len(curve)), curve, "-" if kept else "--", color=CURVES[i], marker=MARKERS[i],
            ms=8.5 - i, mfc="none", mew=1.5, lw=1.8 if kept else 1.2, clip_on=False,
            label=f"curve {i}", gid=f"curve-{i}",
        )  # fmt: skip
    ticks = [f"{r:.2g}" if r < 10 else f"{r:.0f}" for r, _ in finite] + ["limit"]
    axes.set_xticks(range(len(ticks)), ticks)
    axes.axvline(len(ticks) - 1, color=GREY, lw=0.8, ls=":")
    axes.set(ylim=(0, 1.02), xlim=(0, len(ticks) - 1))
    axes.set(xlabel=f"size of W along {SVM} (radius)", ylabel="probability")
    key = axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), title_fontsize=8)
    for i, text in enumerate(key.get_texts()):
        text.set_parse_math(False)
        text.set_text(_short(names[fates[i]["token"]], 16))
    if len(fates) > CURVE_CAP:
        key.set_title(f"{CURVE_CAP} of {len(fates):,} tokens")


def _tail(context: Sequence[Label], most: int = 40) -> str:
    """The end of a context in quotes, as much as fits a title."""
    names = readable(context)
    words: list[str] = []
    for x in reversed(context):
        if words and len(" ".join([*words, names[x]])) > most:
            return f"“… {' '.join(reversed(words))}”"
        words.append(_short(names[x], 24))
    return f"“{' '.join(reversed(words))}”"


# --- protocol ------------------------------------------------------------------------------------


@_drawn
def protocol_figure(
    rows: Sequence[Mapping[str, Any]],
    curves: Mapping[str, Any] | None = None,
    published: Mapping[str, Any] | None = None,
) -> Figure:
    """A published protocol, repeated: final cosine and distance of every seed, and the way there.

    `rows` hold `seed`, `cosine_svm`, `distance_fin`; `curves`, where kept, `steps` and `cosine_svm`
    (seeds × records). `published` may hold a number or a (low, high) range for either.
    """
    from matplotlib.figure import Figure as NewFigure

    published = published or {}
    title = f"{len(rows)} seed{'s' if len(rows) != 1 else ''} of the published protocol"
    columns = 3 if curves else 2
    figure = NewFigure(figsize=(3.2 * columns + 0.4, 3.1), layout="constrained", label=title)
    figure.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
    panels = list(figure.subplots(1, columns))
    if curves:
        _draw_seed_curves(panels.pop(0), curves)
    seeds = [row["seed"] for row in rows]
    for axes, name, words, marker in (
        (panels[0], "cosine_svm", f"final cosine with {SVM}", "o"),
        (panels[1], "distance_fin", f"final distance to {FIN}", "D"),
    ):
        axes.set_title(words)
        values = [row[name] for row in rows]
        _draw_published(axes, published.get(name), f"published-{name}")
        axes.plot(range(len(rows)), values, marker, color=BLUE, ms=6, label="measured",
                  gid=f"seeds-{name}", clip_on=False)  # fmt: skip
        _seed_axis(axes, seeds)
        if name == "cosine_svm":
            axes.axhline(1, ls="--", color=BLACK, lw=1.2, gid="theory-final", label="theory: 1")
        elif 0 < min(values) < max(values) / 20:
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, 1.1 * max(values) or 1)
        _key_below(axes)
    return figure


def _draw_seed_curves(axes: Any, curves: Mapping[str, Any]) -> None:
    steps = np.asarray(curves["steps"], dtype=float)
    values = np.atleast_2d(np.asarray(curves["cosine_svm"], dtype=float))
    axes.set_title(f"cosine with {SVM} in training")
    for i, row in enumerate(values):
        axes.plot(steps, row, color=BLUE, lw=0.8, alpha=0.45, gid=f"seed-{i}")
    axes.plot(steps, np.median(values, axis=0), color=BLUE, lw=2.2, label="median")
    axes.axhline(1, ls="--", color=BLACK, lw=1.2, gid="theory", label="theory: 1")
    _step_axis(axes, steps)
    _key_below(axes)


def _key_below(axes: Any) -> None:
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, columnspacing=1,
                handlelength=1.4, handletextpad=0.5)  # fmt: skip


def _seed_axis(axes: Any, seeds: Sequence[Any]) -> None:
    stride = max(1, -(-len(seeds) // 12))
    axes.set_xticks(range(0, len(seeds), stride), [str(s) for s in seeds[::stride]])
    axes.set(xlabel="seed", xlim=(-0.6, len(seeds) - 0.4))


def _draw_published(axes: Any, value: Any, gid: str) -> None:
    if value is None:
        return
    low, high = (value, value) if np.isscalar(value) else value
    if low == high:
        axes.axhline(low, color=GREY, lw=1.2, ls=":", label="published", gid=gid)
    else:
        axes.axhspan(low, high, color="#999999", alpha=0.3, lw=0, label="published", gid=gid)


# --- words and widths ----------------------------------------------------------------------------


def _write(axes: Any, x: Real, y: Real, text: str, size: Real, **look: Any) -> None:
    """One line of text; dollar signs are dollar signs."""
    look = {"ha": "center", "va": "center_baseline", **look}
    axes.text(x, y, text, fontsize=size, parse_math=False, **look)


@cache
def _text_width(text: str, size: Real) -> float:
    """Width in inches in the present font."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    renderer = RendererAgg(1, 1, 72)
    return (
        float(renderer.get_text_width_height_descent(text, FontProperties(size=size), False)[0])
        / 72
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _mention(token: Label) -> str:
    """A token in running words, in quotes."""
    shown = readable([token])[token]
    return f"“{_short(shown, 24)}”"


def _times(count: int) -> str:
    return f"  ×{count}" if count > 1 else ""


def _percent(share: Real) -> str:
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{100 * share:.0f}%" if share >= 0.0995 or share == 0 else f"{100 * share:.1f}%"
