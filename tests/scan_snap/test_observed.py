"""Sequence classes as a data set has them."""

import json
import tomllib

import numpy as np
import pytest

from attomaton import example_samples
from attomaton.errors import DataError
from attomaton.jobs.classes import data_classes
from attomaton.scan_snap.families import classes_text, read_classes, sequence_classes
from attomaton.scan_snap.observed import observed_classes


def rows(tmp_path, *told):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps({"tokens": t.split(), "next": n}) for t, n in told))
    return path


def law(found, n):
    classes = found.classes
    return {classes.names[l]: float(p) for l, p in enumerate(classes.P[n]) if p}


def test_labels_are_classes_and_last_tokens_their_queries(tmp_path):
    path = rows(
        tmp_path, ("tea cake bell", "tea"), ("tea tea soup bell", "tea"), ("soup cake gong", "soup"),
        ("tea cake gong", "tea"), ("bell soup bell", "soup"), ("bell soup bell", "soup"),
    )  # fmt: skip
    found = data_classes(path)
    classes = found.classes
    assert [classes.names[x] for x in classes.next_of] == ["tea", "soup"]
    # `soup` came after bell twice and after gong once; `tea` after bell twice. The others are set aside.
    assert [classes.names[q] for q in classes.query_of] == ["bell (query)", "bell (query)"]
    assert found.weight.tolist() == [2, 2]
    assert (found.total, found.other_queries, found.other_labels) == (6, 2, 0)
    assert law(found, 0) == pytest.approx({"tea": 3 / 5, "cake": 1 / 5, "soup": 1 / 5})
    # One bell of each context is the query, the other stays.
    assert law(found, 1) == pytest.approx({"bell": 1 / 2, "soup": 1 / 2})
    assert "33% after another last token" in found.said


def test_rarer_labels_and_tokens_are_left_out_and_said(tmp_path):
    told = [("a b c d end", "a")] * 5 + [("b c b b end", "b")] * 3 + [("c d end", "c")]
    found = data_classes(rows(tmp_path, *told), most_classes=2, most_tokens=2)
    assert (found.classes.K, found.other_labels) == (2, 1)
    assert found.folded == pytest.approx((5 * 0.5 + 3 * 0.25) / 8)
    assert law(found, 0) == pytest.approx({"a": 1 / 2, "b": 1 / 2})
    assert law(found, 1) == pytest.approx({"b": 1})
    with pytest.raises(DataError, match="last token alone"):
        data_classes(rows(tmp_path, ("end", "end")))


def test_other_names_of_tokens_give_the_same_classes():
    s = example_samples()
    K = len(s.vocabulary)
    turn = np.random.default_rng(3).permutation(K)
    names = [f"t{i}" for i in range(K)]
    here = observed_classes(s.last, s.label, s.weight, s.sample_of, s.token, s.count, names)
    there = observed_classes(
        turn[s.last], turn[s.label], s.weight, s.sample_of, turn[s.token], s.count,
        [names[i] for i in np.argsort(turn)],
    )  # fmt: skip
    both = []
    for found in (here, there):
        c = found.classes
        both.append({
            c.names[x]: (c.names[q], {k: round(v, 12) for k, v in law(found, n).items()})
            for n, (q, x) in enumerate(zip(c.query_of, c.next_of, strict=True))
        })  # fmt: skip
    assert both[0] == both[1]


def test_classes_written_to_a_file_are_read_again(tmp_path):
    odd = ('he said "no"', "tab\there", "ünï", "q (query)", "n")
    made = sequence_classes([[0.1, 0.2, 0.7, 0, 0]], [3], [4], odd)
    path = tmp_path / "c.toml"
    path.write_text(classes_text(made))
    again = read_classes(path)
    assert set(again.names) == set(odd)
    at = [again.names.index(name) for name in odd]
    np.testing.assert_allclose(again.P[:, at], made.P, rtol=1e-15)
    assert again.names[again.query_of[0]] == "q (query)"


def test_the_command_writes_classes_that_dynamics_runs(call, tmp_path):
    path = rows(tmp_path, ("tea cake bell", "tea"), ("soup cake bell", "soup"))
    code, out, _ = call("data", "classes", path, "-o", tmp_path / "own.toml", "--json")
    assert code == 0
    assert json.loads(out)["classes"] == 2
    assert len(tomllib.loads((tmp_path / "own.toml").read_text())["class"]) == 2
    run = tmp_path / "run"
    code, _, _ = call(
        "dynamics", tmp_path / "own.toml", "--level", "reduced", "--until", "100", "-o", run
    )
    assert code == 0
    assert call("runs", "check", run)[0] == 0
    code, _, said = call("data", "classes", path, "-o", tmp_path / "own.toml")
    assert code == 2
    assert "--force" in said
