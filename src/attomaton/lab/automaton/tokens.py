"""The tokens of a context as chips with their fates, and chips that put another token in."""

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui

from attomaton.corpus.vocabulary import Label
from attomaton.lab.kit.contexts import visible
from attomaton.lab.kit.matches import matches
from attomaton.lab.kit.parts import abreast, emptied, note
from attomaton.lab.opened import Opened
from attomaton.mechanics.theory.automaton import NOT_A_TOKEN, Explanation, Fate

CHIPS = 16  # of one row
ICONS = {
    "retrieved": "check_circle",
    "outranked": "south",
    "lower score": "trending_down",
    "never seen with the last token": "visibility_off",
    NOT_A_TOKEN: "help",
}


def chips(
    explained: Explanation,
    words: Sequence[Label],
    drawn: int,
    asked: Fate,
    choose: Callable[[Label], Any],
    remove: Callable[[int], Any],
    replace: Callable[[int, Label], Any],
) -> None:
    """The words in order: retrieved ones stand out by tick, weight and frame, the others say why they lost.

    A token the model does not know has a question mark and a broken frame; the nearest one it knows can be put there.
    """
    fates = {fate.token: fate for fate in explained.fates}
    meant = {x.token: x.nearest for x in explained.unknown}
    for i, word in enumerate(words):
        fate = fates[word]
        kind = {"retrieved": "retrieved", NOT_A_TOKEN: "unknown lost"}.get(fate.reason, "lost")
        with ui.element("span").classes(f"token {kind}" + " asked" * (fate is asked)):
            with _button(lambda word=word: choose(word)):
                with ui.element("div").classes("word"):
                    ui.icon(ICONS[fate.reason]).props('aria-hidden="true"')
                    ui.label(visible(word))
                    if i >= len(words) - drawn:
                        ui.icon("casino").props('title="drawn" aria-label="drawn"')
                last = "last token, " if i == len(words) - 1 else ""
                seen = "never seen here" if fate.reason.startswith("never") else fate.reason
                ui.label(last + seen).classes("reason")
            if (near := meant.get(word)) is not None:
                with _button(lambda i=i, near=near: replace(i, near)).classes("meant"):
                    ui.label(f"did you mean ‘{visible(near)}’?")
            if len(words) > 1:
                with _button(lambda i=i: remove(i)).props('aria-label="Remove this token"'):
                    ui.label("×")


def adders(
    model: Opened,
    last: Label,
    near: Sequence[Label],
    before: Callable[[Label], Any],
    end: Callable[[Label], Any],
) -> None:
    """Tokens to put before the last one (those seen with it), or after it, to be the last one then."""
    with abreast():
        note(f"Put before ‘{visible(last)}’")
        for word in near:
            _adder(word, before)
        if not near:
            note("(it was never a last token in the data)")
    with abreast():
        note("End with")
        for row in model.search("", CHIPS // 2):
            _adder(row.last, end)
        field = ui.input("search a token").props("dense outlined debounce=250").classes("short")
        place = abreast().classes("found")

    def look() -> None:
        with emptied(place):
            for word in held(model.vocabulary, field.value or ""):
                _adder(word, end)

    field.on_value_change(look)


def held(vocabulary: Sequence[Label], text: str, most: int = CHIPS) -> list[Label]:
    """Tokens that hold what is typed: those that begin with it first, short ones first.

    >>> held(["steam", "tea", "teapot", 7], "TEA")
    ['tea', 'teapot', 'steam']
    """
    if not text.strip():
        return []
    words = [str(x).casefold() for x in vocabulary]
    shortest = sorted(range(len(words)), key=lambda i: len(words[i]))
    return [vocabulary[i] for i in matches(words, shortest, text, most)]


def _adder(word: Label, do: Callable[[Label], Any]) -> None:
    with _button(lambda: do(word)).classes("chip can"):
        ui.label(visible(word))


def _button(do: Callable[..., Any]) -> ui.element:
    return ui.element("button").props('type="button"').on("click", do)
