"""Things of others in our way, planted at names our code uses: `python -m faults plantings`.

A command runs once undisturbed, and every name it touches is noted. Then it runs again and again in a fork, and each
time a link, a pipe, a file or a folder is planted at one of those names, or at one that could be guessed: before the
start, just before a touch of its files drawn at random, or just before its last ones, when the folder gets its name.
Whatever comes of the command: files of
others (where links lead to, and what was planted) must be as they were, and the command ends with an answer or a
refusal of ours. A stand-in that writes as one does without care is the control: it must lose files.
"""

import argparse
import os
import re
import shutil
import signal
import socket
import stat
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

from attomaton.report.text.terminal import table
from faults.commands import ACCIDENTS, DOCUMENTED, of_the_disk
from faults.scratch import HERE, HOME, TEMPORARY, VICTIM, WALL, Ended, forked, import_all, marks
from faults.small import TOUCHES, _writes
from faults.watch import watched

OUT = "out"
MEMORY = 8 << 30
CONTROLS = 100  # plantings around the stand-in
COMMANDS: dict[str, tuple[str, ...]] = {
    "fit": ("fit", "a.txt", "--context", "4"),
    "train": ("train", "a.jsonl", "--steps", "3"),
    "tune": ("tune", "a.txt", "--validate", "a.txt", "--context", "4", "--priors", "main", "--lambdas", "1",
             "--thetas", "1"),
    "sweep": ("sweep", "syn-small", "eta_z=1,2", "ratio=1", "until=2", "--level", "reduced"),
    "verify": ("verify", "--only", "luce", "--data", "a.jsonl"),
}  # fmt: skip
SHARES = {"fit": 5, "train": 1, "tune": 3, "sweep": 4, "verify": 2}
EARLIER = 0.4  # of all runs find an earlier result of the same command at their place
KINDS = ("link to file", "link to folder", "dangling link", "loop", "pipe", "file", "folder", "socket",
         "closed folder", "hard link")  # fmt: skip
BESIDE = (OUT, f".{OUT}.partial", f".{OUT}.unfinished-abcd1234", f".{OUT}.partial.old", f".{OUT}.old", f".{OUT}",
          f"{OUT}.old", f".{OUT}.lock", f".{OUT}.tmp")  # fmt: skip
INSIDE = ("notes.txt", ".lock", "config.json", "log.jsonl", "manifest.json", "attomaton.json", "cells", "pieces",
          "parts", "claims", "summary.json", "checkpoint.safetensors", ".config.json.{pid}",
          ".manifest.json.{pid}")  # fmt: skip
FAULTS = ("others' files changed", "planted things lost", "bad endings")


class Planting(NamedTuple):
    """What is planted where, just before which touch of the command's files; None is before its start."""

    command: str
    earlier: bool
    kind: str
    name: str
    touch: int | None

    def __str__(self) -> str:
        when = "before the start" if self.touch is None else f"before touch {self.touch}"
        earlier = ", an earlier result there" if self.earlier else ""
        return f"{self.command}: {self.kind} at {self.name!r} {when}{earlier}"


