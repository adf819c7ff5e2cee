r"""How large a step may be: gradient descent on the log-loss never rises for $\eta < 2/\beta$.

The paper takes $\eta \le 1/L$ with $L = 2 M^4 \sqrt{T_{max}}$, $M = \max \|e_k\|$. Along a unit direction the second
derivative is a mean of variances, each at most a quarter of a squared range: $\beta = \max \|e_i - e_j\|^2 \|e_k\|^2/4$
over tokens that meet, at most $M^4$ and ½ for orthonormal embeddings, whatever the length of contexts. It cannot be
improved: two tokens that win equally often reach it at W = 0, and there a step just above 2/β rises.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.cases import Case, Given, assumptions, drawn_case, refuted, sizes, smoothness
from attomaton.claims.measure import gradients, train_cases
from attomaton.claims.picture import bundle, level, line
from attomaton.corpus.windows import samples_from_sequences
from attomaton.numerics import named_rng
from attomaton.results import Evidence, Panel, Verdict

K, MANY, D, N, T = 6, 12, 8, 10, 4
STEPS = 300
STARTS = (0.1, 1.0, 10.0)  # standard deviations of the entries of W(0)
BELOW, ABOVE = 0.99, 1.02  # of 2/β
NEAR = 1e-3  # length of the start at which the sharp data are released
ROUNDING = 1e-12  # of a loss, relative
REACHED = 10 * NEAR**2


def _draws(problems: int) -> list[Case]:
    """Random data with embeddings of unlike lengths; every second data set has more tokens than dimensions."""
    return [
        drawn_case("step bound", i, MANY if i % 2 else K, D, N, T, spread=0.5, repeats=i % 3 == 0)
        for i in range(problems)
    ]


def paper_smoothness(case: Case) -> float:
    """L = 2 M⁴ √T_max."""
    s = case.samples
    longest = float(np.add.reduceat(s.count, s.start[:-1]).max())
    M2 = 1.0 if case.embeddings is None else float(np.square(case.embeddings.E).sum(1).max())
    return 2 * M2**2 * float(np.sqrt(longest))


class Sharp(NamedTuple):
    """Two tokens that win equally often, the pair of a data set that reaches the largest curvature there is."""

    case: Case
    direction: Float[np.ndarray, "*shape"]  # of length 1


def sharp(case: Case) -> Sharp:
    """The same embeddings, and the pair i, j of largest ‖e_i − e_j‖‖e_j‖ as contexts [i, j] that either wins."""
    vocabulary = case.samples.vocabulary
    E = np.eye(2) if case.embeddings is None else case.embeddings.E
    far = np.square(E[:, None] - E).sum(-1) * np.square(E).sum(1)
    i, j = np.unravel_index(int(far.argmax()), far.shape)
    tokens = [vocabulary[int(i)], vocabulary[int(j)]]
    samples = samples_from_sequences([tokens] * 2, tokens, vocabulary=vocabulary)
    if case.embeddings is None:
        return Sharp(Case(samples), np.array([1.0, -1.0]) / np.sqrt(2))
    direction = np.outer(E[i] - E[j], E[j])
    return Sharp(replace(case, samples=samples), direction / np.linalg.norm(direction))


def _curvature(one: Sharp) -> float:
    """The second derivative at W = 0 along the direction: a difference of training's gradients."""
    after, before = gradients(one.case, [NEAR * one.direction, -NEAR * one.direction])
    return float(np.vdot(after - before, one.direction) / (2 * NEAR))


def _descend(
    cases: Sequence[Case], starts: Sequence[np.ndarray], rates: Float[np.ndarray, " problems"]
) -> Float[np.ndarray, "problems steps"]:
    """The loss before and after every step."""
    return train_cases(cases, init=list(starts), lr=rates, steps=STEPS, every=1).records["loss"]


def _rise(loss: Float[np.ndarray, " steps"]) -> float:
    """The largest rise in one step, relative to the loss; one that never falls to a number counts as a rise."""
    if not np.isfinite(loss).all():
        return float("inf")
    return float((np.diff(loss) / np.maximum(loss[:-1], 1e-300)).max())


