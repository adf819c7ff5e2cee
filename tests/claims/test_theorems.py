"""Theorems and lemmas, each measured where it must hold, each with a control that must fail."""

import numpy as np
import pytest

from attomaton.claims import (
    active_subspace,
    any_embeddings,
    automaton_limit,
    collapse,
    critical_points,
    factorised,
    general_heads,
    general_losses,
    gradient_descent,
    longest_chain,
    lp_margin,
    optimiser_norm,
    regularisation,
    special_cases,
    step_bound,
)
from attomaton.claims.cases import Case, smoothness
from attomaton.claims.controls import relabelled
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.numerics import cosine, named_rng
from attomaton.results import Verdict


@pytest.mark.parametrize(
    "claim",
    [
        gradient_descent,
        regularisation,
        special_cases,
        automaton_limit,
        critical_points,
        active_subspace,
        step_bound,
        general_losses,
        general_heads,
        any_embeddings,
        factorised,
        collapse,
    ],
    ids=lambda m: m.__name__,
)
def test_the_claim_holds_and_its_control_fails(claim):
    evidence = claim.check()
    assert evidence.verdict is Verdict.HOLDS, evidence.measured
    assert evidence.control is Verdict.FAILS, evidence.control_measured
    assert evidence.stands


def test_too_little_training_does_not_pass_for_convergence():
    assert gradient_descent.check(problems=2, steps=300).verdict is Verdict.FAILS
    assert automaton_limit.check(problems=2, steps=20).verdict is Verdict.FAILS
    assert any_embeddings.check(problems=2, steps=300).verdict is Verdict.FAILS
    assert collapse.check(trajectories=50, steps=100).verdict is Verdict.FAILS
    assert optimiser_norm.check(problems=1, steps=100).verdict is Verdict.FAILS


def test_the_longest_chain_bounds_the_margin_and_one_step_more_does_not():
    evidence = longest_chain.check(graphs=30)
    assert evidence.stands, (evidence.measured, evidence.control_measured)
    assert longest_chain.check(problems=1, graphs=3, steps=20).verdict is Verdict.FAILS
    chain = solve_limit(samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1]), norm="max")
    assert longest_chain.steps_of(chain) == 2
    assert longest_chain.program(chain) == pytest.approx(1.0)
    mixed = solve_limit(samples_from_sequences([[0, 1, 2, 3], [0, 1, 3]], [0, 1]), norm="max")
    assert longest_chain.program(mixed) == pytest.approx(0.5)
    assert longest_chain.program(mixed, held=True) == pytest.approx(
        1.0
    )  # 0 and 1 stay, 2 and 3 sink
    two = [[0, 1, 2, 3, 4]] * 2 + [[2, 3, 4]] * 2
    both = solve_limit(samples_from_sequences(two, [0, 1, 2, 3]), norm="max")  # {0, 1} over {2, 3}
    assert longest_chain.program(both, held=True) == np.inf


def test_mirror_descent_finds_its_direction_among_cycles():
    evidence = lp_margin.check(problems=2)
    assert evidence.stands, (evidence.measured, evidence.control_measured)
    assert lp_margin.check(problems=1, steps=30).verdict is Verdict.FAILS


def test_each_optimiser_has_a_norm_of_its_own():
    evidence = optimiser_norm.check(problems=2, steps=20_000)
    assert evidence.stands, evidence.measured


def test_the_share_of_the_best_margin_by_hand():
    """0 over 1 over 2: (1, 0, −1) has margin 1 and length √2, (3, 0, −1) margin 1 and length √10."""
    limit = solve_limit(samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1]))
    W = np.zeros((3, 3))
    W[:, 2] = 1.0, 0.0, -1.0
    assert optimiser_norm.share(limit, "frobenius", W) == pytest.approx(1.0)
    assert optimiser_norm.share(limit, "frobenius", -W) == pytest.approx(-2.0)
    W[0, 2] = 3.0
    assert optimiser_norm.share(limit, "frobenius", W) == pytest.approx(0.2**0.5)


