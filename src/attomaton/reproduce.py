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


def _curves(result: Result) -> Mapping[str, Any]:
    """Curves as long columns: their settings repeated beside every point."""
    columns: dict[str, list[Any]] = {}
    for i, curve in enumerate(result["curves"]):
        long = {
            k: v for k, v in curve.items() if isinstance(v, (list, tuple)) or hasattr(v, "shape")
        }
        size = len(next(iter(long.values())))
        for name, value in {"curve": i, "point": range(size), **curve}.items():
            points = list(value) if name in long or name == "point" else [value] * size
            columns.setdefault(name, []).extend(points)
    return columns


def _attention(result: Result) -> Mapping[str, Any]:
    """Attention of figures 4 and 5 as rows: run, step, class, token."""
    import numpy as np

    runs = [*result["rows"], *([result["sgd"]] if "sgd" in result else [])]
    columns: dict[str, list[Any]] = {
        k: [] for k in ("run", "record", "class", "token", "attention")
    }
    for i, run in enumerate(runs):
        c = np.asarray(run["attention"])
        c = c.reshape(-1, *c.shape[-2:])
        record, n, token = np.indices(c.shape)
        for name, value in zip(columns, (np.full(c.size, i), record, n, token, c), strict=True):
            columns[name].extend(np.asarray(value).ravel().tolist())
    return columns


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
    "scan-snap-fig3": Preset(
        "Attention grows, then freezes: growth factor over time",
        ("scan_snap_figures", "fig3"),
        "χ grows like a power of t while scanning and far slower from t_0 on",
        published.fig3,
        _curves,
        big=("curves",),
    ),
    "scan-snap-fig4": Preset(
        "Attention drops common tokens and rare distinct ones",
        ("attention_entropy", "fig4"),
        "common tokens lose, gain follows P(l|n), a larger decoder rate leaves attention denser",
        published.fig4,
        _attention,
        seeds=5,
        big=("rows", "sgd"),
    ),
    "scan-snap-fig5": Preset(
        "Adam selects other distinct tokens than SGD",
        ("attention_entropy", "fig5"),
        "the tokens picked differ from SGD's",
        published.fig5,
        _attention,
        seeds=5,
        big=("rows", "sgd"),
    ),
    "scan-snap-fig6": Preset(
        "Entropy of attention by the two learning rates, 1 to 10 queries",
        ("attention_entropy", "fig6"),
        "entropy falls with η_Z at a fixed ratio, and rises with η_Y/η_Z from 2 on",
        published.fig6,
        _cells,
        seeds=10,
    ),
    "scan-snap-fig8": Preset(
        "Decoder growth in steps against its continuous form",
        ("scan_snap_figures", "fig8"),
        "h* leads h by no more than 2 η_Y/M",
        published.fig8,
        _curves,
        big=("curves",),
    ),
    "scan-snap-fig9": Preset(
        "Scan progress at a fixed ratio of the rates",
        ("scan_snap_figures", "fig9"),
        "B at t_0 is the same for all rates of one ratio",
        published.fig9,
        _curves,
        big=("curves",),
    ),
    "scan-snap-fig11": Preset(
        "Recall of distinct tokens against the ratio of the rates",
        ("attention_entropy", "fig11"),
        "recall rises with η_Y/η_Z from 2 on",
        published.recall_over("ratio", f"{published.ETA_Y} / {published.ETA_Z}"),
        _rows,
        seeds=10,
    ),
    "scan-snap-fig12": Preset(
        "Recall of distinct tokens against the attention rate",
        ("attention_entropy", "fig12"),
        "recall falls with η_Z",
        published.recall_over("eta_z", published.ETA_Z),
        _rows,
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
