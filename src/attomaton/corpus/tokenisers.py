"""Tokenisers: what a token of a plain text is.

Each cuts single lines; line ends are the reader's business and become `<eos>` whatever the tokeniser.
"""

import json
import math
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.disk.doors import check_memory, opened
from attomaton.disk.formats import check_values
from attomaton.errors import DataError, UsageError, nearest

BUILT_IN = ("words", "lower", "chars")
MOST_BYTES = 1 << 28  # of a tokenizer's file
MOST_GROWTH = 1 << 10  # times as long as before a text may become by what a tokenizer replaces
TOGETHER = 1 << 20  # characters, replaced as they may be, that are cut together
COST = 200  # bytes a token takes while a text is cut


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
    text = _read(path)
    growth = _growth(path, text)
    with _theirs(f"tokenizer: {path} cannot be read ({{}})."):
        tokenizer: Any = Tokenizer.from_str(text)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.post_processor = None

    def tokens(lines: list[str]) -> Iterator[list[str]]:
        for some in _together(path, lines, growth):
            with _theirs(f"tokenizer {path} refuses this text: {{}}"):
                encoded = tokenizer.encode_batch(some, add_special_tokens=False)
                found = [line.tokens for line in encoded]
            yield from found

    return Tokeniser(tokens, after_line_end)


def _read(path: Path) -> str:
    try:
        with opened(path, MOST_BYTES, links=True) as file:
            text = file.read().decode("utf-8")
        check_values(path, text)
        return text
    except UnicodeDecodeError as error:
        raise DataError(f"tokenizer: {path} cannot be read ({error}).") from error
    except DataError as error:
        raise DataError(f"tokenizer: {error}") from error


def _together(path: Path, lines: list[str], growth: int) -> Iterator[list[str]]:
    """Lines in groups that take little memory while they are cut, however long the tokenizer makes them."""
    some: list[str] = []
    size = 0
    for line in lines:
        size += len(line)
        if some and size * growth > TOGETHER:
            yield some
            some, size = [], len(line)
        if size * growth > TOGETHER:  # a long line, which cannot be cut
            check_memory(f"tokenizer {path}", COST * growth * size)
        some.append(line)
    yield some


def _growth(path: Path, text: str) -> int:
    """How many times as long a text may become before it is cut: what is replaced may be replaced again."""
    try:
        value = json.loads(text)
        growth = _times(value.get("normalizer") if isinstance(value, dict) else None)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return 1  # nothing the library reads either
    if growth > MOST_GROWTH:
        raise DataError(
            f"tokenizer: {path} may make a text {growth:,} times as long by what it replaces; "
            f"at most {MOST_GROWTH:,} times is read."
        )
    return growth


def _times(part: Any) -> int:
    match part:
        case {"type": "Sequence", "normalizers": [*parts]}:
            return math.prod(_times(x) for x in parts)
        case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if old:
            return max(1, -(-len(new.encode()) // len(old.encode())))
        case {"type": "Replace", "content": str(new)}:
            return 1 + len(new.encode())
        case {"type": "Prepend", "prepend": str(new)}:
            return 1 + len(new.encode())
        case {"type": "Precompiled", "precompiled_charsmap": str(coded)}:
            # The size of an index, the index, and behind it what characters become.
            raw = b64decode(coded)
            return max(1, *map(len, raw[4 + int.from_bytes(raw[:4], "little") :].split(b"\0")), 1)
    return 1


@contextmanager
def _theirs(said: str) -> Iterator[None]:
    """Errors of the `tokenizers` library, bare exceptions or panics that are not even exceptions, `said` as ours."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as fault:
        raise DataError(said.replace("{}", str(fault))) from None
