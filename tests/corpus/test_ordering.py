"""Event logs come in the order their column says, whatever the rows, the times, the file; or they say why not."""

import datetime
import json
import logging
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from attomaton.corpus.looks import look_at_file
from attomaton.corpus.ordering import Ordering, likely, ranked
from attomaton.corpus.parts import Parts
from attomaton.corpus.readers import read_parts, read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.times import read_times
from attomaton.disk.formats import to_json
from attomaton.errors import DataError, UsageError

HEAD = ("sequence", "item", "order")


@pytest.fixture
def log(tmp_path):
    """Write an event log of one sequence (or of given ones) with these values in its order column."""

    def write(order, items=None, name="log.csv", head=HEAD, sequence=None):
        items = items or "abcdefgh"[: len(order)]
        sequence = sequence or ["u"] * len(order)
        path = tmp_path / name
        if path.suffix == ".parquet":
            parquet.write_table(
                pa.table(dict(zip(head, (sequence, list(items), order), strict=True))), path
            )
        else:
            mark = "\t" if path.suffix == ".tsv" else ","
            rows = [head, *zip(sequence, items, order, strict=True)]
            path.write_text("".join(mark.join(map(quoted, row)) + "\n" for row in rows))
        return path

    return write


def quoted(x):
    return f'"{x}"'


def in_order(path, **options):
    """The items of a log of one sequence, in the order they were read."""
    windows = read_windows(path, Reading(context=2, **options))
    return "".join(str(windows.vocabulary[i]) for i in windows.ids)


def refusal(path, **options):
    with pytest.raises(DataError) as caught:
        read_windows(path, Reading(context=2, **options))
    return str(caught.value).replace(f"{path.parent}/", "")


# Forms of times: the second value is the earliest, the first the latest; as text each would sort otherwise.


