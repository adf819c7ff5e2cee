"""A probe that is open: its orders, its heads, one of them on a text beside the automaton, orders it got wrong."""

from collections.abc import Sequence
from operator import attrgetter

import numpy as np
from nicegui import ui

from attomaton.folders.probe import read_texts
from attomaton.jobs.probed import own_text
from attomaton.lab.kit.charts import Chart, Point
from attomaton.lab.kit.fields import choice
from attomaton.lab.kit.parts import abreast, button, card, dense, figures, note, place
from attomaton.lab.kit.table import linked_table, numbers, save_csv
from attomaton.lab.kit.text import Text, Word, text_key
from attomaton.lab.probe.charts import agreement, head_map, heads_as, measures_of, value_of
from attomaton.lab.view import View, in_thread, whole
from attomaton.probe.records import Head, Probe
from attomaton.probe.texts import Text as Context
from attomaton.report.text.probe import KINDS, in_words
from attomaton.report.words import share_text

OWN = "own"  # what stands in an address for a text that was typed


class ProbePanels:
    """All of one probe; what is chosen is in the address."""

    def __init__(self, view: View, found: Probe):
        self.view, self.found = view, found
        self.texts, self.attention = read_texts(view.item.path)
        self.measures = measures_of(found)
        self.chosen = self._head(view.get("head"))
        self.own: tuple[Context, np.ndarray] | None = None

    def fill(self) -> None:
        """Sentences and numbers, bars, map and table of heads, the head on a text, what it got wrong."""
        with card(label="In short"):
            ui.label(in_words(self.found)).classes("measure")
            figures(
                [(KINDS[x.contexts], share_text(x.agreement.value)) for x in self.found.behaviour]
            )
        with ui.element("div").classes("side"):
            if self.found.behaviour:
                Chart(
                    "Orders as in the corpus", agreement(self.found), name="orders", height="24rem"
                )
            with ui.element("div"):
                self.measure = choice(self.view, "measure", self.measures, "colour", self._draw)
                self.map = Chart("Heads", name="heads", height="22rem", on_click=self._clicked)
        self._text()
        self._table()
        self._wrong()
        self._draw()

    # Heads

    def _head(self, asked: str) -> tuple[int, int]:
        """A head of the address; without one, that with most on what the automaton retrieves, else the sharpest."""
        there = {f"{x.layer}.{x.head}": (x.layer, x.head) for x in self.found.heads}
        if asked in there:
            return there[asked]

        def rank(head: Head) -> float:
            value = value_of(head, "retrieved")
            return value_of(head, "largest") or 0.0 if value is None else value

        best = max(self.found.heads, key=rank, default=None)
        return (0, 0) if best is None else (best.layer, best.head)

    def _clicked(self, point: Point) -> None:
        match point.value:
            case [int(head), int(layer), *_]:
                self._choose(layer, head)

    def _choose(self, layer: int, head: int) -> None:
        self.chosen = (layer, head)
        self.view.put(head=f"{layer}.{head}")
        self._draw()
        self._show()

    def _draw(self) -> None:
        measure = str(self.measure.value or "entropy")
        self.map.title.set_text(f"Heads: {self.measures.get(measure, measure)}")
        self.map.show(head_map(heads_as(self.found, measure), measure, self.chosen))

    def _table(self) -> None:
        header, heads = ["layer", "head", *self.measures], self.found.heads
        rows = [[x.layer, x.head, *(value_of(x, m) for m in self.measures)] for x in heads]
        with card("All heads"):
            note(
                "Choose a row to see the head on the text above. “even” is what attention spread evenly would score."
            )
            numbers(header, rows, on_row=lambda i: self._choose(heads[i].layer, heads[i].head))
            if self.found.even is not None:
                even = [(name, value_of(self.found.even, m)) for m, name in self.measures.items()]
                said = ", ".join(f"{name} {x:.3f}" for name, x in even if x is not None)
                note(f"Even: {said}.")

    # One head on a text

    def _text(self) -> None:
        if not self.texts:
            return
        self.at = whole(self.view.get("text"), 0, len(self.texts) - 1)
        options = {i: " ".join(x.tokens[-6:]) for i, x in enumerate(self.texts)}
        with card("One head on a text, beside the automaton"):
            with abreast():
                self.select = ui.select(options, value=self.at, label="text")
                dense(self.select, "setting-text").on_value_change(lambda e: self._take(e.value))
                self.typed = dense(
                    ui.input("or your own words, the last one asking"), "setting-own"
                )
                self.typed.on("keydown.enter", self._own)
                button("Look", self._own, "visibility", more="dense flat")
                ui.space()
                button("Save as CSV", self._save, "download", more="dense flat")
            self.wrong_place = place()
            self.head_name = ui.label().classes("card-title")
            self.head_text = Text("What the head attends to")
            self.automaton_name = ui.label().classes("card-title")
            self.automaton_text = Text("What the automaton retrieves")
            text_key({"shade": "attention of the last word", "last": "the last word"})
        self._show()

    def _take(self, at: object) -> None:
        if isinstance(at, int):
            self.at, self.own = at, None
            self.view.put(text=at)
            self._show()

    async def _own(self) -> None:
        """Look at words that were typed: needs the model's own files."""
        words = str(self.typed.value or "").split()
        if words:
            with self.view.checked(self.wrong_place):
                self.own = await in_thread(own_text, self.view.item.path, words)
                self._show()

    def _shown(self) -> tuple[Context, np.ndarray]:
        """The text, and the attention of every head on it."""
        return self.own or (self.texts[self.at], self.attention[self.at])

    def _show(self) -> None:
        if not self.texts:
            return
        text, every = self._shown()
        self.head_name.set_text(f"Head {self.chosen[0]}.{self.chosen[1]} attends to")
        self.head_text.show(shaded(text.tokens, every[self.chosen].tolist()))
        said = "no answer" if text.shares is None else text.verdict
        self.automaton_name.set_text(f"The automaton retrieves ({said})")
        self.automaton_text.show(shaded(text.tokens, text.shares or ()))

    def _save(self) -> None:
        """Every head on this text, and the automaton."""
        text, every = self._shown()
        heads = [f"{i}.{h}" for i, h in np.ndindex(every.shape[:2])]
        shares = text.shares or (None,) * len(text.tokens)
        rows = [
            [place, token, shares[place], *every[:, :, place].ravel().tolist()]
            for place, token in enumerate(text.tokens)
        ]
        save_csv("attention", ["place", "token", "automaton", *heads], rows)

    # What it got wrong

    def _wrong(self) -> None:
        told = attrgetter("last", "above", "below", "samples", "odds")
        rows = [
            [KINDS[one.contexts], *told(x), " ".join(x.tokens[-40:])]
            for one in self.found.behaviour
            for x in one.wrong
        ]
        linked_table(
            "Orders the model has the other way round",
            "The corpus has the first above the second after this last token; log-odds of the first.",
            ["contexts", "after", "first", "second", "samples", "log-odds", "context"], rows, name="wrong-orders",
        )  # fmt: skip


def shaded(tokens: Sequence[str], shares: Sequence[float]) -> list[Word]:
    """Words shaded by what each place has; the last one framed."""
    end = len(tokens) - 1
    return [
        Word(
            token,
            x if x > 0.0005 else None,
            f"{x:.2f}".removeprefix("0") if x >= 0.01 else "",
            marks=("last",) if i == end else (),
            title=f"{x:.4f}" if shares else "",
        )
        for i, (token, x) in enumerate(zip(tokens, shares or [0.0] * len(tokens), strict=True))
    ]
