"""Features by hand and by a plain loop; weights against a general-purpose optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from attomaton.corpus.windows import windows_from_sequences
from attomaton.errors import UsageError
from attomaton.predictor import priors as module
from attomaton.predictor.bags import bags_of
from attomaton.predictor.priors import Main, Prior, fit_prior, measure_features, parse_prior

# Two realizable windows that end with 2, and one set aside: after 0 came 2, which is not in it.
TRAIN = windows_from_sequences([[0, 1, 2], [0, 2], [1, 0]], [0, 2, 2])


def value(name, q, x, windows=TRAIN):
    feature = measure_features(windows, (name,))[name]
    return feature.of(np.array([q]), np.array([x]))[0]


def test_main_by_hand():
    # Wins: 0 once, 2 once. Appearances: 0 and 2 twice, 1 once. Overall 2 of 5.
    share, a = 2 / 5, module.MAIN_SMOOTHING
    assert value("main", 2, 0) == pytest.approx(np.log((1 + a * share) / (2 + a) / share))
    assert value("main", 2, 1) == pytest.approx(np.log((0 + a * share) / (1 + a) / share))
    assert value("main", 0, 77) == 0  # a word never seen: as good as any


def test_bigram_counts_only_what_was_set_aside():
    mu = module.BIGRAM_SMOOTHING
    p = np.array([0.5, 0.5, 1.5]) / 2.5
    assert value("bigram", 0, 2) == pytest.approx(np.log((1 + mu * p[2]) / (1 + mu) / p[2]))
    assert value("bigram", 0, 1) == pytest.approx(np.log(mu / (1 + mu)))
    assert value("bigram", 2, 0) == 0  # 0 followed 2 in a window that is fitted
    assert value("bigram", 9, 1) == 0


def test_odds_by_hand():
    share, a = 2 / 5, module.ODDS_SMOOTHING
    main = share * np.exp(value("main", 2, 0))
    assert value("odds", 2, 0) == pytest.approx(np.log((1 + a * main) / (2 + a) / share))
    main = share * np.exp(value("main", 0, 1))
    assert value("odds", 0, 1) == pytest.approx(np.log(main / share))  # never met: main's share


def test_kin_by_a_dense_decomposition(text, monkeypatch):
    monkeypatch.setattr(module, "KIN_RANK", 3)
    windows = text(2, 600, 12, 4)
    C = np.zeros((12, 12))
    np.add.at(C, (windows.last, windows.label), 1.0)
    s = module.KIN_SMOOTHING
    with np.errstate(divide="ignore"):
        M = np.log(C * C.sum() / np.outer(C.sum(1) + s, C.sum(0) + s))
    U, size, V = np.linalg.svd(np.maximum(M, 0))
    left, right = U[:, :3] * np.sqrt(size[:3]), V[:3].T * np.sqrt(size[:3])
    left, right = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (left, right))
    q, x = (v.ravel() for v in np.meshgrid(np.arange(12), np.arange(12)))
    kin = measure_features(windows, ("kin",))["kin"]
    # The vectors are kept in single precision.
    assert kin.of(q, x) == pytest.approx((left @ right.T)[q, x], abs=1e-5)
    assert kin.of(np.array([3, 99]), np.array([12, 0])).tolist() == [0, 0]


def test_kin_of_words_without_neighbours_is_zero():
    lone = windows_from_sequences([[0, 1]], [1])
    assert value("kin", 0, 0, lone) == 0
    assert value("kin", 1, 0, lone) == 0


def test_main_and_odds_by_a_plain_loop(text):
    windows = text(4, 200, 6, 5)
    wins, seen = np.zeros((7, 7)), np.zeros((7, 7))  # the last row is the sum
    for i in np.flatnonzero(windows.realizable):
        context = windows.ids[windows.left[i] : windows.left[i] + 5]
        for q in (context[-1], 6):
            wins[q, windows.label[i]] += 1
            seen[q, np.unique(context)] += 1
    share = wins[6].sum() / seen[6].sum()
    a, b = module.MAIN_SMOOTHING, module.ODDS_SMOOTHING
    own = (wins[6] + a * share) / (seen[6] + a)
    features = measure_features(windows, ("main", "odds"))
    q, x = (v.ravel() for v in np.meshgrid(np.arange(6), np.arange(6)))
    assert features["main"].of(q, x) == pytest.approx(np.log(own / share)[x])
    odds = np.log((wins[:6] + b * own) / (seen[:6] + b) / share)
    assert features["odds"].of(q, x) == pytest.approx(odds[q, x])


def test_weights_agree_with_a_general_optimiser(text):
    train, valid = text(0), text(1)
    bags = bags_of(valid, np.flatnonzero(valid.realizable))
    features = measure_features(train, ("main", "bigram", "kin"))
    prior = fit_prior(features, bags)
    F = [np.log(bags.count), *(f.of(bags.query, bags.token) for f in features.values())]

    def loss(w):
        p = bags.shares(np.tensordot(w, F, 1))
        return -np.log(p[bags.label_at]).mean() + 0.5 / len(bags) * w @ w

    best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-8})
    # Difference quotients know the minimum to the root of their rounding, about 1e-4.
    assert list(prior.weight.values()) == pytest.approx(best.x[1:], abs=1e-3)


def test_few_windows_do_not_make_it_sure():
    """Two windows that a feature tells apart without fault: the slope n d (1 − p) of the loss meets the ridge, w."""
    asked = bags_of(windows_from_sequences([[0, 1, 2], [0, 1, 2]], [0, 0]), np.arange(2))
    features = {"main": Main(np.array([2.0, 0.0, 0.0]))}
    w = fit_prior(features, asked).weight["main"]
    p = np.exp(2 * w) / (np.exp(2 * w) + 2)
    assert w == pytest.approx(2 * 2 * (1 - p), abs=1e-9)
    assert p < 0.9


def test_a_prior_is_the_sum_of_its_terms(text):
    features = measure_features(text(0), ("main", "kin"))
    prior = Prior(features, {"main": 2.0, "kin": -1.0})
    q, x = np.array([0, 3, 50]), np.array([1, 2, 1])
    by_hand = 2 * features["main"].of(q, x) - features["kin"].of(q, x)
    assert prior.scores(q, x) == pytest.approx(by_hand)
    assert prior.name == "main+kin"
    nothing = fit_prior({}, bags_of(TRAIN, np.arange(2)))
    assert (nothing.name, nothing.scores(q, x).tolist()) == ("zero", [0, 0, 0])


def test_names():
    assert parse_prior("kin+main") == ("main", "kin")
    for bad in ("mian", "main+main", "", "zero+main"):
        with pytest.raises(UsageError, match="prior"):
            parse_prior(bad)
    with pytest.raises(UsageError, match="did you mean 'main'"):
        parse_prior("mian")
