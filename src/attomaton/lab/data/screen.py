"""The data screen: the rows as they are read, their numbers, and what to look out for."""

import shlex

from nicegui import ui

from attomaton.corpus.inspect import Inspection
from attomaton.errors import size_text
from attomaton.lab.data.looked import Looked, look_at
from attomaton.lab.data.of_model import build_model, set_aside
from attomaton.lab.data.preview import Preview
from attomaton.lab.data.reading import ReadingCard
from attomaton.lab.jobs import DONE, STOPPED, Job
from attomaton.lab.kit.charts import (
    ROW,
    Axis,
    Chart,
    Legend,
    Margins,
    Picture,
    Series,
    names_down,
)
from attomaton.lab.kit.contexts import visible
from attomaton.lab.kit.page import Page
from attomaton.lab.kit.parts import card, figures, note, place, title
from attomaton.lab.kit.table import numbers
from attomaton.lab.kit.words import on_a_page
from attomaton.lab.shelf import EXAMPLE, Item
from attomaton.lab.view import Screen, View, in_thread

TOP = 30  # tokens drawn as bars
WORRY, TOLD, FINE = "worry", "told", "fine"
ICONS = {WORRY: "warning_amber", TOLD: "info_outline", FINE: "check"}
STACKED = {"stack": "all", "barMaxWidth": 48}


class DataPage(Page):
    """A data set in numbers, warnings, rows and charts; of a model, what it remembers of its data."""

    STYLES = ("preview.css", "reading.css")

    async def fill(self) -> None:
        """Once the data are read and counted; until then, progress."""
        view = self.view
        title(f"Data: {view.item.title}")
        if view.item.kind != "data":
            await build_model(view)
            return
        view.says(*inspect_code(view.item))
        if not view.item.decided:
            await ReadingCard(view, view.item).build()
            return
        found = look_at(view.lab, view.item)
        if isinstance(found, Job):
            if not await view.waited(found, _ended):
                return
            found = look_at(view.lab, view.item)
            assert isinstance(found, Looked)  # the job has just put it there
        await _show(view, found)
        if view.item.id != EXAMPLE:
            _otherwise(view)


def _otherwise(view: View) -> None:
    """The way to read the same file in another way."""
    with ui.expansion("Read it another way", icon="tune").classes("w-full card") as more:
        box = place()

    async def build() -> None:
        if more.value and not box.default_slot.children:
            with box:
                await ReadingCard(view, view.item).build()

    more.on_value_change(build)


def _ended(job: Job) -> None:
    if job.state == DONE:
        ui.navigate.reload()
    elif job.state == STOPPED:
        note("Stopped; nothing was counted.")
        ui.button("Read it again", icon="refresh", on_click=ui.navigate.reload).props(
            "outline no-caps"
        )


async def _show(view: View, looked: Looked) -> None:
    record = looked.record
    if record is None:
        view.problem(looked.error)
    else:
        with card("What the file holds"):
            figures(counts(looked, record))
    with ui.element("div").classes("grid2"):
        with card("What to look out for"), ui.element("ul").classes("marked"):
            for kind, text in warnings(looked, record):
                with ui.element("li"):
                    ui.icon(ICONS[kind]).classes(kind).props(f'aria-label="{kind}"')
                    ui.label(text)
        aside = looked.windows.set_aside
        with set_aside(
            aside,
            f"{aside.rows:,} set aside: label absent from the context. The theorems speak of tokens that attention "
            "can retrieve; these contexts are counted and left out.",
        ):
            if aside.rows:
                ui.link("Show them in the preview", view.link(aside=1) + "#preview")
    preview = Preview(view, looked)
    await preview.build()
    with ui.element("div").classes("grid2"):
        Chart("Lengths of contexts", lengths(looked), name="lengths")
        if record is not None:
            Chart("Frequency by rank", ranks(record), name="ranks")
    if record is not None:
        with ui.element("div").classes("grid2"):
            tall = f"{6 + 1.2 * len(record.tokens[:TOP]):.0f}rem"
            Chart("Token frequencies", frequencies(record), name="frequencies", height=tall)
            await _nexts(looked, preview)


def counts(looked: Looked, record: Inspection) -> list[tuple[str, str]]:
    """The numbers of `attomaton data inspect`, each with its name."""
    how_many = {
        "contexts": record.windows, "samples": record.samples, "distinct samples": record.distinct_samples,
        "set aside": record.set_aside.rows, "tokens": record.vocab, "last tokens": record.last_tokens,
    }  # fmt: skip
    more = {
        "tokens in a context": f"{record.shortest}–{record.longest}",
        "total weight": f"{record.total_weight:,g}",
    }
    if record.documents:
        more |= {"sequences": f"{record.documents:,}", "too short": f"{record.too_short:,}"}
    more["memory of the bags, at most"] = size_text(looked.memory, 3)
    return [*((name, f"{n:,}") for name, n in how_many.items()), *more.items()]


