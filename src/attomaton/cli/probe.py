"""The commands that ask a trained transformer what it learned of its corpus, and when."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attomaton.cli.commands import command
from attomaton.cli.console import emit, progress_bar, say_replaced
from attomaton.cli.options import Force, Json, argument, at_least, option
from attomaton.cli.pictures import Figure, Html, check_pictures, say_written, write_pictures
from attomaton.errors import UsageError

if TYPE_CHECKING:
    from attomaton.corpus.reading import Reading

app = typer.Typer()

# Options of both commands.
Text = Annotated[Path | None, "Corpus it was trained on: a data file, or a data set by name."]
Contexts = Annotated[int, "Contexts to look at the heads on."]
LastTokens = Annotated[int, "Last tokens whose graphs are solved, the most frequent ones."]
Seed = Annotated[int, "What is drawn."]
Precision = Annotated[str, "Numbers of the model: float32 or float64."]
Out = Annotated[
    Path | None,
    option("Also leave a folder to look at: record, page, heads on texts.", "-o", "--out"),
]
Top = Annotated[int, "Rows of each table."]


@command(app, "Check")
def probe(
    model: Annotated[
        Path,
        argument(
            "Folder of a trained transformer (config.json, safetensors), or attention as an .npz file."
        ),
    ],
    reading: "Reading",
    text: Text = None,
    pairs: Annotated[int, "Strict orders, and ties, to ask about."] = 2000,
    contexts: Contexts = 200,
    last_tokens: LastTokens = 100,
    seed: Seed = 0,
    precision: Precision = "float32",
    top: Top = 20,
    cosine: Annotated[
        bool, option("Refused: says why W_QK is not compared with W_svm by an angle.", "--cosine")
    ] = False,
    out: Out = None,
    html: Html = None,
    figure: Figure = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Ask a trained transformer which orders it learned.

    Its orders are compared with the exact graph of the corpus, with controls; heads are told as a table.
    """
    from attomaton.jobs.probe import Asked, probe_attention, probe_model
    from attomaton.jobs.probed import probe_run
    from attomaton.probe.first_layer import refuse_cosine
    from attomaton.report.figures.probe import probe_figure
    from attomaton.report.html.probe import probe_page
    from attomaton.report.text.probe import probe_text

    if cosine:
        refuse_cosine()
    at_least("--top", top, 1)
    alone = model.suffix.lower() == ".npz"
    if text is None and not alone:
        raise UsageError(f"{model}: --text names the corpus its orders are compared with.")
    check_pictures((model, text), figure, html)
    asked = Asked(pairs, contexts, last_tokens, seed, precision)
    with progress_bar("probe") as progress:
        if out is not None:
            found, old = probe_run(
                model, None if alone else text, out, reading, asked, progress, force
            )
            say_replaced(old)
        elif alone or text is None:
            found = probe_attention(model)
        else:
            found = probe_model(model, text, reading, asked, progress)
        page = partial(probe_page, found, top)
        written = write_pictures(partial(probe_figure, found), figure, html, page)
    emit(found, probe_text(found, top), json)
    say_written(out, *written)


@command(app, "Check")
def snap(
    checkpoints: Annotated[
        list[Path],
        argument("Folders of one model at several steps; their names end with the step."),
    ],
    reading: "Reading",
    text: Text = None,
    pairs: Annotated[int, "Strict orders to ask about."] = 1000,
    contexts: Contexts = 200,
    last_tokens: LastTokens = 100,
    seed: Seed = 0,
    precision: Precision = "float32",
    top: Top = 20,
    out: Out = None,
    html: Html = None,
    figure: Figure = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Tell when in training each head of a model froze.

    Checkpoints with the same weights are found by hash first.
    """
    from attomaton.jobs.probe import Asked
    from attomaton.jobs.probed import snap_run
    from attomaton.jobs.snap import snap_models
    from attomaton.report.figures.snap import snap_figure
    from attomaton.report.html.probe import snap_page
    from attomaton.report.text.snap import snap_text

    at_least("--top", top, 1)
    if text is None:
        raise UsageError("--text names the corpus that orders are compared with.")
    check_pictures((*checkpoints, text), figure, html)
    asked = Asked(pairs, contexts, last_tokens, seed, precision)
    with progress_bar("snap") as progress:
        if out is not None:
            found, old = snap_run(checkpoints, text, out, reading, asked, progress, force)
            say_replaced(old)
        else:
            found = snap_models(checkpoints, text, reading, asked, progress)
        page = partial(snap_page, found, top)
        written = write_pictures(partial(snap_figure, found), figure, html, page)
    emit(found, snap_text(found, top), json)
    say_written(out, *written)
