"""Files as people write them: what each kind means, and what a wrong one is told."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from attomaton.corpus.readers import read_samples, write_jsonl
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import DataError, UsageError

ROW_CURE = 'A row reads {"tokens": ["a", "b"], "next": "a"}, with "weight" if it is not 1.'
NAME_COLUMNS = "Name yours with --sequence, --item, --order."


@pytest.fixture(autouse=True)
def _inside_tmp_path(tmp_path, monkeypatch):
    """Relative paths, so that messages can be pinned whole."""
    monkeypatch.chdir(tmp_path)


def file(name, content):
    path = Path(name)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def table(name, **columns):
    parquet.write_table(pa.table(columns), name)
    return name


def contents(samples):
    """Samples in words: (last, label, bag) and weight, whatever the ids."""
    v = samples.vocabulary
    return {
        (v[samples.last[i]], v[samples.label[i]], frozenset(samples.bag(i).items())): w
        for i, w in enumerate(samples.weight)
    }


def words(rows):
    """The same from (context, label) pairs, through the plain Python door."""
    contexts, labels = zip(*rows, strict=True)
    return contents(samples_from_sequences(list(map(list, contexts)), labels))


def refusal(kind, path, **options):
    with pytest.raises(kind) as caught:
        read_samples(path, **options)
    return str(caught.value)


# Rows


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.ndjson", "ROWS.JSONL"])
def test_rows(name):
    text = (
        '{"tokens": ["a", "b", "a"], "next": "b", "weight": 2.5}\n\n  \n'
        '{"next": 3, "tokens": [3, "3"]}\r\n{"tokens": ["a", "a", "b"], "next": "z"}'
    )
    s = read_samples(file(name, text))
    assert contents(s) == {
        ("a", "b", frozenset({("a", 2), ("b", 1)})): 2.5,
        ("3", 3, frozenset({(3, 1), ("3", 1)})): 1.0,
    }
    assert s.set_aside.rows == 1


def test_every_fault_of_a_row_is_named():
    text = """{"tokens": ["a"], "next": "a"}
{"tokens": ["a"], "nxt": "a"}

