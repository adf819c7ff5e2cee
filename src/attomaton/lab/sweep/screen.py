"""The sweep screen: grids of scan-and-snap settings as heat maps, started, continued and looked into cell by cell."""

from pathlib import Path
from typing import Any

from nicegui import ui

from attomaton.errors import AttomatonError
from attomaton.folders.sweep import MEASURED, Sweep, cell_means, read_sweep
from attomaton.lab.jobs import DONE, Job
from attomaton.lab.kit.charts import Chart, numbers
from attomaton.lab.sweep.form import CSS, Form
from attomaton.lab.sweep.map import NAMES, cells_on, drawn, read_axes, settings_of
from attomaton.lab.sweep.runs import WORK, launch, sweep_code
from attomaton.lab.view import Screen, View, in_thread


async def build(view: View) -> None:
    """Fill the page."""
    await Page(view).build()


class Page:
    """The screen in one tab."""

    def __init__(self, view: View):
        self.view, self.lab = view, view.lab
        self.sweep: Sweep | None = None
        self.chosen: int | None = None
        self.done_drawn = -1

    async def build(self) -> None:
        """Form, progress, map, the chosen cell; without a sweep, those there are."""
        ui.add_css(CSS)
        view = self.view
        ui.label("Scan and snap over a grid of settings").classes("title").props(
            'role="heading" aria-level="1"'
        )
        self.job_place, self.wrong = (ui.element("div").classes("place") for _ in range(2))
        self.sweep = await self._read() if view.item.kind == "sweep" else None
        if self.sweep is not None:
            self._choose_cell()
            self._build_map(self.sweep)
        self._list()
        self.form = Form(view, self._start, self._says, opened=self.sweep is None)
        job = WORK.running(self.lab)
        if job is not None:
            self._attach(job)
        self._says()

    async def _read(self) -> Sweep | None:
        try:
            found: Sweep = await in_thread(read_sweep, self.view.item.path)
            return found
        except AttomatonError as error:
            self.view.problem(str(error))
            return None

    # The map

    def _build_map(self, sweep: Sweep) -> None:
        self.about_place = ui.element("div").classes("place")
        with ui.element("div").classes("abreast") as self.controls:
            self._controls(sweep)
        with ui.element("div").classes("side"):
            rows = max(len(v) for v in settings_of(sweep).values())
            height = f"{min(34, max(20, 11 + 2.4 * rows)):.0f}rem"
            self.chart = Chart(
                "The sweep as a heat map", {"series": []}, (), (), name="sweep", height=height,
                on_click=self._clicked,
            )  # fmt: skip
            self.cell_place = ui.element("div").classes("place")
        self.table_place = ui.element("div").classes("place")
        self.refresh()

    def _controls(self, sweep: Sweep) -> None:
        settings = settings_of(sweep)
        axes = read_axes(sweep, self.view.settings)

        def select(name: str, options: Any, value: Any, label: str) -> None:
            chosen = ui.select(options, value=value, label=label).props(
                "dense outlined options-dense"
            )
            chosen.classes(f"setting setting-{name}").on_value_change(
                lambda e: self._set(name, e.value)
            )

        select("value", {k: NAMES[k] for k in MEASURED}, axes.value, "colour")
        select("x", list(settings), axes.x, "x")
        if axes.y:
            select("y", [name for name in settings if name != axes.x], axes.y, "y")
        for name, value in axes.held.items():
            select(f"at_{name}", [str(v) for v in settings[name]], str(value), name)

    def _set(self, name: str, value: str) -> None:
        """Another axis, quantity or held value; x and y change places rather than be the same."""
        assert self.sweep is not None
        axes = read_axes(self.sweep, self.view.settings)
        more = {"y": axes.x} if name == "x" and value == axes.y else {}
        self.view.put(**{name: value, **more})
        self._controls_again()
        self._says()

    def _controls_again(self) -> None:
        assert self.sweep is not None
        self.controls.clear()
        with self.controls:
            self._controls(self.sweep)
        self.refresh()

    def refresh(self) -> None:
        """Draw everything again from what is known now."""
        assert self.sweep is not None
        axes = read_axes(self.sweep, self.view.settings)
        along = f"{axes.x} and {axes.y}" if axes.y else axes.x
        self.chart.title.set_text(f"{NAMES[axes.value].capitalize()} by {along}")
        options, header, rows, note = drawn(self.sweep, axes, self.chosen)
        self.chart.show(options, header, rows, note)
        self.places = cells_on(self.sweep, axes)
        self._about()
        self._cell()
        self._failures()

    def _about(self) -> None:
        sweep, job = self.sweep, WORK.running(self.lab)
        assert sweep is not None
        busy = job is not None and job.about.id == self.view.item.id
        missing, failed, cells = len(sweep.missing), len(sweep.failed), len(sweep.cells)
        self.about_place.clear()
        with (
            self.about_place,
            ui.element("section").classes("card").props('aria-label="The sweep that is shown"'),
        ):
            with ui.element("div").classes("abreast"):
                ui.label(self.view.item.title).classes("card-title").props(
                    'role="heading" aria-level="2"'
                )
                state = "running" if busy else "incomplete" if missing else "complete"
                ui.label(state).classes("chip status")
                ui.space()
                if job is None and (missing or failed):
                    said = "Resume" if missing else "Try failed cells again"
                    ui.button(said, icon="play_arrow", on_click=self._resume).props(
                        "unelevated dense no-caps"
                    )
            ui.label(
                f"level {sweep.level}; {cells - missing - failed:,} of {cells:,} cells done"
                + (f", {failed:,} failed" if failed else "")
            ).classes("note")
            out = self.view.item.path.resolve()
            ui.label(sweep_code(out, sweep.grid, sweep.classes, sweep.level)[0]).classes(
                "mono note"
            )

    def _failures(self) -> None:
        """Cells that could not run, with their error; a row opens its cell."""
        assert self.sweep is not None
        self.table_place.clear()
        failed = list(self.sweep.failed.items())
        if failed:
            with (
                self.table_place,
                ui.element("section").classes("card failures").props('aria-label="Failed cells"'),
            ):
                ui.label("Failed cells").classes("card-title").props(
                    'role="heading" aria-level="2"'
                )
                rows = [[f"{cell}", error] for cell, error in failed]
                numbers(
                    ("cell", "error"), rows, on_row=lambda i: self.open_cell(failed[i][0]), page=8
                )

    # One cell

    def _choose_cell(self) -> None:
        asked = self.view.get("cell")
        if self.sweep is not None and asked.isdecimal() and int(asked[:9]) < len(self.sweep.cells):
            self.chosen = int(asked)

    def _clicked(self, point: dict[str, Any]) -> None:
        at = point.get("value")
        cell = self.places.get(tuple(at[:2])) if isinstance(at, list) else None
        if cell is not None:
            self.open_cell(cell)

    def open_cell(self, cell: int) -> None:
        """Show a cell beside the map that holds it."""
        assert self.sweep is not None
        self.chosen = cell
        held = read_axes(self.sweep, self.view.settings).held
        self.view.put(
            cell=cell, **{f"at_{name}": str(self.sweep.cells[cell][name]) for name in held}
        )
        self._controls_again()

    def _cell(self) -> None:
        assert self.sweep is not None
        self.cell_place.clear()
        with (
            self.cell_place,
            ui.element("section").classes("card cell").props('aria-label="The chosen cell"'),
        ):
            if self.chosen is None:
                ui.label("Choose a cell").classes("card-title").props(
                    'role="heading" aria-level="2"'
                )
                ui.label("Click a square of the map, or name a cell.").classes("note")
            else:
                self._cell_details(self.sweep, self.chosen)
            box = ui.number(
                "cell", value=self.chosen, min=0, max=len(self.sweep.cells) - 1, precision=0
            )
            box.props("dense outlined").classes("setting")
            box.on("keydown.enter", lambda: self._named(box.value)).on(
                "blur", lambda: self._named(box.value)
            )

    def _named(self, value: float | None) -> None:
        assert self.sweep is not None
        if value is not None and value != self.chosen and 0 <= value < len(self.sweep.cells):
            self.open_cell(int(value))

    def _cell_details(self, sweep: Sweep, number: int) -> None:
        cell = sweep.cells[number]
        ui.label(f"Cell {number}").classes("card-title").props('role="heading" aria-level="2"')
        with ui.element("div").classes("abreast"):
            for name, value in cell.items():
                ui.label(f"{name} {value}").classes("chip")
        rows = [r for r in sweep.rows if r["cell"] == number]
        if number in sweep.failed:
            self.view.problem(sweep.failed[number])
        elif not rows:
            ui.label("Not computed yet.").classes("note")
        else:
            for name in MEASURED:
                mean = cell_means(sweep, name).get(number)
                if mean is not None:
                    error = "" if mean.half is None else f" ± {mean.half:.2g}"
                    ui.label(f"{NAMES[name]}: {mean.mean:.6g}{error}").classes("note")
            header = ("seed", *MEASURED, "status")
            numbers(header, [[r[name] for name in header] for r in rows], page=6)
        same = {k: v for k, v in cell.items() if k != "ratio"}  # η_Y says it
        target = self.view.link("/scan-snap", levels=sweep.level, **same)
        ui.link("Open in Scan and snap", target).classes("chip can open-cell")

    # Sweeps there are, and work

    def _list(self) -> None:
        others = [
            i for i in self.lab.shelf.items() if i.kind == "sweep" and i.id != self.view.item.id
        ]
        if others:
            with ui.element("section").classes("card").props('aria-label="Sweeps"'):
                ui.label("Other sweeps" if self.sweep else "Sweeps").classes("card-title").props(
                    'role="heading" aria-level="2"'
                )
                with ui.element("div").classes("abreast"):
                    for item in others:
                        ui.link(item.title, self.view.link(item=item)).classes("chip")

    def _says(self) -> None:
        """The code of the sweep that is shown; without one, of the form."""
        if self.sweep is not None:
            value = read_axes(self.sweep, self.view.settings).value
            s = self.sweep
            self.view.says(
                *sweep_code(self.view.item.path.resolve(), s.grid, s.classes, s.level, value)
            )
            return
        try:
            asked = self.form.asked()
        except AttomatonError:
            self.view.says("", "")
        else:
            self.view.says(*sweep_code(Path("sweep"), asked.grid, asked.classes, asked.level))

    async def _start(self) -> None:
        with self.view.checked(self.form.wrong):
            asked = self.form.asked()
            job = launch(self.lab, asked)
            await in_thread(job.about.there.wait, 10.0)
            self.view.go(item=self.lab.shelf.find(job.about.id))

    def _resume(self) -> None:
        assert self.sweep is not None
        with self.view.checked(self.wrong):
            self._attach(launch(self.lab, self.sweep, self.view.item.path))
            self.refresh()

    def _attach(self, job: Job) -> None:
        self.job_place.clear()
        with self.job_place:
            if job.about.id != self.view.item.id:
                ui.link(f"{job.about.title} is being computed", f"./sweep?on={job.about.id}")
            self.view.watch(job, self._ended, self._step)

    def _step(self, job: Job) -> None:
        """Read and draw what came since the last look."""
        if (
            self.sweep is not None
            and job.about.id == self.view.item.id
            and job.done != self.done_drawn
        ):
            self.done_drawn = job.done
            with self.view.checked(self.wrong):
                self.sweep = read_sweep(self.view.item.path)
                self.refresh()

    def _ended(self, job: Job) -> None:
        self.done_drawn = -1
        self._step(job)
        if job.state == DONE and self.sweep is None:
            ui.navigate.reload()


SCREEN = Screen(
    "/sweep",
    "Sweep",
    "grid_on",
    build,
    """
A sweep runs scan and snap once for every combination of settings, and shows what came out as colours.

**What is measured**, at the end of each run, as a mean over classes: the *entropy* of attention over a class's distinct
tokens, H = −Σ p ln p (small: attention has snapped to few tokens); the *largest attention*; the *loss*; the *norm of
Y*. A cell shows the mean over its seeds, ± half of the 95 % interval by Student's t.

**Grid.** One setting on each line, `name=value,value,…`. It needs `eta_z`, and one of `eta_y` and `ratio`
(η_Y = ratio · η_Z). Levels: *sampled* (finite sequences), *limit* (the differential equation), *reduced* (attention
alone).

**Use.** Choose what lies along x and y and what is coloured; click a square for its runs. Hatched squares failed (✕),
diverged (∞) or are not done yet (…). A sweep that was stopped goes on where it was; *Stop* waits for the end of a
piece.

*Scan and Snap* (Tian et al., 2023), figure 4: entropy by learning rates.
""",
    wants=("sweep",),
)
