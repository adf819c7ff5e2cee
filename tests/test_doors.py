"""The door to files that others may have made: what is no plain file is refused, and nothing waits for ever."""

import json
import os
import shutil
import signal
import socket
import threading
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from attomaton.cli.main import app
from attomaton.corpus.example import example_samples
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.disk import doors
from attomaton.disk.formats import read_arrays, read_json, read_matrix, write_arrays, write_columns
from attomaton.disk.ledger import TAIL, Ledger, read_ledger
from attomaton.disk.manifest import MANIFEST
from attomaton.disk.provenance import provenance
from attomaton.disk.storage import KIND_FILE, new_folder
from attomaton.errors import DataError, StorageError, UsageError
from attomaton.folders.check import checked
from attomaton.folders.details import details
from attomaton.folders.differ.folders import difference
from attomaton.folders.look import in_use, look, scan
from attomaton.folders.model import open_model, save_model
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.scan_snap.families import read_classes

HOURS = 9 << 30  # bytes of a file that nobody can read in one go


@pytest.fixture(autouse=True)
def patience():
    """A reader that waits for ever fails instead."""

    def over(*_):
        pytest.fail("waited for ever")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model and a run of ours."""
    root = tmp_path_factory.mktemp("made")
    save_model(solve_limit(example_samples()), root / "model", {"data": "example"})
    Ledger(root / "model").note("ended")
    with new_folder(root / "run", "train") as work:
        provenance(work, {"data": "a.txt"}, {"loss": 0.5})
        write_arrays(work / "state.safetensors", {"W": np.eye(3)})
        write_columns(work / "metrics.parquet", {"seed": np.arange(50)})
    return root


def a_pipe(path):
    os.mkfifo(path)


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


def a_device(path):
    path.symlink_to("/dev/zero")


def a_link_out(path):
    (path.parents[1] / "elsewhere").write_bytes(b"{}")
    path.symlink_to(path.parents[1] / "elsewhere")


def huge(path):
    path.touch()
    os.truncate(path, HOURS)


SPECIAL = (a_pipe, a_socket, a_device, a_link_out, Path.mkdir, huge)
FILES = [
    ("model", "model.json"), ("model", "vocabulary.json"), ("model", "pairs/000.parquet"), ("model", MANIFEST),
    ("run", "config.toml"), ("run", "command.txt"), ("run", "summary.json"), ("run", "metrics.parquet"),
]  # fmt: skip


@pytest.fixture
def put(made, tmp_path, monkeypatch):
    """Put something in the place of a file of a copy of a folder; where the copy is."""
    monkeypatch.chdir(tmp_path)

    def broken(kind, name, special):
        folder = tmp_path / "x"
        shutil.copytree(made / kind, folder)
        (folder / name).unlink(missing_ok=True)
        special(folder / name)
        return folder

    return broken


@pytest.mark.parametrize(("kind", "name"), FILES, ids=lambda x: x)
@pytest.mark.parametrize("special", SPECIAL, ids=lambda x: x.__name__)
def test_whatever_lies_in_the_place_of_a_file_is_told_and_refused(put, made, kind, name, special):
    folder = put(kind, name, special)
    seen = {f.path.name: f for f in scan([folder.parent])}["x"]
    assert seen.state == "unreadable"
    assert name.split("/")[-1] in seen.note
    assert details(folder).state == "unreadable"
    ((_, verdict, reasons),) = checked([folder])
    assert verdict in ("changed", "unreadable")
    assert name in reasons[0]
    with pytest.raises(DataError, match=name):
        difference(folder, made / kind)
    if kind == "model":
        with pytest.raises(DataError, match=name):
            open_model(folder)


@pytest.mark.parametrize("special", SPECIAL, ids=lambda x: x.__name__)
def test_a_folder_whose_mark_is_no_file_is_refused_or_not_ours(put, special):
    folder = put("model", KIND_FILE, special)
    with pytest.raises(DataError, match=r"attomaton\.json"):
        open_model(folder)
    assert [f.state for f in scan([folder.parent])] in ([], ["unreadable"])


@pytest.mark.parametrize("special", SPECIAL[:-1], ids=lambda x: x.__name__)
def test_a_ledger_that_is_no_file_is_told_and_never_written(put, special):
    folder = put("model", "log.jsonl", special)
    assert look(folder).state == "unreadable"
    assert "log.jsonl" in details(folder).note
    with pytest.raises(DataError, match="a plain file is needed"):
        read_ledger(folder)
    with pytest.raises(StorageError, match=r"log\.jsonl: writing failed"):
        Ledger(folder)


def test_of_a_ledger_beyond_all_measure_the_end_is_read(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.note("started")
    os.truncate(ledger.path, HOURS)
    ledger.note("ended")
    assert [line.event for line in read_ledger(tmp_path)] == ["ended"]


def test_a_line_of_a_long_ledger_that_is_cut_is_none(tmp_path, monkeypatch):
    # So many bytes of a ledger that is a little longer; the test before reads as much as is ever read.
    read = 1 << 16
    assert read < TAIL
    monkeypatch.setattr("attomaton.disk.ledger.TAIL", read)
    ledger = Ledger(tmp_path)
    line = b'{"event": "%09d"}\n'
    ledger.path.write_bytes(b"".join(line % i for i in range(read // 20 + 10)))
    events = [int(line.event) for line in read_ledger(tmp_path)]
    assert events[-1] == read // 20 + 9
    assert events == list(range(events[0], events[-1] + 1))
    assert events[0] > 0


@pytest.mark.parametrize("special", [a_pipe, a_socket, a_device, Path.mkdir])
def test_a_lock_that_is_no_file_keeps_nobody_waiting(put, special):
    assert not in_use(put("model", ".lock", special))


def test_a_link_inside_the_path_of_a_file_is_refused_and_one_to_the_folder_is_not(put, tmp_path):
    folder = put("model", "extra", Path.touch)
    (tmp_path / "by link").symlink_to(folder)
    open_model(tmp_path / "by link")
    (folder / "pairs").rename(tmp_path / "pairs")
    (folder / "pairs").symlink_to(tmp_path / "pairs")
    with pytest.raises(DataError, match="pairs: a link, where a folder is needed"):
        open_model(folder)


def test_a_huge_file_is_refused_before_it_is_hashed_even_if_it_is_listed(put):
    folder = put("model", "model.json", Path.touch)
    listed = json.loads((folder / MANIFEST).read_text())
    for entry in listed["files"]:
        if entry["name"] == "model.json":
            entry["bytes"] = HOURS
    (folder / MANIFEST).write_text(json.dumps(listed))
    os.truncate(folder / "model.json", HOURS)
    with pytest.raises(DataError, match=r"model\.json: 9\.66 GB, larger than the 268 MB"):
        open_model(folder)


def test_commands_refuse_a_folder_with_a_pipe_in_it_in_one_line_each(put, made):
    put("model", "model.json", a_pipe)
    runner = CliRunner()
    listed = runner.invoke(app, ["runs", "ls", ".", "--json"])
    assert listed.exit_code == 0
    assert [f["state"] for f in json.loads(listed.output)["folders"]] == ["unreadable"]
    for words in (
        ["runs", "show", "x"], ["runs", "check", "x"], ["runs", "diff", "x", str(made / "model")],
        ["predict", "x", "tea"],
    ):  # fmt: skip
        done = runner.invoke(app, words)
        code = getattr(done.exception, "exit_code", done.exit_code)
        assert code == 3, words
        assert "model.json" in f"{done.output}{done.exception}"


# Data that a user names


def test_a_matrix_may_be_a_link_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("E.npy", np.eye(3))
    Path("link.npy").symlink_to("E.npy")
    assert (read_matrix("link.npy", "embeddings") == np.eye(3)).all()
    for special in (a_pipe, a_socket, a_device, Path.mkdir):
        path = Path(f"{special.__name__}.npy")
        special(path)
        with pytest.raises(DataError, match=r"embeddings: .*a plain file is needed"):
            read_matrix(path, "embeddings")


def test_a_pipe_that_nobody_writes_to_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(doors, "PATIENCE", 0.2)
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(DataError, match=r"a\.txt: a pipe that nobody writes to"):
        read_windows(tmp_path / "a.txt", Reading(context=2))


@pytest.mark.parametrize("suffix", [".txt", ".jsonl"])
def test_a_pipe_that_somebody_writes_to_is_read_as_a_file(tmp_path, suffix):
    content = b"a b a b\n" * 40_000 if suffix == ".txt" else b'{"tokens": ["a"], "next": "a"}\n' * 9
    path, pipe = tmp_path / f"a{suffix}", tmp_path / f"pipe{suffix}"
    path.write_bytes(content)
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(content))
    writer.start()
    how = {"context": 2} if suffix == ".txt" else {}
    told, seen = read_windows(pipe, Reading(**how)), read_windows(path, Reading(**how))
    writer.join()
    assert np.array_equal(told.ids, seen.ids)
    assert len(told.ids) > 0


def test_an_event_log_is_no_pipe(tmp_path):
    for suffix in (".csv", ".parquet"):
        os.mkfifo(tmp_path / f"a{suffix}")
        with pytest.raises(DataError, match="a pipe"):
            read_windows(tmp_path / f"a{suffix}", Reading(context=2))


def test_what_a_file_may_take_is_said_by_its_size_or_by_the_user(monkeypatch):
    monkeypatch.delenv(doors.MEMORY, raising=False)
    monkeypatch.setattr(doors, "available_memory", lambda: None)
    assert doors.allowance(1) == doors.FLOOR
    assert doors.allowance(1 << 30) == doors.GROWTH << 30
    monkeypatch.setattr(doors, "available_memory", lambda: 5)
    assert doors.allowance(1) == doors.allowance() == 5
    monkeypatch.setenv(doors.MEMORY, "0.5")
    assert doors.allowance(1) == 500_000_000
    with pytest.raises(DataError, match=r"1 kB would take at least 2 GB .* ATTOMATON_MEMORY=2 "):
        doors.check_memory("a.txt", 2_000_000_000, 1000)
    for wrong in ("much", "-1", "nan", "inf"):
        monkeypatch.setenv(doors.MEMORY, wrong)
        with pytest.raises(UsageError, match="a number of GB is needed"):
            doors.allowance(1)


def test_a_lack_of_memory_is_said_to_be_one(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with (
        pytest.raises(DataError, match=r"a\.json: there is not enough memory"),
        doors.opened(tmp_path / "a.json"),
    ):
        raise MemoryError


def test_readers_meet_plain_files_only(put):
    folder = put("run", "command.txt", a_pipe)
    with pytest.raises(DataError, match="a pipe"):
        read_json(folder / "command.txt")
    with pytest.raises(DataError, match="a pipe"):
        read_arrays(folder / "command.txt", ["W"])


def test_classes_are_read_from_files_with_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(doors, "PATIENCE", 0.2)
    os.mkfifo(tmp_path / "c.toml")
    with pytest.raises(DataError, match=r"c\.toml: a pipe that nobody writes to"):
        read_classes(tmp_path / "c.toml")
    with pytest.raises(DataError, match=r"/dev/zero: more than 16 MB"):
        read_classes("/dev/zero")
