"""Manifests: what changed in a finished folder is noticed, by readers as far as they look, by `runs check` wholly."""

import json
import shutil
from contextlib import suppress

import numpy as np
import pytest

from attomaton.corpus.example import example_samples
from attomaton.disk.formats import write_arrays, write_columns, write_json
from attomaton.disk.manifest import MANIFEST, changes, check_manifest
from attomaton.disk.provenance import provenance
from attomaton.disk.storage import (
    KIND_FILE,
    check_folder,
    new_folder,
    resumed_folder,
    seal,
    work_folder,
)
from attomaton.errors import DataError
from attomaton.folders.model import open_model, save_model
from attomaton.folders.sweep import read_sweep
from attomaton.jobs.sweep import sweep_run
from attomaton.mechanics.theory.limit import solve_limit

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # SHA-256 of "abc", as its standard says


@pytest.fixture
def folder(tmp_path):
    """A run with a file of every kind, one of them in a folder of its own."""
    with new_folder(tmp_path / "r", "train") as work:
        provenance(work, {"data": "a.txt"}, {"loss": 0.5})
        (work / "command.txt").write_text("abc")
        write_arrays(work / "state.safetensors", {"W": np.eye(3)})
        (work / "figures").mkdir()
        (work / "figures" / "a.svg").write_text("<svg/>")
        write_columns(work / "metrics.parquet", {"seed": np.arange(50)})
    return tmp_path / "r"


@pytest.fixture
def model(tmp_path):
    """The model of the embedded example."""
    save_model(solve_limit(example_samples()), tmp_path / "m", {"data": "example"})
    return tmp_path / "m"


def flip(path, at=-1):
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_manifest_lists_every_file_with_its_size_and_hash(folder):
    listed = {e["name"]: e for e in json.loads((folder / MANIFEST).read_text())["files"]}
    inside = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert set(listed) == inside - {MANIFEST, KIND_FILE}
    assert listed["command.txt"] == {"name": "command.txt", "bytes": 3, "sha256": ABC}
    assert changes(check_folder(folder, "run")) == []


def test_equal_models_have_equal_manifests_and_others_have_not(model, tmp_path):
    save_model(solve_limit(example_samples()), tmp_path / "again", {"data": "example"})
    save_model(solve_limit(example_samples()), tmp_path / "other", {"data": "elsewhere"})
    one, again, other = ((tmp_path / n / MANIFEST).read_bytes() for n in ("m", "again", "other"))
    assert one == again != other


@pytest.mark.parametrize(
    "name", ["command.txt", "summary.json", "state.safetensors", "figures/a.svg"]
)
@pytest.mark.parametrize("how", ["flipped", "longer", "missing", "a folder"])
def test_a_file_that_is_not_as_it_was_written_is_refused_by_name(folder, name, how):
    file = folder / name
    if how == "flipped":
        flip(file)
    elif how == "longer":
        file.write_bytes(file.read_bytes() + b" ")
    else:
        file.unlink()
        if how == "a folder":
            file.mkdir()
    said = "is missing" if how == "missing" else "was changed"
    with pytest.raises(DataError, match=f"{file.name}: {said} since"):
        check_folder(folder, "run")
    now = " (now a folder)" if how == "a folder" else ""
    assert changes(folder) == [f"{name} {said}{now}"]


def test_columns_are_checked_by_their_size_at_once_and_to_the_last_bit_when_asked(folder):
    flip(folder / "metrics.parquet", 40)
    check_manifest(folder)  # a reader of those columns checks their pages
    assert changes(folder) == ["metrics.parquet was changed"]
    (folder / "metrics.parquet").write_bytes(b"")
    with pytest.raises(DataError, match=r"metrics\.parquet: was changed"):
        check_manifest(folder, contents=False)


def test_a_number_that_makes_sense_is_noticed(model):
    record = json.loads((model / "model.json").read_text())
    assert open_model(model).svm.norm == record["summary"]["svm_norm"]
    record["summary"]["svm_norm"] += 1.0
    write_json(model / "model.json", record)
    with pytest.raises(DataError, match=r"model\.json: was changed"):
        open_model(model)
    seal(model)  # the control: nothing but the manifest can tell
    assert open_model(model).svm.norm == record["summary"]["svm_norm"]


def test_words_that_change_places_are_noticed(model):
    words = json.loads((model / "vocabulary.json").read_text())
    write_json(model / "vocabulary.json", words[::-1])
    with pytest.raises(DataError, match=r"vocabulary\.json: was changed"):
        open_model(model)


def test_columns_of_another_model_are_noticed(model, tmp_path):
    samples = example_samples()
    fewer = samples.take(np.arange(len(samples) - 1))
    save_model(solve_limit(fewer), tmp_path / "fewer", {})
    shutil.copy(tmp_path / "fewer" / "pairs" / "000.parquet", model / "pairs")
    assert changes(model) == ["pairs/000.parquet was changed"]


def test_what_somebody_put_beside_our_files_does_not_matter(folder):
    (folder / "notes.txt").write_text("mine")
    assert changes(check_folder(folder, "run")) == []


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../b", "a\0b"])
def test_a_manifest_that_names_files_elsewhere_is_refused(folder, name):
    write_json(folder / MANIFEST, {"files": [{"name": name, "bytes": 1, "sha256": ABC}]})
    for read in (check_manifest, changes):
        with pytest.raises(DataError, match="outside its folder"):
            read(folder)


