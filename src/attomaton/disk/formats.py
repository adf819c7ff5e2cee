"""Plain formats: JSON for records (infinite values as strings), Parquet for columns, safetensors for arrays. No pickle.

Whatever is read may be damaged or made by someone else: readers here know how large, how deep and of what kind a file
may be, and say in one sentence what is wrong with it. What the numbers mean is checked by whoever asked for them.
"""

import io
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from mmap import PROT_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from attomaton.base.lazily import pa, pq
from attomaton.disk.doors import check_memory, enough_memory, opened
from attomaton.disk.pages import Taken, check_pages, read_footer
from attomaton.errors import DataError, as_text, listed, visible

ROW_GROUP = 1 << 15  # rows of a Parquet file that are read together
MOST_BYTES = 1 << 28  # of a JSON or TOML file
SMALL = 1 << 22  # letters of JSON that can do no harm, whatever they say
DEEPEST = 64  # levels of nesting in one
MOST_ROWS = 1 << 31  # of a Parquet file: a small file may claim to hold any number
AGAIN = "restore the file, or make its folder again"
MOST_HEADER = 10_000  # bytes of the header of a `.npy` file
MOST_NAMES = 1 << 24  # of one of a safetensors file
_DTYPES = {
    name: np.dtype(code)
    for name, code in {
        "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
        "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
    }.items()
}  # fmt: skip
_BFLOAT = np.dtype("V2")  # NumPy has none; only what others wrote holds it
WITH_BFLOAT = {**_DTYPES, "BF16": _BFLOAT}
Place = tuple[np.dtype, tuple[int, ...], int]  # type, shape and first byte of an array in a file
_NPY = {
    "descr": r"'[<>|=]?[a-zA-Z]\d{1,3}'",
    "fortran_order": "True|False",
    "shape": r"\([\d, ]{0,200}\)",
}
_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # in JSON, half of a character beyond the first 65,536


