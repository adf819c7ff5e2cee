"""A field for one token among very many: suggestions come while one types."""

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui
from nicegui.element import Element

from attomaton.lab.kit.matches import Found

CSS = """
.find { position: relative; width: 15rem; max-width: 100%; }
.find-list { position: absolute; z-index: 20; left: 0; min-width: 100%; width: max-content; max-width: min(26rem, 92vw);
  max-height: 20rem; overflow-wrap: break-word;
  overflow-y: auto; margin: .2rem 0 0; padding: .25rem; list-style: none; background: var(--paper);
  border: 1px solid var(--line); border-radius: 8px; box-shadow: 0 6px 20px rgb(0 0 0 / .18); }
.find-list li { display: flex; justify-content: space-between; gap: 1rem; padding: .3rem .5rem; border-radius: 6px;
  cursor: pointer; align-items: baseline; }
.find-list li .note { text-align: right; flex: none; white-space: nowrap; }
.find-list li.here { background: var(--fill); outline: 1px solid var(--link); }
.find-list li.none { cursor: default; }
"""


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
