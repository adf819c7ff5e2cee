"""A chart as the lab shows it: a title, the picture, its numbers as a table, and files of both."""

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui
from nicegui.elements.echart import EChart

from attomaton.errors import visible
from attomaton.report.text.spreadsheets import csv_text

Rows = Sequence[Sequence[object]]
POINTS = 2000  # of one series
LONGEST = 500  # characters of a cell
# A scale that reads the same to every eye and in grey.
VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58",
           "#b5de2b", "#fde725"]  # fmt: skip


class Canvas(EChart, component="chart.js"):
    """ECharts in the colours of the page; options name colours as "$blue", "$ink", "$soft", "$line" and so on."""

    def __init__(self, options: dict[str, Any], label: str):
        super().__init__(options)
        self._props["label"] = label

    def patch(self, options: dict[str, Any]) -> None:
        """Change parts of what is drawn, in the browser alone; `options` stay what they were."""
        self.run_method("patch", options)


class Chart:
    """A card with a chart, its table twin and its exports; `name` is the stem of saved files."""

    def __init__(
        self,
        title: str,
        options: dict[str, Any],
        header: Sequence[str],
        rows: Rows,
        *,
        name: str,
        height: str = "20rem",
        note: str = "",
        on_click: Callable[[dict[str, Any]], Any] | None = None,
    ):
        self.name, self.header, self.rows = name, list(header), rows
        self._stale = True
        self.canvas: Canvas
        with (
            ui.element("section")
            .classes("card")
            .props(f'aria-label="{_quoted(title)}"') as self.card
        ):
            with ui.row().classes("card-head"):
                self.title = (
                    ui.label(title).classes("card-title").props('role="heading" aria-level="2"')
                )
                ui.space()
                self._twin_button = icon_button(
                    "table_rows", "Show the numbers as a table", self._toggle
                )
                with icon_button("download", "Save this chart"), ui.menu():
                    ui.menu_item(
                        "SVG", lambda: self.canvas.run_method("save", "svg", f"{name}.svg")
                    )
                    ui.menu_item(
                        "PNG", lambda: self.canvas.run_method("save", "png", f"{name}.png")
                    )
                    ui.menu_item("CSV", self.save_csv)
            self.canvas = Canvas(options, title).style(f"height: {height}; width: 100%")
            if on_click is not None:
                self.canvas.on("point", lambda e: on_click(e.args))
            self.note = ui.label(note).classes("note")
            self.note.set_visibility(bool(note))
            with ui.element("div").classes("twin") as self._twin:
                pass
            self._twin.set_visibility(False)

    def show(
        self, options: dict[str, Any], header: Sequence[str], rows: Rows, note: str | None = None
    ) -> None:
        """Draw something else in the same place."""
        self.header, self.rows, self._stale = list(header), rows, True
        self.canvas._props["options"] = options
        self.canvas.update()
        if note is not None:
            self.note.set_text(note)
            self.note.set_visibility(bool(note))
        if self._twin.visible:
            self._fill()

    def save_csv(self) -> None:
        """The numbers as a file."""
        save_csv(self.name, self.header, self.rows)

    def _toggle(self) -> None:
        self._twin.set_visibility(not self._twin.visible)
        if self._twin.visible and self._stale:
            self._fill()

    def _fill(self) -> None:
        self._twin.clear()
        with self._twin:
            numbers(self.header, self.rows)
        self._stale = False


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
    right = [
        all(isinstance(row[j], (int, float)) or row[j] is None for row in rows) and bool(rows)
        for j in range(len(header))
    ]
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
        {"id": i, **{f"c{j}": shown(x) for j, x in enumerate(row)}} for i, row in enumerate(rows)
    ]
    paging = {"rowsPerPage": page if len(data) > page else 0}
    table = ui.table(columns=columns, rows=data, row_key="id", pagination=paging)
    table.classes("numbers").props("dense flat")
    if len(data) <= page:
        table.props("hide-pagination")
    if on_row is not None:
        table.classes("choosable")
        table.add_slot(
            "body",
            """<q-tr :props="props" tabindex="0" @click="$parent.$emit('choose', props.row.id)"
            @keyup.enter="$parent.$emit('choose', props.row.id)"><q-td v-for="col in props.cols" :key="col.name"
            :props="props">{{ col.value }}</q-td></q-tr>""",
        )
        table.on("choose", lambda e: on_row(int(e.args)))
    return table


def shown(x: object) -> object:
    """A value as a cell shows it; what there is not as a dash, text of a user with nothing hidden in it."""
    if isinstance(x, float):
        return float(f"{x:.6g}")
    return x if isinstance(x, int) else "–" if x is None else visible(x, LONGEST, keep="\n")


def save_csv(name: str, header: Sequence[str], rows: Rows) -> None:
    """Rows as a CSV file for the one who asked."""
    ui.download.content(csv_text(header, rows, "\r\n"), f"{name}.csv", "text/csv")


def icon_button(icon: str, what: str, do: Callable[..., Any] | None = None) -> ui.button:
    """A round button with a picture; what it does is said on hover and to a screen reader."""
    button = ui.button(icon=icon, on_click=do).props(
        f'flat round dense size="sm" aria-label="{_quoted(what)}"'
    )
    with button:
        ui.tooltip(what)
    return button


def thinned(n: int, most: int = POINTS) -> list[int]:
    """Which of n points to draw: all, or `most` spread evenly, the first and the last among them.

    >>> thinned(3), thinned(10, 4)
    ([0, 1, 2], [0, 3, 6, 9])
    """
    return list(range(n)) if n <= most else [round(i * (n - 1) / (most - 1)) for i in range(most)]


def _quoted(text: str) -> str:
    return text.replace('"', "'")
