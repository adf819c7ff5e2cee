"""What makes a function a command: the options that several commands share, each declared once, and their groups."""

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
import typer.core

from attomaton.cli.console import hear
from attomaton.errors import UsageError, as_text

if TYPE_CHECKING:
    from attomaton.corpus.reading import Reading
    from attomaton.engine.tasks import Engine

MOST_MEMORY = 1e9  # GB
LARGE = 1e6  # bytes of a data set from which on all cores are worth the start of processes

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace a folder of another kind, or unfinished work with other settings.",
    ),
]
RunFolder = Annotated[
    Path | None, typer.Option("-o", "--out", help="Run folder (default: under runs/).")
]
Data = Annotated[
    Path,
    typer.Argument(
        help="JSONL, text, CSV, TSV, Parquet, XES or SPMF file, - for standard input, or a data set: wikitext-2, "
        "wikitext-2:valid, example."
    ),
]
Model = Annotated[Path, typer.Argument(help="Folder written by `attomaton fit`.")]
Column = Annotated[str | None, typer.Option(help="Column of an event log.")]


@dataclass(frozen=True)
class EngineOptions:
    """Where work runs: the options of an engine, which `open` opens."""

    name: str | None  # None: what suits the work
    workers: int | None
    address: str | None
    memory: int | None = None  # bytes

    def open(self, large: bool = False) -> "AbstractContextManager[Engine]":
        """The engine, for as long as the work takes; `large` work gets all cores unless told otherwise."""
        from attomaton.engine.choose import open_engine

        return open_engine(self.name, self.workers, self.memory, self.address, large)


def is_large(data: Path | str, least: float = LARGE) -> bool:
    """Whether a data set is so large that work on it is worth the start of processes."""
    from attomaton.corpus.datasets import data_file

    path = data_file(data)
    return path.is_file() and path.stat().st_size >= least


def _reading(**given: Any) -> "Reading":
    """How a file is to be read; what is said of it goes to stderr from now on."""
    from attomaton.corpus.reading import Reading

    hear()
    return Reading(**given)


def _engine(
    engine: str | None, workers: int | None, address: str | None, memory: float | None = None
) -> EngineOptions:
    if memory is not None and not 0 < memory <= MOST_MEMORY:
        raise UsageError(f"--memory {memory:g}: a positive number of GB is needed.")
    return EngineOptions(engine, workers, address, None if memory is None else int(memory * 1e9))


def _option(name: str, form: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=form)


# Parameters of a command that stand for several options: the options, and what makes one value of them.
_READING = (
    _option("context", Annotated[
        int | None, typer.Option(help="Context length: tokens before each label (text and event logs).")
    ]),
    _option("format", Annotated[
        str | None,
        typer.Option(help="Read as text, jsonl, csv, tsv, parquet, xes, spmf or events, whatever the suffix."),
    ]),
    _option("sequence", Column),
    _option("item", Column),
    _option("order", Column),
    _option("dates", Annotated[
        str | None, typer.Option(help="What 2/3/2024 is in an event log: day-first or month-first.")
    ]),
    _option("delimiter", Annotated[
        str | None, typer.Option(help="What separates the values of a .csv or .tsv file: ';', '|', tab, space.")
    ]),
    _option("split", Annotated[
        str | None, typer.Option(help="Documents of a text: stream (default; the whole file), lines, paragraphs.")
    ]),
    _option("tokenizer", Annotated[str | None, typer.Option(
        help="Tokens of a text: words (default), lower, chars, or a Hugging Face tokenizers FILE.json."
    )]),
)  # fmt: skip
_ENGINE = (
    _option("engine", Annotated[
        str | None,
        typer.Option(help="Where the work runs: local, processes or ray (default: processes if large, else local)."),
    ]),
    _option("workers", Annotated[
        int | None, typer.Option(help="Processes, or workers of a local Ray cluster (default: all cores).")
    ]),
    _option("address", Annotated[
        str | None, typer.Option(help="Address of a running Ray cluster (default: start one).")
    ]),
)  # fmt: skip
_MEMORY = _option("memory", Annotated[
    float | None, typer.Option(help="Worker memory in GB: what all work that runs at a time may take together.")
])  # fmt: skip
_SHARED: dict[str, tuple[tuple[inspect.Parameter, ...], Callable[..., Any]]] = {
    "reading": (_READING, _reading),
    "engine": ((*_ENGINE, _MEMORY), _engine),
    "plain_engine": (_ENGINE, _engine),  # for work whose memory is not known before
}