def test_a_control_keeps_contexts_and_changes_every_label():
    contexts = [[0, 1, 2], [0, 3, 2], [1, 3, 2], [0, 0, 1], [2, 2, 3]]
    samples = samples_from_sequences(contexts, [0, 3, 1, 0, 2], [1, 2, 3, 4, 5])
    other = relabelled(samples, named_rng("control", 1))

    def table(s):
        return {
            (int(s.last[i]), str(s.bag(i))): (float(s.weight[i]), int(s.label[i]))
            for i in range(len(s))
        }

    before, after = table(samples), table(other)
    assert before.keys() == after.keys()
    for context, (weight, label) in before.items():
        assert after[context][0] == weight
        assert after[context][1] != label


# No critical point: one token over another, by hand


def test_slopes_keep_their_sign_where_no_float_holds_them():
    """Attention on the loser is 1/(1 + e^u): −½ at u = 0, and e^−2000 far out, which float64 takes for 0."""
    case = Case(samples_from_sequences([[0, 1]], [0]))
    gain = critical_points.gains(case, solve_limit(case.samples))
    np.testing.assert_allclose(gain, [0.0, 1.0], atol=1e-9)
    places = [c * np.array([0.5, -0.5]) for c in (0.0, 2.0, 2000.0)]
    found = critical_points.slopes(case, places, np.array([0.0, 1.0]))
    assert found.sign.tolist() == [-1.0, -1.0, -1.0]
    np.testing.assert_allclose(found.log, [-np.log(2), -np.log1p(np.exp(2)), -2000.0], rtol=1e-14)


def test_slopes_of_both_signs_are_weighed_against_each_other():
    """Two tokens win once each: at even odds the slopes cancel, elsewhere the likelier loser decides."""
    case = Case(samples_from_sequences([[0, 1], [0, 1]], [0, 1]))
    gain = np.array([0.0, 1.0, -1.0, 0.0])  # the direction lifts token 0
    found = critical_points.slopes(
        case, [np.zeros(2), np.array([1.0, 0]), np.array([0, 1.0])], gain
    )
    assert found.sign.tolist() == [0.0, 1.0, -1.0]
    p = 1 / (1 + np.exp(-1.0))
    np.testing.assert_allclose(np.exp(found.log), [0.0, p - 0.5, p - 0.5], rtol=1e-14)


# The largest step, by hand


def test_smoothness_counts_what_meets_after_each_last_token():
    E = np.array([[3.0, 0], [0, 1.0], [0, 2.0]])
    samples = samples_from_sequences([[0, 1], [1, 1, 2]], [0, 1])
    case = Case(samples, check_embeddings(E))
    # After token 1: ‖e_0 − e_1‖²‖e_1‖²/4 = 10/4; after token 2: ‖e_1 − e_2‖²‖e_2‖²/4 = 4/4.
    assert smoothness(case) == pytest.approx(2.5)
    assert smoothness(Case(samples)) == 0.5
    assert step_bound.paper_smoothness(case) == pytest.approx(2 * 81 * np.sqrt(3))
    assert step_bound.paper_smoothness(Case(samples)) == pytest.approx(2 * np.sqrt(3))


def test_two_even_tokens_reach_the_bound_and_no_tighter_one_holds():
    case = step_bound._draws(2)[1]
    pair = step_bound.sharp(case)
    beta = smoothness(pair.case)
    assert step_bound._curvature(pair) == pytest.approx(beta, rel=1e-5)
    start = [step_bound.NEAR * pair.direction] * 2
    loss = step_bound._descend([pair.case] * 2, start, np.array([1.98, 2.02]) / beta)
    rises = [step_bound._rise(x) for x in loss]
    assert rises[0] <= 0 < rises[1]


# Other losses: a label without a tie needs half the margin under (1 − u)², by hand

SOFT = samples_from_sequences([[0, 1, 2], [0, 1, 2], [3, 2]], [0, 1, 3])


