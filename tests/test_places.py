"""Where folders may be written: what is somebody else's is never emptied, replaced or written through a link."""

import os
import shutil
from pathlib import Path

import pytest

from attomaton import holdings, storage
from attomaton.errors import StorageError, UsageError
from attomaton.fits import fit_run
from attomaton.formats import read_json, write_json
from attomaton.ledger import Ledger
from attomaton.storage import (
    PlaceTakenError,
    check_folder,
    check_place,
    new_folder,
    resumed_folder,
    work_folder,
    write_whole,
)

CHAIN = '{"tokens": ["a", "b", "c"], "next": "a"}\n{"tokens": ["b", "c"], "next": "b"}\n'
SMALL = {
    "fit": ("fit", "chain.jsonl"),
    "train": ("train", "chain.jsonl", "--steps", "20"),
    "tune": ("tune", "chain.jsonl", "--validate", "chain.jsonl"),
    "verify": ("verify", "--only", "loss-floor"),
}
SWEEP = ("sweep", "syn-small", "eta_z=1", "ratio=1", "until=5.0", "--level", "reduced")
DYNAMICS = ("dynamics", "syn-small", "--level", "reduced", "--until", "5")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with data, and a folder of somebody's own in it."""
    monkeypatch.chdir(tmp_path)
    Path("chain.jsonl").write_text(CHAIN)
    Path("mine").mkdir()
    Path("mine/diary.txt").write_text("precious")
    return tmp_path


def everything(folder):
    """All that lies in a folder, links as themselves."""
    return {
        str(p.relative_to(folder)): os.readlink(p)
        if p.is_symlink()
        else p.is_file() and p.read_bytes()
        for p in sorted(Path(folder).rglob("*"))
    }


def filled(path, kind="run", name="summary.json", value=1):
    with new_folder(path, kind) as work:
        write_json(work / name, value)


# Links


@pytest.mark.parametrize("command", SMALL)
def test_a_planted_link_in_place_of_the_work_folder_is_refused_and_not_followed(
    here, call, command
):
    Path(".out.partial").symlink_to("mine")
    before = everything(here)
    code, _, err = call(*SMALL[command], "-o", "out")
    assert code == 2
    assert ".out.partial: was not made by attomaton" in err
    assert everything(here) == before


@pytest.mark.parametrize("words", [*SMALL.values(), SWEEP, DYNAMICS], ids=lambda words: words[0])
def test_a_link_is_no_place_for_a_folder(here, call, words):
    filled("real")
    Path("out").symlink_to("real")
    Path("lost").symlink_to("nowhere")
    before = everything(here)
    for name, target in (("out", "real"), ("lost", "nowhere"), ("out/", "real")):
        code, _, err = call(*words, "-o", name)
        assert code == 2
        assert f"is a link to {target}" in err
    assert everything(here) == before


@pytest.mark.parametrize("command", SMALL)
@pytest.mark.parametrize("marked", [False, True])
def test_a_work_folder_that_somebody_else_filled_is_refused(here, call, command, marked):
    work = Path(".out.partial")
    work.mkdir()
    (work / "diary.txt").write_text("precious")
    if marked:
        (work / "config.json").write_text("{}")
    before = everything(here)
    code, _, err = call(*SMALL[command], "-o", "out")
    assert code == 2
    assert ("did not write (diary.txt)" if marked else "was not made by attomaton") in err
    after = everything(here)
    assert {k: v for k, v in after.items() if not k.endswith(".lock")} == before


@pytest.mark.parametrize(
    "name", ["corpus", "log.jsonl", "config.json", "samples/000.parquet", ".lock"]
)
def test_links_inside_a_work_folder_are_refused_and_not_followed(here, name):
    with pytest.raises(KeyboardInterrupt), work_folder("out", {"dense": 1}):
        raise KeyboardInterrupt
    planted = Path(".out.partial") / name
    planted.parent.mkdir(exist_ok=True)
    planted.unlink(missing_ok=True)
    planted.symlink_to(here / "mine" / ("diary.txt" if "." in name else ""))
    with pytest.raises(UsageError):
        fit_run("chain.jsonl", "out")
    assert Path("mine/diary.txt").read_text() == "precious"
    assert planted.is_symlink()


def test_special_files_in_a_work_folder_are_refused_and_no_lock_waits_for_them(here):
    for name in ("log.jsonl", ".lock"):
        work = Path(".out.partial")
        work.mkdir()
        (work / "config.json").write_text("{}")
        os.mkfifo(work / name)
        with pytest.raises(UsageError, match=r"did not write \(log\.jsonl\)|no regular file"):
            fit_run("chain.jsonl", "out")
        (work / name).unlink()
        for left in work.iterdir():
            left.unlink()
        work.rmdir()


def test_a_sweep_locks_and_logs_through_no_link(here, call):
    for name in (".lock", "log.jsonl"):
        assert call(*SWEEP, "-o", f"s{name}")[0] == 0
        planted = Path(f"s{name}") / name
        planted.unlink()
        planted.symlink_to(here / "mine" / "diary.txt")
        assert call(*SWEEP, "-o", f"s{name}")[0] != 0
    assert Path("mine/diary.txt").read_text() == "precious"


def test_a_ledger_is_not_written_through_a_link(here):
    Path("log.jsonl").symlink_to("mine/diary.txt")
    with pytest.raises(StorageError):
        Ledger(Path()).note("started")
    assert Path("mine/diary.txt").read_text() == "precious"


