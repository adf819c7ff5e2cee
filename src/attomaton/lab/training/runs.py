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
from attomaton.jobs.train import SNAPSHOT_MB, train_run
from attomaton.lab.jobs import RUNNING, Job
from attomaton.lab.kit.work import Work
from attomaton.lab.shared import Lab
from attomaton.lab.shelf import Item, folder_id
from attomaton.mechanics.experiment.arguments import SMALL, Settings
from attomaton.mechanics.experiment.course import Arrays

Setting = str | int | float | None
BROKEN = "broken off"  # of a run whose process was killed: nothing but its checkpoint is there
KINDS: dict[str, tuple[type, ...]] = {
    "lr": (float, int), "steps": (int,), "every": (int, str), "batch_size": (int,), "seeds": (int,),
    "seed": (int,), "context": (int,), "dimension": (int,), "eps": (float, int),
    "beta1": (float, int), "beta2": (float, int), "snapshots": (float, int), "factorised": (int,),
    "init_scale": (float, int),
}  # fmt: skip


OPTIONS = tuple(one.name for one in fields(Settings))
VECTORS = ("embeddings", "vocabulary", "dimension")
MORE = (*VECTORS, "snapshots", "snapshots_of")


@dataclass(frozen=True)
class Asked:
    """What a run is asked for: data, settings, how the data are read, what the vectors of tokens are."""

    data: str
    settings: Settings
    reading: Reading = AS_NAMED
    embeddings: str | None = None
    vocabulary: str | None = None
    dimension: int | None = None
    snapshots: float | int = SNAPSHOT_MB
    snapshots_of: str | None = None

    @property
    def more(self) -> dict[str, Any]:
        """What belongs neither to the settings nor to how the data are read."""
        return {name: getattr(self, name) for name in MORE}

    @property
    def options(self) -> dict[str, Setting]:
        """All that is not the usual, as options are called on the command line and in Python."""
        given = {
            **asdict(self.settings),
            **dict.fromkeys(VECTORS),
            **self.reading.given,
            **self.more,
        }
        if self.snapshots == SNAPSHOT_MB:
            del given["snapshots"]
        return {name: value for name, value in given.items() if value is not None}

    def words(self, out: Path | str) -> list[str]:
        """The command line of a run."""
        given = dict(self.options)
        rank = given.pop("factorised", None)
        options = [x for k, v in given.items() for x in (f"--{k.replace('_', '-')}", str(v))]
        if rank is not None:
            options += ["--factorised", *(() if rank is True else ("--rank", str(rank)))]
        if given.get("init") == SMALL:  # what factors start from anyway
            options[options.index("--init") : options.index("--init") + 2] = []
        return ["attomaton", "train", self.data, "-o", str(out), *options]

    def code(self, out: Path | str) -> tuple[str, str]:
        """The command and the Python code of a run."""
        given = [(k, v) for k, v in self.options.items() if k not in READING]
        python = "".join(f"    {k}={v!r},\n" for k, v in given)
        return shlex.join(self.words(out)), (
            "from attomaton.corpus.reading import Reading\n"
            "from attomaton.jobs.train import SNAPSHOT_MB, train_run\n\n"
            f"summary = train_run(\n    {self.data!r},\n    {str(out)!r},\n"
            f"    reading={self.reading!r},\n{python})\n"
            'print(*summary["final"], sep="\\n")'
        )


@dataclass(frozen=True)
class Outcome:
    """What the summary of a run says: its end point as theory has it, and the last values of every seed."""

    samples: int | None = None
    loss_floor: float | None = None
    svm_norm: float | None = None
    limit_norm: str | float | None = None
    left_out: str | None = None
    tied: bool = False
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
            return asked_for(self.config).code(out)
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
        if len(final) != len(self.status):
            raise DataError(f"{self.path}: summary.json holds other seeds than status.json.")
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
            names = ("data", *OPTIONS, *VECTORS, *READING, *MORE)
            config = {k: asked[k] for k in names if asked.get(k) is not None}
            found.append(TrainingRun(folder_id(path), path.name, path, config, (BROKEN,)))
    return found


# Starting and resuming


def start(
    lab: Lab, item: Item, model: Path, settings: Settings, watched: str | None = None
) -> Job[Going]:
    """Train on a model's samples, in a new folder of the workspace; `watched` are last tokens to keep snapshots of."""
    runs = lab.shelf.workspace.resolve() / "runs"
    out = run_folder(
        "train", {"data": str(model), **asdict(settings), "snapshots_of": watched}, runs
    )
    asked = Asked(str(model.resolve()), settings, snapshots_of=watched)
    return _launch(lab, item, out, asked, _svm_norm(model))


def resume(lab: Lab, item: Item, run: TrainingRun) -> Job[Going]:
    """Let a run go on that was stopped: the same is asked again, and ends as if nothing had happened."""
    asked, norm = asked_for(run.config), run.outcome.svm_norm
    if norm is None and is_folder(asked.data, "model"):
        norm = _svm_norm(Path(asked.data))
    return _launch(lab, item, run.path, asked, norm)


def _svm_norm(model: Path) -> float:
    return ModelFolder(model).record.summary.svm_norm


def asked_for(config: Mapping[str, Setting]) -> Asked:
    """What `train_run` was called with, from the settings it wrote."""
    if not isinstance(config.get("data"), str):
        raise DataError("this run does not say which data it was trained on, so it cannot go on.")
    for name, value in config.items():
        kinds = KINDS.get(name, (str,))
        full = name == "factorised" and value is True  # of the full rank
        fits = isinstance(value, kinds) and not isinstance(value, bool)
        if value is not None and not full and not fits:
            raise DataError(f"config.toml: {name} = {value!r} is not what a run writes there.")
    needed = ("init", "optimizer", "steps", "head", "loss", "seeds", "seed")
    missing = [name for name in needed if config.get(name) is None]
    if missing:
        raise DataError(f"config.toml: lacks {', '.join(missing)}.")
    settings: Any = {name: config[name] for name in OPTIONS if name in config}
    reading: Any = {name: config.get(name) for name in READING}
    more: Any = {name: config[name] for name in MORE if config.get(name) is not None}
    return Asked(str(config["data"]), Settings(**settings), Reading(**reading), **more)


def _launch(lab: Lab, item: Item, out: Path, asked: Asked, svm_norm: float | None) -> Job[Going]:
    config = {"data": asked.data, **asked.options}
    run = TrainingRun(folder_id(out), out.name, out, config, (RUNNING,), Outcome(svm_norm=svm_norm))

    def work(job: Job[Going]) -> object:
        job.progress(0, asked.settings.steps, "opening the model, compiling …")

        def progress(done: int, total: int, said: str) -> None:
            job.progress(done, total, f"step {done:,} of {total:,}, {said}")

        def watch(steps: np.ndarray, records: Arrays) -> None:
            job.about.so_far = {"steps": steps, **records}

        with asked_as(asked.words(out)):
            given = {**asked.more, **asdict(asked.settings)}
            return train_run(
                asked.data, out, reading=asked.reading, **given, progress=progress, watch=watch
            )

    return WORK.start(lab, f"Training by {asked.settings.optimizer}", work, Going(run, item.id))
