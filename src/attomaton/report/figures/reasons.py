"""The picture of a predictor's answer: each share in the log-odds of the first token against the second, as a bar."""

from textwrap import fill

from attomaton.errors import cut
from attomaton.predictor.reasons import Reasons
from attomaton.report.figures.canvas import Figure, drawn, mention, new_figure, put_text
from attomaton.report.figures.colours import BLUE, GREY, VERMILION
from attomaton.report.text.reasons import REST, SLIGHT, Why, whys
from attomaton.report.words import number, signed

WORDS, LETTERS = 200, 66  # letters of a reason, and of each of its lines


@drawn
def reasons_figure(r: Reasons) -> Figure:
    """Bars to the right speak for the prediction, to the left for the next best; their sum is the log-odds."""
    c = r.against
    title = f"after {mention(r.context[-1])}: {mention(r.prediction)} with p = {number(r.p)}"
    if c is not None:
        title += f", ahead of {mention(c.runner_up)}"
    shown = bars(r)
    size = 12 if len(title) < 70 else 9
    figure = new_figure(title, 9.6, 1.9 + 0.46 * len(shown), size)
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.25], sharey=True)
    widest = max((abs(w.share) for w in shown), default=1.0) or 1.0
    for y, w in enumerate(shown):
        colour = GREY if y == len(shown) - 1 else BLUE if w.share > 0 else VERMILION
        left.barh(y, w.share, 0.62, fc=colour, ec="white")
        side = "left" if w.share >= 0 else "right"
        space = 0.02 if w.share >= 0 else -0.02
        put_text(left, w.share + space * widest, y, signed(w.share), 8, ha=side)
        put_text(right, 0, y, fill(cut(w.words, WORDS), LETTERS), 7.5, ha="left", va="center")
    left.axvline(0, color="black", lw=0.8)
    left.set_yticks(range(len(shown)), [w.term for w in shown])
    left.set(xlim=(-1.35 * widest, 1.35 * widest), ylim=(len(shown) - 0.5, -0.5))
    left.set_xlabel("share in the log-odds")
    left.grid(axis="y", visible=False)
    right.set(xlim=(0, 1))
    right.set_axis_off()
    said = "a token of the context; " if r.inside else "a token outside the context; "
    if r.gate is None:
        said += "without back-off"
    else:
        said += f"the next token is one of the context with probability {number(r.gate)}"
    figure.supxlabel(said, fontsize=8, color=GREY, x=0.01, ha="left")
    return figure


def bars(r: Reasons) -> list[Why]:
    """What is drawn: every share that can be seen, the slight ones together, and the sum of all."""
    told = whys(r)
    shown = [w for w in told if abs(w.share) >= SLIGHT]
    slight = [w for w in told if abs(w.share) < SLIGHT]
    if slight:
        names = ", ".join(w.term for w in slight)
        shown.append(Why(REST, sum(w.share for w in slight), names))
    odds = 0.0 if r.against is None else r.against.log_odds
    return [*shown, Why("log-odds", odds, "the sum of all shares")]
