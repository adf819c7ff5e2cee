"""Published experiments by name: run, judged, and left behind with their figure and data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from attomaton.errors import UsageError, nearest
from attomaton.report import published
from attomaton.report.canvas import save
from attomaton.results import Verdict
from attomaton.runs import provenance
from attomaton.storage import new_folder, write_columns

Result = dict[str, Any]


@dataclass(frozen=True)
class Preset:
    """One published experiment: where its numbers come from, how they are drawn, what is asked of them.

    `source` is a module and function of `claims`; what it returns holds a `verdict`, or `judge` gives it.
    `table` are the columns of its data; `big` names entries too large for the summary.
    """

    title: str
    source: tuple[str, str]
    asked: str
    draw: Callable[[Result], Any]
    table: Callable[[Result], Mapping[str, Any]]
    judge: Callable[[Result], bool] | None = None
    seeds: int | None = None
    big: tuple[str, ...] = ()


def _rows(result: Result) -> Mapping[str, Any]:
    rows = result["rows"]
    return {name: [row[name] for row in rows] for name in rows[0]}


def _cells(result: Result) -> Mapping[str, Any]:
    cells = result["cells"]
    return {name: [cell[name] for cell in cells] for name in cells[0]}


PRESETS = {
    "mechanics-global": Preset(
        "Normalised gradient descent finds W_svm and W_fin",
        ("global_protocol", "reproduce"),
        "every cosine ≥ 0.96, every distance ≤ 0.02 (published: 0.976–0.993 and about 0.005)",
        published.mechanics_global,
        _rows,
        lambda r: r["cosine_min"] >= 0.96 and r["distance_max"] <= 0.02,
        seeds=10,
        big=("curves",),
    ),
    "mechanics-local": Preset(
        "With a tied head and squared loss, descent finds the local W_svm",
        ("local_protocol", "reproduce"),
        "every cosine ≥ 0.97, median ≥ 0.99 (published: 0.992–0.9995)",
        published.mechanics_local,
        _rows,
        lambda r: r["cosine_min"] >= 0.97 and r["cosine_median"] >= 0.99,
        seeds=10,
    ),
}


def find_preset(name: str) -> Preset:
    """The preset of this name, or an error that suggests one."""
    if name not in PRESETS:
        raise UsageError(f"no preset {name!r}{nearest(name, PRESETS)} Known: {', '.join(PRESETS)}.")
    return PRESETS[name]


def reproduce_run(name: str, out: Path, seeds: int | None = None) -> Result:
    """Run a preset and leave a folder with its summary, data, figure and verdict."""
    preset = find_preset(name)
    if seeds is not None and (preset.seeds is None or seeds < 1):
        why = "at least 1 is needed" if preset.seeds else f"{name} has no seeds to vary"
        raise UsageError(f"seeds={seeds}: {why}.")
    module, function = preset.source
    run = getattr(import_module(f"attomaton.claims.{module}"), function)
    result = run(seeds or preset.seeds) if preset.seeds else run()
    if preset.judge is not None:
        result["verdict"] = Verdict.HOLDS if preset.judge(result) else Verdict.FAILS
    summary = {
        "preset": name,
        "title": preset.title,
        "asked": preset.asked,
        **{key: value for key, value in result.items() if key not in preset.big},
        "run": str(out),
    }
    if preset.seeds:
        summary["seeds"] = seeds or preset.seeds
    with new_folder(out, "run") as work:
        provenance(work, {"preset": name, "seeds": summary.get("seeds")}, summary)
        write_columns(work / "data.parquet", preset.table(result))
        save(preset.draw(result), work / "figures", name)
    return summary
