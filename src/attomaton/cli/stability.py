"""The commands that ask what would change: the context fed its own draws, corpora mixed, data drawn again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attomaton.cli.ask import MOST_DRAWN, UNKNOWN, Tokens, mark_unknown, opened
from attomaton.cli.commands import LARGE, EngineOptions, command, is_large
from attomaton.cli.console import emit, progress_bar, say_replaced
from attomaton.cli.options import Data, Force, Json, Model, RunFolder, argument, at_least, option
from attomaton.cli.pictures import Figure, Html, check_pictures, write_pictures
from attomaton.errors import UsageError

if TYPE_CHECKING:
    from attomaton.corpus.reading import Reading

app = typer.Typer()

Corpus = Annotated[Path, argument("A data file, or a folder written by `attomaton fit`.")]


@command(app, "Ask", epilog=UNKNOWN)
def simulate(
    model: Model,
    tokens: Tokens,
    trajectory: Annotated[
        bool, option("Also list the tokens that the first one draws.", "--trajectory")
    ] = False,
    trajectories: Annotated[int, option("How many to draw.")] = 100,
    steps: Annotated[int, option("Tokens drawn by each.")] = 1000,
    window: Annotated[
        int | None,
        option("Keep the last N tokens as the context (default: it grows with every draw)."),
    ] = None,
    threshold: Annotated[
        float, option("Share of the context with which one token has taken all of it.")
    ] = 0.95,
    seed: Annotated[int, option("Random seed.")] = 0,
    figure: Figure = None,
    json: Json = False,
) -> None:
    """Feed a context its own draws until one token takes all.

    Many times at once: each token drawn is appended and becomes the last. Shares over time, when they collapse, how
    fast, and what theory says of it.
    """
    from attomaton.mechanics.theory.automaton import unknown_note
    from attomaton.mechanics.theory.trajectories import draw_trajectories
    from attomaton.report.figures.trajectories import trajectories_figure
    from attomaton.report.text.stability import trajectories_text
    from attomaton.summaries.trajectories import trajectory_summary

    check_pictures((model,), figure)
    for name, value in (("--trajectories", trajectories), ("--steps", steps)):
        if not 1 <= value <= MOST_DRAWN:
            raise UsageError(f"{name} {value}: 1 to {MOST_DRAWN:,} are drawn at a time.")
    # What is drawn stands in the prompt already: the model is opened for its tokens alone.
    automaton, words = opened(model, tokens, after=tokens)
    unknown = automaton.unknown(words)
    with progress_bar("drawing") as progress:
        run = draw_trajectories(
            automaton, words, trajectories=trajectories, steps=steps, window=window,
            threshold=threshold, seed=seed, progress=progress,
        )  # fmt: skip
    found = trajectory_summary(run, words, seed, unknown, unknown_note(unknown, True))
    write_pictures(lambda: trajectories_figure(found), figure)
    emit(found, trajectories_text(found, trajectory), json)
    mark_unknown(unknown)


@command(app, "Ask")
def mix(
    a: Corpus,
    b: Corpus,
    reading: "Reading",
    top: Annotated[int, option("How many orders and last tokens to list.")] = 10,
    figure: Figure = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Mix two corpora: which orders survive, which turn into ties.

    An order turns into a tie where the other corpus adds a path back; the path is shown, with the samples behind it.
    """
    from attomaton.jobs.mix import mixed_corpora
    from attomaton.report.figures.mixture import mixture_figure
    from attomaton.report.html.page import page
    from attomaton.report.text.stability import mix_sections, mix_text

    at_least("--top", top, 0)
    check_pictures((a, b), figure, html)
    with progress_bar("mixing"):
        found = mixed_corpora(a, b, reading=reading, top=top)

    def mixed_page(svg: str | None, footer: str) -> str:
        first, *rest = mix_sections(found)
        picture = {} if svg is None else {"svg": svg}
        return page("Two corpora mixed", [first, picture, *rest], footer)

    write_pictures(lambda: mixture_figure(found), figure, html, mixed_page)
    emit(found, mix_text(found), json)


@command(app, "Ask")
def bootstrap(
    data: Data,
    reading: "Reading",
    engine: EngineOptions,
    resamples: Annotated[int, option("How many resamples.")] = 200,
    seed: Annotated[int, option("Random seed.")] = 0,
    out: RunFolder = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Draw sequences again, and count what comes out the same.

    How often each order, tie, component and answer does. Whole sequences are drawn with replacement, since windows of
    one are not independent. Resumable.
    """
    from attomaton.disk.provenance import run_folder, unfinished_run
    from attomaton.jobs.bootstrap import bootstrap_run
    from attomaton.report.text.stability import stability_text

    asked = {"data": str(data), "resamples": resamples, "seed": seed}
    place = out or unfinished_run("bootstrap", asked) or run_folder("bootstrap", asked)
    with (
        engine.open(is_large(data, LARGE / 4)) as where,
        progress_bar("bootstrap") as progress,
    ):
        found = bootstrap_run(
            data,
            place,
            resamples=resamples,
            seed=seed,
            reading=reading,
            engine=where,
            progress=progress,
            force=force,
        )
    say_replaced(found.replaced)
    emit(found, f"{stability_text(found.stability)}\nrun in {found.run}", json)
