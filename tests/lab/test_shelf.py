"""What can be opened, and under which names: ids only, hostile names kept out, broken data kept nowhere."""

import json
import os
import threading

import pytest
from tests.lab.hostile import names

from attomaton.corpus.reading import Reading
from attomaton.errors import AttomatonError, DataError, UsageError
from attomaton.jobs.fit import fit_run
from attomaton.lab.shelf import MOST_BYTES, Shelf, named

ROWS = b'{"tokens": ["a", "b"], "next": "a"}\n{"tokens": ["b", "a"], "next": "a"}\n'


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path / "workspace")


def test_the_example_is_always_there(shelf):
    assert [i.id for i in shelf.items()] == ["example"]
    assert len(shelf.find("example").windows()) == 41


def test_pasted_data_are_kept_and_found_again_by_another_lab(shelf):
    item = shelf.add("mine.jsonl", ROWS, {})
    again = Shelf(shelf.workspace).find(item.id)
    assert (again.title, again.kind, again.path.read_bytes()) == ("mine.jsonl", "data", ROWS)
    assert shelf.add("mine.jsonl", ROWS, {}).id == item.id
    assert shelf.add("mine.jsonl", ROWS + ROWS, {}).id != item.id


def test_the_same_text_read_another_way_is_another_item(shelf):
    text = b"a b a b c a b a\n"
    ids = {shelf.add("t.txt", text, {"context": c, **more}).id
           for c in (2, 3) for more in ({}, {"tokenizer": "chars"})}  # fmt: skip
    assert len(ids) == 4


def test_data_that_cannot_be_read_leave_nothing_and_are_named_by_their_title(shelf, tmp_path):
    with pytest.raises(DataError, match=r"^bad\.jsonl: ") as caught:
        shelf.add("bad.jsonl", b'{"tokens": []}\nnot json\n', {})
    assert str(tmp_path) not in str(caught.value)
    assert not [p for p in shelf.workspace.rglob("*") if p.is_file()]


def test_the_message_is_that_of_the_command_line(shelf, tmp_path, call, monkeypatch):
    content = '{"tokens": ["a"], "next": 5}\n{"tokens": "a"}\n'
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_text(content)
    code, _, err = call("fit", "bad.jsonl", "-o", "model")
    with pytest.raises(AttomatonError) as caught:
        shelf.add("bad.jsonl", content.encode(), {})
    assert code == caught.value.exit_code
    assert err.strip().split(": ", 1)[1] == str(caught.value)


def test_too_much_is_refused(shelf):
    with pytest.raises(UsageError, match="at most 64 MB"):
        shelf.add("big.txt", b"x" * (MOST_BYTES + 1), {"context": 2})


@pytest.mark.parametrize(
    "reading",
    [
        {"tokenizer": "/etc/passwd"},
        {"tokenizer": "../t.json"},
        {"embeddings": "x.npy"},
        {"path": "/etc"},
    ],
)
def test_no_setting_of_a_page_names_a_file(shelf, reading):
    with pytest.raises(UsageError):
        shelf.add("t.txt", b"a b a", {"context": 2, **reading})
    assert not [p for p in shelf.workspace.rglob("*") if p.is_file()]


def test_hostile_names_of_uploads_end_up_as_hashes_inside_the_workspace(shelf, tmp_path):
    hostile = names()
    assert len(hostile) >= 200
    for i, name in enumerate(hostile):
        rows = name.endswith(".jsonl")
        row = json.dumps({"tokens": ["a", str(i)], "next": "a"}) if rows else f"a {i} a {i}"
        try:
            item = shelf.add(name, row.encode(), {} if rows else {"context": 1})
        except AttomatonError:
            continue
        assert item.path.resolve().parent == (shelf.workspace / "data").resolve()
        assert item.path.stem == item.id
        assert "/" not in item.title
        assert "\\" not in item.title
        assert item.title.isprintable()
    written = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert all(p.parent == shelf.workspace / "data" for p in written)
    assert len(written) > 200


def test_hostile_ids_find_nothing(shelf):
    for name in names():
        with pytest.raises(UsageError, match="nothing is open"):
            shelf.find(name)


