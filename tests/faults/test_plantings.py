"""Things of others in the way of commands, the short version of `faults plantings`."""

import subprocess
import sys

import pytest

from faults.cases import ROOT
from faults.plantings import FAULTS, KINDS, Ground, Planting, careless
from faults.scratch import forked


def test_nothing_of_others_is_lost_and_a_command_without_care_loses_files():
    counts = ["--count", "12", "--controls", "40", "--workers", "1"]
    command = [sys.executable, "-m", "faults", "plantings", *counts]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 plantings, 0 faults" in done.stdout
    (control,) = (x for x in done.stdout.splitlines() if x.startswith("control: "))
    assert FAULTS[0] in control
    assert FAULTS[1] in control


@pytest.fixture
def ground(tmp_path):
    return Ground(tmp_path.resolve(), 0, careless)


@pytest.mark.parametrize(
    ("kind", "name", "lost"),
    [
        ("link to folder", ".out.partial", FAULTS[0]),
        ("link to folder", "out", FAULTS[0]),
        ("folder", ".out.partial", FAULTS[1]),
        ("folder", "out", FAULTS[1]),
        ("pipe", ".out.partial/notes.txt", FAULTS[1]),
        ("folder", "elsewhere", None),
        ("link to file", ".out.tmp", None),
    ],
)
def test_what_a_command_without_care_loses_is_counted(ground, kind, name, lost):
    found, ended = ground.tried(Planting("fit", False, kind, name, None))
    assert (lost is None) == (found == []), (found, ended)
    assert lost is None or any(lost in x for x in found)


def test_things_are_planted_just_before_a_touch(ground):
    names = ground.names("fit", False)
    assert names[0].startswith(".out.partial")
    last = max(i for i, name in enumerate(names, 1) if name == "out")
    found, _ = ground.tried(Planting("fit", False, "link to folder", "out", last))
    assert found, names
    torn = ".out.partial/.config.json.{pid}"
    at = names.index(torn) + 1
    found, _ = ground.tried(Planting("fit", False, "dangling link", torn, at))
    assert any(FAULTS[0] in x for x in found), names


def test_a_planting_is_made_from_the_seed_and_its_number_alone(ground):
    some = [ground.drawn(n) for n in range(60)]
    assert some == [ground.drawn(n) for n in range(60)]
    assert {p.kind for p in some} == set(KINDS)
    assert {p.touch is None for p in some} == {True, False}


def test_the_world_is_the_same_every_time(ground):
    world = ground.renew("fit", False)
    forked(["fit", "a.txt", "-o", "out"], world, program=careless)
    again = ground.renew("fit", False)
    assert sorted(p.name for p in (again / "here").iterdir()) == ["a.jsonl", "a.txt"]
