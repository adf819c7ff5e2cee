"""The kinds and shapes of arrays in annotations, as jaxtyping writes them; read by people and by checkers.

jaxtyping takes longer to load than a small command runs, and its annotations do nothing unless calls are checked. It
is what stands here where it is loaded already, as it is wherever its checks were asked for; else names alone do.

>>> def norm(x: Float[np.ndarray, "rows columns"]) -> float: ...
>>> str(norm.__annotations__["x"]).count("Float[ndarray, 'rows columns']")
1
"""

import sys
from operator import getitem
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int, Shaped, UInt8, UInt32
else:

    class _Array:
        """Arrays of one kind and shape, in words."""

        __slots__ = ("_form", "_kind", "_of")

        def __init__(self, kind: str, of: Any, form: str):
            self._kind, self._of, self._form = kind, of, form

        def __or__(self, other: Any) -> Any:
            return getitem(Union, (self, other))  # what is no type has no `|` of its own

        def __ror__(self, other: Any) -> Any:
            return getitem(Union, (other, self))

        def __repr__(self) -> str:
            of = getattr(self._of, "__name__", self._of)
            return f"jaxtyping.{self._kind}[{of}, {self._form!r}]"

    class _Kind:
        """What makes arrays of one kind: `Float[np.ndarray, "rows columns"]`."""

        def __init__(self, name: str):
            self._name = name

        def __getitem__(self, said: tuple[Any, str]) -> _Array:
            return _Array(self._name, said[0], said[1].strip())

    kinds = "Bool", "Float", "Int", "Shaped", "UInt8", "UInt32"
    Bool, Float, Int, Shaped, UInt8, UInt32 = map(_Kind, kinds)

__all__ = ["Bool", "Float", "Int", "Shaped", "UInt8", "UInt32"]
