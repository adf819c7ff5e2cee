r"""Odds are consistent: their error falls like 1/n, with the constant that the information predicts.

A layer's probabilities are those of a context-conditioned chain (Ildiz et al., arXiv 2402.13512),
$m_y P_y / \sum_j m_j P_j$. Rows drawn from such a chain are fitted; with $\chi^2 = \sum_y (\hat P_y - P_y)^2 / P_y$,
predicted is $n\,\mathbb{E}\chi^2 \to \mathrm{tr}(\mathrm{diag}(P)^{-1} J V J)$, where $J = \mathrm{diag} P - P P^\top$
and V is the inverse information of one row: K − 1 where every context holds every token once, a little more where
some are missing. The control fits the same rows without their multiplicities: its error stays.
"""

from dataclasses import replace

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.choice_draws import (
    Bags,
    as_choices,
    bags_of,
    chi_squared,
    connected,
    drawn_rows,
    expected_information,
)
from attomaton.claims.picture import level, line
from attomaton.corpus.samples import Samples
from attomaton.corpus.windows import samples_from_sequences
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.finite import luce_fit
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.numerics import named_rng
from attomaton.results import Evidence, Panel, Verdict

SIZES = (4, 8, 16)
ROWS = (500, 2000, 8000)
KINDS = 100  # of contexts, each of twice as many tokens as there are
SPREAD = 0.5
TOGETHER = 50  # data sets at a time
LOW, HIGH = 0.9, 1.4
SAME = 1e-9


def _setting(K: int) -> tuple[Bags, Float[np.ndarray, " tokens"]]:
    rng = named_rng("consistency truth", K)
    theta = rng.normal(size=K) * SPREAD
    count = [np.bincount(rng.integers(K, size=2 * K), minlength=K) for _ in range(KINDS)]
    return bags_of(np.array(count), theta), theta


def _predicted(bags: Bags, theta: Float[np.ndarray, " tokens"]) -> float:
    """n E χ² / (K − 1) for many rows."""
    P = np.exp(theta) / np.exp(theta).sum()
    J = np.diag(P) - np.outer(P, P)
    V = np.linalg.pinv(expected_information(bags), hermitian=True)
    return float(np.trace(J @ V @ J / P[:, None])) / (len(P) - 1)


def _measure(K: int, n: int, draws: int) -> tuple[float, float]:
    """n χ² / (K − 1) in the mean over data sets; and without multiplicities."""
    bags, theta = _setting(K)
    rng = named_rng(f"consistency {K} {n}", 0)
    found: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for first in range(0, draws, TOGETHER):
        some = min(TOGETHER, draws - first)
        choices, _ = as_choices(bags, drawn_rows(rng, bags, some, n), some)
        choices, _ = choices.restrict(connected(choices, some))
        blind = replace(choices, log_count=np.zeros(len(choices.item)))
        for errors, x in zip(found, (choices, blind), strict=True):
            errors.append(chi_squared(luce_fit(x).theta.reshape(-1, K), theta))
    right, wrong = (float(n * np.concatenate(x).mean() / (K - 1)) for x in found)
    return right, wrong


def _chain_gap() -> float:
    """The largest gap between a fitted layer's probabilities and those of the chain with P = softmax of its scores."""
    bags, _ = _setting(4)
    rows = drawn_rows(named_rng("chain", 0), bags, 1, 500)
    bag = [np.repeat(np.arange(4), bags.held[k]).tolist() for k in range(KINDS)]
    samples: Samples = samples_from_sequences(
        [[*bag[k], 4] for k in rows.kind], rows.label.tolist(), rows.weight
    )
    limit = solve_limit(samples)
    word, part = samples.vocabulary, limit.graph.pairs_of(samples.vocabulary.id_of(4) or 0)
    P = {
        word[x]: np.exp(limit.finite.score[part][i])
        for i, x in enumerate(limit.graph.pair_token[part])
    }
    layer, worst = Automaton(limit), 0.0
    for one in bag[:20]:
        mass = {x: one.count(x) * P[x] for x in set(one)}
        told = layer.predict_proba([*one, 4])
        total = sum(mass.values())
        worst = max(worst, *(abs(told[x] - m / total) for x, m in mass.items()))
    return float(worst)


def check(draws: int = 200, sizes: int = len(SIZES), rows: int = len(ROWS)) -> Evidence:
    """n χ² over the number of rows, for the first few vocabularies, and the identity with the chain."""
    found = {(K, n): _measure(K, n, draws) for K in SIZES[:sizes] for n in ROWS[:rows]}
    predicted = {K: _predicted(*_setting(K)) for K in SIZES[:sizes]}
    right, wrong = ([x[i] for x in found.values()] for i in (0, 1))
    gap = _chain_gap()
    n = ROWS[:rows]
    lines = [
        line(n, [found[K, x][i] for x in n], f"{K} tokens{said}", "points")
        for K in predicted
        for i, said in enumerate(("", ", control"))
    ]
    ends = [min(n) / 1.5, max(n) * 1.5]
    return Evidence(
        formula="n E Σ (P̂ − P)²/P → tr(diag(P)⁻¹ J V J) ≈ K − 1",
        verdict=Verdict.of(min(right) >= LOW and max(right) <= HIGH and gap <= SAME),
        control=Verdict.of(max(wrong) <= HIGH),
        prediction={"n χ²/(K − 1), by tokens": {str(K): x for K, x in predicted.items()}},
        tolerance=f"n χ²/(K − 1) between {LOW:g} and {HIGH:g} throughout; probabilities as the chain's to {SAME:g}",
        reason="the mean of χ² over data sets scatters by √(2/((K − 1) draws)), and contexts lack some tokens",
        measured={"n χ²/(K − 1)": _table(found, 0), "largest gap to the chain": gap},
        control_measured={"n χ²/(K − 1) without multiplicities": _table(found, 1)},
        panels=(
            Panel("Error times rows", "rows", "n χ²/(K − 1)", [*lines, level(ends, 1.0, "all tokens in every context")],
                  xscale="log", yscale="log", legend="outside"),
        ),
        settings={"draws": draws, "tokens": list(SIZES[:sizes]), "rows": list(ROWS[:rows]),
                  "kinds of contexts": KINDS},
    )  # fmt: skip


def _table(
    found: dict[tuple[int, int], tuple[float, float]], which: int
) -> list[dict[str, int | float]]:
    return [{"tokens": K, "rows": n, "value": x[which]} for (K, n), x in found.items()]
