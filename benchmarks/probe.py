"""What the probe finds where the truth is known, and what it costs on a large model.

`python -m benchmarks.probe planted [--seeds 5]` draws data with a planted graph (40 tokens, 10 of them last tokens, 8
tiers of 5 tied tokens), trains one standard layer of 1 and of 4 heads on them and probes it. `python -m
benchmarks.probe large` writes a GPT-2 of 124 million random weights and probes it on 200 contexts of 256 tokens.
`python -m benchmarks.probe text FILE FOLDER` trains 4 layers of 4 heads on a text, which wants a GPU, and leaves
checkpoints for `attomaton snap` and `attomaton probe`.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from attomaton.base.progress import Progress
from attomaton.corpus.reading import Reading
from attomaton.disk.formats import write_text
from attomaton.jobs.probe import Asked, probe_model
from attomaton.numerics import named_rng
from attomaton.probe.records import Probe
from attomaton.trained.fresh import fresh_weights
from attomaton.trained.train import Schedule, train_form
from attomaton.trained.write import gpt2_form, write_gpt2

TOKENS, LASTS, TIERS, LENGTH, ROWS = 40, 10, 8, 6, 20_000
WORDS = [f"t{i}" for i in range(TOKENS)]


def planted_rows(seed: int) -> np.ndarray:
    """Contexts that end with a last token, and what comes next: Luce's choice in their highest tier."""
    rng = named_rng("planted", seed)
    ranks = np.repeat(np.arange(TIERS), TOKENS // TIERS)
    tier = np.array([rng.permutation(ranks) for _ in range(LASTS)])
    luce = rng.normal(size=(LASTS, TOKENS))
    last = rng.integers(0, LASTS, ROWS)
    before = np.array([rng.choice(TOKENS, LENGTH - 1, replace=False) for _ in range(ROWS)])
    context = np.concatenate([before, last[:, None]], axis=1)
    here = tier[last[:, None], context]
    score = luce[last[:, None], context] + rng.gumbel(size=context.shape)
    score[here > here.min(axis=1, keepdims=True)] = -np.inf
    label = context[np.arange(ROWS), score.argmax(axis=1)]
    return np.concatenate([context, label[:, None]], axis=1)


def planted(heads: int, seed: int, steps: int, folder: Path) -> Probe:
    """One layer trained on planted data, probed."""
    rows = planted_rows(seed)
    lines = [
        {"tokens": [WORDS[x] for x in row[:-1]], "next": WORDS[row[-1]]} for row in rows.tolist()
    ]
    write_text(folder / "data.jsonl", "\n".join(map(json.dumps, lines)) + "\n")
    form = gpt2_form(TOKENS, 32, 1, heads, 16, hidden=64, tied=False)
    *_, course = train_form(form, rows, Schedule(steps=steps, batch=64, lr=5e-3), seed)
    write_gpt2(folder / "model", form, course.weights, WORDS)
    return probe_model(folder / "model", folder / "data.jsonl", asked=Asked(seed=seed))


def tell_planted(seeds: int, steps: int) -> None:
    head = (
        "heads",
        "seed",
        "real",
        "outranked",
        "minimal",
        "other last",
        "shuffled",
        "untrained",
        "best head",
        "sum",
    )
    print("  ".join(head), flush=True)
    for heads in (1, 4):
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as place:
                found = planted(heads, seed, steps, Path(place))
            real, outranked, minimal = found.behaviour
            first = found.first_layer
            values = (real.agreement, outranked.agreement, minimal.agreement, real.other_last, real.shuffled,
                      real.untrained, max(first.heads, key=lambda x: x.value), first.sum)  # fmt: skip
            print(
                heads,
                seed,
                *(f"{x.value:.3f}" for x in values),
                first.verdict,
                sep="  ",
                flush=True,
            )


def stages() -> Progress:
    """Progress that says, where a part begins, how much time of processors went by until then."""
    before = ""

    def tell(done: int, total: int, note: str) -> None:
        nonlocal before
        if note != before:
            before = note
            print(f"{time.process_time():7.1f} s of processors: {note}", flush=True)

    return tell


def tell_large() -> None:
    form = gpt2_form(50257, 768, 12, 12, 1024)
    rng = named_rng("large", 0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_gpt2(folder / "model", form, fresh_weights(form, 0), None)
        ids = np.minimum(rng.zipf(1.3, 60_000), 50256)
        write_text(folder / "corpus.txt", " ".join(map(str, ids)))
        begin, worked = time.perf_counter(), time.process_time()
        found = probe_model(
            folder / "model",
            folder / "corpus.txt",
            Reading(context=256),
            Asked(contexts=200),
            stages(),
        )
    seconds, worked = time.perf_counter() - begin, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    asked = [f"{x.agreement.cases} {x.contexts}" for x in found.behaviour]
    print(f"{found.parameters:,} parameters, {found.contexts} contexts of {found.context} tokens, orders asked: "
          f"{', '.join(asked)}: {seconds:.0f} s, {worked:.0f} s of processors, {peak:.2f} GB at most")  # fmt: skip


def train_text(file: Path, folder: Path, steps: int, width: int = 256, length: int = 64) -> None:
    """Train on all windows of a text that follow each other; 32 checkpoints."""
    words = " <eos> ".join(file.read_text(encoding="utf-8").splitlines()).split()
    vocabulary = list(dict.fromkeys(words))
    number = {word: i for i, word in enumerate(vocabulary)}
    ids = np.array([number[word] for word in words])
    rows = np.lib.stride_tricks.sliding_window_view(ids, length + 1)[::length]
    form = gpt2_form(len(vocabulary), width, 4, 4, length, hidden=4 * width, tied=True)
    how = Schedule(steps=steps, batch=32, lr=1e-3, warmup=100, decay=0.01, every_place=True)
    begin = time.perf_counter()
    for course in train_form(form, rows, how, 0, marks=32):
        write_gpt2(folder / f"step-{course.step}", form, course.weights, vocabulary)
        print(
            f"step {course.step}: loss {course.loss[-50:].mean():.4f}, {time.perf_counter() - begin:.0f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.probe", description=__doc__)
    parser.add_argument("what", choices=("planted", "large", "text"))
    parser.add_argument("paths", type=Path, nargs="*", help="of text: FILE FOLDER")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="1,500 of planted data, 4,800 of a text")
    asked = parser.parse_args()
    if asked.what == "large":
        tell_large()
    elif asked.what == "text":
        train_text(*asked.paths, asked.steps or 4800)
    else:
        tell_planted(asked.seeds, asked.steps or 1500)


if __name__ == "__main__":
    main()
