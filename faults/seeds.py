"""Small valid files of every kind that attomaton reads: what is damaged starts out whole.

Each function fills one folder. They call the writers themselves, so a format that changes changes here too; nothing
here needs JAX, whose start would take longer than all the rest.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from attomaton.corpus.readers import read_parts, read_samples, read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.sessions import draw_sessions, write_sessions
from attomaton.disk.formats import write_arrays, write_columns, write_json
from attomaton.disk.provenance import provenance
from attomaton.disk.storage import new_folder
from attomaton.folders.model import write_head, write_part
from attomaton.jobs.dynamics import columns as dynamics_columns
from attomaton.jobs.fit import fit_run
from attomaton.jobs.sweep import sweep_run
from attomaton.jobs.train import data_fingerprint, training_records
from attomaton.jobs.verify import _summary
from attomaton.mechanics.experiment.train import Training, metric_columns
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.numerics import named_rng
from attomaton.predictor.fit import Fitted, Judged, Setting
from attomaton.predictor.priors import Kin, Prior
from attomaton.predictor.stages import fitting, judging
from attomaton.predictor.tune import tune
from attomaton.results import Assumption, Checked, Line, Panel, Verdict
from attomaton.scan_snap.levels import find_classes, run_level
from attomaton.trained.fresh import fresh_weights
from attomaton.trained.write import gpt2_form, write_gpt2

TEXT = """ = Tea =

the cat sat on the mat the cat
a dog saw the cat and the dog ran

 = Coffee =

é 7 ü the 12 the cat sat

on a mat a cat on the mat
"""
CLASSES = """normalise = true

[[class]]
query = "q1"
next = "a"
tokens = {the = 2, cat = 1}

[[class]]
query = "q2"
next = "b"
tokens = {the = 1.5, dog = 1}
"""
STAGES = (judging("grid", [Setting(0, 1.0, 0.5)] * 2), fitting("fit", Setting(0, 1.0, 0.5)))
TOKENS = ("tea", "cup", "pot", "milk", "jug")


def text(folder: Path) -> None:
    """A plain text with headings, blank lines and letters beyond ASCII."""
    (folder / "a.txt").write_text(TEXT, encoding="utf-8")


def rows(folder: Path) -> None:
    """Contexts, one a line."""
    lines = [
        {"tokens": ["tea", "cup", "pot"], "next": "tea"},
        {"tokens": ["cup", "pot"], "next": "cup", "weight": 2},
        {"tokens": ["cup", "tea", "pot"], "next": "pot", "weight": 0.5},
        {"tokens": ["milk", "cup", "tea"], "next": "milk"},
        {"tokens": ["pot", "milk", 7, "tea"], "next": 7},
        {"tokens": ["jug", "milk", "tea"], "next": "tea"},
        {"tokens": ["jug", "milk", "cup"], "next": "tea"},
        {"tokens": ["milk", "jug", "tea"], "next": "jug"},
    ]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")


def events(suffix: str) -> Callable[[Path], None]:
    """An event log in a file of this kind."""

    def fill(folder: Path) -> None:
        drawn = draw_sessions(named_rng("sessions", 0), users=3, events=5, items=4)
        write_sessions(drawn, folder / f"a{suffix}")

    return fill


def xes(name: str) -> Callable[[Path], None]:
    """A log of process mining in a file of this name, with what XES allows around the events."""
    head = """<?xml version="1.0" encoding="UTF-8"?>
