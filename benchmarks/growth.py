"""How the exact limit grows with the data: time and peak memory while a Zipf stream doubles."""

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator

import numpy as np

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import windows_from_streams
from attomaton.mechanics.theory.limit import Limit, solve_limit
from benchmarks.table import Row, best_of, say

SMALLEST, DOUBLINGS, WORDS, CONTEXT = 50_000, 4, 20_000, 16


def measure(n: int) -> dict[str, float]:
    """Seconds, and peak megabytes of the arrays, from a stream of n tokens to its limit."""
    rng = np.random.default_rng(n)
    p = 1 / (np.arange(WORDS) + 2.7)
    ids = rng.choice(WORDS, size=n, p=p / p.sum())
    limit_of(np.arange(200) % 3)  # imports and first calls, so that neither is measured
    seconds, limit = best_of(lambda: limit_of(ids), 1)
    tracemalloc.start()  # a second run: keeping books of memory takes time
    limit_of(ids)
    peak = tracemalloc.get_traced_memory()[1]
    return {
        "tokens": n,
        "seconds": seconds,
        "megabytes": peak / 2**20,
        "residual": max(limit.svm.certificate.worst, limit.finite.gradient),
    }


def limit_of(ids: np.ndarray) -> Limit:
    """Samples and exact limit of one stream."""
    vocabulary = Vocabulary(range(WORDS))
    return solve_limit(
        windows_from_streams(
            vocabulary, ids, np.array([0, len(ids)]), CONTEXT, partial=False
        ).samples()
    )


def rows() -> Iterator[Row]:
    measured = []
    for k in range(DOUBLINGS + 1):
        n = SMALLEST * 2**k
        say(f"growth: {n:,} tokens")
        # A process of its own: no size leaves the next one a warmed-up allocator.
        command = [sys.executable, "-m", "benchmarks.growth", str(n)]
        measured.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    size = np.log([m["tokens"] for m in measured])
    for what, unit in (("time", "seconds"), ("peak memory", "megabytes")):
        value = np.array([m[unit] for m in measured])
        each = ", ".join(f"{x:.2f}" for x in value[1:] / value[:-1])
        yield Row(
            "growth",
            f"{what} of the exact limit per doubling ({SMALLEST:,} to {int(measured[-1]['tokens']):,}"
            " tokens)",
            float((value[-1] / value[0]) ** (1 / DOUBLINGS)),
            f"each doubling {each}; exponent {np.polyfit(size, np.log(value), 1)[0]:.2f}; worst "
            f"residual {max(m['residual'] for m in measured):.0e}",
            {"runs": measured},
        )


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
