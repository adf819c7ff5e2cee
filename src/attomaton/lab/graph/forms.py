"""A priority graph in its other forms: tables below the picture, and files of all of it."""

from collections.abc import Callable
from functools import partial
from typing import Any

from nicegui import ui

from attomaton.lab.graph.data import Part, TokenGraph
from attomaton.lab.graph.drawing import Drawing
from attomaton.lab.graph.tables import Table, edge_table, node_table
from attomaton.lab.kit.parts import card, emptied, heading, icon_button, menu_item
from attomaton.lab.kit.table import numbers, save_csv
from attomaton.lab.view import in_thread

ROWS = 2000  # of a table on the page
TABLES: dict[str, Callable[..., Table]] = {"Nodes": node_table, "Edges": edge_table}


class Forms:
    """The buttons for tables and files, and the tables; a row chooses what it is about."""

    def __init__(self, drawing: Callable[[], Drawing], choose: Callable[[tuple[int, ...]], Any]):
        self.drawing, self.choose = drawing, choose
        self._wanted = False
        icon_button("table_rows", "Show the numbers as tables", self._toggle)
        with icon_button("download", "Save this graph"), ui.menu():
            menu_item("SVG, as on screen", lambda: self._save("svg"))
            menu_item("PNG, as on screen", lambda: self._save("png"))
            menu_item("GraphML, all of it", self._graphml)
            for title in TABLES:
                menu_item(f"{title} as CSV", lambda title=title: self._csv(title))

    def place(self) -> None:
        """Where the tables stand, once they are asked for."""
        self.tables = card("", "pg-tables", label="Tables")
        self.tables.set_visibility(False)

    async def show(self, graph: TokenGraph, part: Part, stem: str) -> None:
        """Stand for another graph, or another part of it; `stem` begins the names of its files."""
        self.graph, self.part, self.stem = graph, part, stem
        if self.tables.visible:
            await self._fill()

    async def open(self, wanted: bool) -> None:
        """Show the tables where they are wanted; what was opened by its own button stays."""
        if wanted != self._wanted:
            self._wanted = wanted
            self.tables.set_visibility(wanted)
            if wanted:
                await self._fill()

    async def _toggle(self) -> None:
        self.tables.set_visibility(not self.tables.visible)
        if self.tables.visible:
            await self._fill()

    async def _fill(self) -> None:
        graph, part = self.graph, self.part
        found = {t: await in_thread(make, graph, part, ROWS) for t, make in TABLES.items()}
        if part is not self.part:
            return  # another part was asked for meanwhile
        with emptied(self.tables), ui.element("div").classes("grid2"):
            for title, (header, rows, ends, total) in found.items():
                with ui.element("div").classes("twin"):
                    some = f"the {ROWS:,} heaviest of " if total > ROWS else ""
                    heading(f"{title}: {some}{total:,}")
                    numbers(header, rows, on_row=partial(self._chosen, ends))

    def _chosen(self, ends: list[tuple[int, ...]], row: int) -> Any:
        return self.choose(ends[row])

    async def _csv(self, title: str) -> None:
        table = await in_thread(TABLES[title], self.graph, self.part)
        save_csv(f"{self.stem}-{title.lower()}", table.header, table.rows)

    def _save(self, kind: str) -> None:
        self.drawing().run_method("save", kind, f"{self.stem}.{kind}")

    async def _graphml(self) -> None:
        from attomaton.mechanics.theory.view import graph_view
        from attomaton.report.graphs import EXPORTS

        with self.tables:  # the menu may be gone by the time a large file is written
            busy = ui.notification("Writing GraphML …", spinner=True, timeout=None)
            drawn = await in_thread(graph_view, self.graph.limit, self.graph.last, errors=True)
            text = await in_thread(EXPORTS["graphml"], drawn)
            busy.dismiss()
            ui.download.content(text, f"{self.stem}.graphml", "application/graphml+xml")
