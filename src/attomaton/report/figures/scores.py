"""The picture of a score table: log-loss and hits of every predictor, with their standard errors; reliability."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attomaton.predictor.scoring import ScoreTable
from attomaton.report.figures.canvas import Figure, drawn, new_figure
from attomaton.report.figures.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY

MOST_CURVES = 4  # of reliability in one panel
FEW = 20.0  # windows; a bin of fewer says nothing and is not drawn
BELOW = 0.5  # inches from a panel to the key under its axis


@drawn
def scores_figure(title: str, tables: Sequence[tuple[str, ScoreTable]]) -> Figure:
    """One row of panels for each table (its heading, its plain data): log-loss, hits, and how far to trust the odds."""
    height = [max(len(table.rows), MOST_CURVES + 2) + 2.0 for _, table in tables]
    figure = new_figure(title, 12.6, 0.34 * sum(height) + 0.5)
    # Two halves that are laid out by themselves: keys below the curves take no room from the bars.
    halves: Any = figure.subfigures(1, 2, width_ratios=[2, 0.9])
    bars, curves = halves
    ratios = [h - 1.4 for h in height]
    both = bars.subplots(len(tables), 2, squeeze=False, height_ratios=ratios)
    trust = curves.subplots(len(tables), 1, squeeze=False, height_ratios=ratios)
    for (heading, table), (left, middle), (right,) in zip(tables, both, trust, strict=True):
        _draw_loss(left, table, f"{heading}\nlog-loss in nats, less is better")
        _draw_hits(middle, table, "hits at 1 (dark) and at 5 (light), more is better")
        _draw_reliability(right, table, "first guesses: how often right, by how sure")
    return figure


def _draw_loss(axes: Any, table: ScoreTable, title: str) -> None:
    rows = table.rows
    value = np.array([float(row.log_loss) for row in rows])
    finite = np.isfinite(value)
    longest = float(value[finite].max(initial=1.0))
    error = [_error(row.log_loss_error) for row in rows]
    place = np.arange(len(rows))
    axes.barh(place, np.where(finite, value, 0.0), xerr=np.where(finite, error, np.nan), height=0.62,
              color=_colours(table), ecolor="black", capsize=2, error_kw={"lw": 1})  # fmt: skip
    for i, row in enumerate(rows):
        text = (
            f"{value[i]:.3f}"
            if finite[i]
            else f"∞: {100 * row.impossible:.1f}% of labels impossible"
        )
        end = value[i] + error[i] if finite[i] else 0.0
        axes.text(end + 0.02 * longest, i, text, va="center", ha="left", fontsize=8)
    axes.set_yticks(place, [row.name for row in rows])
    axes.set_xlim(0, 1.2 * longest)
    axes.invert_yaxis()
    axes.set_title(title)
    axes.grid(visible=False, axis="y")


def _draw_hits(axes: Any, table: ScoreTable, title: str) -> None:
    rows = table.rows
    place = np.arange(len(rows))
    for figure, colour, name in (("top5", "#D9DEE3", "at 5"), ("top1", None, "at 1")):
        value = [getattr(row, figure) for row in rows]
        error = [_error(getattr(row, f"{figure}_error")) for row in rows]
        axes.barh(place, value, xerr=error, height=0.62, color=colour or _colours(table), ecolor="black",
                  capsize=2, error_kw={"lw": 1}, label=name)  # fmt: skip
    for i, row in enumerate(rows):
        end = row.top5 + _error(row.top5_error)
        axes.text(end + 0.02, i, f"{row.top1:.3f} · {row.top5:.3f}", va="center",
                  ha="left", fontsize=8)  # fmt: skip
    axes.set_yticks(place, [""] * len(rows))
    axes.set_xlim(0, 1.18)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.invert_yaxis()
    axes.set_title(title)
    axes.grid(visible=False, axis="y")


def _draw_reliability(axes: Any, table: ScoreTable, title: str) -> None:
    """The first system and those of least log-loss; below the diagonal a system is too sure of itself."""
    from matplotlib.transforms import ScaledTranslation

    others = [row for row in table.rows if row.name != table.compared_with]
    others = sorted(others, key=lambda row: row.log_loss)[: MOST_CURVES - 1]
    first = [row for row in table.rows if row.name == table.compared_with]
    axes.plot([0, 1], [0, 1], color=GREY, lw=0.8, ls="--", zorder=0)
    least = min(FEW, table.weight / 30)
    for row, colour in zip([*first, *others], (BLUE, ORANGE, GREEN, PURPLE), strict=False):
        bins = [b for b in row.reliability if b.weight >= least]
        weight = np.array([b.weight for b in bins])
        x, y = ([getattr(b, name) for b in bins] for name in ("sure", "right"))
        axes.plot(x, y, color=colour, lw=1.2, label=f"{row.name}, ECE {row.calibration_error:.3f}")
        axes.scatter(x, y, s=4 + 60 * weight / weight.sum(), color=colour, zorder=3)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("probability of the first guess")
    axes.set_title(title)
    below = axes.transAxes + ScaledTranslation(0, -BELOW, axes.figure.dpi_scale_trans)
    axes.legend(loc="upper left", bbox_to_anchor=(-0.02, 0), bbox_transform=below,
                borderaxespad=0, fontsize=7.5)  # fmt: skip


def _colours(table: ScoreTable) -> list[str]:
    first = table.compared_with
    return [BLUE if row.name == first else GREY if row.name != "limit" else SKY
            for row in table.rows]  # fmt: skip


def _error(value: Any) -> float:
    number = float("nan") if value is None else float(value)
    return number if np.isfinite(number) else 0.0
