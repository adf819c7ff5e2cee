"""Libraries that take long to load, as modules import any other: each is loaded when something of it is first used.

JAX and Arrow take longer to load than most commands run, and many commands need neither. Whoever uses them imports
them from here, at the top as everything else.

>>> jnp.asarray([1, 2]).shape
(2,)
"""

from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    _ONE = RLock()

    class _Later:
        """A library by its name; to look at its own workings (`__doc__` and the like) does not load it."""

        def __init__(self, name: str):
            self._name = name

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            with _ONE:  # JAX must not be imported by two threads at the same moment
                module = import_module(self._name)
            return getattr(module, name)

    jax, jnp = _Later("jax"), _Later("jax.numpy")
    pa, pc, pq = map(_Later, ("pyarrow", "pyarrow.compute", "pyarrow.parquet"))

__all__ = ["jax", "jnp", "pa", "pc", "pq"]
