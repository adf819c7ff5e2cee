r"""Theorem T3: without cycles attention selects one token; with nothing but cycles W itself converges.

Where everything is tied, $W(\tau) \to W_{fin} + \Pi_{S_{fin}^\perp} W(0)$: nothing outside S_fin ever moves, so from a
random start W_fin alone is missed.
"""

from collections.abc import Sequence

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.cases import (
    Case,
    Given,
    assumptions,
    drawn_case,
    judged,
    not_applicable,
    refuted,
    sizes,
)
from attomaton.claims.controls import shuffled_limits
from attomaton.claims.measure import in_space, measure, parameters, train_cases, yardstick
from attomaton.claims.picture import bundle, level
from attomaton.mechanics.experiment.train import Training
from attomaton.mechanics.synthetic import draw_samples
from attomaton.mechanics.theory.finite import FiniteSubspace
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import named_rng
from attomaton.results import Assumption, Evidence, Panel

K, D, N, T = 6, 8, 8, 4
STEPS = 20_000
EACH = 4  # last tokens of a user's data of each kind
KINDS = "priority graphs are acyclic, or one component"


def _draws(problems: int) -> tuple[list[Case], list[Case]]:
    """Acyclic data sets with orthonormal embeddings, fully cyclic ones with independent ones."""
    acyclic = [
        draw_samples(named_rng("T3 acyclic", i), K, N, T, kind="acyclic") for i in range(problems)
    ]
    cyclic = [
        drawn_case("T3 cyclic", i, K, D, N, T, kind="fully-cyclic", repeats=True)
        for i in range(problems)
    ]
    return [Case(s) for s in acyclic], cyclic


def check(problems: int = 6, steps: int = STEPS, given: Given | None = None) -> Evidence:
    """T3 on random acyclic and fully cyclic data sets, or on those last tokens of a user's data that are so."""
    every: tuple[Assumption, ...]
    if given is None:
        acyclic, cyclic = _draws(problems)
        found = f"{len(acyclic)} acyclic and {len(cyclic)} fully cyclic data sets"
        every = (*assumptions([*acyclic, *cyclic]), Assumption(KINDS, True, found))
    else:
        acyclic, cyclic, kinds = _special(given)
        every = (given.realizable, kinds)
    if not acyclic and not cyclic:
        return not_applicable(*every)
    hard, soft = ([c.limit for c in cases] for cases in (acyclic, cyclic))
    starts = [  # of about the size of the usual one
        named_rng("T3 start", i).normal(scale=1 / np.sqrt(D), size=c.shape)
        for i, c in enumerate(cyclic)
    ]
    kept = [_outside(x, start) for x, start in zip(soft, starts, strict=True)]
    chosen, settled = _train(acyclic, hard, steps), _train(cyclic, soft, steps, starts)
    # The control predicts W_fin from other labels: finite parts of tied tokens must then disagree.
    crossed, wrong = (shuffled_limits(cases, "T3 control") for cases in (acyclic, cyclic))
    predicted = {
        "acyclic: ‖W_fin‖": [x.finite.norm for x in hard],
        "acyclic: L*": [x.finite.loss_floor for x in hard],
        "fully cyclic: ‖W_svm‖": [x.svm.norm for x in soft],
    }
    measured = {
        "acyclic: attention on the one token": _last(chosen, "mass_retrieved"),
        "fully cyclic: ‖W − W_fin − Π_⊥ W(0)‖": _apart(settled, soft, kept),
    }
    off = _apart(settled, wrong, [_outside(x, s) for x, s in zip(wrong, starts, strict=True)])
    alone = _apart(settled, soft, [np.zeros_like(x) for x in kept])
    missed = [1 - float(x) for x in _retrieved(chosen, crossed, hard)]
    holds = (
        not any(x for values in predicted.values() for x in values)
        and all(x >= 0.999 for x in measured["acyclic: attention on the one token"])
        and all(x <= 1e-6 for x in measured["fully cyclic: ‖W − W_fin − Π_⊥ W(0)‖"])
    )
    return Evidence(
        formula="acyclic: W_fin = 0, L* = 0, attention → one token; one component: W_svm = 0, W(τ) → W_fin + Π_⊥ W(0)",
        assumptions=every,
        verdict=judged(holds, given, _settling(chosen, hard) and _settling(settled, soft)),
        control=refuted(
            [*(x > 1e-2 for x in off), *(x > 1e-3 for x in missed), *(x > 1e-2 for x in alone)],
            given,
        ),
        prediction=predicted
        | {
            "fully cyclic: ‖W_fin‖": [x.finite.norm for x in soft],
            "fully cyclic: ‖Π_⊥ W(0)‖": [float(np.linalg.norm(x)) for x in kept],
        },
        tolerance="W_fin and L*, or W_svm, exactly 0; attention ≥ 0.999; distance of W ≤ 1e-6",
        reason=f"in {steps:,} steps the rest of attention falls like 1/τ, and W settles at a linear rate",
        measured=measured,
        control_measured={
            "fully cyclic: distance of W to where shuffled labels lead": off,
            "fully cyclic: ‖W − W_fin‖": alone,
            "acyclic: attention missing from the token shuffled labels name": missed,
        },
        panels=_panels(chosen, settled, alone),
        settings={
            "acyclic": len(hard),
            "fully cyclic": len(soft),
            "steps": steps,
            "lr": 1.0,
            **sizes(given, K=K, **{"d of fully cyclic": D}, n=N, T=T),
        },
    )


