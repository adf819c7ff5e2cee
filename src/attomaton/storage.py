"""Files that are whole or absent: folders written beside their place and moved into it, plain formats only.

`new_folder` fills a folder in one go; `resumed_folder` fills it piece by piece and takes up what an interrupted
process had finished.

JSON for records (infinite values as strings), Parquet for columns, safetensors for arrays. No pickle.
"""

import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.errors import AttomatonError, DataError, StorageError, UsageError
from attomaton.ledger import Ledger

KIND_FILE = "attomaton.json"  # marks a folder as ours and says what it holds
LOCK_FILE = ".lock"
ROW_GROUP = 1 << 15  # rows of a Parquet file that are read together
VERSIONS = {"model": 2}  # format of each kind of folder, where it is not the first


@contextmanager
def new_folder(path: Path | str, kind: str) -> Iterator[Path]:
    """A folder to fill: it appears at `path` complete, when the block ends without an error, or not at all.

    An earlier folder of ours at that place is replaced; anything else there is left alone, with an error.
    """
    path = Path(path)
    _check_place(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise UsageError(f"{path}: cannot write there ({error.strerror}).") from error
    try:
        yield work
        _move_into_place(work, path, kind)
    except OSError as error:
        raise StorageError(
            f"{path}: writing failed ({error.strerror or error}); nothing was left behind."
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def resumed_folder(path: Path | str, kind: str, config: Mapping[str, Any]) -> Iterator[Path]:
    """A folder to fill piece by piece: it appears at `path` complete, or not at all.

    Until then it is a `work_folder`; write each piece with `write_whole`.
    """
    with work_folder(path, config) as work:
        yield work
        Ledger(work).note("ended")
        (work / "config.json").unlink()
        (work / LOCK_FILE).unlink()
        _move_into_place(work, Path(path), kind)


@contextmanager
def work_folder(path: Path | str, config: Mapping[str, Any]) -> Iterator[Path]:
    """The folder `.NAME.partial` beside `path`, for work that may take several processes to finish.

    A process that is killed, interrupted or meets a full disk leaves it there, and the next one with the same
    `config` finds what was finished. What an unlike config left is thrown away, and so is work that ends in an error
    of ours. Whoever finishes the work moves the folder away or calls `discard`.
    """
    path = Path(path)
    _check_place(path)
    work = path.with_name(f".{path.name}.partial")
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path}: cannot write there ({error.strerror}).") from error
    with only_one(work, path):
        known = work / "config.json"
        wanted = json.loads(to_json(config))
        resumed = known.is_file() and read_json(known) == wanted
        if not resumed:
            for old in work.iterdir():
                if old.name != LOCK_FILE:
                    shutil.rmtree(old) if old.is_dir() else old.unlink()
            write_whole(known, lambda file: write_json(file, wanted))
        try:
            Ledger(work).note("resumed" if resumed else "started")
            yield work
        except (StorageError, OSError) as error:
            raise StorageError(
                f"{error}\nWhat was finished is kept in {work}; run the same again to go on."
            ) from error
        except AttomatonError:
            discard(work)
            raise


def discard(work: Path) -> None:
    """Throw a work folder away."""
    shutil.rmtree(work, ignore_errors=True)


@contextmanager
def only_one(work: Path, path: Path) -> Iterator[None]:
    """Keep a second process out of a work folder; the lock of a killed one is gone with it."""
    import fcntl

    try:
        lock = (work / LOCK_FILE).open("w")
    except OSError as error:
        raise UsageError(f"{path}: cannot write there ({error.strerror}).") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"{path}: another process is writing it right now.") from error
        yield


def _check_place(path: Path) -> None:
    if path.exists() and not (path / KIND_FILE).is_file() and not _empty_folder(path):
        raise UsageError(
            f"{path}: already exists and was not written by attomaton; choose another place."
        )


