"""The screen of runs and items: a table that is sorted and searched, names, tags, deletion, curves of several runs."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nicegui import ui

from attomaton.errors import AttomatonError
from attomaton.lab.kit.charts import AXES, Chart
from attomaton.lab.kit.fields import choice, toggle
from attomaton.lab.kit.page import Page
from attomaton.lab.kit.parts import abreast, button, card, chip, dense, heading, note, place
from attomaton.lab.kit.table import numbers, sorted_by_keys
from attomaton.lab.runs.curves import MOST, RECORDS, picture
from attomaton.lab.runs.rows import Row, delete, rows, told_in_full
from attomaton.lab.shelf import Item
from attomaton.lab.training.runs import TrainingRun, read_run
from attomaton.lab.view import Screen, View, in_thread

COLUMNS = [
    {"name": name, "label": label, "field": field, "sortable": True, "align": align}
    for name, label, field, align in (
        ("name", "name", "name", "left"), ("kind", "kind", "kind", "left"), ("state", "state", "state", "left"),
        ("when", "when (UTC)", "when", "left"), ("size", "size", "bytes", "right"),
        ("settings", "settings", "settings", "left"), ("results", "results", "results", "left"),
        ("tags", "tags", "tags", "left"),
    )
]  # fmt: skip


class RunsPage(Page):
    """All items, those that are chosen, and what can be done with them."""

    TITLE = "Runs and items"
    STYLES = ("screen.css",)

    def __init__(self, view: View):
        super().__init__(view)
        self.rows: list[Row] = []
        self.runs: list[TrainingRun] = []
        self.chosen = [x for x in view.get("chosen").split(",") if x]
        if not self.chosen and view.item.home == "/runs":
            self.chosen = [view.item.id]

    async def fill(self) -> None:
        """Table, actions, what is chosen, curves."""
        with card(label="All items"):
            with abreast():
                self.find = ui.input("Search names, kinds, tags", value=self.view.get("find"))
                self.find.props("dense outlined clearable debounce=150").classes("items-find")
                self.hint = note(
                    "Choose rows to name, tag, delete or compare them; a name opens its own screen."
                )
            self.wrong = place()
            self.table = ui.table(
                columns=COLUMNS, rows=[], row_key="id", selection="multiple",
                pagination={"rowsPerPage": 25, "sortBy": "when", "descending": True},
                on_select=self._selected,
            )  # fmt: skip
            self.table.classes("items-table").props('dense flat aria-label="Items"')
            self.table.add_slot("body-cell-name", _NAME)
            self.table.add_slot(
                "body-cell-size", '<q-td :props="props">{{ props.row.size }}</q-td>'
            )
            self.table.add_slot("body-cell-tags", _TAGS)
            self.table.add_slot("body-selection", _CHOICE.format("'Choose ' + props.row.name"))
            self.table.add_slot("header-selection", _CHOICE.format("'Choose all'"))
            sorted_by_keys(self.table)
            self.find.on_value_change(self._searched)
        self.told = place()
        self._curves()
        await self.read()

    async def read(self) -> None:
        """What lies on the disk now."""
        self.rows = await in_thread(rows, self.lab)
        known = {row.id for row in self.rows}
        self.chosen = [x for x in self.chosen if x in known]
        items = [self.lab.shelf.find(row.id) for row in self.rows]
        self.table.rows = [
            {**asdict(row), "to": self.view.link(item.home, item)}
            for row, item in zip(self.rows, items, strict=True)
        ]
        self.table.selected = [row for row in self.table.rows if row["id"] in self.chosen]
        self.table.update()
        self._searched()
        await self._show()

    def _searched(self) -> None:
        self.view.put(find=self.find.value)
        self.table.filter = self.find.value or ""

    async def _selected(self, e: Any) -> None:
        self.chosen = [str(row["id"]) for row in self.table.selected]
        there = {item.id for item in self.lab.shelf.items()}
        if there.issuperset(self.chosen):
            await self._show()
        else:  # deleted meanwhile, by another page or by hand
            await self.read()
        self.view.put(chosen=",".join(self.chosen[:MOST]))

    # What is chosen

    async def _show(self) -> None:
        self.told.clear()
        items = [self.lab.shelf.find(id) for id in self.chosen]
        self.hint.set_visibility(not items)
        with self.told:
            if items:
                self._edit(items)
        with self.told, self.view.checked():
            if len(items) == 1 and items[0].kind != "data":
                self._in_full(items[0], await in_thread(told_in_full, items[0]))
        self.runs = await in_thread(_training, items[:MOST])
        self.curves_place.set_visibility(bool(self.runs))
        self._redraw()

    def _in_full(self, item: Item, told: tuple[Mapping[str, object], Mapping[str, object]]) -> None:
        with card(label=f"{item.title} in full"):
            with abreast():
                heading(item.title)
                chip("open", self.view.link(item.home, item))
            with ui.element("div").classes("grid2"):
                for name, values in zip(("Settings", "Results"), told, strict=True):
                    with ui.element("div"):
                        note(name)
                        numbers(("name", "value"), [[k, v] for k, v in values.items()])

    # Curves

    def _curves(self) -> None:
        with ui.element("div").classes("w-full") as self.curves_place:
            with abreast():
                self.record = choice(self.view, "record", RECORDS, "curves of", self._redraw)
                self.axis = toggle(self.view, "axis", AXES, "Axis of steps", self._redraw)
                note("smoothing")
                share = min(max(self.view.number("smooth", 0.0), 0.0), 0.98)
                self.smooth = ui.slider(min=0, max=0.98, step=0.02, value=share).classes(
                    "items-smooth"
                )
                self.smooth.props('dense label aria-label="Smoothing"')
            self.chart = Chart("Curves of the chosen runs", name="curves", height="24rem")
        self.curves_place.set_visibility(False)
        self.smooth.on("change", self._redraw)

    def _redraw(self) -> None:
        if not self.runs:
            return
        name, share = str(self.record.value), float(self.smooth.value or 0.0)
        self.view.put(smooth=share or None)
        said = f"{RECORDS[name]}, mean over seeds"
        self.chart.title.set_text(said[0].upper() + said[1:])
        self.chart.show(picture(self.runs, name, share, self.axis.value == "linear"))

    # What is changed

    def _edit(self, items: list[Item]) -> None:
        """Fields for the name and the tags of what is chosen, and a way to delete it, asked twice."""
        labels = self.lab.shelf.labels
        tagged = [labels.of(item.id).tags for item in items]
        common = [tag for tag in tagged[0] if all(tag in others for others in tagged)]
        with card(label="What is chosen").classes("items-edit"):
            wrong = place()
            with abreast():
                name = dense(ui.input("name (empty: its own)", value=items[0].title), "items-name")
                name.set_visibility(len(items) == 1)
                tags = dense(ui.input("tags, with commas", value=", ".join(common)), "items-tags")

                async def save() -> None:
                    with self.view.checked(wrong):
                        self.lab.may_start()
                        said = str(name.value or "")
                        if len(items) == 1 and said != items[0].title:
                            labels.rename(items[0].id, said)
                        for item in items:
                            own = [t for t in labels.of(item.id).tags if t not in common]
                            labels.tag(item.id, ",".join([*own, str(tags.value or "")]))
                        await self.read()

                async def remove() -> None:
                    with self.view.checked(wrong):
                        for item in items:
                            await in_thread(delete, self.lab, item)
                        self.chosen = []
                        await self.read()

                button("Save", save, "check", more="dense")
                button(
                    "Delete …", lambda: sure.set_visibility(True), "delete", more="outline dense"
                )
            with abreast() as sure:
                note(f"Delete {', '.join(item.title for item in items)} for good?")
                button("Delete for good", remove, "delete", more="dense color=negative")
                button("Keep", lambda: sure.set_visibility(False), "undo", more="outline dense")
            sure.set_visibility(False)


def _training(items: list[Item]) -> list[TrainingRun]:
    """Those of the items that are runs of training with records."""
    found = []
    for item in items:
        try:
            run = read_run(item)
            if run.records:
                found.append(run)
        except AttomatonError:
            continue
    return found


# Text reaches the page through Vue alone; addresses are made by the server.
_CHOICE = '<q-checkbox dense v-model="props.selected" :aria-label="{}" />'
_NAME = '<q-td :props="props"><a :href="props.row.to">{{ props.row.name }}</a></q-td>'
_TAGS = """<q-td :props="props"><span v-for="tag in props.row.tags.split(', ').filter(Boolean)" :key="tag"
class="tag">{{ tag }}</span></q-td>"""

SCREEN = Screen(
    "/runs",
    "Runs",
    "list_alt",
    RunsPage.build,
    wants=("data", "model", "run", "sweep", "verification", "predictor"),
)
