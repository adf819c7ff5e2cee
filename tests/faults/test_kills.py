"""Runs whose drivers and workers are killed end as if nothing had happened: the short version of `faults kills`."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from attomaton.disk import holdings
from attomaton.disk.formats import write_json
from attomaton.disk.ledger import LEDGER
from attomaton.disk.storage import discard, resumed_folder, work_folder
from attomaton.engine.tasks import WorkerError
from attomaton.errors import DataError
from faults import folders
from faults.cases import DIVIDED, FIT, OUT, SHORT, Case, prepare, start
from faults.kills import FAULTS, Arena, shares, told
from faults.processes import cluster_folders, gone_within, session_of

TRAIN = Case(
    "train",
    (
        *("train", f"../{SHORT}", "--context", "6", "--steps", "3000"),
        *("--optimizer", "adam", "--init", "uniform", "--seeds", "2"),
    ),
)
# The level that needs no compiled program; what kills do to it is the same.
SWEEP = Case(
    "sweep",
    ("sweep", "syn-small", "eta_z=0.5,1,2,4", "ratio=1,2", "until=10", "--level", "reduced"),
)
STARTING = re.compile(r"\S*python\S* \S*/default_worker\.py ")  # a Ray worker that has no title yet


@pytest.fixture(scope="module")
def arena(tmp_path_factory):
    return Arena(tmp_path_factory.mktemp("arena").resolve(), seed=3, warm=False)


def clean(tally):
    return {name: tally.faults[name] for name in FAULTS if tally.faults[name]}


def test_a_fit_killed_and_resumed_is_the_undisturbed_fit(arena):
    tally = arena.kill_drivers(FIT, 2)
    assert tally.kills == 2
    assert clean(tally) == {}


def test_a_fit_that_loses_workers_is_the_undisturbed_fit(arena):
    tally = arena.kill_workers(FIT, 1)
    assert tally.kills == 1
    assert clean(tally) == {}


def test_a_divided_last_token_survives_kills_of_drivers_and_workers(arena):
    calm = arena.undisturbed(DIVIDED).folder / OUT
    assert len(list((calm / "samples").glob("*-*.parquet"))) > 4
    for kill, many in ((arena.kill_drivers, 2), (arena.kill_workers, 1)):
        tally = kill(DIVIDED, many)
        assert tally.kills == many
        assert clean(tally) == {}


@pytest.mark.parametrize("case", [TRAIN, SWEEP], ids=lambda case: case.name)
def test_training_and_sweeps_killed_and_resumed_are_the_undisturbed_ones(arena, case):
    tally = arena.kill_drivers(case, 1)
    assert tally.kills == 1
    assert clean(tally) == {}


def test_a_fit_on_ray_that_is_killed_or_loses_workers_is_the_undisturbed_fit(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed; attomaton[ray]")
    arena = Arena(tmp_path.resolve(), seed=11, warm=False)
    for kill in (arena.kill_drivers, arena.kill_workers):
        tally = kill(FIT.on_ray(), 1)
        assert tally.kills == 1
        assert clean(tally) == {}


def test_ray_workers_killed_while_they_start_are_replaced(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed; attomaton[ray]")
    prepare(tmp_path)
    # Ray waits this long for a worker that has not said anything yet; by default a minute.
    patience = {"RAY_worker_register_timeout_seconds": "10"}
    driver = start(FIT.on_ray().line, tmp_path / "killed", **patience)
    while not (starting := [p for p in session_of(driver.pid) if STARTING.match(p.command)]):
        assert driver.poll() is None
        time.sleep(0.02)
    os.kill(starting[0].pid, signal.SIGKILL)
    try:
        assert driver.wait(120) == 0
    finally:
        driver.kill()
    assert gone_within(driver.pid, 10.0) is not None


def test_a_worker_whose_driver_dies_while_it_starts_leaves():
    code = (
        "import os\n"
        "from attomaton.engine.processes import _Worker\n"
        "from attomaton.engine.tasks import Task\n"
        "worker = _Worker()\n"
        "worker.give('time:sleep', Task(0, 60))\n"
        "os._exit(0)\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    driver.wait()
    assert gone_within(driver.pid, 30.0) is not None


def test_work_is_kept_when_workers_die_again_and_again_but_not_when_the_data_are_wrong(tmp_path):
    def work_until(error):
        with work_folder(tmp_path / "m", "train", {}) as work:
            write_json(work / "result.json", 1)
            raise error("as it happens")

    kept = {}
    for error in (WorkerError, DataError):
        with pytest.raises(error):
            work_until(error)
        kept[error] = (tmp_path / ".m.partial" / "result.json").exists()
    assert kept == {WorkerError: True, DataError: False}


def full_disk(*_):
    raise OSError


def test_what_is_left_of_work_that_was_being_thrown_away_is_never_taken_up(tmp_path, monkeypatch):
    with work_folder(tmp_path / "m", "train", {}) as work:
        write_json(work / "result.json", 1)
    with monkeypatch.context() as patched:
        patched.setattr(holdings, "_empty", full_disk)  # it came no further than that
        discard(work)
    assert (work / "result.json").exists()
    with work_folder(tmp_path / "m", "train", {}) as work:
        assert not (work / "result.json").exists()


def test_what_killed_processes_were_writing_does_not_stay_in_a_finished_folder(tmp_path):
    with resumed_folder(tmp_path / "m", "fit", {}) as work:
        for name in (".result.json.77", ".tmpa1B2c3", f".result.json.{'0' * 16}.attomaton"):
            (work / name).touch()
        (work / "corpus").mkdir()
        for name in ("part-0.json", "result.json"):
            write_json(work / name, 1)
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == [
        "attomaton.json",
        "log.jsonl",
        "manifest.json",
        "result.json",
    ]


# Controls: what the counts would miss nobody would know


@pytest.fixture
def torn(arena, tmp_path):
    calm = arena.undisturbed(FIT).folder / OUT
    shutil.copytree(calm, tmp_path / OUT)
    return calm, tmp_path / OUT


def test_an_undisturbed_fit_has_no_faults(torn):
    calm, copy = torn
    assert folders.differences(calm, copy) == folders.lost(calm, copy) == []
    assert folders.doubled(copy) == folders.unreadable(copy) == []
    assert folders.leftovers(copy.parent, OUT) == []
    assert len(folders.pieces(copy)) > 10


def test_a_cut_file_is_unreadable_and_different(torn):
    calm, copy = torn
    for name in ("model.json", "pairs/003.parquet"):
        whole = (copy / name).read_bytes()
        (copy / name).write_bytes(whole[: len(whole) // 2])
        assert len(folders.unreadable(copy)) == 2, name  # by itself, and by the manifest
        assert folders.differences(calm, copy) == [f"{name}: differs"]
        (copy / name).write_bytes(whole)


def test_a_changed_number_and_a_missing_file_are_different(torn):
    calm, copy = torn
    record = json.loads((copy / "model.json").read_text())
    record["summary"]["loss_floor"] += 1e-15
    (copy / "model.json").write_text(json.dumps(record))
    (copy / "edges" / "000.parquet").unlink()
    assert folders.differences(calm, copy) == [
        "edges/000.parquet: in one folder only",
        "model.json: differs",
    ]


def test_a_piece_done_twice_and_a_piece_never_done_are_counted(torn):
    calm, copy = torn
    lines = (copy / LEDGER).read_text().splitlines()
    done = [line for line in lines if '"part 2"' in line]
    other = [line for line in lines if '"part 1"' not in line]
    (copy / LEDGER).write_text("\n".join([*other, *done]) + "\n")
    assert folders.doubled(copy) == ["part 2"]
    assert folders.lost(calm, copy) == ["part 1"]
    assert folders.pieces(calm) == Counter(folders.pieces(calm).keys())


def test_what_is_left_over_beside_and_inside_is_counted(torn):
    _, copy = torn
    (copy / "pairs" / ".003.parquet.77").touch()
    (copy.parent / f".{OUT}.partial").mkdir()
    assert sorted(folders.leftovers(copy.parent, OUT)) == [
        ".out.partial",
        "out/pairs/.003.parquet.77",
    ]


def test_whoever_outlives_a_driver_is_counted_and_so_is_the_folder_of_its_cluster():
    code = (
        "import subprocess; print(subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL).pid)"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    orphan = int(driver.communicate()[0])
    folder = Path(f"/tmp/attomaton-{driver.pid}-control")
    folder.mkdir()
    try:
        assert [p.pid for p in session_of(driver.pid)] == [orphan]
        assert gone_within(driver.pid, 0.1) is None
        os.kill(orphan, signal.SIGKILL)
        assert cluster_folders(driver.pid) == [folder]
        assert gone_within(driver.pid, 0.1) is None
    finally:
        folder.rmdir()
    assert gone_within(driver.pid, 10.0) is not None


def test_kills_are_shared_out_and_told():
    assert shares(50, 3) == [17, 17, 16]
    assert "victim" in told([])