def test_a_name_that_no_file_can_have_is_missing(folder):
    name = f"{'a' * 5000}/b"
    write_json(folder / MANIFEST, {"files": [{"name": name, "bytes": 1, "sha256": ABC}]})
    with pytest.raises(DataError, match="is missing"):
        check_manifest(folder)


@pytest.mark.parametrize("content", ["{}", "[]", '{"files": [{"name": "a"}]}', "{", None])
def test_a_manifest_that_is_broken_or_missing_is_refused(folder, content):
    (folder / MANIFEST).unlink()
    if content is not None:
        (folder / MANIFEST).write_text(content)
    with pytest.raises(DataError, match=MANIFEST):
        check_folder(folder, "run")


# Sweeps are filled in their place

GRID = {"eta_z": [0.5, 1.0], "ratio": [1, 2], "until": [10.0]}


def names(folder):
    """What a manifest lists."""
    return {e["name"] for e in json.loads((folder / MANIFEST).read_text())["files"]}


def test_a_sweep_lists_its_pieces_when_it_has_ended(tmp_path, monkeypatch):
    from attomaton.jobs import sweep as sweeps

    def stopped(*_):
        raise KeyboardInterrupt

    collect = sweeps._collect
    monkeypatch.setattr(sweeps, "_collect", stopped)
    with pytest.raises(KeyboardInterrupt):
        sweep_run(tmp_path / "s", GRID, ["syn-small"], "reduced")
    monkeypatch.setattr(sweeps, "_collect", collect)
    assert names(tmp_path / "s") == {"sweep.json"}
    assert len(read_sweep(tmp_path / "s").rows) == 4
    sweep_run(tmp_path / "s", GRID, ["syn-small"], "reduced")
    assert {"sweep.json", "results.parquet"} < names(tmp_path / "s")
    flip(tmp_path / "s" / "sweep.json", 3)
    with pytest.raises(DataError, match=r"sweep\.json: was changed"):
        read_sweep(tmp_path / "s")


def test_a_piece_that_was_deleted_comes_back_with_the_same_sweep(tmp_path):
    sweep_run(tmp_path / "s", GRID, ["syn-small"], "reduced")
    listed = (tmp_path / "s" / MANIFEST).read_bytes()
    next((tmp_path / "s" / "pieces").glob("*.parquet")).unlink()
    with pytest.raises(DataError, match="is missing"):
        read_sweep(tmp_path / "s")
    sweep_run(tmp_path / "s", GRID, ["syn-small"], "reduced")
    assert (tmp_path / "s" / MANIFEST).read_bytes() == listed
    assert len(read_sweep(tmp_path / "s").rows) == 4


# The command


def test_check_tells_every_folder_below(folder, model, tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with suppress(KeyboardInterrupt), work_folder("w", "reproduce", {"preset": "scan-snap-fig7"}):
        raise KeyboardInterrupt
    code, out, _ = call("runs", "check", ".")
    assert code == 0
    assert out.splitlines()[-1].startswith("3 folders: ")
    shutil.copytree(folder, tmp_path / "bare")
    (tmp_path / "bare" / MANIFEST).unlink()
    flip(model / "pairs" / "000.parquet", 20)
    code, out, _ = call("runs", "check", ".", "--json")
    assert code == 3
    told = {f["path"]: (f["verdict"], f["reasons"]) for f in json.loads(out)["folders"]}
    assert told["r"] == ("sound", [])
    assert told["m"] == ("changed", ["pairs/000.parquet was changed"])
    assert told[".w.partial"] == ("not finished", [])
    assert told["bare"][0] == "unreadable"
    assert MANIFEST in told["bare"][1][0]
    text = call("runs", "check", ".")[1]
    assert "\n  pairs/000.parquet was changed\n" in text
    assert text.splitlines()[-1].startswith("4 folders: ")
    assert call("runs", "check", "r")[0] == 0
    assert call("runs", "check", "nowhere")[0] == 3


def test_check_where_there_is_nothing_says_so(tmp_path, call):
    assert call("runs", "check", tmp_path)[1] == f"{tmp_path}: no folder of attomaton here.\n"


def test_what_a_kill_leaves_of_a_replaced_folder_does_not_pass_for_one(tmp_path, monkeypatch):
    def fill(step):
        with resumed_folder(tmp_path / "r", "train", {"step": step}) as work:
            write_json(work / "step.json", step)

    def killed_when_it_is_there(*_):
        patch.setattr("attomaton.disk.holdings._empty", killed)

    def killed(*_):
        raise KeyboardInterrupt

    fill(1)
    with monkeypatch.context() as patch:
        patch.setattr("attomaton.disk.storage._push", killed_when_it_is_there)
        with pytest.raises(KeyboardInterrupt):
            fill(2)
    assert (tmp_path / "r" / "step.json").read_text() == "2\n"
    assert changes(check_folder(tmp_path / "r", "run")) == []
    left = {p.name for p in (tmp_path / ".r.partial").iterdir()}
    assert "step.json" in left
    assert KIND_FILE not in left
    fill(3)
    assert [p.name for p in tmp_path.iterdir()] == ["r"]
