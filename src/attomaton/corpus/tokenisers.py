"""Tokenisers: what a token of a plain text is.

Each cuts single lines; line ends are the reader's business and become `<eos>` whatever the tokeniser.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.errors import DataError, UsageError, nearest

BUILT_IN = ("words", "lower", "chars")
MOST_BYTES = 1 << 28  # of a tokenizer's file


@dataclass(frozen=True)
class Tokeniser:
    """A way to cut lines into tokens."""

    tokens: Callable[[list[str]], Iterable[list[str]]]  # those of each line
    cut: Callable[[str], int]  # how much of a piece of text can be taken without tearing a token


def named_tokeniser(name: str) -> Tokeniser:
    """The tokeniser called `name`: one of the built-in ones, or a Hugging Face `tokenizers` file.

    - `words`: what white space separates, as it is spelled;
    - `lower`: the same, in lower case;
    - `chars`: every character (Unicode code point) is a token, a space is the token `" "`;
    - `FILE.json`: the tokens of `Tokenizer.from_file`, as strings and line by line. Nothing is added to a
      line and nothing cut off: special tokens, padding and truncation that the file asks for are left out.

    >>> list(named_tokeniser("lower").tokens(["The cat", ""])), list(named_tokeniser("chars").tokens(["a b"]))
    ([['the', 'cat'], []], [['a', ' ', 'b']])
    """
    if name == "words":
        return Tokeniser(lambda lines: map(str.split, lines), _after_space)
    if name == "lower":
        return Tokeniser(lambda lines: (line.lower().split() for line in lines), _after_space)
    if name == "chars":
        return Tokeniser(lambda lines: map(list, lines), len)
    if name.endswith(".json"):
        return _from_file(Path(name))
    known = ", ".join(BUILT_IN)
    raise UsageError(
        f"tokenizer {name!r} is neither one of {known} nor a .json file{nearest(name, BUILT_IN)}"
    )


def after_line_end(text: str) -> int:
    """How much of the text is whole lines."""
    return text.rfind("\n") + 1


def _after_space(text: str) -> int:
    return max(text.rfind(" "), text.rfind("\n")) + 1


def _from_file(path: Path) -> Tokeniser:
    """The tokeniser in a file written by the `tokenizers` library."""
    if not path.is_file():
        raise DataError(f"tokenizer: no such file {path}.")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UsageError(
            f"tokenizer {path} needs the package `tokenizers`: pip install 'attomaton[text]'."
        ) from None
    if path.stat().st_size > MOST_BYTES:
        raise DataError(f"tokenizer: {path} is larger than {MOST_BYTES >> 20} MB.")
    with _theirs(f"tokenizer: {path} cannot be read ({{}})."):
        tokenizer: Any = Tokenizer.from_file(str(path))
        tokenizer.no_padding()
        tokenizer.no_truncation()

    def tokens(lines: list[str]) -> list[list[str]]:
        with _theirs(f"tokenizer {path} refuses this text: {{}}"):
            encoded = tokenizer.encode_batch(lines, add_special_tokens=False)
            return [line.tokens for line in encoded]

    return Tokeniser(tokens, after_line_end)


@contextmanager
def _theirs(said: str) -> Iterator[None]:
    """Errors of the `tokenizers` library, bare exceptions or panics that are not even exceptions, `said` as ours."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as fault:
        raise DataError(said.replace("{}", str(fault))) from None
