"""Fields whose values are in the address, so that it brings the page back as it was."""

from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui

from attomaton.lab.view import View


def toggle(
    view: View, name: str, choices: Mapping[str, str], label: str, changed: Callable[[], Any]
) -> ui.toggle:
    """A few choices, the first of them the usual one, which an address need not say."""
    usual = next(iter(choices))
    asked = view.get(name)
    made = ui.toggle(dict(choices), value=asked if asked in choices else usual)
    made.props(f'dense no-caps unelevated toggle-color=primary aria-label="{label}"')

    def put() -> Any:
        view.put(**{name: None if made.value == usual else made.value})
        return changed()  # awaited where it takes a while

    return made.on_value_change(put)
