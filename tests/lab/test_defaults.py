"""Defaults are written once: Python, the command line and the lab's forms have the same."""

import inspect
import re

from attomaton.cli.fit import train as train_command
from attomaton.cli.scan import dynamics
from attomaton.lab.scan_snap import runs as scan_snap
from attomaton.lab.scan_snap.settings import CHOICES, LABELS
from attomaton.lab.training import form
from attomaton.mechanics.experiment.arguments import (
    HEADS,
    LOSSES,
    OPTIMIZERS,
    OWN,
    RATE,
    RATES,
    SCHEDULES,
    Settings,
)
from attomaton.mechanics.experiment.train import train
from attomaton.scan_snap.levels import OPTIONS, UNTIL, settings_of


def helps(command):
    """What the command line says of each option, and what it passes on where the option is left out."""
    found = {}
    for name, one in inspect.signature(command).parameters.items():
        said = [getattr(x, "help", None) for x in getattr(one.annotation, "__metadata__", ())]
        found[name] = next(filter(None, said), ""), one.default
    return found


def said_default(text):
    """The default an option's help names: "… (default: 4000)" or "gd (default), ngd …".

    >>> said_default("Steps (default: 4000)."), said_default("gd (default), ngd or adam.")
    ('4000', 'gd')
    """
    found = re.search(r"default: ([^;),.]+(?:\.\d+)?)", text) or re.search(
        r"(\S+) \(default\)", text
    )
    return found[1] if found else None


def test_training_has_one_set_of_defaults():
    usual, python = Settings(), inspect.signature(train).parameters
    command = helps(train_command)
    for name in ("init", "optimizer", "steps", "head", "loss", "seeds", "seed"):
        value = getattr(usual, name)
        assert form.USUAL[name] == str(value)
        text, passed = command[name]
        assert passed is None  # left to Python
        assert said_default(text) == str(value)
        if python[name].default is not inspect.Parameter.empty:
            assert python[name].default == value
    # An empty field is an option left out.
    assert form.USUAL["lr"] == form.USUAL["batch_size"] == ""
    assert usual.lr is usual.batch_size is command["lr"][1] is command["batch_size"][1] is None
    for optimizer, rate in RATES.items():
        assert f"{rate:g} for {optimizer}" in command["lr"][0]
    assert f"{RATE:g} for the others" in command["lr"][0]
    assert said_default(command["schedule"][0]) == usual.schedule == SCHEDULES[0]
    for name, value in OWN["adam"].items():
        assert said_default(command[name][0]) == str(value)
    choices = {"optimizer": OPTIMIZERS, "head": HEADS, "loss": LOSSES}
    for name, known in choices.items():
        assert form.CHOICES[name] is known
        assert all(word in command[name][0] for word in known)


def test_the_levels_of_scan_and_snap_have_one_set_of_defaults():
    command = helps(dynamics)
    levels = {level: settings_of(level, {}) for level in OPTIONS}
    for name in scan_snap.KINDS:
        text, passed = command[name]
        assert passed is None  # left to the levels
        if name == "until":
            assert float(said_default(text)) == UNTIL == levels["limit"]["until"]
            continue
        usual = {settings[name] for settings in levels.values() if name in settings}
        assert {said_default(text)} == set(map(str, usual))
        if name in CHOICES:  # the first choice is the usual one
            assert CHOICES[name][0] == usual.pop()
    for name in ("eta_y", "eta_z"):
        assert command[name][1] == scan_snap.RATE
    assert set(LABELS) == set(scan_snap.KINDS)
