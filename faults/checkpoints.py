"""SIGKILL while checkpoints are written, and what the latest one is then: `python -m faults checkpoints`.

A process saves one state after the other, through the very functions the commands use, and acknowledges each. It is
killed at a random moment, or just before each touch of its files in turn; then the latest state must be there, whole,
and no older than the last one acknowledged. Two writers are controls and must be caught: one overwrites its file in
place, one renames the old folder away before the new one takes its name.
"""

import argparse
import os
import random
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from attomaton.disk import storage
from attomaton.disk.formats import read_arrays, read_json, write_arrays, write_json
from attomaton.disk.storage import check_folder, new_folder, resumed_folder, work_folder
from attomaton.errors import DataError
from attomaton.jobs.train import _Kept
from attomaton.report.text.terminal import table
from faults.small import die_at

SHAPE = (64, 512)  # of the saved parameters: a quarter of a megabyte
LATEST = 0.03  # seconds after which a writer is killed at the latest, or else two saves where those take longer
GAPS = 400  # more touches than any writer makes to save twice
NOTE = struct.Struct("q")  # a step, as it is acknowledged
STARTED = -1  # acknowledged before anything is saved

Saved = Callable[[int], None]


@dataclass(frozen=True)
class Target:
    """A way to save states: `write` saves from a step on for ever, `read` gives the latest step or a DataError."""

    name: str
    write: Callable[[Path, int, Saved], None]
    read: Callable[[Path], int]


@dataclass
class Tally:
    """Kills of one target and what was wrong after them."""

    name: str
    moment: str
    kills: int = 0
    steps: int = 0
    unreadable: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)  # a state was acknowledged, and is gone


def state(step: int) -> dict[str, np.ndarray]:
    """A state every number of which says which one it is."""
    return {"params": np.full(SHAPE, float(step)), "step": np.full(2, step)}


def step_of(arrays: dict[str, np.ndarray]) -> int:
    """The step of a state; one that is pieced together from two is refused."""
    found = {int(x) for value in arrays.values() for x in np.unique(value)}
    if len(found) != 1 or arrays["params"].shape != SHAPE:
        raise DataError(f"a state of several steps: {sorted(found)}.")
    return found.pop()


# What `train` does: one file, replaced as a whole


def write_checkpoints(place: Path, first: int, saved: Saved) -> None:
    with work_folder(place / "run", "train", {"kept": "checkpoints"}) as work:
        kept = _Kept(work / "checkpoint.safetensors")
        for step in count(first):
            kept.save(state(step))
            saved(step)


def read_checkpoint(place: Path) -> int:
    found = _Kept(place / ".run.partial" / "checkpoint.safetensors").load()
    if found is None:
        raise DataError("there is no checkpoint.")
    return step_of(found)


# What every command does when it is run again: a folder takes the place of a folder


def _fill(work: Path, step: int) -> None:
    write_arrays(work / "state.safetensors", state(step))
    (work / "model").mkdir(exist_ok=True)
    write_json(work / "model" / "status.json", {"step": step})


def write_folders(place: Path, first: int, saved: Saved) -> None:
    for step in count(first):
        with new_folder(place / "run", "train") as work:
            _fill(work, step)
        saved(step)


def write_resumed(place: Path, first: int, saved: Saved) -> None:
    for step in count(first):
        with resumed_folder(place / "run", "train", {"step": step}) as work:
            _fill(work, step)
        saved(step)


def read_folder(place: Path) -> int:
    folder = check_folder(place / "run", "run")
    step = step_of(read_arrays(folder / "state.safetensors"))
    if read_json(folder / "model" / "status.json")["step"] != step:
        raise DataError("a folder of several steps.")
    return step


# The controls


def write_by_two_renames(place: Path, first: int, saved: Saved) -> None:
    storage._exchange = lambda a, b: False
    write_folders(place, first, saved)


def write_in_place(place: Path, first: int, saved: Saved) -> None:
    for step in count(first):
        (place / "state.safetensors").write_bytes(save(state(step)))
        saved(step)


def read_in_place(place: Path) -> int:
    return step_of(read_arrays(place / "state.safetensors"))


