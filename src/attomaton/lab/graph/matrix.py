"""A priority graph as a heat map: row over column, by how often the row came next while the column was there."""

import numpy as np

from attomaton.errors import cut
from attomaton.lab.graph.data import Part, TokenGraph
from attomaton.lab.graph.scene import node_name, number_text
from attomaton.lab.kit.charts import Axis, Margins, Picture, Series, Shades, Square

LARGEST = 44  # rows and columns at once: 44² squares are what one chart draws
LONGEST = 14  # characters of a name at its side
NAMES = {"interval": 0, "color": "$ink", "fontSize": 11}


def matrix(graph: TokenGraph, part: Part, top: int) -> tuple[Picture, list[tuple[int, int]]]:
    """The heat map, and the tokens of each square: the upper right is the order, what lies on both sides is tied."""
    net = part.net
    some = part.nodes[np.argsort(-net.as_next[part.nodes], kind="stable")][: min(top, LARGEST)]
    rows = some[np.lexsort((-net.as_next[some], -net.score[some]))].tolist()  # those on top first
    place = {node: i for i, node in enumerate(rows)}
    edges = np.arange(len(net.weight)) if part.condensed else part.passing[1]
    there = net.between(np.array(rows, np.int64), edges)
    # Winner and loser by their places, weight and margin, of every edge between these nodes.
    ends = ([place[int(i)] for i in side[there]] for side in (net.source, net.target))
    found = list(zip(*ends, net.weight[there].tolist(), net.margin(there).tolist(), strict=True))
    names = [node_name(graph, part, i) for i in rows]
    shown = [cut(name, LONGEST) for name in names]
    logs = [float(np.log10(weight)) for _, _, weight, _ in found]
    low, high = (min(logs), max(logs)) if logs else (0.0, 1.0)
    several = high > low
    squares = [
        Square([b, a, log], f"{names[a]} over {names[b]}: {number_text(weight)}")
        for (a, b, weight, _), log in zip(found, logs, strict=True)
    ]
    label = {**NAMES, "rotate": 60}
    kind = "components" if part.condensed else "tokens"
    picture = Picture(
        x=Axis("was there too", names=shown, gap=84, more={"axisLabel": label, "position": "top"}),
        y=Axis("came next", names=shown, gap=None, more={"inverse": True, "axisLabel": NAMES}),
        series=[Series("heatmap", squares)],
        header=["winner", "loser", "weight", "margin"],
        rows=[[names[a], names[b], weight, margin] for a, b, weight, margin in found],
        note=f"The {len(rows):,} {kind} that came next most often, of {part.all[0]:,}, by score. Tied ones have "
        "squares on both sides of the diagonal. Click a square for the samples behind it.",
        margins=Margins(16, 16, 104, 64, labels=True),
        shades=Shades(
            low, high if several else low + 1, ["often (log)", "once"], more={"show": several}
        ),
        hover={"formatter": "{b}"},
        more={"animation": False},
    )
    tokens = [part.token(graph, i) for i in rows]
    return picture, [(tokens[a], tokens[b]) for a, b, _, _ in found]
