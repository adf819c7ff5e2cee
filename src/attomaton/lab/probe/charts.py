"""What a probe and a snap are drawn as: agreement as bars, heads as a map of layer × head, measures over training."""

from collections.abc import Sequence

from attomaton.lab.kit.charts import (
    COLOURS,
    ROW,
    Axis,
    Legend,
    Margins,
    Mark,
    Picture,
    Series,
    Shades,
    Square,
    names_down,
)
from attomaton.probe.records import Head, Probe, Share
from attomaton.probe.snapping import Snap
from attomaton.report.text.probe import KINDS

NUMBERED = 200  # heads up to which every square says its number
MEASURES = {
    "entropy": "entropy over log keys",
    "largest": "mass on the largest key",
    "retrieved": "mass on what the automaton retrieves",
    "hits": "largest key is retrieved",
    "previous": "mass on the token before",
    "first": "mass on the first token",
    "same": "mass on earlier same tokens",
    "induction": "induction",
}
BARS = {
    "agreement": "the model",
    "other_last": "other last token",
    "shuffled": "shuffled labels",
    "untrained": "untrained",
    "bigrams": "bigram counts",
}


def value_of(head: Head, measure: str) -> float | None:
    """One measure of a head, where there is one."""
    found = getattr(head, measure)
    return None if found is None else found.value


def measures_of(found: Probe) -> dict[str, str]:
    """The measures that were taken."""
    return {
        k: v for k, v in MEASURES.items() if any(value_of(x, k) is not None for x in found.heads)
    }


def agreement(found: Probe) -> Picture:
    """Shares of strict orders with controls, one colour for each kind of contexts."""
    names = list(BARS.values())
    shares = {x.contexts: [getattr(x, field) for field in BARS] for x in found.behaviour}
    series = [
        Series("bar", [None if x is None else x.value for x in row], KINDS[kind], colour)
        for (kind, row), colour in zip(shares.items(), COLOURS, strict=False)
    ]
    rows = [
        [name, KINDS[kind], *_numbers(row[i])]
        for i, name in enumerate(names)
        for kind, row in shares.items()
        if row[i] is not None
    ]
    return Picture(
        Axis("share of strict orders as in the corpus", low=0, high=1), names_down(names), series,
        ["", "contexts", "share", "low", "high", "orders", "last tokens"], rows,
        "Intervals of 95 % are in the table. A third retrieved: training never had to order the two.",
        margins=Margins(8, 24, 34, 40, labels=True), hover=ROW, legend=Legend(),
    )  # fmt: skip


def _numbers(x: Share | None) -> list[object]:
    return [] if x is None else [x.value, x.low, x.high, x.cases, x.clusters]


def head_map(
    values: Sequence[Sequence[float | None]], name: str, chosen: tuple[int, int] | None = None
) -> Picture:
    """Layers down, heads across, coloured from 0 to 1; the chosen head is framed."""
    layers, heads = len(values), max((len(row) for row in values), default=0)
    places = [(i, h) for i, row in enumerate(values) for h, x in enumerate(row) if x is not None]
    places.sort(key=lambda place: place == chosen)  # its neighbours do not cover its frame
    squares = []
    for i, h in places:
        x = float(values[i][h] or 0.0)
        label = f"{x:.2f}" if len(places) <= NUMBERED else ""
        ink = "#1b1f24" if x > 0.5 else "#ffffff"
        squares.append(
            Square([h, i, x], f"head {i}.{h}: {x:.3f}", label, ink, framed=(i, h) == chosen)
        )
    plain = {"splitArea": {"show": False}}
    return Picture(
        Axis("head", names=[str(h) for h in range(heads)], gap=26, more=plain),
        Axis("layer", names=[str(i) for i in range(layers)], gap=None, more=plain | {"inverse": True}),
        [Series("heatmap", squares)],
        ["layer", "head", name], [[i, h, values[i][h]] for i, h in sorted(places)], "",
        margins=Margins(16, 16, 30, 84, labels=True), shades=Shades(0, 1, ["1", "0"], more={"precision": 2}),
        hover={"formatter": "{b}"}, more={"animation": False},
    )  # fmt: skip


def heads_as(found: Probe, measure: str) -> list[list[float | None]]:
    """One measure of every head, by layer."""
    layers = max((x.layer for x in found.heads), default=-1) + 1
    return [[value_of(x, measure) for x in found.heads if x.layer == i] for i in range(layers)]


def entropy_course(found: Snap, step: int) -> Picture:
    """Entropy of every head over training, in the colour of its layer; a line at the step that is shown."""
    series = [
        Series(
            "line",
            [[m.step, m.entropy[x.layer][x.head]] for m in found.marks],
            f"layer {x.layer}",
            COLOURS[x.layer % len(COLOURS)],
            width=1.5,
            marks=_here(step) if i == 0 else (),
            more={"symbol": "none"},
        )
        for i, x in enumerate(found.courses)
    ]
    rows = [
        [m.step, x.layer, x.head, m.entropy[x.layer][x.head], m.largest[x.layer][x.head]]
        for m in found.marks
        for x in found.courses
    ]
    return Picture(
        Axis("step"), Axis("", low=0, high=1), series, ["step", "layer", "head", "entropy", "largest"], rows,
        "0: all on one key; 1: spread evenly.", legend=Legend(), hover={"trigger": "item"},
    )  # fmt: skip


def agreement_course(found: Snap, step: int) -> Picture:
    """Shares of strict orders over training, by kind of contexts."""
    series: list[Series] = []
    rows: list[list[object]] = []
    for (kind, name), colour in zip(KINDS.items(), COLOURS, strict=False):
        there = [(m.step, x) for m in found.marks if (x := getattr(m, kind)) is not None]
        points = [[s, x.value] for s, x in there]
        series.append(Series("line", points, name, colour, marks=() if series else _here(step)))
        rows += [[s, name, *_numbers(x)] for s, x in there]
    return Picture(
        Axis("step"), Axis("", low=0, high=1), series,
        ["step", "contexts", "share", "low", "high", "orders", "last tokens"], rows,
        "Intervals of 95 % are in the table.", legend=Legend(),
    )  # fmt: skip


def _here(step: int) -> tuple[Mark, ...]:
    return (Mark("", x=step),)  # the slider says which step it is
