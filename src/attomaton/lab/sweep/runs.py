"""Sweeps as the lab starts and continues them."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from attomaton.disk.provenance import run_folder
from attomaton.folders.sweep import Grid, Sweep, grid_words
from attomaton.jobs.sweep import sweep_run
from attomaton.lab.jobs import Job
from attomaton.lab.kit.work import Work
from attomaton.lab.shared import Lab
from attomaton.lab.shelf import folder_id


@dataclass(frozen=True, eq=False)
class Going:
    """A sweep while it goes on, by its id and title; `there` says that its folder is."""

    id: str
    title: str
    there: Event


WORK = Work[Going]("sweep")


def launch(lab: Lab, asked: Grid | Sweep, out: Path | None = None) -> Job[Going]:
    """Do a sweep in a new folder of the workspace, or continue the one in `out`."""
    config = {"grid": asked.grid, "classes": asked.classes, "level": asked.level}
    place = out or run_folder("sweep", config, lab.shelf.workspace.resolve() / "runs")

    def work(job: Job[Going]) -> object:
        job.progress(0, 1, "starting, compiling …")
        try:
            return sweep_run(
                place, asked.grid, asked.classes, asked.level,
                lambda done, total, what: job.progress(done, total, f"{done} of {total} {what}"),
                lambda text: job.about.there.set(),
            )  # fmt: skip
        finally:
            job.about.there.set()

    return WORK.start(lab, "Sweep", work, Going(folder_id(place), place.name, Event()))


def sweep_code(out: Path, asked: Grid | Sweep, value: str = "entropy") -> tuple[str, str]:
    """The command and the Python code of a sweep."""
    grid, classes, level = asked.grid, asked.classes, asked.level
    words = ["attomaton", "sweep", ",".join(classes), *grid_words(grid)]
    return shlex.join([*words, "-o", str(out), "--level", level]), (
        "from attomaton.folders.sweep import cell_means, read_sweep\n"
        "from attomaton.jobs.sweep import sweep_run\n\n"
        f"sweep_run({str(out)!r}, {grid!r}, {classes!r}, {level!r})\n"
        f"print(cell_means(read_sweep({str(out)!r}), {value!r}))"
    )