class Ground:
    """A folder in which a command runs and finds things of others in its way."""

    def __init__(self, place: Path, seed: int, program: Callable[[], object] | None = None):
        self.place, self.seed, self.program = place, seed, program
        self.touched: dict[tuple[str, bool], list[str]] = {}
        self.master = place / "master"
        self.results: dict[str, Path] = {}

    def renew(self, command: str, earlier: bool) -> Path:
        """Everything as it was before: data, others' files, perhaps an earlier result."""
        world = self.place / "world"
        _clear(world)
        for name in (HERE, VICTIM, f"{VICTIM}/deep", HOME, TEMPORARY):
            (world / name).mkdir(parents=True)
        for name in ("thesis.txt", "deep/data.csv", "config.json", "log.jsonl"):
            path = world / VICTIM / name
            path.write_text("years of work\n")
            os.utime(path, (1e9, 1e9))
        (world / HERE / "a.txt").write_text("the cat sat on the mat the cat sat\n" * 3)
        rows = (
            '{"tokens": ["a", "b", "c"], "next": "a"}\n{"tokens": ["b", "c", "a"], "next": "b"}\n'
        )
        (world / HERE / "a.jsonl").write_text(rows * 2)
        if earlier:
            if command not in self.results:
                forked([*COMMANDS[command], "-o", OUT], world, program=self.program)
                kept = self.place / f"earlier-{command}"
                shutil.copytree(world / HERE / OUT, kept, symlinks=True)
                self.results[command] = kept
                return self.renew(command, earlier)
            shutil.copytree(self.results[command], world / HERE / OUT, symlinks=True)
        return world

    def names(self, command: str, earlier: bool) -> list[str]:
        """Every name an undisturbed run touches, in its order; its process number as {pid}."""
        key = command, earlier
        if key not in self.touched:
            world = self.renew(command, earlier)
            noted = self.place / "noted"
            noted.write_text("")
            ended = forked(
                [*COMMANDS[command], "-o", OUT], world, lambda: _note(noted), self.program
            )
            if ended.code != 0:
                raise RuntimeError(f"{command}: {ended.told}")
            here = os.path.realpath(world / HERE)
            lines = [os.path.relpath(line, here) for line in noted.read_text().splitlines()[1:]]
            pid = noted.read_text().splitlines()[0]
            # Where a tree is deleted, names are relative to a folder that is open: those say too little.
            ours = [x for x in lines if x.split("/")[0].startswith((OUT, f".{OUT}"))]
            self.touched[key] = [re.sub(rf"\.{pid}$", ".{pid}", x) for x in ours]
        return self.touched[key]

    def drawn(self, number: int) -> Planting:
        """The planting of a number."""
        rng = Random(f"{self.seed}/{number}")
        (command,) = rng.choices(list(SHARES), list(SHARES.values()))
        earlier = rng.random() < EARLIER
        names = self.names(command, earlier)
        kind = rng.choice(KINDS)
        way = rng.random()
        touch = None
        if way > 0.4:
            last = len(names)
            touch = rng.randint(1, last) if way < 0.75 else rng.randint(max(1, last - 12), last)
        where = rng.random()
        if where < 0.4:
            name = rng.choice(BESIDE)
        elif where < 0.6:
            name = f"{rng.choice((OUT, f'.{OUT}.partial'))}/{rng.choice(INSIDE)}"
        else:
            # One that will be touched: mostly soon after.
            soon = names[touch - 1 : touch + 8] if touch is not None else names
            name = rng.choice(soon)
        return Planting(command, earlier, kind, name, touch)

    def attempt(self, number: int) -> tuple[str, str, str]:
        """Plant, run, look: the command, how it ended, and what was lost."""
        planting = self.drawn(number)
        found, ended = self.tried(planting)
        ending = "fault" if found else "answered" if ended.code == 0 else "refused"
        said = " | ".join(ended.told.strip().splitlines()[-3:])[-400:]
        return (
            planting.command,
            ending,
            f"{planting}: {'; '.join(found)}\n    {ended.code}: {said!r}" if found else "",
        )

    def tried(self, planting: Planting) -> tuple[list[str], Ended]:
        """What was lost by a planting, and how the command ended."""
        world = self.renew(planting.command, planting.earlier)
        record = self.place / "planted"
        record.unlink(missing_ok=True)
        before = _all_marks(world)

        def hook() -> None:  # in the child: it knows its number
            if planting.touch is None:
                _plant(planting, world, record)
            else:
                _plant_at(planting, world, record)

        patience = WALL if self.program is None else 5.0
        line = [*COMMANDS[planting.command], "-o", OUT]
        ended = forked(line, world, hook, self.program, patience)
        found = _losses(world, before, planting, record)
        found += [f"{FAULTS[2]}: {x}" for x in _bad(ended)]
        return found, ended


def _note(noted: Path) -> None:
    """In the child: write down every touch."""
    handle = os.open(noted, os.O_WRONLY | os.O_APPEND)
    os.write(handle, f"{os.getpid()}\n".encode())
    _at_touches(lambda _, path: os.write(handle, f"{path}\n".encode()))


def _plant_at(planting: Planting, world: Path, record: Path) -> None:
    """In the child: plant just before a touch."""

    def planted(count: int, _: str) -> None:
        if count == planting.touch:
            _plant(planting, world, record)

    _at_touches(planted)


def _at_touches(seen: Callable[[int, str], object]) -> None:
    """In the child: be told of every touch of a file, by its count and its path, before it is done."""
    here, count, inside = os.getcwd(), 0, False

    def touch(event: str, arguments: tuple) -> None:
        nonlocal count, inside
        if inside:
            return
        path = None
        if event == "ctypes.dlsym":
            path = f"{here}/{OUT}" if arguments[1] in ("renameat2", "renamex_np") else None
        elif event in (*TOUCHES, "os.link", "os.symlink") and (
            event != "open" or _writes(arguments)
        ):
            path = arguments[1] if event == "os.rename" else arguments[0]
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        path = os.path.abspath(os.fsdecode(path))
        if path.startswith(f"{here}/"):
            count += 1
            inside = True
            seen(count, path)
            inside = False

    sys.addaudithook(touch)


