"""A latest state that is always there: writers killed while they save, and folders replaced in one act."""

import errno
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from attomaton.disk import storage
from attomaton.disk.formats import read_json, write_arrays, write_json
from attomaton.disk.storage import check_folder, new_folder, write_whole
from attomaton.errors import StorageError, UsageError
from faults.checkpoints import CONTROLS, TARGETS, state, step_of

ROOT = Path(__file__).resolve().parents[2]


def test_the_latest_state_survives_kills_and_writers_without_care_are_caught():
    command = [sys.executable, "-m", "faults", "checkpoints", "--kills", "18", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in (x.name for x in (*TARGETS, *CONTROLS)):
        assert sum(line.startswith(name) for line in done.stdout.splitlines()) == 2, name
    assert " 0 times without a latest state" in done.stdout


def test_a_state_pieced_together_from_two_is_not_taken_for_one():
    torn = state(3)
    assert step_of(torn) == 3
    torn["params"][40:] = 4.0
    with pytest.raises(storage.DataError, match="several steps"):
        step_of(torn)


def test_a_folder_is_there_at_every_moment_while_it_is_replaced(tmp_path):
    """A reader that never stops looking, beside a writer that never stops replacing."""
    place, missing, looked, stop = tmp_path / "run", 0, 0, threading.Event()

    def fill(step):
        with new_folder(place, "train") as work:
            write_json(work / "step.json", {"step": step})

    def look():
        nonlocal missing, looked
        while not stop.is_set():
            missing += not place.exists()
            looked += 1

    fill(0)
    reader = threading.Thread(target=look)
    reader.start()
    for step in range(1, 30):
        fill(step)
    stop.set()
    reader.join()
    assert looked > 100
    assert missing == 0
    assert read_json(place / "step.json") == {"step": 29}
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_without_the_exchange_of_names_a_folder_is_still_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_exchange", lambda a, b: False)
    for step in range(2):
        with new_folder(tmp_path / "run", "train") as work:
            write_json(work / "step.json", {"step": step})
    assert read_json(tmp_path / "run" / "step.json") == {"step": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_what_a_killed_process_left_is_deleted_and_what_a_living_one_fills_is_not(tmp_path):
    killed = tmp_path / ".run.unfinished-killed00"
    killed.mkdir()
    for name in (".lock", "summary.json"):
        (killed / name).write_text("{")
    others = [tmp_path / ".run.settings", tmp_path / ".run.unfinished-mine_own"]  # somebody's own
    for other in others:
        other.mkdir()
        (other / "summary.json").touch()
    with new_folder(tmp_path / "run", "train") as living:
        assert not killed.exists()
        with suppress(KeyboardInterrupt), new_folder(tmp_path / "run", "train"):
            assert living.is_dir()
            raise KeyboardInterrupt
        write_json(living / "who.json", "first")
    assert read_json(tmp_path / "run" / "who.json") == "first"
    assert sorted(p.name for p in tmp_path.iterdir()) == [*(x.name for x in others), "run"]


def test_of_two_processes_that_fill_one_place_neither_loses_its_result(tmp_path):
    def fill(who, meanwhile=lambda: None):
        with new_folder(tmp_path / "run", "train") as work:
            write_json(work / "who.json", who)
            meanwhile()

    with pytest.raises(StorageError, match=r"changed while .* the result lies in .*run-1\."):
        fill("first", lambda: fill("second"))
    assert read_json(tmp_path / "run" / "who.json") == "second"
    assert read_json(check_folder(tmp_path / "run-1", "run") / "who.json") == "first"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "run-1"]


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_the_earlier_file_and_the_earlier_folder(tmp_path):
    write_whole(tmp_path / "a.json", lambda path: write_json(path, 1))

    def half(path):
        path.write_text("{")
        full()

    with pytest.raises(StorageError, match=r"a\.json: writing failed \(No space left"):
        write_whole(tmp_path / "a.json", half)
    assert read_json(tmp_path / "a.json") == 1
    with new_folder(tmp_path / "run", "train") as work:
        write_json(work / "step.json", 1)
    said = r"run: writing failed .*; nothing was left behind"
    with pytest.raises(StorageError, match=said), new_folder(tmp_path / "run", "train") as work:
        half(work / "step.json")
    assert read_json(tmp_path / "run" / "step.json") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "run"]


def test_a_full_disk_under_arrays_is_said_as_under_any_file(tmp_path, monkeypatch):
    import safetensors.numpy
    from safetensors import SafetensorError

    def no_room(*_):
        raise SafetensorError("Error while serializing: I/O error: No space left on device")

    monkeypatch.setattr(safetensors.numpy, "save_file", no_room)
    with pytest.raises(StorageError, match=r"x\.safetensors: writing failed .*No space left"):
        write_whole(tmp_path / "x.safetensors", lambda path: write_arrays(path, state(0)))


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(UsageError, match="cannot write there"),
        new_folder(tmp_path / "file" / "run", "train"),
    ):
        pass


@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_of_a_file_the_disk_has_no_room_for_nothing_stays(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    code = (
        "import resource, signal, sys, numpy as np\n"
        "from pathlib import Path\n"
        "from attomaton.disk.formats import write_columns, write_json\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "sys.dont_write_bytecode = True  # of modules yet to come only the first 1000 bytes would be kept\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "path, noise = Path(sys.argv[1]), np.random.default_rng(0).random(5000)\n"
        "write_json(path, noise.tolist()) if path.suffix == '.json' else write_columns(path, {'x': noise})\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=False)
    assert done.returncode == 1
    assert b"File too large" in done.stderr
    assert not path.exists()
