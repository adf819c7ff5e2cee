"""The commands about data: look at a file, draw a random one."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attomaton.cli.commands import Group, command
from attomaton.cli.console import emit, progress_bar
from attomaton.cli.options import Data, Json, argument, option, said
from attomaton.errors import UsageError, one_of, visible, whole_number

if TYPE_CHECKING:
    from attomaton.corpus.guesses import Guess
    from attomaton.corpus.reading import Reading

app = typer.Typer()
group = typer.Typer(
    cls=Group, help="Inspect a data file, or draw random data.", no_args_is_help=True
)
app.add_typer(group, name="data", rich_help_panel="Data")
MOST_SYNTH = 100_000_000  # tokens of a data set that is drawn in memory


@command(group)
def inspect(
    data: Data,
    reading: "Reading",
    json: Json = False,
) -> None:
    """Inspect a data file.

    Counts samples, tokens and last tokens, and says what is set aside and why. What reading it needs and nobody said
    (columns, delimiter, context) is guessed, and said as the options to type.
    """
    from attomaton.corpus.datasets import data_file
    from attomaton.corpus.inspect import inspect_windows
    from attomaton.corpus.looks import look_at_file
    from attomaton.corpus.readers import read_windows
    from attomaton.disk.formats import plain
    from attomaton.report.text.terminal import table

    with progress_bar("reading"):
        path = data_file(data)
        look = look_at_file(path, reading) if path.is_file() else None
        if look is not None and look.wanting and (look.format != "jsonl" or not reading.context):
            guesses = look.guesses
            windows = read_windows(data, look.reading)
        else:
            windows = read_windows(data, reading)
            guesses = windows.guesses
        found = inspect_windows(windows)
    rows = [[t.token, t.occurrences, t.as_last, t.as_label] for t in found.tokens]
    text = "\n".join(
        [
            *_read_as(reading, guesses),
            f"{found.samples:,} samples ({found.distinct_samples:,} distinct), "
            f"{found.vocab:,} tokens, {found.last_tokens:,} last tokens, contexts of "
            f"{found.shortest}–{found.longest} tokens",
            f"sequences: {found.documents:,} cut into contexts, {found.too_short:,} too short "
            "for a context and its label"
            if found.documents
            else "contexts as the file gives them",
            f"{found.set_aside.rows:,} set aside: label absent from the context",
            *(f"  {visible(example, 200)}" for example in found.set_aside.examples),
            table(["token", "in contexts", "as last", "as label"], rows),
        ]
    )
    kept = replace(reading.done(windows), guesses=guesses or None)
    emit({**plain(found), "reading": kept}, text, json)


def _read_as(reading: "Reading", guesses: "tuple[Guess, ...]") -> list[str]:
    """The options that say all that was guessed, for whoever wants to say it."""
    if not guesses:
        return []
    words = [g.text() for g in guesses] + [shlex.join(reading.words)]
    return [
        f"read with {' '.join(words).strip()} (guessed: {', '.join(g.option for g in guesses)})"
    ]


@command(group)
def synth(
    out: Annotated[
        Path, option("JSONL file to write (sessions: also an event log).", "-o", "--out")
    ],
    kind: Annotated[
        str, "general, acyclic, cyclic, fully-cyclic, planted or sessions."
    ] = "general",
    vocab: Annotated[
        int | None, option("Number of tokens (6; sessions: 24).", "-K", "--vocab")
    ] = None,
    samples: Annotated[
        int | None, option("Samples (6), or sessions (200).", "-n", "--samples")
    ] = None,
    length: Annotated[
        int | None, option("Tokens per context (4), or events (50).", "-T", "--length")
    ] = None,
    context: Annotated[int | None, "Events before each label, for sessions as JSONL."] = None,
    levels: Annotated[int, "Priority groups (planted)."] = 3,
    repeats: Annotated[bool, "Let tokens repeat in a context."] = False,
    seed: Annotated[int, option("Random seed.", min=0)] = 0,
    force: Annotated[bool, option("Replace a file that is there.", "--force")] = False,
    json: Json = False,
) -> None:
    """Draw a random data set.

    At large, with a planted priority order, or as sessions of returning users.
    """
    from attomaton.disk.storage import check_file
    from attomaton.mechanics.synthetic import KINDS
    from attomaton.numerics import named_rng

    one_of("--kind", kind, (*KINDS, "planted", "sessions"))
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
        what, many = "events", len(log.item)
    else:
        from attomaton.corpus.readers import write_jsonl
        from attomaton.mechanics.synthetic import draw_samples, planted_samples

        if context is not None:
            raise UsageError("--context is for --kind sessions; the others have --length.")
        if kind == "planted":
            drawn = planted_samples(rng, K, n, T, levels, repeats=repeats).samples
        else:
            drawn = draw_samples(rng, K, n, T, kind=kind, repeats=repeats)
        write_jsonl(drawn, out)
        what, many = "samples", int(drawn.rows.sum())
    record = {"written": str(out), "kind": kind, what: many, "seed": seed}
    emit(record, f"{many} {what} in {out}", json)


@command(group)
def classes(
    data: Annotated[Path, argument("A data file, or a folder written by `attomaton fit`.")],
    out: Annotated[Path, option("TOML file to write.", "-o", "--out")],
    reading: "Reading",
    most: Annotated[
        int | None, option("Labels, the most frequent (default: 20).", "--classes")
    ] = None,
    tokens: Annotated[
        int | None, "Tokens of their contexts, the most frequent (default: 200)."
    ] = None,
    force: Annotated[bool, option("Replace a file that is there.", "--force")] = False,
    json: Json = False,
) -> None:
    """Write the sequence classes of a data set, for `attomaton dynamics`.

    Labels are classes, the last tokens they came after are queries.
    """
    from attomaton.disk.formats import write_text
    from attomaton.disk.storage import check_file, write_whole
    from attomaton.jobs.classes import data_classes
    from attomaton.scan_snap.families import classes_text

    check_file(out, (".toml",), (data,), force=force)
    with progress_bar("reading"):
        found = data_classes(data, reading, **said(most_classes=most, most_tokens=tokens))
    write_whole(out, write_text, classes_text(found.classes))
    record = {
        "written": str(out), "classes": found.classes.K, "tokens": found.classes.M, "weight": found.weight.tolist(),
        "total": found.total, "other_queries": found.other_queries, "other_labels": found.other_labels,
        "folded": found.folded,
    }  # fmt: skip
    emit(record, f"{found.said}\nin {out}; attomaton dynamics {out} runs them", json)
