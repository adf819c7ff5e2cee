"""The picture of a priority graph on a page: our SVG component, its looks, and the key to its lines."""

from collections.abc import Mapping

from nicegui import ui
from nicegui.element import Element

from attomaton.disk.formats import plain
from attomaton.lab.graph.scene import Scene

LINES = {
    "active": "outranks, margin 1",
    "slack": "outranks, margin above 1",
    "tie": "between tied tokens",
    "box": "tied",
    "last": "the last token itself",
}


class Drawing(Element, component="graph.js", dependencies=["../kit/saved.js"]):
    """The picture; a scene goes in, choices and dragged places come out."""

    def __init__(self) -> None:
        super().__init__()
        self._props["label"] = "priority graph"

    def show(self, drawn: Scene, label: str) -> None:
        """Draw something else."""
        self._props["scene"], self._props["label"] = plain(drawn), label
        self.update()


def line_key(meanings: Mapping[str, str]) -> ui.element:
    """What lines and frames of a picture mean."""
    with ui.element("div").classes("pg-key note") as key:
        for kind, meaning in meanings.items():
            with ui.element("span").classes(kind):
                ui.element("i").props('aria-hidden="true"')
                ui.label(meaning)
    return key