<log xes.version="1.0" xmlns="http://www.xes-standard.org/">
<extension name="Concept" prefix="concept" uri="http://x/"/><classifier name="c" keys="concept:name"/>
"""

    def fill(folder: Path) -> None:
        text, drawn = head, draw_sessions(named_rng("sessions", 0), users=3, events=4, items=4)
        log = drawn.columns()
        for user in dict.fromkeys(log["sequence"]):
            text += f'<trace><string key="concept:name" value="{user}"/>\n'
            for who, item, minute in zip(log["sequence"], log["item"], log["order"], strict=True):
                if who == user:
                    time = f"2024-01-01T{minute // 60:02}:{minute % 60:02}:00Z"
                    text += f'<event><string key="concept:name" value="{item}"><int key="n" value="1"/></string>'
                    text += f'<date key="time:timestamp" value="{time}"/></event>\n'
            text += "</trace>\n"
        (folder / name).write_text(text + "</log>", encoding="utf-8")

    return fill


def spmf(name: str) -> Callable[[Path], None]:
    """Sequences of SPMF in a file of this name, with names for some items."""
    lines = ["@CONVERTED_FROM_TEXT", "@ITEM=1=tea", "@ITEM=2=é", "# note", "1 -1 2 3 -1 1 -1 -2"]
    lines += ["<0> 2 -1 <4> 2 -1 -2", "3 -1 1 -1 3 -1 -2", "2 3 -1 3 -1 -2"]

    def fill(folder: Path) -> None:
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    return fill


def delimited(folder: Path) -> None:
    """A log as a program of process mining exports it, with semicolons."""
    lines = ["Case ID;Activity;Complete Timestamp"]
    lines += [
        f"{c};{x};2024/01/0{i + 1} 10:00:00"
        for i, (c, x) in enumerate(("ax", "ay", "bx", "ax", "bx"))
    ]
    (folder / "log").write_text("\n".join(lines) + "\n", encoding="utf-8")


def tokenizer(folder: Path) -> None:
    """Tokenizers of three kinds, and a text for them."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    text(folder)
    words = {w: i for i, w in enumerate(["[UNK]", *dict.fromkeys(TEXT.split())])}
    plain = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    plain.save(str(folder / "words.json"))
    letters = {w: i for i, w in enumerate(["[UNK]", *"abcdeghimnorstuw", "th", "the", "at"])}
    pairs = Tokenizer(models.BPE(letters, [("t", "h"), ("th", "e"), ("a", "t")], unk_token="[UNK]"))
    pairs.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase()])
    pairs.pre_tokenizer = pre_tokenizers.Split(" ", "isolated")
    pairs.enable_truncation(4)
    pairs.save(str(folder / "pairs.json"))
    pieces = [("<unk>", 0.0), ("▁", -1.0), *((c, -2.0 - i) for i, c in enumerate("thecaonsmdg"))]
    shares = Tokenizer(models.Unigram(pieces, 0, False))
    shares.pre_tokenizer = pre_tokenizers.Metaspace()
    shares.save(str(folder / "shares.json"))


def matrix(folder: Path) -> None:
    """Embeddings as a matrix of numbers."""
    np.save(folder / "E.npy", np.eye(4) + 0.1)
    np.save(folder / "F.npy", np.eye(3, 4, dtype=np.float64))


def network(folder: Path, tokens: Sequence[str] = ()) -> None:
    """A tiny transformer in the layout of Hugging Face, its numbers drawn."""
    form = gpt2_form(len(tokens) or 7, 4, 1, 2, 9, hidden=5)
    words = list(tokens) or [f"w{i}" for i in range(form.vocab)]
    write_gpt2(folder / "network", form, fresh_weights(form, 0), words)


def classes(folder: Path) -> None:
    """Sequence classes."""
    (folder / "c.toml").write_text(CLASSES, encoding="utf-8")


def model(folder: Path) -> None:
    """A model of two parts."""
    rows(folder)
    windows = read_windows(folder / "a.jsonl")
    with new_folder(folder / "model", "fit") as work:
        made = [
            write_part(work, i, solve_limit(windows.samples(part)))
            for i, part in enumerate(windows.parts(12))
        ]
        record = {"data": "a.jsonl", "reading": {"context": 3}, "command": "attomaton fit a.jsonl"}
        write_head(work, windows.vocabulary, made, record, {})
    (folder / "a.jsonl").unlink()


def coupled(folder: Path) -> None:
    """A model with embeddings that are not orthonormal, and its dense matrices."""
    lines = [([0, 1, 2], 0), ([1, 2], 1), ([1, 0, 2], 2), ([3, 1, 0], 3), ([2, 3, 0], 2)]
    data, table = folder / "a.jsonl", folder / "E.npy"
    data.write_text("\n".join(json.dumps({"tokens": x, "next": y}) for x, y in lines))
    np.save(table, np.eye(4) + 0.1)
    fit_run(data, folder / "model", embeddings=table, dense=True)
    data.unlink()
    table.unlink()