def test_a_file_is_not_written_through_a_link_at_the_name_it_has_meanwhile(here, monkeypatch):
    monkeypatch.setattr(os, "urandom", bytes)
    Path(f".a.json.{'00' * 8}.attomaton").symlink_to("mine/diary.txt")
    with pytest.raises(StorageError):
        write_whole(Path("a.json"), lambda path: write_json(path, 1))
    assert Path("mine/diary.txt").read_text() == "precious"


def test_a_left_folder_is_deleted_only_if_it_is_ours(here):
    left = [
        Path(f".run.unfinished-{name}") for name in ("a_link_1", "with_one", "foreign_", "named")
    ]
    left[0].symlink_to("mine")
    for folder in left[1:]:
        folder.mkdir()
        (folder / ".lock").touch()
    (left[1] / "figures").symlink_to(here / "mine")
    (left[2] / "diary.txt").write_text("precious")
    before = everything(here)
    filled("run")
    assert {k: v for k, v in everything(here).items() if not k.startswith("run")} == before


def test_a_work_folder_of_another_user_is_not_taken_up(here, monkeypatch):
    with pytest.raises(KeyboardInterrupt), work_folder("out", {}):
        raise KeyboardInterrupt
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with work_folder("out", {}):  # as on file systems where all we make is another's
        pass
    monkeypatch.setattr(storage, "_made_as", lambda folder: 12346)
    with pytest.raises(UsageError, match="another user"), work_folder("out", {}):
        pass


# What changes while the work goes on


def put_file():
    Path("out").mkdir(exist_ok=True)
    Path("out/notes.txt").write_text("mine")


def put_folder():
    if Path("out").exists():
        Path("out").rename("aside")
    filled("out", value="theirs")


def put_link():
    if Path("out").exists():
        Path("out").rename("aside")
    Path("out").symlink_to("mine")


def put_file_there():
    if Path("out").exists():
        Path("out").rename("aside")
    Path("out").write_text("theirs")


CHANGES = [put_file, put_folder, put_link, put_file_there]


@pytest.mark.parametrize("before", [False, True], ids=["nothing-before", "replaced"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("swap", [True, False], ids=["exchange", "two-renames"])
def test_what_is_put_there_meanwhile_stays_and_the_result_lies_beside(
    here, monkeypatch, before, change, swap
):
    if not swap:
        monkeypatch.setattr(storage, "_exchange", lambda a, b: False)

    def work_on(make):
        with make("out", "run") as work:
            write_json(work / "summary.json", "result")
            change()
            there.append((everything(here / "out"), Path("out").lstat().st_ino))

    for make in (new_folder, lambda path, kind: resumed_folder(path, kind, {})):
        there = []
        if before:
            filled("out", value="earlier")
        with pytest.raises(PlaceTakenError, match=r"the result lies in out-1\."):
            work_on(make)
        assert [(everything(here / "out"), Path("out").lstat().st_ino)] == there
        assert read_json(check_folder("out-1", "run") / "summary.json") == "result"
        assert Path("mine/diary.txt").read_text() == "precious"
        for name in ("out", "out-1", "aside"):
            if Path(name).is_dir() and not Path(name).is_symlink():
                shutil.rmtree(name)
            else:
                Path(name).unlink(missing_ok=True)
        assert {p.name for p in here.iterdir()} <= {"chain.jsonl", "mine"}


@pytest.mark.parametrize("swap", [True, False], ids=["exchange", "two-renames"])
def test_what_is_put_there_in_the_last_moment_stays(here, monkeypatch, swap):
    """After the last look, before the names are swapped."""
    filled("out", value="earlier")
    looked = storage._as_found

    def as_found(place, at=None):
        fine = looked(place, at)
        if at is None and os.path.exists(".late"):
            os.unlink(".late")
            put_file()
        return fine

    monkeypatch.setattr(storage, "_as_found", as_found)
    if not swap:
        monkeypatch.setattr(storage, "_exchange", lambda a, b: False)
    Path(".late").touch()
    with pytest.raises(PlaceTakenError, match="out-1"):
        filled("out", value="result")
    assert Path("out/notes.txt").read_text() == "mine"
    assert read_json(Path("out/summary.json")) == "earlier"
    assert read_json(Path("out-1/summary.json")) == "result"


def test_what_is_put_into_the_replaced_folder_while_it_is_deleted_stays(here, monkeypatch):
    filled("out", value="earlier")
    empty = holdings._empty

    def late(handle, above, names, spare):
        empty(handle, above, names, spare)
        with os.fdopen(os.open("notes.txt", os.O_CREAT | os.O_WRONLY, dir_fd=handle), "w") as file:
            file.write("mine")

    monkeypatch.setattr(holdings, "_empty", late)
    with pytest.raises(StorageError, match="is written, but"), new_folder("out", "run") as work:
        write_json(work / "summary.json", "result")
    assert read_json(Path("out/summary.json")) == "result"
    assert [p.read_text() for p in here.glob(".out.*/notes.txt")] == ["mine"]


# What holds of every folder our commands write


@pytest.mark.parametrize("words", [*SMALL.values(), SWEEP, DYNAMICS], ids=lambda words: words[0])
def test_nothing_our_commands_write_is_a_stranger(here, call, words, monkeypatch):
    seen = []
    moved = storage._move_into_place

    def look(work, place, kind, *rest, **more):
        seen.append(holdings.strangers(work))
        moved(work, place, kind, *rest, **more)

    monkeypatch.setattr(storage, "_move_into_place", look)
    assert call(*words, "-o", "out")[0] in (0, 4)
    assert seen
    assert set(map(tuple, seen)) == {()}
    assert check_place("out", None).replaced["command"].startswith("attomaton")
