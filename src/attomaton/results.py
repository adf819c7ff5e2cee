"""Frozen records of answers and of how far they can be trusted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from attomaton.base.face import Shown

# What a claim measures, by name: numbers and words, lists and tables of them, or several such under one name.
Scalar = bool | int | float | str | None
Quantity = Scalar | Sequence[Scalar] | Sequence[Sequence[Scalar]] | Sequence[Mapping[str, Scalar]]
Quantities = Mapping[str, Quantity | Mapping[str, Quantity | Mapping[str, Quantity]]]
Result = dict[str, Any]  # the numbers of a published figure, with a `verdict` and a `control`
Numbers = Sequence[float | None]  # JSON has no NaN: it reads as None


def absent() -> Any:
    """The default of a field that may be None and is then left out of what is written."""
    return field(default=None, metadata={"absent": True})


class Verdict(StrEnum):
    """How a claim ended; only `HOLDS` is green."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_APPLICABLE = "not applicable"
    SKIPPED = "skipped"  # not put to the test this time
    INCONCLUSIVE = "inconclusive"

    @classmethod
    def of(cls, holds: object) -> "Verdict":
        """`HOLDS`, or `FAILS`."""
        return cls.HOLDS if holds else cls.FAILS


@dataclass(frozen=True)
class KKT:
    """Optimality residuals of a quadratic program, recomputed from the data: all three 0 is a proof.

    `primal` is the worst violated margin (margins are 1), `dual` the worst stationarity defect or negative
    multiplier relative to the largest multiplier, `gap` the difference between the primal and the dual
    objective relative to the objective.
    """

    primal: float
    dual: float
    gap: float

    @property
    def worst(self) -> float:
        """The largest of the three."""
        return max(self.primal, self.dual, self.gap)


@dataclass(frozen=True)
class Assumption:
    """One condition of a theorem, looked at on the data at hand."""

    name: str
    holds: bool
    found: str  # what was measured, in words and numbers


@dataclass(frozen=True)
class Line:
    """One line of a panel; `style` is "measured", "theory" or "points".

    `low` and `high` draw a band, `error` error bars. Without a `colour` (a number) a line has that of its place.
    """

    x: Numbers
    y: Numbers
    style: str = "measured"
    label: str | None = absent()
    low: Numbers | None = absent()
    high: Numbers | None = absent()
    error: Numbers | None = absent()
    colour: int | None = absent()
    ink: str | None = absent()  # of a line of theory


@dataclass(frozen=True)
class Upright:
    """A vertical line across a panel, in the colour of the line of that number."""

    x: float | None
    label: str | None = absent()
    colour: int | None = absent()


@dataclass(frozen=True)
class Panel:
    """One picture in plain data: lines, theory and measurement on the same axes, or a heat map.

    Scales are "linear" or "log"; `legend` is a place, "outside" (to the right) or "none". `low` and `high` are the
    ends of the colours of a heat map, `colour` says what they mean.
    """

    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    lines: Sequence[Line] = ()
    xscale: str | None = absent()
    yscale: str | None = absent()
    legend: str | None = absent()
    marks: Sequence[Upright] | None = absent()
    heat: Sequence[Numbers] | None = absent()
    xticks: Sequence[Scalar] | None = absent()
    yticks: Sequence[Scalar] | None = absent()
    colour: str | None = absent()
    low: float | None = absent()
    high: float | None = absent()


@dataclass(frozen=True, repr=False)
class Evidence(Shown):
    """One claim put to the test: what theory predicts, what was measured, and the verdict.

    `prediction` comes from theory code alone, `measured` from training code alone. `control` is the same measurement
    against a prediction that must be wrong; its verdict must be `FAILS`, or the claim's own agreement means nothing.
    `settings` are sizes and seeds: what makes it again.

    >>> from attomaton import check_claim
    >>> evidence = check_claim("convexity", problems=1, lines=2)
    >>> evidence, evidence.stands
    (Evidence(convexity holds, its control fails), True)
    """

    verdict: Verdict
    control: Verdict
    tolerance: str
    measured: Quantities
    control_measured: Quantities
    claim: str = ""  # its name, title, statement and place in the paper: the registry of claims fills them in
    title: str = ""
    statement: str = ""
    paper: str = ""
    formula: str = ""
    assumptions: tuple[Assumption, ...] = ()
    prediction: Quantities = field(default_factory=dict)
    reason: str = ""  # where the tolerance comes from
    panels: Sequence[Panel] = ()
    settings: Quantities = field(default_factory=dict)

    def _in_short(self) -> str:
        return f"{self.claim or 'a claim'} {self.verdict}, its control {self.control}"

    @property
    def stands(self) -> bool:
        """The claim holds and its control fails."""
        return self.verdict is Verdict.HOLDS and self.control is Verdict.FAILS


@dataclass(frozen=True, repr=False)
class Checked(Evidence):
    """Evidence as a verification leaves it: with the seconds it took and the command that makes it again."""

    seconds: float = 0.0
    command: str = ""
    error: str | None = absent()  # where the check did not end