{"tokens": [], "next": "a", "weight": 0}
"""
    assert refusal(DataError, file("rows.jsonl", text)) == (
        "rows.jsonl: 4 faults:\n"
        "  line 2: unknown key 'nxt'; did you mean 'next'?\n"
        "  line 2: key 'next' is missing\n"
        "  line 4: tokens is empty\n"
        "  line 4: weight 0 is not a positive number\n" + ROW_CURE
    )


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"tokens": [1], "next": 1', "broken JSON (Expecting ',' delimiter, column 26)"),
        ("[1, 2]", "[1, 2] is not an object"),
        ('{"next": 1}', "key 'tokens' is missing"),
        ('{"tokens": "ab", "next": 1}', 'tokens "ab" is not a list'),
        ('{"tokens": [1, 1.0], "next": 1}', "token 1.0 is neither a string nor an integer"),
        ('{"tokens": [true, 1], "next": 1}', "token true is neither a string nor an integer"),
        ('{"tokens": [1, null], "next": 1}', "token null is neither a string nor an integer"),
        ('{"tokens": [1], "next": [1]}', "next [1] is neither a string nor an integer"),
        ('{"tokens": [1], "next": false}', "next false is neither a string nor an integer"),
        ('{"tokens": [1], "next": 1, "weight": -2}', "weight -2 is not a positive number"),
        ('{"tokens": [1], "next": 1, "weight": NaN}', "weight NaN is not a positive number"),
        ('{"tokens": [1], "next": 1, "weight": 1e999}', "weight Infinity is not a positive number"),
        ('{"tokens": [1], "next": 1, "weight": "1"}', 'weight "1" is not a positive number'),
        ('{"tokens": [1], "next": 1, "weight": true}', "weight true is not a positive number"),
        ('{"tokens": [1], "next": 1, "weight": null}', "weight null is not a positive number"),
        (
            '{"tokens": [1], "next": 1, "weight": 1' + "0" * 400 + "}",
            "weight 1" + "0" * 38 + "… is not a positive number",
        ),
        (
            '{"tokens": [1], "next": 1, "zebra": 1}',
            "unknown key 'zebra', keys are tokens, next, weight",
        ),
    ],
)
def test_one_fault_of_a_row(line, fault):
    assert refusal(DataError, file("rows.jsonl", line)) == (
        f"rows.jsonl: 1 fault:\n  line 1: {fault}\n{ROW_CURE}"
    )


def test_nesting_without_end_is_broken_json():
    message = refusal(DataError, file("rows.jsonl", "[" * 100_000))
    assert message.startswith("rows.jsonl: 1 fault:\n  line 1: broken JSON (")


def test_many_faults_are_counted():
    lines = refusal(DataError, file("rows.jsonl", "{}\n" * 4)).splitlines()
    assert lines[0] == "rows.jsonl: 8 faults:"
    assert lines[-2:] == ["  … and 3 more", ROW_CURE]


def test_rows_naming_rows_of_embeddings():
    text = '{"tokens": [5, 0], "next": 5}\n'
    s = read_samples(file("rows.jsonl", text), vocabulary=Vocabulary(range(6)))
    assert (s.last.tolist(), s.label.tolist(), s.token.tolist()) == ([0], [5], [0, 5])
    text += '{"tokens": [0, 1], "next": 1}\n{"tokens": [0, 9, 9], "next": -1}\n'
    path = file("rows.jsonl", text)
    assert refusal(DataError, path, vocabulary=Vocabulary(range(6))) == (
        "rows.jsonl: 2 tokens outside the vocabulary:\n"
        "  token 9 at line 3: the embeddings have 6 rows, so tokens are 0 … 5\n"
        "  token -1 at line 3: the embeddings have 6 rows, so tokens are 0 … 5\n"
        "Name only tokens of the vocabulary."
    )


def test_rows_over_a_vocabulary_of_words():
    path = file("rows.jsonl", '{"tokens": ["a", "b"], "next": "c"}')
    assert refusal(DataError, path, vocabulary=Vocabulary(["b", "a"])) == (
        "rows.jsonl: 1 token outside the vocabulary:\n"
        "  token 'c' at line 1: not among the 2 tokens of the vocabulary\n"
        "Name only tokens of the vocabulary."
    )


def test_rows_already_are_contexts():
    path = file("rows.jsonl", '{"tokens": ["a"], "next": "a"}')
    assert refusal(UsageError, path, context=4) == (
        "rows.jsonl: --context 4 has no meaning here, the rows of a .jsonl file already are "
        "contexts. Leave it out."
    )


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_no_rows(text):
    assert refusal(DataError, file("a.jsonl", text)) == "a.jsonl: no rows: the file is empty."


def test_rows_none_of_which_holds_its_label():
    message = refusal(DataError, file("a.jsonl", '{"tokens": ["a"], "next": "b"}'))
    assert message.startswith("a.jsonl: none of the 1 contexts contains its own label")


# Rows written back


def test_written_rows_are_plain_to_read():
    s = samples_from_sequences([["b", "ü", "b"], ["x", "b"]], ["ü", "x"], [2.0, 0.5])
    path = write_jsonl(s, "out.jsonl")
    assert path.read_text("utf-8").splitlines() == [
        '{"tokens": ["b", "ü", "b"], "next": "ü", "weight": 2}',
        '{"tokens": ["x", "b"], "next": "x", "weight": 0.5}',
    ]


label = st.one_of(st.integers(-2, 2), st.text('ab1é\n\u2028"\\ ', max_size=2))


@given(
    st.lists(
        st.tuples(
            st.lists(label, min_size=1, max_size=5),
            st.integers(0, 4),
            st.floats(1e-149, 1e149),  # ten of them are one sample
        ),
        min_size=1,
        max_size=10,
    )
)
def test_written_samples_are_read_back(rows):
    contexts = [tokens for tokens, _, _ in rows]
    labels = [tokens[i % len(tokens)] for tokens, i, _ in rows]
    s = samples_from_sequences(contexts, labels, [w for *_, w in rows])
    path = write_jsonl(s, "back.jsonl")
    assert contents(read_samples(path)) == contents(s)
    again = read_samples(path, vocabulary=s.vocabulary)
    for name in ("last", "label", "weight", "start", "token", "count"):
        assert np.array_equal(getattr(again, name), getattr(s, name))


# Plain text


@pytest.mark.parametrize("name", ["a.txt", "a", "a.md", "a.tokens"])
def test_text_is_one_stream_with_marked_line_ends(name):
    s = read_samples(file(name, "a b\ta\nb  a\n"), context=2)
    assert s.vocabulary.labels == ("a", "b", "<eos>")
    assert (s.tokens, s.windows, s.rows.sum()) == (7, 5, 1)
    assert contents(s) == words([("ab", "a")])


def test_text_keeps_digits_as_words():
    assert read_samples(file("a.txt", "1 2 1"), context=2).vocabulary.labels == ("1", "2")


def test_windows_line_ends_and_byte_order_marks_are_no_tokens():
    s = read_samples(file("a.txt", b"\xef\xbb\xbfa b\r\na"), context=3)
    assert s.vocabulary.labels == ("a", "b", "<eos>")


def test_text_needs_a_context():
    path = file("a.txt", "a b a")
    assert refusal(UsageError, path) == (
        "a.txt: plain text is cut into contexts of N tokens; say --context N."
    )
    assert refusal(UsageError, path, context=0) == "a.txt: --context must be at least 1, not 0."


def test_text_has_no_columns():
    assert refusal(UsageError, file("a.txt", "a b"), context=1, item="x", order="y") == (
        "a.txt: --item, --order names a column, and only event logs (.csv, .tsv, .parquet, .xes) have "
        "columns."
    )


def test_text_shorter_than_its_context():
    assert refusal(DataError, file("a.txt", "a b a"), context=3) == (
        "a.txt: no window: a context and its label need a sequence of 4 tokens, the longest has 3. "
        "Use a shorter context or longer sequences."
    )


@pytest.mark.parametrize("split", ["stream", "lines", "paragraphs"])
@pytest.mark.parametrize("tokenizer", ["words", "chars"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file is empty"),
        (" \n\n", "nothing but white space"),
        ("\r\n\t", "nothing but white space"),
    ],
)
def test_no_words(text, reason, split, tokenizer):
    path = file("a.txt", text)
    message = refusal(DataError, path, context=1, split=split, tokenizer=tokenizer)
    assert message == f"a.txt: no words: {reason}."


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv"])
def test_other_encodings_are_refused_with_their_place(name):
    path = file(name, "naïve".encode("latin-1"))
    context = None if name == "a.jsonl" else 2
    assert refusal(DataError, path, context=context) == (
        f"{name}: not UTF-8 text: byte 0xef at offset 2 (line 1). Save it as UTF-8."
    )


def test_binary_files_are_no_text():
    message = refusal(DataError, file("a.npy", b"abc\0\1"), context=2)
    assert message == "a.npy: not text: a zero byte at offset 3 (line 1)."


def test_text_naming_rows_of_embeddings():
    path = file("a.txt", "3 1 3\n1\n")
    s = read_samples(path, context=2, vocabulary=Vocabulary(range(4)))
    # Line ends are white space here: no row of the embeddings could stand for them.
    assert contents(s) == words([([3, 1], 3), ([1, 3], 1)])
    path = file("a.txt", "3 1 3\n\n4 x 007 1\n")
    assert refusal(DataError, path, context=2, vocabulary=Vocabulary(range(4))) == (
        "a.txt: 3 tokens outside the vocabulary:\n"
        "  token 4 at line 3: the embeddings have 4 rows, so tokens are 0 … 3\n"
        "  token 'x' at line 3: the embeddings have 4 rows, so tokens are 0 … 3\n"
        "  token '007' at line 3: the embeddings have 4 rows, so tokens are 0 … 3\n"
        "Name only tokens of the vocabulary."
    )


def test_text_over_the_words_of_another_text():
    path = file("a.txt", "a b\n1 a")
    first = read_samples(path, context=4)
    second = read_samples(path, context=4, vocabulary=first.vocabulary)
    assert contents(second) == contents(first)
    assert second.windows == first.windows == 1
    assert refusal(DataError, file("b.txt", "a\nc\n"), context=1, vocabulary=first.vocabulary) == (
        "b.txt: 1 token outside the vocabulary:\n"
        "  token 'c' at line 2: not among the 4 tokens of the vocabulary\n"
        "Name only tokens of the vocabulary."
    )


def test_wikitext(wikitext):
    s = read_samples(wikitext / "valid.txt", context=16)
    assert (s.tokens, len(s.vocabulary), s.windows) == (217_646, 13_777, 217_630)
    assert s.rows.sum() == s.total_weight == 44_722
    assert s.set_aside.rows == 217_630 - 44_722
    assert len(np.unique(s.last)) == 7_251


# Event logs

# Two sequences, interleaved and out of order: u is x y x z, v is y y.
LOG = [("u", "z", 11), ("v", "y", 2), ("u", "x", 1), ("v", "y", 5), ("u", "x", 9), ("u", "y", 2)]
LOG_WINDOWS = [("xy", "x"), ("y", "y")]


def log(name, head=("sequence", "item", "order")):
    separator = "\t" if name.endswith("tsv") else ","
    lines = [head, *LOG]
    return file(name, "\n".join(separator.join(map(str, line)) for line in lines))


@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "LOG.CSV"])
def test_events_are_sorted_inside_their_sequence(name):
    s = read_samples(log(name), context=3)
    # Ids follow the sequences: all of u, which comes first in the file, then v.
    assert s.vocabulary.labels == ("x", "y", "z")
    assert contents(s) == words(LOG_WINDOWS)
    assert (s.tokens, s.windows) == (6, 4)
    assert s.source.tolist() == [2, 5]


def test_parquet_events_are_the_same():
    sequence, item, order = zip(*LOG, strict=True)
    name = table("log.parquet", sequence=sequence, item=item, order=order)
    assert contents(read_samples(name, context=3)) == words(LOG_WINDOWS)
    coded = pa.array(item).dictionary_encode()
    name = table("log.parquet", user=pa.array(sequence).dictionary_encode(), what=coded, at=order)
    s = read_samples(name, context=3, sequence="user", item="what", order="at")
    assert contents(s) == words(LOG_WINDOWS)


def test_columns_have_the_names_they_are_given():
    path = log("log.csv", head=("user", "product", "time"))
    s = read_samples(path, context=3, sequence="user", item="product", order="time")
    assert contents(s) == words(LOG_WINDOWS)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from("uvw"), st.sampled_from("abc"), st.integers(-3, 12)),
        min_size=1,
        max_size=25,
    ),
    st.integers(1, 4),
)
def test_events_are_cut_like_a_naive_loop_does(events, context):
    rows, ids = [], {}
    # Sequences by their first event, those that begin together by name.
    for name in sorted(
        {s for s, _, _ in events}, key=lambda s: (min(t for u, _, t in events if u == s), s)
    ):
        mine = sorted((e for e in events if e[0] == name), key=lambda e: e[2])
        items = [x for _, x, _ in mine]
        ids.update(dict.fromkeys(items))
        rows += [(items[max(0, t - context) : t], x) for t, x in enumerate(items) if t]
    good = [(before, x) for before, x in rows if x in before]
    if not good:
        return
    lines = ["item,order,sequence", *(f"{x},{t},{s}" for s, x, t in events)]
    s = read_samples(file("log.csv", "\n".join(lines)), context=context)
    assert contents(s) == words(good)
    assert s.windows == len(rows)
    assert s.vocabulary.labels == tuple(ids)


def test_a_context_is_no_longer_than_asked():
    path = file("log.csv", "sequence,item\nu,a\nu,b\nu,c\nu,a\nu,c\n")
    assert contents(read_samples(path, context=2)) == words([(["c", "a"], "c")])
    assert contents(read_samples(path, context=3)) == words([("abc", "a"), ("bca", "c")])


def test_without_an_order_the_file_order_counts():
    path = log("log.csv", head=("sequence", "item", "other"))
    s = read_samples(path, context=3)  # u is z x x y, v is y y
    assert contents(s) == words([("zx", "x"), ("y", "y")])


def test_events_at_the_same_time_keep_the_file_order():
    many = [f"u,{x},{t}" for t, x in zip([1, 0] * 30, range(60), strict=True)]
    path = file("log.csv", "\n".join(["sequence,item,order", *many, "u,0,2"]))
    s = read_samples(path, context=60)
    assert list(s.vocabulary) == [*range(1, 60, 2), *range(0, 60, 2)]


@pytest.mark.parametrize(
    ("times", "first"),
    [
        (["10", "9", "11"], "b"),  # whole numbers
        (["1e1", " 9.5", "11"], "b"),  # numbers
        (["-9", "-10", "0"], "b"),
        (["2024-01-02", "2024-01-01", "2024-01-03"], "b"),
        (["t10", "t09", "t95"], "b"),  # codes of one width
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_numbers_sort_by_size_and_times_by_time(times, first, suffix):
    if suffix == ".csv":
        lines = [f"u,{x},{t}" for x, t in zip("aba", times, strict=True)]
        path = file("log.csv", "\n".join(["sequence,item,order", *lines]))
    else:
        path = table("log.parquet", sequence=["u"] * 3, item=list("aba"), order=times)
    assert read_samples(path, context=2).vocabulary[0] == first


def test_an_order_of_numbers_and_text_is_none():
    path = file("log.csv", "sequence,item,time\nu,a,1\nu,b,soon\nu,a,3")
    assert refusal(DataError, path, context=2, order="time") == (
        "log.csv: column 'time' mixes numbers and text, so it gives no order: row 2 has 'soon'. "
        "Mend it or name another --order."
    )


def test_integer_items_stay_integers():
    path = file("log.csv", "sequence,item\nu,12\nu,-3\nu,12\n")
    assert read_samples(path, context=2).vocabulary.labels == (12, -3)
    name = table("log.parquet", sequence=[1, 1, 1], item=pa.array([7, 2, 7], pa.uint8()))
    assert read_samples(name, context=2).vocabulary.labels == (7, 2)


@pytest.mark.parametrize(
    "items",
    [["12", "b", "12"], ["007", "1", "007"], ["1.0", "2.5", "1.0"], ["NA", "null", "NA"]],
)
def test_all_other_items_are_words_as_written(items):
    path = file("log.csv", "\n".join(["sequence,item", *(f"u,{x}" for x in items)]))
    assert list(read_samples(path, context=2).vocabulary) == items[:2]


def test_text_items_of_a_parquet_file_stay_text():
    name = table("log.parquet", sequence=[1, 1, 1], item=["7", "2", "7"])
    assert read_samples(name, context=2).vocabulary.labels == ("7", "2")


def test_quoted_fields_hold_anything():
    path = file("log.csv", 'sequence,item\nu,"a,\n""b"""\nu,""\nu,"a,\n""b"""\n')
    assert read_samples(path, context=2).vocabulary.labels == ('a,\n"b"', "")


