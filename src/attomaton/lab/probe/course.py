"""A model over its checkpoints that is open: a slider over training, curves, the heads at the step it stands on."""

from nicegui import ui

from attomaton.lab.kit.charts import Chart
from attomaton.lab.kit.parts import abreast, card, figures, place
from attomaton.lab.kit.table import linked_table
from attomaton.lab.probe.charts import agreement_course, entropy_course, head_map
from attomaton.lab.view import View, whole
from attomaton.probe.snapping import Snap
from attomaton.report.text.probe import KINDS
from attomaton.report.text.snap import in_words
from attomaton.report.words import share_text


class SnapPanels:
    """All of one snap; the checkpoint that is shown is in the address."""

    def __init__(self, view: View, found: Snap):
        self.view, self.found = view, found
        self.last = len(found.marks) - 1
        self.at = whole(view.get("mark"), self.last, self.last)

    def fill(self) -> None:
        """Sentences, the slider, curves, the map at its step, what became of every head."""
        with card(label="In short"):
            ui.label(in_words(self.found)).classes("measure")
        with card("At one checkpoint"):
            with abreast():
                slider = ui.slider(min=0, max=max(self.last, 1), step=1, value=self.at)
                slider.props('dense aria-label="Checkpoint"').classes("setting-mark")
                slider.on_value_change(lambda e: self._move(int(e.value or 0)))
                self.when = ui.label().classes("when")
            self.shares = place()
        with ui.element("div").classes("side"):
            self.map = Chart("Entropy over log keys", name="heads-at-step", height="22rem")
            self.entropy = Chart("Entropy of every head", name="entropy", height="22rem")
        self.orders = Chart("Orders as in the corpus", name="agreement", height="18rem")
        linked_table(
            "When every head froze",
            "Entropy over log keys at the first and the last checkpoint; the step from which on it stays there.",
            ["layer", "head", "first", "last", "froze at", ""],
            [
                [x.layer, x.head, x.first, x.last, "" if x.frozen_at is None else x.frozen_at, x.verdict]
                for x in self.found.courses
            ],
            name="heads",
        )  # fmt: skip
        self._draw()

    def _move(self, at: int) -> None:
        self.at = min(max(at, 0), self.last)
        self.view.put(mark=self.at)
        self._draw()

    def _draw(self) -> None:
        mark = self.found.marks[self.at]
        same = f", the same weights as {mark.same_as}" if mark.same_as else ""
        self.when.set_text(f"step {mark.step:,} ({mark.name}{same})")
        self.shares.clear()
        with self.shares:
            found = [(name, getattr(mark, kind)) for kind, name in KINDS.items()]
            figures([(name, share_text(x.value)) for name, x in found if x is not None])
        self.map.title.set_text(f"Entropy over log keys at step {mark.step:,}")
        self.map.show(head_map(mark.entropy, "entropy"))
        self.entropy.show(entropy_course(self.found, mark.step))
        self.orders.show(agreement_course(self.found, mark.step))
