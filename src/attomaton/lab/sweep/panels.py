"""A sweep that is open: what it is, its map with the settings along its axes, one cell of it, the cells that failed."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from attomaton.folders.sweep import MEASURED, Sweep, cell_means
from attomaton.lab.kit.charts import Chart, Point
from attomaton.lab.kit.parts import abreast, button, card, chip, dense, heading, note, place
from attomaton.lab.kit.table import numbers
from attomaton.lab.sweep.map import NAMES, cells_on, drawn, read_axes, settings_of, spread
from attomaton.lab.sweep.runs import WORK, sweep_code
from attomaton.lab.view import View, whole


class Panels:
    """All of it; `resume` continues the sweep, `changed` is told of another axis or quantity."""

    def __init__(
        self, view: View, sweep: Sweep, resume: Callable[[], Any], changed: Callable[[], Any]
    ):
        self.view, self.sweep, self._resume, self._changed = view, sweep, resume, changed
        asked = whole(view.get("cell"), -1, len(sweep.cells))
        self.chosen = asked if 0 <= asked < len(sweep.cells) else None
        self.about_place, self.controls = place(), abreast()
        with ui.element("div").classes("side"):
            rows = max(len(v) for v in settings_of(sweep).values())
            height = f"{min(34, max(20, 11 + 2.4 * rows)):.0f}rem"
            self.chart = Chart(
                "The sweep as a heat map", name="sweep", height=height, on_click=self._clicked
            )
            self.cell_place = place()
        self.table_place = place()
        self._control()

    def code(self) -> tuple[str, str]:
        """The command and the Python code of the sweep and of the quantity that is shown."""
        value = read_axes(self.sweep, self.view.settings).value
        return sweep_code(self.view.item.path.resolve(), self.sweep, value)

    def refresh(self) -> None:
        """Draw everything again from what is known now."""
        axes = read_axes(self.sweep, self.view.settings)
        along = f"{axes.x} and {axes.y}" if axes.y else axes.x
        self.chart.title.set_text(f"{NAMES[axes.value].capitalize()} by {along}")
        self.chart.show(drawn(self.sweep, axes, self.chosen))
        self.places = cells_on(self.sweep, axes)
        self._about()
        self._cell()
        # Cells that could not run, with their error; a row opens its cell.
        self.table_place.clear()
        failed = list(self.sweep.failed.items())
        if failed:
            with self.table_place, card("Failed cells", "failures"):
                rows = [[f"{cell}", error] for cell, error in failed]
                numbers(("cell", "error"), rows, on_row=lambda i: self.open(failed[i][0]), page=8)

    # What is along the axes

    def _control(self) -> None:
        """Offer the settings as they are now, and draw."""
        settings, axes = settings_of(self.sweep), read_axes(self.sweep, self.view.settings)
        self.controls.clear()
        with self.controls:
            self._select("value", {k: NAMES[k] for k in MEASURED}, axes.value, "colour")
            self._select("x", list(settings), axes.x, "x")
            if axes.y:
                self._select("y", [name for name in settings if name != axes.x], axes.y, "y")
            for name, value in axes.held.items():
                self._select(f"at_{name}", [str(v) for v in settings[name]], str(value), name)
        self.refresh()

    def _select(
        self, name: str, options: list[str] | dict[str, str], value: str, label: str
    ) -> None:
        chosen = dense(ui.select(options, value=value, label=label), f"setting setting-{name}")
        chosen.on_value_change(lambda e: self._set(name, e.value))

    def _set(self, name: str, value: str) -> None:
        """Another axis, quantity or held value; x and y change places rather than be the same."""
        axes = read_axes(self.sweep, self.view.settings)
        more = {"y": axes.x} if name == "x" and value == axes.y else {}
        self.view.put(**{name: value, **more})
        self._control()
        self._changed()

    # What it is

    def _about(self) -> None:
        sweep, job = self.sweep, WORK.running(self.view.lab)
        busy = job is not None and job.about.id == self.view.item.id
        missing, failed, cells = len(sweep.missing), len(sweep.failed), len(sweep.cells)
        self.about_place.clear()
        with self.about_place, card(label="The sweep that is shown"):
            with abreast():
                heading(self.view.item.title)
                state = "running" if busy else "incomplete" if missing else "complete"
                chip(state).classes("status")
                ui.space()
                if job is None and (missing or failed):
                    said = "Resume" if missing else "Try failed cells again"
                    button(said, self._resume, more="dense")
            note(
                f"level {sweep.level}; {cells - missing - failed:,} of {cells:,} cells done"
                + (f", {failed:,} failed" if failed else "")
            )
            note(self.code()[0]).classes("mono")

    # One cell

    def _clicked(self, point: Point) -> None:
        match point.value:
            case [int(column), int(row), *_] if (column, row) in self.places:
                self.open(self.places[column, row])

    def open(self, cell: int) -> None:
        """Show a cell beside the map that holds it."""
        self.chosen = cell
        held = read_axes(self.sweep, self.view.settings).held
        at = {f"at_{name}": str(self.sweep.cells[cell][name]) for name in held}
        self.view.put(cell=cell, **at)
        self._control()

    def _cell(self) -> None:
        self.cell_place.clear()
        name = "Choose a cell" if self.chosen is None else f"Cell {self.chosen}"
        with self.cell_place, card(name, "cell", label="The chosen cell"):
            if self.chosen is None:
                note("Click a square of the map, or name a cell.")
            else:
                self._details(self.chosen)
            most = len(self.sweep.cells) - 1
            box = ui.number("cell", value=self.chosen, min=0, max=most, precision=0)
            box.props("dense outlined").classes("setting")
            for event in ("keydown.enter", "blur"):
                box.on(event, lambda: self._named(box.value))

    def _named(self, value: float | None) -> None:
        if value is not None and value != self.chosen and 0 <= value < len(self.sweep.cells):
            self.open(int(value))

    def _details(self, number: int) -> None:
        sweep, cell = self.sweep, self.sweep.cells[number]
        with abreast():
            for name, value in cell.items():
                chip(f"{name} {value}")
        rows = [r for r in sweep.rows if r.cell == number]
        if number in sweep.failed:
            self.view.problem(sweep.failed[number])
        elif not rows:
            note("Not computed yet.")
        else:
            for name in MEASURED:
                mean = cell_means(sweep, name).get(number)
                if mean is not None:
                    note(f"{NAMES[name]}: {spread(mean)}")
            header = ("seed", *MEASURED, "status")
            numbers(header, [[getattr(r, name) for name in header] for r in rows], page=6)
        same = {k: v for k, v in cell.items() if k != "ratio"}  # η_Y says it
        target = self.view.link("/scan-snap", None, levels=sweep.level, **same)
        chip("Open in Scan and snap", target).classes("can open-cell")
