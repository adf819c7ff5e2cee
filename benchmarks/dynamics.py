"""How sampled training of scan and snap grows with seeds, steps and classes."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attomaton.scan_snap.data import SequenceClasses
from attomaton.scan_snap.experiment.train import train_sampled
from attomaton.scan_snap.families import random_overlap, syn_medium
from benchmarks.table import Row, say

BASE = {"eta_y": 1.0, "eta_z": 1.0, "optimizer": "momentum", "start": "uniform"}
TOKENS = 192  # distinct tokens of all classes together


def fixed_vocabulary(classes: int) -> SequenceClasses:
    """Classes over a vocabulary of about one size, however many they are."""
    return random_overlap(np.random.default_rng(0), classes, TOKENS // classes, 0.3)


def run_seconds(classes: SequenceClasses, seeds: int, steps: int) -> float:
    """Seconds of the compiled run: the shorter of two, compilation left out."""
    runs = [train_sampled(classes, seeds=seeds, steps=steps, every=steps, **BASE) for _ in range(2)]
    return min(r.seconds["run"] for r in runs)


def rows() -> Iterator[Row]:
    family = syn_medium(3)
    sweeps: list[tuple[str, list[int], Callable[[int], float]]] = [
        ("seeds", [32, 64, 128], lambda n: run_seconds(family, n, 100)),
        ("steps", [100, 200, 400], lambda n: run_seconds(family, 32, n)),
        ("classes, one vocabulary", [4, 8, 16, 32], lambda n: run_seconds(fixed_vocabulary(n), 32, 100)),
        ("classes, vocabulary with them", [4, 8, 16], lambda n: run_seconds(syn_medium(n // 2), 32, 100)),
    ]  # fmt: skip
    for what, sizes, seconds in sweeps:
        say(f"dynamics: {what}")
        value = np.array([seconds(n) for n in sizes])
        yield _row(what, sizes, value)


def _row(what: str, sizes: list[int], value: np.ndarray) -> Row:
    each = ", ".join(f"{x:.2f}" for x in value[1:] / value[:-1])
    exponent = float(np.polyfit(np.log(sizes), np.log(value), 1)[0])
    measured: dict[str, Any] = {"sizes": sizes, "seconds": value.tolist()}
    return Row(
        "dynamics",
        f"time of sampled training per doubling of {what} ({sizes[0]} to {sizes[-1]})",
        float((value[-1] / value[0]) ** (1 / (len(sizes) - 1))),
        f"each doubling {each}; exponent {exponent:.2f}",
        measured,
    )
