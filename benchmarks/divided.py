"""A corpus in which one last token holds most of the incidences: divided among one and two workers.

`python -m benchmarks.divided INCIDENCES [FOLDER] [--shard-size N] [--undivided]` writes a text with about that many
tokens in contexts that hold their label, more than 60 % of them behind one word, fits it with one process and with two,
and prints the time of each, their ratios, and the most memory that any of their processes held. With `--undivided` the
same is fitted by one process that holds all of that last token, and the answers are compared.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.folders.model import ModelFolder
from benchmarks.scaling import CONTEXT, family, mark

WORDS, BLOCK = 20_000, 8  # words, and tokens of a block
BEFORE = 3  # blocks before it that a label comes from
SHIFT = 8  # words are drawn with probability 1/(rank + SHIFT): so few of other contexts hold their label
HEAVY, LINE = "HEAVY", 1000  # the heavy word; blocks to a line
SHARE = 0.625  # of all incidences, behind the heavy word: it comes out a little less, and all a little more


def heavy_text(path: Path, incidences: int, seed: int = 0) -> Path:
    """Blocks: twice the heavy word, one of the words before it (by Luce's rule, with odds of their own), five others.

    After it comes the heavy word itself, or such a choice; and it comes after one other word.
    """
    rng = np.random.default_rng(seed)
    p = 1 / (np.arange(WORDS) + SHIFT)
    upto, log_pi = np.cumsum(p / p.sum()), rng.normal(size=WORDS)
    names = np.array([f"w{i}" for i in range(WORDS)], dtype=object)
    blocks, others = int(SHARE * incidences / (2 * CONTEXT)), BLOCK - 3
    with path.open("w", encoding="ascii") as file:
        before = np.searchsorted(upto, rng.random((BEFORE, others)))
        for done in range(0, blocks, 100_000):
            many = min(100_000, blocks - done)
            drawn = np.searchsorted(upto, rng.random((many, others)))
            seen = np.concatenate([before, drawn])
            near = np.concatenate([seen[i : i + many] for i in range(BEFORE)], axis=1)
            wins = np.argmax(log_pi[near] + rng.gumbel(size=near.shape), axis=1)
            label = near[np.arange(many), wins]
            words = np.empty((many, BLOCK), object)
            words[:, :2], words[:, 2], words[:, 3:] = HEAVY, names[label], names[drawn]
            for first in range(0, many, LINE):  # ends of lines are tokens, too: few of them
                file.write(" ".join(words[first : first + LINE].ravel()) + "\n")
            before = seen[-BEFORE:]
    return path


def fit(text: Path, out: Path, workers: int, shard_size: int) -> Any:
    """One fit in processes of its own: its summary, with the most memory that any of them held at a time."""
    command = [sys.executable, "-m", "attomaton", "fit", str(text), "--context", str(CONTEXT), "--split", "stream",
               "-o", str(out), "--engine", "processes", "--workers", str(workers), "--shard-size", str(shard_size),
               "--json"]  # fmt: skip
    begin, used = time.perf_counter(), os.times()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        peak: dict[int, float] = {}
        processor: dict[int, float] = {}
        watch = threading.Thread(target=_watch, args=(process, peak, processor), daemon=True)
        watch.start()
        assert process.stdout is not None
        summary = json.loads(process.stdout.read())
    first, after = peak.pop(process.pid, 0.0), os.times()
    children = (
        after.children_user,
        after.children_system,
        -used.children_user,
        -used.children_system,
    )
    return {
        "processor": sum(children),
        **summary,
        "wall": time.perf_counter() - begin,
        "own": processor.get(process.pid, 0.0),
        "driver": first,
        "worker": max(peak.values(), default=0.0),
    }


def _watch(process: subprocess.Popen, peak: dict[int, float], processor: dict[int, float]) -> None:
    """The most memory of each process that it did not share with files: mapped ones are the system's to drop."""
    while process.poll() is None:
        for pid in family(process.pid):
            try:
                text = Path(f"/proc/{pid}/status").read_text()
                ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            except OSError:
                continue  # gone meanwhile
            processor[pid] = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
            held = next((x for x in text.splitlines() if x.startswith("RssAnon:")), None)
            if held is not None:
                peak[pid] = max(peak.get(pid, 0.0), int(held.split()[1]) / 1e6)
        time.sleep(0.05)


def say(name: str, x: Any) -> None:
    """What a fit took."""
    seconds = ", ".join(f"{k} {v:.1f}" for k, v in x["seconds"].items())
    worst = max(x["certificates"].values())
    print(
        f"{name}: {x['wall']:.1f} s ({seconds}), {x['processor']:.1f} s of processors, {x['own']:.1f} of them of the "
        f"first process; {x['worker']:.2f} GB of the largest worker, {x['driver']:.2f} GB of the first process; "
        f"{x['samples']:,} samples, {x['edges']:,} edges, {x['components']:,} components, largest "
        f"{x['largest_component']:,}; certificates {worst:.1e}",
        flush=True,
    )


def say_shares(model: Path) -> None:
    """How much of a corpus its largest last token holds; every context has the same length."""
    record = ModelFolder(model).record
    most = max(record.parts, key=lambda part: part.weight * (part.shards is not None))
    heavy, total = CONTEXT * most.weight, CONTEXT * record.summary.samples
    print(
        f"{total:,} incidences, {heavy:,.0f} of them ({heavy / total:.1%}) of one last token, in {most.shards} shards",
        flush=True,
    )


def compare(a: Path, b: Path) -> None:
    """The largest differences between two models of one corpus."""
    x, y = ({n: ModelFolder(m).rows(n, c) for n, c in COMPARED.items()} for m in (a, b))
    same = all(
        np.array_equal(x[n][c], y[n][c]) for n, columns in COMPARED.items() for c in columns[:-1]
    )
    off = {n: float(np.abs(x[n][c[-1]] - y[n][c[-1]]).max()) for n, c in COMPARED.items()}
    svm = [ModelFolder(m).rows("pairs", ("svm_score",))["svm_score"] for m in (a, b)]
    off["svm_score"] = float(np.abs(svm[0] - svm[1]).max())
    floors = [ModelFolder(m).record.summary.loss_floor for m in (a, b)]
    print(
        f"against the undivided: graph {'equal' if same else 'DIFFERENT'}, log π within {off['pairs']:.1e}, W_svm "
        f"within {off['svm_score']:.1e}, weights of edges within {off['edges']:.1e}, loss floor within "
        f"{abs(floors[0] - floors[1]):.1e}",
        flush=True,
    )


COMPARED = {
    "pairs": ("last", "token", "component", "level", "log_pi"),
    "edges": ("last", "from", "to", "weight"),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.divided", description=__doc__)
    parser.add_argument("incidences", type=float)
    parser.add_argument("folder", type=Path, nargs="?", help="where the text and the models stay")
    parser.add_argument("--shard-size", type=float, default=1 << 24)
    parser.add_argument(
        "--undivided", action="store_true", help="compare with the undivided answer"
    )
    parser.add_argument("--only", type=int, choices=(1, 2), help="only so many workers")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = asked.folder or Path(temporary)
        place.mkdir(exist_ok=True)
        text = place / f"heavy-{asked.incidences:.0f}.txt"
        if not text.is_file():
            heavy_text(text, int(asked.incidences))
        done, marks = {}, set()
        for workers in (asked.only,) if asked.only else (1, 2):
            out = place / f"model-{workers}"
            done[workers] = fit(text, out, workers, int(asked.shard_size))
            say(f"{workers} worker{'s' * (workers > 1)}", done[workers])
            marks.add(mark(out))
        if len(done) == 2:
            solve, divided = (
                done[1]["seconds"][name] / done[2]["seconds"][name] for name in ("solve", "divided")
            )
            same = "equal byte for byte" if len(marks) == 1 else "DIFFERENT"
            print(
                f"two workers against one: solving {solve:.2f}×, of that the divided last token from its graph on "
                f"{divided:.2f}×; models {same}",
                flush=True,
            )
        say_shares(place / f"model-{max(done)}")
        if asked.undivided:
            whole = place / "model-whole"
            say("undivided", fit(text, whole, 1, 1 << 62))
            compare(whole, place / f"model-{max(done)}")


if __name__ == "__main__":
    main()
