"""The claims: every theorem and figure with its verdict, run here or opened from a folder."""

from collections import Counter
from pathlib import Path
from typing import Any

from nicegui import ui

from attomaton.disk.formats import read_text
from attomaton.errors import UsageError
from attomaton.lab.claims import details as claims_details
from attomaton.lab.claims.details import show_details
from attomaton.lab.claims.records import (
    ENDINGS,
    NOT_RUN,
    Evidence,
    asked_claims,
    code,
    ending,
    folder_code,
    is_begun,
    run_folder,
    shown,
    table_row,
)
from attomaton.lab.jobs import STOPPED, Job
from attomaton.lab.view import Screen, View, in_thread
from attomaton.report.figures.verification import words
from attomaton.report.text.verification import HOW_TO_READ, TITLE, headline
from attomaton.results import Checked

KEY = "verify "  # of jobs

CSS = (
    claims_details.CSS
    + """
.claims { display: flex; flex-direction: column; gap: 1rem; min-width: 0; }
.claims-table td { white-space: normal !important; vertical-align: top; }
.claims-table .title-cell { min-width: 12rem; }
.claims-table tr.here td { background: var(--fill); }
.claims-table small { color: var(--soft); display: block; line-height: 1.35; white-space: pre-line; font-size: .8rem; }
@media (max-width: 700px) { /* a claim's own card says the rest */
  .claims-table :is(th, td):is(:nth-child(4), :nth-child(5)) { display: none; } }
.claims-field { flex: 1 1 10rem; max-width: 24rem; }
"""
)


async def build(view: View) -> None:
    """Fill the page."""
    ui.add_css(CSS)
    page = Page(view)
    with view.checked():
        await in_thread(page.read)  # titles of claims load their modules
        page.fill()


