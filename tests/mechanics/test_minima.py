"""Minima without convexity: against Newton's method where there is convexity, and by hand where there is none."""

import numpy as np
import pytest
from tests import oracle

from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import UsageError
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.experiment import minima
from attomaton.mechanics.experiment.minima import lowest_minima
from attomaton.mechanics.experiment.path import penalty_path
from attomaton.mechanics.synthetic import draw_samples, general_head, unit_embeddings

LAMBDAS = (1e-3, 1e-6, 1e-9)


@pytest.mark.parametrize("width", [None, 4])
def test_the_log_loss_has_the_minimiser_of_the_penalty_path(width):
    """One minimum, whatever the start, and the same as that of another method; data sets of unlike shapes together."""
    rng = np.random.default_rng(3)
    raws = [oracle.draw(rng, 5, n, 2, repeats=True) for n in (4, 9)]
    tables = [check_embeddings(oracle.unit_rows(rng, 5, width or 5)) for _ in raws]
    E = None if width is None else tables
    found = lowest_minima([r.samples() for r in raws], LAMBDAS, E, loss="log")
    for i, raw in enumerate(raws):
        points = penalty_path(raw.samples(), LAMBDAS, None if E is None else E[i])
        for one, other in zip(found[i], points, strict=True):
            params = other.scores if other.W is None else other.W
            np.testing.assert_allclose(one.params, params, atol=1e-5 * max(1.0, other.radius))
            assert one.loss == pytest.approx(other.loss, abs=1e-12)
            assert one.higher == 0
            assert one.residual <= minima.STATIONARY


def test_an_even_pair_by_hand():
    """(1 − u)² of two labels that win equally often: even odds, whatever the price."""
    samples = samples_from_sequences([[0, 1], [0, 1]], [0, 1])
    (found,) = lowest_minima([samples], LAMBDAS, loss="squared-score")
    for one in found:
        assert one.radius == pytest.approx(0.0, abs=1e-6)
        assert one.loss == pytest.approx(0.25)


def test_a_lone_pair_is_as_far_as_its_price_lets_it_go():
    """One token over another at difference m: ℓ'(u) u (1 − u) = −λ m/2, with u = 1/(1 + e^−m)."""
    samples = samples_from_sequences([[0, 1]], [0])
    (found,) = lowest_minima([samples], LAMBDAS, loss="logistic-score")
    for one in found:
        m = float(one.params[0] - one.params[1])
        u = 1 / (1 + np.exp(-m))
        slope = -1 / (1 + np.exp(u)) * u * (1 / (1 + np.exp(m)))
        assert slope == pytest.approx(-one.lam * m / 2, rel=1e-4)


def test_higher_minima_are_counted_and_left():
    """Acyclic data with general heads: every path comes down to L*, and some starts are stuck above it."""
    sets, tables, heads, floors = [], [], [], []
    for i in range(6):
        rng = np.random.default_rng([31, i])
        samples = draw_samples(rng, 8, 4, 6, kind="acyclic")
        E = unit_embeddings(rng, 8, 8)
        C = general_head(rng, E)
        top = (C * E).sum(axis=1)[samples.label]
        sets.append(samples)
        tables.append(check_embeddings(E))
        heads.append(C)
        floors.append(samples.weight @ (1 - top) ** 2 / samples.total_weight)
    found = lowest_minima(sets, LAMBDAS, tables, loss="squared-score", heads=heads)
    for points, floor in zip(found, floors, strict=True):
        assert 0 < points[-1].loss - floor < 1e-5
        assert [x.starts for x in points] == [5, 6, 6]
    assert 0 < sum(x.higher for points in found for x in points) < 50


def test_too_many_parameters_are_refused(monkeypatch):
    monkeypatch.setattr(minima, "LARGEST", 2)
    with pytest.raises(UsageError, match="3 parameters: at most 2"):
        lowest_minima([samples_from_sequences([[0, 1, 2]], [0])], [1e-3], loss="log")
