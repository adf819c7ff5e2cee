"""Damaged folders of trained transformers: every file of every family, broken, hostile or elsewhere.

`python -m faults networks` damages a file at a time as `faults inputs` does (bits, lengths, shapes, types, nesting),
and one folder in three besides as a whole: links to devices, to itself or out of the folder, shards that the index
looks for elsewhere, files that claim gigabytes. A worker may take no more than `faults.watch.MEMORY` of address space.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from attomaton.disk.formats import to_json, write_arrays, write_json
from attomaton.trained.attention import read_attention
from attomaton.trained.folder import (
    CONFIG,
    INDEX,
    TOKENS,
    WEIGHTS,
    check_tokens,
    read_trained,
    shapes_of,
)
from attomaton.trained.form import frequencies, read_form
from attomaton.trained.write import word_tokenizer, write_model
from faults.inputs import Reader, run, table

VOCAB = 7
LLAMA = {
    "vocab_size": VOCAB, "hidden_size": 4, "intermediate_size": 5, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 9, "rms_norm_eps": 1e-6,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {"vocab_size": VOCAB, "n_embd": 4, "n_layer": 2, "n_head": 2, "n_positions": 9},
    "gpt_neox": {**LLAMA, "rotary_pct": 1.0, "layer_norm_eps": 1e-5},
    "llama": {**LLAMA, "rope_theta": 1e4, "attention_bias": True,
              "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                               "original_max_position_embeddings": 16}},
    "mistral": {**LLAMA, "head_dim": 6, "sliding_window": 3},
    "qwen2": {**LLAMA, "use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1,
              "layer_types": ["full_attention", "sliding_attention"], "tie_word_embeddings": True},
    "qwen3": {**LLAMA, "head_dim": 6},
    "attomaton": {"vocab": VOCAB, "width": 4, "heads": 2, "hidden": 5, "layers": 2, "positions": True},
    "transformer_lens": {"n_layers": 2, "d_model": 4, "d_head": 2, "n_heads": 2, "d_mlp": 5, "n_ctx": 9,
                         "d_vocab": VOCAB, "act_fn": "relu", "normalization_type": "LN"},
}  # fmt: skip


def _seed(family: str, shards: int, folder: Path) -> None:
    """A tiny model of one family, in one file or several."""
    config = dict(CONFIGS[family])
    if family != "transformer_lens":
        config = {"model_type": family, **config}
    rng = np.random.default_rng(0)
    kind = ("<f4", "<f2", "<f8")[len(family) % 3]
    shapes = shapes_of(read_form(folder, config))
    arrays = {name: rng.normal(size=shape).astype(kind) for name, shape in shapes.items()}
    tokens = ["<eos>", *(f"w{i}" for i in range(1, VOCAB))]
    if shards == 1:
        write_model(folder, config, arrays, tokens)
        return
    write_json(folder / CONFIG, config)
    write_json(folder / TOKENS, word_tokenizer(tokens))
    where = {}
    for i in range(shards):
        name = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        some = {key: arrays[key] for key in list(arrays)[i::shards]}
        write_arrays(folder / name, some)
        where |= dict.fromkeys(some, name)
    write_json(folder / INDEX, {"metadata": {"total_size": 1}, "weight_map": where})


def _seed_attention(folder: Path) -> None:
    even = np.tri(3) / np.arange(1, 4)[:, None]
    attention = np.broadcast_to(even, (2, 1, 2, 3, 3)).astype(np.float32)
    tokens = np.array([[0, 1, 2], [2, 1, 0]])
    np.savez(folder / "a.npz", attention=attention, tokens=tokens, scores=attention)
    np.savez_compressed(folder / "b.npz", attention=attention, tokens=tokens)


def _read(folder: Path, rng: Random) -> None:
    """Read the model as a user would, and touch what came of it."""
    with _hostile(folder, rng) if rng.random() < 1 / 3 else nullcontext():
        model = read_trained(folder, rng.choice(("float32", "float64")))
    check_tokens(model.form, np.zeros((1, 1), int))
    if model.form.rotary is not None and not np.isfinite(frequencies(model.form.rotary)).all():
        raise ValueError("turns that are no numbers")
    to_json(model.files)
    to_json(model.form).encode()
    if model.words is not None:
        _ = model.words.id_of("<eos>", model.form.end), model.words.id_of("w3")


def _read_attention(folder: Path, rng: Random) -> None:
    for name in ("a.npz", "b.npz"):
        read_attention(folder / name)


# Damage to a folder as a whole


@contextmanager
def _hostile(folder: Path, rng: Random) -> Iterator[None]:
    """The folder with one of its files changed into something worse, and afterwards as it was."""
    files = sorted(p.name for p in folder.iterdir() if p.is_file() and not p.is_symlink())
    if not files:
        yield
        return
    name = rng.choice(files)
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    try:
        rng.choice(DAMAGES)(rng, folder, path, content)
        yield
    finally:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
        path.write_bytes(content)


def _link(target: str) -> Callable[[Random, Path, Path, bytes], None]:
    return lambda rng, folder, path, content: path.symlink_to(target or path.name)


def _directory(rng: Random, folder: Path, path: Path, content: bytes) -> None:
    path.mkdir()


def _pipe(rng: Random, folder: Path, path: Path, content: bytes) -> None:
    os.mkfifo(path)


def _sparse(rng: Random, folder: Path, path: Path, content: bytes) -> None:
    """As long as a huge file, and no larger on the disk."""
    path.write_bytes(content)
    os.truncate(path, rng.choice((1 << 31, 1 << 36, 1 << 40)))


def _claims_gigabytes(rng: Random, folder: Path, path: Path, content: bytes) -> None:
    """A file whose header and length agree on an array of many gigabytes, all of it a hole."""
    if path.suffix != ".safetensors":
        return _sparse(rng, folder, path, content)
    with suppress(ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        name = rng.choice([x for x in header if x != "__metadata__"])
        ends = max(x["data_offsets"][1] for k, x in header.items() if k != "__metadata__")
        rows = rng.choice((1 << 24, 1 << 32))
        shape = [rows, *header[name]["shape"][1:]]
        more = int(np.prod(shape)) * 8
        if rng.random() < 0.5:
            name = "more"
        header[name] = {"dtype": "F64", "shape": shape, "data_offsets": [ends, ends + more]}
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
        os.truncate(path, 8 + len(text) + ends + more)
        return None
    return _sparse(rng, folder, path, content)


def _elsewhere(rng: Random, folder: Path, path: Path, content: bytes) -> None:
    """An index that sends the reader out of the folder, round in circles, or to another kind of file."""
    path.write_bytes(content)
    index = folder / INDEX
    with suppress(ValueError, OSError, AttributeError, TypeError, KeyError, RecursionError):
        said = json.loads(index.read_bytes())
        names = list(said["weight_map"])
        to = rng.choice((
            "../model.safetensors", "/dev/zero", "/proc/self/environ", INDEX, CONFIG, "..", ".", "", "a/../" + WEIGHTS,
            "\0.safetensors", "x" * 5000 + ".safetensors", "%2e%2e/a.safetensors", "..\\a.safetensors", "-.safetensors",
        ))  # fmt: skip
        for name in rng.sample(names, rng.randint(1, len(names))):
            said["weight_map"][name] = to
        if path == index:  # no other file is mended afterwards
            index.write_bytes(json.dumps(said).encode())


DAMAGES: tuple[Callable[[Random, Path, Path, bytes], None], ...] = (
    _link(""), _link("/dev/zero"), _link("/dev/null"), _link("nowhere"), _link("."), _link("/proc/self/environ"),
    _directory, _pipe, _sparse, _claims_gigabytes, _claims_gigabytes, _elsewhere, _elsewhere,
)  # fmt: skip
READERS = {
    **{name: Reader(partial(_seed, name, 1), _read, 8) for name in CONFIGS},
    "gpt2 in shards": Reader(partial(_seed, "gpt2", 2), _read, 8),
    "llama in shards": Reader(partial(_seed, "llama", 3), _read, 8),
    "attention (.npz)": Reader(_seed_attention, _read_attention, 6),
}


def main(arguments: list[str]) -> int:
    """The command line; 0 only where nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m faults networks", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="how many (default 100000)")
    parser.add_argument("--seed", type=int, default=0, help="what they are made from (default 0)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    asked = parser.parse_args(arguments)
    found = run(asked.inputs, asked.seed, asked.workers, "faults.networks")
    print(table(found))
    return 1 if found["findings"] else 0
