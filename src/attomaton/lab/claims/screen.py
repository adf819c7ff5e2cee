"""The claims: every theorem and figure with its verdict, run here or opened from a folder."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path

from nicegui import ui

from attomaton.base.assets import beside
from attomaton.disk.formats import read_text
from attomaton.lab.claims import records
from attomaton.lab.claims.details import show_details
from attomaton.lab.claims.records import ENDINGS, EVIDENCE, NOT_RUN, WORK
from attomaton.lab.jobs import STOPPED, Job
from attomaton.lab.kit.page import Page
from attomaton.lab.kit.parts import abreast, button, card, chip, dense, note, title
from attomaton.lab.kit.table import sorted_by_keys
from attomaton.lab.kit.work import on_change
from attomaton.lab.view import Screen, View, in_thread
from attomaton.report.figures.verification import words
from attomaton.report.text.verification import HOW_TO_READ, TITLE, headline
from attomaton.results import Checked


class ClaimsPage(Page):
    """The table of claims, what runs them, and one of them in full."""

    STYLES = ("details.css", "screen.css")

    def __init__(self, view: View):
        super().__init__(view)
        self.folder: Path | None = view.item.path if view.item.kind == "verification" else None
        self.records: list[Checked] = []
        self.open = view.get("claim")

    def read(self) -> None:
        """What the disk holds now."""
        evidence = EVIDENCE.of(self.lab)
        if self.folder is not None:
            self.records = evidence.of_folder(self.folder)
        else:
            self.records = evidence.of_lab(self.lab.shelf.workspace)

    async def fill(self) -> None:
        """The whole page."""
        await in_thread(self.read)  # titles of claims load their modules
        with ui.element("div").classes("claims"):
            with ui.row().classes("card-head"):
                title(TITLE)
                ui.space()
                if self.folder is not None:
                    ui.button("Open the report", icon="download", on_click=self._save_report).props(
                        "outline no-caps dense padding='2px 10px'"
                    )
            self.sentence = ui.label().classes("lead").props('id="headline"')
            note(HOW_TO_READ)
            if self.folder is None:
                self._runner()
            self._table()
            self.details = ui.element("div").props('id="claim-details"')
        self.refresh()
        self._show_claim()

    # Running

    def _runner(self) -> None:
        only = self.view.get("only")
        with card(label="Verify"):
            with abreast():
                self.only = ui.input("Claims (empty: all)", value=only, placeholder="T1,S3")
                self.only.props("dense outlined clearable debounce=200").classes("claims-field")
                self.start_button = button("Verify (quick)", self._start)
            self.wrong = ui.element("div")
            self.progress = ui.element("div")
            note(
                "Small problems: about two minutes for all claims, seconds for one. A stop takes hold after the "
                "claim that is being checked; what is finished is kept, and the next start goes on from there."
            )
            self.reports = abreast()

        self.only.on_value_change(self._typed)
        running = WORK.running(self.lab)
        if running is not None:
            self._watch(running)

    def _typed(self) -> None:
        self.view.put(only=self.only.value)
        with self.view.checked(self.wrong):
            self._say(records.asked_claims(self.only.value or ""))

    def _start(self) -> None:
        with self.view.checked(self.wrong):
            self.run(records.asked_claims(self.only.value or ""))

    def run(self, only: list[str] | None) -> None:
        """Start a verification of these claims, of all where none is named."""
        folder = records.run_folder(self.lab.shelf.workspace, only)

        def work(job: Job[None]) -> object:
            from attomaton.jobs.verify import verify_run

            return verify_run(only, quick=True, out=folder, progress=job.progress, force=True)

        self._watch(WORK.start(self.lab, "Verifying", work, None))

    def _watch(self, job: Job[None]) -> None:
        def ended(job: Job[None]) -> None:
            self._update()
            self.start_button.set_enabled(True)
            if job.state == STOPPED:
                ui.notify("Stopped; what was finished is kept.")

        self.start_button.set_enabled(False)
        with self.progress:
            self.view.watch(job, ended, on_change(lambda job: job.done, lambda _: self._update()))

    def _update(self) -> None:
        """Show what has been finished meanwhile."""
        before = self._record()
        self.read()
        self.refresh()
        if self._record() != before:
            self._show_claim()

    # The table

    def _table(self) -> None:
        view = self.view
        with card(label="Claims"):
            with abreast():
                self.verdict = dense(ui.select({}, label="Verdict"), "claims-field")
                self.text = ui.input("Search", value=view.get("find")).classes("claims-field")
                self.text.props(
                    'dense outlined clearable debounce="150" aria-label="Search claims"'
                )
                self.note = note()
            self.table = ui.table(columns=_COLUMNS, rows=[], row_key="claim", pagination=0)
            self.table.classes("numbers choosable claims-table").props("dense flat hide-pagination")
            self.table.add_slot("body", _BODY)
            sorted_by_keys(self.table)
        self.table.on("choose", lambda e: self.choose(str(e.args)))
        self.table.on("check", lambda e: self._check(str(e.args)))

        def put() -> None:
            view.put(verdict=self.verdict.value, find=self.text.value)
            self.refresh()

        self._offer(view.get("verdict"))
        self.verdict.on_value_change(put)
        self.text.on_value_change(put)

    def _offer(self, chosen: str | None) -> None:
        """The verdicts to choose from, each with its number."""
        count = Counter(map(records.ending, self.records))
        every = {"": f"all ({len(self.records)})"}
        every |= {name: f"{name} ({count[name]})" for name in ENDINGS}
        self.verdict.set_options(every, value=chosen if chosen in every else "")

    def refresh(self) -> None:
        """The rows that are wanted, as they are now."""
        self._offer(self.verdict.value)
        found = records.shown(self.records, self.verdict.value or "", self.text.value or "")
        can = self.folder is None and self.view.lab.allow_run and WORK.running(self.lab) is None
        self.table.rows = [
            {**asdict(records.table_row(r)), "here": r.claim == self.open, "can": can}
            for r in found
        ]
        self.table.update()
        self.note.set_text(f"{len(found)} of {len(self.records)} shown")
        known = [r for r in self.records if records.ending(r) != NOT_RUN]
        said = headline(known) if known else "Nothing has been run yet."
        if unknown := len(self.records) - len(known):
            said += f" {unknown} {'has' if unknown == 1 else 'have'} not been run yet."
        self.sentence.set_text(said)
        one = [self.open] if self._record() else None
        if self.folder is None:
            self.reports.clear()
            # Verifications that are finished, each with its own report.
            folders = [i for i in self.lab.shelf.items() if i.kind == "verification"]
            with self.reports:
                if folders:
                    note("Finished:")
                for item in folders:
                    chip(item.title, self.view.link("/claims", item))
            with self.view.checked(self.wrong):
                only = records.asked_claims(self.view.get("only"))
                self._say(one or only)
        else:
            self.view.says(*records.folder_code(self.folder, one))

    def _say(self, only: list[str] | None) -> None:
        begun = records.is_begun(records.run_folder(self.view.lab.shelf.workspace, only))
        self.start_button.set_text("Go on (quick)" if begun else "Verify (quick)")
        self.view.says(*records.code(only))

    # One claim

    def _record(self) -> Checked | None:
        return next((r for r in self.records if r.claim == self.open), None)

    def choose(self, claim: str) -> None:
        """Open a claim, or close the one that is open."""
        known = any(r.claim == claim for r in self.records)
        self.open = claim if known and claim != self.open else ""
        self.view.put(claim=self.open)
        self.refresh()
        self._show_claim()
        if self.open:
            ui.run_javascript(
                "document.getElementById('claim-details').scrollIntoView({block: 'start'})"
            )

    def _check(self, claim: str) -> None:
        with self.view.checked(self.wrong):
            self.run(records.asked_claims(claim))
            self.refresh()

    def _show_claim(self) -> None:
        self.details.clear()
        record = self._record()
        if record is None:
            return
        row = records.table_row(record)
        with self.details, card(label=f"Claim {record.claim}"):
            with abreast():
                title(f"{record.claim}: {row.title}").props("aria-level=2")
                ui.label(row.verdict).classes(f"claim-mark {row.verdict_kind}")
            if records.ending(record) == NOT_RUN:
                ui.label(words(record.statement))
                if record.paper:
                    note(f"In the paper: {record.paper}.")
                note("Not run yet.")
            else:
                show_details(record)

    async def _save_report(self) -> None:
        with self.view.checked():
            folder = self.folder
            assert folder is not None
            content = await in_thread(lambda: read_text(folder / "report.html"))
            ui.download.content(content.encode(), f"{folder.name}.html", "text/html")


_COLUMNS = [
    {"name": name, "label": label, "field": name, "sortable": bool(label), "align": align}
    for name, label, align in (
        ("claim", "claim", "left"),
        ("verdict", "verdict", "left"),
        ("title", "what it says", "left"),
        ("control", "control", "left"),
        ("figures", "measured", "left"),
        ("seconds", "s", "right"),
        ("can", "", "right"),
    )
]
# Symbol, word and colour say the verdict; text reaches the page through Vue alone.
_BODY = beside(__file__, "row.vue")


SCREEN = Screen("/claims", "Claims", "fact_check", ClaimsPage.build, wants=("verification",))
