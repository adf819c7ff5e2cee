"""A million contexts asked of a model of WikiText-2 in a file: contexts a second, and memory against a fifth of them.

The model is fitted first; each command is a process of its own with its defaults (intervals, all cores), from opening
the model to the file of answers. Seconds of processor time are those of all its processes, memory that of the largest.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from benchmarks.table import Row, say
from benchmarks.text import CONTEXT, wikitext

CONTEXTS = 1_000_000
MEASURED = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000]))
"""


def ask(word: str, model: Path, file: Path, out: Path) -> dict[str, float]:
    """What one command took."""
    command = [sys.executable, "-m", "attomaton", word, model, "--file", file, "-o", out, "--force"]
    begin = perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command], check=True, capture_output=True
    )
    code, processor, memory = json.loads(done.stdout)
    if code not in (0, 6):
        raise RuntimeError(f"{word}: exit code {code}")
    return {"seconds": perf_counter() - begin, "processor": processor, "megabytes": memory}


def rows() -> Iterator[Row]:
    path = wikitext("answers")
    if path is None:
        return
    words = " <eos> ".join(path.read_text(encoding="utf-8").splitlines()).split()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        say("answers: fitting WikiText-2")
        fit = [
            sys.executable,
            "-m",
            "attomaton",
            "fit",
            path,
            "--context",
            str(CONTEXT),
            "-o",
            folder / "model",
        ]
        subprocess.run(fit, check=True, capture_output=True)
        for part in (5, 1):
            with (folder / f"{part}.jsonl").open("w", encoding="utf-8") as file:
                for i in range(CONTEXTS // part):
                    file.write(json.dumps({"tokens": words[i : i + CONTEXT]}) + "\n")
        for word in ("predict", "explain"):
            measured = []
            for part in (5, 1):
                say(f"answers: {word}, {CONTEXTS // part:,} contexts")
                measured.append(
                    ask(word, folder / "model", folder / f"{part}.jsonl", folder / "out.jsonl")
                )
            few, all_ = measured
            seconds, processor = (all_[x] - few[x] for x in ("seconds", "processor"))
            yield Row(
                "answers",
                f"peak memory of `attomaton {word} --file`, {CONTEXTS:,} contexts against a fifth of them",
                all_["megabytes"] / few["megabytes"],
                f"{CONTEXTS / all_['seconds']:,.0f} contexts a second, opening the model included; between the two "
                f"sizes {CONTEXTS * 0.8 / seconds:,.0f} a second, {processor / CONTEXTS / 0.8 * 1e6:.0f} microseconds "
                f"of processor time each; {all_['megabytes']:,.0f} MB in the largest process",
                {"runs": measured},
            )
