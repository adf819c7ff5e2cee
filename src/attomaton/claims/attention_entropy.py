r"""Figures 4, 5, 6, 11 and 12 of Scan and Snap: which tokens sampled training attends to, and how densely.

All of them train the layer on drawn contexts (T = 128, batch 128, 100 steps; momentum 0.9 unless Adam is named) and
read the attention $c_n$ of every class off its logits. Each figure returns plain numbers with a verdict on what
its caption says, and a control: the same rule applied to runs of which it must be wrong.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Bool, Float
from attomaton.claims.kept import Checkpoint
from attomaton.errors import DataError, whole_number
from attomaton.results import Quantities, Result, Verdict
from attomaton.scan_snap.data import SequenceClasses
from attomaton.scan_snap.experiment.train import train_sampled
from attomaton.scan_snap.families import syn_medium, syn_small
from attomaton.scan_snap.trajectory import Dynamics

STEPS, MOMENTUM = 100, 0.9
QUERIES = (1, 3, 5, 10)
ETA_Z = (0.5, 1.0, 2.0, 3.0)
RATIOS = (1.0, 2.0, 5.0, 10.0)
DENSER_FROM = 2.0  # from this η_Y/η_Z on, a larger ratio means denser attention
# Calls a function of this module for each of some plain tasks, anywhere, in any order: the number and result of each.
Run = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[tuple[int, Any]]]
Pairs = Iterable[Float[np.ndarray, " seeds"]]
STREAMS = 2  # of a panel that one process trains at a time
MANY = 4  # cores; more of them are kept at work by smaller tasks, each of a single stream
STILL = 1e-4  # a control's learning rate for Z, in units of the published one: attention stays where it was


def in_threads(work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """The `Run` of this process: one program compiles while another runs."""
    with ThreadPoolExecutor(min(4, os.cpu_count() or 2)) as pool:
        begun = {pool.submit(work, task): i for i, task in enumerate(tasks)}
        for done in as_completed(begun):
            yield begun[done], done.result()


# Figures 4 and 5: which tokens


def fig4(seeds: int = 5) -> Result:
    """Attention on *Syn-Small* from a zero start, with η_Z = 1 and η_Y = 1 or 10.

    Holds when, on every stream of contexts, (1) all common tokens lose attention and together at least a
    twentieth of what they had, (2) among distinct tokens attention has grown in the order of their probability
    (rank correlation ≥ 0.8) and (3) the larger η_Y ends denser. In the control Z hardly moves.
    """
    begin = time.perf_counter()
    run = _small(np.array([1.0, 10.0]), np.ones(2), seeds)
    still = _small(np.array([1.0, 10.0]), np.full(2, STILL), seeds)
    marks = [0, 1, 2, 3, 4, 5, -1]  # steps 0, 2, …, 10 and the last
    rows = [
        {
            "eta_y": float(run.eta_y[b]),
            "eta_z": float(run.eta_z[b]),
            "steps": run.t[marks].tolist(),
            "attention": run.attention[b][marks].tolist(),
            "entropy": run.entropy[b][marks].tolist(),
        }
        for b in range(0, 2 * seeds, seeds)
    ]
    measured, verdict = _fates(run, seeds)
    control, refuted = _fates(still, seeds)
    return {
        "rows": rows,
        "measured": measured,
        "verdict": verdict.value,
        "control": refuted.value,
        "control_measured": control,
        "seconds": time.perf_counter() - begin,
    }


def _small(
    eta_y: np.ndarray, eta_z: np.ndarray, seeds: int, optimizer: str = "momentum"
) -> Dynamics:
    """The published protocol on *Syn-Small*, recorded at every other step."""
    return train_sampled(
        syn_small(), eta_y=eta_y, eta_z=eta_z, steps=STEPS, optimizer=optimizer,
        momentum=MOMENTUM, seeds=seeds, every=2,
    )  # fmt: skip


def _fates(run: Dynamics, seeds: int) -> tuple[Quantities, Verdict]:
    """What became of common and distinct tokens; the worst over classes, streams and cells, or cell by cell."""
    common, distinct = run.classes.common, run.classes.distinct
    first, last = run.attention[:, 0], run.attention[:, -1]
    left = last[..., common].sum(axis=-1) / first[..., common].sum(axis=-1)
    gain = run.z[:, -1] - run.z[:, 0]
    order = [
        _rank_correlation(gain[b, n, own], run.classes.P[n, own])
        for b in range(len(run.z))
        for n, own in enumerate(distinct)
    ]
    entropy = run.entropy[:, -1].mean(axis=-1).reshape(2, seeds)
    kept, lost = float(left.max()), float((last[..., common] < first[..., common]).mean())
    denser = float((entropy[1] - entropy[0]).min())
    measured = {
        "common attention kept": left.reshape(2, -1).mean(axis=1).tolist(),
        "most common attention kept": kept,
        "common tokens that lost": lost,
        "least rank correlation of gain and probability": min(order),
        "entropy": entropy.mean(axis=1).tolist(),
        "least entropy gained by the larger eta_y": denser,
    }
    return measured, Verdict.of(lost == 1 and kept <= 0.95 and min(order) >= 0.8 and denser > 0)


def fig5(seeds: int = 5) -> Result:
    """The same data with Adam, η_Y = η_Z = 0.1, 0.5 or 1: it picks other distinct tokens than SGD does.

    What an optimizer *picks* is the half of a class's distinct tokens whose logits grew most. Holds when Adam
    shares on average at most 4 of 5 picks with SGD (momentum, both rates 1) at every rate. In the control SGD with
    both rates 0.5 or 2 takes Adam's place.
    """
    begin = time.perf_counter()
    rates = np.array([0.1, 0.5, 1.0])
    sgd = _small(np.array([1.0, 0.5, 2.0]), np.array([1.0, 0.5, 2.0]), seeds)
    adam = _small(rates, rates, seeds, "adam")
    own, *others = _picks(sgd, seeds)
    shared = [_shared(own, x) for x in _picks(adam, seeds)]
    control = [_shared(own, x) for x in others]
    return {
        "rows": [
            {
                "eta": float(rate),
                "attention": adam.attention[i * seeds, -1].tolist(),
                "entropy": adam.entropy[i * seeds : (i + 1) * seeds, -1].mean(axis=0).tolist(),
                "picks shared with sgd": shared[i],
            }
            for i, rate in enumerate(rates)
        ],
        "sgd": {"attention": sgd.attention[0, -1].tolist(), "eta": 1.0},
        "measured": {"picks shared": shared},
        "verdict": Verdict.of(max(shared) <= 0.8).value,
        "control": Verdict.of(max(control) <= 0.8).value,
        "control_measured": {"picks shared": control},
        "seconds": time.perf_counter() - begin,
    }


def _picks(run: Dynamics, seeds: int) -> Bool[np.ndarray, "cells seeds classes vocab"]:
    """The half of each class's distinct tokens whose logits grew most."""
    gain = np.where(run.classes.distinct, run.z[:, -1] - run.z[:, 0], -np.inf)
    half = run.classes.distinct.sum(axis=1).min() // 2
    edge = np.sort(gain, axis=-1)[..., -half, None]
    return (gain >= edge).reshape(-1, seeds, *gain.shape[1:])