def test_folders_are_found_by_their_mark_and_links_are_not_followed(shelf, tmp_path):
    data = tmp_path / "d.jsonl"
    data.write_bytes(ROWS)
    fit_run(data, shelf.workspace / "runs" / "one")
    fit_run(data, tmp_path / "outside")
    (shelf.workspace / "link").symlink_to(tmp_path / "outside")
    found = [i for i in shelf.items() if i.kind == "model"]
    assert [i.title for i in found] == ["one"]
    opened = shelf.open(tmp_path / "outside")
    assert shelf.find(opened.id).path == tmp_path / "outside"
    assert shelf.items()[0].id == opened.id


def test_what_is_not_ours_is_not_opened(shelf, tmp_path):
    (tmp_path / "other").mkdir()
    with pytest.raises(DataError, match="not a folder of attomaton"):
        shelf.open(tmp_path / "other")
    with pytest.raises(DataError, match="no such file"):
        shelf.open(tmp_path / "absent")


def test_a_broken_record_beside_data_is_passed_over(shelf):
    shelf.add("mine.jsonl", ROWS, {})
    for name, text in (
        ("a" * 16, "{"),
        ("b" * 16, "[]"),
        ("c" * 16, '{"suffix": "/../x", "title": 1}'),
    ):
        (shelf.workspace / "data" / f"{name}.json").write_text(text)
    assert [i.title for i in shelf.items()] == ["Café counter (example)", "mine.jsonl"]


