"""Sampled training tends to the limit level, at the rates it must; and the parts the claim is made of."""

import numpy as np
import pytest

from attomaton.claims import long_sequences
from attomaton.claims.long_sequences import (
    Slope,
    endless_logits,
    errors,
    limit_logits,
    slope,
    small_classes,
)
from attomaton.results import Verdict


def test_the_claim_holds_and_its_control_fails():
    evidence = long_sequences.check(
        ends=True
    )  # what lies between costs programs and moves no slope
    assert evidence.verdict is Verdict.HOLDS, evidence.measured
    assert evidence.control is Verdict.FAILS, evidence.control_measured
    assert evidence.stands
    # At fixed batch the error against the limit itself does not vanish: classes are still drawn by chance.
    stays = evidence.measured["length, against the limit itself"]["z"]
    assert stays["slope"] > -0.25
    assert stays["error"][-1] > 0.05


def test_slopes_are_recovered_and_their_intervals_cover():
    rng = np.random.default_rng(0)
    sizes = (8, 32, 128)
    noise = np.exp(rng.normal(0, 0.1, (3, 40)))
    found = slope(sizes, np.array(sizes)[:, None] ** -0.5 * noise)
    low, high = found.interval
    assert low < -0.5 < high
    assert high - low < 0.1
    assert found.slope == pytest.approx((low + high) / 2)


def test_a_large_batch_of_endless_contexts_is_the_limit():
    classes = small_classes()
    z = limit_logits(classes)
    few, many = (errors(endless_logits(classes, b, 8), z, classes)["z"] for b in (8, 8192))
    # Chance in the classes: some 0.4/√b.
    assert 0.02 < np.sqrt((few**2).mean()) < 0.4
    assert np.sqrt((many**2).mean()) < 0.012


def test_verdicts_tell_wrong_from_unknown():
    good = Slope(-0.5, [-0.6, -0.4], [], [])
    wide = Slope(-0.5, [-1.2, 0.1], [], [])
    flat = Slope(0.0, [-0.1, 0.1], [], [])
    bias = Slope(-1.0, [-1.1, -0.9], [], [])

    def verdict(batch, tail):
        both = {"z": good, "c": good}
        return long_sequences._verdict(
            {"batch": {"z": batch, "c": good}, "length": both, "bias": {"z": tail, "c": bias}}
        )

    assert verdict(good, bias) is Verdict.HOLDS
    assert verdict(wide, bias) is Verdict.INCONCLUSIVE
    assert verdict(flat, bias) is Verdict.FAILS
    assert verdict(good, flat) is Verdict.FAILS
