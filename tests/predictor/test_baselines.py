"""Every baseline by hand, and their settings as the best of what was offered."""

from dataclasses import replace

import numpy as np
import pytest

from attomaton.corpus.windows import windows_from_sequences
from attomaton.predictor import baselines as module
from attomaton.predictor.bags import bags_of
from attomaton.predictor.baselines import Baselines, fit_baselines

# Last token 2. After 2 came 0 twice and 1 once.
TRAIN = windows_from_sequences([[0, 1, 2], [0, 2], [1, 1, 2]], [0, 0, 1])
ASKED = windows_from_sequences([[0, 0, 1, 2], [2, 0, 2]], [0, 2], vocabulary=TRAIN.vocabulary)
NEW = windows_from_sequences([["x", 0, 0]], [0])


def shares(baselines, name, windows=ASKED):
    bags = bags_of(windows, np.arange(len(windows)))
    return bags.shares(baselines.in_context[name](bags))


def test_by_hand():
    b = replace(fit_baselines(TRAIN), mu=0.5, theta=1.0, frequency=False, mix=(0.2, 0.4))
    assert shares(b, "unigram") == pytest.approx([2 / 4, 1 / 4, 1 / 4, 1 / 3, 2 / 3])
    assert shares(b, "bigram") == pytest.approx([2 / 3, 1 / 3, 0, 1, 0])
    mass = np.array([2 + 1, 1 + 0.5, 0.5, 2 + 0.5, 1.0])
    assert shares(b, "bigram, smoothed") == pytest.approx(
        [*mass[:3] / mass[:3].sum(), *mass[3:] / mass[3:].sum()]
    )
    frequent = replace(b, frequency=True, theta=0.0)
    p = (np.array([2, 1, 0]) + 0.5) / (3 + 2)
    mass = np.array([2, 1, 0]) + 0.5 * p
    assert shares(frequent, "bigram, smoothed")[:3] == pytest.approx(mass / mass.sum())
    two = b.ngrams.bigram(np.array([2, 2, 2]), np.array([0, 1, 2]))
    assert shares(b, "bigram, mixed")[:3] == pytest.approx(
        0.8 * two / two.sum() + 0.2 * np.array([2, 1, 1]) / 4
    )
    three = b.ngrams.trigram(np.array([1, 1, 1]), np.array([2, 2, 2]), np.array([0, 1, 2]))
    assert not np.allclose(two, three)
    assert shares(b, "trigram, mixed")[:3] == pytest.approx(
        0.6 * three / three.sum() + 0.4 * np.array([2, 1, 1]) / 4
    )


def test_recency_is_the_share_of_wins_at_each_distance():
    # Last seen at 1: 2, 2, 2, none the label. At 2: 1, 0, 1, of which 0 and the last 1 won. At 3: 0, which won.
    b = fit_baselines(TRAIN)
    assert b.recency == pytest.approx([0.5 / 4, 2.5 / 4, 1.5 / 2])
    # Distances 3, 2, 1 in the first context (0 is last seen 3 steps ago), 2 and 1 in the second.
    first, second = np.array([0.75, 0.625, 0.125]), np.array([0.625, 0.125])
    assert shares(b, "most recent") == pytest.approx([*first / first.sum(), *second / second.sum()])


def test_further_than_ever_seen_counts_as_the_furthest():
    b = Baselines(fit_baselines(TRAIN).ngrams, np.array([0.1, 0.9]))
    assert shares(b, "most recent")[:3] == pytest.approx(np.array([0.9, 0.9, 0.1]) / 1.9)


def test_bigram_without_evidence_is_unigram():
    b = fit_baselines(TRAIN)
    bags = bags_of(NEW, np.arange(1))  # ids 0 ("x") and 1: after 1 came nothing
    assert bags.shares(b.bigram(bags)) == pytest.approx([1 / 3, 2 / 3])


def test_every_baseline_is_a_distribution(text):
    train, asked = text(0), text(1)
    b = fit_baselines(train, asked)
    bags = bags_of(asked, np.arange(len(asked)))
    for name, weights in b.in_context.items():
        p = bags.shares(weights(bags))
        assert bags.sums(p) == pytest.approx(1), name
        assert (p >= 0).all()


def test_the_settings_chosen_are_the_best_offered(text, monkeypatch):
    train, valid = text(0), text(1)
    monkeypatch.setattr(module, "MUS", (0.1, 10.0))
    monkeypatch.setattr(module, "DISCOUNTS", (0.2, 0.9))
    b = fit_baselines(train, valid)
    bags = bags_of(valid, np.flatnonzero(valid.realizable))

    def loss(trial, name):
        return -np.log(bags.shares(trial.in_context[name](bags))[bags.label_at]).mean()

    for mu in module.MUS:
        for frequency in (False, True):
            for theta in module.THETAS:
                other = replace(b, mu=mu, frequency=frequency, theta=theta)
                assert loss(b, "bigram, smoothed") <= loss(other, "bigram, smoothed") + 1e-12
    for v in module.MIXES:
        assert loss(b, "bigram, mixed") <= loss(replace(b, mix=(v, v)), "bigram, mixed") + 1e-12
        assert loss(b, "trigram, mixed") <= loss(replace(b, mix=(v, v)), "trigram, mixed") + 1e-12
    for D in module.DISCOUNTS:
        other = replace(b.ngrams, discounts=(D, 0.5))
        p, mine = (n.bigram(valid.last, valid.label) for n in (other, b.ngrams))
        assert np.log(mine).sum() >= np.log(p).sum() - 1e-9
