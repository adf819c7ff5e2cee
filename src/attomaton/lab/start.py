"""The start screen: an example already on screen, three doors to one's own data."""

import shlex
from collections.abc import Callable

from nicegui import events, ui

from attomaton.corpus.files import PACKED
from attomaton.corpus.text import SPLITS
from attomaton.corpus.times import DATES
from attomaton.lab.graph.data import TokenGraph, part_of
from attomaton.lab.graph.drawing import CSS, Drawing
from attomaton.lab.graph.scene import scene
from attomaton.lab.kit.contexts import visible
from attomaton.lab.kit.page import Page
from attomaton.lab.kit.parts import abreast, button, card, chip, dense, figures, heading, note
from attomaton.lab.opened import Opened
from attomaton.lab.shelf import MOST_BYTES, SUFFIXES, TOKENISERS, Item
from attomaton.lab.view import Screen, View, in_thread

PASTED = {"rows": "pasted.jsonl", "text": "pasted.txt", "events": "pasted.csv"}
ROWS = '{"tokens": ["tea", "cake", "bell"], "next": "tea"}\n{"tokens": ["cake", "soup", "bell"], "next": "soup"}'


class StartPage(Page):
    """What is open, in numbers and a picture, and the doors to everything else."""

    TITLE = (
        "What does a self-attention layer learn from next-token prediction, exactly, on your data?"
    )
    CSS = CSS

    async def fill(self) -> None:
        """The model, once it is there; the doors in any case."""
        view = self.view
        model = await view.model()
        if model is not None:
            with ui.element("div").classes("grid2"):
                _summary(view, model)
                await _picture(view, model)
        with ui.element("div").classes("grid2"):
            _paste(view)
            _folders(view)
        view.says(*fit_code(view.item))


def fit_code(item: Item) -> tuple[str, str]:
    """The command and the Python code that fit an item."""
    if item.kind != "data":
        folder = str(item.path)
        return f"attomaton summary {shlex.quote(folder)}", (
            f"from attomaton import open_model\nlimit = open_model({folder!r})\nprint(limit.summary())"
        )
    words = ["attomaton", "fit", str(item.path), *item.reading.words, "-o", "model"]
    given = "".join(f", {k}={v!r}" for k, v in item.reading.given.items())
    return shlex.join(words), (
        "from attomaton import read_samples, solve_limit\n"
        f"limit = solve_limit(read_samples({str(item.path)!r}{given}))\nprint(limit.summary())"
    )


def _summary(view: View, model: Opened) -> None:
    """What was learned, in numbers, with a way into every screen."""
    s = model.record.summary
    with card(view.item.title, label="What is open"):
        figures(
            [
                ("samples", f"{s.samples:,}"),
                ("tokens", f"{s.vocab:,}"),
                ("priority graphs", f"{s.last_tokens:,}"),
                ("components", f"{s.components:,}"),
                ("of several tokens", f"{s.cyclic_components:,}"),
                ("‖W_svm‖ (hard)", f"{s.svm_norm:.6g}"),
                ("‖W_fin‖ (soft)", f"{s.finite_norm:.6g}"),
                ("loss floor L*", f"{s.loss_floor:.10g}"),
                ("set aside", f"{s.dropped:,}"),
            ]
        )
        if model.record.embeddings is not None:
            note(f"Embeddings {visible(model.record.embeddings)}")
        ui.label(
            "Trained for ever, one self-attention layer becomes an automaton: after each last token it retrieves the "
            "tokens of highest priority (hard), then mixes those that are tied (soft). Both parts are computed "
            "exactly and certified."
        ).classes("lead")
        with abreast():
            note("Look at the priority graph after")
            for row in model.search("", 8):
                chip(visible(row.last), view.link("/graph", last=row.last))
        with abreast():
            note("or")
            for text, path in (
                ("ask what comes next", "/automaton"),
                ("train the layer", "/training"),
                ("read what was learned", "/lens"),
                ("watch attention scan and snap", "/scan-snap"),
            ):
                chip(text, view.link(path))


async def _picture(view: View, model: Opened) -> None:
    """The graph of the heaviest last token, as a door to its screen."""
    last = model.heaviest()
    with card(label="One priority graph"):
        with abreast():
            heading(f"Priority after “{visible(last)}”")
            ui.link("open", view.link("/graph", last=last)).classes("note")
        drawing = Drawing().style("height: 19rem")
        drawing.on("choose", lambda: view.go("/graph", last=last))
        graph = await in_thread(lambda: TokenGraph(model.limit(last), model.last_id(last)))
        drawn = await in_thread(lambda: scene(graph, part_of(graph, most=100)))
        drawing.show(drawn, f"priority graph after {visible(last)}")


