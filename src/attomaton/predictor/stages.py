"""Stages of a tuning: one thing done with every part; what a part came to is a *piece* that need not be made twice.

A piece is kept as columns of one length, by the name of its stage and the number of its part.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from attomaton.base.progress import Progress
from attomaton.predictor.fit import Fitted, Judged, Setting, Work, fit_part, judge_part, over_parts

Columns = Mapping[str, np.ndarray]
Form = Mapping[str, tuple[str, tuple[int | None, ...]]]  # as `disk.formats.expect_arrays` takes it


@runtime_checkable
class Pieces(Protocol):
    """Where finished pieces are kept, by name."""

    def load(self, name: str, form: Form) -> Columns | None:
        """The piece of this name, None where it is not finished; one that is not of this form is refused."""

    def save(self, name: str, columns: Columns) -> None:
        """Keep a piece that is finished."""


class Forgotten:
    """No pieces: for a tuning that is done in one go."""

    def load(self, name: str, form: Form) -> Columns | None:
        """Never anything."""

    def save(self, name: str, columns: Columns) -> None:
        """Let it go."""


@dataclass(frozen=True)
class Stage:
    """What is done with every part, and how its answer becomes columns and comes back from them, bit for bit."""

    name: str
    task: Callable[..., Any]  # (work, rows, argument)
    argument: Any
    form: Form
    to_columns: Callable[[Any], Columns]
    from_columns: Callable[[Columns], Any]

    def over(
        self,
        work: Work,
        parts: Sequence[np.ndarray],
        workers: int,
        pieces: Pieces,
        progress: Progress,
    ) -> list[Any]:
        """The answers of all parts, in their order: as they were kept, or found now and kept."""
        names = [f"{self.name}-{number}" for number in range(len(parts))]
        kept = {i: pieces.load(name, self.form) for i, name in enumerate(names)}
        return over_parts(
            self.task, work, parts, self.argument, workers,
            progress=lambda done, total, what: progress(done, total, self.name),
            known={i: self.from_columns(x) for i, x in kept.items() if x is not None},
            keep=lambda i, answer: pieces.save(names[i], self.to_columns(answer)),
        )  # fmt: skip


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