def warnings(looked: Looked, record: Inspection | None) -> list[tuple[str, str]]:
    """What to look out for in these data: a worry, something to know, or nothing to worry about; and what."""
    aside, all_ = looked.windows.set_aside.rows, len(looked.windows)
    found = [(FINE, "Every context holds its next token.")]
    if aside:
        some = f"{aside:,} of {all_:,} contexts ({aside / all_:.1%})"
        found = [(WORRY, f"{some} do not hold their next token: set aside.")]
    ordering = looked.windows.ordering
    if ordering is not None:
        found.append((WORRY if ordering.kind == "file" else TOLD, on_a_page(ordering.text())))
    if record is not None:
        twice = record.samples - record.distinct_samples
        same = "repeat another (last token, next token and bag): merged, weights added."
        merged = (TOLD, f"{twice:,} samples {same}")
        found.append(merged if twice else (FINE, "No two samples are the same."))
    short = looked.windows.too_short
    if looked.windows.documents or short:
        found.append(
            (WORRY, f"{short:,} sequences are empty or too short for a context and its label.")
            if short
            else (FINE, "Every sequence is long enough for a context and its label.")
        )
    return found


def inspect_code(item: Item) -> tuple[str, str]:
    """The command and the Python code behind this page."""
    path = str(item.path.resolve())
    words = ["attomaton", "data", "inspect", path, *item.reading.words]
    return shlex.join(words), (
        "from attomaton.corpus.inspect import inspect_windows\n"
        "from attomaton.corpus.readers import read_windows\n"
        "from attomaton.corpus.reading import Reading\n\n"
        f"print(inspect_windows(read_windows({path!r}, {item.reading!r})))"
    )


def lengths(looked: Looked) -> Picture:
    """How many contexts have so many tokens, those set aside on top."""
    kinds = (("holds its label", 2, "$blue"), ("set aside", 3, "$orange"))
    return Picture(
        x=Axis(
            "tokens in a context",
            names=[str(a) if a == b else f"{a}–{b}" for a, b, _, _ in looked.lengths],
        ),
        series=[
            Series("bar", [row[at] for row in looked.lengths], name, colour, more=STACKED)
            for name, at, colour in kinds
        ],
        header=["from", "to", "holds its label", "set aside"],
        rows=looked.lengths,
        hover=ROW,
        legend=Legend(),
    )


def frequencies(record: Inspection) -> Picture:
    """How often the commonest tokens are in contexts, at their end, and the label."""
    rows = [[visible(t.token), t.occurrences, t.as_last, t.as_label] for t in record.tokens]
    shown, header = rows[:TOP], ["token", "in contexts", "as last", "as label"]
    few = f"The {len(shown)} most frequent of {record.vocab:,} tokens."
    return Picture(
        y=names_down(str(row[0]) for row in shown),
        series=[
            Series("bar", [row[at] for row in shown], header[at], colour)
            for at, colour in enumerate(("$blue", "$orange", "$green"), 1)
        ],
        header=header,
        rows=rows,
        note=few if len(shown) < record.vocab else "",
        margins=Margins(8, 20, 36, 8, labels=True),
        hover=ROW,
        legend=Legend(),
    )


def ranks(record: Inspection) -> Picture:
    """Frequency against rank, both logarithmic: nearly a line in natural text."""
    rows = [[i, visible(t.token), t.occurrences] for i, t in enumerate(record.tokens, 1)]
    points = [[i, often] for i, _, often in rows if often]
    few = f"The {len(rows):,} most frequent of {record.vocab:,} tokens."
    symbols = {"symbolSize": 5, "showSymbol": len(points) < 100}
    return Picture(
        x=Axis("rank", log=True, high=max(len(points), 2)),
        y=Axis(log=True),
        series=[Series("line", points, "in contexts", more=symbols)],
        header=["rank", "token", "in contexts"],
        rows=rows,
        note=few if len(rows) < record.vocab else "",
        margins=Margins(8, 16, 20, 26, labels=True),
    )


async def _nexts(looked: Looked, preview: Preview) -> None:
    """The commonest steps from last to next token; those of one last token where the preview has one."""
    with card("From the last token to the next"):
        said = note()
        table = ui.element("div").classes("twin nexts")

    async def fill() -> None:
        table.clear()
        if preview.unknown:
            said.set_text("")
            return
        rows = await in_thread(looked.nexts, preview.last)
        what = ""
        if preview.last is not None:
            what = f" after ‘{visible(looked.windows.vocabulary[preview.last])}’"
        said.set_text(f"The {len(rows)} commonest steps{what} among the samples.")
        table.clear()
        with table:
            numbers(
                ["last", "next", "rows", "weight"],
                [[visible(a), visible(b), n, w] for a, b, n, w in rows],
                page=TOP,
            )

    await fill()
    preview.filtered = fill


SCREEN = Screen("/data", "Data", "table_chart", DataPage.build)
