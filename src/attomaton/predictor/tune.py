"""Choosing a predictor: the prior, then θ and the price, on validation windows; then the exact fit and its proof.

The grid is walked by coordinates. Priors are compared on every fourth part, at the middle θ and all prices; the best
of them then meets every θ and every price on all parts. Least log-loss decides.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attomaton.corpus.windows import PART, Windows
from attomaton.errors import DataError, SolverError, UsageError
from attomaton.predictor.backoff import fit_gate
from attomaton.predictor.bags import aligned, bags_of
from attomaton.predictor.baselines import fit_baselines
from attomaton.predictor.counts import Counts
from attomaton.predictor.fit import LOOSE, TIGHT, Fitted, Judged, Setting, Work, judge
from attomaton.predictor.model import Predictor
from attomaton.predictor.priors import fit_prior, measure_features, parse_prior
from attomaton.predictor.stages import Forgotten, Pieces, Progress, Stage, fitting, judging

PRIORS = ("zero", "odds", "main", "main+bigram", "main+bigram+kin")
LAMBDAS = (0.5, 1.0, 2.0, 4.0)
THETAS = (0.1, 0.2, 0.3, 0.5, 1.0)
EXPLORE = 4  # every so many-th part while priors are compared


def tune(
    train: Windows,
    valid: Windows,
    *,
    reading: dict[str, Any] | None = None,
    priors: Sequence[str] = PRIORS,
    lambdas: Sequence[float] = LAMBDAS,
    thetas: Sequence[float] = THETAS,
    workers: int = 1,
    part_size: int = PART,
    pieces: Pieces | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Predictor:
    """The predictor fitted on `train` that suits `valid` best.

    `lambdas` are prices in units of one window (λ·n of the penalty path). `reading` is how the files were
    read (context and columns), noted for those to be scored later. `pieces` keep what is finished: given them again
    after an interruption, the same tuning computes only the rest.
    """
    _check(priors, lambdas, thetas, workers)
    valid = aligned(valid, train.vocabulary)
    for name, windows in (("training", train), ("validation", valid)):
        if not windows.realizable.any():
            raise DataError(f"none of the {name} windows contains its own label.")
    wanted = {name: parse_prior(name) for name in dict.fromkeys(priors)}
    progress("counts", 0, 1)
    baselines = fit_baselines(train, valid)
    features = measure_features(train, sorted({f for names in wanted.values() for f in names}))
    judged_on = bags_of(valid, np.flatnonzero(valid.realizable))
    fitted = [fit_prior({f: features[f] for f in names}, judged_on) for names in wanted.values()]
    work = Work(train, valid, fitted)
    parts = train.parts(part_size)
    progress("counts", 1, 1)

    def over(stage: Stage, some: Sequence[np.ndarray]) -> list[Any]:
        return stage.over(work, some, workers, pieces or Forgotten(), progress)

    middle = sorted(thetas)[len(thetas) // 2]
    first = [Setting(p, middle, lam) for p in range(len(fitted)) for lam in lambdas]
    grid = _judged(work, first, over(judging("priors", first), parts[::EXPLORE]))
    prior = min(grid, key=lambda s: grid[s].loss).prior
    second = [Setting(prior, theta, lam) for theta in thetas for lam in lambdas]
    final = _judged(work, second, over(judging("grid", second), parts))
    chosen = min(final, key=lambda s: final[s].loss)
    answers: list[Fitted] = over(fitting("fit", chosen), parts)
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
        "reading": dict(reading or {}),
        "chosen": {
            "prior": names[prior],
            "weights": fitted[prior].weight,
            "theta": chosen.theta,
            "lambda": chosen.lam,
            "lambda_unit": "one window: the penalty path's lambda times n",
            **_figures(final[chosen]),
        },
        "grid": {
            "priors": _rows(grid, names),
            "priors_on": f"every {EXPLORE}th part" if len(parts) > 1 else "all parts",
            "theta_lambda": _rows(final, names),
            "tolerance": LOOSE,
        },
        "certificates": {"gradient": residual, "tolerance": TIGHT},
        "train": {
            "tokens": len(train.ids), "vocab": len(train.vocabulary), "windows": len(train),
            "realizable": int(train.realizable.sum()), "pairs": len(corrections.key),
            "parts": len(parts), "loss": sum(a.loss for a in answers),
        },
        "valid": {"windows": len(valid), "realizable": int(valid.realizable.sum())},
        "gate": {"overall": gate.overall, "weights": gate.weight.tolist()},
        "baselines": baselines.settings(),
    }  # fmt: skip
    return Predictor(
        train.vocabulary, chosen.theta, fitted[prior], corrections, baselines, gate, record
    )


def pieces_in(parts: int) -> int:
    """How many pieces a tuning on so many parts has: for the priors, the grid and the fit."""
    return len(range(0, parts, EXPLORE)) + 2 * parts


def _judged(
    work: Work, settings: list[Setting], answers: Sequence[Sequence[Judged]]
) -> dict[Setting, Judged]:
    """Mean validation figures of every setting, over the windows whose last token lies in the parts that answered.

    Windows whose last token training never saw are judged too: their scores are the prior's.
    """
    total = np.zeros((len(settings), 3))
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
        s: Judged(float(w), float(loss / w), float(hits / w))
        for s, (w, loss, hits) in zip(settings, total, strict=True)
    }


def _figures(judged: Judged) -> dict[str, float]:
    return {"log_loss": judged.loss, "top1": judged.hits, "weight": judged.weight}


def _rows(grid: dict[Setting, Judged], names: list[str]) -> list[dict[str, Any]]:
    return [
        {"prior": names[s.prior], "theta": s.theta, "lambda": s.lam, **_figures(judged)}
        for s, judged in grid.items()
    ]


def _check(
    priors: Sequence[str], lambdas: Sequence[float], thetas: Sequence[float], workers: int
) -> None:
    for name, values in (("priors", priors), ("lambdas", lambdas), ("thetas", thetas)):
        if not len(values):
            raise UsageError(f"{name}: name at least one.")
    for name, value, least in [
        *(("lambdas", v, "above 0") for v in lambdas if not (np.isfinite(v) and v > 0)),
        *(("thetas", v, "0 or more") for v in thetas if not (np.isfinite(v) and v >= 0)),
    ]:
        raise UsageError(f"{name}: {value:g} must be finite and {least}.")
    if workers < 1:
        raise UsageError(f"workers must be at least 1, not {workers}.")
