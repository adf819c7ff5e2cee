"""What people see of an object: one line, a table in a notebook, a table for other libraries, a figure.

The rooms that compute stand below `report`, which draws, and import nothing from it. Here is the one place where they
meet: what draws is found by its name when somebody asks, never before.
"""

from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from numbers import Number
from typing import Any

import numpy as np

from attomaton.errors import UsageError, visible

LONGEST = 200  # characters of the line that stands for an object


class Shown:
    """An object with much inside that is one line to look at."""

    __slots__ = ()

    def __repr__(self) -> str:
        return visible(f"{type(self).__name__}({self._in_short()})", LONGEST)

    def _in_short(self) -> str:
        """What the line says: of a record, its numbers, and the shapes of its arrays."""
        assert is_dataclass(self)
        return ", ".join(f"{x.name}={_brief(getattr(self, x.name))}" for x in fields(self))


class Tabular(Shown):
    """An object that is a table: `to_arrow` says which, and other libraries and notebooks get that one."""

    __slots__ = ()

    def to_arrow(self) -> Any:
        """The table as a `pyarrow.Table`; the class says what its rows and columns are."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """The table of `to_arrow` as a `pandas.DataFrame`, its tokens as categories. Needs pandas."""
        if find_spec("pandas") is None:
            raise UsageError(
                "to_pandas needs pandas, which is not installed: pip install pandas, or use to_arrow."
            )
        return self.to_arrow().to_pandas()

    def _notes(self) -> str:
        """Sentences that stand under the table."""
        return ""

    def _repr_html_(self) -> str:
        """What a notebook shows: the line, the first and the last rows, the notes."""
        return _shower("html.notebook").preview(repr(self), self.to_arrow(), self._notes())


def figure_of(thing: object, *arguments: Any) -> Any:
    """The figure of an object, as `report.figures.plots` draws it (a `matplotlib.figure.Figure`)."""
    return _shower("figures.plots").figure(thing, *arguments)


def _shower(module: str) -> Any:
    """A module of `report`, by name."""
    return import_module(f"attomaton.report.{module}")


def _brief(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"<{'×'.join(map(str, value.shape))}>"
    if isinstance(value, str):
        return repr(visible(value, 40))
    if isinstance(value, float):
        return f"{value:.6g}"
    plain = value is None or isinstance(value, Number)
    return str(value) if plain else type(value).__name__
