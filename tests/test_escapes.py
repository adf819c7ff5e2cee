"""Tokens, logs and titles that would steer a terminal, a browser or a spreadsheet: shown, not obeyed."""

import json
import re
import shlex
from pathlib import Path

import pytest

from attomaton.disk.ledger import asked_as
from attomaton.disk.storage import work_folder
from attomaton.report.text.spreadsheets import csv_text

EVIL = ["\x1b[2J", "a\nb", "\u202etxt", "<img src=x onerror=alert(1)>", "x" * 100_000, "ca\u200bt"]
PLAIN = ["clear", "line", "turned", "picture", "long", "hidden"]


def corpus(path, words):
    """The same samples in other words: a chain of priorities and a tie."""
    a, b, c, d, e, f = words
    rows = [([a, b, c, d, e, f], a), ([b, c, f], b), ([c, d, e], d), ([c, d, e], e), ([d, f, c], c)]
    rows += [([a, f, e], f), ([b, e], "gone\x1b[1m")]
    lines = (json.dumps({"tokens": tokens, "next": label}) for tokens, label in rows)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """One model in hostile words, one in plain ones."""
    from attomaton.jobs.fit import fit_run

    folder = tmp_path_factory.mktemp("escapes")
    for name, words in (("evil", EVIL), ("plain", PLAIN)):
        corpus(folder / f"{name}.jsonl", words)
        fit_run(folder / f"{name}.jsonl", folder / name)
    return folder


def commands(folder, name, words):
    a, _, c, _, e, f = words
    return {
        "predict": ["predict", folder / name, a, c, e],
        "sample": ["predict", folder / name, a, c, f, "--sample", "3"],
        "explain": ["explain", folder / name, *words],
        "graph": ["graph", folder / name, "--last", e],
        "summary": ["summary", folder / name],
        "last": ["summary", folder / name, "--last", e],
        "inspect": ["data", "inspect", folder / f"{name}.jsonl"],
        "show": ["runs", "show", folder / name],
        "unknown": ["predict", folder / name, a + "?", e],
        "never last": ["graph", folder / name, "--last", a],
        "no such": ["explain", folder / words[1]],
    }


@pytest.mark.parametrize("name", list(commands(Path(), "", PLAIN)))
def test_hostile_tokens_are_shown_and_cut_as_plain_ones_are(pair, call, name):
    code, out, err = call(*commands(pair, "evil", EVIL)[name])
    plain = call(*commands(pair, "plain", PLAIN)[name])
    assert code == plain[0]
    for shown, usual in ((out, plain[1]), (err, plain[2])):
        assert len(shown.splitlines()) == len(usual.splitlines()), shown
        assert shown.replace("\n", "").isprintable()
        assert max(map(len, shown.splitlines()), default=0) < 3000


def test_json_keeps_tokens_whole(pair, call):
    code, out, _ = call("predict", pair / "evil", *EVIL, "--json")
    assert code == 0
    assert json.loads(out)["context"] == EVIL


def test_graphs_that_are_exported_keep_tokens_whole(pair, call):
    code, out, _ = call("graph", pair / "evil", "--last", EVIL[4], "--format", "json")
    assert code == 0
    assert {node["token"] for node in json.loads(out)["nodes"]} <= set(EVIL)


def test_pages_escape_tokens(pair, call, tmp_path):
    for more in ([], ["--last", EVIL[4]]):
        code, _, _ = call("summary", pair / "evil", *more, "--html", tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert code == 0
        assert "<img src=x" not in page
        assert "\x1b" not in page
        assert "\u202e" not in page


# What a log says


@pytest.mark.parametrize(
    "typed",
    [
        "rm -rf ~",
        "attomaton runs rm --yes /home",
        "attomaton fit d.txt -o m; rm -rf ~",
        "attomaton reproduce scan-snap-fig7 -o elsewhere",
        "attomaton reproduce scan-snap-fig7 --no-such-option -o w",
        "attomaton reproduce scan-snap-fig7 -o w --\x1b[2J",
        "attomaton verify -o w",
        "attomaton reproduce 'scan-snap-fig7",
    ],
)
def test_only_commands_that_would_go_on_are_offered(typed, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _interrupted(["attomaton", "placeholder"])
    log = tmp_path / ".w.partial" / "log.jsonl"
    log.write_text(log.read_text().replace('"attomaton placeholder"', json.dumps(typed)))
    for words in (["runs", "ls", "."], ["runs", "show", "w"]):
        _, out, _ = call(*words)
        assert "go on" not in out.replace("would go on", "")
        assert "\x1b" not in out
        _, out, _ = call(*words, "--json")
        told = json.loads(out)
        assert (told["folders"][0] if "folders" in told else told)["go_on"] is None


def test_the_command_as_it_was_typed_is_offered(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    typed = ["attomaton", "reproduce", "scan-snap-fig7", "--quick", "-o", "w"]
    _interrupted(typed)
    assert f"go on     {shlex.join(typed)}\n" in call("runs", "show", "w")[1]


def _interrupted(typed):
    config = {"preset": "scan-snap-fig7", "seeds": None, "quick": True}
    with pytest.raises(KeyboardInterrupt), asked_as(typed), work_folder("w", "reproduce", config):
        raise KeyboardInterrupt


# Spreadsheets


@pytest.mark.parametrize("cell", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_word_is_no_formula(cell):
    text = csv_text([cell], [[cell]])
    assert f"'{cell}" in text
    assert text.lstrip('"').startswith("'")


def test_numbers_stay_numbers():
    assert (
        csv_text(["x"], [[-0.1], ["-0.5"], [3], [None], ["tea"]]) == 'x\n-0.1\n-0.5\n3\n""\ntea\n'
    )


@pytest.mark.parametrize(
    "words",
    [("doctor", "\u202e\x1b[2J"), ("doctor", "--\u202e"), ("\u202e\x9b",), ("runs", "\u2066")],
)
def test_words_that_make_no_sense_are_shown_and_not_obeyed(call, words):
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert "\\u20" in err
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", err)


@pytest.mark.parametrize("words", [("runs", "check"), ("runs", "show"), ("data", "inspect")])
def test_a_name_longer_than_any_file_has_is_cut(call, words):
    code, _, err = call(*words, "x" * 100_000)
    assert code in (1, 2, 3)
    assert len(err) < 2000


@pytest.mark.parametrize(
    "words", [("fit",), ("train", "--steps", "4"), ("verify", "--only", "luce", "--data")]
)
def test_a_folder_whose_name_is_no_text_can_be_written(call, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    corpus(tmp_path / "d.jsonl", PLAIN)
    code, _, err = call(*words, "d.jsonl", "-o", "out\udcff")
    assert code in (0, 4), err
    assert Path("out\udcff").is_dir()


def test_tokens_typed_in_a_narrow_encoding_are_read(call, tmp_path):
    from attomaton.jobs.fit import fit_run

    corpus(tmp_path / "d.jsonl", [*PLAIN[:5], "→"])
    fit_run(tmp_path / "d.jsonl", tmp_path / "m")
    disguised = "→".encode().decode("ascii", "surrogateescape")
    for line in (
        ["predict", tmp_path / "m", disguised],
        ["graph", tmp_path / "m", "--last", disguised],
    ):
        told = [call(*line), call(*line[:-1], "→")]
        assert told[0][0] == 0
        assert told[0] == told[1]
