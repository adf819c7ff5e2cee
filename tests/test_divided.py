"""Fits of corpora whose largest last token is divided: the undivided answer, on every engine, in bounded pieces."""

import json
import threading
from collections import Counter
from contextlib import nullcontext

import numpy as np
import pytest
from tests.unchecked import unchecked_types

from attomaton.corpus.parts import Slots, open_parts, read_part
from attomaton.corpus.readers import read_parts, read_windows
from attomaton.corpus.reading import Reading
from attomaton.disk.formats import to_json
from attomaton.disk.ledger import read_ledger
from attomaton.engine.choose import open_engine
from attomaton.engine.tasks import Here, Task
from attomaton.errors import SolverError, UsageError
from attomaton.folders.model import ModelFolder, open_model
from attomaton.jobs import divided
from attomaton.jobs.fit import fit_run
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.svm import certify
from attomaton.numerics import named_rng

READING = Reading(context=8)
GRAPH = ("pair_last", "pair_token", "edge_from", "edge_to", "edge_weight", "component", "level")
SOLVED = {
    "pairs": ("last", "token", "component", "level", "svm_score"),
    "edges": ("last", "from", "to", "weight", "multiplier"),
}


def heavy_text(path, tokens=4000, words=40):
    """Words with a heavy one at every third place, and labels that come back: one of them more than others."""
    rng = named_rng("heavy", 0)
    ids = np.minimum(rng.zipf(1.4, tokens), words)
    back = rng.integers(1, 8, tokens)
    for i in np.flatnonzero(rng.random(tokens) < 0.5):
        ids[i] = ids[max(0, i - back[i])]
    ids[::3] = 0
    path.write_text(" ".join(f"w{i}" for i in ids), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return heavy_text(tmp_path_factory.mktemp("text") / "t.txt")


@pytest.fixture(scope="module")
def whole(text):
    out = text.parent / "whole"
    return fit_run(text, out, reading=READING), open_model(out)


def same_answer(found, known, summary, told):
    """The same model, its fits within what both certify."""
    for name in GRAPH:
        np.testing.assert_array_equal(getattr(found.graph, name), getattr(known.graph, name))
    np.testing.assert_allclose(found.svm.score, known.svm.score, atol=1e-8)
    off = found.finite.error + known.finite.error
    assert off < 1e-6
    np.testing.assert_allclose(found.finite.log_pi, known.finite.log_pi, atol=off)
    np.testing.assert_allclose(summary["loss_floor"], told["loss_floor"], rtol=1e-12)
    counts = {k for k, v in told.items() if isinstance(v, int)} - {"parts", "workers", "resumed_parts"}  # fmt: skip
    assert {k: summary[k] for k in counts} == {k: told[k] for k in counts}
    # The certificate of W_svm, recomputed from all samples of the model.
    svm = found.svm
    again = certify(found.graph, found.samples, svm.coefficient, svm.score, svm.multiplier)
    assert again.primal <= svm.certificate.primal + 1e-15
    assert again.worst <= 1e-8


def rows_of(samples):
    """Samples without their order."""
    return Counter(
        (int(samples.last[i]), int(samples.label[i]), float(samples.weight[i]), int(samples.source[i]),
         int(samples.rows[i]), tuple(samples.bag(i).items()))
        for i in range(len(samples))
    )  # fmt: skip


@pytest.mark.parametrize("size", [200, 1500])
@pytest.mark.parametrize("careful", [divided.CAREFUL, 1], ids=["careful", "large"])
def test_a_divided_last_token_has_the_undivided_answer(
    tmp_path, monkeypatch, text, whole, size, careful
):
    monkeypatch.setattr(divided, "CAREFUL", careful)
    monkeypatch.setattr(divided, "PIECE", size // 4)
    # Thousands of pieces where shards are small; what is called for each is checked where they are large.
    with unchecked_types() if size == 200 else nullcontext():
        told = fit_run(text, tmp_path / "m", reading=READING, shard_size=size)
    found = open_model(tmp_path / "m")
    assert "divided" in told["seconds"]
    same_answer(found, whole[1], told, whole[0])
    assert rows_of(found.samples) == rows_of(whole[1].samples)
    context = ["w1", "w2", "w3", "w0"]
    answers = [Automaton(x).predict(context) for x in (found, whole[1])]
    assert answers[0] == answers[1]


def test_fits_that_fit_into_one_process_are_equal_byte_for_byte(tmp_path, monkeypatch, text):
    # All last tokens are heavy, so each is a part of its own either way; the ties of each are few enough.
    monkeypatch.setattr("attomaton.jobs.fit.PART", 1)
    for name, size in (("a", 1 << 30), ("b", 2500)):
        fit_run(text, tmp_path / name, reading=READING, shard_size=size)
    a, b = (ModelFolder(tmp_path / x) for x in "ab")
    shards = [p.shards for p in b.record.parts]
    assert max(x or 0 for x in shards) >= 2
    assert [p.shards for p in a.record.parts] == [None] * len(shards)
    for name, columns in SOLVED.items():
        x, y = a.rows(name, columns), b.rows(name, columns)
        for column in columns:
            np.testing.assert_array_equal(x[column], y[column])


def test_ordinary_corpora_take_the_way_they_took(tmp_path, text):
    fit_run(text, tmp_path / "a", reading=READING)
    fit_run(text, tmp_path / "b", reading=READING, shard_size=1 << 40)
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.parquet"))
    assert [p.name for p in files] == ["000.parquet"] * 3
    assert all(
        (tmp_path / "a" / f).read_bytes() == (tmp_path / "b" / f).read_bytes() for f in files
    )
    assert "shards" not in (tmp_path / "a" / "model.json").read_text()


@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_every_engine_writes_the_same_bytes(tmp_path, monkeypatch, text, engine):
    if engine == "ray":
        pytest.importorskip("ray", reason="Ray is not installed; attomaton[ray]")
    monkeypatch.setattr(divided, "CAREFUL", 12)  # components of both kinds
    monkeypatch.setattr(divided, "PIECE", 400)  # several to a shard
    fit_run(text, tmp_path / "here", reading=READING, shard_size=1000)
    with open_engine(engine, 2) as where:
        fit_run(text, tmp_path / "there", reading=READING, shard_size=1000, engine=where)
    files = [p.relative_to(tmp_path / "here") for p in (tmp_path / "here").rglob("*.parquet")]
    assert sum("-" in p.name for p in files) >= 6
    for f in files:
        assert (tmp_path / "here" / f).read_bytes() == (tmp_path / "there" / f).read_bytes(), f
    noted = Counter(line.piece for line in read_ledger(tmp_path / "there") if line.event == "done")
    assert set(noted.values()) == {1}


def test_rows_are_divided_as_texts_are_and_weights_count(tmp_path):
    rng = named_rng("rows", 1)
    lines = []
    for _ in range(300):
        bag = rng.integers(1, 7, 5).tolist()
        row = {"tokens": [*bag, 0], "next": bag[0], "weight": float(rng.choice([0.5, 1.0, 3.25]))}
        lines.append(json.dumps(row))
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    told = [fit_run(tmp_path / "t.jsonl", tmp_path / str(n), shard_size=n) for n in (10**9, 100)]
    models = [open_model(tmp_path / str(n)) for n in (10**9, 100)]
    assert (told[0]["last_tokens"], told[1]["parts"]) == (1, 1)
    np.testing.assert_allclose(models[1].graph.edge_weight, models[0].graph.edge_weight)
    np.testing.assert_allclose(models[1].finite.log_pi, models[0].finite.log_pi, atol=1e-9)
    np.testing.assert_allclose(told[1]["loss_floor"], told[0]["loss_floor"], rtol=1e-12)
    np.testing.assert_allclose(models[1].svm.score, models[0].svm.score, atol=1e-9)


@pytest.mark.parametrize("size", [60, 400, 3000])
def test_shards_hold_every_window_once_and_no_more_than_they_may(tmp_path, text, size):
    words, parts = read_parts(text, tmp_path, READING, size=5000, most=size)
    (tmp_path / "parts.json").write_text(to_json(parts))
    (tmp_path / "vocabulary.json").write_text(json.dumps(list(words)))
    assert open_parts(tmp_path) == (words, parts)
    whole = read_windows(text, READING).samples()
    heavy = [p for p in parts.parts if p.shards]
    assert heavy
    assert all(p.incidences <= max(size, 5000) for p in parts.parts if not p.shards)
    found, most = Counter(), 0
    for p in parts.parts:
        shards = range(len(p.shards)) if p.shards else [None]
        for s in shards:
            found += rows_of(read_part(tmp_path, p.number, words, parts, s))
        if p.shards:
            assert sum(x.incidences for x in p.shards) == p.incidences
            assert sum(x.windows for x in p.shards) == p.windows
            most = max(most, *(x.incidences for x in p.shards))
    assert found == rows_of(whole)  # equal bags are in one shard, so nothing is left to merge
    # Nothing but windows whose bags are equal makes a shard larger.
    same = Counter()
    for i in range(len(whole)):
        same[int(whole.last[i]), int(whole.label[i])] += int(whole.rows[i]) * 8
    assert most <= size + max(same.values()) / 4
    slots = Slots.read(tmp_path / "slots.safetensors")
    assert slots.many == parts.slot(len(parts.parts))
    assert [x.last for x in slots.divisions] == sorted(p.first_last for p in heavy)


def times(x, payload):
    return x * payload


def asking(many, answers):
    """A fit that asks for so many rounds, each with the answer to the one before."""

    def fit(ask):
        x = np.array([1.0])
        for _ in range(many):
            x = ask(divided.Round(times, [Task(i, i + 1) for i in range(many)], x, np.add))
        answers[many] = float(x[0])

    return fit


def test_fits_that_ask_at_the_same_time_are_answered_as_if_alone():
    answers, told = {}, []
    fits = [asking(n, answers) for n in (3, 1, 0, 2)]
    ended = list(divided.summed_together(Here(), fits, lambda *x: told.append(x[2])))
    assert sorted(ended) == [0, 1, 2, 3]
    assert answers == {0: 1.0, 1: 1.0, 2: 9.0, 3: 216.0}  # n rounds of 1 + 2 + … + n
    assert [x.rpartition(" ")[2] for x in told] == ["1", "2", "3"]


def test_a_fit_that_fails_ends_all_of_them():
    before = threading.active_count()

    def failing(ask):
        ask(divided.Round(times, [Task(0, 1)], np.array([1.0]), np.add))
        raise SolverError("no")

    fits = [asking(50, {}), failing]
    with pytest.raises(SolverError, match="no"):
        list(divided.summed_together(Here(), fits, lambda *x: None))
    for thread in threading.enumerate():
        if thread.name.endswith("(live)"):
            thread.join(30)
    assert threading.active_count() == before


def test_a_size_that_is_none_is_refused(tmp_path, text, call):
    with pytest.raises(UsageError, match="at least 1 incidence"):
        fit_run(text, tmp_path / "m", reading=READING, shard_size=0)
    code, _, err = call("fit", text, "--context", 8, "-o", tmp_path / "m", "--shard-size", 0)
    assert (code, "--shard-size" in err) == (2, True)


def test_odds_that_sums_leave_in_doubt_are_refused_with_what_to_do(tmp_path, monkeypatch, text):
    real = divided.careful_fit
    monkeypatch.setattr(divided, "careful_fit", lambda *x: real(*x)._replace(error=0.5))
    with pytest.raises(SolverError, match=r"known to 5\.0e-01 nats only.*larger --shard-size"):
        fit_run(text, tmp_path / "m", reading=READING, shard_size=1000)


def test_nothing_is_left_of_a_divided_fit_that_fails(tmp_path, monkeypatch, text):
    # A folder is emptied of what is known to be ours only: every name of a shard's files has to be.
    seen = set()

    def fail(*_):
        [shard, *_] = sorted((tmp_path / ".m.partial" / "divided").glob("*/*.half-*-0"))
        shard.with_name(f"{shard.name}.torn-7").touch()  # of a worker that was killed
        seen.update(path.name.split(".", 1)[1].split("-")[0] for path in shard.parent.glob("*.*"))
        raise SolverError("no")

    monkeypatch.setattr(divided, "CAREFUL", 1)
    monkeypatch.setattr(divided, "bound_sums", fail)
    with pytest.raises(SolverError, match=r"^no$"):
        fit_run(text, tmp_path / "m", reading=READING, shard_size=1000)
    assert seen == {"edges", "outline", "json", "ties", "half"}
    assert list(tmp_path.iterdir()) == []
