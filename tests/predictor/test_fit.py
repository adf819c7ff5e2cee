"""The penalised fit against a general-purpose optimiser, its two ends, and part by part."""

import numpy as np
import pytest
from scipy.optimize import minimize

from attomaton.base.progress import quiet
from attomaton.corpus.samples import Samples
from attomaton.engine.choose import open_engine
from attomaton.engine.tasks import Task
from attomaton.errors import UsageError
from attomaton.mechanics.experiment.path import penalty_path
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.predictor.bags import bags_of
from attomaton.predictor.counts import Counts, pair_key
from attomaton.predictor.fit import (
    Setting,
    Work,
    certificate,
    fit_part,
    judge,
    judge_part,
)
from attomaton.predictor.priors import Prior, fit_prior, measure_features
from attomaton.predictor.scoring import limit_weights
from attomaton.predictor.stages import do_part, fitting, in_turn, judging

NOTHING = Prior({}, {})


@pytest.fixture(scope="module")
def work(text) -> Work:
    train, valid = text(0), text(1)
    features = measure_features(train, ("main", "bigram"))
    prior = fit_prior(features, bags_of(valid, np.flatnonzero(valid.realizable)))
    return Work(train, valid, [NOTHING, prior])


def rows_of(windows):
    return np.flatnonzero(windows.realizable)


def test_agrees_with_a_general_optimiser(text):
    train = text(0, 80, 4, 4)
    features = measure_features(train, ("main",))
    work = Work(train, train, [Prior(features, {"main": 1.5})])
    theta, lam = 0.4, 2.0
    found = fit_part(work, rows_of(train), Setting(0, theta, lam))
    origin = 1.5 * features["main"].of(*np.divmod(found.key, 4))
    where = {int(k): i for i, k in enumerate(found.key)}

    def loss(S):
        """One window after the other, straight from the definition."""
        total = lam / 2 * ((S - origin) ** 2).sum()
        for i in rows_of(train):
            context = train.ids[train.left[i] : train.left[i] + 4].tolist()
            mass = {
                x: context.count(x) ** theta * np.exp(S[where[context[-1] * 4 + x]])
                for x in set(context)
            }
            total -= np.log(mass[int(train.label[i])] / sum(mass.values()))
        return total

    best = minimize(loss, origin, method="BFGS", options={"gtol": 1e-6})
    # Difference quotients of a loss of order 10 know their slope to about 1e-7, the scores to 1e-4.
    assert found.correction + origin == pytest.approx(best.x, abs=1e-4)
    assert loss(found.correction + origin) <= best.fun + 1e-9
    assert found.residual < 1e-8


def test_a_high_price_is_the_prior(work):
    dear = fit_part(work, rows_of(work.train), Setting(1, 0.5, 1e9))
    assert np.abs(dear.correction).max() < 1e-6


def test_a_low_price_comes_to_the_limit(text):
    train = text(0, 120, 5, 4)
    samples = train.samples()
    limit = solve_limit(samples)
    work = Work(train, train, [NOTHING])
    bags = bags_of(train, rows_of(train))
    goal = bags.shares(limit_weights(limit)(bags))
    gaps, losses = [], []
    for lam in (1.0, 1e-2, 1e-4, 1e-6):
        found = fit_part(work, rows_of(train), Setting(0, 1.0, lam))
        learned = Counts(found.key, found.correction).of(pair_key(5, bags.query, bags.token))
        p = bags.shares(np.log(bags.count) + learned)
        gaps.append(np.abs(p - goal)[bags.is_label].max())
        losses.append(found.loss)
    # The labels' probabilities tend to the automaton's, the loss to its floor from above.
    assert gaps[-1] < 0.02 < gaps[0]
    assert (np.diff(losses) < 0).all()
    assert 0 < losses[-1] - limit.finite.loss_floor < 1e-3


def test_parts_give_what_the_whole_gives(work):
    setting = Setting(1, 0.3, 0.7)
    whole = fit_part(work, rows_of(work.train), setting)
    parts = work.train.parts(300)
    assert len(parts) > 2
    pieces = in_turn(fitting("fit", setting), work, parts, quiet)
    assert np.concatenate([p.key for p in pieces]).tolist() == whole.key.tolist()
    assert np.concatenate([p.correction for p in pieces]) == pytest.approx(
        whole.correction, abs=1e-7
    )
    # Loss and price together are flat there, the loss alone is not: it moves with the scores' last digits.
    assert sum(p.loss for p in pieces) == pytest.approx(whole.loss, rel=1e-8)


def test_several_processes_give_what_one_gives(work):
    parts, settings = work.train.parts(700), [Setting(1, 0.3, 1.0), Setting(0, 1.0, 0.5)]
    seen = []
    one = in_turn(judging("grid", settings), work, parts, lambda *step: seen.append(step))
    tasks = [Task(i, (judge_part, rows, settings)) for i, rows in enumerate(parts)]
    with open_engine("processes", 2) as engine:
        two = dict(engine.run(do_part, tasks, work))
    assert one == [two[i] for i in range(len(parts))]
    assert seen == [(i + 1, len(parts), "grid") for i in range(len(parts))]


def test_judging_by_parts_is_judging_the_answer(work):
    settings = [Setting(1, 0.3, 0.7), Setting(0, 1.0, 3.0), Setting(1, 0.3, 2.0)]
    parts = work.train.parts(500)
    total = sum(np.array(a) for a in in_turn(judging("grid", settings), work, parts, quiet))
    known = np.isin(work.valid.last, work.train.last[work.train.realizable])
    bags = bags_of(work.valid, np.flatnonzero(work.valid.realizable & known))
    for s, found in zip(settings, total, strict=True):
        fit = fit_part(work, rows_of(work.train), s)
        learned = Counts(fit.key, fit.correction).of(pair_key(8, bags.query, bags.token))
        start = work.priors[s.prior].scores(bags.query, bags.token)
        p = bags.shares(s.theta * np.log(bags.count) + start + learned)
        by_hand = judge(bags, p)
        assert found == pytest.approx(by_hand, rel=1e-3)  # judged at a loose residual


def test_the_certificate_sees_a_wrong_answer(work):
    samples: Samples = work.train.samples()
    found = fit_part(work, rows_of(work.train), Setting(0, 0.5, 1.0))
    zero = np.zeros(len(found.key))
    assert certificate(samples, found.correction, zero, 0.5, 1.0) < 1e-8
    for wrong in ((found.correction + 1e-4, 0.5, 1.0), (found.correction, 0.6, 1.0),
                  (found.correction, 0.5, 1.1)):  # fmt: skip
        assert certificate(samples, wrong[0], zero, *wrong[1:]) > 1e-6


def test_theta_and_total_of_the_path(text):
    samples = text(0, 80, 4, 4).samples()
    n = samples.total_weight
    (half,) = penalty_path(samples, [0.1], total=2 * n)
    (same,) = penalty_path(samples, [0.2])
    assert half.scores == pytest.approx(same.scores, abs=1e-9)
    assert half.loss == pytest.approx(same.loss / 2)
    (rough,) = penalty_path(samples, [0.2], tolerance=1e-2)
    assert same.gradient < rough.gradient < 1e-2
    for bad in (-1.0, float("inf")):
        with pytest.raises(UsageError, match="theta"):
            penalty_path(samples, [0.1], theta=bad)
