"""Invariants run without the suite's run-time type checks: all other tests have those, and time goes into examples."""

import jaxtyping
import pytest


@pytest.fixture(autouse=True, scope="module")
def _unchecked_types():
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
