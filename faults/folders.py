"""What runs leave on the disk, looked at from outside: can it be read, is it the same, is anything left over."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attomaton.disk.formats import read_arrays, read_json
from attomaton.disk.holdings import KIND_FILE, finished_pieces
from attomaton.disk.ledger import LEDGER, read_ledger
from attomaton.disk.manifest import MANIFEST, changes
from attomaton.disk.storage import LOCK_FILE
from attomaton.errors import DataError

# Keys of seconds, memory and pieces that were there: of how it came about.
SECONDS = ("seconds", "seconds_detail", "peak_memory_mb", "resumed_pieces")
TIMED = ("summary.json", "claims/*.json")  # hold seconds, which are not compared
# These tell how and when it came about, and are not compared.
TOLD = (LEDGER, MANIFEST, "report.html", "report.md")


def files(folder: Path) -> Iterator[Path]:
    """Every file of a folder, less those under a temporary name, which nobody reads."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden:
            yield path


def unreadable(folder: Path) -> list[str]:
    """The files of a folder that cannot be read as what their names say, or are not what its manifest says.

    The mark vouches for the manifest: where it is gone, the folder was replaced, and its deletion was broken off.
    """
    faults = [f"{path}: {fault}" for path in files(folder) if (fault := _fault(path)) is not None]
    return faults + (changes(folder) if (folder / KIND_FILE).is_file() else [])


def unreadable_pieces(work: Path) -> list[str]:
    """The finished pieces of unfinished work that cannot be read; what else is torn there is written anew."""
    pieces = finished_pieces(work)
    return [f"{path}: {fault}" for path in sorted(pieces) if (fault := _fault(path)) is not None]


def _fault(path: Path) -> str | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix == ".json":
            read_json(path)
        elif path.suffix == ".safetensors":
            read_arrays(path, finite=False)
        elif path.suffix == ".parquet":
            pq.read_table(path)
    except (DataError, OSError, pa.ArrowException) as error:
        return str(error)
    return None


def differences(calm: Path, torn: Path) -> list[str]:
    """The files that are in one folder only, or hold something else, times aside.

    What the ledger says is judged by `doubled` and `lost`.
    """
    if calm.is_file() and torn.is_file():
        return [] if _same(calm, torn) else [f"{torn.name}: differs"]
    there = [{p.relative_to(folder) for p in files(folder)} for folder in (calm, torn)]
    one_sided = [f"{name}: in one folder only" for name in sorted(there[0] ^ there[1])]
    both = sorted(there[0] & there[1])
    unlike = [
        name for name in both if name.name not in TOLD and not _same(calm / name, torn / name)
    ]
    return one_sided + [f"{name}: differs" for name in unlike]


def _same(a: Path, b: Path) -> bool:
    if a.read_bytes() == b.read_bytes():
        return True
    if not any(a.match(pattern) for pattern in TIMED):
        return False
    return _timeless(read_json(a)) == _timeless(read_json(b))


def _timeless(value: Any) -> Any:
    """A record without its seconds, wherever they stand in it."""
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k not in SECONDS}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


def leftovers(folder: Path, out: str) -> list[str]:
    """What is still there beside a finished run, or in it, under a temporary name."""
    beside = [p for p in folder.iterdir() if p.name != out]
    inside = [p for p in (folder / out).rglob(".*") if p.name != LOCK_FILE]
    return [str(p.relative_to(folder)) for p in beside + inside]


def pieces(folder: Path) -> Counter[str]:
    """How often each piece is in the ledger: once it was done, or once it was found done by another process."""
    lines = read_ledger(folder)
    return Counter(str(x.piece) for x in lines if x.event in ("done", "found"))


def doubled(folder: Path) -> list[str]:
    """Pieces that were done twice."""
    return [piece for piece, times in pieces(folder).items() if times > 1]


def lost(calm: Path, torn: Path) -> list[str]:
    """Pieces of the undisturbed run that the other one never did."""
    return sorted(set(pieces(calm)) - set(pieces(torn)))
