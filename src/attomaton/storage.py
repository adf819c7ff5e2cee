"""Files that are whole or absent: folders written beside their place and moved into it, plain formats only.

JSON for records (infinite values as strings), Parquet for columns, safetensors for arrays. No pickle.
"""

import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.errors import AttomatonError, DataError, UsageError

KIND_FILE = "attomaton.json"  # marks a folder as ours and says what it holds


@contextmanager
def new_folder(path: Path | str, kind: str) -> Iterator[Path]:
    """A folder to fill: it appears at `path` complete, when the block ends without an error, or not at all.

    An earlier folder of ours at that place is replaced; anything else there is left alone, with an error.
    """
    path = Path(path)
    if path.exists() and not (path / KIND_FILE).is_file() and not _empty_folder(path):
        raise UsageError(
            f"{path}: already exists and was not written by attomaton; choose another place."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise UsageError(f"{path}: cannot write there ({error.strerror}).") from error
    try:
        yield work
        write_json(work / KIND_FILE, {"schema_version": 1, "kind": kind})
        work.chmod(0o755)
        _sync(work)
        if path.exists():
            old = work.with_name(work.name + ".old")
            path.rename(old)
            work.rename(path)
            shutil.rmtree(old)
        else:
            work.rename(path)
    except OSError as error:
        raise AttomatonError(
            f"{path}: writing failed ({error.strerror}); nothing was left behind."
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def check_folder(path: Path | str, kind: str) -> Path:
    """The folder, if it is one of ours and of this kind; otherwise an error that says what it is."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path}: no such {kind} folder.")
    if not (path / KIND_FILE).is_file():
        raise DataError(f"{path}: not a {kind} folder (no {KIND_FILE} in it).")
    found = read_json(path / KIND_FILE)
    if found.get("kind") != kind:
        raise DataError(f"{path}: holds a {found.get('kind')}, not a {kind}.")
    if found.get("schema_version") != 1:
        raise DataError(
            f"{path}: format version {found.get('schema_version')} is not the version 1 this "
            "attomaton reads; fit again."
        )
    return path


def _empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _sync(folder: Path) -> None:
    """Push every file of the folder to the disk before the folder gets its name."""
    for file in folder.rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: NumPy types unwrapped, infinite numbers as strings, NaN as null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def to_json(value: Any, indent: int | None = 2) -> str:
    """Strict JSON text of a record."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False)


def write_json(path: Path, value: Any) -> None:
    """Write one record."""
    path.write_text(to_json(value) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read one record; a broken file is named."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read as JSON ({error}).") from error


def write_columns(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns of one length as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(dict(columns)), path)


def read_columns(path: Path, names: list[str]) -> dict[str, Any]:
    """Read the named columns of a Parquet file: NumPy arrays, lists as (flat values, lengths)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=names)
        columns = {name: table[name].combine_chunks() for name in names}
    except (OSError, KeyError, pa.ArrowException) as error:
        raise DataError(
            f"{path}: cannot be read as Parquet with columns {names} ({error})."
        ) from error
    return {name: column.to_numpy(zero_copy_only=False) for name, column in columns.items()}


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as safetensors."""
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(value) for name, value in arrays.items()}, path)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read arrays from safetensors; NaN and infinity are refused."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: cannot be read as safetensors ({error}).") from error
    for name, value in arrays.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise DataError(f"{path}: array {name!r} holds values that are not finite.")
    return arrays


def read_matrix(path: Path | str, what: str) -> np.ndarray:
    """A matrix of finite numbers from a `.npy` file."""
    path = Path(path)
    try:
        matrix = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise DataError(f"{what}: no such file {path}.") from error
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{what}: {path} cannot be read as .npy ({error}).") from error
    if not isinstance(matrix, np.ndarray) or matrix.ndim < 2 or matrix.dtype.kind not in "fiu":
        raise DataError(f"{what}: {path} must hold a matrix of numbers, not {matrix!r:.60}.")
    matrix = matrix.astype(np.float64)
    wrong = np.argwhere(~np.isfinite(matrix))
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        raise DataError(
            f"{what}: {path} holds {len(wrong)} values that are not finite, the first is "
            f"{matrix[at]} at {at}."
        )
    return matrix
