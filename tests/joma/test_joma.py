"""A hidden layer over attention: gradients, the invariants of three kinds of attention, and the nonlinear equation."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from attomaton.claims import joma
from attomaton.claims.registry import CLAIMS
from attomaton.errors import DataError, UsageError
from attomaton.joma.data import Contexts, drawn_contexts
from attomaton.joma.experiment.equation import drawn_targets, grow_in_steps
from attomaton.joma.experiment.train import Layer, Setting, loss_and_slope, train
from attomaton.joma.theory.growth import attention_entropy, predicted_growth
from attomaton.joma.theory.invariant import correlations, predicted_scores

KINDS = [(a, b) for a in ("softmax", "exp", "linear") for b in ("linear", "relu")]
SMALL = drawn_contexts(1, classes=4, distinct=3, common=2)


@pytest.mark.parametrize(("attention", "activation"), KINDS)
def test_slopes_are_those_of_differences(attention, activation):
    rng = np.random.default_rng(3)
    C = rng.standard_normal((4, 5)) if activation == "relu" else None
    nodes = 4 if C is None else 5
    layer = Layer(rng.standard_normal((nodes, 6)), 1 + rng.standard_normal(5), C)
    setting = Setting(attention, 0.7, activation)
    _, slope = loss_and_slope(SMALL, setting, layer)
    for name in layer._fields:
        value = getattr(layer, name)
        if value is None:
            continue
        way = rng.standard_normal(value.shape)
        near = [
            loss_and_slope(SMALL, setting, layer._replace(**{name: value + s * 1e-6 * way}))[0]
            for s in (1, -1)
        ]
        expected = (getattr(slope, name) * way).sum()
        assert (near[0] - near[1]) / 2e-6 == pytest.approx(expected, abs=1e-8)


def test_by_hand():
    # Two classes with a token each, softmax attention: whatever z is, a context of one token has attention 1.
    sure = Contexts(np.eye(2))
    W, z = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), np.array([3.0, -1.0])
    loss, slope = loss_and_slope(sure, Setting(), Layer(W, z))
    assert loss == pytest.approx(np.log(1 + np.exp(-1)))
    assert np.allclose(slope.z, 0)
    p = 1 / (1 + np.e)
    assert np.allclose(slope.W, [[-p / 2, p / 2, 0], [p / 2, -p / 2, 0]])


@pytest.mark.parametrize(("attention", "activation"), KINDS[2:])
def test_the_exact_invariants_are_kept_up_to_the_step(attention, activation):
    nodes = None if activation == "linear" else 6
    errors = []
    for lr in (0.1, 0.05):
        setting = Setting(attention, 0.5, activation)
        run = train(SMALL, setting=setting, nodes=nodes, lr=lr, steps=round(30 / lr))
        said = predicted_scores(run, SMALL.mean)
        errors.append(np.abs(run.score - said.score).max())
        assert errors[-1] < 0.02 * np.abs(run.score[-1] - run.score[0]).max()
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.1)


def test_softmax_scores_are_predicted_and_shuffled_ones_are_not():
    result = joma.softmax_runs(3, lr=0.1, steps=1000, T=0.5)
    assert result["correlation"].min() >= 0.99
    assert abs(result["shuffled"][-1]) <= 0.4  # of three draws; twenty tokens
    assert result["growth"][1] < 0.9  # neither term alone
    assert result["shared"][1] < 0.9


def test_the_solution_is_that_of_scipy_and_steps_tend_to_it_at_order_one():
    mu, T = drawn_targets(0, 4), 2.0

    def velocity(t, v):
        a = np.exp(v * v / T)
        return (mu - v) * a / a.sum()

    times = np.linspace(0, 30, 16)
    other = solve_ivp(velocity, (0, 30), np.full(4, 0.05), "LSODA", times, rtol=1e-10, atol=1e-12)
    said = predicted_growth(mu, 0.05, T, times)
    assert np.allclose(said.v, other.y.T, rtol=0, atol=1e-7)
    coarse, fine = (
        np.abs(grow_in_steps(mu, 0.05, T, 2.0 / n, 15 * n)[::n] - said.v).max() for n in (50, 100)
    )
    assert coarse / fine == pytest.approx(2.0, rel=0.05)


def test_one_component_alone_is_exponential():
    # softmax over one component is 1: v' = μ − v.
    times = np.array([0.0, 0.5, 3.0])
    said = predicted_growth(np.array([2.0]), 0.5, 3.0, times)
    assert np.allclose(said.v[:, 0], 2 - 1.5 * np.exp(-times), rtol=0, atol=1e-9)
    assert np.allclose(said.entropy, 0)


def test_entropy_dips_and_rises_where_attention_follows_and_only_falls_where_it_is_even():
    mu = drawn_targets(1)
    entropy, even = (
        attention_entropy(grow_in_steps(mu, 0.05, 3.0, 0.05, 2000, even=e), 3.0)
        for e in (False, True)
    )
    assert entropy[-1] - entropy.min() > 0.1
    assert 0 < entropy.argmin() < 2000
    assert (np.diff(even) < 0).all()


def test_correlation_of_a_constant_is_nothing():
    assert correlations(np.ones((1, 3)), np.arange(3.0)[None]) == pytest.approx([0.0])


def test_what_makes_no_sense_is_refused():
    with pytest.raises(DataError, match="add up to 1"):
        Contexts(np.ones((2, 2)))
    with pytest.raises(DataError, match="none negative"):
        Contexts(np.array([[2.0, -1.0]]))
    with pytest.raises(UsageError, match="softmax, exp or linear"):
        train(SMALL, setting=Setting("hard"))
    with pytest.raises(UsageError, match="must be positive"):
        train(SMALL, lr=0.0)
    with pytest.raises(UsageError, match="targets above the start"):
        predicted_growth(np.array([0.0, 1.0]), 0.5, 1.0, np.array([1.0]))


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("joma", {"seeds": 3}),
        ("joma-fig2", {"seeds": 3, "steps": 400}),
        ("joma-fig3", {"seeds": 1, "steps": 400}),
        ("joma-fig4", {"seeds": 1, "steps": 3000}),
    ],
)
def test_the_claim_and_its_figures_stand(name, size):
    evidence = CLAIMS[name].check(**size)
    assert evidence.stands, (evidence.measured, evidence.control_measured)
    assert any(x.style == "theory" for panel in evidence.panels for x in panel.lines)
