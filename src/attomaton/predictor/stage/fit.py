"""Fitting the stage on validation windows: which groups pay, at which price, and then the whole, certified.

Validation windows are cut in two by time, at the beginning of a sequence where there are several. The earlier ones
choose the settings of the tuned scores and fit the weights of every trial; the later ones, which have chosen nothing,
judge it: the prices of the ridge, group by group, and whether a group pays at all, which it does where the later
windows lose more than one standard error without it. Then all of them fit the weights once more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Float, Int
from attomaton.corpus.windows import Windows
from attomaton.errors import counted
from attomaton.predictor.backoff import Gate
from attomaton.predictor.bags import BLOCK, Bags, blocks, thinned
from attomaton.predictor.budget import Budget
from attomaton.predictor.kneser_ney import choose_order, fit_kneser_ney
from attomaton.predictor.priors import Kin
from attomaton.predictor.stage.gate import WindowGate, fit_window_gate, window_features
from attomaton.predictor.stage.logit import Minimum, Problem
from attomaton.predictor.stage.looking import Tables, look_at
from attomaton.predictor.stage.model import SCORE, ConvexStage
from attomaton.predictor.stage.terms import GROUPS, Cells

LEAST = 500  # windows with their label inside: fewer are not asked whether a stage pays
EARLIER = 2 / 3  # of the validation windows
ORDERS = 7  # the longest n-grams that are tried
SOME = 24_000  # windows that fit a trial; half as many judge it
FURTHER = 3.0  # from one price to the next
PRICES = 4  # how often a price moves in one direction
LOOSE = 1e-5  # residual while trials are compared
TIGHT = 1e-8  # residual of the answer
SCORE_PRICE = 1e-3  # of a slope other than 1

Arrays = dict[str, np.ndarray]
Keep = Callable[[str, Callable[[], Arrays]], Arrays]  # what has this name, or is made now
Scorer = Callable[[Bags], Float[np.ndarray, " incidences"]]
Groups = Mapping[str, float]  # the price of each group


@dataclass(frozen=True)
class Trial:
    """A group at a price (None: left out), and what it gained on the later windows, in nats, with its error."""

    group: str
    price: float | None
    gain: float
    error: float


@dataclass(frozen=True)
class StageRecord:
    """How the stage was found: the groups and their prices, what was tried, how exact the answer is.

    `reason` says why there is none, `not_tried` the groups whose prices there was no time to try. `judged` are
    log-losses on the windows that judged it: of the tuned score and of the stage.
    """

    reason: str
    groups: Mapping[str, float] = field(default_factory=dict)
    weights: int = 0
    slope: float = 1.0
    order: int = 0
    fitted: int = 0
    judged_on: int = 0
    tuned_loss: float = 0.0
    stage_loss: float = 0.0
    trials: Sequence[Trial] = ()
    gradient: float = 0.0
    gate_gradient: float = 0.0
    tolerance: float = TIGHT
    not_tried: Sequence[str] = ()


def make_now(name: str, make: Callable[[], Arrays]) -> Arrays:
    """What is asked for, made and not kept."""
    return make()


# Windows


def cut_by_time(windows: Windows) -> int:
    """How many windows come first: about this share of those that hold their label, and whole sequences."""
    held = np.flatnonzero(windows.realizable)
    if not len(held):
        return len(windows)
    cut = int(held[min(int(EARLIER * len(held)), len(held) - 1)])
    if windows.starts is None:
        return cut
    sequence = windows.sequence_of(windows.source)
    whole = int(np.searchsorted(sequence, sequence[cut]))  # where its sequence begins
    # A single long sequence is cut in the middle.
    return whole if whole > EARLIER / 2 * len(windows) else cut


def some_windows(windows: Windows, rows: Int[np.ndarray, " rows"] | slice) -> Windows:
    """These windows alone."""
    names = ("left", "length", "label", "weight", "source", "realizable")
    return replace(windows, **{name: getattr(windows, name)[rows] for name in names})


# The design


@dataclass(frozen=True, eq=False)
class Design:
    """Windows that hold their label, each token with its cells of every group."""

    start: Int[np.ndarray, " windows_and_one"]
    label_at: Int[np.ndarray, " windows"]
    weight: Float[np.ndarray, " windows"]
    cells: Mapping[str, Cells]
    size: Mapping[str, int]

    def matrix(self, names: Sequence[str]) -> Any:
        """The columns of these groups side by side, a sparse row for each token."""
        from scipy.sparse import csr_array

        width = [self.size[name] for name in names]
        first = np.concatenate([[0], np.cumsum(width)])
        at = np.concatenate(
            [self.cells[name].at + shift for name, shift in zip(names, first, strict=False)], axis=1
        ).astype(np.int32)
        value = np.concatenate([self.cells[name].value for name in names], axis=1)
        n, cells = at.shape
        pointer = np.arange(n + 1) * cells
        if n * cells < 1 << 31:  # long ones would make SciPy copy all columns to long ones, too
            pointer = pointer.astype(np.int32)
        return csr_array((value.ravel(), at.ravel(), pointer), shape=(n, int(first[-1])))

    def problem(self, groups: Groups) -> Problem:
        """The conditional logit of these groups at these prices."""
        names = [SCORE, *groups]
        price = np.concatenate(
            [np.full(self.size[name], groups.get(name, SCORE_PRICE)) for name in names]
        )
        centre = np.zeros(len(price))
        centre[0] = 1.0
        total = self.weight.sum()
        return Problem(
            self.matrix(names), self.start, self.label_at, self.weight / total, price / total, centre
        )  # fmt: skip

    def losses(
        self, names: Sequence[str], weight: Float[np.ndarray, " weights"]
    ) -> Float[np.ndarray, " windows"]:
        """−log p of every label."""
        z = self.matrix([SCORE, *names]) @ weight
        top = np.maximum.reduceat(z, self.start[:-1])
        mass = np.exp(z - np.repeat(top, np.diff(self.start)))
        total = np.log(np.add.reduceat(mass, self.start[:-1]))
        return np.asarray(total + top - z[self.label_at])


def sizes(tables: Tables) -> dict[str, int]:
    """How many weights the tuned score and each group have."""
    return {SCORE: 1, **{name: group.size(tables) for name, group in GROUPS.items()}}


def design_of(
    windows: Windows,
    rows: Int[np.ndarray, " rows"],
    score: Scorer,
    tables: Tables,
    names: Sequence[str] = tuple(GROUPS),
) -> Design:
    """The cells of all tokens of these windows, which hold their labels, in these groups.

    Log-odds are differences inside a window, so what is a number and not a bin is measured from its mean there: the
    same weights, far easier to find.
    """
    parts: dict[str, list[Cells]] = {name: [] for name in (SCORE, *names)}
    length, label_at, before = [], [], 0
    for bags in blocks(windows, rows, BLOCK // 2):
        look = look_at(bags, score(bags), tables)
        parts[SCORE].append(
            _centred(bags, Cells(np.zeros((len(look.score), 1), int), look.score[:, None]))
        )
        for name in names:
            cells = GROUPS[name].cells(look, tables)
            cells = _centred(bags, cells) if name == "n-grams" else cells
            parts[name].append(Cells(cells.at.astype(np.int32), cells.value))
        length.append(np.diff(bags.start))
        label_at.append(bags.label_at + before)
        before += len(bags.token)
    return Design(
        np.concatenate([[0], np.cumsum(np.concatenate(length))]),
        np.concatenate(label_at),
        windows.weight[rows],
        {
            name: Cells(*map(np.concatenate, zip(*cells, strict=True)))
            for name, cells in parts.items()
        },
        sizes(tables),
    )


def _centred(bags: Bags, cells: Cells) -> Cells:
    many = np.diff(bags.start)
    mean = np.stack([bags.sums(column) / many for column in cells.value.T], axis=1)
    return Cells(cells.at, cells.value - mean[bags.owner])


# The choice


@dataclass(frozen=True, eq=False)
class _Judge:
    """Trials are fitted on `early` and judged on `late`; weights of earlier trials are where later ones start."""

    early: Design
    late: Design
    cluster: Int[np.ndarray, " windows"]
    known: dict[str, Float[np.ndarray, " cells"]]

    def __call__(self, groups: Groups) -> Float[np.ndarray, " windows"]:
        size = self.early.size
        start = [self.known.get(name, np.zeros(size[name])) for name in groups]
        found = self.early.problem(groups).solve(
            np.concatenate([self.known.get(SCORE, np.ones(1)), *start]), LOOSE
        )
        self.known.update(by_group([SCORE, *groups], size, found.weight))
        return self.late.losses(list(groups), found.weight)

    def gain(
        self, before: Float[np.ndarray, " windows"], after: Float[np.ndarray, " windows"]
    ) -> tuple[float, float]:
        """What is gained on average, and its standard error over clusters of windows."""
        share = self.late.weight / self.late.weight.sum()
        mean = float(share @ (before - after))
        away = np.bincount(self.cluster, share * (before - after - mean))
        n = len(np.unique(self.cluster))
        return mean, float(np.sqrt(n / max(n - 1, 1) * (away**2).sum()))


def by_group(
    names: Sequence[str], size: Mapping[str, int], weight: Float[np.ndarray, " weights"]
) -> dict[str, Float[np.ndarray, " cells"]]:
    """The weights of each group."""
    cuts = np.cumsum([size[name] for name in names])[:-1]
    return dict(zip(names, np.split(weight, cuts), strict=True))


def choose_groups(
    judge: _Judge, groups: Groups, progress: Progress, budget: Budget
) -> tuple[dict[str, float], list[Trial], list[str]]:
    """The groups that pay, each at its best price: by turns, the others as they are; and those not tried.

    Nothing more is tried when the time is over: what is left stays in, at the price it came with.
    """
    now, left = dict(groups), list(groups)
    trials: list[Trial] = []
    best = judge(now)

    def better(trial: Groups, name: str) -> bool:
        nonlocal now, best
        tried = judge(trial)
        gain, error = judge.gain(best, tried)
        trials.append(Trial(name, trial.get(name), gain, error))
        # A price moves where that is worth something; a group goes unless it is.
        worth = gain > error / 2 if name in trial else -gain <= error
        if worth:
            now, best = dict(trial), tried
        return worth

    for i, name in enumerate(groups):
        if budget.over():
            break
        left.remove(name)
        progress(i, len(groups), f"stage: {name}")
        for factor in (FURTHER, 1 / FURTHER):
            moves = 0
            while moves < PRICES and better(now | {name: now[name] * factor}, name):
                moves += 1
            if moves:
                break
        better({other: price for other, price in now.items() if other != name}, name)
    progress(len(groups), len(groups), "stage")
    return now, trials, left


# The whole


def enough(valid: Windows, cut: int) -> str:
    """Why these validation windows are too few for a stage, if they are."""
    held, early = int(valid.realizable.sum()), int(valid.realizable[:cut].sum())
    if held >= LEAST and min(early, held - early) >= LEAST // 10:
        return ""
    return f"{counted(held, 'validation window')} with the label inside; {LEAST:,} are needed"


def fit_stage(
    train: Windows,
    valid: Windows,
    cut: int,
    score: Scorer,
    by_last: Gate,
    kin: Kin,
    cluster: Int[np.ndarray, " windows"],
    keep: Keep = make_now,
    progress: Progress = quiet,
    budget: Budget | None = None,
) -> tuple[ConvexStage | None, StageRecord]:
    """The stage on top of `score`, where `enough` says nothing against it.

    The first `cut` of the validation windows have chosen the settings of the scores; `cluster` says which windows lean
    the same way. When the time of the `budget` is over, no more prices are tried.
    """
    progress(0, 1, "stage: n-grams")
    longest = fit_kneser_ney(train, ORDERS)
    tables = Tables(longest.cut(choose_order(longest, some_windows(valid, slice(0, cut)))), kin)
    del longest
    budget = budget or Budget()
    found = keep(
        budget.named("stage-groups"),
        lambda: _choice(valid, cut, score, tables, cluster, progress, budget),
    )
    trials = [
        Trial(list(GROUPS)[int(group)], float(price) if price >= 0 else None, float(gain), float(error))
        for group, price, gain, error in found["trials"]
    ]  # fmt: skip
    groups = {n: float(p) for n, p in zip(GROUPS, found["prices"], strict=True) if p >= 0}
    left = [list(GROUPS)[i] for i in found["not_tried"].tolist()]
    tuned_loss, stage_loss, gain, error = found["judged"].tolist()
    if gain <= error:
        reason = f"no group of terms pays: {gain:.2g} nats, with an error of {error:.2g}"
        return None, StageRecord(reason, trials=trials, not_tried=left)
    progress(0, 1, "stage: weights")
    solved = keep(
        budget.named("stage-weights"),
        lambda: _weights(valid, score, tables, groups, found["start"]),
    )
    size = sizes(tables)
    weight = by_group([SCORE, *groups], size, solved["weight"])
    slope = float(weight.pop(SCORE)[0])
    progress(0, 1, "stage: gate")
    stage, gate = _gated(tables, slope, weight, valid, score, by_last)
    held, judged_on = np.flatnonzero(valid.realizable), int(found["judged_on"][0])
    return stage, StageRecord(
        "", groups, len(solved["weight"]), slope, tables.ngrams.order, len(held), judged_on, tuned_loss,
        stage_loss, trials, float(solved["residual"][0]), gate.residual, TIGHT, left,
    )  # fmt: skip


def _choice(
    valid: Windows,
    cut: int,
    score: Scorer,
    tables: Tables,
    cluster: Int[np.ndarray, " windows"],
    progress: Progress,
    budget: Budget,
) -> Arrays:
    """The prices of all groups (−1: left out), weights to start from, what was tried and how it was judged."""
    held = np.flatnonzero(valid.realizable)
    few, others = thinned(held[held < cut], SOME), thinned(held[held >= cut], SOME // 2)
    early, late = (design_of(valid, rows, score, tables) for rows in (few, others))
    judge = _Judge(early, late, cluster[others], {})
    first = {g.name: g.price for g in GROUPS.values()}
    groups, trials, left = choose_groups(judge, first, progress, budget)
    tuned, found = late.losses([], np.ones(1)), judge(groups)
    share = late.weight / late.weight.sum()
    number = {name: i for i, name in enumerate(GROUPS)}
    return {
        "prices": np.array([groups.get(name, -1.0) for name in GROUPS]),
        "start": np.concatenate([judge.known[name] for name in (SCORE, *groups)]),
        "trials": np.array(
            [
                [number[t.group], -1.0 if t.price is None else t.price, t.gain, t.error]
                for t in trials
            ]
        ).reshape(-1, 4),
        "not_tried": np.array([number[name] for name in left], dtype=np.int64),
        "judged": np.array([share @ tuned, share @ found, *judge.gain(tuned, found)]),
        "judged_on": np.array([len(others)]),
    }


def _weights(
    valid: Windows,
    score: Scorer,
    tables: Tables,
    groups: Groups,
    start: Float[np.ndarray, " weights"],
) -> Arrays:
    """The weights that suit all validation windows, and their certificate."""
    whole = design_of(valid, np.flatnonzero(valid.realizable), score, tables, list(groups))
    found = whole.problem(groups).solve(start, TIGHT)
    return {"weight": found.weight, "residual": np.array([found.residual])}


def _gated(
    tables: Tables,
    slope: float,
    weight: Mapping[str, Float[np.ndarray, " cells"]],
    valid: Windows,
    score: Scorer,
    by_last: Gate,
) -> tuple[ConvexStage, Minimum]:
    """The stage with the gate that suits all validation windows."""
    unset = np.zeros(0)
    stage = ConvexStage(tables, slope, weight, WindowGate(*[unset] * 5))
    parts = []
    for bags in blocks(valid, np.arange(len(valid)), BLOCK // 2):
        look = stage.look(bags, score(bags))
        best = tables.ngrams.best(tables.histories(bags), 1)
        features = window_features(look, stage.log_odds(look), tables, best, by_last)
        parts.append(np.stack(list(features.values()), axis=1).astype(float))
    gate, minimum = fit_window_gate(np.concatenate(parts), valid.realizable, valid.weight)
    return replace(stage, gate=gate), minimum
