"""One claim in full: its statement, prediction beside measurement, pictures, control, and how to check it again."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from attomaton.disk.formats import to_json
from attomaton.lab.claims.panels import draw_panel
from attomaton.lab.kit.parts import abreast, note
from attomaton.report.figures.verification import words
from attomaton.report.text.verification import Block, Mark, Table, blocks, slugs
from attomaton.results import Checked


def show_details(record: Checked) -> None:
    """All blocks of the report about a claim."""
    for block in blocks(record, slugs([record])[0]):
        _SHOWN[block.kind](block)


def _term(block: Block) -> None:
    with ui.element("div"):
        ui.label(f"{block.name}.").classes("inline font-semibold mr-1")
        ui.label(words(block.text)).classes("inline")


def _mark(block: Block) -> None:
    with abreast():
        if block.mark is not None:
            _verdict(block.mark)
        note(block.text)


def _verdict(mark: Mark) -> None:
    """A verdict as a symbol and words; green is kept for claims that hold."""
    ui.label(str(mark)).classes(f"claim-mark {'met' if mark.kind == 'good' else mark.kind}")


def _table(table: Table) -> None:
    with (
        ui.element("div").classes("claim-scroll").props('tabindex="0" role="region"') as box,
        ui.element("table").classes("claim-table"),
    ):
        box.props["aria-label"] = table.name
        with ui.element("thead"), ui.element("tr"):
            for title in table.header:
                with ui.element("th").props('scope="col"'):
                    ui.label(title)
        with ui.element("tbody"):
            for row in table.rows:
                with ui.element("tr"):
                    for j, cell in enumerate(row):
                        with ui.element("td" if j else "th").props("" if j else 'scope="row"'):
                            _cell(cell)


def _cell(cell: Any) -> None:
    if isinstance(cell, Mark):
        _verdict(cell)
    else:
        for line in cell if isinstance(cell, list) else [cell]:
            ui.label(words(str(line)))


def _tables(block: Block) -> None:
    with ui.element("div").classes("grid2" if len(block.tables) > 1 else ""):
        for table in block.tables:
            _table(table)


def _panels(block: Block) -> None:
    with ui.element("div").classes("grid2"):
        for name, panel in block.panels.items():
            draw_panel(panel, name)


def _values(block: Block) -> None:
    """Every digit, sent to the page when it is asked for."""
    with ui.expansion("Every value, at full precision").classes("w-full") as box:
        place = ui.element("div")

    def opened() -> None:
        if box.value and not place.default_slot.children:
            with place:
                _code(to_json(block.values), "claim-values")

    box.on_value_change(opened)


def _code(text: str, more: str = "") -> None:
    ui.label(text).classes(f"mono claim-code {more}")


# How each kind of block of the report looks here.
_SHOWN: dict[str, Callable[[Block], object]] = {
    "heading": lambda b: (
        ui.label(b.text).classes("claim-heading").props('role="heading" aria-level="3"')
    ),
    "text": lambda b: ui.label(words(b.text)).classes("whitespace-pre-wrap"),
    "formula": lambda b: ui.label(b.text).classes("claim-formula"),
    "code": lambda b: _code(b.text),
    "term": _term,
    "mark": _mark,
    "tables": _tables,
    "values": _values,
    "panels": _panels,
}
