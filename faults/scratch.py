"""A small world to try commands in: files and folders of every kind, what changed in it, a command in a fork.

A command is run in a child of a process that has imported everything once, so that thousands take minutes; it has
limits of its own, a session of its own, and its words go to files.
"""

import atexit
import gc
import os
import resource
import shutil
import signal
import socket
import stat
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from faults.processes import session_of

HERE = "here"  # the folder commands run in; what lies beside it is nobody's business
VICTIM = "victim"  # somebody else's files, which links lead to
HOME, TEMPORARY = "home", "tmp"
ODD = (
    "→",
    "é",
    "漢",
    "🙂",
    "שלום",
    "ﷺ",
    "ß",
)  # tokens beyond ASCII; two are written from right to left
HOSTILE = ("\x1b[31mred", "a\rb", "\x07", "\u202eevil", "\x9b2J", "n\nl", "t\tb", "\u2066x")
CPU = 20  # seconds of computing after which a command counts as hanging
WALL = 150.0  # and of waiting, on a busy machine


class Ended(NamedTuple):
    """How a command ended: its exit code, or minus the signal that ended it; None where it hung."""

    code: int | None
    out: bytes
    err: bytes
    seconds: float
    left: int  # processes that outlived it

    @property
    def told(self) -> str:
        """What it said to a person."""
        return self.err.decode("utf-8", "replace")


class Mark(NamedTuple):
    """What is known of a file from outside; a changed one has another mark."""

    mode: int
    size: int
    modified: int
    inode: int
    target: str


