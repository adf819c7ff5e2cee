"""Tuning that needs no expert: data set apart by itself, a metric, a budget, sequences that go on."""

import json
from pathlib import Path

import numpy as np
import pytest

from attomaton.corpus.reading import Reading
from attomaton.errors import UsageError
from attomaton.jobs.score import score_run
from attomaton.jobs.tune import read_corpora, tune_run
from attomaton.predictor.budget import Budget
from attomaton.predictor.fit import Judged, Setting
from attomaton.predictor.tune import METRICS, tune

SMALL: dict = {"priors": ["zero", "main"], "lambdas": [1.0, 4.0], "thetas": [0.5, 1.0], "widen": 0}


@pytest.fixture
def here(text, tmp_path, monkeypatch):
    """A text, and a log in two files whose sequences go on from one to the other."""
    monkeypatch.chdir(tmp_path)
    windows = text(0, 500)
    words = [windows.vocabulary[x] for x in windows.ids]
    Path("a.txt").write_text(" ".join(words))
    for name, begin in (("one", 0), ("two", 10), ("three", 16)):
        end = {"one": 10, "two": 16, "three": 20}[name]
        rows = [
            f"u{u},{words[20 * u + i]},{100 * u + i}" for u in range(25) for i in range(begin, end)
        ]
        Path(f"{name}.csv").write_text("\n".join(["sequence,item,order", *rows]))


def test_one_file_is_enough_and_it_is_said(here, call):
    code, out, err = call(
        "tune", "a.txt", "--context", "6", "-o", "p", "--priors", "zero", "--thetas", "1"
    )
    assert code == 0, err
    assert out.startswith(
        "no --validate: chosen on the last 10 % of each sequence (50 windows), fitted on "
    )
    record = json.loads(Path("p/predictor.json").read_text())
    assert record["split"]["kind"] == "tail"
    assert record["data"] == {"train": "a.txt", "validate": None}
    # Its baselines find the same halves again.
    Path("b.txt").write_text("w1 w2 w1 w3 w2 w1 w1 w2 w3 w1 w2")
    scores = score_run(Path("p"), Path("b.txt"), reading=Reading(), baselines=["kneser-ney"])
    assert scores.realizable.windows


def test_contexts_go_on_where_the_order_says_so(here):
    read = read_corpora("one.csv", "two.csv", Reading(context=6))
    assert read.history == 25
    assert len(read.valid) == 150  # every event of the second file is a label
    assert read.said == ("two.csv: contexts reach back into one.csv, where 25 sequences began",)
    apart = read_corpora("one.csv", "two.csv", Reading(context=6), history=False)
    assert (apart.history, len(apart.valid), apart.said) == (None, 125, ())
    back = read_corpora("two.csv", "one.csv", Reading(context=6))
    assert (back.history, len(back.valid)) == (None, 225)
    assert back.said[0].endswith("if they do, say --history")
    with pytest.raises(UsageError, match="--history"):
        read_corpora("one.csv", None, Reading(context=6), history=True)
    with pytest.raises(UsageError, match="read once"):
        read_corpora("-", "-", Reading(context=6))


def test_a_predictor_that_went_on_is_scored_so(here):
    how = Reading(context=6)
    record = tune_run("one.csv", "two.csv", "p", reading=how, **SMALL)
    assert record["history"] == 25
    scores = score_run(Path("p"), Path("three.csv"), reading=Reading())
    assert scores.all.windows == 100
    told = score_run(
        Path("p"), Path("three.csv"), reading=Reading(), history=[Path("one.csv"), Path("two.csv")]
    )
    assert told.all == scores.all
    some = score_run(Path("p"), Path("three.csv"), reading=Reading(), history=[Path("one.csv")])
    assert some.all.rows[0].log_loss != scores.all.rows[0].log_loss
    apart = tune_run("one.csv", "two.csv", "q", reading=how, history=False, **SMALL)
    assert apart["history"] is None
    assert score_run(Path("q"), Path("three.csv"), reading=Reading()).all.windows == 75


