"""Damaged input through every reader, in short; and bad readers on purpose, each of which has to be found.

`python -m faults inputs` does the same with 200,000 inputs.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attomaton.errors import DataError
from attomaton.lab.training.runs import Outcome, TrainingRun
from attomaton.mechanics.theory import evidence, information
from faults.inputs import run, table

ROOT = Path(__file__).resolve().parents[2]
TWICE = """
import sys
from pathlib import Path
from faults.inputs import make_seeds

def contents(folder):
    make_seeds(folder)
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

one, two = (contents(Path(place)) for place in sys.argv[1:])
assert len(one) > 50 and one.keys() == two.keys()
print(*(name for name in one if one[name] != two[name]))
"""


def test_damaged_files_end_in_errors_of_ours_or_in_answers():
    done = python("-m", "faults", "inputs", "--inputs", "400", "--workers", "1")
    assert done.returncode == 0, done.stdout
    (total,) = (line.split() for line in done.stdout.splitlines() if line.startswith("all "))
    accepted, refused, *findings = (int(x.replace(",", "")) for x in total[1:])
    assert accepted + refused == 400
    assert not any(findings)
    # Files are neither broken beyond reading nor as good as whole.
    assert min(accepted, refused) > 50


def test_what_damaged_folders_held_and_nobody_expected():
    assert evidence.contrary_bound(0) == 1.0  # an order without a sample
    sure = information._mean(np.array([1e200]), np.array([1.0]), 2.0)  # log-odds beyond all bounds
    assert not np.isfinite(sure.high)
    seeds = Outcome(final=({"seed": 0}, {"seed": 1}))
    damaged = TrainingRun("id", "title", Path("run"), {}, ("finished",), seeds)
    with pytest.raises(DataError, match="other seeds"):
        damaged.finals()


def test_readers_that_fail_hang_or_die_are_found_and_the_others_go_on():
    found = run(14, 22, 1, "faults.bad_readers", patience=1.0)
    assert found["counts"] == {
        "accepts": ended("accepted", 3),
        "dies": ended("crash", 1),
        "foreign": ended("foreign", 2),
        "greedy": ended("foreign", 3),
        "hangs": ended("hang", 1),
        "refuses": ended("refused", 3),
        "speechless": ended("foreign", 1),
    }
    told = {f["subject"]: f["details"] for f in found["findings"]}
    assert told["dies"] == "killed by SIGSEGV"
    assert "MemoryError" in told["greedy"]
    assert "KeyError" in told["foreign"]
    assert "8 findings" in table(found)


def test_seeds_are_the_same_bytes_wherever_they_are_made(tmp_path):
    done = python("-c", TWICE, tmp_path / "a", tmp_path / "another place")
    assert (done.returncode, done.stdout) == (0, "\n"), done.stdout + done.stderr


def python(*arguments):
    asked = [sys.executable, *map(str, arguments)]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def ended(ending, times):
    kinds = ("accepted", "refused", "foreign", "crash", "hang")
    return {kind: times if kind == ending else 0 for kind in kinds}