@pytest.mark.parametrize(
    ("order", "form"),
    [
        (["2024-10-01", "2024-09-01", "2024-09-30"], "YYYY-MM-DD"),
        (["2024-10-1", "2024-9-1", "2024-9-30"], "YYYY-MM-DD"),
        (["10/1/2024", "9/1/2024", "9/30/2024"], "M/D/YYYY"),
        (["1/10/2024", "30/8/2024", "2/9/2024"], "D/M/YYYY"),
        (["01-10-2024", "30-08-2024", "02-09-2024"], "D-M-YYYY"),
        (["1.10.2024", "2.1.2024", "1.9.2024"], "D.M.YYYY"),
        (["2024/10/01", "2024/9/01", "2024/9/30"], "YYYY/MM/DD"),
        (["9/30/2024 10:05", "9/30/2024 9:05", "9/30/2024 9:50"], "M/D/YYYY HH:MM"),
        (["9/30/2024 1:05 PM", "9/30/2024 12:05 AM", "9/30/2024 12:05 pm"], "M/D/YYYY HH:MM AM/PM"),
        (["9/30/2024, 1:05:07 PM", "9/30/2024, 11:05:07 AM", "9/30/2024, 12:05:07 PM"],
         "M/D/YYYY HH:MM:SS AM/PM"),
        (["01-Feb-2024", "31-Dec-2023", "02-Jan-2024"], "D Mon YYYY"),
        (["10/Oct/2000:13:55:36 -0700", "10/Oct/2000:13:55:36 +0700", "10/Oct/2000:13:55:36 +0000"],
         "D Mon YYYY HH:MM:SS, zones taken into account"),
        (["Feb 1, 2024", "Dec 31, 2023", "Jan 2, 2024"], "Mon D, YYYY"),
        (["February 1, 2024 8:00", "Sept 3, 2023 9:00", "Dec 31, 2023 9:00"], "Mon D, YYYY HH:MM"),
        (["Thu, 01 Feb 2024 10:00:00 GMT", "Sun, 31 Dec 2023 10:00:00 GMT", "Tue, 02 Jan 2024 10:00:00 GMT"],
         "D Mon YYYY HH:MM:SS, zones taken into account"),
        (["2024-01-01T10:00:00", "2024-01-01 09:00:00", "2024-01-01T09:00:00.5"], "YYYY-MM-DD HH:MM:SS"),
        (["2024-01-01T10:00:00.000000002Z", "2024-01-01T10:00:00Z", "2024-01-01T10:00:00.000000001Z"],
         "YYYY-MM-DD HH:MM:SS, zones taken into account"),
        (["2024-01-01T08:00:00Z", "2024-01-01T09:00:00+02:00", "2024-01-01T02:30:00-0500"],
         "YYYY-MM-DD HH:MM:SS, zones taken into account"),
        (["20240110T0905", "20240109T0905", "20240110T0859"], "YYYYMMDD HH:MM"),
        (["10:00", "9:00", "9:30"], "HH:MM"),
        (["9999-12-31", "0001-01-01", "1600-02-29"], "YYYY-MM-DD"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.parquet"])
def test_times_sort_by_time(log, order, form, name):
    path = log(order, name=name)
    windows = read_windows(path, Reading(context=2))
    assert "".join(windows.vocabulary[i] for i in windows.ids) == "bca"
    found = windows.ordering
    assert (found.kind, found.form, found.column) == ("times", form, "order")
    assert (found.first, found.last) == (order[1], order[0])


@pytest.mark.parametrize(
    "order",
    [
        ["10", "9", "9.5"],
        [
            "1704067200000000002",
            "1704067200000000000",
            "1704067200000000001",
        ],  # as floats all the same
        ["1704067200.123456002", "1704067200.123456", "1704067200.123456001"],
        ["1e3", "9.5", "1e2"],
        [" 10", "+9", "09.9"],
    ],
)
@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_numbers_sort_by_size_to_the_last_digit(log, order, name):
    path = log(order, name=name)
    assert in_order(path) == "bca"
    assert read_windows(path, Reading(context=2)).ordering.kind == "numbers"


DAY = datetime.date(2024, 1, 9)
NOON = datetime.datetime(2024, 1, 1, 12)
HOUR = datetime.timedelta(hours=1)


@pytest.mark.parametrize(
    ("order", "kind"),
    [
        (pa.array([30, 2, 10]), "numbers"),
        (pa.array([3.0, -2, 1]), "numbers"),
        (pa.array([DAY + datetime.timedelta(days=x) for x in (30, 0, 1)]), "times"),
        (pa.array([NOON + 3 * HOUR, NOON, NOON + HOUR], pa.timestamp("ms", tz="Europe/Rome")), "times"),
        (pa.array([NOON + 3 * HOUR, NOON, NOON + HOUR]).dictionary_encode(), "times"),
        (pa.array([b"30", b"9", b"10"]), "numbers"),
        (pa.array(["2024-10-01", "2024-09-01", "2024-09-30"], pa.string_view()), "times"),
        (pa.array([3 * HOUR, HOUR, 2 * HOUR]), "times"),
    ],
)  # fmt: skip
def test_typed_columns_of_parquet(log, order, kind):
    path = log(order, name="log.parquet")
    assert in_order(path) == "bca"
    assert read_windows(path, Reading(context=2)).ordering.kind == kind


@pytest.mark.parametrize("role", ["order", "sequence"])
@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (pa.timestamp("ns"), "1970-01-01 00:00:00.000001001"),
        (pa.timestamp("ns", tz="UTC"), "1970-01-01 00:00:00.000001001Z"),
        (pa.time64("ns"), "00:00:00.000001001"),
        (pa.duration("ns"), "1001"),
        (pa.timestamp("ms"), "<value out of range: 1000000000000000>"),
    ],
)
def test_times_that_python_cannot_hold(tmp_path, kind, shown, role):
    least = 10**15 if kind == pa.timestamp("ms") else 1001
    times = pa.array([least, least, least + 1, least + 1]).cast(kind)
    columns = {"sequence": pa.array(list("uuuu")), "item": list("abab"), role: times}
    parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    windows = read_windows(tmp_path / "log.parquet", Reading(context=1))
    first = windows.ordering.first if role == "order" else str(windows.names[0])
    assert first == shown
    assert (
        shown in look_at_file(tmp_path / "log.parquet").columns[-1 if role == "order" else 0].some
    )


def test_words_that_give_no_order_are_not_copied_one_by_one():
    words = pa.array("x" * i for i in range(1, 4000))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="holds neither numbers nor times"):
            ranked(words, "order", None, np.zeros(len(words), int))
        assert tracemalloc.get_traced_memory()[1] < 2e6  # 8 MB of texts stay where Arrow has them
    finally:
        tracemalloc.stop()


