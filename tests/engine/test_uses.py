"""What runs on an engine comes out the same on every engine, in every order, and is noted once."""

from collections import Counter

import pytest

from attomaton.corpus.reading import Reading
from attomaton.disk.formats import read_json
from attomaton.disk.ledger import read_ledger
from attomaton.disk.locks import only_one
from attomaton.engine.choose import open_engine
from attomaton.errors import UsageError
from attomaton.folders import sweep as sweeps_folder
from attomaton.jobs import fit as fits
from attomaton.jobs import sweep as sweeps
from attomaton.jobs import verify

GRID = {"eta_z": [0.5, 1.0], "ratio": [1, 10], "until": [10.0]}


class Backwards:
    """The last task first."""

    name, workers = "backwards", 3

    def run(self, work, tasks, *common):
        return ((task.number, work(*common, task.payload)) for task in reversed(tasks))

    def close(self):
        """Nothing to let go."""


def pieces_done(folder):
    return Counter(line.piece for line in read_ledger(folder) if line.event == "done")


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(sweeps_folder, "PIECE", 2)


def test_a_sweep_does_not_depend_on_the_order_of_its_pieces(tmp_path, small_pieces):
    told = []
    sweeps.sweep_run(tmp_path / "a", GRID, ["syn-small"], "reduced")
    sweeps.sweep_run(
        tmp_path / "b", GRID, ["syn-small"], "reduced", lambda *x: told.append(x), engine=Backwards()
    )  # fmt: skip
    results = [(tmp_path / x / "results.parquet").read_bytes() for x in "ab"]
    assert results[0] == results[1]
    assert told == [(0, 2, "pieces"), (1, 2, "pieces"), (2, 2, "pieces")]
    assert set(pieces_done(tmp_path / "b").values()) == {1}
    assert [line.event for line in read_ledger(tmp_path / "b")] == ["started", "done", "done", "ended"]  # fmt: skip


def test_a_sweep_is_written_by_one_process_at_a_time(tmp_path, small_pieces):
    sweeps.sweep_run(tmp_path / "a", GRID, ["syn-small"], "reduced")
    with (
        only_one(tmp_path / "a", tmp_path / "a"),
        pytest.raises(UsageError, match="another process"),
    ):
        sweeps.sweep_run(tmp_path / "a", GRID, ["syn-small"], "reduced")


def test_a_failed_piece_is_noted_as_such_and_not_as_done(tmp_path):
    sweeps.sweep_run(tmp_path / "a", GRID | {"mixing": ["nothing"]}, ["syn-small"], "reduced")
    events = [line.event for line in read_ledger(tmp_path / "a")]
    assert events == ["started", "failed", "ended"]


def test_claims_do_not_depend_on_the_order_in_which_they_are_checked(tmp_path):
    only = ["scan-snap-fig3", "scan-snap-fig8"]
    plain = verify.verify_run(only, out=tmp_path / "a")
    other = verify.verify_run(only, out=tmp_path / "b", engine=Backwards())
    for one, two in zip(plain["claims"], other["claims"], strict=True):
        assert {**one, "seconds": 0} == {**two, "seconds": 0}
    assert pieces_done(tmp_path / "b") == dict.fromkeys(only, 1)


def test_claims_about_a_users_data_are_checked_by_other_processes(tmp_path):
    data = tmp_path / "t.jsonl"
    data.write_text(
        '{"tokens": ["a", "b", "c"], "next": "a"}\n{"tokens": ["b", "c"], "next": "b"}\n'
    )
    plain = verify.verify_run(["luce"], out=tmp_path / "a", data=data)
    with open_engine("processes", 1) as engine:
        other = verify.verify_run(["luce"], out=tmp_path / "b", data=data, engine=engine)
    first, second = (read_json(tmp_path / x / "claims" / "luce.json") for x in "ab")
    assert first["measured"] == second["measured"]
    assert plain["verdict"] == other["verdict"] == "holds"


def test_a_fit_is_read_and_solved_in_any_order(tmp_path, monkeypatch):
    monkeypatch.setattr(fits, "PART", 200)
    monkeypatch.setattr("attomaton.corpus.shards.SHARD", 200)
    (tmp_path / "t.txt").write_text("the cat sat on the mat and the dog sat on the log\n" * 60)
    fits.fit_run(tmp_path / "t.txt", tmp_path / "a", reading=Reading(context=6))
    fits.fit_run(tmp_path / "t.txt", tmp_path / "b", reading=Reading(context=6), engine=Backwards())
    files = [p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.parquet")]
    assert len(files) >= 9
    assert all(
        (tmp_path / "a" / f).read_bytes() == (tmp_path / "b" / f).read_bytes() for f in files
    )
    done = pieces_done(tmp_path / "b")
    assert set(done.values()) == {1}
    assert done["reading"] == 1
