"""The commands that ask a model: what comes next, why, who outranks whom; and what would change.

The context may be fed its own draws, corpora mixed, data drawn again.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

import typer

from attomaton.cli import predictor
from attomaton.cli.commands import LARGE, EngineOptions, command, is_large
from attomaton.cli.console import emit, progress_bar, put_file, say
from attomaton.cli.options import (
    Data,
    Force,
    Json,
    Model,
    RunFolder,
    argument,
    at_least,
    option,
    said,
    token_typed,
    tokens_typed,
)
from attomaton.cli.pictures import Figure, Html, check_pictures, write_pictures
from attomaton.errors import UNKNOWN_TOKENS, DataError, UsageError, counted

if TYPE_CHECKING:
    from attomaton.corpus.reading import Reading
    from attomaton.jobs.bootstrap import Bootstrap
    from attomaton.mechanics.theory.automaton import Unknown
    from attomaton.mechanics.theory.inference import Inference
    from attomaton.mechanics.theory.prediction import Prediction

app = typer.Typer()

MOST_DRAWN = 1_000_000  # tokens of a continuation; they are held in memory, and take minutes
UNKNOWN = (
    "Exit code 6: answered, but the model does not know some tokens of the context; they are marked. "
    "Where nothing was learned about the last token, there is no prediction (null). With --file one row is written for "
    "each row read, in their order; exit code 3: some rows cannot be read and say why, the others are answered."
)

Fitted = Annotated[Path, argument("Folder written by `attomaton fit` or `attomaton tune`.")]
Corpus = Annotated[Path, argument("A data file, or a folder written by `attomaton fit`.")]
Tokens = Annotated[list[str], argument("The context, last token last.", callback=tokens_typed)]
Backoff = Annotated[
    bool | None,
    option(
        "Predictor: the whole vocabulary (default), or the tokens of the context alone.",
        "--backoff/--no-backoff",
    ),
]
KeysAndQueries = Annotated[
    Path | None,
    "Limit: a run of `attomaton train --factorised` on it, to infer orders that its data leave open.",
]


class Contexts(TypedDict, total=False):
    """What is asked about: a context that is typed, or many in a file."""

    tokens: Tokens
    file: Annotated[Path, "Contexts instead of one: JSONL, CSV, TSV, Parquet, or text, one a line."]
    out: Annotated[
        Path,
        option(
            "With --file: .jsonl, .csv or .parquet to write (default: JSONL, printed).",
            "-o",
            "--out",
        ),
    ]
    column: Annotated[str, "With --file: column of the contexts (tokens)."]
    format: Annotated[
        str, "With --file: text, jsonl, csv, tsv or parquet (default: as its suffix)."
    ]
    intervals: Annotated[
        bool,
        option(
            "With --file: 95 % intervals of odds, for which the samples behind a limit are read (default: yes).",
            "--intervals/--no-intervals",
        ),
    ]


@command(app, "Ask", epilog=UNKNOWN)
def predict(
    model: Fitted,
    engine: EngineOptions,
    radius: Annotated[
        float | None, "Limit: norm of W along W_svm (default: infinite, the end of training)."
    ] = None,
    top: Annotated[int, "How many tokens to show."] = 10,
    sample: Annotated[int, "Also draw a continuation of this length."] = 0,
    seed: Annotated[
        int | None, option("Random seed of the continuation (default: 0).", min=0)
    ] = None,
    backoff: Backoff = None,
    run: KeysAndQueries = None,
    force: Force = False,
    json: Json = False,
    **contexts: Unpack[Contexts],
) -> None:
    """Predict the next token of a context, with probabilities.

    By the limit of training (`attomaton fit`), or by a predictor (`attomaton tune`).
    """
    from attomaton.disk.storage import is_folder
    from attomaton.report.text.terminal import prediction_text

    at_least("--top", top, 1)
    at_least("--sample", sample, 0)
    if sample > MOST_DRAWN:
        raise UsageError(f"--sample {sample}: at most {MOST_DRAWN:,} tokens are drawn at a time.")
    if seed is not None and not sample:
        raise UsageError("--seed goes with --sample: nothing else is drawn.")
    if "file" in contexts:
        if sample or contexts.get("tokens") or run is not None:
            raise UsageError(
                "--file asks about its own contexts: without TOKENS, --sample and --run."
            )
        asked = said(top=top, radius=radius, backoff=backoff)
        _file_answered(model, contexts, asked, engine, force, json)
        return
    tokens = _one_context(contexts)
    if is_folder(model, "predictor"):
        refuse_options("a predictor", radius=radius, run=run)
        found = predictor.predicted(model, tokens, top, backoff is not False, sample, seed or 0)
        top = len(found.probabilities)
    else:
        refuse_options("a limit", backoff=backoff)
        found = _predicted(model, tokens, inf if radius is None else radius, sample, seed or 0)
        found = replace(found, inference=_inferred(model, run, tokens))
    emit(found, prediction_text(found, top), json)
    mark_unknown(found.unknown)


def _predicted(
    model: Path, tokens: list[str], radius: float, sample: int, seed: int
) -> "Prediction":
    """What `attomaton predict` answers with a limit."""
    from attomaton.mechanics.theory.automaton import NEVER_LAST
    from attomaton.mechanics.theory.prediction import limit_prediction
    from attomaton.numerics import named_rng

    automaton, words = opened(model, tokens, after=tokens if sample else None)
    found = limit_prediction(automaton, words, radius)
    if not sample:
        return found
    with progress_bar("drawing"):
        drawn = automaton.sample(words, named_rng("sample", seed), sample)
    ends = f"{NEVER_LAST}: {[*words, *drawn][-1]}" if len(drawn) < sample else None
    return replace(found, continuation=drawn, continuation_ends=ends)


def _inferred(model: Path, run: Path | None, tokens: list[str]) -> "Inference | None":
    """What a run's keys and queries add, where one was named."""
    if run is None:
        return None
    from attomaton.folders.model import ModelFolder
    from attomaton.jobs.train import run_factors
    from attomaton.mechanics.theory.inference import infer

    folder = ModelFolder(model)
    limit = folder.limit()
    words = [limit.graph.vocabulary.read(token) for token in tokens]
    return infer(limit, run_factors(run, limit, folder.record.embeddings), words)


