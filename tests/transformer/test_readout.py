"""Z and Y against the model itself; common and distinct tokens against a dictionary of sets."""

from collections import defaultdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attomaton.transformer.model import Settings, hidden_states, initial_params
from attomaton.transformer.readout import (
    KINDS,
    attention_by_kind,
    attention_logits,
    decoder_logits,
    pair_kinds,
)


@pytest.mark.parametrize("heads", [1, 2])
def test_attention_without_positions_is_the_softmax_of_z(text, heads):
    settings = Settings(17, width=8, heads=heads, hidden=8, positions=False)
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda w: jnp.asarray(w + 0.3 * rng.standard_normal(w.shape), jnp.float32),
        initial_params(settings, 0, 0),
    )
    tokens = text[0, :1, :-1]
    _, (maps,) = hidden_states(params.U[tokens], params.layers, settings)
    Z = attention_logits(params, tokens[0], heads)
    e = np.tril(np.exp(Z))
    np.testing.assert_allclose(maps[0], e / e.sum(-1, keepdims=True), atol=2e-6)


def test_y_is_the_straight_path_to_the_logits(text):
    settings = Settings(17, width=8, hidden=8, positions=False)
    params = initial_params(settings, 0, 0, np.float64)
    layer = params.layers[0]
    Y = decoder_logits(params, np.array([3, 5]), np.array([1, 2, 4]))
    value = np.sqrt(8) * params.U[5] @ layer.W_QKV[:, 2]
    assert Y[1, 2] == pytest.approx(value @ layer.W_O @ params.D[4], rel=1e-12)
    assert Y.shape == (2, 3)


def plain_kinds(windows):
    nexts, contexts = defaultdict(set), defaultdict(int)
    for row in windows.reshape(-1, windows.shape[-1]):
        for t in range(1, len(row) - 1):
            for token in set(row[:t].tolist()):
                nexts[int(row[t]), token].add(int(row[t + 1]))
                contexts[int(row[t]), token] += 1
    return {
        pair: "rare" if contexts[pair] < 2 else "common" if len(n) > 1 else "distinct"
        for pair, n in nexts.items()
    }


def test_kinds_are_those_of_a_dictionary(text):
    few = text[:12]
    expected = plain_kinds(few)
    kinds = pair_kinds(few, 17)
    query, token = np.divmod(np.arange(17 * 17), 17)
    found = [KINDS[i] for i in kinds.kind(query, token)]
    assert found == [
        expected.get((int(q), int(x)), "rare") for q, x in zip(query, token, strict=True)
    ]
    assert {"common", "distinct", "rare"} == set(found)


def test_attention_is_shared_out_completely(text):
    few, probes = text[:12], text[20, :2, :-1]
    expected = plain_kinds(few)
    rng = np.random.default_rng(0)
    maps = np.tril(rng.random((3, 2, 1, 6, 6)))
    maps /= maps.sum(-1, keepdims=True)
    found = attention_by_kind(maps, probes, pair_kinds(few, 17))
    np.testing.assert_allclose(sum(found.values()), np.ones(3), rtol=1e-12)
    by_hand = dict.fromkeys(KINDS, 0.0)
    for p, row in enumerate(probes.tolist()):
        for t in range(1, 6):
            for s in range(t + 1):
                kind = "itself" if s == t else expected.get((row[t], row[s]), "rare")
                by_hand[kind] += maps[1, p, 0, t, s] / 10
    assert {k: float(v[1]) for k, v in found.items()} == pytest.approx(by_hand)
