"""What can be put under the lens: a search for last tokens, the list of documents, the size of tables."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from attomaton.corpus.documents import SPLITS, Documents
from attomaton.corpus.terms import MAX_DF
from attomaton.errors import AttomatonError
from attomaton.lab.jobs import DONE, FAILED, RUNNING, Job
from attomaton.lab.kit.parts import abreast, card, chip, dense, note, place
from attomaton.lab.lens.records import (
    TOP,
    Records,
    Subject,
    document_name,
    first_split,
    splits,
    text_path,
)
from attomaton.lab.lens.tables import Links
from attomaton.lab.opened import Opened
from attomaton.lab.view import View, in_thread

MOST_ROWS = 200  # of a table that a page may ask for
LISTED = 50  # documents in the list at once
FOUND = 10  # last tokens in the list at once
PATIENCE = 1.0  # seconds before progress is shown instead of waiting


def asked(view: View) -> Subject:
    """The subject an address names; what is no number there is the default."""
    top, split = view.number("top", float(TOP)), view.get("split")
    return Subject(
        last=view.get("last"),
        document=view.get("doc"),
        split=split if split in SPLITS else "",
        top=int(min(top, MOST_ROWS)),
        max_df=view.number("max_df", MAX_DF),
    )


class Choices:
    """The upper half of the lens; `documents` are those of the text, once they are read, cut as `split` says."""

    def __init__(self, view: View, model: Opened, records: Records):
        self.view, self.model, self.records = view, model, records
        self.subject = asked(view)
        self.documents: Documents | None = None
        self._cut(self.subject.split)

    async def fill(self, changed: Callable[[], Any]) -> None:
        """Show them; `changed` is called when the size of tables is."""
        with card("", "lens-choices", label="What to look at"):
            with ui.element("div"):
                self._search()
            with ui.element("div") as self.shelf:
                pass
            with ui.element("div"):
                self._settings(changed)
        await self._read_documents()

    def links(self) -> Links:
        """Where words and documents lead."""
        name = str if self.documents is None else partial(document_name, self.documents)
        return Links(self.view, self.model, name)

    def _search(self) -> None:
        view, model, links = self.view, self.model, self.links()
        field = ui.input("Last token", value=view.get("find")).props(
            'dense outlined clearable debounce="150" aria-label="Search last tokens"'
        )
        wrong = place()
        found = abreast().props('role="group" aria-label="Last tokens"')
        total = len(model.lasts["last"])
        note(f"{total:,} last token{'s' * (total != 1)}, the heaviest first, with their samples.")

        refused = ""

        def show() -> None:
            found.clear()
            if (field.value or "").strip() != refused:  # which may come a moment after Enter
                wrong.clear()
            with found:
                for row in model.search(field.value or "", FOUND):
                    with ui.link(target=links.lens(row.last)).classes("chip"):
                        ui.label(row.name)
                        note(f"{row.weight:,.12g}")

        leaving = False

        def typed() -> None:
            if not leaving:
                view.put(find=field.value)
                show()

        def chosen(e: GenericEventArguments) -> None:
            nonlocal leaving, refused
            word = refused = str(e.args or "").strip()
            if word:
                with view.checked(wrong):
                    model.last_id(word)
                    leaving = True
                    view.go(None, None, last=word, **links.kept)

        field.on_value_change(typed)
        # What the field holds now: its value comes a moment after the last letter.
        field.on("keydown.enter", chosen, js_handler="(e) => emit(e.target.value)")
        show()

    def _settings(self, changed: Callable[[], Any]) -> None:
        view, last = self.view, self.subject.last
        with abreast():
            chip("The whole model", view.link("/lens", None, **self.links().kept))
            if last:
                chip("Its graph", view.link("/graph", last=last))
                chip("Its automaton", view.link("/automaton", last=last))
        with abreast():
            top = ui.number("Rows of tables", value=self.subject.top, min=1, max=MOST_ROWS)
            share = ui.number(
                "Most documents", value=self.subject.max_df, min=0.01, max=1, step=0.05
            )
            for field in (top, share):
                field.props("dense outlined debounce=400").classes("lens-field")
        note("Terms in a larger share of the documents are left out of TF-IDF.")

        async def put() -> None:
            rows = None if top.value in (None, TOP) else int(top.value)
            view.put(top=rows, max_df=None if share.value in (None, MAX_DF) else float(share.value))
            self.subject = asked(view)
            self._cut(self.split)
            await changed()

        top.on_value_change(put)
        share.on_value_change(put)

    # Documents

    def _cut(self, split: str) -> None:
        """The subject, with the split its documents have; what is no document is the same however they are cut."""
        self.split = split
        self.subject = replace(self.subject, split=split if self.subject.document else "")

    async def _read_documents(self) -> None:
        """The list of documents, or why there is none; a large text is read by a job."""
        view, model, wanted = self.view, self.model, self.split
        try:
            text_path(model)
        except AttomatonError as error:
            with self.shelf:
                note(f"No documents: {self._named(str(error))}")
            return

        def read(_: Job) -> str:
            split = wanted or first_split(model, self.records)
            self.records.documents(model, split)
            return split

        job = view.lab.jobs.start(f"documents {model.folder} {wanted}", "Reading documents", read)
        await in_thread(job.wait, PATIENCE)
        if job.state != RUNNING:
            self._list(job)
            return

        def ended(_: Job) -> None:
            # A page that waits for one of them begins anew.
            ui.navigate.reload() if self.subject.document else self._list(job)

        with self.shelf:
            view.watch(job, ended)

    def _list(self, job: Job) -> None:
        view = self.view
        if job.state == FAILED:
            with self.shelf:
                view.problem(self._named(job.error))
        if job.state != DONE:
            return
        documents = self.documents = self.records.documents(self.model, str(job.result))
        self._cut(str(job.result))
        links, here = self.links(), self._here(documents)
        with self.shelf:
            with abreast():
                field = ui.input("Document", value=view.get("filter")).classes("lens-field")
                field.props('dense outlined clearable debounce="150" aria-label="Filter documents"')
                if len(splits(self.model)) > 1:
                    cuts = ui.select(list(splits(self.model)), value=self.split, label="Cut into")
                    dense(cuts, "lens-field").on_value_change(
                        lambda e: view.go(None, None, split=e.value, **links.kept)
                    )
            listed = ui.element("ul").classes("lens-documents").props('aria-label="Documents"')
            said = note()

        def show() -> None:
            listed.clear()
            word = (field.value or "").strip().casefold()
            found = [i for i, title in enumerate(documents.titles) if word in title.casefold()]
            with listed:
                for i in found[:LISTED]:
                    part = links.document(i, f"{i} · {documents.titles[i]}")
                    with ui.element("li"):
                        link = ui.link(part.text, part.to)
                        link.props('aria-current="true"' if i == here else "")
            shown = "" if len(found) <= LISTED else f"; the first {LISTED} are shown"
            said.set_text(f"{len(found):,} of {len(documents):,} documents{shown}.")

        def typed() -> None:
            view.put(filter=field.value)
            show()

        field.on_value_change(typed)
        show()

    def _here(self, documents: Documents) -> int:
        try:
            return documents.find(self.subject.document) if self.subject.document else -1
        except AttomatonError:
            return -1

    def _named(self, message: str) -> str:
        """An error about a kept file speaks of its title."""
        return message.replace(str(self.view.item.path), self.view.item.title)
