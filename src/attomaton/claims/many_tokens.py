r"""Figures 9 and 10 of Mechanics: ten thousand tokens in 128 dimensions, normalised descent, the mask as head.

The paper says neither how its data come to be tied nor how long a step is. Tokens drawn at large tie nothing, and there
is then no distance to W_fin: here all samples of an instance end in one token and are redrawn until its graph has a
cycle, as the authors' code does for its small figures. Of steps, 0.05 is the one that ends in the published values: a
normalised step along a single tie overshoots, and stays $\eta/2$ away from W_fin.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.claims.controls import shuffled_limits
from attomaton.claims.measure import measure, train_cases, yardstick
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.errors import DataError
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.synthetic import draw_samples, unit_embeddings
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.numerics import cosine, named_rng
from attomaton.results import Result, Verdict

K_9, D_9, N_9, T_9 = 10_000, 128, 16, 64
STEPS, RATE, SEEDS = 8000, 0.05, 100
COSINE, DISTANCE = 0.987, 0.025  # as published
ALIGNED = 0.97  # mean cosine that counts as found
NEAR = 0.6  # mean distance that does, in steps
PART = 25  # instances in one program


class Trained(NamedTuple):
    """What training leaves of all instances: limits, last W, and the way there."""

    limits: tuple[Limit, ...]
    W: Float[np.ndarray, "seeds width width"]
    steps: Int[np.ndarray, " records"]
    cosine: Float[np.ndarray, "seeds records"]
    distance: Float[np.ndarray, "seeds records"]


def draw(seed: int, K: int, d: int, n: int, T: int) -> Limit:
    """One instance and its limit; vectors are drawn for tokens that occur, since no other is trained or asked about."""
    rng = named_rng("mechanics-fig9", seed)
    drawn = draw_samples(rng, K, n, T, kind="cyclic", lasts=1)
    used, token = np.unique(drawn.token, return_inverse=True)
    last, label = np.searchsorted(used, drawn.last), np.searchsorted(used, drawn.label)
    words = Vocabulary(used.tolist())
    samples = replace(drawn, vocabulary=words, token=token, last=last, label=label)
    limit = solve_limit(samples, check_embeddings(unit_embeddings(rng, len(samples.vocabulary), d)))
    if not limit.svm.norm:
        raise DataError(
            f"instance {seed}: in d = {d} dimensions all differences of {n} contexts of {T} tokens are tied, and W "
            "takes no direction. Use more dimensions, or fewer and shorter contexts."
        )
    return limit


@lru_cache(maxsize=1)  # both figures are of one training
def _trained(K: int, d: int, n: int, T: int, lr: float, steps: int, seeds: int) -> Trained:
    def part(first: int) -> Trained:
        limits = [draw(i, K, d, n, T) for i in range(first, min(first + PART, seeds))]
        run = train_cases(
            limits, optimizer="ngd", lr=lr, steps=steps, every="log", record=measure, context=yardstick(limits)
        )  # fmt: skip
        found = run.records["cosine_svm"], run.records["distance_fin"]
        return Trained(tuple(limits), run.params, run.steps, *found)

    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        parts = list(pool.map(part, range(0, seeds, PART)))
    return Trained(
        tuple(x for p in parts for x in p.limits),
        np.concatenate([p.W for p in parts]),
        parts[0].steps,
        np.concatenate([p.cosine for p in parts]),
        np.concatenate([p.distance for p in parts]),
    )


def fig9(
    K: int = K_9, d: int = D_9, n: int = N_9, T: int = T_9,
    lr: float = RATE, steps: int = STEPS, seeds: int = SEEDS,
) -> Result:  # fmt: skip
    """The cosine of W(τ) with W_svm over the steps. Control: W_svm of the same contexts with other labels."""
    run = _trained(K, d, n, T, lr, steps, seeds)
    other = shuffled_limits(run.limits, "mechanics-fig9 control")
    control = [cosine(W, x.dense(x.svm.coefficient)) for W, x in zip(run.W, other, strict=True)]
    return {
        "title": f"Direction: {K:,} tokens in {d} dimensions",
        "published": COSINE,
        **_numbers(run, "cosine_svm", run.cosine, control),
        "tolerance": f"mean cosine ≥ {ALIGNED:g}",
        "verdict": Verdict.of(run.cosine[:, -1].mean() >= ALIGNED).value,
        "control": Verdict.of(np.mean(control) >= ALIGNED).value,
    }


def fig10(
    K: int = K_9, d: int = D_9, n: int = N_9, T: int = T_9,
    lr: float = RATE, steps: int = STEPS, seeds: int = SEEDS,
) -> Result:  # fmt: skip
    """The distance of W(τ) in S_fin from W_fin over the steps. Control: W along differences that are strict."""
    run = _trained(K, d, n, T, lr, steps, seeds)
    control = [_strict(W, x) for W, x in zip(run.W, run.limits, strict=True)]
    near = NEAR * lr
    return {
        "title": f"Finite part: {K:,} tokens in {d} dimensions",
        "published": DISTANCE,
        "expected": lr / 2,
        **_numbers(run, "distance_fin", run.distance, control),
        "tolerance": f"mean distance ≤ {NEAR:g} steps = {near:g}",
        "verdict": Verdict.of(run.distance[:, -1].mean() <= near).value,
        "control": Verdict.of(np.mean(control) <= near).value,
    }


def _strict(W: Float[np.ndarray, "width width"], limit: Limit) -> float:
    """The least length of W along a difference that is not tied."""
    graph = limit.graph
    a, b = graph.edge_from, graph.edge_to
    apart = graph.strict
    assert limit.embeddings is not None
    E = limit.embeddings.E
    key = E[graph.pair_token[a[apart]]] - E[graph.pair_token[b[apart]]]
    query = E[graph.pair_last[a[apart]]]
    length = np.linalg.norm(key, axis=1) * np.linalg.norm(query, axis=1)
    return float(np.abs(np.einsum("pa,ab,pb->p", key, W, query) / length).min())


def _numbers(
    run: Trained, name: str, values: Float[np.ndarray, "seeds records"], control: list[float]
) -> Result:
    """Mean, standard error and curve of what is measured under this name."""
    ends = values[:, -1]
    return {
        "mean": float(ends.mean()),
        "error": float(ends.std(ddof=1) / np.sqrt(len(ends))) if len(ends) > 1 else 0.0,
        "control_mean": float(np.mean(control)),
        "worst_certificate": max(x.svm.certificate.worst for x in run.limits),
        "curves": [
            {"seed": i, "step": run.steps, name: values[i], "control": control[i], "svm_norm": x.svm.norm,
             "finite_norm": x.finite.norm, "tied": int(x.graph.cyclic.sum())}
            for i, x in enumerate(run.limits)
        ],
    }  # fmt: skip
