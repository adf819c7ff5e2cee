"""Theorem T5 and figures *local*, 6 and 7 of Mechanics: other heads and losses settle in a local direction.

With the head tied to the embeddings and a squared loss or the cross-entropy, descent need not find the Graph-SVM of the
data. It finds that of the *pseudo* graph: the order in which its own attention ended up selecting tokens. *Local* is
what the authors' notebook does. Figures 6 and 7 are read as the paper writes them: a head of Assumption 3, drawn, and a
loss of the score u = c_y·f, (1 − u)² or the cross-entropy log(1 + e^−u). Data have a cycle, and steps are divided by
‖g‖ + 2.2e-16, which stops growing W once the gradient is that small, as in the released code; that has C = E and losses
of softmax(C f)_y instead.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.cases import Case, assumptions
from attomaton.claims.global_protocol import D, Draw, K, N, T, descend, draw, finite_draws, in_means
from attomaton.claims.measure import Yardstick, measure, yardstick
from attomaton.claims.picture import level, line
from attomaton.corpus.samples import Samples
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.numerics import cosine, ragged_indices, row_pointer
from attomaton.results import Assumption, Evidence, Panel, Result, Verdict

STEPS, RATE = 2000, 0.1
COSINES = (0.992, 0.9995)  # as published, with the squared loss
PUBLISHED = f"{COSINES[0]}–{COSINES[1]}"
# Least and median cosine that count as found; cross-entropy settles somewhat later than what was published.
FOUND = {"squared": (0.97, 0.99), "cross-entropy": (0.95, 0.98)}
FIGURES = {  # as published, by loss
    "squared-score": {"cosine_local": "> 0.99", "cosine_global": "0.70", "outside_global": "",
                      "distance_local": "0", "distance_global": "17"},
    "logistic-score": {"cosine_local": "> 0.99", "cosine_global": "0.75", "outside_global": "",
                       "distance_local": "0.09", "distance_global": "9.59"},
}  # fmt: skip
# Mean cosines that count as found: local at least, global between
LEAST, BETWEEN = 0.99, (0.6, 0.85)
EPS = float(np.finfo(np.float64).eps)
# Attention above the first is a choice, between the two is no answer
SELECTED, AMBIGUOUS = 0.01, 0.009


def pseudo_samples(samples: Samples, attention: Float[np.ndarray, " incidences"]) -> Samples:
    """The choices attention made: each selected token is a label over the sample's other tokens.

    Tokens whose attention is ambiguous take no part. The priority graph of these samples is the
    pseudo graph.
    """
    owner = samples.sample_of
    clear = (attention > SELECTED) | (attention < AMBIGUOUS)
    chosen = np.flatnonzero(attention > SELECTED)
    size = np.bincount(owner[clear], minlength=len(samples))
    start = row_pointer(size)[:-1]
    token, count = samples.token[clear], samples.count[clear]
    row = owner[chosen]
    at = ragged_indices(start[row], size[row])
    order = np.lexsort((samples.token[chosen], samples.last[row]))
    pseudo = Samples(
        samples.vocabulary, samples.last[row], samples.token[chosen], samples.weight[row],
        row_pointer(size[row]), token[at], count[at], samples.rows[row], samples.source[row],
    )  # fmt: skip
    return pseudo.take(order)


def local_limit(limit: Limit, params: Float[np.ndarray, "*shape"]) -> Limit:
    """The limit of the order that a trained layer's own attention selects.

    `params` is W where the limit has embeddings, else the scores of its pairs.
    """
    from attomaton.mechanics.experiment.model import attention_of  # with it comes JAX

    pseudo = pseudo_samples(limit.samples, attention_of(limit.samples, params, limit.embeddings))
    return solve_limit(pseudo, limit.embeddings)


def local_cosine(limit: Limit, params: Float[np.ndarray, "*shape"]) -> float:
    """Cosine of a trained layer with the Graph-SVM of the order that its own attention selects."""
    local = local_limit(limit, params)
    if limit.embeddings is not None:
        return cosine(params, local.dense(local.svm.coefficient))
    score = np.zeros(len(limit.graph.pair_last))
    score[limit.graph.pairs(local.graph.pair_last, local.graph.pair_token)] = local.svm.score
    return cosine(params, score)


def reproduce(
    seeds: int = 10,
    loss: str = "squared",
    K: int = K,
    d: int = D,
    n: int = N,
    T: int = T,
    lr: float = RATE,
    steps: int = STEPS,
    kind: str = "cyclic",
    head: str = "tied",
) -> Result:
    """Cosine of the trained W with the global and with its local Graph-SVM, for each seed."""
    draws = _draws(seeds, K=K, d=d, n=n, T=T, kind=kind, head=head)
    begin = time.perf_counter()
    run = descend(draws, head, loss=loss, lr=lr, steps=steps)
    rows = []
    for i, (x, W) in enumerate(zip(draws, run.params, strict=True)):
        limit = solve_limit(x.samples, x.embeddings)
        apart = cosine(W, limit.dense(limit.svm.coefficient))
        rows.append({"seed": i, "cosine_global": apart, "cosine_local": local_cosine(limit, W)})
    local = [row["cosine_local"] for row in rows]
    return {
        "rows": rows,
        "verdict": _verdict(local, loss).value,
        "control": _verdict([row["cosine_global"] for row in rows], loss).value,
        "cosine_min": min(local),
        "cosine_median": float(np.median(local)),
        "seconds": {
            "compile": run.seconds["compile"],
            "train": run.seconds["run"],
            "numbers": time.perf_counter() - begin - run.seconds["compile"],
        },
    }


def fig6(
    seeds: int = 100,
    K: int = 8,
    d: int = 8,
    n: int = 4,
    T: int = 6,
    lr: float = RATE,
    steps: int = STEPS,
    kind: str = "cyclic",
    head: str = "general",
    loss: str = "squared-score",
    eps: float = EPS,
) -> Result:
    """Cosines and distances of a hundred trained W with the global and with their local limit, over the steps."""
    draws = _draws(seeds, K=K, d=d, n=n, T=T, kind=kind, head=head)
    how: Result = {"head": head, "loss": loss, "lr": lr, "steps": steps, "eps": eps}
    limits = [solve_limit(x.samples, x.embeddings) for x in draws]
    trained = descend(draws, **how).params
    own = [local_limit(x, W) for x, W in zip(limits, trained, strict=True)]
    # What the run ends at is known now: the same run again, with every step held against it.
    run = descend(draws, **how, record=measure_both, context=_both(draws, limits, own, how))
    instances = [
        {"seed": i, **{k: float(v[i, -1]) for k, v in run.records.items() if k != "loss"}}
        for i in range(seeds)
    ]
    local, everywhere = ([x[name] for x in instances] for name in ("cosine_local", "cosine_global"))
    return {
        "rows": in_means(instances, FIGURES.get(loss, dict.fromkeys(FIGURES["squared-score"], ""))),
        "verdict": _settled(local, everywhere),
        "control": _settled(everywhere, everywhere),
        "instances": instances,
        "curves": {
            "steps": run.steps,
            **{name: run.records[name] for name in FIGURES["squared-score"]},
        },
    }


fig7 = partial(fig6, loss="logistic-score")  # Figure 7 is Figure 6 with another loss


def _draws(seeds: int, **how: Any) -> list[Draw]:
    return [draw(i, "mechanics-local", **how) for i in range(seeds)]


def measure_both(params: Any, yards: tuple[Yardstick, Yardstick]) -> Result:
    """The cosine of W with a limit's W_svm, of its part outside S_fin, and the distance to W_fin: global and local."""
    return {
        f"{name}_{where}": value
        for where, y in zip(("global", "local"), yards, strict=True)
        for found in [measure(params, y)]
        for name, value in {
            "cosine": found["cosine_svm"],
            "outside": found["cosine_outside"],
            "distance": found["distance_fin"],
        }.items()
    }


