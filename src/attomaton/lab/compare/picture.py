"""Two graphs as one picture: edges by what became of them."""

import numpy as np

from attomaton.errors import cut
from attomaton.folders.differ.last_token import SAME, AfterOne, top_tokens
from attomaton.lab.graph.scene import LONGEST, Dot, Line, Scene, number_text
from attomaton.report import layout
from attomaton.report.graphs import readable

TOKENS = 24  # in one picture
EACH = 4  # edges for each of them
SAID = {
    "gained": "only in B",
    "lost": "only in A",
    "tied": "strict in A, tied in B",
    "apart": "tied in A, strict in B",
    "reversed": "the other way round in B",
    "same": "in both",
}


def union_scene(found: AfterOne) -> Scene:
    """The tokens and edges of both on the levels of B (of A where B does not have a token)."""
    tokens, edges = top_tokens(found, TOKENS)
    edges = edges[: EACH * len(tokens)]
    name = readable([t.token for t in tokens])
    place = {t.token: i for i, t in enumerate(tokens)}
    level = np.array([t.level[1] if t.level[1] is not None else t.level[0] or 0 for t in tokens])
    drawn = [cut(name[t.token], LONGEST) for t in tokens]
    width = np.array([layout.node_width(x) for x in drawn])
    ends = np.array([[place[e.winner], place[e.loser]] for e in edges], np.int64).reshape(-1, 2).T
    down = level[ends[0]] < level[ends[1]]
    alone = np.zeros(len(tokens), bool)
    placed = layout.place(width, level, np.arange(len(tokens)), ends[0][down], ends[1][down], alone)
    bow = np.zeros(len(edges))
    bow[down] = placed.bow
    dots = tuple(
        Dot(
            id=str(i), name=name[t.token], drawn=drawn[i], w=float(width[i]),
            x=float(placed.x[i]), y=float(placed.y[i]),
            level=int(level[i]), box=i, several=False, last=t.token == found.last,
            tip=tuple(_side(t.level[k], t.odds[k], t.came[k], "AB"[k]) for k in (0, 1)),
        )
        for i, t in enumerate(tokens)
    )  # fmt: skip
    lines = tuple(
        Line(int(a), int(b), 1.2 if e.change == SAME else 2.2, float(bent), e.change,
             f"{SAID[e.change]}: weight {number_text(e.weight[0])} in A, {number_text(e.weight[1])} in B")
        for a, b, e, bent in zip(*ends, edges, bow, strict=True)
    )  # fmt: skip
    return Scene(dots, lines, (), tuple(placed.bands), placed.width)


def _side(level: int | None, odds: float | None, came: float, name: str) -> str:
    if level is None or odds is None:
        return f"{name}: never seen here"
    return f"{name}: level {level}, odds {odds:.3g}, came next {number_text(came)}"
