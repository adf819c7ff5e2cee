"""Logs as people have them: XES, SPMF, one event a line, process-mining columns, other delimiters, standard input."""

import gzip
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from attomaton.corpus import xes
from attomaton.corpus.contexts import context_rows
from attomaton.corpus.given import as_windows
from attomaton.corpus.readers import read_parts, read_windows
from attomaton.corpus.reading import ReadAs, Reading
from attomaton.disk.formats import plain
from attomaton.disk.records import as_record
from attomaton.disk.spool import is_spooled, standard_input
from attomaton.errors import DataError, UsageError

EVENTS = [
    ("b", "pay", "2024-01-31T09:30:02.000+02:00"), ("b", "ship", "2024-01-31T09:30:03.000+02:00"),
    ("a", "ship", "2024-01-31T09:30:01.500+02:00"), ("b", "pay", "2024-01-31T09:30:04.000+02:00"),
    ("a", "pay", "2024-01-31T07:30:01.000Z"), ("a", "ship", "2024-01-31T09:30:05.000+02:00"),
]  # fmt: skip
SEQUENCES = [["pay", "ship", "ship"], ["pay", "ship", "pay"]]  # by time, the earlier case first


def in_words(windows):
    """Each sequence in words."""
    ends = [*windows.starts[1:], len(windows.ids)]
    words = windows.vocabulary
    return [[words[i] for i in windows.ids[a:b]] for a, b in zip(windows.starts, ends, strict=True)]


def table(names=("case:concept:name", "concept:name", "time:timestamp"), delimiter=","):
    rows = [names, *EVENTS]
    return "".join(delimiter.join(row) + "\n" for row in rows)


def as_xes(events=EVENTS, head='<log xes.version="1.0" xmlns="http://www.xes-standard.org/">'):
    """The events as a log: traces in the order of their first row."""
    text = '<?xml version="1.0" encoding="UTF-8"?>\n<!-- a log -->\n' + head
    text += '<global scope="event"><string key="concept:name" value="none"/></global>'
    for case in dict.fromkeys(c for c, _, _ in events):
        text += f'<trace><string key="concept:name" value="{case}"/>'
        for c, item, time in events:
            if c == case:
                text += f'<event><string key="concept:name" value="{item}"><string key="m" value="n"/></string>'
                text += (
                    f'<date key="time:timestamp" value="{time}"/></event>' if time else "</event>"
                )
        text += "</trace>"
    return text + "</log>"


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path, **how):
    with pytest.raises((DataError, UsageError)) as caught:
        read_windows(path, Reading(**{"context": 2, **how}))
    return str(caught.value).removeprefix(f"{path}: ")


# Columns


@pytest.mark.parametrize(
    "names",
    [
        ("case:concept:name", "concept:name", "time:timestamp"),
        ("Case ID", "Activity", "Complete Timestamp"),
        ("case_id", "activity", "timestamp"),
        ("_CASE_KEY", "ACTIVITY_EN", "EVENTTIME"),
        ("CASE_KEY", "ACTIVITY", "EVENTTIME"),
    ],
)
def test_columns_of_process_mining_need_no_options(tmp_path, names, caplog):
    caplog.set_level("INFO", "attomaton")
    path = write(tmp_path / "log.csv", table(names))
    windows = read_windows(path, Reading(context=2))
    assert in_words(windows) == SEQUENCES
    assert [(g.option, g.value) for g in windows.guesses] == [
        *zip(("sequence", "item", "order"), names, strict=True)
    ]
    assert "taken as if you had said --sequence" in caplog.text
    said = Reading(2, sequence=names[0], item=names[1], order=names[2])
    told = read_windows(path, said)
    assert in_words(told) == SEQUENCES
    assert told.guesses == ()


def test_what_was_guessed_is_kept(tmp_path):
    windows = read_windows(write(tmp_path / "log.csv", table()), Reading(context=2))
    kept = plain(Reading(context=2).done(windows))
    assert as_record(ReadAs, json.loads(json.dumps(kept)), "here").guesses == windows.guesses
    assert "guesses" not in plain(Reading(context=2).done(replace_guesses(windows)))


def replace_guesses(windows):
    return SimpleNamespace(ordering=windows.ordering, guesses=())


def test_a_data_frame_is_read_by_the_same_names():
    columns = dict(
        zip(("Case ID", "Activity", "Complete Timestamp"), zip(*EVENTS, strict=True), strict=True)
    )
    assert in_words(as_windows({k: list(v) for k, v in columns.items()}, context=2)) == SEQUENCES


