"""Where folders may be written: what is somebody else's is never emptied, replaced or written through a link."""

import errno
import json
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from attomaton.corpus.example import example_samples
from attomaton.disk import holdings, locks, provenance, storage
from attomaton.disk.formats import read_json, write_arrays, write_columns, write_json
from attomaton.disk.kinds import KINDS
from attomaton.disk.ledger import Ledger, read_ledger
from attomaton.disk.storage import (
    check_folder,
    check_place,
    new_folder,
    resumed_folder,
    work_folder,
    write_whole,
)
from attomaton.errors import StorageError, UsageError
from attomaton.folders.model import save_model
from attomaton.folders.remove import removable, remove
from attomaton.jobs.fit import fit_run
from attomaton.jobs.sweep import sweep_run
from attomaton.mechanics.theory.limit import solve_limit

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
    with new_folder(path, KINDS[kind].makers[0]) as work:
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
    with pytest.raises(KeyboardInterrupt), work_folder("out", "train", {"dense": 1}):
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


@pytest.mark.parametrize("plant", [os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_what_is_planted_in_a_work_folder_meanwhile_is_waited_for_by_nobody(here, plant):
    def work_on():
        with resumed_folder("out", "train", {}) as work:
            write_json(work / "summary.json", 1)
            if meanwhile is not None:
                meanwhile(work / "state.safetensors")

    meanwhile = plant
    with pytest.raises(StorageError, match=r"did not write \(state\.safetensors\)"):
        work_on()
    Path(".out.partial/state.safetensors").unlink()
    meanwhile = None
    work_on()
    assert read_json(check_folder("out", "run") / "summary.json") == 1


def test_a_file_that_others_share_is_not_written_into(here):
    """Under a second name, as `cp -l` makes them."""
    for name, write in (
        ("log.jsonl", lambda path: Ledger(path.parent).note("started")),
        ("a.json", lambda path: write_json(path, 1)),
        ("a.parquet", lambda path: write_columns(path, {"x": [1]})),
        ("a.safetensors", lambda path: write_arrays(path, {"x": np.zeros(1)})),
    ):
        Path(name).hardlink_to("mine/diary.txt")
        write(Path(name))
        assert Path("mine/diary.txt").read_text() == "precious", name
        assert Path(name).read_bytes() != b"precious"


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
    with pytest.raises(KeyboardInterrupt), work_folder("out", "train", {}):
        raise KeyboardInterrupt
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with work_folder("out", "train", {}):  # as on file systems where all we make is another's
        pass
    monkeypatch.setattr(locks, "_made_as", lambda folder: 12346)
    with pytest.raises(UsageError, match="another user"), work_folder("out", "train", {}):
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
        with make("out", "train") as work:
            write_json(work / "summary.json", "result")
            change()
            there.append((everything(here / "out"), Path("out").lstat().st_ino))

    for make in (new_folder, lambda path, maker: resumed_folder(path, maker, {})):
        there = []
        if before:
            filled("out", value="earlier")
        with pytest.raises(StorageError, match=r"the result lies in out-1\."):
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
    with pytest.raises(StorageError, match="out-1"):
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
    with pytest.raises(StorageError, match="is written, but"), new_folder("out", "train") as work:
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
    assert check_place("out", None).replaced.command.startswith("attomaton")


# What is replaced, and what is not


def test_a_folder_of_the_same_kind_is_replaced_and_it_is_said(here, call):
    code, out, err = call("fit", "chain.jsonl", "-o", "m", "--json")
    assert (code, json.loads(out)["replaced"]) == (0, None)
    assert "replaced" not in err
    code, out, err = call("fit", "chain.jsonl", "-o", "m", "--dense", "--json")
    assert code == 0
    told = json.loads(out)["replaced"]
    assert (told["kind"], told["command"]) == ("model", "attomaton fit chain.jsonl -o m --json")
    assert told["made"] in Path("m/log.jsonl").read_text() or told["made"] < "9"
    assert f"replaced: model of {told['made'][:10]}" in err
    assert "(attomaton fit chain.jsonl -o m --json)" in err


@pytest.mark.parametrize(
    "words", [SMALL["fit"], SMALL["train"], SMALL["tune"], DYNAMICS], ids=lambda w: w[0]
)
def test_a_folder_with_files_of_others_in_it_is_never_replaced(here, call, words):
    assert call(*words, "-o", "out")[0] == 0
    folder = next((p for p in Path("out").iterdir() if p.is_dir()), Path("out"))
    for name in (Path("out/notes.txt"), folder / "mine.parquet"):
        name.write_text("mine")
        before = everything(here)
        for force in ((), ("--force",)):
            code, _, err = call(*words, "-o", "out", *force)
            assert code == 2
            assert f"did not write ({name.relative_to('out')})" in err
            assert everything(here) == before
        name.unlink()
    assert call(*words, "-o", "out")[0] == 0


@pytest.mark.parametrize("words", [SMALL["fit"], SMALL["tune"], SWEEP], ids=lambda w: w[0])
def test_a_folder_of_another_kind_is_replaced_by_force_alone(here, call, words):
    filled("out")
    before = everything(here)
    code, _, err = call(*words, "-o", "out")
    assert code == 2
    assert "holds a run, not a" in err
    assert "--force" in err
    assert everything(here) == before
    code, out, err = call(*words, "-o", "out", "--force", "--json")
    assert code == 0
    assert json.loads(out)["replaced"]["kind"] == "run"
    assert "replaced: run" in err


def test_functions_keep_to_the_same_rule(here):
    limit = solve_limit(example_samples())
    filled("out")
    with pytest.raises(UsageError, match="holds a run, not a model"):
        save_model(limit, "out", {})
    save_model(limit, "out", {}, force=True)
    Path("out/pairs/notes.txt").touch()
    for force in (False, True):
        with pytest.raises(UsageError, match=r"pairs/notes\.txt"):
            save_model(limit, "out", {}, force=force)


def test_what_is_read_is_not_replaced(here, call):
    assert call("fit", "chain.jsonl", "-o", "m")[0] == 0
    with new_folder("run", "train"):
        pass
    shutil.copytree("m", "run/model")
    Path("again").symlink_to("m")
    before = everything(here)
    for data, out, said in (
        ("m", "m", "is the input m"),
        ("again", "m", "is the input again"),
        ("m", "m/run", "lies inside the input m"),
        ("m", "again/run", "lies inside the input m"),
        ("run/model", "run", "holds the input run/model"),
        ("chain.jsonl", "chain.jsonl", "is the input"),
        ("chain.jsonl", ".", "is the folder you are in"),
        ("chain.jsonl", "..", "is the folder you are in"),
        ("chain.jsonl", here, "is the folder you are in"),
        ("chain.jsonl", here.parent, "is the folder you are in"),
        ("chain.jsonl", "/", "is the folder you are in"),
        ("chain.jsonl", Path.home(), "home, or above it|folder you are in"),
    ):
        code, _, err = call("train", data, "-o", out, "--steps", "5", "--force")
        assert code == 2, (data, out)
        assert re.search(said, err), err
    assert everything(here) == before


def test_a_folder_one_stands_in_is_not_replaced(here, call, monkeypatch):
    filled("out")
    monkeypatch.chdir("out")
    before = everything(here)
    for words in (SWEEP, DYNAMICS):
        code, _, err = call(*words, "-o", "../out", "--force")
        assert code == 2
        assert "is the folder you are in" in err
    assert everything(here) == before


def test_a_data_file_is_replaced_by_force_alone(here, call):
    before = everything(here)
    for kind in (("--kind", "general"), ("--kind", "sessions", "--context", "3")):
        code, _, err = call("data", "synth", "-o", "chain.jsonl", *kind)
        assert code == 2
        assert "already exists" in err
        assert everything(here) == before
    assert call("data", "synth", "-o", "chain.jsonl", "--force")[0] == 0
    assert everything(here) != before


# Unfinished work with other settings


def unfinished(config, *pieces):
    with suppress(KeyboardInterrupt), work_folder("out", "train", config) as work:
        for name in pieces:
            (work / name).parent.mkdir(exist_ok=True)
            write_json(work / name, 1)
        raise KeyboardInterrupt
    return Path(".out.partial")


@pytest.mark.parametrize(
    "piece", ["part-000.json", "claims/T1.json", "checkpoint.safetensors", "pieces/a.parquet"]
)
def test_finished_pieces_are_not_thrown_away_because_a_setting_differs(here, piece):
    config = {"reading": {"context": 8, "split": None}, "data": "a" * 64, "lr": 0.5}
    work = unfinished(config, piece)
    before = everything(work)
    other = {**config, "reading": {"context": 80}, "data": "b" * 64}
    with pytest.raises(UsageError) as caught, work_folder("out", "train", other):
        pass
    said = str(caught.value)
    assert "reading.context: 8, now 80" in said
    assert "data: content aaaaaaaa…, now content bbbbbbbb…" in said
    assert "lr" not in said
    assert "--force" in said
    assert everything(work) == before
    with suppress(KeyboardInterrupt), work_folder("out", "train", config) as work:
        assert (work / piece).is_file()
        raise KeyboardInterrupt
    with work_folder(check_place("out", "run", force=True), "train", other) as work:
        assert not (work / piece).exists()


def test_work_of_which_nothing_is_finished_gives_way(here):
    unfinished({"context": 8}, "corpus/vocabulary.json")
    with work_folder("out", "train", {"context": 4}) as work:
        assert read_json(work / "config.json") == {"maker": "train", "context": 4}


# Files


def outputs(m):
    """Commands that write a file, and the file."""
    return {
        "html": (("summary", m, "--html", "a.html"), "a.html"),
        "summary figure": (("summary", m, "--figure", "a.png"), "a.png"),
        "explain": (("explain", m, "b", "c", "--figure", "a.svg"), "a.svg"),
        "graph": (("graph", m, "--last", "c", "-o", "a.json"), "a.json"),
        "graph figure": (("graph", m, "--last", "c", "-o", "a.svg"), "a.svg"),
        "score": (("score", m, "chain.jsonl", "--figure", "a.svg"), "a.svg"),
        "synth": (("data", "synth", "-o", "a.jsonl", "--force"), "a.jsonl"),
        "sessions": (("data", "synth", "--kind", "sessions", "-o", "a.csv", "--force"), "a.csv"),
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    (folder / "chain.jsonl").write_text(CHAIN)
    fit_run(folder / "chain.jsonl", folder / "m")
    return folder / "m"


@pytest.mark.parametrize("name", outputs("m"))
def test_a_full_disk_leaves_an_earlier_file_as_it_was_and_nothing_else(
    here, call, model, name, monkeypatch
):
    words, file = outputs(model)[name]

    def full(path):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(storage, "_push", full)
        for earlier in (None, "earlier"):
            if earlier is not None:
                Path(file).write_text(earlier)
            before = everything(here)
            code, _, err = call(*words)
            assert code == 1
            assert f"StorageError: {file}: writing failed (No space left on device)" in err
            assert everything(here) == before
    assert call(*words)[0] == 0
    assert Path(file).stat().st_size > 10


@pytest.mark.parametrize("name", outputs("m"))
def test_a_place_no_file_can_be_written_to_is_said_before_the_work(
    here, call, model, name, monkeypatch
):
    words, file = outputs(model)[name]
    Path("folder" + Path(file).suffix).mkdir()
    Path("link" + Path(file).suffix).symlink_to("mine/diary.txt")
    os.mkfifo("pipe" + Path(file).suffix)
    before = everything(here)

    def too_late(*_, **__):
        raise AssertionError

    for module in ("folders.model.open_model", "numerics.named_rng"):
        monkeypatch.setattr(f"attomaton.{module}", too_late)
    for place, said in (
        (f"nowhere/{file}", "there is no folder nowhere"),
        (f"folder{Path(file).suffix}", "is no regular file"),
        (f"pipe{Path(file).suffix}", "is no regular file"),
        (f"link{Path(file).suffix}", "is a link"),
        ("a.pdf", "is written as|suffix says no format|sessions go into|"),
    ):
        if place == "a.pdf" and name in ("synth", "sessions"):
            continue
        code, _, err = call(*(place if word == file else word for word in words))
        assert code == 2
        assert re.search(said, err)
    if name not in ("synth", "sessions"):
        code, _, err = call(*(f"{model}/{file}" if word == file else word for word in words))
        assert code == 2
        assert "lies inside the input" in err
    assert everything(here) == before
    monkeypatch.undo()


# Sweeps


def test_a_sweep_leaves_files_of_others_alone(here, call):
    assert call(*SWEEP, "-o", "s")[0] == 0
    listed = Path("s/manifest.json").read_bytes()
    Path("s/.cache.1").mkdir()
    Path("s/.cache.1/x").write_text("mine")
    Path("s/.notes.2026").write_text("mine")
    for words in ((), ("--force",)):
        assert call(*SWEEP, "-o", "s", *words)[0] == 0
    code, _, err = call(*SWEEP, "mixing=weak", "-o", "s", "--force")
    assert code == 2
    assert "did not write (.cache.1, .notes.2026)" in err
    assert Path("s/.notes.2026").read_text() == Path("s/.cache.1/x").read_text() == "mine"
    assert Path("s/manifest.json").read_bytes() == listed
    Path("s/pieces").rename("aside")
    Path("s/pieces").symlink_to(here / "mine")
    code, _, err = call(*SWEEP, "-o", "s")
    assert code == 2
    assert "did not write (pieces)" in err
    assert [p.name for p in Path("mine").iterdir()] == ["diary.txt"]


def test_of_two_sweeps_that_make_their_folder_at_once_one_makes_it(here, monkeypatch):
    grid = {"eta_z": [0.5, 1.0], "ratio": [1], "until": [5.0]}
    make, first = storage._unfinished_folder, []

    def late(path):
        if not first:
            first.append(path)
            first.append(sweep_run("s", grid, ["syn-small"], "reduced"))
        return make(path)

    monkeypatch.setattr(storage, "_unfinished_folder", late)
    second = sweep_run("s", grid, ["syn-small"], "reduced")
    assert (first[1].skipped_pieces, second.skipped_pieces) == (0, 1)
    done = [line.piece for line in read_ledger(Path("s")) if line.event == "done"]
    assert len(done) == len(set(done)) == 1
    assert {p.name for p in here.iterdir()} == {"chain.jsonl", "mine", "s"}


def test_a_sweep_of_another_grid_or_format_is_not_continued(here, call):
    assert call(*SWEEP, "-o", "s")[0] == 0
    before = everything(here)
    code, _, err = call(*SWEEP, "mixing=weak", "-o", "s")
    assert code == 2
    assert "holds another sweep" in err
    assert everything(here) == before
    Path("s/attomaton.json").write_text('{"schema_version": 99, "kind": "sweep"}')
    code, _, err = call(*SWEEP, "-o", "s")
    assert code == 3
    assert "format version 99 is newer" in err
    code, out, _ = call(*SWEEP, "mixing=weak", "-o", "s", "--force", "--json")
    assert (code, json.loads(out)["replaced"]["kind"]) == (0, "sweep")


def test_a_lock_that_was_moved_away_while_one_waited_for_it_is_taken_anew(here, monkeypatch):
    opened, moved = locks._open_lock, []

    def late(work, make):
        handle = opened(work, make)
        if not moved:
            moved.append(work.rename("elsewhere"))
        return handle

    monkeypatch.setattr(locks, "_open_lock", late)
    with work_folder("out", "train", {}) as work:
        assert locks.is_locked(work / ".lock")
        assert not locks.is_locked(Path("elsewhere/.lock"))


def test_without_locks_work_goes_on(here, monkeypatch):
    import fcntl

    def none(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    for _ in range(2):
        fit_run("chain.jsonl", "m")
        filled("r")
    check_folder("m", "model")
    check_folder("r", "run")


# Clocks and removals


def test_a_name_by_time_that_is_taken_is_counted_up(here, monkeypatch):
    from datetime import datetime

    class Stopped(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 1, tzinfo=tz)

    monkeypatch.setattr(provenance, "datetime", Stopped)
    places = []
    for work in (False, True, False):
        places.append(provenance.run_folder("a", {}))
        (places[-1].with_name(f".{places[-1].name}.partial") if work else places[-1]).mkdir(
            parents=True
        )
    assert [p.name.removeprefix(places[0].name) for p in places] == ["", "-2", "-3"]


def test_a_clock_that_was_put_back_makes_no_negative_seconds(here, call):
    assert call("fit", "chain.jsonl", "-o", "m")[0] == 0
    log = Path("m/log.jsonl").read_text().splitlines()
    ended = json.loads(log[-1]) | {"time": "2001-01-01T00:00:00.000Z"}
    Path("m/log.jsonl").write_text("\n".join([*log[:-1], json.dumps(ended)]) + "\n")
    code, out, _ = call("runs", "show", "m", "--json")
    assert code == 0
    assert json.loads(out)["seconds"] is None


def test_rm_refuses_the_root_the_home_and_where_one_is(here, call, monkeypatch):
    filled("r")
    monkeypatch.chdir("r")
    before = everything(here)
    for name in ("/", ".", "..", here, Path.home(), "../r"):
        code, _, err = call("runs", "rm", name, "--yes")
        assert code == 2, name
        assert "InternalError" not in err
        assert "you are in" in err or "home" in err
    assert call("runs", "show", "/")[0] == 3
    assert everything(here) == before


def test_rm_deletes_nothing_that_was_put_there_after_it_asked(here, monkeypatch):
    filled("r")
    (found,) = removable([Path("r")])
    Path("r/notes.txt").write_text("mine")
    with pytest.raises(StorageError, match="only in part"):
        remove(found)
    assert [p.read_text() for p in here.glob(".r*/notes.txt")] == ["mine"]
