"""Text with something on it: words in their order, shaded by a share, struck through, marked, each of them to be asked.

    words = [Word("tea", 0.7, number="0.7"), Word("soup", struck=True), Word("bell", marks=("last",))]
    Text("The context", words, on_choose=lambda i: ...)
    text_key({"shade": "share of the answer", "struck": "outranked"})

A shade is told by its colour and by a number, a mark by its line: neither needs an eye for colours.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui
from nicegui.element import Element

from attomaton.base.assets import beside

CSS = beside(__file__, "text.css")
MARKS = ("label", "last", "unknown", "wrong", "absent", "faint", "next")


@dataclass(frozen=True)
class Word:
    """A word of a text: how much of what is shared it has, what is said of it on hover, and how it is marked.

    `marks` are of `MARKS`: the `label` (underlined), the `last` word (framed), one that is `unknown` (broken frame), an
    answer that is `wrong` (wavy line), one that cannot be known (`absent`, dotted), a `faint` one, and the one that
    came `next` (behind an arrow). `ends` breaks the line after it.
    """

    text: str
    shade: float | None = None
    number: str = ""
    struck: bool = False
    marks: tuple[str, ...] = ()
    title: str = ""
    ends: bool = False


class Text(Element, component="text.js"):
    """Words as running text; `on_choose` is told the place of the one that was clicked, or taken by Enter.

    It is one stop of the Tab key: arrows go from word to word.
    """

    def __init__(
        self,
        label: str,
        words: Sequence[Word] = (),
        *,
        on_choose: Callable[[int], Any] | None = None,
    ):
        super().__init__()
        ui.add_css(CSS)
        self._props |= {"label": label, "can": on_choose is not None}
        self.show(words)
        if on_choose is not None:
            self.on("choose", lambda e: on_choose(int(e.args)))

    def show(self, words: Sequence[Word], chosen: int | None = None) -> None:
        """Show another text."""
        self._props["words"] = [_sent(word) for word in words]
        self.choose(chosen)

    def choose(self, chosen: int | None) -> None:
        """Show a word as chosen, or none."""
        self.chosen = chosen
        self._props["chosen"] = -1 if chosen is None else chosen
        self.update()


def text_key(meanings: Mapping[str, str]) -> ui.element:
    """What shades, lines and frames mean: by `shade`, `struck` and the names of marks."""
    ui.add_css(CSS)
    with ui.element("div").classes("text-key") as made:
        for what, meaning in meanings.items():
            with ui.element("span"):
                if what == "shade":
                    ui.element("div").classes("text-ramp").props('aria-hidden="true"')
                else:
                    with ui.element("span").classes(f"text-word is-{what}"):
                        sample = ui.element("s" if what == "struck" else "span")
                        sample.props('aria-hidden="true"')
                        with sample:
                            ui.html("word", sanitize=False, tag="span")
                ui.label(meaning)
    return made


def _sent(word: Word) -> dict[str, object]:
    """A word as the browser is sent it: only what there is."""
    assert set(word.marks) <= set(MARKS), word.marks
    kind = " ".join(f"is-{mark}" for mark in word.marks)
    sent: dict[str, object] = {
        "t": word.text,
        "p": None if word.shade is None else round(min(max(word.shade, 0.0), 1.0), 4),
        "n": word.number,
        "s": word.struck,
        "k": kind,
        "h": word.title,
        "e": word.ends,
    }
    return {name: value for name, value in sent.items() if value}
