"""The kinds and shapes of arrays in annotations, as jaxtyping writes them; read by people and by checkers.

jaxtyping takes longer to load than a small command runs, and its annotations do nothing unless calls are checked. It
stands here where it is loaded already, as wherever its checks were asked for; else there are words.

>>> def norm(x: Float[np.ndarray, "rows columns"]) -> float: ...
"""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np  # noqa: F401  # of the example

__all__ = ["Bool", "Float", "Int", "Shaped", "UInt8", "UInt32"]

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int, Shaped, UInt8, UInt32
else:

    class _Kind(str):
        """What makes arrays of one kind: `Float[np.ndarray, "rows columns"]`."""

        def __getitem__(self, said: Any) -> Any:
            return Annotated[said[0], f"{self} {said[1].strip()!r}"]

    Bool, Float, Int, Shaped, UInt8, UInt32 = map(_Kind, __all__)