def _both(
    draws: Sequence[Draw], limits: Sequence[Limit], own: Sequence[Limit], how: Result
) -> tuple[Yardstick, Yardstick]:
    """The yardsticks of the global and of the local limits, W_fin trained under the loss and head of the figure."""
    tied = [finite_draws(draws, [x.graph for x in part]) for part in (limits, own)]
    W_fin = np.zeros((2, len(draws), *draws[0].W_0.shape))
    tasks = [x for part in tied for x in part.values()]
    if tasks:
        which = [(side, i) for side, part in enumerate(tied) for i in part]
        W_fin[tuple(np.transpose(which))] = descend(tasks, **how).params
    y, z = (
        x._replace(fin=np.einsum("brij,bij->br", x.basis, W))
        for x, W in zip(map(yardstick, (limits, own)), W_fin, strict=True)
    )
    return y, z


def _settled(cosines: Sequence[float], everywhere: Sequence[float]) -> str:
    """Whether runs are along one direction on average, and the global one is about as far as published."""
    low, high = BETWEEN
    return Verdict.of(np.mean(cosines) > LEAST and low <= np.mean(everywhere) <= high).value


def settled() -> str:
    """What counts as found in Figures 6 and 7."""
    low, high = BETWEEN
    return f"mean cosine with the local W_svm > {LEAST:g}, with the global one {low:g} to {high:g}"


