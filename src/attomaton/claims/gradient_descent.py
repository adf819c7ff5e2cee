r"""Theorem T1: gradient descent aligns with W_svm, its finite part tends to W_fin, its loss to L*.

Two rates go with it: $W(\tau) = W_{svm} \log \tau + O(1)$, so that what is *gained* between two times,
$W(\tau_2) - W(\tau_1) \to W_{svm} \log(\tau_2/\tau_1)$, shows the direction long before W itself has lost the memory
of its start; and, since $-\eta \nabla L \approx W_{svm}/\tau$, $L(W(\tau)) - L^* \approx \|W_{svm}\|^2 / (\eta \tau)$.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.claims.cases import (
    Case,
    Given,
    assumptions,
    judged,
    refuted,
    sizes,
    step_size,
    structure,
)
from attomaton.claims.controls import shuffled_limits
from attomaton.claims.measure import in_space, measure, parameters, train_cases, yardstick
from attomaton.claims.picture import bundle, level, theory_line
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.synthetic import draw_samples, orthonormal_embeddings, unit_embeddings
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import cosine, named_rng
from attomaton.results import Evidence, Panel

K, D, N, T = 6, 8, 8, 4
STEPS, RATE = 100_000, 1.0
ALIGNED = 0.95


def _draws(problems: int) -> list[Case]:
    """Half of the problems with orthonormal embeddings, half without; cycles in all of them."""
    draws = []
    for i in range(problems):
        rng = named_rng("T1", i)
        embed = orthonormal_embeddings if i % 2 else unit_embeddings
        samples = draw_samples(rng, K, N, T, kind="cyclic", repeats=i % 3 == 0)
        draws.append(Case(samples, check_embeddings(embed(rng, K, D))))
    return draws


class Descent(NamedTuple):
    """Descent in two runs, the second going on where the first, a tenth as long, had ended."""

    early: list[Float[np.ndarray, "*shape"]]  # parameters at a tenth of the steps
    late: list[Float[np.ndarray, "*shape"]]
    steps: Int[np.ndarray, " records"]
    records: dict[str, np.ndarray]
    tenth: int  # the record at a tenth of the steps


def _descend(cases: Sequence[Case], limits: Sequence[Limit], steps: int) -> Descent:
    descend = partial(
        train_cases, cases, optimizer="gd", lr=RATE, every="log", record=measure, context=yardstick(limits)
    )  # fmt: skip
    first = descend(init="uniform", steps=max(1, steps // 10))
    early = parameters(first, limits)
    second = descend(init=early, steps=steps - max(1, steps // 10))
    records = {
        k: np.concatenate([v, second.records[k][:, 1:]], axis=1) for k, v in first.records.items()
    }
    marks = np.concatenate([first.steps, first.steps[-1] + second.steps[1:]])
    return Descent(early, parameters(second, limits), marks, records, len(first.steps) - 1)


def check(problems: int = 8, steps: int = STEPS, given: Given | None = None) -> Evidence:
    """T1 on random data sets with cycles, or on a user's data, from random starts."""
    cases = _draws(problems) if given is None else given.cases
    limits = [c.limit for c in cases]
    wrong = shuffled_limits(cases, "T1 control")
    run = _descend(cases, limits, steps)
    hard = [i for i, x in enumerate(limits) if x.svm.norm > 0]
    gap = run.records["loss"] - np.array([[x.finite.loss_floor] for x in limits])
    measured = _measure(run, limits, hard, gap)
    control = [_gained(run, i, wrong[i])[0] for i in hard]
    holds = (
        all(x >= ALIGNED for x in measured["cosine of what is gained"])
        and (given is not None or all(x >= ALIGNED for x in measured["cosine_svm"]))
        and max(measured["distance_fin"]) <= 0.01
        and all(0.85 <= r <= 1.15 for r in measured["loss_gap over ‖W_svm‖²/(η τ)"])
        and all(-1.1 <= r <= -0.9 for r in measured["loss_rate"])
        and all(0.9 <= r <= 1.1 for r in measured["norm_rate"])
    )
    # Where nothing is outranked there is no direction, and the finite part is what must not agree.
    other = [
        float(np.linalg.norm(run.late[i] - in_space(wrong[i], wrong[i].finite)))
        for i in range(len(cases))
        if i not in hard
    ]
    settling = bool((gap[:, -1] <= gap[:, run.tenth] / 2 + 1e-12).all())
    return Evidence(
        formula="W(τ)/‖W(τ)‖ → W_svm/‖W_svm‖,  Π_fin W(τ) → W_fin,  L − L* ~ ‖W_svm‖²/(ητ),  W(τ) = W_svm log τ + O(1)",
        assumptions=(*assumptions(cases, given), step_size(cases, RATE), structure(limits)),
        verdict=judged(holds, given, settling),
        control=refuted([*(c < ALIGNED for c in control), *(d > 0.01 for d in other)], given),
        prediction={
            "‖W_svm‖": [x.svm.norm for x in limits],
            "‖W_fin‖": [x.finite.norm for x in limits],
            "L*": [x.finite.loss_floor for x in limits],
        },
        tolerance=(
            f"cosine ≥ {ALIGNED} of what the last nine tenths of the steps gained"
            f"{'' if given is not None else ', and of W itself'}; distance ≤ 0.01; loss − L* within 15% of "
            "‖W_svm‖²/(ητ), falling like 1/τ (slope −1 ± 0.1); growth by ‖W_svm‖ log 10 (ratio 1 ± 0.1)"
        ),
        reason="W/‖W‖ approaches its limit like 1/log τ, all else like 1/τ: these are what the steps leave",
        measured=measured,
        control_measured={
            "cosine of what is gained, shuffled labels": control,
            "distance to W_fin of shuffled labels": other,
        },
        panels=_panels(run, limits, hard, gap),
        settings={
            "problems": len(cases),
            "steps": steps,
            "lr": RATE,
            "start": "uniform",
            **sizes(given, K=K, d=D, n=N, T=T),
        },
    )


