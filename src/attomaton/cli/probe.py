"""The commands that ask a trained transformer what it learned of its corpus, and when."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attomaton.cli.console import emit, progress_bar, say
from attomaton.cli.options import Figure, Json, at_least, command
from attomaton.errors import UsageError

if TYPE_CHECKING:
    from attomaton.corpus.reading import Reading

# Options of both commands.
Text = Annotated[
    Path | None,
    typer.Option("--text", help="Corpus it was trained on: a data file, or a data set by name."),
]
Contexts = Annotated[int, typer.Option(help="Contexts to look at the heads on.")]
LastTokens = Annotated[
    int, typer.Option(help="Last tokens whose graphs are solved, the most frequent ones.")
]
Seed = Annotated[int, typer.Option(help="What is drawn.")]
Precision = Annotated[str, typer.Option(help="Numbers of the model: float32 or float64.")]
Top = Annotated[int, typer.Option(help="Rows of each table.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    command(app, "Check")(probe)
    command(app, "Check")(snap)


def probe(
    model: Annotated[
        Path,
        typer.Argument(
            help="Folder of a trained transformer (config.json, safetensors), or attention as an .npz file."
        ),
    ],
    reading: "Reading",
    text: Text = None,
    pairs: Annotated[int, typer.Option(help="Strict orders, and ties, to ask about.")] = 2000,
    contexts: Contexts = 200,
    last_tokens: LastTokens = 100,
    seed: Seed = 0,
    precision: Precision = "float32",
    top: Top = 20,
    cosine: Annotated[
        bool,
        typer.Option(
            "--cosine", help="Refused: says why W_QK is not compared with W_svm by an angle."
        ),
    ] = False,
    figure: Figure = None,
    json: Json = False,
) -> None:
    """Ask a trained transformer which orders it learned.

    Its orders are compared with the exact graph of the corpus, with controls; heads are told as a table.
    """
    from attomaton.disk.storage import check_file
    from attomaton.jobs.probe import Asked, probe_attention, probe_model
    from attomaton.probe.first_layer import refuse_cosine
    from attomaton.report.figures.canvas import FIGURES
    from attomaton.report.text.probe import probe_text

    if cosine:
        refuse_cosine()
    at_least("--top", top, 1)
    if figure is not None:
        check_file(figure, FIGURES, (model, text))
    if model.suffix.lower() == ".npz":
        found = probe_attention(model)
    elif text is None:
        raise UsageError(f"{model}: --text names the corpus its orders are compared with.")
    else:
        asked = Asked(pairs, contexts, last_tokens, seed, precision)
        with progress_bar("probe") as progress:
            found = probe_model(model, text, reading, asked, progress)
    emit(found, probe_text(found, top), json)
    if figure is not None:
        from attomaton.report.figures import canvas
        from attomaton.report.figures.probe import probe_figure

        canvas.write(probe_figure(found), figure)
        say(f"written: {figure}")


def snap(
    checkpoints: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of one model at several steps; their names end with the step."
        ),
    ],
    reading: "Reading",
    text: Text = None,
    pairs: Annotated[int, typer.Option(help="Strict orders to ask about.")] = 1000,
    contexts: Contexts = 200,
    last_tokens: LastTokens = 100,
    seed: Seed = 0,
    precision: Precision = "float32",
    top: Top = 20,
    figure: Figure = None,
    json: Json = False,
) -> None:
    """Tell when in training each head of a model froze.

    Checkpoints with the same weights are found by hash first.
    """
    from attomaton.disk.storage import check_file
    from attomaton.jobs.probe import Asked
    from attomaton.jobs.snap import snap_models
    from attomaton.report.figures.canvas import FIGURES
    from attomaton.report.text.snap import snap_text

    at_least("--top", top, 1)
    if text is None:
        raise UsageError("--text names the corpus that orders are compared with.")
    if figure is not None:
        check_file(figure, FIGURES, (*checkpoints, text))
    with progress_bar("snap") as progress:
        asked = Asked(pairs, contexts, last_tokens, seed, precision)
        found = snap_models(checkpoints, text, reading, asked, progress)
    emit(found, snap_text(found, top), json)
    if figure is not None:
        from attomaton.report.figures import canvas
        from attomaton.report.figures.snap import snap_figure

        canvas.write(snap_figure(found), figure)
        say(f"written: {figure}")
