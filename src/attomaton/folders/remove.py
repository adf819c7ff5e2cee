"""Being rid of folders: of ours alone, not in use, and with nothing in them that somebody else put there.

A folder first loses its name, then its files, its mark last: whenever a removal is broken off, what is left can still
be told as ours and removed by the next one.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attomaton.errors import AttomatonError, StorageError, UsageError, listed
from attomaton.folders.look import (
    REMOVED,
    WORK,
    Folder,
    find,
    held_by,
    in_use,
    is_removed,
    is_unfinished,
    is_work,
    look,
    scan,
)
from attomaton.ledger import LEDGER
from attomaton.manifest import MANIFEST
from attomaton.storage import KIND_FILE, LOCK_FILE

# Everything our commands write at the top of a folder, whatever its kind.
KNOWN = {
    KIND_FILE, MANIFEST, LOCK_FILE, LEDGER, WORK,
    # every run and verification
    "config.toml", "command.txt", "env.json", "summary.json", "status.json", "figures", "index.html",
    # models and their making; predictors
    "model.json", "vocabulary.json", "samples", "pairs", "edges", "arrays.safetensors", "corpus",
    "predictor.json", "pairs.safetensors", "prior.safetensors", "ngrams.safetensors",
    # training, demo, dynamics
    "metrics.parquet", "state.safetensors", "checkpoint.safetensors", "model",
    *(f"{level}.{suffix}" for level in ("sampled", "limit", "reduced") for suffix in ("parquet", "safetensors")),
    # published experiments, verifications, sweeps
    "data.parquet", "result.json", "checkpoints", "claims", "panels.parquet", "report.html", "report.md",
    "sweep.json", "pieces", "results.parquet",
}  # fmt: skip
_PART = re.compile(r"part-\d+\.json")
_BEING_WRITTEN = re.compile(r"\.(.+)\.\d+")  # by `write_whole`


def removable(paths: Sequence[Path]) -> list[Folder]:
    """The folders, if every one of them may be deleted; otherwise an error that lists those that may not."""
    found: dict[Path, Folder] = {}
    faults = []
    for path in paths:
        try:
            folder = look(_checked(path))
            found[folder.path.resolve()] = folder
        except (AttomatonError, OSError) as error:
            faults.append(str(error))
    if len(faults) == 1:
        raise UsageError(f"{faults[0]} Nothing was deleted.")
    if faults:
        raise UsageError(
            listed(f"{len(faults)} folders cannot be deleted:", faults, "Nothing was deleted.", 20)
        )
    return list(found.values())


def left_over(roots: Iterable[Path]) -> list[Folder]:
    """Work folders below the roots that no process is working in, and what was broken off for good."""
    return [
        folder
        for folder in scan(roots)
        if any(is_left(folder.path) for is_left in (is_work, is_removed, is_unfinished))
        and not in_use(folder.path)
    ]


def _checked(path: Path) -> Path:
    if path.is_symlink():
        raise UsageError(f"{path}: is a link; name the folder it leads to.")
    path = find(path)
    foreign = sorted(entry.name for entry in path.iterdir() if not _known(entry.name))
    if foreign:
        raise UsageError(
            f"{path}: holds what attomaton did not write ({', '.join(foreign[:5])}"
            f"{', …' if len(foreign) > 5 else ''}); move it away first."
        )
    if in_use(path):
        raise UsageError(f"{path}: a process is working in it; stop that first.")
    return path


def _known(name: str) -> bool:
    inner = _BEING_WRITTEN.fullmatch(name)
    return name in KNOWN or bool(_PART.fullmatch(name)) or (inner is not None and _known(inner[1]))


def remove(folder: Folder) -> None:
    """Delete a folder that was found to be `removable`."""
    path = folder.path
    with _kept_out(path):
        gone = path if is_removed(path) or is_unfinished(path) else _free(path)
        try:
            path.rename(gone)
        except OSError as error:
            raise StorageError(
                f"{path}: cannot be removed ({error.strerror}); it is as it was."
            ) from error
        try:
            last = [name for name in (KIND_FILE, WORK) if (gone / name).is_file()]
            for entry in gone.iterdir():
                if entry.name not in last:
                    shutil.rmtree(entry) if _is_tree(entry) else entry.unlink()
            shutil.rmtree(gone)
        except OSError as error:
            raise StorageError(
                f"{path}: was removed only in part ({error.strerror}); what is left lies in {gone}."
            ) from error


def _is_tree(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _free(path: Path) -> Path:
    """A name for what is being deleted, beside its place."""
    stem = path.name if path.name.startswith(".") else f".{path.name}"
    names = (f"{stem}{'' if i == 0 else f'.{i}'}{REMOVED}" for i in range(1_000_000))
    return next(p for p in (path.with_name(name) for name in names) if not p.exists())


@contextmanager
def _kept_out(path: Path) -> Iterator[None]:
    """Hold the folder, if it can be held, so that nobody begins to work in it meanwhile."""
    import fcntl

    lock = held_by(path)
    if not lock.exists():
        yield
        return
    try:
        handle = os.open(lock, os.O_RDONLY)
    except OSError as error:
        raise StorageError(f"{path}: cannot be removed ({error.strerror}).") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{path}: a process is working in it; stop that first.") from error
        yield
    finally:
        os.close(handle)
