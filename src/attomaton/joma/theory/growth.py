r"""How components grow under attention that follows them: $\dot v = (\mu - v) \circ \mathrm{softmax}(v^2/T)$.

The sum under the softmax is the same for all components: it only sets the pace. In its own time,
$ds = dt / \sum_j e^{v_j^2/T}$, they know nothing of each other, and with $v = \mu - (\mu - v_0)e^{-r}$

$$s_j(r) = \int_0^r e^{-v_j(\rho)^2/T} d\rho, \qquad t = \int \sum_j e^{v_j^2/T}\, ds .$$

So the whole course is quadrature: no step of training is taken. At the same $s$ a larger $\mu$ is further ahead by
$e^{\mu^2/T}$: it is learned first and takes the attention, whose entropy dips; as the others arrive it rises again.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Float
from attomaton.errors import SolverError, UsageError

CELL = 0.01  # of r, in which each component would fall by a hundredth of what is left of its way
LONGEST = 10**6  # cells


@dataclass(frozen=True, eq=False)
class Growth:
    """Components over time, and the entropy of their attention in nats."""

    t: Float[np.ndarray, " times"]
    v: Float[np.ndarray, "times components"]
    entropy: Float[np.ndarray, " times"]


def attention_entropy(
    v: Float[np.ndarray, "times components"], temperature: float
) -> Float[np.ndarray, " times"]:
    """Entropy of softmax(v²/T) in nats.

    >>> attention_entropy(np.zeros((1, 4)), 1.0).round(3)
    array([1.386])
    """
    log = np.square(v) / temperature
    log = log - log.max(axis=1, keepdims=True)
    log = log - np.log(np.exp(log).sum(axis=1, keepdims=True))
    return -(np.exp(log) * log).sum(axis=1)


def predicted_growth(
    target: Float[np.ndarray, " components"],
    start: float,
    temperature: float,
    times: Float[np.ndarray, " times"],
) -> Growth:
    """v at these times, all components from `start` below their targets μ: by quadrature."""
    from scipy.interpolate import CubicHermiteSpline

    mu, times = np.asarray(target, float), np.asarray(times, float)
    if not (mu > start).all() or not start >= 0 or not temperature > 0:
        raise UsageError(
            "growth: targets above the start, which is not negative, and a temperature are needed."
        )
    first, cells = int(mu.argmax()), 1024
    while cells <= LONGEST:
        # In steps of the component that is fastest, so that no turn of the others is missed either.
        r = CELL * np.arange(cells + 1)
        s = _pace(r, mu[first], start, temperature)
        v = np.stack([_at(s, x, start, temperature) for x in mu], axis=1)
        rate = np.exp(np.square(v) / temperature).sum(axis=1)
        t = _integral(s, rate, _slope(v, mu, temperature))
        if t[-1] >= times.max(initial=0.0):
            slope = (mu - v) * np.exp(np.square(v) / temperature) / rate[:, None]
            found = CubicHermiteSpline(t, v, slope)(times)
            return Growth(times, found, attention_entropy(found, temperature))
        cells *= 2
    raise SolverError("growth: times are too long for this temperature.")


def _way(r: np.ndarray, mu: float, start: float) -> np.ndarray:
    return mu - (mu - start) * np.exp(-r)


def _pace(r: np.ndarray, mu: float, start: float, temperature: float) -> np.ndarray:
    """s at each r of one component: Gauss' rule with four points in every cell."""
    node, weight = np.polynomial.legendre.leggauss(4)
    wide = np.diff(r)[:, None]
    inner = r[:-1, None] + wide * (node + 1) / 2
    value = np.exp(-np.square(_way(inner, mu, start)) / temperature)
    return np.append(0.0, np.cumsum((value * weight).sum(axis=1) * wide[:, 0] / 2))


def _at(s: np.ndarray, mu: float, start: float, temperature: float) -> np.ndarray:
    """One component at each s: its own s(r), turned round."""
    from scipy.interpolate import CubicHermiteSpline

    cells = 1024
    while cells <= LONGEST:
        r = CELL * np.arange(cells + 1)
        own = _pace(r, mu, start, temperature)
        if own[-1] >= s[-1]:
            back = CubicHermiteSpline(own, r, np.exp(np.square(_way(r, mu, start)) / temperature))
            return _way(back(s), mu, start)
        cells *= 2
    raise SolverError("growth: times are too long for this temperature.")


def _slope(v: np.ndarray, mu: np.ndarray, temperature: float) -> np.ndarray:
    """How Σ exp(v²/T) changes with s."""
    grown = np.exp(np.square(v) / temperature)
    return (grown * 2 * v / temperature * (mu - v) * grown).sum(axis=1)


def _integral(x: np.ndarray, y: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """∫ y dx from the first x on, by the cubic through values and slopes."""
    h = np.diff(x)
    cell = h * (y[:-1] + y[1:]) / 2 + h**2 * (slope[:-1] - slope[1:]) / 12
    return np.append(0.0, np.cumsum(cell))
