"""Pictures of what was learned: shares and levels of a model; levels, and TF-IDF against priority, of a lens."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attomaton.errors import cut
from attomaton.report.figures.canvas import SVM, Figure, drawn, mention, new_figure, put_text
from attomaton.report.figures.colours import BLACK, BLUE, GREEN, GREY, ORANGE, SKY, VERMILION
from attomaton.report.graphs import readable
from attomaton.report.text.summary import mention_title
from attomaton.report.words import percent
from attomaton.summaries.records import (
    DecidedOn,
    DocumentPoint,
    DocumentSummary,
    LastTokenPoint,
    LastTokenSummary,
    Level,
    ModelSummary,
    Predictions,
    Summary,
)

# Each outcome and kind by colour and hatch, so that either alone tells them apart.
_LOOK = {
    "hard": (BLUE, ""),
    "soft": (ORANGE, "////"),
    "mixed": (SKY, ".."),
    "lost": (VERMILION, "xx"),
    "absent": ("#DDDDDD", ""),
}
LABELLED = 12  # tokens named in a scatter plot
LEVELS = 12  # levels drawn


@drawn
def summary_figure(record: Summary) -> Figure:
    """The picture of a record of `summaries`, whatever it is about."""
    if isinstance(record, ModelSummary):
        title = "hard and soft, by last tokens and by windows"
        figure = new_figure(title, 9.2, 5.4)
        axes = figure.subplots(2, 2)
        kinds, outcomes = record.last_token_kinds, record.predictions.outcomes
        shares = {
            "last tokens": [(row.kind, row.share) for row in kinds],
            "samples": [(row.kind, row.weight_share) for row in kinds],
        }
        names = [row.kind for row in kinds]
        _draw_shares(axes[0, 0], "what a last token's graph is", shares, names)
        held = ((row.outcome, row.share_of_realizable) for row in outcomes)
        shares = {
            "all": [(row.outcome, row.share_of_windows or 0.0) for row in outcomes],
            "label in\nthe context": [(name, share) for name, share in held if share is not None],
        }
        names = [row.outcome for row in outcomes if row.weight or row.outcome != "lost"]
        _draw_shares(axes[0, 1], "how windows are decided", shares, names)
        _draw_probability(axes[1, 0], record.predictions)
        _draw_levels(axes[1, 1], record.levels, "tokens")
    else:
        if isinstance(record, LastTokenSummary):
            name, counted = f"after {mention(record.last)}", "tokens"
        else:
            name, counted = mention_title(cut(record.title, 50)), "windows"
        title = f"{name}: what attention learned"
        figure = new_figure(title, 9.2, 4.6)
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.8])
        _draw_levels(left, record.levels, counted)
        _draw_scatter(right, record)
    return figure


def _draw_shares(
    axes: Any, title: str, bars: Mapping[str, Iterable[tuple[str, float]]], key: Sequence[str]
) -> None:
    """A bar of shares for each name, every share written inside where there is room."""
    from matplotlib.patches import Patch

    axes.set_title(title)
    for y, parts in enumerate(bars.values()):
        left = 0.0
        for name, share in parts:
            colour, hatch = _LOOK[name]
            axes.barh(y, share, left=left, height=0.6, fc=colour, hatch=hatch, ec="white", lw=0.8,
                      gid=f"share-{name}-{y}")  # fmt: skip
            if share > 0.09:
                put_text(axes, left + share / 2, y, percent(share), 8,
                         bbox={"fc": "white", "ec": "none", "pad": 1.2, "alpha": 0.92})  # fmt: skip
            left += share
    axes.set(xlim=(0, 1), ylim=(len(bars) - 0.5, -0.5))
    axes.set_yticks(range(len(bars)), list(bars))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
    axes.grid(axis="y", visible=False)
    patches = [Patch(fc=_LOOK[n][0], hatch=_LOOK[n][1], ec="white", label=n) for n in key]
    axes.legend(handles=patches, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4,
                handlelength=1.6, columnspacing=1.2)  # fmt: skip


def _draw_probability(axes: Any, predictions: Predictions) -> None:
    axes.set_title("the label's probability in the limit")
    bins = predictions.label_probability.bins
    hard = next(r for r in predictions.outcomes if r.outcome == "hard").share_of_realizable
    x = [(b.from_ + b.to) / 2 for b in bins]
    soft = [b.soft or 0.0 for b in bins]
    width = 0.9 / len(bins)
    colour, hatch = _LOOK["soft"]
    axes.bar(x, soft, width, fc=colour, hatch=hatch, ec="white", label="soft")
    axes.bar(1 + 0.5 / len(bins), hard or 0.0, width, fc=_LOOK["hard"][0], label="hard: exactly 1")
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    axes.set(xlabel="probability of the label", ylabel="share of samples", xlim=(0, 1.12))
    axes.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f}%")
    axes.grid(axis="x", visible=False)
    axes.legend(loc="upper left")


def _draw_levels(axes: Any, levels: Sequence[Level] | Sequence[DecidedOn], key: str) -> None:
    axes.set_title("levels of priority")
    shown = levels[:LEVELS]
    sizes = [getattr(row, key) for row in shown]
    for y, size in enumerate(sizes):
        axes.barh(y, max(size, 0.6), height=0.62, fc=GREEN, gid=f"level-{y}")
        axes.text(max(size, 0.6) * 1.12, y, f"{size:,}", va="center", fontsize=8)
    most = max(sizes, default=1)
    axes.set(xscale="log", xlim=(0.5, max(most, 2) ** 1.25 * 1.5), xlabel=f"{key} (log scale)",
             ylim=(max(len(shown), 6) - 0.4, -0.6))  # fmt: skip
    names = ["unseen" if row.level is None else str(row.level) for row in shown]
    axes.set_yticks(range(len(shown)), names)
    axes.set_ylabel("level" if len(shown) == len(levels) else f"level (first {LEVELS} shown)")
    axes.grid(axis="y", visible=False)


def _draw_scatter(axes: Any, record: LastTokenSummary | DocumentSummary) -> None:
    """Every token by its TF-IDF and its score; those on which the two disagree most are named."""
    axes.set_title("TF-IDF against attention")
    points: Sequence[LastTokenPoint | DocumentPoint] = record.points
    for kind, colour, marker in ((False, VERMILION, "s"), (True, BLUE, "o")):
        if part := [p for p in points if p.distinct is kind]:
            axes.plot([p.tfidf for p in part], [p.svm_score for p in part], marker,
                      color=colour, ms=4, alpha=0.55, mew=0, label="distinct" if kind else "common",
                      gid=f"points-{'distinct' if kind else 'common'}")  # fmt: skip
    apart = record.disagreement
    half = LABELLED // 2
    first = sorted(points, key=lambda p: p.priority_place)[: half // 2]
    chosen = {p.token: p for p in [*first, *sorted(points, key=lambda p: -p.tfidf)[:half]]}
    ends: Sequence[LastTokenPoint | DocumentPoint]
    for ends in (apart.attention_over_text, apart.text_over_attention):
        chosen |= {p.token: p for p in ends[:half]}
    axes.margins(x=0.12, y=0.12)
    least = min((p.tfidf for p in points if p.tfidf > 0), default=1.0)
    axes.set_xscale("symlog", linthresh=least, linscale=0.25)  # 0 has a place of its own
    most = 2 * max([p.tfidf for p in points] + [least])
    decades = [10.0**e for e in range(-8, 1) if least <= 10.0**e <= most]
    axes.set_xticks([0, *decades], ["0", *(f"{x:g}" for x in decades)])
    axes.set_xlim(-least / 2, most)
    axes.axvline(least / 2, color=GREY, lw=0.8, ls=":")
    _name_points(axes, list(chosen.values()))
    axes.set(xlabel="TF-IDF (log scale; 0 where a token is in too many documents)",
             ylabel=f"score by attention ({SVM})")  # fmt: skip
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)


def _name_points(axes: Any, points: Sequence[LastTokenPoint | DocumentPoint]) -> None:
    """Names beside points; of names that would lie on each other only the first is written."""
    names = readable([p.token for p in points])
    place = axes.transData.transform([(p.tfidf, p.svm_score) for p in points] or [(0, 0)])
    wide, high = axes.bbox.width, axes.bbox.height
    taken: list[tuple[float, float]] = []
    for p, (x, y) in zip(points, place, strict=False):
        if any(abs(x - a) < 0.17 * wide and abs(y - b) < 0.05 * high for a, b in taken):
            continue
        taken.append((x, y))
        axes.annotate(cut(names[p.token], 18), (p.tfidf, p.svm_score), (4, 3),
                      textcoords="offset points", fontsize=8, color=BLACK, parse_math=False)  # fmt: skip
