"""The command line: parse, call, print, exit code. Results go to stdout, everything else to stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from attomaton.cli import lab, predictor, runs, scan, summary, verify
from attomaton.cli.console import (
    Address,
    Column,
    Context,
    Dates,
    EngineName,
    Force,
    Format,
    Json,
    Memory,
    Split,
    TokenizerName,
    Workers,
    bytes_of,
    emit,
    fail,
    prepare_streams,
    progress_bar,
    put_file,
    reader_gone,
    reading,
    say,
    say_replaced,
    token_typed,
    tokens_typed,
)
from attomaton.errors import UNKNOWN_TOKENS, AttomatonError, UsageError, visible, whole_number

MOST_SYNTH = 100_000_000  # tokens of a data set that is drawn in memory
MOST_DRAWN = 1_000_000  # tokens of a continuation; they are held in memory, and take minutes

# What the library of the command line raises where words make no sense; it lies elsewhere in each version.
_Misused: Any = typer.BadParameter.__mro__[1]


class _Commands(typer.core.TyperGroup):
    """The commands; what the library says of a user's words passes through `visible`, like all that is printed."""

    def make_context(self, *given: Any, **named: Any) -> Any:
        with _shown():
            return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:
        with _shown():
            return super().invoke(ctx)


@contextmanager
def _shown() -> Iterator[None]:
    try:
        yield
    except _Misused as error:
        error.message = visible(error.message, most=500, keep="\n")
        raise


app = typer.Typer(
    name="attomaton",
    cls=_Commands,
    help="What a self-attention layer learns from next-token prediction, exactly, on your data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
data_app = typer.Typer(help="Look at data, or draw some.", no_args_is_help=True)
app.add_typer(data_app, name="data")


def _tell_version(asked: bool) -> bool:
    if asked:
        from attomaton import __version__

        print(f"attomaton {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_tell_version, help="Print the version, and stop."
        ),
    ] = False,
) -> None:
    """What a self-attention layer learns from next-token prediction, exactly, on your data."""


Data = Annotated[
    Path,
    typer.Argument(
        help="JSONL, text, CSV, TSV or Parquet file, or a data set: wikitext-2, wikitext-2:valid."
    ),
]
Model = Annotated[Path, typer.Argument(help="Folder written by `attomaton fit`.")]
Fitted = Annotated[
    Path, typer.Argument(help="Folder written by `attomaton fit` or `attomaton tune`.")
]
Tokens = Annotated[
    list[str], typer.Argument(help="The context, last token last.", callback=tokens_typed)
]
Backoff = Annotated[
    bool | None,
    typer.Option(
        "--backoff/--no-backoff",
        help="Predictor: the whole vocabulary (default), or the tokens of the context alone.",
    ),
]
UNKNOWN = (
    "Exit code 6: answered, but the model does not know some tokens of the context; they are marked. "
    "Where nothing was learned about the last token, there is no prediction (null)."
)
EmbeddingsFile = Annotated[
    Path | None,
    typer.Option("--embeddings", help=".npy matrix; tokens are then integers naming its rows."),
]


