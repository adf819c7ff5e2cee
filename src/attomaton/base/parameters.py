"""Constructor arguments in the manner of scikit-learn: kept as they are given, read and set by name."""

import inspect
from typing import Any

import numpy as np

from attomaton.errors import UsageError, nearest


class Parameters:
    """What estimators share: `get_params`, `set_params`, and a line of code that makes the same one."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name (`deep` changes nothing: none is an estimator)."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **params: Any) -> "Parameters":
        """Set constructor arguments by name; all of them or, where a name is wrong, none."""
        names = list(self._parameters())
        for name in params:
            if name not in names:
                hint = nearest(name, names)
                hint = hint if hint != "." else f"; choose from {names}."
                raise UsageError(f"{type(self).__name__} has no parameter {name!r}{hint}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = []
        for name, parameter in self._parameters().items():
            value = getattr(self, name)
            if repr(value) != repr(parameter.default):
                array = isinstance(value, np.ndarray)
                said = f"<array of shape {value.shape}>" if array else repr(value)
                shown.append(f"{name}={said}")
        return f"{type(self).__name__}({', '.join(shown)})"

    @classmethod
    def _parameters(cls) -> dict[str, inspect.Parameter]:
        """The constructor's arguments, read off its signature."""
        return dict(list(inspect.signature(cls.__init__).parameters.items())[1:])
