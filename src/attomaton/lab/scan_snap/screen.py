"""The scan-and-snap screen: how attention drops tokens, then freezes, at a time the two learning rates decide."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from nicegui import ui
from nicegui.events import GenericEventArguments

from attomaton.lab.jobs import DONE, RUNNING, STOPPED, Job
from attomaton.lab.kit.page import Page
from attomaton.lab.kit.parts import abreast, button, card, dense, note
from attomaton.lab.scan_snap import charts as draw
from attomaton.lab.scan_snap import panels, runs
from attomaton.lab.scan_snap.runs import DATA, RUN, SEEN_FIRST, Result, Waiting
from attomaton.lab.scan_snap.scrubber import Recorded, Scrubber, stops
from attomaton.lab.scan_snap.settings import Settings
from attomaton.lab.view import Screen, View, in_thread, whole
from attomaton.scan_snap.data import SequenceClasses

PAUSE = 0.3  # seconds after the last change of a setting before it is computed


class ScanSnapPage(Page):
    """One tab on this screen. The address holds every setting; what is drawn follows from it."""

    TITLE = "Scan and snap: how attention gets to its end point"
    STYLES = ("screen.css", "panels.css", "settings.css")

    def __init__(self, view: View):
        super().__init__(view)
        if "classes" not in view.settings:
            # A run of `attomaton dynamics` that is open gives the settings of a bare address.
            view.settings = {**(runs.run_settings(view.item) or SEEN_FIRST), **view.settings}
        self.asked = runs.read_asked(view.settings)
        self.job: Job[Waiting] | None = None
        self.changes: dict[str, str | None] = {}
        self.timers: dict[Callable[[], Any], ui.timer] = {}
        self.sides: list[dict[str, Result]] = []
        self.columns: list[panels.Column] = []
        self.shown, self.n = "", 0  # level and class of the attention
        self.drawn = 0  # levels of the present question that are on screen
        self.numbered: object = None  # what the table of numbers shows

    async def fill(self) -> None:
        """Put the page together and ask for what its address says."""
        ui.label(
            "Training first scans: attention leaves the tokens that many classes share and gathers on the likeliest "
            "tokens of each class. Then it snaps: the decoder has learned, its signal fades, attention stays as it is. "
            "The learning rates of decoder (η_Y) and attention (η_Z) decide when, and how far it got."
        ).classes("lead")
        # Classes of what is open, beside the families.
        item, offered = self.view.item, {}
        if item.home == "/":
            offered[DATA] = f"labels of {item.title}"
        if runs.run_settings(item).get("classes") == RUN:
            offered[RUN] = f"classes of {item.title}"
        self.settings = Settings(self.asked, self.change, offered)
        self.clock = ui.element("div").classes("hidden")
        self.status = ui.element("div").classes("pile")
        self.area = ui.element("div").classes("pile")
        await self._ask()

    async def _ask(self) -> None:
        """Read the question of the address, with classes of what is open, and show the answer."""
        self.asked = runs.read_asked(self.view.settings)
        asked = self.view.settings.get("classes", "")
        self.status.clear()
        with self.status, self.view.checked():
            if asked in (DATA, RUN):
                own = await in_thread(runs.own_classes, self.view.lab, self.view.item, asked)
                self.asked = replace(self.asked, own=own)
            await in_thread(runs.stored, self.view.lab, self.view.item, self.asked)
            self.settings.follow(self.asked)
            self.compute()

    # What is asked: a change goes into the address, then the question is read from there again

    def change(self, **settings: str | None) -> None:
        """Take note of new settings; they are computed when nothing more has changed for a moment."""
        self.changes |= settings
        self._later(PAUSE, self._changed)

    async def _changed(self) -> None:
        self.view.put(**self.changes)
        self.changes.clear()
        await self._ask()

    def _later(self, seconds: float, do: Callable[[], Any]) -> None:
        """Do something once nothing has asked for it again for a while."""
        if do in self.timers:
            self.timers[do].cancel()
        with self.clock:
            self.timers[do] = ui.timer(seconds, do, once=True)

    # What is computed: results of before are there at once

    def compute(self) -> None:
        """Show what is known for the present settings, and start what is not."""
        if self.job is not None and self.job.state == RUNNING:
            self.job.about.pages -= 1
        self.job, self.drawn = None, 0
        self.status.clear()
        with self.status, self.view.checked():
            self._draw()
            if self.drawn < len(self.asked.levels) or not self.asked.levels:
                self.job = runs.compute(self.view.lab, self.asked)
                self.view.watch(self.job, self._ended, self._looked)
                return
        if not self.drawn:
            self._forget()

    def _looked(self, job: Job[Waiting]) -> None:
        if job is self.job and self.drawn < job.done // len(self.asked.rates):
            self._draw()

    def _ended(self, job: Job[Waiting]) -> None:
        if job is not self.job:
            return
        self._draw()
        if job.state == DONE and self.drawn < len(self.asked.levels):
            self.compute()  # another page had given it up half-way
        elif job.state == STOPPED:
            with self.status:
                button("Compute", self.compute, more="dense")
        elif job.state != DONE:
            self._forget()

    def _forget(self) -> None:
        """Take away what does not belong to the present settings."""
        self.area.clear()
        self.sides, self.columns = [], []

    # What is drawn

    def _draw(self) -> None:
        """Draw the levels that are there; as long as there is none, what was drawn before stays."""
        self.view.says(self.asked.command(), self.asked.python())
        sides = runs.found(self.view.lab, self.asked)
        if not sides[0]:
            return
        if len(self.columns) != len(sides):
            self._lay_out(len(sides))
        self.sides, self.drawn = sides, len(sides[0])
        asked = self.view.get("shown", "limit")
        self.shown = asked if asked in sides[0] else list(sides[0])[-1]
        run = sides[0][self.shown].run
        self.n = whole(self.view.get("class"), 0, run.classes.K - 1)
        self._follow(run.classes)
        last = len(run.t) - 1
        now = whole(self.view.get("t"), last, last)
        records = stops(last + 1, len(draw.tokens_of(run.classes, self.n).at))
        start = min(range(len(records)), key=lambda i: abs(records[i] - now))
        scales = draw.scales_of(sides, self.shown, self.n)
        for rates, side, column in zip(self.asked.rates, sides, self.columns, strict=True):
            column.show(rates, side, self.shown, self.n, records[start], scales)
        self._scrub(run.t, records, start)

    def _lay_out(self, count: int) -> None:
        self.area.clear()
        self.numbered = None
        with self.area:
            self.numbers = ui.element("div").classes("w-full")
            with card(classes="scrub", label="Time and class"):
                with abreast():
                    self.scrubber = Scrubber()
                    self.of_class = dense(ui.select({}, label="class"), "choose")
                    self.of_level = dense(ui.select([], label="attention on level"), "choose")
                self.thinned = note()
            with ui.element("div").classes("grid2"):
                self.columns = [panels.Column(count > 1) for _ in range(count)]
        self.scrubber.on("settle", self._settle)
        self.of_class.on_value_change(lambda e: self._choose("class", self.n, e.value))
        self.of_level.on_value_change(lambda e: self._choose("shown", self.shown, e.value))

    def _follow(self, classes: SequenceClasses) -> None:
        """Bring choices and numbers in line with what is drawn."""
        of = [
            f"{n}: {classes.names[q]} → {classes.names[x]}"
            for n, (q, x) in enumerate(zip(classes.query_of, classes.next_of, strict=True))
        ]
        self.of_class.set_options(dict(enumerate(of)), value=self.n)
        self.of_level.set_options(list(self.sides[0]), value=self.shown)
        if self.numbered != (self.asked, self.drawn):
            self.numbered = self.asked, self.drawn
            self.numbers.clear()
            with self.numbers:
                panels.show_numbers(self.asked, self.sides)

    def _choose(self, name: str, before: object, after: object) -> None:
        if after is not None and after != before:
            self.view.put(**{name: after})
            self._draw()

    # Time: the browser goes there by itself

    def _scrub(self, t: np.ndarray, records: list[int], start: int) -> None:
        """Send what the scrubber moves, and say where it passes over recorded times."""
        moments = tuple(f"t = {draw.moment(t[i])}" for i in records)
        sides = tuple(column.at(records) for column in self.columns)
        self.scrubber.show(Recorded(self.asked.classes, tuple(records), moments, sides), start)
        few = len(records) < len(t)
        self.thinned.set_text(
            f"Time moves over {len(records):,} of {len(t):,} recorded times." if few else ""
        )
        self.thinned.set_visibility(few)

    def _settle(self, e: GenericEventArguments) -> None:
        """The moment where the scrubber rests goes into the address, and into the tables and files of the bars."""
        now = e.args
        if isinstance(now, int) and all(0 <= now < len(column.t) for column in self.columns):
            self.view.put(t=now)
            for column in self.columns:
                column.settle(now)


SCREEN = Screen("/scan-snap", "Scan and snap", "center_focus_strong", ScanSnapPage.build)
