"""Runs of training as the lab finds, starts and resumes them."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.corpus.reading import AS_NAMED, Reading
from attomaton.corpus.reading import OPTIONS as READING
from attomaton.disk.formats import read_json, read_text, read_toml
from attomaton.disk.ledger import asked_as
from attomaton.disk.provenance import run_folder
from attomaton.disk.records import read_record
from attomaton.disk.storage import check_folder, is_folder
from attomaton.errors import AttomatonError, DataError, UsageError
from attomaton.folders.model import ModelFolder
from attomaton.folders.run import read_metrics
from attomaton.jobs.train import train_run
from attomaton.lab.jobs import RUNNING, Job
from attomaton.lab.kit.work import Work
from attomaton.lab.shelf import Item, folder_id
from attomaton.lab.view import Lab
from attomaton.mechanics.experiment.train import Arrays

Setting = str | int | float | None
BROKEN = "broken off"  # of a run whose process was killed: nothing but its checkpoint is there
KINDS: dict[str, tuple[type, ...]] = {
    "lr": (float, int), "steps": (int,), "every": (int, str), "batch_size": (int,), "seeds": (int,),
    "seed": (int,), "context": (int,),
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """What training is asked for, as `train_run` takes it."""

    init: str
    optimizer: str
    lr: float | int | None
    steps: int
    every: int | str | None
    head: str
    loss: str
    batch_size: int | None
    seeds: int
    seed: int
    embeddings: str | None = None


OPTIONS = tuple(one.name for one in fields(Options))


@dataclass(frozen=True)
class Outcome:
    """What the summary of a run says: its end point as theory has it, and the last values of every seed."""

    samples: int | None = None
    loss_floor: float | None = None
    svm_norm: float | None = None
    final: tuple[dict[str, int | float | None], ...] | None = None


@dataclass(frozen=True)
class TrainingRun:
    """One run folder: what was asked, how it ended, what was measured."""

    id: str
    title: str
    path: Path
    config: Mapping[str, Setting]
    status: tuple[str, ...]
    outcome: Outcome = Outcome()
    command: str = ""

    @cached_property
    def records(self) -> Arrays:
        """What was measured: steps and (seeds, records) arrays; nothing of a run that goes on or was broken off."""
        if {BROKEN, RUNNING} & set(self.status):
            return {}
        found = read_metrics(self.path)
        if len(found["loss"]) != len(self.status):
            raise DataError(f"{self.path}: metrics.parquet holds other seeds than status.json.")
        return found

    @property
    def unfinished(self) -> bool:
        """Whether it can go on."""
        return bool({"interrupted", BROKEN} & set(self.status)) and "data" in self.config

    @property
    def ended(self) -> str:
        """How it ended, in few words."""
        words = list(dict.fromkeys(self.status))
        return "broken off; it can go on" if words == [BROKEN] else ", ".join(words)

    def code(self) -> tuple[str, str]:
        """The command and the Python code that give the same numbers."""
        out = self.path.resolve()
        if "data" in self.config:
            data, reading, options = arguments(self.config)
            return train_code(data, out, options, reading)
        return self.command, (
            "from attomaton.folders.run import read_metrics\n\n"
            f"records = read_metrics({str(out)!r})\nprint(records)"
        )

    def finals(self) -> tuple[list[str], list[list[object]]]:
        """The last values of every seed, as `attomaton train` prints them, and how each ended."""
        final: Sequence[Mapping[str, int | float | None]] | None = self.outcome.final
        if final is None:
            names = [k for k in self.records if k != "steps"]
            final = [
                {"seed": i, **{k: float(self.records[k][i, -1]) for k in names}}
                for i in range(len(self.records["loss"]))
            ]
        rows: list[list[object]] = [
            [*("nan" if x is None else x if isfinite(x) else str(x) for x in row.values()), state]
            for row, state in zip(final, self.status, strict=True)
        ]
        return [*final[0], "status"], rows


@dataclass(frozen=True)
class _Status:
    status: tuple[str, ...]


@dataclass(eq=False)
class Going:
    """A training while it goes on: its run, what is open where it was started, and what was measured so far."""

    run: TrainingRun
    item: str
    so_far: Arrays | None = None


WORK = Work[Going]("training")


def read_run(item: Item) -> TrainingRun:
    """The run of an item that is one of training."""
    if item.kind != "run" or not (item.path / "metrics.parquet").is_file():
        raise UsageError(f"{item.title} is a {item.kind} without curves of training.")
    path = item.path
    config = read_toml(path / "config.toml")
    command = read_text(path / "command.txt").strip()
    ended = read_record(path / "status.json", _Status).status
    outcome = read_record(path / "summary.json", Outcome)
    if not ended or len(outcome.final or ended) != len(ended):
        raise DataError(f"{path}: status.json and summary.json speak of other numbers of seeds.")
    return TrainingRun(item.id, item.title, path, config, ended, outcome, command)


def find_run(lab: Lab, id: str) -> TrainingRun:
    """The run of an id the browser sent."""
    for run in _broken_off(lab):
        if run.id == id:
            return run
    run = read_run(lab.shelf.find(id))
    check_folder(run.path, "run")
    return run


def all_runs(lab: Lab) -> list[TrainingRun]:
    """Every run of training there is, the newest first."""
    found = _broken_off(lab)
    for item in lab.shelf.items():
        try:
            found.append(read_run(item))
        except AttomatonError:
            continue
    return sorted(found, key=lambda run: run.title, reverse=True)


def _broken_off(lab: Lab) -> list[TrainingRun]:
    """Runs of the workspace of which a killed process left only the work folder."""
    now = WORK.running(lab)
    found = []
    for work in (lab.shelf.workspace / "runs").glob(".*.partial"):
        path = work.with_name(work.name[1 : -len(".partial")])
        busy = now is not None and now.about.run.id == folder_id(path)
        if busy or path.exists() or not (work / "config.json").is_file():
            continue
        try:
            asked = read_json(work / "config.json")
        except DataError:  # of no use to anyone; whoever runs the same again replaces it
            continue
        if isinstance(asked, dict) and "samples" in asked:
            config = {k: asked[k] for k in ("data", *OPTIONS) if asked.get(k) is not None}
            found.append(TrainingRun(folder_id(path), path.name, path, config, (BROKEN,)))
    return found


# Starting and resuming


def start(lab: Lab, item: Item, model: Path, options: Options) -> Job[Going]:
    """Train on a model's samples, in a new folder of the workspace."""
    runs = lab.shelf.workspace.resolve() / "runs"
    asked = {k: v for k, v in asdict(options).items() if k != "embeddings"}
    out = run_folder("train", {"data": str(model), **asked}, runs)
    return _launch(lab, item, out, str(model.resolve()), AS_NAMED, options, _svm_norm(model))


