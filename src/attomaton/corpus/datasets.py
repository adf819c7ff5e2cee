"""Data sets by name: text files that are looked for on this machine first, and fetched once otherwise.

A name stands for three files, `train`, `valid` and `test`, looked for in

1. `$ATTOMATON_DATA/NAME/`, a folder of yours that is never written to;
2. `$ATTOMATON_CACHE/datasets/NAME/` (by default under `~/.cache/attomaton`, as XDG says);
3. the Hugging Face hub, through `datasets` (extra `[hf]`), unless `ATTOMATON_OFFLINE` or `HF_HUB_OFFLINE`
   is set. What comes from there is written into the cache, all three files or none.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from attomaton.base.caches import cache_folder, is_on
from attomaton.disk.spool import DASH, NAME, standard_input
from attomaton.errors import DataError, UsageError, listed, nearest

# Ours, and the hub's name for it
SPLITS = {"train": "train", "valid": "validation", "test": "test"}
HUB = "Salesforce/wikitext"
CONFIGS = {"wikitext-2": "wikitext-2-v1", "wikitext-103": "wikitext-103-v1"}  # words, with <unk>
DATASETS = tuple(CONFIGS)
EXAMPLE = "example"


def dataset_files(name: str) -> dict[str, Path]:
    """The text files of a data set: `{"train": …, "valid": …, "test": …}`."""
    if name not in CONFIGS:
        known = ", ".join(DATASETS)
        raise UsageError(f"data set {name!r} is not one of {known}{nearest(name, DATASETS)}")
    mine, cache = os.environ.get("ATTOMATON_DATA"), cache_folder() / "datasets" / name
    folders = [Path(mine) / name, cache] if mine else [cache]
    for folder in folders:
        if files := _files_in(folder):
            return files
    looked = [str(folder) for folder in folders]
    if not mine:
        looked.insert(0, "$ATTOMATON_DATA is not set")
    switch = next(filter(is_on, ("ATTOMATON_OFFLINE", "HF_HUB_OFFLINE")), None)
    if switch:
        looked.append(f"not asked: the Hugging Face hub ({switch} is set)")
        raise DataError(_nowhere(name, looked))
    _download(name, cache, looked)
    return _files_in(cache)


def data_file(data: str | os.PathLike[str]) -> Path:
    """The file that is meant by a path or by the name of a data set, `NAME` (its train split) or `NAME:SPLIT`.

    `example` is the embedded one, `-` is standard input (`disk.spool`).
    A file or folder of that name goes first; anything that is no data set is a path.
    """
    if not isinstance(data, (str, os.PathLike)):
        raise UsageError(
            f"data: {type(data).__name__} is no path of a file. samples_from_sequences takes lists and arrays."
        )
    if str(data) == DASH:
        return standard_input()
    path = Path(data)
    name, colon, split = str(data).partition(":")
    if str(data) == EXAMPLE and not path.exists():
        return Path(__file__).with_name("example.jsonl")
    if name not in CONFIGS or path.exists():
        return path
    if colon and split not in SPLITS:
        known = ", ".join(SPLITS)
        raise UsageError(f"{data}: {name} has {known}, not {split!r}{nearest(split, SPLITS)}")
    return dataset_files(name)[split or "train"]


def data_name(data: str | os.PathLike[str]) -> str:
    """How the data are called in what is kept: no later process can read standard input again."""
    return NAME if str(data) == DASH else str(data)


def _files_in(folder: Path) -> dict[str, Path]:
    """The three files of a folder by our names or the original ones; none of them is fine, some are not."""
    found: dict[str, Path] = {}
    for split in SPLITS:
        for name in (f"{split}.txt", f"wiki.{split}.tokens"):
            if (folder / name).is_file():
                found.setdefault(split, folder / name)
    missing = [f"{split}.txt" for split in SPLITS if split not in found]
    if found and missing:
        raise DataError(
            f"{folder}: {', '.join(missing)} missing; complete the folder or remove it."
        )
    return found


def _nowhere(name: str, looked: list[str]) -> str:
    cure = (
        f"Put train.txt, valid.txt and test.txt into a folder {name} and name the folder above it in "
        "ATTOMATON_DATA, or let it be fetched: pip install 'attomaton[hf]', with network access."
    )
    return listed(f"data set {name} was not found:", looked, cure)


def _download(name: str, folder: Path, looked: list[str]) -> None:
    """Fetch the three splits from the hub into `folder`, which appears complete or not at all."""
    try:
        import datasets
    except ImportError:
        looked.append("not asked: the Hugging Face hub (package `datasets` is not installed)")
        raise DataError(_nowhere(name, looked)) from None
    try:
        splits = datasets.load_dataset(HUB, CONFIGS[name])
    except Exception as fault:  # network, disk, hub: the library has its own family for each
        looked.append(f"{HUB} on the Hugging Face hub: {type(fault).__name__}: {fault}")
        raise DataError(_nowhere(name, looked)) from fault
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory("", f".{name}.", folder.parent, ignore_cleanup_errors=True) as made:
            work = Path(made)
            for split, theirs in SPLITS.items():
                batches = splits[theirs].iter(batch_size=1000)
                with (work / f"{split}.txt").open("w", encoding="utf-8", newline="\n") as file:
                    file.writelines(_lines(row for batch in batches for row in batch["text"]))
            work.chmod(0o755)
            try:
                work.rename(folder)
            except OSError:
                if not _files_in(folder):  # another process was faster: its files are the same
                    raise
    except OSError as fault:
        raise DataError(f"{folder}: cannot be written: {fault.strerror or fault}") from fault


def _lines(rows: Iterable[str]) -> Iterator[str]:
    """Rows of the hub as the lines they were: a row keeps its line end, a blank line became an empty row.

    >>> list(_lines([" = Title = \\n", "", " word \\n"]))
    [' = Title = \\n', ' \\n', ' word \\n']
    """
    for row in rows:
        yield row if row.endswith("\n") else (row or " ") + "\n"
