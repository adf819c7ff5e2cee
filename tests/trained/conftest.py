"""Tiny models of every family, made of numbers drawn by name, and what the `transformers` library says of them."""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from attomaton.disk.formats import write_json
from attomaton.trained.write import write_model

HERE = Path(__file__).parent


def beside(name, folder=HERE):
    """A module that lies beside this file."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def witness():
    return beside("witness")


@pytest.fixture(scope="session")
def textbook():
    """The textbook program of our own transformer."""
    return beside("reference", HERE.parent / "transformer")


@pytest.fixture(scope="session")
def golden():
    """By name: configuration, shapes of arrays, logits in both precisions, attention; and the tokens."""
    told = json.loads((HERE / "golden.json").read_text(encoding="utf-8"))
    with np.load(HERE / "golden.npz") as arrays:
        found = {
            name: SimpleNamespace(
                **one, **{x: arrays[f"{name}/{x}"] for x in ("single", "logits", "attention")}
            )
            for name, one in told.items()
        }
        return SimpleNamespace(models=found, tokens=arrays["tokens"].astype(int))


@pytest.fixture(scope="session")
def arrays(golden):
    """The arrays of a model, as its files hold them."""
    draw = beside("draws").draw
    return lambda name: {x: draw(x, s) for x, s in golden.models[name].shapes.items()}


@pytest.fixture(scope="session")
def folders(golden, arrays, tmp_path_factory):
    """A folder for every model."""
    root = tmp_path_factory.mktemp("models")
    for name, one in golden.models.items():
        write_model(root / name, one.config, arrays(name))
    return root


@pytest.fixture
def folder(golden, arrays, tmp_path):
    """A folder of a GPT-2, to be damaged."""
    path = tmp_path / "model"
    write_model(path, golden.models["gpt2"].config, arrays("gpt2"), [f"w{i}" for i in range(29)])
    return path


@pytest.fixture
def change(folder):
    """Set entries of the configuration; None takes one out."""

    def set_to(**entries):
        path = folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        config = {k: v for k, v in {**config, **entries}.items() if v is not None}
        write_json(path, config)

    return set_to
