"""Theorem T4: the trained layer is the automaton, on contexts it was trained on and on new ones."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.cases import Case, Given, assumptions, judged, refuted, sizes, structure
from attomaton.claims.controls import shuffled_limits
from attomaton.claims.measure import parameters, train_cases
from attomaton.claims.picture import line, theory_line
from attomaton.corpus.samples import Samples
from attomaton.corpus.windows import windows_from_ids
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.synthetic import draw_samples, planted_samples, unit_embeddings
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import named_rng
from attomaton.results import Evidence, Panel

K, D, N, T, LEVELS, LASTS = 7, 9, 60, 4, 3, 2
STEPS = 100_000
NEW = 200  # new contexts for each data set
SEEN, FRESH = 0.01, 0.02


def _draws(problems: int) -> tuple[list[Case], list[Samples]]:
    """Planted data sets, each with fresh contexts."""
    cases, new = [], []
    for i in range(problems):
        rng = named_rng("T4", i)
        samples = planted_samples(rng, K, N, T, LEVELS, repeats=True, lasts=LASTS).samples
        cases.append(Case(samples, check_embeddings(unit_embeddings(rng, K, D))))
        new.append(draw_samples(rng, K, NEW, T + 1, repeats=True, lasts=LASTS))
    return cases, new


def _shuffled_contexts(case: Case, i: int) -> Samples:
    """New contexts of tokens that a last token has met, as long as its samples' contexts are."""
    s, rng = case.samples, named_rng("T4 new", i)
    known = np.unique(s.token)
    length = np.add.reduceat(s.count, s.start[:-1])[rng.integers(len(s), size=NEW)].astype(int)
    ids = rng.choice(known, int(length.sum()))
    end = np.cumsum(length)
    ids[end - 1] = s.last[0]
    return windows_from_ids(s.vocabulary, ids, length, ids[end - 1]).samples()


class Seen(NamedTuple):
    """Attention predicted and trained, token by token, and their distance context by context."""

    predicted: Float[np.ndarray, " incidences"]
    trained: Float[np.ndarray, " incidences"]
    distance: Float[np.ndarray, " samples"]


def check(problems: int = 4, steps: int = STEPS, given: Given | None = None) -> Evidence:
    """T4 on planted data or a user's, and on fresh contexts where the theorem fixes every probability."""
    from attomaton.mechanics.experiment.model import attention_of  # with it comes JAX

    if given is None:
        cases, new = _draws(problems)
    else:
        cases = given.cases
        new = [_shuffled_contexts(c, i) for i, c in enumerate(cases)]
    limits = [c.limit for c in cases]
    floor = np.array([x.finite.loss_floor for x in limits])
    run = train_cases(cases, init="uniform", optimizer="polyak", steps=steps, loss_floor=floor)
    trained, gap = parameters(run, limits), run.records["loss"][:, -1] - floor
    wrong = shuffled_limits(cases, "T4 control")
    seen, fresh, control = [], [], []
    for i, (case, limit, params) in enumerate(zip(cases, limits, trained, strict=True)):
        attention = attention_of(case.samples, params, case.embeddings)
        seen.append(_compare(limit, case.samples, attention))
        control.append(_worst(_compare(wrong[i], case.samples, attention)))
        fresh.append(_compare(limit, new[i], _attention(limit, new[i], params)))
    far, further = ([_worst(x) for x in some] for some in (seen, fresh))
    holds = max(far) <= SEEN and max(further) <= FRESH
    return Evidence(
        formula="p(x | X) → m_x π_x / Σ m π over the highest-priority component of X, 0 elsewhere",
        assumptions=(*assumptions(cases, given), structure(limits)),
        verdict=judged(holds, given, settling=bool((gap > 1e-5).any())),
        control=refuted((c > 0.1 for c in control), given),
        prediction={
            "training contexts": int(sum(len(c.samples) for c in cases)),
            "new contexts drawn": int(sum(len(x) for x in new)),
        },
        tolerance=f"total variation between predicted and trained attention ≤ {SEEN} on training contexts, "
        f"≤ {FRESH} on new ones",
        reason="what is left of e^−margin after these steps; contexts led by less than half a margin are left open",
        measured={
            "largest distance on training contexts": far,
            "largest distance on new contexts": further,
            "new contexts compared": int(sum((~np.isnan(x.distance)).sum() for x in fresh)),
            "loss − L* at the end": gap.tolist(),
        },
        control_measured={"largest distance, shuffled labels": control},
        panels=(_panel("Training contexts", seen), _panel("New contexts", fresh)),
        settings={"problems": len(cases), "steps": steps, "optimizer": "polyak", "new": NEW,
                  **sizes(given, K=K, d=D, n=N, T=T)},
    )  # fmt: skip


def _attention(
    limit: Limit, contexts: Samples, params: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, " incidences"]:
    """The layer's attention on contexts it was not trained on: pairs never trained keep their score, 0."""
    from attomaton.mechanics.experiment.model import attention_of  # with it comes JAX

    if limit.embeddings is not None:
        return attention_of(contexts, params, limit.embeddings)
    key, _ = contexts.pair_index()
    size = len(contexts.vocabulary)
    pair = limit.graph.pairs(key // size, key % size)
    return attention_of(contexts, np.where(pair >= 0, params[pair], 0.0))


def _worst(seen: Seen) -> float:
    known = seen.distance[~np.isnan(seen.distance)]
    return float(known.max(initial=0.0))


def _compare(limit: Limit, contexts: Samples, attention: Float[np.ndarray, " incidences"]) -> Seen:
    """Total variation between automaton and layer for each context; NaN where T4 leaves the answer open.

    Open are contexts whose highest score is shared by unrelated components, or led by less than half a
    margin: there finite training is not yet decided.
    """
    automaton = Automaton(limit)
    predicted = np.full(len(attention), np.nan)
    distance = np.full(len(contexts), np.nan)
    for i in range(len(contexts)):
        part = slice(contexts.start[i], contexts.start[i + 1])
        last = contexts.vocabulary[contexts.last[i]]
        words = [x for x, m in contexts.bag(i).items() for _ in range(m)]
        words.remove(last)
        told = automaton.explain([*words, last], evidence=0)
        if told.prediction is None:
            continue
        scores = {f.token: f.svm_score for f in told.fates}
        lead = [max(scores.values()) - s for s in scores.values()]
        if told.undetermined or any(1e-6 < x < 0.5 for x in lead):
            continue
        p = automaton.predict_proba([*words, last])
        predicted[part] = [p[contexts.vocabulary[t]] for t in contexts.token[part]]
        distance[i] = 0.5 * np.abs(predicted[part] - attention[part]).sum()
    return Seen(predicted, attention, distance)


def _panel(title: str, seen: Sequence[Seen]) -> Panel:
    """Predicted against trained attention, one point for each token of a context."""
    predicted = np.concatenate([x.predicted for x in seen])
    trained = np.concatenate([x.trained for x in seen])
    known = np.flatnonzero(~np.isnan(predicted))
    known = known[np.argsort(predicted[known], kind="stable")]
    return Panel(
        title, "automaton: predicted probability", "layer: trained attention",
        [line(predicted[known], trained[known], "each token of a context", "points"),
         theory_line([0, 1], [0, 1], "equal")],
    )  # fmt: skip
