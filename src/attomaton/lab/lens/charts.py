"""The pictures of a summary: hard and soft in shares, levels, the label's probability, TF-IDF against attention."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from attomaton.errors import cut
from attomaton.lab.kit.charts import (
    ONE,
    ROW,
    Axis,
    Chart,
    Legend,
    Margins,
    Picture,
    Point,
    Series,
)
from attomaton.report.graphs import readable
from attomaton.summaries.records import (
    DocumentPoint,
    DocumentSummary,
    LastTokenPoint,
    LastTokenSummary,
    ModelSummary,
    Summary,
)

# Each kind by colour and, inside its bar, by name.
COLOURS = {
    "hard": "$blue",
    "soft": "$orange",
    "mixed": "$sky",
    "lost": "$vermilion",
    "absent": "$line",
}
WIDE = 0.17  # share of a bar from which its name fits inside
LEVELS = 12  # levels drawn
WIDE_RANGE = 50  # the largest bar over the smallest from which a scale is logarithmic
NAMED = 4  # points named from each end of each order
STACK = {"stack": "p"}
PERCENT = {"axisLabel": {"formatter": "{value}%"}}
POINTS = {
    "symbolSize": 8,
    "dimensions": ["place by TF-IDF", "place by attention", "TF-IDF", "score"],
    "encode": {"x": 0, "y": 1, "tooltip": [0, 1, 2, 3]},
    "labelLayout": {"hideOverlap": True},
    "label": {
        "formatter": "{b}",
        "position": "top",
        "color": "$ink",
        "textBorderColor": "$paper",
        "textBorderWidth": 2,
        "fontSize": 11,
    },
}

Lens = LastTokenSummary | DocumentSummary
Bars = dict[str, dict[str, float]]  # by row, the share of each kind in it


def share_bars(record: Summary) -> Bars:
    """Rows of shares: what last tokens are, and how windows are decided.

    >>> from attomaton import example_samples, solve_limit
    >>> from attomaton.summaries import model_summary
    >>> for row, parts in share_bars(model_summary(solve_limit(example_samples()))).items():
    ...     print(row, [f"{kind} {share:.2f}" for kind, share in parts.items() if share])
    all windows ['hard 0.29', 'soft 0.66', 'absent 0.05']
    label in context ['hard 0.31', 'soft 0.69']
    last tokens ['hard 0.33', 'soft 0.33', 'mixed 0.33']
    their samples ['hard 0.28', 'soft 0.31', 'mixed 0.41']
    """
    outcomes = record.predictions.outcomes
    decided = {o.outcome: o.share_of_windows or 0.0 for o in outcomes}
    if record.subject == "last token":  # the samples of a last token all hold their label
        return {"all samples": decided}
    bars = {"all windows": decided}
    held = {o.outcome: p for o in outcomes if (p := o.share_of_realizable) is not None}
    if held:
        bars["label in context"] = held
    if isinstance(record, ModelSummary):
        bars["last tokens"] = {k.kind: k.share for k in record.last_token_kinds}
        bars["their samples"] = {k.kind: k.weight_share for k in record.last_token_kinds}
    return bars


def draw_shares(record: Summary) -> Chart:
    """Hard and soft, in shares."""
    bars = share_bars(record)
    kinds = [k for k in COLOURS if any(parts.get(k) for parts in bars.values())]
    note = "Hard: retrieval leaves the label alone. Soft: with others tied to it, mixed."
    if "mixed" in kinds:
        note += " A last token is hard where no tokens are tied, soft where all are."
    picture = Picture(
        x=Axis(high=100, more=PERCENT),
        y=Axis(names=list(bars), more={"inverse": True}),
        series=[_shares_of(kind, bars) for kind in kinds],
        header=["of", "kind", "share"],
        rows=[[row, kind, share] for row, parts in bars.items() for kind, share in parts.items()],
        note=note,
        margins=Margins(8, 16, 34, 8, labels=True),
        hover=ROW,
        legend=Legend(kinds),
    )
    tall = f"{5 + 2.6 * len(bars):g}rem"
    return Chart("How much is hard, how much soft", picture, name="hard-and-soft", height=tall)


def _shares_of(kind: str, bars: Bars) -> Series:
    """One kind in every bar: its name inside, where there is room, readable on every colour."""
    empty = kind == "absent"
    label = {
        "color": "$ink" if empty else "#000000",
        "formatter": "{a} {c}%",
        "fontSize": 11,
        "backgroundColor": "transparent" if empty else "rgba(255,255,255,.85)",
        "padding": [2, 4],
        "borderRadius": 3,
    }
    style = {"color": COLOURS[kind], "borderColor": "$paper", "borderWidth": 1}
    shares = [round(100 * parts.get(kind, 0.0), 1) for parts in bars.values()]
    data = [{"value": x, "label": {"show": x > 100 * WIDE}} for x in shares]
    more = {"stack": "all", "barWidth": "62%", "itemStyle": style, "label": label}
    return Series("bar", data, kind, more=more)


def draw_levels(record: Summary) -> Chart:
    """How many tokens (or windows) each level of priority has; there is one level at least."""
    key, levels, said = "tokens", record.levels, "Level 0 holds what nothing outranks."
    if record.subject == "document":
        key = "windows"
        said = "The level of what is retrieved, in the graph of each window's last token."
    names = ["unseen" if row.level is None else str(row.level) for row in levels]
    shown = min(len(levels), LEVELS)
    sizes = [getattr(row, key) for row in levels[:shown]]
    wide = max(sizes) > WIDE_RANGE * max(min(sizes), 1)
    axis = Axis(key, gap=24, more={"minInterval": 1})
    if wide:  # from below 1, so that a single token has a bar
        from_below = {"startValue": 0.5, "axisLabel": {"showMinLabel": False}}
        axis = Axis(f"{key} (log scale)", log=True, low=0.5, gap=24, more=from_below)
    label = {"show": True, "position": "right", "color": "$ink"}
    more = {"barMaxWidth": 26, "label": label}
    bars = Series("bar", [n or None for n in sizes], key, "$green", more=more)
    first = vars(levels[0])
    numbers = [k for k, v in first.items() if k != "level" and isinstance(v, float | int)]
    of_row = attrgetter(*numbers)
    rows = [[name, *of_row(row)] for name, row in zip(names, levels, strict=True)]
    few = f"The first {shown} of {len(levels)} levels. " if shown < len(levels) else ""
    down = {"inverse": True, "nameLocation": "start"}
    picture = Picture(
        x=axis,
        y=Axis("level", names=names[:shown], gap=None, more=down),
        series=[bars],
        header=["level", *(k.replace("_", " ") for k in numbers)],
        rows=rows,
        note=few + said,
        margins=Margins(8, 56, 26, 24, labels=True),
        hover=ROW,
    )
    tall = f"{6 + 1.9 * max(shown, 2):g}rem"
    return Chart("Levels of priority", picture, name="levels", height=tall)


def draw_probability(record: Summary) -> Chart:
    """The probability of the label, where it is in the context."""
    p = record.predictions
    bins = p.label_probability.bins
    hard = next(o for o in p.outcomes if o.outcome == "hard").share_of_realizable or 0.0
    names = [f"{b.from_:.1f}–{b.to:.1f}" for b in bins] + ["exactly 1"]
    shares = [*(b.soft or 0.0 for b in bins), hard]
    *soft, alone = [round(100 * x, 3) for x in shares]
    picture = Picture(
        x=Axis("probability of the label", names=names),
        y=Axis("% of windows", gap=None, more=PERCENT),
        series=[
            Series("bar", [*soft, None], "soft", "$orange", more=STACK),
            Series("bar", [*(None for _ in soft), alone], "hard", "$blue", more=STACK),
        ],
        header=["probability", "share"],
        rows=list(zip(names, shares, strict=True)),
        note="Shares of the windows that hold their label.",
        margins=Margins(8, 16, 34, 24, labels=True),
        hover=ROW,
        legend=Legend(),
    )
    title = "The label's probability in the limit"
    return Chart(title, picture, name="label-probability", height="17rem")


def draw_ranks(record: Lens, choose: Callable[[Any], object]) -> Chart:
    """Every token by its place in two orders: TF-IDF, and what attention learned; `choose` is told a chosen token."""
    points: Sequence[LastTokenPoint | DocumentPoint] = record.points
    text, apart = readable([p.token for p in points]), record.disagreement
    # The first of either order, and the widest disagreements.
    named = [sorted(points, key=attrgetter(k))[:NAMED] for k in ("tfidf_place", "priority_place")]
    named += [[*apart.text_over_attention[:NAMED]], [*apart.attention_over_text[:NAMED]]]
    names = {p.token for some in named for p in some}
    kinds: list[tuple[str, str, str, Sequence[LastTokenPoint | DocumentPoint]]] = [
        ("common", "rect", "$vermilion", [p for p in points if not p.distinct]),
        ("distinct", "circle", "$blue", [p for p in points if p.distinct]),
    ]
    most = max((max(p.tfidf_place, p.priority_place) for p in points), default=1)
    series = [
        Series(
            "scatter",
            [
                {"name": cut(text[p.token], 24), "label": {"show": p.token in names},
                 "value": [p.tfidf_place, p.priority_place, p.tfidf, p.svm_score]}
                for p in part
            ],
            name,
            more={**POINTS, "symbol": symbol, "itemStyle": {"color": colour, "opacity": 0.7}},
        )
        for name, symbol, colour, part in kinds
    ]  # fmt: skip
    unseen = {"symbol": "none", "silent": True, "tooltip": {"show": False}}
    same = [[1, 1], [most, most]]
    series.append(Series("line", same, "same place", "$soft", "dashed", 1, more=unseen))
    header = ["token", "place by TF-IDF", "place by attention", "TF-IDF", "score", "level", "kind"]
    rows = [
        [text[p.token], p.tfidf_place, p.priority_place, p.tfidf, p.svm_score,
         "" if p.level is None else p.level, "distinct" if p.distinct else "common"]
        for p in points
    ]  # fmt: skip
    note = (
        f"Rank correlation {apart.rank_correlation:+.2f}. Above the dashed line attention "
        "prefers a token more than TF-IDF does, below it less. Distinct tokens were seen with one label only. "
        "Click a point to put its token under the lens."
    )
    picture = Picture(
        x=_places("place by TF-IDF (1 is first)", most, 26),
        y=_places("place by attention (1 is first)", most, 28, position="left"),
        series=series,
        header=header,
        rows=rows,
        note=note,
        margins=Margins(40, 48, 52, 26, labels=True),
        hover=ONE,
        legend=Legend(),
    )

    def chosen(point: Point) -> None:
        if point.series in (0, 1) and 0 <= point.index < len(kinds[point.series][3]):
            choose(kinds[point.series][3][point.index].token)

    title = "TF-IDF against attention"
    return Chart(title, picture, name="ranks", height="26rem", on_click=chosen)


def _places(name: str, most: float, gap: int, **more: str) -> Axis:
    """An axis of places, the first at its far end."""
    plain = {"inverse": True, "splitLine": {"show": False}, **more}
    return Axis(name, log=True, low=1, high=1.2 * most, gap=gap, more=plain)
