"""Figures made of panels in plain data (`results.Panel`): curves, points with error bars, and heat maps."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attomaton.errors import UsageError
from attomaton.report.figures.canvas import Figure, drawn, new_figure
from attomaton.report.figures.colours import BLACK, CURVES, MARKERS
from attomaton.results import Panel


@drawn
def panels_figure(title: str, panels: Sequence[Panel], columns: int = 3) -> Figure:
    """The panels side by side under one title, `columns` to a row."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(title, 3.5 * columns + 0.6, 2.9 * rows + 0.6, formulas=True)
    for i, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, i + 1)
        axes.set_gid(f"panel-{i}")
        axes.set_title(panel.title)
        axes.set_xlabel(panel.xlabel)
        axes.set_ylabel(panel.ylabel)
        if panel.heat is not None:
            _draw_heat(figure, axes, panel)
        else:
            _draw_lines(axes, panel)
            if panel.xticks is not None:
                axes.set_xticks(np.asarray(panel.xticks, float), map(str, panel.xticks))
                axes.minorticks_off()
    return figure


def _draw_lines(axes: Any, panel: Panel) -> None:
    if not panel.lines:
        raise UsageError("a panel needs lines, or a heat map.")
    for name, scale in (("x", panel.xscale), ("y", panel.yscale)):
        values = [v for line in panel.lines for v in np.asarray(getattr(line, name), float)]
        # A run that diverged at once has nothing to show on a logarithmic axis.
        if scale == "log" and any(v > 0 and np.isfinite(v) for v in values):
            axes.set(**{f"{name}scale": scale})
    for i, line in enumerate(panel.lines):
        x, y = np.asarray(line.x, float), np.asarray(line.y, float)
        colour = CURVES[(i if line.colour is None else line.colour) % len(CURVES)]
        if line.low is not None and line.high is not None:
            axes.fill_between(x, line.low, line.high, color=colour, alpha=0.2, lw=0)
        if line.error is not None:
            axes.errorbar(x, y, yerr=line.error, color=colour, marker=MARKERS[i % len(MARKERS)],
                          ms=4, lw=1.4, capsize=2, label=line.label, gid=f"line-{i}")  # fmt: skip
        elif line.style == "theory":
            axes.plot(x, y, "--", color=line.ink or colour, lw=1.4, label=line.label,
                      gid=f"theory-{i}", zorder=3)  # fmt: skip
        elif line.style == "points":
            axes.plot(
                x, y, MARKERS[i % len(MARKERS)], color=line.ink or colour, ms=4, label=line.label
            )
        else:
            # Hollow markers that shrink: curves lying on each other are all seen.
            dots = MARKERS[i % len(MARKERS)] if panel.xticks is not None else None
            axes.plot(x, y, color=colour, lw=1.8, marker=dots, ms=8 - i, mfc="none",
                      label=line.label, gid=f"line-{i}")  # fmt: skip
    for mark in panel.marks or ():
        colour = BLACK if mark.colour is None else CURVES[mark.colour % len(CURVES)]
        axes.axvline(mark.x, ls=":", color=colour, lw=1.4, label=mark.label, gid="mark")
    if panel.legend == "outside":
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    elif panel.legend != "none" and any(line.label for line in panel.lines):
        axes.legend(loc=panel.legend or "best")


def _draw_heat(figure: Figure, axes: Any, panel: Panel) -> None:
    values = np.asarray(panel.heat, float)
    image = axes.imshow(values, aspect="auto", cmap="viridis", interpolation="nearest",
                        vmin=panel.low, vmax=panel.high)  # fmt: skip
    axes.grid(visible=False)
    for ticks, set_ticks, size, most in (
        (panel.xticks, axes.set_xticks, values.shape[1], 5),
        (panel.yticks, axes.set_yticks, values.shape[0], 14),
    ):
        labels = [str(x) for x in (range(size) if ticks is None else ticks)]
        stride = max(1, -(-size // most))
        set_ticks(range(0, size, stride), labels[::stride])
    figure.colorbar(image, ax=axes, label=panel.colour or "", shrink=0.9)
