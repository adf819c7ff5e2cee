"""The commands that ask what would change: the context fed its own draws, corpora mixed, data drawn again."""

from typing import Annotated

import typer

from attomaton.cli.ask import MOST_DRAWN, UNKNOWN, Tokens, mark_unknown, opened
from attomaton.cli.console import emit, progress_bar
from attomaton.cli.options import Figure, Json, Model, command
from attomaton.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    command(app, "Ask", epilog=UNKNOWN)(simulate)


def simulate(
    model: Model,
    tokens: Tokens,
    trajectory: Annotated[
        bool, typer.Option("--trajectory", help="Also list the tokens that the first one draws.")
    ] = False,
    trajectories: Annotated[int, typer.Option(help="How many to draw.")] = 100,
    steps: Annotated[int, typer.Option(help="Tokens drawn by each.")] = 1000,
    window: Annotated[
        int | None,
        typer.Option(
            help="Keep the last N tokens as the context (default: it grows with every draw)."
        ),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Share of the context with which one token has taken all of it.")
    ] = 0.95,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    figure: Figure = None,
    json: Json = False,
) -> None:
    """Feed a context its own draws, many times, until one token takes all.

    Each token drawn is appended and becomes the last. Shares over time, when they collapse, how fast, and what theory
    says of it.
    """
    from attomaton.disk.storage import check_file
    from attomaton.mechanics.theory.automaton import unknown_note
    from attomaton.mechanics.theory.trajectories import draw_trajectories
    from attomaton.report.figures.canvas import FIGURES
    from attomaton.report.text.stability import trajectories_text
    from attomaton.summaries.trajectories import trajectory_summary

    if figure is not None:
        check_file(figure, FIGURES, (model,))
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
    if figure is not None:
        from attomaton.report.figures import canvas
        from attomaton.report.figures.trajectories import trajectories_figure

        canvas.write(trajectories_figure(found), figure)
    emit(found, trajectories_text(found, trajectory), json)
    mark_unknown(unknown)
