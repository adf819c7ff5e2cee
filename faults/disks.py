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
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from attomaton.report.terminal import table
from faults import folders
from faults.cases import FIT, OUT, SWEEP, TRAIN, Case, prepare, said, start

INSIDE = "--inside"  # says that the mounts are our own
ALONE = ("unshare", "--map-root-user", "--mount")
FILLED = (0.0, 0.3, 0.6, 0.9)  # of the space a command needs at its peak
PAGE = 4096
ROOM = 1 << 28  # bytes that are enough for every command
LONG = 300.0

CASES = (
    replace(FIT, engine=False),
    replace(FIT, name="fit by workers"),
    TRAIN,
    replace(SWEEP, engine=False),
    Case("verify", ("verify", "--only", "luce")),
    Case("dynamics", ("dynamics", "syn-small", "--level", "limit,reduced", "--until", "20")),
    Case("reproduce", ("reproduce", "scan-snap-fig8")),
    Case("data synth", ("data", "synth", "-K", "50", "-n", "3000", "-T", "20")),
)


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
        subprocess.run(["umount", str(folder)], check=True, capture_output=True)


def can_mount() -> bool:
    """Whether this system lets us mount something only we see."""
    if shutil.which(ALONE[0]) is None:
        return False
    tried = [*ALONE, "mount", "-t", "tmpfs", "tmpfs", tempfile.gettempdir()]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def examine(case: Case, arena: Path, filled: tuple[float, ...] = FILLED) -> Tally:
    """Run one command undisturbed, on disks that fill up, and on one that is read-only."""
    tally = Tally(case.name)
    name = case.name.replace(" ", "-")
    with disk(arena / f"{name}-calm") as calm:
        begin, peak = time.monotonic(), 0
        process = start(case.line, calm.folder)
        while process.poll() is None:
            peak = max(peak, calm.used())
            time.sleep(0.002)
        tally.undisturbed = time.monotonic() - begin
        if process.returncode:
            raise RuntimeError(f"{case.name}: {said(calm.folder).read_text()}")
        for share in filled:
            _fill_up(case, calm.folder, arena / f"{name}-{share}", int(share * peak), tally)
        _refuse(case, arena / f"{name}-read-only", tally)
    return tally


def _fill_up(case: Case, calm: Path, folder: Path, size: int, tally: Tally) -> None:
    """A disk with too little space, with and without an earlier result on it; then with enough."""
    with disk(folder) as place:
        earlier = _earlier(case, place, folder) if size else None
        place.resize(place.used() + max(size // PAGE, 1) * PAGE)
        code = _run(case, folder)
        if code == 0:
            return  # it was enough
        tally.full += 1
        where = f"{folder.name} ({size} bytes)"
        tally.faults += [f"{where}: {x}" for x in _message_faults(folder, "No space left")]
        if earlier is not None and _content(folder / OUT) != earlier:
            tally.faults.append(f"{where}: what was there before has changed")
        if earlier is None and case.name != "sweep" and (folder / OUT).exists():
            tally.faults.append(f"{where}: something was left under the name asked for")
        for name in (OUT, f".{OUT}.partial"):
            tally.faults += [f"{where}: {x}" for x in folders.unreadable(folder / name)]
        place.resize(ROOM)
        code = _run(case, folder)
        if code != 0:
            tally.faults.append(f"{where}: with space, exit code {code}: {_told(folder)}")
            return
        unlike = folders.differences(calm / OUT, folder / OUT) + folders.leftovers(folder, OUT)
        tally.faults += [f"{where}: with space, {x}" for x in unlike]
        tally.finished += not unlike


def _earlier(case: Case, place: Disk, folder: Path) -> dict[str, bytes] | None:
    """An earlier result of another kind of question, where the command may replace one."""
    if case.words[0] not in ("fit", "dynamics"):
        return None
    words = ("reproduce", "scan-snap-fig8") if case.name == "dynamics" else (*case.words[:-1], "3")
    code = _run(Case(case.name, words), folder)
    if code:
        raise RuntimeError(f"{words}: {_told(folder)}")
    return _content(folder / OUT)


def _refuse(case: Case, folder: Path, tally: Tally) -> None:
    """A read-only disk."""
    with disk(folder) as place:
        place.freeze()
        begin = time.monotonic()
        code = _run(case, folder)
        tally.read_only = time.monotonic() - begin
        if code == 0:
            tally.faults.append("read-only: exit code 0")
        tally.faults += [f"read-only: {x}" for x in _message_faults(folder, "Read-only")]


def _run(case: Case, folder: Path) -> int:
    return start(case.line, folder).wait(LONG)


def _told(folder: Path) -> str:
    return said(folder).read_text().strip()


def _message_faults(folder: Path, reason: str) -> list[str]:
    """What is wrong with what a command said: it names the place and the reason, and is no accident."""
    told = _told(folder)
    missing = [f"{word!r} was not said" for word in (reason, OUT) if word not in told]
    wrong = [f"{x!r} was said" for x in ("Traceback", "InternalError") if x in told]
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
    parser.add_argument("--filled", nargs="+", type=float, default=FILLED,
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
        arena = Path(temporary).resolve()
        prepare(arena)
        tallies = []
        for case in (case for case in CASES if case.name in asked.only):
            print(case.name, file=sys.stderr)
            tallies.append(examine(case, arena, tuple(asked.filled)))
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
