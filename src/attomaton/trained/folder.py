"""A folder in the layout of Hugging Face, read with suspicion: `config.json`, weights as safetensors, `tokenizer.json`.

The configuration says which arrays there must be and how large; the headers of the files say which there are. Only
when every name, shape and type agrees is memory taken for numbers, one array at a time. Nothing is ever unpickled.
Files may be links, as they are in a download cache; shards are looked for in the folder alone.
"""

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from attomaton.disk.doors import check_memory, opened
from attomaton.disk.formats import WITH_BFLOAT, Place, array_places, read_floats, read_json
from attomaton.disk.manifest import Entry
from attomaton.errors import DataError, UsageError, listed, one_of, visible
from attomaton.trained.form import Form, read_form
from attomaton.trained.names import (
    Block,
    Piece,
    Shape,
    Weights,
    block_shapes,
    is_known_extra,
    outer_shapes,
    pieces,
)
from attomaton.trained.words import Words, read_words

CONFIG, TOKENS = "config.json", "tokenizer.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PRECISIONS = ("float32", "float64")
# Types that weights have
FLOATS = {name: WITH_BFLOAT[name] for name in ("F16", "BF16", "F32", "F64")}
MOST_SHARDS = 4096


@dataclass(frozen=True)
class Found:
    """What a folder holds, by the headers of its files: the form, where each array lies, and how large weights are."""

    folder: Path
    form: Form
    places: Mapping[str, tuple[str, Place]]  # array -> file, place
    parameters: int
    bytes: int


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained transformer in memory; `files` are those it was read from, by size and hash."""

    form: Form
    weights: Weights
    parameters: int
    files: tuple[Entry, ...]
    words: Words | None


def look_at(folder: Path | str) -> Found:
    """The form of a model and where its weights lie, all checked against each other; no weight is read."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder; a model is a folder with {CONFIG} and {WEIGHTS}."
        )
    form = read_form(folder / CONFIG, _json(folder / CONFIG))
    places = _places(folder)
    used = [places[name][1] for name in _checked(folder, form, places)]
    count = sum(math.prod(shape) for _, shape, _ in used)
    size = sum(math.prod(shape) * kind.itemsize for kind, shape, _ in used)
    return Found(folder, form, places, count, size)


def read_trained(folder: Path | str, precision: str = "float32") -> Trained:
    """A model in memory, its numbers as float32 or float64 whatever the files hold."""
    one_of("precision", precision, PRECISIONS)
    found = look_at(folder)
    dtype = np.dtype(precision)
    check_memory(found.folder, dtype.itemsize * found.parameters, found.bytes)
    weights = _filled(found, dtype)
    words = read_words(found.folder / TOKENS, found.form.vocab)
    names = [CONFIG, *sorted({file for file, _ in found.places.values()})]
    names += [name for name in (INDEX, TOKENS) if _is_there(found.folder / name)]
    files = tuple(_entry(found.folder / name) for name in sorted(set(names)))
    return Trained(found.form, weights, found.parameters, files, words)


def weight_files(folder: Path | str) -> tuple[Entry, ...]:
    """The files of a model's weights by size and hash, checked against its configuration; no weight is read."""
    found = look_at(folder)
    return tuple(
        _entry(found.folder / name) for name in sorted({file for file, _ in found.places.values()})
    )


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _json(path: Path) -> Any:
    """A JSON file that may be a link."""
    if not _is_there(path):
        raise DataError(f"{path.parent}: holds no {path.name}.")
    return read_json(Path(os.path.realpath(path)))


def _entry(path: Path) -> Entry:
    """A file by its size and hash."""
    with opened(path, links=True) as file:
        size = os.fstat(file.fileno()).st_size
        return Entry(path.name, size, file_digest(file, "sha256").hexdigest())


# Where arrays lie


def _places(folder: Path) -> dict[str, tuple[str, Place]]:
    """Every array of a model by name: its file and its place there."""
    if _is_there(folder / WEIGHTS):
        return {name: (WEIGHTS, place) for name, place in _header(folder / WEIGHTS).items()}
    if _is_there(folder / INDEX):
        return _sharded(folder)
    pickled = [x.name for end in ("*.bin", "*.pt", "*.pth") for x in sorted(folder.glob(end))]
    more = ""
    if pickled:
        more = (
            f" {visible(pickled[0])} is a pickle, which could run anything; save it as safetensors."
        )
    raise DataError(f"{folder}: holds neither {WEIGHTS} nor {INDEX}.{more}")


def _sharded(folder: Path) -> dict[str, tuple[str, Place]]:
    """The arrays of a model in several files, each where the index says."""
    path = folder / INDEX
    index = _json(path)
    table = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(table, dict) or not table or any(type(x) is not str for x in table.values()):
        raise DataError(f"{path}: weight_map is no table of files by array.")
    shards = sorted(set(table.values()))
    bad = [x for x in shards if not _plain_name(x)]
    if bad or len(shards) > MOST_SHARDS:
        raise DataError(
            f"{path}: {visible(bad[0], 60)!r} is no name of a .safetensors file beside it."
            if bad
            else f"{path}: names {len(shards):,} files; at most {MOST_SHARDS:,} are read."
        )
    found: dict[str, tuple[str, Place]] = {}
    faults = []
    for shard in shards:
        for name, place in _header(folder / shard).items():
            if table.get(name) == shard:
                found[name] = (shard, place)
            else:
                faults.append(f"{visible(name)} lies in {visible(shard)}, unlike the index says")
    faults += [f"{visible(x)} is not in {visible(table[x])}" for x in table if x not in found]
    if faults:
        raise DataError(listed(f"{path}: {len(faults)} arrays are not where it says:", faults,
                               "Download the model again."))  # fmt: skip
    return found


