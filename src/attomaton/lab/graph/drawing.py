"""The picture of a priority graph on a page: our SVG component, its looks, and the key to its lines."""

from collections.abc import Mapping

from nicegui import ui
from nicegui.element import Element

from attomaton.disk.formats import plain
from attomaton.lab.graph.scene import Scene

CSS = """
.pg-frame { position: relative; height: clamp(20rem, 68vh, 60rem); min-width: 0; overflow: hidden; border-radius: 8px;
  border: 1px solid var(--line); }
.pg-frame svg { width: 100%; height: 100%; display: block; touch-action: pan-y; user-select: none; cursor: grab; }
.pg-frame svg:active { cursor: grabbing; }
.pg-sketch { position: absolute; inset: 0; width: 100%; height: 100%; display: none; pointer-events: none; }
.pg:focus { outline: none; }
.pg:focus-visible { outline: 2px solid var(--link); outline-offset: -2px; }
.pg .node { cursor: pointer; touch-action: none; }
.pg .node:focus { outline: none; }
.pg .node:focus-visible rect { stroke: var(--link) !important; stroke-width: 3 !important; }
.pg .edge, .pg .hit { cursor: pointer; }
.pg-buttons { position: absolute; right: .6rem; top: .6rem; display: flex; flex-direction: column; gap: .35rem; }
.pg-buttons .q-btn { background: var(--paper); color: var(--ink); border: 1px solid var(--line); }
.pg-tip { position: absolute; display: none; pointer-events: none; max-width: 18rem; padding: .4rem .6rem; z-index: 5;
  background: var(--paper); color: var(--ink); border: 1px solid var(--line); border-radius: 8px; font-size: .85rem;
  line-height: 1.4; box-shadow: 0 4px 14px rgb(0 0 0 / .2); }
.pg-tip div:first-child { font-weight: 600; }
.pg-key { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; align-items: center; }
.pg-key span { display: inline-flex; align-items: center; gap: .4rem; }
.pg-key i { width: 1.8rem; border-top: 2px solid var(--ink); }
.pg-key .slack i { border-top: 2px dashed var(--soft); }
.pg-key .tie i { border-color: var(--link); }
.pg-key .box i { height: .8rem; border: 1px dashed var(--link); border-radius: 5px; }
.pg-key .last i { height: .8rem; border: 1.6px solid var(--hot); border-radius: 8px; }
.pg-said { flex: 1 1 0; min-width: 0; }
@media (max-width: 600px) { .card-head:has(> .pg-said) { flex-wrap: wrap; } .pg-said { flex-basis: 100%; } }
.pg-controls { align-items: center; gap: .6rem 1.2rem; }
.pg-least { display: flex; align-items: center; gap: .8rem; }
.pg-least .q-slider { width: 9rem; }
.pg-least .q-field { width: 7.5rem; }
.pg-tables { margin-top: 1rem; }
.pg-left { display: flex; flex-direction: column; gap: 1rem; min-width: 0; }
.pg-panel { align-self: start; max-height: calc(68vh + 9rem); overflow-y: auto; }
@media (max-width: 1000px) { .pg-panel { max-height: none; } }
@media (max-width: 600px) { .pg-frame { height: 24rem; } .pg-least .q-slider { width: 8rem; } }
.pg-head { justify-content: space-between; flex-wrap: nowrap; }
.pg-title { font-size: .9rem; font-weight: 600; margin-top: .4rem; }
.pg-panel .abreast { gap: .4rem; }
.pg-chips button { font: inherit; font-size: .85rem; }
.pg-panel .numbers { width: 100%; }
.pg-samples { list-style: none; margin: 0; padding: 0; font-size: .88rem; }
.pg-samples li { padding: .3rem 0; border-top: 1px solid var(--line); }
.pg-sample { display: flex; flex-wrap: wrap; gap: 0 .6rem; white-space: pre-wrap; }
.pg-next { font-weight: 600; }
"""


LINES = {
    "active": "outranks, margin 1",
    "slack": "outranks, margin above 1",
    "tie": "between tied tokens",
    "box": "tied",
    "last": "the last token itself",
}


class Drawing(Element, component="graph.js"):
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
