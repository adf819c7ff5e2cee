"""Command lines nobody would type, and many that somebody might: `python -m faults commands`.

Commands, arguments and options are read from the command line's own tree, so a new option is tried by itself. Each gets
values that make sense, values at the edge, values of another kind, or none. A line runs in a fork of a process that has
imported everything, in a small world of data, models and what people leave lying about; a share runs as a real process
too. A finding is an exit code that is not documented, a traceback, an internal error, a crash, a hang, raw control
characters, output that is not what `--json` promises, or a file changed that the line did not name for writing. A line
is made from the seed and its number alone: `--replay NUMBER` runs it again and shows what it says.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from attomaton.report.text.terminal import table
from faults.cases import ROOT
from faults.scratch import HERE, HOME, HOSTILE, ODD, TEMPORARY, Ended, World, forked, import_all
from faults.watch import watched

DOCUMENTED = (0, 1, 2, 3, 4, 5, 6, 130)
MEMORY = 8 << 30  # bytes of address space of a command
REAL = 0.04  # of all lines run as real processes too
MUCH = 20_000  # characters of an error that nobody reads
SHOWN = 40
TRIES = 24  # to make a finding shorter
# Terminals act upon these; a line ends with \n and columns are set with \t.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
ACCIDENTS = ("Traceback (most recent call last)", "InternalError", "fault of attomaton")

DATA = (
    "a.jsonl",
    "a.txt",
    "a.csv",
    "a.tsv",
    "a.parquet",
    "odd.jsonl",
    "hostile.jsonl",
    "ids.jsonl",
    "bom.txt",
)
FOLDERS = ("model", "predictor", "sweep", "coupled", "training", "dyn", "verification", "published", "odd-model",
           "hostile-model")  # fmt: skip
# There, but not what is asked for; or not there.
WRONG = ("empty.txt", "latin.txt", "noise.bin", "broken.jsonl", "foreign", "void", "mine.txt", "pipe", "socket",
         "to-model", "to-foreign", "to-file", "dangling", "loop", "zero", "nothing", "nothing/below", "mine.txt/below",
         "", ".", "..", "-", "--", "~", "x" * 300, "a\nb", "\x1b[2J", "🙂", "\udcff", ".broken.partial", "model/pairs",
         "model/model.json", "words.json", "E.npy", "c.toml", "wikitext-2:nothing", "*")  # fmt: skip
PLACES = (
    "out",
    "out",
    "out",
    "deep/er/out",
    "out.svg",
    "out.png",
    "out.html",
    "out.jsonl",
    "out.dot",
    "out.csv",
)
OCCUPIED = (*FOLDERS, *DATA, *WRONG)
TOKENS = ("the", "cat", "tea", "cup", "pot", "milk", "jug", "7", "0", "1", *ODD, *HOSTILE)
INTEGERS = ("1", "2", "3", "5")
NUMBERS = ("0.5", "1", "2", "0.1")
EDGES = ("0", "-1", "-0", "1e400", "-1e400", "nan", "inf", "-inf", "1e-400", "9223372036854775808", "9" * 400, "1.5",
         "1e3", "", " ", "three", "٣", "1_000", "0x10", "+2", "--", "-h", "null", "\x00x", "½")  # fmt: skip
TEXTS = ("", " ", "nonsense", "all", ",", ",,", "a,b", "=", "a=b", "\x1b]0;t\x07", "🙂", "\udcff", "'", '"', "%s", "{}",
         "\u202e", "$(id)", "-o", "--json")  # fmt: skip
# What makes sense, by the name of the argument or option; others are drawn by their type.
SENSIBLE: dict[str, tuple[str, ...]] = {
    "data": DATA, "file": DATA, "validate": DATA, "model": (*FOLDERS[:2], "network"), "text": DATA,
    "checkpoints": ("network", "model"),
    "limit": ("model", "odd-model"),
    "tokens": TOKENS, "last": TOKENS, "folder": FOLDERS, "folders": (*FOLDERS, ".broken.partial"),
    "roots": (".", "model"), "runs": ("training",), "source": (*DATA, "model"),
    "a": FOLDERS, "b": FOLDERS, "what": (*DATA, *FOLDERS), "embeddings": ("E.npy", "F.npy"),
    "init": ("zeros", "uniform", "E.npy"), "optimizer": ("gd", "ngd", "polyak", "sgd", "adam", "momentum"),
    "every": ("1", "2", "log"), "head": ("identity", "tied", "general"),
    "loss": ("log", "squared", "cross-entropy", "squared-score", "logistic-score"),
    "split": ("stream", "lines", "paragraphs", "articles"), "tokenizer": ("words", "lower", "chars", "words.json"),
    "engine": ("local", "processes"), "sequence": ("user", "session"), "item": ("item",), "order": ("time",),
    "format": ("text", "json", "graphml", "dot", "svg", "png"), "figure": ("out.svg", "out.png"),
    "html": ("out.html",), "classes": ("syn-small", "c.toml", "syn-small,c.toml"),
    "grid": ("eta_z=0.5,1", "ratio=1,2", "until=3", "seeds=2", "steps=3", "mixing=inverse,weak", "T=8", "batch=4"),
    "level": ("limit", "reduced", "limit,reduced", "sampled"), "start": ("zero", "uniform"),
    "mixing": ("inverse", "weak", "memory"), "kind": ("general", "acyclic", "planted", "sessions", "model", "run"),
    "state": ("finished", "interrupted"), "preset": ("scan-snap-fig8", "scan-snap-fig9"),
    "settings": ("seeds=2", "K=6"), "more": ("K=6",),
    "only": ("luce", "S1", "S1,luce"),
    "baselines": ("cache", "kneser-ney,mixture"),
    "priors": ("zero", "main", "main+bigram", "zero,main"), "lambdas": ("1", "0.5,1"), "thetas": ("1", "0,1"),
    "document": ("1", "0", "Tea"), "until": ("1", "3"), "radius": ("1", "inf", "0"), "max_df": ("0.5", "1"),
    "port": ("0",), "host": ("127.0.0.1", "localhost"), "workspace": ("out",),
}  # fmt: skip
WRITES = ("out", "figure", "html", "workspace")  # names of options that say where to write
# What keeps a command short, where it is not drawn anyway.
SHORT = {
    "train": ("--steps", "6"), "verify": ("--only", "luce"), "reproduce": ("--quick",), "dynamics": ("--until", "2"),
    "lab": ("--no-browser",), "sweep": ("--level", "reduced"),
}  # fmt: skip
# So many that they take minutes, or nothing at all to do with us: left out of what is drawn.
LONG = {"--all", "--full"}
SLOW = {
    "train": 0.4,
    "verify": 0.3,
    "reproduce": 0.2,
    "demo": 0.05,
    "doctor": 0.1,
    "lab": 0.3,
    "tune": 0.7,
}


class Piece(NamedTuple):
    """One argument or option as it stands on a line, and the name it has in the tree."""

    name: str
    words: tuple[str, ...]


class Line(NamedTuple):
    """A command line."""

    command: tuple[str, ...]
    pieces: tuple[Piece, ...]

    @property
    def words(self) -> list[str]:
        return [*self.command, *(w for piece in self.pieces for w in piece.words)]

    @property
    def shown(self) -> str:
        """As one would type it; long words cut."""
        short = [w if len(w) < 500 else f"{w[:20]}… {len(w):,} characters" for w in self.words]
        return "attomaton " + " ".join(
            f"$'{w.encode('unicode_escape').decode()}'" if CONTROL.search(w) or not w.isprintable() else shlex.quote(w)
            for w in short
        )  # fmt: skip

    @property
    def writes(self) -> list[str]:
        """The places it names for writing; an option without its value takes the word behind it."""
        behind = [*(p.words[0] for p in self.pieces[1:]), ""]
        return [
            p.words[-1] if len(p.words) > 1 else word
            for p, word in zip(self.pieces, behind, strict=False)
            if p.name in WRITES
        ]


@cache
def tree() -> dict[tuple[str, ...], Any]:
    """Every command, by its words."""
    import typer

    from attomaton.cli.main import app

    return dict(_commands(typer.main.get_command(app), ()))


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, inner in command.commands.items():
        yield from _commands(inner, (*words, name))


def drawn(number: int, seed: int) -> Line:
    """The line of a number."""
    rng = Random(f"{seed}/{number}")
    every = tree()
    weights = [SLOW.get(words[0], 1.0) for words in every]
    (words,) = rng.choices(list(every), weights)
    if rng.random() < 0.02:  # a command that is none, or a group without one
        return Line(
            rng.choice([(), ("fitt",), words[:1], ("runs", "lss"), ("",), ("--",), ("🙂",)]), ()
        )
    wild = rng.random() < 0.5  # the others make sense but for a word or two
    pieces = []
    for p in every[words].params:
        pieces += _pieces(rng, p, wild)
    short = SHORT.get(words[0], ())
    if short and not any(short[0] in p.words for p in pieces):
        pieces.append(Piece(short[0].strip("-"), short))
    if rng.random() < 0.05:
        pieces.append(Piece("extra", (rng.choice([*TEXTS, "--nonsense", "--out", "-x"]),)))
    if rng.random() < 0.03:
        rng.shuffle(pieces)
    return Line(words, tuple(pieces))


def _pieces(rng: Random, p: Any, wild: bool) -> list[Piece]:
    """An argument or option as it may stand on a line, or not at all."""
    argument = p.param_type_name == "argument"
    often = 0.5 if argument else 0.3 if p.name in ("json", "out") else 0.2 if wild else 0.06
    if p.required:
        often = 0.96 if wild else 1.0
    if p.name == "help":
        often = 0.01
    if rng.random() > often:
        return []
    flags = [o for o in (*p.opts, *p.secondary_opts) if o not in LONG]
    if not flags:
        return []
    option = rng.choice(flags)
    if argument:
        count = rng.choice((1, 1, 2, 3)) if p.nargs == -1 else 1
        return [Piece(p.name, (_value(rng, p, wild),)) for _ in range(count)]
    if p.is_flag:
        return [Piece(p.name, (option,))]
    if rng.random() < 0.01:
        return [Piece(p.name, (option,))]  # its value is missing
    return [Piece(p.name, (option, _value(rng, p, wild)))]


def _value(rng: Random, p: Any, wild: bool) -> str:
    """A value for an argument or an option: one that makes sense more often than not."""
    kind, odds = _kind(p), rng.random() * (1.0 if wild else 0.76)
    if p.name in WRITES:
        if odds < 0.7:
            return rng.choice(SENSIBLE.get(p.name, PLACES)) if odds < 0.3 else rng.choice(PLACES)
        return rng.choice(OCCUPIED)
    if odds < 0.72:
        fallback = {"int": INTEGERS, "float": NUMBERS, "path": DATA}.get(kind, TEXTS)
        return rng.choice(SENSIBLE.get(p.name, fallback))
    if odds < 0.95:
        return rng.choice(
            {"int": EDGES, "float": EDGES, "path": OCCUPIED}.get(kind, (*TEXTS, *EDGES))
        )
    if odds < 0.955:
        return rng.choice(("x", "9", "é")) * 10_000_000
    return rng.choice((*EDGES, *TEXTS, *OCCUPIED))


def _kind(p: Any) -> str:
    """What kind of value is asked for."""
    told = str(getattr(p, "type_descriptor", None) or getattr(p, "type", "")).lower()
    found = (
        name
        for name in ("path", "int", "float")
        if re.search(rf"\b{name}|{name}(param|range)", told)
    )
    return next(found, "str")


def faults_of(line: Line, ended: Ended, changes: dict[str, str]) -> list[str]:
    """What is wrong with how a line ended; the first word of each says which kind of fault."""
    found = []
    told, words = ended.told, line.words
    if ended.code is None:
        return ["hang"]
    if ended.code < 0:
        found.append(f"crash by signal {-ended.code}")
    elif ended.code not in DOCUMENTED:
        found.append(f"exit code {ended.code}")
    if ended.code == 1 and not of_the_disk(told) and words[:1] != ["doctor"]:
        found.append("exit code 1, and no word of the disk")
    found += [
        f"{word!r} was said" for word in ACCIDENTS if word in told or word.encode() in ended.out
    ]
    for name, raw in (("stdout", ended.out), ("stderr", ended.err)):
        try:
            if hit := CONTROL.search(raw.decode("utf-8")):
                found.append(f"control character {hit[0]!r} on {name}")
        except UnicodeDecodeError:
            found.append(f"bytes that are no UTF-8 on {name}")
    if len(told) > MUCH:
        found.append(f"flood of {len(told):,} characters on stderr")
    if ended.code and not told.strip() and not ended.out.strip():
        found.append(f"silence with exit code {ended.code}")
    if ended.left:
        found.append(f"processes left over: {ended.left}")
    if _asks_for_json(line) and ended.out.strip() and not _one_object(ended.out):
        found.append("no JSON on stdout")
    found += [
        f"file {name} was {how}" for name, how in sorted(_unasked(line, ended, changes).items())[:3]
    ]
    return found


def of_the_disk(told: str) -> bool:
    """Whether it says that something could not be written."""
    from attomaton.errors import StorageError

    kinds, names = [StorageError], set()
    while kinds:
        names.add((kind := kinds.pop()).__name__)
        kinds += kind.__subclasses__()
    return any(f"{name}: " in told for name in names)


def _asks_for_json(line: Line) -> bool:
    """Whether a line says `--json`, and no word before may have taken it for its value."""
    before = ["", *(p.words[-1] for p in line.pieces)]
    words = [w for p in line.pieces if p.name != "json" for w in p.words]
    return not {"--", "--help", "--json"} & set(words) and any(
        p.name == "json" and not word.startswith("-")
        for p, word in zip(line.pieces, before, strict=False)
    )


def _one_object(raw: bytes) -> bool:
    try:
        return isinstance(json.loads(raw), dict)
    except ValueError:
        return False


def _unasked(line: Line, ended: Ended, changes: dict[str, str]) -> dict[str, str]:
    """The changes a line did not ask for."""
    fine = ended.code == 0 or (ended.code in (4, 5, 6, 130))
    allowed = [f"{HERE}/runs", f"{HOME}/.cache"]  # what JAX compiled is kept for the next command
    if line.command == ("lab",):  # the key of its user, which outlives it
        allowed.append(f"{HOME}/.local")
    words = [p.words[-1] for p in line.pieces if p.name not in WRITES]
    read = {os.path.normpath(w) for w in words if not w.startswith("-")}
    for place in line.writes:
        path = os.path.normpath(f"{HERE}/{place}") if place else HERE
        inside = path.startswith(f"{HERE}/")
        if inside and os.path.normpath(place) not in read:
            allowed.append(path)
            if not fine or "sweep" in line.command:  # what is done is kept there to go on with
                allowed.append(f"{os.path.dirname(path)}/.{os.path.basename(path)}.partial")
            allowed += [str(p) for p in Path(path).parents if str(p).startswith(f"{HERE}/")]
    removed = line.command == ("runs", "rm")

    def mine(name: str, how: str) -> bool:
        top = name.split("/")[1] if "/" in name else ""
        if how == "new":
            return any(name == a or name.startswith(f"{a}/") for a in allowed)
        if removed and how == "gone":
            return top in FOLDERS or top == ".broken.partial"
        if not any(name == a or name.startswith(f"{a}/") for a in allowed) or not fine:
            return False
        return _replaceable(line, top)

    return {name: how for name, how in changes.items() if not mine(name, how)}


def _replaceable(line: Line, top: str) -> bool:
    """Whether a line may replace what is there under a name: a folder of ours, an empty one, a file by a file."""
    single = line.command in (("graph",), ("data", "synth")) or any(
        p.name in ("figure", "html") for p in line.pieces
    )
    return top in FOLDERS or top == "void" or single


class Lines:
    """Runs lines, one after the other, in one world."""

    def __init__(self, place: Path, seed: int):
        self.world, self.seed = World(place), seed

    def attempt(self, number: int) -> tuple[str, str, str]:
        """Run the line of a number: its command, how it ended, and what was wrong."""
        line = drawn(number, self.seed)
        found, ended = self.tried(line)
        if found:
            line = self.shortened(line, _kinds(found))
        elif Random(f"real/{self.seed}/{number}").random() < REAL:
            ended = real(line, self.world.place)
            found = faults_of(line, ended, self.world.changes())
            found = [f"as a process: {x}" for x in found]
            self.world.renew()
        name = " ".join(
            line.command[:2] if line.command[:1] in (("data",), ("runs",)) else line.command[:1]
        )
        if not found:
            return name or "-", "answered" if ended.code == 0 else "refused", ""
        said = ended.told.strip().splitlines()[-3:]
        return (
            name or "-",
            "finding",
            f"{'; '.join(found)}\n    {line.shown}\n    {' | '.join(said)[-400:]!r}",
        )

    def tried(self, line: Line) -> tuple[list[str], Ended]:
        """What is wrong with a line, and how it ended; the world is as before."""
        ended = forked(line.words, self.world.place, before=_no_server)
        changes = self.world.changes()
        if changes:
            self.world.renew()
        return faults_of(line, ended, changes), ended

    def shortened(self, line: Line, kinds: set[str]) -> Line:
        """The line with as few pieces as still show the same kind of fault."""
        if "hang" in kinds:
            return line
        i, tries = 0, 0
        while i < len(line.pieces) and tries < TRIES:
            less = line._replace(pieces=line.pieces[:i] + line.pieces[i + 1 :])
            tries += 1
            if _kinds(self.tried(less)[0]) >= kinds:
                line = less
            else:
                i += 1
        return line


def _kinds(found: Sequence[str]) -> set[str]:
    return {x.split()[0] for x in found}


def _no_server() -> None:
    """In the child: the lab starts all but its server."""
    if sys.argv[1:2] == ["lab"]:
        from nicegui import ui

        ui.run = lambda *_, **__: None


def real(line: Line, place: Path) -> Ended:
    """Run a line as a process of its own; what cannot be an argument of one is left out."""
    words = [w.replace("\0", "")[:100_000] for w in line.words]
    if words[:1] == ["lab"]:
        words = ["lab", "--help"]
    begin = time.monotonic()
    environment = {**os.environ, "HOME": str(place / HOME), "TMPDIR": str(place / TEMPORARY),
                   "PYTHONPATH": f"{ROOT}/src", "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "attomaton", *words], cwd=place / HERE, env=environment, capture_output=True,
        stdin=subprocess.DEVNULL, check=False, timeout=300,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr, time.monotonic() - begin, 0)


def _prepared(root: str, seed: int) -> Callable[[int], tuple[str, str, str]]:
    """In a worker: everything imported and a world at hand."""
    os.environ.setdefault("MPLCONFIGDIR", tempfile.mkdtemp(dir=root))
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    warnings.simplefilter("ignore")
    import_all()
    return Lines(Path(tempfile.mkdtemp(dir=root)).resolve(), seed).attempt


def run(
    count: int, seed: int, workers: int, first: int = 0
) -> tuple[dict[str, Counter[str]], list[str]]:
    """Try so many lines; how they ended, by command, and the findings."""
    counts: dict[str, Counter[str]] = {}
    findings = []
    with tempfile.TemporaryDirectory(prefix="commands-") as root:
        every = watched(
            _prepared,
            (root, seed),
            first + count,
            workers,
            patience=1200.0,
            memory=MEMORY,
            first=first,
        )
        for done, outcome in enumerate(every, 1):
            if done % 250 == 0:
                print(f"{done:,} of {count:,}", file=sys.stderr, flush=True)
            counts.setdefault(outcome.subject or "-", Counter())[outcome.ending] += 1
            if outcome.ending not in ("answered", "refused"):
                findings.append(f"line {outcome.number}: {outcome.ending}: {outcome.details}")
                print(findings[-1], file=sys.stderr, flush=True)
    return counts, findings


def main(arguments: list[str]) -> int:
    """Run lines, print the counts; 1 where there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m faults commands", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="lines (default 5000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first line")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--replay", type=int, metavar="NUMBER", help="run one line again")
    asked = parser.parse_args(arguments)
    if asked.replay is not None:
        return _replay(asked.replay, asked.seed)
    begin = time.monotonic()
    counts, findings = run(asked.count, asked.seed, asked.workers, asked.first)
    endings = ("answered", "refused", "finding", "crash", "hang")
    rows = [[name, *(counts[name][e] for e in endings)] for name in sorted(counts)]
    total = sum(counts.values(), Counter())
    print(table(["command", *endings], [*rows, ["all", *(total[e] for e in endings)]]))
    print("\n".join(findings[:SHOWN]), end="\n" if findings else "")
    seconds = time.monotonic() - begin
    print(f"{asked.count:,} lines, {len(findings)} findings; seed {asked.seed}, {seconds:.0f} s")
    return 1 if findings else 0


def _replay(number: int, seed: int) -> int:
    """One line again, in this process's world; what it says is shown."""
    with tempfile.TemporaryDirectory(prefix="commands-") as root:
        import_all()
        lines, line = Lines(Path(root).resolve(), seed), drawn(number, seed)
        print(line.shown)
        found, ended = lines.tried(line)
        print(f"exit code {ended.code}, {ended.seconds:.2f} s, found: {found}")
        print(ended.out.decode("utf-8", "backslashreplace")[-3000:])
        print(ended.told[-3000:])
    return 1 if found else 0
