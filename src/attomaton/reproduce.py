"""Published experiments by name: run, judged, and left behind with their figure and data."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from attomaton.errors import UsageError
from attomaton.report import canvas, figures
from attomaton.results import Verdict
from attomaton.runs import provenance
from attomaton.storage import new_folder, write_columns


@dataclass(frozen=True)
class Preset:
    """One published experiment: its default seeds, how to run it, and when it counts as reproduced."""

    title: str
    seeds: int
    run: Callable[[int], dict[str, Any]]
    holds: Callable[[dict[str, Any]], bool]
    tolerance: str
    published: dict[str, Any]


def _global(seeds: int) -> dict[str, Any]:
    from attomaton.claims import global_protocol

    return global_protocol.reproduce(seeds)


def _local(seeds: int) -> dict[str, Any]:
    from attomaton.claims import local_protocol

    return local_protocol.reproduce(seeds)


PRESETS = {
    "mechanics-global": Preset(
        "Normalised gradient descent finds W_svm and W_fin",
        10,
        _global,
        lambda r: r["cosine_min"] >= 0.96 and r["distance_max"] <= 0.02,
        "every cosine ≥ 0.96, every distance ≤ 0.02 (published: 0.976–0.993 and about 0.005)",
        {"cosine_svm": (0.976, 0.993), "distance_fin": 0.005},
    ),
    "mechanics-local": Preset(
        "With a tied head and squared loss, descent finds the local W_svm",
        10,
        _local,
        lambda r: r["cosine_min"] >= 0.97 and r["cosine_median"] >= 0.99,
        "every cosine ≥ 0.97, median ≥ 0.99 (published: 0.992–0.9995)",
        {"cosine_local": (0.992, 0.9995)},
    ),
}


def preset(name: str) -> Preset:
    """The preset of this name, or an error that suggests one."""
    if name not in PRESETS:
        near = get_close_matches(name, PRESETS, n=1, cutoff=0.3)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"no preset {name!r}{hint} Known: {', '.join(PRESETS)}.")
    return PRESETS[name]


def reproduce_run(
    name: str, out: Path | None, seeds: int | None = None, draw: bool = True
) -> dict[str, Any]:
    """Run a preset; with `out`, leave a folder with rows, curves, figure and verdict."""
    chosen = preset(name)
    if seeds is not None and seeds < 1:
        raise UsageError(f"seeds={seeds}: at least 1 is needed.")
    result = chosen.run(seeds or chosen.seeds)
    curves = result.pop("curves", None)
    summary = {
        "preset": name,
        "title": chosen.title,
        "seeds": seeds or chosen.seeds,
        "verdict": Verdict.HOLDS if chosen.holds(result) else Verdict.FAILS,
        "tolerance": chosen.tolerance,
        **result,
    }
    if out is None:
        return summary
    summary["run"] = str(out)
    rows = result["rows"]
    with new_folder(out, "run") as work:
        provenance(work, {"preset": name, "seeds": summary["seeds"]}, summary)
        write_columns(work / "rows.parquet", {k: [row[k] for row in rows] for k in rows[0]})
        if draw:
            figure = figures.protocol_figure(rows, curves, chosen.published)
            canvas.save(figure, work / "figures", name)
    return summary
