r"""Theorem 5 and Lemma 13: where W_svm ≠ 0 the log-loss has no finite critical point, since it falls along W_svm.

$$-\langle \nabla L(W), W_{svm}\rangle = \tfrac1n \sum_i \sum_{x} p_i(x)\, (e_{y_i} - e_x)^\top W_{svm}\, e_{q_i},$$

and every margin is 0 on ties and at least 1 on what is outranked. So at every finite W the slope is at least the mean
attention on outranked tokens, and at most that times the largest margin. Far out this is a number like $10^{-2000}$:
terms are summed as logarithms, those of each sign for themselves, so that a sign is never one of rounding.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.cases import (
    Case,
    Given,
    assumptions,
    drawn_case,
    not_applicable,
    refuted,
    sizes,
    structure,
)
from attomaton.claims.controls import shuffled_limits
from attomaton.claims.convexity import pair_scores
from attomaton.claims.measure import gradients, in_space, parameters, train_cases
from attomaton.claims.picture import bundle, level, line, theory_line
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import named_rng
from attomaton.results import Assumption, Evidence, Panel, Verdict

K, D, N, T = 6, 8, 8, 4
MANY = 12  # tokens of every second data set: more than dimensions
SCALES = (0.3, 3.0, 30.0, 3000.0)  # of a random W's entries
FAR = (2.0, 5.0, 10.0, 30.0, 5000.0)  # multiples of W_svm, added to W_fin and to random W
STEPS = (10, 100, 1000, 10_000)  # of descent from a random start
SEEN = 1e-6  # a slope this large has ten digits in the gradient that training computes
CLOSE = 1e-8  # gap between the two, and how exact margins are


def _draws(problems: int) -> list[Case]:
    """Data with an order; every second one with more tokens than dimensions."""
    draws: list[Case] = []
    number = 0
    while len(draws) < problems:
        tokens, repeats = MANY if len(draws) % 2 else K, len(draws) % 3 == 0
        case = drawn_case("no critical point", number, tokens, D, N, T, repeats=repeats)
        number += 1
        if case.limit.svm.norm > 0:
            draws.append(case)
    return draws


class Slopes(NamedTuple):
    """Slopes along one direction at several W: the sign of each and the logarithm of its size."""

    sign: Float[np.ndarray, " places"]
    log: Float[np.ndarray, " places"]


def slopes(
    case: Case,
    places: Sequence[Float[np.ndarray, "*shape"]],
    gain: Float[np.ndarray, " incidences"],
) -> Slopes:
    """The slope of L at every W along a direction, given how far it lifts the label over each token of a sample."""
    s = case.samples
    pair, of, head = s.pair_index()[1], s.sample_of, s.start[:-1]
    with np.errstate(divide="ignore"):
        size = np.log(s.weight / s.total_weight)[of] + np.log(np.abs(gain))
    found = []
    for W in places:
        z = pair_scores(case, W)[pair] + np.log(s.count)
        log_p = z - np.logaddexp.reduceat(z, head)[of]
        falls, rises = (
            np.logaddexp.reduce(np.append((size + log_p)[some], -np.inf))
            for some in (gain > 0, gain < 0)
        )
        high, low = max(falls, rises), min(falls, rises)
        log = high + np.log1p(-np.exp(low - high)) if high > low else -np.inf
        found.append((np.sign(rises - falls) if high > low else 0.0, log))
    return Slopes(*np.array(found).T)


def gains(case: Case, limit: Limit) -> Float[np.ndarray, " incidences"]:
    """By how much W_svm lifts each sample's label over each of its tokens: exactly 0 over what is tied."""
    s, graph = case.samples, limit.graph
    own = graph.pairs(s.last, s.label)[s.sample_of]
    pair = graph.pairs(s.last[s.sample_of], s.token)
    margin = limit.svm.score[own] - limit.svm.score[pair]
    return np.where(graph.component[own] == graph.component[pair], 0.0, margin)


