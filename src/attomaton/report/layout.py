"""Where a priority graph stands on a page: levels as bands from the top down, components as blocks in their band.

Inside a level the blocks are ordered so that edges cross little, and a long level goes on in further rows. A picture
on paper keeps free lanes for the arrows that pass a row (`place_blocks`); in one whose nodes can be dragged edges bow
around what is in their way (`place`). Lengths are in units of the drawing, x around 0, y grows downwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from unicodedata import combining, east_asian_width

import numpy as np
from scipy.optimize import isotonic_regression

from attomaton.base.shapes import Bool, Float, Int

HEIGHT = 28.0  # of a node
PAD, TITLE = 14.0, 18.0  # around the nodes of a box; its title
RING = 8  # nodes that stand in a ring, so that no edge passes under another node; more form rows
ASPECT = 1.7  # of the whole drawing
BOWS = (0.0, 25.0, -25.0, 50.0, -50.0, 80.0, -80.0, 120.0, -120.0, 170.0, -170.0, 240.0, -240.0)
BEND = 0.4  # share of an edge's height over which it leaves its node straight down
MOST_BOWED = 600  # edges above which nobody could follow one around a node anyway
ORDERED, SETTLED = 8, 40  # sweeps over all rows
STIFF = np.array([1.0, 2.0, 8.0])  # a bend between two lanes is uglier than an arrow aslant

Point = tuple[float, float]
Ints = Int[np.ndarray, "..."]
Floats = Float[np.ndarray, "..."]


@dataclass(frozen=True)
class Spacing:
    """The lengths of a drawing; without `lane` no room is kept for arrows."""

    gap: float  # between blocks
    row_gap: float  # between rows of a level
    level_gap: float
    edge: float  # of a band around its rows
    row_width: float  # a level wider than this goes on in another row
    narrowest: float  # of the whole drawing
    aspect: float = 0.0  # of the whole drawing, where rows may become longer for it
    lane: float = 0.0  # of an arrow that passes a row
    turn: float = 0.0  # more room above a row for each arrow or block in it
    port: float = 0.0  # between two arrows that leave a block


PIXELS = Spacing(20.0, 30.0, 66.0, 16.0, row_width=620.0, narrowest=240.0, aspect=ASPECT)


@dataclass(frozen=True)
class Band:
    """The strip of one level."""

    level: int
    top: float
    bottom: float


@dataclass(frozen=True, eq=False)
class Layout:
    """Middles of blocks or nodes, and the bands, all `width` wide around 0.

    An edge is drawn through the points of its way, where there are lanes, or bows so far to the side.
    """

    x: Float[np.ndarray, " nodes"]
    y: Float[np.ndarray, " nodes"]
    bands: list[Band]
    width: float
    ways: Sequence[Sequence[Point]] = ()
    bow: Float[np.ndarray, " edges"] = field(default_factory=lambda: np.zeros(0))


def node_width(name: str) -> float:
    """How wide a node must be for its name, by a guess at the letters' widths that errs on the wide side."""
    wide = sum(0 if combining(c) else 14 if east_asian_width(c) in "WF" else 7.7 for c in name)
    return round(max(wide + 20.0, 34.0), 1)


# Blocks


