"""Data sets by name: where they are looked for, what comes from the hub, what a missing one is told."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from attomaton.base.caches import cache_folder
from attomaton.corpus import datasets as room
from attomaton.corpus.datasets import data_file, dataset_files
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.errors import DataError, UsageError

TEXT = " \n = Boats = \n \n a boat is a boat \n"  # as the original files look: blank lines hold a space


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """No folder, no cache and no package of this machine."""
    for name in ("ATTOMATON_DATA", "ATTOMATON_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ATTOMATON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.chdir(tmp_path)


def folder(path, names=("train.txt", "valid.txt", "test.txt")):
    path.mkdir(parents=True)
    for name in names:
        (path / name).write_text(f"{name} {TEXT}", encoding="utf-8")
    return path


class Split:
    """One split of the hub: rows keep their line ends, blank lines have become empty rows."""

    def __init__(self, text):
        lines = text.split("\n")[:-1]
        self.rows = [line + "\n" if line.strip() else "" for line in lines]

    def iter(self, batch_size):
        for i in range(0, len(self.rows), batch_size):
            yield {"text": self.rows[i : i + batch_size]}


@pytest.fixture
def hub(monkeypatch):
    """A stand-in for `datasets` that notes what is asked of it."""
    asked = []

    def load_dataset(path, name):
        asked.append((path, name))
        return {s: Split(f"{s}{TEXT}") for s in ("train", "validation", "test")}

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return asked


def test_a_folder_of_yours_goes_first(monkeypatch, tmp_path):
    mine = folder(tmp_path / "mine" / "wikitext-2")
    folder(tmp_path / "cache" / "datasets" / "wikitext-2")
    monkeypatch.setenv("ATTOMATON_DATA", str(tmp_path / "mine"))
    assert dataset_files("wikitext-2") == {s: mine / f"{s}.txt" for s in ("train", "valid", "test")}


def test_then_the_cache_under_the_original_names_too(tmp_path):
    names = ["wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"]
    cached = folder(tmp_path / "cache" / "datasets" / "wikitext-103", names)
    assert list(dataset_files("wikitext-103").values()) == [cached / name for name in names]


def test_the_cache_is_where_xdg_says(monkeypatch, tmp_path):
    monkeypatch.delenv("ATTOMATON_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "attomaton"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "attomaton"


def test_the_hub_is_asked_once_and_gives_the_original_text(hub, tmp_path):
    files = dataset_files("wikitext-2")
    assert hub == [("Salesforce/wikitext", "wikitext-2-v1")]
    assert files["valid"] == tmp_path / "cache" / "datasets" / "wikitext-2" / "valid.txt"
    texts = {split: path.read_bytes().decode() for split, path in files.items()}
    assert texts == {"train": f"train{TEXT}", "valid": f"validation{TEXT}", "test": f"test{TEXT}"}
    assert dataset_files("wikitext-2") == files
    assert len(hub) == 1
    assert [p.name for p in files["train"].parent.parent.iterdir()] == ["wikitext-2"]


@pytest.mark.parametrize("split", ["valid", "test"])
def test_a_real_text_survives_the_hub(hub, wikitext, split):
    text = (wikitext / f"{split}.txt").read_text(encoding="utf-8")
    assert "".join(room._lines(Split(text).rows)) == text


def test_a_download_that_breaks_leaves_nothing(hub, monkeypatch, tmp_path):
    def broken(self, batch_size):
        yield {"text": ["a\n"]}
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Split, "iter", broken)
    with pytest.raises(DataError, match="cannot be written: No space left on device"):
        dataset_files("wikitext-2")
    assert list((tmp_path / "cache" / "datasets").iterdir()) == []


def test_another_process_may_be_faster(hub, monkeypatch, tmp_path):
    cached = tmp_path / "cache" / "datasets" / "wikitext-2"
    honest = Path.rename

    def late(self, target):
        folder(cached)
        return honest(self, target)

    monkeypatch.setattr(Path, "rename", late)
    assert dataset_files("wikitext-2")["train"] == cached / "train.txt"
    assert (cached / "train.txt").read_text().startswith("train.txt ")
    assert [p.name for p in cached.parent.iterdir()] == ["wikitext-2"]


@pytest.mark.parametrize("switch", ["ATTOMATON_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_means_offline(hub, monkeypatch, tmp_path, switch):
    monkeypatch.setenv(switch, "1")
    with pytest.raises(DataError) as caught:
        dataset_files("wikitext-2")
    assert str(caught.value) == (
        "data set wikitext-2 was not found:\n"
        "  $ATTOMATON_DATA is not set\n"
        f"  {tmp_path}/cache/datasets/wikitext-2\n"
        f"  not asked: the Hugging Face hub ({switch} is set)\n"
        "Put train.txt, valid.txt and test.txt into a folder wikitext-2 and name the folder above it in "
        "ATTOMATON_DATA, or let it be fetched: pip install 'attomaton[hf]', with network access."
    )
    assert hub == []
    monkeypatch.setenv(switch, "0")
    dataset_files("wikitext-2")
    assert len(hub) == 1


def test_without_the_package_the_message_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTOMATON_DATA", "elsewhere")
    with pytest.raises(DataError) as caught:
        dataset_files("wikitext-2")
    looked = str(caught.value).splitlines()[1:-1]
    assert looked == [
        "  elsewhere/wikitext-2",
        f"  {tmp_path}/cache/datasets/wikitext-2",
        "  not asked: the Hugging Face hub (package `datasets` is not installed)",
    ]


def test_a_hub_that_cannot_be_reached_is_quoted(monkeypatch):
    def load_dataset(path, name):
        raise ConnectionError("no route to host")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(DataError, match="hub: ConnectionError: no route to host"):
        dataset_files("wikitext-2")


def test_half_a_folder_is_not_passed_over(monkeypatch, tmp_path):
    mine = folder(tmp_path / "wikitext-2", ["train.txt"])
    monkeypatch.setenv("ATTOMATON_DATA", str(tmp_path))
    with pytest.raises(DataError) as caught:
        dataset_files("wikitext-2")
    assert str(caught.value) == (
        f"{mine}: valid.txt, test.txt missing; complete the folder or remove it."
    )


def test_a_file_of_that_name_goes_before_the_data_set(monkeypatch, tmp_path):
    mine = folder(tmp_path / "data" / "wikitext-2")
    monkeypatch.setenv("ATTOMATON_DATA", str(tmp_path / "data"))
    assert data_file("wikitext-2") == mine / "train.txt"
    assert data_file("wikitext-2:valid") == mine / "valid.txt"
    assert data_file(Path("wikitext-2:test")) == mine / "test.txt"
    assert data_file("a:b.txt") == Path("a:b.txt")
    Path("wikitext-2").write_text("my own")
    assert data_file("wikitext-2") == Path("wikitext-2")


def test_names_that_are_none(call, tmp_path):
    with pytest.raises(
        UsageError, match=r"train, valid, test, not 'vaild'; did you mean 'valid'\?"
    ):
        data_file("wikitext-2:vaild")
    with pytest.raises(UsageError, match=r"not one of wikitext-2, wikitext-103; did you mean"):
        dataset_files("wikitext2")
    code, _, err = call("data", "inspect", "wikitxt-2", "--context", 2)
    assert (code, err) == (3, "DataError: wikitxt-2: no such file; did you mean 'wikitext-2'?\n")


def test_commands_take_the_name(call, monkeypatch, tmp_path):
    folder(tmp_path / "wikitext-2")
    monkeypatch.setenv("ATTOMATON_DATA", str(tmp_path))
    monkeypatch.chdir("/")
    windows = read_windows("wikitext-2:valid", Reading(context=2))
    assert windows.vocabulary[0] == "valid.txt"
    code, out, err = call("data", "inspect", "wikitext-2", "--context", 4)
    assert (code, err) == (0, "")
    assert out.startswith("5 samples")  # counted by hand: = <eos> <eos> a boat