# Day or month first


AMBIGUOUS = ["2/1/2024", "1/3/2024", "3/2/2024"]


def test_dates_that_can_be_read_in_two_ways_are_refused(log):
    assert refusal(log(AMBIGUOUS)) == (
        "log.csv: column 'order' can be read as D/M/YYYY and as M/D/YYYY, which order the rows differently:\n"
        "  row 1: '2/1/2024' is 2024-01-02 (day-first) or 2024-02-01 (month-first)\n"
        "  row 2: '1/3/2024' is 2024-03-01 (day-first) or 2024-01-03 (month-first)\n"
        "  row 3: '3/2/2024' is 2024-02-03 (day-first) or 2024-03-02 (month-first)\n"
        "Say which it is: --dates day-first or --dates month-first."
    )  # fmt: skip


def test_the_two_ways(log):
    assert in_order(log(AMBIGUOUS), dates="day-first") == "acb"
    assert in_order(log(AMBIGUOUS), dates="month-first") == "bac"
    with pytest.raises(UsageError, match="did you mean 'day-first'"):
        read_windows(log(AMBIGUOUS), Reading(context=2, dates="dayfirst"))
    assert "13/1/2024" in refusal(log(["1/1/2024", "13/1/2024", "2/2/2024"]), dates="month-first")


def test_two_ways_with_one_order_are_no_question(log):
    path = log(["1/9/2024", "1/10/2024", "1/11/2024"])
    assert (
        read_windows(path, Reading(context=2)).ordering.form
        == "D/M/YYYY or M/D/YYYY, in the same order"
    )
    # Between sequences the ways may differ: only the order inside each counts.
    path = log(
        ["1/2/2024", "2/1/2024", "3/3/2024", "3/3/2024"], items="aabb", sequence=list("uvuv")
    )
    assert len(read_windows(path, Reading(context=2))) == 2


def test_dates_are_an_option_of_event_logs_only(tmp_path):
    (tmp_path / "a.txt").write_text("a b a b")
    with pytest.raises(UsageError, match="--dates says how an event log"):
        read_windows(tmp_path / "a.txt", Reading(context=1, dates="day-first"))


@settings(max_examples=60)
@given(
    st.lists(st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2200, 1, 1)), min_size=1, max_size=8),
    st.sampled_from(["%Y-%m-%dT%H:%M:%S.%f", "%d.%m.%Y %H:%M:%S.%f", "%d-%b-%Y %I:%M:%S.%f %p", "%B %d, %Y %H:%M"]),
)  # fmt: skip
def test_times_are_those_of_the_standard_library(times, form):
    written = [t.strftime(form) for t in times]
    (read,) = read_times(pa.array(written, pa.large_string()), "t")
    expected = [datetime.datetime.strptime(x, form) for x in written]
    found = read.key.astype(f"datetime64[{read.unit}]").astype("datetime64[us]").tolist()
    assert found == expected


