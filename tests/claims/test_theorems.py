"""T1–T4, each measured where it must hold, each with a control that must fail."""

import pytest

from attomaton.claims import (
    any_embeddings,
    automaton_limit,
    gradient_descent,
    regularisation,
    special_cases,
)
from attomaton.claims.controls import relabelled
from attomaton.corpus.windows import samples_from_sequences
from attomaton.numerics import named_rng
from attomaton.results import Verdict


@pytest.mark.parametrize(
    "claim",
    [gradient_descent, regularisation, special_cases, automaton_limit, any_embeddings],
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