def plain(value: Any) -> Any:  # noqa: PLR0911 - a line for each kind
    """A value as JSON can hold it: NumPy types unwrapped, infinite numbers as strings, NaN as null.

    Of a frozen record every field (see `disk.records`), and of what has a `record()`, that.
    """
    if isinstance(value, (str, int)) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [*value] if {*map(type, value)} <= {str, int} else [plain(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if callable(getattr(value, "record", None)):
        return plain(value.record())
    if is_dataclass(value) and not isinstance(value, type):
        return {
            key_of(one.name): plain(found)
            for one in fields(value)
            if (found := getattr(value, one.name)) is not None or not one.metadata.get("absent")
        }
    return str(value) if isinstance(value, Path) else value


def key_of(name: str) -> str:
    """The name of a record's field as it is written: `lambda_` is `lambda`."""
    return name.removesuffix("_")


def to_json(value: Any, indent: int | None = 2) -> str:
    """Strict JSON text of a record."""
    value = plain(value)
    if indent and value and isinstance(value, list) and {*map(type, value)} <= {str, int}:
        # Long lists of labels as they are indented anyway, by the part of the library that is compiled.
        gap = "\n" + " " * indent
        return as_text(
            f"[{gap}{json.dumps(value, ensure_ascii=False, separators=(f',{gap}', ': '))[1:-1]}\n]"
        )
    return as_text(json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False))


def fresh(path: Path) -> Path:
    """The path, for a new file: what lies there is not written into, wherever it leads or whoever shares it."""
    path.unlink(missing_ok=True)
    return path


@contextmanager
def _new(path: Path) -> Iterator[None]:
    """A block that makes a file: where the disk has no room for the whole, nothing of it stays."""
    fresh(path)
    try:
        yield
    except FileExistsError:
        raise  # somebody else's
    except OSError:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write one text."""
    with _new(path), path.open("x", encoding="utf-8") as file:
        file.write(as_text(text))


def write_json(path: Path, value: Any) -> None:
    """Write one record."""
    write_text(path, to_json(value) + "\n")


@contextmanager
def _read_as(path: Path, kind: str) -> Iterator[None]:
    """A block that reads a file of this kind: whatever it stumbles over is told as damage."""
    try:
        yield
    except DataError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError, pa.ArrowException) as error:
        raise DataError(f"{path}: cannot be read as {kind} ({error}); {AGAIN}.") from error


def read_json(path: Path) -> Any:
    """Read one record; a broken file is named."""
    text = read_text(path, "JSON")
    check_values(path, text)
    with _read_as(path, "JSON"), enough_memory(path):
        value = json.loads(text)
        if _HALF.search(text):  # half a character can never be written again
            json.dumps(value, ensure_ascii=False).encode()
    _check_plain(path, value)
    return value


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file of settings; a broken one is named."""
    import tomllib

    try:
        value = tomllib.loads(read_text(path, "TOML"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read as TOML ({error}); {AGAIN}.") from error
    except ValueError as error:  # a number of thousands of digits
        raise error if isinstance(error, DataError) else DataError(f"{path}: {error}.") from error
    _check_plain(path, value)
    return value


def read_text(path: Path, kind: str = "text") -> str:
    """All of a small file in a folder of ours, as text."""
    with opened(path, MOST_BYTES) as file, _read_as(path, kind):
        return file.read().decode("utf-8")


def check_values(path: Path, text: str) -> None:
    """Refuse JSON whose values would take too much memory: an empty list is two letters, and 64 bytes here."""
    if len(text) > SMALL:
        values = sum(text.count(sign) for sign in ",:[{")
        check_memory(path, 72 * values + len(text), len(text))


def _check_plain(path: Path, value: Any) -> None:
    """Refuse numbers beyond 64 bits, and more than `DEEPEST` levels: later code may call itself for each."""
    layer, depth = [[value]], -1
    while layer:
        depth += 1
        below: list[Any] = []
        for x in layer:
            values = x.values() if isinstance(x, dict) else x
            kinds = set(map(type, values))
            if float in kinds and not all(math.isfinite(v) for v in values if type(v) is float):
                raise _strange(path, value, "a number that is not finite")
            if int in kinds and any(abs(v) >> 63 for v in values if type(v) is int):
                raise _strange(path, value, "an integer of more than 64 bits")
            if dict in kinds or list in kinds:
                below += (v for v in values if type(v) in (dict, list))
        layer = below
        if depth > DEEPEST:
            raise DataError(f"{path}: nested more than {DEEPEST} levels deep; {AGAIN}.")


def _strange(path: Path, value: Any, what: str) -> DataError:
    """The error about a number that no file of ours holds, with its place."""
    places = [("", value)]
    while places:
        place, x = places.pop()
        if isinstance(x, (dict, list)):
            inner = x.items() if isinstance(x, dict) else enumerate(x)
            places += ((f"{place}.{key}" if place else str(key), v) for key, v in inner)
        elif (type(x) is float and not math.isfinite(x)) or (type(x) is int and abs(x) >> 63):
            return DataError(f"{path}: holds {what}, {visible(place)}; {AGAIN}.")
    return DataError(f"{path}: holds {what}; {AGAIN}.")


def write_columns(path: Path, columns: Mapping[str, Any], group: int = ROW_GROUP) -> None:
    """Write columns of one length as Parquet, `group` rows to be read together."""
    table = pa.table(dict(columns))
    with _new(path), path.open("xb") as file:  # whose name need not be text, as Arrow would have it
        pq.write_table(
            table,
            file,
            compression="zstd",
            # Numbers are sooner pressed together than looked up in a dictionary first, and then smaller.
            use_dictionary=any("string" in str(column.type) for column in table.schema),
            row_group_size=group,
            write_page_checksum=True,
        )


def read_rows(
    paths: Sequence[Path], names: Sequence[str], key: str, wanted: np.ndarray | None
) -> dict[str, np.ndarray]:
    """Read the named columns of several Parquet files as one table, or only its rows whose `key` is wanted.

    Lists are told as their flat values, and in a column NAME.length as their lengths.

    Files are sorted by `key`, so that whole groups of rows can be passed over unread.
    """
    tables, taken = [], Taken()
    for path in paths:
        table = _read_groups(path, names, key, wanted, taken)
        for name in names:
            _check_column(path, name, table[name])
        value = table[key].to_numpy()
        if value.dtype.kind != "i" or (value[1:] < value[:-1]).any():
            raise DataError(f"{path}: its rows are not in the order of {key!r}; {AGAIN}.")
        if wanted is None:
            tables.append(table)
        else:
            low, high = np.searchsorted(value, wanted), np.searchsorted(value, wanted, "right")
            held = np.flatnonzero(low < high)
            spans = zip(low[held].tolist(), high[held].tolist(), strict=True)
            tables += [table.slice(0, 0), *(table.slice(lo, hi - lo) for lo, hi in spans)]
    try:
        table = pa.concat_tables(tables)
    except pa.ArrowException as error:
        raise DataError(f"{paths[0].parent}: its files do not fit together; {AGAIN}.") from error
    found = {}
    for name in names:
        column = table[name].combine_chunks()
        if pa.types.is_large_list(column.type):
            # By hand: `flatten` and `value_lengths` would load all of Arrow's compute functions.
            at = column.offsets.to_numpy()
            column = column.values.slice(at[0], at[-1] - at[0])
            found[f"{name}.length"] = np.diff(at)
        found[name] = column.to_numpy(zero_copy_only=False)
    return found


def read_table(path: Path) -> Any:
    """All of a Parquet file, as a table of Arrow whose texts and lists are sound."""
    with _read_as(path, "Parquet"), opened(path) as raw, _parquet(path, raw) as file:
        check_pages(path, raw.fileno(), read_footer(path, raw.fileno()))
        table = file.read(use_threads=False)
        table.validate(full=True)
        return table


def _read_groups(
    path: Path, names: Sequence[str], key: str, wanted: np.ndarray | None, taken: Taken
) -> Any:
    """The named columns of those groups of rows that may hold a wanted key."""
    with _read_as(path, "Parquet"), opened(path) as raw:
        content = pa.BufferReader(pa.py_buffer(mmap(raw.fileno(), 0, prot=PROT_READ)))
        with _parquet(path, content) as file:
            found, columns = file.schema_arrow.names, list(dict.fromkeys([*names, key]))
            if missing := sorted(name for name in columns if found.count(name) != 1):
                raise DataError(f"{path}: lacks the columns {missing}; {AGAIN}.")
            footer = read_footer(path, raw.fileno())
            groups = list(range(len(footer.groups)))
            if wanted is not None:
                groups = footer.groups_with(key, wanted)
            check_pages(path, raw.fileno(), footer, groups, columns, taken=taken)
            return file.read_row_groups(groups, columns=columns, use_threads=False)


@contextmanager
def _parquet(path: Path, content: Any) -> Iterator[Any]:
    """A Parquet file whose pages are checked as they are read, and which claims no absurd number of rows."""
    with pq.ParquetFile(content, page_checksum_verification=True) as file:
        if not 0 <= file.metadata.num_rows <= MOST_ROWS:
            raise DataError(f"{path}: claims to hold {file.metadata.num_rows:,} rows; {AGAIN}.")
        yield file


def _check_column(path: Path, name: str, column: Any) -> None:
    """Refuse a column that holds anything but finite numbers, or lists of integers, in every row."""
    kind, whole = column.type, pa.types.is_signed_integer
    lists = pa.types.is_large_list(kind) and whole(kind.value_type)
    if not (lists or whole(kind) or pa.types.is_floating(kind)):
        raise DataError(f"{path}: column {name!r} holds {kind}, not numbers; {AGAIN}.")
    for chunk in column.chunks:
        values = chunk.values if lists else chunk
        if chunk.null_count or values.null_count:
            raise DataError(f"{path}: column {name!r} has empty places; {AGAIN}.")
        if pa.types.is_floating(kind) and not np.isfinite(values.to_numpy()).all():
            raise DataError(f"{path}: column {name!r} holds numbers that are not finite; {AGAIN}.")


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as safetensors."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    with _new(path):
        try:
            save_file({name: np.ascontiguousarray(value) for name, value in arrays.items()}, path)
        except SafetensorError as error:
            if "I/O error" not in str(error):
                raise
            raise OSError(str(error)) from error  # as every other writer says that a disk is full
    path.chmod(0o644)  # as every other file: safetensors keeps its own to itself


def read_arrays(
    path: Path, names: Sequence[str] | None = None, finite: bool = True
) -> dict[str, np.ndarray]:
    """Read arrays from safetensors; NaN and infinity are refused unless they have a meaning there (`finite=False`).

    With `names`, those of them the file holds; a file that is not there holds none.
    """
    if names is not None and not os.path.lexists(path):
        return {}
    with opened(path) as file, _read_as(path, "safetensors"):
        arrays = {
            name: read_floats(file, place)
            for name, place in array_places(file).items()
            if names is None or name in names
        }
    for name, value in arrays.items() if finite else ():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise DataError(f"{path}: array {name!r} holds values that are not finite.")
    return arrays


def mapped_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file of our own work, each read where and when it is looked at."""
    arrays = {}
    with opened(path) as file, _read_as(path, "safetensors"):
        for name, (dtype, shape, begin) in array_places(file).items():
            some = math.prod(shape)  # nothing cannot be mapped
            found = np.memmap(file, dtype, "r", begin, shape) if some else np.zeros(shape, dtype)
            arrays[name] = found.view(np.ndarray)
    return arrays


def array_places(file: BinaryIO, dtypes: Mapping[str, np.dtype] = _DTYPES) -> dict[str, Place]:
    """Type, shape and first byte of every array in a safetensors file, or a ValueError.

    Its header is JSON behind eight bytes of its length; the arrays fill the rest of the file without gap or overlap.
    """
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, MOST_NAMES):
        raise ValueError(f"its header would take {length:,} of {size:,} bytes")
    header = json.loads(file.read(length).decode("utf-8"))
    if not isinstance(header, dict):
        raise ValueError("its header is not a table of arrays")
    found, spans = {}, []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if not isinstance(entry, dict):
            raise ValueError(f"array {name!r} has no place")
        kind: Any = entry.get("dtype")
        shape, span = _sizes(entry.get("shape")), _sizes(entry.get("data_offsets"))
        if not isinstance(kind, str) or kind not in dtypes:
            raise ValueError(f"array {name!r} is {kind!r}; known are {', '.join(dtypes)}")
        if shape is None or span is None or len(span) != 2 or len(shape) > 32:
            raise ValueError(f"array {name!r} has no shape or no place")
        if math.prod(shape) * dtypes[kind].itemsize != span[1] - span[0]:
            raise ValueError(f"array {name!r} of {kind} and shape {shape} is not {span} in size")
        spans.append(span)
        found[name] = (dtypes[kind], shape, 8 + length + span[0])
    at = 0
    for begin, end in sorted(spans):
        if begin != at:
            raise ValueError("its arrays leave gaps or overlap")
        at = end
    if 8 + length + at != size:
        raise ValueError(f"its arrays end at {8 + length + at:,} of {size:,} bytes")
    return found


def _sizes(value: Any) -> tuple[int, ...] | None:
    """A list of sizes as such; None where it is none."""
    fits = isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 62 for n in value)
    return tuple(value) if fits else None


def read_checkpoint(path: Path, finite: bool = True) -> dict[str, np.ndarray]:
    """The arrays of unfinished work; damaged ones are of no use, and the work folder goes with its error."""
    try:
        return read_arrays(path, finite=finite)
    except DataError as error:
        raise damaged(path) from error


def damaged(path: Path) -> DataError:
    """The error about a piece of unfinished work that nobody can take up."""
    return DataError(
        f"{path}: this checkpoint is damaged and was thrown away; run the same again to start anew."
    )


def expect_arrays(
    path: Path,
    arrays: Mapping[str, np.ndarray],
    shapes: Mapping[str, tuple[str, tuple[int | None, ...]]],
) -> None:
    """Refuse arrays that lack one of these, or have it of another kind ("i", "f") or shape (None is any length)."""
    for name, (kind, shape) in shapes.items():
        found = arrays.get(name)
        if found is None or found.dtype.kind != kind or found.ndim != len(shape) or any(
            n not in (m, None) for n, m in zip(shape, found.shape, strict=True)
        ):  # fmt: skip
            has = "is missing" if found is None else f"is {found.dtype} of shape {found.shape}"
            raise DataError(
                f"{path}: array {name!r} {has}, not of the kind that was written; {AGAIN}."
            )


def matrix_file(name: Path | str) -> tuple[Path, str | None]:
    """The file of a matrix and, of `FILE.safetensors:NAME` or `FILE.safetensors#NAME`, which of its arrays it is.

    >>> matrix_file("model.safetensors:wte.weight")
    (PosixPath('model.safetensors'), 'wte.weight')
    """
    found = re.fullmatch(r"(.+\.safetensors)[:#](.+)", str(name))
    if found is None or os.path.lexists(name):
        return Path(name), None
    return Path(found[1]), found[2]


def read_matrix(name: Path | str, what: str) -> np.ndarray:
    """A matrix of finite numbers from a `.npy` or `.safetensors` file (see `matrix_file`), which may be a link."""
    path, array = matrix_file(name)
    if not path.exists():
        raise DataError(f"{what}: no such file {path}.")
    kind = "safetensors" if path.suffix.lower() == ".safetensors" else ".npy"
    try:
        with opened(path, links=True) as file:
            plain = kind == ".npy"
            matrix = _npy_matrix(path, file) if plain else _safetensors_matrix(path, file, array)
    except DataError as error:
        raise DataError(f"{what}: {error}") from error
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{what}: {path} cannot be read as {kind} ({error}).") from error
    wrong = np.argwhere(~np.isfinite(matrix))
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        raise DataError(
            f"{what}: {path} holds {len(wrong)} values that are not finite, the first is "
            f"{matrix[at]} at {at}."
        )
    return matrix


def _npy_matrix(path: Path, file: io.BufferedReader) -> np.ndarray:
    shape, dtype, fortran = npy_header(file)
    if len(shape) < 2 or dtype.kind not in "fiu":
        raise ValueError(f"a matrix of numbers is needed, not {dtype} of shape {shape}")
    size = os.fstat(file.fileno()).st_size - file.tell()
    if math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"its size does not fit {dtype} of shape {shape}")
    check_memory(path, 8 * math.prod(shape), size)
    flat = np.fromfile(file, dtype)
    return flat.reshape(shape, order="F" if fortran else "C").astype(np.float64)


def _safetensors_matrix(path: Path, file: BinaryIO, name: str | None) -> np.ndarray:
    """The array of this name, or the one matrix there is."""
    matrices = {
        x: (dtype, shape, begin)
        for x, (dtype, shape, begin) in array_places(file, WITH_BFLOAT).items()
        if len(shape) == 2 and dtype.kind in "fiuV" and min(shape)
    }
    if name is None and len(matrices) == 1:
        name = next(iter(matrices))
    if name is None or name not in matrices:
        wanted = f"no matrix {visible(name)!r} but" if name is not None else "not one matrix but"
        rows = [f"{visible(x)}: {a:,} × {b:,}" for x, (_, (a, b), _) in matrices.items()]
        heading = f"{path} holds {wanted} {len(rows)}:"
        raise DataError(listed(heading, rows, f"Name one of them: {path}:NAME.", 20))
    dtype, shape, _ = matrices[name]
    count = shape[0] * shape[1]
    check_memory(path, 8 * count, count * dtype.itemsize)
    return read_floats(file, matrices[name]).astype(np.float64)


def read_floats(file: BinaryIO, place: Place) -> np.ndarray:
    """The numbers at a place of a safetensors file, those of sixteen bits without a type of NumPy's as float32."""
    dtype, shape, begin = place
    file.seek(begin)
    if dtype == _BFLOAT:  # the upper half of a float32
        half = np.fromfile(file, "<u2", math.prod(shape)).astype("<u4")
        return (half << 16).view("<f4").reshape(shape)
    return np.fromfile(file, dtype, math.prod(shape)).reshape(shape)


def npy_header(file: io.BufferedIOBase) -> tuple[tuple[int, ...], np.dtype, bool]:
    """Shape, type and order of the numbers behind the header of a `.npy` file, or a ValueError.

    NumPy's own reader takes the header for Python, mends what Python 2 wrote and asks other formats: all of it ways
    to fail. What every writer of matrices leaves is one plain form.
    """
    version = np.lib.format.read_magic(file)
    size = 2 if version == (1, 0) else 4
    length = int.from_bytes(file.read(size), "little")
    if version not in ((1, 0), (2, 0), (3, 0)) or length > MOST_HEADER:
        raise ValueError(f"unknown header, version {version}, {length} bytes")
    header = file.read(length).decode("latin-1")
    found = {
        name: re.search(rf"'{name}':\s*({form})\s*[,}}]", header) for name, form in _NPY.items()
    }
    if not all(found.values()):
        raise ValueError(f"unknown header {header.strip()[:80]!r}")
    descr, order, shape = (match[1] for match in found.values() if match)
    return (
        tuple(int(n) for n in re.findall(r"\d+", shape)), np.dtype(descr.strip("'")), order == "True"
    )  # fmt: skip