def resume(lab: Lab, item: Item, run: TrainingRun) -> Job[Going]:
    """Let a run go on that was stopped: the same is asked again, and ends as if nothing had happened."""
    data, reading, options = arguments(run.config)
    norm = run.outcome.svm_norm
    norm = _svm_norm(Path(data)) if norm is None and is_folder(data, "model") else norm
    return _launch(lab, item, run.path, data, reading, options, norm)


def _svm_norm(model: Path) -> float:
    return ModelFolder(model).record.summary.svm_norm


def arguments(config: Mapping[str, Setting]) -> tuple[str, Reading, Options]:
    """What `train_run` was called with, from the settings it wrote: the data, how they are read, all options."""
    if not isinstance(config.get("data"), str):
        raise DataError("this run does not say which data it was trained on, so it cannot go on.")
    for name, value in config.items():
        kinds = KINDS.get(name, (str,))
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
            raise DataError(f"config.toml: {name} = {value!r} is not what a run writes there.")
    needed = ("init", "optimizer", "steps", "head", "loss", "seeds", "seed")
    missing = [name for name in needed if config.get(name) is None]
    if missing:
        raise DataError(f"config.toml: lacks {', '.join(missing)}.")
    options: Any = {name: config.get(name) for name in OPTIONS}
    reading: Any = {name: config.get(name) for name in READING}
    return str(config["data"]), Reading(**reading), Options(**options)


def _launch(
    lab: Lab, item: Item, out: Path, data: str, reading: Reading, options: Options,
    svm_norm: float | None,
) -> Job[Going]:  # fmt: skip
    config = {"data": data, **asdict(options), **reading.given}
    run = TrainingRun(folder_id(out), out.name, out, config, (RUNNING,), Outcome(svm_norm=svm_norm))

    def work(job: Job[Going]) -> object:
        job.progress(0, options.steps, "opening the model, compiling …")

        def progress(done: int, total: int, said: str) -> None:
            job.progress(done, total, f"step {done:,} of {total:,}, {said}")

        def watch(steps: np.ndarray, records: Arrays) -> None:
            job.about.so_far = {"steps": steps, **records}

        with asked_as(train_words(data, out, options, reading)):
            return train_run(
                data, out, reading=reading, **asdict(options), progress=progress, watch=watch
            )

    return WORK.start(lab, f"Training by {options.optimizer}", work, Going(run, item.id))


def train_words(
    data: str, out: Path | str, options: Options, reading: Reading = AS_NAMED
) -> list[str]:
    """The command line of a run."""
    given = [
        word
        for name, value in asdict(options).items()
        if value is not None
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    return ["attomaton", "train", data, "-o", str(out), *given, *reading.words]


def train_code(
    data: str, out: Path | str, options: Options, reading: Reading = AS_NAMED
) -> tuple[str, str]:
    """The command and the Python code of a run."""
    python = "".join(f"    {k}={v!r},\n" for k, v in asdict(options).items() if v is not None)
    return shlex.join(train_words(data, out, options, reading)), (
        "from attomaton.corpus.reading import Reading\n"
        "from attomaton.jobs.train import train_run\n\n"
        f"summary = train_run(\n    {data!r},\n    {str(out)!r},\n    reading={reading!r},\n{python})\n"
        'print(*summary["final"], sep="\\n")'
    )
