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
        return -np.log(hit).mean() + 0.5 / len(valid) * ((w - start) ** 2).sum()

    best = minimize(loss, start, method="BFGS", options={"gtol": 1e-8})
    assert gate.weight == pytest.approx(best.x, abs=1e-3)  # difference quotients, as above
    g = gate.of(bags, reach(bags, ngrams))
    # What an intercept ensures, but for the one window that holds it.
    assert g.mean() + gate.weight[0] / len(valid) == pytest.approx(valid.realizable.mean())


def test_a_last_token_never_seen_gets_the_overall_share(text):
    train = text(0)
    gate = fit_gate(train, text(1), count_ngrams(train))
    bags = bags_of(train, np.arange(1))
    unknown = type(bags)(**{**bags.__dict__, "last": np.array([99])})
    logit = np.log(gate.overall / (1 - gate.overall))
    assert gate.features(unknown, np.array([0.5]))[0] == pytest.approx([1, logit, 0])


def test_mass_beyond_what_was_fitted_counts_as_the_nearest(text):
    train, valid = text(0), text(1)
    ngrams = count_ngrams(train)
    gate = fit_gate(train, valid, ngrams)
    bags = bags_of(valid, np.arange(len(valid)))
    r = reach(bags, ngrams)
    assert gate.of(bags, r) == pytest.approx(
        1 / (1 + np.exp(-gate.features(bags, r) @ gate.weight))
    )
    few = bags_of(valid, np.arange(1))
    for beyond, nearest in ((0.0, r.min()), (1.0, r.max())):  # 0: words never seen alone
        mine, edge = (gate.of(few, np.array([x])) for x in (beyond, nearest))
        assert mine == pytest.approx(edge, rel=1e-12)


def test_few_windows_do_not_make_it_sure(text, written):
    """Of three windows one holds its label, and by the mass on their contexts a line parts it from the others."""
    train = text(0)
    ngrams, valid = count_ngrams(train), written([0, 1, 0, 1, 3, 5], 8, 3)
    bags = bags_of(valid, np.arange(len(valid)))
    r = reach(bags, ngrams)
    assert r[valid.realizable].max() < r[~valid.realizable].min()
    g = fit_gate(train, valid, ngrams).of(bags, r)
    assert 0.02 < g.min() < g.max() < 0.98
