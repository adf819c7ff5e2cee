"""Tuning: the grid's best is what is fitted, and it predicts better than what it must beat."""

import numpy as np
import pytest

from attomaton.corpus.windows import windows_from_sequences
from attomaton.errors import DataError, UsageError
from attomaton.predictor.bags import bags_of
from attomaton.predictor.scoring import measure
from attomaton.predictor.tune import tune


def test_the_least_log_loss_is_chosen_and_reported(text):
    train, valid = text(0), text(1)
    seen = []
    made = tune(
        train, valid, priors=["zero", "main+bigram", "odds"], lambdas=[0.5, 4.0], thetas=[0.0, 0.5, 1.0],
        part_size=600, widen=0, progress=lambda *step: seen.append(step),
    )  # fmt: skip
    grid, chosen = made.record["grid"], made.record["chosen"]
    best = min(grid["priors"], key=lambda row: row["log_loss"])
    assert best["prior"] == chosen["prior"]
    assert {row["prior"] for row in grid["theta_lambda"]} == {chosen["prior"]}
    assert len(grid["priors"]) == len(grid["theta_lambda"]) == 6
    best = min(grid["theta_lambda"], key=lambda row: row["log_loss"])
    assert best == {k: chosen[k] for k in best}
    assert made.theta == chosen["theta"]
    assert {stage for _, _, stage in seen} == {"counts", "priors", "grid", "fit"}
    assert made.record["train"]["parts"] > 2
    assert made.record["certificates"]["gradient"] <= 1e-8
    # The figures of the grid are those of the predictor that comes out, up to the loose residual.
    bags = bags_of(valid, np.flatnonzero(valid.realizable))
    found = measure(bags, bags.shares(made.log_weights(bags)))
    assert found.loss.mean() == pytest.approx(chosen["log_loss"], rel=1e-3)


def test_a_text_of_the_same_language_is_predicted_better(text):
    # The drawn language: follow the last word, or come back to one of the six before.
    made = tune(text(0, 6000), text(1, 3000), lambdas=[1.0, 4.0], thetas=[0.5, 1.0])
    asked = text(2, 6000)
    bags = bags_of(asked, np.flatnonzero(asked.realizable))
    mine = measure(bags, bags.shares(made.log_weights(bags)))
    for name, weights in made.baselines.in_context.items():
        if name != "trigram, mixed":
            other = measure(bags, bags.shares(weights(bags)))
            assert mine.loss.mean() < other.loss.mean(), name
            assert mine.top1.mean() > other.top1.mean() - 0.005, name


def test_a_grid_grows_where_the_best_lies_at_its_edge(text):
    """What a grid around the best would have found is found from a grid beside it."""
    asked = {"priors": ["main"], "thetas": [0.3]}
    around = tune(text(0), text(1), **asked, lambdas=[2.0**k for k in range(-6, 6)], widen=0)
    best = around.record["chosen"]
    assert best["at_edge"] == []
    for lambdas in ([2.0**-6, 2.0**-5], [2.0**4, 2.0**5]):
        stays = tune(text(0), text(1), **asked, lambdas=lambdas, widen=0).record
        assert stays["chosen"]["at_edge"] == ["lambda"]
        assert stays["grid"]["widened"] == 0
        grown = tune(text(0), text(1), **asked, lambdas=lambdas, widen=12).record
        assert grown["chosen"]["lambda"] == best["lambda"]
        assert grown["chosen"]["at_edge"] == []
        assert grown["grid"]["widened"] > 1
        some = tune(text(0), text(1), **asked, lambdas=lambdas, widen=1).record
        assert len(some["grid"]["theta_lambda"]) == 3
        assert some["chosen"]["at_edge"] == ["lambda"]


def test_both_axes_grow_and_a_single_value_stays(text):
    both = tune(text(0), text(1), priors=["zero"], thetas=[6.0, 8.0], lambdas=[64.0, 99.0], widen=1)
    tried = {(row["theta"], row["lambda"]) for row in both.record["grid"]["theta_lambda"]}
    least = min(row["lambda"] for row in both.record["grid"]["theta_lambda"])
    assert least < 64
    assert (0.0, least) in tried
    one = tune(text(0), text(1), priors=["zero"], thetas=[8.0], lambdas=[99.0])
    assert (one.record["chosen"]["at_edge"], one.record["grid"]["widened"]) == ([], 0)


def test_refusals(text):
    train = text(0)
    for wrong in ({"lambdas": [0.0]}, {"thetas": [-1.0]}, {"priors": []}, {"widen": -1},
                  {"priors": ["mian"]}, {"lambdas": [float("nan")]}):  # fmt: skip
        with pytest.raises(UsageError):
            tune(train, train, **wrong)
    never = windows_from_sequences([["w1"], ["w2"]], ["w2", "w1"])
    with pytest.raises(DataError, match="none of the 2 training windows"):
        tune(never, train)
    with pytest.raises(DataError, match="none of the 2 validation windows"):
        tune(train, never)
    # Tokens of another kind (another column, another spelling): whatever suits them best says nothing.
    other = windows_from_sequences([["W1", "W2", "W1"]], ["W2"])
    with pytest.raises(DataError, match=r"training saw none of these 2 tokens \('W1', 'W2'\)"):
        tune(train, other)


def test_validation_words_that_training_never_saw(text):
    train = text(0)
    valid = windows_from_sequences(
        [["new", "w1", "new"], ["w1", "w2", "w1"], ["w3", "other"]], ["new", "w2", "w3"]
    )
    made = tune(train, valid, priors=["main+bigram+kin"], lambdas=[1.0], thetas=[0.5])
    assert made.record["chosen"]["weight"] == 3
    assert np.isfinite(made.record["chosen"]["log_loss"])
