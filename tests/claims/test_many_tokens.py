"""Figures 9 and 10 of Mechanics, at a small size, against descent written out in NumPy."""

import numpy as np
import pytest

from attomaton.claims import many_tokens, published
from attomaton.errors import DataError
from attomaton.mechanics.theory.finite import FiniteSubspace
from attomaton.numerics import cosine

SMALL = {"K": 60, "d": 16, "n": 6, "T": 6, "lr": 0.05, "steps": 300, "seeds": 3}


def plain_descent(samples, E, lr, steps):
    """W ← W − η g/‖g‖ from 0, sample by sample."""
    W = np.zeros((E.shape[1], E.shape[1]))
    for _ in range(steps):
        g = np.zeros_like(W)
        for i in range(len(samples)):
            token = samples.token[samples.start[i] : samples.start[i + 1]]
            count = samples.count[samples.start[i] : samples.start[i + 1]]
            z = E[token] @ W @ E[samples.last[i]]
            p = count * np.exp(z - z.max())
            p = p / p.sum() - (token == samples.label[i])
            g += (
                samples.weight[i]
                / samples.total_weight
                * np.outer(p @ E[token], E[samples.last[i]])
            )
        W -= lr * g / np.linalg.norm(g)
    return W


def test_the_instances_have_one_last_token_and_a_cycle_over_the_tokens_that_occur():
    limit = many_tokens.draw(0, 60, 16, 6, 6)
    samples = limit.samples
    assert len(np.unique(samples.last)) == 1
    assert limit.graph.cyclic.any()
    assert len(samples.vocabulary) == len(np.unique(samples.token)) == len(limit.embeddings.E)
    assert set(samples.vocabulary.labels) <= set(range(60))


def test_both_curves_end_where_descent_in_numpy_ends():
    direction, finite = many_tokens.fig9(**SMALL), many_tokens.fig10(**SMALL)
    for i in range(SMALL["seeds"]):
        limit = many_tokens.draw(i, *(SMALL[k] for k in "KdnT"))
        E = limit.embeddings
        W = plain_descent(limit.samples, E.E, SMALL["lr"], SMALL["steps"])
        far = FiniteSubspace(limit.graph, E).project(W) - limit.dense(limit.finite.coefficient)
        end, gap = direction["curves"][i]["cosine_svm"][-1], finite["curves"][i]["distance_fin"][-1]
        assert end == pytest.approx(cosine(W, limit.dense(limit.svm.coefficient)), abs=1e-9)
        assert gap == pytest.approx(np.linalg.norm(far), abs=1e-9)
    assert direction["mean"] > direction["control_mean"]
    assert finite["control"] == "fails"
    assert len(published.curves_table(direction)["step"]) == sum(
        len(c["step"]) for c in direction["curves"]
    )


def test_half_a_step_is_where_normalised_descent_settles_on_a_tie():
    """Of two rivals that won once each the tie is even: W_fin = 0, and steps of η go back and forth around it."""
    ends = many_tokens.fig10(**SMALL | {"steps": 4000, "seeds": 6})
    assert ends["verdict"] == "holds"
    assert ends["mean"] == pytest.approx(SMALL["lr"] / 2, rel=0.3)


def test_too_few_dimensions_are_said():
    with pytest.raises(DataError, match="instance 0: in d = 2 dimensions all differences"):
        many_tokens.fig9(**SMALL | {"d": 2})


def test_the_control_measures_strict_differences_alone():
    limit = many_tokens.draw(0, 60, 16, 6, 6)
    W_svm = limit.dense(limit.svm.coefficient)
    longest = 2 * (np.linalg.norm(limit.embeddings.E, axis=1) ** 2).max()
    assert many_tokens._strict(W_svm, limit) >= (1 - 1e-9) / longest
    assert many_tokens._strict(limit.dense(limit.finite.coefficient), limit) < 1