def _plain_name(name: str) -> bool:
    """Whether a name is that of a safetensors file in the same folder: no path, nothing hidden."""
    return (
        name.endswith(".safetensors")
        and not name.startswith(".")
        and not any(sign in name for sign in ("/", "\\", "\0"))
        and len(name) < 256
    )


def _header(path: Path) -> dict[str, Place]:
    with _safetensors(path) as file:
        return array_places(file, WITH_BFLOAT)


@contextmanager
def _safetensors(path: Path) -> Iterator[BinaryIO]:
    """A file of weights, open; what is wrong with it is said of it."""
    with opened(path, links=True) as file:
        try:
            yield file
        except DataError:
            raise
        except (OSError, ValueError, TypeError, RecursionError) as error:
            said = visible(error, 200)
            raise DataError(f"{path}: cannot be read as safetensors ({said}).") from error


# What must be there


def _checked(folder: Path, form: Form, places: Mapping[str, tuple[str, Place]]) -> set[str]:
    """The arrays that hold weights; a folder that lacks one, or has others, or of other shapes, is refused."""
    if form.layers > len(places):
        raise DataError(
            f"{folder}: {CONFIG} speaks of {form.layers:,} layers, but there are only {len(places):,} arrays."
        )
    faults: list[str] = []
    used: set[str] = set()
    for piece in pieces(form, places):
        name = _name(piece, places)
        if name is None:
            faults.append(f"{piece.names[0]} is missing")
            continue
        used.add(name)
        dtype, shape, _ = places[name][1]
        if shape != piece.shape:
            faults.append(f"{name} has the shape {shape}, not {piece.shape}")
        elif dtype not in FLOATS.values():
            faults.append(f"{name} holds {dtype}, not one of {', '.join(FLOATS)}")
    faults += [
        f"{visible(x)} is no array of {form.family}"
        for x in places
        if x not in used and not _spare(form, x)
    ]
    if faults:
        raise DataError(
            listed(
                f"{folder}: {len(faults)} arrays are not as {CONFIG} says:",
                faults,
                "Configuration and weights belong to different models, or one of them is damaged.",
            )
        )  # fmt: skip
    return used


def _name(piece: Piece, places: Mapping[str, Any]) -> str | None:
    return next((name for name in piece.names if name in places), None)


def _spare(form: Form, name: str) -> bool:
    """Whether an array may be there without being read: no weights, or the embeddings once more."""
    again = form.tied and name in ("lm_head.weight", "embed_out.weight")
    return again or is_known_extra(name)


# The numbers


def _filled(found: Found, dtype: np.dtype) -> Weights:
    """All weights, each array read, cut and put where it belongs."""
    form = found.form
    blocks = {
        field: None if shape is None else np.zeros((form.layers, *shape), dtype)
        for field, shape in block_shapes(form).items()
    }
    outer: dict[str, np.ndarray | None] = dict.fromkeys(outer_shapes(form))
    for file, wanted in _by_file(found).items():
        path = found.folder / file
        with _safetensors(path) as opened_file:
            for piece, place in wanted:
                for field, value in piece.split(
                    _numbers(path, piece, opened_file, place, dtype)
                ).items():
                    if piece.layer is None:
                        outer[field] = np.ascontiguousarray(value)
                    else:
                        blocks[field][piece.layer] = value  # type: ignore[index]
    return Weights(blocks=Block(**blocks), **outer)


def _by_file(found: Found) -> dict[str, list[tuple[Piece, Place]]]:
    """What is to be read from each file, from its beginning to its end."""
    groups: dict[str, list[tuple[Piece, Place]]] = {}
    for piece in pieces(found.form, found.places):
        name = _name(piece, found.places)
        if name is not None:
            file, place = found.places[name]
            groups.setdefault(file, []).append((piece, place))
    return {file: sorted(group, key=lambda x: x[1][2]) for file, group in groups.items()}


def _numbers(path: Path, piece: Piece, file: BinaryIO, place: Place, dtype: np.dtype) -> np.ndarray:
    """One array as numbers of the wanted type, all of them finite."""
    with np.errstate(over="ignore"):  # said below
        value = read_floats(file, place).astype(dtype)
    if not np.isfinite(value).all():
        raise DataError(f"{path}: {piece.names[0]} holds values that are not finite in {dtype}.")
    return value


def check_tokens(form: Form, tokens: np.ndarray) -> None:
    """Refuse ids outside the vocabulary and contexts longer than the model has positions for."""
    if tokens.size and (tokens.min() < 0 or tokens.max() >= form.vocab):
        raise UsageError(
            f"token ids {tokens.min()} … {tokens.max()}: the model knows 0 … {form.vocab - 1}."
        )
    if not tokens.size or tokens.shape[-1] > form.longest:
        raise UsageError(
            f"contexts of {tokens.shape[-1]:,} tokens: from 1 to {form.longest:,} are possible."
        )


def shapes_of(form: Form) -> dict[str, Shape]:
    """The arrays that a folder of this form must hold, by their first names."""
    return {piece.names[0]: piece.shape for piece in pieces(form, ())}
