"""How long commands take from start to exit: `attomaton --help`, one answer; and an interpreter that does nothing."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.table import Row, best_of, say

REPEATS = 7


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        text, model = Path(name, "text.txt"), Path(name, "model")
        text.write_text("tea or coffee or tea and cake or tea and coffee and cake " * 20)
        attomaton = [sys.executable, "-m", "attomaton"]
        subprocess.run(
            [*attomaton, "fit", text, "--context", "4", "-o", model],
            check=True,
            capture_output=True,
        )
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "attomaton --help": [*attomaton, "--help"],
            "attomaton predict": [*attomaton, "predict", model, "coffee", "tea", "or"],
        }
        took = {}
        for what, command in commands.items():
            say(f"start: {what}")
            took[what], _ = best_of(
                lambda x=command: subprocess.run(x, check=True, capture_output=True), REPEATS
            )
    nothing, *_ = took.values()
    for what in list(commands)[1:]:
        yield Row(
            "start",
            f"seconds of `{what}`, start to exit, over those of `python -c pass`",
            took[what] / nothing,
            f"{took[what]:.3f} s against {nothing:.3f} s, the best of {REPEATS}",
            {"seconds": took[what], "nothing": nothing},
        )
