"""The command `bootstrap`: the same on every engine, resumable, left behind as a run."""

import json
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from attomaton.corpus.reading import Reading
from attomaton.disk.formats import plain
from attomaton.jobs import bootstrap as job
from attomaton.jobs.bootstrap import bootstrap_run

READING = Reading(context=4)


@pytest.fixture
def log(tmp_path):
    """A log of eight cases."""
    path = tmp_path / "log.csv"
    cases = ["abab", "abba", "acca", "abcab", "bccb", "cabac", "aabb", "bcbab"]
    rows = [f"{i},{x},{t}" for i, case in enumerate(cases) for t, x in enumerate(case)]
    path.write_text("sequence,item,order\n" + "\n".join(rows) + "\n")
    return path


def test_a_run_that_was_broken_off_goes_on(tmp_path, log, monkeypatch):
    whole = bootstrap_run(log, tmp_path / "A", resamples=35, reading=READING)
    tally, calls = job.tally_group, []

    def breaking(known, seed, task):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return tally(known, seed, task)

    with monkeypatch.context() as patch:
        patch.setattr(job, "tally_group", breaking)
        with pytest.raises(KeyboardInterrupt):
            bootstrap_run(log, tmp_path / "B", resamples=35, reading=READING)
    again = bootstrap_run(log, tmp_path / "B", resamples=35, reading=READING)
    assert (whole.resumed_pieces, again.resumed_pieces) == (0, 2)
    assert again.stability == whole.stability
    assert not (tmp_path / "B" / "pieces").exists()


def test_unfinished_work_is_listed_with_what_is_done(tmp_path, log, monkeypatch, call):
    tally, calls = job.tally_group, []

    def breaking(known, seed, task):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return tally(known, seed, task)

    monkeypatch.setattr(job, "tally_group", breaking)
    with pytest.raises(KeyboardInterrupt):
        bootstrap_run(log, tmp_path / "B", resamples=35, reading=READING)
    assert "10 of 35" in call("runs", "ls", tmp_path)[1]
    # What goes on with it is told, whichever command had begun it; control: one that would make no such run.
    calls.clear()
    monkeypatch.chdir(tmp_path)
    words = ["coverage", str(log), "--context", "4", "--bootstrap", "35"]
    monkeypatch.setattr(sys, "argv", ["attomaton", *words])
    assert call(*words)[0] == 130
    listed = call("runs", "ls", "runs")[1]
    assert f"go on: attomaton {' '.join(words)}" in listed
    (work,) = (tmp_path / "runs").glob(".*.partial")
    ledger = work / "log.jsonl"
    ledger.write_text(ledger.read_text().replace(" --bootstrap 35", ""))
    assert "go on: " not in call("runs", "ls", "runs")[1]
    shutil.rmtree(tmp_path / "runs")
    monkeypatch.undo()
    bootstrap_run(log, tmp_path / "B", resamples=35, reading=READING)  # takes it up, and ends it
    assert "10 of 35" not in call("runs", "ls", tmp_path)[1]


def test_processes_find_the_same_and_the_folder_is_whole(tmp_path, log, call):
    options = ("bootstrap", log, "--context", 4, "--resamples", 25, "--json")
    here = json.loads(call(*options, "-o", tmp_path / "A")[1])
    there = json.loads(
        call(*options, "-o", tmp_path / "B", "--engine", "processes", "--workers", 2)[1]
    )
    assert here["stability"] == there["stability"]
    assert here["stability"]["sequences"] == 8
    assert call("runs", "check", tmp_path / "A")[0] == 0
    assert "run of bootstrap" in call("runs", "show", tmp_path / "A")[1]
    rows = pq.read_table(tmp_path / "A" / "data.parquet").to_pylist()
    assert len(rows) == here["stability"]["orders"]["count"] + here["stability"]["ties"]["count"]
    for row in rows:
        shares = [row[x] for x in ("winner_over_loser", "tied", "loser_over_winner", "lost")]
        assert sum(shares) == pytest.approx(1)
        assert row["same"] == (row["winner_over_loser"] if row["kind"] == "order" else row["tied"])
    assert (tmp_path / "A" / "figures" / "stability.png").is_file()


def test_the_words(tmp_path, log, call):
    code, out, _ = call("bootstrap", log, "--context", 4, "--resamples", 25, "-o", tmp_path / "A")
    assert code == 0
    assert "25 resamples of 8 sequences" in out
    assert "below 95%" in out
    assert call("bootstrap", log, "--context", 4, "--resamples", 0)[0] == 2
    (tmp_path / "one.txt").write_text("the cat and the cat")
    code, _, err = call("bootstrap", tmp_path / "one.txt", "--context", 3)
    assert code == 3
    assert "--split lines" in err


def test_coverage_draws_the_data_of_a_model_again(tmp_path, log, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = bootstrap_run(log, tmp_path / "A", resamples=15, reading=READING)
    assert call("fit", log, "--context", 4, "-o", "model")[0] == 0
    for source in ((log, "--context", 4), ("model",)):
        code, out, _ = call("coverage", *source, "--bootstrap", 15, "--json")
        assert code == 0
        assert json.loads(out)["bootstrap"]["stability"] == plain(whole.stability)
    for many in (0, 10**9):  # refused before the work: nothing is written
        refused = call("coverage", "model", "--bootstrap", many, "-o", "odds.csv")
        assert (refused[0], Path("odds.csv").exists()) == (2, False), refused