def _paste(view: View) -> None:
    with card("Your data"):
        kind = ui.toggle(
            {"rows": "Rows (JSONL)", "text": "Text", "events": "Events (CSV)"}, value="rows"
        )
        kind.props("dense no-caps unelevated toggle-color=primary")
        said = ui.textarea(placeholder=ROWS).props(
            'outlined autogrow input-class="mono" aria-label="Paste data here"'
        )
        said.classes("w-full")
        settings = _settings(kind)
        wrong = ui.element("div").classes("w-full")

        async def take(name: str, content: bytes) -> None:
            with view.checked(wrong):
                view.lab.may_start()
                item = await in_thread(view.lab.shelf.add, name, content, settings())
                view.go("/", item)

        with abreast():
            button("Open", lambda: take(PASTED[kind.value], said.value.encode()))

            async def uploaded(e: events.UploadEventArguments) -> None:
                await take(e.file.name, await e.file.read())

            ui.upload(
                label="or drop a file here", auto_upload=True, max_file_size=MOST_BYTES, on_upload=uploaded,
                on_rejected=lambda: _too_large(view, wrong),
            ).props(f'flat bordered accept="{",".join((*SUFFIXES, *PACKED))}"').classes("upload")  # fmt: skip
        note(
            "JSONL rows {tokens, next}, plain text, or an event log (CSV, TSV, Parquet, XES, SPMF), also compressed "
            "(.gz, .zst); at most 64 MB. It stays on this machine."
        )


def _settings(kind: ui.toggle) -> Callable[[], dict[str, int | str | None]]:
    """Fields for how text and event logs are read; a function that gives what is set in them."""
    with abreast():
        context = dense(ui.number("context", value=8, min=1, precision=0))
        split = dense(ui.select(list(SPLITS), label="split", value="stream"))
        tokens = dense(ui.select(list(TOKENISERS), label="tokenizer", value="words"))
        columns = {
            name: dense(ui.input(f"{name} column", placeholder=name))
            for name in ("sequence", "item", "order")
        }
        dates = dense(ui.select(["", *DATES], label="dates such as 2/3/2024", value=""))
        delimiter = dense(ui.input("delimiter", placeholder="comma, or tab"))
    context.bind_visibility_from(kind, "value", lambda k: k != "rows")
    for field in (split, tokens):
        field.bind_visibility_from(kind, "value", lambda k: k == "text")
    for column in (*columns.values(), dates, delimiter):
        column.bind_visibility_from(kind, "value", lambda k: k == "events")

    def asked() -> dict[str, int | str | None]:
        if kind.value == "rows":
            return {}
        number = None if context.value is None else int(context.value)
        if kind.value == "text":
            chosen = {"split": split.value, "tokenizer": tokens.value}
            usual = {"split": "stream", "tokenizer": "words"}
            return {"context": number, **{k: v for k, v in chosen.items() if v != usual[k]}}
        named = {k: f.value.strip() for k, f in columns.items() if f.value}
        others = {"dates": dates.value, "delimiter": delimiter.value}
        return {"context": number, **named, **{k: v for k, v in others.items() if v}}

    return asked


def _too_large(view: View, place: ui.element) -> None:
    place.clear()
    with place:
        view.problem(
            f"This file cannot be taken: at most {MOST_BYTES >> 20} MB, of {', '.join((*SUFFIXES, *PACKED))}."
        )


def _folders(view: View) -> None:
    """Everything that can be opened, by kind."""
    place = {
        "sweep": "/sweep",
        "verification": "/claims",
        "run": "/training",
        "predictor": "/automaton",
    }
    with card("Open"):
        note(
            f"Data, models and runs below {view.lab.shelf.workspace}. Others: attomaton lab FOLDER."
        )
        with ui.element("ul").classes("items"):
            for item in view.lab.shelf.items():
                with ui.element("li"):
                    has_model = item.kind == "run" and (item.path / "model").is_dir()
                    ui.link(
                        item.title, view.link("/" if has_model else place.get(item.kind, "/"), item)
                    )
                    note(item.kind)
        for job in view.lab.jobs.running():
            view.watch(job)


SCREEN = Screen(
    "/",
    "Start",
    "home",
    StartPage.build,
    """
The lab opens sequences and shows what one self-attention layer learns from predicting their next token.

**Hard retrieval.** After a last token *k*, the samples order the other tokens: an edge *i → j* says that *i* came next
while *j* was there too. Training sends the weights along W_svm, the smallest matrix that keeps every strict order with
a margin of 1, so only the highest tokens of a context survive.

**Soft composition.** Tokens that outrank each other in a circle are tied; with fewer dimensions than tokens, so are
those whose orders add up to nothing by their vectors. Between them a finite part W_fin remains, the maximum-likelihood
fit of Luce's choice model.

*Mechanics of next token prediction with self-attention* (Li et al., 2024); *Scan and Snap* (Tian et al., 2023).
""",
)