def _places(limit: Limit, drawn: int, number: int) -> list[np.ndarray]:
    """Random W of several sizes, and W around the way that theory says training goes."""
    rng = named_rng("no critical point, W", number)
    direction, finite = (in_space(limit, part) for part in (limit.svm, limit.finite))
    random = [scale * rng.normal(size=direction.shape) for scale in SCALES for _ in range(drawn)]
    around = [finite + far * direction for far in FAR]
    beside = [W + rng.normal(size=W.shape) for W in around for _ in range(drawn // 4)]
    return [np.zeros_like(direction), *random, *around, *beside]


def _trained(cases: Sequence[Case]) -> list[list[np.ndarray]]:
    """W of every data set at each of `STEPS`."""
    limits = [c.limit for c in cases]
    runs = [
        parameters(train_cases(cases, init="uniform", lr=1.0, steps=n, every=n), limits)
        for n in STEPS
    ]
    return [list(each) for each in zip(*runs, strict=True)]


def check(problems: int = 4, drawn: int = 20, given: Given | None = None) -> Evidence:
    """Slopes along W_svm, at random and at trained W, of random data sets or a user's."""
    every = _draws(problems) if given is None else given.cases
    hard = [c for c in every if c.limit.svm.norm > 0]
    if not hard:
        why = Assumption("W_svm ≠ 0", False, "no token outranks another: W_fin is a critical point")
        return not_applicable(*assumptions(every, given), why)
    wrong = shuffled_limits(hard, "no critical point control")
    trained = _trained(hard)
    ratio, mass, gap, negative, smallest, ascents, margins = [], [], [], [], [], [], []
    for i, case in enumerate(hard):
        places = [*_places(case.limit, drawn, i), *trained[i]]
        gain = gains(case, case.limit)
        found = slopes(case, places, gain)
        outranked = slopes(case, places, (gain > 0).astype(float)).log
        W_svm = in_space(case.limit, case.limit.svm)
        seen = np.array([np.vdot(g, W_svm) for g in gradients(case, places)])
        large = found.log > np.log(SEEN)
        exact = found.sign * np.exp(found.log)
        gap.append(float(np.abs(seen / np.where(large, exact, 1.0) - 1)[large].max()))
        ratio.append(np.exp(found.log - outranked))
        mass.append(outranked / np.log(10))
        negative.append(int((found.sign < 0).sum()))
        smallest.append(float(found.log.min() / np.log(10)))
        margins.append(float(gain.max()))
        ascents.append(int((slopes(case, places, gains(case, wrong[i])).sign >= 0).sum()))
    count = len(ratio[0])
    still = []
    if given is None:  # data without an order must have a critical point, W_fin
        case = drawn_case("critical point", 0, K, D, N, T, kind="fully-cyclic", repeats=True)
        (slope,) = gradients(case, [in_space(case.limit, case.limit.finite)])
        still.append(float(np.linalg.norm(slope)))
    holds = (
        min(negative) == count
        and max(gap) <= CLOSE
        and min(float(r.min()) for r in ratio) >= 1 - CLOSE
        and all(r.max() <= m * (1 + CLOSE) for r, m in zip(ratio, margins, strict=True))
    )
    return Evidence(
        formula="μ(W) ≤ −⟨∇L(W), W_svm⟩ ≤ (largest margin) μ(W),  μ(W) > 0 the attention on outranked tokens",
        assumptions=(*assumptions(every, given, masked=True), structure([c.limit for c in every])),
        verdict=Verdict.of(holds),
        control=refuted([*(a > 0 for a in ascents), *(g <= CLOSE for g in still)], given),
        prediction={"W with a falling loss": [count] * len(hard), "largest margin": margins},
        tolerance=f"at every W; ratios from 1 to the largest margin and training's gradient within {CLOSE:g}",
        reason="margins of W_svm are certified to 1e-8; sums of logarithms of one sign have no rounding zeros",
        measured={
            "W with a falling loss": negative,
            "slope over attention on outranked tokens, least": [float(r.min()) for r in ratio],
            "slope over attention on outranked tokens, most": [float(r.max()) for r in ratio],
            "smallest slope, power of ten": smallest,
            "gap to training's gradient (relative)": gap,
        },
        control_measured={
            "W with a rising loss, direction of shuffled labels": ascents,
            "‖∇L(W_fin)‖ of data without an order": still,
        },
        panels=_panels(mass, ratio, max(margins)),
        settings={
            "problems": len(hard),
            "W of each": count,
            "scales": list(SCALES),
            "multiples of W_svm": list(FAR),
            "steps": list(STEPS),
            **sizes(given, K=K, **{"K of every second": MANY}, d=D, n=N, T=T),
        },
    )


def _panels(mass: list[np.ndarray], ratio: list[np.ndarray], largest: float) -> tuple[Panel, ...]:
    x, y = np.concatenate(mass), np.concatenate(ratio)
    near = x > -6
    late = np.array([(m + np.log10(r))[-len(STEPS) :] for m, r in zip(mass, ratio, strict=True)])
    return (
        Panel(
            "Slope along W_svm", "log₁₀ of the attention on outranked tokens", "slope over that attention",
            [line(x[near], y[near], "each W", "points", points=None),
             level(x[near], 1.0, "theory: at least 1"),
             level(x[near], largest, "at most the largest margin")],
            legend="outside",
        ),
        Panel(
            "While training", "step τ", "−⟨∇L, W_svm⟩",
            [*bundle(STEPS, 10**late, "each data set"),
             *(theory_line(STEPS, 10 ** m[-len(STEPS) :], None if i else "theory: at least this")
               for i, m in enumerate(mass[:8]))],
            xscale="log", yscale="log",
        ),
    )  # fmt: skip