def predictor(folder: Path) -> None:
    """A tuned predictor with every feature a prior may have."""
    path = folder / "a.txt"
    path.write_text(TEXT.lower() * 3, encoding="utf-8")
    windows = read_windows(path, Reading(context=5))
    tuned = tune(
        windows, windows, reading=Reading(context=5), priors=["main+bigram+odds"], lambdas=[1.0], thetas=[1.0],
    )  # fmt: skip
    # By hand: singular vectors of a small matrix are rounding noise, never the same bytes twice.
    kin = Kin(*np.full((2, len(windows.vocabulary), 3), 0.5, np.float32))
    prior = Prior({**tuned.prior.features, "kin": kin}, {**tuned.prior.weight, "kin": 0.5})
    chosen = {**tuned.record["chosen"], "prior": "main+bigram+odds+kin"}
    replace(tuned, prior=prior, record={**tuned.record, "chosen": chosen}).save(
        folder / "predictor"
    )
    path.unlink()


def tuning(folder: Path) -> None:
    """What an interrupted tuning keeps: a part judged at two settings, and fitted at one."""
    judged, key = [Judged(9.0, 1.5, 0.5), Judged(9.0, 2.5, 0.25)], np.arange(5)
    for stage, answer in zip(STAGES, (judged, Fitted(key, key / 4, 1.5, 1e-9, 7)), strict=True):
        write_columns(folder / f"{stage.name}-0.parquet", stage.to_columns(answer))


def training(folder: Path) -> None:
    """A run of training, as `train_run` leaves it."""
    rows(folder)
    limit = solve_limit(read_samples(folder / "a.jsonl"))
    scores = np.stack([limit.svm.score, limit.svm.score + 1])
    records = {name: np.array([[1.0, 0.5, 0.25]] * 2) for name in ("loss", "norm", "cosine")}
    run = Training(None, scores, np.array([0, 5, 10]), records, ["finished"] * 2, {"run": 0.1})
    config = {"data": "a.jsonl", "init": "zeros", "optimizer": "gd", "lr": 0.1, "steps": 10, "head": "identity",
              "loss": "log", "seeds": 2, "seed": 0}  # fmt: skip
    summary = {"samples": 8, "loss_floor": 0.1, "svm_norm": 1.0, "status": run.status, "steps": 10,
               "data_fingerprint": data_fingerprint(limit.samples),
               "final": [{"seed": 0, "loss": 0.25}, {"seed": 1, "loss": None}]}  # fmt: skip
    with new_folder(folder / "run", "train") as work:
        provenance(work, config, summary)
        write_columns(work / "metrics.parquet", metric_columns(training_records(run, limit), 2))
        learned = np.zeros((2, int(limit.graph.strict.sum())), np.int32)
        write_arrays(work / "state.safetensors", {"scores": scores, "learned": learned})
        write_json(work / "status.json", {"status": run.status})
    (folder / "a.jsonl").unlink()


def dynamics(folder: Path) -> None:
    """A run of scan and snap."""
    run = run_level("reduced", find_classes("syn-small"), 1.0, 1.0, until=10.0)
    with new_folder(folder / "run", "dynamics") as work:
        provenance(work, {"classes": "syn-small", "eta_y": 1.0, "eta_z": 1.0, "until": 10.0}, {})
        write_columns(work / "reduced.parquet", dynamics_columns(run))


def verification(folder: Path) -> None:
    """Two claims with their evidence."""
    panel = Panel("loss", "t", "L", [Line([0.0, 1.0], [1.0, 0.5], "theory", "theory")])
    heat = Panel(
        "heat", "x", "y", heat=[[0.0, 1.0], [0.5, 0.2]], xticks=["a", "b"], yticks=["c", "d"], colour="c"
    )  # fmt: skip
    records = []
    for name in ("T1", "T2"):
        evidence = Checked(
            Verdict.HOLDS, Verdict.FAILS, "1e-3", {"cosine": [0.9, 1.0], "n": {"a": 3}}, {"cosine": 0.1},
            name, "A title", "W goes there.", formula="$W$", assumptions=(Assumption("A1", True, "all"),),
            prediction={"cosine": 1.0}, reason="why", panels=(panel, heat), settings={"seeds": 2}, seconds=1.5,
            command=f"attomaton verify --only {name}",
        )  # fmt: skip
        records.append(evidence)
    with new_folder(folder / "run", "verify") as work:
        (work / "claims").mkdir()
        provenance(work, {"quick": True}, _summary(records, True, None, "run"))
        for record in records:
            write_json(work / "claims" / f"{record.claim}.json", record)