TARGETS = (
    Target("checkpoint of train", write_checkpoints, read_checkpoint),
    Target("folder replaced", write_folders, read_folder),
    Target("resumed folder replaced", write_resumed, read_folder),
)
CONTROLS = (
    Target("control: file overwritten in place", write_in_place, read_in_place),
    Target("control: folder replaced by two renames", write_by_two_renames, read_folder),
)


# Killing


def at_random(target: Target, place: Path, kills: int, seed: int) -> Tally:
    """Kill a writer so many times, each at a random moment after it has started."""
    rng, tally = random.Random(seed), Tally(target.name, "random")
    begin = time.monotonic()
    step = _one_life(target, place, -1, 0.0, None, tally)
    latest = max(LATEST, 2 * (time.monotonic() - begin))
    while tally.kills < kills:
        step = _one_life(target, place, step, rng.uniform(0, latest), None, tally)
    return tally


def at_every_gap(target: Target, place: Path) -> Tally:
    """Kill a writer before its first touch of a file, its second, …, until all touches of two saves had their turn."""
    tally, step = Tally(target.name, "every gap"), -1
    for gap in range(1, GAPS):
        before = step
        step = _one_life(target, place, step, None, gap, tally)
        if step >= before + 3:
            break
    return tally


def _one_life(
    target: Target, place: Path, step: int, moment: float | None, gap: int | None, tally: Tally
) -> int:
    """Let a process save from the step after this one until it is killed; the latest step that is there then."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _write_until_killed(target, place, step + 1, gap, writing)
    os.close(writing)
    notes = [_next(reading)]
    if step < 0:
        notes.append(_next(reading))  # before the first state there is none to be found
    if moment is not None:
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
    while (note := _next(reading)) is not None:
        notes.append(note)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise RuntimeError(f"{target.name}: the writer ended by itself.")
    tally.kills += 1
    acknowledged = max(step, *(x for x in notes if x is not None))
    try:
        latest = target.read(place)
    except DataError as error:
        if acknowledged >= 0:
            tally.unreadable.append(f"after step {acknowledged}: {error}")
        return acknowledged
    if latest < acknowledged:
        tally.behind.append(f"step {latest}, after step {acknowledged} was acknowledged")
    tally.steps = max(tally.steps, latest)
    return latest


def _write_until_killed(
    target: Target, place: Path, first: int, gap: int | None, writing: int
) -> None:
    """The life of a writer; it never returns."""

    def saved(step: int) -> None:
        os.write(writing, NOTE.pack(step))

    try:
        saved(STARTED)
        if gap is not None:
            die_at(gap, place)
        target.write(place, first, saved)
    except BaseException as error:
        print(f"{target.name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(1)


def _next(reading: int) -> int | None:
    note = os.read(reading, NOTE.size)
    return NOTE.unpack(note)[0] if note else None


def told(tallies: Iterable[Tally]) -> str:
    """The counts, one line for each target and way to be killed."""
    header = ["what is written", "killed at", "kills", "states", "unreadable", "behind"]
    rows = [
        [t.name, t.moment, t.kills, t.steps + 1, len(t.unreadable), len(t.behind)] for t in tallies
    ]
    return table(header, rows)


def main(arguments: list[str]) -> int:
    """Kill, read, print the counts; 1 where a state was lost or a control was not caught."""
    parser = argparse.ArgumentParser(prog="python -m faults checkpoints", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="at random moments, in all")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    begin, tallies = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="checkpoints-") as temporary:
        for i, target in enumerate((*TARGETS, *CONTROLS)):
            places = [Path(temporary).resolve() / f"{way}-{i}" for way in ("random", "gaps")]
            for place in places:
                place.mkdir()
            kills = asked.kills // len(TARGETS) + (i < asked.kills % len(TARGETS))
            tallies.append(at_random(target, places[0], kills, asked.seed + i))
            tallies.append(at_every_gap(target, places[1]))
    print(told(tallies))
    ours = tallies[: 2 * len(TARGETS)]
    faults = [f"{t.name}: {x}" for t in ours for x in (*t.unreadable, *t.behind)]
    print(
        f"{sum(t.kills for t in ours)} kills, {len(faults)} times without a latest state; seed {asked.seed}, "
        f"{time.monotonic() - begin:.0f} s"
    )
    for control in CONTROLS:
        if not any(t.unreadable for t in tallies if t.name == control.name):
            faults.append(f"{control.name}: was never caught, so the zeros say nothing")
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0
