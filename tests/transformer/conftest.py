"""A small text, a small model, and the textbook program."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from attomaton.transformer.data import windows
from attomaton.transformer.model import Settings


@pytest.fixture(scope="session")
def reference():
    """The textbook program beside this file."""
    path = Path(__file__).with_name("reference.py")
    spec = importlib.util.spec_from_file_location("reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def text():
    """Windows of a stream in which each token calls for one of three others."""
    rng = np.random.default_rng(0)
    ids = [0]
    for _ in range(4_000):
        ids.append(int((3 * ids[-1] + rng.choice(3, p=[0.7, 0.2, 0.1])) % 17))
    return windows(np.array(ids), batch=4, length=6)


@pytest.fixture(scope="session")
def small():
    """A model of two layers and two heads, without dropout."""
    return Settings(17, width=8, heads=2, hidden=12, layers=2, dropout=0.0)


@pytest.fixture(scope="session")
def flat():
    """A model of one layer and one head, without dropout."""
    return Settings(17, width=8, hidden=8, dropout=0.0)