@pytest.mark.parametrize(
    "names",
    [
        ("Case ID", "what", "Timestamp"),  # no activity
        ("Case ID", "ACTIVITY", "activity"),  # which one?
        ("user", "page", "time"),  # usual names, but nobody's standard
    ],
)
def test_other_columns_are_not_guessed(tmp_path, names):
    said = refusal(write(tmp_path / "log.csv", table(names)))
    assert "Columns found" in said


def test_columns_named_by_the_user_go_first(tmp_path):
    path = write(tmp_path / "log.csv", "Case ID,Activity,what,order\na,x,1,1\na,y,2,2\na,x,1,3\n")
    windows = read_windows(path, Reading(context=2, item="what"))
    assert in_words(windows) == [[1, 2, 1]]
    assert [g.option for g in windows.guesses] == ["sequence"]


# Delimiters


@pytest.mark.parametrize(("delimiter", "typed"), [(";", "';'"), ("\t", "tab"), ("|", "'|'")])
def test_another_delimiter_is_suggested_and_taken(tmp_path, delimiter, typed):
    names = ("case:concept:name", "concept:name", "time:timestamp")
    path = write(tmp_path / "log.csv", table(names, delimiter))
    assert refusal(path).endswith(f"say --delimiter {typed}.")
    said = typed.strip("'")
    assert in_words(read_windows(path, Reading(context=2, delimiter=said))) == SEQUENCES
    as_text = path.rename(tmp_path / "log.txt")
    how = Reading(context=2, delimiter=said, format="csv")
    assert in_words(read_windows(as_text, how)) == SEQUENCES


def test_commas_inside_a_semicolon_file_do_not_hide_it(tmp_path):
    rows = "sequence;item;order\na;x, y;1\na;z;2,5\n"
    assert refusal(write(tmp_path / "log.csv", rows)).endswith("say --delimiter ';'.")
    assert "delimiter" not in refusal(write(tmp_path / "b.csv", "user,page\na,x\na,y\n"))


@pytest.mark.parametrize("delimiter", ["", ";;", "a", '"', "\n", "é"])
def test_what_cannot_separate_is_refused(tmp_path, delimiter):
    path = write(tmp_path / "log.csv", table())
    assert "one character is needed" in refusal(path, delimiter=delimiter)


def test_a_delimiter_is_for_tables_in_lines(tmp_path):
    assert "is none" in refusal(write(tmp_path / "a.txt", "a b a"), delimiter=";")


# XES


@pytest.mark.parametrize(
    ("name", "pack"),
    [("log.xes", bytes), ("log.xes.gz", gzip.compress), ("log.xml", bytes), ("log", gzip.compress),
     ("log.zst", lambda x: pa.compress(x, "zstd", asbytes=True))],
)  # fmt: skip
def test_an_xes_log_is_read_as_its_table(tmp_path, name, pack):
    windows = read_windows(write(tmp_path / name, pack(as_xes().encode())), Reading(context=2))
    same = read_windows(write(tmp_path / "log.csv", table()), Reading(context=2))
    assert in_words(windows) == in_words(same) == SEQUENCES
    assert windows.ordering == same.ordering
    known = [g.value for g in windows.guesses if g.option == "format"]
    assert known == ([] if name.startswith("log.xes") else ["xes"])


def test_a_log_that_names_no_standard_is_known_by_its_traces(tmp_path):
    windows = read_windows(write(tmp_path / "log", as_xes(head="<log>")), Reading(context=2))
    assert [g.value for g in windows.guesses if g.option == "format"] == ["xes"]


def test_any_attribute_may_be_the_sequence_or_the_item(tmp_path):
    text = (
        as_xes()
        .replace('<string key="m" value="n"/>', "")
        .replace("<event>", '<event><int key="k" value="7"/>')
    )
    path = write(tmp_path / "log.xes", text)
    assert in_words(read_windows(path, Reading(context=2, item="k"))) == [[7] * 3] * 2
    assert len(in_words(read_windows(path, Reading(context=2, sequence="k")))) == 1
    assert "did you mean 'k'" in refusal(path, item="K") or "Columns found" in refusal(
        path, item="K"
    )


