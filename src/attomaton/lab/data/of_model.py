"""What a model remembers of its data: where they came from, what was set aside, the samples it keeps."""

import shlex
from collections.abc import Sequence

import numpy as np
from nicegui import ui

from attomaton.corpus.samples import SetAside
from attomaton.corpus.vocabulary import Label
from attomaton.folders.model import ModelRecord
from attomaton.lab.kit.charts import numbers
from attomaton.lab.kit.contexts import visible
from attomaton.lab.opened import Opened
from attomaton.lab.view import View, in_thread

MOST = 500  # samples of one last token in the table
LASTS = 12  # last tokens offered


def figures(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """A card of numbers with their names."""
    with ui.element("section").classes("card").props(f'aria-label="{title}"'):
        ui.label(title).classes("card-title").props('role="heading" aria-level="2"')
        with ui.element("div").classes("figures"):
            for name, value in rows:
                with ui.element("div"):
                    ui.label(value).classes("figure-value")
                    ui.label(name).classes("figure-name")


async def build_model(view: View) -> None:
    """Fill the page of a model."""
    model = await view.model()
    if model is None:
        return
    s = model.record.summary
    figures(
        "What the model was fitted to",
        [
            ("contexts", f"{s.windows:,}"),
            ("samples", f"{s.samples:,}"),
            ("distinct samples", f"{s.distinct_samples:,}"),
            ("set aside", f"{s.dropped:,}"),
            ("tokens", f"{s.vocab:,}"),
            ("tokens read", f"{s.tokens:,}"),
            ("last tokens", f"{s.last_tokens:,}"),
        ],
    )
    with ui.element("div").classes("grid2"):
        _provenance(model)
        _set_aside(model)
    await _samples(view, model)


def provenance(record: ModelRecord) -> list[tuple[str, str]]:
    """Where a model's data came from, by which command, under which versions."""
    how = record.reading
    reading = ", ".join(f"{k} = {v}" for k, v in how.given.items())
    versions = ", ".join(f"{k} {v}" for k, v in record.environment.items())
    rows = (("data", record.data), ("read with", reading),
            ("order", None if how.ordering is None else how.ordering.text()), ("command", record.command),
            ("versions", versions))  # fmt: skip
    return [(name, str(value)) for name, value in rows if value]


def model_code(folder: str, last: Label) -> tuple[str, str]:
    """The command and the Python code behind the page of a model."""
    return shlex.join(["attomaton", "summary", folder, "--last", str(last)]), (
        "from attomaton import open_model\n\n"
        f"samples = open_model({folder!r}, [{last!r}]).samples\n"
        "for i in (-samples.weight).argsort(kind='stable').tolist():\n"
        "    print(samples.bag(i), samples.vocabulary[samples.label[i]], samples.weight[i])"
    )


def _provenance(model: Opened) -> None:
    with _card("Where it came from"), ui.element("dl").classes("facts"):
        for name, value in provenance(model.record):
            with ui.element("dt"):
                ui.label(name)
            with ui.element("dd"):
                ui.label(value)


def _set_aside(model: Opened) -> None:
    aside = model.record.set_aside or SetAside(model.record.summary.dropped)
    with _card("Set aside"):
        ui.label(f"{aside.rows:,} set aside: label absent from the context.").classes("note")
        with ui.element("ul").classes("aside-examples mono").props('tabindex="0"'):
            for example in aside.examples:
                with ui.element("li"):
                    ui.label(example)


async def _samples(view: View, model: Opened) -> None:
    """The samples behind one last token, the heaviest first."""
    with _card("Samples the model keeps").classes("preview"):
        with ui.element("div").classes("abreast"):
            field = ui.input("last token", value=view.get("last") or str(model.heaviest()))
            field.props("dense outlined").classes("find")
            for row in model.search("", LASTS):
                link = view.link(last=row.last)
                ui.link(visible(row.last), link).classes("chip")
        wrong = ui.element("div").classes("w-full")
        note = ui.label().classes("note")
        place = ui.element("div").classes("twin samples")
    shown = ""

    async def show() -> None:
        nonlocal shown
        if field.value == shown:
            return
        with view.checked(wrong):
            model.last_id(field.value)
            shown = field.value
            last = model.read(shown)
            samples = (await in_thread(model.limit, last)).samples
            mine = np.flatnonzero(samples.last == model.last_id(last))
            mine = mine[np.argsort(-samples.weight[mine], kind="stable")]
            few = f", the {MOST} heaviest of them" if len(mine) > MOST else ""
            note.set_text(f"{len(mine):,} distinct samples end in ‘{visible(last)}’{few}. A sample is a bag: its "
                          "tokens have no order.")  # fmt: skip
            place.clear()
            with place:
                numbers(
                    ["bag", "next", "weight", "rows", "first at"],
                    [[_bag(samples.bag(int(i))), visible(samples.vocabulary[samples.label[i]]),
                      float(samples.weight[i]), int(samples.rows[i]), int(samples.source[i])] for i in mine[:MOST]],
                    page=20,
                )  # fmt: skip
            view.put(last=shown)
            view.says(*model_code(str(model.folder.resolve()), last))

    field.on("keydown.enter", show).on("blur", show)
    await show()


def _bag(bag: dict[Label, int]) -> str:
    return " ".join(visible(x) + (f"×{n}" if n > 1 else "") for x, n in bag.items())


def _card(title: str) -> ui.element:
    card = ui.element("section").classes("card").props(f'aria-label="{title}"')
    with card:
        ui.label(title).classes("card-title").props('role="heading" aria-level="2"')
    return card
