"""A training run on disk: its records."""

from pathlib import Path

import numpy as np

from attomaton.disk.formats import AGAIN, read_table
from attomaton.errors import DataError


def read_metrics(folder: Path | str) -> dict[str, np.ndarray]:
    """What `metric_columns` was given, from a run's `metrics.parquet`: (seeds, records) arrays and the steps."""
    path = Path(folder) / "metrics.parquet"
    table = read_table(path)
    try:
        flat = {name: table[name].to_numpy() for name in table.column_names}
        kinds = {name: value.dtype.kind for name, value in flat.items()}
        if (
            kinds.get("seed") != "i"
            or kinds.get("step") != "i"
            or not {*kinds.values()} <= {"i", "f"}
        ):
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
