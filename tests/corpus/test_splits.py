"""One corpus cut in two, and sequences that go on: nothing is lost, nothing leaks, contexts are what they would be."""

import numpy as np
import pytest

from attomaton.corpus.given import as_windows
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.splits import History, split_windows
from attomaton.errors import DataError


def in_words(windows):
    """Each window: its context, its label, its place in the file."""
    word = windows.vocabulary
    return [
        (tuple(word[x] for x in windows.ids[a : a + n]), word[label], windows.number(i))
        for i, (a, n, label) in enumerate(
            zip(windows.left.tolist(), windows.length.tolist(), windows.label.tolist(), strict=True)
        )
    ]


def log(path, sequences, times=None):
    """A log whose sequences begin one after the other, or all at 0."""
    rows = ["sequence,item,order"]
    for j, (name, items) in enumerate(sequences.items()):
        begin = 0 if times is None else times[j]
        rows += [f"{name},{x},{begin + i}" for i, x in enumerate(items)]
    path.write_text("\n".join(rows) + "\n")
    return path


def drawn(n, length=5):
    rng = np.random.default_rng(0)
    return {f"u{j}": [f"i{x}" for x in rng.integers(0, 4, length)] for j in range(n)}


def parted(windows, share=0.2):
    """The two halves, which hold every window once, and in whose training half nothing is new."""
    train, valid, how = split_windows(windows, share)
    assert sorted(in_words(train) + in_words(valid)) == sorted(in_words(windows))
    assert set(train.vocabulary.labels) == {train.vocabulary[x] for x in [*train.ids, *train.label]}
    assert how.text().startswith("no --validate: chosen on ")
    return train, valid, how


def test_later_sequences_are_chosen_on_where_there_is_a_time(tmp_path):
    path = log(tmp_path / "a.csv", drawn(50), times=[7 * j % 350 for j in range(50)])
    train, valid, how = parted(read_windows(path, Reading(context=3)))
    assert (how.kind, how.train, how.valid) == ("time", 40, 10)
    assert train.span[:, 0].max() < valid.span[:, 0].min()
    assert not set(train.names) & set(valid.names)


def test_without_a_time_sequences_are_drawn_the_same_each_time(tmp_path):
    windows = read_windows(log(tmp_path / "a.csv", drawn(50)), Reading(context=3))
    assert not windows.ordering.across  # a counter in each sequence is no time
    train, valid, how = parted(windows)
    assert (how.kind, how.train, how.valid) == ("sequence", 40, 10)
    assert not set(train.names) & set(valid.names)
    assert list(valid.names) != sorted(windows.names)[-10:]
    again = split_windows(windows, 0.2)[1]
    assert again.mark == valid.mark


def test_the_tail_of_a_text_reaches_back(tmp_path):
    path = tmp_path / "a.txt"
    words = [f"w{x}" for x in np.random.default_rng(1).integers(0, 5, 100)] + ["new", "w1", "new"]
    path.write_text(" ".join(words))
    windows = read_windows(path, Reading(context=4))
    train, valid, how = parted(windows)
    assert how.kind == "tail"
    assert (len(train), len(valid)) == (79, 20)
    path.write_text(" ".join(words[: len(train.ids)]))
    assert (
        read_windows(path, Reading(context=4)).mark == train.mark
    )  # as if the rest were not there
    assert "new" not in train.vocabulary
    assert {len(context) for context, _, _ in in_words(valid)} == {4}


def test_rows_are_drawn_and_lists_too():
    rows = [[f"a{i % 3}", f"b{i % 4}"] for i in range(40)]
    given = as_windows(rows, [row[i % 2] for i, row in enumerate(rows)])
    assert parted(given)[2].kind == "row"
    assert parted(as_windows(list(drawn(30).values()), context=2))[2].kind == "sequence"
    with pytest.raises(DataError, match="too few"):
        split_windows(as_windows([["a", "a"]], context=2))
    few = parted(as_windows([["a", "b", "a"]], context=2))
    assert (len(few[0]), len(few[1])) == (1, 1)


# History


WHOLE = {"a": list("xyzxyzx"), "b": list("yyzzyx"), "c": list("zx")}


@pytest.fixture
def halves(tmp_path):
    """One log, and the same cut in the middle of its sequences; `d` begins later."""
    earlier = {name: items[:3] for name, items in WHOLE.items() if name != "c"}
    later = {name: items[3:] for name, items in WHOLE.items() if name != "c"} | {"c": WHOLE["c"]}
    read = {}
    for name, sequences, times in (
        ("whole", WHOLE, [0, 10, 40]), ("one", earlier, [0, 10]), ("two", later, [3, 13, 40]),
    ):  # fmt: skip
        path = log(tmp_path / f"{name}.csv", sequences, times)
        read[name] = read_windows(path, Reading(context=4))
    return read


def test_contexts_reach_back_as_if_the_log_had_not_been_cut(halves):
    known = History.of([halves["one"]], 4)
    assert known.shared(halves["two"]) == 2
    assert known.precedes(halves["two"])
    joined = [(c, x) for c, x, _ in in_words(known.before(halves["two"]))]
    whole = [(c, x) for c, x, _ in in_words(halves["whole"])]
    early = [(c, x) for c, x, _ in in_words(halves["one"])]
    assert sorted(joined + early) == sorted(whole)
    # Control: without it contexts begin anew, and the first events are no labels.
    assert len(halves["two"]) < len(joined)


def test_places_are_those_of_the_later_file(halves):
    known, later = History.of([halves["one"]], 4), halves["two"]
    rows = {number for _, _, number in in_words(known.before(later))}
    assert {number for _, _, number in in_words(later)} < rows
    assert rows <= set(range(1, len(later.ids) + 1))


def test_history_of_several_files_and_what_does_not_go_on(halves):
    both = History.of([halves["one"], halves["two"]], 3)
    assert both.tokens["a"] == ["y", "z", "x"]
    assert both.tokens["c"] == ["z", "x"]
    assert not both.precedes(halves["one"])  # it lies before
    other = as_windows([["a", "b", "a"]], context=2)
    assert (both.shared(other), both.precedes(other)) == (0, False)
    with pytest.raises(DataError, match="none goes on"):
        both.before(other)


def test_words_that_only_the_history_has(tmp_path):
    one = read_windows(log(tmp_path / "1.csv", {"a": list("pqp")}, [0]), Reading(context=4))
    two = read_windows(log(tmp_path / "2.csv", {"a": list("xpx")}, [9]), Reading(context=4))
    joined = History.of([one], 4).before(two)
    assert in_words(joined)[0][:2] == (("p", "q", "p"), "x")
    assert joined.vocabulary.labels[:2] == two.vocabulary.labels
    assert joined.realizable.tolist() == [False, True, True]


@pytest.mark.parametrize("column", [["2024-01-02", "2024-01-03"], ["5", "6.5"]])
def test_places_can_be_compared_between_files(tmp_path, column):
    import pyarrow as pa
    from pyarrow import parquet

    rows = [f"u,a,{column[0]}", f"u,b,{column[1]}"]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["sequence,item,order", *rows]))
    in_text = read_windows(path, Reading(context=2)).span
    order = pa.array(column).cast(pa.date32() if "-" in column[0] else pa.float64())
    table = pa.table({"sequence": ["u", "u"], "item": ["a", "b"], "order": order})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert np.array_equal(read_windows(tmp_path / "a.parquet", Reading(context=2)).span, in_text)
