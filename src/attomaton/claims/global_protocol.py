"""Figures *global*, 4 and 5 of Mechanics: normalised gradient descent finds the Graph-SVM direction and W_fin.

Few tokens, unit embeddings, samples of different tokens; W from a random start and W_fin from zero, both by normalised
descent. *Global* is what the authors' notebook does; Figure 4 is the same over a hundred instances, Figure 5 has
acyclic data.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.controls import relabelled
from attomaton.claims.measure import measure, yardstick
from attomaton.corpus.samples import Samples
from attomaton.mechanics.data import Embeddings, check_embeddings
from attomaton.mechanics.experiment.arguments import check_options
from attomaton.mechanics.experiment.train import Training, train
from attomaton.mechanics.synthetic import draw_samples, general_head, unit_embeddings
from attomaton.mechanics.theory.finite import FiniteSubspace, cyclic_samples
from attomaton.mechanics.theory.graph import PriorityGraph
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.numerics import cosine, named_rng
from attomaton.results import Result, Verdict

Instances = Sequence[dict[str, float | int]]  # one row of numbers for each
K, D, N, T = 6, 8, 6, 4
STEPS, RATE = 4000, 0.01
ALIGNED, NEAR = 0.96, 0.02  # least cosine and largest distance that count as found
COSINES, DISTANCE = (0.976, 0.993), 0.005  # as published: over ten seeds, and about
PUBLISHED = f"{COSINES[0]}–{COSINES[1]}, about {DISTANCE}"
# Published means: cosine, and distance at most; how far the first may be off
FIGURE_4, OFF = (0.987, 0.01), 0.003
PEAK = (420, 0.54)  # of Figure 4's distance: step and height
FIGURE_5 = 0.99  # published: more


@dataclass(frozen=True, eq=False)
class Draw:
    """One seed's data, embeddings, start and (where it is general) head."""

    samples: Samples
    embeddings: Embeddings
    W_0: Float[np.ndarray, "width width"]
    C: Float[np.ndarray, "vocab width"] | None = None


def draw(
    seed: int,
    name: str = "mechanics-global",
    *,
    K: int = K,
    d: int = D,
    n: int = N,
    T: int = T,
    kind: str = "cyclic",
    head: str = "identity",
) -> Draw:
    """The data set that a seed of the named experiment stands for; contexts repeat tokens only where they must."""
    rng = named_rng(name, seed)
    samples = draw_samples(rng, K, n, T, kind=kind, repeats=T > K)
    E = unit_embeddings(rng, K, d)
    W_0 = rng.uniform(-1, 1, (d, d)) / np.sqrt(d)
    return Draw(
        samples, check_embeddings(E), W_0, general_head(rng, E) if head == "general" else None
    )


def descend(draws: Sequence[Draw], head: str, **how: Any) -> Training:
    """All draws by normalised descent, side by side in one program."""
    return train(
        [d.samples for d in draws],
        embeddings=[d.embeddings for d in draws],
        init=[d.W_0 for d in draws],
        optimizer="ngd",
        head=[d.C for d in draws] if head == "general" else head,
        **how,
    )


def finite_draws(draws: Sequence[Draw], graphs: Sequence[PriorityGraph]) -> dict[int, Draw]:
    """By number, the draws with tied tokens: what is trained for their W_fin, the cyclic part of the data from zero."""
    cyclic = [cyclic_samples(g, d.samples) for g, d in zip(graphs, draws, strict=True)]
    return {
        i: replace(d, samples=part, W_0=np.zeros_like(d.W_0))
        for i, (d, part) in enumerate(zip(draws, cyclic, strict=True))
        if len(part)
    }


