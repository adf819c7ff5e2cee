"""A training run on disk: its records and its snapshots."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.disk.formats import AGAIN, expect_arrays, read_arrays, read_table, write_arrays
from attomaton.errors import DataError, counted
from attomaton.mechanics.experiment.snapshots import Snapshots

SNAPSHOTS = "snapshots.safetensors"
ARRAYS = ("steps", "scores", "last", "token")  # of `Snapshots`, in its order


@dataclass(frozen=True)
class Kept:
    """How much of the way a run kept: snapshots of how many pairs and last tokens, of how many there are."""

    snapshots: int = 0
    pairs: int = 0
    of_pairs: int = 0
    last_tokens: int = 0
    of_last_tokens: int = 0

    @property
    def said(self) -> str:
        """In words.

        >>> Kept().said, Kept(201, 13, 13, 3, 3).said
        ('no snapshots kept', '201 snapshots of all 13 pairs')
        """
        if not self.snapshots:
            return "no snapshots kept"
        found = counted(self.snapshots, "snapshot")
        if self.pairs == self.of_pairs:
            return f"{found} of all {self.pairs:,} pairs"
        lasts = counted(self.last_tokens, "last token")
        return (
            f"{found} of {self.pairs:,} of {self.of_pairs:,} pairs: those of {lasts} out of {self.of_last_tokens:,}, "
            "the heaviest"
        )


def kept_of(found: Snapshots | None) -> Kept:
    """What a run says of its snapshots."""
    if found is None:
        return Kept()
    lasts = len(np.unique(found.last))
    return Kept(len(found.steps), len(found.last), found.pairs, lasts, found.last_tokens)


def write_snapshots(folder: Path, found: Snapshots | None) -> None:
    """Write the snapshots of a run, where it kept any."""
    if found is not None:
        arrays = {name: getattr(found, name) for name in ARRAYS}
        arrays["totals"] = np.array([found.pairs, found.last_tokens])
        write_arrays(folder / SNAPSHOTS, arrays)


def read_snapshots(folder: Path | str) -> Snapshots | None:
    """The snapshots of a run; None of one that kept none, as runs of earlier versions did."""
    path = Path(folder) / SNAPSHOTS
    arrays = read_arrays(path, (*ARRAYS, "totals"))
    if not arrays:
        return None
    expect_arrays(
        path, arrays, {"steps": ("i", (None,)), "last": ("i", (None,)), "totals": ("i", (2,))}
    )
    shape = len(arrays["steps"]), len(arrays["last"])
    expect_arrays(path, arrays, {"token": ("i", shape[1:]), "scores": ("f", shape)})
    kept: list[Any] = [arrays[name] for name in ARRAYS]
    return Snapshots(*kept, *arrays["totals"].tolist())


def read_metrics(folder: Path | str) -> dict[str, np.ndarray]:
    """What `metric_columns` was given, from a run's `metrics.parquet`: (seeds, records) arrays and the steps."""
    path = Path(folder) / "metrics.parquet"
    table = read_table(path)
    try:
        flat = {name: table[name].to_numpy() for name in table.column_names}
        kinds = {name: value.dtype.kind for name, value in flat.items()}
        whole = kinds.get("seed") == kinds.get("step") == "i"
        if not whole or not {*kinds.values()} <= {"i", "f"}:
            raise ValueError("whole numbers for seed and step, numbers for the rest")
        if "loss" not in flat or not table.num_rows:
            raise ValueError("no losses")
        seeds = len(np.unique(flat.pop("seed")))
        steps = flat.pop("step").reshape(seeds, -1)[0]
        return {"steps": steps, **{k: v.reshape(seeds, len(steps)) for k, v in flat.items()}}
    except (KeyError, ValueError) as error:
        raise DataError(
            f"{path}: cannot be read as records of training ({error}); {AGAIN}."
        ) from error
