"""How far data carry: what is named is so, rows do what is said of them, and every output holds the same numbers."""

import csv
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.mechanics.test_information import drawn
from tests.unchecked import unchecked_types
from typer.testing import CliRunner

from attomaton import (
    NextTokenClassifier,
    as_windows,
    build_graph,
    coverage,
    example_samples,
    open_model,
    samples_from_sequences,
    save_model,
    solve_limit,
)
from attomaton.cli.main import app
from attomaton.corpus.readers import write_jsonl
from attomaton.corpus.windows import Windows
from attomaton.errors import DataError, UsageError
from attomaton.mechanics.data import check_embeddings
from attomaton.report.text.coverage import in_words
from attomaton.summaries.coverage import cover, cover_parts


def told(*words: object) -> str:
    ended = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_groups_never_together_are_named():
    rows = ["ab", "ba", "cd", "dc", "cd"]
    samples = samples_from_sequences([[*row, "q"] for row in rows], [row[0] for row in rows])
    found = coverage(samples)
    assert [(x.last, x.sizes) for x in found.apart] == [("q", [2, 2])]
    assert sorted(map(sorted, found.apart[0].groups)) == [["a", "b"], ["c", "d"]]
    # a, b, c and d are over q; the odds of two pairs have errors, nothing is said across them.
    assert (found.orders, found.soft.odds, found.new) == (4, 2, None)


@pytest.mark.parametrize("seed", range(3))
def test_the_row_named_turns_an_order_into_a_tie(seed):
    rows, labels = drawn(10, K=8, seed=seed, size=3)
    found = coverage(samples_from_sequences(rows, labels), top=50)
    assert found.fragile
    for order in found.fragile:
        more = [*rows, [*order.tied_by.tokens]], [*labels, order.tied_by.next]
        for data, tied in (((rows, labels), False), (more, True)):
            graph = build_graph(samples_from_sequences(*data))
            ids = [graph.vocabulary.id_of(x) for x in (order.last, order.winner, order.loser)]
            assert graph.tied(*ids) == tied
            assert graph.outranks(*ids) != tied
        assert order.contrary == pytest.approx(0.95)


def test_what_is_collected_decides_what_it_said():
    rows, labels = drawn(7, K=12, seed=4, size=3)
    new = as_windows(*drawn(300, K=12, seed=5, size=2))
    before = coverage(samples_from_sequences(rows, labels), new).new
    assert before.determined + before.undetermined + before.unseen == before.contexts == 300
    for wanted in before.collect:
        context = [x for x in wanted.tokens if x != wanted.last] + [wanted.last]
        more = samples_from_sequences([*rows, context], [*labels, context[0]])
        after = coverage(more, new).new
        if wanted.why == "never compared":
            assert after.determined >= before.determined + wanted.decides
        else:
            assert after.unseen <= before.unseen - wanted.decides
    assert {x.why for x in before.collect} == {"never compared", "never seen with the last token"}
    decides = [x.decides for x in before.collect]
    assert decides == sorted(decides, reverse=True)
    assert decides[0] > 0


def test_an_unseen_last_token_is_named():
    found = coverage(
        samples_from_sequences([["a", "q"]], ["a"]), as_windows([["a", "z"]], ["a"])
    ).new
    assert (found.unseen, found.unseen_last) == (1, 1)
    assert [(x.why, x.last) for x in found.collect] == [("never the last token of a sample", "z")]


def test_sequences_make_clustered_errors_and_the_last_tenth_is_new():
    rng = np.random.default_rng(0)
    log = [rng.choice(["a", "b", "c"], 12).tolist() for _ in range(40)]
    windows = as_windows(log, context=3)
    found = coverage(windows)
    assert found.soft.sequences == 40
    assert found.new.contexts == 4 * 11  # of the last four sequences
    limit = solve_limit(windows.samples())
    assert coverage(limit, windows=windows).soft == found.soft
    plain = coverage(limit)
    assert plain.soft.sequences is None
    assert plain.soft.se[2] < found.soft.se[2]  # never below, and above somewhere


