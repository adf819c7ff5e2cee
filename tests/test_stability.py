"""What would change: the commands `simulate`, `mix`, `bootstrap` and `diff`."""

import json

import pytest

from attomaton import samples_from_sequences, save_model, solve_limit


@pytest.fixture
def tea(tmp_path):
    """A model of two tokens, cake with odds 1/4 against tea after either."""
    rows = [["tea", "cake"], ["tea", "cake"], ["cake", "tea"], ["cake", "tea"]]
    samples = samples_from_sequences(rows, ["tea", "cake"] * 2, [4, 1, 4, 1])
    save_model(solve_limit(samples), tmp_path / "tea")
    return tmp_path / "tea"


def test_trajectories_are_told_beside_theory(call, tea, tmp_path):
    figure = tmp_path / "a.svg"
    words = ("simulate", tea, "tea", "cake", "--trajectories", 200, "--steps", 400)
    code, out, err = call(*words, "--trajectory", "--figure", figure)
    assert (code, err) == (0, "")
    assert "the context grows" in out
    assert "-0.75" in out
    assert "trajectory 1: " in out
    assert "Fading beside" in figure.read_text()
    code, out, _ = call(*words, "--json")
    record = json.loads(out)
    assert record["fading"][0]["predicted"] == pytest.approx(-0.75)
    assert record["tokens"][0]["token"] == "tea"
    assert len(record["trajectory"]) == 400
    assert record["times"][-1] == 400
    assert len(record["predicted"]) == len(record["collapsed"]) == len(record["times"])


def test_a_window_says_so_and_has_no_theory(call, tea):
    code, out, _ = call("simulate", tea, "tea", "cake", "--window", 5, "--steps", 300)
    assert code == 0
    assert "the context is the last 5" in out
    assert "by theory\n" in out
    assert "slope" not in out


def test_unknown_tokens_of_a_prompt_are_marked(call, tea):
    code, out, _ = call("simulate", tea, "teq", "tea", "cake", "--steps", 10)
    assert code == 6
    assert "did you mean ‘tea’" in out
    code, _, err = call("simulate", tea, "tea", "teq")
    assert code == 3
    assert "no prediction" in err
    assert call("simulate", tea, "tea", "--steps", 0)[0] == 2
