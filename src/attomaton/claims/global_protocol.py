"""Figure *global* of Mechanics: normalised gradient descent finds the Graph-SVM direction and W_fin.

Six tokens, eight dimensions, six samples of four different tokens; data redrawn until a priority graph has
a cycle; W from a random start and W_fin from zero, both by normalised descent with step 0.01.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from attomaton.claims.controls import relabelled
from attomaton.claims.measure import measure, yardstick
from attomaton.corpus.samples import Samples
from attomaton.mechanics.data import Embeddings, check_embeddings
from attomaton.mechanics.experiment.train import train
from attomaton.mechanics.synthetic import draw_samples, unit_embeddings
from attomaton.mechanics.theory.finite import FiniteSubspace, cyclic_samples
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.numerics import cosine, named_rng
from attomaton.results import Verdict

K, D, N, T = 6, 8, 6, 4
STEPS, RATE = 4000, 0.01
ALIGNED, NEAR = 0.96, 0.02  # least cosine and largest distance that count as found
COSINES, DISTANCE = (0.976, 0.993), 0.005  # as published: over ten seeds, and about
PUBLISHED = f"{COSINES[0]}–{COSINES[1]}, about {DISTANCE}"


@dataclass(frozen=True, eq=False)
class Draw:
    """One seed's data, embeddings and start."""

    samples: Samples
    embeddings: Embeddings
    W_0: Float[np.ndarray, "width width"]


def draw(seed: int, name: str = "mechanics-global") -> Draw:
    """The data set that a seed of the named experiment stands for."""
    rng = named_rng(name, seed)
    samples = draw_samples(rng, K, N, T, kind="cyclic")
    E = check_embeddings(unit_embeddings(rng, K, D))
    return Draw(samples, E, rng.uniform(-1, 1, (D, D)) / np.sqrt(D))


def reproduce(seeds: int = 10, first: int = 0) -> dict[str, Any]:
    """Cosine with W_svm and distance to W_fin for each seed, with curves, after the published steps.

    `distance_fin` compares Π_fin W with a W_fin *trained* the same way, as published; `distance_exact` with
    the Luce solution, which no training has touched.
    """
    import jax  # noqa: F401  (so that its import is not counted as work)

    begin = time.perf_counter()
    draws = [draw(first + i) for i in range(seeds)]
    limits = [solve_limit(d.samples, d.embeddings) for d in draws]
    theory = time.perf_counter() - begin
    # W and W_fin train side by side in one program: W_fin on the cyclic part of the data, from zero.
    cyclic = [cyclic_samples(x.graph, x.samples) for x in limits]
    run = train(
        [d.samples for d in draws] + cyclic,
        embeddings=[d.embeddings for d in draws] * 2,
        init=[d.W_0 for d in draws] + [np.zeros((D, D))] * seeds,
        optimizer="ngd",
        lr=RATE,
        steps=STEPS,
        every="log",
        record=measure,
        context=yardstick(limits + limits),
    )
    assert run.W is not None
    rows = [
        _row(first + i, limits[i], run.W[i], run.W[seeds + i])
        | {"loss_gap": float(run.records["loss"][i, -1] - limits[i].finite.loss_floor)}
        for i in range(seeds)
    ]
    whole = time.perf_counter() - begin
    for i, row in enumerate(rows):
        row["cosine_shuffled"] = _shuffled(first + i, limits[i], run.W[i])
    return {
        "rows": rows,
        "verdict": _verdict([r["cosine_svm"] for r in rows], [r["distance_fin"] for r in rows]),
        "control": _verdict([r["cosine_shuffled"] for r in rows], [0.0]),
        "cosine_min": min(r["cosine_svm"] for r in rows),
        "cosine_median": float(np.median([r["cosine_svm"] for r in rows])),
        "distance_max": max(r["distance_fin"] for r in rows),
        "worst_certificate": max(x.svm.certificate.worst for x in limits),
        "seconds": {
            "theory": theory,
            "compile": run.seconds["compile"],
            "train": run.seconds["run"],
            "numbers": whole - run.seconds["compile"],
        },
        "curves": {
            "steps": run.steps,
            **{name: run.records[name][:seeds] for name in ("cosine_svm", "distance_fin")},
        },
    }


def _row(
    seed: int,
    limit: Limit,
    W: Float[np.ndarray, "width width"],
    W_fin_trained: Float[np.ndarray, "width width"],
) -> dict[str, float | int]:
    inside = FiniteSubspace(limit.graph, limit.embeddings).project(W)
    W_svm = limit.dense(limit.svm.coefficient)
    W_fin = limit.dense(limit.finite.coefficient)
    return {
        "seed": seed,
        "cosine_svm": cosine(W, W_svm),
        "distance_fin": float(np.linalg.norm(inside - W_fin_trained)),
        "distance_exact": float(np.linalg.norm(inside - W_fin)),
        "norm": float(np.linalg.norm(W)),
    }


def _shuffled(seed: int, limit: Limit, W: Float[np.ndarray, "width width"]) -> float:
    """The control: cosine with the direction that other labels of the same contexts would give."""
    other = relabelled(limit.samples, named_rng("mechanics-global control", seed))
    wrong = solve_limit(other, limit.embeddings)
    return cosine(W, wrong.dense(wrong.svm.coefficient))


def _verdict(cosines: list[float], distances: list[float]) -> str:
    """Whether every run found the direction, and W_fin."""
    holds = min(cosines) >= ALIGNED and max(distances) <= NEAR
    return Verdict.of(holds).value
