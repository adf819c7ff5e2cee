"""How two runs differ: from which step on two trainings do, or which tables of all other folders do."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attomaton.disk.formats import read_arrays, read_table, to_json
from attomaton.errors import DataError
from attomaton.folders.run import read_metrics


@dataclass(frozen=True)
class First:
    """The first recorded step at which something that was measured differs."""

    step: int
    seed: int
    metric: str
    a: float
    b: float


@dataclass(frozen=True)
class Training:
    """How two trainings differ, on the steps and seeds of both; `parameters_identical` is None where none were kept."""

    same: bool
    compared_steps: int
    compared_seeds: int
    steps_alone: dict[str, int]
    metrics_alone: list[str]
    first_difference: First | None
    parameters_identical: bool | None


@dataclass(frozen=True)
class Tables:
    """Tables and arrays of the same name at the top of both folders: which of them differ."""

    same: bool
    compared: list[str]
    different: list[str]


def training_difference(a: Path, b: Path) -> Training:
    """How two trainings differ."""
    x, y = read_metrics(a), read_metrics(b)
    steps, i, j = np.intersect1d(x["steps"], y["steps"], return_indices=True)
    names = [name for name in x if name in y and name != "steps"]
    if not names:
        raise DataError(f"{a} and {b}: nothing was measured in both.")
    seeds = min(len(x[names[0]]), len(y[names[0]]))
    unlike = np.stack([_apart(x[n][:seeds][:, i], y[n][:seeds][:, j]) for n in names])
    only = sorted(set(x) ^ set(y))
    found = np.argwhere(unlike.transpose(2, 1, 0))  # step, then seed, then metric
    first = None
    if len(found):
        at, seed, k = map(int, found[0])
        p, q = (float(z[names[k]][seed, where[at]]) for z, where in ((x, i), (y, j)))
        first = First(int(steps[at]), seed, names[k], p, q)
    parameters = _same_arrays(a / "state.safetensors", b / "state.safetensors")
    alone = {"a": len(x["steps"]) - len(steps), "b": len(y["steps"]) - len(steps)}
    whole = not only and not any(alone.values()) and len(x[names[0]]) == len(y[names[0]])
    same = first is None and whole and parameters is not False
    return Training(same, len(steps), seeds, alone, only, first, parameters)


def _apart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where two arrays differ; NaN is like NaN."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    return (x != y) & ~(np.isnan(x) & np.isnan(y))


def _same_arrays(a: Path, b: Path) -> bool | None:
    """Whether two files hold the same arrays; None where neither is there."""
    if not a.is_file() and not b.is_file():
        return None
    if not (a.is_file() and b.is_file()):
        return False
    x, y = (read_arrays(path, finite=False) for path in (a, b))
    return set(x) == set(y) and all(
        x[k].shape == y[k].shape and np.array_equal(x[k], y[k], equal_nan=x[k].dtype.kind == "f")
        for k in x
    )


def table_difference(a: Path, b: Path) -> Tables:
    """Which tables and arrays differ."""
    suffixes = (".parquet", ".safetensors")
    names = sorted({p.name for folder in (a, b) for p in folder.iterdir() if p.suffix in suffixes})
    unlike = [name for name in names if not _same_file(a / name, b / name)]
    return Tables(not unlike, names, unlike)


def _same_file(a: Path, b: Path) -> bool:
    if a.suffix == ".safetensors":
        return bool(_same_arrays(a, b))
    if not (a.is_file() and b.is_file()):
        return False
    x, y = read_table(a), read_table(b)
    # JSON knows NaN as itself.
    return x.schema == y.schema and to_json(x.to_pydict()) == to_json(y.to_pydict())
