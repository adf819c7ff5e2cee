"""Bombs: small files that would become gigabytes are refused before they do, in processes whose memory is measured."""

import json
import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attomaton.corpus.example import example_samples
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.tokenisers import named_tokeniser
from attomaton.disk import doors, pages
from attomaton.disk.formats import read_arrays, read_json, read_rows, read_table, write_columns
from attomaton.disk.pages import read_footer
from attomaton.disk.storage import seal
from attomaton.errors import DataError
from attomaton.folders.model import open_model, save_model
from attomaton.jobs.fit import fit_run
from attomaton.mechanics.theory.limit import solve_limit

MOST = 1000  # MB that any of them may take, Python and its libraries included
# What a child does: reads, says how it ended and what it took at most.
CHILD = """
import re, sys
from pathlib import Path
from attomaton.errors import DataError
path = Path(sys.argv[1])
try:
    {call}
    print("read")
except DataError as error:
    print("refused:", error)
# Not `getrusage`, which counts what the process was before it became this one.
print(int(re.search("VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""
EVENTS = "from attomaton.corpus.readers import read_windows; read_windows(path, context=2)"
ROWS = "from attomaton.disk.formats import read_rows; read_rows([path], ['last', 'tokens'], 'last', None)"


def ended(call, path):
    """How a reader took a file, if it kept within its memory."""
    words = [sys.executable, "-c", CHILD.format(call=call), str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    *said, peak = done.stdout.splitlines()
    assert int(peak) < MOST
    return "\n".join(said)


def few_bytes_many_values(path):
    zeros = np.zeros(4_000_000, np.int64)
    table = pa.table({"sequence": zeros, "item": zeros})
    with pq.ParquetWriter(path, table.schema, compression="zstd") as file:
        for _ in range(20):
            file.write_table(table, row_group_size=len(zeros))


def one_text_in_every_row(path):
    item = pa.DictionaryArray.from_arrays(np.zeros(100_000, np.int32), pa.array(["x" * 100_000]))
    table = pa.table({"sequence": np.zeros(100_000, np.int64), "item": item})
    pq.write_table(table, path, compression="zstd")


def one_long_text(path):
    pq.write_table(pa.table({"sequence": ["s", "s"], "item": ["a" * 80_000_000, "b"]}), path)


def texts_by_their_beginning(path):
    table = pa.table({"sequence": np.zeros(1200, np.int64), "item": ["x" * 300_000] * 1200})
    how = {"sequence": "PLAIN", "item": "DELTA_BYTE_ARRAY"}
    pq.write_table(
        table, path, compression="zstd", use_dictionary=False, column_encoding=how,
        data_page_size=1 << 30,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (few_bytes_many_values, "would take at least 1.92 GB"),
        (one_text_in_every_row, "would take at least 10 GB"),
        (one_long_text, "holds a text of 80,000,000 bytes"),
        (texts_by_their_beginning, "would take at least"),
    ],
)
def test_an_event_log_that_would_take_gigabytes_is_refused(tmp_path, make, said):
    make(tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 5_000_000
    told = ended(EVENTS, tmp_path / "a.parquet")
    assert told.startswith("refused:")
    assert said in told
    assert "text of" in told or "ATTOMATON_MEMORY=" in told


def test_a_compressed_text_that_would_unpack_to_gigabytes_is_refused(tmp_path):
    path = tmp_path / "a.txt.zst"
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        for _ in range(2000):
            file.write(b"x" * (1 << 20))
    assert path.stat().st_size < 500_000
    assert "would unpack to more than 268 MB" in ended(EVENTS, path)


def test_a_bomb_in_a_column_nobody_asked_for_harms_nobody(tmp_path):
    path = tmp_path / "a.parquet"
    item = pa.DictionaryArray.from_arrays(np.zeros(9000, np.int32), pa.array(["x" * 1_000_000]))
    pq.write_table(pa.table({"sequence": [0] * 9000, "item": [1, 2, 3] * 3000, "note": item}), path)
    assert ended(EVENTS, path) == "read"


def test_a_list_in_a_model_that_would_take_gigabytes_is_refused(tmp_path):
    path = tmp_path / "000.parquet"
    values = pa.array(np.zeros(40_000_000, np.int32))
    tokens = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
    write_columns(path, {"last": np.zeros(1, np.int32), "tokens": tokens})
    assert path.stat().st_size < 5_000_000
    assert "000.parquet: its" in ended(ROWS, path)


def test_texts_by_their_beginning_are_read_where_they_are_short(tmp_path):
    path = tmp_path / "a.parquet"
    items = [f"item {i % 7}" for i in range(5000)]
    how = {"sequence": "PLAIN", "item": "DELTA_BYTE_ARRAY"}
    pq.write_table(
        pa.table({"sequence": np.zeros(5000, np.int64), "item": items}), path,
        use_dictionary=False, column_encoding=how,
    )  # fmt: skip
    windows = read_windows(path, Reading(context=2))
    assert [windows.vocabulary[i] for i in windows.ids] == items


def test_whoever_trusts_a_file_may_read_it(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.zeros(30_000_000, np.int64)}), path)
    with pytest.raises(DataError, match="ATTOMATON_MEMORY=1 "):
        read_table(path)
    monkeypatch.setenv("ATTOMATON_MEMORY", "1")
    assert read_table(path).num_rows == 30_000_000


def test_json_of_millions_of_empty_lists_is_refused(tmp_path):
    (tmp_path / "a.json").write_text("[" + "[]," * 4_000_000 + "[]]")
    call = "from attomaton.disk.formats import read_json; read_json(path)"
    assert "a.json: its 12 MB would take at least" in ended(call, tmp_path / "a.json")


TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": None, "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"a": 0, "?": 1}, "unk_token": "?"},
}  # fmt: skip


def tokenizer(path, **parts):
    path.write_text(json.dumps({**TOKENIZER, **parts}))
    return str(path)


def replacing(old, new):
    return {"type": "Replace", "pattern": old, "content": new}


def test_a_tokenizer_that_replaces_what_it_replaced_is_refused(tmp_path):
    pytest.importorskip("tokenizers")
    bomb = {"type": "Sequence", "normalizers": [replacing({"String": "a"}, "a" * 10)] * 10}
    path = tokenizer(tmp_path / "t.json", normalizer=bomb)
    call = f"from attomaton.corpus.tokenisers import named_tokeniser; list(named_tokeniser({path!r}).tokens(['a']))"
    assert "may make a text 10,000,000,000 times as long" in ended(call, tmp_path)
    by_pattern = {"type": "Sequence", "normalizers": [replacing({"Regex": ""}, "a" * 40)] * 2}
    with pytest.raises(DataError, match="1,681 times"):
        named_tokeniser(tokenizer(tmp_path / "t.json", normalizer=by_pattern))


def test_a_tokenizer_that_replaces_some_is_read_a_few_lines_at_a_time(tmp_path):
    pytest.importorskip("tokenizers")
    some = {"type": "Sequence", "normalizers": [replacing({"String": "b"}, "a" * 30)] * 2}
    path = tokenizer(
        tmp_path / "t.json", normalizer=some, pre_tokenizer={"type": "WhitespaceSplit"}
    )
    lines = ["a a " * 500] * 30
    assert list(named_tokeniser(path).tokens(lines)) == [["a"] * 1000] * 30


def test_a_tokenizer_adds_nothing_to_a_line_whatever_its_template_says(tmp_path):
    pytest.importorskip("tokenizers")
    line = {"Sequence": {"id": "A", "type_id": 0}}
    twice = {
        "type": "TemplateProcessing",
        "single": [line] * 50,
        "pair": [line],
        "special_tokens": {},
    }
    path = tokenizer(tmp_path / "t.json", post_processor=twice)
    assert list(named_tokeniser(path).tokens(["a"])) == [["a"]]


# Arrays and numbers


def safetensors(path, header, content=b"", length=None):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + content)
    return path


def entry(kind, shape, begin, end):
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("header", "content", "said"),
    [
        ({"W": entry("F8_E4M3", [4], 0, 4)}, bytes(4), "array 'W' is 'F8_E4M3'"),
        ({"W": entry("BF16", [2], 0, 4)}, bytes(4), "array 'W' is 'BF16'"),
        ({"W": entry("I64", [1 << 61, 8], 0, 0)}, b"", "is not"),
        ({"W": entry("F64", [1 << 40], 0, 8 << 40)}, bytes(8), "end at"),
        ({"W": entry("F64", [1], 0, 8), "V": entry("F64", [1], 0, 8)}, bytes(8), "overlap"),
        ({"W": entry("F64", [1], 8, 16)}, bytes(16), "gaps"),
        ({"W": entry("F64", [-1], 0, 8)}, bytes(8), "no shape"),
        ({"W": [1]}, b"", "no place"),
        ([1], b"", "not a table"),
    ],
)
def test_arrays_that_are_not_what_their_header_says_are_refused(tmp_path, header, content, said):
    with pytest.raises(DataError, match=rf"a\.safetensors: .*{said}"):
        read_arrays(safetensors(tmp_path / "a.safetensors", header, content))


@pytest.mark.parametrize("length", [1, 100_000_000, 1 << 63])
def test_a_header_of_another_length_is_refused(tmp_path, length):
    with pytest.raises(DataError, match=r"a\.safetensors: cannot be read as safetensors"):
        read_arrays(safetensors(tmp_path / "a.safetensors", {}, b"", length))


def test_what_the_library_writes_is_what_is_read(tmp_path):
    from safetensors.numpy import save_file

    arrays = {
        f"{kind}{ndim}": np.arange(2**ndim).reshape((2,) * ndim).astype(kind)
        for kind in ("?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8")
        for ndim in range(4)
    } | {"empty": np.zeros((0, 3))}
    save_file(arrays, tmp_path / "a.safetensors", {"by": "the library"})
    found = read_arrays(tmp_path / "a.safetensors")
    assert {k: (v.dtype, v.tolist()) for k, v in found.items()} == {
        k: (v.dtype, v.tolist()) for k, v in arrays.items()
    }


@pytest.fixture
def model(tmp_path):
    save_model(solve_limit(example_samples()), tmp_path / "m", {"data": "example"})
    return tmp_path / "m"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_number_column_of_a_model_that_is_not_finite_is_named(model, value):
    path = model / "pairs" / "000.parquet"
    table = pq.read_table(path)
    column = np.full(table.num_rows, value)
    write_columns(path, {k: table[k] for k in table.column_names} | {"svm_score": column})
    seal(model)
    with pytest.raises(DataError, match="column 'svm_score' holds numbers that are not finite"):
        open_model(model)


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999"])
def test_a_number_of_a_record_that_is_not_finite_is_named(model, value):
    path = model / "model.json"
    record = read_json(path)
    record["summary"]["certificates"]["svm_gap"] = "HERE"
    path.write_text(json.dumps(record).replace('"HERE"', value))
    seal(model)
    with pytest.raises(DataError, match=r"not finite, summary\.certificates\.svm_gap;"):
        open_model(model)


# Footers and pages


def test_a_footer_says_what_arrow_says_of_it(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"last": np.arange(1000), "a.b": ["x"] * 1000, "l": [[1, 2]] * 1000})
    pq.write_table(table, path, row_group_size=300)
    metadata = pq.ParquetFile(path).metadata
    with path.open("rb") as file:
        footer = read_footer(path, file.fileno())
    assert [leaf.path for leaf in footer.leaves] == [
        metadata.schema.column(i).path for i in range(metadata.num_columns)
    ]
    for i, group in enumerate(footer.groups):
        for j, column in enumerate(group):
            seen = metadata.row_group(i).column(j)
            assert (column[5], column[7], column[9]) == (
                seen.num_values, seen.total_compressed_size, seen.data_page_offset,
            )  # fmt: skip
    assert footer.groups_with("last", np.array([299, 300])) == [0, 1]
    assert footer.groups_with("a.b", np.array([0])) == [0, 1, 2, 3]
    found = read_rows([path], ["last"], "last", np.array([299, 300, 5000]))
    assert found["last"].tolist() == [299, 300]


def test_a_footer_that_is_none_is_refused(tmp_path):
    for content in (b"", b"PAR1", b"PAR1PAR1PAR1", b"PAR1" + b"\xff" * 90 + b"\x5a\0\0\0PAR1"):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(DataError, match=r"a\.parquet: cannot be read as Parquet"):
            read_table(tmp_path / "a.parquet")
        with pytest.raises(DataError, match=r"a\.parquet: cannot be read as Parquet"):
            read_rows([tmp_path / "a.parquet"], ["last"], "last", None)


def test_a_row_of_separated_values_without_an_end_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("sequence,item\n1," + "a" * 3_000_000)
    with pytest.raises(DataError, match=r"a\.csv: cannot be read as an event log"):
        read_windows(tmp_path / "a.csv", Reading(context=2))


def test_a_model_of_text_stays_within_what_its_files_may_take(wikitext, tmp_path, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_bytes((wikitext / "valid.txt").read_bytes()[:600_000])
    fit_run(text, tmp_path / "model", reading=Reading(context=32))
    monkeypatch.setattr(doors, "FLOOR", 0)  # as if the model were large
    open_model(tmp_path / "model")
    monkeypatch.setattr(pages, "PRESSED", 1)  # Control: the bound is asked.
    with pytest.raises(DataError, match="would take at least"):
        open_model(tmp_path / "model")