def test_quoted_line_ends_survive_in_long_files():
    # Files over a megabyte are parsed in blocks, and a block may end inside of quotes.
    path = file("log.csv", "sequence,item\n" + 'u,"a\nb\n\n\n\n"\n' * 120_000)
    s = read_samples(path, context=1)
    assert s.vocabulary.labels == ("a\nb\n\n\n\n",)
    assert s.tokens == 120_000


def test_missing_columns_are_all_named():
    path = file("log.csv", "user,itm,time\nu,a,1\n")
    assert refusal(DataError, path, context=2, sequence="usr", order="when") == (
        "log.csv: 3 faults:\n"
        "  no column 'usr' for the sequence; did you mean 'user'?\n"
        "  no column 'item' for the item; did you mean 'itm'?\n"
        "  no column 'when' for the order.\n"
        f"Columns found: user, itm, time. {NAME_COLUMNS}"
    )


def test_a_column_asked_for_by_its_default_name_must_exist():
    path = file("log.csv", "sequence,item\nu,a\nu,a\n")
    assert refusal(DataError, path, context=2, order="order") == (
        "log.csv: 1 fault:\n  no column 'order' for the order.\n"
        f"Columns found: sequence, item. {NAME_COLUMNS}"
    )


def test_missing_parquet_columns():
    name = table("log.parquet", sequence=[1], thing=[2])
    assert refusal(DataError, name, context=2) == (
        "log.parquet: 1 fault:\n  no column 'item' for the item.\n"
        f"Columns found: sequence, thing. {NAME_COLUMNS}"
    )


