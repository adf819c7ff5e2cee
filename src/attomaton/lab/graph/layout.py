"""Where the nodes of a priority graph stand: levels as bands from the top down, components as blocks in their band.

A block is one node, or the nodes of a component around each other. Inside a level the blocks are ordered so that
edges cross little (every block near the mean place of its neighbours, swept down and up), and a long level goes on in
further rows. All lengths are units of the drawing, one pixel at zoom 1; y grows downwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import combining, east_asian_width

import numpy as np
from jaxtyping import Bool, Float, Int

HEIGHT = 28.0  # of a node
GAP, ROW_GAP, LEVEL_GAP = 20.0, 30.0, 66.0  # between blocks, rows of a level, levels
PAD, TITLE, EDGE = 14.0, 18.0, 16.0  # around the nodes of a box, its title, a band around its rows
RING = 8  # nodes that stand in a ring, so that no edge passes under another node; more form rows
ASPECT, NARROWEST = 1.7, 620.0  # of the whole drawing; of its rows
SWEEPS = 4
LONGEST = 20  # characters of a name that are drawn
BOWS = (0.0, 25.0, -25.0, 50.0, -50.0, 80.0, -80.0, 120.0, -120.0, 170.0, -170.0, 240.0, -240.0)
BEND = 0.4  # share of an edge's height over which it leaves its node straight down
MOST_BOWED = 600  # edges above which nobody could follow one around a node anyway


@dataclass(frozen=True)
class Band:
    """The strip of one level."""

    level: int
    top: float
    bottom: float


@dataclass(frozen=True, eq=False)
class Layout:
    """Middles of the nodes, how far each edge bows to the side, and the bands, all `width` wide around 0."""

    x: Float[np.ndarray, " nodes"]
    y: Float[np.ndarray, " nodes"]
    bow: Float[np.ndarray, " edges"]
    bands: list[Band]
    width: float


@dataclass(eq=False)
class _Block:
    """One component on its way to its place; `dx`, `dy` are its nodes' places around its own middle."""

    nodes: Int[np.ndarray, " members"]
    level: int
    dx: Float[np.ndarray, " members"]
    dy: Float[np.ndarray, " members"]
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0


def shortened(name: str) -> str:
    """A name as it is drawn.

    >>> shortened("abcdefghijklmnopqrstuvwxyz")
    'abcdefghijklmnopqrs…'
    """
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def node_width(name: str) -> float:
    """How wide a node must be for its name, by a guess at the letters' widths that errs on the wide side."""
    wide = sum(0 if combining(c) else 14 if east_asian_width(c) in "WF" else 7.7 for c in name)
    return round(max(wide + 20.0, 34.0), 1)


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
    blocks, of = _blocks(width, level, group, boxed)
    levels = _by_level(blocks)
    limit = _row_width(blocks)
    _order(blocks, levels, of[source], of[target], limit)
    bands, widest = _stand(levels, limit)
    x, y = np.zeros(len(width)), np.zeros(len(width))
    for block in blocks:
        x[block.nodes], y[block.nodes] = block.x + block.dx, block.y + block.dy
    bow = _bows(x, y, width, of, source, target)
    return Layout(x.round(1), y.round(1), bow, bands, widest)


def _blocks(
    width: Float[np.ndarray, " nodes"],
    level: Int[np.ndarray, " nodes"],
    group: Int[np.ndarray, " nodes"],
    boxed: Bool[np.ndarray, " nodes"],
) -> tuple[list[_Block], Int[np.ndarray, " nodes"]]:
    """The components as blocks, and the block of each node."""
    _, of = np.unique(group, return_inverse=True)
    order = np.argsort(of, kind="stable")
    cuts = np.flatnonzero(np.diff(of[order])) + 1
    blocks = []
    for members in np.split(order, cuts) if len(order) else []:
        dx, dy = _inside(width[members])
        wide, tall = float(np.ptp(_sides(dx, width[members]))), float(np.ptp(dy)) + HEIGHT
        if boxed[members[0]]:
            wide, tall, dy = max(wide, 60.0) + 2 * PAD, tall + 2 * PAD + TITLE, dy + TITLE / 2
        blocks.append(_Block(members, int(level[members[0]]), dx, dy, wide, tall))
    return blocks, of


