r"""The nonlinear equation in steps, $v \leftarrow v + \eta\, (\mu - v) \circ a$: attention follows $v$ or is even."""

import numpy as np

from attomaton.base.shapes import Float
from attomaton.errors import UsageError, whole_number


def drawn_targets(seed: int, d: int = 10, low: float = 1.0, high: float = 4.0) -> np.ndarray:
    """μ, uniform between two ends, sorted."""
    whole_number("d", d, least=1)
    return np.sort(np.random.default_rng([seed, 3]).uniform(low, high, d))


def grow_in_steps(
    target: Float[np.ndarray, " components"],
    start: float,
    temperature: float,
    lr: float,
    steps: int,
    even: bool = False,
) -> Float[np.ndarray, "steps components"]:
    """v before every step and after the last; `even` keeps attention at 1/d."""
    if not lr > 0 or not temperature > 0:
        raise UsageError("lr and temperature must be positive.")
    v = np.full(len(target), float(start))
    course = np.empty((whole_number("steps", steps, least=1) + 1, len(v)))
    course[0] = v
    for step in range(1, steps + 1):
        raised = np.exp((v * v - (v * v).max()) / temperature)
        a = 1.0 / len(v) if even else raised / raised.sum()
        v = v + lr * (target - v) * a
        course[step] = v
    return course