def test_a_column_name_that_occurs_twice():
    path = file("log.csv", "sequence,item,item\nu,a,b\n")
    assert refusal(DataError, path, context=2) == (
        "log.csv: 1 fault:\n  2 columns are called 'item'.\n"
        f"Columns found: sequence, item, item. {NAME_COLUMNS}"
    )


def test_empty_fields_are_all_named():
    path = file("log.csv", "sequence,item,order\nu,a,1\nu,,2\n,a,\nu,b,3\n")
    assert refusal(DataError, path, context=2) == (
        "log.csv: 3 empty fields (the first event is row 1):\n"
        "  row 2: no item in column 'item'\n"
        "  row 3: no sequence in column 'sequence'\n"
        "  row 3: no order in column 'order'\n"
        "Fill them or drop the rows."
    )


def test_nulls_of_a_parquet_file_are_empty_fields():
    nan = float("nan")
    name = table("log.parquet", sequence=[1, 1, 1], item=[5, None, 5], order=[1.0, 2.0, nan])
    assert refusal(DataError, name, context=2) == (
        "log.parquet: 2 empty fields (the first event is row 1):\n"
        "  row 2: no item in column 'item'\n"
        "  row 3: no order in column 'order'\n"
        "Fill them or drop the rows."
    )


def test_events_naming_rows_of_embeddings():
    path = file("log.csv", "sequence,item,order\nu,1,3\nu,6,2\nu,1,1\n")
    assert refusal(DataError, path, context=2, vocabulary=Vocabulary(range(6))) == (
        "log.csv: 1 token outside the vocabulary:\n"
        "  token 6 at row 2: the embeddings have 6 rows, so tokens are 0 … 5\n"
        "Name only tokens of the vocabulary."
    )
    s = read_samples(path, context=2, vocabulary=Vocabulary(range(7)))
    assert (s.last.tolist(), s.label.tolist()) == ([6], [1])


