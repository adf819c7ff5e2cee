"""Sweeps as the lab starts and continues them."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from attomaton.disk.provenance import run_folder
from attomaton.errors import UsageError
from attomaton.folders.sweep import Sweep, grid_words
from attomaton.jobs.sweep import sweep_run
from attomaton.lab.jobs import RUNNING, Job
from attomaton.lab.shelf import folder_id
from attomaton.lab.view import Lab

JOB = "sweep"  # one at a time


@dataclass(frozen=True)
class Asked:
    """A sweep the form describes."""

    grid: dict[str, list[Any]]
    classes: list[str]
    level: str


def running(lab: Lab) -> Job | None:
    """The sweep that is going on."""
    job = lab.jobs.find(JOB)
    return job if job is not None and job.state == RUNNING else None


def launch(lab: Lab, asked: Asked | Sweep, out: Path | None = None) -> Job:
    """Do a sweep in a new folder of the workspace, or continue the one in `out`; `seen["there"]` says the folder is."""
    lab.may_start()
    if running(lab) is not None:
        raise UsageError("a sweep is running already: wait for its end, or stop it.")
    config = {"grid": asked.grid, "classes": asked.classes, "level": asked.level}
    out = out or run_folder("sweep", config, lab.shelf.workspace.resolve() / "runs")
    there = Event()  # the folder is
    about = {"sweep": folder_id(out), "title": out.name, "there": there}

    def work(job: Job) -> dict[str, Any]:
        job.seen.update(about)
        job.progress(0, 1, "starting, compiling …")
        try:
            return sweep_run(
                out, asked.grid, asked.classes, asked.level,
                lambda done, total, what: job.progress(done, total, f"{done} of {total} {what}"),
                lambda text: there.set(),
            )  # fmt: skip
        finally:
            there.set()

    job = lab.jobs.start(JOB, "Sweep", work)
    for name, value in about.items():
        job.seen.setdefault(name, value)
    return job


def sweep_code(
    out: Path,
    grid: Mapping[str, Sequence[Any]],
    classes: Sequence[str],
    level: str,
    value: str = "entropy",
) -> tuple[str, str]:
    """The command and the Python code of a sweep."""
    words = [
        "attomaton",
        "sweep",
        ",".join(classes),
        *grid_words(grid),
        "-o",
        str(out),
        "--level",
        level,
    ]
    return shlex.join(words), (
        "from attomaton.folders.sweep import cell_means, read_sweep\n"
        "from attomaton.jobs.sweep import sweep_run\n\n"
        f"sweep_run({str(out)!r}, {dict(grid)!r}, {list(classes)!r}, {level!r})\n"
        f"print(cell_means(read_sweep({str(out)!r}), {value!r}))"
    )
