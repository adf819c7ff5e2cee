"""Work that was not finished: which command it belongs to, how much of it is done, and what goes on with it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.disk.formats import read_arrays, read_json
from attomaton.disk.ledger import read_ledger

Record = dict[str, Any]
MAKERS = {
    "fit": "model", "train": "run", "reproduce": "run", "dynamics": "run", "verify": "verification",
    "tune": "predictor",
}  # fmt: skip


@dataclass(frozen=True)
class Done:
    """How much of some work is done; `of` is None where nobody knows yet how much there is."""

    done: int
    of: int | None
    what: str

    def __str__(self) -> str:
        if self.of is None:
            return self.what
        return f"{self.done:,} of {self.of:,} {self.what}"


def maker_of(config: Mapping[str, Any]) -> str | None:
    """The command whose work folder has this config, if it is one we know."""
    marks = {
        "claims": "verify", "preset": "reproduce", "samples": "train", "dense": "fit", "thetas": "tune",
        "levels": "dynamics",
    }  # fmt: skip
    return next((maker for name, maker in marks.items() if name in config), None)


def work_done(work: Path, config: Mapping[str, Any]) -> Done | None:
    """What a work folder has of the whole."""
    count = _COUNTS.get(maker_of(config) or "")
    return None if count is None else count(work, config)


def _parts(work: Path, config: Mapping[str, Any]) -> Done:
    table = work / "corpus" / "parts.json"
    if (work / "model.json").is_file():
        return Done(0, None, "all parts solved")
    if not table.is_file():
        return Done(0, None, "reading the data")
    return Done(len(list(work.glob("part-*.json"))), len(read_json(table)["parts"]), "parts")


def _claims(work: Path, config: Mapping[str, Any]) -> Done:
    return _there(work / "claims", config["claims"], ".json", "claims")


def _levels(work: Path, config: Mapping[str, Any]) -> Done:
    return _there(work / "checkpoints", config["levels"], ".safetensors", "levels")


def _there(folder: Path, names: Collection[str], suffix: str, what: str) -> Done:
    found = [name for name in names if (folder / f"{name}{suffix}").is_file()]
    return Done(len(found), len(names), what)


def _pieces(work: Path, config: Mapping[str, Any]) -> Done:
    # Nobody knows beforehand how often a grid is widened: those pieces come on top.
    found = (work / "pieces").glob("*.parquet")
    pieces = [path for path in found if not path.stem.startswith("wider")]
    return Done(len(pieces), int(config["pieces"]), "pieces")


def _steps(work: Path, config: Mapping[str, Any]) -> Done:
    return Done(_step(work / "checkpoint.safetensors"), int(config["steps"]), "steps")


def _kept(work: Path, config: Mapping[str, Any]) -> Done:
    kept = sorted((work / "checkpoints").glob("*.safetensors"))
    said = ", ".join(f"{x.stem} at step {n:,}" if (n := _step(x)) else x.stem for x in kept)
    return Done(0, None, said or "nothing kept yet")


_COUNTS = {
    "fit": _parts, "verify": _claims, "tune": _pieces, "train": _steps, "reproduce": _kept, "dynamics": _levels,
}  # fmt: skip


def _step(checkpoint: Path) -> int:
    """The step a checkpoint was taken at, 0 where there is none."""
    saved = read_arrays(checkpoint, ["step"], finite=False)
    return int(saved["step"].max()) if "step" in saved else 0


def work_command(work: Path) -> str | None:
    """The command that goes on, as it was typed last; None where the ledger does not know it."""
    typed = [line["command"] for line in read_ledger(work) if isinstance(line.get("command"), str)]
    return typed[-1] if typed else None


def sweep_done(folder: Path) -> Done:
    """How many cells of a sweep have ended, well or with an error."""
    from attomaton.folders.sweep import cells_of, pieces_of

    asked = read_json(folder / "sweep.json")
    cells = cells_of(asked["grid"], asked["classes"], asked["level"])
    there = {path.stem for path in (folder / "pieces").iterdir()}
    ended = sum(len(p.cells) for p in pieces_of(cells, asked["level"]) if p.name in there)
    return Done(ended, len(cells), "cells")


def failed_cells(folder: Path) -> int:
    """How many cells of a sweep ended with an error."""
    return sum(len(read_json(path)["cells"]) for path in (folder / "pieces").glob("*.json"))
