"""When heads freeze: measures over checkpoints, and the step from which each head's entropy stays where it ends."""

from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.probe.records import Share

MOVED = 0.1  # of log keys: a head whose entropy ranges over less has not learned to attend
STAYS = 0.05  # of its range: how near its end an entropy must stay to be frozen


@dataclass(frozen=True)
class Mark:
    """One checkpoint: its step, the hash of its weights, and what it says and attends to.

    `real`, `outranked` and `minimal` are the shares of strict orders it has right by kind of contexts (see
    `records.Behaviour`). `same_as` names an earlier checkpoint with the same weights; nothing of it is measured twice.
    `entropy` and `largest` hold, layer by layer, the measures of every head.
    """

    name: str
    step: int
    sha256: str
    same_as: str | None
    real: Share | None
    outranked: Share | None
    minimal: Share | None
    entropy: tuple[tuple[float, ...], ...]
    largest: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class HeadCourse:
    """One head over all checkpoints: entropy at the first and at the last, and the step at which it froze, if any."""

    layer: int
    head: int
    first: float
    last: float
    frozen_at: int | None
    verdict: str


@dataclass(frozen=True)
class Snap:
    """A model over its checkpoints, on fixed text and fixed questions."""

    corpus: str
    family: str
    layers: int
    heads: int
    contexts: int
    context: int
    strict_orders: int
    marks: tuple[Mark, ...]
    courses: tuple[HeadCourse, ...]
    duplicates: int


def frozen(
    entropy: Float[np.ndarray, " marks"], steps: Int[np.ndarray, " marks"]
) -> tuple[int | None, str]:
    """The step from which on an entropy stays where it ends, and what to say of the head.

    >>> frozen(np.array([1.0, 0.9, 0.3, 0.2, 0.2]), np.arange(5))
    (3, 'froze')
    >>> frozen(np.array([1.0, 0.99, 0.98]), np.arange(3)), frozen(np.array([1.0, 0.9, 0.3]), np.arange(3))
    ((None, 'hardly moved'), (None, 'still moving'))
    """
    spread = float(np.ptp(entropy))
    if spread < MOVED:
        return None, "hardly moved"
    away = np.flatnonzero(np.abs(entropy - entropy[-1]) > STAYS * spread)
    first = int(away[-1]) + 1 if len(away) else 0
    if first == len(entropy) - 1:
        return None, "still moving"
    return int(steps[first]), "froze"


def courses(marks: tuple[Mark, ...]) -> tuple[HeadCourse, ...]:
    """What became of every head."""
    steps = np.array([x.step for x in marks])
    values = np.array([x.entropy for x in marks])
    found = []
    for layer, head in np.ndindex(values.shape[1:]):
        own = values[:, layer, head]
        at, verdict = frozen(own, steps)
        found.append(HeadCourse(layer, head, float(own[0]), float(own[-1]), at, verdict))
    return tuple(found)
