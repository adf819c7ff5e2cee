"""The picture of a model over its checkpoints: entropy of every head, and agreement with the corpus."""

from attomaton.probe.snapping import Snap
from attomaton.report.figures.canvas import Figure, drawn, new_figure
from attomaton.report.figures.colours import BLUE, CURVES, MARKERS, VERMILION
from attomaton.report.text.probe import KINDS
from attomaton.report.text.snap import TITLE


@drawn
def snap_figure(found: Snap) -> Figure:
    """Left: one curve for each head, in the colour of its layer, a mark where it froze; right: agreement."""
    figure = new_figure(TITLE, 9.2, 3.4)
    left, right = figure.subplots(1, 2)
    steps = [x.step for x in found.marks]
    for course in found.courses:
        colour, sign = (CURVES[course.layer % len(CURVES)], MARKERS[course.layer % len(MARKERS)])
        values = [x.entropy[course.layer][course.head] for x in found.marks]
        name = f"layer {course.layer}" if course.head == 0 else None
        left.plot(steps, values, color=colour, lw=1.2, label=name)
        if course.frozen_at is not None:
            frozen = values[steps.index(course.frozen_at)]
            left.plot([course.frozen_at], [frozen], sign, color=colour, ms=6)
    left.set(title="entropy / log keys; marks: frozen", xlabel="step", ylim=(0, 1.05))
    left.legend()
    for name, colour, line in (("real", BLUE, "-"), ("minimal", VERMILION, "--")):
        shares = [getattr(x, name) for x in found.marks]
        at = [step for step, x in zip(steps, shares, strict=True) if x is not None]
        value, low, high = (
            [getattr(x, end) for x in shares if x is not None] for end in ("value", "low", "high")
        )
        right.plot(at, value, line, color=colour, label=KINDS[name])
        right.fill_between(at, low, high, color=colour, alpha=0.15, lw=0)
    right.axhline(0.5, color="black", lw=0.8, ls=":")
    right.set(title="orders as in the corpus", xlabel="step", ylim=(0.3, 1.02))
    right.legend()
    return figure