def reproduce(
    seeds: int = 10,
    first: int = 0,
    K: int = K,
    d: int = D,
    n: int = N,
    T: int = T,
    lr: float = RATE,
    steps: int = STEPS,
    kind: str = "cyclic",
    head: str = "identity",
    loss: str = "log",
    every: str | None = "log",
) -> Result:
    """Cosine with W_svm and distance to W_fin for each seed, with curves, after the published steps.

    `distance_fin` compares Π_fin W with a W_fin *trained* the same way, as published; `distance_exact` with
    the Luce solution, which no training has touched.
    """
    import jax  # noqa: F401  (so that its import is not counted as work)

    check_options(optimizer="ngd", head=head, loss=loss, steps=steps, seeds=seeds, seed=0)
    begin = time.perf_counter()
    draws = [draw(first + i, K=K, d=d, n=n, T=T, kind=kind, head=head) for i in range(seeds)]
    limits = [solve_limit(x.samples, x.embeddings) for x in draws]
    theory = time.perf_counter() - begin
    # W and W_fin train side by side in one program: W_fin on the cyclic part of the data, from zero.
    finite = finite_draws(draws, [x.graph for x in limits])
    run = descend(
        [*draws, *finite.values()],
        head,
        loss=loss,
        lr=lr,
        steps=steps,
        every=every,
        record=measure,
        context=yardstick([*limits, *(limits[i] for i in finite)]),
    )
    W_fin = np.zeros((seeds, d, d))
    W_fin[list(finite)] = run.params[seeds:]
    rows: list[dict[str, float | int]] = []
    for i, (x, W) in enumerate(zip(limits, run.params[:seeds], strict=True)):
        inside = FiniteSubspace(x.graph, x.embeddings).project(W)
        rows.append(
            {
                "seed": first + i,
                "cosine_svm": cosine(W, x.dense(x.svm.coefficient)),
                "distance_fin": float(np.linalg.norm(inside - W_fin[i])),
                "distance_exact": float(np.linalg.norm(inside - x.dense(x.finite.coefficient))),
                "norm": float(np.linalg.norm(W)),
                "loss_gap": float(run.records["loss"][i, -1] - x.finite.loss_floor),
            }
        )
    whole = time.perf_counter() - begin
    # The control: the direction that other labels of the same contexts would give.
    for row, x, W in zip(rows, limits, run.params[:seeds], strict=True):
        rng = named_rng("mechanics-global control", int(row["seed"]))
        wrong = solve_limit(relabelled(x.samples, rng), x.embeddings)
        row["cosine_shuffled"] = cosine(W, wrong.dense(wrong.svm.coefficient))
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


def _judged_4(instances: Instances) -> tuple[dict[str, str], bool, bool]:
    told = {
        "cosine_svm": "0.987",
        "distance_fin": "< 0.01",
        "distance_exact": "",
        "cosine_shuffled": "",
    }
    means = {name: float(np.mean([row[name] for row in instances])) for name in told}
    near = max(means["distance_fin"], means["distance_exact"]) < FIGURE_4[1]
    holds, wrong = (
        near and abs(means[name] - FIGURE_4[0]) <= OFF for name in ("cosine_svm", "cosine_shuffled")
    )
    return told, holds, wrong


def _judged_5(instances: Instances) -> tuple[dict[str, str], bool, bool]:
    told = {"cosine_svm": "> 0.99", "cosine_shuffled": ""}
    holds, wrong = (float(np.mean([row[name] for row in instances])) > FIGURE_5 for name in told)
    return told, holds, wrong


def _in_means(
    judge: Callable[[Instances], tuple[dict[str, str], bool, bool]],
    seeds: int = 100,
    K: int = K,
    d: int = D,
    n: int = N,
    T: int = T,
    lr: float = RATE,
    steps: int = STEPS,
    kind: str = "cyclic",
    head: str = "identity",
    loss: str = "log",
) -> Result:
    """The notebook's protocol over a hundred instances: their means, and what `judge` says of them."""
    found = reproduce(seeds, 0, K, d, n, T, lr, steps, kind, head, loss, every=None)
    told, holds, wrong = judge(found["rows"])
    rows = in_means(found["rows"], told)
    curves, seconds = found["curves"], found["seconds"]
    return {"rows": rows, "verdict": Verdict.of(holds).value, "control": Verdict.of(wrong).value,
            "instances": found["rows"], "curves": curves, "seconds": seconds}  # fmt: skip


fig4 = partial(_in_means, _judged_4)
# Acyclic data: a label is the token of its context that comes first in its last token's order.
fig5 = partial(_in_means, _judged_5, K=8, d=8, n=4, T=6, kind="acyclic")


def in_means(instances: Instances, told: dict[str, str]) -> list[dict[str, float | str]]:
    """One row for each quantity: its mean and spread over the instances, and what was published."""
    rows: list[dict[str, float | str]] = []
    for name, published in told.items():
        x = np.array([row[name] for row in instances])
        rows.append(
            {"quantity": name, "mean": float(x.mean()), "deviation": float(x.std()), "median": float(np.median(x)),
             "least": float(x.min()), "largest": float(x.max()), "published": published}
        )  # fmt: skip
    return rows


def _verdict(cosines: list[float], distances: list[float]) -> str:
    """Whether every run found the direction, and W_fin."""
    return Verdict.of(min(cosines) >= ALIGNED and max(distances) <= NEAR).value