def _one_context(contexts: Contexts) -> list[str]:
    """The context that was typed; options of files say nothing about it."""
    if not (tokens := contexts.get("tokens")):
        raise UsageError("name the tokens of a context, last token last, or --file FILE for many.")
    if named := [f"--{name}" for name in contexts if name != "tokens"]:
        raise UsageError(f"{', '.join(named)}: goes with --file.")
    return tokens


def _file_answered(
    model: Path,
    contexts: Contexts,
    asked: dict[str, Any],
    engine: EngineOptions,
    force: bool,
    json: bool,
) -> None:
    """Answer the contexts of a file, say how many, and end with the exit code for what was found."""
    from attomaton.disk.storage import is_folder
    from attomaton.jobs.answer import Asked, answer_file

    file, out = contexts["file"], contexts.get("out")
    intervals = said(intervals=contexts.get("intervals"))
    if is_folder(model, "predictor"):
        refuse_options("a predictor", radius=asked.get("radius"), **intervals)
    else:
        refuse_options("a limit", backoff=asked.get("backoff"))
    if json and out is None:
        raise UsageError("--json tells the counts, and the answers are printed: name a file, -o.")
    with engine.open(is_large(file)) as where, progress_bar("answering") as progress:
        done = answer_file(
            model,
            file,
            out,
            Asked(**asked, **intervals),
            format=contexts.get("format"),
            column=contexts.get("column"),
            engine=where,
            force=force,
            put=put_file,
            progress=progress,
        )
    n = done.counts
    text = (
        f"{counted(n.rows, 'context')}: {n.answered:,} with a prediction; {n.determined:,} determined by the data, "
        f"{n.undetermined:,} undetermined, {n.unseen:,} unseen; {n.with_unknown:,} hold what the model does not know, "
        f"{n.invalid:,} cannot be read"
    )
    if out is None:
        say(text)
    else:
        emit(done, f"{text}\nwritten: {out} ({done.seconds:.1f} s)", json)
    if n.invalid:
        raise typer.Exit(DataError.exit_code)
    if n.with_unknown:
        raise typer.Exit(UNKNOWN_TOKENS)


