"""Broken and hostile input: valid files of every kind, damaged, read in processes that are watched.

`python -m faults inputs` counts how each reader took its share. An input is *accepted* (and what came of it worked),
or *refused* by an error of ours; everything else is a finding: a foreign error, a crash, a hang. An input is made from
the seed and its number alone, so `--replay NUMBER` makes it again and shows the traceback.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from attomaton.disk.manifest import MANIFEST
from attomaton.disk.storage import seal
from faults.mutations import mutated
from faults.watch import PATIENCE, Job, watched

READERS = "faults.readers"  # the module whose `READERS` are tried
ENDINGS = ("accepted", "refused", "foreign", "crash", "hang")
FINDINGS = ENDINGS[2:]
SHOWN = 20  # findings told one by one
RESEALED = 0.9  # of all damaged files are damaged by someone who mends the manifest too: it is no seal against malice
# What our own files say of the moment and the place they were made at.
_FLEETING = re.compile(rb'("(?:seconds|peak_memory_mb|total|time)": )("[^"]*"|[-+.e0-9]+)')


class Reader(NamedTuple):
    """One way in: how to make a valid folder, what reads it, and its share of all inputs."""

    seed: Callable[[Path], None]
    read: Callable[[Path, Random], object]
    share: float


def run(
    inputs: int, seed: int, workers: int, readers: str = READERS, patience: float = PATIENCE
) -> dict[str, Any]:
    """Try so many inputs; counts by reader and ending, and every finding with its number."""
    begin = time.perf_counter()
    counts: dict[str, Counter[str]] = {}
    findings = []
    with tempfile.TemporaryDirectory(prefix="attomaton-faults-") as root:
        told = watched(_prepared, (root, seed, readers), inputs, workers, patience)
        for done, outcome in enumerate(told, 1):
            subject = outcome.subject or _reader_of(outcome.number, seed, readers)[0]
            counts.setdefault(subject, Counter())[outcome.ending] += 1
            if outcome.ending in FINDINGS:
                findings.append(outcome._replace(subject=subject)._asdict())
            if done % 500 == 0 and sys.stderr.isatty():
                print(
                    f"\r{done:,} of {inputs:,}, {len(findings)} findings", end="", file=sys.stderr
                )
    return {
        "inputs": inputs,
        "seed": seed,
        "counts": {name: {e: counts[name][e] for e in ENDINGS} for name in sorted(counts)},
        "findings": findings,
        "seconds": time.perf_counter() - begin,
    }


def make_seeds(root: Path, readers: str = READERS) -> None:
    """A folder of valid files for every reader, the same bytes wherever and whenever they are made."""
    from attomaton.disk.ledger import asked_as

    with asked_as(["attomaton", "faults"]):
        for name, reader in import_module(readers).READERS.items():
            (root / name).mkdir(parents=True)
            reader.seed(root / name)
    for path in root.rglob("*.*"):
        if path.suffix in (".json", ".jsonl", ".toml", ".txt") and path.is_file():
            content = path.read_bytes().replace(str(root).encode(), b"/seeds")
            path.write_bytes(_FLEETING.sub(rb"\g<1>1.5", content))
    for manifest in root.rglob(MANIFEST):
        seal(manifest.parent)


def _reader_of(number: int, seed: int, readers: str) -> tuple[str, Random]:
    """The reader an input is for, and the generator that makes the rest of it."""
    shares = {name: reader.share for name, reader in import_module(readers).READERS.items()}
    rng = Random(f"{seed}/{number}")
    (name,) = rng.choices(list(shares), list(shares.values()))
    return name, rng


class Damaged:
    """The seeds, one file of which is damaged at a time."""

    def __init__(self, root: Path, seed: int, readers: str):
        self.root, self.seed, self.readers = root, seed, readers
        self.files: dict[str, dict[str, bytes]] = {}
        self.kinds: dict[str, list[bytes]] = {}
        make_seeds(root, readers)
        for folder in sorted(root.iterdir()):
            whole = sorted(p for p in folder.rglob("*") if p.is_file())
            self.files[folder.name] = {str(p.relative_to(folder)): p.read_bytes() for p in whole}
            for path in whole:
                self.kinds.setdefault(path.suffix, []).append(path.read_bytes())

    @contextmanager
    def input(self, number: int) -> Iterator[tuple[str, str, Path, Random]]:
        """One input: its reader, the file that is damaged, the folder to read, and the generator for the rest."""
        reader, rng = _reader_of(number, self.seed, self.readers)
        files = self.files[reader]
        name = rng.choice(list(files))
        content = mutated(rng, name, files[name], self.kinds[Path(name).suffix])
        self._put(reader, name, content)
        listed = self._list_anew(reader, name) if rng.random() < RESEALED else None
        try:
            yield reader, name, self.root / reader, rng
        finally:
            for changed in (name, listed):
                if changed is not None:
                    self._put(reader, changed, files[changed])

    def _list_anew(self, reader: str, name: str) -> str | None:
        """Let the manifest of the folder a file lies in say what is there now; the name of the manifest, if any."""
        folder = next(
            (p for p in (self.root / reader / name).parents if (p / MANIFEST).is_file()), None
        )
        if folder is None or Path(name).name == MANIFEST:
            return None
        seal(folder)
        return str((folder / MANIFEST).relative_to(self.root / reader))

    def _put(self, reader: str, name: str, content: bytes | None) -> None:
        # A new file each time: the old one may still be mapped into memory.
        path = self.root / reader / name
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)

    def attempt(self, number: int) -> tuple[str, str, str]:
        """Make one input and read it: the reader, how it ended, and where an error was not ours."""
        from attomaton.errors import AttomatonError

        with self.input(number) as (reader, name, folder, rng):
            try:
                import_module(self.readers).READERS[reader].read(folder, rng)
                return reader, "accepted", ""
            except KeyboardInterrupt:
                raise
            except AttomatonError as error:
                # An error without words, or with words that no terminal can show, helps nobody.
                said = str(error).encode("utf-8", "replace").decode()
                fine = said.strip() and said == str(error)
                return reader, *(("refused", "") if fine else ("foreign", f"{name}: bad message"))
            except BaseException as error:  # whatever it is, it is not ours
                return reader, "foreign", f"{name}: {_place(error)}"


def _prepared(root: str, seed: int, readers: str) -> Job:
    """In a worker: all imports done and the seeds at hand; returns what tries one number."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    warnings.simplefilter("ignore")
    return Damaged(Path(tempfile.mkdtemp(dir=root)), seed, readers).attempt


