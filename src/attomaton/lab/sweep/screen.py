"""The sweep screen: grids of scan-and-snap settings as heat maps, started, continued and looked into cell by cell."""

from pathlib import Path

from nicegui import ui

from attomaton.errors import AttomatonError
from attomaton.folders.sweep import read_sweep
from attomaton.lab.jobs import DONE, Job
from attomaton.lab.kit.page import Page
from attomaton.lab.kit.parts import abreast, card, chip, place
from attomaton.lab.kit.work import on_change, watch_in
from attomaton.lab.sweep.form import Form
from attomaton.lab.sweep.panels import Panels
from attomaton.lab.sweep.runs import WORK, Going, launch, sweep_code
from attomaton.lab.view import Screen, in_thread


class SweepPage(Page):
    """The sweep that is open, if one is; those there are; the form of a new one."""

    TITLE = "Scan and snap over a grid of settings"
    STYLES = ("form.css",)
    panels: Panels | None = None

    async def fill(self) -> None:
        """Progress, the sweep, the list, the form."""
        view = self.view
        self.job_place, self.wrong = place(), place()
        if view.item.kind == "sweep":
            with view.checked():
                sweep = await in_thread(read_sweep, view.item.path)
                self.panels = Panels(view, sweep, self._resume, self._says)
        shelf = self.lab.shelf
        others = [i for i in shelf.items() if i.kind == "sweep" and i.id != view.item.id]
        if others:
            with card("Other sweeps" if self.panels else "Sweeps", label="Sweeps"), abreast():
                for item in others:
                    chip(item.title, view.link(item=item))
        self.form = Form(view, self._start, self._says, opened=self.panels is None)
        job = WORK.running(self.lab)
        if job is not None:
            self._attach(job)
        self._says()

    def _says(self) -> None:
        """The code of the sweep that is shown; without one, of the form."""
        if self.panels is not None:
            self.view.says(*self.panels.code())
            return
        try:
            asked = self.form.asked()
        except AttomatonError:
            self.view.says("", "")
        else:
            self.view.says(*sweep_code(Path("sweep"), asked))

    # Work

    async def _start(self) -> None:
        with self.view.checked(self.form.wrong):
            job = launch(self.lab, self.form.asked())
            await in_thread(job.about.there.wait, 10.0)
            self.view.go(item=self.lab.shelf.find(job.about.id))

    def _resume(self) -> None:
        assert self.panels is not None
        with self.view.checked(self.wrong):
            self._attach(launch(self.lab, self.panels.sweep, self.view.item.path))
            self.panels.refresh()

    def _attach(self, job: Job[Going]) -> None:
        id = job.about.id
        elsewhere = None if id == self.view.item.id else (job.about.title, f"./sweep?on={id}")
        step = on_change(lambda job: job.done, self._step)
        watch_in(self.view, self.job_place, job, self._ended, step, elsewhere)

    def _step(self, job: Job[Going]) -> None:
        """Read and draw what came since the last look."""
        if self.panels is not None and job.about.id == self.view.item.id:
            with self.view.checked(self.wrong):
                self.panels.sweep = read_sweep(self.view.item.path)
                self.panels.refresh()

    def _ended(self, job: Job[Going]) -> None:
        self._step(job)
        if job.state == DONE and self.panels is None:
            ui.navigate.reload()


SCREEN = Screen("/sweep", "Sweep", "grid_on", SweepPage.build, wants=("sweep",))
