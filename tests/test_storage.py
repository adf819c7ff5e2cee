"""What readers refuse: files too large, too deep, of another kind or out of order; and, beside it, what they take."""

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attomaton.disk import formats
from attomaton.disk.formats import (
    expect_arrays,
    read_arrays,
    read_json,
    read_matrix,
    read_rows,
    read_table,
    read_toml,
    write_arrays,
    write_columns,
)
from attomaton.disk.locks import in_progress
from attomaton.disk.records import as_record
from attomaton.disk.storage import check_folder, new_folder, work_folder
from attomaton.errors import DataError, StorageError


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 65 + "]" * 65, "nested more than 64 levels"),
        ("[" * 100_000, "cannot be read as JSON"),
        ('{"a": NaN}', "not finite"),
        ('{"a": [1e999]}', "not finite"),
        (f'{{"a": {2**63}}}', "more than 64 bits"),
        ("9" * 5000, "cannot be read as JSON"),
        ('["\\ud800"]', "cannot be read as JSON"),
        ('{"a": 1', "cannot be read as JSON"),
        ("\xff", "cannot be read as JSON"),
    ],
)
def test_json_that_later_code_could_not_bear_is_refused(tmp_path, text, said):
    path = tmp_path / "a.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=said) as caught:
        read_json(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_json_within_the_limits_is_read(tmp_path):
    path = tmp_path / "a.json"
    for text in ("[" * 64 + "]" * 64, f"[{2**63 - 1}, 1e308]", '["\\ud83d\\ude00"]'):
        path.write_text(text)
        assert read_json(path) == json.loads(text)


def test_a_file_beyond_the_limit_is_not_even_read(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text('{"a": 1}')
    assert read_json(path) == {"a": 1}
    monkeypatch.setattr(formats, "MOST_BYTES", 7)
    with pytest.raises(DataError, match="larger than"):
        read_json(path)


@pytest.mark.parametrize(
    "text", ["a = ", "a = nan", f"a = {'9' * 5000}", f"a = {'[' * 3000}", "\xff"]
)
def test_settings_that_are_none_are_refused(tmp_path, text):
    path = tmp_path / "a.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.toml"):
        read_toml(path)
    path.write_text('a = 1\nb = "c"\n')
    assert read_toml(path) == {"a": 1, "b": "c"}


@dataclass(frozen=True)
class More:
    word: str


@dataclass(frozen=True)
class Form:
    n: int
    x: tuple[float | None, ...]
    more: More = More("")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"n": True, "x": []}, "n"),
        ({"n": 1.0, "x": []}, "n"),
        ({"n": 1, "x": [0.5, "1"]}, r"x\[1\]"),
        ({"n": 1, "x": [], "more": {"word": 3}}, r"more\.word"),
        ({"x": []}, "n"),
        ([], "the record"),
    ],
)
def test_what_differs_from_its_form_is_named(tmp_path, value, place):
    found = as_record(Form, {"n": 1, "x": [1, None, "inf", 0.5], "other": 1}, tmp_path)
    assert found == Form(1, (1.0, None, np.inf, 0.5))
    with pytest.raises(DataError, match=f": {place} is missing or not of its kind"):
        as_record(Form, value, tmp_path)


def columns(**changed):
    return {"key": np.array([0, 1, 1, 4]), "x": np.arange(4.0), **changed}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"key": np.array([0, 1, 4, 1])}, "not in the order"),
        ({"key": np.array([0.0, 1.0, 1.0, 4.0])}, "not in the order"),
        ({"x": np.array([0, 1, np.nan, 3])}, "not finite"),
        ({"x": np.array([0, 1, np.inf, 3])}, "not finite"),
        ({"x": pa.array([0.5, None, 1.5, 2.5])}, "empty places"),
        ({"x": ["a", "b", "c", "d"]}, "not numbers"),
        ({"x": pa.array([[1], [2], [3], [None]], pa.large_list(pa.int64()))}, "empty places"),
    ],
)
def test_columns_of_another_kind_are_refused(tmp_path, changed, said):
    path = tmp_path / "a.parquet"
    write_columns(path, columns())
    for names in (["key", "x"], ["x"]):
        found = read_rows([path], names, "key", np.array([1]))
        assert found["x"].tolist() == [1.0, 2.0]
        assert list(found) == names
    write_columns(path, columns(**changed))
    with pytest.raises(DataError, match=said):
        read_rows([path], ["key", "x"], "key", None)


