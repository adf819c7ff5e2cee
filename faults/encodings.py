"""Terminals and files that cannot show every character, and what commands do there: `python -m faults encodings`.

Every command is run with output in UTF-8 and again in narrower encodings, on data whose tokens are beyond ASCII: it
must end with the same exit code, without a traceback, and `--json` must say the same. Most run in a fork; some as real
processes in the locale C without Python's UTF-8 mode, where names of files and words of the command line are bytes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attomaton.report.text.terminal import table
from faults.cases import ROOT
from faults.commands import ACCIDENTS, tree
from faults.scratch import HERE, HOME, ODD, TEMPORARY, Ended, World, forked, import_all

WIDE = "utf-8"
NARROW = ("ascii", "cp1252", "latin-1", "utf-16")
PLAIN = "locale C"  # for real processes
LINES: tuple[tuple[str, ...], ...] = (
    ("demo", "-o", "out"),
    ("fit", "odd.jsonl", "-o", "out"),
    ("fit", "a.txt", "--context", "4", "-o", "öut→🙂"),
    ("fit", "odd.jsonl", "--estimate", "-o", "out"),
    ("fit", "🙂.jsonl", "-o", "out"),
    ("train", "odd.jsonl", "--steps", "4", "-o", "out"),
    ("train", "odd.jsonl", "--optimizer", "→", "-o", "out"),
    ("compare", "training", "--data", "a.jsonl"),
    ("compare", "training", "training", "--data", "a.jsonl", "--html", "öut.html"),
    ("compare", "→"),
    ("dimensions", "odd.jsonl", "--d", "2,3", "--draws", "1", "-o", "out"),
    ("dimensions", "odd.jsonl", "--d", "→", "-o", "out"),
    ("predict", "odd-model", *ODD),
    ("predict", "odd-model", *ODD, "--sample", "3"),
    ("predict", "predictor", "the", "→"),
    ("predict", "odd-model", "漢漢"),
    ("explain", "odd-model", *ODD),
    ("explain", "predictor", "the", "cat"),
    ("explain", "odd-model", *ODD, "--figure", "öut.svg"),
    ("predict", "odd-model", "--file", "odd.jsonl", "-o", "→.jsonl"),
    ("explain", "odd-model", "--file", "odd.jsonl", "-o", "öut.csv"),
    ("predict", "odd-model", "--file", "→.jsonl"),
    ("simulate", "odd-model", *ODD, "--steps", "20", "--trajectory"),
    ("simulate", "odd-model", *ODD, "--steps", "9", "--figure", "öut.svg"),
    ("mix", "odd-model", "hostile-model"),
    ("mix", "odd.jsonl", "odd-model", "--html", "öut.html"),
    ("bootstrap", "odd.jsonl", "--resamples", "3", "-o", "out"),
    ("bootstrap", "odd.jsonl", "--engine", "→", "-o", "out"),
    *(("graph", "odd-model", "--last", "🙂", "--format", f) for f in ("text", "json", "graphml", "dot")),
    ("graph", "odd-model", "--last", "שלום", "--format", "svg", "-o", "→.svg"),
    ("graph", "odd-model", "--last", "nobody"),
    ("coverage", "odd-model"),
    ("probe", "network", "--text", "odd.jsonl"),
    ("probe", "→", "--text", "odd.jsonl"),
    ("snap", "network", "network", "--text", "odd.jsonl"),
    ("coverage", "odd.jsonl", "--html", "öut.html"),
    ("reproduce", "scan-snap-fig8", "-o", "out"),
    ("reproduce", "→"),
    ("doctor",),
    ("dynamics", "c.toml", "--level", "reduced", "--until", "2", "-o", "out"),
    ("dynamics", "→"),
    ("sweep", "syn-small", "eta_z=1,2", "ratio=1", "until=2", "--level", "reduced", "-o", "out"),
    ("sweep", "syn-small", "→=1", "-o", "out"),
    ("tune", "a.txt", "--validate", "a.txt", "--context", "4", "--priors", "main", "--lambdas", "1", "--thetas", "1",
     "-o", "out"),
    ("tune", "a.txt", "--validate", "漢", "-o", "out"),
    ("score", "predictor", "a.txt"),
    ("score", "predictor", "a.txt", "--baselines", "→"),
    ("score", "odd-model", "odd.jsonl", "--data", "odd.jsonl"),
    ("summary", "odd-model"),
    ("summary", "odd-model", "--last", "é"),
    ("summary", "model", "--last", "→"),
    ("summary", "odd-model", "--html", "öut.html"),
    ("verify", "--only", "luce", "--data", "odd.jsonl", "-o", "out"),
    ("verify", "--only", "→"),
    ("lab", "→"),
    ("data", "inspect", "odd.jsonl"),
    ("data", "inspect", "a.csv"),
    ("data", "inspect", "latin.txt"),
    ("data", "inspect", "hostile.jsonl"),
    ("data", "synth", "-o", "öut.jsonl"),
    ("data", "classes", "odd.jsonl", "-o", "öut.toml"),
    ("data", "classes", "→", "-o", "out.toml"),
    ("runs", "ls", "."),
    ("runs", "show", "odd-model"),
    ("runs", "diff", "odd-model", "hostile-model"),
    ("diff", "odd-model", "hostile-model"),
    ("runs", "check", "."),
    ("runs", "rm", "odd-model", "--yes"),
    ("runs", "rm", "→", "--yes"),
    (),
    ("→",),
)  # fmt: skip
REAL = (
    ("predict", "odd-model", *ODD, "--json"),
    ("explain", "odd-model", *ODD),
    ("graph", "odd-model", "--last", "🙂"),
    ("fit", "odd.jsonl", "-o", "öut→🙂", "--json"),
    ("fit", "🙂.jsonl", "-o", "out"),
    ("data", "inspect", "odd.jsonl", "--json"),
    ("runs", "ls", "."),
    ("summary", "odd-model", "--html", "öut.html"),
    ("graph", "odd-model", "--last", "🙂", "--format", "svg", "-o", "→.svg"),
    ("fit", "--help"),
)


def lines() -> Iterator[tuple[str, ...]]:
    """Every line, as text and as JSON where the command knows it, and the help of every command."""
    every = tree()
    for line in LINES:
        yield line
        words = line[:2] if line[:1] in (("data",), ("runs",)) else line[:1]
        if words in every and any(p.name == "json" for p in every[words].params):
            yield (*line, "--json")
    for words in {(), ("data",), ("runs",), *every}:
        yield (*words, "--help")


def missing() -> list[str]:
    """Commands without a line of their own."""
    return [" ".join(words) for words in tree() if not any(x[: len(words)] == words for x in LINES)]


class Terminals:
    """Runs lines in one world, in several encodings."""

    def __init__(self, place: Path):
        self.world = World(place)

    def run(self, line: Sequence[str], encoding: str) -> Ended:
        """One line in one encoding; the world is as before."""
        ended = forked(line, self.world.place, encoding=encoding)
        self.world.renew()
        return ended

    def faults(self, line: Sequence[str], encodings: Sequence[str]) -> dict[str, list[str]]:
        """What is wrong with a line, by encoding."""
        wide = self.run(line, WIDE)
        found = {WIDE: _bad(wide, WIDE)}
        as_json = "--json" in line and wide.out.strip()
        # What differs between two equal runs is of the moment: seconds, say.
        twice = self.run(line, WIDE) if as_json else wide
        for encoding in encodings:
            ended = self.run(line, encoding)
            if ended == wide._replace(seconds=ended.seconds):
                found[encoding] = []  # what is for programs may be in UTF-8 everywhere
                continue
            found[encoding] = _bad(ended, encoding) + _unlike(wide, ended)
            if as_json:
                found[encoding] += _told_otherwise((wide, twice, ended), encoding)
        return found

    def real(self, line: Sequence[str]) -> list[str]:
        """What is wrong with a line as a real process in the locale C."""
        both = []
        for more in (
            {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"},
            {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        ):
            both.append(_process(line, self.world.place, more))
            self.world.renew()
        wide, plain = both
        found = _bad(plain, "ascii") + _unlike(wide, plain)
        if "--json" in line:
            found += _told_otherwise((wide, wide, plain), "ascii")
        return found


def _process(line: Sequence[str], place: Path, more: dict[str, str]) -> Ended:
    begin = time.monotonic()
    environment = {**os.environ, "HOME": str(place / HOME), "TMPDIR": str(place / TEMPORARY),
                   "PYTHONPATH": f"{ROOT}/src", **more}  # fmt: skip
    environment.pop("PYTHONIOENCODING", None)
    words = [sys.executable, "-m", "attomaton", *line]
    done = subprocess.run(words, cwd=place / HERE, env=environment, capture_output=True, check=False, timeout=300,
                          stdin=subprocess.DEVNULL)  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr, time.monotonic() - begin, 0)


def _bad(ended: Ended, encoding: str) -> list[str]:
    try:
        said = ended.out.decode(encoding) + ended.err.decode(encoding)
    except UnicodeDecodeError as error:
        return [f"output is not in {encoding}: {error}"]
    found = [f"{word!r} was said: {said[-300:]!r}" for word in ACCIDENTS if word in said]
    return found[:1] if ended.code is not None else ["hang"]


def _unlike(wide: Ended, ended: Ended) -> list[str]:
    found = [] if wide.code == ended.code else [f"exit code {ended.code}, not {wide.code}"]
    if bool(wide.out.strip()) != bool(ended.out.strip()):
        found.append("silence on stdout")
    return found


def _told_otherwise(runs: tuple[Ended, Ended, Ended], encoding: str) -> list[str]:
    """Whether JSON says something else than in UTF-8, less what two runs in UTF-8 disagree about."""
    try:
        one, two = (json.loads(x.out) for x in runs[:2])
        other = json.loads(runs[2].out.decode(encoding))
    except ValueError as error:
        return [f"JSON cannot be read: {error}"]
    return [] if _same(one, two, other) else ["JSON says something else"]


def _same(one: Any, two: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(two, dict) and isinstance(other, dict):
        keys = one.keys() & two.keys()
        return keys <= other.keys() and all(_same(one[k], two[k], other[k]) for k in keys)
    if isinstance(one, list) and isinstance(two, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, two, other))
    # Numbers that moment and machine decide are times: they differ from run to run.
    return one != two or one == other or isinstance(one, float)


def main(arguments: list[str]) -> int:
    """Run every command in every encoding, print the counts; 1 where one of them is not as in UTF-8."""
    parser = argparse.ArgumentParser(prog="python -m faults encodings", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="COMMAND", help="these commands alone")
    parser.add_argument("--encodings", nargs="+", default=NARROW)
    parser.add_argument("--no-real", action="store_true", help="forks alone, no real processes")
    asked = parser.parse_args(arguments)
    begin, counts, findings = time.monotonic(), Counter(), [f"{x}: no line" for x in missing()]
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="encodings-") as root:
        os.environ.setdefault("MPLCONFIGDIR", root)
        import_all()
        terminals = Terminals(Path(root).resolve())

        def count(line: Sequence[str], encoding: str, found: list[str]) -> None:
            counts[encoding, bool(found)] += 1
            if found:
                findings.append(f"{encoding}: attomaton {' '.join(line)}: {'; '.join(found)}")
                print(findings[-1][:400], file=sys.stderr, flush=True)

        for line in lines():
            if asked.only is None or line[:1] in [(x,) for x in asked.only]:
                for encoding, found in terminals.faults(line, asked.encodings).items():
                    count(line, encoding, found)
        if not asked.no_real:
            for line in REAL:
                if asked.only is None or line[0] in asked.only:
                    count(line, PLAIN, terminals.real(line))
    names = list(dict.fromkeys(name for name, _ in counts))
    rows = [[n, counts[n, False] + counts[n, True], counts[n, True]] for n in names]
    print(table(["encoding", "lines", "with faults"], rows))
    print("\n".join(findings), end="\n" if findings else "")
    print(
        f"{sum(counts.values()):,} lines, {len(findings)} faults, {time.monotonic() - begin:.0f} s"
    )
    return 1 if findings else 0
