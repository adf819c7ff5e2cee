"""Work that was not finished: what was asked of it, by which command, and how much of it is done."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.disk.formats import read_arrays, read_json
from attomaton.disk.holdings import CONFIG_FILE
from attomaton.errors import DataError


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


@dataclass(frozen=True)
class Asked:
    """What a work folder is for: its command (None where an earlier attomaton did not write it), versions, settings."""

    maker: str | None
    versions: dict[str, str | None]
    settings: dict[str, Any]


def read_asked(work: Path) -> Asked:
    """What was asked of the work in a work folder."""
    config = read_json(work / CONFIG_FILE)
    if not isinstance(config, dict) or not isinstance(config.get("versions", {}), dict):
        raise DataError(f"{work / CONFIG_FILE}: does not say what was asked.")
    settings = {k: v for k, v in config.items() if k not in ("maker", "versions")}
    return Asked(config.get("maker"), config.get("versions", {}), settings)


def parts_done(work: Path, asked: Asked) -> Done:
    """Of a fit."""
    table = work / "corpus" / "parts.json"
    if (work / "model.json").is_file():
        return Done(0, None, "all parts solved")
    if not table.is_file():
        return Done(0, None, "reading the data")
    return Done(len(list(work.glob("part-*.json"))), len(read_json(table)["parts"]), "parts")


def claims_done(work: Path, asked: Asked) -> Done:
    """Of a verification."""
    return _there(work / "claims", asked.settings["claims"], ".json", "claims")


def levels_done(work: Path, asked: Asked) -> Done:
    """Of an experiment in scan and snap."""
    return _there(work / "checkpoints", asked.settings["levels"], ".safetensors", "levels")


def _there(folder: Path, names: Collection[str], suffix: str, what: str) -> Done:
    found = [name for name in names if (folder / f"{name}{suffix}").is_file()]
    return Done(len(found), len(names), what)


def pieces_done(work: Path, asked: Asked) -> Done:
    """Of a tuning."""
    # Nobody knows beforehand how often a grid is widened: those pieces come on top.
    found = (work / "pieces").glob("*.parquet")
    pieces = [path for path in found if not path.stem.startswith("wider")]
    return Done(len(pieces), int(asked.settings["pieces"]), "pieces")


def points_done(work: Path, asked: Asked) -> Done:
    """Of embeddings in more and more dimensions; nobody knows how many unless they were named."""
    there, named = len(list((work / "pieces").glob("*.json"))), asked.settings["d"]
    if named is None:
        return Done(there, None, f"{there:,} pieces")
    return Done(there, len(named) * int(asked.settings["draws"]) + 1, "pieces")


def resamples_done(work: Path, asked: Asked) -> Done:
    """Of a bootstrap; the name of a piece says how many it holds."""
    there = sum(int(x.stem.partition("-")[2]) for x in (work / "pieces").glob("*.safetensors"))
    return Done(there, int(asked.settings["resamples"]), "resamples")


def steps_done(work: Path, asked: Asked) -> Done:
    """Of a training run."""
    return Done(_step(work / "checkpoint.safetensors"), int(asked.settings["steps"]), "steps")


def states_done(work: Path, asked: Asked) -> Done:
    """Of a published experiment: what was kept of it."""
    kept = sorted((work / "checkpoints").glob("*.safetensors"))
    said = ", ".join(f"{x.stem} at step {n:,}" if (n := _step(x)) else x.stem for x in kept)
    return Done(0, None, said or "nothing kept yet")


def _step(checkpoint: Path) -> int:
    """The step a checkpoint was taken at, 0 where there is none."""
    saved = read_arrays(checkpoint, ["step"], finite=False)
    return int(saved["step"].max()) if "step" in saved else 0
