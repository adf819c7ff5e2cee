"""Where a thousand cases go through one function, its types are checked by the other tests of it alone."""

from contextlib import contextmanager

import jaxtyping


@contextmanager
def unchecked_types():
    """Do without the suite's run-time checks of types and shapes: they take half of the time of small arrays."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