def place_blocks(
    width: Float[np.ndarray, " blocks"],
    height: Float[np.ndarray, " blocks"],
    level: Int[np.ndarray, " blocks"],
    source: Int[np.ndarray, " edges"],
    target: Int[np.ndarray, " edges"],
    spacing: Spacing,
) -> Layout:
    """A place for every block, first ones first where edges say nothing; edges lead to deeper levels."""
    need = width + spacing.gap
    area = float((need * (height + spacing.row_gap)).sum())
    limit = max(spacing.row_width, float(np.sqrt(spacing.aspect * area)), width.max(initial=0.0))
    levels = [np.flatnonzero(level == v) for v in np.unique(level)]
    levels, _ = _ordered(levels, need, source, target, limit)
    rows = [row for same in levels for row in _dealt(same, need, limit)]
    stops = [[a, b] for a, b in zip(source.tolist(), target.tolist(), strict=True)]
    if spacing.lane:
        rows, need, stops = _with_lanes(rows, need, stops, spacing.lane)
    links = np.array([ends for way in stops for ends in pairwise(way)], np.int64).reshape(-1, 2).T
    rows, x = _ordered(rows, need, *links)
    room = max((float(need[row].sum()) for row in rows), default=0.0) - spacing.gap
    room = max(room, spacing.narrowest)
    _settle(x, rows, need, links, len(width), room + spacing.gap)
    y, bands = _stand(rows, height, level, spacing)
    ways = _ways(stops, x, y, width, height, spacing) if spacing.lane else []
    return Layout(x[: len(width)], y[: len(width)], bands, room + 2 * spacing.edge, ways)


def _ordered(
    rows: Sequence[Ints], need: Floats, a: Ints, b: Ints, limit: float = np.inf
) -> tuple[list[Ints], Floats]:
    """Every row sorted by the mean place of its neighbours above, then of those below, in turn; and the places."""
    rows, x = list(rows), np.zeros(len(need))

    def spread(row: Ints) -> None:
        step = need[row]
        lines = max(1.0, np.ceil(step.sum() / limit))  # what will be several rows is as wide as one
        x[row] = (np.cumsum(step) - step / 2 - step.sum() / 2) / lines

    for row in rows:
        spread(row)
    for sweep in range(ORDERED):
        ends, near = (b, a) if sweep % 2 == 0 else (a, b)
        for k in range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows))):
            total = np.bincount(ends, x[near], len(need))[rows[k]]
            count = np.bincount(ends, minlength=len(need))[rows[k]]
            wish = np.where(count > 0, total / np.maximum(count, 1), x[rows[k]])
            rows[k] = rows[k][np.argsort(wish, kind="stable")]
            spread(rows[k])
    return rows, x


def _dealt(level: Ints, need: Floats, limit: float) -> list[Ints]:
    """The blocks of a level dealt out from left to right, so that every row keeps the order of the whole."""
    count = int(max(1, np.ceil(need[level].sum() / limit)))
    rows: list[list[int]] = [[] for _ in range(count)]
    used = [0.0] * count
    for block in level.tolist():
        shortest = used.index(min(used))
        rows[shortest].append(block)
        used[shortest] += need[block]
    return [np.array(row, np.int64) for row in rows if row]


def _with_lanes(
    rows: list[Ints], need: Floats, arrows: list[list[int]], lane: float
) -> tuple[list[Ints], Floats, list[list[int]]]:
    """Rows with one more slot for each arrow that passes them, and the slots that each arrow runs through."""
    row_of = {block: r for r, row in enumerate(rows) for block in row.tolist()}
    slots = [row.tolist() for row in rows]
    stops, count = [], len(need)
    for a, b in arrows:
        begin = count
        for passed in slots[row_of[a] + 1 : row_of[b]]:
            passed.append(count)
            count += 1
        stops.append([a, *range(begin, count), b])
    wide = np.concatenate([need, np.full(count - len(need), lane)])
    return [np.array(row, np.int64) for row in slots], wide, stops


def _settle(
    x: Floats, rows: list[Ints], need: Floats, links: Ints, blocks: int, room: float
) -> None:
    """Move each slot as near to its neighbours' mean as order and page allow."""
    pull = STIFF[(links >= blocks).sum(0)]
    ends, near, pull = np.concatenate([*links]), np.concatenate([*links[::-1]]), np.tile(pull, 2)
    whole = np.bincount(ends, pull, len(need))
    for sweep in range(SETTLED):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            mean = np.bincount(ends, pull * x[near], len(need))[row] / np.maximum(whole[row], 1)
            wish = np.where(whole[row] > 0, mean, x[row])
            x[row] = _fit(need[row], wish, np.where(whole[row] > 0, whole[row], 0.1), room)