def _plant(planting: Planting, world: Path, record: Path) -> None:
    """Put it there, where nothing is; and note its mark. What stands at the place of the result is moved away first."""
    here = world / HERE
    path = here / planting.name.replace("{pid}", str(os.getpid()))
    if path == here / OUT and os.path.lexists(path) and planting.touch is not None:
        path.rename(
            world / "moved-away"
        )  # somebody keeps it elsewhere, and puts something of theirs here
    if os.path.lexists(path) or not _parents(here, path):
        return
    victim = world / VICTIM
    with suppress(OSError):
        match planting.kind:
            case "link to file":
                path.symlink_to(victim / "thesis.txt")
            case "link to folder":
                path.symlink_to(victim)
            case "dangling link":
                path.symlink_to(victim / "nothing")
            case "loop":
                path.symlink_to(path.name)
            case "pipe":
                os.mkfifo(path)
            case "file":
                path.write_text("mine\n")
            case "folder" | "closed folder":
                path.mkdir()
                (path / "mine.txt").write_text("mine\n")
                path.chmod(0o555 if planting.kind == "closed folder" else 0o755)
            case "hard link":
                os.link(victim / "thesis.txt", path)
            case "socket":
                with socket.socket(socket.AF_UNIX) as made:
                    made.bind(os.path.relpath(path))
        record.write_text(os.path.relpath(path, world))


def _parents(here: Path, path: Path) -> bool:
    """Whether the folder of a path is there, or can be made: the one people take for a folder of ours."""
    if path.parent.is_dir() and not path.parent.is_symlink():
        return True
    if path.parent in (here / OUT, here / f".{OUT}.partial") and not os.path.lexists(path.parent):
        path.parent.mkdir()
        return True
    return False


def _all_marks(world: Path) -> dict[str, tuple]:
    """Others' files with their contents, modes and times."""
    found: dict[str, tuple] = {}
    for name, mark in marks(world / VICTIM).items():
        path = world / VICTIM / name
        content = path.read_bytes() if stat.S_ISREG(mark.mode) else b""
        found[name] = (*mark, content)
    return found


def _losses(world: Path, before: dict[str, tuple], planting: Planting, record: Path) -> list[str]:
    found = []
    after = _all_marks(world)
    changed = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    if planting.kind == "hard link":  # one more name changes no content
        changed = [n for n in changed if before.get(n, ())[:4] != after.get(n, ())[:4]]
    found += [f"{FAULTS[0]}: {VICTIM}/{name}" for name in changed]
    if record.exists():
        path = world / record.read_text()
        found += [f"{FAULTS[1]}: {x}" for x in _missing(planting, world, path)]
    return found


def _missing(planting: Planting, world: Path, path: Path) -> list[str]:
    """What is wrong with the thing that was planted: it must be there as it was, at its place or beside it."""
    name = str(path.relative_to(world / HERE))
    # The work folder may have become the result, or one beside it.
    inner = Path(*Path(name).parts[1:])
    places = [path, *(world / HERE / top / inner for top in (OUT, f"{OUT}-1", f".{OUT}.partial"))]
    if planting.kind in ("link to file", "link to folder", "dangling link", "loop"):
        # A link is no file: one at a name of a file of ours may go, what it leads to may not.
        return [] if path.is_symlink() or name not in BESIDE else ["the link is gone"]
    checks: dict[str, Callable[[Path], bool]] = {
        "pipe": lambda p: stat.S_ISFIFO(p.lstat().st_mode),
        "socket": lambda p: stat.S_ISSOCK(p.lstat().st_mode),
        "file": lambda p: p.is_file() and p.read_text(errors="replace") == "mine\n",
        "hard link": lambda p: p.is_file() and p.read_text(errors="replace") == "years of work\n",
        "folder": lambda p: (p / "mine.txt").read_text() == "mine\n",
        "closed folder": lambda p: (p / "mine.txt").read_text() == "mine\n",
    }
    for place in places:
        with suppress(OSError):
            if checks[planting.kind](place):
                return []
    if planting.kind in ("file", "hard link", "pipe", "socket") and _looks_like_ours(name):
        # A file by the very name of ours, in the very place of ours: nobody can tell. Pipes there hold nothing.
        return []
    return [f"{planting.kind} at {name} is gone or changed"]


def _looks_like_ours(name: str) -> bool:
    inner = Path(name)
    return len(inner.parts) > 1 and inner.name != "notes.txt"


