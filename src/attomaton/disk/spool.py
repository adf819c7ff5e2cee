"""Standard input as a file: read once and to its end, kept while this process lives.

Data are read more than once (checked, then counted, then cut), which a pipe does not allow. What comes through it lies
in a folder of this process that nobody else may open, and goes with the process.
"""

import atexit
import shutil
import sys
import tempfile
from pathlib import Path

from attomaton.errors import DataError

DASH = "-"  # how it is named; a file of that name is ./-
NAME = "standard input"
_kept: list[tuple[object, Path]] = []  # what was read, and where it lies


def standard_input() -> Path:
    """The file that holds what came through standard input."""
    stream = sys.stdin
    for seen, path in _kept:
        if seen is stream:
            return path
    source = getattr(stream, "buffer", None)
    if source is None:
        raise DataError(f"{NAME}: there is none.")
    folder = Path(tempfile.mkdtemp(prefix="attomaton-"))  # for this user alone
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / NAME
    if source.isatty():
        print("reading what you type; Ctrl-D ends it", file=sys.stderr)
    try:
        with path.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
    except OSError as fault:
        shutil.rmtree(folder, ignore_errors=True)
        raise DataError(f"{NAME}: cannot be kept in {folder}: {fault.strerror or fault}.") from None
    _kept.append((stream, path))
    return path


def is_spooled(path: Path) -> bool:
    """Whether a file holds what came through standard input."""
    return any(path == kept for _, kept in _kept)


def shown(path: Path, text: str) -> str:
    """A message about a file, in which standard input is called that."""
    return text.replace(str(path), NAME) if is_spooled(path) else text
