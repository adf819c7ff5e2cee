"""A priority graph as tables: the nodes and edges of its picture in numbers."""

from typing import Any, NamedTuple

import numpy as np

from attomaton.lab.graph.data import Part, TokenGraph
from attomaton.lab.graph.scene import edge_kind, node_name

KINDS = {"active": "margin 1", "slack": "margin above 1", "tie": "tied"}
NODES = ("token", "level", "component", "score", "log π", "soft odds", "came next", "in samples")
COMPONENTS = ("component", "level", "tokens", "of which", "score", "came next")
EDGES = ("winner", "loser", "weight", "margin", "kind")


class Table(NamedTuple):
    """Some rows of `total`, the heaviest first; `ends` are the tokens each row stands for, one or two."""

    header: tuple[str, ...]
    rows: list[list[Any]]
    ends: list[tuple[int, ...]]
    total: int


def node_table(graph: TokenGraph, part: Part, most: int | None = None) -> Table:
    """The nodes that pass the filter, drawn or not."""
    if part.condensed:
        net, nodes = part.net, np.unique(graph.net.component[part.passing[0]])
        first = nodes[np.argsort(-net.as_next[nodes], kind="stable")][:most]
        members = [graph.members(int(c)) for c in first]
        rows = [
            [int(c), int(net.level[c]), len(inside), node_name(graph, part, int(c)), float(net.score[c]),
             float(net.as_next[c])]
            for c, inside in zip(first, members, strict=True)
        ]  # fmt: skip
        return Table(COMPONENTS, rows, [(int(inside[0]),) for inside in members], len(nodes))
    net, nodes = graph.net, part.passing[0]
    first = nodes[np.lexsort((-graph.present[nodes], -net.as_next[nodes]))][:most]
    rows = [
        [graph.name[i], int(net.level[i]), int(net.component[i]), float(net.score[i]), float(graph.log_pi[i]),
         float(graph.share[i]), float(net.as_next[i]), float(graph.present[i])]
        for i in first
    ]  # fmt: skip
    return Table(NODES, rows, [(int(i),) for i in first], len(nodes))


def edge_table(graph: TokenGraph, part: Part, most: int | None = None) -> Table:
    """The edges that pass the filter, drawn or not."""
    net = part.net
    edges = np.arange(len(net.weight)) if part.condensed else part.passing[1]
    first = net.heaviest(edges)[:most]
    inner = net.component[net.source[first]] == net.component[net.target[first]]
    rows: list[list[Any]] = []
    ends: list[tuple[int, ...]] = []
    for e, margin, tied in zip(first, net.margin(first), inner, strict=True):
        a, b = int(net.source[e]), int(net.target[e])
        names = node_name(graph, part, a), node_name(graph, part, b)
        # Nine decimals: the solvers' dust is below, no margin is.
        numbers = float(net.weight[e]), round(float(margin), 9) + 0.0
        rows.append([*names, *numbers, KINDS[edge_kind(margin, tied)]])
        ends.append((part.token(graph, a), part.token(graph, b)))
    return Table(EDGES, rows, ends, len(edges))
