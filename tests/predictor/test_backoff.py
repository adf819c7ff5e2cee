"""The gate by hand and against a general-purpose optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from attomaton.predictor import backoff as module
from attomaton.predictor.backoff import fit_gate, reach
from attomaton.predictor.bags import bags_of
from attomaton.predictor.ngrams import count_ngrams


def test_share_of_windows_that_hold_their_label(written):
    # Windows of 2: 01→0 1, 10→2 0, 02→0 1, 20→1 0, 01→2 0: by last token 0: 0 of 2; 1: 1 of 2; 2: 1 of 1.
    windows = written([0, 1, 0, 2, 0, 1, 2], 3, 2)
    gate = fit_gate(windows, windows, count_ngrams(windows))
    a = module.SMOOTHING
    assert gate.overall == pytest.approx(2 / 5)
    assert gate.inside == pytest.approx(
        [(0 + a * 0.4) / (2 + a), (1 + a * 0.4) / (2 + a), (1 + a * 0.4) / (1 + a)]
    )


def test_reach_by_hand(text):
    windows = text(0)
    ngrams = count_ngrams(windows)
    bags = bags_of(windows, np.arange(3))
    for i in range(3):
        inside = bags.token[bags.start[i] : bags.start[i + 1]]
        p = ngrams.bigram(np.full(len(inside), bags.last[i]), inside)
        assert reach(bags, ngrams)[i] == pytest.approx(p.sum())


def test_weights_agree_with_a_general_optimiser(text):
    train, valid = text(0), text(1)
    ngrams = count_ngrams(train)
    gate = fit_gate(train, valid, ngrams)
    bags = bags_of(valid, np.arange(len(valid)))
    F = gate.features(bags, reach(bags, ngrams))
    start = np.array([0.0, 1.0, 0.0])

    def loss(w):
        g = 1 / (1 + np.exp(-F @ w))
        hit = np.where(valid.realizable, g, 1 - g)
        return -np.log(hit).mean() + 0.5e-6 * ((w - start) ** 2).sum()

    best = minimize(loss, start, method="BFGS", options={"gtol": 1e-8})
    assert gate.weight == pytest.approx(best.x, abs=1e-3)  # difference quotients, as above
    g = gate.of(bags, reach(bags, ngrams))
    assert g.mean() == pytest.approx(valid.realizable.mean(), abs=1e-4)  # what an intercept ensures


def test_a_last_token_never_seen_gets_the_overall_share(text):
    train = text(0)
    gate = fit_gate(train, text(1), count_ngrams(train))
    bags = bags_of(train, np.arange(1))
    unknown = type(bags)(**{**bags.__dict__, "last": np.array([99])})
    logit = np.log(gate.overall / (1 - gate.overall))
    assert gate.features(unknown, np.array([0.5]))[0] == pytest.approx([1, logit, 0])