@app.command()
def demo(
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Run folder (default: under runs/).")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """The whole job on the embedded data: graph, limit, training against it, a prediction explained."""
    from attomaton.jobs.demo import demo_run

    with progress_bar("training") as progress:
        summary, text = demo_run(out, progress, force)
    say_replaced(summary)
    emit(summary, text, json)


@app.command()
def fit(
    data: Data,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the model.")],
    context: Context = None,
    embeddings: EmbeddingsFile = None,
    dense: Annotated[bool, typer.Option(help="Also write W_svm and W_fin as matrices.")] = False,
    format: Format = None,
    sequence: Column = None,
    item: Column = None,
    order: Column = None,
    dates: Dates = None,
    split: Split = None,
    tokenizer: TokenizerName = None,
    engine: EngineName = "local",
    workers: Workers = None,
    memory: Memory = None,
    address: Address = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Say what it would take, and stop.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compute the exact limit of training on a data set and write it as a model."""
    options = reading(locals())
    from attomaton.jobs.estimate import estimate_fit, is_large

    bytes_at_a_time = bytes_of(memory)
    if estimate or is_large(data, format):
        try:
            with progress_bar("estimating"):
                before = estimate_fit(
                    data, options, engine=engine, workers=workers, memory=bytes_at_a_time
                )
        except AttomatonError as fault:
            if estimate:
                raise
            say(f"no estimate: {fault}")  # the fit itself may go well
        else:
            if estimate:
                emit(vars(before), before.text(), json)
                return
            say(before.text())
    from attomaton.engine.choose import open_engine
    from attomaton.jobs.fit import fit_run
    from attomaton.report.text.terminal import fit_text

    with (
        open_engine(engine, workers, bytes_at_a_time, address) as where,
        progress_bar("fitting") as progress,
    ):
        summary = fit_run(
            data,
            out,
            embeddings=embeddings,
            dense=dense,
            engine=where,
            progress=progress,
            force=force,
            reading=options,
        )
    say_replaced(summary)
    text = f"{fit_text(summary)}\nmodel in {out} ({summary['seconds']['total']:.1f} s)"
    emit(summary, text, json)


@app.command()
def train(
    data: Annotated[
        Path, typer.Argument(help="A data file, or a folder written by `attomaton fit`.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the run.")],
    context: Context = None,
    embeddings: EmbeddingsFile = None,
    init: Annotated[
        str | None, typer.Option(help="zeros (default), uniform, or a .npy file with W(0).")
    ] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="gd (default), ngd, polyak, sgd or adam.")
    ] = None,
    lr: Annotated[
        float | None,
        typer.Option(
            help="Step size (default: 1 for gd, 0.01 for ngd, 0.1 for sgd, 0.01 for adam; polyak finds its own)."
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps (default: 4000).")] = None,
    every: Annotated[
        str | None,
        typer.Option(
            help="Steps between records, or log: evenly on a log axis (default: 100 records)."
        ),
    ] = None,
    head: Annotated[str | None, typer.Option(help="identity (default) or tied (C = E).")] = None,
    loss: Annotated[
        str | None, typer.Option(help="log (default), squared or cross-entropy.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Mini-batch (sgd, adam; default: all samples).")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Runs side by side, each its own start (default: 1).")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Names the random numbers (default: 0).")] = None,
    format: Format = None,
    sequence: Column = None,
    item: Column = None,
    order: Column = None,
    dates: Dates = None,
    split: Split = None,
    tokenizer: TokenizerName = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Train the real layer and measure, on the way, how far it still is from its limit."""
    options = reading(locals())
    from attomaton.jobs.train import train_run
    from attomaton.report.text.terminal import table

    spacing = int(every) if every is not None and every.isdigit() else every
    asked: dict[str, Any] = {
        "init": init, "optimizer": optimizer, "lr": lr, "steps": steps, "every": spacing, "head": head,
        "loss": loss, "batch_size": batch_size, "seeds": seeds, "seed": seed,
    }  # fmt: skip
    given = {name: value for name, value in asked.items() if value is not None}
    with progress_bar("training") as progress:
        summary = train_run(
            data,
            out,
            embeddings=embeddings,
            progress=progress,
            reading=options,
            force=force,
            **given,
        )
    say_replaced(summary)
    names = list(summary["final"][0])
    rows = [[row[name] for name in names] for row in summary["final"]]
    text = (
        f"{summary['steps']:,} steps of {_optimizer(summary['settings'])} on {summary['samples']:,} samples; L* = "
        f"{summary['loss_floor']:.8g}\n{table(names, rows)}\nrun in {out}"
    )
    emit(summary, text, json)
    stopped = [s for s in summary["status"] if s != "finished"]
    if stopped:
        say(f"not finished: {', '.join(stopped)}; what was computed is kept.")
        raise typer.Exit(130 if "interrupted" in stopped else 4)


@app.command(epilog=UNKNOWN)
def predict(
    model: Fitted,
    tokens: Tokens,
    radius: Annotated[
        float | None,
        typer.Option(help="Limit: norm of W along W_svm (default: infinite, the end of training)."),
    ] = None,
    top: Annotated[int, typer.Option(help="How many tokens to show.")] = 10,
    sample: Annotated[int, typer.Option(help="Also draw a continuation of this length.")] = 0,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the continuation (default: 0).")
    ] = None,
    backoff: Backoff = None,
    json: Json = False,
) -> None:
    """The next token after a context, with probabilities; by the limit, or by a predictor."""
    from attomaton.disk.storage import is_folder
    from attomaton.mechanics.theory.automaton import NEVER_LAST
    from attomaton.report.text.terminal import prediction_text

    at_least("--top", top, 1)
    at_least("--sample", sample, 0)
    if sample > MOST_DRAWN:
        raise UsageError(f"--sample {sample}: at most {MOST_DRAWN:,} tokens are drawn at a time.")
    if seed is not None and not sample:
        raise UsageError("--seed goes with --sample: nothing else is drawn.")
    if is_folder(model, "predictor"):
        refuse_options("a predictor", {"--radius": radius})
        record, text = predictor.predicted(
            model, tokens, top, backoff is not False, sample, seed or 0
        )
        emit(record, text, json)
        mark_unknown(record)
        return
    refuse_options("a limit", {"--backoff": backoff})
    automaton, words = opened(model, tokens, whole=sample > 0)
    record = prediction(automaton, words, float("inf") if radius is None else radius)
    if sample:
        from attomaton.numerics import named_rng

        rng = named_rng("sample", seed or 0)
        with progress_bar("drawing"):
            record["continuation"] = drawn = automaton.sample(words, rng, sample)
        if len(drawn) < sample:
            record["continuation_ends"] = f"{NEVER_LAST}: {[*words, *drawn][-1]}"
    emit(record, prediction_text(record, top), json)
    mark_unknown(record)


@app.command(epilog=UNKNOWN)
def explain(
    model: Fitted,
    tokens: Tokens,
    evidence: Annotated[
        int | None, typer.Option(help="Limit: samples shown behind each edge (default: 3).")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Limit: also draw it, an .svg or .png file.")
    ] = None,
    backoff: Backoff = None,
    json: Json = False,
) -> None:
    """Why this token comes next, and why every other token of the context lost."""
    from attomaton.disk.storage import check_file, is_folder
    from attomaton.report.figures.canvas import FIGURES
    from attomaton.report.text.terminal import explanation_text

    if figure is not None:
        check_file(figure, FIGURES, (model,))
    if is_folder(model, "predictor"):
        refuse_options("a predictor", {"--evidence": evidence, "--figure": figure})
        record, text = predictor.explained(model, tokens, backoff is not False)
        emit(record, text, json)
        mark_unknown(record)
        return
    refuse_options("a limit", {"--backoff": backoff})
    at_least("--evidence", evidence or 0, 0)
    automaton, words = opened(model, tokens)
    explanation = automaton.explain(words, 3 if evidence is None else evidence)
    record = explanation.record()
    if figure is not None:
        from dataclasses import asdict

        from attomaton.report.figures import canvas
        from attomaton.report.figures import training as figures

        canvas.write(figures.prediction_figure(asdict(explanation)), figure)
    emit(record, explanation_text(record), json)
    mark_unknown(record)


@app.command()
def graph(
    model: Model,
    last: Annotated[
        str, typer.Option(help="The last token whose graph to show.", callback=token_typed)
    ],
    format: Annotated[
        str | None,
        typer.Option(
            "--format", help="text, json, graphml, dot, svg or png (default: as the file's suffix)."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="File to write.")] = None,
    json: Json = False,
) -> None:
    """The priority graph of one last token: who outranks whom, who is tied."""
    from attomaton.disk.formats import plain, write_text
    from attomaton.disk.storage import check_file, write_whole
    from attomaton.folders.model import ModelFolder
    from attomaton.mechanics.theory.view import graph_view
    from attomaton.report.graphs import EXPORTS
    from attomaton.report.text.terminal import graph_text
    from attomaton.summaries import find_last_token

    format = _graph_format(format, out, ("text", "svg", "png", *EXPORTS))
    if out is not None:
        check_file(out, (f".{format}",) if format in ("svg", "png") else (), (model,))
    limit = opened(model, [last])[0].limit
    known = limit.graph.last_tokens
    if not len(known):  # of a large model only what belongs to this token was opened
        known = ModelFolder(model).last_tokens()["last"]
    view = graph_view(limit, find_last_token(limit.graph.vocabulary, known, last))
    if format in ("svg", "png"):
        from attomaton.report.figures import canvas, priority

        if out is None:
            raise UsageError(f"--format {format} needs a file: -o FILE.{format}")
        canvas.write(priority.priority_figure(view), out)
        emit({"written": str(out)}, f"written: {out}", json)
        return
    text = graph_text(view) if format == "text" else EXPORTS[format](view)
    if out is None and format != "text" and not json:
        put_file(text)
    elif out is None:
        emit(plain(view), text, json)
    else:
        write_whole(out, lambda path: write_text(path, text))
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


@app.command()
def reproduce(
    preset: Annotated[
        str | None, typer.Argument(help="A published experiment, e.g. mechanics-global.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All of them, each into a folder of its own.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(help="Draws (default: as published).")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version, for those that take long.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Run folder (default: under runs/).")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run a published experiment, or all of them, and judge it."""
    from attomaton.disk.provenance import run_folder, unfinished_run
    from attomaton.jobs.reproduce import reproduce_all, reproduce_run
    from attomaton.report.text.terminal import reproduction_text, table

    if every == (preset is not None):
        raise UsageError("name one published experiment, or say --all (not both).")
    if preset is None:
        place = out or run_folder("reproduce", {"seeds": seeds, "quick": quick})
        with progress_bar("reproducing") as progress:
            summary = reproduce_all(place, seeds, quick, progress, force)
        for row in summary["presets"]:
            say_replaced(row)
        rows = [[r["preset"], r["verdict"], r.get("error", r["title"])] for r in summary["presets"]]
        emit(summary, f"{table(['preset', 'verdict', ''], rows)}\nruns in {place}", json)
        if summary["verdict"] != "holds":
            raise typer.Exit(4)
        return
    asked = {"preset": preset, "seeds": seeds, "quick": quick}
    place = out or unfinished_run(preset, asked) or run_folder(preset, asked)
    with progress_bar(preset) as progress:
        summary = reproduce_run(preset, place, seeds, quick, progress, force)
    say_replaced(summary)
    emit(summary, reproduction_text(summary), json)
    if summary["verdict"] != "holds":
        raise typer.Exit(4)


@data_app.command("inspect")
def data_inspect(
    data: Data,
    context: Context = None,
    format: Format = None,
    sequence: Column = None,
    item: Column = None,
    order: Column = None,
    dates: Dates = None,
    split: Split = None,
    tokenizer: TokenizerName = None,
    json: Json = False,
) -> None:
    """What a file holds: samples, tokens, last tokens, what is set aside and why."""
    options = reading(locals())
    from attomaton.corpus.inspect import inspect_windows
    from attomaton.corpus.readers import read_windows
    from attomaton.report.text.terminal import table

    with progress_bar("reading"):
        windows = read_windows(data, options)
        record = {**inspect_windows(windows), "reading": options.done(windows.ordering)}
    rows = [[r["token"], r["occurrences"], r["as_last"], r["as_label"]] for r in record["tokens"]]
    text = "\n".join(
        [
            f"{record['samples']:,} samples ({record['distinct_samples']:,} distinct), "
            f"{record['vocab']:,} tokens, {record['last_tokens']:,} last tokens, contexts of "
            f"{record['shortest']}–{record['longest']} tokens",
            f"sequences: {record['documents']:,} cut into contexts, {record['too_short']:,} too short "
            "for a context and its label"
            if record["documents"]
            else "contexts as the file gives them",
            f"{record['set_aside']['rows']:,} set aside: label absent from the context",
            *(f"  {visible(example, 200)}" for example in record["set_aside"]["examples"]),
            table(["token", "in contexts", "as last", "as label"], rows),
        ]
    )
    emit(record, text, json)


@data_app.command("synth")
def data_synth(
    out: Annotated[
        Path, typer.Option("-o", "--out", help="JSONL file to write (sessions: also an event log).")
    ],
    kind: Annotated[
        str, typer.Option(help="general, acyclic, cyclic, fully-cyclic, planted or sessions.")
    ] = "general",
    vocab: Annotated[
        int | None, typer.Option("-K", "--vocab", help="Number of tokens (6; sessions: 24).")
    ] = None,
    samples: Annotated[
        int | None, typer.Option("-n", "--samples", help="Samples (6), or sessions (200).")
    ] = None,
    length: Annotated[
        int | None, typer.Option("-T", "--length", help="Tokens per context (4), or events (50).")
    ] = None,
    context: Annotated[
        int | None, typer.Option(help="Events before each label, for sessions as JSONL.")
    ] = None,
    levels: Annotated[int, typer.Option(help="Priority groups (planted).")] = 3,
    repeats: Annotated[bool, typer.Option(help="Let tokens repeat in a context.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Names the random numbers.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    json: Json = False,
) -> None:
    """Draw a random data set: at large, with a planted priority order, or sessions of returning users."""
    from attomaton.disk.storage import check_file
    from attomaton.numerics import named_rng

    check_file(out, force=force)
    rng = named_rng("synth", seed)
    usual = (24, 200, 50) if kind == "sessions" else (6, 6, 4)
    given = (vocab, samples, length)
    K, n, T = (u if x is None else x for x, u in zip(given, usual, strict=True))
    for name, value in (("vocab", K), ("samples", n), ("length", T), ("samples × length", n * T)):
        whole_number(name, value, most=MOST_SYNTH)
    if kind == "sessions":
        from attomaton.corpus.sessions import draw_sessions, write_sessions

        log = draw_sessions(rng, n, T, K)
        write_sessions(log, out, context)
        record = {"written": str(out), "kind": kind, "events": len(log.item), "seed": seed}
        emit(record, f"{record['events']} events in {out}", json)
        return
    from attomaton.corpus.readers import write_jsonl
    from attomaton.mechanics.synthetic import draw_samples, planted_samples

    if context is not None:
        raise UsageError("--context is for --kind sessions; the others have --length.")
    if kind == "planted":
        drawn = planted_samples(rng, K, n, T, levels, repeats=repeats).samples
    else:
        drawn = draw_samples(rng, K, n, T, kind=kind, repeats=repeats)
    write_jsonl(drawn, out)
    record = {"written": str(out), "kind": kind, "samples": int(drawn.rows.sum()), "seed": seed}
    emit(record, f"{record['samples']} samples in {out}", json)


@app.command()
def doctor(json: Json = False) -> None:
    """Whether everything attomaton needs is here and computes what it should."""
    from attomaton.jobs.doctor import examine
    from attomaton.report.text.terminal import table

    record = examine()
    rows = [[c["check"], "ok" if c["ok"] else "FAILS", c["detail"]] for c in record["checks"]]
    emit(record, table(["check", "", "detail"], rows), json)
    if not record["ok"]:
        raise typer.Exit(1)


def opened(model: Path, tokens: list[str], whole: bool = False) -> tuple[Any, list[Any]]:
    """The automaton of a model, and command-line words as its token labels.

    Only what belongs to the last of them is read, unless the `whole` model is asked for.
    """
    from attomaton.folders.model import open_model
    from attomaton.mechanics.theory.automaton import Automaton

    limit = open_model(model, None if whole else tokens[-1:])
    return Automaton(limit), [limit.graph.vocabulary.read(token) for token in tokens]


def prediction(automaton: Any, words: list[Any], radius: float) -> dict[str, Any]:
    """What `attomaton predict` answers with a limit, as plain data."""
    from dataclasses import asdict

    from attomaton.mechanics.theory.automaton import unknown_note

    p = automaton.predict_proba(words, radius)
    ranked = sorted(p.items(), key=lambda pair: -pair[1])
    unknown = automaton.unknown(words)
    return {
        "context": words,
        "radius": radius,
        "prediction": ranked[0][0] if ranked else None,
        "probabilities": [{"token": x, "p": v} for x, v in ranked],
        "known_last": p.known_last,
        "unknown": [asdict(x) for x in unknown],
        "unseen": list(p.unseen),
        "note": unknown_note(unknown, bool(ranked)),
    }


def _optimizer(settings: dict[str, Any]) -> str:
    rate = f" (lr {settings['lr']:g})" if "lr" in settings else ""
    return f"{settings['optimizer']}{rate}"


def refuse_options(what: str, given: dict[str, Any]) -> None:
    """Refuse options that say nothing about this kind of folder."""
    named = [name for name, value in given.items() if value is not None]
    if named:
        other = (
            "a limit (`attomaton fit`)"
            if what == "a predictor"
            else "a predictor (`attomaton tune`)"
        )
        raise UsageError(f"this folder holds {what}; {', '.join(named)} is for {other}.")


def at_least(name: str, value: int, least: int) -> None:
    """Refuse a number that is too small."""
    if value < least:
        raise UsageError(f"{name} must be at least {least}, not {value}.")


def mark_unknown(record: dict[str, Any]) -> None:
    """End with an exit code of its own where an answer is about tokens the model does not know."""
    if record["unknown"]:
        raise typer.Exit(UNKNOWN_TOKENS)


scan.register(app)
predictor.register(app)
summary.register(app)
verify.register(app)
runs.register(app)
lab.register(app)


def main() -> None:
    """Run the command line; every error of ours is one message and its exit code."""
    prepare_streams()
    debug = "--debug" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    try:
        if any("\0" in word for word in arguments):
            raise UsageError("a zero byte stands in the command; no file or token has one.")
        app(args=arguments, prog_name="attomaton")
    except AttomatonError as error:
        if debug:
            raise
        fail(type(error).__name__, str(error), error.exit_code)
    except SystemExit as left:
        # The library of the command line answers a reader that has left (`| head`) by exit code 1.
        if isinstance(left.__context__, BrokenPipeError):
            reader_gone()
        raise
    except BrokenPipeError:
        reader_gone()
    except Exception as error:
        if debug:
            raise
        fail(*_named(error), 1)


def _named(error: Exception) -> tuple[str, str]:
    """What an error is that nobody expected: too little memory, a disk that refuses, or a fault of ours."""
    said = f"{type(error).__name__}: {visible(error, most=500)}"
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "OutOfMemory", (
            f"there is not enough memory for this ({said}).\nTry less at a time: fewer --seeds, a smaller "
            "--batch-size, a shorter --context, --memory GB where there is such an option; or a larger machine."
        )
    if isinstance(error, OSError):
        where = "" if error.filename is None else f"{visible(error.filename, most=500)}: "
        return "StorageError", f"{where}{error.strerror or said}."
    return "InternalError", f"{said}\nThis is a fault of attomaton; --debug shows where."