def _bad(ended: Ended) -> list[str]:
    """What is wrong with an ending."""
    if ended.code is None:
        return ["hang"]
    if ended.code < 0:
        return [f"signal {signal.Signals(-ended.code).name}"]
    if ended.code not in DOCUMENTED:
        return [f"exit code {ended.code}"]
    if ended.code == 1 and not of_the_disk(ended.told):
        return ["exit code 1, and no word of the disk"]
    return [f"{word!r} was said" for word in ACCIDENTS if word in ended.told]


def _clear(world: Path) -> None:
    for folder in [p for p in world.rglob("*") if p.is_dir() and not p.is_symlink()]:
        folder.chmod(0o755)
    shutil.rmtree(world, ignore_errors=True)


# The control


def careless() -> None:
    """A command as one writes it without thinking of others: the same names, no looks, no care."""
    work, out = Path(f".{OUT}.partial"), Path(OUT)
    for old in (work, Path(f".{OUT}.old")):
        if old.is_dir():
            for inner in old.iterdir():
                shutil.rmtree(
                    inner
                ) if inner.is_dir() and not inner.is_symlink() else inner.unlink()
    work.mkdir(exist_ok=True)
    for name in ("config.json", "log.jsonl", "summary.json", "manifest.json", "attomaton.json"):
        torn = work / f".{name}.{os.getpid()}"
        handle = os.open(torn, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, 0o644)
        os.write(handle, b"{}\n")
        os.close(handle)
        torn.replace(work / name)
    shutil.rmtree(os.path.realpath(out), ignore_errors=True)
    if out.is_symlink() or out.exists():
        out.unlink()
    work.rename(out)


def _prepared(root: str, seed: int, control: bool) -> Callable[[int], tuple[str, str, str]]:
    """In a worker: everything imported, and a ground."""
    os.environ.setdefault("MPLCONFIGDIR", tempfile.mkdtemp(dir=root))
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    warnings.simplefilter("ignore")
    import_all()
    place = Path(tempfile.mkdtemp(dir=root)).resolve()
    return Ground(place, seed, careless if control else None).attempt


def run(
    count: int, seed: int, workers: int, control: bool = False
) -> tuple[dict[str, Counter[str]], list[str]]:
    """Plant so many things; how the commands ended, and what was lost."""
    counts: dict[str, Counter[str]] = {}
    findings = []
    with tempfile.TemporaryDirectory(prefix="plantings-") as root:
        try:
            for o in watched(_prepared, (root, seed, control), count, workers, 1200.0, MEMORY):
                counts.setdefault(o.subject or "-", Counter())[o.ending] += 1
                if o.ending not in ("answered", "refused"):
                    findings.append(f"planting {o.number}: {o.details or o.ending}")
                    if not control:
                        print(findings[-1], file=sys.stderr, flush=True)
        finally:
            _clear(Path(root))
            Path(root).mkdir(exist_ok=True)
    return counts, findings


def main(arguments: list[str]) -> int:
    """Plant, run, look, print the counts; 1 where something was lost, or where the control lost nothing."""
    parser = argparse.ArgumentParser(prog="python -m faults plantings", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="plantings (default 1000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--controls", type=int, default=CONTROLS, help="around the stand-in")
    parser.add_argument("--control", action="store_true", help="the careless stand-in alone")
    parser.add_argument("--replay", type=int, metavar="NUMBER", help="one planting again")
    asked = parser.parse_args(arguments)
    if asked.replay is not None:
        with tempfile.TemporaryDirectory(prefix="plantings-") as root:
            import_all()
            print(*Ground(Path(root).resolve(), asked.seed).attempt(asked.replay))
        return 0
    begin = time.monotonic()
    careless_counts, losses = run(
        asked.count if asked.control else asked.controls, asked.seed, 1, control=True
    )
    counts, findings = ({}, []) if asked.control else run(asked.count, asked.seed, asked.workers)
    endings = ("answered", "refused", "fault", "crash", "hang")
    rows = [[name, *(counts[name][e] for e in endings)] for name in sorted(counts)]
    total = sum(careless_counts.values(), Counter())
    rows.append(["control", *(total[e] for e in endings)])
    print(table(["command", *endings], rows))
    kinds = Counter(kind for x in losses for kind in FAULTS if kind in x)
    print("control: " + ", ".join(f"{kind} {n}" for kind, n in kinds.items()))
    print("\n".join(findings), end="\n" if findings else "")
    seconds = time.monotonic() - begin
    print(f"{sum(map(sum, (c.values() for c in counts.values())))} plantings, {len(findings)} faults; "
          f"seed {asked.seed}, {seconds:.0f} s")  # fmt: skip
    if not kinds[FAULTS[0]] or not kinds[FAULTS[1]]:
        print("the control lost nothing, so the zeros say nothing")
        return 1
    return 1 if findings and not asked.control else 0
