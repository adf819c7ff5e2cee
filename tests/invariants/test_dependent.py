"""The limit for fewer dimensions than tokens: what a rotation, a scale and another order of tokens must not change."""

from dataclasses import replace

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from tests.invariants.harness import holds_for, refuted
from tests.invariants.strategies import data, rotation, seeds, shuffled, solved, table
from tests.oracle import unit_rows

from attomaton.mechanics.theory import dependent as room

SAME = 1e-6  # of numbers of the size of W: two runs of a solver on one problem written differently
NARROW = 1e3  # ‖W_svm‖ of unit vectors from which margins are too narrow to be told from ties


def few(seed, K):
    """Unit vectors in fewer dimensions than tokens, equal or well apart; often two tokens have one vector."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, K))
    while True:
        E = unit_rows(rng, K, d)
        if seed % 3 == 0:
            E[rng.integers(K)] = E[rng.integers(K)]
        apart = np.linalg.norm(E[:, None] - E, axis=-1)
        if not ((apart > 0) & (apart < 0.01)).any():
            return E


def both(limit):
    """W_svm and W_fin."""
    return limit.dense(limit.svm.coefficient), limit.dense(limit.finite.coefficient)


def known(raw, seed):
    """Embeddings and their limit, where it can be told at all."""
    E = few(seed, raw.K)
    found = solved(raw, E)
    assume(found.svm.norm < NARROW)
    return E, found


def agree(one, other, scale=1.0):
    """The same split, floor, odds and scores; norms by this factor."""
    size = max(1.0, np.abs(one.svm.score).max())
    assert (one.graph.component == other.graph.component).all()
    assert abs(one.finite.loss_floor - other.finite.loss_floor) < 1e-9
    assert np.abs(one.svm.score - other.svm.score).max() < SAME * size
    assert np.abs(one.finite.score - other.finite.score).max() < SAME * size
    for a, b in ((one.svm, other.svm), (one.finite, other.finite)):
        assert abs(a.norm - scale * b.norm) < SAME * max(1.0, a.norm)


@holds_for(data(), seeds, share=0.25)
def test_rotated_embeddings_rotate_both_parts(raw, seed):
    E, found = known(raw, seed)
    Q = rotation(seed, E.shape[1])
    turned = solved(raw, E @ Q)
    agree(found, turned)
    for W, other in zip(both(found), both(turned), strict=True):
        assert np.abs(other - Q.T @ W @ Q).max() < SAME * max(1.0, np.linalg.norm(W))


@holds_for(data(), seeds, st.sampled_from([1e-6, 1e-3, 7.0, 1e6]), share=0.25)
def test_scaled_embeddings_scale_both_parts_by_the_inverse_square(raw, seed, scale):
    E, found = known(raw, seed)
    scaled = solved(raw, scale * E)
    agree(found, scaled, scale**2)
    for W, other in zip(both(found), both(scaled), strict=True):
        assert np.abs(scale**2 * other - W).max() < SAME * max(1.0, np.linalg.norm(W))


@holds_for(data(), seeds, share=0.25)
def test_another_order_of_tokens_permutes_scores_and_keeps_both_parts(raw, seed):
    E, found = known(raw, seed)
    new = shuffled(seed, raw.K)
    moved = np.empty_like(E)
    moved[new] = E
    other = solved(raw.relabelled(new), moved)
    size = max(1.0, np.abs(found.svm.score).max())
    for part in ("svm", "finite"):
        one, two = (table(x.graph, getattr(x, part).score) for x in (found, other))
        assert np.abs(two[np.ix_(new, new)] - one).max() < SAME * size
    for W, same in zip(both(found), both(other), strict=True):
        assert np.abs(same - W).max() < SAME * max(1.0, np.linalg.norm(W))
    assert abs(found.finite.loss_floor - other.finite.loss_floor) < 1e-9


# Controls: faults that the laws must see


def test_control_a_wrong_power_of_the_unit_is_seen(monkeypatch):
    features = room.pair_features

    def wrong(*arguments):
        found = features(*arguments)
        return replace(found, unit=np.sqrt(found.unit))

    monkeypatch.setattr(room, "pair_features", wrong)
    refuted(test_scaled_embeddings_scale_both_parts_by_the_inverse_square)
