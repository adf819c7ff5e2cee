"""The data screen: the rows as they are read, their numbers, and what to look out for."""

import shlex
from typing import Any

from nicegui import ui

from attomaton.lab.data.looked import Looked, look_at
from attomaton.lab.data.of_model import build_model, figures
from attomaton.lab.data.preview import CSS, Preview
from attomaton.lab.jobs import DONE, FAILED, STOPPED, Job
from attomaton.lab.kit.charts import Chart, numbers
from attomaton.lab.kit.contexts import visible
from attomaton.lab.shelf import Item
from attomaton.lab.view import Screen, View, in_thread

TOP = 30  # tokens drawn as bars
WORRY, TOLD, FINE = "worry", "told", "fine"
ICONS = {WORRY: "warning_amber", TOLD: "info_outline", FINE: "check"}
WAIT = 1.5  # seconds a page waits before it shows progress instead


async def build(view: View) -> None:
    """Fill the page."""
    ui.add_css(CSS)
    ui.label(f"Data: {view.item.title}").classes("title").props('role="heading" aria-level="1"')
    if view.item.kind != "data":
        await build_model(view)
        return
    view.says(*inspect_code(view.item))
    found = look_at(view.lab, view.item)
    if isinstance(found, Job):
        job = found
        await in_thread(job.wait, WAIT)
        if job.state == FAILED:
            view.problem(job.error)
            return
        if job.state != DONE:
            view.watch(job, _ended)
            return
        found = look_at(view.lab, view.item)
        assert isinstance(found, Looked)  # the job has just put it there
    await _show(view, found)


def _ended(job: Job) -> None:
    if job.state == DONE:
        ui.navigate.reload()
    elif job.state == STOPPED:
        ui.label("Stopped; nothing was counted.").classes("note")
        ui.button("Read it again", icon="refresh", on_click=ui.navigate.reload).props(
            "outline no-caps"
        )


async def _show(view: View, looked: Looked) -> None:
    record = looked.record
    if record is None:
        view.problem(looked.error)
    else:
        figures("What the file holds", counts(looked, record))
    with ui.element("div").classes("grid2"):
        _warnings(looked, record)
        _set_aside(view, looked)
    preview = Preview(view, looked)
    await preview.build()
    with ui.element("div").classes("grid2"):
        _lengths(looked)
        if record is not None:
            _ranks(record)
    if record is not None:
        with ui.element("div").classes("grid2"):
            _frequencies(record)
            await _nexts(looked, preview)


def counts(looked: Looked, record: dict[str, Any]) -> list[tuple[str, str]]:
    """The numbers of `attomaton data inspect`, each with its name."""
    rows = [
        ("contexts", f"{record['windows']:,}"),
        ("samples", f"{record['samples']:,}"),
        ("distinct samples", f"{record['distinct_samples']:,}"),
        ("set aside", f"{record['set_aside']['rows']:,}"),
        ("tokens", f"{record['vocab']:,}"),
        ("last tokens", f"{record['last_tokens']:,}"),
        ("tokens in a context", f"{record['shortest']}–{record['longest']}"),
        ("total weight", f"{record['total_weight']:,g}"),
    ]
    if record["documents"]:
        rows.append(("sequences", f"{record['documents']:,}"))
        rows.append(("too short", f"{record['too_short']:,}"))
    return [*rows, ("memory of the bags, at most", _size(looked.memory))]