def _fit(need: Floats, wish: Floats, pull: Floats, room: float) -> Floats:
    """Places nearest to the wishes (weighted squares) with every slot clear of the next.

    Shifted by the room taken so far, the places must not fall.
    """
    offset = np.concatenate([[0.0], np.cumsum((need[:-1] + need[1:]) / 2)])
    low, high = (need[0] - room) / 2, (room - need[-1]) / 2 - offset[-1]
    found = isotonic_regression(wish - offset, weights=pull).x
    return np.clip(found, low, max(high, low)) + offset


def _stand(
    rows: list[Ints], height: Floats, level: Ints, spacing: Spacing
) -> tuple[Floats, list[Band]]:
    """How far down the slots of each row stand, and the bands."""
    y = np.zeros(sum(map(len, rows)))
    bands: list[Band] = []
    top = 0.0
    for row in rows:
        blocks = row[row < len(height)]
        here, tall = int(level[blocks[0]]), float(height[blocks].max())
        same = bool(bands) and bands[-1].level == here
        if bands:
            # Many arrows between two rows need room to turn.
            top += (spacing.row_gap if same else spacing.level_gap) + spacing.turn * min(
                len(row), 30
            )
        begin = bands.pop().top if same else top - spacing.edge
        y[row] = top + tall / 2
        top += tall
        bands.append(Band(here, begin, top + spacing.edge))
    return y, bands


def _ways(
    stops: list[list[int]], x: Floats, y: Floats, width: Floats, height: Floats, spacing: Spacing
) -> list[list[Point]]:
    """The points each arrow runs through: out of its block, straight past rows, into the next block."""
    tall: dict[float, float] = {}  # by the middle of each row
    for i, h in enumerate(height):
        tall[y[i]] = max(h, tall.get(y[i], 0.0))
    leaving = _ports(stops, x, width, spacing.port, 0, 1)
    meeting = _ports(stops, x, width, spacing.port, -1, -2)
    ways = []
    for i, (a, *lanes, b) in enumerate(stops):
        way = [(leaving[i], float(y[a] + height[a] / 2))]
        for s in lanes:
            half = (tall[y[s]] + spacing.edge) / 2
            way += [(float(x[s]), float(y[s] - half)), (float(x[s]), float(y[s] + half))]
        ways.append([*way, (meeting[i], float(y[b] - height[b] / 2))])
    return ways


def _ports(
    stops: list[list[int]], x: Floats, width: Floats, port: float, end: int, towards: int
) -> dict[int, float]:
    """Where on the edge of the block at one end each arrow docks: side by side, in the order the arrows come."""
    docked: dict[int, list[int]] = {}
    for i in sorted(range(len(stops)), key=lambda i: x[stops[i][towards]]):
        docked.setdefault(stops[i][end], []).append(i)
    found = {}
    for block, ordered in docked.items():
        pitch = min(port, 0.8 * width[block] / len(ordered))
        for place, i in enumerate(ordered):
            found[i] = float(x[block] + pitch * (place - (len(ordered) - 1) / 2))
    return found


# Nodes in blocks


def place(
    width: Float[np.ndarray, " nodes"],
    level: Int[np.ndarray, " nodes"],
    group: Int[np.ndarray, " nodes"],
    source: Int[np.ndarray, " edges"],
    target: Int[np.ndarray, " edges"],
    boxed: Bool[np.ndarray, " nodes"],
) -> Layout:
    """A place for every node; nodes of one `group` are on one level and stay together, first ones first.

    `boxed` nodes are drawn inside the box of their group, which needs room, be it around one node alone.
    """
    _, of = np.unique(group, return_inverse=True)
    order = np.argsort(of, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(of[order])) + 1) if len(order) else []
    x, y = np.zeros(len(width)), np.zeros(len(width))
    wide, tall = np.zeros(len(members)), np.zeros(len(members))
    for i, inside in enumerate(members):
        dx, dy = _inside(width[inside])
        half = width[inside] / 2
        dx -= ((dx - half).min() + (dx + half).max()) / 2
        dy -= (dy.min() + dy.max()) / 2
        wide[i], tall[i] = (dx + half).max() - (dx - half).min(), np.ptp(dy) + HEIGHT
        if boxed[inside[0]]:
            wide[i], tall[i] = max(wide[i], 60.0) + 2 * PAD, tall[i] + 2 * PAD + TITLE
            dy += TITLE / 2
        x[inside], y[inside] = dx, dy
    a, b = of[source], of[target]
    first = np.array([inside[0] for inside in members], np.int64)
    blocks = place_blocks(wide, tall, level[first], a[a != b], b[a != b], PIXELS)
    x, y = x + blocks.x[of], y + blocks.y[of]
    bow = _bows(x, y, width, of, source, target)
    return replace(blocks, x=x.round(1), y=y.round(1), bow=bow)


