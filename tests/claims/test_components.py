"""Figures 11 and 12 of Mechanics, and by hand what they count."""

import numpy as np
import pytest

from attomaton.claims import components
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.results import Verdict


def test_components_are_as_published_and_their_control_is_not(monkeypatch):
    monkeypatch.setattr(components, "N_11", (100, 1_000, 10_000))
    result = components.fig11(seeds=1)
    assert result["verdict"] == Verdict.HOLDS.value, result["rows"]
    assert result["control"] == Verdict.FAILS.value, result["rows"]


def test_retrieval_grows_with_the_dimension_and_is_not_there_at_four(monkeypatch):
    for name, value in (("K_12", 64), ("T_12", 40), ("D_12", (2, 4, 6, 8, 64))):
        monkeypatch.setattr(components, name, value)
    result = components.fig12(seeds=2)
    assert result["verdict"] == Verdict.HOLDS.value, result["rows"]
    assert result["control"] == Verdict.FAILS.value, result["rows"]
    assert result["rows"][0]["strict"] == 0.0
    assert result["rows"][-1]["strict"] > 0.99  # what is left are cycles of the data


def test_one_sample_leaves_every_token_alone(monkeypatch):
    monkeypatch.setattr(components, "K_11", 20)
    assert components._components(np.random.default_rng(0), 1, 5) == 20


def test_selected_mass_by_hand():
    """e_a + e_c = e_b + e_d ties a with b and c with d, three to one: the graph has no tie."""
    E = np.array([[1.0, 0, 0], [0, 1, 0], [-0.5, 0.5, 0], [0.5, -0.5, 0], [0, 0, 1]])
    samples = samples_from_sequences(
        [[0, 1, 4], [2, 3, 4]], [0, 2], [3, 1], vocabulary=Vocabulary(range(5))
    )
    found = components.selected(solve_limit(samples, E))
    assert found.tolist() == pytest.approx([0.75, 0.25])
    assert components.selected(solve_limit(samples)).tolist() == [1.0, 1.0]
