"""SIGKILL at random, of drivers and of workers, and what the runs come to in the end: `python -m faults kills`.

Each command runs once undisturbed. Then it is killed, resumed, killed again, and at last left alone; what it leaves is
compared with the undisturbed run byte for byte, times aside. A driver dies at a random time, or (every second time)
just before a random touch of its files, which finds gaps between two touches that the clock never would. A worker dies
at a random time while its driver goes on. With `--engine ray` the workers are those of a Ray cluster that the driver
starts, killed while they have a task, and a driver may die as soon as the cluster's first process is there. With
`--engine nodes` there is a Ray cluster of two nodes, of which the second dies, all of it at once, while it has a task:
every second time when it is in the middle of a piece and nothing else goes on, otherwise at a random time.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from attomaton.report.text.terminal import table
from faults import folders
from faults.cases import DIVIDED, FIT, OUT, SWEEP, TRAIN, Case, prepare, said, start
from faults.nodes import TwoNodes, two_nodes
from faults.processes import cluster_folders, gone_within, session_of, workers_of
from faults.small import SAID

CASES = (FIT, DIVIDED, TRAIN, SWEEP)
MOST_KILLS = 4  # of one run, before it is left alone
PATIENCE = 10.0  # seconds a worker may outlive its driver: it may be in the middle of an import
LONG = 300.0  # seconds after which a run counts as hanging
FAULTS = ("lost", "doubled", "unreadable", "different", "left over", "orphans", "failed")
GIVEN_UP = "its worker died"  # what a driver says whose task has lost too many workers


@dataclass
class Calm:
    """An undisturbed run: its folder, how often it touched files; seconds it took, until it had begun, with workers."""

    folder: Path
    touches: int
    seconds: float
    first: float
    busy: float


@dataclass
class Tally:
    """What was done to a command, and what came of it; every list of faults must stay empty."""

    command: str
    victim: str
    kills: int = 0
    runs: int = 0
    resumed: int = 0
    given_up: int = 0  # runs that ended by themselves because one task lost three workers
    longest: float = 0.0  # seconds a worker outlived its driver
    faults: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in FAULTS})


class Arena:
    """A folder in which commands are run, disturbed and compared."""

    def __init__(self, place: Path, seed: int, warm: bool = True, cluster: TwoNodes | None = None):
        self.place = place
        self.cluster = cluster  # where commands run that have its address
        self.warm = warm  # whether a first run compiles what all others find compiled
        self.rng = np.random.default_rng(seed)
        self.calm: dict[str, Calm] = {}
        self._runs = 0
        prepare(place)

    def _start(self, case: Case, folder: Path, die_at: int | None = None) -> subprocess.Popen:
        environment = {} if self.cluster is None else self.cluster.environment
        return start(case.line, folder, die_at, **environment)

    def undisturbed(self, case: Case) -> Calm:
        """The run all others of a command are compared with."""
        if case.name not in self.calm:
            for name in ("warm", "calm") if self.warm else ("calm",):
                folder = self.place / f"{case.name}-{name}"
                begin = time.monotonic()
                process = self._start(case, folder, die_at=0)
                while not _begun(case, folder, process):
                    time.sleep(0.002)
                first = time.monotonic() - begin
                busy = _busy(process)
                _ended(process, folder, 0)
            touches = int(said(folder).read_text().rpartition(SAID)[2])
            self.calm[case.name] = Calm(folder, touches, time.monotonic() - begin, first, busy)
        return self.calm[case.name]

    def fresh(self, case: Case) -> Path:
        """A folder for the next run."""
        self._runs += 1
        return self.place / f"{case.name}-{self._runs}"

    def kill_drivers(self, case: Case, kills: int) -> Tally:
        """Kill a command's driver so many times, over as many runs as that takes."""
        calm, tally = self.undisturbed(case), Tally(case.name, "driver")
        while tally.kills < kills:
            folder, tally.runs = self.fresh(case), tally.runs + 1
            most = min(kills - tally.kills, int(self.rng.integers(1, MOST_KILLS + 1)))
            died = 0
            while died < most and self._killed(case, folder, calm, tally):
                died += 1
                tally.kills += 1
            ended = died < most or self._fine(self._start(case, folder), folder, tally)
            tally.resumed += bool(died and ended)
            self._compare(calm, folder, tally)
        return tally

    def _killed(self, case: Case, folder: Path, calm: Calm, tally: Tally) -> bool:
        """Start a command and kill it; False where it was faster."""
        if tally.kills % 2:
            process = self._start(case, folder, int(self.rng.integers(1, calm.touches + 1)))
            _wait(process, LONG)
        else:
            process = self._start(case, folder)
            _wait_for(lambda: _begun(case, folder, process), LONG)
            _wait(process, float(self.rng.uniform(0, calm.seconds - calm.first)))
        process.kill()
        if process.wait() != -signal.SIGKILL:
            if process.returncode != 0:
                tally.faults["failed"].append(f"{folder}: {said(folder).read_text()[-500:]}")
            return False
        self._look_around(process, folder, tally)
        return True

    def _look_around(self, process: subprocess.Popen, folder: Path, tally: Tally) -> None:
        """Count who outlives a command, and what cannot be read of what it has left."""
        lingered = gone_within(process.pid, PATIENCE)
        if lingered is None:
            tally.faults["orphans"] += [f"{folder}: {p}" for p in session_of(process.pid)]
            tally.faults["left over"] += [str(p) for p in cluster_folders(process.pid)]
            _end_session(process.pid)
        tally.longest = max(tally.longest, lingered or 0.0)
        for name in (OUT, f".{OUT}.partial"):
            tally.faults["unreadable"] += folders.unreadable(folder / name)

    def kill_workers(self, case: Case, kills: int) -> Tally:
        """Kill workers of a command so many times, over as many runs as that takes."""
        calm, tally = self.undisturbed(case), Tally(case.name, "worker")
        while tally.kills < kills:
            folder, tally.runs = self.fresh(case), tally.runs + 1
            process = self._start(case, folder)
            most = min(kills - tally.kills, int(self.rng.integers(1, MOST_KILLS + 1)))
            for _ in range(most):
                _wait_for(partial(_at_work, process), LONG)
                _wait(process, float(self.rng.uniform(0, calm.busy / 2)))
                tally.kills += _kill_one(workers_of(process.pid), self.rng)
            if self._gave_up(process, folder):
                tally.given_up += 1
                process = self._start(case, folder)
            self._fine(process, folder, tally)
            self._look_around(process, folder, tally)
            self._compare(calm, folder, tally)
        return tally

    def kill_nodes(self, case: Case, kills: int) -> Tally:
        """Kill the cluster's second node so many times, once in a run, while it has a task."""
        assert self.cluster is not None
        cluster, tally = self.cluster, Tally(case.name, "node")
        cluster.start_second()
        calm = self.undisturbed(case)
        while tally.kills < kills:
            folder, tally.runs = self.fresh(case), tally.runs + 1
            cluster.start_second()
            cluster.close_gate()
            process = self._start(case, folder)
            try:
                wait_until_held(cluster, process)
                if tally.runs % 2 == 0:
                    cluster.open_gate()
                    _wait(process, float(self.rng.uniform(0, (calm.seconds - calm.first) / 2)))
                tally.kills += cluster.busy()
                cluster.kill_second()
            finally:
                cluster.open_gate()
            if self._gave_up(process, folder):
                tally.given_up += 1
                process = self._start(case, folder)
            self._fine(process, folder, tally)
            self._look_around(process, folder, tally)
            self._compare(calm, folder, tally)
        return tally

    def _gave_up(self, process: subprocess.Popen, folder: Path) -> bool:
        _wait(process, LONG)
        return bool(process.poll()) and GIVEN_UP in said(folder).read_text()

    def _fine(self, process: subprocess.Popen, folder: Path, tally: Tally) -> bool:
        """Let a command come to its end; whether that was a good one."""
        try:
            _ended(process, folder, 0)
        except RuntimeError as error:
            tally.faults["failed"].append(str(error))
            return False
        return True

    def _compare(self, calm: Calm, folder: Path, tally: Tally) -> None:
        """Put what a run left beside what the undisturbed one left."""
        if not (folder / OUT).is_dir():
            return  # it has failed, and that was counted
        a, b = calm.folder / OUT, folder / OUT
        found = {"lost": folders.lost(a, b), "doubled": folders.doubled(b),
                 "different": folders.differences(a, b), "left over": folders.leftovers(folder, OUT)}  # fmt: skip
        for name, faults in found.items():
            tally.faults[name] += [f"{folder.name}: {fault}" for fault in faults]