def check(problems: int = 6, given: Given | None = None) -> Evidence:
    """Steps just below 2/β on random data sets or a user's, and just above on data that reach β."""
    cases = _draws(problems) if given is None else given.cases
    beta = [smoothness(c) for c in cases]
    paper = [paper_smoothness(c) for c in cases]
    several = [c for c in cases for _ in STARTS]
    starts = [
        named_rng("step bound, start", i).normal(scale=scale, size=c.shape)
        for i, c in enumerate(cases)
        for scale in STARTS
    ]
    rates = np.repeat([*(BELOW * 2 / b for b in beta), *(1 / b for b in paper)], len(STARTS))
    ours, theirs = np.split(_descend(several * 2, starts * 2, rates), 2)
    pairs = [sharp(c) for c in (cases if given is None else cases[:1])]
    most = [smoothness(p.case) for p in pairs]
    at = [NEAR * p.direction for p in pairs]
    rates = np.array([share * 2 / b for share in (BELOW, ABOVE) for b in most])
    tame, wild = np.split(_descend([p.case for p in pairs] * 2, at * 2, rates), 2)
    reached = [_curvature(p) / b for p, b in zip(pairs, most, strict=True)]
    measured = {
        "largest rise in one step of 0.99 · 2/β": [_rise(x) for x in ours],
        "largest rise in one step of 1/L": [_rise(x) for x in theirs],
        "the same on two tokens that win equally often": [_rise(x) for x in tame],
        "curvature reached there, over β": reached,
    }
    wrong = [_rise(x) for x in wild]
    holds = (
        max(max(measured[name]) for name in list(measured)[:3]) <= ROUNDING
        and all(abs(r - 1) <= REACHED for r in reached)
    )  # fmt: skip
    return Evidence(
        formula="0 ≤ d²L(W + tU)/dt² ≤ β = max ‖e_i − e_j‖²‖e_k‖²/4 ≤ M⁴ for ‖U‖ = 1:  L(τ + 1) ≤ L(τ) for η ≤ 2/β",
        assumptions=assumptions(cases, given, masked=True),
        verdict=Verdict.of(holds),
        control=refuted((w > ROUNDING for w in wrong), given),
        prediction={
            "β": beta,
            "2/β": [2 / b for b in beta],
            "1/L of the paper": [1 / b for b in paper],
            "how many times larger": [2 * a / b for a, b in zip(paper, beta, strict=True)],
        },
        tolerance=(
            f"no step rises by more than {ROUNDING:g} of the loss, β is reached within {REACHED:g}; "
            f"control: {ABOVE:g} · 2/β rises"
        ),
        reason="rounding of float64; the curvature is a difference of gradients, exact to its step's square",
        measured=measured,
        control_measured={f"largest rise in one step of {ABOVE:g} · 2/β": wrong},
        panels=_panels(ours, tame, wild),
        settings={
            "problems": len(cases),
            "steps": STEPS,
            "starts": list(STARTS),
            **sizes(given, K=K, **{"K of every second": MANY}, d=D, n=N, T=T),
        },
    )


def _panels(ours: np.ndarray, tame: np.ndarray, wild: np.ndarray) -> tuple[Panel, ...]:
    t = np.arange(STEPS + 1)
    floor = np.log(2)
    return (
        Panel(
            "Steps of 0.99 · 2/β", "step τ", "loss, over the first",
            bundle(t, ours / ours[:, :1], "each data set and start"),
        ),
        Panel(
            "Two tokens that win equally often", "step τ", "L − log 2",
            [line(t, np.maximum(tame[0] - floor, 1e-17), "0.99 · 2/β", points=100),
             line(t, np.maximum(wild[0] - floor, 1e-17), "control: 1.02 · 2/β", points=100),
             level(t, float(tame[0, 0] - floor), "the start")],
            yscale="log",
        ),
    )  # fmt: skip
