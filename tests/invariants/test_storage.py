"""What is written is read back: records, arrays, tables, models, grids and ledgers."""

import json
import math
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from tests.invariants.harness import holds_for, refuted
from tests.invariants.strategies import contexts, data, embeddings, pick, seeds, solved

from attomaton.corpus.readers import read_samples, write_jsonl
from attomaton.disk import formats as formats_room
from attomaton.disk import ledger as ledger_room
from attomaton.disk.formats import (
    plain,
    read_arrays,
    read_json,
    read_rows,
    write_arrays,
    write_columns,
    write_json,
)
from attomaton.disk.ledger import Ledger, read_ledger
from attomaton.errors import DataError
from attomaton.folders.model import open_model, save_model
from attomaton.folders.sweep import grid_words, parse_grid
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.limit import merge_summaries

# Hypothesis seldom draws what is hard about floats by itself.
floats = st.floats() | st.sampled_from([math.inf, -math.inf, math.nan, -0.0, 5e-324, 0.1])
strings = st.text('aé"\\\n\u2028😀', max_size=3)
records = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | floats | strings,
    lambda x: st.lists(x, max_size=3) | st.dictionaries(strings, x, max_size=3),
    max_leaves=8,
)
words = st.text("abcdefgxyz_", min_size=1, max_size=6).filter(lambda w: w not in ("nan",))
values = st.one_of(
    st.booleans(), st.integers(-99, 99), st.floats(allow_nan=False), words.map(lambda w: f"w{w}")
)
LIMITS = {
    "samples": ("last", "label", "weight", "start", "token", "count", "rows", "source"),
    "graph": ("pair_last", "pair_token", "edge_from", "edge_to", "edge_weight", "component",
              "level"),
    "svm": ("coefficient", "score", "multiplier", "norm"),
    "finite": ("log_pi", "coefficient", "score", "loss_floor"),
}  # fmt: skip


def folder():
    return tempfile.TemporaryDirectory(prefix="attomaton-")


