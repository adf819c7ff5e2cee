"""How `attomaton fit` grows with a text: an eighth, a quarter, a half and all of WikiText-2, contexts of 32 words.

Each fit is a process of its own, from reading the file to the model on disk; its time and peak memory are those it
reports. Where WikiText-2 is not at hand (`ATTOMATON_DATA`, or beside the checkout) there is no such row.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.table import Row, say

CONTEXT, DOUBLINGS = 32, 3


def fit(text: str, folder: Path) -> dict[str, float]:
    """What one fit of this text took, and how good it is."""
    (folder / "text.txt").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "attomaton", "fit", folder / "text.txt", "--context", str(CONTEXT),
               "-o", folder / "model", "--json"]  # fmt: skip
    done = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return {
        "tokens": done["tokens"],
        "incidences": done["samples"] * CONTEXT,
        "seconds": done["seconds"]["total"],
        "megabytes": done["peak_memory_mb"],
        "residual": max(done["certificates"].values()),
    }


def wikitext(topic: str) -> Path | None:
    """The training text of WikiText-2, or None with a word why a topic is left out."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("ATTOMATON_DATA", beside)) / "wikitext-2" / "train.txt"
    if path.is_file():
        return path
    say(f"{topic}: left out, WikiText-2 is not at {path.parent}")
    return None


def rows() -> Iterator[Row]:
    path = wikitext("text")
    if path is None:
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        for k in range(DOUBLINGS, -1, -1):
            part = lines[: len(lines) >> k]
            say(f"text: 1/{2**k} of WikiText-2")
            measured.append(fit("".join(part), Path(folder)))
    size = np.log([m["tokens"] for m in measured])
    for what, unit in (("time", "seconds"), ("peak memory", "megabytes")):
        value = np.array([m[unit] for m in measured])
        each = ", ".join(f"{x:.2f}" for x in value[1:] / value[:-1])
        yield Row(
            "text",
            f"{what} of `attomaton fit` per doubling of WikiText-2 (1/{2**DOUBLINGS} to all)",
            float((value[-1] / value[0]) ** (1 / DOUBLINGS)),
            f"each doubling {each}; exponent {np.polyfit(size, np.log(value), 1)[0]:.2f}; all: "
            f"{value[-1]:.0f} {unit}; worst residual {max(m['residual'] for m in measured):.0e}",
            {"runs": measured},
        )