def in_time(call):
    """What a call gives, or a failure where it waits for something."""
    answer = []
    thread = threading.Thread(target=lambda: answer.append(call()), daemon=True)
    thread.start()
    thread.join(30)
    assert answer, "it waits"
    return answer[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_pipes_loops_and_giants_among_its_folders_do_not_hold_up_the_shelf(shelf, tmp_path):
    kept = shelf.add("mine.jsonl", ROWS, {})
    fit_run(kept.path, shelf.workspace / "runs" / "one")
    os.mkfifo(shelf.workspace / "data" / f"{'a' * 16}.json")
    (shelf.workspace / "data" / f"{'b' * 16}.json").write_text(
        json.dumps({"title": "pipe", "suffix": ".txt", "reading": {}})
    )
    os.mkfifo(shelf.workspace / "data" / f"{'b' * 16}.txt")
    for name in ("pipe", "zero", "loop", "giant", "locked"):
        (shelf.workspace / name).mkdir()
    os.mkfifo(shelf.workspace / "pipe" / "attomaton.json")
    (shelf.workspace / "zero" / "attomaton.json").symlink_to("/dev/zero")
    (shelf.workspace / "loop" / "attomaton.json").symlink_to("attomaton.json")
    (shelf.workspace / "loop" / "again").symlink_to(shelf.workspace)
    with (shelf.workspace / "giant" / "attomaton.json").open("wb") as giant:
        giant.truncate(1 << 36)
    (shelf.workspace / "locked").chmod(0)
    try:
        assert {i.title for i in in_time(shelf.items)} == {
            "Café counter (example)",
            "mine.jsonl",
            "one",
        }
    finally:
        (shelf.workspace / "locked").chmod(0o700)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_what_is_no_plain_file_is_not_opened(shelf, tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    for path in (tmp_path / "pipe.txt", "/dev/null"):
        with pytest.raises(DataError, match="not a plain file"):
            shelf.open(path)


def test_two_uploads_of_one_name_are_two_items(shelf):
    one, two = shelf.add("mine.jsonl", ROWS, {}), shelf.add("mine.jsonl", ROWS + ROWS, {})
    assert one.path != two.path
    assert (one.path.read_bytes(), two.path.read_bytes()) == (ROWS, ROWS + ROWS)
    assert {i.title for i in shelf.items()} == {
        "Café counter (example)",
        "mine.jsonl",
        "mine.jsonl (2)",
    }
    assert shelf.add("mine.jsonl", ROWS, {}).title == "mine.jsonl"


def test_folders_of_one_name_are_told_apart_by_what_they_lie_in(shelf, tmp_path):
    data = tmp_path / "d.jsonl"
    data.write_bytes(ROWS)
    for place in ("a/one", "b/one", "other"):
        fit_run(data, shelf.workspace / place)
    titles = {i.title for i in shelf.items() if i.kind == "model"}
    assert titles == {"one in a", "one in b", "other"}


def test_an_option_called_like_a_parameter_reaches_what_is_called(shelf):
    item = shelf.find("example")
    assert named(item, lambda **options: options, item="activity", call="x") == {
        "item": "activity",
        "call": "x",
    }


LOG = b"who;what;when\n1;a;3\n1;b;1\n1;a;2\n2;b;1\n2;a;2\n2;b;3\n"


def test_what_is_dropped_waits_with_its_reading_guessed(shelf):
    item = shelf.receive("log.csv", LOG)
    assert not item.decided
    assert item.reading == Reading(
        context=8, sequence="who", item="what", order="when", delimiter=";"
    )
    again = Shelf(shelf.workspace).find(item.id)
    assert again == item
    other = shelf.read_as(item, {**item.reading.given, "context": 2})
    assert (other.decided, other.title, other.reading.context) == (True, "log.csv", 2)
    assert [i.title for i in shelf.items() if i.kind == "data"] == [
        "Café counter (example)",
        "log.csv",
    ]
    third = shelf.read_as(other, {**item.reading.given, "context": 3})
    assert (third.title, shelf.find(other.id).title) == ("log.csv (2)", "log.csv")
    assert shelf.receive("rows.jsonl", ROWS).decided


@pytest.mark.parametrize("content", [b"", b" \n\t\n"])
def test_nothing_pasted_is_refused_and_leaves_nothing_behind(shelf, content):
    before = shelf.items()
    with pytest.raises(DataError, match="there is nothing in it"):
        shelf.receive("pasted.txt", content)
    assert shelf.items() == before


def test_a_choice_that_cannot_be_read_loses_nothing(shelf):
    item = shelf.receive("log.csv", LOG)
    before = sorted(p.name for p in shelf.workspace.rglob("*"))
    with pytest.raises(DataError, match="no column 'nothing'"):
        shelf.read_as(item, {**item.reading.given, "item": "nothing"})
    assert sorted(p.name for p in shelf.workspace.rglob("*")) == before
    assert shelf.find(item.id) == item


def test_a_file_of_the_command_line_waits_where_options_are_missing(shelf, tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(LOG)
    item = shelf.open(path)
    assert not item.decided
    assert not shelf.open(path, Reading(context=2)).decided
    whole = Reading(context=2, sequence="who", item="what", delimiter=";")
    assert shelf.open(path, whole).decided
    decided = shelf.read_as(item, item.reading.given)
    assert (decided.decided, decided.path) == (True, path)
    assert item.id not in [i.id for i in shelf.items() if not i.decided]


def test_dates_of_an_event_log_are_read_as_the_page_says(shelf):
    log = b"sequence,item,order\nu,a,2/1/2024\nu,b,1/3/2024\nu,a,3/2/2024\n"
    with pytest.raises(DataError, match="--dates day-first or --dates month-first"):
        shelf.add("log.csv", log, {"context": 2})
    item = shelf.add("log.csv", log, {"context": 2, "dates": "day-first"})
    windows = item.windows()
    assert [windows.vocabulary[i] for i in windows.ids] == ["a", "a", "b"]
    assert item.reading.words == ["--context", "2", "--dates", "day-first"]


def test_what_has_no_model_opens_on_its_own_screen(shelf, tmp_path):
    for kind, files, home in (
        ("sweep", (), "/sweep"),
        ("verification", (), "/claims"),
        ("run", ("metrics.parquet",), "/training"),
        ("run", ("limit.parquet",), "/scan-snap"),
        ("predictor", (), "/automaton"),
    ):
        folder = tmp_path / f"{kind}-{len(files)}-{home[1:]}"
        folder.mkdir()
        (folder / "attomaton.json").write_text(json.dumps({"kind": kind, "schema_version": 2}))
        for name in files:
            (folder / name).write_bytes(b"")
        assert shelf.open(folder).home == home
    assert shelf.find("example").home == "/"
