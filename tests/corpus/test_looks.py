"""What a file seems to be before it is read: columns of any name, any delimiter, rows in any order."""

import gzip
import json
import random

import pyarrow as pa
import pytest
from pyarrow import parquet

from attomaton.corpus.looks import look_at_file
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading

DAY = "2024-05-{:02d} 08:{:02d}:00"


def events(shuffled=False):
    """Rows of 12 visits, as (visit, page, time, price)."""
    rng = random.Random(5)
    rows = [
        (
            f"v{v}",
            rng.choice(["home", "list", "cart", "help"]),
            DAY.format(v + 1, i),
            f"{i * v % 7}",
        )
        for v in range(12)
        for i in range(3 + v % 5)
    ]
    return rng.sample(rows, len(rows)) if shuffled else rows


def table(path, head, rows, mark=","):
    path.write_text("\n".join(mark.join(row) for row in [head, *rows]) + "\n")
    return path


@pytest.mark.parametrize("mark", [",", ";", "|", "\t"])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(
    "head",
    [
        ("visitor", "page", "time", "price"),  # as many logs call them
        ("Besuch", "Seite", "Zeitpunkt", "Preis"),  # by what they hold
        ("sesion", "activty", "tmestamp", "x"),  # mistyped
        ("sequence", "item", "order", "price"),
    ],
)
def test_the_columns_of_a_log_are_found(tmp_path, head, shuffled, mark):
    path = table(tmp_path / "log.csv", head, events(shuffled), mark)
    look = look_at_file(path)
    how = look.reading
    assert (how.sequence or "sequence", how.item or "item", how.order or "order") == head[:3]
    assert how.delimiter == {",": None, "\t": "tab"}.get(mark, mark)
    assert all(g.why for g in look.guesses)
    windows = read_windows(path, how)
    plain = table(tmp_path / "plain.csv", ("sequence", "item", "order", "x"), events())
    same = read_windows(plain, Reading(context=8))
    assert [windows.vocabulary[i] for i in windows.ids] == [same.vocabulary[i] for i in same.ids]


def test_a_number_for_each_event_of_a_sequence_is_the_order(tmp_path):
    rows = [(v, page, str(i % 4), x) for i, (v, page, _, x) in enumerate(events())]
    number = {}
    counted = [
        (v, p, str(number.setdefault(v, []).append(0) or len(number[v])), x) for v, p, _, x in rows
    ]
    assert look_at_file(table(tmp_path / "a.csv", tuple("abcd"), counted)).reading.order == "c"
    # Without one, none is taken: numbers that repeat inside a sequence give no order.
    priced = [(v, p, x) for v, p, _, x in rows]
    assert look_at_file(table(tmp_path / "b.csv", tuple("abc"), priced)).reading.order is None


def test_what_was_said_is_not_guessed(tmp_path):
    path = table(tmp_path / "log.csv", ("visitor", "page", "time", "price"), events())
    look = look_at_file(path, Reading(context=3, item="price"))
    assert look.reading == Reading(context=3, sequence="visitor", item="price", order="time")
    assert [g.option for g in look.guesses] == ["sequence", "order"]
    assert look.wanting == ("sequence",)


def test_standard_names_want_nothing_but_a_context(tmp_path):
    head = ("Case ID", "Activity", "Complete Timestamp", "x")
    path = table(tmp_path / "log.csv", head, events())
    assert look_at_file(path).wanting == ("context",)
    assert look_at_file(path, Reading(context=2)).wanting == ()


