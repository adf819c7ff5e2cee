"""The automaton's charts: the next token at one norm of W, and at all norms from W_fin to the limit."""

import math
from collections.abc import Sequence

from attomaton.corpus.vocabulary import Label
from attomaton.lab.kit.charts import (
    COLOURS,
    ROW,
    Axis,
    Legend,
    Margins,
    Picture,
    Series,
    names_down,
)
from attomaton.lab.kit.contexts import visible
from attomaton.mechanics.theory.automaton import Automaton, Explanation, Fate

# The largest finite norm on the slider, in multiples of ‖W_svm‖; as `explain` has it.
FARTHEST = 8.0
NOTCHES = 80  # of the slider between 0 and there
LIMIT_AT = 9.0  # where the axis has its ∞
BARS = 14  # that fit beside each other with their names
CURVES = 10
STILL = {"animation": False}
UNSEEN = {"silent": True, "tooltip": {"show": False}}  # by the mouse


def unit(norm: float) -> float:
    """One tick of the slider's axis: ‖W_svm‖, or 1 where nothing is strictly ordered."""
    return norm if norm > 0 else 1.0


def radius_of(notch: int | float, norm: float) -> float:
    """The norm of W at a notch of the slider, to four digits; the last notch is the limit.

    >>> radius_of(0, 2.0), radius_of(10, 2.0), radius_of(81, 2.0)
    (0.0, 2.0, inf)
    """
    if notch > NOTCHES:
        return math.inf
    return float(f"{FARTHEST * unit(norm) * notch / NOTCHES:.4g}")


def notch_of(radius: float, norm: float) -> int:
    """The notch next to a norm of W.

    >>> notch_of(2.0, 2.0), notch_of(math.inf, 2.0), notch_of(1e9, 2.0)
    (10, 81, 80)
    """
    if math.isinf(radius):
        return NOTCHES + 1
    return round(min(radius / unit(norm), FARTHEST) * NOTCHES / FARTHEST)


def place_of(radius: float, norm: float) -> float:
    """Where a norm is on the axis of the curves."""
    return LIMIT_AT if math.isinf(radius) else min(radius / unit(norm), FARTHEST)


def _shared(explained: Explanation) -> list[Fate]:
    """The tokens that have a share: none outside the vocabulary, none at all where there is no answer."""
    return [f for f in explained.fates if f.probability is not None]


def bars(explained: Explanation, p: dict[Label, float]) -> Picture:
    """The distribution of the next token as bars, the likeliest in the limit on top."""
    fates = _shared(explained)
    more = len(fates) - BARS
    return Picture(
        x=Axis(low=0, high=1),
        y=names_down(visible(f.token) for f in fates[:BARS]),
        series=[bar_series(explained, p)],
        header=["token", "p", "p in the limit"],
        rows=[[visible(f.token), p[f.token], f.probability] for f in fates],
        note=f"{more:,} more tokens are in the table and the CSV file." if more > 0 else "",
        margins=Margins(8, 56, 6, 24, labels=True),
        hover=ROW,
        more=STILL,
    )


def bar_series(explained: Explanation, p: dict[Label, float]) -> Series:
    """The bars alone, which is all that changes with the norm of W."""
    data = [
        {
            "value": p[f.token],
            "itemStyle": {"color": "$blue" if f.reason == "retrieved" else "$soft"},
            "label": {"formatter": f"{p[f.token]:.3g}"},
        }
        for f in _shared(explained)[:BARS]
    ]
    label = {"show": True, "position": "right", "color": "$ink"}
    return Series("bar", data, "p", more={"id": "p", "barMaxWidth": 22, "label": label})


def curves(
    automaton: Automaton, context: Sequence[Label], explained: Explanation, radius: float
) -> Picture:
    """Each token's probability against the norm of W, the limit at the right end, a line at this norm."""
    norm = automaton.limit.svm.norm
    radii = [radius_of(i, norm) for i in range(NOTCHES + 2)]
    p = [automaton.predict_proba(context, r) for r in radii]
    places = [place_of(r, norm) for r in radii]
    fates = _shared(explained)
    ranked = sorted(fates, key=lambda f: -max(row[f.token] for row in p))
    shown = [f.token for f in fates if f in ranked[:CURVES]]
    series: list[Series] = []
    for i, word in enumerate(shown):
        name, colour = visible(word), COLOURS[i % len(COLOURS)]
        dash = ("solid", "dashed", "dotted")[i // len(COLOURS) % 3]
        line = [[x, row[word]] for x, row in zip(places[:-1], p[:-1], strict=True)]
        end = [[LIMIT_AT, p[-1][word]]]
        series.append(Series("line", line, name, colour, dash, more={"showSymbol": False}))
        series.append(Series("scatter", end, name, colour, more={"symbolSize": 9, "clip": False}))
    label = {"show": True, "position": "bottom", "formatter": "∞", "color": "$soft", "fontSize": 16}
    unseen = {"symbolSize": 1, "clip": False, "label": label, **UNSEEN}
    series += [Series("scatter", [[LIMIT_AT, 0]], more=unseen), marker(radius, norm)]
    more = len(fates) - len(shown)
    name = "‖W‖ / ‖W_svm‖, ∞ at the right end" if norm > 0 else "‖W‖, ∞ at the right end"
    quiet = {"axisLabel": {"showMaxLabel": False}, "splitLine": {"show": False}}
    return Picture(
        x=Axis(name, low=0, high=LIMIT_AT, more={"interval": 1, **quiet}),
        y=Axis("p", low=0, high=1, gap=None),
        series=series,
        header=["‖W‖", *map(visible, shown)],
        rows=[[r, *(row[w] for w in shown)] for r, row in zip(radii, p, strict=True)],
        note=f"{more:,} lower curves are not drawn." if more else "",
        margins=Margins(8, 20, 46, 26, labels=True),
        legend=Legend([visible(w) for w in shown]),
        more=STILL,
    )


def marker(radius: float, norm: float) -> Series:
    """The line at the norm the slider stands at."""
    x = place_of(radius, norm)
    more = {"id": "at", "showSymbol": False, "z": 1, **UNSEEN}
    return Series("line", [[x, 0], [x, 1]], "", "$ink", "dashed", 1.5, more=more)
