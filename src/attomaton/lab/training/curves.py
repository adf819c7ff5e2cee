"""Curves of training beside what theory says of their end: charts from records, of one run or of two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attomaton.lab.kit.charts import (
    COLOURS,
    POINTS,
    Axis,
    Chart,
    Legend,
    Margins,
    Mark,
    Picture,
    Series,
    Word,
    drawable,
    steps_axis,
)
from attomaton.lab.training.runs import Setting
from attomaton.mechanics.experiment.arguments import limit_norm
from attomaton.mechanics.experiment.course import Arrays
from attomaton.mechanics.theory.norms import norm_key
from attomaton.report.figures.training import LOWEST, growth_line
from attomaton.report.text.training import norm_text
from attomaton.report.words import evenly

SEEDS = 20  # lines of one run in one chart


@dataclass(frozen=True)
class Shown:
    """One run in the charts: its records, its settings, and the growth rate ‖W_svm‖ that theory computed."""

    title: str
    records: Arrays
    config: Mapping[str, Setting]
    svm_norm: float | None

    @property
    def plain(self) -> bool:
        """Whether the loss is the one whose floor theory gives."""
        return self.config.get("loss", "log") == "log"

    @property
    def rate(self) -> float | None:
        """The growth of the norm with log(step), where theory gives it: gradient descent on the log-loss."""
        usual = self.plain and self.config.get("head", "identity") == "identity"
        usual = usual and self.config.get("optimizer", "gd") == "gd"
        return self.svm_norm or None if usual else None

    def drawn(self, name: str) -> dict[str, str]:
        """The records of a chart, each with what sets it apart: of margins and cosines those of two norms."""
        own = limit_norm(str(self.config.get("optimizer", "gd")), self.config.get("factorised"))
        if name == "margin":
            norms = dict.fromkeys((own, "frobenius" if own != "frobenius" else "max"))
            wanted = {f"margin_{norm_key(x)}": norm_text(x) for x in norms}
        elif name.startswith("cosine"):
            wanted = {name: "", f"cosine_{norm_key(own)}": norm_text(own)}
        else:
            wanted = {name: ""}
        return {record: said for record, said in wanted.items() if record in self.records}


class Curves:
    """Six charts: the loss, the direction, the margins, the finite part, what is retrieved, the norm."""

    def __init__(self) -> None:
        self.charts = {
            name: Chart(title, name=f"training-{name}", height="17rem")
            for name, title in (
                ("loss_gap", "Loss above its floor, L − L*"),
                ("cosine_svm", "Cosine with W_svm"),
                ("margin", "Margin, of the best in a norm"),
                ("distance_fin", "Distance to W_fin inside S_fin"),
                ("mass_retrieved", "Attention on the retrieved component"),
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
            chart.show(drawn(record, runs, linear))


def drawn(name: str, runs: Sequence[Shown], linear: bool) -> Picture:
    """The chart of one record."""
    growth = name == "norm" and runs[0].rate is not None
    gap = name in ("loss_gap", "distance_fin")
    log = gap or (name == "norm" and not growth)
    series = [
        one for i, run in enumerate(runs) for one in _lines(name, run, i, len(runs), linear, log)
    ]
    rows = [
        [run.title, record, seed, int(step), float(value)]
        for run in runs
        for record in run.drawn(name)
        for seed, values in enumerate(run.records[record])
        for step, value in zip(run.records["steps"], values, strict=True)
    ]
    seeds = max(len(run.records["loss"]) for run in runs)
    words: list[Word] = []
    up = Axis(log=log, more={"scale": True})
    if not any(y is not None for one in series for _, y in one.data):
        said = "0 throughout" if log else "W_svm is 0: no token strictly outranks another"
        if not series:
            said = "not recorded: the run is of an earlier version"
        words, up = [Word(said, left="center", top="middle")], replace(up, low=0.1, high=1)
    elif gap:
        # A log axis has no place for 0, where theory ends: no line says so, words do.
        words = [Word("theory: on and on towards 0 ↘", left=70, bottom=50)]
    elif name.startswith(("cosine", "margin", "mass")):
        if name == "margin":  # how wrong an order was matters little
            lowest = min(y for one in series for _, y in one.data if y is not None)
            up = replace(up, low=max(LOWEST, np.floor(lowest * 20) / 20))
        up = replace(up, high=1.05, more={"scale": True, "axisLabel": {"showMaxLabel": False}})
        level = Mark("theory: 1", y=1, place="insideStartTop")
        series[0] = replace(series[0], marks=[level])
    elif growth:
        series += _growth(runs)
    elif name == "norm" and runs[0].svm_norm:
        words = [Word("theory: up, without bound ↑", left=70, top=36)]
    several = len(series) > 1
    bars = {"show": several, "icon": "rect", "itemWidth": 18, "itemHeight": 3}
    return Picture(
        x=steps_axis(linear),
        y=up,
        series=series,
        header=["run", "record", "seed", "step", "value"],
        rows=rows,
        note=f"{SEEDS} of {seeds} seeds are drawn, all are in the table." if seeds > SEEDS else "",
        margins=Margins(64, 22, 34 if several else 16, 44),
        legend=Legend(more=bars),
        hover={"trigger": "axis", "order": "valueAsc"},
        words=words,
        more={"animation": False},
    )


def _lines(name: str, run: Shown, place: int, runs: int, linear: bool, log: bool) -> list[Series]:
    """One line for each seed; where two runs are shown, colour and dashes say which; a second record is dotted."""
    steps = run.records["steps"]
    at = [i for i in evenly(len(steps), POINTS) if linear or steps[i] > 0]
    symbol = "circle" if len(at) < 2 else "none"
    return [
        Series(
            "line",
            [[int(steps[i]), drawable(row[i], log)] for i in at],
            ", ".join(
                filter(None, ((f"{'AB'[place]}: " if runs > 1 else "") + f"seed {seed}", said))
            ),
            COLOURS[seed % len(COLOURS) if runs == 1 else place],
            dash="dotted" if second else "dashed" if place else "solid",
            width=2 if len(run.records["loss"]) < 6 else 1.2,
            more={"symbol": symbol, "emphasis": {"focus": "series"}},
        )
        for second, (record, said) in enumerate(run.drawn(name).items())
        for seed, row in enumerate(run.records[record][:SEEDS])
    ]


def _growth(runs: Sequence[Shown]) -> list[Series]:
    lines = []
    for place, run in enumerate(runs):
        steps = np.asarray(run.records["steps"], float)
        if run.rate is None or steps.max() < 1:
            continue
        x, y = growth_line(steps, run.records["norm"], run.rate)
        # Early on the line runs below 0, where no norm is: those points are left out.
        data = [[float(x[i]), drawable(y[i], log=True)] for i in evenly(len(x), POINTS)]
        name = f"{'' if len(runs) == 1 else 'AB'[place] + ', '}theory: slope ‖W_svm‖ log τ"
        style = {"symbol": "none"}
        lines.append(Series("line", data, name, "$ink", dash=[7, 5], width=1.5, more=style))
    return lines
