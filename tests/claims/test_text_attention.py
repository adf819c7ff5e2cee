"""Figures 7 and 10 of Scan and Snap on a small text; and the rules that judge them."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from attomaton.claims import text_attention as figures
from attomaton.errors import UsageError
from attomaton.jobs import reproduce
from attomaton.transformer import train as training
from attomaton.transformer.train import Run


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A text in which a word is followed by what followed it before, and figures of a few steps."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in rng.integers(0, 30, 9_000)]
    for name, part in (("train", words), ("valid", words[:3_000])):
        (tmp_path / f"{name}.txt").write_text(" ".join(part) + "\n")
    files = {name: tmp_path / f"{name}.txt" for name in ("train", "valid")}
    monkeypatch.setattr(figures, "dataset_files", lambda name: {"wikitext-2": files}[name])
    size = figures.Size(None, 8, 9, 3, 2, 2, None, "float32", False)
    monkeypatch.setattr(figures, "FIG7_QUICK", size)
    monkeypatch.setattr(figures, "DEPTHS", (1, 2))
    monkeypatch.setattr(figures, "PICTURES", (0, 3, 6))
    monkeypatch.setattr(figures, "FIG10_QUICK", size._replace(steps=6, probes=0))
    return tmp_path


def test_figure_7_leaves_maps_curves_and_a_verdict(call, tiny):
    code, out, err = call("reproduce", "scan-snap-fig7", "--quick", "-o", tiny / "R", "--json")
    record = json.loads(out)
    assert code == (0 if record["verdict"] == "holds" else 4), err
    assert record["control"] == "fails"
    assert [row["layers"] for row in record["rows"]] == [1, 2]
    assert "vocabulary 31, width 8, 9 steps" in record["size"]
    table = pq.read_table(tiny / "R" / "data.parquet").to_pydict()
    b = np.reshape(table["attention"], (2, 4, 35, 35))
    np.testing.assert_allclose(b.sum(-1), 1, rtol=1e-5)
    assert sorted(set(table["step"])) == [0, 3, 6, 9]
    for curve in record["curves"]:
        received = [sum(x) for x in zip(*(curve[k] for k in record["even"]), strict=True)]
        np.testing.assert_allclose(received, 1, rtol=1e-5)
    assert {p.suffix for p in (tiny / "R" / "figures").iterdir()} == {".svg", ".png"}
    assert not (tiny / "R" / "checkpoints").exists()


def test_figure_10_leaves_rates_with_intervals_even_where_it_cannot_be_drawn(
    call, tiny, monkeypatch
):
    monkeypatch.setattr(reproduce, "find_spec", lambda name: None)
    code, out, err = call(
        "reproduce", "scan-snap-fig10", "--quick", "--seeds", 2, "-o", tiny / "R", "--json"
    )
    record = json.loads(out)
    assert code == (0 if record["verdict"] == "holds" else 4), err
    assert record["control"] == "fails"
    assert [row["lr"] for row in record["rows"]] == list(figures.RATES)
    assert all(0 < row["entropy_mean"] < np.log(35) for row in record["rows"])
    assert all(row["entropy_error"] > 0 for row in record["rows"])
    assert pq.read_table(tiny / "R" / "data.parquet").num_rows == 5 * 3
    assert "matplotlib is missing" in record["figure"]
    assert not (tiny / "R" / "figures").exists()
    assert len(reproduce.draw_run(tiny / "R")) == 2


class Killed(BaseException):
    """What a process does not live to catch."""


def test_a_killed_run_goes_on_where_it_was(tiny, monkeypatch):
    monkeypatch.setattr(training, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(reproduce, "save", lambda *_: [])  # nothing is asked of the figure here
    whole = reproduce.reproduce_run("scan-snap-fig7", tiny / "whole", quick=True)
    seen = []

    def kill(done, total, loss):
        seen.append(done)
        if done == 15:  # in the middle of the second model
            raise Killed

    with pytest.raises(Killed):
        reproduce.reproduce_run("scan-snap-fig7", tiny / "R", quick=True, progress=kill)
    assert not (tiny / "R").exists()
    rest = reproduce.reproduce_run(
        "scan-snap-fig7", tiny / "R", quick=True, progress=lambda done, *_: seen.append(done)
    )
    # The first model is not trained again, the second goes on from its last record.
    assert seen == [3, 6, 9, 12, 15, 15, 18]
    assert rest["rows"] == whole["rows"]
    assert rest["curves"] == whole["curves"]
    assert not (tiny / ".R.partial").exists()


def test_only_long_presets_have_a_quick_version(call, tmp_path):
    code, _, err = call("reproduce", "scan-snap-fig3", "--quick", "-o", tmp_path / "R")
    assert code == 2
    assert "scan-snap-fig3 has no quick version; these have: scan-snap-fig7" in err


def test_one_seed_has_no_interval():
    with pytest.raises(UsageError, match="at least 2"):
        figures.fig10(seeds=1)


def fig7_row(fall=0.3, error=0.01, end=1.0, moves=0.05):
    row = {"share_fall": fall, "share_fall_error": error}
    row |= {"entropy": 2.5, "entropy_end": end, "entropy_moves": moves}
    return row | {"sparse": figures._sparse(row), "frozen": figures._frozen(row)}


def test_the_rule_of_figure_7_by_hand():
    good = fig7_row()
    assert figures._fig7_verdict([good, good]) == "holds"
    for bad in ({"fall": 0.05}, {"error": 0.1}, {"fall": -0.3}, {"moves": 0.1}, {"end": 2.6}):
        assert figures._fig7_verdict([good, fig7_row(**bad)]) == "fails"


def test_the_last_third_and_the_maps_by_hand():
    nats = np.array([2.0, 1.5, 1.0, 0.8, 0.5, 0.4, 0.45])  # the last third: from 0.5 on
    maps = np.stack([np.tri(2) / [[1], [2]], *[np.eye(2)] * 6])  # half the attention moves, once
    records = {
        "entropy": np.tile(nats[None, :, None, None], (1, 1, 2, 1)),
        "entropy_share": np.tile(nats[None, :, None, None], (1, 1, 2, 1)) / 2,
        "valid_loss": np.zeros((1, 7)),
        "maps": maps[None, :, None, None],
    }
    run = Run(np.ones(1), np.zeros(1, int), np.zeros((1, 6)), np.arange(7), records, None, {})
    row = figures._fig7_row(run)
    assert row["entropy_moves"] == pytest.approx(0.1)
    assert (row["map_change_first"], row["map_change_last"]) == (0.25, 0.0)
    assert (row["sparse"], row["frozen"]) == ("holds", "fails")  # 0.1 is more than 5 % of 1.55


def made_up(entropy):
    """A run of two seeds at five rates with these last entropies."""
    lr = np.repeat(figures.RATES, 2)
    last = np.repeat(entropy, 2) + np.tile([0, 0.001], 5)
    records = {"entropy": last[:, None, None, None]}
    return Run(lr, np.tile([0, 1], 5), np.zeros((10, 1)), np.array([0]), records, None, {})


@pytest.mark.parametrize(
    ("entropy", "verdict"),
    [([2.5, 2.4, 2.3, 2.2, 2.1], "holds"), ([2.1, 2.2, 2.3, 2.4, 2.5], "fails"),
     ([2.5, 2.4999, 2.4998, 2.4997, 2.4996], "fails")],
)  # fmt: skip
def test_the_rule_of_figure_10_by_hand(entropy, verdict):
    measured = figures._trend(made_up(np.array(entropy)), 2, 1.0)
    assert measured["slope"] == pytest.approx((entropy[-1] - entropy[0]) / 4)
    assert measured["fall"] == pytest.approx(entropy[0] - entropy[-1])
    assert figures._fig10_verdict(measured) == verdict


def test_the_interval_by_hand():
    # Student's t with one degree of freedom: 12.706 standard errors; here the error is 1.
    assert figures._half_interval(np.array([0.0, 2.0])) == pytest.approx(12.706, abs=1e-3)


def test_a_trend_within_the_noise_does_not_count():
    measured = {"slope": -0.1, "slope_error": 0.2, "fall": 0.4}
    assert figures._fig10_verdict(measured) == "fails"
