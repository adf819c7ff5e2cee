"""Files of contexts: one row out for each row in, as `predict` and `explain` answer one; bad rows lose no others."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attomaton import Automaton, save_model, solve_limit
from attomaton.corpus import contexts as reading
from attomaton.corpus.reading import Reading
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.errors import DataError
from attomaton.folders.model import ModelFolder
from attomaton.jobs import answer as room
from attomaton.jobs import fit as fits
from attomaton.jobs.fit import fit_run
from attomaton.mechanics.synthetic import draw_samples
from attomaton.mechanics.theory import information
from attomaton.mechanics.theory.automaton import in_short
from attomaton.mechanics.theory.evidence import Reach
from attomaton.mechanics.theory.prediction import limit_prediction

BAD = ('{"tokens": []}', "[1, 2.5]", "{broken", "7", '["\\ud800"]', "[null]", '{"token": [1]}')


@pytest.fixture(params=[None, 5, 3], ids=["orthonormal", "independent", "dependent"])
def model(request, tmp_path):
    """A random model of five tokens, its automaton, and contexts to ask it."""
    rng = np.random.default_rng(7)
    samples = draw_samples(rng, 5, 25, 4, repeats=True)
    E = None if request.param is None else rng.standard_normal((5, request.param))
    save_model(limit := solve_limit(samples, E), tmp_path / "M")
    contexts = [rng.integers(0, 7, rng.integers(1, 7)).tolist() for _ in range(50)]
    return tmp_path / "M", Automaton(limit), [["nobody", 3], ["3", 1], *contexts]


def lines(rows):
    return "".join(f"{x if isinstance(x, str) else json.dumps(x)}\n" for x in rows)


def like(row, found, told=None):
    """Whether a row says what a prediction, and an explanation where there is one, say of its context."""
    unknown = [{"token": str(x.token), "nearest": x.nearest if x.nearest is None else str(x.nearest), "why": x.why}
               for x in found.unknown]  # fmt: skip
    shares = [(x.token, x.p) for x in found.probabilities if x.p > 0]
    given = [(x["token"], x["p"]) for x in row["probabilities"]]
    sure = [(x.low, x.high) for x in found.probabilities if x.p > 0]
    told_sure = [(x["low"], x["high"]) for x in row["probabilities"]]
    assert (row["low"], row["high"]) == (told_sure[0] if told_sure else (None, None))
    alike = len(sure) == len(told_sure) and np.allclose(
        np.array(sure, float), np.array(told_sure, float), 1e-12, 0, equal_nan=True
    )
    same = (
        alike
        and [x for x, _ in shares] == [x for x, _ in given]
        and np.allclose([p for _, p in shares], [p for _, p in given], rtol=0, atol=1e-12)
    )
    plain = (
        same
        and row["prediction"] == found.prediction
        and row["known_last"] == found.known_last
        and row["unseen"] == list(found.unseen)
        and row["unknown"] == unknown
        and row["retrieval"] == ((None, "hard")[len(shares)] if len(shares) < 2 else "soft")
    )
    if told is None:
        return plain and row["note"] == found.note
    fates = [
        (x.token, x.count, x.reason) for x in told.fates if x.reason != "not in the vocabulary"
    ]
    counts = {}
    for fate in told.fates:
        counts[fate.reason] = counts.get(fate.reason, 0) + 1
    return (
        plain
        and row["note"] == told.note
        and row["why"] == in_short(told.prediction, told.last, counts)
        and sorted((x["token"], x["count"], x["reason"]) for x in row["reasons"]) == sorted(fates)
    )


@pytest.mark.parametrize("explain", [False, True])
def test_every_row_says_what_one_context_is_told(call, model, explain, tmp_path):
    folder, automaton, contexts = model
    (tmp_path / "c.jsonl").write_text(lines([{"tokens": x, "id": 1} for x in contexts]))
    word = "explain" if explain else "predict"
    code, out, err = call(word, folder, "--file", tmp_path / "c.jsonl")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 6, err
    assert [row["row"] for row in rows] == list(range(1, len(contexts) + 1))
    for row, context in zip(rows, contexts, strict=True):
        told = automaton.explain(context) if explain else None
        assert like(row, limit_prediction(automaton, context, np.inf), told), context
    assert {"determined", "unseen"} <= {row["status"] for row in rows}
    assert automaton.limit.dependent or any(row["low"] is not None for row in rows)
    assert f"{len(contexts)} contexts" in err


def listed(contexts, automaton):
    cells = "\n".join(map(json.dumps, contexts)).encode()
    return reading.read_cells(
        reading.Rows(True, 1, reading.Lines(cells)), automaton.limit.graph.vocabulary
    )


def test_control_a_row_of_another_context_is_told_apart(model):
    folder, automaton, contexts = model
    reach = Reach(automaton.limit.graph)
    by = room._Limit(automaton, ModelFolder(folder).errors(automaton.limit), reach)
    table = room._by_limit(by, listed(contexts, automaton), room.Asked()).to_pylist()
    wrong = [
        like(row, limit_prediction(automaton, x, np.inf))
        for row, x in zip(table, contexts[1:], strict=False)
    ]
    assert sum(wrong) < len(wrong) / 2


@pytest.mark.parametrize("model", [None], indirect=True)
@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        ("jsonl", ".parquet"),
        ("csv", ".csv"),
        ("tsv", ".jsonl"),
        ("parquet", ".jsonl"),
        ("txt", ".csv"),
    ],
)
def test_all_formats_say_the_same(model, tmp_path, kind, suffix):
    folder, automaton, contexts = model
    contexts = [[x for x in row if x != "3"] for row in contexts]  # a typed 3 is the number
    file, out = tmp_path / f"c.{kind}", tmp_path / f"o{suffix}"
    words = [" ".join(map(str, row)) for row in contexts]
    if kind == "jsonl":
        file.write_text(lines(contexts))
    elif kind == "parquet":
        pq.write_table(pa.table({"n": range(len(words)), "tokens": words}), file, row_group_size=9)
    elif kind == "txt":
        file.write_text(lines(words))
    else:
        with file.open("w", newline="") as f:
            writer = csv.writer(f, delimiter="\t" if kind == "tsv" else ",")
            writer.writerows([("n", "tokens"), *enumerate(words)])
    room.answer_file(folder, file, out)
    if suffix == ".parquet":
        found = pq.read_table(out).to_pylist()
    elif suffix == ".jsonl":
        found = [json.loads(line) for line in out.read_text().splitlines()]
    else:
        with out.open(newline="") as f:
            found = list(csv.DictReader(f))
        for row in found:
            row["prediction"] = int(row["prediction"]) if row["prediction"] else None
            row["probabilities"] = json.loads(row["probabilities"])
    assert len(found) == len(contexts)
    for row, context in zip(found, contexts, strict=True):
        alone = limit_prediction(automaton, context, np.inf)
        assert row["prediction"] == alone.prediction
        assert [x["token"] for x in row["probabilities"]] == [
            x.token for x in alone.probabilities if x.p > 0
        ]


@pytest.mark.parametrize("model", [None], indirect=True)
def test_a_bad_row_loses_no_other(call, model, tmp_path):
    folder, automaton, contexts = model
    mixed = [x for pair in zip(contexts, [*BAD, *[""] * 99], strict=False) for x in pair]
    file, out = tmp_path / "c.jsonl", tmp_path / "o.jsonl"
    file.write_bytes(lines(mixed).encode() + b'["\xff"]\n' + lines(contexts[:1]).encode())
    code, text, _ = call("predict", folder, "--file", file, "-o", out, "--json")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    bad = [row for row in rows if row["status"] == "invalid"]
    assert code == 3
    assert json.loads(text)["counts"]["invalid"] == len(bad) == len(BAD) + 1
    assert all(row["note"] and row["prediction"] is None for row in bad)
    fine = [row for row in rows if row["status"] != "invalid"]
    for row, context in zip(fine, [*contexts, contexts[0]], strict=True):
        assert like(row, limit_prediction(automaton, context, np.inf))


@pytest.mark.parametrize("model", [None], indirect=True)
def test_pieces_and_workers_change_nothing(call, model, tmp_path, monkeypatch):
    folder, _, contexts = model
    (tmp_path / "c.jsonl").write_text(lines([*contexts, *BAD]))
    for name in ("one.jsonl", "one.csv"):
        room.answer_file(folder, tmp_path / "c.jsonl", tmp_path / name)
    monkeypatch.setattr(reading, "ROWS", 7)
    monkeypatch.setattr(room, "LARGE", 0)  # intervals are made beforehand, and shared
    for name in ("one.jsonl", "one.csv"):
        two = tmp_path / name.replace("one", "two")
        where = ("--engine", "processes", "--workers", "2")
        code, _, err = call("predict", folder, "--file", tmp_path / "c.jsonl", "-o", two, *where)
        assert code == 3, err
        assert two.read_text() == (tmp_path / name).read_text()


@pytest.mark.parametrize("explain", [False, True])
def test_a_model_opened_in_parts_answers_as_the_whole(tmp_path, monkeypatch, explain):
    monkeypatch.setattr(fits, "PART", 60)
    words = np.random.default_rng(3).choice(list("abcdefgh"), 600, p=np.arange(8, 0, -1) / 36)
    (tmp_path / "t.txt").write_text(" ".join(words))
    made = fit_run(tmp_path / "t.txt", tmp_path / "M", reading=Reading(context=5))
    assert made["parts"] > 3
    rng = np.random.default_rng(4)
    asked = [rng.choice(list("abcdefghxy"), rng.integers(1, 9)).tolist() for _ in range(300)]
    (tmp_path / "c.jsonl").write_text(lines({"tokens": x} for x in asked))
    found = {}
    for large in (1 << 30, 0):  # opened as a whole; part by part, and joined
        monkeypatch.setattr(room, "LARGE", large)
        out = tmp_path / f"{large}.parquet"
        room.answer_file(tmp_path / "M", tmp_path / "c.jsonl", out, room.Asked(explain=explain))
        found[large] = pq.read_table(out).to_pylist()
    whole, parts = found.values()
    assert sum(row["low"] is not None for row in whole) > 20
    assert {row["status"] for row in whole} >= {"determined", "unseen"}
    for one, other in zip(whole, parts, strict=True):
        assert _alike(one, other)


def _alike(one, other):
    """Whether what stands in one cell is the same, but for the last digit of numbers."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict):
        return all(_alike(one[name], other[name]) for name in one)
    return one == pytest.approx(other, rel=1e-12) if isinstance(one, float) else one == other


