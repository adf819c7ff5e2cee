"""The options that several commands share, each declared once, and how their words are read."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attomaton.errors import UsageError, as_text


def option(help: str, *names: str, **more: Any) -> Any:
    """An option of a command; without `names`, called as its parameter is."""
    return typer.Option(*names, help=help, **more)


def argument(help: str, **more: Any) -> Any:
    """An argument of a command."""
    return typer.Argument(help=help, **more)


Json = Annotated[bool, option("Print the result as JSON.", "--json")]
Force = Annotated[
    bool,
    option("Replace a folder of another kind, or unfinished work with other settings.", "--force"),
]
RunFolder = Annotated[Path | None, option("Run folder (default: under runs/).", "-o", "--out")]
Data = Annotated[
    Path,
    argument(
        "JSONL, text, CSV, TSV, Parquet, XES or SPMF file, - for standard input, or a data set: wikitext-2, "
        "wikitext-2:valid, example."
    ),
]
Model = Annotated[Path, argument("Folder written by `attomaton fit`.")]


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
