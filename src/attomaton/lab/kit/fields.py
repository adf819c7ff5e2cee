"""Fields whose values are in the address, so that it brings the page back as it was."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from nicegui import ui
from nicegui.elements.mixins.value_element import ValueElement

from attomaton.lab.kit.parts import dense
from attomaton.lab.view import View

Field = TypeVar("Field", bound=ValueElement)


def toggle(
    view: View, name: str, choices: Mapping[str, str], label: str, changed: Callable[[], Any]
) -> ui.toggle:
    """A few choices, the first of them the usual one, which an address need not say."""
    made = ui.toggle(dict(choices))
    made.props(f'dense no-caps unelevated toggle-color=primary aria-label="{label}"')
    return _in_address(view, name, choices, made, changed)


def choice(
    view: View, name: str, choices: Mapping[str, str], label: str, changed: Callable[[], Any]
) -> ui.select:
    """The same as a list to choose from."""
    made = dense(ui.select(dict(choices), label=label), f"setting-{name}")
    return _in_address(view, name, choices, made, changed)


def _in_address(
    view: View, name: str, choices: Mapping[str, str], field: Field, changed: Callable[[], Any]
) -> Field:
    usual, asked = next(iter(choices), None), view.get(name)
    field.set_value(asked if asked in choices else usual)

    def put() -> Any:
        view.put(**{name: None if field.value == usual else field.value})
        return changed()  # awaited where it takes a while

    return field.on_value_change(put)
