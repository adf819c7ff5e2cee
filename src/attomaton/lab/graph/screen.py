"""The priority graph of one last token: who outranks whom, who is tied, and which samples say so."""

import shlex
from dataclasses import replace
from typing import Any

import numpy as np
from nicegui import ui

from attomaton.errors import AttomatonError
from attomaton.lab.graph.data import CAP, TOP, TokenGraph, part_of, thresholds, top_part
from attomaton.lab.graph.drawing import LINES, Drawing, line_key
from attomaton.lab.graph.forms import Forms
from attomaton.lab.graph.matrix import matrix
from attomaton.lab.graph.panel import Panel
from attomaton.lab.graph.scene import FOLD, node_id, number_text, said, scene
from attomaton.lab.kit.cache import Shared
from attomaton.lab.kit.charts import Chart, Point
from attomaton.lab.kit.fields import toggle
from attomaton.lab.kit.find import Find
from attomaton.lab.kit.matches import Found
from attomaton.lab.kit.page import ModelPage
from attomaton.lab.kit.parts import abreast, card, chip, dense, note, place, title
from attomaton.lab.opened import LastToken, Opened
from attomaton.lab.view import Screen, View, in_thread
from attomaton.report.graphs import readable

AROUND = 400  # elements of a neighbourhood, unless more are asked for
SIZES = (100, 200, AROUND, 1000, CAP)
TOPS = (20, TOP, 80, 160, 320)
MOST_TOP = 640
PICTURE, LIST, MATRIX = "graph", "list", "matrix"
VIEWS = {PICTURE: "Graph", LIST: "List", MATRIX: "Matrix"}
FAR = 1e6  # how far from the middle a node can be put


Places = dict[str, list[float]]  # where nodes were dropped
PLACES = Shared[dict[str, Places]](dict)


