"""Full and read-only disks, the short version of `faults disks`; where nothing can be mounted, places that refuse."""

import subprocess
import sys
from pathlib import Path

import pytest

from faults.cases import ROOT
from faults.commands import WRITES, tree
from faults.disks import CASES, _message_faults, can_mount
from faults.scratch import Ended


@pytest.mark.skipif(not can_mount(), reason="this system lets nobody mount a disk of their own")
def test_a_disk_that_fills_up_loses_nothing_and_a_read_only_one_is_refused():
    words = ["disks", "--only", "fit", "data synth jsonl", "--filled", "0.5"]
    done = subprocess.run(
        [sys.executable, "-m", "faults", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    # full, finished, faults
    assert [row[-5:-2] for row in rows] == [["1", "1", "0"]] * 2


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "../data.jsonl"],
        ["train", "../data.jsonl"],
        ["sweep", "syn-small", "eta_z=1", "ratio=1"],
        ["verify", "--only", "luce"],
        ["dynamics", "syn-small"],
        ["reproduce", "scan-snap-fig8"],
        ["data", "synth"],
    ],
    ids=lambda words: words[0],
)
def test_a_place_that_cannot_be_written_is_refused_in_a_sentence(
    call, tmp_path, monkeypatch, words
):
    (tmp_path / "data.jsonl").write_text('{"tokens": ["a", "b"], "next": "a"}\n')
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("file").write_text("mine")
    code, _, err = call(*words, "-o", "file/out")
    assert code in (1, 2)
    assert "file/out: " in err
    assert "InternalError" not in err
    assert Path("file").read_text() == "mine"
    assert sorted(p.name for p in Path().iterdir()) == ["file"]


def test_a_message_without_the_place_or_the_reason_is_a_fault():
    fine = b"StorageError: out: writing failed (No space left on device)."
    assert _message_faults(Ended(1, b"", fine, 0.0, 0), "No space left") == []
    bad = b"InternalError: OSError: [Errno 28] No space left on device"
    assert len(_message_faults(Ended(1, b"", bad, 0.0, 0), "No space left")) == 2


def test_every_option_that_names_a_file_or_folder_to_write_has_a_disk_that_fills_up():
    tried = {(case.words[:1], case.option) for case in CASES}
    for words, command in tree().items():
        for p in command.params:
            if p.name in WRITES and words[0] != "lab":
                assert any((words[:1], option) in tried for option in p.opts), (words, p.name)
