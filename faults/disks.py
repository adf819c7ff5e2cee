"""Disks that are full or read-only, and what commands do then: `python -m faults disks`.

Every command writes to a small file system of its own, mounted where nobody else sees it. On a disk that fills up half
way it must say so in a sentence that names the place, leave nothing half-written under the name that was asked for
(an earlier folder stays as it was), and finish as if nothing had happened when it is run again with space. On a
read-only disk it must say so at once.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from attomaton.report.text.terminal import table
from faults import folders, seeds
from faults.cases import FIT, OUT, SHORT, SWEEP, TRAIN, Case, prepare
from faults.commands import ACCIDENTS
from faults.scratch import HOME, TEMPORARY, Ended, forked, import_all
from faults.small import small_pieces

INSIDE = "--inside"  # says that the mounts are our own
ALONE = ("unshare", "--map-root-user", "--mount")
FILLED = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9)  # of the space a command needs at its peak
PAGE = 4096
ROOM = 1 << 28  # bytes that are enough for every command
TUNE_SMALL = (
    "tune",
    SHORT,
    "--validate",
    SHORT,
    "--context",
    "4",
    "--priors",
    "main",
    "--lambdas",
    "1",
)
PROBE = ("probe", "../network")
SNAP = ("snap", "../network", "../network")
TUNE = Case("tune", tuple(f"../{w}" if w == SHORT else w for w in TUNE_SMALL))

CASES = (
    replace(FIT, engine=None),
    replace(FIT, name="fit by workers"),
    TRAIN,
    TUNE,
    replace(SWEEP, engine=None),
    Case("verify", ("verify", "--only", "luce", "--data", f"../{SHORT}", "--context", "4")),
    Case("dynamics", ("dynamics", "syn-small", "--level", "reduced", "--until", "20")),
    Case("reproduce", ("reproduce", "scan-snap-fig8")),
    Case("demo", ("demo",)),
    Case("bootstrap", ("bootstrap", "example", "--resamples", "20")),
    Case("dimensions", ("dimensions", "example", "--d", "2,4", "--draws", "1")),
    *(
        Case(f"data synth {suffix}", ("data", "synth", "--force", *words), out=f"{OUT}.{suffix}")
        for suffix, words in (
            ("jsonl", ("-K", "50", "-n", "500", "-T", "20")),
            ("csv", ("--kind", "sessions")),
            ("parquet", ("--kind", "sessions", "-n", "2000")),
        )
    ),
    *(
        Case(f"graph {suffix}", ("graph", "../model", "--last", "w1", "--format", suffix), out=f"{OUT}.{suffix}")
        for suffix in ("json", "graphml", "dot", "svg", "png")
    ),
    *(
        Case(f"{word} {suffix}", (word, "../model", "--file", f"../{SHORT}", "--force"), out=f"{OUT}.{suffix}")
        for word, suffix in (("predict", "csv"), ("explain", "jsonl"), ("predict", "parquet"))
    ),
    Case("graph text", ("graph", "../model", "--last", "w1"), out=f"{OUT}.txt"),
    Case("explain figure", ("explain", "../model", "w2", "w3", "w1"), option="--figure", out=f"{OUT}.svg"),
    Case("simulate figure", ("simulate", "../model", "w2", "w3", "w1", "--steps", "20"), option="--figure",
         out=f"{OUT}.svg"),
    Case("mix page", ("mix", "../model", "../model"), option="--html", out=f"{OUT}.html"),
    Case("mix figure", ("mix", "../model", "../model"), option="--figure", out=f"{OUT}.svg"),
    Case("score figure", ("score", "../predictor", f"../{SHORT}"), option="--figure", out=f"{OUT}.png"),
    Case("score table", ("score", "../predictor", f"../{SHORT}"), out=f"{OUT}.csv"),
    Case("summary page", ("summary", "../model"), option="--html", out=f"{OUT}.html"),
    Case("summary figure", ("summary", "../model"), option="--figure", out=f"{OUT}.svg"),
    Case("coverage page", ("coverage", "../model"), option="--html", out=f"{OUT}.html"),
    Case("coverage figure", ("coverage", "../model"), option="--figure", out=f"{OUT}.svg"),
    Case("coverage odds", ("coverage", "../model"), out=f"{OUT}.parquet"),
    Case("probe figure", ("probe", "../attention.npz"), option="--figure", out=f"{OUT}.svg"),
    *(
        Case(f"{words[0]} {what}", (*words, "--text", f"../{SHORT}", "--context", "4"), option=option, out=out)
        for words, what, option, out in (
            (PROBE, "folder", "-o", OUT),
            (PROBE, "page", "--html", f"{OUT}.html"),
            (SNAP, "folder", "-o", OUT),
            (SNAP, "page", "--html", f"{OUT}.html"),
            (SNAP, "figure", "--figure", f"{OUT}.svg"),
        )
    ),
    Case("compare page", ("compare", "../run", "--data", "../model"), option="--html", out=f"{OUT}.html"),
    Case("compare figure", ("compare", "../run", "--data", "../model"), option="--figure", out=f"{OUT}.svg"),
)  # fmt: skip
# Another question for each of these, whose answer an earlier run has left at the place.
EARLIER = {
    "fit": (*FIT.words[:-1], "3"),
    "train": tuple("2000" if w == "15000" else w for w in TRAIN.words),
    "tune": (*TUNE.words, "--thetas", "1"),
    "dynamics": ("reproduce", "scan-snap-fig8"),
}


@dataclass
class Tally:
    """What one command did on bad disks; all faults must stay empty."""

    command: str
    full: int = 0  # runs that met a full disk
    finished: int = 0  # and ended as undisturbed once there was space
    read_only: float = 0.0  # seconds until a read-only disk was refused
    undisturbed: float = 0.0
    faults: list[str] = field(default_factory=list)


class Disk:
    """A file system of a given size, mounted at a folder."""

    def __init__(self, folder: Path, size: int):
        self.folder = folder
        folder.mkdir()
        _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))

    def resize(self, size: int) -> None:
        _mount("-o", f"remount,size={size}", str(self.folder))

    def freeze(self) -> None:
        _mount("-o", "remount,ro", str(self.folder))

    def used(self) -> int:
        stat = os.statvfs(self.folder)
        return (stat.f_blocks - stat.f_bfree) * stat.f_frsize


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


@contextmanager
def disk(folder: Path, size: int = ROOM) -> Iterator[Disk]:
    """A disk for as long as the block runs."""
    made = Disk(folder, size)
    try:
        yield made
    finally:
        # Lazily: a worker may be there still, in the middle of its end.
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


def can_mount() -> bool:
    """Whether this system lets us mount something only we see."""
    if shutil.which(ALONE[0]) is None:
        return False
    tried = [*ALONE, "mount", "-t", "tmpfs", "tmpfs", tempfile.gettempdir()]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


class Bench:
    """Runs commands in forks, each on a disk of its own."""

    def __init__(self, arena: Path):
        self.arena = arena
        prepare(arena)
        for name in (HOME, TEMPORARY):
            (arena / name).mkdir()
        import_all()
        small_pieces()
        even = np.broadcast_to(np.tri(3) / np.arange(1, 4)[:, None], (2, 1, 2, 3, 3))
        np.savez(arena / "attention.npz", attention=even, tokens=np.zeros((2, 3), int))
        seeds.network(arena, [f"w{i}" for i in range(40)])
        for words in (
            ("fit", SHORT, "--context", "6", "-o", "model"),
            (*TUNE_SMALL, "-o", "predictor"),
            ("train", "model", "--steps", "5", "-o", "run"),
        ):
            ended = self.run(words, arena)
            if ended.code != 0:
                raise RuntimeError(f"{words}: {ended.told}")

    def run(self, line: Sequence[str], folder: Path) -> Ended:
        """One command in a folder."""
        return forked(line, self.arena, here=folder)

    def examine(self, case: Case, filled: Sequence[float] | None = None) -> Tally:
        """Run one command undisturbed, on disks that fill up, and on one that is read-only."""
        tally = Tally(case.name)
        name = case.name.replace(" ", "-")
        with disk(self.arena / f"{name}-calm") as calm:
            ended = self.run(case.line, calm.folder)
            tally.undisturbed = ended.seconds
            if ended.code != 0:
                raise RuntimeError(f"{case.name}: {ended.told}")
            # What is needed on the way is more than what is left in the end.
            most = calm.used() * (1.0 if case.out != OUT else 1.5)
            for i, share in enumerate(FILLED if filled is None else filled):
                folder, size = self.arena / f"{name}-{share}", int(share * most)
                # A single file is written where one lies already every second time.
                over = i % 2 == 0 if case.out != OUT else size > 0
                self._fill_up(case, calm.folder, folder, size, over, tally)
            self._refuse(case, self.arena / f"{name}-read-only", tally)
        return tally

    def _fill_up(
        self, case: Case, calm: Path, folder: Path, size: int, over: bool, tally: Tally
    ) -> None:
        """A disk with too little space, with (`over`) and without an earlier result on it; then with enough."""
        with disk(folder) as place:
            earlier = self._earlier(case, folder) if over else None
            # No size at all would be one without a limit.
            place.resize(max(place.used() + size // PAGE * PAGE, PAGE))
            ended = self.run(case.line, folder)
            if ended.code == 0:
                return  # it was enough
            tally.full += 1
            where = f"{folder.name} ({size} bytes)"
            faults = _message_faults(ended, "No space left", case.out)
            if ended.code != 1:
                faults.append(f"exit code {ended.code}: {ended.told[-300:]!r}")
            if earlier is not None and _content(folder / case.out) != earlier:
                faults.append("what was there before has changed")
            if earlier is None and case.words[0] != "sweep" and (folder / case.out).exists():
                faults.append("something was left under the name asked for")
            kept = (case.out, f".{case.out}.partial")
            faults += [f"left: {p.name}" for p in folder.iterdir() if p.name not in kept]
            for name in kept:
                faults += folders.unreadable(folder / name)
            place.resize(ROOM)
            ended = self.run(case.line, folder)
            if ended.code != 0:
                faults.append(f"with space, exit code {ended.code}: {ended.told[-300:]!r}")
            else:
                unlike = folders.differences(calm / case.out, folder / case.out)
                unlike += folders.leftovers(folder, case.out)
                faults += [f"with space, {x}" for x in unlike]
                tally.finished += not unlike
            tally.faults += [f"{where}: {x}" for x in faults]

    def _earlier(self, case: Case, folder: Path) -> dict[str, bytes] | None:
        """An earlier result, where the command may replace one."""
        path = folder / case.out
        if case.out != OUT:
            path.write_bytes(b"an earlier file\n" * 100)
        elif (words := EARLIER.get(case.words[0])) is not None:
            ended = self.run([*words, "-o", OUT], folder)
            if ended.code:
                raise RuntimeError(f"{words}: {ended.told}")
        return _content(path) if path.exists() else None

    def _refuse(self, case: Case, folder: Path, tally: Tally) -> None:
        """A read-only disk."""
        with disk(folder) as place:
            place.freeze()
            ended = self.run(case.line, folder)
            tally.read_only = ended.seconds
            if ended.code not in (1, 2):
                tally.faults.append(f"read-only: exit code {ended.code}")
            told = _message_faults(ended, "Read-only", case.out)
            tally.faults += [f"read-only: {x}" for x in told]


def _message_faults(ended: Ended, reason: str, out: str = OUT) -> list[str]:
    """What is wrong with what a command said: it names the place and the reason, and is no accident."""
    told = ended.told
    missing = [f"{word!r} was not said" for word in (reason, out) if word not in told]
    wrong = [f"{x!r} was said" for x in ACCIDENTS if x in told]
    return [f"{fault}: {told[-400:]!r}" for fault in missing + wrong]


def _content(path: Path) -> dict[str, bytes]:
    """Every byte below a path."""
    inner = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return {str(p.relative_to(path)): p.read_bytes() for p in inner}


def main(arguments: list[str]) -> int:
    """Fill disks, freeze disks, print the counts; 1 where something was not as promised, 2 where mounts are refused."""
    parser = argparse.ArgumentParser(prog="python -m faults disks", description=__doc__)
    names = [case.name for case in CASES]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--filled", nargs="+", type=float,
                        help="space there is, of the space a command needs")  # fmt: skip
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if not asked.inside:
        if not can_mount():
            print("this system lets nobody mount a disk of their own: nothing was tried")
            return 2
        words = [*ALONE, sys.executable, "-m", "faults", "disks", *arguments, INSIDE]
        return subprocess.run(words, check=False).returncode
    with tempfile.TemporaryDirectory(prefix="disks-") as temporary:
        os.environ.setdefault("MPLCONFIGDIR", tempfile.mkdtemp(dir=temporary))
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        warnings.simplefilter("ignore")
        bench = Bench(Path(temporary).resolve())
        tallies = []
        for case in (case for case in CASES if case.name in asked.only):
            tallies.append(bench.examine(case, asked.filled))
            print(told(tallies[-1:]), *tallies[-1].faults, sep="\n", file=sys.stderr, flush=True)
    print(told(tallies))
    faults = [f"{t.command}: {fault}" for t in tallies for fault in t.faults]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


def told(tallies: list[Tally]) -> str:
    """The counts, one line for each command."""
    header = [
        "command",
        "full disks",
        "finished with space",
        "faults",
        "read-only refused s",
        "undisturbed s",
    ]
    rows = [
        [t.command, t.full, t.finished, len(t.faults), f"{t.read_only:.1f}", f"{t.undisturbed:.1f}"]
        for t in tallies
    ]
    return table(header, rows)
