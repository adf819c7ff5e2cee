"""How a file is read, guessed, shown, corrected by choosing, and previewed: its first sequences in their order."""

import asyncio
from typing import Any

import numpy as np
from nicegui import ui

from attomaton.corpus.files import FORMATS, LOGS, SEPARATED
from attomaton.corpus.looks import Look, look_at_file
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.text import SPLITS
from attomaton.corpus.times import DATES
from attomaton.corpus.windows import Windows
from attomaton.lab.kit.contexts import visible
from attomaton.lab.kit.parts import abreast, button, card, dense, note, place
from attomaton.lab.kit.words import on_a_page
from attomaton.lab.shelf import TOKENISERS, Item, named
from attomaton.lab.view import View, in_thread

FIRST, SHOWN = 6, 14  # sequences of the preview, and events of each
CALLED = {
    "text": "plain text", "jsonl": "rows of contexts (JSONL)", "csv": "table (CSV)", "tsv": "table with tabs (TSV)",
    "parquet": "Parquet", "xes": "XES log", "spmf": "SPMF", "events": "one event a line",
}  # fmt: skip
DELIMITERS = {",": "comma ,", ";": "semicolon ;", "tab": "tab", "|": "bar |", "space": "space"}
IN_FILE = ""  # no column: rows stay as they stand


Sequence = tuple[str, list[str], int]  # its name, its first events, and how many more there are
Preview = tuple[list[str], list[Sequence]]


def preview_of(windows: Windows) -> Preview:
    """What reading a file in one way gives: how its sequences were ordered, what is set aside; the first of them."""
    starts = windows.starts if windows.starts is not None else np.zeros(0, np.int64)
    ends = np.append(starts[1:], len(windows.ids))
    shown: list[Sequence] = []
    for i in range(min(FIRST, len(starts))):
        ids = windows.ids[starts[i] : min(ends[i], starts[i] + SHOWN)]
        name = str(windows.names[i]) if windows.names is not None else f"{i + 1}"
        events = [visible(windows.vocabulary[int(x)]) for x in ids]
        shown.append((visible(name), events, int(ends[i] - starts[i]) - len(ids)))
    what = ("sequences", "events") if windows.names is not None else ("documents", "tokens")
    said = [
        f"{len(starts):,} {what[0]}, {len(windows.ids):,} {what[1]}, {len(windows.vocabulary):,} different."
    ]
    if windows.ordering is not None:
        said.append(on_a_page(windows.ordering.text()))
    said.append(aside_in_words(windows.set_aside.rows, len(windows)))
    return said, shown


def aside_in_words(aside: int, all_: int) -> str:
    """How much is set aside, and what that means."""
    if not aside:
        return f"All {all_:,} contexts hold what came next: nothing is set aside."
    return (
        f"{aside:,} of {all_:,} contexts ({aside / all_:.0%}) are set aside: what came next does not stand before "
        "it. Attention can only point at what it sees, so the layer learns nothing from these; a longer "
        "context may take more of them in."
    )