def test_all_outputs_hold_the_same_numbers(tmp_path):
    data, model = write_jsonl(example_samples(), tmp_path / "d.jsonl"), tmp_path / "model"
    save_model(solve_limit(example_samples()), model)
    files = {x: tmp_path / f"out.{x}" for x in ("csv", "parquet", "html", "svg")}
    record = json.loads(told("coverage", model, "--new", data, "-o", files["csv"], "--html", files["html"],
                             "--figure", files["svg"], "--json"))  # fmt: skip
    found = coverage(solve_limit(example_samples()))
    assert (record["orders"], record["on_one"]) == (found.orders, found.on_one) == (18, 2)
    assert record["new"]["determined"] == record["new"]["contexts"] == 39
    assert record["soft"]["loss_floor"]["se"] == pytest.approx(found.soft.loss_floor.se)
    told("coverage", model, "-o", files["parquet"])
    table = pq.read_table(files["parquet"]).to_pylist()
    rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert len(table) == len(rows) == found.soft.odds
    assert [float(x["se"]) for x in rows] == [x["se"] for x in table]
    for text in (files["html"].read_text(), told("coverage", model)):
        assert "2 of them rest on one sample" in text
        assert "soup toast bell → “toast”" in text
    assert "new contexts" in files["svg"].read_text()


def test_parts_say_what_the_whole_says(tmp_path):
    limit, new = solve_limit(example_samples()), as_windows(*drawn(20, K=3))
    save_model(limit, tmp_path / "model")
    words = limit.graph.vocabulary
    parts = [open_model(tmp_path / "model", [words[k]]) for k in limit.graph.last_tokens]
    seen = as_windows(
        [["tea", "cake", "bell"], ["bill", "zebra", "guest"], ["tea", "zebra"]], ["tea"] * 3
    )
    for given in (None, new, seen):
        whole, table = cover(limit, given)
        assert ("--new FILE" in in_words(whole)) == (given is None)
        found, odds = cover_parts(parts, given, total=3)
        assert found.soft.loss_floor.se == pytest.approx(whole.soft.loss_floor.se)
        assert odds.sort_by("se")["se"].to_pylist() == pytest.approx(
            table.sort_by("se")["se"].to_pylist()
        )
        same = {"soft": whole.soft, "fragile": whole.fragile}
        assert replace(found, **same) == whole
        assert sorted(found.fragile, key=repr) == sorted(whole.fragile, key=repr)


@pytest.mark.parametrize("given", [False, True])
def test_a_text_is_covered_in_parts(given, monkeypatch):
    """One stream, a few last tokens at a time; the last tenth of it, or other contexts, judged by all of them."""
    rng = np.random.default_rng(3)
    text = as_windows([rng.choice(list("abcdefgh"), 400, p=np.arange(8, 0, -1) / 36)], context=4)
    new = as_windows([list("habcahzzab")], context=4) if given else None
    parts = Windows.parts
    told = []
    for size in (10**9, 100):
        monkeypatch.setattr(Windows, "parts", lambda self, size=size: parts(self, size))
        told.append(cover(text, new, top=10**6))
    assert len(text.parts()) > 4
    (whole, table), (found, odds) = told
    assert found.new == replace(whole.new, collect=found.new.collect)
    key = [(name, "ascending") for name in ("last", "token", "other")]
    a, b = (x.cast(pa.schema([(f.name, pa.string() if f.name in ("last", "token", "other") else f.type)
                              for f in x.schema])).sort_by(key) for x in (table, odds))  # fmt: skip
    assert a.num_rows > 20
    assert np.allclose(a["se"].to_numpy(), b["se"].to_numpy(), rtol=1e-9)
    for lists in ("fragile", "last_tokens", "apart"):
        assert sorted(map(repr, getattr(found, lists))) == sorted(map(repr, getattr(whole, lists)))
    assert sorted(map(repr, found.new.collect)) == sorted(map(repr, whole.new.collect))
    assert found.soft.loss_floor.value == pytest.approx(whole.soft.loss_floor.value, rel=1e-12)
    assert found.soft.loss_floor.se == pytest.approx(whole.soft.loss_floor.se, rel=1e-9)
    assert (found.samples, found.orders, found.on_one) == (
        whole.samples,
        whole.orders,
        whole.on_one,
    )