def _place(error: BaseException) -> str:
    """An error and the last line of ours it passed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/attomaton/" in f.filename] or frames[-1:]
    at = f"{Path(ours[-1].filename).name}:{ours[-1].lineno} in {ours[-1].name}"
    return f"{type(error).__name__} at {at}: {str(error)[:120]}"


def replay(number: int, seed: int, keep: Path | None = None) -> None:
    """Make one input again, in this process, and let its error through; `keep` is where to leave the damaged file."""
    with tempfile.TemporaryDirectory(prefix="attomaton-faults-") as root:
        files = Damaged(Path(root), seed, READERS)
        with files.input(number) as (reader, name, folder, rng):
            print(f"input {number}: {reader}, {name} damaged", file=sys.stderr)
            if keep is not None and (folder / name).exists():
                shutil.copy(folder / name, keep)
            import_module(READERS).READERS[reader].read(folder, rng)
            print("accepted", file=sys.stderr)


def table(found: Mapping[str, Any]) -> str:
    """What came out, reader by reader, and the first findings."""
    width = max(map(len, found["counts"]))
    lines = [f"{'':{width}}" + "".join(f"{name:>10}" for name in ENDINGS)]
    total: Counter[str] = Counter()
    for name, counts in found["counts"].items():
        total.update(counts)
        lines.append(f"{name:{width}}" + "".join(f"{counts[e]:>10,}" for e in ENDINGS))
    lines += [f"{'all':{width}}" + "".join(f"{total[e]:>10,}" for e in ENDINGS), ""]
    findings = found["findings"]
    lines += [
        f"input {f['number']}: {f['subject']}: {f['ending']}: {f['details']}"
        for f in findings[:SHOWN]
    ]
    if len(findings) > SHOWN:
        lines.append(f"… and {len(findings) - SHOWN} more")
    rate = found["inputs"] / found["seconds"]
    lines.append(
        f"{found['inputs']:,} inputs from seed {found['seed']} in {found['seconds']:.0f} s ({rate:.0f}/s): "
        f"{len(findings)} findings"
    )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """The command line; 0 only where nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m faults inputs", description=__doc__)
    parser.add_argument("--inputs", type=int, default=200_000, help="how many (default 200000)")
    parser.add_argument("--seed", type=int, default=0, help="what they are made from (default 0)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--replay", type=int, metavar="NUMBER", help="make one input again")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="with --replay: keep the damaged file"
    )
    asked = parser.parse_args(arguments)
    if asked.replay is not None:
        replay(asked.replay, asked.seed, asked.keep)
        return 0
    found = run(asked.inputs, asked.seed, asked.workers)
    print(table(found))
    return 1 if found["findings"] else 0
