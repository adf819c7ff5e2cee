"""Small parts every page is put together from; their looks are in `style`."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from nicegui import ui
from nicegui.element import Element

from attomaton.lab.kit.glossary import defined

Field = TypeVar("Field", bound=Element)


def title(text: str) -> ui.label:
    """What a page is about: its first heading."""
    return ui.label(text).classes("title").props('role="heading" aria-level="1"')


def heading(text: str = "") -> ui.label:
    """The heading of a card."""
    return ui.label(text).classes("card-title").props('role="heading" aria-level="2"')


def card(name: str = "", classes: str = "", *, label: str = "") -> ui.element:
    """A frame with a heading; `label` names it to a screen reader where it has none, or another."""
    made = ui.element("section").classes(f"card {classes}")
    if label or name:
        made.props["aria-label"] = label or name
    if name:
        with made:
            heading(name)
    return made


def abreast() -> ui.element:
    """Parts that stand side by side while there is room."""
    return ui.element("div").classes("abreast")


def place() -> ui.element:
    """Where something will be shown; takes no room while it is empty."""
    return ui.element("div").classes("place")


def emptied(place: Field) -> Field:
    """A place without what was shown there, to be filled anew."""
    place.clear()
    return place


def note(text: str = "") -> ui.label:
    """Something said beside the matter."""
    return ui.label(text).classes("note")


def chip(text: str, to: str = "") -> ui.label | ui.link:
    """A word in a frame; where it leads somewhere, a link."""
    return (ui.link(text, to) if to else ui.label(text)).classes("chip")


def figures(values: Iterable[tuple[str, str]]) -> None:
    """Numbers, each with its name below; what the glossary knows is explained on hover."""
    with ui.element("div").classes("figures"):
        for name, value in values:
            with ui.element("div"):
                ui.label(value).classes("figure-value").props["data-figure"] = name
                defined(ui.label(name).classes("figure-name"), name)


def dense(field: Field, classes: str = "") -> Field:
    """A field as all our forms have them: small, in a frame."""
    return field.props("dense outlined options-dense").classes(classes)


def tokens_field(label: str, text: str) -> ui.input:
    """A field for the tokens of a context, all across its card."""
    field = ui.input(label, value=text).classes("w-full")
    return field.props('outlined dense input-class="mono" autocomplete="off"')


def button(
    text: str, do: Callable[..., Any], icon: str = "play_arrow", *, more: str = ""
) -> ui.button:
    """A button that does what is asked for most on its card."""
    return ui.button(text, icon=icon, on_click=do).props(f"unelevated no-caps {more}")


def menu_item(text: str, do: Callable[..., Any]) -> ui.menu_item:
    """One thing to choose from a menu."""
    return ui.menu_item(text, do).props('role="menuitem"')


def icon_button(icon: str, what: str, do: Callable[..., Any] | None = None) -> ui.button:
    """A round button with a picture; what it does is said on hover and to a screen reader."""
    made = ui.button(icon=icon, on_click=do).props('flat round dense size="sm"')
    made.props["aria-label"] = what
    with made:
        ui.tooltip(what)
    return made
