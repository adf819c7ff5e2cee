"""How the exact limit grows with the data: time and peak memory while a Zipf stream doubles."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from time import perf_counter

import numpy as np

from benchmarks.table import Row, say

SMALLEST, DOUBLINGS, WORDS, CONTEXT = 50_000, 4, 20_000, 16


def measure(n: int) -> dict[str, float]:
    """Seconds and peak megabytes (beyond the imports) from a stream of n tokens to its limit."""
    from attomaton.corpus.samples import samples_from_streams
    from attomaton.corpus.vocabulary import Vocabulary
    from attomaton.mechanics.limit import solve_limit

    rng = np.random.default_rng(n)
    p = 1 / (np.arange(WORDS) + 2.7)
    solve_limit(samples_from_streams(Vocabulary(range(3)), np.arange(9) % 3, np.array([0, 9]), 3,
                                     partial=False))  # fmt: skip  # imports done
    ids = rng.choice(WORDS, size=n, p=p / p.sum())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = perf_counter()
    samples = samples_from_streams(
        Vocabulary(range(WORDS)), ids, np.array([0, n]), CONTEXT, partial=False
    )
    limit = solve_limit(samples)
    seconds = perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "tokens": n,
        "seconds": seconds,
        "megabytes": (peak - before) / 1024,
        "residual": max(limit.svm.certificate.worst, limit.finite.gradient),
    }


def rows() -> Iterator[Row]:
    measured = []
    for k in range(DOUBLINGS + 1):
        n = SMALLEST * 2**k
        say(f"growth: {n:,} tokens")
        # A process of its own, or the peak of one size would hide the next.
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