@pytest.mark.parametrize("model", [None], indirect=True)
def test_intervals_are_left_out_where_they_are_not_wanted(model, tmp_path, monkeypatch):
    folder, _, contexts = model
    (tmp_path / "c.jsonl").write_text(lines(contexts))
    found = {}
    for how in ({}, {"intervals": False}, {"radius": 3.0}):
        room.answer_file(
            folder,
            tmp_path / "c.jsonl",
            out := tmp_path / "o.parquet",
            room.Asked(**how),
            force=True,
        )
        found[len(found)] = pq.read_table(out)
    with_, without, radius = found.values()
    assert 0 < with_["low"].null_count < len(with_)
    assert {x["low"].null_count for x in (without, radius)} == {len(with_)}
    assert with_.schema == without.schema == radius.schema
    # A component too large to be inverted is asked one context at a time, by the same formula.
    monkeypatch.setattr(information, "INVERTED", 1)
    monkeypatch.setattr(information, "SOLVED", 1)
    room._opened.cache_clear()
    room.answer_file(folder, tmp_path / "c.jsonl", out, force=True)
    large = pq.read_table(out)
    for name in ("low", "high"):
        np.testing.assert_allclose(large[name].to_numpy(), with_[name].to_numpy(), 1e-7)


@pytest.mark.parametrize("model", [None], indirect=True)
def test_what_is_refused_leaves_no_file(call, model, tmp_path, monkeypatch):
    folder, _, contexts = model
    file, out = tmp_path / "c.jsonl", tmp_path / "o.csv"
    file.write_text(lines(contexts))
    for words, code in (
        (("--file", file, "-o", tmp_path / "o.txt"), 2),
        (("--file", file, "-o", file), 2),
        (("--file", file, "-o", folder / "o.csv"), 2),
        (("--file", tmp_path / "absent.jsonl", "-o", out), 3),
        (("--file", file, "--column", "x", "-o", out), 2),
        (("--file", file, "a"), 2),
        (("--file", file, "--json"), 2),
        (("--file", file, "--backoff"), 2),
        (("--file", file, "--radius", "-1", "-o", out), 2),
        (("--file", file, "--radius", "nan", "-o", out), 2),
        (("a", "-o", out), 2),
        ((), 2),
    ):
        assert call("predict", folder, *words)[0] == code, words
    assert not out.exists()
    (tmp_path / "empty.jsonl").write_text("")
    for name in ("o.csv", "o.parquet"):
        assert (
            call("predict", folder, "--file", tmp_path / "empty.jsonl", "-o", tmp_path / name)[0]
            == 3
        )
        assert not (tmp_path / name).exists()
    out.write_text("earlier")
    assert call("predict", folder, "--file", file, "-o", out)[0] == 2
    assert out.read_text() == "earlier"
    # Half way an error: what was there stays, and nothing else.
    monkeypatch.setattr(reading, "ROWS", 10)
    monkeypatch.setattr(room, "csv_lines", lambda table, header: _after(2))
    assert call("predict", folder, "--file", file, "-o", out, "--force")[0] == 1
    assert out.read_text() == "earlier"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["M", "c.jsonl", "empty.jsonl", "o.csv"]


