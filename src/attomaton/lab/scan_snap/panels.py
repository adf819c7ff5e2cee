"""What the scan-and-snap screen shows of a result: the charts of one pair of rates, and the numbers of all."""

from collections.abc import Mapping, Sequence
from math import isfinite

from nicegui import ui

from attomaton.lab.kit.charts import Chart, Margins, Picture
from attomaton.lab.kit.parts import abreast, card, figures, heading, note
from attomaton.lab.kit.player import packed
from attomaton.lab.kit.table import numbers
from attomaton.lab.scan_snap import charts as draw
from attomaton.lab.scan_snap.runs import Asked, Predicted, Rates, Result, named_rates, predicted
from attomaton.lab.scan_snap.scrubber import Side

HEADER = [
    "learning rates",
    "level",
    "run",
    "status",
    "snap",
    "between",
    "snap / predicted",
    "knee",
    "entropy at the end",
    "on common tokens",
    "B at the end",
]


class Column:
    """The charts of one pair of learning rates; `beside` when two columns share the width."""

    def __init__(self, beside: bool):
        with ui.element("div").classes("pile"):
            self.title = heading()
            self.title.set_visibility(beside)
            with ui.element("div").classes("pile" if beside else "grid2"):
                self.heat = Chart("Attention over time", name="attention", height="27rem")
                self.bars = Chart("Attention now", name="attention-now", height="27rem")
            with ui.element("div").classes("pile" if beside else "grid3"):
                self.curves = {
                    key: Chart(title, name=key, height="19rem")
                    for key, title in draw.CURVES.items()
                }
        # Light on viridis, whatever the page's colours.
        self.heat_marker = marker(self.heat, draw.ROWS, "light")
        self.markers = [marker(chart, draw.CURVE) for chart in self.curves.values()]

    def show(
        self,
        rates: Rates,
        side: Mapping[str, Result],
        level: str,
        n: int,
        now: int,
        scales: draw.Scales,
    ) -> None:
        """Draw everything: attention of class n on one level, at all times and at the time `now`, and all curves."""
        run = side[level].run
        self.tokens = draw.tokens_of(run.classes, n)
        self.attention = draw.attention_of(side[level], n, self.tokens)
        self.t, self.span, self.most = run.t, scales.span, scales.attention
        several = f", median of {len(run.z)} runs" if len(run.z) > 1 else ""
        self.title.set_text(named_rates(rates))
        self.heat.title.set_text(f"Attention of class {n}, {level}{several}")
        self.heat.show(draw.heat(self.attention, run.t, self.tokens, scales.attention))
        self.bars.show(self._bars(now))
        times = predicted(run.classes, rates)
        for key, chart in self.curves.items():
            chart.show(draw.curves(key, side, times, scales))

    def settle(self, now: int) -> None:
        """The browser has gone to another recorded time: the bars' table and files have it too."""
        self.bars.follow(self._bars(now))

    def at(self, records: Sequence[int]) -> Side:
        """What the browser moves by itself, at some of the recorded times."""
        of = len(self.t), len(self.tokens.at)
        return Side(
            packed(self.attention[records]),
            tuple(round(draw.column_at(i, *of), 5) for i in records),
            tuple(round(draw.curve_at(float(self.t[i]), self.span), 5) for i in records),
            self.bars.canvas.id,
            self.bars.title.id,
            self.heat_marker.id,
            tuple(line.id for line in self.markers),
        )

    def _bars(self, now: int) -> Picture:
        self.bars.title.set_text(f"Attention at t = {draw.moment(self.t[now])}")
        return draw.bars(self.attention, self.tokens, self.most, now)


def marker(chart: Chart, grid: Margins, kind: str = "") -> ui.element:
    """A vertical line laid over a chart; the browser moves it by `--at`, from the left (0) to the right (1) end."""
    at = chart.card.default_slot.children.index(chart.canvas)
    with chart.card, ui.element("div").classes("layer") as layer:
        chart.canvas.move(layer)
        line = ui.element("div").classes(f"marker {kind}")
    layer.move(chart.card, at)
    left = f"calc({grid.left}px + (100% - {grid.left + grid.right}px) * var(--at, 0))"
    return line.style(f"top: {grid.top}px; bottom: {grid.bottom}px; left: {left}")


def show_numbers(asked: Asked, sides: Sequence[Mapping[str, Result]]) -> None:
    """Predicted and measured snap times, the end point, and whether the theorem's conditions hold."""
    classes = asked.known()
    rows: list[list[object]] = []
    pairs = [predicted(classes, rates) for rates in asked.rates]
    with card("Predicted and measured"):
        for rates, times, side in zip(asked.rates, pairs, sides, strict=True):
            if len(sides) > 1:
                note(named_rates(rates))
            figures(
                [
                    ("scanning until t₀′ = K ln M/η_Y", f"{times.scanning_end:.6g}"),
                    ("snap, predicted", f"{times.transition:.6g}"),
                    ("snapping from t₀ = 2 t₀′", f"{times.snapping_start:.6g}"),
                    *((f"snap, {x}", _measured(side[x], times.transition)) for x in side),
                ]
            )
            for level, result in side.items():
                rows += _rows(rates, level, result, times.transition)
        with ui.element("div").classes("twin"):
            numbers(HEADER, rows)
        note(
            "Snap: the accumulated gain ∫γ, at first like t², grows more slowly than t from here on. Knee: the "
            "scan slope t ξ has fallen to half its largest value (median over classes)."
        )
        if asked.own is not None and asked.own.said:
            note(f"{asked.own.said}.")
        note(
            f"What the theorem asks of the classes ({asked.classes}: {classes.K} classes, {classes.M} tokens)"
        )
        with abreast():
            _conditions(pairs)


def _measured(result: Result, time: float) -> str:
    """The snap of the first run and its ratio to the predicted one, where records can show it."""
    at, first = result.phases[0].transition, float(result.run.t[1])
    if time < first:
        return f"before t = {first:g}"
    return f"{at:.6g} ({at / time:.3g} ×)" if isfinite(at) else "not seen yet"


def _rows(rates: Rates, level: str, result: Result, time: float) -> list[list[object]]:
    """The numbers of every run, as the summary of `attomaton dynamics` has them."""
    run, rows = result.run, []
    on_common = run.attention[:, -1][..., run.classes.common].sum(axis=-1).mean(axis=-1)
    for phases in result.phases:
        at, (low, high) = phases.transition, phases.transition_range
        snap = [at, f"{low:.5g} – {high:.5g}", at / time] if isfinite(at) else ["–"] * 3
        knee = phases.knee if isfinite(phases.knee) else "–"
        ends = [knee, phases.entropy, float(on_common[phases.run]), phases.scanned]
        about = named_rates(rates), level, phases.run, run.status[phases.run]
        rows.append([*about, *snap, *ends])
    return rows


def _conditions(pairs: Sequence[Predicted]) -> None:
    for i, times in enumerate(pairs):
        for name, asks in times.conditions.items():
            if i and not name.startswith("eta_y"):
                continue  # the others do not depend on the rates
            good = bool(asks["holds"])
            with ui.element("div").classes(f"chip held {'yes' if good else 'no'}"):
                ui.icon("check_circle" if good else "cancel").props('aria-hidden="true"')
                ui.label(
                    f"{name.replace('eta_y', 'η_Y')}: {asks['found']:.4g} (limit {asks['limit']:.4g}) "
                    f"{'holds' if good else 'does not hold'}"
                )
