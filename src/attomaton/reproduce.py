"""Published experiments by name: run, judged, and left behind with their figure and data."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attomaton.errors import AttomatonError, DataError, UsageError, nearest
from attomaton.formats import (
    AGAIN,
    expect,
    read_checkpoint,
    read_json,
    write_arrays,
    write_columns,
    write_json,
)
from attomaton.report import published
from attomaton.report.canvas import save
from attomaton.runs import provenance
from attomaton.storage import check_folder, new_folder, resumed_folder, seal, write_whole

Result = dict[str, Any]


@dataclass(frozen=True)
class Preset:
    """One published experiment: where its numbers come from, how they are drawn, what is asked of them.

    `source` is a module and function of `claims`; what it returns holds a `verdict`. `table` are the
    columns of its data; `big` names entries too large for the summary. One that is `long` has a quick version,
    shows progress, and goes on where it was broken off.
    """

    title: str
    source: tuple[str, str]
    asked: str
    draw: Callable[[Result], Any]
    table: Callable[[Result], Mapping[str, Any]]
    seeds: int | None = None
    big: tuple[str, ...] = ()
    long: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """Parts of a long experiment, kept as files of a folder."""

    folder: Path

    def load(self, name: str) -> Mapping[str, Any] | None:
        """What was last kept under the name, if anything was."""
        path = self._path(name)
        return read_checkpoint(path) if path.is_file() else None

    def save(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Keep arrays under the name, in place of what was there."""
        self.folder.mkdir(exist_ok=True)
        write_whole(self._path(name), lambda path: write_arrays(path, arrays))

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"


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


def _maps(result: Result) -> Mapping[str, Any]:
    """Attention maps of figure 7 as rows: model, step, query, key."""
    import numpy as np

    columns: dict[str, list[Any]] = {k: [] for k in ("layers", "step", "query", "key", "attention")}
    for part in result["maps"]:
        b = np.asarray(part["attention"])
        record, query, key = np.indices(b.shape)
        step = np.asarray(part["steps"])[record]
        layers = np.full(b.shape, part["layers"])
        for name, value in zip(columns, (layers, step, query, key, b), strict=True):
            columns[name].extend(value.ravel().tolist())
    return columns