def _after(many, seen=[]):  # noqa: B006
    seen.append(1)
    if len(seen) > many:
        raise OSError(28, "No space left on device")
    return b"row\n"


ODD = (
    b'{"tokens": ["a", "b"], "x": [{"y": NaN}]}', b'{"tokens": ["a"], "tokens": ["b"]}', b'{"x": 1}',
    b'{"tokens": ["\\u00e4", "\\ud83d\\ude00", "\\n"]}', b'{"tokens": ["\\ud800"]}', b'{"tokens": ["\xff"]}',
    b'{"tokens": ["a"]} {"tokens": ["b"]}', b'{"tokens": ["a", 7]}', b'{"tokens": [true]}', b'{"tokens": null}',
    b'{"tokens": ["a", null]}', b'{"tokens": []}', b'{"tokens": "a"}', b'{"tokens": ["a"]} ', b'["a"]', b"{}", b"{",
    b'{"tokens": ["a\tb"]}', b'{"tokens": [["a"]]}', b'{"tokens": ["a",]}', b'{"tokens": ["nobody", "", "a"]}',
)  # fmt: skip


def test_lines_read_together_are_those_read_one_by_one(tmp_path):
    """Whatever stands beside plain lines, none of them is read otherwise than by itself."""
    vocabulary, plain, each = Vocabulary(["a", "b", 7]), b'{"tokens": ["a", "b"]}', []
    for lines_ in (*([plain, odd, plain] for odd in ODD), [b'{"tokens": ["a"]', b"}", ODD[6]]):
        rows = reading.Rows(True, 1, reading.Lines(b"\n".join(lines_)))
        together, alone = reading.read_cells(rows, vocabulary), reading._read_each(rows, vocabulary)
        assert together.labels(vocabulary) == alone.labels(vocabulary), lines_
        assert (together.faults, together.unknown()) == (alone.faults, alone.unknown())
        assert together.ends() == alone.ends()
        each.append(reading._json_column(rows.cells) is not None)
    assert 2 < sum(each) < len(each) - 10  # control: both ways are taken
    (tmp_path / "c.jsonl").write_bytes(
        b"\xef\xbb\xbf" + b"\r\n \xc2\xa0\n".join([plain] * 3) + b"\r" + plain
    )
    assert list(next(reading.context_rows(tmp_path / "c.jsonl")).cells) == [plain] * 4


