"""Margins in training: what a run records against the limit of its own optimiser."""

import numpy as np
import pytest

from attomaton.claims.margins import MOST_PAIRS, ends_of, measure_margins, rulers
from attomaton.claims.optimiser_norm import share
from attomaton.corpus.windows import samples_from_sequences
from attomaton.jobs.train import train_beside_theory
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.synthetic import draw_samples, unit_embeddings
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.mechanics.theory.norms import norm_of
from attomaton.numerics import cosine, float64, named_rng

CHAIN = samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1])


def measured(limit, norm, params):
    """The records of some parameters, as plain numbers."""
    import jax

    by = rulers(ends_of(limit, norm))
    with float64():
        one = jax.tree.map(lambda x: jax.numpy.asarray(x[0]), by)
        return {k: float(v) for k, v in measure_margins(jax.numpy.asarray(params), one).items()}


def test_a_chain_solved_by_hand():
    limit = solve_limit(CHAIN)
    got = measured(limit, 3.0, np.array([3.0, 1.0, 0.0]))
    # Margins 2, 3 and 1; W_svm = (1, 0, −1), the chain has two steps, W_3 is W_svm again.
    assert got["margin_frobenius"] == pytest.approx(np.sqrt(2) / np.sqrt(10), abs=1e-12)
    assert got["margin_max"] == pytest.approx(1 / 3, abs=1e-12)
    assert got["margin_3"] == pytest.approx((2 / 28) ** (1 / 3), abs=1e-6)
    assert got["cosine_3"] == pytest.approx(3 / np.sqrt(20), abs=1e-6)
    assert got["cosine_3"] == pytest.approx(got["cosine_svm"], abs=1e-6)
    assert "cosine_max" not in got  # one of many: its cosine says nothing
    # An order that is wrong has a negative margin, the solution itself the whole of it, W = 0 none.
    assert measured(limit, "max", np.array([1.0, 3.0, 0.0]))["margin_max"] < 0
    best = measured(limit, "max", limit.svm.score)
    assert (best["margin_max"], best["margin_frobenius"]) == pytest.approx((1, 1), abs=1e-9)
    assert np.isnan(measured(limit, "max", np.zeros(3))["margin_max"])


def test_tied_tokens_have_no_margin_and_data_without_priorities_no_share():
    mixed = solve_limit(samples_from_sequences([[0, 1, 2, 3], [0, 1, 3]], [0, 1]))
    # 0 and 1 tie: that 1 is above 0 counts for nothing, 0 above 3 by 1 is the margin.
    got = measured(mixed, "max", np.array([0.0, 5.0, -2.0, -1.0]))
    assert got["margin_max"] == pytest.approx(1 / 5 * (1 / 2), abs=1e-12)
    tied = solve_limit(samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1]))
    assert ends_of(tied, "max").best == {"frobenius": None, "max": None}
    assert np.isnan(measured(tied, "max", np.array([1.0, -1.0]))["margin_max"])


@pytest.mark.parametrize("norm", ["max", "spectral", "nuclear", 1.5])
@pytest.mark.parametrize("dense", [False, True])
def test_shares_are_those_of_a_plain_program(norm, dense):
    rng = named_rng("margins", 0)
    samples = draw_samples(rng, 6, 12, 4, kind="cyclic", repeats=True)
    matrix = dense or norm in ("spectral", "nuclear")
    limit = solve_limit(samples, check_embeddings(np.eye(6)) if matrix else None)
    plain = solve_limit(samples, norm=norm)
    graph = limit.graph
    W = rng.normal(size=(6, 6))
    W[graph.pair_token, graph.pair_last] += 5 * plain.direction.score
    if not matrix:
        rest = np.ones((6, 6), bool)
        rest[graph.pair_token, graph.pair_last] = False
        W[rest] = 0.0
    got = measured(limit, norm, W if matrix else W[graph.pair_token, graph.pair_last])
    assert got[f"margin_{norm}"] == pytest.approx(share(plain, norm, W), rel=1e-6)
    assert got["margin_frobenius"] == pytest.approx(
        share(solve_limit(samples), "frobenius", W), rel=1e-9
    )
    if norm != "max":
        W_N = np.zeros((6, 6))
        W_N[graph.pair_token, graph.pair_last] = plain.direction.score
        W_N = W_N if plain.direction.W is None else plain.direction.W
        assert got[f"cosine_{norm}"] == pytest.approx(cosine(W, W_N), abs=1e-6)


def test_other_vectors_have_the_margin_of_their_own_norm():
    rng = named_rng("margins", 1)
    samples = draw_samples(rng, 5, 8, 3)
    limit = solve_limit(samples, check_embeddings(unit_embeddings(rng, 5, 5)))
    found = ends_of(limit, "max").norms["max"]
    assert set(ends_of(limit, "frobenius").norms) == set()  # the graph says nothing of it
    got = measured(limit, "max", found.W)
    assert got["margin_max"] == pytest.approx(1, abs=1e-6)
    assert (
        got["margin_max"] > measured(limit, "max", limit.dense(limit.svm.coefficient))["margin_max"]
    )
    assert norm_of(found.W, "max") == pytest.approx(found.value)


def test_a_norm_that_is_too_large_is_left_out_and_says_why(monkeypatch):
    monkeypatch.setattr("attomaton.claims.margins.MOST_PAIRS", 2)
    ends = ends_of(solve_limit(CHAIN), 1.5)
    assert "1.5" not in ends.norms
    assert "max" in ends.norms
    assert "norm 1.5: 3 pairs, and 2 are the most" in ends.left_out
    assert MOST_PAIRS > 310_109  # WikiText-2's validation text


def test_each_optimiser_is_measured_in_its_norm():
    limit = solve_limit(CHAIN)
    how = {"steps": 2000, "every": 500, "schedule": "inverse-sqrt", "lr": 1.0}
    by_sign = train_beside_theory(limit, optimizer="sign", seeds=2, init="uniform", **how).records
    assert by_sign["margin_max"].shape == (2, 5)
    assert by_sign["margin_max"][:, -1].min() > 0.98
    by_muon = train_beside_theory(limit, optimizer="muon", **how).records
    assert {"margin_spectral", "cosine_spectral", "margin_frobenius"} <= set(by_muon)
    plain = train_beside_theory(limit, optimizer="gd", steps=10).records
    assert {"margin_max", "margin_frobenius"} <= set(plain)
