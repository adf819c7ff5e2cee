"""The stage as it is kept: its tables, its weights, its gate; scores, terms and branches of any contexts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attomaton.base.shapes import Float
from attomaton.disk.formats import AGAIN, expect_arrays
from attomaton.errors import DataError
from attomaton.predictor.backoff import FAR
from attomaton.predictor.bags import Bags
from attomaton.predictor.kneser_ney import KneserNey
from attomaton.predictor.priors import Kin
from attomaton.predictor.stage.gate import WindowGate, feature_names
from attomaton.predictor.stage.looking import Look, Tables, look_at
from attomaton.predictor.stage.terms import GROUPS, Cells

SCORE = "tuned score"
_GATE = ("gate_mean", "gate_spread", "gate_weight", "gate_least", "gate_largest")


@dataclass(frozen=True, eq=False)
class ConvexStage:
    """log-odds(x) = slope · (tuned score) + Σ of the groups' terms; a gate beside them for all windows."""

    tables: Tables
    slope: float
    weight: Mapping[str, Float[np.ndarray, " cells"]]  # by the name of the group
    gate: WindowGate

    def look(self, bags: Bags, score: Float[np.ndarray, " incidences"]) -> Look:
        """What it sees of these bags, whose tuned scores are given."""
        return look_at(bags, score, self.tables)

    def terms(self, look: Look) -> dict[str, Float[np.ndarray, " incidences"]]:
        """What the tuned score and each group add to the log-odds."""
        found = {SCORE: self.slope * look.score}
        for name, weight in self.weight.items():
            found[name] = added_up(GROUPS[name].cells(look, self.tables), weight)
        return found

    def log_odds(self, look: Look) -> Float[np.ndarray, " incidences"]:
        """The sum of all terms; its softmax is the distribution inside a context."""
        return np.asarray(sum(self.terms(look).values()))

    # On disk

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays."""
        kin, gate = self.tables.kin, self.gate
        return {
            **self.tables.ngrams.arrays(),
            "kin_left": kin.left,
            "kin_right": kin.right,
            "slope": np.array([self.slope]),
            **{f"weight {name}": value for name, value in self.weight.items()},
            **dict(zip(_GATE, vars(gate).values(), strict=True)),
        }

    @classmethod
    def from_arrays(cls, path: Path, a: Mapping[str, np.ndarray], K: int) -> "ConvexStage":
        """The stage that `arrays` wrote; anything else is refused in the name of this file."""
        expect_arrays(path, a, {"kin_left": ("f", (K, None)), "slope": ("f", (1,))})
        expect_arrays(path, a, {"kin_right": ("f", a["kin_left"].shape)})
        tables = Tables(KneserNey.from_arrays(path, a, K), Kin(a["kin_left"], a["kin_right"]))
        weight = {}
        for name, group in GROUPS.items():
            if f"weight {name}" in a:
                expect_arrays(path, a, {f"weight {name}": ("f", (group.size(tables),))})
                weight[name] = a[f"weight {name}"]
        features = len(feature_names(tables))
        # Folders of earlier versions do not say how far the features of their gate went.
        ends = {"gate_least": -FAR, "gate_largest": FAR}
        a = {**{name: np.full(features, end) for name, end in ends.items()}, **a}
        expect_arrays(path, a, dict.fromkeys(_GATE, ("f", (features,))))
        if not (a["gate_spread"] > 0).all():
            raise DataError(f"{path}: spreads are more than 0; {AGAIN}.")
        gate = WindowGate(*(a[name] for name in _GATE))
        return cls(tables, float(a["slope"][0]), weight, gate)


def added_up(cells: Cells, weight: Float[np.ndarray, " cells"]) -> Float[np.ndarray, " incidences"]:
    """The cells of a table, added up for every incidence."""
    found = np.zeros(len(cells.at))
    for at, value in zip(cells.at.T, cells.value.T, strict=True):
        found += weight[at] * value
    return found