def test_without_all_times_events_stay_as_they_are(tmp_path):
    events = [(c, x, "" if i == 2 else t) for i, (c, x, t) in enumerate(EVENTS)]
    windows = read_windows(write(tmp_path / "log.xes", as_xes(events)), Reading(context=2))
    assert in_words(windows) == [["pay", "ship", "pay"], ["ship", "pay", "ship"]]
    assert windows.ordering.kind == "file"


def test_traces_without_a_name_are_apart(tmp_path):
    text = as_xes().replace('<trace><string key="concept:name" value="b"/>', "<trace>")
    text = text.replace('<trace><string key="concept:name" value="a"/>', "<trace>")
    assert (
        in_words(read_windows(write(tmp_path / "log.xes", text), Reading(context=2))) == SEQUENCES
    )


BOMB = '<!DOCTYPE log [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
OUTSIDE = '<!DOCTYPE log [<!ENTITY x SYSTEM "file:///etc/hostname">]>'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (as_xes(head=BOMB + '<log xes.version="1">'), "a document type"),
        (as_xes(head=OUTSIDE + '<log xes.version="1">').replace("pay", "&x;"), "a document type"),
        (as_xes().replace("pay", "&x;"), "broken XML (undefined entity"),
        (as_xes()[:-20], "broken XML"),
        (as_xes().replace("</event>", "", 1), "broken XML (mismatched tag"),
        (as_xes(head="<book>").replace("</log>", "</book>"), "it begins with <book>"),
        (as_xes().replace("utf-8", "no-such").replace("UTF-8", "no-such"), "broken XML"),
        ('<log xes.version="1"></log>', "no events"),
        ('<log xes.version="1"><event/></log>', "an event outside every trace"),
        ("", "no events: the file is empty"),
        ('<log xes.version="1"><trace>' + "<list>" * 300, "more than 200 elements"),
        (as_xes().replace('"pay"', '""'), "empty fields"),
        (b"\xff\xfe" + as_xes().encode("utf-8"), "broken XML"),
    ],
)
def test_what_is_no_xes_log_is_refused(tmp_path, text, said):
    assert said in refusal(write(tmp_path / "log.xes", text))


def test_an_xes_log_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(xes, "MOST_KEYS", 3)
    many = "".join(f'<string key="k{i}" value="v"/>' for i in range(5))
    path = write(tmp_path / "log.xes", as_xes().replace("<event>", f"<event>{many}"))
    assert "more than 3 different attributes" in refusal(path)
    monkeypatch.setattr(xes, "LONGEST", 1000)
    monkeypatch.setattr(xes, "BLOCK", 100)
    path = write(tmp_path / "b.xes", as_xes().replace('"pay"', f'"{"x" * 5000}"'))
    assert "an element of more than 1,000 bytes" in refusal(path)


# SPMF and one event a line


SPMF = "@CONVERTED_FROM_TEXT\n@ITEM=1=tea\n@ITEM=2=black cake\n1 -1 2 3 -1 1 -1 -2\n# note\n\n2 -1 2 -1 -2\n"


@pytest.mark.parametrize("name", ["a.spmf", "a.txt", "a", "a.spmf.gz"])
def test_spmf_is_known_by_its_shape(tmp_path, name):
    content = gzip.compress(SPMF.encode()) if name.endswith("gz") else SPMF
    windows = read_windows(write(tmp_path / name, content), Reading(context=2))
    assert in_words(windows) == [["tea", "black cake", 3, "tea"], ["black cake", "black cake"]]
    assert bool(windows.guesses) == ("spmf" not in name)
    assert windows.place(0) == "line 4"
    _, parts = read_parts(tmp_path / name, folder(tmp_path), Reading(context=2))
    assert (parts.windows, parts.guesses) == (len(windows), windows.guesses)


def folder(tmp_path):
    made = tmp_path / "parts"
    made.mkdir()
    return made


def test_times_of_spmf_are_passed_over(tmp_path):
    path = write(tmp_path / "a.txt", "<0> 1 -1 <5> 2 -1 <9> 1 -1 -2\n")
    assert in_words(read_windows(path, Reading(context=2))) == [[1, 2, 1]]


