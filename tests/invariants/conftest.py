"""Invariants run without the suite's run-time type checks: all other tests have those, and time goes into examples."""

import pytest
from tests.unchecked import unchecked_types


@pytest.fixture(autouse=True, scope="module")
def _unchecked_types():
    with unchecked_types():
        yield
