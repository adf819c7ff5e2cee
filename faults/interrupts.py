"""Ctrl-C and SIGTERM at random moments, and how commands take it: `python -m faults interrupts`.

A command runs once undisturbed. Then it is interrupted at a moment drawn from all of its time, the first imports
included: SIGINT to the process, or to its whole group as a terminal does it, or twice in a row; or SIGTERM. It has to
leave with exit code 130 (0 where it had finished) within two seconds, one line about it that says how to go on, no
traceback, nobody left over, no file but its result or its work folder. It is started again, perhaps interrupted again,
and what it leaves in the end is compared with the undisturbed run byte for byte, times aside. A signal that comes
before Python is at our first line is Python's: what it does then is not counted.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from attomaton.report.text.terminal import table
from faults import folders
from faults.cases import FIT, OUT, ROOT, TEXT, Case, prepare, said, start
from faults.kills import LONG, MOST_KILLS, PATIENCE, TRAIN, _end_session, _wait, shares
from faults.processes import gone_within, session_of
from faults.scratch import marks

PROGRAM = "attomaton"
SOON = 2.0  # seconds from a signal to the end
TEMPORARY = "tmp"  # the place for temporary files, beside the folders of the runs
FAULTS = ("exit code", "slow", "crash", "traceback", "lines", "no word to go on", "processes", "files", "unreadable",
          "different", "failed")  # fmt: skip
ABOUT = re.compile(r"interrupt|stopped by|terminated", re.IGNORECASE)
GO_ON = re.compile(r"again|go on|resume|continue", re.IGNORECASE)
# Loaded by Python before anything else: says when our first line is run.
WATCH = """
import os, sys
def seen(event, arguments):
    if event == "exec" and getattr(arguments[0], "co_filename", "").endswith("attomaton/__main__.py"):
        os.close(os.open(os.environ["FAULTS_BEGUN"], os.O_CREAT | os.O_WRONLY))
