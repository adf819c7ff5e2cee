"""The lens: what was learned, told to a person, of the whole model, one last token or one document."""

from collections.abc import Iterable
from functools import partial

from nicegui import ui

from attomaton.lab.jobs import RUNNING, STOPPED, Job
from attomaton.lab.kit.page import ModelPage
from attomaton.lab.kit.parts import icon_button, note
from attomaton.lab.kit.parts import title as page_title
from attomaton.lab.kit.table import linked_table
from attomaton.lab.lens.charts import draw_levels, draw_probability, draw_ranks, draw_shares
from attomaton.lab.lens.choices import PATIENCE, Choices
from attomaton.lab.lens.records import (
    RECORDS,
    Subject,
    code,
    last_token_record,
    page,
    page_name,
    text_path,
)
from attomaton.lab.lens.tables import Cells, linked_cells, own_sections
from attomaton.lab.lens.text import DocumentText
from attomaton.lab.opened import Opened
from attomaton.lab.view import Screen, View, in_thread
from attomaton.report.text.summary import Section, in_words, sections, title
from attomaton.summaries.records import ModelSummary, Summary

NARROW = 6  # columns of a table that may stand beside another one
LONG = 60  # characters of a cell that needs a wide table


class LensPage(ModelPage):
    """One page of the lens: choices above, what is under the lens below."""

    STYLES = ("choices.css", "screen.css")

    def __init__(self, view: View, model: Opened):
        super().__init__(view, model)
        self.records = RECORDS.of(view.lab)
        self.choices = Choices(view, model, self.records)

    async def fill(self) -> None:
        """Both halves."""
        await self.choices.fill(self.look)
        self.place = ui.element("div").classes("lens")
        await self.look()

    async def look(self) -> None:
        """What is under the lens, as soon as it is known."""
        view, model, subject = self.view, self.model, self.choices.subject
        with view.checked(self.place):
            if not self._there(subject.checked()):
                return
            view.says(*code(model, subject))
            if self.records.find(model, subject) is None:
                job = view.lab.jobs.start(
                    f"lens {model.folder} {subject}", "Looking",
                    lambda job: self.records.make(model, subject, job.progress),
                )  # fmt: skip
                with self.place:
                    # Drawing twice takes longer than waiting.
                    if not await view.waited(job, partial(self._ended, subject), PATIENCE):
                        return await self._meanwhile(job, subject)
            self._show(subject)

    def _there(self, subject: Subject) -> bool:
        """Whether the subject can be looked at now; an error where it never can."""
        if subject.last:
            self.model.last_id(subject.last)
        if subject.document:
            text_path(self.model)
            if self.choices.documents is None:
                return False  # they are being read, or cannot be: either is said above
            self.choices.documents.find(subject.document)
        return True

    def _ended(self, subject: Subject, job: Job) -> None:
        if subject == self.choices.subject and self.records.find(self.model, subject):
            self.place.clear()
            self._show(subject)
        elif job.state == STOPPED:
            with self.place:
                note("Stopped. Open the page again to go on.")

    async def _meanwhile(self, job: Job, subject: Subject) -> None:
        """What a last token's own samples say, while the others are compared."""
        if subject.last:
            record = await in_thread(last_token_record, self.model, subject)
            if job.state == RUNNING and subject == self.choices.subject:
                with self.place:
                    page_title(title(record))
                    self._tables(record, own_sections(record))

    def _show(self, subject: Subject) -> None:
        record = self.records.find(self.model, subject)
        if record is None:
            return
        command, _ = code(self.model, subject)

        async def save() -> None:
            text = await in_thread(page, record, command)
            ui.download.content(text, page_name(record), "text/html")

        with self.place:
            with ui.row().classes("card-head"):
                page_title(title(record))
                ui.space()
                icon_button("save_alt", "Save as page", save)
            ui.label(in_words(record)).classes("lead").props('id="in-words"')
            three = record.subject == "model" and record.levels
            with ui.element("div").classes("grid3" if three else "lens-beside"):
                draw_shares(record)
                if record.subject == "model":
                    draw_probability(record)
                if record.levels:
                    draw_levels(record)
            if (read := self.records.text(self.model, subject)) is not None:
                DocumentText(self.view, self.model, read)
            if not isinstance(record, ModelSummary) and record.points:
                draw_ranks(record, self._open)
            self._tables(record, range(len(sections(record))))

    def _tables(self, record: Summary, chosen: Iterable[int]) -> None:
        """The tables: narrow ones side by side."""
        every = sections(record)
        cells = linked_cells(record, every, self.choices.links())
        beside = None
        for i in chosen:
            s = every[i]
            if _is_wide(s, cells[i]):
                beside = None
            elif beside is None:
                beside = ui.element("div").classes("lens-beside")
            with self.place if beside is None else beside:
                linked_table(
                    s["heading"], s["note"], s["header"], s["rows"], cells[i], name=f"table-{i + 1}"
                )

    def _open(self, token: str | int) -> None:
        links, last = self.choices.links(), self.choices.subject.last
        ui.navigate.to(links.lens(token) or links.graph(last, token) or self.view.link("/lens"))


def _is_wide(section: Section, cells: Cells) -> bool:
    """Whether a table needs all of the page: many columns, several links in a cell, or much text."""
    several = any(len(parts) > 1 for parts in cells.values())
    long = any(isinstance(x, str) and len(x) > LONG for row in section["rows"] for x in row)
    return several or long or len(section["header"]) > NARROW


SCREEN = Screen("/lens", "Lens", "search", LensPage.build)
