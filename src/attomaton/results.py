"""Frozen records of answers and of how far they can be trusted."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from attomaton.base.face import Shown


class Verdict(StrEnum):
    """How a claim ended; only `HOLDS` is green."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_APPLICABLE = "not applicable"
    INCONCLUSIVE = "inconclusive"


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


@dataclass(frozen=True, repr=False)
class Evidence(Shown):
    """One claim put to the test: what theory predicts, what was measured, and the verdict.

    `prediction` comes from theory code alone, `measured` from training code alone. `control` is the same measurement
    against a prediction that must be wrong; its verdict must be `FAILS`, or the claim's own agreement means nothing.
    `panels` are pictures in plain data, theory and measurement on the same axes (see `report.figures.panels`).

    >>> from attomaton import check_claim
    >>> evidence = check_claim("convexity", problems=1, lines=2)
    >>> evidence, evidence.stands
    (Evidence(convexity holds, its control fails), True)
    """

    verdict: Verdict
    control: Verdict
    tolerance: str
    measured: dict[str, Any]
    control_measured: dict[str, Any]
    claim: str = ""  # its name, title and statement: the registry of claims fills them in
    title: str = ""
    statement: str = ""
    formula: str = ""
    assumptions: tuple[Assumption, ...] = ()
    prediction: dict[str, Any] = field(default_factory=dict)
    reason: str = ""  # where the tolerance comes from
    panels: tuple[dict[str, Any], ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)  # sizes, seeds: what makes it again

    def _in_short(self) -> str:
        return f"{self.claim or 'a claim'} {self.verdict}, its control {self.control}"

    @property
    def stands(self) -> bool:
        """The claim holds and its control fails."""
        return self.verdict is Verdict.HOLDS and self.control is Verdict.FAILS
