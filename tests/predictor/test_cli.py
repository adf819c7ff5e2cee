"""The commands `tune` and `score`, on small texts."""

import csv
import json

import pytest

from attomaton.cli.predictor import _notes
from attomaton.predictor.measured import LeftOut
from attomaton.predictor.model import Predictor
from attomaton.predictor.rivals.neural import Trained
from attomaton.predictor.scoring import Scores, ScoreTable


@pytest.fixture
def files(text, tmp_path):
    for name, seed in (("train", 0), ("valid", 1), ("test", 2)):
        windows = text(seed, 600)
        words = " ".join(windows.vocabulary[x] for x in windows.ids)
        (tmp_path / f"{name}.txt").write_text(words, encoding="utf-8")
    return tmp_path


def tuned(call, files, *options):
    return call(
        "tune", files / "train.txt", "--validate", files / "valid.txt", "--context", 6,
        "--priors", "main,main+bigram", "--lambdas", "1,4", "--thetas", "0.5,1",
        "-o", files / "predictor", *options,
    )  # fmt: skip


def test_tune_then_score(call, files):
    code, out, _ = tuned(call, files)
    assert code == 0
    assert "chosen: prior main" in out
    assert Predictor.open(files / "predictor").record["reading"]["context"] == 6
    code, out, _ = call("score", files / "predictor", files / "test.txt")
    assert code == 0
    assert "trigram, mixed" in out
    assert "whole vocabulary" in out
    code, out, _ = call(
        "score", files / "predictor", files / "test.txt", "--json", "--figure", files / "f.svg"
    )
    record = json.loads(out)
    assert record["schema_version"] == 1
    rows = {row["name"]: row for row in record["realizable"]["rows"]}
    assert rows["predictor"]["log_loss"] < rows["unigram"]["log_loss"]
    assert record["all"]["windows"] == 594
    assert "bigram, smoothed" in (files / "f.svg").read_text(encoding="utf-8")


def test_choosing_on_what_was_learned_from_is_said(call, files):
    told = "the same windows as are learned from"
    assert told in tuned(call, files, "--validate", files / "train.txt")[1]
    assert told not in tuned(call, files)[1]


def test_baselines_by_name(call, files):
    tuned(call, files)
    ask = ("score", files / "predictor", files / "test.txt")
    code, out, _ = call(
        *ask, "--baselines", "mixture,cache", "--json", "-o", files / "t.csv", "--figure", files / "b.svg"
    )  # fmt: skip
    assert code == 0
    found = json.loads(out)
    assert found["left_out"] == []
    with (files / "t.csv").open(encoding="utf-8", newline="") as file:
        kept = list(csv.DictReader(file))
    for part, name in (("realizable", "label in the context"), ("all", "all windows")):
        rows = {row["name"]: row for row in found[part]["rows"]}
        assert {"predictor", "cache", "mixture of all four"} <= set(rows)
        row = next(x for x in kept if (x["table"], x["name"]) == (name, "cache"))
        assert float(row["log_loss"]) == rows["cache"]["log_loss"]
        assert int(row["windows"]) == found[part]["windows"]
    assert "mixture of all four" in (files / "b.svg").read_text(encoding="utf-8")
    code, _, err = call(*ask, "--baselines", "item-knn")
    assert (code, "needs data of at least 30 sequences" in err) == (2, True)
    # Where the data have moved, they are asked for, and others are refused.
    (files / "train.txt").rename(files / "moved.txt")
    code, _, err = call(*ask, "--baselines", "cache")
    assert (code, "are not there now" in err, "say --data FILE" in err) == (3, True, True)
    (files / "less.txt").write_text("w1 w2 w1 w2 w1 w2 w1 w1 w2", encoding="utf-8")
    code, _, err = call(*ask, "--baselines", "cache", "--data", files / "less.txt")
    assert (code, "not what the predictor was tuned on" in err) == (3, True)
    assert call(*ask, "--baselines", "cache", "--data", files / "moved.txt")[0] == 0
    code, _, err = call(*ask, "--baselines", "cahce")  # said before data are looked for
    assert (code, "did you mean 'cache'" in err) == (2, True)


