"""What is printed: safe for a terminal, whatever a file holds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attomaton.cli import console
from attomaton.errors import visible

HIDING = {
    "escape": "\x1b[2Jgone",
    "C1": "\x9b31m",
    "delete": "a\x7fb",
    "carriage return": "a\rb",
    "newline": "a\nb",
    "tab": "a\tb",
    "null": "a\0b",
    "override": "\u202egnp.exe",
    "isolate": "\u2067abc\u2069",
    "zero width": "ca\u200bt",
    "joiner between letters": "ca\u200dt",
    "byte order mark": "\ufeffcat",
    "line separator": "a\u2028b",
    "paragraph separator": "a\u2029b",
    "half a character": "\ud800",
}


@pytest.mark.parametrize("text", HIDING.values(), ids=HIDING)
def test_nothing_that_steers_a_terminal_or_hides_is_printed(text):
    assert visible(text).isprintable()
    assert visible(text).encode("utf-8")
    assert visible(text) == text.encode("unicode_escape").decode()


@pytest.mark.parametrize(
    "text", ["tea", "naïve", "می\u200cخواهم", "👩\u200d🔬", "क्\u200dष", "日本語"]
)
def test_plain_words_of_all_languages_stay(text):
    assert visible(text) == text


@pytest.mark.parametrize("text", ["x" * 10_000_000, "\x1b" * 10_000_000, "ab\n" * 40])
def test_long_text_is_cut(text):
    assert len(visible(text)) <= 80
    assert visible(text).endswith("…")
    assert len(visible(text, most=10)) <= 10


def test_the_code_of_a_character_is_not_cut():
    assert visible("\x1b\x1b\x1b", most=10) == "\\x1b\\x1b…"


def test_all_doors_filter(capsys):
    console.emit({}, "one \x1b[31m\ntwo", False)
    console.say("three \x1b[31m")
    with pytest.raises(SystemExit) as left:
        console.fail("DataError", "four \x1b[31m\nfive", 3)
    assert left.value.code == 3
    said = capsys.readouterr()
    assert said.out == "one \\x1b[31m\ntwo\n"
    assert said.err == "three \\x1b[31m\nDataError: four \\x1b[31m\nfive\n"


# Outputs that cannot hold every character, or are gone


def program(*words, **options):
    line = [sys.executable, "-m", "attomaton", *map(str, words)]
    return subprocess.run(line, check=False, **{"capture_output": True, **options})


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    rows = [
        (["naïve", "→", "😀"], "naïve"),
        (["→", "😀"], "→"),
        (["\x1b[2J", "\u202ex"], "\u202ex"),
    ]
    lines = [json.dumps({"tokens": tokens, "next": label}) for tokens, label in rows]
    (folder / "d.jsonl").write_text("\n".join(lines))
    done = program("fit", folder / "d.jsonl", "-o", folder / "m")
    assert done.returncode == 0, done
    return folder / "m"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8", "ascii:strict"])
def test_every_output_encoding_will_do(model, encoding):
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    for words in (
        ["explain", model, "naïve", "😀"],
        ["--help"],
        ["summary", model],
        ["data", "--help"],
    ):
        done = program(*words, env=environment)
        assert done.returncode == 0, done
        assert done.stdout.decode(encoding.partition(":")[0])
        assert done.stderr == b""
    done = program("explain", model, "naïve", "😀", "--json", env=environment)
    assert json.loads(done.stdout.decode(encoding.partition(":")[0]))["context"] == ["naïve", "😀"]


def test_json_keeps_every_character_and_shows_none_that_steers(model):
    done = program("predict", model, "\x1b[2J", "\u202ex", "\x7f", "--json")
    assert json.loads(done.stdout)["context"] == ["\x1b[2J", "\u202ex", "\x7f"]
    assert done.stdout.decode().replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "words", [["--help"], ["runs", "ls"], ["runs", "ls", "--json"]], ids=" ".join
)
def test_a_reader_that_leaves_is_no_error(words):
    reader, writer = os.pipe()
    os.close(reader)
    done = program(*words, capture_output=False, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "words", [["--help"], ["runs", "ls"], ["runs", "ls", "--json"]], ids=" ".join
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_the_output_is_told(words):
    with Path("/dev/full").open("w") as full:
        done = program(*words, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.startswith(b"StorageError: ")


def test_outputs_that_are_closed_are_no_error():
    line = f"{sys.executable} -m attomaton runs ls"
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        assert subprocess.run(f"{line} {closed}", shell=True, check=False).returncode == 0


# Progress where there is no terminal


def test_progress_is_told_in_lines_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(console, "FIRST_LINE", 0.0)
    monkeypatch.setattr(console, "NEXT_LINE", 0.001)
    said = ""
    with console.progress_bar("fitting \x1b") as progress:
        while "fitting \\x1b: " not in said:
            said += capsys.readouterr().err
        progress(1200, 4000, "loss 0.25")
        while "1,200 of 4,000, loss 0.25, " not in said:
            said += capsys.readouterr().err
        progress(3, 4, "part \x1b")
        while "3 of 4, part \\x1b, " not in said:
            said += capsys.readouterr().err


def test_short_work_is_not_talked_about(capsys):
    with console.progress_bar("fitting") as progress:
        progress(1, 2, "")
    assert capsys.readouterr() == ("", "")


def test_a_callback_is_not_needed_for_lines(capsys, monkeypatch):
    """Work that calls back late, or never, is seen to be alive."""
    monkeypatch.setattr(console, "FIRST_LINE", 0.0)
    with console.progress_bar("verifying"):
        while not (said := capsys.readouterr().err):
            pass
    assert said.startswith("verifying: ")
