"""Write models in the layout of Hugging Face: configuration, weights, and a tokenizer of whole words."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attomaton.disk.formats import write_arrays, write_json
from attomaton.errors import UsageError
from attomaton.trained.folder import CONFIG, TOKENS, WEIGHTS

if TYPE_CHECKING:
    from attomaton.transformer.model import Params, Settings


def write_model(
    folder: Path | str,
    config: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    tokens: Sequence[object] | None = None,
) -> None:
    """Write one model; `tokens` are the words that the rows of its embeddings stand for, cut at white space."""
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: is not empty; name a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / CONFIG, config)
    write_arrays(folder / WEIGHTS, arrays)
    if tokens is not None:
        write_json(folder / TOKENS, word_tokenizer(tokens))


def write_own(
    folder: Path | str,
    params: "Params",
    settings: "Settings",
    tokens: Sequence[object] | None = None,
) -> None:
    """Write a transformer of this package (see `attomaton.transformer`)."""
    outer = {name: np.asarray(getattr(params, name)) for name in ("U", "D", "b")}
    layers = {
        f"layers.{i}.{name}": np.asarray(value)
        for i, layer in enumerate(params.layers)
        for name, value in layer._asdict().items()
    }
    config = {"model_type": "attomaton", **settings._asdict()}
    write_model(folder, config, outer | layers, tokens)


def word_tokenizer(tokens: Sequence[object]) -> dict[str, Any]:
    """The content of a `tokenizer.json` whose tokens are words between white space."""
    ids = {str(token): i for i, token in enumerate(tokens)}
    unknown = "<unk>" if "<unk>" in ids else next(iter(ids), "")
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": unknown},
    }
