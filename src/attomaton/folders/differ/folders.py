"""How two folders of one kind differ: settings, versions, figures, and what only their kind can tell.

Numbers are compared bit for bit: a difference that is small is told as what it is, not left out.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.disk.formats import read_arrays, read_table, to_json
from attomaton.disk.kinds import title
from attomaton.errors import AttomatonError, DataError, UsageError
from attomaton.folders.differ.models import model_difference
from attomaton.folders.kinds import read_contents
from attomaton.folders.look import Folder, find, is_marked, look

Record = dict[str, Any]
MOST = 5  # examples of each kind of difference


def difference(a: Path, b: Path) -> Record:
    """Everything in which two folders differ; `same` where there is nothing but time and place."""
    a, b = find(a), find(b)
    one, two = _comparable(a), _comparable(b)
    if (one.kind, one.maker) != (two.kind, two.maker):
        raise UsageError(
            f"{a} is a {title(one.kind, one.maker)}, {b} a {title(two.kind, two.maker)}: two folders of one kind can "
            "be compared."
        )
    x, y = read_contents(a, one.kind), read_contents(b, two.kind)
    record: Record = {
        "a": str(a),
        "b": str(b),
        "kind": one.kind,
        "maker": one.maker,
        "commands": [x.command, y.command],
        "seconds": [x.seconds, y.seconds],
        "states": [one.state, two.state],
        "settings": _unlike(x.settings, y.settings),
        "versions": _unlike(x.versions, y.versions),
        "figures": _side_by_side(one.figures, two.figures),
    }
    try:
        more = _of_kind(a, b, one)
    except AttomatonError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise DataError(f"{a} or {b}: its files do not fit together ({error!r}).") from error
    same = (
        not record["settings"]
        and not record["versions"]
        and all(row["same"] for row in record["figures"])
        and one.state == two.state
        and all(part["same"] for part in more.values())
    )
    return {**record, **more, "same": same}


def _comparable(path: Path) -> Folder:
    folder = look(path)
    if folder.state in ("unreadable", "other-version"):
        raise DataError(f"{path}: cannot be compared: {folder.note}")
    if not is_marked(path):
        cure = f"; finish it first: {folder.go_on}" if folder.go_on else ""
        raise UsageError(f"{path}: is not finished, so it cannot be compared{cure}")
    return folder


def _unlike(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Record]:
    """Names with unlike values; None where one side does not have it."""
    names = [*a, *(name for name in b if name not in a)]
    return [
        {"name": name, "a": a.get(name), "b": b.get(name)}
        for name in names
        if a.get(name) != b.get(name)
    ]


def _side_by_side(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Record]:
    rows = []
    for name in [*a, *(name for name in b if name not in a)]:
        x, y = a.get(name), b.get(name)
        row = {"name": name, "a": x, "b": y, "same": x == y}
        if isinstance(x, (int, float)) and isinstance(y, (int, float)):
            row["difference"] = y - x
        rows.append(row)
    return rows


def _of_kind(a: Path, b: Path, folder: Folder) -> Record:
    if folder.kind == "model":
        return {"graphs": model_difference(a, b, MOST)}
    if folder.kind == "sweep":
        return {"cells": _sweeps(a, b)}
    if folder.maker in ("train", "demo"):
        return {"training": _trainings(a, b)}
    return {"tables": _tables(a, b)}


# Training


def _trainings(a: Path, b: Path) -> Record:
    """The first recorded step at which anything that was measured differs, on the steps and seeds of both."""
    from attomaton.folders.run import read_metrics

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
        values = [float(z[names[k]][seed, where[at]]) for z, where in ((x, i), (y, j))]
        first = {
            "step": int(steps[at]),
            "seed": seed,
            "metric": names[k],
            "a": values[0],
            "b": values[1],
        }
    parameters = _same_arrays(a / "state.safetensors", b / "state.safetensors")
    alone = {"a": len(x["steps"]) - len(steps), "b": len(y["steps"]) - len(steps)}
    whole = not only and not any(alone.values()) and len(x[names[0]]) == len(y[names[0]])
    return {
        "same": first is None and whole and parameters is not False,
        "compared_steps": len(steps),
        "compared_seeds": seeds,
        "steps_alone": alone,
        "metrics_alone": only,
        "first_difference": first,
        "parameters_identical": parameters,
    }


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


# Sweeps


def _sweeps(a: Path, b: Path) -> Record:
    """Cells of the same settings, held against each other seed by seed; and those only one sweep has."""
    from attomaton.folders.sweep import MEASURED, Sweep, read_sweep

    def by_settings(sweep: Sweep) -> dict[str, Record]:
        rows: dict[int, list[Record]] = {}
        for row in sweep.rows:
            rows.setdefault(row["cell"], []).append({k: row[k] for k in ("status", *MEASURED)})
        return {
            to_json(dict(sorted(cell.items())), indent=None): {
                "settings": cell,
                "rows": rows.get(i, []),
                "error": sweep.failed.get(i),
                "ended": i in rows or i in sweep.failed,
            }
            for i, cell in enumerate(sweep.cells)
        }

    x, y = by_settings(read_sweep(a)), by_settings(read_sweep(b))
    unlike = [
        {
            "settings": x[key]["settings"],
            **{side: _ended(cells[key], MEASURED) for side, cells in (("a", x), ("b", y))},
        }
        for key in x
        if key in y and not _same_rows(x[key], y[key])
    ]
    only_a = [x[key]["settings"] for key in x if key not in y]
    only_b = [y[key]["settings"] for key in y if key not in x]
    return {
        "same": not (unlike or only_a or only_b),
        "compared": sum(key in y for key in x),
        "different": len(unlike),
        "examples": unlike[:MOST],
        "only_a": only_a,
        "only_b": only_b,
    }


def _same_rows(x: Record, y: Record) -> bool:
    """Whether two cells ended alike; JSON knows NaN from a number, and NaN as itself."""
    return to_json([x["rows"], x["error"], x["ended"]]) == to_json(
        [y["rows"], y["error"], y["ended"]]
    )


def _ended(cell: Record, names: Sequence[str]) -> Any:
    """How a cell ended: its error, the mean of what was measured, or None where it has not ended."""
    if cell["error"] is not None or not cell["rows"]:
        return cell["error"]
    return {name: float(np.mean([row[name] for row in cell["rows"]])) for name in names}


# Predictors, verifications and all other runs


def _tables(a: Path, b: Path) -> Record:
    """Tables and arrays of the same name at the top of both folders: which of them hold the same."""
    suffixes = (".parquet", ".safetensors")
    names = sorted({p.name for folder in (a, b) for p in folder.iterdir() if p.suffix in suffixes})
    unlike = [name for name in names if not _same_file(a / name, b / name)]
    return {"same": not unlike, "compared": names, "different": unlike}


def _same_file(a: Path, b: Path) -> bool:
    if a.suffix == ".safetensors":
        return bool(_same_arrays(a, b))
    if not (a.is_file() and b.is_file()):
        return False
    x, y = read_table(a), read_table(b)
    # JSON knows NaN as itself.
    return x.schema == y.schema and to_json(x.to_pydict()) == to_json(y.to_pydict())