def test_formats_are_known_by_what_files_hold(tmp_path):
    rows = events()
    columns = dict(zip(("visitor", "page", "time", "price"), zip(*rows, strict=True), strict=True))
    parquet.write_table(
        pa.table({k: list(v) for k, v in columns.items()}), tmp_path / "log.parquet"
    )
    look = look_at_file(tmp_path / "log.parquet")
    assert (look.format, look.reading.sequence, look.reading.order) == (
        "parquet",
        "visitor",
        "time",
    )
    text = "\n".join(",".join(row) for row in [("visitor", "page", "time", "price"), *rows])
    (tmp_path / "log.dat").write_bytes(gzip.compress(text.encode()))
    look = look_at_file(tmp_path / "log.dat")
    assert (look.reading.format, look.reading.item) == ("csv", "page")
    (tmp_path / "rows.txt").write_text('{"tokens": ["a", "b"], "next": "a"}\n' * 2)
    assert look_at_file(tmp_path / "rows.txt").reading == Reading(format="jsonl")


def test_documents_of_a_text(tmp_path):
    wrapped = "words that go on from line to line,\nand end here.\n"
    for name, text, split in (
        ("stream.txt", "A sentence. Another one.\n" * 30, None),
        ("lines.txt", "tea cake tea\nsoup cake soup\n" * 9, "lines"),
        ("paragraphs.txt", (wrapped + "\n") * 9, "paragraphs"),
    ):
        (tmp_path / name).write_text(text)
        assert look_at_file(tmp_path / name).reading.split == split


def test_inspect_says_all_it_guessed_as_options_that_read_the_same(tmp_path, call):
    path = table(tmp_path / "log.csv", ("Besuch", "Seite", "Zeit", "x"), events(True), ";")
    code, out, _ = call("data", "inspect", path, "--json")
    found = json.loads(out)
    assert code == 0
    guessed = {g["option"]: g["value"] for g in found["reading"]["guesses"]}
    assert guessed == {
        "delimiter": ";",
        "sequence": "Besuch",
        "item": "Seite",
        "order": "Zeit",
        "context": "8",
    }
    words = [w for k, v in guessed.items() for w in (f"--{k}", v)]
    told = json.loads(call("data", "inspect", path, *words, "--json")[1])
    assert {k: v for k, v in told.items() if k != "reading"} == {
        k: v for k, v in found.items() if k != "reading"
    }
    assert "guesses" not in told["reading"]
    # What is computed from data is never guessed.
    assert call("fit", path, "-o", tmp_path / "m")[0] != 0


BROKEN = [
    ('{"rows": [{"tokens": ["a", "b"], "next": "a"},, ]}\n', "holds broken JSON"),
    ('{\n  "tokens": ["a", "b"],\n  "next": a\n}\n', "holds broken JSON"),
    ('{"tokens": ["a"], "next": "a"}\n{"tokens": ["a", "next": "a"}\n', "line 2: broken JSON"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN)
def test_broken_json_is_not_read_as_words(tmp_path, call, text, said):
    path = tmp_path / "rows.json"
    path.write_text(text)
    code, _, err = call("data", "inspect", path)
    assert code != 0
    assert said in err


def test_prose_that_begins_with_a_brace_stays_prose(tmp_path):
    (tmp_path / "a.txt").write_text(
        '{"a": 1} is JSON.\nThis is a text about it.\nAnd so is this line.\n'
    )
    assert look_at_file(tmp_path / "a.txt").format == "text"


@pytest.mark.parametrize("name", ["a.txt.gz", "a.csv.gz"])
def test_a_file_that_was_cut_off_is_named(tmp_path, call, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"sequence,item\n" + b"s,tea\n" * 500)[:40])
    code, _, err = call("data", "inspect", path)
    assert code == 3
    assert f"{path}: cannot be read: " in err


def test_bytes_that_are_no_text_are_said_by_their_reader(tmp_path, call):
    path = tmp_path / "log.parquet"
    columns = {"sequence": ["a"] * 4, "item": [b"tea", b"\xff", b"tea", b"\xff"]}
    parquet.write_table(pa.table(columns), path)
    assert look_at_file(path).columns == ()
    code, _, err = call("data", "inspect", path, "--context", 2)
    assert code == 3
    assert f"{path}: cannot be read as an event log" in err
