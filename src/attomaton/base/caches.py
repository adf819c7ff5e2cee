"""What is kept in the user's cache folder between programs: fetched files, and what JAX compiled.

A figure of a few seconds waits as long again for the compiler. What it made is found again by JAX's own cache, whose
key holds the program, its shapes and options, the device and the version of the compiler; it keeps within `MOST` bytes
by dropping what was not used for longest. `ATTOMATON_COMPILED=off` switches it off; a `JAX_COMPILATION_CACHE_DIR` of
the user's own comes first.
"""

import os
import platform
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from zlib import crc32

MOST = 512 << 20
SHORTEST = 0.2  # seconds of compiling that are worth a file


def cache_folder() -> Path:
    """Where files are kept: `$ATTOMATON_CACHE`, else `attomaton` in the user's XDG cache folder."""
    chosen = os.environ.get("ATTOMATON_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attomaton"


def state_folder() -> Path:
    """Where a user's own state is kept: `$ATTOMATON_STATE`, else `attomaton` in the user's XDG state folder."""
    chosen = os.environ.get("ATTOMATON_STATE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "attomaton"


def is_on(switch: str, default: str = "") -> bool:
    """Whether a variable of the environment switches something on."""
    return os.environ.get(switch, default).lower() not in ("", "0", "false", "no", "off")


def keep_compiled() -> None:
    """Let JAX keep what it compiles, in this process and those it starts: for programs, before JAX is imported.

    It is told by the environment alone. Where the folder cannot be written to, nothing is kept.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or not is_on("ATTOMATON_COMPILED", "on"):
        return
    if find_spec("filelock") is None:  # without it JAX cannot keep within bounds
        return
    with suppress(OSError, RuntimeError):  # a home that nobody knows
        folder = cache_folder() / "compiled" / _machine()
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
            os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(MOST))
            os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(SHORTEST))


def _machine() -> str:
    """The kind of processor: a home may be shared by machines, and code of one need not run on another."""
    features = b""
    with suppress(OSError), open("/proc/cpuinfo", "rb") as file:
        features = next((line for line in file if line.startswith((b"flags", b"Features"))), b"")
    return f"{platform.machine()}-{crc32(features):08x}"
