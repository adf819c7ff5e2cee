"""The picture of `attomaton dimensions`: what is retrieved and what is mixed, against the dimension."""

from collections.abc import Callable, Sequence

from attomaton.mechanics.theory.retrieval import Dimension, Retrieval, Spread
from attomaton.report.figures.canvas import SVM, Figure
from attomaton.report.figures.panels import panels_figure
from attomaton.results import Line, Panel, Upright

TITLE = "How many dimensions does hard retrieval need?"


def dimensions_panels(rows: Sequence[Dimension], end: Retrieval, thumb: float) -> list[Panel]:
    """Shares of strict differences and hard predictions, the loss floor and the norm; bands: over draws.

    Dashed is the limit with a dimension for each token, dotted the rule of thumb.
    """
    d = [row.d for row in rows]
    x = [float(n) for n in d]
    marks = [Upright(thumb, "√(differences / 2)")]

    def panel(
        title: str, ylabel: str, *curves: tuple[str, Callable[[Dimension], Spread], float]
    ) -> Panel:
        lines = []
        legend = "outside" if len(curves) > 1 else "none"  # which explains the others, too
        for i, (label, value, limit) in enumerate(curves):
            mean, low, high = zip(*((y.mean, y.low, y.high) for y in map(value, rows)), strict=True)
            lines.append(Line(x, mean, "measured", label, low=low, high=high, colour=i))
            ends = [min(x), max(*x, thumb)]
            note = None if i else "a dimension for each token"
            lines.append(Line(ends, [limit, limit], "theory", note, colour=i))
        return Panel(
            title, "dimensions d", ylabel, lines, "log", legend=legend, marks=marks, xticks=d
        )

    return [
        panel(
            "What is retrieved (bands: over draws)", "share",
            ("strict differences", lambda row: row.strict, end.strict),
            ("hard predictions", lambda row: row.hard, end.hard),
        ),
        panel(
            "What is mixed: the loss floor", "L* (nats)",
            ("", lambda row: row.loss_floor, end.loss_floor),
        ),
        panel(
            "The size of the hard part", f"‖{SVM}‖",
            ("", lambda row: row.svm_norm, end.svm_norm),
        ),
    ]  # fmt: skip


def dimensions_figure(rows: Sequence[Dimension], end: Retrieval, thumb: float) -> Figure:
    """The panels side by side."""
    return panels_figure(TITLE, dimensions_panels(rows, end, thumb))
