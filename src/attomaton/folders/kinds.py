"""How a folder of each kind is read, counted while it is unfinished, and compared; its plain facts are in `disk.kinds`.

A kind that is not named here is read as every run is, by what `disk.provenance` writes, and compared by its tables.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Ways:
    """How such folders are read when they are finished, how unfinished work is counted and how two are compared.

    The latter two depend on the command that made them.
    """

    read: Callable[[Path], Contents] = run_contents
    done: Mapping[str, Callable[[Path, Asked], Done]] = field(default_factory=dict)
    differ: Mapping[str, Callable[[Path, Path], Graphs | Training | Cells]] = field(
        default_factory=dict
    )


WAYS = {
    "model": Ways(model_contents, {"fit": unfinished.parts_done}, {"fit": model_difference}),
    "run": Ways(
        done={
            "train": unfinished.steps_done,
            "reproduce": unfinished.states_done,
            "dynamics": unfinished.levels_done,
            "dimensions": unfinished.points_done,
            "bootstrap": unfinished.resamples_done,
        },
        differ={"train": training_difference, "demo": training_difference},
    ),
    "sweep": Ways(sweep_contents, differ={"sweep": sweep_difference}),
    "verification": Ways(done={"verify": unfinished.claims_done}),
    "predictor": Ways(predictor_contents, {"tune": unfinished.pieces_done}),
}


def ways(kind: str) -> Ways:
    """What can be done with a folder of this kind."""
    return WAYS.get(kind, Ways())


def read_contents(folder: Path, kind: str) -> Contents:
    """The contents of a folder of this kind; `DataError` where a file is missing or broken."""
    with _readable(f"{folder}"):
        return ways(kind).read(folder)


def compared(
    a: Path, b: Path, kind: str, maker: str | None, most: int = 5
) -> Graphs | Training | Cells | Tables:
    """What only their kind can tell of how two folders differ; of models, `most` changes of each sort in words."""
    with _readable(f"{a} or {b}"):
        differ = ways(kind).differ.get(maker or "", table_difference)
        return model_difference(a, b, most) if differ is model_difference else differ(a, b)


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
    count = ways(work_kind(asked)).done.get(asked.maker or "")
    return None if count is None else count(work, asked)