def test_events_need_a_context():
    assert refusal(UsageError, log("log.csv")) == (
        "log.csv: an event log is cut into contexts of N tokens; say --context N."
    )


def test_sequences_of_one_event():
    path = file("log.csv", "sequence,item\nu,a\nv,a\n")
    assert refusal(DataError, path, context=2) == (
        "log.csv: every sequence is a single event, so no event has a context. "
        "Does column 'sequence' name the sequence?"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "the file is empty."), ("sequence,item\n", "the file has no rows.")],
)
def test_no_events(text, reason):
    message = refusal(DataError, file("log.csv", text), context=2)
    assert message == f"log.csv: no events: {reason}"


@pytest.mark.parametrize(
    ("name", "text"), [("log.csv", "sequence,item\nu,a,b\n"), ("log.parquet", "no parquet")]
)
def test_broken_tables(name, text):
    message = refusal(DataError, file(name, text), context=2)
    assert message.startswith(f"{name}: cannot be read as an event log: ")


@pytest.mark.parametrize("role", ["sequence", "item", "order"])
def test_columns_of_lists_are_refused(role):
    columns = {"sequence": [1, 1], "item": [1, 1], "order": [1, 2], role: [[1], [1]]}
    message = refusal(DataError, table("log.parquet", **columns), context=2)
    said = "column 'order' holds list" if role == "order" else "cannot be read as an event log: "
    assert message.startswith(f"log.parquet: {said}")


# Files


def test_no_such_file():
    file("samples.jsonl", "")
    assert refusal(DataError, "smaples.jsonl") == (
        "smaples.jsonl: no such file; did you mean 'samples.jsonl'?"
    )
    assert refusal(DataError, "unlike.bin") == "unlike.bin: no such file."
    assert refusal(DataError, "nowhere/samples.jsonl") == "nowhere/samples.jsonl: no such file."


def test_a_directory_is_no_file():
    Path("data.jsonl").mkdir()
    assert refusal(DataError, "data.jsonl") == (
        "data.jsonl: a directory, not a file; name one file in it."
    )


@pytest.mark.parametrize("name", ["a.jsonl", "a.txt", "a.csv"])
def test_a_file_the_system_will_not_open(monkeypatch, name):
    def refuse(self, *mode):
        raise PermissionError(13, "Permission denied")

    path = file(name, "a b a")
    monkeypatch.setattr(Path, "open", refuse)  # file modes would not stop root
    context = None if name == "a.jsonl" else 2
    message = refusal(DataError, path, context=context)
    assert message == f"{name}: cannot be read: Permission denied"
