"""Stages of a tuning: one thing done with every part; what a part came to is a *piece* that need not be made twice.

A piece is kept as columns of one length, by the name of its stage and the number of its part.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from attomaton.base.progress import Progress
from attomaton.predictor.fit import Fitted, Judged, Setting, Work, fit_part, judge_part

Columns = Mapping[str, np.ndarray]
Form = Mapping[str, tuple[str, tuple[int | None, ...]]]  # as `disk.formats.expect_arrays` takes it


@dataclass(frozen=True)
class Stage:
    """What is done with every part, and how its answer becomes columns and comes back from them, bit for bit."""

    name: str
    task: Callable[..., Any]  # (work, rows, argument)
    argument: Any
    form: Form
    to_columns: Callable[[Any], Columns]
    from_columns: Callable[[Columns], Any]


@runtime_checkable
class Over(Protocol):
    """Who does a stage, and where: `in_turn` here, or whoever has more workers and keeps what is finished."""

    def __call__(
        self, stage: Stage, work: Work, parts: Sequence[np.ndarray], progress: Progress
    ) -> list[Any]:
        """The answers of all parts, in their order."""


def in_turn(stage: Stage, work: Work, parts: Sequence[np.ndarray], progress: Progress) -> list[Any]:
    """The answers of all parts, one after the other."""
    answers = []
    for rows in parts:
        answers.append(stage.task(work, rows, stage.argument))
        progress(len(answers), len(parts), stage.name)
    return answers


def do_part(work: Work, asked: tuple[Callable[..., Any], np.ndarray, Any]) -> Any:
    """One part of a stage, wherever this is: its task, its rows and the stage's argument."""
    task, rows, argument = asked
    return task(work, rows, argument)


def judging(name: str, settings: Sequence[Setting]) -> Stage:
    """A stage that judges these settings: one row each."""
    fields = Judged._fields
    return Stage(
        name,
        judge_part,
        settings,
        dict.fromkeys(fields, ("f", (len(settings),))),
        lambda judged: dict(zip(fields, np.array(judged).T, strict=True)),
        lambda x: [
            Judged(*row) for row in zip(*(x[field].tolist() for field in fields), strict=True)
        ],
    )


def fitting(name: str, setting: Setting) -> Stage:
    """A stage that fits one setting: a row for each pair, with the part's own figures beside all of them."""
    return Stage(
        name,
        fit_part,
        setting,
        {field: (kind, (None,)) for field, kind in zip(Fitted._fields, "ifffi", strict=True)},
        lambda fitted: {
            field: np.broadcast_to(value, fitted.key.shape)
            for field, value in fitted._asdict().items()
        },
        lambda x: Fitted(
            x["key"], x["correction"], float(x["loss"][0]), float(x["residual"][0]), int(x["steps"][0])
        ),
    )  # fmt: skip