def _inside(
    width: Float[np.ndarray, " members"],
) -> tuple[Float[np.ndarray, " members"], Float[np.ndarray, " members"]]:
    """The nodes of one component beside each other: a pair side by side, few in a ring, many in rows."""
    n = len(width)
    if n == 1:
        return np.zeros(1), np.zeros(1)
    if n > RING:
        return _rows_inside(width)
    turn = 2 * np.pi * np.arange(n) / n - (np.pi if n == 2 else np.pi / 2)
    scale = 30.0
    while True:
        x, y = 1.5 * scale * np.cos(turn), scale * np.sin(turn)
        across = np.abs(x[:, None] - x) - (width[:, None] + width) / 2
        along = np.abs(y[:, None] - y) - HEIGHT
        clear = (across >= 44) | (along >= 30) | np.eye(n, dtype=bool)
        if clear.all():
            return x, y
        scale *= 1.08


def _rows_inside(
    width: Float[np.ndarray, " members"],
) -> tuple[Float[np.ndarray, " members"], Float[np.ndarray, " members"]]:
    """Rows from left to right, about as wide altogether as `ASPECT` wants."""
    step = width + 34.0
    down = HEIGHT + 40.0
    limit = max(float(width.max()), float(np.sqrt(ASPECT * step.sum() * down)))
    x, y = np.zeros(len(width)), np.zeros(len(width))
    at, row = 0.0, 0
    for i, w in enumerate(width):
        if at and at + w > limit:
            at, row = 0.0, row + 1
        x[i], y[i] = at + w / 2, row * down
        at += step[i]
    return x, y


def _bows(
    x: Float[np.ndarray, " nodes"],
    y: Float[np.ndarray, " nodes"],
    width: Float[np.ndarray, " nodes"],
    of: Int[np.ndarray, " nodes"],
    source: Int[np.ndarray, " edges"],
    target: Int[np.ndarray, " edges"],
) -> Float[np.ndarray, " edges"]:
    """How far each edge between components bows to the side, so that it does not run underneath a node."""
    bow = np.zeros(len(source))
    if len(source) > MOST_BOWED:
        return bow
    t = np.linspace(0.12, 0.88, 12)
    for e, (i, j) in enumerate(zip(source, target, strict=True)):
        if of[i] == of[j]:
            continue
        passed = (y > y[i] + HEIGHT) & (y < y[j] - HEIGHT)
        if not passed.any():
            continue
        # The cubic curve that graph.js draws: its two handles are BEND of the height away from its ends.
        down = y[i] + (y[j] - y[i]) * (3 * (1 - t) * t * (BEND * (1 - t) + (1 - BEND) * t) + t**3)
        straight = x[i] + (x[j] - x[i]) * (3 * t**2 - 2 * t**3)
        hits = []
        for aside in BOWS:
            way = straight + 3 * t * (1 - t) * aside
            near_x = np.abs(way[:, None] - x[passed]) < width[passed] / 2 + 6
            hits.append(int((near_x & (np.abs(down[:, None] - y[passed]) < HEIGHT / 2 + 6)).sum()))
            if hits[-1] == 0:
                break
        bow[e] = BOWS[int(np.argmin(hits))]
    return bow
