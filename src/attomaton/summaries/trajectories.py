"""What became of many trajectories: which token took all of the context, how fast the others faded, and by theory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.corpus.vocabulary import Label
from attomaton.mechanics.theory.automaton import Unknown
from attomaton.mechanics.theory.collapse import collapse_times, fading
from attomaton.mechanics.theory.trajectories import Trajectories

MOST = 10  # tokens whose shares are told, winners whose rivals are followed
QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Course:
    """One token: its share of the context over time (mean, middle four fifths), how often it ends in the lead."""

    token: Label
    in_prompt: int
    leads: float
    share: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class Fading:
    """The share of a token where another has taken the lead: its slope on log axes, and the one theory predicts.

    `odds` are those of the token against the leader after the leader. None where theory gives no slope, or none could
    be fitted.
    """

    leader: Label
    token: Label
    trajectories: int
    odds: float | None
    predicted: float | None
    slope: float | None
    error: float | None


@dataclass(frozen=True)
class Moment:
    """By when a share of the trajectories has collapsed, drawn and by theory; None: never, or theory does not say."""

    share: float
    drawn: int | None
    predicted: float | None


@dataclass(frozen=True)
class TrajectorySummary:
    """What became of many trajectories from one prompt.

    `window` is the length of the context that slides, None where it grows. A trajectory has collapsed once one token
    holds the share `threshold` of its context; it ends where the last token never was one in the data.
    """

    prompt: tuple[Label, ...]
    known: int  # tokens of the prompt that the model knows, repeats included
    trajectories: int
    steps: int
    seed: int
    window: int | None
    threshold: float
    ended: int
    times: list[int]
    collapsed: list[float]  # share of the trajectories, by each of the times
    predicted: list[float] | None  # the same by theory
    tokens: tuple[Course, ...]
    more_tokens: int
    moments: tuple[Moment, ...]
    fading: tuple[Fading, ...]
    trajectory: tuple[Label, ...]
    unknown: tuple[Unknown, ...]
    note: str


def trajectory_summary(
    run: Trajectories, prompt: Sequence[Label], seed: int, unknown: Sequence[Unknown], note: str
) -> TrajectorySummary:
    """The trajectories in numbers, beside what theory says of them."""
    shares, words, leader = run.shares, run.choices.words, run.leader
    order = np.argsort(-shares[-1].mean(0), kind="stable")
    law = collapse_times(run.choices, run.threshold) if run.window is None else None
    at = np.sort(np.where(run.collapsed < 0, np.iinfo(np.int64).max, run.collapsed))
    return TrajectorySummary(
        tuple(prompt), len(run.choices.order), len(leader), int(run.times[-1]), seed, run.window, run.threshold,
        int((run.ended >= 0).sum()), run.times.tolist(), _by(at, run.times),
        None if law is None else _by(law, run.times),
        tuple(
            Course(
                words[x], int(run.counts[0, 0, x]), float((leader == x).mean()),
                shares[..., x].mean(1).tolist(),
                *np.quantile(shares[..., x], [0.1, 0.9], axis=1).tolist(),
            )
            for x in order[:MOST].tolist()
        ),
        max(len(words) - MOST, 0), _moments(at, law, int(run.times[-1])), _fading(run, order[:MOST]), run.first,
        tuple(unknown), note,
    )  # fmt: skip


def _by(moments: np.ndarray, times: np.ndarray) -> list[float]:
    """The share of ascending moments that are not later than each of the times."""
    return (np.searchsorted(moments, times, side="right") / len(moments)).tolist()


def _moments(at: np.ndarray, law: np.ndarray | None, end: int) -> tuple[Moment, ...]:
    found = []
    for share in QUANTILES:
        drawn = int(at[max(int(np.ceil(share * len(at))) - 1, 0)])
        predicted = None if law is None else float(np.quantile(law, share))
        found.append(Moment(share, drawn if drawn <= end else None, predicted))
    return tuple(found)


def _fading(run: Trajectories, some: np.ndarray) -> tuple[Fading, ...]:
    """The tokens that fade, for each leader by falling number of its trajectories; a window has no such theory."""
    if run.window is not None or (run.ended >= 0).any():
        return ()
    words, odds = run.choices.words, run.choices.odds()
    leads = np.bincount(run.leader, minlength=len(words))
    found = []
    for w in np.argsort(-leads, kind="stable")[:MOST].tolist():
        if not leads[w]:
            break
        theory = fading(run.choices, w)
        for x in (x for x in some.tolist() if x != w):
            slope = run.slope(x, np.flatnonzero(run.leader == w))
            r = float(odds[w, x] / odds[w, w]) if odds[w, w] else None
            predicted = None if np.isnan(theory[x]) else float(theory[x])
            found.append(
                Fading(words[w], words[x], int(leads[w]), r, predicted, *(slope or (None, None)))
            )
    return tuple(found)