def test_a_model_reads_its_data_again_for_errors_by_sequence(tmp_path):
    log = tmp_path / "log.csv"
    rng = np.random.default_rng(1)
    rows = [f"{s},{x}" for s in range(30) for x in rng.choice(["a", "b", "c"], 9)]
    log.write_text("\n".join(["case,event", *rows]) + "\n")
    how = ("--context", 3, "--sequence", "case", "--item", "event")
    told("fit", log, *how, "-o", tmp_path / "model")
    by_data = json.loads(told("coverage", log, *how, "--json"))["soft"]
    again = json.loads(told("coverage", tmp_path / "model", "--clustered", "--json"))["soft"]
    assert by_data["sequences"] == 30
    assert again["se"] == pytest.approx(by_data["se"])
    assert json.loads(told("coverage", tmp_path / "model", "--json"))["soft"]["sequences"] is None


def test_data_that_came_through_a_pipe_are_not_read_again(tmp_path):
    text = '{"tokens": ["a", "b"], "next": "a"}\n'
    model = str(tmp_path / "model")
    assert CliRunner().invoke(app, ["fit", "-", "-o", model], input=text).exit_code == 0
    told("coverage", model)
    for more in (["--clustered"], ["--bootstrap", "2"]):
        ended = CliRunner().invoke(app, ["coverage", model, *more])
        assert isinstance(ended.exception, DataError)
        assert "was fitted to standard input, which cannot be read again" in str(ended.exception)


def test_what_cannot_be_covered_is_refused(tmp_path):
    samples = samples_from_sequences([["x", "y"], ["x", "y"]], ["x", "y"])
    with pytest.raises(UsageError, match="dependent embeddings"):
        coverage(solve_limit(samples, check_embeddings([[1.0], [2.0]])))
    with unchecked_types(), pytest.raises(UsageError, match="neither Samples"):
        coverage([["x", "y"]])
    with pytest.raises(UsageError, match="top"):
        coverage(samples, top=0)
    data = write_jsonl(samples, tmp_path / "d.jsonl")
    for words, error in (
        (("--clustered",), UsageError),
        (("--top", "0"), UsageError),
        (("-o", tmp_path / "x.txt"), UsageError),
        (("--new", tmp_path / "none.jsonl"), DataError),
    ):
        ended = CliRunner().invoke(app, ["coverage", str(data), *map(str, words)])
        assert isinstance(ended.exception, (error, SystemExit)), words
        assert ended.exit_code != 0


def test_answers_show_intervals_and_bounds(tmp_path):
    save_model(solve_limit(example_samples()), model := tmp_path / "model")
    record = json.loads(told("predict", model, "dishes", "phone", "--json"))
    first = record["probabilities"][0]
    assert first["p"] == pytest.approx(0.75)
    assert first["low"] < 0.75 < first["high"]
    assert "95 %" in told("predict", model, "dishes", "phone")
    why = json.loads(told("explain", model, "cake", "soup", "bell", "--json"))
    (edge,) = [f["path"][0] for f in why["fates"] if f["token"] == "cake"]
    assert edge["contrary"] == pytest.approx(1 - 0.05 ** (1 / edge["weight"]))
    assert "low" not in why["fates"][0]  # retrieved alone: nothing is mixed
    assert "(contrary at most" in told("explain", model, "cake", "soup", "bell")
    view = json.loads(told("graph", model, "--last", "phone", "--json"))
    errors = solve_limit(example_samples()).standard_errors().to_arrow().to_pylist()
    expected = {x["token"]: x["se"] for x in errors if x["last"] == "phone"}
    assert {x["token"]: x["se"] for x in view["nodes"]} == pytest.approx(expected)
    links = json.loads(told("graph", model, "--last", "bell", "--json"))["links"]
    assert all(0 < x["contrary"] <= 0.95 for x in links)
    summary = json.loads(told("summary", model, "--json"))
    assert all(0 < x["contrary"] <= 0.95 for x in summary["priorities"])


def test_the_estimator_has_intervals():
    model = NextTokenClassifier().fit([["x", "y"]] * 40, ["x"] * 30 + ["y"] * 10)
    ((one), none) = model.predict_interval([["x", "y"], ["y"]])
    assert one["x"].low < 0.75 < one["x"].high
    assert one["x"].se == pytest.approx((0.75 * 0.25 / 40) ** 0.5)
    assert none == {}