def stock(place: Path) -> None:
    """Fill a folder with data, models and runs of every kind, and with what people leave lying about."""
    import json

    from attomaton.disk.ledger import asked_as
    from faults import seeds

    here, victim = place / HERE, place / VICTIM
    for folder in (here, victim, place / HOME, place / TEMPORARY):
        folder.mkdir(parents=True)
    (victim / "deep").mkdir()
    for name in ("thesis.txt", "deep/data.csv"):
        (victim / name).write_text("years of work\n")
    with asked_as(["attomaton", "faults"]):
        for fill in (seeds.model, seeds.predictor, seeds.sweep, seeds.classes, seeds.text):
            fill(here)
        for name, fill in (("coupled", seeds.coupled), ("training", seeds.training), ("dyn", seeds.dynamics),
                           ("verification", seeds.verification), ("published", seeds.published)):  # fmt: skip
            work = place / TEMPORARY / name
            work.mkdir()
            fill(work)
            (found,) = (p for p in work.iterdir() if p.is_dir())
            found.rename(here / name)
            shutil.rmtree(work)
        seeds.rows(here)
        for suffix in (".csv", ".tsv", ".parquet"):
            seeds.events(suffix)(here)
        seeds.tokenizer(here)
        seeds.matrix(here)
        for name, words in (("odd", ODD), ("hostile", HOSTILE)):
            rows = [{"tokens": [*words[i:], *words[:i]], "next": words[i // 2]} for i in range(7)]
            (here / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
            _fit(here / f"{name}.jsonl", here / f"{name}-model")
        seeds.network(here, ODD)
    lines = [{"tokens": [i % 4, (i + 1) % 4, (i * i) % 4], "next": i % 4} for i in range(9)]
    (here / "ids.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (here / "empty.txt").touch()
    (here / "bom.txt").write_bytes(b"\xef\xbb\xbfthe cat the cat the dog the cat\r\nthe cat\r\n")
    (here / "latin.txt").write_bytes("café crème café crème\n".encode("latin-1") * 3)
    (here / "noise.bin").write_bytes(bytes(range(256)) * 4)
    (here / "broken.jsonl").write_text('{"tokens": ["a", "b"], "next": "a"}\n{"tokens": ["a"\n')
    (here / "foreign").mkdir()
    (here / "foreign" / "notes.txt").write_text("mine\n")
    (here / "mine.txt").write_text("mine\n")
    (here / "void").mkdir()
    part = here / ".broken.partial"
    part.mkdir()
    (part / "config.json").write_text('{"data": "a.jsonl"}\n')
    os.mkfifo(here / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        before = Path.cwd()
        os.chdir(here)  # names of sockets are short
        made.bind("socket")
        os.chdir(before)
    for name, to in (("to-model", "model"), ("to-foreign", f"../{VICTIM}"), ("to-file", f"../{VICTIM}/thesis.txt"),
                     ("dangling", f"../{VICTIM}/nothing"), ("loop", "loop"), ("zero", "/dev/zero")):  # fmt: skip
        (here / name).symlink_to(to)


def _fit(data: Path, out: Path) -> None:
    from attomaton.jobs.fit import fit_run

    fit_run(data, out)


def marks(place: Path) -> dict[str, Mark]:
    """Every entry below a folder, links not followed."""
    found = {}
    work = [str(place)]
    while work:
        folder = work.pop()
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    s = entry.stat(follow_symlinks=False)
                    found[os.path.relpath(entry.path, place)] = _mark(entry.path, s)
                    if stat.S_ISDIR(s.st_mode):
                        work.append(entry.path)
    return found


def _mark(path: str, s: os.stat_result) -> Mark:
    if stat.S_ISDIR(s.st_mode):  # its names are looked at one by one
        return Mark(s.st_mode, 0, 0, s.st_ino, "")
    target = os.readlink(path) if stat.S_ISLNK(s.st_mode) else ""
    return Mark(s.st_mode, s.st_size, s.st_mtime_ns, s.st_ino, target)


class World:
    """A stocked folder that can be put back as it was."""

    def __init__(self, place: Path):
        self.master, self.place = place / "master", place / "world"
        stock(self.master)
        self.renew()

    def renew(self) -> None:
        """Put everything back."""
        shutil.rmtree(self.place, ignore_errors=True)
        _copy(self.master, self.place)
        self.before = marks(self.place)

    def changes(self) -> dict[str, str]:
        """What is new, gone or changed since, by path."""
        now = marks(self.place)
        found = {name: "new" for name in now.keys() - self.before.keys()}
        found |= {name: "gone" for name in self.before.keys() - now.keys()}
        both = self.before.keys() & now.keys()
        return found | {name: "changed" for name in both if self.before[name] != now[name]}


def _copy(a: Path, b: Path) -> None:
    """A tree with its links, pipes and sockets."""
    b.mkdir()
    with os.scandir(a) as entries:
        for entry in entries:
            to, mode = b / entry.name, entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                _copy(Path(entry.path), to)
            elif stat.S_ISLNK(mode):
                to.symlink_to(os.readlink(entry.path))
            elif stat.S_ISREG(mode):
                shutil.copy2(entry.path, to)  # with its times: lists are sorted by them
            else:
                os.mknod(to, stat.S_IMODE(mode) | stat.S_IFMT(mode))
    shutil.copystat(a, b)


def import_all() -> None:
    """All modules a command may need, so that a fork has them."""
    from importlib import import_module

    import attomaton.cli.main

    root = Path(attomaton.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if "lab" in path.relative_to(root).parts or path.stem == "__main__":
            continue
        parts = path.relative_to(root).with_suffix("").parts
        import_module(".".join(("attomaton", *(p for p in parts if p != "__init__"))))
    for name in (
        "matplotlib.figure",
        "pyarrow.parquet",
        "pyarrow.csv",
        "tokenizers",
        "rich.progress",
    ):
        with suppress(ImportError):
            import_module(name)
    gc.collect()
    gc.freeze()  # what no fork has to look through, and so to copy


def forked(
    words: Sequence[str],
    place: Path,
    before: Callable[[], object] | None = None,
    program: Callable[[], object] | None = None,
    wall: float = WALL,
    encoding: str = "utf-8",
    here: Path | None = None,
) -> Ended:
    """Run one command line in a child of this process, in the world at `place`.

    `before` is called in the child first; `program` takes the place of attomaton; `encoding` is that of its output;
    `here` is the folder to run in.
    """
    begin = time.monotonic()
    told = [place.with_name(f"{place.name}.{name}") for name in ("out", "err")]
    child = os.fork()
    if child == 0:
        _be(words, place, told, before, program, encoding, here or place / HERE)
    status = _waited(child, begin + wall)
    left = [p for p in session_of(child)]
    for process in left:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    if status is None:
        os.waitpid(child, 0)
        code = None
    else:
        code = os.waitstatus_to_exitcode(status)
        code = None if code == -signal.SIGXCPU else code
    out, err = (path.read_bytes() for path in told)
    return Ended(code, out, err, time.monotonic() - begin, len(left) if status is not None else 0)


def _waited(child: int, until: float) -> int | None:
    """The status of a child when it has ended, None where it does not in time."""
    pause = 0.0005
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return None


def _be(
    words: Sequence[str],
    place: Path,
    told: Sequence[Path],
    before: Callable[[], object] | None,
    program: Callable[[], object] | None,
    encoding: str,
    here: Path,
) -> None:
    """In the child: become the command. Never returns."""
    code: object = 70
    atexit._clear()  # what the parent is to do at its end
    try:
        os.setsid()
        os.chdir(here)
        for number, name in ((0, os.devnull), (1, told[0]), (2, told[1])):
            flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            handle = os.open(name, flags, 0o644)
            os.dup2(handle, number)
            os.close(handle)
        os.environ.update(HOME=str(place / HOME), TMPDIR=str(place / TEMPORARY))
        tempfile.tempdir = None
        resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding=encoding, closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, encoding, "backslashreplace", closefd=False)
        from attomaton.cli import main as cli

        sys.argv = ["attomaton", *words]
        if before is not None:
            before()
        (program or cli.main)()
        code = 0
    except SystemExit as left:
        code = left.code
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        with suppress(Exception):
            atexit._run_exitfuncs()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)