def published(folder: Path) -> None:
    """A long preset's run, whose figure can be drawn from its numbers."""
    rates = (0.1, 0.5)
    result = {
        "size": "tiny",
        "rows": [{"lr": lr, "entropy_mean": 2.0 - lr, "entropy_error": 0.1} for lr in rates],
        "curves": [
            {"lr": lr, "step": [0, 10], "entropy": [3.0, 2.0 - lr], "valid_loss": [3.0, 1.0]} for lr in rates
        ],
    }  # fmt: skip
    with new_folder(folder / "run", "reproduce") as work:
        provenance(work, {}, {"preset": "scan-snap-fig10", "title": "t"})
        write_json(work / "result.json", result)


def sweep(folder: Path) -> None:
    """A sweep with finished and failed pieces."""
    grid = {
        "eta_z": [0.5, 1.0],
        "ratio": [1, 2],
        "until": [10.0],
        "mixing": ["inverse", "nonsense"],
    }
    sweep_run(folder / "sweep", grid, ["syn-small"], "reduced")
    (folder / "sweep" / "results.parquet").unlink(missing_ok=True)


def checkpoint(folder: Path) -> None:
    """What an interrupted training keeps."""
    write_arrays(
        folder / "checkpoint.safetensors",
        {
            "params": np.ones((2, 3)), "step": np.array([4, 4]), "failed": np.zeros(2, np.int64),
            "moment/0": np.ones((2, 3)), "moment/1": np.ones((2, 3)), "record/loss": np.ones((2, 2, 5)),
            "record/norm": np.ones((2, 2, 5)),
        },
    )  # fmt: skip


def parts(folder: Path) -> None:
    """What an interrupted fit keeps: a corpus in parts, one of them solved."""
    text(folder)
    windows = read_windows(folder / "a.txt", Reading(context=6))
    words, table = read_parts(folder / "a.txt", folder, Reading(context=6), size=40)
    write_json(folder / "parts.json", table)
    write_json(folder / "vocabulary.json", list(words.labels))
    work = folder / "work"
    work.mkdir()
    write_part(work, 0, solve_limit(windows.samples(windows.parts(40)[0])))
    for name in ("samples", "pairs", "edges"):
        shutil.rmtree(work / name)
    (folder / "a.txt").unlink()


def workspace(folder: Path) -> None:
    """The lab's workspace: pasted data, a run, a training that was broken off."""
    from attomaton.lab.shelf import Shelf

    Shelf(folder).add("mine.txt", TEXT.encode(), {"context": 4, "split": "stream"})
    runs = folder / "runs"
    runs.mkdir()
    training(runs)
    (runs / ".t.partial").mkdir()
    asked = {"samples": "0123", "data": "a.jsonl", "init": "zeros", "steps": 5, "optimizer": "gd", "head": "identity",
             "loss": "log", "seeds": 1, "seed": 0}  # fmt: skip
    write_json(runs / ".t.partial" / "config.json", asked)


def folders(folder: Path) -> None:
    """A folder of every kind, to be listed and compared."""
    for fill in (model, predictor, sweep, training):
        fill(folder)


def typed(folder: Path) -> None:
    """What people type: contexts, numbers, settings of a sweep, names."""
    (folder / "context.json").write_text('["tea", "cup", 7]', encoding="utf-8")
    (folder / "context.txt").write_text("tea cup 7 pot", encoding="utf-8")
    (folder / "grid.txt").write_text("eta_z=0.5,1 ratio=1,2", encoding="utf-8")
    (folder / "names.txt").write_text("T1,S2 main+kin words 0 0.5,1", encoding="utf-8")
