"""S1–S5 and the figures that are formulas: each holds where it must, and each control fails."""

import json
from functools import cache

import pytest

from attomaton.claims import (
    decoder_gain,
    fates,
    growth,
    learning_rates,
    phase_transition,
    scan_snap_figures,
)
from attomaton.results import Verdict


@pytest.mark.parametrize(
    "check",
    [
        decoder_gain.check,
        decoder_gain.check_mixing,
        fates.check,
        growth.check,
        phase_transition.check,
        learning_rates.check,
    ],
    ids=["S1", "S1 mixing", "S2", "S3", "S4", "S5"],
)
def test_the_claim_holds_and_its_control_fails(check):
    evidence = check()
    assert evidence.verdict is Verdict.HOLDS, evidence.measured
    assert evidence.control is Verdict.FAILS, evidence.control_measured
    json.dumps([evidence.measured, evidence.control_measured])


@cache
def made(figure):
    return getattr(scan_snap_figures, figure)()


@pytest.mark.parametrize("figure", ["fig3", "fig8", "fig9"])
def test_the_figure_holds_and_its_control_fails(figure):
    numbers = made(figure)
    assert numbers["verdict"] == "holds", {k: v for k, v in numbers.items() if k != "curves"}
    assert numbers["control"] == "fails"
    json.dumps(numbers, allow_nan=False)


def test_figures_show_what_was_published():
    assert [c["eta_y"] for c in made("fig3")["curves"]] == [0.5, 1.0, 2.0, 5.0]
    assert {c["M"] for c in made("fig8")["curves"]} == {50, 1000}
    assert [c["eta_z"] for c in made("fig9")["curves"]] == [0.5, 1.0, 2.0, 4.0, 8.0] * 2