def test_a_metric_decides(text):
    train, valid = text(0, 800), text(1, 800)
    asked: dict = {
        "priors": ["main"],
        "lambdas": [1.0, 3.0],
        "thetas": [0.5, 0.8, 1.0],
        "widen": 0,
    }
    found = {}
    for metric, column, best in (
        ("nats", "log_loss", min), ("all", "log_loss", min), ("top1", "top1", max), ("mrr", "mrr10", max),
    ):  # fmt: skip
        record = tune(train, valid, metric=metric, **asked).record
        rows = record["grid"]["theta_lambda"]
        assert record["chosen"][column] == best(row[column] for row in rows)
        assert record["chosen"]["metric"] == metric
        assert all(row["top1"] <= row["mrr10"] <= 1 for row in rows)
        found[metric] = (record["chosen"]["theta"], record["chosen"]["lambda"])
    assert found["nats"] == found["all"]
    assert len(set(found.values())) > 1  # it makes a difference here
    with pytest.raises(UsageError, match="metric"):
        tune(train, valid, metric="hits")


def test_equal_hits_are_decided_by_log_loss():
    one, two = Judged(1.0, 0.5, 0.4, 0.6), Judged(1.0, 0.4, 0.4, 0.6)
    for metric in ("top1", "mrr"):
        assert METRICS[metric](two) < METRICS[metric](one)


# A budget, on a clock that ticks when told


class Clock:
    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


SETTINGS = [Setting(p, t, lam) for p in (0, 1) for t in (0.5, 1.0) for lam in (1.0, 4.0)]


def tried(minutes, takes=30.0, must=True):
    """What there was time for, where a candidate takes so long, and what there was not."""
    clock = Clock()
    budget = Budget(minutes, clock)
    seen = []
    for _, some in budget.batches("grid", SETTINGS, 1, lambda s: s.prior, must=must):
        seen += some
        clock.time += takes
    return seen, budget.left, clock.time


def test_without_a_limit_all_are_tried_together():
    seen, left, _ = tried(None)
    assert (seen, left) == (SETTINGS, [])


def test_the_promising_come_first_and_the_rest_is_told():
    seen, left, took = tried(2.0)
    assert seen == [s for s in SETTINGS if s.prior == 1]
    assert left == [s for s in SETTINGS if s.prior == 0]
    assert took <= 120
    assert tried(60.0)[1] == []
    first, _, _ = tried(0.01)
    assert first == [s for s in SETTINGS if (s.prior, s.theta) == (1, 0.5)]  # never none


def test_room_is_left_for_what_comes_after():
    for after, wanted in ((0.0, 4), (1.0, 3), (3.0, 2), (28.0, 1)):
        clock = Clock()
        budget = Budget(2.0, clock)
        budget.after, seen = after, []
        for _, some in budget.batches("grid", SETTINGS, 1, lambda s: s.prior):
            seen.append(some)
            clock.time += 30.0
        assert len(seen) == wanted, after
    assert not budget.over()
    clock.time = 121.0
    assert budget.over()
    assert not Budget(None, clock).over()


@pytest.mark.parametrize("minutes", [0.0, -1.0, np.nan])
def test_minutes_that_make_no_sense(minutes):
    with pytest.raises(UsageError):
        Budget(minutes)


def test_a_tuning_says_what_it_had_no_time_for(here, call):
    arguments = (
        "tune",
        "a.txt",
        "--context",
        "6",
        "-o",
        "p",
        "--priors",
        "zero,main",
        "--thetas",
        "0.5,1",
    )
    code, out, err = call(*arguments, "--lambdas", "1,4", "--minutes", "0.00001")
    assert code == 0, err
    assert "not tried in 1e-05 minutes: prior zero, theta 1; prior main, theta 0.5\n" in out
    record = json.loads(Path("p/predictor.json").read_text())
    assert (record["chosen"]["prior"], record["chosen"]["theta"]) == ("main", 1.0)
    assert len(record["grid"]["not_tried"]) == 4
    code, out, _ = call(
        *arguments[:-4], "--minutes", "60", "--priors", "zero", "--thetas", "1", "--force"
    )
    assert code == 0
    assert "not tried" not in out
