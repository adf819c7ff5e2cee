"""A table whose cells lead somewhere: tokens to their lens and to their place in a graph, documents to their lens."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nicegui import ui

from attomaton.errors import visible
from attomaton.lab.kit.charts import LONGEST, icon_button, save_csv

PAGE = 50  # rows shown at once

CSS = """
.linked-part { white-space: nowrap; }
.linked-part + .linked-part { margin-left: .4rem; }
.linked-part a { text-decoration: none; }
.linked-part a:hover { text-decoration: underline; }
.linked-place { margin-left: .25rem; font-size: .8rem; color: var(--soft); }
.linked-place:hover, .linked-place:focus-visible { color: var(--link); }
.linked td { white-space: normal; }
.linked td.text-right { white-space: nowrap; }
"""


@dataclass(frozen=True)
class Part:
    """One word of a cell: where it leads, its place in a graph, and what stands after it."""

    text: str
    to: str = ""
    place: str = ""
    after: str = ""


def linked_table(
    title: str,
    note: str,
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    parts: Mapping[tuple[int, int], Sequence[Part]],
    *,
    name: str,
) -> ui.element:
    """A card with a table that can be sorted and saved as CSV; `parts[i, j]` take the place of the text of a cell."""
    with (
        ui.element("section")
        .classes("card")
        .props(f'aria-label="{title.replace(chr(34), chr(39))}"') as card
    ):
        with ui.row().classes("card-head"):
            ui.label(title).classes("card-title").props('role="heading" aria-level="2"')
            ui.space()
            if rows:
                icon_button(
                    "download", "Save this table as CSV", lambda: save_csv(name, header, rows)
                )
        if note:
            ui.label(note).classes("note")
        if rows:
            _table(header, rows, parts)
        else:
            ui.label("None.").classes("note")
    return card


def _table(
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    parts: Mapping[tuple[int, int], Sequence[Part]],
) -> None:
    right = [
        all(isinstance(row[j], (int, float)) or row[j] == "" for row in rows)
        for j in range(len(header))
    ]
    for _, j in parts:
        right[j] = False
    columns = [
        {
            "name": f"c{j}",
            "label": h,
            "field": f"c{j}",
            "sortable": True,
            "align": "right" if right[j] else "left",
        }
        for j, h in enumerate(header)
    ]
    data = [
        {
            "id": i,
            **{
                f"c{j}": x if isinstance(x, (int, float)) else visible(x, LONGEST, keep="\n")
                for j, x in enumerate(row)
            },
            "parts": {
                f"c{j}": [asdict(p) for p in parts[i, j]]
                for j in range(len(row))
                if (i, j) in parts
            },
        }
        for i, row in enumerate(rows)
    ]
    paging = {"rowsPerPage": PAGE if len(data) > PAGE else 0}
    table = ui.table(columns=columns, rows=data, row_key="id", pagination=paging)
    table.classes("numbers linked").props("dense flat")
    if len(data) <= PAGE:
        table.props("hide-pagination")
    table.add_slot("body", _BODY)


# Text reaches the page through Vue alone, never as HTML; addresses are made by the server.
_BODY = """<q-tr :props="props"><q-td v-for="col in props.cols" :key="col.name" :props="props">
<template v-if="props.row.parts[col.name]"><template v-for="(part, i) in props.row.parts[col.name]" :key="i">{{ ' '
}}<span class="linked-part"><a v-if="part.to" :href="part.to">{{ part.text }}</a><span v-else>{{ part.text }}</span><a
v-if="part.place" :href="part.place" class="linked-place" :aria-label="part.text + ' in the graph'"
:title="part.text + ' in the graph'"><q-icon name="hub" aria-hidden="true" /></a>{{ part.after }}</span></template>
</template>
<template v-else>{{ typeof col.value === 'number' ? col.value.toLocaleString('en', {maximumFractionDigits: 6})
: col.value }}</template></q-td></q-tr>"""
