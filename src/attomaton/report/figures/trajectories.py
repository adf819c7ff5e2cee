"""The picture of `attomaton simulate`: one token takes all of the context, and how fast."""

import numpy as np

from attomaton.claims.picture import line, theory_line
from attomaton.report.figures.canvas import Figure, label
from attomaton.report.figures.panels import panels_figure
from attomaton.results import Line, Panel
from attomaton.summaries.trajectories import TrajectorySummary

FEW = 5  # tokens and slopes drawn


def trajectories_figure(s: TrajectorySummary) -> Figure:
    """Shares over time, the tokens that fade beside slopes of theory, and how many trajectories have collapsed."""
    length = np.array(s.times) + s.known
    axis = "length of the context" if s.window is None else "drawn tokens"
    x = length if s.window is None else np.maximum(s.times, 1)
    shares = [
        Line(x.astype(float).tolist(), one.share, "measured", label(one.token), one.low, one.high)
        for one in s.tokens[:FEW]
    ]
    panels = [Panel("Share of the context", axis, "mean share", shares, xscale="log")]
    if lines := _fading(s, length):
        title = f"Fading beside {label(s.tokens[0].token)}"
        panels.append(Panel(title, axis, "mean share", lines, xscale="log", yscale="log"))
    lines = [line(x, s.collapsed, "drawn")]
    if s.predicted is not None:
        lines.append(theory_line(x, s.predicted, "theory"))
    title = f"One token has {s.threshold:.0%}"
    panels.append(Panel(title, axis, "share of trajectories", lines, xscale="log"))
    return panels_figure(
        f"{s.trajectories:,} trajectories from {' '.join(map(label, s.prompt[-8:]))}", panels
    )


def _fading(s: TrajectorySummary, length: np.ndarray) -> list[Line]:
    """Shares beside the one leader there is, each with the slope of theory through its end."""
    if sum(x.leads > 0 for x in s.tokens) > 1:
        return []  # the means are over several leaders
    lines, late = [], length >= length[-1] / 100
    for i, f in enumerate(s.fading[:FEW]):
        share = np.array(next(x.share for x in s.tokens if x.token == f.token))
        lines.append(line(length, share, label(f.token), colour=i))
        if f.predicted is not None:
            through = share[-1] * (length[late] / length[-1]) ** f.predicted
            lines.append(theory_line(length[late], through, f"slope {f.predicted:.3g}", colour=i))
    return lines