def _begun(case: Case, folder: Path, process: subprocess.Popen) -> bool:
    """Whether a command has written something or started a cluster, or has ended."""
    written = (folder / OUT).exists() or (folder / f".{OUT}.partial").exists()
    clustered = case.engine == "ray" and len(session_of(process.pid)) > 1
    return written or clustered or process.poll() is not None


def _busy(process: subprocess.Popen) -> float:
    """Seconds from the first sight of a command's workers to the last; it has ended then."""
    seen: list[float] = []
    end = time.monotonic() + LONG
    while process.poll() is None and time.monotonic() < end:
        if workers_of(process.pid):
            seen.append(time.monotonic())
        time.sleep(0.05)
    return seen[-1] - seen[0] if seen else 0.0


def _at_work(process: subprocess.Popen) -> bool:
    """Whether a command has workers, or has ended."""
    return bool(workers_of(process.pid)) or process.poll() is not None


def wait_until_held(cluster: TwoNodes, process: subprocess.Popen) -> None:
    """Wait until the second node is in the middle of a piece of a command, or the command has ended."""
    _wait_for(lambda: cluster.held() or process.poll() is not None, LONG)


def _wait(process: subprocess.Popen, seconds: float) -> None:
    """Wait for a process, but not longer than this."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _wait_for(seen: Callable[[], object], most: float) -> None:
    end = time.monotonic() + most
    while not seen() and time.monotonic() < end:
        time.sleep(0.005)


def _ended(process: subprocess.Popen, folder: Path, code: int) -> None:
    """Wait until a command ends, and see that it ends as it should."""
    _wait(process, LONG)
    if process.poll() is None:
        _end_session(process.pid)
        process.wait()
        raise RuntimeError(f"{folder}: hung for {LONG:.0f} s and was ended")
    if process.returncode != code:
        said_there = said(folder).read_text()[-500:]
        raise RuntimeError(f"{folder}: exit code {process.returncode}: {said_there}")


def _kill_one(pids: Sequence[int], rng: np.random.Generator) -> int:
    """Kill one of these processes; how many that were."""
    if not pids:
        return 0
    try:
        os.kill(pids[int(rng.integers(len(pids)))], signal.SIGKILL)
    except ProcessLookupError:
        return 0
    return 1


def _end_session(leader: int) -> None:
    for process in session_of(leader):
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def shares(total: int, among: int) -> list[int]:
    """A number in nearly equal whole shares.

    >>> shares(50, 3)
    [17, 17, 16]
    """
    return [total // among + (i < total % among) for i in range(among)]


def told(tallies: Iterable[Tally]) -> str:
    """The counts, one line for each command and victim."""
    header = ["command", "victim", "kills", "runs", "resumed", "given up", *FAULTS, "outlived s"]
    rows = [
        [t.command, t.victim, t.kills, t.runs, t.resumed, t.given_up,
         *(len(t.faults[name]) for name in FAULTS), f"{t.longest:.2f}"]
        for t in tallies
    ]  # fmt: skip
    return table(header, rows)


def main(arguments: list[str]) -> int:
    """Kill, resume, compare, print the counts; 1 where one of them is not zero."""
    parser = argparse.ArgumentParser(prog="python -m faults kills", description=__doc__)
    parser.add_argument("--driver-kills", type=int, default=50)
    parser.add_argument("--worker-kills", type=int, default=50)
    parser.add_argument("--node-kills", type=int, default=20, help="with --engine nodes")
    parser.add_argument("--engine", choices=("processes", "ray", "nodes"), default="processes")
    parser.add_argument("--only", nargs="+", choices=[case.name for case in CASES])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="leave all runs in this folder")
    asked = parser.parse_args(arguments)
    cases = [case for case in CASES if not asked.only or case.name in asked.only]
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kills-") as temporary, ExitStack() as stack:
        place = asked.keep or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        cluster = stack.enter_context(two_nodes()) if asked.engine == "nodes" else None
        arena = Arena(place.resolve(), asked.seed, cluster=cluster)
        if cluster is not None:
            cases = [case.on_nodes(cluster.address) for case in cases if case in (FIT, DIVIDED)]
            tallies = list(_all_of(arena.kill_nodes, cases, asked.node_kills))
            cluster.start_second()  # drivers die on both nodes
            tallies += _all_of(arena.kill_drivers, cases, asked.driver_kills)
        else:
            if asked.engine == "ray":
                cases = [case.on_ray() for case in cases if case.engine]
            tallies = [
                *_all_of(arena.kill_drivers, cases, asked.driver_kills),
                *_all_of(arena.kill_workers, [c for c in cases if c.engine], asked.worker_kills),
            ]
    print(told(tallies))
    victims = dict.fromkeys(t.victim for t in tallies)
    kills = {who: sum(t.kills for t in tallies if t.victim == who) for who in victims}
    said = ", ".join(f"{n} of {who}s" for who, n in kills.items())
    print(f"kills: {said}, seed {asked.seed}, {time.monotonic() - begin:.0f} s")
    faults = [
        f"{t.command}, {name}: {x}" for t in tallies for name in FAULTS for x in t.faults[name]
    ]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


def _all_of(
    kill: Callable[[Case, int], Tally], cases: Sequence[Case], total: int
) -> Iterable[Tally]:
    for case, kills in zip(cases, shares(total, max(len(cases), 1)), strict=True):
        if kills:
            print(f"{kill.__name__.replace('_', ' ')} of {case.name}: {kills}", file=sys.stderr)
            yield kill(case, kills)