def test_a_line_too_long_is_told_and_the_others_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST", 40)
    monkeypatch.setattr(reading, "BLOCK", 16)
    plain, long = b'{"tokens": ["a"]}', b'{"tokens": ["' + b"a" * 100 + b'"]}'
    (tmp_path / "c.jsonl").write_bytes(b"\n".join([plain, long, plain, long]))
    rows = next(reading.context_rows(tmp_path / "c.jsonl"))
    assert list(rows.cells) == [plain, b"", plain, b""]
    assert list(rows.faults) == [1, 3]


@pytest.mark.parametrize("model", [None], indirect=True)
def test_columns_of_lists_are_read_as_lines_are(model, tmp_path):
    folder, _, contexts = model
    contexts = [[x for x in row if isinstance(x, int)] for row in contexts]
    kinds = {
        "int64": pa.list_(pa.int64()),
        "int16": pa.large_list(pa.int16()),
        "uint8": pa.list_(pa.uint8()),
    }
    (tmp_path / "c.jsonl").write_text(lines(contexts))
    room.answer_file(folder, tmp_path / "c.jsonl", tmp_path / "lines.jsonl")
    for name, kind in kinds.items():
        pq.write_table(pa.table({"tokens": pa.array(contexts, kind)}), tmp_path / f"{name}.parquet")
        room.answer_file(folder, tmp_path / f"{name}.parquet", tmp_path / f"{name}.jsonl")
        assert (tmp_path / f"{name}.jsonl").read_text() == (tmp_path / "lines.jsonl").read_text()