@command(app, "Ask", epilog=UNKNOWN)
def explain(
    model: Fitted,
    engine: EngineOptions,
    evidence: Annotated[
        int | None,
        "Training data shown behind it: samples of each edge (limit; default: 3), windows of each count "
        "(predictor, whose data are read again; default: none).",
    ] = None,
    figure: Figure = None,
    backoff: Backoff = None,
    run: KeysAndQueries = None,
    force: Force = False,
    json: Json = False,
    **contexts: Unpack[Contexts],
) -> None:
    """Explain why a token comes next, and why the others lost."""
    from attomaton.disk.formats import plain
    from attomaton.disk.storage import is_folder
    from attomaton.report.figures.training import prediction_figure
    from attomaton.report.text.terminal import explanation_text

    if "file" in contexts:
        if contexts.get("tokens") or (evidence, figure, run) != (None, None, None):
            raise UsageError(
                "--file asks about its own contexts: without TOKENS, --evidence, --figure and --run."
            )
        _file_answered(model, contexts, said(explain=True, backoff=backoff), engine, force, json)
        return
    tokens = _one_context(contexts)
    check_pictures((model,), figure)
    if is_folder(model, "predictor"):
        refuse_options("a predictor", run=run)
        at_least("--evidence", evidence or 0, 0)
        from attomaton.report.figures.reasons import reasons_figure
        from attomaton.report.text.reasons import evidence_text, reasons_text, whys

        by, context = predictor.opened(model, tokens)
        reasons = by.explain(context, backoff is not False)
        write_pictures(lambda: reasons_figure(reasons), figure)
        record, text = {**reasons.record(), "why": plain(whys(reasons))}, reasons_text(reasons)
        if evidence:
            from attomaton.jobs.score import training_windows
            from attomaton.predictor.evidence import behind

            with progress_bar("evidence"):
                rows = behind(reasons, training_windows(model, by), evidence)
            record, text = {**record, "evidence": plain(rows)}, f"{text}\n\n{evidence_text(rows)}"
        emit(record, text, json)
        mark_unknown(reasons.unknown)
        return
    refuse_options("a limit", backoff=backoff)
    at_least("--evidence", evidence or 0, 0)
    automaton, words = opened(model, tokens)
    explanation = automaton.explain(words, 3 if evidence is None else evidence)
    explanation = replace(explanation, inference=_inferred(model, run, tokens))
    write_pictures(lambda: prediction_figure(explanation), figure)
    emit(explanation, explanation_text(explanation), json)
    mark_unknown(explanation.unknown)


@command(app, "Ask")
def graph(
    model: Fitted,
    last: Annotated[str, option("The last token whose graph to show.", callback=token_typed)],
    format: Annotated[
        str | None, "text, json, graphml, dot, svg or png (default: as the file's suffix)."
    ] = None,
    out: Annotated[Path | None, option("File to write.", "-o", "--out")] = None,
    json: Json = False,
) -> None:
    """Show the priority graph of one last token.

    Which token outranks which, and which are tied; of a predictor, the first tokens in the order it learned.
    """
    from attomaton.disk.formats import plain, write_text
    from attomaton.disk.storage import check_file, is_folder, write_whole
    from attomaton.folders.model import ModelFolder
    from attomaton.mechanics.theory.view import graph_view
    from attomaton.report.graphs import EXPORTS
    from attomaton.report.text.terminal import graph_text
    from attomaton.summaries import find_last_token

    if is_folder(model, "predictor"):
        refuse_options("a predictor", format=format, out=out)
        predictor.show_order(model, last, json)
        return
    format = _graph_format(format, out, ("text", "svg", "png", *EXPORTS))
    if out is not None:
        check_file(out, (f".{format}",) if format in ("svg", "png") else (), (model,))
    limit = opened(model, [last])[0].limit
    known = limit.graph.last_tokens
    if not len(known):  # of a large model only what belongs to this token was opened
        known = ModelFolder(model).last_tokens()["last"]
    view = graph_view(limit, find_last_token(limit.graph.vocabulary, known, last), errors=True)
    if format in ("svg", "png"):
        from attomaton.report.figures import canvas, priority

        if out is None:
            raise UsageError(f"--format {format} needs a file: -o FILE.{format}")
        canvas.write(priority.priority_figure(view), out)
    else:
        text = graph_text(view) if format == "text" else EXPORTS[format](view)
        if out is None:
            if format == "text" or json:
                emit(plain(view), text, json)
            else:
                put_file(text)
            return
        write_whole(out, write_text, text)
    emit({"written": str(out)}, f"written: {out}", json)


