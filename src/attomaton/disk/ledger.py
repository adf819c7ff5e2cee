"""The ledger of long work: what was started, finished and taken up again, one line each, only ever added to.

    {"time": "2026-01-31T12:00:00.123Z", "event": "done", "piece": "part 3"}

Which pieces are finished the pieces themselves say: each is a file that is whole or absent. The ledger says how it
came about. Every piece has one line `done`, written when it was there, or one line `found` where the process was
killed between the two; `started`, `resumed` and `ended` stand for processes, with the command that asked for them.
"""

import errno
import io
import json
import os
import shlex
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attomaton.disk.doors import opened
from attomaton.errors import DataError, StorageError, as_text

LEDGER = "log.jsonl"
TAIL = 1 << 24  # bytes from its end that are read: some hundred thousand lines
_asked: ContextVar[str] = ContextVar("asked", default="")  # a command other than the process's own


@dataclass(frozen=True)
class Line:
    """One line of a ledger, as far as others ask for it: a process tells its command, a piece its name."""

    event: str
    time: str | None = None
    piece: str | None = None
    command: str | None = None


class Ledger:
    """The ledger of one folder, open for adding."""

    def __init__(self, folder: Path):
        self.path = folder / LEDGER
        try:
            self._noted = {line.piece for line in read_ledger(folder)}
        except DataError as error:
            raise StorageError(f"{self.path}: writing failed ({error})") from error

    def note(self, event: str, **facts: Any) -> None:
        """Add a line; when this returns it is on the disk."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = as_text(json.dumps({"time": time, "event": event, **facts}, ensure_ascii=False))
        try:
            with os.fdopen(_opened(self.path), "ab+") as file:
                file.seek(max(file.tell() - 1, 0))
                # A process may have been killed in the middle of a line.
                torn = file.read(1) not in (b"", b"\n")
                file.write(b"\n" * torn + line.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(
                f"{self.path}: writing failed ({error.strerror or error})."
            ) from error

    def done(self, piece: str, **facts: Any) -> None:
        """A piece was finished."""
        self._noted.add(piece)
        self.note("done", piece=piece, **facts)

    def found(self, piece: str) -> None:
        """A piece is there that an earlier process finished: said once."""
        if piece not in self._noted:
            self._noted.add(piece)
            self.note("found", piece=piece)


def _opened(path: Path) -> int:
    """A ledger, open for adding: a regular file, made if need be, and no link to one."""
    handle = os.open(
        path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666
    )
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "no regular file")
    # A copy shares it (`cp -l`), or somebody else: they keep what they have.
    if status.st_nlink > 1:
        with os.fdopen(handle, "rb") as file:
            text = file.read()
        path.unlink()
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o666)
        os.write(handle, text)
    return handle


def read_ledger(folder: Path) -> list[Line]:
    """The lines of a folder's ledger, none where it has none; what was torn by a kill is passed over.

    Of a ledger beyond all measure, which no work of ours writes, only the end is read.
    """
    path = folder / LEDGER
    if not os.path.lexists(path):
        return []
    with opened(path) as file:
        begin = max(0, os.fstat(file.fileno()).st_size - TAIL)
        file.seek(begin)
        raw = io.BytesIO(file.read(TAIL))
    if begin:
        raw.readline()  # of which the beginning is missing
    lines = []
    for text in raw:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            # Whoever writes other things into a ledger loses those, not the line.
            words = {f.name: x for f in fields(Line) if isinstance(x := line.get(f.name), str)}
            lines += [Line(**words)] if "event" in words else []
    return lines


def last_command(lines: Sequence[Line]) -> str | None:
    """The command that was typed last for the work of a ledger, if it knows one."""
    return next((line.command for line in reversed(lines) if line.command is not None), None)


def command() -> str:
    """The command line as it was typed, with the program's own name first, or what `asked_as` says."""
    program = Path(sys.argv[0]).name
    typed = ["attomaton" if program == "__main__.py" else program, *sys.argv[1:]]
    return _asked.get() or shlex.join(typed)


@contextmanager
def asked_as(words: Sequence[str]) -> Iterator[None]:
    """A block whose work is recorded as asked by this command line: for work that was asked in another way.

    >>> with asked_as(["attomaton", "train", "my data.txt"]):
    ...     command()
    "attomaton train 'my data.txt'"
    """
    token = _asked.set(shlex.join(words))
    try:
        yield
    finally:
        _asked.reset(token)
