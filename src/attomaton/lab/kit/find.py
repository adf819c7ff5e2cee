"""A field for one token among very many: suggestions come while one types."""

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui
from nicegui.element import Element

from attomaton.base.assets import beside
from attomaton.lab.kit.matches import Found

CSS = beside(__file__, "find.css")


class Find(Element, component="find.js"):
    """`search(text)` gives what is suggested, `choose(value)` is told what was taken, or typed."""

    def __init__(
        self,
        label: str,
        value: str,
        search: Callable[[str], Sequence[Found]],
        choose: Callable[[str], Any],
    ):
        super().__init__()
        ui.add_css(CSS)
        self._props |= {"label": label, "value": value, "found": None}
        self._search = search
        self.on("search", lambda e: self._suggest(str(e.args)))
        self.on("choose", lambda e: choose(str(e.args)))

    def set_value(self, value: str) -> None:
        """Show something as chosen."""
        self._props["value"] = value
        self.update()

    def _suggest(self, text: str) -> None:
        found = self._search(text[:200])
        self._props["found"] = [{"value": v, "name": name, "note": note} for v, name, note in found]
        self.update()