def _move_into_place(work: Path, path: Path, kind: str) -> None:
    """The last act: mark the folder, push it to the disk, give it its name."""
    write_json(work / KIND_FILE, {"schema_version": VERSIONS.get(kind, 1), "kind": kind})
    work.chmod(0o755)
    _sync(work)
    if path.exists():
        old = work.with_name(work.name + ".old")
        shutil.rmtree(old, ignore_errors=True)
        path.rename(old)
        work.rename(path)
        shutil.rmtree(old)
    else:
        work.rename(path)


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file so that it is there completely or not at all, whatever happens to the process."""
    work = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(work)
        handle = os.open(work, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        work.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except OSError as error:
        raise StorageError(f"{path}: writing failed ({error.strerror or error}).") from error
    finally:
        work.unlink(missing_ok=True)


def is_folder(path: Path | str, kind: str) -> bool:
    """Whether a folder of this kind is there."""
    marked = Path(path) / KIND_FILE
    return marked.is_file() and read_json(marked).get("kind") == kind


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
    wanted = VERSIONS.get(kind, 1)
    if found.get("schema_version") != wanted:
        raise DataError(
            f"{path}: format version {found.get('schema_version')} is not the version {wanted} this "
            "attomaton reads; make it again."
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


def write_columns(path: Path, columns: Mapping[str, Any], group: int = ROW_GROUP) -> None:
    """Write columns of one length as Parquet, `group` rows to be read together."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(dict(columns)), path, compression="zstd", row_group_size=group)


def read_rows(
    paths: Sequence[Path], names: Sequence[str], key: str, wanted: np.ndarray | None
) -> dict[str, Any]:
    """Read the named columns of several Parquet files as one table, or only its rows whose `key` is wanted.

    NumPy arrays, lists as (flat values, lengths).

    Files are sorted by `key`, so that whole groups of rows can be passed over unread.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = []
    for path in paths:
        try:
            with pq.ParquetFile(path, memory_map=True) as file:
                groups = _row_groups(file, key, wanted)
                table = file.read_row_groups(groups, columns=list(names), use_threads=False)
                missing = set(names) - set(table.column_names)
        except (OSError, KeyError, pa.ArrowException) as error:
            raise DataError(f"{path}: cannot be read as Parquet ({error}).") from error
        if missing:
            raise DataError(f"{path}: lacks the columns {sorted(missing)}.")
        if wanted is None:
            tables.append(table)
        else:
            value = table[key].to_numpy()
            spans = zip(
                np.searchsorted(value, wanted), np.searchsorted(value, wanted, "right"), strict=True
            )
            tables += [table.slice(0, 0), *(table.slice(lo, hi - lo) for lo, hi in spans)]
    table = pa.concat_tables(tables)
    return {name: _to_numpy(table[name].combine_chunks()) for name in names}


def _row_groups(file: Any, key: str, wanted: np.ndarray | None) -> list[int]:
    """The groups of rows that may hold a wanted key, by their smallest and largest one."""
    groups = list(range(file.num_row_groups))
    if wanted is None:
        return groups
    at = file.schema_arrow.names.index(key)
    spans = [file.metadata.row_group(i).column(at).statistics for i in groups]
    # An empty group of rows has no statistics, and nothing that is wanted.
    return [
        i
        for i, s in enumerate(spans)
        if s is not None and ((s.min <= wanted) & (wanted <= s.max)).any()
    ]


def _to_numpy(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_large_list(column.type):
        # By hand: `flatten` and `value_lengths` would load all of Arrow's compute functions.
        at = column.offsets.to_numpy()
        return column.values.slice(at[0], at[-1] - at[0]).to_numpy(), np.diff(at)
    return column.to_numpy(zero_copy_only=False)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as safetensors."""
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(value) for name, value in arrays.items()}, path)
    path.chmod(0o644)  # as every other file: safetensors keeps its own to itself


def read_arrays(
    path: Path, names: Sequence[str] | None = None, finite: bool = True
) -> dict[str, np.ndarray]:
    """Read arrays from safetensors; NaN and infinity are refused unless they have a meaning there (`finite=False`).

    With `names`, those of them the file holds; a file that is not there holds none.
    """
    if names is not None and not path.is_file():
        return {}
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            known = list(file.keys())
            arrays = {k: file.get_tensor(k) for k in known if names is None or k in names}
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: cannot be read as safetensors ({error}).") from error
    for name, value in arrays.items() if finite else ():
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