def told(value):
    """What a JSON record says of a value, by the contract: infinities in words, NaN as nothing."""
    if isinstance(value, dict):
        return {k: told(v) for k, v in value.items()}
    if isinstance(value, list):
        return [told(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def same(a, b):
    """Equal to the last bit, the sign of zero and the type included."""
    return repr(a) == repr(b)


@holds_for(records)
def test_records_are_read_as_written(record):
    with folder() as at:
        path = Path(at) / "record.json"
        write_json(path, record)
        assert same(read_json(path), told(record))
    assert same(plain(plain(record)), plain(record))


@holds_for(
    st.dictionaries(st.sampled_from("abc"), st.lists(floats, max_size=6), max_size=3), share=0.5
)
def test_arrays_are_read_bit_by_bit(lists):
    arrays = {name: np.array(row, float) for name, row in lists.items()}
    with folder() as at:
        path = Path(at) / "arrays.safetensors"
        write_arrays(path, arrays)
        found = read_arrays(path, finite=False)
    assert found.keys() == arrays.keys()
    for name, row in arrays.items():
        np.testing.assert_array_equal(found[name].view(np.uint64), row.view(np.uint64))


@holds_for(
    st.lists(st.lists(st.integers(0, 9), max_size=8), min_size=1, max_size=3),
    st.lists(st.integers(0, 9), max_size=4, unique=True),
    st.integers(1, 4),
    share=0.25,
)
def test_wanted_rows_are_a_filter_of_all_rows(files, wanted, group):
    """However rows are grouped in their files."""
    keys = sorted(x for file in files for x in file)
    ends = np.cumsum([0, *map(len, files)])
    with folder() as at:
        paths = []
        for i in range(len(files)):
            paths.append(Path(at) / f"{i}.parquet")
            part = np.array(keys[ends[i] : ends[i + 1]], np.int64)
            write_columns(paths[-1], {"last": part, "twice": 2 * part}, group)
        whole = read_rows(paths, ("last", "twice"), "last", None)
        some = read_rows(paths, ("last", "twice"), "last", np.array(sorted(wanted), np.int64))
    assert whole["last"].tolist() == keys
    assert some["last"].tolist() == [x for x in keys if x in wanted]
    assert some["twice"].tolist() == [2 * x for x in keys if x in wanted]


@holds_for(data(), share=0.25)
def test_samples_in_a_file_are_the_samples(raw):
    """Tokens come by id in a file, so labels keep their names while ids may change."""

    def contents(samples):
        names = samples.vocabulary
        return {
            (names[samples.last[i]], names[samples.label[i]], tuple(sorted(samples.bag(i).items()))):
            samples.weight[i] for i in range(len(samples))
        }  # fmt: skip

    samples = raw.samples()
    with folder() as at:
        again = read_samples(write_jsonl(samples, Path(at) / "samples.jsonl"))
    assert contents(again) == contents(samples)


@holds_for(data(), seeds, st.booleans(), share=0.1)
def test_a_model_is_opened_as_it_was_saved(raw, seed, coupled):
    limit = solved(raw, embeddings(seed, raw.K) if coupled else None)
    with folder() as at:
        save_model(limit, Path(at) / "model", {})
        again = open_model(Path(at) / "model")
        for part, names in LIMITS.items():
            for name in names:
                np.testing.assert_array_equal(
                    getattr(getattr(again, part), name), getattr(getattr(limit, part), name)
                )


@holds_for(data(), contexts(), share=0.1)
def test_a_model_opened_by_last_token_answers_as_the_whole(raw, context):
    limit = solved(raw)
    row = [x % raw.K for x in context]
    with folder() as at:
        save_model(limit, Path(at) / "model", {})
        some = open_model(Path(at) / "model", [row[-1]])
    assert Automaton(some).predict_proba(row) == Automaton(limit).predict_proba(row)
    a, b = Automaton(some).explain(row), Automaton(limit).explain(row)
    assert (a.fates, a.note) == (b.fates, b.note)


@holds_for(data(), share=0.1)
def test_summaries_of_last_tokens_add_up(raw):
    whole = solved(raw).summary()
    parts = []
    for q in sorted({row[-1] for row in raw.rows}):
        part = solved(pick(raw, [i for i, row in enumerate(raw.rows) if row[-1] == q]))
        parts.append((part.samples.total_weight, part.summary()))
    merged = merge_summaries(parts)
    for name, value in asdict(whole).items():
        if name not in ("tokens", "windows", "certificates"):
            assert math.isclose(getattr(merged, name), value, rel_tol=1e-6, abs_tol=1e-9), name


@holds_for(st.dictionaries(words, st.lists(values, min_size=1, max_size=3), max_size=3))
def test_a_grid_is_read_from_its_own_words(grid):
    assert same(parse_grid(grid_words(grid)), grid)


@holds_for(
    st.lists(st.sampled_from(["started", "done", "found"]), max_size=4),
    st.lists(strings, min_size=4, max_size=4),
    st.integers(0, 400),
    share=0.25,
)
def test_a_ledger_cut_anywhere_loses_its_last_line_at_most(events, pieces, kept):
    """What a kill tears off is passed over, what stood before it is there, and lines can be added again."""
    with folder() as at:
        book = Ledger(Path(at))
        for event, piece in zip(events, pieces, strict=False):
            book.note(event, piece=piece)
        raw = book.path.read_bytes() if events else b""
        book.path.write_bytes(raw[:kept])
        whole = raw[:kept].count(b"\n")
        left = [line.event for line in read_ledger(Path(at))]
        # A line that lacks nothing but its line end is whole.
        assert left in (events[:whole], events[: whole + 1])
        Ledger(Path(at)).note("ended")
        lines = read_ledger(Path(at))
        assert [line.event for line in lines] == [*left, "ended"]
        assert [line.piece for line in lines] == [*pieces[: len(left)], None]


# Controls


def test_control_infinity_as_a_number(monkeypatch):
    """What Python's own writer does: a file other readers refuse."""
    monkeypatch.setattr(formats_room, "to_json", lambda value, indent=2: json.dumps(value))
    refuted(test_records_are_read_as_written, DataError)


def test_control_single_precision_on_disk(monkeypatch):
    honest = formats_room.np.ascontiguousarray

    class Coarse:
        def __getattr__(self, name):
            return getattr(np, name)

        @staticmethod
        def ascontiguousarray(x):
            return honest(x).astype(np.float32).astype(np.float64)

    monkeypatch.setattr(formats_room, "np", Coarse())
    with np.errstate(over="ignore"):
        refuted(test_arrays_are_read_bit_by_bit)


def test_control_a_ledger_that_does_not_mend_its_end(monkeypatch):
    """Without a new line end first, the next line is lost with the torn one."""

    def careless(self, event, **facts):
        with self.path.open("ab") as file:
            file.write(json.dumps({"event": event, **facts}).encode() + b"\n")

    monkeypatch.setattr(ledger_room.Ledger, "note", careless)
    refuted(test_a_ledger_cut_anywhere_loses_its_last_line_at_most)
