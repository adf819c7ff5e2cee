"""How a folder of each kind is read, counted while it is unfinished, and compared; its plain facts are in `disk.kinds`.

A kind that is not named here is read as every run is, by what `disk.provenance` writes, and compared by its tables.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from attomaton.disk.kinds import KINDS
from attomaton.errors import AttomatonError, DataError
from attomaton.folders.contents import (
    Contents,
    model_contents,
    predictor_contents,
    run_contents,
    sweep_contents,
)
from attomaton.folders.unfinished import (
    Asked,
    Done,
    claims_done,
    levels_done,
    parts_done,
    pieces_done,
    states_done,
    steps_done,
)


@dataclass(frozen=True)
class Ways:
    """What can be done with a folder of a kind: `done` are those that count unfinished work, by its command."""

    read: Callable[[Path], Contents] = run_contents
    done: Mapping[str, Callable[[Path, Asked], Done]] = field(default_factory=dict)


WAYS = {
    "model": Ways(model_contents, {"fit": parts_done}),
    "run": Ways(
        done={"train": steps_done, "reproduce": states_done, "dynamics": levels_done},
    ),
    "sweep": Ways(sweep_contents),
    "verification": Ways(done={"verify": claims_done}),
    "predictor": Ways(predictor_contents, {"tune": pieces_done}),
}


def ways(kind: str) -> Ways:
    """What can be done with a folder of this kind."""
    return WAYS.get(kind, Ways())


def read_contents(folder: Path, kind: str) -> Contents:
    """The contents of a folder of this kind; `DataError` where a file is missing or broken."""
    try:
        return ways(kind).read(folder)
    except AttomatonError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise DataError(f"{folder}: its files do not fit together ({error!r}).") from error


def work_kind(asked: Asked) -> str:
    """The kind of folder that unfinished work will come to."""
    return next((k.name for k in KINDS.values() if asked.maker in k.makers), "unknown")


def work_done(work: Path, asked: Asked) -> Done | None:
    """What a work folder has of the whole."""
    count = ways(work_kind(asked)).done.get(asked.maker or "")
    return None if count is None else count(work, asked)
