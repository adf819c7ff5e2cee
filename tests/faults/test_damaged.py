"""Damaged pieces of interrupted work, and damage that no format notices: refused with words, never in silence."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import attomaton
from attomaton.corpus.readers import read_samples
from attomaton.disk.formats import read_arrays, read_rows, write_arrays, write_columns
from attomaton.disk.storage import seal
from attomaton.errors import DataError, UsageError
from attomaton.folders.model import open_model, save_model
from attomaton.folders.sweep import cells_of, parse_grid
from attomaton.jobs.train import _Kept
from attomaton.mechanics.experiment.course import unpacked
from attomaton.mechanics.experiment.steps import Plan, first_state
from attomaton.mechanics.theory.limit import solve_limit
from faults import seeds

SOURCES = sorted(Path(attomaton.__file__).parent.rglob("*.py"))
FORBIDDEN = re.compile(
    r"^\s*(import|from) (pickle|dill|cloudpickle|joblib|marshal|shelve)\b"
    r"|allow_pickle=(?!False)|(?<![.\w])(eval|exec)\(",
    re.MULTILINE,
)


class Every(NamedTuple):
    """As much of a plan as is looked at."""

    every: int


@pytest.fixture
def kept(tmp_path):
    seeds.checkpoint(tmp_path)
    return tmp_path / "checkpoint.safetensors"


def taken_up(path):
    plan = Plan("adam", "identity", "log", None, None, shared=True, beta1=0.9, beta2=0.999)
    first = first_state(plan, np.zeros((2, 3)))
    return unpacked(_Kept(path).load(), first, 5)


def test_a_whole_checkpoint_is_taken_up(kept):
    state, parts = taken_up(kept)
    assert state.params.shape == (2, 3)
    assert len(parts) == 2


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("step", lambda x: x[:0]),
        ("step", lambda x: x.astype(float)),
        ("params", lambda x: x[:, :2]),
        ("params", lambda x: x.astype(np.float32)),
        ("moment/1", lambda x: x[:1]),
        ("record/norm", lambda x: x[:, :, :4]),
        ("record/loss", lambda x: None),
    ],
)
def test_a_checkpoint_that_does_not_fit_says_to_start_anew(kept, name, change):
    arrays = read_arrays(kept)
    changed = change(arrays.pop(name))
    write_arrays(kept, arrays if changed is None else {**arrays, name: changed})
    with pytest.raises(DataError, match="start anew"):
        taken_up(kept)


def test_a_damaged_checkpoint_of_the_transformer_says_to_start_anew():
    from attomaton.transformer.train import _Course, _restored, _State

    windows = np.zeros((1, 1, 2), np.int64)
    course = _Course(Every(2), np.ones(1), 2, 0, 10, windows, None, None, False)
    state = _State({"U": np.zeros((2, 3), np.float32)}, ())
    whole = {
        "name": course.name, "step": np.array([4]), "loss": np.zeros((2, 4)),
        "params['U']": np.ones((2, 3), np.float32), "records.entropy": np.zeros((2, 3, 1)),
    }  # fmt: skip
    assert _restored(course, whole, state).params["U"].sum() == 6
    for name, wrong in (
        ("name", course.name[:3]), ("step", np.array([12])), ("step", np.array([4.0])), ("loss", np.zeros((2, 3))),
        ("params['U']", np.ones((2, 3))), ("params['U']", np.ones((3, 2), np.float32)),
        ("records.entropy", np.zeros((2, 2, 1))),
    ):  # fmt: skip
        with pytest.raises(DataError, match="start anew"):
            _restored(course, {**whole, name: wrong}, state)


@pytest.mark.parametrize(
    ("table", "name", "change"),
    [
        ("pairs", "token", lambda x: x + 100),
        ("pairs", "component", lambda x: x + 2**30),
        ("pairs", "last", lambda x: -x[::-1]),
        ("edges", "to", lambda x: x * 0),
        ("samples", "label", lambda x: x * 0 + x.max()),
        ("samples", "weight", lambda x: -x),
        ("samples", "rows", lambda x: x * 0),
    ],
)
def test_columns_that_contradict_each_other_are_refused_on_opening(tmp_path, table, name, change):
    seeds.rows(tmp_path)
    model = tmp_path / "m"
    save_model(solve_limit(read_samples(tmp_path / "a.jsonl")), model, {})
    open_model(model)
    path = model / table / "000.parquet"
    rewritten(path, name, change)
    seal(model)
    with pytest.raises(DataError, match=table):
        open_model(model)


def rewritten(path, name, change):
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    columns = {k: table[k] for k in table.column_names}
    write_columns(path, {**columns, name: change(table[name].to_numpy())})


def test_a_model_whose_vocabulary_lost_a_word_is_refused(tmp_path):
    seeds.model(tmp_path)
    path = tmp_path / "model" / "vocabulary.json"
    words = path.read_text()
    open_model(tmp_path / "model")
    path.write_text(words.replace("  7,\n", "").replace(',\n  "jug"', ""))
    seal(tmp_path / "model")
    with pytest.raises(DataError, match="pairs"):
        open_model(tmp_path / "model")


@pytest.mark.parametrize("word", ["eta_z=nan", f"eta_z={'9' * 400}", "eta_z=1e200", "eta_z=inf"])
def test_numbers_no_run_could_take_are_refused_in_a_grid(word):
    assert cells_of(parse_grid(["eta_z=1", "ratio=2"]), ["syn-small"], "reduced")
    with pytest.raises(UsageError, match="a number is needed"):
        cells_of(parse_grid([word, "ratio=2"]), ["syn-small"], "reduced")


def test_a_grid_of_too_many_cells_is_refused_before_it_is_made():
    many = ",".join(map(str, range(1, 2001)))
    with pytest.raises(UsageError, match="4,000,000 cells"):
        cells_of(parse_grid([f"eta_z={many}", f"ratio={many}"]), ["syn-small"], "reduced")


def test_half_a_character_is_no_label(tmp_path):
    path = tmp_path / "a.jsonl"
    row = '{"tokens": ["a", "%s"], "next": "a"}\n'
    path.write_text(row % "\\ud83d\\ude00")
    assert read_samples(path).vocabulary[1] == "😀"
    path.write_text(row % "\\ud800")
    with pytest.raises(DataError, match=r"line 1: .* half a character") as caught:
        read_samples(path)
    assert str(caught.value).encode()


def test_rows_are_found_by_last_token_in_files_without_statistics(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    table = pa.table({"last": np.array([0, 1, 1]), "x": np.arange(3.0)})
    for told in (True, False):
        pq.write_table(table, path, write_statistics=told)
        assert read_rows([path], ["last", "x"], "last", np.array([1]))["x"].tolist() == [1.0, 2.0]


def test_nothing_is_pickled_or_run_from_a_file():
    assert len(SOURCES) > 100
    assert FORBIDDEN.search("x = np.load(path, allow_pickle=True)")
    for path in SOURCES:
        found = FORBIDDEN.search(path.read_text(encoding="utf-8"))
        assert found is None, (path, found)
