"""The training screen: start a run, watch it approach the end point that theory computed, stop it, let it go on."""

from pathlib import Path
from typing import Any

from nicegui import ui

from attomaton.disk.storage import is_folder
from attomaton.errors import AttomatonError
from attomaton.lab.jobs import Job
from attomaton.lab.kit.charts import AXES
from attomaton.lab.kit.fields import toggle
from attomaton.lab.kit.page import Page
from attomaton.lab.kit.parts import abreast, button, card, chip, dense, heading, note, place
from attomaton.lab.kit.table import numbers
from attomaton.lab.kit.work import on_change, watch_in
from attomaton.lab.shelf import Item
from attomaton.lab.training import runs as trainings
from attomaton.lab.training.curves import Curves, Shown
from attomaton.lab.training.form import Form
from attomaton.lab.training.runs import WORK, Going, TrainingRun
from attomaton.lab.training.watch import Watch
from attomaton.lab.view import Screen, View, in_thread
from attomaton.report.text.training import limit_words

COSINES = {"whole": "cosine of W", "outside": "of W outside S_fin"}


class TrainingPage(Page):
    """One run, and maybe another beside it; the run may be the one that is being computed."""

    TITLE = "Train the layer and see it approach its limit"
    STYLES = ("form.css", "watch.css")

    def __init__(self, view: View):
        super().__init__(view)
        self.run: TrainingRun | None = None
        self.beside: TrainingRun | None = None

    async def fill(self) -> None:
        """Form, progress, curves, results, list of runs."""
        view, item, model = self.view, self.view.item, None
        holds = item.kind == "run" and is_folder(item.path / "model", "model")
        if item.kind in ("data", "model") or holds:
            model = await view.model()
            if model is None:
                return
        self.job_place, self.shown_place, self.wrong = place(), place(), place()
        self.watch = Watch(view)
        self.form = None if model is None else Form(view, model, self._start, self._says_form)
        if self.form is None:
            with card():
                note(
                    f"{item.title} is a {item.kind} without a model: to train anew, open a model or data."
                )
        with abreast() as self.controls:
            self.axis = toggle(view, "axis", AXES, "Axis of steps", self.draw)
            self.cosine = toggle(view, "cosine", COSINES, "Which cosine", self.draw)
            zero = note("Step 0 has no place on a log axis; it is in the tables.")
            zero.bind_visibility_from(self.axis, "value", lambda axis: axis == "log")
        with ui.element("div").classes("grid2") as self.curves_place:
            self.curves = Curves()
        self.out_place, self.runs_place = place(), place()
        self.runs = await in_thread(trainings.all_runs, self.lab)
        self._choose_first(item)
        job = WORK.running(self.lab)
        if job is not None:
            self._attach(job)
        self.refresh()

    # What is shown

    def _choose_first(self, item: Item) -> None:
        """The run the address names, the one going on, the item itself, or the newest on this model."""
        with self.view.checked(self.shown_place):
            job, asked = WORK.running(self.lab), self.view.get("run")
            if job is not None and (
                asked == job.about.run.id or (not asked and job.about.item == item.id)
            ):
                self.run = job.about.run
            elif asked:
                self.run = trainings.find_run(self.lab, asked)
            elif item.kind == "run":
                self.run = trainings.read_run(item)
            elif self.form is not None:
                own = str(self.form.model.folder.resolve())
                self.run = next((r for r in self.runs if r.config.get("data") == own), None)
            if self.view.get("beside"):
                self.beside = trainings.find_run(self.lab, self.view.get("beside"))

    def _going(self, run: TrainingRun | None) -> Going | None:
        """A run as it goes on, if that is what is being computed."""
        job = WORK.running(self.lab)
        return job.about if job is not None and run and job.about.run.id == run.id else None

    def choose(self, run: TrainingRun) -> None:
        """Show a run that is over, or the one going on."""
        going = self._going(run)
        self.run = run if going is None else going.run
        self.view.put(run=run.id)
        self.refresh()

    def refresh(self) -> None:
        """Draw everything again."""
        self._about()
        with self.view.checked(self.wrong):
            self.draw()
            self._results()
        self.watch.show(None if self._going(self.run) is not None else self.run)
        self._list()
        self._says()

    def draw(self) -> None:
        """The curves of what is shown."""
        shown = [
            _shown(run, self._going(run)) for run in (self.run, self.beside) if run is not None
        ]
        there = self.run is not None and bool(shown[0].records)  # nothing stands beside nothing
        runs = [one for one in shown if one.records] if there else []
        for part in (self.curves_place, self.controls):
            part.set_visibility(bool(runs))
        if runs:
            self.curves.show(runs, self.axis.value == "linear", self.cosine.value == "outside")

    def _says(self) -> None:
        """The code of the run that is shown; where there is none, of the form."""
        if self.run is None:
            self._says_form()
            return
        with self.view.checked(self.wrong):
            self.view.says(*self.run.code())

    def _says_form(self) -> None:
        if self.form is not None:
            try:
                settings = self.form.asked()
            except AttomatonError:
                self.view.says("", "")
            else:
                folder = str(self.form.model.folder.resolve())
                asked = trainings.Asked(folder, settings, snapshots_of=self.form.watched)
                self.view.says(*asked.code("run"))

    # Parts of the page

    def _about(self) -> None:
        """What is shown: name, status, settings, a way to go on, a second run beside it."""
        run = self.run
        if run is None:
            if not self.shown_place.default_slot.children:
                with self.shown_place:
                    note("No run is shown yet: start one, or choose one of the list.")
            return
        self.shown_place.clear()
        with self.shown_place, card(label="The run that is shown"):
            with abreast():
                heading(f"A: {run.title}" if self.beside else run.title)
                chip(run.ended).classes("status")
                ui.space()
                if run.unfinished and WORK.running(self.lab) is None:
                    button("Resume", self._resume, more="dense")
                self._beside()
            shown = {k: v for k, v in run.config.items() if k != "data" and v is not None}
            note(" · ".join(f"{k} {v}" for k, v in shown.items()))

    def _beside(self) -> None:
        others = {r.id: r.title for r in self.runs if self.run is None or r.id != self.run.id}
        choice = self.beside.id if self.beside is not None and self.beside.id in others else None
        offered = {"": "no other run", **others}
        picker = ui.select(offered, value=choice or "", label="compare with B")
        dense(picker, "beside")

        def chosen(id: str) -> None:
            with self.view.checked(self.wrong):
                self.beside = trainings.find_run(self.lab, id) if id else None
                self.view.put(beside=id or None)
                self.refresh()

        picker.on_value_change(lambda e: chosen(e.value))

    def _results(self) -> None:
        """What came out, as `attomaton train` prints it."""
        self.out_place.clear()
        if self.run is None or not self.run.records:
            return
        with self.out_place, card("What comes out", "results"):
            outcome = self.run.outcome
            said = f"{int(self.run.records['steps'][-1]):,} steps"
            said += "" if outcome.samples is None else f" on {outcome.samples:,} samples"
            said += "" if outcome.loss_floor is None else f"; L* = {outcome.loss_floor:.8g}"
            note(said)
            if outcome.limit_norm is not None and outcome.final is not None:
                eps, named = self.run.config.get("eps"), str(self.run.config.get("optimizer"))
                more: Any = {"eps": eps, "left_out": outcome.left_out, "tied": outcome.tied}
                how = self.run.config.get("loss", "log"), self.run.config.get("head", "identity")
                more["plain"] = how == ("log", "identity")
                note(limit_words(named, outcome.limit_norm, outcome.final, **more))
            numbers(*self.run.finals())
            if self.run.command:
                note(self.run.command).classes("mono")

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
        with self.runs_place, card("Runs", "runs"):
            header = ("run", "data", "optimizer", "steps", "seeds", "ended")
            numbers(header, rows, on_row=lambda i: self.choose(self.runs[i]), page=8)

    # Work

    def _start(self) -> None:
        assert self.form is not None
        with self.view.checked(self.form.wrong):
            form, item = self.form, self.view.item
            asked = form.asked(), form.watched
            self._began(trainings.start(self.lab, item, form.model.folder, *asked))

    def _resume(self) -> None:
        assert self.run is not None
        with self.view.checked(self.wrong):
            self._began(trainings.resume(self.lab, self.view.item, self.run))

    def _began(self, job: Job[Going]) -> None:
        self.run = job.about.run
        self.view.put(run=self.run.id)
        self._attach(job)
        self.refresh()

    def _attach(self, job: Job[Going]) -> None:
        run = job.about.run
        here = self.run is not None and self.run.id == run.id
        elsewhere = None if here else (run.title, self.view.link(run=run.id))
        step = on_change(
            lambda job: len(job.about.so_far["steps"]) if job.about.so_far else 0, self._step
        )
        watch_in(self.view, self.job_place, job, self._ended, step, elsewhere)

    def _step(self, job: Job[Going]) -> None:
        """Draw what came since the last look."""
        if self._going(self.run) is job.about:
            self.draw()

    def _ended(self, job: Job[Going]) -> None:
        self.runs = trainings.all_runs(self.lab)
        if self.run is job.about.run:
            self.run = next((r for r in self.runs if r.id == job.about.run.id), None)
            if self.run is None:  # it failed; the reason is said where its progress was
                self.view.put(run=None)
                self.shown_place.clear()
        self.refresh()


def _shown(run: TrainingRun, going: Going | None) -> Shown:
    records = run.records if going is None else going.so_far or {}
    return Shown(run.title, records, run.config, run.outcome.svm_norm)


SCREEN = Screen("/training", "Training", "show_chart", TrainingPage.build)
