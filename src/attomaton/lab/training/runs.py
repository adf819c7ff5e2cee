"""Runs of training as the lab finds, starts and resumes them."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attomaton.corpus.reading import AS_NAMED, Reading
from attomaton.corpus.reading import OPTIONS as READING
from attomaton.disk.formats import expect, read_json, read_text, read_toml
from attomaton.disk.ledger import asked_as
from attomaton.disk.provenance import run_folder
from attomaton.disk.storage import check_folder, is_folder
from attomaton.errors import AttomatonError, DataError, UsageError
from attomaton.folders.model import read_record
from attomaton.folders.run import read_metrics
from attomaton.jobs.train import train_run
from attomaton.lab.jobs import RUNNING, Job
from attomaton.lab.shelf import Item, folder_id
from attomaton.lab.view import Lab
from attomaton.mechanics.experiment.train import Arrays

JOB = "train"  # one training at a time: a second would only slow down the first
BROKEN = "broken off"  # of a run whose process was killed: nothing but its checkpoint is there
OPTIONS = (
    "init",
    "optimizer",
    "lr",
    "steps",
    "every",
    "head",
    "loss",
    "batch_size",
    "seeds",
    "seed",
)
KINDS: dict[str, tuple[type, ...]] = {
    "lr": (float, int), "steps": (int,), "every": (int, str), "batch_size": (int,), "seeds": (int,),
    "seed": (int,), "context": (int,),
}  # fmt: skip


@dataclass(frozen=True)
class TrainingRun:
    """One run folder: what was asked, how it ended, what was measured."""

    id: str
    title: str
    path: Path
    config: Mapping[str, Any]
    status: tuple[str, ...]
    summary: Mapping[str, Any]
    command: str

    @cached_property
    def records(self) -> Arrays:
        """What was measured: steps and (seeds, records) arrays."""
        if BROKEN in self.status:
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

    def finals(self) -> tuple[list[str], list[list[Any]]]:
        """The last values of every seed, as `attomaton train` prints them, and how each ended."""
        final = self.summary.get("final")
        if final is None:
            names = [k for k in self.records if k != "steps"]
            final = [
                {"seed": i, **{k: float(self.records[k][i, -1]) for k in names}}
                for i in range(len(self.records["loss"]))
            ]
        rows = [
            [*("nan" if x is None else x for x in row.values()), state]
            for row, state in zip(final, self.status, strict=True)
        ]
        return [*final[0], "status"], rows


def read_run(item: Item) -> TrainingRun:
    """The run of an item that is one of training."""
    if item.kind != "run" or not (item.path / "metrics.parquet").is_file():
        raise UsageError(f"{item.title} is a {item.kind} without curves of training.")
    path = item.path
    config = read_toml(path / "config.toml")
    command = read_text(path / "command.txt").strip()
    expect(path / "status.json", status := read_json(path / "status.json"), {"status": [str]})
    ended = status["status"]
    number = (float, None, "inf", "-inf")
    expect(path / "summary.json", summary := read_json(path / "summary.json"), {"final?": [dict]})
    for row in summary.get("final", ()):
        expect(path / "summary.json", list(row.values()), [number])
    if not ended or len(summary.get("final", ended)) != len(ended):
        raise DataError(f"{path}: status.json and summary.json speak of other numbers of seeds.")
    return TrainingRun(item.id, item.title, path, config, tuple(ended), summary, command)


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
    now = running(lab)
    found = []
    for work in (lab.shelf.workspace / "runs").glob(".*.partial"):
        path = work.with_name(work.name[1 : -len(".partial")])
        busy = now is not None and now.seen.get("run") == folder_id(path)
        if busy or path.exists() or not (work / "config.json").is_file():
            continue
        try:
            asked = read_json(work / "config.json")
        except DataError:  # of no use to anyone; whoever runs the same again replaces it
            continue
        if isinstance(asked, dict) and "samples" in asked:
            config = {k: asked[k] for k in ("data", *OPTIONS) if asked.get(k) is not None}
            found.append(TrainingRun(folder_id(path), path.name, path, config, (BROKEN,), {}, ""))
    return found


# Starting and resuming


def running(lab: Lab) -> Job | None:
    """The training that is going on."""
    job = lab.jobs.find(JOB)
    return job if job is not None and job.state == RUNNING else None


def start(lab: Lab, item: Item, model: Path, options: Mapping[str, Any]) -> Job:
    """Train on a model's samples, in a new folder of the workspace."""
    out = run_folder(
        "train", {"data": str(model), **options}, lab.shelf.workspace.resolve() / "runs"
    )
    return _launch(
        lab, item, out, str(model.resolve()), AS_NAMED, options, read_record(model)["summary"]
    )


