"""The training screen: start a run, watch it approach the end point that theory computed, stop it, let it go on."""

from pathlib import Path

from nicegui import ui

from attomaton.disk.storage import is_folder
from attomaton.errors import AttomatonError
from attomaton.lab.jobs import Job
from attomaton.lab.kit.charts import numbers
from attomaton.lab.opened import Opened
from attomaton.lab.shelf import Item
from attomaton.lab.training.curves import Curves, Shown
from attomaton.lab.training.form import CSS, Form
from attomaton.lab.training.runs import (
    TrainingRun,
    all_runs,
    find_run,
    read_run,
    resume,
    running,
    start,
    train_code,
)
from attomaton.lab.view import Screen, View, in_thread

AXES = {"log": "log steps", "linear": "linear steps"}
COSINES = {"whole": "cosine of W", "outside": "of W outside S_fin"}


async def build(view: View) -> None:
    """Fill the page."""
    await Page(view).build()


class Page:
    """The screen in one tab; what runs belongs to the lab, so another tab shows the same."""

    def __init__(self, view: View):
        self.view, self.lab = view, view.lab
        self.run: TrainingRun | None = (
            None  # whose curves are shown, unless they are still being computed
        )
        self.beside: TrainingRun | None = None
        self.live = ""  # id of the run that is being computed and shown
        self.records_drawn = 0

    async def build(self) -> None:
        """Form, progress, curves, results, list of runs."""
        ui.add_css(CSS)
        ui.label("Train the layer and see it approach its limit").classes("title").props(
            'role="heading" aria-level="1"'
        )
        item, model = self.view.item, None
        if item.kind in ("data", "model") or (
            item.kind == "run" and is_folder(item.path / "model", "model")
        ):
            model = await self.view.model()
            if model is None:
                return
        self.form = self._form(model)
        self.job_place, self.shown_place, self.wrong = (
            ui.element("div").classes("place") for _ in range(3)
        )
        self._controls()
        with ui.element("div").classes("grid2") as self.curves_place:
            self.curves = Curves()
        self.out_place, self.runs_place = (ui.element("div").classes("place") for _ in range(2))
        self.runs = await in_thread(all_runs, self.lab)
        self._choose_first(item)
        job = running(self.lab)
        if job is not None:
            self._attach(job)
        self.refresh()

    # What is shown

    def _choose_first(self, item: Item) -> None:
        """The run the address names, the one going on, the item itself, or the newest on this model."""
        with self.view.checked(self.shown_place):
            job = running(self.lab)
            asked = self.view.get("run")
            if (
                job is not None
                and asked in ("", job.seen["run"])
                and (asked or job.seen["item"] == item.id)
            ):
                self.live = job.seen["run"]
            elif asked:
                self.run = find_run(self.lab, asked)
            elif item.kind == "run":
                self.run = read_run(item)
            elif self.form is not None:
                own = str(self.form.model.folder.resolve())
                self.run = next((r for r in self.runs if r.config.get("data") == own), None)
            if self.view.get("beside"):
                self.beside = find_run(self.lab, self.view.get("beside"))

    def choose(self, run: TrainingRun) -> None:
        """Show a run that is over, or the one going on."""
        job = running(self.lab)
        here = job is not None and job.seen["run"] == run.id
        self.run, self.live = (None, run.id) if here else (run, "")
        self.view.put(run=run.id)
        self.refresh()

    def refresh(self) -> None:
        """Draw everything again."""
        self.records_drawn = 0
        self._about()
        with self.view.checked(self.wrong):
            self.draw()
            self._results()
        self._list()
        self._says()

    def draw(self) -> None:
        """The curves of what is shown."""
        job = running(self.lab)
        runs = []
        if self.live and job is not None and "so_far" in job.seen:
            seen = job.seen
            runs.append(Shown(seen["title"], seen["so_far"], seen["config"], seen["theory"]))
        elif self.run is not None and self.run.records:
            runs.append(_shown(self.run))
        if runs and self.beside is not None and self.beside.records:
            runs.append(_shown(self.beside))
        for place in (self.curves_place, self.controls):
            place.set_visibility(bool(runs))
        if runs:
            self.curves.show(runs, self.axis.value == "linear", self.cosine.value == "outside")

    def _says(self) -> None:
        """The code of the run that is shown; where there is none, of the form."""
        job = running(self.lab)
        if self.run is not None:
            with self.view.checked(self.wrong):
                self.view.says(*self.run.code())
        elif self.live and job is not None:
            self.view.says(*job.seen["code"])
        else:
            self._says_form()

    def _says_form(self) -> None:
        if self.form is not None:
            try:
                options = self.form.asked()
            except AttomatonError:
                self.view.says("", "")
            else:
                self.view.says(*train_code(str(self.form.model.folder.resolve()), "run", options))

    # Parts of the page

    def _form(self, model: Opened | None) -> Form | None:
        if model is not None:
            return Form(self.view, model, self._start, self._says_form)
        item = self.view.item
        with ui.element("section").classes("card"):
            ui.label(
                f"{item.title} is a {item.kind} without a model: to train anew, open a model or data."
            ).classes("note")
        return None

    def _controls(self) -> None:
        with ui.element("div").classes("abreast") as self.controls:
            axis = self.view.get("axis")
            self.axis = ui.toggle(AXES, value=axis if axis in AXES else "log")
            cosine = self.view.get("cosine")
            self.cosine = ui.toggle(COSINES, value=cosine if cosine in COSINES else "whole")
            for toggle, name in ((self.axis, "Axis of steps"), (self.cosine, "Which cosine")):
                toggle.props(f'dense no-caps unelevated toggle-color=primary aria-label="{name}"')
            self.axis.on_value_change(
                lambda e: self._set(axis=None if e.value == "log" else e.value)
            )
            zero = ui.label("Step 0 has no place on a log axis; it is in the tables.").classes(
                "note"
            )
            zero.bind_visibility_from(self.axis, "value", lambda axis: axis == "log")
            self.cosine.on_value_change(
                lambda e: self._set(cosine=None if e.value == "whole" else e.value)
            )

    def _set(self, **settings: str | None) -> None:
        self.view.put(**settings)
        self.draw()

    def _about(self) -> None:
        """What is shown: name, status, settings, a way to go on, a second run beside it."""
        if self.run is None and not self.live:
            if not self.shown_place.default_slot.children:
                with self.shown_place:
                    ui.label("No run is shown yet: start one, or choose one of the list.").classes(
                        "note"
                    )
            return
        self.shown_place.clear()
        run, job = self.run, running(self.lab)
        config = (
            job.seen["config"] if run is None and job is not None else run.config if run else {}
        )
        with (
            self.shown_place,
            ui.element("section").classes("card").props('aria-label="The run that is shown"'),
        ):
            with ui.element("div").classes("abreast"):
                title = (
                    job.seen["title"]
                    if run is None and job is not None
                    else run.title
                    if run
                    else ""
                )
                ui.label(f"A: {title}" if self.beside else title).classes("card-title").props(
                    'role="heading" aria-level="2"'
                )
                ui.label(run.ended if run else "running").classes("chip status")
                ui.space()
                if run is not None and run.unfinished and job is None:
                    ui.button("Resume", icon="play_arrow", on_click=self._resume).props(
                        "unelevated dense no-caps"
                    )
                self._beside()
            shown = {k: v for k, v in config.items() if k != "data" and v is not None}
            ui.label(" · ".join(f"{k} {v}" for k, v in shown.items())).classes("note")
            if run is not None and run.command:
                ui.label(run.command).classes("mono note")

    def _beside(self) -> None:
        others = {
            r.id: r.title
            for r in self.runs
            if r.id not in (self.live, self.run.id if self.run else "")
        }
        choice = self.beside.id if self.beside is not None and self.beside.id in others else None
        picker = ui.select(
            {"": "no other run", **others}, value=choice or "", label="compare with B"
        )
        picker.props("dense outlined options-dense").classes("beside")

        def chosen(id: str) -> None:
            with self.view.checked(self.wrong):
                self.beside = find_run(self.lab, id) if id else None
                self.view.put(beside=id or None)
                self.refresh()

        picker.on_value_change(lambda e: chosen(e.value))

    def _results(self) -> None:
        """What came out, as `attomaton train` prints it."""
        self.out_place.clear()
        if self.run is None or not self.run.records:
            return
        with (
            self.out_place,
            ui.element("section").classes("card results").props('aria-label="What comes out"'),
        ):
            ui.label("What comes out").classes("card-title").props('role="heading" aria-level="2"')
            summary = self.run.summary
            said = f"{int(self.run.records['steps'][-1]):,} steps"
            said += f" on {summary['samples']:,} samples" if "samples" in summary else ""
            said += f"; L* = {summary['loss_floor']:.8g}" if "loss_floor" in summary else ""
            ui.label(said).classes("note")
            numbers(*self.run.finals())

    def _list(self) -> None:
        """All runs of training, to choose from."""
        self.runs_place.clear()
        if not self.runs:
            return
        titles = {str(self.lab.shelf.model_folder(i).resolve()): i.title
                  for i in self.lab.shelf.items() if i.kind in ("data", "model")}  # fmt: skip
        rows = [
            [r.title, titles.get(str(r.config.get("data")), Path(str(r.config.get("data", "–"))).name),
             r.config.get("optimizer", "–"), r.config.get("steps", "–"), r.config.get("seeds", 1), r.ended]
            for r in self.runs
        ]  # fmt: skip
        with self.runs_place, ui.element("section").classes("card runs").props('aria-label="Runs"'):
            ui.label("Runs").classes("card-title").props('role="heading" aria-level="2"')
            header = ("run", "data", "optimizer", "steps", "seeds", "ended")
            numbers(header, rows, on_row=lambda i: self.choose(self.runs[i]), page=8)

    # Work

    def _start(self) -> None:
        assert self.form is not None
        with self.view.checked(self.form.wrong):
            self._began(start(self.lab, self.view.item, self.form.model.folder, self.form.asked()))

    def _resume(self) -> None:
        assert self.run is not None
        with self.view.checked(self.wrong):
            self._began(resume(self.lab, self.view.item, self.run))

    def _began(self, job: Job) -> None:
        self.run, self.live = None, job.seen["run"]
        self.view.put(run=self.live)
        self._attach(job)
        self.refresh()

    def _attach(self, job: Job) -> None:
        self.job_place.clear()
        with self.job_place:
            if job.seen["run"] != self.live:
                ui.link(
                    f"{job.seen['title']} is being computed", self.view.link(run=job.seen["run"])
                )
            self.view.watch(job, self._ended, self._step)

    def _step(self, job: Job) -> None:
        """Draw what came since the last look."""
        if self.live == job.seen["run"] and "so_far" in job.seen:
            count = len(job.seen["so_far"]["steps"])
            if count != self.records_drawn:
                self.draw()
                self.records_drawn = count

    def _ended(self, job: Job) -> None:
        self.runs = all_runs(self.lab)
        if self.live == job.seen["run"]:
            self.live = ""
            self.run = next((r for r in self.runs if r.id == job.seen["run"]), None)
            if self.run is None:  # it failed; the reason is said where its progress was
                self.view.put(run=None)
                self.shown_place.clear()
        self.refresh()


def _shown(run: TrainingRun) -> Shown:
    return Shown(run.title, run.records, run.config, run.summary)


SCREEN = Screen(
    "/training",
    "Training",
    "show_chart",
    build,
    """
One layer of self-attention with weights W is trained on the samples, and measured against the limit that was computed
without it.

**Theory.** Under gradient descent W leaves every bound along one direction and settles in the rest:

W(τ) ≈ W_fin + ‖W_svm‖ log τ · W_svm/‖W_svm‖

So the **loss** falls to its floor L*, the **cosine** with W_svm tends to 1 (slowly, like 1/log τ: outside S_fin it is
quicker), the part of W inside S_fin ends in W_fin (**distance** 0), and the **norm** grows like ‖W_svm‖ log τ.
Dashed lines are theory.

**Use.** Choose an optimizer and start. *Stop* ends at the next of about fifty breaths and keeps what was computed;
*Resume* goes on and ends bit for bit as if it had never been stopped. Choose a run of the list to see it again, and a
second to lay its curves over the first.

*Mechanics of next token prediction with self-attention* (Li et al., 2024), theorems 1 and 2.
""",
)
