"""What makes a function a command: its group, its help, and parameters that stand for several options."""

import inspect
import os
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial, wraps
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
import typer.core

from attomaton.cli.console import hear
from attomaton.cli.options import option
from attomaton.errors import UsageError

if TYPE_CHECKING:
    from attomaton.corpus.reading import Reading
    from attomaton.engine.tasks import Engine

MOST_MEMORY = 1e9  # GB
LARGE = 1e6  # bytes of a data set from which on all cores are worth the start of processes


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


def _option(name: str, kind: Any, said: Any, *, default: Any = None) -> inspect.Parameter:
    """An option; what is said of it is its help, or all of an option or argument."""
    if default is None:
        kind = kind | None
    form = Annotated[kind, option(said) if isinstance(said, str) else said]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=form)


# Parameters of a command that stand for several options: the options, and what makes one value of them.
_READING = (
    _option("context", int, "Context length: tokens before each label (text and event logs)."),
    _option("format", str, "Read as text, jsonl, csv, tsv, parquet, xes, spmf or events, whatever the suffix."),
    *(_option(role, str, "Column of an event log.") for role in ("sequence", "item", "order")),
    _option("dates", str, "What 2/3/2024 is in an event log: day-first or month-first."),
    _option("delimiter", str, "What separates the values of a .csv or .tsv file: ';', '|', tab, space."),
    _option("split", str, "Documents of a text: stream (default; the whole file), lines, paragraphs."),
    _option("tokenizer", str,
            "Tokens of a text: words (default), lower, chars, or a Hugging Face tokenizers FILE.json."),
)  # fmt: skip
_ENGINE = (
    _option("engine", str,
            "Where the work runs: local, processes or ray (default: processes if large, else local)."),
    _option("workers", int, "Processes, or workers of a local Ray cluster (default: all cores)."),
    _option("address", str, "Address of a running Ray cluster (default: start one)."),
)  # fmt: skip
_MEMORY = _option(
    "memory", float, "Worker memory in GB: what all work that runs at a time may take together."
)
_SHARED: dict[str, tuple[tuple[inspect.Parameter, ...], Callable[..., Any]]] = {
    "reading": (_READING, _reading),
    "engine": ((*_ENGINE, _MEMORY), _engine),
    "plain_engine": (_ENGINE, _engine),  # for work whose memory is not known before
}


class _Helped:
    """What has `--help`: when that is not given it is False, not a value that has to be read."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option, made by the library."""
        made = super().get_help_option(ctx)  # type: ignore[misc]
        if made is not None:
            made.default = False
        return made


class Group(_Helped, typer.core.TyperGroup):
    """Commands under one name."""


class Command(_Helped, typer.core.TyperCommand):
    """A command; a path that looks like an option is refused, and `rows` may end its help."""

    heading = ""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        forms = getattr(self.callback, "__annotations__", {})
        p: Any
        for p in self.params:
            if p.name in forms:
                kind, said = get_args(forms[p.name])
                p.process_value = partial(_processed, p, kind, said, p.process_value)

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
            # Older versions keep paths as texts.
            kind = getattr(getattr(p, "type", None), "name", "")
            path = isinstance(value, Path) or kind == "path"
            typed = pairs & {(name, str(value)) for name in p.opts}
            if typed and path and str(value).startswith("--"):
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


def _processed(p: Any, kind: Any, said: Any, process: Any, ctx: Any, value: Any) -> Any:
    """The value of a parameter: what is plain as it stands, all else as the library reads it.

    Newer versions of it load pydantic to read a value, even one that was not given: that takes as long as all the rest.
    """
    missing, bounded = value in (None, ()), (said.min, said.max) != (None, None)
    plain = ... if (p.required if missing else bounded) else _plain(kind, value)
    if plain is ...:
        return process(ctx, value)
    return plain if p.callback is None else p.callback(ctx, p, plain)


def _plain(kind: Any, value: Any) -> Any:
    """A value of this kind, where nothing has to be asked about it; otherwise `...`."""
    if isinstance(kind, UnionType):
        kind = next(x for x in get_args(kind) if x is not NoneType)
    if get_origin(kind) is list and isinstance(value, tuple | None):
        (one,) = get_args(kind)
        taken = [_plain(one, x) for x in value or ()]
        return ... if ... in taken else taken
    if kind is Path and isinstance(value, str):
        readable = os.access(Path(value), os.R_OK) or not os.path.exists(Path(value))
        return Path(value) if readable else ...
    if kind is int and isinstance(value, str) and re.fullmatch("0|[1-9][0-9]{0,17}", value):
        return int(value)
    return value if value is None or type(value) is kind else ...


def listing(title: str, names: Callable[[], Sequence[tuple[str, str]]]) -> type[Command]:
    """A command whose help lists, under this title, names that it takes and what they are."""

    class Listing(Command):
        heading = title

        def rows(self) -> Sequence[tuple[str, str]]:
            return names()

    return Listing


Function = TypeVar("Function", bound=Callable[..., None])


def command(
    app: typer.Typer,
    group: str | None = None,
    *,
    cls: type[Command] = Command,
    epilog: str | None = None,
) -> Callable[[Function], Function]:
    """Make a function a command of the program, listed in this group of its help.

    The text beside the kind of a parameter is the help of an option. A parameter `reading` stands for the options that
    say how a file is read, `engine` for those that say where work runs, and `**given: Unpack[Table]` for those of a
    table: the function gets the ones that were given.
    """

    def add(function: Function) -> Function:
        register = app.command(cls=cls, rich_help_panel=group, epilog=epilog)
        return register(_spread(function))

    return add


def _spread(function: Function) -> Function:
    """The same function with all its options as the library wants them, those that another parameter stands for too."""
    parameters = inspect.signature(function).parameters
    shared = {name: _SHARED[name] for name in parameters if name in _SHARED}
    tables = [p for p in parameters.values() if p.kind is p.VAR_KEYWORD]
    own = [
        _option(name, *get_args(p.annotation), default=p.default)
        for name, p in parameters.items()
        if name not in shared and p not in tables
    ]
    passed = [
        _option(name, *get_args(form))
        for table in tables
        for name, form in get_type_hints(get_args(table.annotation)[0], include_extras=True).items()
    ]
    last = [p for p in own if p.name in ("force", "json")]  # as in every command
    spread = [p for p in own if p.default is p.empty] + passed
    spread += [p for p in own if p.default is not p.empty and p not in last]
    spread += [option for options, _ in shared.values() for option in options] + last

    @wraps(function)
    def call(**given: Any) -> None:
        for name, (options, make) in shared.items():
            given[name] = make(**{option.name: given.pop(option.name) for option in options})
        for one in passed:  # in the order of the table, whatever was typed first
            if (value := given.pop(one.name)) is not None:
                given[one.name] = value
        function(**given)

    call.__signature__ = inspect.Signature(spread)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in spread}
    return call  # type: ignore[return-value]
