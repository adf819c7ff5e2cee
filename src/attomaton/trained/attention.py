"""Attention that other programs computed, as an `.npz` file: for models no reader here knows.

The file holds `attention`, (contexts, layers, heads, length, length), rows summing to 1 over the keys a query may see,
and `tokens`, (contexts, length), whole numbers; where `scores` of the same shape as the attention are there too, they
are what it was made of. An `.npz` file is an archive of `.npy` files: sizes are checked before anything is unpacked,
and nothing is ever unpickled.
"""

import io
import math
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.disk.doors import check_memory, opened
from attomaton.disk.formats import npy_header
from attomaton.errors import DataError

NAMES = ("attention", "tokens", "scores")
HEADER = 1 << 14  # bytes before the numbers of a `.npy` file, at most
CLOSE = 1e-2  # how far from 1 a row of attention may sum to: half precision, and some to spare


@dataclass(frozen=True, eq=False)
class Attention:
    """What every head attended to on some contexts."""

    tokens: Int[np.ndarray, "contexts length"]
    attention: Float[np.ndarray, "contexts layers heads length length"]
    scores: Float[np.ndarray, "contexts layers heads length length"] | None = None


def read_attention(path: Path | str) -> Attention:
    """The attention in an `.npz` file, checked."""
    path = Path(path)
    try:
        with opened(path, links=True) as file, zipfile.ZipFile(file) as archive:
            found = {
                name: _array(path, archive, name)
                for name in NAMES
                if f"{name}.npy" in archive.namelist()
            }
    except DataError:
        raise
    except (OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error,
            OverflowError) as error:  # fmt: skip
        raise DataError(f"{path}: cannot be read as .npz ({error}).") from error
    return _checked(path, found)


def _array(path: Path, archive: zipfile.ZipFile, name: str) -> np.ndarray:
    told = archive.getinfo(f"{name}.npy")
    with archive.open(told) as file:
        head = io.BytesIO(file.read(HEADER))
        shape, dtype, fortran = npy_header(head)
        begin = head.tell()
        if dtype.kind not in "fiu" or dtype.itemsize > 8:
            raise DataError(f"{path}: {name} holds {dtype}, not numbers.")
        size = math.prod(shape) * dtype.itemsize
        if begin + size != told.file_size:
            raise DataError(
                f"{path}: {name} of {dtype} and shape {shape} is not as large as its file."
            )
        check_memory(path, 2 * size, told.compress_size)
        content = head.read() + file.read(size + 1)
    if len(content) != size:
        raise DataError(f"{path}: {name} is cut short.")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")


def _checked(path: Path, found: dict[str, np.ndarray]) -> Attention:
    """The arrays as one record, if they fit together and mean what their names say."""
    missing = [name for name in NAMES[:2] if name not in found]
    if missing:
        raise DataError(f"{path}: holds no array {missing[0]!r}.")
    attention, tokens, scores = found["attention"], found["tokens"], found.get("scores")
    if tokens.ndim != 2 or tokens.dtype.kind not in "iu" or tokens.size == 0:
        raise DataError(f"{path}: tokens must be whole numbers, (contexts, length).")
    n, T = tokens.shape
    if (
        attention.ndim != 5
        or attention.shape[::4] != (n, T)
        or attention.shape[3] != T
        or attention.size == 0
    ):
        raise DataError(
            f"{path}: attention has the shape {attention.shape}, not ({n}, layers, heads, {T}, {T})."
        )
    if scores is not None and scores.shape != attention.shape:
        raise DataError(f"{path}: scores have the shape {scores.shape}, not {attention.shape}.")
    values = attention.astype(np.float64)
    later = np.triu(np.ones((T, T), bool), 1)
    with np.errstate(all="ignore"):
        bad = ~(abs(values.sum(axis=-1) - 1) <= CLOSE)
    if bad.any() or not (values >= 0).all() or (values[..., later] > 0).any():
        raise DataError(
            f"{path}: attention must be shares that sum to 1 over the keys up to each query."
        )
    return Attention(
        tokens.astype(np.int64), values, None if scores is None else scores.astype(np.float64)
    )