def test_what_has_to_be_known_about_the_tables(call, files):
    tuned(call, files)
    (files / "few.txt").write_text("w1 w2 w1 w2 never w1 w2 w1 never w1 w2", encoding="utf-8")
    code, out, _ = call("score", files / "predictor", files / "few.txt")
    assert code == 0
    assert "too few windows for standard errors" in out
    assert "training never saw the label of 1 of all 5 windows" in out
    first = next(line for line in out.splitlines() if line.startswith("predictor"))
    assert "+0.0000" not in first  # a row is not told how far it is from itself
    row = ScoreTable(3, 3.0, "predictor", 2, "sequences", [])
    scores = Scores(
        row, row, [LeftOut("trees", "needs a package")], {"GRU": Trained(12.3, 0.25, 1.0)}
    )
    told = "GRU: trained for 0.2 epochs in 12 s; it is worth no more than that (--seconds)"
    assert _notes(scores) == [told, "left out: trees, needs a package"]


def test_baselines_beside_a_limit(call, files):
    call("fit", files / "train.txt", "--context", 6, "-o", files / "model")
    ask = ("score", files / "model", files / "test.txt", "--baselines", "mixture")
    code, _, err = call(*ask)
    assert (code, "say --validate" in err) == (2, True)
    code, out, _ = call(*ask, "--validate", files / "valid.txt")
    assert code == 0
    assert "mixture of all four" in out


def test_score_a_limit(call, files):
    assert call("fit", files / "train.txt", "--context", 6, "-o", files / "model")[0] == 0
    code, out, _ = call(
        "score", files / "model", files / "test.txt", "--validate", files / "valid.txt",
        "--figure", files / "f.png",
    )  # fmt: skip
    assert code == 0
    assert "bigram, smoothed" in out
    assert (files / "f.png").stat().st_size > 1000
    tuned(call, files)
    code, out, _ = call(
        "score", files / "predictor", files / "test.txt", "--limit", files / "model"
    )
    assert code == 0
    assert "limit" in out
    # Where the training data have gone, what needs them is left out.
    (files / "train.txt").rename(files / "elsewhere.txt")
    code, out, _ = call("score", files / "model", files / "test.txt", "--json")
    (files / "elsewhere.txt").rename(files / "train.txt")
    assert code == 0
    assert [r["name"] for r in json.loads(out)["realizable"]["rows"]] == ["limit", "unigram"]


def test_refusals(call, files):
    code, _, err = tuned(call, files, "--lambdas", "1,two")
    assert (code, "expected numbers" in err) == (2, True)
    code, _, err = tuned(call, files, "--priors", "mian")
    assert (code, "did you mean 'main'" in err) == (2, True)
    code, _, err = call("score", files / "nothing", files / "test.txt", "--context", 6)
    assert (code, "no such model folder" in err) == (3, True)
    tuned(call, files)
    code, _, err = call(
        "score", files / "predictor", files / "test.txt", "--data", files / "train.txt"
    )
    assert (code, "keeps its simple baselines" in err) == (2, True)
    call("fit", files / "train.txt", "--context", 6, "-o", files / "model")
    code, _, err = call(
        "score", files / "model", files / "test.txt", "--context", 6, "--limit", files / "model"
    )
    assert (code, "a limit itself" in err) == (2, True)