def _sides(
    x: Float[np.ndarray, " n"], width: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " both"]:
    return np.concatenate([x - width / 2, x + width / 2])


def _inside(
    width: Float[np.ndarray, " members"],
) -> tuple[Float[np.ndarray, " members"], Float[np.ndarray, " members"]]:
    """The nodes of one component around its middle: a pair side by side, few in a ring, many in rows."""
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
            return _centred(x, y, width)
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
    return _centred(x, y, width)


def _centred(
    x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], width: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    sides = _sides(x, width)
    return x - (sides.min() + sides.max()) / 2, y - (y.min() + y.max()) / 2


def _by_level(blocks: Sequence[_Block]) -> list[list[_Block]]:
    levels: dict[int, list[_Block]] = {}
    for block in blocks:
        levels.setdefault(block.level, []).append(block)
    return [levels[level] for level in sorted(levels)]


def _row_width(blocks: Sequence[_Block]) -> float:
    """How long a row may become."""
    area = sum((b.width + GAP) * (b.height + ROW_GAP) for b in blocks)
    return max(NARROWEST, float(np.sqrt(ASPECT * area)), *(b.width for b in blocks), 0.0)


def _order(
    blocks: list[_Block],
    levels: list[list[_Block]],
    a: Int[np.ndarray, " edges"],
    b: Int[np.ndarray, " edges"],
    limit: float,
) -> None:
    """Sort every level by the mean place of the neighbours above, then of those below, in turn."""
    between = a != b
    a, b = a[between], b[between]
    number = {id(block): i for i, block in enumerate(blocks)}
    rows = [np.array([number[id(block)] for block in level]) for level in levels]
    place = np.zeros(len(blocks))

    def spread(row: Int[np.ndarray, " row"]) -> None:
        step = np.array([blocks[i].width + GAP for i in row])
        lines = max(
            1.0, np.ceil(step.sum() / limit)
        )  # a level of several rows is as wide as one of them
        place[row] = (np.cumsum(step) - step / 2 - step.sum() / 2) / lines

    for row in rows:
        spread(row)
    for sweep in range(SWEEPS):
        ends, near = (b, a) if sweep % 2 == 0 else (a, b)
        for k in range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows))):
            total = np.bincount(ends, place[near], len(blocks))[rows[k]]
            count = np.bincount(ends, minlength=len(blocks))[rows[k]]
            wish = np.where(count > 0, total / np.maximum(count, 1), place[rows[k]])
            rows[k] = rows[k][np.argsort(wish, kind="stable")]
            spread(rows[k])
    for level, row in zip(levels, rows, strict=True):
        level[:] = [blocks[i] for i in row]


def _stand(levels: list[list[_Block]], limit: float) -> tuple[list[Band], float]:
    """Rows below each other, each around x = 0; the bands, and how wide the widest row is."""
    bands = []
    top, widest = 0.0, 0.0
    for level in levels:
        begin = top
        for row in _rows(level, limit):
            wide = sum(b.width + GAP for b in row) - GAP
            tall = max(b.height for b in row)
            left = -wide / 2
            for block in row:
                block.x, block.y = left + block.width / 2, top + tall / 2
                left += block.width + GAP
            widest = max(widest, wide)
            top += tall + ROW_GAP
        top -= ROW_GAP
        bands.append(Band(level[0].level, begin - EDGE, top + EDGE))
        top += LEVEL_GAP
    return bands, max(widest, 240.0) + 2 * EDGE


def _rows(level: list[_Block], limit: float) -> list[list[_Block]]:
    """The blocks of a level dealt out from left to right, so that every row keeps the order of the whole."""
    count = int(max(1, np.ceil(sum(b.width + GAP for b in level) / limit)))
    rows: list[list[_Block]] = [[] for _ in range(count)]
    used = [0.0] * count
    for block in level:
        shortest = used.index(min(used))
        rows[shortest].append(block)
        used[shortest] += block.width + GAP
    return [row for row in rows if row]


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