# What gives no order


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (["soon", "later", "mon"], "holds neither numbers nor times, so it gives no order:\n  row 1: 'soon'"),
        (["mon", "tue", "wed"], "neither numbers nor times"),
        (["step9", "step10", "step11"], "neither numbers nor times"),
        (["A1", "B1", "A2"], "neither numbers nor times"),
        (["1/2/24", "2/1/24", "3/1/24"], "neither numbers nor times"),
        (["2024-01-01", "2024-01-02", "soon"], "1 value of column 'order' cannot be placed in time (most are times"
         " written YYYY-MM-DD):\n  row 3: 'soon'"),
        (["2024-01-01", "2024-01-02", "1/3/2024"], "row 3: '1/3/2024'"),
        (["2024-01-01 10:00", "2024-01-02", "2024-01-03"], "others have a time of day):\n  row 2: '2024-01-02'"),
        (["2024-01-01 10:00Z", "2024-01-01 10:00", "2024-01-01 11:00Z"], "others have a zone):\n  row 2"),
        (["1/1/2024 1:00 PM", "1/1/2024 13:00", "1/1/2024 2:00 PM"], "others have AM or PM):\n  row 2"),
        (["2024-02-29", "2023-02-29", "2024-01-01"], "row 2: '2023-02-29'"),
        (["2024-01-01 25:00", "2024-01-01 10:00", "2024-01-01 11:00"], "no clock shows these):\n  row 1"),
        (["01-Jan-2024", "01-Foo-2024", "02-Jan-2024"], "row 2: '01-Foo-2024'"),
        (["1", "2", "soon"], "mixes numbers and text"),
    ],
)  # fmt: skip
def test_an_order_that_is_none_is_refused(log, order, said):
    message = refusal(log(order))
    assert said in message
    assert "--order" in message


@pytest.mark.parametrize("order", [pa.array([True, False, True]), pa.array([[1], [2], [3]])])
def test_typed_columns_that_are_no_order(log, order):
    assert "gives no order" in refusal(log(order, name="log.parquet"))


def test_codes_of_one_width_sort_as_they_count(log):
    path = log(["A-010", "A-009", "A-011"])
    assert in_order(path) == "bac"
    assert read_windows(path, Reading(context=2)).ordering.kind == "codes"


# What is said


def test_ties_keep_the_order_of_the_file_and_are_counted(log):
    windows = read_windows(log(["1", "2", "1", "1", "3"], items="abcab"), Reading(context=2))
    assert windows.ordering.ties == 3
    assert "".join(windows.vocabulary[i] for i in windows.ids) == "acabb"
    assert windows.ordering.text() == (
        "events are in the order of column 'order' (numbers), from 1 to 3; 3 rows share their place "
        "with another of the same sequence and stay in the file's order."
    )
    # Events of two sequences at one time are no tie.
    path = log(["1", "1", "2", "2"], items="aaaa", sequence=list("uvuv"))
    assert read_windows(path, Reading(context=2)).ordering.ties == 0


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
@pytest.mark.parametrize(
    ("column", "values", "hint"),
    [
        ("time:timestamp", ["2024-01-02", "2024-01-01"], "; perhaps --order time:timestamp."),
        ("when it was", ["3/1/2024", "2/1/2024"], "; perhaps --order 'when it was'."),
        ("ts", ["1704067300", "1704067200"], "; perhaps --order ts."),
        ("price", ["1.5", "2"], "."),
    ],
)
def test_without_an_order_the_file_decides_and_a_column_is_named(
    log, name, column, values, hint, caplog
):
    path = log(values, items="aa", name=name, head=("sequence", "item", column))
    with caplog.at_level(logging.WARNING, "attomaton"):
        found = read_windows(path, Reading(context=2)).ordering
    assert (found.kind, found.column) == ("file", None)
    said = "events are in the order of the file's rows. Name the column that says when they happened: --order COLUMN"
    assert caplog.messages == [f"{path}: {said}{hint}"]


def test_missing_columns_come_with_the_options_that_name_them(log):
    head = ("user", "activity", "time:timestamp")
    assert refusal(log(["2024-01-01", "2024-01-02"], head=head)).endswith(
        " Probably: --sequence user --item activity --order time:timestamp"
    )
    path = log(["1", "2"], head=("User ID", "Product", "Price"))
    assert refusal(path).endswith(" Probably: --sequence 'User ID' --item Product")
    assert refusal(path, item="Price").endswith(" Probably: --sequence 'User ID' --item Price")
    assert "Probably" not in refusal(log(["1", "2"], head=("a", "b", "c")))
    (path.parent / "semi.csv").write_text("sequence;item;order\nu;a;1\nu;a;2\n")
    assert "delimiter seems to be ';'" in refusal(path.parent / "semi.csv")


