"""The commands of scan and snap: one experiment, or a grid of them."""

from math import prod
from pathlib import Path
from typing import Annotated

import typer

from attomaton.cli.commands import EngineOptions, command
from attomaton.cli.console import emit, progress_bar, say
from attomaton.cli.options import Force, Json, RunFolder, argument, option, said

app = typer.Typer()

Classes = Annotated[str, argument("A family (syn-small, syn-medium-3, …) or a TOML file.")]


MANY = 64  # cells of a sweep that are worth the start of processes


@command(app, "Scan and snap")
def dynamics(
    classes: Classes,
    level: Annotated[str, "sampled, limit, reduced, or several with commas."] = "limit",
    eta_y: Annotated[float, "Learning rate of the decoder Y."] = 1.0,
    eta_z: Annotated[float, "Learning rate of the attention Z."] = 1.0,
    until: Annotated[float | None, "Last time (limit, reduced; default: 1e6)."] = None,
    steps: Annotated[int | None, "Steps (sampled, default: 100; limit in steps)."] = None,
    T: Annotated[
        int | None, option("Sequence length (sampled; default: 128).", "-T", "--length")
    ] = None,
    batch: Annotated[int | None, "Mini-batch (sampled; default: 128)."] = None,
    optimizer: Annotated[str | None, "sgd (default), momentum or adam (sampled)."] = None,
    start: Annotated[str | None, "zero (default) or uniform (sampled, limit)."] = None,
    mixing: Annotated[
        str | None, "Decoder of the reduced level: inverse (default), weak or memory."
    ] = None,
    seeds: Annotated[int | None, "Runs side by side (sampled, limit; default: 1)."] = None,
    seed: Annotated[int | None, "Random seed (sampled, limit; default: 0)."] = None,
    out: RunFolder = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Follow attention as it scans and snaps.

    On one level of the dynamics, or on several on the same axes.
    """
    from attomaton.disk.provenance import run_folder, unfinished_run
    from attomaton.jobs.dynamics import dynamics_run
    from attomaton.report.text.terminal import table

    options = said(
        until=until, steps=steps, T=T, batch=batch, optimizer=optimizer, start=start, seeds=seeds,
        seed=seed, mixing=mixing,
    )  # fmt: skip
    asked = {"classes": classes, "level": level, "eta_y": eta_y, "eta_z": eta_z, **options}
    place = out or unfinished_run("dynamics", asked) or run_folder("dynamics", asked)
    with progress_bar("dynamics") as progress:
        summary = dynamics_run(
            classes,
            level.split(","),
            eta_y,
            eta_z,
            place,
            progress=progress,
            force=force,
            **options,
        )
    rows = [
        [name, r["status"][0], float(r["entropy"].mean()), float(r["common_attention"].mean()),
         float(r["phases"][0]["transition"])]
        for name, r in summary["levels"].items()
    ]  # fmt: skip
    predicted = summary["predicted"]
    text = (
        f"{summary['K']} classes over {summary['M']} tokens; predicted: scanning until "
        f"{predicted['scanning_end']:.4g}, transition {predicted['transition']:.4g}, snapping from "
        f"{predicted['snapping_start']:.4g}\n"
        + table(["level", "status", "entropy", "on common tokens", "transition"], rows)
        + f"\nrun in {place}"
    )
    emit(summary, text, json)
    if any(s != "finished" for r in summary["levels"].values() for s in r["status"]):
        raise typer.Exit(4)


@command(app, "Scan and snap")
def sweep(
    classes: Annotated[str, argument("Families or TOML files, several with commas.")],
    grid: Annotated[list[str], argument("Settings: eta_z=0.5,1,2 ratio=1,2 seeds=10 …")],
    out: Annotated[Path, option("Sweep folder; name the same one to resume.", "-o", "--out")],
    engine: EngineOptions,
    level: Annotated[str, "sampled, limit or reduced."] = "sampled",
    force: Force = False,
    json: Json = False,
) -> None:
    """Run a grid of settings into one table.

    Resumable: finished pieces are skipped. Failed cells are listed with their error.
    """
    from attomaton.folders.sweep import parse_grid
    from attomaton.jobs.sweep import sweep_run

    settings = parse_grid(grid)
    large = prod(map(len, settings.values())) >= MANY
    with engine.open(large) as where, progress_bar("sweep") as progress:
        summary = sweep_run(
            out, settings, classes.split(","), level,
            progress, say, where, force,
        )  # fmt: skip
    text = (
        f"{summary.cells} cells, {summary.rows} rows in {out / 'results.parquet'} "
        f"({summary.skipped_pieces} of {summary.pieces} pieces were there already)"
    )
    failed = [f"  cell {f.cell}: {f.error}" for f in summary.failed]
    emit(summary, "\n".join([text, *(["failed:"] if failed else []), *failed]), json)
    if failed:
        raise typer.Exit(5)
