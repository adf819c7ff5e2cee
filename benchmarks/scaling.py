"""Beyond one process: WikiText-2 on one and two workers of every engine, and Zipf texts of any size.

Rows compare the stages that engines share out (shards read, parts solved); the models must be equal byte for byte.

`python -m benchmarks.scaling WORDS [FOLDER]` draws a Zipf text of that many words, fits it with two processes and
prints what it took beside WikiText-2: docs/scaling.md has the figures for 100 million.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import Row, say
from benchmarks.text import wikitext

CONTEXT, WORDS, LINE = 32, 250_000, 25
# These say when and how it was made.
PAST_PROVENANCE = ("attomaton.json", "log.jsonl", "manifest.json", "model.json")


def zipf_text(path: Path, words: int, seed: int = 0) -> Path:
    """Words drawn with probability 1/rank from 250,000, 25 to a line."""
    p = 1 / np.arange(1, WORDS + 1)
    upto = np.cumsum(p / p.sum())
    names = np.array([f"w{i}" for i in range(WORDS)], dtype=object)
    rng = np.random.default_rng(seed)
    with path.open("w", encoding="ascii") as file:
        for done in range(0, words, 1_000_000):
            drawn = names[np.searchsorted(upto, rng.random(min(1_000_000, words - done)))]
            lines = (" ".join(drawn[i : i + LINE]) for i in range(0, len(drawn), LINE))
            file.write("\n".join(lines) + "\n")
    return path


def fit(text: Path, out: Path, engine: str, workers: int, memory: float | None = None) -> Any:
    """One fit in a process of its own: its summary, with the most memory all of its processes held together."""
    command = [sys.executable, "-m", "attomaton", "fit", str(text), "--context", str(CONTEXT), "-o", str(out),
               "--engine", engine, "--workers", str(workers), "--json"]  # fmt: skip
    if memory is not None:
        command += ["--memory", str(memory)]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        peak: list[float] = [0.0]
        watch = threading.Thread(target=_watch_memory, args=(process, peak), daemon=True)
        watch.start()
        assert process.stdout is not None
        summary = json.loads(process.stdout.read())
    return {**summary, "wall": time.perf_counter() - begin, "megabytes": peak[0]}


def _watch_memory(process: subprocess.Popen, peak: list[float]) -> None:
    while process.poll() is None:
        peak[0] = max(peak[0], sum(map(_megabytes, family(process.pid))))
        time.sleep(0.2)


def family(pid: int) -> list[int]:
    """A process and all that come from it."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += map(int, task.read_text().split())
            except OSError:
                continue  # gone meanwhile
    return found


def _megabytes(pid: int) -> float:
    """Memory of one process that it shares with nobody, and its part of what it shares."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return next(int(x.split()[1]) / 1e3 for x in text.splitlines() if x.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0.0


def mark(model: Path) -> str:
    """A hash of a model: what was solved, not when and how."""
    digest = hashlib.sha256()
    for path in sorted(p for p in model.rglob("*") if p.is_file()):
        if path.name == "model.json":
            record = json.loads(path.read_text(encoding="utf-8"))
            digest.update(json.dumps([record["summary"], record["parts"]]).encode())
        elif path.name not in PAST_PROVENANCE:
            digest.update(str(path.relative_to(model)).encode() + path.read_bytes())
    return digest.hexdigest()


def rows() -> Iterator[Row]:
    text = wikitext("scaling")
    if text is None:
        return
    done: dict[tuple[str, int], Any] = {}
    marks = set()
    with tempfile.TemporaryDirectory() as folder:
        for engine, workers in (("local", 1), ("processes", 1), ("processes", 2), ("ray", 1), ("ray", 2)):  # fmt: skip
            say(f"scaling: WikiText-2, {engine}, {workers}")
            model = Path(folder) / "model"
            done[engine, workers] = fit(text, model, engine, workers)
            marks.add(mark(model))
    assert len(marks) == 1, "models differ"
    local = done["local", 1]
    for engine in ("processes", "ray"):
        one, two = (done[engine, n] for n in (1, 2))
        stages = [sum(x["seconds"][k] for k in ("read", "solve")) for x in (one, two)]
        overhead = two["wall"] - two["seconds"]["total"]
        yield Row(
            "scaling",
            f"WikiText-2 solved by two workers against one ({engine})",
            one["seconds"]["solve"] / two["seconds"]["solve"],
            f"reading and solving {stages[0] / stages[1]:.2f}×; against this process alone "
            f"{local['seconds']['solve'] / two['seconds']['solve']:.2f}×; {overhead:.1f} s of "
            f"{two['wall']:.1f} s go to starting; five models equal byte for byte",
            {"one": one, "two": two, "local": local},
        )


def large(words: int, folder: Path) -> None:
    """Fit a Zipf text with two processes, WikiText-2 before and after it, and print what each million tokens took."""
    text = folder / f"zipf-{words}.txt"
    if not text.is_file():
        zipf_text(text, words)
    known = wikitext("scaling")
    table: list[tuple[str, Any]] = []
    for name, path in (("WikiText-2", known), ("Zipf", text), ("WikiText-2", known)):
        if path is not None:
            table.append((name, fit(path, folder / f"model-{name}", "processes", 2, memory=6)))
    for name, x in table:
        million = x["tokens"] / 1e6
        print(
            f"{name}: {million:.1f} M tokens, {x['samples']:,} samples, {x['pairs']:,} pairs, "
            f"{x['wall']:.1f} s ({x['wall'] / million:.2f} s a million; reading {x['seconds']['read']:.1f} s, "
            f"solving {x['seconds']['solve']:.1f} s), {x['megabytes'] / 1e3:.2f} GB at most, "
            f"{x['parts']} parts, certificates {max(x['certificates'].values()):.1e}",
            flush=True,
        )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        large(int(float(sys.argv[1])), Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as place:
            large(int(float(sys.argv[1])), Path(place))
