"""Runs: what is recorded of how they were asked for, and of what they measured on the way."""

import json
import sys
import threading
import tomllib

import numpy as np
import pyarrow.parquet as pq
import pytest

from attomaton.corpus.example import example_samples
from attomaton.disk.ledger import asked_as, command
from attomaton.errors import DataError, UsageError
from attomaton.folders.model import save_model
from attomaton.folders.run import read_metrics, read_snapshots
from attomaton.jobs.train import train_run
from attomaton.mechanics.theory.limit import solve_limit

OPTIONS = {
    "init": "uniform",
    "steps": 200,
    "every": 10,
    "seeds": 2,
    "optimizer": "gd",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted") / "model"
    save_model(solve_limit(example_samples()), folder, {})
    return folder


def test_the_command_is_the_one_typed_unless_told_otherwise(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/attomaton", "lab", "my data"])
    assert command() == "attomaton lab 'my data'"
    with asked_as(["attomaton", "train", "a b", "-o", "run"]):
        assert command() == "attomaton train 'a b' -o run"
    assert command() == "attomaton lab 'my data'"
    with pytest.raises(RuntimeError), asked_as(["x"]):
        raise RuntimeError
    assert command() == "attomaton lab 'my data'"


def test_another_thread_is_not_told(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["attomaton", "lab"])
    said = []
    with asked_as(["attomaton", "train"]):
        other = threading.Thread(target=lambda: said.append(command()))
        other.start()
        other.join()
    assert said == ["attomaton lab"]


def test_a_run_is_watched_and_leaves_its_records_and_its_command(model, tmp_path):
    seen = []
    with asked_as(["attomaton", "train", str(model)]):
        train_run(model, tmp_path / "run", watch=lambda *call: seen.append(call), **OPTIONS)
    assert (tmp_path / "run" / "command.txt").read_text() == f"attomaton train {model}\n"
    records = read_metrics(tmp_path / "run")
    steps, last = seen[-1]
    assert records["steps"].tolist() == steps.tolist() == list(range(0, 201, 10))
    for name, value in last.items():
        assert np.array_equal(records[name], value, equal_nan=True)
    assert set(records) == {*last, "steps"}
    assert "loss_gap" in last
    table = pq.read_table(tmp_path / "run" / "metrics.parquet").to_pydict()
    assert records["norm"][1].tolist() == [
        x for i, x in zip(table["seed"], table["norm"], strict=True) if i == 1
    ]


@pytest.mark.parametrize(("optimizer", "lr"), [("gd", 1.0), ("adam", 0.01), ("polyak", None)])
def test_a_run_records_its_defaults(model, tmp_path, optimizer, lr):
    told = train_run(model, tmp_path / "run", optimizer=optimizer, steps=250)
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text(encoding="utf-8"))
    usual = {
        "optimizer": optimizer,
        "steps": 250,
        "every": 3,
        "head": "identity",
        "loss": "log",
        "seeds": 1,
        "seed": 0,
    }
    assert {k: config[k] for k in usual} == usual
    assert config["init"] == "zeros"
    assert config.get("lr") == told["settings"].get("lr") == lr


def test_a_run_stopped_and_asked_again_ends_as_if_nothing_had_happened(model, tmp_path):
    def stop(done, total, loss):
        if done >= 50:
            raise KeyboardInterrupt

    torn, calm = tmp_path / "torn", tmp_path / "calm"
    assert train_run(model, torn, progress=stop, **OPTIONS)["status"] == ["interrupted"] * 2
    early = len(read_metrics(torn)["steps"])
    again = train_run(model, torn, **OPTIONS)
    assert again["resumed_at_step"] > 0
    train_run(model, calm, **OPTIONS)
    assert early < len(read_metrics(torn)["steps"])
    for name in ("metrics.parquet", "snapshots.safetensors"):
        assert (torn / name).read_bytes() == (calm / name).read_bytes()
    assert not (tmp_path / ".torn.partial").exists()


def test_metrics_that_are_none_are_named(tmp_path):
    with pytest.raises(DataError, match=r"metrics\.parquet: cannot be read"):
        read_metrics(tmp_path)
    (tmp_path / "metrics.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_metrics(tmp_path)


def test_a_run_keeps_snapshots_within_its_bound_and_says_how_many(model, tmp_path):
    summary = train_run(model, tmp_path / "run", steps=40)
    assert summary["snapshots"] == {
        "snapshots": 41, "pairs": 13, "of_pairs": 13, "last_tokens": 3, "of_last_tokens": 3,
    }  # fmt: skip
    found = read_snapshots(tmp_path / "run")
    assert found.scores.shape == (41, 13)
    # Megabytes: 20 snapshots of 5 numbers are 420 bytes.
    few = train_run(model, tmp_path / "few", steps=40, snapshots=420e-6)["snapshots"]
    assert 4 * few["snapshots"] * few["pairs"] <= 420
    none = train_run(model, tmp_path / "none", steps=40, snapshots=0)
    assert none["snapshots"]["snapshots"] == 0
    assert read_snapshots(tmp_path / "none") is None
    for wrong in (-1, 1e9):
        with pytest.raises(UsageError, match="snapshots"):
            train_run(model, tmp_path / "wrong", steps=40, snapshots=wrong)
    path = tmp_path / "run" / "snapshots.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DataError, match=r"snapshots\.safetensors"):
        read_snapshots(tmp_path / "run")


def test_a_run_whose_loss_grew_has_not_finished(model, tmp_path, call):
    code, _, said = call("train", model, "-o", tmp_path / "far", "--steps", "50", "--lr", "100")
    assert code == 4
    assert "diverged: the loss grew from 1.033" in said
    (row,) = json.loads(call("runs", "ls", tmp_path / "far", "--json")[1])["folders"]
    assert row["state"] == "diverged"


def test_snapshots_of_chosen_last_tokens(model, tmp_path):
    room = 41 * 6 * 4e-6
    heaviest = train_run(model, tmp_path / "a", steps=40, snapshots=room)["snapshots"]
    assert heaviest["last_tokens"] == 1
    chosen = {}
    for word in ("phone", "guest"):
        train_run(model, tmp_path / word, steps=40, snapshots=room, snapshots_of=word)
        chosen[word] = set(read_snapshots(tmp_path / word).last.tolist())
    assert chosen["phone"] != chosen["guest"]
    with pytest.raises(UsageError, match="no last token"):
        train_run(model, tmp_path / "b", steps=40, snapshots_of="nothing such")
