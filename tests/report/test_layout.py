"""Places of nodes: levels from the top down, nothing on top of anything, few crossings."""

from itertools import combinations

import numpy as np
import pytest

from attomaton.errors import cut
from attomaton.lab.graph.scene import LONGEST
from attomaton.report import layout

INT = np.int64


def placed(level, group, edges, width=60.0, boxed=None):
    n = len(level)
    source, target = np.array(edges, INT).reshape(-1, 2).T
    group = np.array(group, INT)
    if boxed is None:
        boxed = np.bincount(group)[group] > 1
    return layout.place(
        np.full(n, width), np.array(level, INT), group, source, target, np.array(boxed, bool)
    )


def overlapping(found, width):
    """Pairs of nodes whose rectangles meet."""
    w = np.broadcast_to(width, found.x.shape)
    return [
        (i, j)
        for i, j in combinations(range(len(found.x)), 2)
        if abs(found.x[i] - found.x[j]) < (w[i] + w[j]) / 2 and abs(found.y[i] - found.y[j]) < layout.HEIGHT
    ]  # fmt: skip


def crossings(found, edges):
    """Pairs of edges between the same two rows that cross."""
    return sum(
        (found.x[a] - found.x[c]) * (found.x[b] - found.x[d]) < 0
        for (a, b), (c, d) in combinations(edges, 2)
        if a != c and b != d
    )


def test_levels_come_from_the_top_down_each_inside_its_band():
    found = placed([0, 0, 1, 2], range(4), [(0, 2), (1, 2), (2, 3)])
    assert found.y[0] == found.y[1] < found.y[2] < found.y[3]
    assert [band.level for band in found.bands] == [0, 1, 2]
    for i, level in enumerate([0, 0, 1, 2]):
        band = found.bands[level]
        assert band.top < found.y[i] - layout.HEIGHT / 2
        assert found.y[i] + layout.HEIGHT / 2 < band.bottom
    assert all(a.bottom < b.top for a, b in zip(found.bands, found.bands[1:], strict=False))


@pytest.mark.parametrize("members", [2, 3, 5, 8, 9, 40])
def test_the_nodes_of_a_component_stay_together_and_apart(members):
    rng = np.random.default_rng(members)
    width = rng.uniform(34, 150, members + 2).round(1)
    group = np.array([0] * members + [1, 2])
    found = layout.place(
        width, np.zeros(members + 2, INT), group, np.zeros(0, INT), np.zeros(0, INT), group == 0
    )
    assert overlapping(found, width) == []
    box = {}
    for name, at, half in (("x", found.x, width / 2), ("y", found.y, layout.HEIGHT / 2)):
        box[name] = (
            (at - half)[:members].min() - layout.PAD,
            (at + half)[:members].max() + layout.PAD,
        )
    for i in (members, members + 1):
        beside = not box["x"][0] < found.x[i] < box["x"][1]
        above_or_below = not box["y"][0] - layout.TITLE < found.y[i] < box["y"][1]
        assert beside or above_or_below


def test_a_box_has_room_even_around_one_node():
    bare, boxed = (placed([0, 0], [0, 1], [], boxed=[one, False]) for one in (False, True))
    assert np.ptp(boxed.x) >= np.ptp(bare.x) + layout.PAD


def test_blocks_are_ordered_to_uncross_their_edges():
    # Drawn in the order of their numbers these edges all cross.
    edges = [(i, 9 - i) for i in range(5)]
    found = placed([0] * 5 + [1] * 5, range(10), edges)
    assert crossings(found, edges) == 0


def test_a_long_level_goes_on_in_rows_of_one_width():
    found = placed([0] + [1] * 300, range(301), [(0, j) for j in range(1, 301)])
    assert overlapping(found, 60.0) == []
    rows = np.unique(found.y[1:], return_counts=True)[1]
    assert len(rows) > 3
    assert np.ptp(rows) <= 1
    tall = found.bands[-1].bottom - found.bands[0].top
    assert 0.8 < found.width / tall < 3.5


def test_an_edge_bows_around_the_node_in_its_way():
    found = placed([0, 1, 2], range(3), [(0, 1), (1, 2), (0, 2)])
    assert found.x.tolist() == [found.x[0]] * 3
    assert found.bow[:2].tolist() == [0, 0]
    assert (
        abs(found.bow[2]) * 0.75 > 60 / 2
    )  # the middle of the curve is three quarters of the bow aside


def test_names_are_cut_and_wide_letters_get_room():
    assert cut("x" * LONGEST, LONGEST) == "x" * 20
    assert cut("x" * 21, LONGEST) == "x" * 19 + "…"
    assert layout.node_width("漢字漢字") > layout.node_width("abcd") > layout.node_width("a")


def test_nothing_to_place():
    found = placed([], [], [])
    assert len(found.x) == len(found.bands) == 0