def _shared(a: Bool[np.ndarray, "*b vocab"], b: Bool[np.ndarray, "*b vocab"]) -> float:
    """Which share of the picks in `a` is also in `b`, on average."""
    return float(((a & b).sum(axis=-1) / a.sum(axis=-1)).mean())


def _rank_correlation(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> float:
    """Spearman's, for values without ties."""
    ranks = [np.argsort(np.argsort(x)).astype(float) for x in (a, b)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


# Figures 6, 11 and 12: how densely


def fig6(
    seeds: int = 10,
    checkpoint: Checkpoint | None = None,
    progress: Progress = quiet,
    run: Run = in_threads,
) -> Result:
    """Entropy of attention over distinct tokens on *Syn-Medium*, for 64 cells of queries and learning rates.

    Two rates at one ratio, or two ratios of at least 2 at one η_Z, make a *pair* with a predicted order: the larger
    η_Z has the lower entropy, the larger ratio the higher one. All cells of a panel see the same contexts, so a
    pair is compared stream by stream. It obeys when its mean difference has the predicted sign by more than two
    standard errors, and contradicts when it has the other one. Holds when none contradicts, more obey than chance
    would give, and the largest difference is 0.02 nats or more (where nothing happens, things can be in order too).

    A `checkpoint` keeps the panels that are finished, `progress` is told of each, and `run` trains them.
    """
    begin = time.perf_counter()
    runs, still = _panels(QUERIES, ETA_Z, RATIOS, seeds, checkpoint, progress, run)
    table = {q: _table(x, len(ETA_Z), seeds) for q, x in runs.items()}
    cells = [
        {
            "queries": q,
            "eta_z": eta_z,
            "ratio": ratio,
            "entropy_mean": float(table[q][i, j].mean()),
            "entropy_std": float(table[q][i, j].std(ddof=1)) if seeds > 1 else 0.0,
            "seeds": seeds,
        }
        for q in QUERIES
        for i, eta_z in enumerate(ETA_Z)
        for j, ratio in enumerate(RATIOS)
    ]
    pairs = (d for values in table.values() for d in _predicted_pairs(values))
    return {
        "cells": cells,
        **_order_found(pairs, _predicted_pairs(_table(still, len(ETA_Z), seeds))),
        "seconds": time.perf_counter() - begin,
        "seconds_detail": {
            **{f"{q} queries": dict(x.seconds) for q, x in runs.items()},
            "control": dict(still.seconds),
        },
    }


THRESHOLDS = (0.5, 0.75, 1.0, 1.5, 2.0)  # in units of 1/M
RECALL_QUERIES = (1, 3)  # with more queries nearly every distinct token stays above 1/M


def _recall_figure(
    eta_z: Sequence[float],
    ratios: Sequence[float],
    seeds: int = 10,
    checkpoint: Checkpoint | None = None,
    progress: Progress = quiet,
    run: Run = in_threads,
) -> Result:
    """Which share of a class's distinct tokens has attention over a threshold; kept, told of and trained as `fig6`.

    Judged at the threshold 1/M by the rule of `fig6`: denser attention recalls more. Where all tokens of a panel
    stay above the threshold, or the same ones do, pairs tie and decide nothing.
    """
    begin = time.perf_counter()
    runs, still = _panels(RECALL_QUERIES, eta_z, ratios, seeds, checkpoint, progress, run)
    rows, pairs = [], []
    for q, panel in runs.items():
        for threshold in THRESHOLDS:
            recall = _recall(panel, threshold).reshape(len(eta_z), len(ratios), seeds)
            if threshold == 1.0:
                pairs += list(_predicted_pairs(recall, ratios))
            rows += [
                {
                    "queries": q,
                    "threshold": threshold,
                    "eta_z": float(eta_z[i]),
                    "ratio": float(ratios[j]),
                    "recall_mean": float(recall[i, j].mean()),
                    "recall_std": float(recall[i, j].std(ddof=1)) if seeds > 1 else 0.0,
                }
                for i in range(len(eta_z))
                for j in range(len(ratios))
            ]
    flat = _recall(still, 1.0).reshape(len(eta_z), len(ratios), seeds)
    return {
        "rows": rows,
        **_order_found(pairs, _predicted_pairs(flat, ratios)),
        "seconds": time.perf_counter() - begin,
        "seconds_detail": {f"{q} queries": dict(x.seconds) for q, x in runs.items()},
    }


fig11 = partial(_recall_figure, (1.0,), RATIOS)  # recall against η_Y/η_Z, with η_Z = 1
fig12 = partial(_recall_figure, ETA_Z, (1.0,))  # recall against η_Z, with η_Y/η_Z = 1


def _packed(run: Dynamics) -> dict[str, np.ndarray]:
    """What the figures read off a run, as named arrays."""
    seconds = {f"seconds/{name}": np.array([x]) for name, x in run.seconds.items()}
    return {"t": run.t, "z": run.z, "eta_y": run.eta_y, "eta_z": run.eta_z, **seconds}


def _unpacked(saved: Mapping[str, np.ndarray], classes: SequenceClasses) -> Dynamics:
    named = {name: saved.get(name, np.zeros(0)) for name in ("eta_y", "eta_z", "t", "z")}
    runs, times = len(named["eta_y"]), len(named["t"])
    if named["z"].shape != (runs, times, classes.K, classes.M) or len(named["eta_z"]) != runs:
        raise DataError(
            "the checkpoint does not fit this figure: it is damaged. Run the same again to start anew."
        )
    seconds = {k.removeprefix("seconds/"): float(v[0]) for k, v in saved.items() if "/" in k}
    done = ("finished",) * runs
    return Dynamics("sampled", classes, **named, records={}, status=done, seconds=seconds)


def _panels(
    queries: Sequence[int],
    eta_z: Sequence[float],
    ratios: Sequence[float],
    seeds: int,
    checkpoint: Checkpoint | None,
    progress: Progress,
    run: Run,
) -> tuple[dict[int, Dynamics], Dynamics]:
    """One training for each number of queries, and the control, where attention hardly moves, of the fewest.

    Panels that a checkpoint has are not trained again, and those that are finished are kept in it.
    """
    whole_number("seeds", seeds, least=1)
    still = [STILL * x for x in eta_z]
    # The largest panel goes first.
    asked = {
        f"queries-{q}": _Panel(q, tuple(eta_z), tuple(ratios), seeds) for q in sorted(queries)[::-1]
    }
    asked["control-queries-1"] = _Panel(QUERIES[0], tuple(still), tuple(ratios), seeds)
    found: dict[str, Dynamics] = {}

    def tell(name: str, panel: Dynamics) -> None:
        found[name] = panel
        progress(len(found), len(asked), name)

    for name, panel in asked.items():
        saved = None if checkpoint is None else checkpoint.load(name)
        if saved is not None:
            tell(name, _unpacked(saved, syn_medium(panel.queries)))
    # In this process all streams of a panel are one program; processes take some of them each.
    few = STREAMS if (os.cpu_count() or 1) <= MANY else 1
    some = seeds if run is in_threads else few
    parts = [
        (name, replace(panel, first=first, seeds=min(some, seeds - first)))
        for name, panel in asked.items()
        if name not in found
        for first in range(0, seeds, some)
    ]
    made: dict[str, dict[int, Dynamics]] = {name: {} for name, _ in parts}
    for i, part in run(train_panel, [panel for _, panel in parts]):
        name, panel = parts[i]
        made[name][panel.first] = part
        if len(made[name]) < len(range(0, seeds, some)):
            continue
        trained = _side_by_side(
            [x for _, x in sorted(made[name].items())], len(still) * len(ratios)
        )
        if checkpoint is not None and all(status == "finished" for status in trained.status):
            checkpoint.save(name, _packed(trained))
        tell(name, trained)
    return {q: found[f"queries-{q}"] for q in queries}, found["control-queries-1"]


@dataclass(frozen=True)
class _Panel:
    """What is trained for one panel: every η_Z with every ratio, on `seeds` streams from the first one."""

    queries: int
    eta_z: tuple[float, ...]
    ratios: tuple[float, ...]
    seeds: int
    first: int = 0


def train_panel(panel: _Panel) -> Dynamics:
    """All learning rates of a panel on its streams, from a uniform start."""
    rate = np.repeat(np.asarray(panel.eta_z, float), len(panel.ratios))
    ratio = np.tile(np.asarray(panel.ratios, float), len(panel.eta_z))
    return train_sampled(
        syn_medium(panel.queries), eta_y=rate * ratio, eta_z=rate, steps=STEPS, optimizer="momentum",
        momentum=MOMENTUM, start="uniform", seeds=panel.seeds, first=panel.first, every=STEPS,
    )  # fmt: skip


def _side_by_side(parts: Sequence[Dynamics], cells: int) -> Dynamics:
    """What the figures read off a panel, whose cells were trained on some of the streams in each part."""

    def joined(name: str) -> np.ndarray:
        each = [np.asarray(getattr(x, name)) for x in parts]
        whole = np.concatenate([x.reshape(cells, -1, *x.shape[1:]) for x in each], axis=1)
        return whole.reshape(-1, *whole.shape[2:])

    seconds = {k: sum(x.seconds[k] for x in parts) for k in parts[0].seconds}
    return replace(
        parts[0], eta_y=joined("eta_y"), eta_z=joined("eta_z"), z=joined("z"), records={},
        status=tuple(joined("status").tolist()), seconds=seconds,
    )  # fmt: skip


def _table(run: Dynamics, rates: int, seeds: int) -> Float[np.ndarray, "rates ratios seeds"]:
    """The mean entropy over classes at the end, by cell and stream."""
    return run.entropy[:, -1].mean(axis=-1).reshape(rates, -1, seeds)


def _recall(run: Dynamics, threshold: float) -> Float[np.ndarray, " runs"]:
    """The share of distinct tokens whose attention at the end exceeds `threshold`/M."""
    distinct = run.classes.distinct
    over = (run.attention[:, -1] > threshold / run.classes.M) & distinct
    return over.sum(axis=(1, 2)) / distinct.sum()


def _predicted_pairs(
    values: Float[np.ndarray, "rates ratios seeds"], ratios: Sequence[float] = RATIOS
) -> Iterator[Float[np.ndarray, " seeds"]]:
    """Of every pair with a predicted order, by how much it goes the predicted way, stream by stream."""
    rates = range(values.shape[0])
    dense = [j for j, ratio in enumerate(ratios) if ratio >= DENSER_FROM]
    for j in range(values.shape[1]):
        for low, high in combinations(rates, 2):
            yield values[low, j] - values[high, j]
    for i in rates:
        for low, high in combinations(dense, 2):
            yield values[i, high] - values[i, low]


def _judged(pairs: Pairs) -> dict[str, float | int]:
    """How many pairs obey and contradict by more than two standard errors, and the size of what they show."""
    each = np.array(list(pairs))
    mean = each.mean(axis=1)
    spread = each.std(axis=1, ddof=1) if each.shape[1] > 1 else np.full(len(each), np.inf)
    error = spread / np.sqrt(each.shape[1])
    return {
        "pairs": len(each),
        "undecided": int((np.abs(mean) <= 2 * error).sum()),
        "obey": int((mean > 2 * error).sum()),
        "contradict": int((mean < -2 * error).sum()),
        "least difference": float(mean.min()),
        "largest difference": float(mean.max()),
    }


def _order_found(pairs: Pairs, control: Pairs) -> Result:
    """The entries of a figure that say whether its pairs, and those of its control, are in the predicted order."""
    measured, wrong = _judged(pairs), _judged(control)
    return {
        "measured": measured,
        "verdict": _order_verdict(measured).value,
        "control": _order_verdict(wrong).value,
        "control_measured": wrong,
    }


def _order_verdict(measured: Mapping[str, float | int]) -> Verdict:
    """Whether every decided pair is in the predicted order, more of them than chance would give, by a visible amount.

    By chance a pair obeys by two standard errors once in forty times.
    """
    pairs, obey = int(measured["pairs"]), int(measured["obey"])
    chance = sum(comb(pairs, k) * 39 ** (pairs - k) for k in range(obey, pairs + 1)) / 40**pairs
    return Verdict.of(
        measured["contradict"] == 0 and chance < 0.05 and measured["largest difference"] >= 0.02
    )
