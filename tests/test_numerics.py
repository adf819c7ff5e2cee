"""Sums that must not depend on how many threads there are."""

import os
import subprocess
import sys

import numpy as np
import pytest

from attomaton.numerics import order_by, unique_inverse

CODE = (
    "import numpy as np; from attomaton.numerics import inner\n"
    "rng = np.random.default_rng(0); a, b = rng.normal(size=(2, 3_000_001))\n"
    "print(inner(a, b).hex(), float(a @ b).hex())"
)


def test_an_inner_product_is_the_same_for_any_number_of_threads():
    found = []
    for threads in ("1", "2", "4"):
        env = {**os.environ, **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), threads)}
        done = subprocess.run(
            [sys.executable, "-c", CODE], capture_output=True, text=True, env=env, check=True
        )
        found.append(done.stdout.split())
    ours, library = zip(*found, strict=True)
    assert len(set(ours)) == 1
    if len(set(library)) == 1:
        pytest.skip(
            "the library's own product does not depend on threads here, so nothing is shown"
        )


@pytest.mark.parametrize("most", [3, 1 << 20, 1 << 62])
def test_places_among_distinct_values_are_those_of_numpy(most):
    for size in (0, 1, 2, 500):
        key = np.random.default_rng(size).integers(0, most, size)
        for found, told in zip(
            unique_inverse(key), np.unique(key, return_inverse=True), strict=True
        ):
            assert np.array_equal(found, told)
    assert [x.tolist() for x in unique_inverse(np.array([2, -1]))] == [[-1, 2], [1, 0]]


@pytest.mark.parametrize("most", [3, 2**20, 2**40])  # the last has no room to be packed
def test_an_order_by_several_keys_is_that_of_a_stable_sort(most):
    for size in (0, 1, 2, 500):
        rng = np.random.default_rng(size)
        a, b = rng.integers(0, 4, size), rng.integers(0, most, size)
        np.testing.assert_array_equal(order_by(a, b), np.lexsort((b, a)))
        np.testing.assert_array_equal(order_by(b), np.argsort(b, kind="stable"))
    assert order_by(np.array([2, -1, -1])).tolist() == [1, 2, 0]
