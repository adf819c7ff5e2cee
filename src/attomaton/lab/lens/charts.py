"""The pictures of a summary: hard and soft in shares, levels, the label's probability, TF-IDF against attention."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from attomaton.errors import cut
from attomaton.lab.kit.charts import Chart
from attomaton.report.graphs import readable
from attomaton.summaries.records import (
    DocumentPoint,
    DocumentSummary,
    Ending,  # noqa: F401 - of the example below
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

Lens = LastTokenSummary | DocumentSummary
Bars = list[tuple[str, list[tuple[str, float]]]]  # a row, and the share of each kind in it


def share_bars(record: Summary) -> Bars:
    """Rows of shares: what last tokens are, and how windows are decided.

    >>> from types import SimpleNamespace as Some
    >>> decided = Some(outcomes=[Ending("hard", 1.0, 0.5, None)])
    >>> share_bars(Some(subject="document", predictions=decided))
    [('all windows', [('hard', 0.5)])]
    """
    outcomes = record.predictions.outcomes
    what = "samples" if record.subject == "last token" else "windows"
    rows: Bars = [(f"all {what}", [(o.outcome, o.share_of_windows or 0.0) for o in outcomes])]
    held = [
        (o.outcome, o.share_of_realizable) for o in outcomes if o.share_of_realizable is not None
    ]
    if held and record.subject != "last token":  # the samples of a last token all hold their label
        rows.append(("label in context", held))
    if isinstance(record, ModelSummary):
        kinds = record.last_token_kinds
        rows.append(("last tokens", [(k.kind, k.share) for k in kinds]))
        rows.append(("their samples", [(k.kind, k.weight_share) for k in kinds]))
    return rows


def draw_shares(record: Summary) -> Chart:
    """Hard and soft, in shares."""
    bars = share_bars(record)
    kinds = [
        k for k in COLOURS if any(k == name and share for _, parts in bars for name, share in parts)
    ]
    series = [
        {
            "type": "bar", "stack": "all", "name": kind, "barWidth": "62%",
            "itemStyle": {"color": COLOURS[kind], "borderColor": "$paper", "borderWidth": 1},
            "label": {"color": "$ink" if kind == "absent" else "#000000", "formatter": "{a} {c}%", "fontSize": 11,
                      "backgroundColor": "transparent" if kind == "absent" else "rgba(255,255,255,.85)",
                      "padding": [2, 4], "borderRadius": 3},
            "data": [
                {"value": (share := round(100 * dict(parts).get(kind, 0.0), 1)), "label": {"show": share > 100 * WIDE}}
                for _, parts in bars
            ],
        }
        for kind in kinds
    ]  # fmt: skip
    options = {
        "grid": {"left": 8, "right": 16, "top": 34, "bottom": 8, "containLabel": True},
        "legend": {"top": 0, "data": kinds},
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}},
        "xAxis": {"type": "value", "max": 100, "axisLabel": {"formatter": "{value}%"}},
        "yAxis": {"type": "category", "data": [row for row, _ in bars], "inverse": True},
        "series": series,
    }
    rows = [[row, kind, share] for row, parts in bars for kind, share in parts]
    note = "Hard: retrieval leaves the label alone. Soft: with others tied to it, mixed."
    if "mixed" in kinds:
        note += " A last token is hard where no tokens are tied, soft where all are."
    return Chart("How much is hard, how much soft", options, ["of", "kind", "share"], rows,
                 name="hard-and-soft", height=f"{5 + 2.6 * len(bars):g}rem", note=note)  # fmt: skip


def draw_levels(record: Summary) -> Chart:
    """How many tokens (or windows) each level of priority has; there is one level at least."""
    key = "windows" if record.subject == "document" else "tokens"
    levels = record.levels
    names = ["unseen" if row.level is None else str(row.level) for row in levels]
    shown = min(len(levels), LEVELS)
    sizes = [getattr(row, key) for row in levels[:shown]]
    axis: dict[str, Any] = {"type": "value", "name": key, "minInterval": 1}
    if max(sizes) > WIDE_RANGE * max(min(sizes), 1):
        # From below 1, so that a single token has a bar.
        axis = {"type": "log", "min": 0.5, "startValue": 0.5, "name": f"{key} (log scale)",
                "axisLabel": {"showMinLabel": False}}  # fmt: skip
    options = {
        "grid": {"left": 8, "right": 56, "top": 26, "bottom": 24, "containLabel": True},
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}},
        "xAxis": {**axis, "nameLocation": "middle", "nameGap": 24},
        "yAxis": {"type": "category", "data": names[:shown], "inverse": True, "name": "level",
                  "nameLocation": "start"},
        "series": [{
            "type": "bar", "name": key, "barMaxWidth": 26, "itemStyle": {"color": "$green"},
            "label": {"show": True, "position": "right", "color": "$ink"},
            "data": [size or None for size in sizes],
        }],
    }  # fmt: skip
    numbers = [
        k for k, v in vars(levels[0]).items() if k != "level" and isinstance(v, (int, float))
    ]
    rows = [
        [name, *(getattr(row, k) for k in numbers)] for name, row in zip(names, levels, strict=True)
    ]
    more = f"The first {shown} of {len(levels)} levels. " if shown < len(levels) else ""
    said = (
        "The level of what is retrieved, in the graph of each window's last token."
        if key == "windows"
        else "Level 0 holds what nothing outranks."
    )
    return Chart("Levels of priority", options, ["level", *(k.replace("_", " ") for k in numbers)], rows,
                 name="levels", height=f"{6 + 1.9 * max(shown, 2):g}rem", note=more + said)  # fmt: skip


def draw_probability(record: Summary) -> Chart:
    """The probability of the label, where it is in the context."""
    p = record.predictions
    bins = p.label_probability.bins
    hard = next(o for o in p.outcomes if o.outcome == "hard").share_of_realizable or 0.0
    names = [f"{b.from_:.1f}–{b.to:.1f}" for b in bins] + ["exactly 1"]
    soft = [b.soft or 0.0 for b in bins]
    options = {
        "grid": {"left": 8, "right": 16, "top": 34, "bottom": 24, "containLabel": True},
        "legend": {"top": 0},
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}},
        "xAxis": {"type": "category", "data": names, "name": "probability of the label", "nameLocation": "middle",
                  "nameGap": 26},
        "yAxis": {"type": "value", "name": "% of windows", "axisLabel": {"formatter": "{value}%"}},
        "series": [
            {"type": "bar", "stack": "p", "name": "soft", "itemStyle": {"color": "$orange"},
             "data": [round(100 * x, 3) for x in soft] + [None]},
            {"type": "bar", "stack": "p", "name": "hard", "itemStyle": {"color": "$blue"},
             "data": [None] * len(soft) + [round(100 * hard, 3)]},
        ],
    }  # fmt: skip
    rows = [[name, share] for name, share in zip(names, [*soft, hard], strict=True)]
    return Chart("The label's probability in the limit", options, ["probability", "share"], rows,
                 name="label-probability", height="17rem",
                 note="Shares of the windows that hold their label.")  # fmt: skip


def named_points(record: Lens) -> set[Any]:
    """The tokens a picture names: the first of either order, and the widest disagreements."""
    points: Sequence[LastTokenPoint | DocumentPoint] = record.points
    apart = record.disagreement
    named = [sorted(points, key=attrgetter(k))[:NAMED] for k in ("tfidf_place", "priority_place")]
    named += [[*apart.text_over_attention[:NAMED]], [*apart.attention_over_text[:NAMED]]]
    return {p.token for some in named for p in some}


def draw_ranks(record: Lens, choose: Callable[[Any], object]) -> Chart:
    """Every token by its place in two orders: TF-IDF, and what attention learned; `choose` is told a chosen token."""
    points = record.points
    named, text = named_points(record), readable([p.token for p in points])
    kinds: list[tuple[str, str, str, Sequence[LastTokenPoint | DocumentPoint]]] = [
        ("common", "rect", "$vermilion", [p for p in points if not p.distinct]),
        ("distinct", "circle", "$blue", [p for p in points if p.distinct]),
    ]
    most = max((max(p.tfidf_place, p.priority_place) for p in points), default=1)
    series: list[dict[str, Any]] = [
        {
            "type": "scatter", "name": name, "symbol": symbol, "symbolSize": 8,
            "dimensions": ["place by TF-IDF", "place by attention", "TF-IDF", "score"],
            "encode": {"x": 0, "y": 1, "tooltip": [0, 1, 2, 3]},
            "itemStyle": {"color": colour, "opacity": 0.7}, "labelLayout": {"hideOverlap": True},
            "label": {"formatter": "{b}", "position": "top", "color": "$ink", "textBorderColor": "$paper",
                      "textBorderWidth": 2, "fontSize": 11},
            "data": [
                {"name": cut(text[p.token], 24), "label": {"show": p.token in named},
                 "value": [p.tfidf_place, p.priority_place, p.tfidf, p.svm_score]}
                for p in part
            ],
        }
        for name, symbol, colour, part in kinds
    ]  # fmt: skip
    series.append(
        {"type": "line", "name": "same place", "data": [[1, 1], [most, most]], "symbol": "none", "silent": True,
         "tooltip": {"show": False}, "lineStyle": {"type": "dashed", "color": "$soft", "width": 1},
         "itemStyle": {"color": "$soft"}}
    )  # fmt: skip
    axis = {
        "type": "log",
        "inverse": True,
        "min": 1,
        "max": 1.2 * most,
        "nameLocation": "middle",
        "splitLine": {"show": False},
    }
    options = {
        "grid": {"left": 40, "right": 48, "top": 52, "bottom": 26, "containLabel": True},
        "legend": {"top": 0},
        "tooltip": {"trigger": "item"},
        "xAxis": {**axis, "name": "place by TF-IDF (1 is first)", "nameGap": 26},
        "yAxis": {
            **axis,
            "name": "place by attention (1 is first)",
            "nameGap": 28,
            "position": "left",
        },
        "series": series,
    }

    def chosen(e: dict[str, Any]) -> None:
        which, at = e.get("seriesIndex"), e.get("dataIndex")
        if which in (0, 1) and isinstance(at, int) and 0 <= at < len(kinds[which][3]):
            choose(kinds[which][3][at].token)

    header = ["token", "place by TF-IDF", "place by attention", "TF-IDF", "score", "level", "kind"]
    rows = [
        [text[p.token], p.tfidf_place, p.priority_place, p.tfidf, p.svm_score,
         "" if p.level is None else p.level, "distinct" if p.distinct else "common"]
        for p in points
    ]  # fmt: skip
    note = (
        f"Rank correlation {record.disagreement.rank_correlation:+.2f}. Above the dashed line attention "
        "prefers a token more than TF-IDF does, below it less. Distinct tokens were seen with one label only. "
        "Click a point to put its token under the lens."
    )
    return Chart("TF-IDF against attention", options, header, rows, name="ranks", height="26rem", note=note,
                 on_click=chosen)  # fmt: skip
