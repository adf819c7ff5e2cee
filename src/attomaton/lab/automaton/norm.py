"""The slider of ‖W‖ with the two charts it moves: from the soft part alone to the limit of training."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nicegui import ui

from attomaton.corpus.vocabulary import Label
from attomaton.lab.automaton import charts as draw
from attomaton.lab.kit.charts import Chart
from attomaton.lab.kit.parts import abreast, card, note
from attomaton.mechanics.theory.automaton import Automaton, Explanation


class Slider(ui.slider):
    """A slider that stands where it is put, without waiting for the server to agree."""

    LOOPBACK = False


class Norm:
    """The norm of W that is shown; `settled` is called when it has been chosen."""

    def __init__(self, norm: float, radius: float, settled: Callable[[], Any]):
        self.norm, self.settled = norm, settled
        # As the address and the command write it, so that both give what is shown.
        self.radius = float(f"{radius:.6g}") if radius >= 0 else math.inf
        self.shown: tuple[Automaton, list[Label], Explanation] | None = None

    def build(self) -> None:
        """Make the slider and its charts, empty so far."""
        with card("On the way to the limit"):
            with abreast():
                self.label = ui.label().classes("radius").props('aria-live="polite"')
                for text, radius in (("‖W‖ = 0", 0.0), ("‖W‖ = ∞", math.inf)):
                    button = ui.button(text, on_click=lambda radius=radius: self._jump(radius))
                    button.props("flat dense no-caps")
            with ui.element("div").classes("slide"):
                self.slider = Slider(
                    min=0, max=draw.NOTCHES + 1, step=1, value=draw.notch_of(self.radius, self.norm),
                    on_change=lambda e: self._moved(e.value),
                )  # fmt: skip
                self.slider.props(
                    'aria-label="Norm of W along W_svm, from 0 to infinity" :markers="10"'
                )
                self.slider.on("change", lambda e: self._rest(e.args))
            note(
                "W = W_fin + ‖W‖ · W_svm/‖W_svm‖. At 0 there is no hard part: every token keeps its count × "
                "e^soft, which is uniform only where counts and soft scores are equal. At ∞, the limit of "
                "training, only the retrieved tokens are left and share as the soft scores say."
            )
        with ui.element("div").classes("grid2"):
            self.bars = Chart("Next token", name="next-token", height="19rem")
            self.curves = Chart("From soft to hard", name="soft-to-hard", height="19rem")

    def show(self, automaton: Automaton, words: list[Label], explained: Explanation) -> None:
        """Draw a context at this norm."""
        self.shown = automaton, words, explained
        p = automaton.predict_proba(words, self.radius)
        drawn = draw.bars(explained, p), draw.curves(automaton, words, explained, self.radius)
        for chart, picture in zip((self.bars, self.curves), drawn, strict=True):
            none = "There is no prediction, so there is nothing to draw."
            chart.show(picture if p else replace(picture, note=none))
        self._tell()

    def _moved(self, notch: int | float) -> None:
        """While the slider moves only bars and marker change, in the browser alone."""
        if self.shown is None:
            return
        automaton, words, explained = self.shown
        self.radius = draw.radius_of(notch, self.norm)
        p = automaton.predict_proba(words, self.radius)
        self.bars.canvas.patch(draw.bar_series(explained, p))
        self.curves.canvas.patch(draw.marker(self.radius, self.norm))
        self._tell()

    def _rest(self, notch: int | float) -> None:
        """Where the slider is let go: tables, files and a change of colours need all of it.

        Moves are reported a moment late, so the place comes with the event.
        """
        if self.shown is not None:
            self.radius = draw.radius_of(notch, self.norm)
            self.show(*self.shown)
            self.settled()

    def _jump(self, radius: float) -> None:
        notch = draw.notch_of(radius, self.norm)
        self.slider.set_value(notch)
        self._rest(notch)

    def _tell(self) -> None:
        text = f"‖W‖ = {self.radius:g}"
        if math.isinf(self.radius):
            text = "‖W‖ = ∞, the limit of training"
        elif self.norm > 0:
            text += f" = {self.radius / self.norm:.2f} ‖W_svm‖"
        self.label.set_text(text)
