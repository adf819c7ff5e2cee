"""The automaton's charts: the next token at one norm of W, and at all norms from W_fin to the limit."""

import math
from collections.abc import Sequence
from typing import Any

from attomaton.corpus.vocabulary import Label
from attomaton.lab.kit.contexts import visible
from attomaton.mechanics.theory.automaton import Automaton, Explanation, Fate

FARTHEST = (
    8.0  # the largest finite norm on the slider, in multiples of ‖W_svm‖; as `explain` has it
)
NOTCHES = 80  # of the slider between 0 and there
LIMIT_AT = 9.0  # where the axis has its ∞
BARS = 30
CURVES = 10


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


Drawn = tuple[dict[str, Any], list[str], list[list[Any]], str]  # options, header, rows, note


def _shared(explained: Explanation) -> list[Fate]:
    """The tokens that have a share: none outside the vocabulary, none at all where there is no answer."""
    return [f for f in explained.fates if f.probability is not None]


def bars(explained: Explanation, p: dict[Label, float]) -> Drawn:
    """The distribution of the next token as bars, the likeliest in the limit on top."""
    shown = _shared(explained)[:BARS]
    options = {
        "grid": {"left": 8, "right": 56, "top": 6, "bottom": 24, "containLabel": True},
        "animation": False,
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}},
        "xAxis": {"type": "value", "min": 0, "max": 1},
        "yAxis": {
            "type": "category", "inverse": True, "data": [visible(f.token) for f in shown],
            "axisLabel": {"width": 110, "overflow": "truncate", "interval": 0, "color": "$ink"},
            "axisTick": {"show": False},
        },
        "series": bar_series(explained, p),
    }  # fmt: skip
    more = len(_shared(explained)) - len(shown)
    note = f"{more:,} more tokens are in the table and the CSV file." if more else ""
    rows = [[visible(f.token), p[f.token], f.probability] for f in _shared(explained)]
    return options, ["token", "p", "p in the limit"], rows, note


def bar_series(explained: Explanation, p: dict[Label, float]) -> list[dict[str, Any]]:
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
    return [
        {"id": "p", "name": "p", "type": "bar", "barMaxWidth": 22, "data": data, "label": label}
    ]


def curves(
    automaton: Automaton, context: Sequence[Label], explained: Explanation, radius: float
) -> Drawn:
    """Each token's probability against the norm of W, the limit at the right end, a line at this norm."""
    norm = automaton.limit.svm.norm
    radii = [radius_of(i, norm) for i in range(NOTCHES + 2)]
    p = [automaton.predict_proba(context, r) for r in radii]
    places = [place_of(r, norm) for r in radii]
    fates = _shared(explained)
    ranked = sorted(fates, key=lambda f: -max(row[f.token] for row in p))
    shown = [f.token for f in fates if f in ranked[:CURVES]]
    series: list[dict[str, Any]] = []
    for i, word in enumerate(shown):
        colour = ("$blue", "$vermilion", "$green", "$purple", "$orange", "$sky", "$soft")[i % 7]
        line = [[x, row[word]] for x, row in zip(places[:-1], p[:-1], strict=True)]
        same = {"name": visible(word), "color": colour}
        style = {"width": 2, "type": ("solid", "dashed", "dotted")[i // 7 % 3]}
        series.append(
            {**same, "type": "line", "showSymbol": False, "lineStyle": style, "data": line}
        )
        end = [[LIMIT_AT, p[-1][word]]]
        series.append({**same, "type": "scatter", "symbolSize": 9, "clip": False, "data": end})
    options = {
        "grid": {"left": 8, "right": 20, "top": 46, "bottom": 26, "containLabel": True},
        "animation": False,
        "legend": {"type": "scroll", "top": 0, "data": [visible(w) for w in shown]},
        "tooltip": {"trigger": "axis"},
        "xAxis": {
            "type": "value", "min": 0, "max": LIMIT_AT, "interval": 1, "nameLocation": "middle",
            "name": "‖W‖ / ‖W_svm‖, ∞ at the right end" if norm > 0 else "‖W‖, ∞ at the right end",
            "nameGap": 26, "axisLabel": {"showMaxLabel": False}, "splitLine": {"show": False},
        },
        "yAxis": {"type": "value", "min": 0, "max": 1, "name": "p"},
        "series": [*series, _infinity(), marker(radius, norm)],
    }  # fmt: skip
    rows = [[r, *(row[w] for w in shown)] for r, row in zip(radii, p, strict=True)]
    more = len(fates) - len(shown)
    note = f"{more:,} lower curves are not drawn." if more else ""
    return options, ["‖W‖", *map(visible, shown)], rows, note


def _infinity() -> dict[str, Any]:
    """The name of the axis's right end."""
    label = {"show": True, "position": "bottom", "formatter": "∞", "color": "$soft", "fontSize": 16}
    return {
        "type": "scatter", "data": [[LIMIT_AT, 0]], "symbolSize": 1, "clip": False, "silent": True, "label": label,
        "tooltip": {"show": False},
    }  # fmt: skip


def marker(radius: float, norm: float) -> dict[str, Any]:
    """The line at the norm the slider stands at."""
    x = place_of(radius, norm)
    style = {"color": "$ink", "type": "dashed", "width": 1.5}
    return {
        "id": "at", "type": "line", "data": [[x, 0], [x, 1]], "lineStyle": style, "showSymbol": False,
        "silent": True, "tooltip": {"show": False}, "z": 1,
    }  # fmt: skip
