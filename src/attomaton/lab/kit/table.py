"""Rows as a table: sorted by a click on a column, chosen from, saved as CSV; its cells may lead somewhere."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from nicegui import ui

from attomaton.base.assets import beside
from attomaton.errors import visible
from attomaton.lab.kit.parts import card, heading, icon_button, note
from attomaton.report.text.spreadsheets import csv_text

Rows = Sequence[Sequence[object]]
LONGEST = 500  # characters of a cell
PAGE = 50  # rows of a table with links that are shown at once


@dataclass(frozen=True)
class Part:
    """One word of a cell: where it leads, its place in a graph, and what stands after it."""

    text: str
    to: str = ""
    place: str = ""
    after: str = ""


Parts = Mapping[tuple[int, int], Sequence[Part]]  # by row and column


def numbers(
    header: Sequence[str],
    rows: Rows,
    *,
    on_row: Callable[[int], Any] | None = None,
    page: int = 12,
) -> ui.table:
    """A table of values; floats to six digits, as the command line's JSON has them in full.

    `on_row` is called with the number of a row that is chosen, by mouse or keyboard.
    """
    right = [all(x is None or _number(x) for x in column) for column in zip(*rows, strict=True)]
    table = _table(header, [list(map(shown, row)) for row in rows], right, page)
    if on_row is not None:
        table.classes("choosable").add_slot("body", _CHOOSABLE)
        table.on("choose", lambda e: on_row(int(e.args)))
    return table


def linked_table(
    title: str,
    said: str,
    header: Sequence[str],
    rows: Rows,
    parts: Parts | None = None,
    *,
    name: str,
) -> ui.element:
    """A card with a table that can be saved as CSV; `parts[i, j]` take the place of the text of a cell."""
    with card(label=title) as made:
        with ui.row().classes("card-head"):
            heading(title)
            ui.space()
            if rows:
                save = partial(save_csv, name, header, rows)
                icon_button("download", "Save this table as CSV", save)
        if said:
            note(said)
        if not rows:
            note("None.")
            return made
        parts = parts or {}
        linked = {j for _, j in parts}
        right = [
            j not in linked and all(x == "" or _number(x) for x in column)
            for j, column in enumerate(zip(*rows, strict=True))
        ]
        cells = [[x if _number(x) else visible(x, LONGEST, keep="\n") for x in row] for row in rows]
        table = _table(header, cells, right, PAGE).classes("linked")
        for (i, j), words in parts.items():
            table.rows[i].setdefault("parts", {})[f"c{j}"] = [asdict(part) for part in words]
        table.add_slot("body", _LINKED)
    return made


def shown(x: object) -> object:
    """A value as a cell shows it; what there is not as a dash, text of a user with nothing hidden in it."""
    if isinstance(x, float):
        return float(f"{x:.6g}")
    return x if isinstance(x, int) else "–" if x is None else visible(x, LONGEST, keep="\n")


def save_csv(name: str, header: Sequence[str], rows: Rows) -> None:
    """Rows as a CSV file for the one who asked."""
    ui.download.content(csv_text(header, rows, "\r\n"), f"{name}.csv", "text/csv")


def sorted_by_keys(table: ui.table) -> None:
    """Let Tab reach the columns of a table, and Enter sort by one: Quasar hears clicks alone."""
    table.add_slot("header-cell", _HEADER)


def _number(x: object) -> bool:
    return isinstance(x, (int, float))


def _table(header: Sequence[str], cells: Rows, right: Sequence[bool], page: int) -> ui.table:
    columns = [
        {"name": f"c{j}", "label": label, "field": f"c{j}", "sortable": True, "align": align}
        for j, label in enumerate(header)
        for align in ["right" if j < len(right) and right[j] else "left"]
    ]
    data = [{"id": i, **{f"c{j}": x for j, x in enumerate(row)}} for i, row in enumerate(cells)]
    paging = {"rowsPerPage": page if len(data) > page else 0}
    table = ui.table(columns=columns, rows=data, row_key="id", pagination=paging)
    table.classes("numbers").props("dense flat")
    sorted_by_keys(table)
    return table if len(data) > page else table.props("hide-pagination")


_HEADER = """<q-th :props="props" :tabindex="props.col.sortable ? 0 : undefined"
:aria-sort="/sorted/.test(props.col.__thClass) ? /sort-desc/.test(props.col.__thClass) ? 'descending' : 'ascending'
: undefined" @keydown.enter.space.prevent="props.sort(props.col)">{{ props.col.label }}</q-th>"""
_CHOOSABLE = """<q-tr :props="props" tabindex="0" @click="$parent.$emit('choose', props.row.id)"
@keyup.enter="$parent.$emit('choose', props.row.id)"><q-td v-for="col in props.cols" :key="col.name"
:props="props">{{ col.value }}</q-td></q-tr>"""
# Text reaches the page through Vue alone, never as HTML; addresses are made by the server.
_LINKED = beside(__file__, "linked.vue")
