"""The figures of the story: what each step computes from the example, and how it is drawn."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.measure import measure, yardstick
from attomaton.corpus.example import example_samples
from attomaton.corpus.vocabulary import Label
from attomaton.lab.jobs import Job
from attomaton.lab.kit.charts import (
    COLOURS,
    ROW,
    Axis,
    Legend,
    Margins,
    Mark,
    Picture,
    Series,
    names_down,
)
from attomaton.lab.kit.contexts import visible
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.scan_snap.data import SequenceClasses, sequence_classes
from attomaton.scan_snap.levels import simulate
from attomaton.scan_snap.trajectory import Dynamics

ASKED = ("floor", "order", "bill", "dishes", "guest")
TIED = ("order", "bill", "guest")
QUERY, WATCHED = "bell", "espresso"  # the last token and the class whose attention is watched
RADII = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)
STEPS, UNTIL = 20_000, 1e5
RATES = (1.0, 10.0)  # of the decoder


class Cafe:
    """The example, solved; small enough to be computed when a page first asks."""

    @cached_property
    def automaton(self) -> Automaton:
        """What training on it tends to."""
        return Automaton(solve_limit(example_samples()))

    def attention(self, context: Sequence[Label], radius: float = np.inf) -> dict[Label, float]:
        """The layer's attention on a context, the weights `radius` long beyond their soft part."""
        return dict(self.automaton.predict_proba(context, radius))

    @cached_property
    def classes(self) -> SequenceClasses:
        """What the waiter turns to after the bell, as classes: for each, how often every dish waits beside it."""
        samples = self.automaton.limit.samples
        words = samples.vocabulary
        query = words.id_of(QUERY)
        own = [i for i in range(len(samples)) if samples.last[i] == query != samples.label[i]]
        labels = sorted({int(samples.label[i]) for i in own})
        counts = np.zeros((len(labels), len(words) + len(labels)))
        for i in own:
            row = labels.index(int(samples.label[i]))
            for token, count in samples.bag(i).items():
                if token != QUERY:
                    counts[row, words.id_of(token)] += count * samples.weight[i]
        law = counts / counts.sum(axis=1, keepdims=True)
        names = (*(str(words[i]) for i in range(len(words))), *(f"next {words[x]}" for x in labels))
        nexts = range(len(words), len(names))
        return sequence_classes(law, [query] * len(labels), list(nexts), names)

    @cached_property
    def dynamics(self) -> Dynamics:
        """How attention moves after the bell, for each learning rate of the decoder."""
        return simulate(self.classes, "reduced", eta_y=np.array(RATES), eta_z=1.0, until=UNTIL)

    def train(self, job: Job) -> Picture:
        """Train the layer on the example, from zero; what falls as it goes on is drawn."""
        from attomaton.mechanics.experiment.train import train

        limit = self.automaton.limit
        floor = limit.summary().loss_floor
        run = train(
            limit.samples, steps=STEPS, every="log", record=measure, context=yardstick(limit),
            progress=job.progress,
        )  # fmt: skip
        kept = run.steps > 0
        over = np.maximum(run.records["loss"][0] - floor, 1e-12)[kept].tolist()
        step, cosine = run.steps[kept].tolist(), run.records["cosine_outside"][0][kept].tolist()
        away = [max(1 - c, 1e-12) for c in cosine]
        return Picture(
            x=Axis("step", log=True),
            y=Axis(log=True),
            series=[
                _line(step, over, "loss over L*", "$blue"),
                _line(step, away, "1 − cosine", "$vermilion"),
            ],
            header=["step", "loss over L*", "cosine"],
            rows=list(zip(step, over, cosine, strict=True)),
            legend=Legend(),
        )


def bars(shares: dict[Label, float]) -> Picture:
    """Shares of tokens as bars."""
    names = [visible(x) for x in shares]
    values = [round(p, 6) for p in shares.values()]
    return Picture(
        x=Axis("attention", low=0, high=1),
        y=names_down(names),
        series=[Series("bar", values, "attention", "$blue")],
        header=["token", "attention"],
        rows=list(zip(names, values, strict=True)),
        hover=ROW,
        margins=Margins(8, 24, 8, 26, labels=True),
    )


def scan(run: Dynamics) -> Picture:
    """Attention of one class over time: from what all share to what is its own."""
    classes = run.classes
    n = classes.names[len(classes.names) - classes.K :].index(f"next {WATCHED}")
    tokens = np.flatnonzero(classes.P[n])
    names = [classes.names[x] for x in tokens]
    lines = zip(names, run.attention[0][:, n, tokens].T, strict=True)
    return _over_time(run, Axis("attention", low=0, high=1, gap=34), dict(lines), names)


def snap(run: Dynamics) -> Picture:
    """How spread attention is over time, for two learning rates of the decoder: it falls, then freezes."""
    spread = [_entropy(run.attention[r]) for r in range(len(RATES))]
    names = [f"entropy at {rate:g}" for rate in RATES]
    lines = {f"decoder learns at {rate:g}": s for rate, s in zip(RATES, spread, strict=True)}
    start = Mark("at the start", y=float(spread[0][0]))
    return _over_time(run, Axis("entropy of attention", low=0, gap=34), lines, names, [start])


def _over_time(
    run: Dynamics,
    y: Axis,
    lines: Mapping[str, Float[np.ndarray, " times"]],
    columns: Sequence[str],
    marks: Sequence[Mark] = (),
) -> Picture:
    """Lines over time by their names, those for which there is a colour, the first with marks; a column for each."""
    t = np.asarray(run.t, float)
    table = np.column_stack([t, *lines.values()])[t > 0]
    drawn = zip(lines, table.T[1:], COLOURS[:5], strict=False)
    return Picture(
        x=Axis("time t", log=True),
        y=y,
        series=[
            _line(table[:, 0], line, name, colour, marks=() if i else marks)
            for i, (name, line, colour) in enumerate(drawn)
        ],
        header=["t", *columns],
        rows=table.tolist(),
        legend=Legend(),
        margins=Margins(40, 16, 34, 26, labels=True),
    )


def _line(x: Iterable[float], y: Iterable[float], name: str, colour: str, **more: Any) -> Series:
    data = [[float(a), float(b)] for a, b in zip(x, y, strict=True)]
    return Series("line", data, name, colour, more={"showSymbol": False}, **more)


def _entropy(attention: Float[np.ndarray, "times classes tokens"]) -> Float[np.ndarray, " times"]:
    logs = np.log(np.where(attention > 0, attention, 1.0))
    return np.asarray(-(attention * logs).sum(axis=-1).mean(axis=-1))