def warnings(looked: Looked, record: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What to look out for in these data: a worry, something to know, or nothing to worry about; and what."""
    aside, all_ = looked.windows.set_aside.rows, len(looked.windows)
    found = [
        (
            WORRY,
            f"{aside:,} of {all_:,} contexts ({aside / all_:.1%}) do not hold their next token: set aside.",
        )
        if aside
        else (FINE, "Every context holds its next token.")
    ]
    if record is not None:
        twice = record["samples"] - record["distinct_samples"]
        found.append(
            (
                TOLD,
                f"{twice:,} samples repeat another (last token, next token and bag): merged, weights added.",
            )
            if twice
            else (FINE, "No two samples are the same.")
        )
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


def _warnings(looked: Looked, record: dict[str, Any] | None) -> None:
    with _card("What to look out for"), ui.element("ul").classes("marked"):
        for kind, text in warnings(looked, record):
            with ui.element("li"):
                ui.icon(ICONS[kind]).classes(kind).props(f'aria-label="{kind}"')
                ui.label(text)


def _set_aside(view: View, looked: Looked) -> None:
    aside = looked.windows.set_aside
    with _card("Set aside"):
        ui.label(
            f"{aside.rows:,} set aside: label absent from the context. The theorems speak of tokens that attention "
            "can retrieve; these contexts are counted and left out."
        ).classes("note")
        with ui.element("ul").classes("aside-examples mono").props('tabindex="0"'):
            for example in aside.examples:
                with ui.element("li"):
                    ui.label(example)
        if aside.rows:
            ui.link("Show them in the preview", view.link(aside=1) + "#preview")


def _lengths(looked: Looked) -> None:
    rows = [list(row) for row in looked.lengths]
    names = [str(a) if a == b else f"{a}–{b}" for a, b, _, _ in looked.lengths]
    options = {
        "grid": {"left": 8, "right": 16, "top": 36, "bottom": 26, "containLabel": True},
        "legend": {"top": 0},
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}},
        "xAxis": {"type": "category", "data": names, "name": "tokens in a context", "nameLocation": "middle",
                  "nameGap": 26},
        "yAxis": {"type": "value"},
        "series": [
            {"name": name, "type": "bar", "stack": "all", "barMaxWidth": 48, "data": [row[at] for row in rows],
             "itemStyle": {"color": colour}}
            for name, at, colour in (("holds its label", 2, "$blue"), ("set aside", 3, "$orange"))
        ],
    }  # fmt: skip
    Chart(
        "Lengths of contexts",
        options,
        ["from", "to", "holds its label", "set aside"],
        rows,
        name="lengths",
    )


def _frequencies(record: dict[str, Any]) -> None:
    shown = record["tokens"][:TOP]
    kinds = (("in contexts", "occurrences", "$blue"), ("as last", "as_last", "$orange"),
             ("as label", "as_label", "$green"))  # fmt: skip
    options = {
        "grid": {"left": 8, "right": 20, "top": 36, "bottom": 8, "containLabel": True},
        "legend": {"top": 0},
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}},
        "xAxis": {"type": "value"},
        "yAxis": {
            "type": "category", "inverse": True, "data": [visible(t["token"]) for t in shown],
            "axisLabel": {"width": 110, "overflow": "truncate", "interval": 0, "color": "$ink"},
            "axisTick": {"show": False},
        },
        "series": [
            {"name": name, "type": "bar", "data": [t[field] for t in shown], "itemStyle": {"color": colour}}
            for name, field, colour in kinds
        ],
    }  # fmt: skip
    rows = [
        [visible(t["token"]), t["occurrences"], t["as_last"], t["as_label"]]
        for t in record["tokens"]
    ]
    more = record["vocab"] - len(shown)
    Chart(
        "Token frequencies", options, ["token", "in contexts", "as last", "as label"], rows, name="frequencies",
        height=f"{6 + 1.2 * len(shown):.0f}rem",
        note=f"The {len(shown)} most frequent of {record['vocab']:,} tokens." if more > 0 else "",
    )  # fmt: skip


def _ranks(record: dict[str, Any]) -> None:
    """Frequency against rank, both logarithmic: nearly a line in natural text."""
    points = [[i, t["occurrences"]] for i, t in enumerate(record["tokens"], 1) if t["occurrences"]]
    options = {
        "grid": {"left": 8, "right": 16, "top": 20, "bottom": 26, "containLabel": True},
        "tooltip": {"trigger": "axis"},
        "xAxis": {
            "type": "log",
            "name": "rank",
            "nameLocation": "middle",
            "nameGap": 26,
            "max": max(len(points), 2),
        },
        "yAxis": {"type": "log"},
        "series": [
            {
                "name": "in contexts",
                "type": "line",
                "data": points,
                "symbolSize": 5,
                "showSymbol": len(points) < 100,
            }
        ],
    }
    rows = [[i, visible(t["token"]), t["occurrences"]] for i, t in enumerate(record["tokens"], 1)]
    note = (
        f"The {len(rows):,} most frequent of {record['vocab']:,} tokens."
        if len(rows) < record["vocab"]
        else ""
    )
    Chart(
        "Frequency by rank",
        options,
        ["rank", "token", "in contexts"],
        rows,
        name="ranks",
        note=note,
    )


async def _nexts(looked: Looked, preview: Preview) -> None:
    """The commonest steps from last to next token; those of one last token where the preview has one."""
    with _card("From the last token to the next"):
        note = ui.label().classes("note")
        place = ui.element("div").classes("twin nexts")

    async def fill() -> None:
        rows = await in_thread(looked.nexts, preview.last)
        what = (
            ""
            if preview.last is None
            else f" after ‘{visible(looked.windows.vocabulary[preview.last])}’"
        )
        note.set_text(f"The {len(rows)} commonest steps{what} among the samples.")
        place.clear()
        with place:
            numbers(
                ["last", "next", "rows", "weight"],
                [[visible(a), visible(b), n, w] for a, b, n, w in rows],
                page=TOP,
            )

    await fill()
    preview.filtered = fill


def _card(title: str) -> ui.element:
    card = ui.element("section").classes("card").props(f'aria-label="{title}"')
    with card:
        ui.label(title).classes("card-title").props('role="heading" aria-level="2"')
    return card


def _size(n: int) -> str:
    """Bytes in words.

    >>> _size(900), _size(5_200_000)
    ('0.9 kB', '5.2 MB')
    """
    return f"{n / 1e3:.1f} kB" if n < 1e6 else f"{n / 1e6:,.1f} MB"


HELP = """
A sample is a context of tokens and the one that came next. The layer has no positions: it sees the last token *q* and
how often each token is in the context (a bag).

**Set aside.** Attention can only name a token of the context. A context without its own next token
(xᵢ ∌ yᵢ) breaks the theorem's first assumption; it is counted, shown and left out.

**Merged.** Samples of the same last token, next token and bag are one, with the sum of their weights.

**Memory of the bags.** 8 bytes for each token of a context and 40 for each sample, before equal tokens and samples are
merged: an upper bound of what fitting holds at once; it works on one part of the last tokens at a time.

Rows are shown as they were read, 20 at a time; type a last token to see only those that end in it.

*Mechanics of next token prediction with self-attention* (Li et al., 2024), Section 2.
"""
SCREEN = Screen("/data", "Data", "table_chart", build, HELP)
