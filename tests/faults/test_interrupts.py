"""Commands that are interrupted go on as if nothing had happened, the short version of `faults interrupts`."""

import signal
import subprocess
import sys
from dataclasses import replace
from random import Random

import pytest

from faults.interrupts import FAULTS, SWEEP, Arena, Blow, Tally, drawn

# How long a signal takes is measured by the campaign alone: a machine that runs tests is busy.
JUDGED = tuple(name for name in FAULTS if name != "slow")


@pytest.fixture(scope="module")
def arena(tmp_path_factory):
    return Arena(tmp_path_factory.mktemp("arena").resolve(), seed=1, warm=False)


@pytest.mark.parametrize("engine", [None, "processes"])
def test_an_interrupted_sweep_ends_in_one_line_and_goes_on(arena, engine):
    case = replace(SWEEP, name=f"sweep {engine}", engine=engine)
    tally = arena.interrupt(case, 3)
    assert tally.interrupts == 3
    assert {name: tally.faults[name] for name in JUDGED if tally.faults[name]} == {}


def test_every_way_to_be_interrupted_is_drawn():
    rng = Random(0)
    blows = [drawn(rng, 3.0) for _ in range(200)]
    assert {b.number for b in blows} == {signal.SIGINT, signal.SIGTERM}
    assert {b.group for b in blows} == {True, False}
    assert {b.again is None for b in blows} == {True, False}
    assert all(0.0 <= b.moment <= 3.0 for b in blows)


CARELESS = """
import signal, sys, time
{handler}
open(sys.argv[1], "w").close()
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("handler", "faults"),
    [
        ("signal.signal(signal.SIGINT, signal.SIG_DFL)", {"crash"}),
        ("signal.signal(signal.SIGINT, signal.default_int_handler)", {"crash", "traceback"}),
        ("signal.signal(signal.SIGINT, lambda *_: sys.exit(130))", {"lines"}),
        ("signal.signal(signal.SIGINT, lambda *_: sys.exit('gone'))", {"exit code"}),
    ],
)
def test_programs_that_take_it_badly_are_found(arena, monkeypatch, handler, faults):
    case = replace(SWEEP, name="careless")

    def begun(case, folder):
        folder.mkdir(exist_ok=True)
        ready = arena.place / "begun"
        ready.unlink(missing_ok=True)
        with folder.with_name(f"{folder.name}.err").open("w") as told:
            words = [sys.executable, "-c", CARELESS.format(handler=handler), str(ready)]
            process = subprocess.Popen(words, stderr=told, start_new_session=True)
        while not ready.exists():
            assert process.poll() is None
        return process

    monkeypatch.setattr(arena, "begun", begun)
    tally = Tally("careless")
    folder = arena.place / f"careless-{len(handler)}"
    arena.interrupt_once(case, folder, Blow(0.0), 0, tally)
    assert faults <= {name for name in JUDGED if tally.faults[name]}
