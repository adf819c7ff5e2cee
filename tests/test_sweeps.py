"""Sweeps: grids, pieces, and what is left when the process dies."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict

import pyarrow.parquet as pq
import pytest

from attomaton.disk.storage import seal
from attomaton.errors import DataError, UsageError
from attomaton.folders import sweep as sweeps_folder
from attomaton.jobs import sweep as sweeps
from attomaton.scan_snap.levels import find_classes, memory_mb

# Two starts make two groups, so each sweep has several pieces; they and most sweeps below are of the same sizes, so
# that one program, compiled once, does them all.
GRID = {
    "eta_z": [0.5, 1.0],
    "ratio": [1, 2],
    "start": ["zero", "uniform"],
    "T": [16],
    "steps": [5],
    "seeds": [3],
    "batch": [8],
}


def table(folder):
    return pq.read_table(folder / "results.parquet")


def test_a_grid_is_every_combination_with_rates_resolved():
    cells = sweeps_folder.cells_of(GRID, ["syn-small"], "sampled")
    assert len(cells) == 8
    assert cells[0] == {
        "classes": "syn-small", "eta_z": 0.5, "ratio": 1, "eta_y": 0.5, "start": "zero", "T": 16,
        "steps": 5, "seeds": 3, "batch": 8,
    }  # fmt: skip
    pieces = sweeps_folder.pieces_of(cells, "sampled")
    assert sorted(i for p in pieces for i in p.cells) == list(range(8))
    assert {p.options["start"] for p in pieces} == {"zero", "uniform"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["eta_z"], "name=value"),
        (["eta_z=1", "eta_z=2"], "twice"),
        (["eta_z=1"], "eta_y and ratio"),
        (["eta_z=1", "ratio=1", "eta_y=2"], "eta_y and ratio"),
        (["eta_z=1", "ratio=1", "stpes=5"], "did you mean 'steps'"),
        (["eta_z=a", "ratio=1"], "eta_z=a: a number is needed"),
        (["eta_z=1", "ratio=true"], "ratio=true: a number is needed"),
        (["eta_z=1", "ratio=1", "steps=2.5"], "steps=2.5: a whole number is needed"),
        (["eta_z=1", "ratio=1", "optimizer=3"], "optimizer=3: a word is needed"),
        (["eta_z=1", "ratio=1", "residual=1"], "residual=1: true or false is needed"),
    ],
)
def test_grids_that_make_no_sense(words, says):
    with pytest.raises(UsageError, match=says):
        sweeps_folder.cells_of(sweeps_folder.parse_grid(words), ["syn-small"], "sampled")


def test_a_sweep_continues_where_it_stopped(tmp_path):
    first = sweeps.sweep_run(tmp_path / "a", GRID, ["syn-small"], "sampled")
    assert (first.cells, first.rows, first.failed, first.skipped_pieces) == (
        8,
        24,
        [],
        0,
    )
    asked = json.loads((tmp_path / "a" / "sweep.json").read_text(encoding="utf-8"))
    assert asked["usual"] == first.usual
    assert first.usual["optimizer"] == "sgd"  # what the grid does not name, at its default
    assert not set(first.usual) & set(GRID)
    whole = (tmp_path / "a" / "results.parquet").read_bytes()
    lost = sorted((tmp_path / "a" / "pieces").glob("*.parquet"))[0]
    lost.unlink()
    again = sweeps.sweep_run(tmp_path / "a", GRID, ["syn-small"], "sampled")
    assert again.skipped_pieces == again.pieces - 1
    assert (tmp_path / "a" / "results.parquet").read_bytes() == whole


def test_a_sweep_over_seeds_has_a_column_for_the_setting_and_one_for_the_run(tmp_path):
    sweeps.sweep_run(tmp_path / "a", GRID | {"seed": [0, 7]}, ["syn-small"], "sampled")
    found = table(tmp_path / "a")
    runs = GRID["seeds"][0]
    assert found["seed"].to_pylist() == list(range(runs)) * (found.num_rows // runs)
    assert found["base_seed"].to_pylist()[: 2 * runs] == [0] * runs + [7] * runs
    sweep = sweeps_folder.read_sweep(tmp_path / "a")
    assert [(r.seed, sweep.cells[r.cell]["seed"]) for r in sweep.rows] == list(
        zip(found["seed"].to_pylist(), found["base_seed"].to_pylist(), strict=True)
    )


def test_a_finished_piece_is_never_computed_again(tmp_path, monkeypatch):
    sweeps.sweep_run(tmp_path / "a", GRID, ["syn-small"], "sampled")
    monkeypatch.setattr(sweeps, "run_level", None)  # would fail if it were called
    assert sweeps.sweep_run(tmp_path / "a", GRID, ["syn-small"], "sampled").rows == 24


def test_failed_cells_are_listed_and_the_others_done(tmp_path):
    grid = GRID | {"T": [1, 16], "start": ["zero"]}
    done = sweeps.sweep_run(tmp_path / "a", grid, ["syn-small"], "sampled")
    assert len(done.failed) == 4
    assert all("T=1" in f.error for f in done.failed)
    assert done.rows == 12
    assert set(table(tmp_path / "a")["T"].to_pylist()) == {16}


def test_diverged_cells_are_kept_and_marked(tmp_path):
    grid = GRID | {"eta_z": [1.0, 1e30], "start": ["zero"]}
    sweeps.sweep_run(tmp_path / "a", grid, ["syn-small"], "sampled")
    status = dict(zip(table(tmp_path / "a")["eta_z"].to_pylist(),
                      table(tmp_path / "a")["status"].to_pylist(), strict=True))  # fmt: skip
    assert status[1.0] == "finished"
    assert status[1e30].startswith("diverged at")


def test_a_grid_is_written_as_it_was_read():
    words = ["eta_z=0.5,1,1e-07", "ratio=1", "residual=true,false", "optimizer=adam"]
    assert sweeps_folder.grid_words(sweeps_folder.parse_grid(words)) == words


def test_a_sweep_is_read_while_it_is_incomplete(tmp_path):
    sweeps.sweep_run(tmp_path / "a", GRID | {"T": [1, 16]}, ["syn-small"], "sampled")
    whole = sweeps_folder.read_sweep(tmp_path / "a")
    settings = list(map(sweeps_folder.cell_settings, whole.cells))
    rows = [asdict(row) | settings[row.cell] for row in whole.rows]
    assert rows == table(tmp_path / "a").to_pylist()
    assert (whole.level, whole.classes, whole.missing) == ("sampled", ["syn-small"], set())
    assert {whole.cells[i]["T"] for i in whole.failed} == {1}
    assert all("T=1" in error for error in whole.failed.values())
    (tmp_path / "a" / "results.parquet").unlink()
    sorted((tmp_path / "a" / "pieces").glob("*.parquet"))[0].unlink()
    seal(tmp_path / "a")
    part = sweeps_folder.read_sweep(tmp_path / "a")
    assert len(part.missing) == 4
    assert part.rows == [row for row in whole.rows if row.cell not in part.missing]


def test_a_mean_over_seeds_has_its_interval(tmp_path):
    sweeps.sweep_run(tmp_path / "a", GRID, ["syn-small"], "sampled")
    sweep = sweeps_folder.read_sweep(tmp_path / "a")
    values = [row.loss for row in sweep.rows if row.cell == 5]
    found = sweeps_folder.cell_means(sweep, "loss")
    assert sorted(found) == list(range(8))
    # By hand: t(0.975; 2 degrees of freedom) = 4.302653.
    mean = sum(values) / 3
    error = (sum((x - mean) ** 2 for x in values) / 2 / 3) ** 0.5
    assert found[5] == (pytest.approx(mean), pytest.approx(4.302653 * error, rel=1e-6), 3)
    with pytest.raises(UsageError, match="did you mean 'entropy'"):
        sweeps_folder.cell_means(sweep, "entropi")


def test_diverged_runs_and_single_seeds_have_no_mean_or_no_interval(tmp_path):
    grid = GRID | {"eta_z": [1.0, 1e30], "ratio": [*range(1, 9)], "start": ["zero"], "seeds": [1]}
    sweeps.sweep_run(tmp_path / "a", grid, ["syn-small"], "sampled")
    found = sweeps_folder.cell_means(sweeps_folder.read_sweep(tmp_path / "a"), "entropy")
    assert list(found) == list(range(8))
    assert (found[0].half, found[0].seeds) == (None, 1)


def test_a_folder_without_a_sweep_is_named(tmp_path):
    with pytest.raises(DataError, match="not a sweep folder"):
        sweeps_folder.read_sweep(tmp_path)
    sweeps.sweep_run(tmp_path / "a", GRID, ["syn-small"], "sampled")
    (tmp_path / "a" / "sweep.json").write_text("[]")
    seal(tmp_path / "a")
    with pytest.raises(DataError, match=r"sweep\.json: .* not of its kind"):
        sweeps_folder.read_sweep(tmp_path / "a")


def test_memory_is_stated_before_a_sweep_starts(tmp_path):
    said = []
    sweeps.sweep_run(tmp_path / "a", GRID, ["syn-small"], "sampled", announce=said.append)
    (text,) = said
    assert text.startswith("8 cells in 2 pieces; at most about ")
    assert text.endswith(" MB at a time")
    family = find_classes("syn-small")
    one, two = (memory_mb("sampled", family, runs, 100, batch=8) for runs in (1, 2))
    assert two == pytest.approx(2 * one)
    cells = sweeps_folder.cells_of(
        {"eta_z": [1], "ratio": [1], "steps": [10**6]}, ["syn-small"], "limit"
    )
    recorded = 10**6 * family.K * family.M * 8 / 1e6
    assert sweeps.memory_needed(sweeps_folder.pieces_of(cells, "limit")) > recorded
    # A run cannot hold less than Y, Z and their momentum, in single precision.
    entries = len(family.context_tokens) * (family.M + len(family.queries))
    assert one > 2 * 4 * entries / 1e6


def test_a_folder_holds_one_sweep(tmp_path):
    sweeps.sweep_run(tmp_path / "a", GRID, ["syn-small"], "sampled")
    with pytest.raises(UsageError, match="holds another sweep"):
        sweeps.sweep_run(tmp_path / "a", GRID | {"steps": [6]}, ["syn-small"], "sampled")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="already exists"):
        sweeps.sweep_run(tmp_path / "b", GRID, ["syn-small"], "sampled")


def test_killed_and_continued_equals_undisturbed(tmp_path):
    """SIGKILL while pieces are being done; the table must not tell."""
    # Forty pieces of one program: far more than are done before a kill arrives.
    rates = ",".join(str(1 + i / 64) for i in range(64))
    grid = [f"eta_z={rates}", "ratio=1,2,3,4,5,6,7,8,9,10", "T=16", "steps=5", "batch=8"]
    command = [sys.executable, "-m", "attomaton", "sweep", "syn-small", *grid, "--json", "-o"]
    calm = sweeps.sweep_run(
        tmp_path / "calm", sweeps_folder.parse_grid(grid), ["syn-small"], "sampled"
    )
    assert calm.pieces == 40
    killed = 0
    for _ in range(3):
        process = subprocess.Popen(
            [*command, tmp_path / "torn"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        done = len(list((tmp_path / "torn").glob("pieces/*.parquet")))
        while process.poll() is None:
            if len(list((tmp_path / "torn").glob("pieces/*.parquet"))) > done:
                process.send_signal(signal.SIGKILL)
                killed += 1
                break
            time.sleep(0.001)
        process.communicate()
        if process.returncode == 0:
            break
    assert killed >= 2
    final = sweeps.sweep_run(
        tmp_path / "torn", sweeps_folder.parse_grid(grid), ["syn-small"], "sampled"
    )
    assert final.failed == []
    assert final.skipped_pieces >= killed
    calm, torn = (tmp_path / one / "results.parquet" for one in ("calm", "torn"))
    assert calm.read_bytes() == torn.read_bytes()
    assert not list((tmp_path / "torn").glob("pieces/.*"))
