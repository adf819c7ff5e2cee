"""Figures 11 and 12 of Mechanics, and by hand what they count."""

import numpy as np

from attomaton.claims import components
from attomaton.results import Verdict


def test_components_are_as_published_and_their_control_is_not():
    result = components.fig11(seeds=1, n=(100, 1_000, 10_000))
    assert result["verdict"] == Verdict.HOLDS.value, result["rows"]
    assert result["control"] == Verdict.FAILS.value, result["rows"]


def test_retrieval_grows_with_the_dimension_and_is_not_there_at_four():
    result = components.fig12(seeds=2, K=64, T=40, d=(2, 4, 6, 8, 64))
    assert result["verdict"] == Verdict.HOLDS.value, result["rows"]
    assert result["control"] == Verdict.FAILS.value, result["rows"]
    assert result["rows"][0]["strict"] == 0.0
    assert result["rows"][-1]["strict"] > 0.99  # what is left are cycles of the data


def test_one_sample_leaves_every_token_alone():
    assert components._components(np.random.default_rng(0), 1, 5, 20) == 20
