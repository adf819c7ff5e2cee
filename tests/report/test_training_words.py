"""A run of training in words."""

import pytest

from attomaton.report.text.training import limit_words

CASES = {
    "its own norm, and Frobenius' beside it": (
        {"optimizer": "adam", "norm": "max", "eps": 0.0},
        [{"margin_max": 0.831, "margin_frobenius": 0.607}],
        "Adam with ε = 0 approaches the largest margin in the max norm; this run has 0.83 of it (0.61 of the Frobenius "
        "margin).",
    ),
    "ε may have taken over": (
        {"optimizer": "adam", "norm": "max", "eps": 1e-8},
        [{"margin_max": 0.2, "margin_frobenius": 0.1, "eps_free": x} for x in (0.5, 0.25)],
        "Adam with ε = 1e-08 approaches the largest margin in the max norm while √v is well above ε, at the end in "
        "25.0% of the coordinates; these 2 runs have 0.20 of it (0.10 of the Frobenius margin).",
    ),
    "of gradient descent the other is the max norm": (
        {"optimizer": "gd", "norm": "frobenius", "tied": True},
        [{"margin_max": 0.5, "margin_frobenius": x} for x in (0.9, 0.95)],
        "Gradient descent approaches the largest margin in the Frobenius norm; these 2 runs have 0.90 to 0.95 of it "
        "(0.50 of the max margin).",
    ),
    "ties, and an order that is wrong": (
        {"optimizer": "mirror:3", "norm": 3.0, "tied": True},
        [{"margin_3": -0.5, "margin_frobenius": -0.4}],
        "Mirror descent with p = 3 approaches the largest margin in the 3-norm (known for data without ties; these "
        "have some); this run has -0.50 of it (-0.40 of the Frobenius margin). Below 0: some priority is still the "
        "wrong way round.",
    ),
    "too large": (
        {"optimizer": "muon", "norm": "spectral", "left_out": "norm spectral: too large."},
        [{"margin_frobenius": 0.4}],
        "Muon approaches the largest margin in the spectral norm. How much of it is not told (norm spectral: too "
        "large); this run has 0.40 of the Frobenius margin.",
    ),
    "factors, another loss": (
        {"optimizer": "gd", "norm": "nuclear", "plain": False},
        [{"margin_nuclear": 0.9}],
        "Gradient descent on keys and queries approaches the largest margin in the nuclear norm (known for the "
        "log-loss and the identity head; others may settle in a local direction); this run has 0.90 of it.",
    ),
    "no priorities": (
        {"optimizer": "sign", "norm": "max"},
        [{"margin_max": None, "margin_frobenius": float("nan")}],
        "Sign descent approaches the largest margin in the max norm; there is none, since no token outranks another.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_said_of_margins(case):
    how, final, said = CASES[case]
    assert limit_words(final=final, **how) == said