def test_columns_are_found_or_named(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("context\na b\n\nc\n")
    rows = next(reading.context_rows(path))
    read = reading.read_cells(rows, Vocabulary("abc"))
    assert (read.labels(Vocabulary("abc")), read.faults) == ([["a", "b"], ["c"]], {})
    path.write_text('id,tokens\n1,a b\n2\n3,"[""a"", 7]"\n')
    rows = next(reading.context_rows(path))
    read = reading.read_cells(rows, Vocabulary(["a", "b"]))
    assert read.labels(Vocabulary(["a", "b"])) == [["a", "b"], ["a", 7]]
    assert list(read.faults) == [1]
    path.write_text("id,token\n1,a\n")
    with pytest.raises(DataError, match="did you mean 'token'"):
        next(reading.context_rows(path))


def test_a_predictor_answers_row_by_row(call, tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("the cat and the dog and the cat saw the dog " * 6)
    words = ("--context", "4", "--priors", "main", "--lambdas", "1", "--thetas", "1")
    assert call("tune", text, "--validate", text, *words, "-o", tmp_path / "P")[0] == 0
    (tmp_path / "c.txt").write_text("the cat saw the\nthe dgo\n\n")
    code, out, _ = call("explain", tmp_path / "P", "--file", tmp_path / "c.txt")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 3
    alone = json.loads(call("predict", tmp_path / "P", *["the", "cat", "saw", "the"], "--json")[1])
    assert rows[0]["prediction"] == alone["prediction"]
    assert rows[0]["why"] == alone["why"]
    assert (bool(rows[1]["why"]), rows[2]["why"]) == (True, None)
    for mine, one in zip(rows[0]["probabilities"][:4], alone["probabilities"], strict=False):
        assert mine == {"token": one["token"], "p": pytest.approx(one["p"], rel=1e-12)}
    assert rows[1]["unknown"][0]["nearest"] == "dog"
    assert rows[2]["prediction"] is None
    assert "no tokens" in rows[2]["note"]
    assert call("predict", tmp_path / "P", "--file", tmp_path / "c.txt", "--radius", "1")[0] == 2
