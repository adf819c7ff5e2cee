r"""A conditional logit with a ridge, solved to a certificate.

$$\min_w \; -\sum_i v_i \log \frac{e^{z_i(y_i)}}{\sum_{x \in X_i} e^{z_i(x)}} + \frac{1}{2} \sum_k \rho_k (w_k - c_k)^2,
  \qquad z_i(x) = \sum_k w_k\, \varphi_{ik}(x),$$

with weights $v_i$ that add up to 1. Convex, and strictly so where all $\rho_k > 0$: one minimum, whatever the start.
Newton's method; its steps by conjugate gradients, preconditioned by the diagonal.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.errors import SolverError

STEPS = 60
CONJUGATE = 400  # conjugate gradients in one Newton step
SHORTEST = 1e-8  # of a Newton step
EXACT = 1e-9  # residual of a logistic regression


class Minimum(NamedTuple):
    """Where the minimum lies, its value, the largest gradient entry relative to its scale, and the steps taken."""

    weight: Float[np.ndarray, " weights"]
    loss: float
    residual: float
    steps: int


class _Point(NamedTuple):
    loss: float
    slope: Float[np.ndarray, " weights"]
    p: Float[np.ndarray, " incidences"]


@dataclass(frozen=True, eq=False)
class Problem:
    """The design (a sparse row for each token of each window), who won, and the ridge."""

    X: Any  # scipy.sparse.csr_array, (incidences, weights)
    start: Int[np.ndarray, " windows_and_one"]
    label_at: Int[np.ndarray, " windows"]
    share: Float[np.ndarray, " windows"]  # v, adding up to 1
    ridge: Float[np.ndarray, " weights"]
    centre: Float[np.ndarray, " weights"]

    @cached_property
    def _length(self) -> Int[np.ndarray, " windows"]:
        return np.diff(self.start)

    @cached_property
    def _won(self) -> Float[np.ndarray, " weights"]:
        won = np.zeros(self.X.shape[0])
        won[self.label_at] = self.share
        return np.asarray(self.X.T @ won)

    def _sums(self, value: Float[np.ndarray, " incidences"]) -> Float[np.ndarray, " windows"]:
        return np.add.reduceat(value, self.start[:-1])

    def _spread(self, value: Float[np.ndarray, " windows"]) -> Float[np.ndarray, " incidences"]:
        return np.repeat(value, self._length)

    def point(self, w: Float[np.ndarray, " weights"]) -> _Point:
        """Value, gradient and shares at these weights."""
        z = self.X @ w
        top = np.maximum.reduceat(z, self.start[:-1])
        p = np.exp(z - self._spread(top))
        total = self._sums(p)
        p /= self._spread(total)
        away = w - self.centre
        loss = -(self.share * (z[self.label_at] - top - np.log(total))).sum()
        slope = self.X.T @ (p * self._spread(self.share)) - self._won + self.ridge * away
        return _Point(float(loss + 0.5 * (self.ridge * away * away).sum()), np.asarray(slope), p)

    def scale(self, p: Float[np.ndarray, " incidences"]) -> float:
        """What an entry of the gradient can be: the larger of what was expected and what happened."""
        expected = self.X.T @ (p * self._spread(self.share))
        return float(max(np.abs(expected).max(), np.abs(self._won).max()))

    def residual(self, w: Float[np.ndarray, " weights"]) -> float:
        """The largest entry of the gradient relative to its scale, from the weights alone."""
        at = self.point(w)
        return float(np.abs(at.slope).max() / self.scale(at.p))

    def _step(self, at: _Point, exact: float) -> Float[np.ndarray, " weights"]:
        """Newton's direction by conjugate gradients, up to a share `exact` of the gradient."""
        weighted = at.p * self._spread(self.share)
        square = self.X.copy()
        square.data = square.data**2
        D = square.T @ (weighted * (1.0 - at.p)) + self.ridge + 1e-12
        step, r = np.zeros_like(at.slope), -at.slope
        y = r / D
        direction, ry = y, (r * y).sum()
        goal = exact * exact * ry
        for _ in range(CONJUGATE):
            u = self.X @ direction
            u -= self._spread(self._sums(at.p * u))
            bent = self.X.T @ (weighted * u) + self.ridge * direction
            far = ry / (direction * bent).sum()
            step, r = step + far * direction, r - far * bent
            y = r / D
            ry, before = (r * y).sum(), ry
            if ry <= goal:
                break
            direction = y + (ry / before) * direction
        return step

    def solve(self, start: Float[np.ndarray, " weights"], tolerance: float) -> Minimum:
        """The minimum, from these weights."""
        w, at = start, self.point(start)
        scale = self.scale(at.p)
        for steps in range(STEPS):
            residual = float(np.abs(at.slope).max() / scale)
            if residual <= tolerance:
                residual = float(np.abs(at.slope).max() / self.scale(at.p))
                return Minimum(w, at.loss, residual, steps)
            step = self._step(at, min(0.1, residual**0.5))
            falls, length = (at.slope * step).sum(), 1.0
            while length > SHORTEST:
                new = self.point(w + length * step)
                # Close to the minimum the value has no digits left to fall.
                if new.loss <= at.loss + 1e-4 * length * falls + 1e-13:
                    break
                length /= 2
            w, at = w + length * step, new
        raise SolverError(
            f"the stage ended with a residual of {residual:.2g}; {tolerance:g} is needed."
        )


def logistic(
    F: Float[np.ndarray, "rows features"],
    hit: Bool[np.ndarray, " rows"],
    share: Float[np.ndarray, " rows"],
    ridge: float,
    start: Float[np.ndarray, " features"] | None = None,
) -> Minimum:
    """Newton's method for a logistic regression with a ridge; `share` adds up to 1."""
    w = np.zeros(F.shape[1]) if start is None else start

    def value(w: Float[np.ndarray, " features"]) -> float:
        z = F @ w
        return float(share @ np.logaddexp(0.0, np.where(hit, -z, z)) + 0.5 * ridge * w @ w)

    scale = float(np.abs(share @ np.abs(F)).max())
    loss = value(w)
    for steps in range(STEPS):
        p = 0.5 * (1.0 + np.tanh(0.5 * (F @ w)))
        slope = (share * (p - hit)) @ F + ridge * w
        residual = float(np.abs(slope).max() / scale)
        if residual <= EXACT:
            return Minimum(w, loss, residual, steps)
        bent = (F.T * (share * p * (1 - p))) @ F + ridge * np.eye(len(w))
        step, length = np.linalg.solve(bent, slope), 1.0
        while (new := value(w - length * step)) > loss + 1e-13 and length > SHORTEST:
            length /= 2
        w, loss = w - length * step, new
    raise SolverError(f"the gate ended with a residual of {residual:.2g}; {EXACT:g} is needed.")
