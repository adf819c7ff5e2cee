"""How a folder of each kind is read, counted while it is unfinished, and compared; its plain facts are in `disk.kinds`.

A kind that is not named here is read as every run is, by what `disk.provenance` writes, and compared by its tables.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attomaton.disk.kinds import KINDS
from attomaton.errors import AttomatonError, DataError
from attomaton.folders import unfinished
from attomaton.folders.contents import (
    Contents,
    model_contents,
    predictor_contents,
    run_contents,
    sweep_contents,
)
from attomaton.folders.differ.models import Graphs, model_difference
from attomaton.folders.differ.runs import Tables, Training, table_difference, training_difference
from attomaton.folders.differ.sweeps import Cells, sweep_difference
from attomaton.folders.unfinished import Asked, Done

# How a finished folder is read, by its kind; by the command that made them, how unfinished work is counted and how two
# folders are compared.
READ: dict[str, Callable[[Path], Contents]] = {
    "model": model_contents,
    "sweep": sweep_contents,
    "predictor": predictor_contents,
}
DONE: dict[str | None, Callable[[Path, Asked], Done]] = {
    "fit": unfinished.parts_done,
    "train": unfinished.steps_done,
    "reproduce": unfinished.states_done,
    "dynamics": unfinished.levels_done,
    "dimensions": unfinished.points_done,
    "bootstrap": unfinished.resamples_done,
    "verify": unfinished.claims_done,
    "tune": unfinished.pieces_done,
}
DIFFER: dict[str | None, Callable[[Path, Path], Training | Cells]] = {
    "train": training_difference,
    "demo": training_difference,
    "sweep": sweep_difference,
}


def read_contents(folder: Path, kind: str) -> Contents:
    """The contents of a folder of this kind; `DataError` where a file is missing or broken."""
    with _readable(f"{folder}"):
        return READ.get(kind, run_contents)(folder)


def compared(
    a: Path, b: Path, maker: str | None, most: int = 5
) -> Graphs | Training | Cells | Tables:
    """What only their kind can tell of how two folders differ; of models, `most` changes of each sort in words."""
    with _readable(f"{a} or {b}"):
        if maker == "fit":
            return model_difference(a, b, most)
        return DIFFER.get(maker, table_difference)(a, b)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """A block that reads what others may have written: whatever that raises is told as damage."""
    try:
        yield
    except AttomatonError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise DataError(f"{name}: its files do not fit together ({error!r}).") from error


def work_kind(asked: Asked) -> str:
    """The kind of folder that unfinished work will come to."""
    return next((k.name for k in KINDS.values() if asked.maker in k.makers), "unknown")


def work_done(work: Path, asked: Asked) -> Done | None:
    """What a work folder has of the whole."""
    count = DONE.get(asked.maker)
    return None if count is None else count(work, asked)
