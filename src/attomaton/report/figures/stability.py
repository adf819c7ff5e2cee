"""The picture of `attomaton bootstrap`: which orders come out the same when sequences are drawn again."""

import numpy as np

from attomaton.base.shapes import Bool, Float
from attomaton.claims.picture import line, theory_line
from attomaton.errors import cut, visible
from attomaton.mechanics.theory.resampling import Stability
from attomaton.report.figures.canvas import Figure
from attomaton.report.figures.panels import panels_figure
from attomaton.results import Panel

NAME = 40  # letters of a last token
ROWS = 12  # last tokens drawn


def stability_figure(
    s: Stability, same: Float[np.ndarray, " edges"], strict: Bool[np.ndarray, " edges"]
) -> Figure:
    """Orders and ties by how often they come out the same, by what is behind them, and by last token."""
    ordered = []
    for name, some in (("strict orders", strict), ("ties", ~strict)):
        if some.any():
            share = np.sort(same[some])
            ordered.append(line(np.linspace(0, 1, len(share)), share, name, points=400))
    x = [b.sequences for b in s.behind]
    behind = [
        line(x, [b.same for b in s.behind], "drawn", "points", points=None),
        theory_line(x, [b.alone for b in s.behind], "without other paths", points=400),
    ]
    again = "share of resamples"
    panels = [Panel("From the least to the most stable", "share of all", again, ordered)]
    if x:
        title, axis = "Strict orders by what is behind", "sequences behind an order"
        panels.append(Panel(title, axis, again, behind, xscale="log"))
    lasts = s.after[:ROWS]
    panels.append(
        Panel(
            "After each last token", "", "",
            heat=[[a.same, a.answers] for a in lasts], xticks=["orders", "answers"],
            yticks=[cut(visible(a.last), NAME).replace("$", r"\$") for a in lasts], colour="the same, mean share",
            low=min([0.5, *(a.same for a in lasts)]), high=1.0,
        )
    )  # fmt: skip
    return panels_figure(f"{s.resamples:,} resamples of {s.sequences:,} sequences", panels)
