r"""More tokens than dimensions: descent grows along W_svm of the *linear* ties, its finite part tends to their W_fin.

With dependent rows no head reads off a token's mass; the loss is then the attention on the label itself. Ties are
differences $(e_y - e_x) e_q^\top$ in a positive dependency, cycles or not. The control is what the priority graph says
alone, as if every token had a dimension of its own: where ties are linear it points elsewhere.
"""

from itertools import count, islice

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.cases import drawn_case, refuted, structure
from attomaton.claims.measure import measure, train_cases, yardstick
from attomaton.claims.picture import bundle, level
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.numerics import cosine
from attomaton.results import Assumption, Evidence, Panel, Verdict

K, D, N, T = 8, 4, 7, 4
ALIGNED, NEAR = 0.99, 0.02
LAST = 10  # records whose median distance counts
# ‖W_svm‖ of a draw, which is as long as its margins are narrow, and takes as many steps
LARGEST = 20.0


def _draws(problems: int) -> list[Limit]:
    """Data with both kinds of differences and with ties that are no cycles."""
    drawn = (drawn_case("any embeddings", i, K, D, N, T).limit for i in count())
    linear = (x for x in drawn if len(x.graph.level) < len(build_graph(x.samples).level))
    both = (x for x in linear if 0 < x.finite.norm <= x.svm.norm <= LARGEST)
    return list(islice(both, problems))


def _of_the_graph_alone(limit: Limit) -> Float[np.ndarray, "width width"]:
    """Σ M_p e_x e_kᵀ with the coefficients of orthonormal embeddings."""
    free = solve_limit(limit.samples)
    pair = free.graph.pairs(limit.graph.pair_last, limit.graph.pair_token)
    return limit.dense(free.svm.coefficient[pair])


def check(problems: int = 4, steps: int = 100_000) -> Evidence:
    """Polyak's steps on random data with twice as many tokens as dimensions."""
    limits = _draws(problems)
    run = train_cases(
        limits, init="zeros", optimizer="polyak", loss_floor=[x.finite.loss_floor for x in limits], steps=steps,
        every="log", record=measure, context=yardstick(limits),
    )  # fmt: skip
    direction = run.records["cosine_svm"][:, -1]
    # Polyak's step is long now and then, and a record may fall on the way back: a median does not see that.
    distance = np.median(run.records["distance_fin"][:, -LAST:], axis=1)
    control = [cosine(W, _of_the_graph_alone(x)) for W, x in zip(run.params, limits, strict=True)]
    t = run.steps[1:]
    holds = bool((direction >= ALIGNED).all() and (distance <= NEAR).all())
    return Evidence(
        formula="δ a tie ⇔ Σ λ δ = 0 with λ > 0;  W(τ)/‖W(τ)‖ → W_svm/‖W_svm‖,  Π_fin W(τ) → W_fin",
        assumptions=(
            Assumption("more tokens than dimensions", True, f"{K} tokens in {D} dimensions"),
            structure(limits),
        ),
        verdict=Verdict.HOLDS if holds else Verdict.FAILS,
        control=refuted(c < min(ALIGNED, a) for c, a in zip(control, direction, strict=True)),
        prediction={
            "‖W_svm‖": [x.svm.norm for x in limits],
            "‖W_fin‖": [x.finite.norm for x in limits],
            "L*": [x.finite.loss_floor for x in limits],
        },
        tolerance=f"cosine ≥ {ALIGNED}, distance ≤ {NEAR}; control: a smaller cosine, below {ALIGNED}",
        reason=f"W/‖W‖ forgets its finite part slowly: draws have ‖W_fin‖ ≤ ‖W_svm‖ ≤ {LARGEST:g}",
        measured={"cosine_svm": direction.tolist(), "distance_fin": distance.tolist()},
        control_measured={"cosine, the graph alone": control},
        panels=(
            Panel(
                "Direction", "step τ", "cosine with W_svm",
                [*bundle(t, run.records["cosine_svm"][:, 1:], "W(τ), each data set"), level(t, 1.0, "W_svm")],
                xscale="log",
            ),
            Panel(
                "Finite part", "step τ", "distance to W_fin",
                bundle(t, np.maximum(run.records["distance_fin"][:, 1:], 1e-16), "‖Π_fin W − W_fin‖"),
                xscale="log", yscale="log",
            ),
        ),
        settings={"problems": problems, "steps": steps, "K": K, "d": D, "n": N, "T": T},
    )  # fmt: skip