class Command(typer.core.TyperCommand):
    """A command; a path that looks like an option is refused, and `rows` may end its help."""

    heading = ""

    def rows(self) -> Sequence[tuple[str, str]]:
        """Names that the command takes and what they are, listed under the `heading`."""
        return ()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse `-o --json`: whoever typed it forgot the path."""
        pairs = set(pairwise(args))
        rest = super().parse_args(ctx, args)
        p: Any  # of another class in each version of the library
        for p in self.params:
            value = ctx.params.get(p.name)
            kind = getattr(
                getattr(p, "type", None), "name", ""
            )  # older versions keep paths as texts
            typed = pairs & {(name, str(value)) for name in p.opts}
            if (
                typed
                and (isinstance(value, Path) or kind == "path")
                and str(value).startswith("--")
            ):
                raise typer.BadParameter(
                    f"{value} looks like an option, not a path. Name a path (one that begins with -- is ./{value}).",
                    ctx=ctx, param=p,
                )  # fmt: skip
        return rest

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """What stands below the options in the help."""
        super().format_epilog(ctx, formatter)
        if self.heading:
            with formatter.section(self.heading):
                formatter.write_dl(list(self.rows()))


Function = TypeVar("Function", bound=Callable[..., None])


def command(
    app: typer.Typer,
    group: str | None = None,
    *,
    cls: type[Command] = Command,
    epilog: str | None = None,
) -> Callable[[Function], Function]:
    """Make a function a command of the program, listed in this group of its help.

    A parameter `reading` stands for the options that say how a file is read, `engine` for those that say where work
    runs.
    """

    def add(function: Function) -> Function:
        register = app.command(cls=cls, rich_help_panel=group, epilog=epilog)
        register(_spread(function))
        return function

    return add


def _spread(function: Callable[..., None]) -> Callable[..., None]:
    """The same function with an option for each that a shared parameter stands for."""
    parameters = inspect.signature(function).parameters
    shared = {name: _SHARED[name] for name in parameters if name in _SHARED}
    if not shared:
        return function
    own = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, p in parameters.items()
        if name not in shared
    ]
    last = [p for p in own if p.name in ("force", "json")]  # as in every command
    spread = [p for p in own if p not in last]
    spread += [option for options, _ in shared.values() for option in options] + last

    @wraps(function)
    def call(**given: Any) -> None:
        for name, (options, make) in shared.items():
            given[name] = make(**{option.name: given.pop(option.name) for option in options})
        function(**given)

    call.__signature__ = inspect.Signature(spread)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in spread}
    return call


def token_typed(value: str | None) -> str | None:
    """A token as it was typed, whatever the encoding of the system."""
    return None if value is None else as_text(value)


def tokens_typed(value: list[str] | None) -> list[str]:
    """Several of them."""
    return [as_text(word) for word in value or ()]


def said(**options: Any) -> dict[str, Any]:
    """The options that were given: whoever is called knows the defaults of the others."""
    return {name: value for name, value in options.items() if value is not None}


def whole_numbers(name: str, text: str) -> list[int]:
    """Whole numbers with commas between them."""
    try:
        return [int(x) for x in text.split(",")]
    except ValueError:
        raise UsageError(
            f"{name} {text}: whole numbers with commas are needed, as in 2,4,8."
        ) from None


def at_least(name: str, value: int, least: int) -> None:
    """Refuse a number that is too small."""
    if value < least:
        raise UsageError(f"{name} must be at least {least}, not {value}.")