PRESETS = {
    "mechanics-global": Preset(
        "Normalised gradient descent finds W_svm and W_fin",
        ("global_protocol", "reproduce"),
        "every cosine ≥ 0.96, every distance ≤ 0.02 (published: 0.976–0.993 and about 0.005)",
        published.mechanics_global,
        _rows,
        seeds=10,
        big=("curves",),
    ),
    "mechanics-local": Preset(
        "With a tied head and squared loss, descent finds the local W_svm",
        ("local_protocol", "reproduce"),
        "every cosine ≥ 0.97, median ≥ 0.99 (published: 0.992–0.9995)",
        published.mechanics_local,
        _rows,
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
    "scan-snap-fig7": Preset(
        "Attention of a transformer on WikiText-2 becomes sparse, and its entropy freezes",
        ("text_attention", "fig7"),
        "entropy falls by 0.1 of its range or more, and hardly moves over the last third of the steps",
        published.fig7,
        _maps,
        big=("maps",),
        long=True,
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
    "scan-snap-fig10": Preset(
        "Entropy of attention on WikiText-2 by the learning rate",
        ("text_attention", "fig10"),
        "entropy on the validation text falls as the rate grows",
        published.fig10,
        _curves,
        seeds=5,
        long=True,
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


def reproduce_run(
    name: str,
    out: Path,
    seeds: int | None = None,
    quick: bool = False,
    progress: Callable[[int, int, float], object] | None = None,
) -> Result:
    """Run a preset and leave a folder with its summary, data, figure and verdict.

    A long one that is broken off leaves its checkpoints beside the place, and goes on from them when it is run again.
    """
    preset = find_preset(name)
    if seeds is not None and (preset.seeds is None or seeds < 1):
        why = "at least 1 is needed" if preset.seeds else f"{name} has no seeds to vary"
        raise UsageError(f"seeds={seeds}: {why}.")
    if quick and not preset.long:
        known = ", ".join(k for k, p in PRESETS.items() if p.long)
        raise UsageError(f"{name} has no quick version; these have: {known}.")
    config = {"preset": name, "seeds": seeds or preset.seeds, "quick": quick or None}
    if not preset.long:
        with new_folder(out, "run") as work:
            return _leave(preset, config, _result(preset, config), work, out)
    with resumed_folder(out, "run", config) as work:
        kept = Checkpoint(work / "checkpoints")
        options = {"quick": quick, "checkpoint": kept, "progress": progress}
        summary = _leave(preset, config, _result(preset, config, **options), work, out)
        shutil.rmtree(kept.folder, ignore_errors=True)
        return summary


def reproduce_all(
    out: Path,
    seeds: int | None = None,
    quick: bool = False,
    progress: Callable[[int, int, str], object] | None = None,
) -> Result:
    """Run every preset into a folder of its own below `out`; one that ends in an error does not stop the others.

    `seeds` goes to those that have seeds, `quick` to those that have a quick version.
    """
    rows = []
    for done, (name, preset) in enumerate(PRESETS.items()):
        if progress is not None:
            progress(done, len(PRESETS), name)
        row = {"preset": name, "title": preset.title}
        draws = seeds if preset.seeds else None
        try:
            ended = reproduce_run(name, out / name, draws, quick and preset.long)
            rows.append({**row, "verdict": ended["verdict"]})
        except AttomatonError as error:
            rows.append({**row, "verdict": "error", "error": str(error)})
    good = all(row["verdict"] == "holds" for row in rows)
    return {"presets": rows, "verdict": "holds" if good else "fails", "run": str(out)}


def _result(preset: Preset, config: Mapping[str, Any], **options: Any) -> Result:
    """What the experiment returns."""
    module, function = preset.source
    run = getattr(import_module(f"attomaton.claims.{module}"), function)
    if preset.seeds:
        options["seeds"] = config["seeds"]
    return run(**options)


def _leave(
    preset: Preset, config: Mapping[str, Any], result: Result, work: Path, out: Path
) -> Result:
    """Write what came out into the folder; returns the summary."""
    summary = {
        "preset": config["preset"],
        "title": preset.title,
        "asked": preset.asked,
        **{key: value for key, value in result.items() if key not in preset.big},
        "run": str(out),
    }
    if preset.seeds:
        summary["seeds"] = config["seeds"]
    # Hours of work are not thrown away because a package is missing.
    undrawn = preset.long and find_spec("matplotlib") is None
    if undrawn:
        summary["figure"] = "not drawn: matplotlib is missing; draw_run draws it later"
    provenance(work, config, summary)
    write_columns(work / "data.parquet", preset.table(result))
    if preset.long:
        write_json(work / "result.json", result)
    if not undrawn:
        save(preset.draw(result), work / "figures", config["preset"])
    return summary


def draw_run(folder: Path | str) -> list[Path]:
    """Draw the figure of a long preset's run folder (again), from the numbers it holds."""
    name, figure = run_figure(folder)
    drawn = save(figure, Path(folder) / "figures", name)
    seal(Path(folder))
    return drawn


def run_figure(folder: Path | str) -> tuple[str, Any]:
    """The preset of a long preset's run folder, and its figure."""
    folder = check_folder(folder, "run")
    expect(folder / "summary.json", said := read_json(folder / "summary.json"), {"preset": str})
    preset, result = find_preset(said["preset"]), read_json(folder / "result.json")
    try:
        figure = preset.draw(result)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise DataError(
            f"{folder / 'result.json'}: does not hold the numbers of this figure ({error!r:.100}); {AGAIN}."
        ) from error
    return said["preset"], figure
