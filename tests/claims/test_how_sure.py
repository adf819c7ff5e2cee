"""Claims about how sure odds are, in sizes of a second or two; and the draws they share, by hand."""

import numpy as np
import pytest

from attomaton.claims import choice_draws, consistency, disconnected, interval_coverage
from attomaton.results import Verdict


@pytest.mark.parametrize(
    ("claim", "size"),
    [
        (interval_coverage, {"draws": 400, "sizes": 2, "rows": 1}),
        (consistency, {"draws": 100, "sizes": 2, "rows": 2}),
        (disconnected, {}),
    ],
    ids=["intervals", "consistency", "groups"],
)
def test_the_claim_holds_and_its_control_fails(claim, size):
    evidence = claim.check(**size)
    assert evidence.verdict is Verdict.HOLDS, evidence.measured
    assert evidence.control is Verdict.FAILS, evidence.control_measured


def test_draws_by_hand():
    bags = choice_draws.bags_of(np.array([[2, 1, 0], [0, 0, 3]]), np.log([1.0, 2.0, 5.0]))
    assert bags.p.tolist() == [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    rows = choice_draws.Rows(
        np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([0, 1, 2]), np.array([3.0, 4.0, 9.0])
    )
    choices, kept = choice_draws.as_choices(bags, rows, 2)
    assert kept.tolist() == [True, True, False]  # a context of one token is no choice
    assert choices.item.tolist() == [0, 1, 3, 4]
    assert choices.winner.tolist() == [0, 4]
    np.testing.assert_allclose(np.exp(choices.log_count), [2, 1, 2, 1])
    assert not choice_draws.connected(choices, 2).any()
    drawn = choice_draws.drawn_rows(np.random.default_rng(0), bags, 5, 100)
    assert np.bincount(drawn.draw, drawn.weight).tolist() == [100] * 5
    assert ((drawn.kind == 1) == (drawn.label == 2)).all()


def test_all_tokens_in_every_context_cost_one_for_each_degree_of_freedom():
    bags = choice_draws.bags_of(np.ones((3, 6), int), theta := np.linspace(-1, 1, 6))
    assert consistency._predicted(bags, theta) == pytest.approx(1.0)
