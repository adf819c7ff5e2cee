"""What is printed: safe for a terminal, whatever a file holds."""

import pytest

from attomaton import console
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