def test_predict_and_explain_with_a_predictor(call, files):
    tuned(call, files)
    words = (files / "test.txt").read_text(encoding="utf-8").split()[:6]
    code, out, _ = call("predict", files / "predictor", *words, "--top", 1000, "--json")
    whole = json.loads(out)["probabilities"]
    assert code == 0
    assert abs(sum(x["p"] for x in whole) - 1) < 1e-12
    assert not {x["token"] for x in whole} <= set(words)
    code, out, _ = call("predict", files / "predictor", *words, "--no-backoff", "--json")
    inside = json.loads(out)
    assert code == 0
    assert {x["token"] for x in inside["probabilities"]} <= set(words)
    for more in ([], ["--no-backoff"]):
        said = json.loads(call("predict", files / "predictor", *words, *more, "--json")[1])
        code, out, _ = call("explain", files / "predictor", *words, *more, "--json")
        told = json.loads(out)
        assert code == 0
        assert told["prediction"] == said["prediction"]
        assert told["p"] == said["probabilities"][0]["p"]
        assert told["inside"] == (said["prediction"] in words)
        assert abs(sum(x["share"] for x in told["why"]) - told["against"]["log_odds"]) < 1e-10
        assert said["why"].startswith(repr(said["prediction"]))
        assert said["why"] in call("predict", files / "predictor", *words, *more)[1]
        code, out, _ = call("explain", files / "predictor", *words, *more)
        assert code == 0
        assert f"comes {said['prediction']!r}" in out
        assert ("without back-off" in out) == bool(more)
        assert "learned" in out
    code, _, _ = call("explain", files / "predictor", *words, "--figure", files / "why.svg")
    assert code == 0
    code, out, _ = call("explain", files / "predictor", *words, "--evidence", 1, "--json")
    assert code == 0
    for b in json.loads(out)["evidence"]:
        assert len(b["rows"]) == min(b["windows"], 1)
        assert all(row["context"][-1] == words[-1] for row in b["rows"])
    assert (
        "behind n-grams: after " in call("explain", files / "predictor", *words, "--evidence", 2)[1]
    )
    (files / "train.txt").rename(files / "elsewhere.txt")
    code, _, err = call("explain", files / "predictor", *words, "--evidence", 1)
    assert (code, "not there now" in err) == (3, True)
    for asked in (("graph", "--last", "w1"), ("summary",), ("summary", "--last", "w1")):
        code, out, _ = call(asked[0], files / "predictor", *asked[1:])
        assert (code, "learned" in out) == (0, True)
        assert json.loads(call(asked[0], files / "predictor", *asked[1:], "--json")[1])
    assert "share in the log-odds" in (files / "why.svg").read_text(encoding="utf-8")


def test_words_a_predictor_never_saw_are_marked(call, files):
    tuned(call, files)
    for command in ("predict", "explain"):
        code, out, _ = call(command, files / "predictor", "w1", "W2", "--json")
        assert code == 6
        assert json.loads(out)["unknown"][0]["token"] == "W2"
        assert json.loads(out)["unknown"][0]["nearest"] == "w2"
        code, out, _ = call(command, files / "predictor", "w1", "W2")
        assert "followed 'W2' in training" not in out  # nothing ever did
        assert (code, "not in the vocabulary; did you mean ‘w2’?" in out) == (6, True)
        assert call(command, files / "predictor", "w1", "w2")[0] == 0


def test_options_that_say_nothing_about_a_folder_are_refused(call, files):
    tuned(call, files)
    call("fit", files / "train.txt", "--context", 6, "-o", files / "model")
    for command, option, kind in [
        ("predict", ["--radius", "2"], "predictor"), ("explain", ["--run", files / "r"], "predictor"),
        ("predict", ["--backoff"], "model"),
        ("predict", ["--no-backoff"], "model"), ("explain", ["--backoff"], "model"),
        ("predict", ["--seed", "1"], "model"), ("predict", ["--seed", "1"], "predictor"),
    ]:  # fmt: skip
        code, _, err = call(command, files / kind, "w1", "w2", *option)
        assert code == 2, (command, option)
        assert option[0].replace("--no-", "--") in err
    assert not (files / "f.svg").exists()
    drawn = [
        json.loads(
            call("predict", files / "predictor", "w1", "--sample", 4, "--seed", s, "--json")[1]
        )["continuation"]
        for s in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == 4


def test_tune_says_where_the_best_lies_at_an_edge(call, files):
    edge = ("--lambdas", "0.001,0.002", "--thetas", "0.5", "--priors", "main")
    code, out, _ = tuned(call, files, *edge, "--widen", 1)
    assert code == 0
    assert "the grid was widened 1 time" in out
    assert (
        "lambda 0.004 lies at the edge of what was tried; to try further: --lambdas 0.002,0.004,0.008"
        in out
    )
    code, out, _ = tuned(call, files, *edge, "--widen", 0, "--json")
    assert json.loads(out)["chosen"]["at_edge"] == ["lambda"]
