"""The commands that are disturbed: small data, many pieces, started the way a user starts them.

Every run has a folder of its own and is told the same words in it, so that what two runs leave can be compared byte
for byte, recorded command lines included.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
OUT = "out"  # what every command is told to write
TEXT, SHORT = "text.txt", "short.txt"  # beside the folders of the runs


@dataclass(frozen=True)
class Case:
    """One command: its words before `-o out`, and the engine of its workers where it has any.

    Some are told where to write by another `option`, or write a single file, whose name has a suffix.
    """

    name: str
    words: tuple[str, ...]
    engine: str | None = None
    option: str = "-o"
    out: str = OUT

    @property
    def line(self) -> list[str]:
        """The words, with where to write and where to run."""
        where = ("--engine", self.engine, "--workers", "2") if self.engine else ()
        return [*self.words, self.option, self.out, *where]

    def on_ray(self) -> "Case":
        """The same command with workers of a Ray cluster that it starts."""
        return replace(self, name=f"{self.name}-ray", engine="ray")

    def on_nodes(self, address: str) -> "Case":
        """The same command on a Ray cluster that is there."""
        words = (*self.words, "--address", address)
        return replace(self, name=f"{self.name}-nodes", words=words, engine="ray")


FIT = Case("fit", ("fit", f"../{TEXT}", "--context", "8"), engine="processes")
DIVIDED = Case("divided", (*FIT.words, "--shard-size", "4000"), engine="processes")
TRAIN = Case(
    "train",
    (
        *("train", f"../{SHORT}", "--context", "6", "--steps", "15000", "--optimizer", "adam"),
        *("--lr", "0.1", "--init", "uniform", "--seeds", "2"),
    ),
)
SWEEP = Case(
    "sweep",
    (
        *("sweep", "syn-small", "eta_z=0.25,0.5,1,2,4", "ratio=1,2", "T=16,24"),
        *("steps=5", "seeds=2", "batch=16"),
    ),
    engine="processes",
)


def prepare(arena: Path) -> None:
    """Write the texts the commands read; repeats of few words, so that labels occur in their contexts."""
    rng = np.random.default_rng(0)
    for name, tokens, words in ((TEXT, 20_000, 300), (SHORT, 2000, 40)):
        drawn = rng.zipf(1.3, tokens) % words
        (arena / name).write_text(" ".join(f"w{i}" for i in drawn), encoding="utf-8")


def start(
    line: Sequence[str],
    folder: Path,
    die_at: int | None = None,
    program: str = "faults.small",
    **environment: str,
) -> subprocess.Popen:
    """Start a command in its folder and in a session of its own; what it says goes to a file beside it.

    The `program` is attomaton in small pieces, or attomaton itself.
    """
    folder.mkdir(exist_ok=True)
    dying = [] if die_at is None else ["--die-at", str(die_at)]
    words = [sys.executable, "-m", program, *dying, *line]
    with said(folder).open("w") as told:
        return subprocess.Popen(
            words,
            cwd=folder,
            env=_environment(folder.parent, environment),
            stdout=subprocess.DEVNULL,
            stderr=told,
            start_new_session=True,
        )


def said(folder: Path) -> Path:
    """Where the errors of the last command in this folder are."""
    return folder.with_name(f"{folder.name}.err")


def _environment(arena: Path, more: Mapping[str, str]) -> dict[str, str]:
    """One cache of compiled programs for all runs, unless the caller has one; modules from this checkout."""
    known = {"JAX_COMPILATION_CACHE_DIR": str(arena / "jax"),
             "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
             "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0"}  # fmt: skip
    return {**known, **os.environ, "PYTHONPATH": f"{ROOT}/src{os.pathsep}{ROOT}", **more}
