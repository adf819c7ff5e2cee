"""Rows of a data set in words, a page at a time, all of them or those that end in one token."""

from collections.abc import Awaitable, Callable

import numpy as np
from nicegui import ui

from attomaton.base.shapes import Int
from attomaton.lab.data.looked import Looked
from attomaton.lab.kit.parts import abreast, card, icon_button, note, place
from attomaton.lab.view import View, in_thread

PAGE = 20
COLUMNS = [
    {"name": "source", "label": "row", "field": "source", "align": "left"},
    {"name": "context", "label": "context", "field": "context", "align": "left"},
    {"name": "next", "label": "next", "field": "next", "align": "left"},
]
# Words come in by interpolation, so nothing of the data is ever read as HTML.
CONTEXT = """<q-td :props="props"><div class="bag"><span v-if="props.row.hidden" class="note">… {{ props.row.hidden }}
before</span><span v-for="(t, i) in props.row.context" :key="i" class="tok" :class="{here: t[1] === props.row.next[1]}"
:title="'id ' + t[1]">{{ t[0] }}<sub v-if="props.row.ids">{{ t[1] }}</sub></span></div></q-td>"""
NEXT = """<q-td :props="props"><span class="tok" :class="{here: props.row.kept, absent: !props.row.kept}"
:title="'id ' + props.row.next[1]">{{ props.row.next[0] }}<sub v-if="props.row.ids">{{ props.row.next[1] }}</sub></span>
<span v-if="props.row.weight !== 1" class="note"> ×{{ props.row.weight }}</span>
<div v-if="!props.row.kept" class="note">set aside: label absent from the context</div></q-td>"""


class Preview:
    """The card with the rows; `last` is the token they end in, `filtered` is called when that changes."""

    def __init__(self, view: View, looked: Looked):
        self.view, self.looked = view, looked
        self.last: int | None = None
        self.unknown = False  # whether the token asked for is never a last one
        self.rows: Int[np.ndarray, " rows"] = np.zeros(0, np.int64)
        self.filtered: Callable[[], Awaitable[None]] | None = None
        row = view.number("row", 0)
        self.first = int(row) if 0 <= row < len(looked.windows) else 0
        self.aside, self.ids = view.get("aside") == "1", view.get("ids") == "1"

    async def build(self) -> None:
        """Make the card and fill it."""
        with card("Preview", "preview").props('id="preview"'):
            with abreast():
                self.field = ui.input("last token", value=self.view.get("last"))
                self.field.props("dense outlined clearable").classes("find")
                self.field.on("keydown.enter", self._find).on("blur", self._find).on(
                    "clear", self._clear
                )
                aside = ui.switch("only set aside", value=self.aside)
                aside.on_value_change(lambda e: self._switch("aside", e.value))
                ids = ui.switch("ids", value=self.ids)
                ids.on_value_change(lambda e: self._switch("ids", e.value))
            self.wrong = place()
            self.table = ui.table(
                columns=COLUMNS, rows=[], row_key="id", pagination={"rowsPerPage": 0}
            )
            self.table.props("dense flat hide-pagination").classes("numbers")
            self.table.add_slot("body-cell-context", CONTEXT)
            self.table.add_slot("body-cell-next", NEXT)
            with abreast():
                self.back = [
                    icon_button("first_page", "First rows", lambda: self._turn(0)),
                    icon_button(
                        "chevron_left", "Rows before", lambda: self._turn(self.first - PAGE)
                    ),
                ]
                self.where = note().classes("where").props('aria-live="polite"')
                self.on = [
                    icon_button(
                        "chevron_right", "Rows after", lambda: self._turn(self.first + PAGE)
                    ),
                    icon_button("last_page", "Last rows", lambda: self._turn(len(self.rows) - 1)),
                ]
        await self._look_up(self.field.value)
        self._show()

    async def _look_up(self, word: str | None) -> None:
        """Find the rows of a last token; of one that is none there are none, whatever was there before."""
        self.last, self.unknown, self.rows = None, True, np.zeros(0, np.int64)
        with self.view.checked(self.wrong):
            self.last = await in_thread(self.looked.last_id, word) if word else None
            self.unknown = False
            self.rows = self.looked.rows(self.last, self.aside)

    async def _find(self) -> None:
        word = (self.field.value or "").strip()
        if word == self.view.get("last"):
            return
        self.view.put(last=word, row=None)
        await self._look_up(word)
        self.first = 0
        self._show()
        if self.filtered is not None:
            await self.filtered()

    async def _clear(self) -> None:
        self.field.set_value("")
        await self._find()

    async def _switch(self, name: str, value: bool) -> None:
        setattr(self, name, value)
        self.view.put(**{name: 1 if value else None})
        if name == "ids":
            self._show()
            return
        if not self.unknown:
            self.rows = self.looked.rows(self.last, self.aside)
        self._turn(0)
        if self.filtered is not None:
            await self.filtered()

    def _turn(self, first: int) -> None:
        self.first = max(first, 0)
        self._show()
        self.view.put(row=self.first or None)

    def _show(self) -> None:
        n = len(self.rows)
        self.first = min(self.first, max(n - 1, 0)) // PAGE * PAGE
        shown = self.rows[self.first : self.first + PAGE]
        self.table.rows = [{**self.looked.row(int(i)), "ids": self.ids} for i in shown]
        self.where.set_text(
            f"rows {self.first + 1:,}–{self.first + len(shown):,} of {n:,}" if n else "no such row"
        )
        for button in self.back:
            button.set_enabled(self.first > 0)
        for button in self.on:
            button.set_enabled(self.first + PAGE < n)
