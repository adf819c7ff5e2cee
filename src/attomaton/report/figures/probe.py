"""The picture of a probe: heads as maps of layer × head, and agreement with its controls."""

from typing import Any

import numpy as np

from attomaton.probe.records import Probe
from attomaton.report.figures.canvas import Figure, drawn, new_figure, put_text
from attomaton.report.figures.colours import BLUE, GREY
from attomaton.report.text.probe import KINDS, TITLE

MAPS = (
    ("entropy", "entropy / log keys"),
    ("largest", "mass on the largest key"),
    ("previous", "previous token"),
    ("induction", "induction"),
    ("retrieved", "on retrieved tokens"),
)
BARS = (
    ("agreement", "the model"),
    ("other_last", "another last token"),
    ("shuffled", "shuffled labels"),
    ("untrained", "untrained copy"),
    ("bigrams", "bigram counts"),
)
NUMBERED = 64  # heads up to which every cell says its number


@drawn
def probe_figure(found: Probe) -> Figure:
    """One map for each measure of heads; beside them, where orders were asked about, agreement and controls."""
    maps = [
        (name, title)
        for name, title in MAPS
        if any(getattr(x, name) is not None for x in found.heads)
    ]
    panels = len(maps) + bool(found.behaviour)
    columns = min(3, max(panels, 1))
    rows = -(-panels // columns)
    figure = new_figure(TITLE, 3.7 * columns, 2.9 * rows)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax in axes[panels:]:
        ax.set_visible(False)
    if found.behaviour:
        _bars(axes[0], found)
    for ax, (name, title) in zip(axes[bool(found.behaviour) :], maps, strict=False):
        _map(figure, ax, found, name, title)
    return figure


def _bars(axes: Any, found: Probe) -> None:
    one = found.behaviour[0]
    shares = [(words, x) for name, words in BARS if (x := getattr(one, name)) is not None]
    for y, (_, x) in enumerate(shares):
        axes.barh(y, x.value, 0.6, fc=BLUE if y == 0 else GREY, ec="white")
        axes.plot([x.low, x.high], [y, y], color="black", lw=1.2)
        put_text(axes, 0.02, y, f"{x.value:.3f}", 8, ha="left", color="white")
    axes.axvline(0.5, color="black", lw=0.8, ls=":")
    axes.set(
        title=f"orders as in the corpus, {KINDS[one.contexts]}",
        xlim=(0, 1),
        ylim=(len(shares) - 0.5, -0.5),
    )
    axes.set_yticks(range(len(shares)), [words for words, _ in shares])
    axes.grid(axis="y", visible=False)


def _map(figure: Figure, axes: Any, found: Probe, name: str, title: str) -> None:
    layers, heads = max(x.layer for x in found.heads) + 1, max(x.head for x in found.heads) + 1
    value = np.full((layers, heads), np.nan)
    for x in found.heads:
        measure = getattr(x, name)
        value[x.layer, x.head] = np.nan if measure is None else measure.value
    image = axes.imshow(value, vmin=0, vmax=1, cmap="cividis", aspect="auto")
    even = getattr(found.even, name, None)
    chance = "" if even is None else f" (even {even.value:.2f})"
    axes.set(title=title + chance, xlabel="head", ylabel="layer")
    step = -(-max(layers, heads) // 12)
    axes.set_xticks(range(0, heads, step))
    axes.set_yticks(range(0, layers, step))
    axes.grid(visible=False)
    if value.size <= NUMBERED:
        for (layer, head), x in np.ndenumerate(value):
            if np.isfinite(x):
                put_text(axes, head, layer, f"{x:.2f}", 7, color="white" if x < 0.6 else "black")
    figure.colorbar(image, ax=axes, shrink=0.85)