def test_words_and_plain_numbers_are_no_spmf(tmp_path):
    for text in ("1 2 1 2\n", "-1 -2\n", "1 -1 tea -1 -2\n", "a -1 -2\n"):
        assert read_windows(write(tmp_path / "a.txt", text), Reading(context=1)).guesses == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 -1 2 -1\n", "line 1: no -2 at the end"),
        ("1 -1 -2 2 -1 -2\n", "line 1: something stands behind -2"),
        ("1 -1 tea -1 -2\n", "line 1: 'tea' is no item"),
        ("1[5] 2[3] -1 -2 SUtility:30\n", "line 1: '1[5]' is no item"),
        ("1 -1 2 -1 -2\n-2\n-1 -2\n", "line 2: a sequence without an item"),
        ("1" * 40 + " -1 -2\n", "is no item"),
        ("# nothing\n", "no events: no line holds one"),
        ("", "no events: the file is empty"),
    ],
)
def test_faults_of_spmf_are_named(tmp_path, text, said):
    assert said in refusal(write(tmp_path / "a.spmf", text))


def test_one_event_a_line(tmp_path):
    path = write(tmp_path / "a.log", "GET /a b\nPOST /x\nGET /a b\n\n\n 7 \n7\n")
    how = Reading(context=2, format="events")
    windows = read_windows(path, how)
    assert in_words(windows) == [["GET /a b", "POST /x", "GET /a b"], ["7", "7"]]
    again = read_windows(path, how, windows.vocabulary)
    assert np.array_equal(again.ids, windows.ids)
    path.write_text("GET /a b\nPUT /a\n")
    with pytest.raises(DataError, match="line 2"):
        read_windows(path, how, windows.vocabulary)
    assert "no events" in refusal(write(path, "\n\n"), format="events")
    assert "is cut already" in refusal(path, format="events", split="lines")


# Standard input


@pytest.fixture
def typed(monkeypatch):
    def type_in(content):
        content = content if isinstance(content, bytes) else content.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return type_in


@pytest.mark.parametrize(
    ("content", "format", "context"),
    [
        ("a b a b a\n", "text", 2), (table(), "csv", 2), (table(delimiter="\t"), "tsv", 2), (as_xes(), "xes", 2),
        (SPMF, "spmf", 2), ('{"tokens": ["a", "b"], "next": "a"}\n', "jsonl", None),
        (gzip.compress(table().encode()), "csv", 2),
    ],
)  # fmt: skip
def test_standard_input_is_read_as_what_it_holds(typed, tmp_path, content, format, context):
    typed(content)
    windows = read_windows("-", Reading(context=context))
    assert (windows.guesses[0].option, windows.guesses[0].value) == ("format", format)
    assert windows.origin == "standard input"
    same = read_windows(write(tmp_path / "same", content), Reading(context=context, format=format))
    assert np.array_equal(windows.ids, same.ids)
    assert len(read_windows("-", Reading(context=context))) == len(windows)  # a second time too


def test_what_was_said_goes_before_what_standard_input_holds(typed):
    typed("tea\ncake\ntea\n")
    windows = read_windows("-", Reading(context=2, format="events"))
    assert (windows.guesses, in_words(windows)) == ((), [["tea", "cake", "tea"]])


def test_faults_of_standard_input_name_it(typed):
    typed("")
    with pytest.raises(DataError, match=r"^standard input: no words: the file is empty"):
        read_windows("-", Reading(context=2))
    typed("a b")
    with pytest.raises(UsageError, match=r"^standard input: plain text is cut into contexts"):
        read_windows("-")
    typed(table(delimiter=";"))
    with pytest.raises(
        DataError, match=r"^standard input: holds a table with ';'.*--delimiter ';'"
    ):
        read_windows("-", Reading(context=2))


def test_contexts_come_through_standard_input(typed):
    typed('{"tokens": ["a"]}\n')
    rows = list(context_rows(Path("-"), "jsonl"))
    assert sum(len(some.cells) for some in rows) == 1
    typed(SPMF)
    with pytest.raises(DataError, match="standard input: spmf holds sequences"):
        list(context_rows(Path("-")))


def test_what_is_kept_of_it_is_private(typed):
    typed("a b a")
    path = standard_input()
    assert is_spooled(path)
    assert path.parent.stat().st_mode & 0o077 == 0


def test_a_command_reads_standard_input(typed, call):
    typed(as_xes())
    code, out, err = call("data", "inspect", "-", "--context", "2")
    assert code == 0, err
    assert out.startswith(
        "read with --format xes --sequence case:concept:name --item concept:name --order"
    )
    assert (
        "standard input: taken as if you had said --format xes: it begins as an XES log does."
        in err
    )
