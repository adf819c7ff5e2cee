"""The command that lays runs of training beside each other and the exact limit."""

from pathlib import Path
from typing import Annotated

import typer

from attomaton.cli.commands import command
from attomaton.cli.console import emit, progress_bar
from attomaton.cli.options import Json, argument, at_least, option
from attomaton.cli.pictures import Figure, Html, check_pictures, say_written, write_pictures

app = typer.Typer()


@command(app, "Training")
def compare(
    runs: Annotated[list[Path], argument("Folders written by `attomaton train`.")],
    data: Annotated[
        Path | None, option("The data or model (default: what they were trained on).")
    ] = None,
    top: Annotated[int, option("Rows of each table.")] = 10,
    html: Html = None,
    figure: Figure = None,
    json: Json = False,
) -> None:
    """Compare what runs of training have learned, and when.

    Which priorities of the exact limit each has right, in which order it learned them, where the runs disagree, which
    answers differ from the automaton's, how far the odds of tied tokens are off. All runs must be of the same data.
    """
    from attomaton.disk.formats import plain
    from attomaton.jobs.compare import compare_runs
    from attomaton.report.figures.comparison import comparison_figure
    from attomaton.report.html.summary import sections_page
    from attomaton.report.text.comparison import TITLE, comparison_text, in_words, sections

    check_pictures((*runs, data), figure, html)
    at_least("--top", top, 1)
    with progress_bar("compare"):
        record = compare_runs(runs, data, top)
        caption = "The share of strict priorities that are right from this step on, as far as it was looked at."
        written = write_pictures(
            lambda: comparison_figure(record), figure, html,
            lambda svg, footer: sections_page(TITLE, in_words(record), sections(record), svg, caption, footer),
        )  # fmt: skip
    emit({**plain(record), "in_words": in_words(record)}, comparison_text(record), json)
    say_written(*written)
