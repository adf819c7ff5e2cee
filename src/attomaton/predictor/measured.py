"""What is measured of one predictor, window by window."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Float, Shaped
from attomaton.predictor.bags import Bags

TOP = 5
RANKS = 10  # a label that comes later has reciprocal rank 0


class Measured(NamedTuple):
    """One predictor on some windows: log-loss, chance of a hit at 1, at 5, reciprocal rank, p of its first guess."""

    loss: Float[np.ndarray, " windows"]
    top1: Float[np.ndarray, " windows"]
    top5: Float[np.ndarray, " windows"]
    mrr10: Float[np.ndarray, " windows"]
    sure: Float[np.ndarray, " windows"]


def measure(bags: Bags, p: Float[np.ndarray, " incidences"]) -> Measured:
    """Shares against labels. Among tied tokens each is as likely to be picked first as any other.

    >>> from attomaton.predictor.bags import bag_of
    >>> from dataclasses import replace
    >>> bags = replace(bag_of(np.array([0, 1, 2])), label=np.array([0]))
    >>> [round(float(v[0]), 3) for v in measure(bags, np.array([0.25, 0.5, 0.25]))[1:]]
    [0.0, 1.0, 0.417, 0.5]
    """
    mine = p[bags.label_at]
    above = bags.sums((p > mine[bags.owner]).astype(float))
    tied = bags.sums((p == mine[bags.owner]).astype(float))
    top1, top5 = (np.where(mine > 0, np.clip((k - above) / tied, 0.0, 1.0), 0.0) for k in (1, TOP))
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, RANKS + 1))])
    first, end = (np.minimum(v, RANKS).astype(np.int64) for v in (above, above + tied))
    mrr10 = np.where(mine > 0, (harmonic[end] - harmonic[first]) / tied, 0.0)
    sure = np.maximum.reduceat(p, bags.start[:-1])
    with np.errstate(divide="ignore"):
        return Measured(-np.log(mine), top1, top5, mrr10, sure)


def ranked(
    p: Float[np.ndarray, " bags"],
    above: Shaped[np.ndarray, " bags"],
    sure: Float[np.ndarray, " bags"],
) -> Measured:
    """The figures of labels of probability p with so many tokens before them; none is a hit after RANKS."""
    top1, top5 = ((above < k).astype(float) for k in (1, TOP))
    return Measured(-np.log(p), top1, top5, np.where(above < RANKS, 1.0 / (above + 1.0), 0.0), sure)


def joined(parts: list[Measured]) -> Measured:
    """What was measured on some windows after the other."""
    return Measured(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


@dataclass(frozen=True)
class LeftOut:
    """A baseline that was not asked, and why."""

    name: str
    reason: str
