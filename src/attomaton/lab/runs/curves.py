"""One record of several runs of training in one chart, smoothed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attomaton.base.shapes import Float
from attomaton.lab.kit.charts import (
    COLOURS,
    POINTS,
    Axis,
    Legend,
    Margins,
    Picture,
    Series,
    drawable,
    steps_axis,
)
from attomaton.lab.training.runs import TrainingRun
from attomaton.report.words import evenly

RECORDS = {
    "loss_gap": "loss above its floor, L − L*",
    "loss": "loss",
    "cosine_svm": "cosine with W_svm",
    "margin_frobenius": "share of the best margin (Frobenius)",
    "distance_fin": "distance to W_fin",
    "mass_retrieved": "attention on the retrieved component",
    "norm": "norm of W",
}
LOG = ("loss_gap", "distance_fin")
MOST = 14  # runs in one chart


def smoothed(values: Float[np.ndarray, " n"], share: float) -> Float[np.ndarray, " n"]:
    """Exponential smoothing: each value keeps this share of what came before; gaps stay gaps.

    >>> smoothed(np.array([1.0, 2.0, 4.0]), 0.5).round(4).tolist(), smoothed(np.array([1.0, 2.0]), 0.0).tolist()
    ([1.0, 1.6667, 3.0], [1.0, 2.0])
    """
    out, total, weight = np.array(values, float), 0.0, 0.0
    for i, x in enumerate(out):
        if np.isfinite(x):
            # Divided by the weight so far, the beginning is not pulled towards 0.
            total, weight = share * total + (1 - share) * x, share * weight + (1 - share)
            out[i] = total / weight
    return out


def picture(runs: Sequence[TrainingRun], name: str, share: float, linear: bool) -> Picture:
    """The mean over seeds of one record, a line for each run; as it was measured in the background."""
    log, series, rows = name in LOG, [], []
    missing = [run.title for run in runs if name not in run.records]
    for place, run in enumerate(r for r in runs if name in r.records):
        steps, values = run.records["steps"], run.records[name].mean(axis=0)
        colour = COLOURS[place % len(COLOURS)]
        at = [i for i in evenly(len(steps), POINTS) if linear or steps[i] > 0]
        for faint in (True, False) if share else (False,):
            shown = values if faint else smoothed(values, share)
            data = [[int(steps[i]), drawable(shown[i], log)] for i in at]
            more: dict[str, Any] = {
                "symbol": "none" if len(at) > 1 else "circle",
                "emphasis": {"focus": "series"},
            }
            if faint:
                more |= {"silent": True, "tooltip": {"show": False}}
                series.append(Series("line", data, "", colour, width=0.7, more=more))
            else:
                dash = "solid" if place < len(COLOURS) else "dashed"
                series.append(Series("line", data, run.title, colour, dash=dash, more=more))
        rows += [[run.title, int(s), float(v)] for s, v in zip(steps, values, strict=True)]
    return Picture(
        x=steps_axis(linear),
        y=Axis(log=log, more={"scale": True}),
        series=series,
        header=["run", "step", name],
        rows=rows,
        note=f"Not recorded by {', '.join(missing)}." if missing else "",
        margins=Margins(64, 22, 34, 44),
        legend=Legend(names=[one.name for one in series if one.name]),
        hover={"trigger": "axis"},
        more={"animation": False},
    )