class Page:
    """The table of claims, what runs them, and one of them in full."""

    def __init__(self, view: View):
        self.view = view
        self.evidence: Evidence = view.lab.kept.setdefault("claims", Evidence())
        self.folder: Path | None = view.item.path if view.item.kind == "verification" else None
        self.records: list[Checked] = []
        self.open = view.get("claim")

    def read(self) -> None:
        """What the disk holds now."""
        if self.folder is not None:
            self.records = self.evidence.of_folder(self.folder)
        else:
            self.records = self.evidence.of_lab(self.view.lab.shelf.workspace)

    def fill(self) -> None:
        """The whole page."""
        with ui.element("div").classes("claims"):
            with ui.row().classes("card-head"):
                ui.label(TITLE).classes("title").props('role="heading" aria-level="1"')
                ui.space()
                if self.folder is not None:
                    ui.button("Open the report", icon="download", on_click=self._save_report).props(
                        "outline no-caps dense padding='2px 10px'"
                    )
            self.sentence = ui.label().classes("lead").props('id="headline"')
            ui.label(HOW_TO_READ).classes("note")
            if self.folder is None:
                self._runner()
            self._table()
            self.details = ui.element("div").props('id="claim-details"')
        self.refresh()
        self._show_claim()

    # Running

    def _runner(self) -> None:
        view = self.view
        with ui.element("section").classes("card").props('aria-label="Verify"'):
            with ui.element("div").classes("abreast"):
                only = ui.input("Claims (empty: all)", value=view.get("only"), placeholder="T1,S3")
                only.props("dense outlined clearable debounce=200").classes("claims-field")
                self.start_button = ui.button("Verify (quick)", icon="play_arrow")
                self.start_button.props("unelevated no-caps")
            self.wrong = ui.element("div")
            self.progress = ui.element("div")
            ui.label(
                "Small problems: about two minutes for all claims, seconds for one. A stop takes hold after the "
                "claim that is being checked; what is finished is kept, and the next start goes on from there."
            ).classes("note")
            with ui.element("div").classes("abreast") as self.reports:
                pass

        def typed() -> None:
            view.put(only=only.value)
            with view.checked(self.wrong):
                self._say(asked_claims(only.value or ""))

        def start() -> None:
            with view.checked(self.wrong):
                self.run(asked_claims(only.value or ""))

        only.on_value_change(typed)
        self.start_button.on_click(start)
        running = self._running()
        if running is not None:
            self._watch(running)

    def _running(self) -> Job | None:
        return next((j for j in self.view.lab.jobs.running() if j.key.startswith(KEY)), None)

    def run(self, only: list[str] | None) -> None:
        """Start a verification of these claims, of all where none is named."""
        view = self.view
        view.lab.may_start()
        if self._running() is not None:
            raise UsageError("a verification is running already; wait for it, or stop it.")
        folder = run_folder(view.lab.shelf.workspace, only)

        def work(job: Job) -> dict[str, Any]:
            from attomaton.jobs.verify import verify_run

            return verify_run(only, quick=True, out=folder, progress=job.progress, force=True)

        self._watch(view.lab.jobs.start(f"{KEY}{folder.name}", "Verifying", work))

    def _watch(self, job: Job) -> None:
        seen = -1

        def step(job: Job) -> None:
            nonlocal seen
            if job.done != seen:
                seen = job.done
                self._update()

        def ended(job: Job) -> None:
            self._update()
            self.start_button.set_enabled(True)
            if job.state == STOPPED:
                ui.notify("Stopped; what was finished is kept.")

        self.start_button.set_enabled(False)
        with self.progress:
            self.view.watch(job, ended, step)

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
        with ui.element("section").classes("card").props('aria-label="Claims"'):
            with ui.element("div").classes("abreast"):
                self.verdict = ui.select({}, label="Verdict").classes("claims-field")
                self.verdict.props("dense outlined options-dense")
                text = ui.input("Search", value=view.get("find")).classes("claims-field")
                text.props('dense outlined clearable debounce="150" aria-label="Search claims"')
                self.note = ui.label().classes("note")
            self.table = ui.table(columns=_COLUMNS, rows=[], row_key="claim", pagination=0)
            self.table.classes("numbers choosable claims-table").props("dense flat hide-pagination")
            self.table.add_slot("body", _BODY)
        self.table.on("choose", lambda e: self.choose(str(e.args)))
        self.table.on("check", lambda e: self._check(str(e.args)))

        def put() -> None:
            view.put(verdict=self.verdict.value, find=text.value)
            self.refresh()

        self.text = text
        self._offer(view.get("verdict"))
        self.verdict.on_value_change(put)
        text.on_value_change(put)

    def _offer(self, chosen: str | None) -> None:
        """The verdicts to choose from, each with its number."""
        count = Counter(map(ending, self.records))
        every = {"": f"all ({len(self.records)})"}
        every |= {name: f"{name} ({count[name]})" for name in ENDINGS}
        self.verdict.set_options(every, value=chosen if chosen in every else "")

    def refresh(self) -> None:
        """The rows that are wanted, as they are now."""
        self._offer(self.verdict.value)
        found = shown(self.records, self.verdict.value or "", self.text.value or "")
        can = self.folder is None and self.view.lab.allow_run and self._running() is None
        self.table.rows = [
            {**table_row(r), "here": r.claim == self.open, "can": can} for r in found
        ]
        self.table.update()
        self.note.set_text(f"{len(found)} of {len(self.records)} shown")
        known = [r for r in self.records if ending(r) != NOT_RUN]
        unknown = len(self.records) - len(known)
        rest = (
            f" {unknown} {'has' if unknown == 1 else 'have'} not been run yet." if unknown else ""
        )
        self.sentence.set_text((headline(known) if known else "Nothing has been run yet.") + rest)
        if self.folder is None:
            self._list_reports()
            self._say_now()
        else:
            self.view.says(*folder_code(self.folder, [self.open] if self._record() else None))

    def _list_reports(self) -> None:
        """Verifications that are finished, each with its own report."""
        folders = [i for i in self.view.lab.shelf.items() if i.kind == "verification"]
        self.reports.clear()
        with self.reports:
            if folders:
                ui.label("Finished:").classes("note")
            for item in folders:
                ui.link(item.title, self.view.link("/claims", item)).classes("chip")

    def _say_now(self) -> None:
        with self.view.checked(self.wrong):
            only = asked_claims(self.view.get("only"))
            self._say([self.open] if self._record() else only)

    def _say(self, only: list[str] | None) -> None:
        begun = is_begun(run_folder(self.view.lab.shelf.workspace, only))
        self.start_button.set_text("Go on (quick)" if begun else "Verify (quick)")
        self.view.says(*code(only))

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
        if self._record() is not None:
            ui.run_javascript(
                "document.getElementById('claim-details').scrollIntoView({block: 'start'})"
            )

    def _check(self, claim: str) -> None:
        with self.view.checked(self.wrong):
            self.run(asked_claims(claim))
            self.refresh()

    def _show_claim(self) -> None:
        self.details.clear()
        record = self._record()
        if record is None:
            return
        row = table_row(record)
        with self.details, ui.element("section").classes("card") as card:
            card.props["aria-label"] = f"Claim {record.claim}"
            with ui.element("div").classes("abreast"):
                ui.label(f"{record.claim}: {row['title']}").classes("title").props(
                    'role="heading" aria-level="2"'
                )
                ui.label(row["verdict"]).classes(f"claim-mark {row['verdict_kind']}")
            if ending(record) == NOT_RUN:
                ui.label(words(record.statement))
                ui.label("Not run yet.").classes("note")
            else:
                show_details(record)

    async def _save_report(self) -> None:
        with self.view.checked():
            folder = self.folder
            assert folder is not None
            content = await in_thread(lambda: read_text(folder / "report.html"))
            ui.download.content(content.encode(), f"{folder.name}.html", "text/html")