def _special(given: Given) -> tuple[list[Case], list[Case], Assumption]:
    """The heaviest last tokens without a tie, the heaviest that are one component, and how many there are of each."""
    graph = build_graph(given.samples)
    K = len(graph.vocabulary)
    sizes, components = (
        np.bincount(x, minlength=K) for x in (graph.pair_last, graph.component_last)
    )
    acyclic = np.flatnonzero((components == sizes) & (sizes > 1))
    cyclic = np.flatnonzero((components == 1) & (sizes > 1))
    mixed = int((sizes > 1).sum()) - len(acyclic) - len(cyclic)
    found = (
        f"{len(acyclic)} last tokens are acyclic, {len(cyclic)} one component, {mixed} are mixed (T1's); "
        f"looked at are the heaviest, up to {EACH} of each kind"
    )
    some = Assumption(KINDS, bool(len(acyclic) + len(cyclic)), found)
    return given.heaviest(acyclic, EACH), given.heaviest(cyclic, EACH), some


def _outside(limit: Limit, W: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The part of W outside S_fin."""
    return W - FiniteSubspace(limit.graph, limit.embeddings).part(W)


def _train(
    cases: Sequence[Case],
    limits: Sequence[Limit],
    steps: int,
    init: str | list[np.ndarray] = "zeros",
) -> Training | None:
    if not limits:
        return None
    return train_cases(
        cases, init=init, lr=1.0, steps=steps, every="log", record=measure, context=yardstick(limits)
    )  # fmt: skip


def _last(run: Training | None, name: str) -> list[float]:
    return [] if run is None else run.records[name][:, -1].tolist()


def _apart(
    run: Training | None, limits: Sequence[Limit], kept: Sequence[np.ndarray]
) -> list[float]:
    """How far each W is from W_fin and what is kept of its start."""
    if run is None:
        return []
    return [
        float(np.linalg.norm(W - in_space(x, x.finite) - rest))
        for W, x, rest in zip(parameters(run, limits), limits, kept, strict=True)
    ]


def _retrieved(run: Training | None, wrong: Sequence[Limit], right: Sequence[Limit]) -> list[float]:
    """The mean attention of each trained layer on the labels of another data set with the same contexts."""
    from attomaton.mechanics.experiment.model import attention_of

    if run is None:
        return []
    found = []
    for s, other, own in zip(run.params, wrong, right, strict=True):
        a = attention_of(other.samples, s[: len(own.graph.pair_last)])
        label = other.samples.token == other.samples.label[other.samples.sample_of]
        found.append(float(other.samples.weight @ a[label] / other.samples.total_weight))
    return found


def _settling(run: Training | None, limits: Sequence[Limit]) -> bool:
    if run is None:
        return True
    gap = run.records["loss"] - np.array([[x.finite.loss_floor] for x in limits])
    tenth = int(np.searchsorted(run.steps, run.steps[-1] // 10))
    return bool((gap[:, -1] <= gap[:, tenth] / 2 + 1e-12).all())


def _panels(
    chosen: Training | None, settled: Training | None, alone: Sequence[float]
) -> tuple[Panel, ...]:
    panels = []
    if chosen is not None:
        t = chosen.steps[1:]
        lines = [
            *bundle(t, chosen.records["mass_retrieved"][:, 1:], "trained, each data set"),
            level(t, 1.0, "theory"),
        ]
        panels.append(Panel("Acyclic", "step τ", "attention on the one token", lines, xscale="log"))
    if settled is not None:
        t = settled.steps[1:]
        far = np.maximum(settled.records["distance_fin"][:, 1:], 1e-16)
        lines = [
            *bundle(t, far, "‖Π_fin W − W_fin‖, each data set"),
            level(t, 1e-6, "tolerance"),
            level(t, min(alone), "‖W − W_fin‖ at the end: the start stays"),
        ]
        panels.append(
            Panel(
                "Fully cyclic", "step τ", "distance", lines,
                xscale="log", yscale="log", legend="outside",
            )
        )  # fmt: skip
    return tuple(panels)
