"""The door to files that others may have made: what is opened, how much of it is read, how much memory it may become.

A file in a folder of ours is a plain file of a known size, in that folder. Links, pipes, devices and folders in its
place are refused before a byte is read, so nothing waits for ever and nothing endless is read. What a file takes in
memory is estimated before it is decoded: a few kilobytes can be made to hold gigabytes.
"""

import io
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attomaton.base.lazily import pa
from attomaton.errors import DataError, UsageError, size_text

MEMORY = "ATTOMATON_MEMORY"  # GB that a file may take; whoever sets it knows the file
FLOOR = 1 << 28  # bytes any file may take in memory, however small it is
GROWTH = 16  # how many times its own size a larger one may take
# How many times its own size a compressed one may become; logs come to a few dozen times
UNPACKED = 100
PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}  # what is unpacked, by its first bytes
PATIENCE = 60.0  # seconds that a pipe may be without anyone who writes to it
# By the letters that `ls -l` has for them
_KINDS = {"l": "a link", "d": "a folder", "p": "a pipe", "s": "a socket"}


@contextmanager
def opened(
    path: Path | str, most: int | None = None, links: bool = False
) -> Iterator[io.BufferedReader]:
    """A plain file, open for reading; anything else is a `DataError`, and so is one of more than `most` bytes.

    With `links` the path may be a link, as that of a file a user names. What goes wrong in the block for want of
    memory is said with the file's name.
    """
    path = Path(path)
    with os.fdopen(_handle(path, links), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise DataError(
                f"{path}: {size_text(size, 3)}, larger than the {size_text(most, 3)} such a file may have."
            )
        with enough_memory(path):
            yield file


def _handle(path: Path, links: bool) -> int:
    # Not waiting: the other end of a pipe may never come.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    try:
        seen = os.stat(path, follow_symlinks=links)
        check_plain(path, seen.st_mode)  # before opening: a device may act on that alone
        handle = os.open(path, flags)
    except (OSError, ValueError) as error:  # a path may hold a zero byte
        said = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{path}: cannot be read ({said}).") from error
    try:
        check_plain(path, os.fstat(handle).st_mode)  # it may have been exchanged meanwhile
    except DataError:
        os.close(handle)
        raise
    return handle


def check_plain(path: Path, mode: int) -> None:
    """Refuse what is not a plain file, by its mode."""
    if not stat.S_ISREG(mode):
        raise DataError(f"{path}: {kind_of(mode)}, where a plain file is needed.")


def kind_of(mode: int) -> str:
    """What something is that is not a plain file, in words."""
    letter = stat.filemode(mode)[0]
    return "a device" if letter in "bc" else _KINDS.get(letter, "not a file")


@contextmanager
def enough_memory(path: Path | str) -> Iterator[None]:
    """A block in which a lack of memory is said to be that, and of which file."""
    try:
        yield
    except MemoryError as error:
        raise DataError(
            f"{path}: there is not enough memory to read it; free some, or read less at a time."
        ) from error


# How much memory


def allowance(size: int | None = None, growth: int = GROWTH) -> int:
    """Bytes of memory that what is read may take: what the user says, else what is free, and by the files' size."""
    said = os.environ.get(MEMORY, "").strip()
    if said:
        try:
            allowed = float(said) * 1e9
        except ValueError:
            allowed = 0.0
        if not 0 < allowed < float("inf"):
            raise UsageError(f"{MEMORY}={said!r}: a number of GB is needed, such as {MEMORY}=8.")
        return int(allowed)
    most = 1 << 62 if size is None else max(FLOOR, growth * size)
    free = available_memory()
    return most if free is None else min(most, free)


def available_memory() -> int | None:
    """Bytes of memory that nobody uses, with a fifth left to others; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            free = next(line for line in file if line.startswith("MemAvailable:"))
        return int(free.split()[1]) * 1024 * 4 // 5
    except (OSError, StopIteration, ValueError):
        return None


def check_memory(
    path: Path | str, needed: int, size: int | None = None, growth: int = GROWTH
) -> None:
    """Refuse what would take more memory than is free or, where their size is given, than such files may."""
    if needed > FLOOR and needed > (allowed := allowance(size, growth)):
        whole = "it" if size is None else f"its {size_text(size, 3)}"
        raise DataError(
            f"{path}: {whole} would take at least {size_text(needed, 3)} of memory, more than the "
            f"{size_text(allowed, 3)} allowed. If you trust it and have the memory, say so: "
            f"{MEMORY}={-(-needed // 10**9)} (in GB)."
        )


# Data that a user names


@contextmanager
def data_stream(path: Path) -> Iterator[io.BufferedReader]:
    """A file that a user names, open for reading from its beginning to its end: it may be a link or a pipe.

    What is compressed with gzip or zstd is unpacked on the way, whatever it is called. A named pipe that nobody has
    opened for writing within `PATIENCE` seconds is refused.
    """
    with _as_it_lies(path) as file:
        kind = packing(file.peek(4))
        yield file if kind is None else io.BufferedReader(_Unpacked(path, file, kind))


def packing(head: bytes) -> str | None:
    """What a file is compressed with, by its first bytes, where that is unpacked here."""
    return next((kind for magic, kind in PACKED.items() if head.startswith(magic)), None)


def is_packed(path: Path) -> bool:
    """Whether a plain file is compressed, so that its bytes are no places in its text."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return packing(file.read(4)) is not None


@contextmanager
def _as_it_lies(path: Path) -> Iterator[io.BufferedReader]:
    if not _named_pipe(path):
        with path.open("rb") as file, enough_memory(path):
            yield file
        return
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with io.FileIO(handle) as pipe:
        begin = _first(handle)
        os.set_blocking(handle, True)
        with enough_memory(path):
            yield io.BufferedReader(_Begun(begin, pipe))


def _named_pipe(path: Path) -> bool:
    """Whether opening this may wait for a second process; what a shell puts between two commands never does."""
    try:
        return stat.S_ISFIFO(os.lstat(os.path.realpath(path)).st_mode)
    except OSError:
        return False  # opening it says what is wrong


def _first(pipe: int) -> bytes:
    """What a pipe holds first, as soon as somebody writes to it."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            begin = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return b""  # somebody is there, and has not written yet
        if begin:
            return begin
        if time.monotonic() >= end:
            raise DataError(f"a pipe that nobody writes to (waited {PATIENCE:g} seconds).")
        time.sleep(0.05)


class _Begun(io.RawIOBase):
    """A pipe of which some bytes were read already."""

    def __init__(self, begin: bytes, pipe: io.FileIO):
        self._begin, self._pipe = begin, pipe

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if not self._begin:
            return self._pipe.readinto(buffer)
        taken, self._begin = self._begin[: len(buffer)], self._begin[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


class _Unpacked(io.RawIOBase):
    """A compressed file as what it holds; one that becomes far larger than files do is refused."""

    def __init__(self, path: Path, file: io.BufferedReader, kind: str):
        seen = os.fstat(file.fileno())
        size = seen.st_size if stat.S_ISREG(seen.st_mode) else None
        self._path, self._size, self._done = path, size, 0
        self._most = max(FLOOR, allowance(size, UNPACKED))
        self._stream = pa.CompressedInputStream(pa.PythonFile(file, "r"), kind)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._stream.read(len(buffer))
        buffer[: len(found)] = found
        self._done += len(found)
        if self._done > self._most:
            packed = "it" if self._size is None else f"its {size_text(self._size, 3)}"
            raise DataError(
                f"{self._path}: {packed} would unpack to more than {size_text(self._most, 3)}. If you trust it, unpack "
                f"it first, or say how much it may take, in GB: {MEMORY}=…"
            )
        return len(found)
