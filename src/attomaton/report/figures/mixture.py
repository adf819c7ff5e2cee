"""The picture of `attomaton mix`: after which last tokens orders turn into ties."""

from typing import Any

from attomaton.mechanics.theory.mixture import Mixed, Survival
from attomaton.report.figures.canvas import Figure, drawn, mention, new_figure, put_text
from attomaton.report.figures.colours import BLUE, VERMILION


@drawn
def mixture_figure(m: Mixed) -> Figure:
    """The last tokens with the most orders that turn, for A and for B."""
    rows = max(len(m.a.orders.by_last), len(m.b.orders.by_last), 1)
    title = "Strict orders that survive in A + B, and those that turn into ties"
    figure = new_figure(title, 9.2, 1.6 + 0.3 * rows)
    for axes, name, corpus in zip(figure.subplots(1, 2), "AB", (m.a, m.b), strict=True):
        _draw(axes, name, corpus.orders)
    return figure


def _draw(axes: Any, name: str, orders: Survival) -> None:
    axes.set_title(f"{name}: {orders.turn:,} of {orders.strict:,} turn")
    if not orders.by_last:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "every order survives", ha="center", va="center")
        return
    places = range(len(orders.by_last))
    kept = [x.strict - x.turn for x in orders.by_last]
    axes.barh(places, kept, height=0.7, fc=BLUE, ec="white", label="survive")
    turn = [x.turn for x in orders.by_last]
    axes.barh(
        places, turn, left=kept, height=0.7, fc=VERMILION, hatch="////", ec="white", label="turn"
    )
    for y, (one, length) in enumerate(zip(orders.by_last, kept, strict=True)):
        put_text(axes, length + one.turn, y, f" {one.turn:,}", 8, ha="left")
    axes.set_yticks(places, [mention(x.last) for x in orders.by_last], parse_math=False)
    axes.set(xlim=(0, 1.12 * max(x.strict for x in orders.by_last)), ylim=(len(places) - 0.5, -0.5))
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("strict orders after this last token")
    axes.legend(loc="lower right")
