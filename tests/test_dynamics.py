"""The commands of scan and snap as their users meet them."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file
from scipy.optimize import brentq

from attomaton.claims.registry import figures
from attomaton.scan_snap.levels import settings_of

CLASSES = """
[[class]]
query = "q"
next = "yes"
tokens = { the = 0.5, sun = 0.3, sky = 0.2 }

[[class]]
query = "q"
next = "no"
tokens = { the = 0.5, rain = 0.5 }
"""


@pytest.fixture
def no_figures(monkeypatch):
    """`attomaton dynamics` draws figures too; here only what else it leaves is looked at."""
    monkeypatch.setattr("attomaton.jobs.dynamics.package_version", lambda name: None)


def gain(t, eta_y=1.0, K=2, M=7):
    """γ(t) = (M−1)² h / (M−1+e^{Mh}) with e^{Mh} + (M−1)Mh = Mη_Y t/K + 1."""
    h = brentq(lambda h: np.exp(M * h) + (M - 1) * M * h - M * eta_y * t / K - 1, 0, 5, xtol=1e-15)
    return (M - 1) ** 2 * h / (M - 1 + np.exp(M * h))


def test_three_levels_on_the_same_axes(call, tmp_path):
    (tmp_path / "c.toml").write_text(CLASSES)
    code, out, err = call(
        "dynamics", tmp_path / "c.toml", "--level", "sampled,limit,reduced", "--steps", 6, "--batch", 8,
        "-T", 16, "--until", 1000, "-o", tmp_path / "R", "--json",
    )  # fmt: skip
    assert code == 0, err
    record = json.loads(out)
    assert (record["K"], record["M"]) == (2, 7)
    assert set(record["levels"]) == {"sampled", "limit", "reduced"}
    for level in record["levels"]:
        columns = pq.read_table(tmp_path / "R" / f"{level}.parquet").to_pydict()
        recorded = {"loss", "y_norm", "gamma", "gamma_predicted", "xi", "B", "entropy"}
        assert recorded <= set(columns)
        # γ written out, with h from its defining equation by bisection.
        predicted = dict(zip(columns["t"], columns["gamma_predicted"], strict=True))
        assert all(value == pytest.approx(gain(t), rel=1e-9) for t, value in predicted.items())
        state = load_file(tmp_path / "R" / f"{level}.safetensors")
        assert len(columns["t"]) == state["z"].shape[1] * 2
    assert (tmp_path / "R" / "figures" / "dynamics.svg").exists()


def test_limit_in_steps_when_steps_are_asked_of_it_alone(call, tmp_path):
    code, _, _ = call("dynamics", "syn-small", "--steps", 10, "-o", tmp_path / "R", "--json")
    assert code == 0
    t = pq.read_table(tmp_path / "R" / "limit.parquet")["t"].to_pylist()
    assert sorted(set(t)) == list(map(float, range(11)))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["syn-smal"], 2, "did you mean 'syn-small'"),
        (["absent.toml"], 3, "absent.toml"),
        (["syn-small", "--level", "limt"], 2, "did you mean 'limit'"),
        (["syn-small", "--level", "sampled", "-T", 1], 2, "T=1"),
        (["syn-small", "--eta-y", 0], 2, "eta_y"),
        (["syn-small", "--eta-z", -1], 2, "eta_z"),
        (["syn-small", "--until", 0], 2, "until"),
        (["syn-small", "--level", "reduced", "--mixing", "inverted"], 2, "inverse"),
    ],
)
def test_bad_settings(call, tmp_path, arguments, code, says):
    got, out, err = call("dynamics", *arguments, "-o", tmp_path / "R")
    assert (got, out) == (code, "")
    assert says in err
    assert "Traceback" not in err
    assert not (tmp_path / "R").exists()


def test_settings_are_recorded_with_their_defaults(call, tmp_path):
    code, out, _ = call(
        "dynamics", "syn-small", "--level", "reduced", "-o", tmp_path / "d", "--json"
    )
    assert code == 0
    assert json.loads(out)["levels"]["reduced"]["settings"] == {"until": 1e6, "mixing": "inverse"}
    config = tomllib.loads((tmp_path / "d" / "config.toml").read_text(encoding="utf-8"))
    assert (config["level"], config["reduced"]["until"]) == ("reduced", 1e6)
    assert settings_of("sampled", {"steps": 7}) | {"steps": 7, "T": 128} == settings_of(
        "sampled", {"steps": 7}
    )
    assert "until" not in settings_of("limit", {"steps": 7})


def test_an_option_no_level_takes_is_refused(call, tmp_path):
    code, _, err = call(
        "dynamics", "syn-small", "--level", "reduced", "--batch", 3, "-o", tmp_path / "d"
    )
    assert (code, "batch is for sampled" in err) == (2, True)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("the = 0.5, rain = 0.5", "the = 0.5, rain = 0.6", "add up to 1.1"),
        ("rain = 0.5", "rain = -0.5", "-0.5"),
        ('query = "q"\nnext = "no"', 'query = "rain"\nnext = "no"', "context token"),
        (CLASSES, "", "no classes"),
    ],
)
def test_bad_classes(call, tmp_path, old, new, says):
    (tmp_path / "c.toml").write_text(CLASSES.replace(old, new))
    code, _, err = call("dynamics", tmp_path / "c.toml", "-o", tmp_path / "R")
    assert code == 3, err
    assert says in err.replace("there are ", "")
    assert not (tmp_path / "R").exists()


@pytest.mark.parametrize(
    "name", ["scan-snap-fig3", "scan-snap-fig4", "scan-snap-fig8", "scan-snap-fig9"]
)
def test_published_figures_leave_picture_data_and_verdict(call, tmp_path, name):
    code, out, err = call("reproduce", name, "-o", tmp_path / "R", "--json")
    assert code == 0, err
    record = json.loads(out)
    assert (record["verdict"], record["control"]) == ("holds", "fails")
    assert pq.read_table(tmp_path / "R" / "data.parquet").num_rows > 100
    assert {p.suffix for p in (tmp_path / "R" / "figures").iterdir()} == {".svg", ".png"}


def test_every_promised_preset_is_there():
    promised = {f"scan-snap-fig{n}" for n in range(3, 13)}
    numbers = (4, 5, 6, 7, 9, 10, 11, 12)
    promised |= {"mechanics-global", "mechanics-local", *(f"mechanics-fig{n}" for n in numbers)}
    promised |= {"ntp-fig1", "ntp-fig4", *(f"joma-fig{n}" for n in (2, 3, 4))}
    assert promised == set(figures())


@pytest.mark.filterwarnings("error")  # of a logarithmic axis without numbers
@pytest.mark.parametrize("classes", ["syn-small", "c.toml"])
def test_a_diverged_run_says_so_and_keeps_what_it_had(classes, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text(CLASSES)
    code, out, _ = call(
        "dynamics", classes, "--level", "sampled", "--eta-y", 1e38, "--eta-z", 1e38, "--steps", 5,
        "--batch", 8, "-T", 16, "-o", tmp_path / "R", "--json",
    )  # fmt: skip
    assert code == 4
    assert json.loads(out)["levels"]["sampled"]["status"][0].startswith("diverged at step")
    z = load_file(tmp_path / "R" / "sampled.safetensors")["z"]
    assert np.isfinite(z[0, 0]).all()


@pytest.mark.usefixtures("no_figures")
def test_levels_that_were_finished_are_kept_and_end_in_the_same_run(call, tmp_path, monkeypatch):
    from attomaton.folders.look import look
    from attomaton.jobs import dynamics

    words = ("dynamics", "syn-small", "--level", "reduced,limit", "--until", "50")
    assert call(*words, "-o", tmp_path / "whole")[0] == 0
    run, asked = dynamics.run_level, []

    def once(level, *rest, **options):
        asked.append(level)
        if level == "limit" and asked.count("limit") == 1:
            raise KeyboardInterrupt
        return run(level, *rest, **options)

    monkeypatch.setattr(dynamics, "run_level", once)
    assert call(*words, "-o", tmp_path / "r")[0] == 130
    left = look(tmp_path / ".r.partial")
    assert str(left.done) == "1 of 2 levels"
    assert call(*words, "-o", tmp_path / "r")[0] == 0
    assert asked == ["reduced", "limit", "limit"]
    for name in ("reduced.parquet", "limit.parquet", "reduced.safetensors", "config.toml"):
        assert (tmp_path / "r" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "r" / "checkpoints").exists()


@pytest.mark.usefixtures("no_figures")
def test_a_run_on_disk_gives_back_what_its_levels_recorded(call, tmp_path):
    from attomaton.folders.dynamics import levels_of, read_dynamics
    from attomaton.scan_snap.levels import find_classes, run_level
    from attomaton.scan_snap.theory.phase import measure_phases

    (tmp_path / "c.toml").write_text(CLASSES)
    run = tmp_path / "run"
    call("dynamics", tmp_path / "c.toml", "--level", "reduced,limit", "--until", "100", "-o", run)
    (tmp_path / "c.toml").unlink()  # the run has its own copy
    assert set(levels_of(run)) == {"reduced", "limit"}
    (tmp_path / "c.toml").write_text(CLASSES)
    for level in ("reduced", "limit"):
        there = read_dynamics(run, level)
        fresh = run_level(level, find_classes(str(tmp_path / "c.toml")), 1.0, 1.0, until=100.0)
        np.testing.assert_array_equal(there.z, fresh.z)
        np.testing.assert_allclose(there.entropy, fresh.entropy, rtol=1e-12)
        assert there.status == fresh.status
        ours, theirs = measure_phases(there)[0], measure_phases(fresh)[0]
        assert (ours.transition, ours.knee) == pytest.approx(
            (theirs.transition, theirs.knee), nan_ok=True
        )