def _graph_format(said: str | None, out: Path | None, known: tuple[str, ...]) -> str:
    """The format a graph is written in: the one said, or the one of the file; the two may not differ."""
    if said is not None and said not in known:
        raise UsageError(f"format {said!r} is not one of {', '.join(known)}.")
    suffixes = {".txt": "text", **{f".{x}": x for x in known if x != "text"}}
    meant = None if out is None else suffixes.get(out.suffix.lower())
    if out is not None and said is None and meant is None:
        raise UsageError(
            f"{out}: the suffix says no format; name a file {', '.join(suffixes)}, or say --format."
        )
    if said is not None and meant is not None and said != meant:
        raise UsageError(f"{out}: --format {said} does not go into a {out.suffix} file.")  # type: ignore[union-attr]
    return said or meant or "text"


def opened(model: Path, tokens: list[str], after: list[str] | None = None) -> tuple[Any, list[Any]]:
    """The automaton of a model, and command-line words as its token labels.

    Only what belongs to the last of them is read, or to those named in `after`.
    """
    from attomaton.folders.model import open_model
    from attomaton.mechanics.theory.automaton import Automaton

    limit = open_model(model, tokens[-1:] if after is None else after)
    return Automaton(limit), [limit.graph.vocabulary.read(token) for token in tokens]


def refuse_options(what: str, **given: object) -> None:
    """Refuse options that say nothing about this kind of folder."""
    named = [f"--{name}" for name, value in given.items() if value is not None]
    if named:
        other = (
            "a limit (`attomaton fit`)"
            if what == "a predictor"
            else "a predictor (`attomaton tune`)"
        )
        raise UsageError(f"this folder holds {what}; {', '.join(named)} is for {other}.")


def mark_unknown(unknown: "Sequence[Unknown]") -> None:
    """End with an exit code of its own where an answer is about tokens the model does not know."""
    if unknown:
        raise typer.Exit(UNKNOWN_TOKENS)


@command(app, "Ask", epilog=UNKNOWN)
def simulate(
    model: Model,
    tokens: Tokens,
    trajectory: Annotated[
        bool, option("Also list the tokens that the first one draws.", "--trajectory")
    ] = False,
    trajectories: Annotated[int, "How many to draw."] = 100,
    steps: Annotated[int, "Tokens drawn by each."] = 1000,
    window: Annotated[
        int | None, "Keep the last N tokens as the context (default: it grows with every draw)."
    ] = None,
    threshold: Annotated[
        float, "Share of the context with which one token has taken all of it."
    ] = 0.95,
    seed: Annotated[int, "Random seed."] = 0,
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
    top: Annotated[int, "How many orders and last tokens to list."] = 10,
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
    resamples: Annotated[int, "How many resamples."] = 200,
    seed: Annotated[int, "Random seed."] = 0,
    out: RunFolder = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Draw sequences again, and count what comes out the same.

    How often each order, tie, component and answer does. Whole sequences are drawn with replacement, since windows of
    one are not independent. Resumable.
    """
    with engine.open(is_large(data, LARGE / 4)) as where:
        found, text = drawn_again(data, reading, resamples, seed, out, engine=where, force=force)
    emit(found, text, json)


def drawn_again(
    data: Path | str,
    reading: "Reading",
    resamples: int,
    seed: int = 0,
    out: Path | None = None,
    **how: Any,
) -> "tuple[Bootstrap, str]":
    """A bootstrap of data, in a run folder of its own unless another is named, and what a person reads of it."""
    from attomaton.disk.provenance import run_folder, unfinished_run
    from attomaton.jobs.bootstrap import bootstrap_run
    from attomaton.report.text.stability import stability_text

    asked = {"data": str(data), "resamples": resamples, "seed": seed}
    place = out or unfinished_run("bootstrap", asked) or run_folder("bootstrap", asked)
    with progress_bar("bootstrap") as progress:
        found = bootstrap_run(
            data, place, resamples=resamples, seed=seed, reading=reading, progress=progress, **how
        )
    return found, f"{stability_text(found.stability)}\nrun in {found.run}"
