"""How many dimensions hard retrieval needs: shares by hand, one draw for all commands, pieces that survive."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from attomaton import Vocabulary, example_samples, samples_from_sequences, solve_limit
from attomaton.errors import UsageError
from attomaton.jobs import dimensions as job
from attomaton.jobs.dimensions import dimensions_run
from attomaton.jobs.fit import fit_run
from attomaton.mechanics.synthetic import drawn_embeddings
from attomaton.mechanics.theory.retrieval import retrieval, rule_of_thumb
from attomaton.report.figures.dimensions import dimensions_figure

FIVE = np.array([[1, 0, 0], [0, 1, 0], [-0.5, 0.5, 0], [0.5, -0.5, 0], [0, 0, 1.0]])


def five():
    rows = [list("abq"), list("cdq")]
    return samples_from_sequences(rows, ["a", "c"], weights=[3, 1], vocabulary=Vocabulary("abcdq"))


def test_shares_are_counted_by_hand():
    """Of a over b, a over q, c over d, c over q two are ties; a keeps 3/4 beside b, c keeps 1/4 beside d."""
    found = retrieval(solve_limit(five(), FIVE))
    assert (found.strict, found.hard) == (0.5, 0)
    assert found.selected == pytest.approx((3 * 0.75 + 0.25) / 4, abs=1e-9)
    alone = retrieval(solve_limit(five()))
    assert (alone.strict, alone.hard, alone.selected, alone.loss_floor) == (1, 1, 1, 0)
    # A cycle is nothing the dimension could mend: what its graph ties counts as selected.
    both = samples_from_sequences([["a", "b"], ["a", "b"]], ["a", "b"])
    mixed = retrieval(solve_limit(both))
    assert (mixed.strict, mixed.hard, mixed.selected) == (0, 0, 1)


def test_the_first_draw_is_that_of_fit(tmp_path):
    found = dimensions_run("example", tmp_path / "D", d=[3, 5], draws=2, seed=4)
    for row in found.rows:
        fitted = fit_run("example", tmp_path / "M", dimension=row.d, seed=4)
        again = fit_run("example", tmp_path / "M", dimension=row.d, seed=5)
        floors = sorted([fitted["loss_floor"], again["loss_floor"]])
        assert [row.loss_floor.low, row.loss_floor.high] == pytest.approx(floors, abs=1e-12)
        assert row.residual <= 1e-8
    table = pq.read_table(tmp_path / "D" / "data.parquet").to_pydict()
    assert table["d"] == [3, 3, 5, 5]
    assert table["seed"] == [4, 5, 4, 5]
    dimensions_run("example", tmp_path / "E", d=[3, 5], draws=2, seed=4)
    same = [(tmp_path / name / "data.parquet").read_bytes() for name in "DE"]
    assert same[0] == same[1]


def test_dimensions_double_until_everything_is_strict_that_will_be(tmp_path):
    found = dimensions_run("example", tmp_path / "D")
    assert found.end == retrieval(solve_limit(example_samples()))
    assert [row.d for row in found.rows] == [2, 4, 8]
    assert found.all_strict_from == 8
    last = found.rows[-1]
    assert last.strict.low == last.strict.high == found.end.strict
    assert last.loss_floor.mean == pytest.approx(found.end.loss_floor, abs=1e-9)
    assert found.rows[0].strict.high == 0  # control: in two dimensions everything is tied
    assert found.rule_of_thumb == rule_of_thumb(26)
    assert (tmp_path / "D" / "figures" / "dimensions.png").is_file()


def test_as_many_dimensions_as_tokens_are_the_end(tmp_path):
    found = dimensions_run("example", tmp_path / "D", d=[12, 15], draws=1)
    for row in found.rows:
        assert row.strict.mean == found.end.strict
        assert row.hard.mean == found.end.hard
        assert row.loss_floor.mean == pytest.approx(found.end.loss_floor, abs=1e-9)


def test_given_vectors_are_projected_on_their_principal_directions(tmp_path):
    E = drawn_embeddings(12, 5, 1).E * np.array([3, 2, 1, 1, 1])
    np.save(tmp_path / "E.npy", E)
    (tmp_path / "words.json").write_text(json.dumps(example_samples().vocabulary.labels))
    files = {"embeddings": tmp_path / "E.npy", "vocabulary": tmp_path / "words.json"}
    found = dimensions_run("example", tmp_path / "D", **files)
    assert [row.d for row in found.rows] == [2, 4, 5]
    assert found.embeddings.endswith("projected on their first d principal directions")
    whole = solve_limit(example_samples(), E).finite.loss_floor
    assert found.rows[-1].loss_floor.mean == pytest.approx(whole, abs=1e-9)
    _, _, directions = np.linalg.svd(E, full_matrices=False)
    two = solve_limit(example_samples(), E @ directions[:2].T).finite
    assert found.rows[0].loss_floor.mean == pytest.approx(two.loss_floor, abs=1e-9)
    assert found.rows[0].finite_norm.mean == pytest.approx(two.norm, rel=1e-6)
    wide = dimensions_run("example", tmp_path / "D", d=[5, 6], **files)
    assert [x.d for x in wide.left_out] == [6]
    with pytest.raises(UsageError, match="given"):
        dimensions_run("example", tmp_path / "D", draws=2, **files)


def test_what_is_too_large_is_left_out_and_the_others_go_on(tmp_path, call, monkeypatch):
    solve = job.solve_limit

    def refusing(samples, E=None, **options):
        if E is not None and E.E.shape[1] == 4:
            raise UsageError("embeddings: need 9e99 numbers at once.")
        return solve(samples, E, **options)

    monkeypatch.setattr(job, "solve_limit", refusing)
    out = tmp_path / "D"
    code, text, _ = call("dimensions", "example", "--d", "2,4,6", "--draws", 2, "-o", out)
    assert code == 0
    assert "left out, d = 4: embeddings: need 9e99 numbers at once." in text
    said = json.loads((out / "summary.json").read_text())
    assert [row["d"] for row in said["rows"]] == [2, 6]
    assert said["left_out"] == [{"d": 4, "why": "embeddings: need 9e99 numbers at once."}]


def test_progress_within_a_dimension_is_one_of_the_whole(tmp_path, monkeypatch):
    solve, told = job.solve_limit, []

    def telling(samples, E, progress):
        progress(1, 4, "a quarter")
        return solve(samples, E)

    monkeypatch.setattr(job, "solve_limit", telling)
    out = tmp_path / "D"
    dimensions_run("example", out, d=[2, 3], draws=1, progress=lambda *x: told.append(x))
    assert told[2:] == [
        (0, 2, "d = 2, draw 1"),
        (1, 8, "d = 2, draw 1: a quarter"),
        (1, 2, "d = 3, draw 1"),
        (5, 8, "d = 3, draw 1: a quarter"),
    ]


def test_a_run_that_was_broken_off_goes_on(tmp_path, monkeypatch):
    whole = dimensions_run("example", tmp_path / "A", d=[2, 4, 6], draws=2)
    solve, calls = job.retrieval, []

    def breaking(limit):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return solve(limit)

    with monkeypatch.context() as patch:
        patch.setattr(job, "retrieval", breaking)
        with pytest.raises(KeyboardInterrupt):
            dimensions_run("example", tmp_path / "B", d=[2, 4, 6], draws=2)
    assert not (tmp_path / "B").exists()
    again = dimensions_run("example", tmp_path / "B", d=[2, 4, 6], draws=2)
    assert (whole.resumed_pieces, again.resumed_pieces) == (0, 4)
    assert [row.loss_floor for row in again.rows] == [row.loss_floor for row in whole.rows]
    assert not (tmp_path / "B" / "pieces").exists()


def test_processes_find_the_same(tmp_path, call):
    options = ["dimensions", "example", "--d", "2,5", "--draws", 2, "--json", "-o", tmp_path / "D"]
    here = json.loads(call(*options)[1])
    there = json.loads(call(*options, "--engine", "processes", "--workers", 2)[1])
    for a, b in zip(here["rows"], there["rows"], strict=True):
        assert a["loss_floor"] == b["loss_floor"]
        assert a["strict"] == b["strict"]


def test_the_command_line(tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text, err = call("dimensions", "example", "--d", "3,8", "--seed", 1)
    assert code == 0, err
    assert "≥ K" in text
    assert "from d = 8 on they are strict in every draw" in text
    (run,) = tmp_path.glob("runs/*-dimensions-*")
    assert call("runs", "check", run)[0] == 0
    code, shown, _ = call("runs", "show", run)
    assert code == 0
    assert "run of dimensions" in shown
    for options in (["--d", "two"], ["--d", "0"], ["--draws", 0], ["--seed", -1]):
        assert call("dimensions", "example", *options)[0] == 2


def test_the_picture_shows_theory_beside_what_was_found():
    from attomaton.mechanics.theory.retrieval import over_draws

    end = retrieval(solve_limit(example_samples()))
    rows = [
        over_draws(d, [retrieval(solve_limit(example_samples(), drawn_embeddings(12, d, i)))
                       for i in range(2)], 0.0)
        for d in (2, 6)
    ]  # fmt: skip
    figure = dimensions_figure(rows, end, 3.6)
    assert figure.axes[1].get_title(loc="left") == "What is mixed: the loss floor"
    floor = figure.axes[1].get_lines()
    assert floor[0].get_ydata().tolist() == [row.loss_floor.mean for row in rows]
    assert floor[1].get_ydata().tolist() == [end.loss_floor] * 2