_COLUMNS = [
    {"name": name, "label": label, "field": name, "sortable": True, "align": align}
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
_BODY = """<q-tr :props="props" tabindex="0" :class="{here: props.row.here}" :aria-selected="props.row.here"
@click="$parent.$emit('choose', props.row.claim)" @keyup.enter="$parent.$emit('choose', props.row.claim)">
<q-td key="claim" :props="props"><strong class="whitespace-nowrap">{{ props.row.claim }}</strong></q-td>
<q-td key="verdict" :props="props"><span class="claim-mark" :class="props.row.verdict_kind">{{
props.row.verdict }}</span></q-td>
<q-td key="title" :props="props"><div class="title-cell">{{ props.row.title }}</div></q-td>
<q-td key="control" :props="props"><span :class="{'text-negative': props.row.control_kind === 'bad'}">{{
props.row.control }}</span></q-td>
<q-td key="figures" :props="props"><small>{{ props.row.figures }}</small></q-td>
<q-td key="seconds" :props="props">{{ props.row.seconds }}</q-td>
<q-td key="can" :props="props"><q-btn v-if="props.row.can" flat round dense size="sm" icon="play_arrow"
:aria-label="'Check ' + props.row.claim + ' alone'" @click.stop="$parent.$emit('check', props.row.claim)"
@keyup.enter.stop><q-tooltip>Check this one</q-tooltip></q-btn></q-td></q-tr>"""


SCREEN = Screen(
    "/claims",
    "Claims",
    "fact_check",
    build,
    """
A claim is a theorem or a published figure put to the test: what theory predicts, beside what training measured.

**Verdicts.** It *holds* when the two agree within its tolerance, *fails* when they do not, is *inconclusive* when the
measurement decides nothing, *not applicable* when the data do not meet its conditions. Only *holds* is green.

**Control.** The same measurement against a prediction that must be wrong. It has to fail, or the agreement of the claim
means nothing.

**Use.** Press *Verify* for all claims, name some with commas (T1,S3), or check one by the arrow in its row. A row opens
the claim: conditions, prediction beside measurement, pictures with their numbers, the control, and the command that
checks it again. `attomaton verify --full` runs the large problems; its folder can be opened here.

*Mechanics of next token prediction with self-attention* (Li et al., 2024); *Scan and Snap* (Tian et al., 2023).
""",
    wants=("verification",),
)
