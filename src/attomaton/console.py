"""What all commands share: options for reading data, printing a result, showing progress, saying what went wrong."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from attomaton.corpus.files import READING
from attomaton.errors import visible

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Context = Annotated[
    int | None, typer.Option("--context", help="Tokens before each label (text and event logs).")
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="Read as text, jsonl, csv, tsv or parquet, whatever the suffix."),
]
Column = Annotated[str | None, typer.Option(help="Column of an event log.")]
Dates = Annotated[
    str | None, typer.Option(help="What 2/3/2024 is in an event log: day-first or month-first.")
]
Split = Annotated[
    str | None,
    typer.Option(help="Documents of a text: stream (default; the whole file), lines, paragraphs."),
]
TokenizerName = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help="Tokens of a text: words (default), lower, chars, or a Hugging Face tokenizers FILE.json.",
    ),
]
EngineName = Annotated[
    str, typer.Option("--engine", help="Where the work runs: local, processes or ray.")
]
Workers = Annotated[
    int | None,
    typer.Option(help="Processes, or workers of a local Ray cluster (default: all cores)."),
]
Memory = Annotated[
    float | None, typer.Option("--memory", help="GB that what runs at a time may take together.")
]
Address = Annotated[
    str | None, typer.Option(help="A Ray cluster that is there already (default: one is started).")
]


def reading(given: dict[str, Any]) -> dict[str, Any]:
    """How a file is to be read, out of all that a command was given; what is said of it goes to stderr from now on."""
    log = logging.getLogger("attomaton")
    if not any(isinstance(x, _Said) for x in log.handlers):
        log.addHandler(_Said())
        log.setLevel(logging.INFO)
    return {name: given[name] for name in READING}


class _Said(logging.Handler):
    """What the library tells about its work, as lines for a person."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def emit(record: dict[str, Any], text: str, as_json: bool) -> None:
    """The result of a command, for a program or for a person."""
    from attomaton.formats import to_json

    print(to_json({"schema_version": 1, **record}) if as_json else _plain(text))


def say(text: str) -> None:
    """A line for a person, beside the result: on stderr, at once."""
    print(_plain(text), file=sys.stderr, flush=True)


def _plain(text: str) -> str:
    """All that leaves for a terminal passes here: whatever a file had in it, only our own lines are broken."""
    return visible(text, most=None, keep="\n")


@contextmanager
def progress_bar(title: str) -> Iterator[Any]:
    """A callback `progress(done, total, note)` that draws a bar, or None where nobody watches; a number is a loss."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, note="")

        def progress(done: int, total: int, note: float | str) -> None:
            said = note if isinstance(note, str) else f"loss {note:.6g}"
            bar.update(task, completed=done, total=total, note=said)

        yield progress


def fail(kind: str, message: str, code: int) -> None:
    """Say what went wrong, as JSON too where JSON was asked for, and leave."""
    from attomaton.formats import to_json

    if "--json" in sys.argv:
        error = {"type": kind, "message": message, "exit_code": code}
        print(to_json({"schema_version": 1, "error": error}))
    say(f"{kind}: {message}")
    sys.exit(code)
