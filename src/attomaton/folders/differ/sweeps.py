"""How two sweeps differ: cells of the same settings, held against each other seed by seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attomaton.disk.formats import to_json
from attomaton.folders.sweep import MEASURED, Cell, Row, Sweep, read_sweep

MOST = 5  # cells that are told as examples


@dataclass(frozen=True)
class Pair:
    """A cell that ended unlike: its error, the mean of what was measured, or None where it has not ended."""

    settings: Cell
    a: str | dict[str, float] | None
    b: str | dict[str, float] | None


@dataclass(frozen=True)
class Cells:
    """How the cells of two sweeps differ, and those only one of them has."""

    same: bool
    compared: int
    different: int
    examples: list[Pair]
    only_a: list[Cell]
    only_b: list[Cell]


@dataclass(frozen=True)
class _Ended:
    """One cell: its settings, and how it ended."""

    settings: Cell
    rows: list[Row]
    error: str | None

    @property
    def told(self) -> str | dict[str, float] | None:
        if self.error is not None or not self.rows:
            return self.error
        return {name: float(np.mean([getattr(r, name) for r in self.rows])) for name in MEASURED}

    @property
    def exact(self) -> str:
        """All of it but the cell's number; JSON knows NaN from a number, and NaN as itself."""
        measured = [[row.status, *(getattr(row, name) for name in MEASURED)] for row in self.rows]
        return to_json([measured, self.error])


def sweep_difference(a: Path, b: Path) -> Cells:
    """How two sweeps differ."""
    x, y = dict(_by_settings(read_sweep(a))), dict(_by_settings(read_sweep(b)))
    both = [key for key in x if key in y]
    unlike = [key for key in both if x[key].exact != y[key].exact]
    only_a = [x[key].settings for key in x if key not in y]
    only_b = [y[key].settings for key in y if key not in x]
    examples = [Pair(x[key].settings, x[key].told, y[key].told) for key in unlike[:MOST]]
    same = not (unlike or only_a or only_b)
    return Cells(same, len(both), len(unlike), examples, only_a, only_b)


def _by_settings(sweep: Sweep) -> Iterator[tuple[str, _Ended]]:
    rows: dict[int, list[Row]] = {}
    for row in sweep.rows:
        rows.setdefault(row.cell, []).append(row)
    for i, cell in enumerate(sweep.cells):
        key = to_json(dict(sorted(cell.items())), indent=None)
        yield key, _Ended(cell, rows.get(i, []), sweep.failed.get(i))