class GraphPage(ModelPage):
    """One tab's view of a graph: what is set in its fields, and what is drawn of it."""

    STYLES = ("drawing.css",)

    def __init__(self, view: View, model: Opened):
        super().__init__(view, model)
        self.least = _positive(view.number("min", 0.0))
        self.condensed = view.get("condensed") == "1"
        self.most = int(min(max(_positive(view.number("most", AROUND)), 10), CAP))
        self.top = int(min(max(_positive(view.number("tokens", TOP)), 5), MOST_TOP))
        self.chosen: tuple[int, ...] = ()
        self.centre: int | None = None
        self.graph: TokenGraph | None = None
        self.squares: list[tuple[int, int]] = []  # of the matrix, as edges
        self.turn = 0  # of drawing: what was asked for meanwhile wins

    async def fill(self) -> None:
        """Fields, picture, details, tables."""
        view, model = self.view, self.model
        last = view.get("last", str(model.heaviest()))
        self.title = title("Priority graph")
        with abreast().classes("pg-controls"):
            self.last_field = Find("Last token", last, self._lasts, self.open)
            self._filter()
            self.fold = ui.switch("One node per component", value=self.condensed)
            self.fold.on_value_change(lambda e: self._set(condensed=bool(e.value)))
            tops = {n: f"top {n:,}" for n in sorted({*TOPS, self.top})}
            self.tops = dense(ui.select(tops, value=self.top, label="Tokens drawn"), "w-32")
            self.tops.on_value_change(lambda e: self._set(top=int(min(e.value, MOST_TOP))))
            self.centre_field = Find("Around", "", self._tokens, self._around)
            with abreast() as self.around:
                sizes = {n: f"{n:,} elements" for n in sorted({*SIZES, self.most})}
                size = dense(ui.select(sizes, value=self.most, label="Draw at most"), "w-48")
                size.on_value_change(lambda e: self._set(most=int(e.value)))
        self.wrong = place()
        with ui.element("div").classes("side") as self.body:
            with ui.element("div").classes("pg-left"):
                self._picture()
                self.forms.place()
            self.panel = Panel(view, self.choose, self._expand, lambda i: self._set(centre=i))
        self.body.set_visibility(False)
        self.around.set_visibility(False)
        await self.open(last, first=True)

    # Pieces of the page

    def _filter(self) -> None:
        with ui.element("div").classes("pg-least"):
            self.count = ui.number("Minimum count", value=self.least, min=0)
            self.count.props('dense outlined debounce=300 aria-label="Minimum count"')
            self.count.on_value_change(lambda e: self._filtered(e.value))
            self.slider = ui.slider(min=0, max=1, step=1, value=0)
            self.slider.props('snap aria-label="Minimum count, in steps"')
            self.slider.on("change", self._slid)

    def _picture(self) -> None:
        with card(label="Graph"):
            with ui.row().classes("card-head"):
                self.shown = note().classes("pg-said").props('role="status"')
                self.as_ = toggle(self.view, "view", VIEWS, "Show the graph as", self._viewed)
                self.forms = Forms(lambda: self.drawing, self.choose)
            self.matrix = Chart(
                "Who outranks whom", name="matrix", height="38rem", on_click=self._square
            )
            self.drawing = Drawing()
            self.drawing.on("choose", lambda e: self._clicked(e.args))
            self.drawing.on("moved", lambda e: self._moved(e.args))
            self.drawing.on("reset", self._put_back)
            with line_key(LINES) as self.key, ui.element("span"):
                ui.label("tall: seen often; dark: large odds among tied ones")

    # What is looked at

    async def open(self, text: str, first: bool = False) -> None:
        """Show the graph of a last token; the first time, with the rest of what the address asks for."""
        view, model = self.view, self.model
        self.wrong.clear()
        try:
            last = model.last_id(text)
        except AttomatonError as error:
            self.body.set_visibility(False)  # what was drawn is of another token
            self.title.set_text("Priority graph")
            with self.wrong:
                view.problem(str(error))
                self._instead(text)
            return
        self.graph = None  # what is clicked until the new one is drawn means nothing
        limit = await in_thread(model.limit, model.vocabulary[last])
        graph = await in_thread(TokenGraph, limit, last)
        self.last, self.centre, self.chosen = model.vocabulary[last], None, ()
        if first:
            with view.checked(self.wrong):
                self.centre = graph.find(view.get("centre")) if view.get("centre") else None
                if view.get("chosen"):
                    over = [view.get("over")] if view.get("over") else []
                    self.chosen = tuple(map(graph.find, [view.get("chosen"), *over]))
        self.kept = PLACES.of(self.lab).setdefault(f"{view.item.id} {last}", {})
        self.stem = "graph-" + "".join(c if c.isalnum() else "_" for c in str(self.last))[:40]
        self.last_field.set_value(str(self.last))
        self.title.set_text(f"Priority graph after “{readable([self.last])[self.last]}”")
        self.steps = thresholds(graph.net.weight)
        self.slider._props["max"] = max(len(self.steps) - 1, 1)
        folder = view.lab.shelf.model_folder(view.item).resolve()
        view.says(*graph_code(str(folder), str(self.last)))
        self.body.set_visibility(True)
        await self.draw(graph)

    def _instead(self, text: str) -> None:
        """Last tokens that begin like an unknown one, or the heaviest."""
        rows: list[LastToken] = []
        while not rows:
            rows = self.model.search(text, 8)
            text = text[:-1]
        with abreast():
            note("Known last tokens:")
            for row in rows:
                chip(row.name, self.view.link(last=row.last))

    async def draw(self, graph: TokenGraph | None = None) -> None:
        """Lay out and draw what the fields ask for, and say how much of the whole it is."""
        graph = graph or self.graph
        if graph is None:
            return
        self.turn += 1
        turn = self.turn
        if self.centre is None:
            asked = graph, self.least, self.condensed, self.top, self.chosen
            part = await in_thread(top_part, *asked)
        else:
            around = graph, self.least, self.condensed, self.centre, self.most
            part = await in_thread(part_of, *around)
        drawn = await in_thread(scene, graph, part)
        if turn != self.turn:
            return
        self.graph, self.part, self.squares = graph, part, []
        shown = {n.id for n in drawn.nodes}
        moved = {id: at for id, at in self.kept.items() if id in shown}
        label = f"{self.title.text}; + and − zoom, 0 shows all, arrows move"
        self.drawing.show(replace(drawn, moved=moved, chosen=self._ids(self.chosen)), label)
        self.slider.set_value(int(np.searchsorted(self.steps, self.least, "right")) - 1)
        self.around.set_visibility(part.centre is not None)
        self.tops.set_visibility(part.centre is None)
        self.centre = None if part.centre is None else part.token(graph, part.centre)
        self.centre_field.set_value("" if self.centre is None else str(graph.word[self.centre]))
        self.shown.set_text(said(graph, part))
        self.panel.show(graph, part, self.chosen)
        self._address(graph)
        await self.forms.show(graph, part, self.stem)
        await self._viewed()

    async def _viewed(self) -> None:
        """The picture, the matrix, or the tables alone."""
        view = str(self.as_.value)
        self.drawing.set_visibility(view == PICTURE)
        self.key.set_visibility(view == PICTURE)
        self.matrix.card.set_visibility(view == MATRIX)
        if self.graph is not None:
            if view == MATRIX:
                found = await in_thread(matrix, self.graph, self.part, self.top)
                picture, self.squares = found
                self.matrix.show(picture)
            await self.forms.open(view == LIST)

    def _square(self, point: Point) -> Any:
        """A square of the matrix was chosen: its edge."""
        there = 0 <= point.index < len(self.squares)
        return self.choose(self.squares[point.index]) if there else None

    async def _set(self, **settings: Any) -> None:
        """Draw it otherwise."""
        vars(self).update(settings)
        await self.draw()

    async def _clicked(self, ids: Any) -> None:
        """A node or an edge was chosen; one that stands for many makes room for twice as many."""
        if isinstance(ids, list) and ids and str(ids[0]).startswith(FOLD):
            twice = min(2 * self.top, MOST_TOP)
            sizes = sorted({*TOPS, self.top, twice})
            self.tops.set_options({n: f"top {n:,}" for n in sizes}, value=twice)
            return
        chosen = self.choose(self._read(ids))
        if chosen is not None:
            await chosen

    def choose(self, chosen: tuple[int, ...]) -> Any:
        """Show the details of a token or an edge; nothing takes them away."""
        if (graph := self.graph) is None:
            return None
        self.chosen = chosen
        if chosen and any(self._node(token) not in self.part.nodes for token in chosen):
            self.centre = None if self.part.centre is None else chosen[0]
            return self.draw()
        self.drawing.run_method("mark", self._ids(chosen))
        self.panel.show(graph, self.part, chosen)
        self._address(graph)
        return None

    async def _expand(self, chosen: tuple[int, ...]) -> None:
        self.chosen = chosen
        self.fold.set_value(False)

    async def _around(self, text: str) -> None:
        with self.view.checked(self.wrong):
            if self.graph is not None:
                await self._set(centre=self.graph.find(text) if text.strip() else None)

    def _slid(self) -> None:
        self.count.set_value(self.steps[min(int(self.slider.value), len(self.steps) - 1)])

    async def _filtered(self, least: float | None) -> None:
        if (wanted := _positive(least or 0.0)) != self.least:
            await self._set(least=wanted)

    def _moved(self, places: Any) -> None:
        """Keep where nodes were dropped: of nodes that are drawn, and only numbers."""
        known = self._known()
        for moved in places if isinstance(places, list) else ():
            match moved:
                case [str(id), int() | float() as x, int() | float() as y] if id in known:
                    at = np.clip(np.nan_to_num([x, y]), -FAR, FAR)
                    self.kept[id] = at.tolist()

    def _put_back(self) -> None:
        self.kept.clear()

    # Nodes by their names in the browser

    def _known(self) -> dict[str, int]:
        return {node_id(self.part, int(i)): int(i) for i in self.part.nodes} if self.graph else {}

    def _node(self, token: int) -> int:
        return int(self.graph.net.component[token]) if self.part.condensed and self.graph else token

    def _ids(self, chosen: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(node_id(self.part, self._node(token)) for token in chosen)

    def _read(self, ids: Any) -> tuple[int, ...]:
        if self.graph is None:
            return ()
        known = self._known()
        names = [id for id in ids if isinstance(id, str)] if isinstance(ids, list) else []
        return tuple(self.part.token(self.graph, known[id]) for id in names[:2] if id in known)

    def _lasts(self, text: str) -> list[Found]:
        found = self.model.search(text, 12)
        return [(str(r.last), r.name, f"{r.rows:,} samples, {r.tokens:,} tokens") for r in found]

    def _tokens(self, text: str) -> list[Found]:
        graph = self.graph
        if graph is None:
            return []
        came, there = graph.net.as_next, graph.present
        said = {
            i: f"next {number_text(came[i])}, in {number_text(there[i])}"
            for i in graph.search(text)
        }
        return [(str(graph.word[i]), graph.name[i], words) for i, words in said.items()]

    def _address(self, graph: TokenGraph) -> None:
        words = [str(graph.word[i]) for i in self.chosen]
        centre = None if self.centre is None else str(graph.word[self.centre])
        with self.body:  # what was clicked may be gone by now
            self.view.put(
                last=str(self.last), min=self.least or None, condensed=1 if self.condensed else None, centre=centre,
                most=self.most if self.most != AROUND else None,
                tokens=self.top if self.top != TOP else None, chosen=words[0] if words else None,
                over=words[1] if len(words) > 1 else None,
            )  # fmt: skip


def graph_code(folder: str, last: str) -> tuple[str, str]:
    """The command and the Python code that give the graph of one last token."""
    option = [f"--last={last}"] if last.startswith("-") else ["--last", last]
    return shlex.join(["attomaton", "graph", folder, *option]), (
        "from attomaton import open_model\nfrom attomaton.mechanics.theory.view import graph_view\n"
        "from attomaton.report.graphs import to_json\n"
        f"limit = open_model({folder!r}, [{last!r}])\n"
        f"last = limit.graph.vocabulary.read({last!r})\n"
        "print(to_json(graph_view(limit, limit.graph.vocabulary.id_of(last), errors=True)))"
    )


def _positive(x: float) -> float:
    return float(x) if np.isfinite(x) and x > 0 else 0.0


SCREEN = Screen("/graph", "Priority graph", "hub", GraphPage.build)