sys.addaudithook(seen)
"""

TRAIN_SHORT = replace(TRAIN, words=tuple("3000" if w == "15000" else w for w in TRAIN.words))
TUNE = Case(
    "tune",
    (
        *("tune", f"../{TEXT}", "--validate", "../short.txt", "--context", "8"),
        *("--priors", "main,zero", "--lambdas", "0.5,1", "--thetas", "0,1"),
    ),
)
SWEEP = Case(
    "sweep",
    ("sweep", "syn-small", "eta_z=0.25,0.5,1,2,4", "ratio=1,2,3", "until=10", "--level", "reduced"),
)
CASES = (
    replace(FIT, engine=None),
    replace(FIT, name="fit by workers"),
    TRAIN_SHORT,
    TUNE,
    replace(TUNE, name="tune by workers", words=(*TUNE.words, "--workers", "2")),
    SWEEP,
    replace(SWEEP, name="sweep by workers", engine="processes"),
    Case("verify", ("verify", "--only", "luce,S1")),
    Case("verify by workers", ("verify", "--only", "luce,S1"), engine="processes"),
    Case("reproduce", ("reproduce", "scan-snap-fig8")),
    Case("reproduce fig6", ("reproduce", "scan-snap-fig6", "--seeds", "1")),
    Case("dynamics", ("dynamics", "syn-small", "--level", "limit,reduced", "--until", "3")),
)


@dataclass
class Tally:
    """What was done to a command, and what came of it; every list of faults must stay empty."""

    command: str
    interrupts: int = 0
    finished: int = 0  # before the signal came
    before: int = 0  # ended by the signal before the first line of ours
    runs: int = 0
    longest: float = 0.0  # seconds from a signal to the end
    again: int = 0  # tried again because the machine was busy
    faults: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in FAULTS})


@dataclass(frozen=True)
class Blow:
    """A signal: which, at what moment, to the whole group or not, and how long until it comes again."""

    moment: float
    number: int = signal.SIGINT
    group: bool = False
    again: float | None = None

    def __str__(self) -> str:
        whom = " to the group" if self.group else ""
        twice = "" if self.again is None else f", again after {self.again:.2f} s"
        return f"{signal.Signals(self.number).name}{whom} at {self.moment:.3f} s{twice}"

    def fall(self, process: subprocess.Popen) -> bool:
        """Send it; False where the process was faster."""
        if process.poll() is not None:
            return False
        self._send(process)
        if self.again is not None:
            _wait(process, self.again)
            self._send(process)
        return True

    def _send(self, process: subprocess.Popen) -> None:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                (os.killpg if self.group else os.kill)(process.pid, self.number)


def drawn(rng: Random, seconds: float) -> Blow:
    """A signal at any moment of so many seconds."""
    moment, way = rng.uniform(0.0, seconds), rng.random()
    if way < 0.2:
        return Blow(moment, signal.SIGTERM, group=way < 0.05)
    return Blow(moment, group=way < 0.55, again=rng.uniform(0.0, 0.4) if way > 0.8 else None)


class Arena:
    """A folder in which commands are run, interrupted and compared."""

    def __init__(self, place: Path, seed: int, warm: bool = True):
        self.place, self.rng, self.warm = place, Random(seed), warm
        self.calm: dict[str, tuple[Path, float, int]] = {}
        self._runs = 0
        prepare(place)
        for name in (TEMPORARY, "site"):
            (place / name).mkdir()
        (place / "site" / "sitecustomize.py").write_text(WATCH)
        self.first = place / "begun"  # there when a run has come to our first line

    def begun(self, case: Case, folder: Path) -> subprocess.Popen:
        """Start a command."""
        self.first.unlink(missing_ok=True)
        return start(
            case.line, folder, program=PROGRAM, TMPDIR=str(self.place / TEMPORARY), FAULTS_BEGUN=str(self.first),
            PYTHONPATH=os.pathsep.join((str(self.place / "site"), f"{ROOT}/src", str(ROOT))),
        )  # fmt: skip

    def undisturbed(self, case: Case) -> tuple[Path, float, int]:
        """The run all others are compared with, its seconds and its exit code."""
        if case.name not in self.calm:
            for name in ("warm", "calm") if self.warm else ("calm",):
                folder = self.place / f"{case.name}-{name}"
                begin = time.monotonic()
                process = self.begun(case, folder)
                if (code := process.wait(LONG)) not in (
                    0,
                    4,
                ):  # a small experiment may not reproduce
                    raise RuntimeError(f"{case.name}: {said(folder).read_text()[-500:]}")
            self.calm[case.name] = folder, time.monotonic() - begin, code
        return self.calm[case.name]

    def interrupt(self, case: Case, count: int) -> Tally:
        """Interrupt a command so many times, over as many runs as that takes."""
        (calm, seconds, code), tally = self.undisturbed(case), Tally(case.name)
        while tally.interrupts < count:
            self._runs, tally.runs = self._runs + 1, tally.runs + 1
            folder = self.place / f"{case.name}-{self._runs}"
            for _ in range(min(count - tally.interrupts, self.rng.randint(1, MOST_KILLS))):
                self.interrupt_once(case, folder, drawn(self.rng, seconds), code, tally)
            self._finish(case, calm, folder, code, tally)
        return tally

    def interrupt_once(self, case: Case, folder: Path, blow: Blow, calm: int, tally: Tally) -> None:
        """One signal; where it takes long on a busy machine, once more."""
        partial = folder / f".{OUT}.partial"
        for attempt in range(3):
            before = marks(partial)
            process = self.begun(case, folder)
            _wait(process, blow.moment)
            ours = self.first.exists()
            if not blow.fall(process):
                tally.finished += 1
                if process.returncode != calm:
                    self._fault(tally, "failed", folder, blow)
                return
            begin = time.monotonic()
            _wait(process, PATIENCE)
            took = time.monotonic() - begin + (blow.again or 0.0)
            if process.poll() is None:
                _end_session(process.pid)
                process.wait()
            if took <= SOON or not _busy() or attempt == 2:
                break
            tally.again += 1
        tally.interrupts += 1
        tally.longest = max(tally.longest, took)
        if took > SOON:
            self._fault(tally, "slow", folder, f"{blow}: {took:.1f} s")
        self._look(process, folder, blow, calm, tally, ours)
        told = said(folder).read_text(errors="replace")
        worked = ours and process.returncode == 130 and marks(partial) not in ({}, before)
        if worked and not GO_ON.search(told):
            self._fault(tally, "no word to go on", folder, f"{blow}: {told[-200:]!r}")

    def _look(
        self,
        process: subprocess.Popen,
        folder: Path,
        blow: Blow,
        calm: int,
        tally: Tally,
        ours: bool,
    ) -> None:
        """What a command said and left."""
        told, code = said(folder).read_text(errors="replace"), process.returncode
        if gone_within(process.pid, PATIENCE) is None:
            for left in session_of(process.pid):
                self._fault(tally, "processes", folder, f"{blow}: {left.command[:100]}")
            _end_session(process.pid)
        beside = [p.name for p in folder.iterdir() if p.name not in (OUT, f".{OUT}.partial")]
        temporary = [str(p) for p in (self.place / TEMPORARY).iterdir()]
        for name in beside + temporary:
            self._fault(tally, "files", folder, f"{blow}: {name}")
        tally.faults["unreadable"] += folders.unreadable(folder / OUT)
        tally.faults["unreadable"] += folders.unreadable_pieces(folder / f".{OUT}.partial")
        if not ours:
            tally.before += 1
            return
        if code < 0 and code != -signal.SIGKILL:
            self._fault(tally, "crash", folder, f"{blow}: {signal.Signals(-code).name}")
        elif code not in (calm, 130):
            self._fault(tally, "exit code", folder, f"{blow}: {code}: {told[-200:]!r}")
        if "Traceback" in told or "InternalError" in told:
            self._fault(tally, "traceback", folder, f"{blow}: {told[-300:]!r}")
        lines = [line for line in told.splitlines() if ABOUT.search(line)]
        if len(lines) != (code == 130):
            self._fault(tally, "lines", folder, f"{blow}: {lines}")

    def _finish(self, case: Case, calm: Path, folder: Path, code: int, tally: Tally) -> None:
        """Let a command come to its end, and put what it leaves beside the undisturbed run."""
        process = self.begun(case, folder)
        _wait(process, LONG)
        if process.poll() != code:
            _end_session(process.pid)
            tally.faults["failed"].append(f"{folder.name}: {said(folder).read_text()[-300:]!r}")
            return
        unlike = folders.differences(calm / OUT, folder / OUT) + folders.leftovers(folder, OUT)
        tally.faults["different"] += [f"{folder.name}: {x}" for x in unlike]

    def _fault(self, tally: Tally, kind: str, folder: Path, what: object) -> None:
        tally.faults[kind].append(f"{folder.name}: {what}")


def _busy() -> bool:
    return os.getloadavg()[0] > (os.cpu_count() or 1)


def told(tallies: Iterable[Tally]) -> str:
    """The counts, one line for each command."""
    header = [
        "command",
        "interrupts",
        "runs",
        "before ours",
        "finished",
        *FAULTS,
        "longest s",
        "again",
    ]
    rows = [
        [t.command, t.interrupts, t.runs, t.before, t.finished, *(len(t.faults[name]) for name in FAULTS),
         f"{t.longest:.2f}", t.again]
        for t in tallies
    ]  # fmt: skip
    return table(header, rows)


def main(arguments: Sequence[str]) -> int:
    """Interrupt, look, go on, compare, print the counts; 1 where a fault is counted."""
    parser = argparse.ArgumentParser(prog="python -m faults interrupts", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="signals in all (default 200)")
    parser.add_argument("--only", nargs="+", choices=[case.name for case in CASES])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="leave all runs in this folder")
    asked = parser.parse_args(arguments)
    cases = [case for case in CASES if not asked.only or case.name in asked.only]
    begin, tallies = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="interrupts-") as temporary:
        place = asked.keep or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        arena = Arena(place.resolve(), asked.seed)
        for case, count in zip(cases, shares(asked.count, len(cases)), strict=True):
            if count:
                print(f"interrupt {case.name}: {count}", file=sys.stderr)
                tallies.append(arena.interrupt(case, count))
    print(told(tallies))
    faults = [f"{t.command}, {k}: {x}" for t in tallies for k in FAULTS for x in t.faults[k]]
    print("\n".join(faults), end="\n" if faults else "")
    total, load = sum(t.interrupts for t in tallies), os.getloadavg()[0]
    print(
        f"{total} interrupts, {len(faults)} faults; seed {asked.seed}, {time.monotonic() - begin:.0f} s, "
        f"load {load:.1f} on {os.cpu_count()} cores"
    )
    return 1 if faults else 0