def test_one_flipped_bit_of_a_column_is_noticed(tmp_path):
    path = tmp_path / "a.parquet"
    numbers = {"key": np.arange(1000), "x": np.random.default_rng(0).random(1000)}
    write_columns(path, numbers)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    for read in (lambda: read_table(path), lambda: read_rows([path], ["x"], "key", None)):
        with pytest.raises(DataError, match=r"a\.parquet: cannot be read as Parquet"):
            read()


def test_without_its_checksum_the_flipped_bit_would_be_another_number(tmp_path):
    path, numbers = tmp_path / "a.parquet", np.random.default_rng(0).random(1000)
    pq.write_table(pa.table({"x": numbers}), path, use_dictionary=False, compression=None)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert (read_table(path)["x"].to_numpy() != numbers).sum() == 1


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 2), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }",
        "{'descr': '<c16', 'fortran_order': False, 'shape': (1, 2), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2",
        "(" * 3000,
        "__import__('os').abort()",
    ],
)
def test_a_matrix_with_a_strange_header_is_refused(tmp_path, header):
    path = tmp_path / "a.npy"
    np.save(path, np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]))
    assert read_matrix(path, "E").tolist() == [[1.0, 2.0], [3.0, 4.0]]
    size = len(header).to_bytes(2, "little")
    path.write_bytes(b"\x93NUMPY\x01\x00" + size + header.encode() + bytes(32))
    with pytest.raises(DataError, match=r"E: .*a\.npy cannot be read as \.npy"):
        read_matrix(path, "E")


@pytest.mark.parametrize("start", [b"PK\x03\x04", b"\x80\x04\x95", b""])
def test_an_archive_or_a_pickle_is_no_matrix(tmp_path, start):
    path = tmp_path / "a.npy"
    path.write_bytes(start + bytes(100))
    with pytest.raises(DataError, match=r"cannot be read as \.npy"):
        read_matrix(path, "E")


def test_arrays_of_another_shape_or_kind_are_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    write_arrays(path, {"x": np.zeros((2, 3)), "n": np.arange(3)})
    found = read_arrays(path)
    expect_arrays(path, found, {"x": ("f", (2, None)), "n": ("i", (3,))})
    for wrong in (
        {"x": ("f", (3, 2))},
        {"x": ("i", (2, 3))},
        {"n": ("i", (3, 1))},
        {"y": ("f", ())},
    ):
        with pytest.raises(DataError, match="not of the kind that was written"):
            expect_arrays(path, found, wrong)
    write_arrays(path, {"x": np.array([1.0, np.nan])})
    with pytest.raises(DataError, match="not finite"):
        read_arrays(path)


@pytest.mark.parametrize("mark", ["[]", "3", '{"kind": 3, "schema_version": 1}', '{"kind": "run"}'])
def test_a_folder_whose_mark_is_damaged_is_named(tmp_path, mark):
    with new_folder(tmp_path / "r", "train"):
        pass
    assert check_folder(tmp_path / "r", "run") == tmp_path / "r"
    (tmp_path / "r" / "attomaton.json").write_text(mark)
    with pytest.raises(DataError, match=r"attomaton\.json: .* not of its kind"):
        check_folder(tmp_path / "r", "run")


def test_work_in_progress_is_known_until_it_has_ended(tmp_path):
    work = tmp_path / ".run.partial"

    def ends(how=None):
        with work_folder(tmp_path / "run", "train", {}):
            assert in_progress() == [work]
            if how is not None:
                raise how

    for how in (OSError, DataError):
        with pytest.raises((StorageError, DataError)):
            ends(how)
        assert in_progress() == []
    with pytest.raises(KeyboardInterrupt):
        ends(KeyboardInterrupt)
    assert in_progress() == [work]
    ends()
    assert in_progress() == []
