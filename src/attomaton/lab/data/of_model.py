"""What a model remembers of its data: where they came from, what was set aside, the samples it keeps."""

import shlex

import numpy as np
from nicegui import ui

from attomaton.corpus.guesses import guesses_text
from attomaton.corpus.samples import SetAside
from attomaton.corpus.vocabulary import Label
from attomaton.folders.model import ModelRecord
from attomaton.lab.kit.contexts import visible
from attomaton.lab.kit.parts import abreast, card, chip, figures, note, place
from attomaton.lab.kit.table import numbers
from attomaton.lab.kit.words import on_a_page
from attomaton.lab.opened import Opened
from attomaton.lab.view import View, in_thread
from attomaton.report.text.coverage import in_words, sections
from attomaton.summaries.coverage import Coverage, coverage

MOST = 500  # samples of one last token in the table
LASTS = 12  # last tokens offered
FEW = 10  # rows of each table that says how far samples carry


async def build_model(view: View) -> None:
    """Fill the page of a model."""
    model = await view.model()
    if model is None:
        return
    s = model.record.summary
    counts = (
        ("contexts", s.windows),
        ("samples", s.samples),
        ("distinct samples", s.distinct_samples),
        ("set aside", s.dropped),
        ("tokens", s.vocab),
        ("tokens read", s.tokens),
        ("last tokens", s.last_tokens),
    )
    with card("What the model was fitted to"):
        figures((name, f"{n:,}") for name, n in counts)
    with ui.element("div").classes("grid2"):
        with card("Where it came from"), ui.element("dl").classes("facts"):
            for name, value in provenance(model.record):
                with ui.element("dt"):
                    ui.label(name)
                with ui.element("dd"):
                    ui.label(value)
        aside = model.record.set_aside or SetAside(s.dropped)
        set_aside(aside, f"{aside.rows:,} set aside: label absent from the context.")
    await _samples(view, model)


def provenance(record: ModelRecord) -> list[tuple[str, str]]:
    """Where a model's data came from, by which command, under which versions."""
    how = record.reading
    guessed = on_a_page("; ".join(guesses_text(how.guesses or ())))
    reading = ", ".join(f"{k} = {v}" for k, v in how.given.items())
    versions = ", ".join(f"{k} {v}" for k, v in record.environment.items())
    rows = (("data", record.data), ("read with", reading),
            ("order", None if how.ordering is None else on_a_page(how.ordering.text())), ("guessed", guessed),
            ("command", record.command), ("versions", versions))  # fmt: skip
    return [(name, str(value)) for name, value in rows if value]


def model_code(folder: str, last: Label) -> tuple[str, str]:
    """The command and the Python code behind the page of a model."""
    return shlex.join(["attomaton", "summary", folder, "--last", str(last)]), (
        "from attomaton import open_model\n\n"
        f"samples = open_model({folder!r}, [{last!r}]).samples\n"
        "for i in (-samples.weight).argsort(kind='stable').tolist():\n"
        "    print(samples.bag(i), samples.vocabulary[samples.label[i]], samples.weight[i])"
    )


def set_aside(aside: SetAside, said: str) -> ui.element:
    """The card of contexts without their label."""
    with card("Set aside") as made:
        note(said)
        with ui.element("ul").classes("aside-examples mono").props('tabindex="0"'):
            for example in aside.examples:
                with ui.element("li"):
                    ui.label(example)
    return made


async def _samples(view: View, model: Opened) -> None:
    """The samples behind one last token, the heaviest first."""
    with card("Samples the model keeps", "preview"):
        with abreast():
            field = ui.input("last token", value=view.get("last") or str(model.heaviest()))
            field.props("dense outlined").classes("find")
            for row in model.search("", LASTS):
                chip(visible(row.last), view.link(last=row.last))
        wrong = place()
        said = note()
        table = ui.element("div").classes("twin samples")
    with card("How far they carry", "carry"):
        carry = place()
    shown = ""

    async def show() -> None:
        nonlocal shown
        if field.value == shown:
            return
        shown = field.value  # what was there before is no answer to this
        table.clear()
        carry.clear()
        said.set_text("")
        with view.checked(wrong):
            model.last_id(shown)
            last = model.read(shown)
            limit = await in_thread(model.limit, last)
            samples = limit.samples
            mine = np.flatnonzero(samples.last == model.last_id(last))
            mine = mine[np.argsort(-samples.weight[mine], kind="stable")]
            few = f", the {MOST} heaviest of them" if len(mine) > MOST else ""
            said.set_text(f"{len(mine):,} distinct samples end in ‘{visible(last)}’{few}. A sample is a bag: its "
                          "tokens have no order.")  # fmt: skip
            with table:
                numbers(
                    ["bag", "next", "weight", "rows", "first at"],
                    [[_bag(samples.bag(int(i))), visible(samples.vocabulary[samples.label[i]]),
                      float(samples.weight[i]), int(samples.rows[i]), int(samples.source[i])] for i in mine[:MOST]],
                    page=20,
                )  # fmt: skip
            with carry:
                if limit.embeddings is not None and not limit.embeddings.orthonormal:
                    note("Embeddings couple last tokens, so one alone does not tell.")
                else:
                    _carried(await in_thread(coverage, limit, top=FEW))
            view.put(last=shown)
            view.says(*model_code(str(model.folder.resolve()), last))

    field.on("keydown.enter", show).on("blur", show)
    await show()


def _carried(found: Coverage) -> None:
    """What is identified, what orders rest on, how sure the odds are."""
    note(in_words(found, cure="")).classes("carry-words")
    # The last one lists last tokens, of which this is one.
    for section in sections(found, FEW)[:-1]:
        if section["rows"]:
            note(f"{section['heading']}. {section['note']}")
            numbers(section["header"], section["rows"], page=FEW)


def _bag(bag: dict[Label, int]) -> str:
    return " ".join(visible(x) + (f"×{n}" if n > 1 else "") for x, n in bag.items())
