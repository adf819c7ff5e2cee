"""What the browser is sent of a priority graph: the picture, with places and words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.errors import cut
from attomaton.lab.graph.data import CAP, Part, TokenGraph
from attomaton.report import layout
from attomaton.report.graphs import is_active

FOLD = "+"  # begins the ids of nodes that stand for many
LONGEST = 20  # characters of a name that are drawn


@dataclass(frozen=True)
class Dot:
    """A node as it is drawn: a token, or a component of one or `several`."""

    id: str
    name: str
    drawn: str
    w: float
    x: float
    y: float
    level: int
    box: int
    several: bool
    last: bool
    tip: tuple[str, ...]
    grown: float = 1.0  # height over the usual one: by how often it was seen
    odds: float = 0.0  # soft odds over the largest in its component
    fold: bool = False  # stands for all other tokens of its level


class Line(NamedTuple):
    """An edge as it is drawn, between two nodes by their number."""

    source: int
    target: int
    thickness: float
    bow: float
    kind: str
    tip: str


@dataclass(frozen=True)
class Box:
    """The frame of a component, with the numbers of its nodes."""

    id: int
    members: tuple[int, ...]
    title: str


# Lengths that the browser needs where nodes are dragged.
SIZES = {"height": layout.HEIGHT, "pad": layout.PAD, "title": layout.TITLE, "bend": layout.BEND}


@dataclass(frozen=True)
class Scene:
    """The whole picture; `moved` are places where nodes were dropped."""

    nodes: tuple[Dot, ...]
    edges: tuple[Line, ...]
    boxes: tuple[Box, ...]
    bands: tuple[layout.Band, ...]
    width: float
    size: Mapping[str, float] = field(default_factory=lambda: SIZES)
    moved: Mapping[str, Sequence[float]] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()


def scene(graph: TokenGraph, part: Part) -> Scene:
    """What the browser draws: nodes with their places and what hovering says, boxes, bands, edges."""
    net, nodes = part.net, _in_order(graph, part)
    number = np.full(len(net.level), -1)
    number[nodes] = np.arange(len(nodes))
    source, target = number[net.source[part.edges]], number[net.target[part.edges]]
    names = [node_name(graph, part, int(i)) for i in nodes]
    drawn = [cut(name, LONGEST) for name in names]
    width = np.array([layout.node_width(name) for name in drawn])
    several = np.bincount(graph.net.component)[net.component[nodes]] > 1
    boxed = several & (not part.condensed)
    folds = [f"+ {many:,} more" for _, many in part.folded]
    levels = np.array([level for level, _ in part.folded], np.int64)
    alone = net.component.max(initial=-1) + 1 + np.arange(len(folds))
    placed = layout.place(
        np.concatenate([width, [layout.node_width(name) for name in folds]]),
        np.concatenate([net.level[nodes], levels]),
        np.concatenate([net.component[nodes], alone]),
        source, target, np.concatenate([boxed, np.zeros(len(folds), bool)]),
    )  # fmt: skip
    seen = net.as_next if part.condensed else graph.present
    grown = _grown(seen[nodes])
    odds = np.ones(len(nodes))
    if not part.condensed:  # against the largest of a component that is drawn
        largest = np.zeros(len(net.level))
        np.maximum.at(largest, net.component[nodes], graph.share[nodes])
        odds = graph.share[nodes] / largest[net.component[nodes]]
    # Line widths by weight, on a logarithmic scale: up to 3.2, less where all are light.
    widest = np.log1p(net.weight.max(initial=20.0))
    thickness = (0.8 + 2.4 * np.log1p(net.weight[part.edges]) / widest).round(2)
    margin = net.margin(part.edges)
    dots = tuple(
        Dot(
            id=node_id(part, int(i)), name=names[k], drawn=drawn[k], w=float(width[k]),
            x=float(placed.x[k]), y=float(placed.y[k]), level=int(net.level[i]), box=int(net.component[i]),
            several=bool(several[k]) and part.condensed, last=not part.condensed and bool(graph.token[i] == graph.last),
            tip=_tip(graph, part, int(i)), grown=float(grown[k]), odds=float(odds[k].round(3)),
        )
        for k, i in enumerate(nodes)
    )  # fmt: skip
    dots += tuple(
        Dot(
            id=f"{FOLD}{level}", name=folds[k], drawn=folds[k], w=layout.node_width(folds[k]),
            x=float(placed.x[len(nodes) + k]), y=float(placed.y[len(nodes) + k]), level=level, box=-1 - k,
            several=False, last=False, tip=(f"on level {level}; choose it to draw more of them",), fold=True,
        )
        for k, (level, _) in enumerate(part.folded)
    )  # fmt: skip
    lines = tuple(
        Line(int(a), int(b), float(thick), float(bow), edge_kind(m, inner),
             f"weight {number_text(w)} · " + ("tied" if inner else f"margin {number_text(m)}"))
        for a, b, w, thick, bow, m, inner in zip(
            source, target, net.weight[part.edges], thickness, placed.bow, margin,
            net.component[net.source[part.edges]] == net.component[net.target[part.edges]], strict=True)
    )  # fmt: skip
    return Scene(dots, lines, _boxes(graph, part, nodes), tuple(placed.bands), placed.width)


def _grown(seen: Float[np.ndarray, " drawn"]) -> Float[np.ndarray, " drawn"]:
    """Heights by how often nodes were seen, from 0.75 to 1.25 on a logarithmic scale; 1 where all are alike."""
    size = np.log1p(seen)
    low, high = (size.min(), size.max()) if len(size) else (0.0, 0.0)
    return (0.75 + 0.5 * (size - low) / (high - low)).round(2) if high > low else np.ones(len(size))


def said(graph: TokenGraph, part: Part) -> str:
    """How much of the whole is drawn, and how to see more."""
    nodes, edges = part.all
    names = ("components", "relations") if part.condensed else ("tokens", "edges")
    text = f"Shown {len(part.nodes):,} of {nodes:,} {names[0]}, {len(part.edges):,} of {edges:,} {names[1]}."
    if part.centre is not None:
        centre = graph.name[part.token(graph, part.centre)]
        text += (
            f" More than {CAP:,} elements are too many for one picture, so this is the neighbourhood of “{centre}”: "
            "its strongest edges in and out, and theirs. To see more, raise the minimum count, draw more elements, or "
            "choose another token to look around."
        )
    elif part.folded:
        text += (
            f" These {names[0]} came next most often; drawn are the heaviest edges between them. All others of a level "
            "are folded into one node: choose it to draw more, or choose a token to look around."
        )
    elif not len(part.nodes):
        text += " No edge is as heavy as the minimum count; lower it."
    elif not edges:
        text += " There are no edges: nothing else was ever seen beside the label."
    return text


def node_id(part: Part, node: int) -> str:
    """The name under which the browser knows a node: tokens by number, components as c0, c1, …"""
    return f"c{node}" if part.condensed else str(node)


def number_text(x: float) -> str:
    """A number as labels show it: whole where it is whole, else five digits; solver dust around 0 reads as 0."""
    x = float(x)
    return f"{x:,.0f}" if x.is_integer() else f"{0.0 if abs(x) < 5e-7 else x:.5g}".replace("-", "−")


def _in_order(graph: TokenGraph, part: Part) -> Int[np.ndarray, " drawn"]:
    """The nodes from the highest level down, in a component the likeliest first: the order of the Tab key."""
    if part.condensed:
        return part.nodes
    return graph.order[np.isin(graph.order, part.nodes)]  # components are numbered by level


def node_name(graph: TokenGraph, part: Part, node: int) -> str:
    """A node in words: a token, or the likeliest tokens of a component."""
    if not part.condensed:
        return graph.name[node]
    members = graph.members(node)
    few = ", ".join(graph.name[i] for i in members[:3])
    return few if len(members) <= 3 else f"{few} +{len(members) - 3:,}"


def _tip(graph: TokenGraph, part: Part, node: int) -> tuple[str, ...]:
    net = part.net
    score = number_text(net.score[node])
    if part.condensed:
        members = graph.members(node)
        several = f"{len(members):,} tied tokens" if len(members) > 1 else "one token"
        return (
            f"level {net.level[node]}, {several}",
            f"score {score}",
            f"came next {_counted(net.as_next[node], 'time')}",
        )
    tied = len(graph.members(int(net.component[node]))) - 1
    beside = f", tied with {tied:,} other{'s' * (tied > 1)}" if tied else ""
    return (
        f"level {net.level[node]}, component {net.component[node]}{beside}",
        f"score {score}, log π {number_text(graph.log_pi[node])}",
        f"came next {_counted(net.as_next[node], 'time')}",
        f"in {_counted(graph.present[node], 'sample')}",
    )


def _counted(x: float, noun: str) -> str:
    return f"{number_text(x)} {noun}" if x == 1 else f"{number_text(x)} {noun}s"


def _boxes(graph: TokenGraph, part: Part, nodes: Int[np.ndarray, " drawn"]) -> tuple[Box, ...]:
    """Components of several tokens, by the places of their members among the nodes drawn."""
    if part.condensed:
        return ()
    members: dict[int, list[int]] = {}
    for k, c in enumerate(part.net.component[nodes].tolist()):
        members.setdefault(c, []).append(k)
    boxes = []
    for c, inside in members.items():
        size = len(graph.members(c))
        if size > 1:
            some = "" if size == len(inside) else f"{len(inside):,} of "
            boxes.append(Box(c, tuple(inside), f"tied: {some}{size:,}"))
    return tuple(boxes)


def edge_kind(margin: float, inner: bool | np.bool_) -> str:
    """What an edge says: inside a component nothing but a tie, else an order with the margin 1 or more."""
    return "tie" if inner else "active" if is_active(float(margin)) else "slack"
