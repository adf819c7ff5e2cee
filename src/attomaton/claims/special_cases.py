"""Theorem T3: without cycles attention selects one token; with nothing but cycles W itself converges."""

from collections.abc import Sequence

import numpy as np

from attomaton.claims.cases import Case, Given, assumptions, judged, not_applicable, refuted, sizes
from attomaton.claims.controls import relabelled
from attomaton.claims.measure import measure, yardstick
from attomaton.claims.picture import bundle, level
from attomaton.mechanics.experiment.train import Training, train
from attomaton.mechanics.synthetic import draw_samples
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.numerics import named_rng
from attomaton.results import Assumption, Evidence, Panel

K, N, T = 6, 8, 4
STEPS = 20_000
EACH = 4  # last tokens of a user's data of each kind
KINDS = "priority graphs are acyclic, or one component"


def _draws(problems: int) -> tuple[list[Case], list[Case]]:
    """Acyclic and fully cyclic data sets, orthonormal embeddings."""
    acyclic = [
        draw_samples(named_rng("T3 acyclic", i), K, N, T, kind="acyclic") for i in range(problems)
    ]
    cyclic = [
        draw_samples(named_rng("T3 cyclic", i), K, N, T, kind="fully-cyclic", repeats=True)
        for i in range(problems)
    ]
    return [Case(s) for s in acyclic], [Case(s) for s in cyclic]


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
    hard, soft = ([solve_limit(c.samples) for c in cases] for cases in (acyclic, cyclic))
    chosen, settled = _train(hard, steps), _train(soft, steps)
    # The control predicts W_fin from other labels: finite parts of tied tokens must then disagree.
    crossed, wrong = (
        [
            solve_limit(relabelled(c.samples, named_rng("T3 control", i)))
            for i, c in enumerate(cases)
        ]
        for cases in (acyclic, cyclic)
    )
    predicted = {
        "acyclic: ‖W_fin‖": [x.finite.norm for x in hard],
        "acyclic: L*": [x.finite.loss_floor for x in hard],
        "fully cyclic: ‖W_svm‖": [x.svm.norm for x in soft],
    }
    measured = {
        "acyclic: attention on the one token": _last(chosen, "mass_retrieved"),
        "fully cyclic: ‖W − W_fin‖": _apart(settled, soft),
    }
    off = _apart(settled, wrong)
    missed = [1 - float(x) for x in _retrieved(chosen, crossed, hard)]
    holds = (
        not any(x for values in predicted.values() for x in values)
        and all(x >= 0.999 for x in measured["acyclic: attention on the one token"])
        and all(x <= 1e-6 for x in measured["fully cyclic: ‖W − W_fin‖"])
    )
    return Evidence(
        formula="acyclic: W_fin = 0, L* = 0, attention → one token; one component: W_svm = 0, W(τ) → W_fin if W(0) = 0",
        assumptions=every,
        verdict=judged(holds, given, _settling(chosen, hard) and _settling(settled, soft)),
        control=refuted([*(x > 1e-2 for x in off), *(x > 1e-3 for x in missed)], given),
        prediction=predicted | {"fully cyclic: ‖W_fin‖": [x.finite.norm for x in soft]},
        tolerance="W_fin and L*, or W_svm, exactly 0; attention ≥ 0.999; ‖W − W_fin‖ ≤ 1e-6",
        reason=f"in {steps:,} steps the rest of attention falls like 1/τ, and W settles at a linear rate",
        measured=measured,
        control_measured={
            "fully cyclic: ‖W − W_fin‖ of shuffled labels": off,
            "acyclic: attention missing from the token shuffled labels name": missed,
        },
        panels=_panels(chosen, settled),
        settings={
            "acyclic": len(hard),
            "fully cyclic": len(soft),
            "steps": steps,
            "lr": 1.0,
            **sizes(given, K=K, n=N, T=T),
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


def _train(limits: Sequence[Limit], steps: int) -> Training | None:
    if not limits:
        return None
    return train(
        [x.samples for x in limits], lr=1.0, steps=steps, every="log", record=measure,
        context=yardstick(limits),
    )  # fmt: skip


def _last(run: Training | None, name: str) -> list[float]:
    return [] if run is None else run.records[name][:, -1].tolist()


def _apart(run: Training | None, limits: Sequence[Limit]) -> list[float]:
    """‖W − W_fin‖ of each problem."""
    if run is None:
        return []
    assert run.scores is not None
    return [
        float(np.linalg.norm(s[: len(x.finite.score)] - x.finite.score))
        for s, x in zip(run.scores, limits, strict=True)
    ]


def _retrieved(run: Training | None, wrong: Sequence[Limit], right: Sequence[Limit]) -> list[float]:
    """The mean attention of each trained layer on the labels of another data set with the same contexts."""
    from attomaton.mechanics.experiment.model import attention_of

    if run is None:
        return []
    assert run.scores is not None
    found = []
    for s, other, own in zip(run.scores, wrong, right, strict=True):
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


def _panels(chosen: Training | None, settled: Training | None) -> tuple[Panel, ...]:
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
        lines = [*bundle(t, far, "trained, each data set"), level(t, 1e-6, "tolerance")]
        panels.append(
            Panel("Fully cyclic", "step τ", "‖W − W_fin‖", lines, xscale="log", yscale="log")
        )
    return tuple(panels)
