"""Shares, means and correlations with intervals that know what belongs together."""

import numpy as np
from scipy.special import stdtrit

from attomaton.base.shapes import Bool, Float, Int
from attomaton.numerics import named_rng, sum_by
from attomaton.probe.records import Correlation, Estimate, Share

WIDE = 1.959964  # standard errors on each side of 95 %
RESAMPLES = 300


def share(
    right: Bool[np.ndarray, " cases"] | Float[np.ndarray, " cases"],
    cluster: Int[np.ndarray, " cases"],
) -> Share | None:
    """The share of cases that are right, with an error by clusters; None of no case.

    >>> share(np.array([True, True, False, False]), np.array([0, 0, 1, 1])).value
    0.5
    """
    n = len(right)
    if not n:
        return None
    value = float(right.mean())
    # With all right, no more than the rule of three says.
    half = max(half_width(right, cluster), 3 / n if value in (0.0, 1.0) else 0.0)
    many = len(np.unique(cluster))
    return Share(value, max(0.0, value - half), min(1.0, value + half), n, many)


def half_width(value: np.ndarray, cluster: Int[np.ndarray, " cases"]) -> float:
    """Half of the 95 % interval of a mean whose cases belong together in clusters.

    With few clusters their spread is itself uncertain (Student's t); of one alone nothing is known of others.
    """
    where = np.unique(cluster, return_inverse=True)[1]
    many = int(where.max()) + 1
    if many == 1:
        return 1.0
    off = sum_by(where, value - value.mean(), many)
    se = float(np.sqrt((off**2).sum() * many / (many - 1))) / len(value)
    return float(stdtrit(many - 1, 0.975)) * se


def estimate(value: Float[np.ndarray, " contexts"]) -> Estimate | None:
    """The mean over contexts with its interval, NaN left out; None where nothing is left."""
    value = value[np.isfinite(value)].astype(float)
    if not len(value):
        return None
    mean = float(value.mean())
    half = WIDE * float(value.std(ddof=1)) / np.sqrt(len(value)) if len(value) > 1 else np.inf
    return Estimate(mean, float(mean - half), float(mean + half))


def ranks(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Ranks, equal numbers sharing theirs."""
    _, where, many = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(many) - (many - 1) / 2)[where]


def correlation(
    luce: Float[np.ndarray, " pairs"],
    model: Float[np.ndarray, " pairs"],
    cluster: Int[np.ndarray, " pairs"],
    seed: int,
) -> Correlation | None:
    """Rank correlation and slope of the model's log-odds against Luce's, with intervals from clusters drawn again.

    A pair counts in both directions, so that nothing depends on which token is named first.
    """
    if len(luce) < 8 or not np.ptp(abs(luce)) > 0:
        return None
    rng = named_rng("probe ties", seed)
    groups = [np.flatnonzero(cluster == c) for c in np.unique(cluster)]
    drawn = [
        _both(luce[at], model[at])
        for _ in range(RESAMPLES)
        for at in [np.concatenate([groups[i] for i in rng.integers(0, len(groups), len(groups))])]
    ]
    low, high = np.nanquantile(np.array(drawn), [0.025, 0.975], axis=0)
    rank, slope = _both(luce, model)
    return Correlation(
        len(luce), rank, float(low[0]), float(high[0]), slope, float(low[1]), float(high[1])
    )


def _both(luce: np.ndarray, model: np.ndarray) -> tuple[float, float]:
    """Rank correlation and slope of pairs in both directions."""
    x, y = np.concatenate([luce, -luce]), np.concatenate([model, -model])
    slope = float((x * y).sum() / max((x * x).sum(), 1e-300))
    a, b = (ranks(v) - (len(x) + 1) / 2 for v in (x, y))
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return (float((a * b).sum()) / scale if scale > 0 else 0.0), slope
