"""One experiment in scan and snap from the command line: run on one or several levels, drawn on the same axes.

A level that was finished is kept: an experiment that was broken off goes on with the next one.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.corpus.vocabulary import fingerprint
from attomaton.disk.formats import (
    damaged,
    to_json,
    write_arrays,
    write_columns,
    write_json,
    write_text,
)
from attomaton.disk.provenance import environment, package_version, provenance
from attomaton.disk.storage import Checkpoint, check_place, resumed_folder
from attomaton.errors import UsageError
from attomaton.folders.dynamics import CLASSES
from attomaton.jobs.pieces import Piece, do_pieces
from attomaton.report.figures.canvas import save
from attomaton.report.figures.dynamics import dynamics_figure
from attomaton.scan_snap.data import SequenceClasses
from attomaton.scan_snap.families import classes_text, conditions
from attomaton.scan_snap.levels import OPTIONS, check_options, find_classes, run_level, settings_of
from attomaton.scan_snap.theory.decoder import decoder_gain
from attomaton.scan_snap.theory.phase import (
    gain_transition,
    measure_phases,
    scanning_end,
    snapping_start,
)
from attomaton.scan_snap.trajectory import Dynamics

RECORDED = ("loss", "y_norm", "gamma", "xi", "B")


def dynamics_run(
    name: str,
    levels: Sequence[str],
    eta_y: float,
    eta_z: float,
    out: Path | str,
    progress: Progress = quiet,
    force: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Run the classes on each level and write the run: columns, attention logits, phases, figures.

    An option goes to the levels that have it, and at least one must; `progress` is told every level that begins.
    What may lie at `out` already, and what `force` replaces, says `disk.storage.check_place`.
    """
    classes = find_classes(name)
    for level in levels:
        check_options(level, {})
    where = {k: [level for level in OPTIONS if k in OPTIONS[level]] for k in options}
    if unused := [k for k in options if not {*where[k]} & {*levels}]:
        said = "; ".join(f"{k} is for {' and '.join(where[k]) or 'no level'}" for k in unused)
        raise UsageError(f"level {', '.join(levels)} does not take {', '.join(unused)}: {said}.")
    given = {level: {k: v for k, v in options.items() if level in where[k]} for level in levels}
    settings = {level: settings_of(level, own) for level, own in given.items()}
    # The folder first: a place that cannot be written is said before the work, not after it.
    place = check_place(out, "run", (name,), force)
    # What the classes are, not what they are called: a file of them may change between two runs.
    content = fingerprint(classes.names, classes.P, classes.query_of, classes.next_of)
    asked = {
        "classes": content, "levels": settings, "eta_y": eta_y, "eta_z": eta_z,
        "versions": environment(),
    }  # fmt: skip
    with resumed_folder(place, "dynamics", asked) as work:
        kept = Checkpoint(work / "checkpoints", finite=False)
        found, _ = do_pieces(
            lambda level: run_level(level, classes, eta_y, eta_z, **given[level]),
            [Piece(level, level) for level in levels],
            lambda piece: _kept_level(kept, piece.name, classes),
            ledger=work, save=lambda piece, run: _keep_level(kept, piece.name, run), progress=progress,
        )  # fmt: skip
        runs = dict(zip(levels, found, strict=True))
        rates = {"eta_y": eta_y, "eta_z": eta_z}
        size = (eta_y, classes.K, classes.M)
        summary = {
            "classes": name,
            "K": classes.K,
            "M": classes.M,
            **rates,
            "conditions": conditions(classes, eta_y),
            "predicted": {
                "scanning_end": float(scanning_end(*size)),
                "transition": float(gain_transition(*size)),
                "snapping_start": float(snapping_start(*size)),
            },
            "levels": {
                level: {**_summary(run), "settings": settings[level]} for level, run in runs.items()
            },
            "run": str(out),
        }
        each = {f"{level}.{k}": v for level, own in settings.items() for k, v in own.items()}
        config = {"classes": name, "level": ",".join(levels), **rates, **options}
        provenance(work, {**config, **each}, summary)
        write_text(work / CLASSES, classes_text(classes))
        for level, run in runs.items():
            write_columns(work / f"{level}.parquet", columns(run))
            write_arrays(work / f"{level}.safetensors", {"z": run.z, "t": run.t})
        write_json(work / "status.json", {level: list(run.status) for level, run in runs.items()})
        if package_version("matplotlib") is not None:
            title = rf"{name}: $\eta_Y$ = {eta_y:g}, $\eta_Z$ = {eta_z:g}"
            figure = dynamics_figure(title, runs)
            save(figure, work / "figures", "dynamics")
    return {**summary, "replaced": place.replaced}


def _keep_level(kept: Checkpoint, level: str, run: Dynamics) -> None:
    told = to_json({"status": list(run.status), "seconds": dict(run.seconds)}, indent=None)
    records = {f"record {name}": np.asarray(x) for name, x in run.records.items()}
    arrays = {"eta_y": run.eta_y, "eta_z": run.eta_z, "t": run.t, "z": run.z}
    kept.save(level, {**arrays, **records, "told": np.frombuffer(told.encode(), np.uint8)})


def _kept_level(kept: Checkpoint, level: str, classes: SequenceClasses) -> Dynamics | None:
    """A level that an earlier process has finished."""
    arrays = kept.load(level)
    if arrays is None:
        return None
    records = {
        name.removeprefix("record "): x for name, x in arrays.items() if name.startswith("record ")
    }
    try:
        told = json.loads(arrays["told"].tobytes())
        eta_y, eta_z, t, z = (arrays[name] for name in ("eta_y", "eta_z", "t", "z"))
        status, seconds = tuple(map(str, told["status"])), dict(told["seconds"])
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(kept.folder / level) from error
    return Dynamics(level, classes, eta_y, eta_z, t, z, records, status, seconds)


def _summary(run: Dynamics) -> dict[str, Any]:
    common = run.attention[:, -1][..., run.classes.common]
    return {
        "status": list(run.status),
        "entropy": run.entropy[:, -1].mean(axis=-1),
        "common_attention": common.sum(axis=-1).mean(axis=-1),
        "phases": [asdict(phases) for phases in measure_phases(run)],
        "seconds": dict(run.seconds),
    }


def columns(run: Dynamics) -> dict[str, np.ndarray]:
    """What was recorded, one row per run, time and class, with the gain that theory predicts."""
    own = run.columns()
    gain = decoder_gain(run.t[None], run.eta_y[:, None], run.classes.K, run.classes.M)
    names = ("run", "t", "class", "entropy")
    return {
        **{name: own[name] for name in names},
        "gamma_predicted": np.repeat(gain.ravel(), run.classes.K),
        **{name: own[name] for name in RECORDED if name in own},
    }
