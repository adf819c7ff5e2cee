"""Curves of training beside what theory says of their end: charts from records, of one run or of two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.lab.kit.charts import Chart, thinned
from attomaton.report.figures.training import growth_line

SEEDS = 20  # lines of one run in one chart
COLOURS = ("$blue", "$vermilion", "$green", "$purple", "$orange", "$sky", "$soft")


@dataclass(frozen=True)
class Shown:
    """One run in the charts: its records, its settings, and the end point that theory computed."""

    title: str
    records: Mapping[str, np.ndarray]
    config: Mapping[str, Any]
    theory: Mapping[str, Any]

    @property
    def plain(self) -> bool:
        """Whether the loss is the one whose floor theory gives."""
        return self.config.get("loss", "log") == "log"

    @property
    def rate(self) -> float | None:
        """The growth of the norm with log(step), where theory gives it: gradient descent on the log-loss."""
        usual = self.plain and self.config.get("head", "identity") == "identity"
        usual = usual and self.config.get("optimizer", "gd") == "gd"
        return self.theory.get("svm_norm") or None if usual else None


class Curves:
    """Four charts: the loss, the direction, the finite part, the norm."""

    def __init__(self) -> None:
        empty: dict[str, Any] = {"series": []}
        self.charts = {
            name: Chart(title, empty, (), (), name=f"training-{name}", height="17rem")
            for name, title in (
                ("loss_gap", "Loss above its floor, L − L*"),
                ("cosine_svm", "Cosine with W_svm"),
                ("distance_fin", "Distance to W_fin inside S_fin"),
                ("norm", "Norm of W"),
            )
        }

    def show(self, runs: Sequence[Shown], linear: bool = False, outside: bool = False) -> None:
        """Draw these runs, the first in solid lines, the second dashed; steps on a log axis unless `linear`."""
        floor = all(run.plain for run in runs)
        self.charts["loss_gap"].title.set_text("Loss above its floor, L − L*" if floor else "Loss")
        cosine = "cosine_outside" if outside else "cosine_svm"
        self.charts["cosine_svm"].title.set_text(
            "Cosine of W outside S_fin with W_svm" if outside else "Cosine of W with W_svm"
        )
        for name, chart in self.charts.items():
            record = {"cosine_svm": cosine, "loss_gap": name if floor else "loss"}.get(name, name)
            chart.show(*drawn(record, runs, linear))


def drawn(
    name: str, runs: Sequence[Shown], linear: bool
) -> tuple[dict[str, Any], list[str], list[list[Any]], str]:
    """Options, table and note of the chart of one record."""
    growth = name == "norm" and runs[0].rate is not None
    log = name in ("loss_gap", "distance_fin") or (name == "norm" and not growth)
    series = [
        one for i, run in enumerate(runs) for one in _lines(name, run, i, len(runs), linear, log)
    ]
    header = ["run", "seed", "step", name]
    rows = [
        [run.title, seed, int(step), float(value)]
        for run in runs
        for seed, values in enumerate(run.records[name])
        for step, value in zip(run.records["steps"], values, strict=True)
    ]
    seeds = max(len(run.records[name]) for run in runs)
    notes = [f"{SEEDS} of {seeds} seeds are drawn, all are in the table."] if seeds > SEEDS else []
    options: dict[str, Any] = {
        "animation": False,
        "grid": {"left": 64, "right": 22, "top": 34 if len(series) > 1 else 16, "bottom": 44},
        "legend": {"show": len(series) > 1, "type": "scroll", "top": 0, "icon": "rect", "itemWidth": 18,
                   "itemHeight": 3},
        "tooltip": {"trigger": "axis", "order": "valueAsc"},
        "xAxis": {"type": "value" if linear else "log", "name": "step", "nameLocation": "middle", "nameGap": 26,
                  "min": "dataMin", "max": "dataMax", "axisLine": {"onZero": False}},
        "yAxis": {"type": "log" if log else "value", "scale": True},
        "series": series,
        "graphic": [],
    }  # fmt: skip
    if not any(y is not None for one in series for _, y in one["data"]):
        said = "0 throughout" if log else "W_svm is 0: no token strictly outranks another"
        options["graphic"] = [_word(said, left="center", top="middle")]
        options["yAxis"] |= {"min": 0.1, "max": 1}
        return options, header, rows, " ".join(notes)
    if name in ("loss_gap", "distance_fin"):
        # A log axis has no place for 0: theory is its lower edge.
        options["xAxis"]["axisLine"] = {
            "onZero": False,
            "lineStyle": {"type": "dashed", "color": "$ink"},
        }
        options["graphic"] = [_word("theory: down to 0 ↓", left=70, bottom=50)]
    elif name.startswith("cosine"):
        options["yAxis"] |= {"max": 1.05, "axisLabel": {"showMaxLabel": False}}
        series[0]["markLine"] = _level(1, "theory: 1")
    elif growth:
        series += _growth(runs)
        options["legend"]["show"], options["grid"]["top"] = True, 34
    elif name == "norm" and runs[0].theory.get("svm_norm"):
        options["graphic"] = [_word("theory: up, without bound ↑", left=70, top=36)]
    return options, header, rows, " ".join(notes)


def _lines(
    name: str, run: Shown, place: int, runs: int, linear: bool, log: bool
) -> list[dict[str, Any]]:
    """One line for each seed; where two runs are shown, colour and dashes say which."""
    steps, values = run.records["steps"], run.records[name][:SEEDS]
    at = [i for i in thinned(len(steps)) if linear or steps[i] > 0]
    lines = []
    for seed, row in enumerate(values):
        label = f"seed {seed}" if runs == 1 else f"{'AB'[place]}: seed {seed}"
        colour = COLOURS[seed % len(COLOURS)] if runs == 1 else COLOURS[place]
        lines.append(
            {
                "type": "line",
                "name": label,
                "data": [[int(steps[i]), _point(row[i], log)] for i in at],
                "symbol": "circle" if len(at) < 2 else "none",
                "color": colour,
                "lineStyle": {
                    "width": 2 if len(values) < 6 else 1.2,
                    "type": "dashed" if place else "solid",
                },
                "emphasis": {"focus": "series"},
            }
        )
    return lines


def _growth(runs: Sequence[Shown]) -> list[dict[str, Any]]:
    lines = []
    for place, run in enumerate(runs):
        steps = np.asarray(run.records["steps"], float)
        if run.rate is None or steps.max() < 1:
            continue
        x, y = growth_line(steps, run.records["norm"], run.rate)
        # Early on the line runs below 0, where no norm is: those points are left out.
        who = "" if len(runs) == 1 else f"{'AB'[place]}, "
        lines.append(
            {
                "type": "line",
                "name": f"{who}theory: slope ‖W_svm‖ log τ",
                "data": [[float(x[i]), _point(y[i], log=True)] for i in thinned(len(x))],
                "symbol": "none",
                "color": "$ink",
                "lineStyle": {"width": 1.5, "type": [7, 5]},
            }
        )
    return lines


def _point(value: float, log: bool) -> float | None:
    """A value as the axis can show it: rounding puts some gaps at or below 0, which has no logarithm."""
    return None if not np.isfinite(value) or (log and value <= 0) else float(value)


def _level(value: float, text: str) -> dict[str, Any]:
    return {
        "silent": True,
        "symbol": "none",
        "lineStyle": {"color": "$ink", "type": "dashed", "width": 1.5},
        "label": {"formatter": text, "position": "insideStartTop", "color": "$soft"},
        "data": [{"yAxis": value}],
    }


def _word(text: str, **place: Any) -> dict[str, Any]:
    return {
        "type": "text",
        **place,
        "style": {"text": text, "fill": "$soft", "fontSize": 12},
        "silent": True,
    }
