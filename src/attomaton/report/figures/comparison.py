"""The picture of `attomaton compare`: which share of the priorities each run has right, and since when."""

from typing import Any

import numpy as np

from attomaton.claims.comparison import Comparison
from attomaton.report.figures.canvas import Figure, drawn, new_figure
from attomaton.report.figures.colours import BLACK, CURVES
from attomaton.report.figures.training import step_axis

TITLE = "when the strict priorities were learned"
STYLES = ("-", "--", "-.", ":")


@drawn
def comparison_figure(record: Comparison) -> Figure:
    """The share of priorities that are right and stay so, over the steps."""
    figure = new_figure(TITLE, 7.6, 3.4 + 0.1 * len(record.layers))
    axes = figure.add_subplot()
    axes.set_title("share of strict priorities that are right from this step on")
    for i, x in enumerate(record.layers):
        # What was not seen before was not learned before: nothing at a step earlier than the first.
        steps, share = [0, *(p.step for p in x.curve)], [0.0, *(p.share for p in x.curve)]
        look: dict[str, Any] = {
            "color": CURVES[i % len(CURVES)],
            "ls": STYLES[i % len(STYLES)],
            "gid": f"run-{i}",
        }
        axes.plot(
            steps, share, drawstyle="steps-post", lw=1.8, label=f"{x.name}: {x.optimizer}", **look
        )
    axes.axhline(1, ls="--", color=BLACK, lw=1.0, gid="theory", label="theory: 1", zorder=1)
    step_axis(axes, np.array([0, *(x.steps for x in record.layers)], float))
    axes.set_ylim(0, 1.06)
    key = axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    for text in key.get_texts():
        text.set_parse_math(False)
    return figure
