"""Readers that do on purpose what no reader may: the control of `faults.inputs`, which has to find each of them."""

import os
import signal
import time
from pathlib import Path
from random import Random

import numpy as np

from attomaton.errors import DataError
from faults.inputs import Reader


def text(folder: Path) -> None:
    """Something to damage."""
    (folder / "a.txt").write_text("the cat sat on the mat")


def _accepts(folder: Path, rng: Random) -> None:
    """Takes whatever comes."""


def _refuses(folder: Path, rng: Random) -> None:
    raise DataError("a.txt: not what it should be; make it again.")


def _foreign(folder: Path, rng: Random) -> None:
    raise KeyError("summary")


def _speechless(folder: Path, rng: Random) -> None:
    raise DataError("")


def _greedy(folder: Path, rng: Random) -> None:
    np.ones(1 << 40)


def _hangs(folder: Path, rng: Random) -> None:
    time.sleep(3600)


def _dies(folder: Path, rng: Random) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


READERS = {
    "accepts": Reader(text, _accepts, 40),
    "refuses": Reader(text, _refuses, 40),
    "foreign": Reader(text, _foreign, 8),
    "speechless": Reader(text, _speechless, 8),
    "greedy": Reader(text, _greedy, 8),
    "hangs": Reader(text, _hangs, 1),
    "dies": Reader(text, _dies, 1),
}
