"""What all commands say: a result, how far the work is, what went wrong."""

import codecs
import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from attomaton.base import interrupts
from attomaton.base.progress import Progress
from attomaton.errors import StorageError, visible

if TYPE_CHECKING:
    from attomaton.disk.storage import Replaced

LONGEST = 1000  # characters in a line of a message, whatever a file had in it
FIRST_LINE, NEXT_LINE = 3.0, 15.0  # seconds, of progress where there is no terminal


def hear() -> None:
    """Say on stderr, from now on, what the library tells about its work."""
    log = logging.getLogger("attomaton")
    if not any(isinstance(x, _Said) for x in log.handlers):
        log.addHandler(_Said())
        log.setLevel(logging.INFO)


class _Said(logging.Handler):
    """What the library tells about its work, as lines for a person."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


# What stands for characters of ours where an output cannot hold them (an old code page, plain ASCII).
STAND_INS = {
    "–": "-", "—": "-", "−": "-", "·": "*", "×": "x", "…": "...", "→": "->", "≥": ">=", "≤": "<=", "≠": "!=",
    "≈": "~", "±": "+-", "‖": "||", "√": "sqrt", "∞": "inf", "′": "'", "‘": "'", "’": "'", "“": '"', "”": '"',
    "β": "beta", "γ": "gamma", "η": "eta", "θ": "theta", "λ": "lambda", "ξ": "xi", "π": "pi", "χ": "chi",
}  # fmt: skip
_UNSEEN = re.compile(r"[^ -~\n]")


def prepare_streams() -> None:
    """Let no character fail to print, and no closed output be missed: what cannot be shown is spelled out."""
    codecs.register_error("stand-in", _stand_in)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="stand-in")


def _stand_in(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    shown = (STAND_INS.get(c) or c.encode("unicode_escape").decode() for c in lost)
    return "".join(shown), error.end


def emit(record: object, text: str, as_json: bool) -> None:
    """The result of a command, for a program (a record, or what is made of them) or for a person.

    Before it, where the record says so, which earlier folder the result took the place of.
    """
    old = record.get("replaced") if isinstance(record, dict) else getattr(record, "replaced", None)
    say_replaced(old)
    _put(_json(record) if as_json else _plain(text))


def say_replaced(old: "Replaced | None") -> None:
    """Say which earlier folder a result took the place of."""
    if old is not None:
        made = visible(old.made[:16].replace("T", " "))
        by = f" ({visible(old.command, 200)})" if old.command else ""
        say(f"replaced: {old.kind} of {made}{by}")


def put_file(text: str) -> None:
    """The text of a file on stdout: byte for byte as in a file, except on a terminal, which it might steer."""
    if sys.stdout.isatty():
        _put(_plain(text))
    else:
        _put(text, sys.stdout.buffer)


def _put(text: str, raw: Any = None) -> None:
    try:
        if raw is None:
            print(text, flush=True)
        else:
            raw.write(text.encode("utf-8", "backslashreplace"))
            raw.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence()
        raise StorageError(
            f"standard output: writing failed ({error.strerror or error})."
        ) from error


def _json(record: object) -> str:
    """A record as JSON that any output can hold: the same value, what is invisible or unknown there as codes."""
    from attomaton.disk.formats import plain, to_json

    text = to_json({"schema_version": 1, **plain(record)})
    known = getattr(sys.stdout, "encoding", None) or "utf-8"

    def code(found: re.Match[str]) -> str:
        c = found[0]
        try:
            if c.isprintable() and c.encode(known):
                return c
        except UnicodeEncodeError:
            pass
        return json.dumps(c)[1:-1] if c != "\x7f" else "\\u007f"

    return _UNSEEN.sub(code, text)


def say(text: str) -> None:
    """A line for a person, beside the result: on stderr, at once; where nobody reads it, the work goes on."""
    with suppress(OSError):
        print(_plain(text), file=sys.stderr, flush=True)


def _plain(text: str) -> str:
    """All that leaves for a terminal passes here: whatever a file had in it, only our own lines are broken."""
    return visible(text, most=None, keep="\n")


def reader_gone() -> None:
    """Leave in peace where whoever read our output has had enough (`| head`)."""
    _silence()
    sys.exit(0)


def _silence() -> None:
    """Let what is still buffered for stdout go nowhere; it would fail once more at the end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.__stdout__.fileno() if sys.__stdout__ else 1)
        os.close(nowhere)


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """A callback `progress(done, total, words)`.

    On a terminal it draws a bar. Elsewhere it says now and then how far the work is, also while nothing calls it.
    """
    with _bar(title) if sys.stderr.isatty() else _lines(title) as progress:
        yield progress


@contextmanager
def _bar(title: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(),
               TextColumn("{task.fields[note]}", markup=False), TimeRemainingColumn())  # fmt: skip
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(visible(title), total=None, note="")

    def progress(done: int, total: int, note: str) -> None:
        bar.update(task, completed=done, total=total, note=visible(note))

    interrupts.drawing = True
    try:
        with bar:
            yield progress
    finally:
        interrupts.drawing = False


@contextmanager
def _lines(title: str) -> Iterator[Progress]:
    began, ended = time.monotonic(), threading.Event()
    latest = ""

    def progress(done: int, total: int, note: str) -> None:
        nonlocal latest
        latest = f"{done:,} of {total:,}{f', {visible(note)}' if note else ''}, "

    def tell() -> None:
        pause = FIRST_LINE
        while not ended.wait(pause):
            say(f"{visible(title)}: {latest}{time.monotonic() - began:.0f} s")
            pause = NEXT_LINE

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield progress
    finally:
        ended.set()
        teller.join()


def fail(kind: str, message: str, code: int) -> None:
    """Say what went wrong, as JSON too where JSON was asked for, and leave."""
    if "--json" in sys.argv:
        error = {"type": kind, "message": message, "exit_code": code}
        with suppress(BrokenPipeError, StorageError):
            _put(_json({"error": error}))
    say("\n".join(visible(line, LONGEST) for line in f"{kind}: {message}".split("\n")))
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _silence()
    sys.exit(code)
