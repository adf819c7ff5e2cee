"""What a finished folder says of itself: settings, versions, command, seconds, and the figures a person would quote.

Every kind keeps them in files of its own; here they all look alike.
"""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.disk.formats import plain, read_json, read_text, read_toml
from attomaton.disk.records import as_record, read_record
from attomaton.folders.model import model_record
from attomaton.folders.sweep import FailedPiece, cells_of, grid_words, pieces_of, read_grid
from attomaton.folders.unfinished import Done

Figure = str | int | float | bool  # of a summary
Versions = dict[str, str | None]
# What a summary holds besides figures: where it lies, what it is called, what is told elsewhere.
NO_FIGURES = ("run", "model", "sweep", "schema_version", "seconds", "explanation", "title", "asked")


@dataclass(frozen=True)
class Contents:
    """What a folder says of itself; of work that was stopped on the way, also how much of it is `done`."""

    settings: dict[str, Any]
    versions: Versions
    command: str | None
    figures: dict[str, Figure]
    seconds: float | None = None
    state: str = "finished"  # or diverged, or interrupted
    done: Done | None = None
    note: str = ""


def model_contents(folder: Path) -> Contents:
    """Of a model."""
    record = model_record(folder)
    said = {} if record.embeddings is None else {"embeddings": record.embeddings}
    return Contents(
        flat({"data": record.data, **plain(record.reading), **said}),
        record.environment,
        record.command,
        flat(plain(record.summary)),
    )


def predictor_contents(folder: Path) -> Contents:
    """Of a predictor."""
    record = read_json(folder / "predictor.json")
    chosen, told = record["chosen"], ("train", "gate", "certificates")
    data = record.get("data", {})
    return Contents(
        {**data, **flat({k: v for k, v in record.get("reading", {}).items() if v is not None})},
        _versions(folder / "predictor.json", record.get("environment", {})),
        record.get("command"),
        flat({**chosen, **{k: record[k] for k in told if k in record}}),
        float(record["seconds"]) if "seconds" in record else None,
    )


def sweep_contents(folder: Path) -> Contents:
    """Of a sweep, which may still be under way."""
    asked = read_grid(folder)
    words = ["attomaton", "sweep", ",".join(asked.classes), *grid_words(asked.grid)]
    cells = cells_of(asked.grid, asked.classes, asked.level)
    there = {path.stem for path in (folder / "pieces").iterdir()}
    ended = sum(len(p.cells) for p in pieces_of(cells, asked.level) if p.name in there)
    unable = (read_record(path, FailedPiece) for path in (folder / "pieces").glob("*.json"))
    failed = sum(len(piece.cells) for piece in unable)
    whole = ended == len(cells) and (failed == ended or (folder / "results.parquet").is_file())
    return Contents(
        {"classes": ",".join(asked.classes), "level": asked.level,
         **{name: ",".join(map(str, values)) for name, values in asked.grid.items()}},
        {},
        shlex.join([*words, "-o", str(folder), "--level", asked.level]),
        {"cells": len(cells), "failed": failed},
        state="finished" if whole else "interrupted",
        done=Done(ended, len(cells), "cells"),
        note=f"{failed} cells failed" if failed else "",
    )  # fmt: skip


def run_contents(folder: Path) -> Contents:
    """Of a run of any command, or a verification: of all that `disk.provenance` writes."""
    summary = read_json(folder / "summary.json")
    settings = read_toml(folder / "config.toml")
    status = folder / "status.json"
    ended = read_json(status) if status.is_file() else {}
    words = [str(word) for words in ended.values() for word in words]
    stopped = [word for word in words if word != "finished"]
    state, done, note = "finished", None, ""
    if "interrupted" in stopped:
        state, done = "interrupted", Done(int(summary["steps"]), int(settings["steps"]), "steps")
    elif stopped:
        state, note = "diverged", f"{len(stopped)} of {len(words)}: {stopped[0]}"
    return Contents(
        settings,
        _versions(folder / "env.json", read_json(folder / "env.json")),
        read_text(folder / "command.txt").strip(),
        flat(summary),
        _seconds(summary),
        state,
        done,
        note,
    )


@dataclass(frozen=True)
class _Under:
    versions: Versions


def _versions(path: Path, value: Any) -> Versions:
    return as_record(_Under, {"versions": value}, path).versions


def _seconds(summary: Mapping[str, Any]) -> float | None:
    """All seconds of a summary, wherever in it they stand."""
    levels = summary.get("levels", {})
    parts = [summary, summary.get("training", {})]
    if isinstance(levels, Mapping):
        parts += levels.values()
    found: list[float] = []
    for part in parts:
        took = part.get("seconds") if isinstance(part, Mapping) else None
        found += took.values() if isinstance(took, Mapping) else [took] if took is not None else []
    return float(sum(found)) if found else None


def flat(summary: Mapping[str, Any], above: str = "") -> dict[str, Figure]:
    """The figures of a summary as names and single values.

    Values of several seeds are told by their mean, words by how often each occurs, claims by their verdict.

    >>> flat({"loss": {"floor": 0.5}, "final": [{"seed": 0, "gap": 1.0}, {"seed": 1, "gap": 3.0}]})
    {'loss.floor': 0.5, 'final.gap': 2.0}
    >>> flat({"status": ["finished", "finished"], "claims": [{"claim": "T1", "verdict": "holds"}]})
    {'status': '2 finished', 'T1': 'holds'}
    """
    figures: dict[str, Figure] = {}
    for name, value in summary.items():
        if name in NO_FIGURES:
            continue
        if isinstance(value, Mapping):
            figures |= flat(value, f"{above}{name}.")
        elif isinstance(value, list):
            figures |= dict(_of_list(f"{above}{name}", value))
        elif value is not None:
            figures[f"{above}{name}"] = value
    return figures


def _of_list(name: str, values: Sequence[Any]) -> Iterator[tuple[str, Figure]]:
    if values and all(isinstance(x, Mapping) for x in values):
        if all("claim" in x and "verdict" in x for x in values):
            yield from ((str(x["claim"]), x["verdict"]) for x in values)
        elif all("seed" in x for x in values):
            for column in values[0]:
                if column != "seed":
                    rows = [x.get(column) for x in values]
                    yield from _of_list(f"{name}.{column}", rows)
        elif "." not in name:
            yield name, f"{len(values)} rows"
    elif values and all(isinstance(x, (int, float)) for x in values):
        yield name, float(sum(values)) / len(values)
    elif values and all(isinstance(x, str) for x in values):
        counts = Counter(values)
        alone = len(values) == 1
        yield name, values[0] if alone else ", ".join(f"{n} {x}" for x, n in counts.items())
