"""Tokens as they are spelled on a command line."""

import logging

import pytest

from attomaton.corpus.vocabulary import Vocabulary

BOTH = Vocabulary([3, "3", -2, "[x]", "a b"])


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("3", "3"), ('["3"]', "3"), ("[3]", 3), ("-2", -2), ("[-2]", -2), ("[x]", "[x]"), ('["[x]"]', "[x]"),
        ('["a b"]', "a b"), ("[4]", "[4]"), ("[3, 3]", "[3, 3]"), ("[[3]]", "[[3]]"), ("[true]", "[true]"), ("[", "["),
        ("1_0", "1_0"), ("٣", "٣"),
    ],
)  # fmt: skip
def test_json_in_brackets_tells_a_word_from_a_number(text, label):
    found = BOTH.read(text)
    assert (found, type(found)) == (label, type(label))


def test_a_spelling_with_two_meanings_is_said(caplog):
    with caplog.at_level(logging.WARNING, "attomaton"):
        BOTH.read("-2")
        BOTH.read("[3]")
        assert caplog.messages == []
        BOTH.read("3")
    assert caplog.messages == [
        "3 is two tokens here, a word and a number; read as the word. Write [3] for the number."
    ]


def test_both_tokens_can_be_asked_for(call, tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"tokens": [3, "3", "x"], "next": "3"}\n{"tokens": [3, "y"], "next": 3}\n'
        '{"tokens": ["3", 3], "next": 3}\n{"tokens": [3, "3"], "next": "3"}\n'
    )
    call("fit", tmp_path / "a.jsonl", "-o", tmp_path / "m")
    graphs = []
    for last in ("[3]", '["3"]', "3"):
        code, out, err = call("graph", tmp_path / "m", "--last", last)
        assert (code, "is two tokens here" in err) == (0, last == "3"), err
        graphs.append(out)
    assert graphs[0] != graphs[1] == graphs[2]
