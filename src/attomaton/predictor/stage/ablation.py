"""What each group of terms is worth, and two controls in which there is nothing to find.

`leave_each_out` fits the stage again without one group after the other and asks all of them about unseen windows. In
`redrawn` labels the tuned scores are the truth, drawn from: no stage can gain on them. In `shuffled` labels every token
of a context is as likely: no stage can do better than to say so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Float
from attomaton.corpus.windows import Windows
from attomaton.predictor.bags import aligned, blocks, thinned
from attomaton.predictor.model import Predictor
from attomaton.predictor.scoring import Measured, clusters_of, joined, mean_and_error, measure
from attomaton.predictor.stage.fit import (
    LOOSE,
    Groups,
    Scorer,
    by_group,
    design_of,
    sizes,
    some_windows,
)
from attomaton.predictor.stage.looking import Tables, look_at
from attomaton.predictor.stage.model import SCORE, added_up
from attomaton.predictor.stage.terms import GROUPS

WHOLE, NONE = "whole stage", "tuned score alone"

Weights = Mapping[str, Float[np.ndarray, " cells"]]


@dataclass(frozen=True)
class Worth:
    """A stage on unseen windows that hold their label, and what it has more than the whole one, with errors."""

    name: str
    weights: int
    log_loss: float
    log_loss_more: float
    log_loss_more_error: float
    top1: float
    top1_more: float
    top1_more_error: float


@dataclass(frozen=True)
class Control:
    """A stage fitted on labels that hold nothing for it: what it gains on others of the same kind, in nats."""

    name: str
    gain: float
    error: float


def leave_each_out(
    predictor: Predictor, valid: Windows, asked: Windows, progress: Progress = quiet
) -> list[Worth]:
    """The whole stage, the stage without each of its groups, each group alone, and none of them."""
    stage = predictor.stage
    assert stage is not None, "there is no stage to take apart"
    valid, asked = (aligned(w, predictor.vocabulary) for w in (valid, asked))
    prices = {name: float(predictor.record["stage"]["groups"][name]) for name in stage.weight}
    trials: dict[str, Groups] = {WHOLE: prices}
    trials |= {f"without {n}": {k: p for k, p in prices.items() if k != n} for n in prices}
    trials |= {f"only {n}": {n: p} for n, p in prices.items()}
    start = {SCORE: np.array([stage.slope]), **stage.weight}
    found = fit_each(trials, valid, predictor.tuned, stage.tables, start, progress)
    found[NONE] = {SCORE: np.ones(1)}
    measured = ask_each(found, asked, predictor.tuned, stage.tables)
    cluster = clusters_of(asked)[0][asked.realizable]
    weight = asked.weight[asked.realizable]
    table, whole = [], measured[WHOLE]
    for name, m in measured.items():
        loss, top1 = (mean_and_error(v, weight, cluster)[0] for v in (m.loss, m.top1))
        more = mean_and_error(m.loss - whole.loss, weight, cluster)
        more_hits = mean_and_error(m.top1 - whole.top1, weight, cluster)
        weights = sum(map(len, found[name].values()))
        table.append(Worth(name, weights, loss, *more, top1, *more_hits))
    return table


def control(
    predictor: Predictor,
    valid: Windows,
    asked: Windows,
    rng: np.random.Generator,
    most: int = 20_000,
) -> list[Control]:
    """The stage of a predictor fitted and asked on labels drawn from its tuned scores, then on shuffled ones."""
    stage = predictor.stage
    assert stage is not None, "there is no stage to try"
    valid, asked = (aligned(w, predictor.vocabulary) for w in (valid, asked))
    valid, asked = (
        some_windows(w, thinned(np.flatnonzero(w.realizable), most)) for w in (valid, asked)
    )
    prices = {name: float(predictor.record["stage"]["groups"][name]) for name in stage.weight}
    start = {SCORE: np.ones(1), **{name: np.zeros(len(w)) for name, w in stage.weight.items()}}
    cluster = clusters_of(asked)[0]
    controls = []
    laws: dict[str, Scorer] = {
        "redrawn": predictor.tuned,
        "shuffled": lambda bags: np.zeros(len(bags.token)),
    }
    for name, law in laws.items():
        seen, unseen = (with_labels(w, law, rng) for w in (valid, asked))
        weights = fit_each({name: prices}, seen, predictor.tuned, stage.tables, start)
        mine = ask_each(weights, unseen, predictor.tuned, stage.tables)[name]
        truth = joined(
            [measure(b, b.shares(law(b))) for b in blocks(unseen, np.arange(len(unseen)))]
        )
        gain, error = mean_and_error(truth.loss - mine.loss, unseen.weight, cluster)
        controls.append(Control(name, gain, error))
    return controls


def with_labels(windows: Windows, law: Scorer, rng: np.random.Generator) -> Windows:
    """The same windows, each with a label drawn from its own tokens by the softmax of these scores."""
    label = []
    for bags in blocks(windows, np.arange(len(windows))):
        reached = np.cumsum(bags.shares(law(bags)))
        before = np.concatenate([[0.0], reached])[bags.start[:-1]]
        at = np.searchsorted(reached, before + rng.random(len(bags)))
        label.append(bags.token[np.clip(at, bags.start[:-1], bags.start[1:] - 1)])
    return replace(
        windows, label=np.concatenate(label), realizable=np.ones(len(windows), dtype=bool)
    )


def fit_each(
    trials: Mapping[str, Groups],
    valid: Windows,
    score: Scorer,
    tables: Tables,
    start: Weights,
    progress: Progress = quiet,
) -> dict[str, Weights]:
    """The weights of each choice of groups, from weights of all of them."""
    design = design_of(valid, np.flatnonzero(valid.realizable), score, tables, list(start)[1:])
    found: dict[str, Weights] = {}
    for i, (name, groups) in enumerate(trials.items()):
        progress(i, len(trials), name)
        names = [SCORE, *groups]
        solved = design.problem(groups).solve(np.concatenate([start[n] for n in names]), LOOSE)
        found[name] = by_group(names, sizes(tables), solved.weight)
    return found


def ask_each(
    stages: Mapping[str, Weights], windows: Windows, score: Scorer, tables: Tables
) -> dict[str, Measured]:
    """Each of these stages on the windows that hold their label."""
    parts: dict[str, list[Measured]] = {name: [] for name in stages}
    for bags in blocks(windows, np.flatnonzero(windows.realizable)):
        look = look_at(bags, score(bags), tables)
        used = {group for weights in stages.values() for group in weights} - {SCORE}
        cells = {group: GROUPS[group].cells(look, tables) for group in used}
        for name, weights in stages.items():
            z = weights[SCORE][0] * look.score
            for group in weights.keys() - {SCORE}:
                z = z + added_up(cells[group], weights[group])
            parts[name].append(measure(bags, bags.shares(z)))
    return {name: joined(some) for name, some in parts.items()}