def test_names_tell_roles():
    assert likely("sequence", ["id", "Session_Id", "user"]) == "Session_Id"
    assert likely("order", ["x", "y"]) is None


# The same model from rows in any order


EVENTS = [
    (sequence, item, time)
    for sequence, items in (("v", "abcab"), ("u", "bacba"), ("w", "ccab"))
    for time, item in enumerate(items, 8)
]


@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.parquet"])
@pytest.mark.parametrize("form", ["{}", "{:02}/28/2024", "2024-01-{:02}T00:00:00Z", "{}.1.2024"])
def test_shuffled_rows_give_the_same_windows(log, name, form):
    def read(events):
        sequence, items, times = zip(*events, strict=True)
        path = log([form.format(t) for t in times], items=items, name=name, sequence=list(sequence))
        return read_windows(path, Reading(context=3))

    one = read(EVENTS)
    for seed in range(3):
        other = read([EVENTS[i] for i in np.random.default_rng(seed).permutation(len(EVENTS))])
        assert other.vocabulary == one.vocabulary
        for field in ("ids", "left", "length", "label", "source", "realizable"):
            assert np.array_equal(getattr(one, field), getattr(other, field))


def test_rows_of_the_file_are_named_not_places_in_the_order(log):
    windows = read_windows(log(["3", "1", "2"], items="cab"), Reading(context=2))
    assert windows.set_aside.examples == (
        "row 3: label 'b', tokens ['a']",
        "row 1: label 'c', tokens ['a', 'b']",
    )


def test_parts_keep_how_rows_were_ordered(log, tmp_path):
    path = log(["3", "1", "2"], items="aaa")
    (tmp_path / "parts").mkdir()
    _, parts = read_parts(path, tmp_path / "parts", Reading(context=2))
    assert parts.ordering == Ordering("numbers", "order", "", "1", "3", 0)
    (tmp_path / "parts.json").write_text(to_json(parts))
    assert Parts.read(tmp_path / "parts.json") == parts


# On the command line


def said(path, **changes):
    found = {"kind": "times", "column": "order", "form": "D/M/YYYY", "first": "2/1/2024", "last": "1/3/2024",
             "ties": 0, "hint": "", "across": False, **changes}  # fmt: skip
    return f"{path}: {Ordering(**found).text()}\n", {
        "context": 2,
        "dates": "day-first",
        "ordering": found,
    }


def test_every_command_says_how_rows_were_ordered(log, call, tmp_path):
    path = log(AMBIGUOUS, items="aaa")
    options = [path, "--context", "2", "--dates", "day-first", "--json"]
    line, reading = said(path)
    model, run = tmp_path / "model", tmp_path / "run"
    for command in (
        ["data", "inspect", *options],
        ["fit", *options, "-o", model],
        ["train", *options, "-o", run, "--steps", "2"],
        ["tune", *options, "--validate", path, "-o", tmp_path / "predictor", "--priors", "zero"],
        ["verify", "--only", "convexity", "-o", tmp_path / "verified", "--data", *options],
    ):
        code, out, err = call(*command)
        assert line in err, command
        assert code in (0, 3), (command, err)
        assert json.loads(out)["reading"] == reading, command
    assert json.loads((model / "model.json").read_text())["reading"] == reading
    assert json.loads((run / "summary.json").read_text())["reading"] == reading
    code, out, err = call("summary", model, "--json")
    assert (code, json.loads(out)["reading"]) == (0, reading)
    assert line.removeprefix(f"{path}: ") in err


def test_a_fit_of_shuffled_rows_is_the_same_model(log, call, tmp_path):
    folders = []
    for name, events in (("one", EVENTS), ("two", EVENTS[::-1])):
        sequence, items, times = zip(*events, strict=True)
        path = log([f"{t}/28/2024" for t in times], items=items, sequence=list(sequence))
        code, _, err = call("fit", path, "--context", "3", "-o", tmp_path / name)
        assert code == 0, err
        folders.append(tmp_path / name)
    kinds = ("samples", "pairs", "edges")
    for kind in kinds:
        one, two = (sorted((folder / kind).glob("*.parquet")) for folder in folders)
        assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two], kind