def _gained(run: Descent, i: int, limit: Limit) -> tuple[float, float]:
    """The cosine with W_svm of what problem i gained in the last nine tenths, and its length along W_svm per log 10."""
    gain, W = run.late[i] - run.early[i], in_space(limit, limit.svm)
    time = float(np.log(run.steps[-1] / run.steps[run.tenth]))
    return cosine(gain, W), float(np.vdot(gain, W) / max(limit.svm.norm**2, 1e-300) / time)


def _measure(
    run: Descent, limits: Sequence[Limit], hard: Sequence[int], gap: np.ndarray
) -> dict[str, list[float]]:
    last = slice(run.tenth, None)
    log_t = np.log(run.steps[last])
    gained = [_gained(run, i, limits[i]) for i in hard]
    return {
        "cosine_svm": run.records["cosine_svm"][hard, -1].tolist(),
        "cosine of what is gained": [c for c, _ in gained],
        "distance_fin": run.records["distance_fin"][:, -1].tolist(),
        "loss_gap": gap[:, -1].tolist(),
        "loss_gap over ‖W_svm‖²/(η τ)": [
            float(gap[i, -1] * RATE * run.steps[-1] / limits[i].svm.norm ** 2) for i in hard
        ],
        "loss_rate": [
            float(np.polyfit(log_t, np.log(np.maximum(gap[i, last], 1e-300)), 1)[0]) for i in hard
        ],
        "norm_rate": [r for _, r in gained],
        "mass_retrieved": run.records["mass_retrieved"][:, -1].tolist(),
    }


def _panels(
    run: Descent, limits: Sequence[Limit], hard: Sequence[int], gap: np.ndarray
) -> tuple[Panel, ...]:
    t = run.steps[1:]
    direction = bundle(t, run.records["cosine_svm"][hard, 1:], "W(τ), each data set")
    direction.append(level(t, 1.0, "W_svm"))
    if hard:
        late = t[t >= max(t[-1] // 1000, 1)]
        scaled = gap / np.array([[x.svm.norm**2 or np.inf] for x in limits])
        lines = bundle(t, np.where(scaled > 1e-15, scaled, np.nan)[hard, 1:], "each data set")
        lines.append(theory_line(late, 1 / (RATE * late), "1/(ητ)"))
        names = "Loss", "(L − L*)/‖W_svm‖²"
    else:
        far = np.maximum(run.records["distance_fin"][:, 1:], 1e-16)
        lines, names = bundle(t, far, "‖Π_fin W − W_fin‖"), ("Finite part", "distance to W_fin")
    return (
        Panel("Direction", "step τ", "cosine with W_svm", direction, xscale="log"),
        Panel(names[0], "step τ", names[1], lines, xscale="log", yscale="log"),
    )