class ReadingCard:
    """The form and the preview; `fit` leads to the model of what was chosen."""

    def __init__(self, view: View, item: Item):
        self.view, self.item = view, item
        self.look: Look
        self.reading = item.reading
        self.fields: dict[str, Any] = {}
        self.turn = 0  # the newest preview counts
        self.busy = asyncio.Lock()

    async def build(self) -> None:
        """The card, filled with what was guessed or said."""
        with card("How it is read", "reading") as self.card:
            self.lead = note()
            self.form = ui.element("div").classes("reading-fields")
            self.wrong = place()
            self.shown = place()
            with abreast():
                self.go = button("Fit it", self._fit)
                self.status = note().props('role="status"')
        with self.view.checked(self.wrong):
            self.look = await in_thread(self.item.look)
            self._fill()
            await self._preview()

    # The form

    def _fill(self) -> None:
        """Fields that go with the format, each with the reason of its guess."""
        kind, how = self.look.format, self.reading
        self.form.clear()
        self.fields = {}
        with self.form:
            formats = {name: CALLED[name] for name in FORMATS}
            self._choice("format", "format", formats, kind, "as its name and content say")
            if kind in SEPARATED:
                now = how.delimiter or ("," if kind == "csv" else "tab")
                self._choice(
                    "delimiter", "delimiter", {**DELIMITERS, now: DELIMITERS.get(now, now)}, now
                )
            if kind in LOGS:
                self._columns()
            if kind == "text":
                self._choice("split", "documents are", list(SPLITS), how.splitting)
                self._choice("tokenizer", "tokens are", list(TOKENISERS), how.tokenising)
            if kind != "jsonl":
                number = ui.number(
                    "context", value=how.context or 8, min=1, max=100_000, precision=0
                )
                what = "words" if kind == "text" else "events"
                self._field("context", number, f"{what} before each label")
        guessed = [g for g in self.look.guesses if g.option != "context"]
        self.lead.set_text(
            "Guessed from its name and its first rows. Correct what is wrong by choosing; the preview follows."
            if guessed
            else "As its name and its columns say; choose something else and the preview follows."
        )

    def _columns(self) -> None:
        how, columns = self.reading, self.look.columns
        names = {
            c.name: f"{visible(c.name)} — {', '.join(map(visible, c.some))}"[:60] for c in columns
        }
        words = {"sequence": "sequence (whose)", "item": "item (what)", "order": "order (when)"}
        for role, given in how.columns.items():
            value = given or (role if role in names else None)
            choices = dict(names)
            if role == "order":
                choices = {IN_FILE: "as the rows stand", **names}
                value = value or IN_FILE
            self._choice(role, words[role], choices, value if value in choices else None)
        dates = {"": "clear from the rows", **{d: d for d in DATES}}
        if any(c.kind == "times" for c in columns):
            self._choice("dates", "dates such as 2/3/2024", dates, how.dates or "")

    def _choice(self, name: str, label: str, known: Any, value: Any, said: str = "") -> None:
        self._field(name, ui.select(known, label=label, value=value), said)

    def _field(self, name: str, field: Any, said: str = "") -> None:
        why = self.look.why(name)
        with ui.element("div") as cell:
            dense(field).move(cell)
            note(said if not why or name == "context" else f"guessed: {why}")
        self.fields[name] = field
        field.on_value_change(lambda: self._changed(name))

    async def _changed(self, name: str) -> None:
        """Another choice: where it says what the columns are, the file is looked at again."""
        if name in ("format", "delimiter"):
            kept = ("format", "context") if name == "format" else ("format", "delimiter", "context")
            asked = {k: v for k, v in self._chosen().items() if k in kept}
            with self.view.checked(self.wrong):
                given = Reading(**asked)
                path = self.item.path
                self.look = await in_thread(named, self.item, look_at_file, path, given)
                self.reading = self.look.reading
                self._fill()
        await self._preview()

    def _chosen(self) -> dict[str, Any]:
        """What the fields say, without what goes without saying."""
        values = {name: field.value for name, field in self.fields.items()}
        if values.get("context") is not None:
            values["context"] = int(values["context"])
        plain = {
            "split": "stream",
            "tokenizer": "words",
            "delimiter": {"csv": ",", "tsv": "tab"}.get(values["format"]),
        }
        if self.look.reading.format is None:
            plain["format"] = self.look.format
        return {k: v for k, v in values.items() if v not in (None, "", plain.get(k))}

    # The preview

    async def _preview(self) -> None:
        """Read the file as it is chosen now, and show its first sequences; what was there before goes first."""
        self.turn += 1
        turn, chosen = self.turn, self._chosen()
        self.shown.clear()
        self.go.set_enabled(False)
        self.status.set_text("reading …")
        found: Preview | None = None
        with self.view.checked(self.wrong):
            reading = Reading(**chosen)
            windows = await in_thread(named, self.item, read_windows, self.item.path, reading)
            if turn != self.turn:
                return
            found = await in_thread(preview_of, windows)
        if turn != self.turn:
            return
        self.status.set_text("" if found is None else "nothing is computed before you fit it")
        if found is not None:
            self.go.set_enabled(True)
            with self.shown:
                _sequences(*found)

    async def _fit(self) -> None:
        """Keep it as it is chosen, and show its model."""
        view = self.view
        with view.checked(self.wrong):
            view.lab.may_start()
            item = await in_thread(view.lab.shelf.read_as, self.item, self._chosen())
            if view.lab.first == self.item.id:
                view.lab.first = item.id
            view.go("/", item)


def _sequences(said: list[str], sequences: list[Sequence]) -> None:
    for line in said:
        note(line)
    with ui.element("ol").classes("sequences").props('aria-label="First sequences, in order"'):
        for name, events, more in sequences:
            with ui.element("li"):
                ui.label(name).classes("name")
                for i, event in enumerate(events):
                    if i:
                        ui.label("→").classes("then").props('aria-hidden="true"')
                    ui.label(event).classes("tok")
                if more:
                    note(f"… {more:,} more")