def test_directions_of_other_losses_by_hand():
    """0 and 1 are tied and outrank 2, and so does 3, alone.

    Margins of 1: u = (¼, ¼, −¾, ¼). With ½ for 3 that margin is never active: u = (⅓, ⅓, −⅔, 0), which leaves it ⅔.
    """
    case = Case(SOFT)
    np.testing.assert_allclose(case.limit.svm.score, [0.25, 0.25, -0.75, 0.25], atol=1e-9)
    same, half = (general_losses.direction(case, order) for order in (1, 2))
    np.testing.assert_allclose(same, case.limit.svm.score, atol=1e-9)
    np.testing.assert_allclose(half, np.array([1, 1, -2, 0]) / 3, atol=1e-9)


def test_the_path_of_a_loss_whose_slope_vanishes_leaves_the_direction_of_the_data():
    """Theorem 3 asks for a decreasing loss with a bounded slope; (1 − u)² is one, and its path goes elsewhere."""
    case = Case(SOFT)
    (logistic,), (squared,) = (
        general_losses._paths([case], loss, []) for loss in ("logistic-score", "squared-score")
    )
    np.testing.assert_allclose(logistic.predicted, [0.25, 0.25, -0.75, 0.25], atol=1e-9)
    away = [cosine(x, case.limit.svm.score) for x in squared.outside]
    for path in (logistic, squared):
        assert path.cosines == sorted(path.cosines)
        assert path.cosines[-1] > 0.999
    assert away == sorted(away, reverse=True)
    assert away[-1] < 0.95


def test_a_bounded_loss_may_give_up_the_rarer_label():
    """Three wins of four: ¾ ℓ(p) + ¼ ℓ(1 − p) falls up to p = 1 under the logistic loss, not under (1 − u)²."""
    samples = samples_from_sequences([[0, 1, 2]] * 4, [0, 0, 0, 1])
    cases = [Case(samples)]
    assert general_losses.finite_values(cases, "logistic-score") == [None]
    assert general_losses.finite_values(cases, "squared-score") == [pytest.approx(0.1875)]


def test_the_floor_of_a_general_head_by_hand():
    E = check_embeddings(np.array([[1.0, 0], [0, 1.0]]))
    case = Case(samples_from_sequences([[0, 1], [1, 0]], [0, 1], [3.0, 1.0]), E)
    C = np.array([[0.5, 0.1], [0.0, 0.25]])
    assert general_heads.loss_floor(case, C, "squared-score") == pytest.approx(
        0.75 * 0.25 + 0.25 * 0.5625
    )


def test_pairs_that_samples_treat_alike():
    # Under 3: 0 beats 1 and 2, which nothing tells apart; 4 was never seen with it, and 3 is in every context.
    # Under 2: [1, 2] → 1, [0, 2] → 2 orders all it has seen.
    samples = samples_from_sequences(
        [[0, 1, 2, 3], [4, 4, 3], [1, 2], [0, 2]], [0, 4, 1, 2], None, Vocabulary(range(7))
    )
    found = factorised.alike(samples)
    assert np.argwhere(found[0]).tolist() == []  # never a last token
    assert np.argwhere(found[3]).tolist() == [[1, 2], [5, 6]]
    assert np.argwhere(found[2]).tolist() == [[i, j] for i in range(3, 7) for j in range(i + 1, 7)]
    open_ = factorised.unrelated(samples)
    assert (open_ | ~found).all()  # what is treated alike is never related
    assert not open_[2, 0, 1]  # 1 ⇒ 2 ⇒ 0
    assert open_[3, 0, 4]


def test_pairs_ordered_as_planted_are_counted_and_ties_halved():
    pairs = np.zeros((3, 3, 3), bool)
    pairs[0, 0, 1] = pairs[0, 0, 2] = pairs[2, 1, 2] = True
    place = np.array([[0, 1, 2]] * 3)
    W = np.array([[3.0, 0, 0], [1.0, 0, 5.0], [4.0, 0, 5.0]])
    # After 0: 0 over 1 is right, 2 over 0 wrong; after 2 a tie.
    assert factorised.right(W, place, pairs) == (1.5, 3)
    assert factorised.right(W, place[:, ::-1], pairs) == (1.5, 3)
    assert factorised.right(-np.diag([1.0, 2, 3]), place, pairs) == (1.0, 3)


def test_factors_that_were_hardly_trained_are_not_at_their_limit():
    assert factorised.check(problems=2, steps=100).verdict is Verdict.FAILS
