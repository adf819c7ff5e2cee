"""`reproduce --set`: what was published, with other settings."""

import json
import tomllib

import numpy as np
import pyarrow.parquet as pq
import pytest

from attomaton.claims.picture import band
from attomaton.claims.registry import figures
from attomaton.errors import UsageError
from attomaton.jobs.reproduce import find_preset, reproduce_run

SMALL = ["--set", "K=5 d=3,n=8", "T=3", "--set", "lr=.05", "steps=50", "seeds=2"]


def test_settings_are_used_recorded_and_shown_and_not_judged(call, tmp_path):
    code, out, err = call("reproduce", "mechanics-fig4", *SMALL, "-o", tmp_path / "R", "--json")
    assert code == 0, err
    record = json.loads(out)
    asked = {"K": 5, "d": 3, "n": 8, "T": 3, "lr": 0.05, "steps": 50}
    assert record["settings"] == {**asked, "kind": "cyclic", "head": "identity", "loss": "log"}
    assert (record["verdict"], record["control"]) == ("not applicable", "not applicable")
    assert "not judged" in record["asked"]
    assert record["title"].endswith("K = 5, d = 3, n = 8, T = 3, lr = 0.05, steps = 50")
    assert not any(row["published"] for row in record["rows"])
    config = tomllib.loads((tmp_path / "R" / "config.toml").read_text(encoding="utf-8"))
    assert config == {"preset": "mechanics-fig4", "seeds": 2, **record["settings"]}
    assert pq.read_table(tmp_path / "R" / "data.parquet").num_rows == record["seeds"] == 2
    drawn = (tmp_path / "R" / "figures" / "mechanics-fig4.svg").read_text(encoding="utf-8")
    assert "K = 5, d = 3" in drawn
    assert "published" not in drawn
    code, out, _ = call("reproduce", "mechanics-fig4", *SMALL, "-o", tmp_path / "S")
    assert "not applicable" in out
    assert "published\n" not in out  # no column of what was published


def test_as_published_is_judged_however_it_is_said(call, tmp_path):
    for i, words in enumerate((["--set", "seeds=12 K=8"], ["seeds=12"], ["--seeds", 12])):
        code, out, err = call(
            "reproduce", "mechanics-fig5", *words, "-o", tmp_path / f"{i}", "--json"
        )
        assert code == 0, err
        record = json.loads(out)
        assert (record["verdict"], record["seeds"]) == ("holds", 12)


def test_settings_change_what_is_measured(tmp_path):
    def run(**settings):
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        return reproduce_run("mechanics-local", out, 2, settings={"steps": 100, **settings})["rows"]

    usual = run()
    assert run(head="tied") == usual
    for other in ({"head": "general"}, {"loss": "logistic-score"}, {"lr": 0.2}, {"T": 3}):
        assert run(**other) != usual


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--set", "k=20"],
            "no setting 'k'; did you mean 'K'? This experiment has seeds=100, K=6, d=8",
        ),
        (["--set", "step=3"], "did you mean 'steps'"),
        (["--set", "K=two"], "K=two: a whole number is needed, such as 6"),
        (["--set", "K=2.5"], "K=2.5: a whole number"),
        (["--set", "lr=fast"], "lr=fast: a number is needed, such as 0.01"),
        (["--set", "K="], "K=: a whole number"),
        (["--set", "K"], "--set K: NAME=VALUE is needed"),
        (["--set", "K=5", "K=6"], "--set K=6: once is enough"),
        (["--set", "K=0"], "K = 0"),
        (["--set", "steps=0"], "steps=0: at least 1"),
        (["--set", "seeds=0"], "seeds=0"),
        (["--set", "seeds=3", "--seeds", "4"], "seeds=4 and seeds=3"),
        (["--set", "head=tide"], "did you mean 'tied'"),
        (["--set", "loss=squares"], "did you mean 'squared'"),
        (["--set", "head=tied"], "has no logarithm"),
        (["--set", "kind=odd"], "'odd' is not one of general"),
        (["mechanics-fig5"], "name one published experiment"),
    ],
)
def test_settings_that_make_no_sense(call, tmp_path, words, says):
    code, out, err = call("reproduce", "mechanics-fig4", *words, "-o", tmp_path / "R")
    assert (code, out) == (2, ""), err
    assert says in err
    assert not (tmp_path / "R").exists()


def test_settings_are_of_one_preset(call, tmp_path):
    code, _, err = call("reproduce", "--all", "--set", "K=3", "-o", tmp_path / "R")
    assert (code, "name one" in err) == (2, True)
    code, _, err = call("reproduce", "scan-snap-fig8", "--set", "K=3", "-o", tmp_path / "R")
    assert (code, "This experiment has none" in err) == (2, True)


def test_several_numbers_of_one_setting():
    _, figure = find_preset("mechanics-fig12")
    assert figure.asked({"d": "2,4,8", "K": 32}) == {"d": (2, 4, 8), "K": 32}
    assert figure.asked({"d": (2, 4)}) == {"d": (2, 4)}
    with pytest.raises(UsageError, match="d=2,x: whole numbers with commas between are needed"):
        figure.asked({"d": "2,x"})
    rows = figure.make(seeds=1, K=24, T=8, n=6, d=(2, 24))["rows"]
    assert [row["d"] for row in rows] == [2, 24]
    assert rows[-1]["selected"] == pytest.approx(1)


def test_every_setting_has_a_published_value():
    for name, claim in figures().items():
        for setting, usual in claim.figure.settings.items():
            assert isinstance(usual, (int, float, str, tuple)), (name, setting)
            assert claim.figure.asked({setting: usual}) == {setting: usual}
    assert {"K", "d", "n", "T", "lr", "steps", "seeds", "head", "loss"} <= set(
        figures()["mechanics-fig6"].figure.settings
    )


def test_a_band_is_the_mean_of_what_is_known():
    found = band([0, 1, 2], np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan]]), "two")
    assert (found.x, found.y) == ([0, 1], [2.0, 5.0])
    assert found.low[0] == pytest.approx(1.2)
    assert found.high[0] == pytest.approx(2.8)
    assert band([0], np.full((2, 1), np.nan), "none").y == []
