r"""Lemma 8: nothing outside $S_{active}$ ever moves, the span of $(e_i - e_j) e_k^\top$ over all edges i → j of G^(k).

Every gradient of the loss is a sum of such matrices, so steps along gradients, their normalised forms and those of
mini-batches leave the rest of W as it started, whatever the embeddings. Adam divides entry by entry, which leaves the
subspace: it is the control.
"""

from collections.abc import Sequence

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
)
from attomaton.claims.measure import train_cases
from attomaton.claims.picture import level, line
from attomaton.mechanics.theory.finite import FiniteSubspace, active_subspace
from attomaton.mechanics.theory.graph import build_graph
from attomaton.numerics import named_rng
from attomaton.results import Assumption, Evidence, Panel, Verdict

K, MANY, D, N, T = 6, 12, 8, 5, 4
STEPS = (10, 100, 2000)
CONTROL = "adam"
OPTIMIZERS = {
    "gd": {"lr": 1.0}, "ngd": {"lr": 0.01}, "sgd": {"lr": 0.5, "batch_size": 2}, CONTROL: {"lr": 0.01},
}  # fmt: skip
STILL = 1e-12  # of what moved, outside: the rounding of some thousand steps


def _draws(problems: int) -> list[Case]:
    """Random data; every second data set has more tokens than dimensions."""
    return [
        drawn_case("active subspace", i, MANY if i % 2 else K, D, N, T, repeats=i % 3 == 0)
        for i in range(problems)
    ]


def _moved(
    cases: Sequence[Case],
    starts: Sequence[np.ndarray],
    spaces: Sequence[FiniteSubspace],
    optimizer: str,
) -> Float[np.ndarray, "problems lengths"]:
    """How much of what training moved lies outside S_active, after each of `STEPS`."""
    shares = []
    for steps in STEPS:
        run = train_cases(
            cases, init=list(starts), optimizer=optimizer, steps=steps, every=steps, **OPTIMIZERS[optimizer]
        )  # fmt: skip
        moves = [end[: len(start)] - start for end, start in zip(run.params, starts, strict=True)]
        shares.append([
            float(np.linalg.norm(m - space.part(m))) / max(float(np.linalg.norm(m)), 1e-300)
            for m, space in zip(moves, spaces, strict=True)
        ])  # fmt: skip
    return np.array(shares).T


def check(problems: int = 4, given: Given | None = None) -> Evidence:
    """What moves outside S_active from random starts, on random data sets or a user's."""
    cases = _draws(problems) if given is None else given.cases
    spaces = [active_subspace(build_graph(c.samples), c.embeddings) for c in cases]
    inside, whole = [x.dimension for x in spaces], [int(np.prod(c.shape)) for c in cases]
    room = Assumption(
        "S_active is not everything",
        any(a < b for a, b in zip(inside, whole, strict=True)),
        f"its dimensions: {', '.join(f'{a} of {b}' for a, b in zip(inside, whole, strict=True))}",
    )
    if not room.holds:
        return not_applicable(*assumptions(cases, given, masked=True), room)
    starts = [
        named_rng("active subspace, start", i).normal(size=c.shape) for i, c in enumerate(cases)
    ]
    share = {name: _moved(cases, starts, spaces, name) for name in OPTIMIZERS}
    still = {name: x[:, -1].tolist() for name, x in share.items() if name != CONTROL}
    return Evidence(
        formula="(1 − Π_active) W(τ) = (1 − Π_active) W(0),  S_active = span{(e_i − e_j) e_kᵀ : i → j in G^(k)}",
        assumptions=(*assumptions(cases, given, masked=True), room),
        verdict=Verdict.of(max(max(x) for x in still.values()) <= STILL),
        control=refuted((x > 1e3 * STILL for x in share[CONTROL][:, -1]), given),
        prediction={name: [0.0] * len(cases) for name in still} | {"dimension of S_active": inside},
        tolerance=f"at most {STILL:g} of what moved lies outside; control: more than {1e3 * STILL:g}",
        reason=f"rounding of {STEPS[-1]:,} steps",
        measured={**still, "dimension of the whole": whole},
        control_measured={CONTROL: share[CONTROL][:, -1].tolist()},
        panels=(
            Panel(
                "Outside S_active", "step τ", "share of what moved",
                [*(line(STEPS, np.maximum(x.max(axis=0), 1e-18), name if name != CONTROL else f"control: {name}")
                   for name, x in share.items()), level(STEPS, STILL, "tolerance")],
                xscale="log", yscale="log", legend="outside",
            ),
        ),
        settings={
            "problems": len(cases),
            "steps": STEPS[-1],
            "optimizers": list(OPTIMIZERS),
            **sizes(given, K=K, **{"K of every second": MANY}, d=D, n=N, T=T),
        },
    )  # fmt: skip
