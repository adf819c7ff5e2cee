"""What a finished folder says of itself: settings, versions, command, seconds, and the figures a person would quote.

Every kind keeps them in files of its own; here they all look alike.
"""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attomaton.disk.formats import read_json, read_text, read_toml
from attomaton.errors import AttomatonError, DataError

Record = dict[str, Any]
# What a summary holds besides figures: where it lies, what it is called, what is told elsewhere.
NO_FIGURES = ("run", "model", "sweep", "schema_version", "seconds", "explanation", "title", "asked")


@dataclass(frozen=True)
class Contents:
    """What a folder says of itself; `maker` is the command that makes such folders."""

    maker: str
    settings: Record
    versions: Record
    command: str | None
    figures: Record
    seconds: float | None = None
    status: list[str] = field(default_factory=list)


def read_contents(folder: Path, kind: str) -> Contents:
    """The contents of a folder of this kind; `DataError` where a file is missing or broken."""
    reader = {"model": _model, "sweep": _sweep, "predictor": _predictor}.get(kind, _run)
    try:
        return reader(folder)
    except AttomatonError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise DataError(f"{folder}: its files do not fit together ({error!r}).") from error


def _model(folder: Path) -> Contents:
    record = read_json(folder / "model.json")
    return Contents(
        "fit",
        {"data": record["data"], **flat(record.get("reading", {}))},
        {**record.get("environment", {})},
        record.get("command"),
        flat(record["summary"]),
    )


def _predictor(folder: Path) -> Contents:
    record = read_json(folder / "predictor.json")
    chosen, told = record["chosen"], ("train", "gate", "certificates")
    data = record.get("data", {})
    return Contents(
        "tune",
        {**data, **flat({k: v for k, v in record.get("reading", {}).items() if v is not None})},
        {**record.get("environment", {})},
        record.get("command"),
        flat({**chosen, **{k: record[k] for k in told if k in record}}),
        float(record["seconds"]) if "seconds" in record else None,
    )


def _sweep(folder: Path) -> Contents:
    from attomaton.folders.sweep import cells_of, grid_words

    asked = read_json(folder / "sweep.json")
    grid, classes, level = asked["grid"], asked["classes"], asked["level"]
    words = ["attomaton", "sweep", ",".join(classes), *grid_words(grid), "-o", str(folder)]
    return Contents(
        "sweep",
        {"classes": ",".join(classes), "level": level,
         **{name: ",".join(map(str, values)) for name, values in grid.items()}},
        {},
        shlex.join([*words, "--level", level]),
        {"cells": len(cells_of(grid, classes, level))},
    )  # fmt: skip


def _run(folder: Path) -> Contents:
    """A run of any command, or a verification."""
    summary = read_json(folder / "summary.json")
    settings = read_toml(folder / "config.toml")
    status = folder / "status.json"
    ended = read_json(status) if status.is_file() else {}
    return Contents(
        _maker(settings),
        settings,
        {**read_json(folder / "env.json")},
        read_text(folder / "command.txt").strip(),
        flat(summary),
        _seconds(summary),
        [str(word) for words in ended.values() for word in words],
    )


def _maker(settings: Mapping[str, Any]) -> str:
    """The command whose settings these are."""
    if "quick" in settings and "preset" not in settings:
        return "verify"
    for name, maker in (("preset", "reproduce"), ("classes", "dynamics"), ("data", "train")):
        if name in settings:
            return maker
    return "demo"


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


def flat(summary: Mapping[str, Any], above: str = "") -> Record:
    """The figures of a summary as names and single values.

    Values of several seeds are told by their mean, words by how often each occurs, claims by their verdict.

    >>> flat({"loss": {"floor": 0.5}, "final": [{"seed": 0, "gap": 1.0}, {"seed": 1, "gap": 3.0}]})
    {'loss.floor': 0.5, 'final.gap': 2.0}
    >>> flat({"status": ["finished", "finished"], "claims": [{"claim": "T1", "verdict": "holds"}]})
    {'status': '2 finished', 'T1': 'holds'}
    """
    figures: Record = {}
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


def _of_list(name: str, values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
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