def tolerance(loss: str) -> str:
    """What counts as found under a loss."""
    least, usually = FOUND[loss]
    return f"every cosine ≥ {least:g}, median ≥ {usually:g}"


def _verdict(cosines: list[float], loss: str) -> Verdict:
    least, usually = FOUND.get(loss, FOUND["squared"])
    return Verdict.of(min(cosines) >= least and np.median(cosines) >= usually)


def check(seeds: int = 10) -> Evidence:
    """T5 with the tied head, for the squared loss as published and for cross-entropy."""
    runs = {loss: reproduce(seeds, loss=loss)["rows"] for loss in FOUND}
    draws = _draws(seeds)
    local, everywhere = (
        {loss: [row[name] for row in rows] for loss, rows in runs.items()}
        for name in ("cosine_local", "cosine_global")
    )
    holds = all(_verdict(x, loss) is Verdict.HOLDS for loss, x in local.items())
    wrong = any(_verdict(x, loss) is Verdict.HOLDS for loss, x in everywhere.items())
    cycles = sum(bool(build_graph(d.samples).cyclic.any()) for d in draws)
    return Evidence(
        formula="W(τ)/‖W(τ)‖ → W_svm(pseudo graph)/‖W_svm(pseudo graph)‖",
        assumptions=(
            *assumptions([Case(d.samples, d.embeddings) for d in draws]),
            Assumption("data as published: some graph has a cycle", cycles == seeds, f"{cycles} of {seeds} draws"),
        ),
        verdict=Verdict.of(holds),
        control=Verdict.of(wrong),
        prediction={"cosine with the local direction": 1.0},
        tolerance="; ".join(f"{loss}: {tolerance(loss)}" for loss in FOUND),
        reason=f"published: {PUBLISHED} for the squared loss; cross-entropy settles somewhat later",
        measured={f"cosine with the local direction, {loss}": x for loss, x in local.items()},
        control_measured={f"cosine with the global direction, {loss}": x for loss, x in everywhere.items()},
        panels=tuple(
            Panel(
                f"{loss} loss".capitalize(), "draw", "cosine of the trained W",
                [line(range(seeds), local[loss], "with its local W_svm", "points"),
                 line(range(seeds), everywhere[loss], "with the global W_svm", "points"),
                 level([0, seeds - 1], 1.0, "theory")],
            )
            for loss in FOUND
        ),
        settings={"seeds": seeds, "K": K, "d": D, "n": N, "T": T, "steps": STEPS, "lr": RATE},
    )  # fmt: skip
