"""The command line: parse, call, print, exit code. Results go to stdout, everything else to stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Annotated, Any

import typer

from attomaton.base.caches import keep_compiled
from attomaton.cli import ask, data, fit, lab, predictor, probe, runs, scan, summary, verify
from attomaton.cli.commands import Group
from attomaton.cli.console import fail, prepare_streams, reader_gone
from attomaton.cli.options import option
from attomaton.errors import AttomatonError, UsageError, visible

GROUPS = ("Data", "Learn", "Ask", "Training", "Scan and snap", "Check", "Folders", "Lab")

# What the library of the command line raises where words make no sense; it lies elsewhere in each version.
_Misused: Any = typer.BadParameter.__mro__[1]


class _Commands(Group):
    """The commands; what the library says of a user's words passes through `visible`, like all that is printed."""

    def make_context(self, *given: Any, **named: Any) -> Any:
        with _shown():
            return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:
        with _shown():
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands by their groups."""
        width = max(map(len, self.commands))
        room = formatter.width - 6 - width
        for group in GROUPS:
            rows = [
                (name.ljust(width), command.get_short_help_str(room))
                for name, command in self.commands.items()
                if getattr(command, "rich_help_panel", None) == group
            ]
            with formatter.section(group):
                formatter.write_dl(rows)


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
        option("Print the version, and stop.", "--version", is_eager=True, callback=_tell_version),
    ] = False,
) -> None:
    """What a self-attention layer learns from next-token prediction, exactly, on your data."""


for part in (data, fit, predictor, ask, summary, scan, verify, probe, runs, lab):
    app.registered_commands += part.app.registered_commands
    app.registered_groups += part.app.registered_groups
runs.program = app


def _asked(words: list[str]) -> Any:
    """The command line as far as these words go: where the first names a command, the others need not be built."""
    named = [x for x in app.registered_commands if getattr(x.callback, "__name__", "") in words[:1]]
    if not named:
        return app
    one = copy(app)
    one.registered_commands, one.registered_groups = named, []
    return one


def main() -> None:
    """Run the command line; every error of ours is one message and its exit code."""
    prepare_streams()
    keep_compiled()
    debug = "--debug" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    try:
        if any("\0" in word for word in arguments):
            raise UsageError("a zero byte stands in the command; no file or token has one.")
        _asked(arguments)(args=arguments, prog_name="attomaton")
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
