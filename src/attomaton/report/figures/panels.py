"""Figures made of panels described in plain data: curves, points with error bars, and heat maps.

A panel is a dictionary with `title`, `xlabel`, `ylabel`, optionally `xscale`, `yscale` ("linear" or "log"), and

- `lines`: list of `{"x", "y", "label", "style", "low", "high", "error"}` (all but x and y optional; `style` is
  "measured", "theory" or "points"; `low`/`high` draw a band, `error` error bars), `marks`: list of
  `{"x", "label"}` drawn as vertical lines in the colour of the line of that index;
  `legend` is a place, "outside" (to the right) or None for none; or
- `heat`: a matrix with `xticks`, `yticks` (labels) and `colour` (what the colour means).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attomaton.report.figures.canvas import BLACK, CURVES, MARKERS, Figure, drawn

Panel = Mapping[str, Any]


@drawn
def panels_figure(title: str, panels: Sequence[Panel], columns: int = 3) -> Figure:
    """The panels side by side under one title, `columns` to a row."""
    from matplotlib.figure import Figure as NewFigure

    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    size = (3.5 * columns + 0.6, 2.9 * rows + 0.6)
    figure = NewFigure(figsize=size, layout="constrained", label=title)
    figure.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
    for i, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, i + 1)
        axes.set_gid(f"panel-{i}")
        axes.set_title(panel.get("title", ""))
        axes.set_xlabel(panel.get("xlabel", ""))
        axes.set_ylabel(panel.get("ylabel", ""))
        if "heat" in panel:
            _draw_heat(figure, axes, panel)
        else:
            _draw_lines(axes, panel)
    return figure


def _draw_lines(axes: Any, panel: Panel) -> None:
    for name in ("x", "y"):
        scale = panel.get(f"{name}scale", "linear")
        values = [v for line in panel["lines"] for v in np.asarray(line[name], float).ravel()]
        # A run that diverged at once has nothing to show on a logarithmic axis.
        if scale != "log" or any(v > 0 and np.isfinite(v) for v in values):
            axes.set(**{f"{name}scale": scale})
    for i, line in enumerate(panel["lines"]):
        x, y = np.asarray(line["x"], float), np.asarray(line["y"], float)
        colour = CURVES[line.get("colour", i) % len(CURVES)]
        style = line.get("style", "measured")
        if "low" in line:
            axes.fill_between(x, line["low"], line["high"], color=colour, alpha=0.2, lw=0)
        if "error" in line:
            axes.errorbar(x, y, yerr=line["error"], color=colour, marker=MARKERS[i % len(MARKERS)],
                          ms=4, lw=1.4, capsize=2, label=line.get("label"), gid=f"line-{i}")  # fmt: skip
        elif style == "theory":
            axes.plot(x, y, "--", color=line.get("ink", colour), lw=1.4, label=line.get("label"),
                      gid=f"theory-{i}", zorder=3)  # fmt: skip
        elif style == "points":
            axes.plot(x, y, MARKERS[i % len(MARKERS)], color=colour, ms=4, label=line.get("label"))
        else:
            axes.plot(x, y, color=colour, lw=1.8, label=line.get("label"), gid=f"line-{i}")
    for mark in panel.get("marks", ()):
        colour = CURVES[mark["colour"] % len(CURVES)] if "colour" in mark else BLACK
        axes.axvline(mark["x"], ls=":", color=colour, lw=1.4, label=mark.get("label"), gid="mark")
    where = panel.get("legend", "best")
    if where == "outside":
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    elif where and any(line.get("label") for line in panel["lines"]):
        axes.legend(loc=where)


def _draw_heat(figure: Figure, axes: Any, panel: Panel) -> None:
    values = np.asarray(panel["heat"], float)
    image = axes.imshow(values, aspect="auto", cmap="viridis", interpolation="nearest",
                        vmin=panel.get("low"), vmax=panel.get("high"))  # fmt: skip
    axes.grid(visible=False)
    for ticks, set_ticks, size, most in (
        ("xticks", axes.set_xticks, values.shape[1], 5),
        ("yticks", axes.set_yticks, values.shape[0], 14),
    ):
        labels = [str(x) for x in panel.get(ticks, range(size))]
        stride = max(1, -(-size // most))
        set_ticks(range(0, size, stride), labels[::stride])
    figure.colorbar(image, ax=axes, label=panel.get("colour", ""), shrink=0.9)
