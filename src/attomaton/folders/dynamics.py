"""A run of scan and snap on disk: its classes, and what each level recorded."""

from pathlib import Path

import numpy as np

from attomaton.disk.formats import (
    AGAIN,
    expect_arrays,
    read_arrays,
    read_json,
    read_table,
    read_toml,
)
from attomaton.errors import DataError
from attomaton.scan_snap.data import SequenceClasses
from attomaton.scan_snap.families import family, read_classes
from attomaton.scan_snap.trajectory import LEVELS, Dynamics

CLASSES = "classes.toml"
OF_CLASS = ("xi", "B")  # records that every class has for itself
RECORDS = ("loss", "y_norm", "gamma", *OF_CLASS)


def levels_of(folder: Path) -> list[str]:
    """The levels a run holds."""
    return [level for level in LEVELS if (folder / f"{level}.parquet").is_file()]


def classes_of(folder: Path) -> SequenceClasses:
    """The classes of a run: its own file of them, or in folders of earlier versions a family by its name."""
    if (folder / CLASSES).is_file():
        return read_classes(folder / CLASSES)
    return family(str(read_toml(folder / "config.toml").get("classes")))


def read_dynamics(folder: Path, level: str) -> Dynamics:
    """What one level recorded."""
    classes, config = classes_of(folder), read_toml(folder / "config.toml")
    arrays = read_arrays(path := folder / f"{level}.safetensors", ("z", "t"))
    shape_z = (None, len(arrays.get("t", ())), classes.K, classes.M)
    expect_arrays(path, arrays, {"t": ("f", (None,)), "z": ("f", shape_z)})
    z, t = arrays["z"], arrays["t"]
    table, shape = read_table(folder / f"{level}.parquet"), (len(z), len(t), classes.K)
    told = read_json(folder / "status.json")
    try:
        status = tuple(map(str, told[level]))
        found = {
            name: table[name].to_numpy().reshape(shape)
            for name in RECORDS
            if name in table.column_names
        }
        eta_y, eta_z = (np.full(len(z), float(config[name])) for name in ("eta_y", "eta_z"))
        if len(status) != len(z):
            raise ValueError("other numbers of runs")
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{folder}: its files do not fit together ({error}); {AGAIN}.") from error
    records = {name: x if name in OF_CLASS else x[..., 0] for name, x in found.items()}
    return Dynamics(level, classes, eta_y, eta_z, t, z, records, status, {})