def resume(lab: Lab, item: Item, run: TrainingRun) -> Job:
    """Let a run go on that was stopped: the same is asked again, and ends as if nothing had happened."""
    data, reading, options = arguments(run.config)
    theory = run.summary or (read_record(Path(data))["summary"] if is_folder(data, "model") else {})
    return _launch(lab, item, run.path, data, reading, options, theory)


def arguments(config: Mapping[str, Any]) -> tuple[str, Reading, dict[str, Any]]:
    """What `train_run` was called with, from the settings it wrote: the data, how they are read, all options."""
    if not isinstance(config.get("data"), str):
        raise DataError("this run does not say which data it was trained on, so it cannot go on.")
    for name, value in config.items():
        kinds = KINDS.get(name, (str,))
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
            raise DataError(f"config.toml: {name} = {value!r} is not what a run writes there.")
    reading = Reading(**{name: config.get(name) for name in READING})
    options = {name: config.get(name) for name in (*OPTIONS, "embeddings")}
    missing = [
        k
        for k in ("init", "optimizer", "steps", "head", "loss", "seeds", "seed")
        if options[k] is None
    ]
    if missing:
        raise DataError(f"config.toml: lacks {', '.join(missing)}.")
    return config["data"], reading, options


def _launch(
    lab: Lab,
    item: Item,
    out: Path,
    data: str,
    reading: Reading,
    options: Mapping[str, Any],
    theory: Mapping[str, Any],
) -> Job:
    lab.may_start()
    if running(lab) is not None:
        raise UsageError("a training is running already: wait for its end, or stop it.")
    about = {"run": folder_id(out), "title": out.name, "item": item.id, "config": {"data": data, **options},
             "theory": theory, "code": train_code(data, out, options, reading)}  # fmt: skip

    def work(job: Job) -> dict[str, Any]:
        job.seen.update(about)
        job.progress(0, options["steps"], "opening the model, compiling …")
        with asked_as(train_words(data, out, options, reading)):
            return train_run(
                data, out, reading=reading, **options,
                progress=lambda done, total, said: job.progress(
                    done, total, f"step {done:,} of {total:,}, {said}"
                ),
                watch=lambda steps, records: job.seen.update(so_far={"steps": steps, **records}),
            )  # fmt: skip

    job = lab.jobs.start(JOB, f"Training by {options['optimizer']}", work)
    for name, value in about.items():
        job.seen.setdefault(name, value)
    return job


def train_words(
    data: str, out: Path | str, options: Mapping[str, Any], reading: Reading = AS_NAMED
) -> list[str]:
    """The command line of a run."""
    given = [
        word
        for name, value in options.items()
        if value is not None
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    return ["attomaton", "train", data, "-o", str(out), *given, *reading.words]


def train_code(
    data: str, out: Path | str, options: Mapping[str, Any], reading: Reading = AS_NAMED
) -> tuple[str, str]:
    """The command and the Python code of a run."""
    python = "".join(f"    {k}={v!r},\n" for k, v in options.items() if v is not None)
    return shlex.join(train_words(data, out, options, reading)), (
        "from attomaton.corpus.reading import Reading\n"
        "from attomaton.jobs.train import train_run\n\n"
        f"summary = train_run(\n    {data!r},\n    {str(out)!r},\n    reading={reading!r},\n{python})\n"
        'print(*summary["final"], sep="\\n")'
    )
