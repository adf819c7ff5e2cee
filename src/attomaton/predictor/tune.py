"""Choosing a predictor: the prior, then θ and the penalty, on validation windows; then the exact fit and its proof.

The grid is walked by coordinates. Priors are compared on every fourth part, at the middle θ and all penalties; the best
of them then meets every θ and every penalty on all parts. Least log-loss decides, or another `metric`. Where the best
lies at an edge of the grid, one more value is tried beyond it, at the best and its neighbours along the other axis, a
few times over; what is then still at an edge is said (`at_edge`). With a budget of minutes, what there was no time for
is said too (`not_tried`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.corpus.reading import AS_NAMED, Reading
from attomaton.corpus.windows import PART, Windows
from attomaton.disk.formats import plain
from attomaton.errors import DataError, SolverError, UsageError, one_of
from attomaton.predictor.backoff import fit_gate
from attomaton.predictor.bags import aligned_where_known, bags_of
from attomaton.predictor.baselines import fit_baselines
from attomaton.predictor.budget import FIT, STAGE, Budget
from attomaton.predictor.counts import Counts
from attomaton.predictor.fit import LOOSE, TIGHT, Fitted, Judged, Setting, Work, judge
from attomaton.predictor.model import Predictor
from attomaton.predictor.priors import Kin, fit_prior, measure_features, parse_prior
from attomaton.predictor.scoring import clusters_of
from attomaton.predictor.stage.fit import (
    Keep,
    StageRecord,
    cut_by_time,
    enough,
    fit_stage,
    make_now,
    some_windows,
)
from attomaton.predictor.stages import Over, fitting, in_turn, judging

PRIORS = ("zero", "odds", "main", "main+bigram", "main+bigram+kin")
LAMBDAS = (0.5, 1.0, 2.0, 4.0)
THETAS = (0.1, 0.2, 0.3, 0.5, 1.0)
WIDEN = 4  # how often the grid grows beyond an edge where the best lies
EXPLORE = 4  # every so many-th part while priors are compared
# What decides between settings, least first; where hits are equal, log-loss decides. Over all windows log-loss decides
# as it does where the label is in the context: the gate and what lies outside do not depend on these settings.
METRICS: dict[str, Callable[[Judged], tuple[float, ...]]] = {
    "nats": lambda x: (x.loss,),
    "all": lambda x: (x.loss,),
    "top1": lambda x: (-x.hits, x.loss),
    "mrr": lambda x: (-x.ranks, x.loss),
}


@dataclass(frozen=True)
class Grid:
    """What is tried: priors, prices, exponents, how often more where the best lies at an edge, and what decides."""

    priors: Sequence[str] = PRIORS
    lambdas: Sequence[float] = LAMBDAS
    thetas: Sequence[float] = THETAS
    widen: int = WIDEN
    metric: str = "nats"


def tune(
    train: Windows,
    valid: Windows,
    *,
    reading: Reading = AS_NAMED,
    priors: Sequence[str] = PRIORS,
    lambdas: Sequence[float] = LAMBDAS,
    thetas: Sequence[float] = THETAS,
    widen: int = WIDEN,
    metric: str = "nats",
    minutes: float | None = None,
    stage: bool = True,
    part_size: int = PART,
    over: Over = in_turn,
    keep: Keep = make_now,
    progress: Progress = quiet,
) -> Predictor:
    """The predictor fitted on `train` that suits `valid` best.

    `lambdas` are penalties in units of one window (λ·n of the penalty path). Where the best of the grid lies at an
    edge, the grid grows there up to `widen` times; a single value is taken as it is. `metric` decides: "nats" (log-
    loss), "top1", "mrr" (reciprocal ranks), all where the label is in the context, or "all" (log-loss of all windows).
    After so many `minutes` no more settings are tried, of the stage neither. With `stage` a convex stage goes on top
    where it pays (`predictor.stage`): the earlier validation windows choose the settings, the later ones judge the
    stage. `reading` is how the files were read (context and columns), noted for those to be scored later. `over` does
    one step with all parts, here or elsewhere, one after the other or side by side; `keep` gives what an earlier
    process has kept of the stage. Windows without a label inside their context raise a `DataError`, a grid that makes
    no sense a `UsageError`.

    >>> from attomaton import as_windows
    >>> text = "the cat and the dog and the cat saw the dog".split()
    >>> seen, held_out = as_windows([text * 3], context=6), as_windows([text[3:] + text], context=6)
    >>> tune(seen, held_out, priors=["zero"], lambdas=[1.0], thetas=[0.5, 1.0], widen=0).theta
    1.0
    """
    _check(priors, lambdas, thetas, widen, metric)
    budget, better = Budget(minutes), METRICS[metric]
    valid = aligned_where_known(valid, train.vocabulary)
    for name, windows in (("training", train), ("validation", valid)):
        if not windows.realizable.any():
            raise DataError(
                f"{windows.origin + ': ' if windows.origin else ''}none of the {len(windows):,} {name} windows "
                "contains its own label, and attention speaks about no others. Longer contexts hold more of them."
            )
    wanted = {name: parse_prior(name) for name in dict.fromkeys(priors)}
    cut = cut_by_time(valid)
    without = enough(valid, cut) if stage else "not asked for"
    budget.after = FIT if without else FIT + STAGE
    choosing = valid if without else some_windows(valid, slice(0, cut))
    progress(0, 1, "counts")
    baselines = fit_baselines(train, valid)
    features = measure_features(train, sorted({f for names in wanted.values() for f in names}))
    judged_on = bags_of(choosing, np.flatnonzero(choosing.realizable))
    fitted = [fit_prior({f: features[f] for f in names}, judged_on) for names in wanted.values()]
    work = Work(train, choosing, fitted)
    parts = train.parts(part_size)
    progress(1, 1, "counts")

    middle = sorted(thetas)[len(thetas) // 2]

    def tried(
        kind: str, settings: list[Setting], some: Sequence[np.ndarray], worth: Callable[[Setting], float],
        must: bool = True,
    ) -> dict[Setting, Judged]:  # fmt: skip
        """What there was time for of these settings, judged on some parts."""
        found: dict[Setting, Judged] = {}
        for name, few in budget.batches(kind, settings, len(some), worth, must):
            found |= _judged(work, few, over(judging(name, few), work, some, progress))
        return found

    grid = tried(
        "priors",
        [Setting(p, middle, lam) for p in range(len(fitted)) for lam in lambdas],
        parts[::EXPLORE],
        lambda s: len(fitted[s.prior].features),
    )
    prior = _best(grid, better).prior
    final = tried(
        "grid",
        [Setting(prior, theta, lam) for theta in thetas for lam in lambdas],
        parts,
        lambda s: -abs(s.theta - middle),
    )
    widened = 0
    while widened < widen and (more := _beyond(final, better)):
        found = tried(f"wider{widened + 1}", more, parts, lambda s: 0.0, must=False)
        if not found:  # no time for any of them
            break
        final, widened = final | found, widened + 1
    chosen = _best(final, better)
    answers: list[Fitted] = over(fitting("fit", chosen), work, parts, progress)
    residual = max(a.residual for a in answers)
    if residual > TIGHT:
        raise SolverError(f"the fit ended with a residual of {residual:.2g}; {TIGHT:g} is needed.")
    # Single precision is a thousand times finer than any choice made here, and halves the folder.
    corrections = Counts(
        np.concatenate([a.key for a in answers]),
        np.concatenate([a.correction for a in answers]).astype(np.float32),
    )
    gate = fit_gate(train, valid, baselines.ngrams)
    names = list(wanted)
    record: dict[str, Any] = {
        "reading": plain(reading.done(train)),
        "chosen": {
            "prior": names[prior],
            "weights": fitted[prior].weight,
            "theta": chosen.theta,
            "lambda": chosen.lam,
            "lambda_unit": "one window: the penalty path's lambda times n",
            "at_edge": at_edge(final, better),
            "metric": metric,
            **_figures(final[chosen]),
        },
        "grid": {
            "priors": _rows(grid, names),
            "priors_on": f"every {EXPLORE}th part" if len(parts) > 1 else "all parts",
            "theta_lambda": _rows(dict(sorted(final.items())), names),
            "widened": widened,
            "tolerance": LOOSE,
            "minutes": minutes,
            "not_tried": [
                {"prior": names[s.prior], "theta": s.theta, "lambda": s.lam} for s in budget.left
            ],
        },
        "certificates": {"gradient": residual, "tolerance": TIGHT},
        "train": {
            "tokens": len(train.ids), "vocab": len(train.vocabulary), "windows": len(train),
            "realizable": int(train.realizable.sum()), "pairs": len(corrections.key),
            "parts": len(parts), "loss": sum(a.loss for a in answers),
        },
        "valid": {
            "windows": len(valid), "realizable": int(valid.realizable.sum()), "choosing": len(choosing),
        },
        "gate": {"overall": gate.overall, "weights": gate.weight.tolist()},
        "baselines": baselines.settings(),
    }  # fmt: skip
    made = Predictor(
        train.vocabulary, chosen.theta, fitted[prior], corrections, baselines, gate, record
    )
    told = StageRecord(without)
    if not without:
        kin = features.get("kin") or measure_features(train, ["kin"])["kin"]
        assert isinstance(kin, Kin)
        on_top, told = fit_stage(
            train, valid, cut, made.tuned, gate, kin, clusters_of(valid)[0], keep, progress, budget
        )
        made = replace(made, stage=on_top)
    record["stage"] = plain(told)
    return made


def pieces_in(parts: int, widened: int = 0) -> int:
    """How many pieces a tuning on so many parts has: for the priors, the grid, each widening of it and the fit."""
    return len(range(0, parts, EXPLORE)) + (2 + widened) * parts


def wider(values: Sequence[float], best: float, end: float | None = None) -> float | None:
    """One more value beyond the edge at which the best lies, as far again; None where it lies at none.

    `end` is the least value there can be: below the lowest comes that one at once.

    >>> wider([0.5, 1.0, 4.0], 4.0), wider([0.5, 1.0, 4.0], 0.5), wider([0.5, 1.0, 4.0], 1.0), wider([2.0], 2.0)
    (16.0, 0.25, None, None)
    >>> wider([0.1, 1.0], 0.1, end=0.0), wider([0.0, 1.0], 0.0, end=0.0)
    (0.0, None)
    """
    order = sorted({float(v) for v in values})
    if len(order) < 2 or best not in (order[0], order[-1]) or best == end:
        return None
    if best == order[0] and end is not None:
        return end
    beside = order[-2] if best == order[-1] else order[1]
    further = best * (best / beside if beside else 2.0)
    return further if 0 < further < np.inf else None


def _best(tried: Mapping[Setting, Judged], better: Callable[[Judged], Any]) -> Setting:
    return min(tried, key=lambda s: better(tried[s]))


def at_edge(
    final: Mapping[Setting, Judged], better: Callable[[Judged], Any] = METRICS["nats"]
) -> list[str]:
    """The settings whose best value lies at an edge of what was tried."""
    best = _best(final, better)
    theta, lam = _further(final, best)
    return [name for name, value in (("theta", theta), ("lambda", lam)) if value is not None]


def _further(final: Iterable[Setting], best: Setting) -> tuple[float | None, float | None]:
    """The next θ and the next penalty beyond the edges at which the best lies."""
    return (
        wider([s.theta for s in final], best.theta, end=0.0),
        wider([s.lam for s in final], best.lam),
    )


def _beyond(final: Mapping[Setting, Judged], better: Callable[[Judged], Any]) -> list[Setting]:
    """Settings beyond the edges at which the best lies, beside it and its neighbours along the other axis."""
    best = _best(final, better)
    thetas, lambdas = sorted({s.theta for s in final}), sorted({s.lam for s in final})
    theta, lam = _further(final, best)
    beside_theta = [*_neighbours(thetas, best.theta), *([theta] if theta is not None else [])]
    more = [Setting(best.prior, x, lam) for x in beside_theta] if lam is not None else []
    if theta is not None:
        more += [Setting(best.prior, theta, x) for x in _neighbours(lambdas, best.lam)]
    return more


def _neighbours(values: list[float], best: float) -> list[float]:
    at = values.index(best)
    return values[max(at - 1, 0) : at + 2]


def _judged(
    work: Work, settings: list[Setting], answers: Sequence[Sequence[Judged]]
) -> dict[Setting, Judged]:
    """Mean validation figures of every setting, over the windows whose last token lies in the parts that answered.

    Windows whose last token training never saw are judged too: their scores are the prior's.
    """
    total = np.zeros((len(settings), len(Judged._fields)))
    for answer in answers:
        total += np.array(answer)
    known = np.unique(work.train.last[work.train.realizable])
    rest = np.flatnonzero(work.valid.realizable & ~np.isin(work.valid.last, known))
    if len(rest):
        bags = bags_of(work.valid, rest)
        start = [prior.scores(bags.query, bags.token) for prior in work.priors]
        for i, s in enumerate(settings):
            total[i] += judge(bags, bags.shares(start[s.prior] + s.theta * np.log(bags.count)))
    if not total[:, 0].all():
        raise DataError("no validation window has a last token of the training data.")
    return {
        s: Judged(float(w), *(float(x / w) for x in sums))
        for s, (w, *sums) in zip(settings, total, strict=True)
    }


def _figures(judged: Judged) -> dict[str, float]:
    return {
        "log_loss": judged.loss, "top1": judged.hits, "mrr10": judged.ranks, "weight": judged.weight,
    }  # fmt: skip


def _rows(grid: dict[Setting, Judged], names: list[str]) -> list[dict[str, str | float]]:
    return [
        {"prior": names[s.prior], "theta": s.theta, "lambda": s.lam, **_figures(judged)}
        for s, judged in grid.items()
    ]


def _check(
    priors: Sequence[str],
    lambdas: Sequence[float],
    thetas: Sequence[float],
    widen: int,
    metric: str,
) -> None:
    for name, values in (("priors", priors), ("lambdas", lambdas), ("thetas", thetas)):
        if not len(values):
            raise UsageError(f"{name}: name at least one.")
    for name, value, least in [
        *(("lambdas", v, "above 0") for v in lambdas if not (np.isfinite(v) and v > 0)),
        *(("thetas", v, "0 or more") for v in thetas if not (np.isfinite(v) and v >= 0)),
    ]:
        raise UsageError(f"{name}: {value:g} must be finite and {least}.")
    if widen < 0:
        raise UsageError(f"widen must be 0 or more, not {widen}.")
    one_of("metric", metric, tuple(METRICS))
