"""The start screen: an example already on screen, three doors to one's own data."""

import shlex

from nicegui import events, ui

from attomaton.corpus.files import PACKED, text_format
from attomaton.lab.data.reading import aside_in_words
from attomaton.lab.graph.data import TokenGraph, part_of
from attomaton.lab.graph.drawing import Drawing
from attomaton.lab.graph.scene import scene
from attomaton.lab.kit.contexts import visible
from attomaton.lab.kit.page import Page
from attomaton.lab.kit.parts import abreast, button, card, chip, emptied, figures, heading, note
from attomaton.lab.opened import Opened
from attomaton.lab.shelf import EXAMPLE, MOST_BYTES, SUFFIXES, Item
from attomaton.lab.story.panel import Story, ask
from attomaton.lab.view import Screen, View, in_thread
from attomaton.report.text.after import sentence
from attomaton.summaries.after import After, after

MORE = (".json", ".log", ".text", ".dat")  # also offered where files are chosen
ROWS = '{"tokens": ["tea", "cake", "bell"], "next": "tea"}\n{"tokens": ["cake", "soup", "bell"], "next": "soup"}'

SENTENCES = 5  # last tokens told about


# Quasar's own header nests the field in a button without a name. The field covers the header, for the mouse; the button
# is for the keyboard.
_DROP = """<div class="upload-head"><label class="upload-field">Drop a file here, or choose one
<q-uploader-add-trigger /></label><q-btn flat round dense icon="add" aria-label="Choose a file"
@click="props.pickFiles" /></div>"""


class StartPage(Page):
    """What is open, in numbers and a picture, and the doors to everything else."""

    TITLE = (
        "What does a self-attention layer learn from next-token prediction, exactly, on your data?"
    )
    STYLES = ("graph/drawing.css", "start.css", "story/panel.css")

    async def fill(self) -> None:
        """The model, once it is there; the doors in any case."""
        view = self.view
        model = await view.model()
        if model is not None:
            await ask(view, model)
            if view.item.id == EXAMPLE:
                await Story(view).build()
            await _learned(view, model)
            with ui.element("div").classes("grid2"):
                _summary(view, model)
                if view.item.id != EXAMPLE:  # of the example the story shows it
                    await _picture(view, model)
        with ui.element("div").classes("grid2"):
            _yours(view)
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


async def _learned(view: View, model: Opened) -> None:
    """What was learned, in sentences; what was set aside, and what that means."""
    lasts = [row.last for row in model.search("", SENTENCES)]

    def found() -> list[After]:
        return [after(model.limit(x), model.last_id(x)) for x in lasts]

    with card("What was learned", "learned"), ui.element("ul").classes("sentences"):
        for one in await in_thread(found):
            with ui.element("li"):
                for text, is_token in sentence(one):
                    if is_token:
                        ui.link(text, view.link("/graph", last=one.last)).classes("word")
                    else:
                        ui.label(text)
        s = model.record.summary
        with ui.element("li"):
            ui.label(aside_in_words(s.dropped, s.windows))


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


def _yours(view: View) -> None:
    """Drop or paste: what it is gets guessed, shown and corrected on the data screen."""
    with card("Your data", "yours"):
        wrong = ui.element("div").classes("place")

        async def take(name: str, content: bytes) -> None:
            with view.checked(wrong):
                view.lab.may_start()
                item = await in_thread(view.lab.shelf.receive, name, content)
                view.go(item.home, item)

        async def uploaded(e: events.UploadEventArguments) -> None:
            drop.reset()  # a field that holds a file takes no other
            await take(e.file.name, await e.file.read())

        def rejected() -> None:
            with emptied(wrong):
                view.problem(
                    f"This file cannot be taken: at most {MOST_BYTES >> 20} MB, of {', '.join((*SUFFIXES, *PACKED))}."
                )

        drop = ui.upload(
            auto_upload=True, max_file_size=MOST_BYTES, on_upload=uploaded, on_rejected=rejected,
        )  # fmt: skip
        drop.props(f'flat bordered accept="{",".join((*SUFFIXES, *MORE, *PACKED))}"').classes(
            "upload"
        )
        drop.add_slot("header", _DROP)
        note(
            "An event log (CSV, TSV, Parquet, XES, SPMF), plain text or JSONL rows {tokens, next}, also compressed "
            "(.gz, .zst); at most 64 MB. Columns, order and format are guessed, and you see them before anything is "
            "computed. It stays on this machine."
        )
        said = ui.textarea(placeholder=ROWS).props(
            'outlined autogrow input-class="mono" aria-label="Paste data here"'
        )
        said.classes("w-full")
        button("Open what is pasted", lambda: take(pasted_name(said.value), said.value.encode()))


def pasted_name(text: str) -> str:
    """What pasted data are called: their suffix is that of what they hold.

    >>> pasted_name('{"tokens": ["a"], "next": "a"}'), pasted_name("tea cake tea")
    ('pasted.jsonl', 'pasted.txt')
    """
    found = text_format(text, True) or "text"
    suffix = {"jsonl": "jsonl", "csv": "csv", "tsv": "tsv"}.get(
        found, "csv" if "table" in found else "txt"
    )
    return f"pasted.{suffix}"


def _folders(view: View) -> None:
    """Everything that can be opened, by kind."""
    with card("Open"):
        note(
            f"Data, models and runs below {view.lab.shelf.workspace}. Others: attomaton lab FOLDER."
        )
        with ui.element("ul").classes("items"):
            for item in view.lab.shelf.items():
                with ui.element("li"):
                    ui.link(item.title, view.link(item.home, item))
                    note(item.kind if item.decided else "data, not fitted yet")
        for job in view.others():
            view.watch(job)


SCREEN = Screen("/", "Start", "home", StartPage.build)
