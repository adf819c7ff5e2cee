"""The picture of how far data carry: evidence behind orders, what new contexts find, errors of odds."""

from typing import Any

from attomaton.report.figures.canvas import Figure, drawn, new_figure, put_text
from attomaton.report.figures.colours import BLUE, GREY, ORANGE, VERMILION
from attomaton.report.text.coverage import TITLE, steps
from attomaton.report.words import percent
from attomaton.summaries.coverage import Coverage, NewContexts


@drawn
def coverage_figure(found: Coverage) -> Figure:
    """Orders by evidence, new contexts by verdict (where there are some), log-odds by standard error."""
    figure = new_figure(TITLE, 9.2, 3.4)
    axes = figure.subplots(1, 2 if found.new is None else 3)
    _bars(axes[0], steps([x.at_least for x in found.support]), [x.orders for x in found.support])
    axes[0].set(title="strict orders", xlabel="samples behind an order", ylabel="orders")
    spread = found.soft.spread
    _bars(axes[-1], [f"{x.at_least:g}" for x in spread], [x.odds for x in spread], BLUE)
    axes[-1].set(
        title="log-odds of tied tokens", xlabel="standard error from, nats", ylabel="pairs"
    )
    if found.new is not None:
        _verdicts(axes[1], found.new)
    return figure


def _bars(axes: Any, names: list[str], many: list[int], colour: str = ORANGE) -> None:
    axes.bar(range(len(names)), many, 0.7, fc=colour, hatch="////" * (colour == ORANGE), ec="white")
    for x, n in enumerate(many):
        axes.annotate(f"{n:,}", (x, n), (0, 2), textcoords="offset points", ha="center", fontsize=7)
    axes.set_xticks(range(len(names)), names, fontsize=7)
    axes.margins(y=0.12)
    axes.set_yticks([])  # every bar says its number
    axes.grid(visible=False)


def _verdicts(axes: Any, new: NewContexts) -> None:
    rows = (
        ("determined", new.determined, BLUE, ""),
        ("undetermined", new.undetermined, VERMILION, "xx"),
        ("unseen", new.unseen, GREY, ".."),
    )
    total = new.contexts or 1.0
    for y, (_, weight, colour, hatch) in enumerate(rows):
        axes.barh(y, weight / total, 0.6, fc=colour, hatch=hatch, ec="white")
        put_text(axes, min(weight / total + 0.02, 0.86), y, percent(weight / total), 8, ha="left",
                 bbox={"fc": "white", "ec": "none", "pad": 1.2, "alpha": 0.92})  # fmt: skip
    axes.set(title="new contexts", xlim=(0, 1), ylim=(2.5, -0.5))
    axes.set_yticks(range(3), [name for name, *_ in rows])
    axes.set_xticks([0, 0.5, 1], ["0", "50%", "100%"])
    axes.grid(axis="y", visible=False)
