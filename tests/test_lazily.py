"""Types and shapes at the borders of the package are checked while the tests run."""

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError, jaxtyped
from tests.lazily import checked

from attomaton.numerics import cosine


@jaxtyped(typechecker=checked)
def doubled(x: Float[np.ndarray, " n"], twin: Float[np.ndarray, " n"]) -> Float[np.ndarray, "2 n"]:
    return np.stack([x, twin]) if len(x) < 3 else x


def test_arguments_and_results_are_checked_at_every_call():
    two, four = np.ones(2), np.ones(4)
    assert doubled(two, two).shape == (2, 2)
    for arguments in ((two, four), (two.astype(int), two), ([1.0], [1.0]), (four, four)):
        with pytest.raises(TypeCheckError):
            doubled(*arguments)
    assert doubled(two, two).shape == (2, 2)


def test_functions_of_the_package_are_checked():
    assert cosine(np.ones(2), np.ones(2)) == pytest.approx(1)
    with pytest.raises(TypeCheckError):
        cosine(np.ones(2), np.ones(3))
