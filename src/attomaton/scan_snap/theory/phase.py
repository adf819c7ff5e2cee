r"""Scanning and snapping: when attention moves, when it freezes, and how to read both off a trajectory.

Predicted: under $\dot z = -C_0^{-1} \eta_Z \gamma e^{4z}$ and $\xi = C_0^{-1} \gamma e^{4z}$ with $C_0 = \rho_0^4 / K$,
the scan progress is

$$B_n(t) = \tfrac14 \ln \frac{C_0 + 4\Gamma(t)}{C_0},$$

which grows like $\tfrac12 \ln t$ while the decoder learns (*scanning*) and like $\tfrac12 \ln \ln t$ after it
(*snapping*).

Measured: `measure_phases` reads the transition, the final entropy and the order in which tokens are dropped off any
level's `Dynamics`, with one definition for all of them.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Float
from attomaton.errors import UsageError
from attomaton.scan_snap.theory.decoder import (
    Numbers,
    check_positive,
    check_sizes,
    decoder_gain,
    gain_integral,
)
from attomaton.scan_snap.trajectory import Dynamics

Curve = Float[np.ndarray, " times"]


# Predicted


def scanning_end(eta_y: Numbers, K: Numbers, M: Numbers) -> Float[np.ndarray, "..."]:
    r"""$t_0' = K \ln M / \eta_Y$, until which γ grows in proportion to time.

    >>> float(scanning_end(2.0, 10, 1000).round(2))
    34.54
    """
    check_positive(eta_y=eta_y)
    check_sizes(K=K, M=M)
    return np.asarray(np.asarray(K) * np.log(M) / eta_y)


def snapping_start(
    eta_y: Numbers, K: Numbers, M: Numbers, delta: float | int = 0.0
) -> Float[np.ndarray, "..."]:
    r"""$t_0 = 2 (1 + \delta) K \ln M / \eta_Y$, from which γ falls like $\ln t / t$.

    The theorem asks for some δ > 0, however small; δ = 0 is the time it starts from.
    """
    if not delta >= 0:
        raise UsageError(f"delta={delta}: 0 or more is needed.")
    return np.asarray(2 * (1 + delta) * scanning_end(eta_y, K, M))


def gain_transition(eta_y: Numbers, K: Numbers, M: int) -> Float[np.ndarray, "..."]:
    r"""When the exponent $d \ln \Gamma / d \ln t$ of the accumulated gain has fallen from 2 to 1.

    It lies between $t_0'$ and $t_0$ and predicts the transition that `measure_phases` measures. With $u = Mh$ the
    exponent is $2 (e^u - 1 + (M-1) u) / (u (e^u + M - 1))$ at $\eta_Y t / K = (e^u - 1 + (M-1) u) / M$.

    >>> bool(np.log(1000) < gain_transition(1.0, 1, 1000) < 2 * np.log(1000))
    True
    """
    from scipy.optimize import brentq

    check_positive(eta_y=eta_y)
    check_sizes(K=K, M=M)

    def learned(u: float) -> float:
        return np.expm1(u) + (M - 1) * u

    u = brentq(lambda u: 2 * learned(u) - u * (np.exp(u) + M - 1), 1e-3, 5 + 2 * np.log(M))
    return np.asarray(np.asarray(K) / eta_y * learned(u) / M)


def scan_progress(
    t: Numbers, eta_y: Numbers, eta_z: Numbers, K: Numbers, M: Numbers, rho0: float | int = 1.0
) -> Float[np.ndarray, "..."]:
    r"""$B_n(t) = \tfrac14 \ln((C_0 + 4\Gamma)/C_0)$ with $C_0 = \rho_0^4 / K$ and Γ as in `gain_integral`.

    At $t_0$ it depends on K, M and $\eta_Y / \eta_Z$ only: there $\eta_Y t_0 / K = 2 \ln M$, whatever the rates.

    >>> a, b = (scan_progress(snapping_start(y, 10, 1000), y, y / 2, 10, 1000) for y in (0.5, 5.0))
    >>> bool(abs(a - b) < 1e-14)
    True
    """
    check_positive(rho0=rho0)
    Gamma = gain_integral(t, eta_y, eta_z, K, M)
    return np.asarray(np.log1p(4 * Gamma * np.asarray(K) / rho0**4) / 4)


def scan_slope(
    t: Numbers, eta_y: Numbers, eta_z: Numbers, K: Numbers, M: Numbers, rho0: float | int = 1.0
) -> Float[np.ndarray, "..."]:
    r"""$dB_n / d\ln t = t\, \eta_Z \gamma / (C_0 + 4\Gamma)$: ½ while scanning, $1/(2 \ln t)$ once snapping."""
    check_positive(rho0=rho0)
    gamma = decoder_gain(t, eta_y, K, M)
    Gamma = gain_integral(t, eta_y, eta_z, K, M)
    return np.asarray(t * np.asarray(eta_z) * gamma / (rho0**4 / np.asarray(K) + 4 * Gamma))


def gain_factor_bounds(
    B: Numbers, f0: float | int
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    r"""$e^{2 f_0^2 B} \le \chi_{l_0} \le e^{2B}$ for a class's dominant token, attended $f_0 = f_{n l_0}(0)$ at first.

    >>> [float(x.round(3)) for x in gain_factor_bounds(1.0, 0.5)]
    [1.649, 7.389]
    """
    if not 0 <= f0 <= 1:
        raise UsageError(f"f0={f0}: an entry of a unit vector lies between 0 and 1.")
    return np.asarray(np.exp(2 * f0**2 * np.asarray(B))), np.asarray(np.exp(2 * np.asarray(B)))


# Measured


@dataclass(frozen=True)
class Phases:
    """What one run shows of scanning and snapping; NaN where it does not show it (yet).

    `transition` is when the exponent of the accumulated gain, t γ / ∫γ, falls below 1 for good (2 while scanning);
    `transition_range` are the recorded times on both sides. `knee` is when a class's scan slope t ξ_n has fallen to
    half its largest value: the median over classes, and `knee_range` from the earliest recorded time before one of
    them to the latest after. `entropy` is the final one over distinct tokens, `scanned` the final B, both means over
    classes. A distinct token is dropped when its share of the attention to its class's distinct tokens falls below half
    its first value for good; `drop_order[n]` is Spearman's correlation between P(l|n) and that time over the dropped
    tokens of class n, `dropped[n]` their number.
    """

    run: int
    eta_y: float
    eta_z: float
    scanning_end: float
    snapping_start: float
    transition: float
    transition_range: tuple[float, float]
    knee: float
    knee_range: tuple[float, float]
    entropy: float
    scanned: float
    drop_order: tuple[float, ...]
    dropped: tuple[int, ...]


def measure_phases(dynamics: Dynamics) -> list[Phases]:
    """The phases of every run of a trajectory, by the definitions of `Phases`."""
    K, M = dynamics.classes.K, dynamics.classes.M
    found = []
    for run, (eta_y, eta_z) in enumerate(zip(dynamics.eta_y, dynamics.eta_z, strict=True)):
        transition, between = _transition(dynamics, run)
        knee, around = _knee(dynamics, run)
        order = [_drop_order(dynamics, run, n) for n in range(K)]
        found.append(
            Phases(
                run=run,
                eta_y=float(eta_y),
                eta_z=float(eta_z),
                scanning_end=float(scanning_end(eta_y, K, M)),
                snapping_start=float(snapping_start(eta_y, K, M)),
                transition=transition,
                transition_range=between,
                knee=knee,
                knee_range=around,
                entropy=float(dynamics.entropy[run, -1].mean()),
                scanned=_mean(dynamics.records["B"][run, -1])
                if "B" in dynamics.records
                else np.nan,
                drop_order=tuple(rho for rho, _ in order),
                dropped=tuple(count for _, count in order),
            )
        )
    return found


def drop_times(
    t: Curve, c: Float[np.ndarray, "times tokens"], share: float = 0.5
) -> Float[np.ndarray, " tokens"]:
    """When attention to each token falls below `share` of its first value for good; inf if it never does.

    Interpolated on a logarithmic time axis.

    >>> c = np.array([[0.5, 0.5], [0.3, 0.7], [0.2, 0.8]])
    >>> drop_times(np.array([1.0, 2.0, 4.0]), c).round(3).tolist()
    [2.828, inf]
    """
    level = c / c[0]
    found = np.full(c.shape[1], np.inf)
    for l in range(c.shape[1]):
        above = np.flatnonzero(level[:, l] >= share)
        if above[-1] + 1 < len(t):
            found[l] = _cross(t, level[:, l], int(above[-1]), share)
    return found


def _drop_order(dynamics: Dynamics, run: int, n: int) -> tuple[float, int]:
    """Spearman's correlation of drop times with P(l|n) over dropped distinct tokens, and their number."""
    own = np.flatnonzero(dynamics.classes.distinct[n])
    c = dynamics.attention[run, :, n][:, own]
    if not len(own) or not np.isfinite(c).all():
        return np.nan, 0
    # Shares among distinct tokens: all of them gain at first, at the common tokens' expense.
    when = drop_times(dynamics.t, c / c.sum(axis=1, keepdims=True))
    dropped = np.isfinite(when)
    p, when = dynamics.classes.P[n, own][dropped], when[dropped]
    if len(np.unique(p)) < 2 or len(np.unique(when)) < 2:
        return np.nan, int(dropped.sum())
    from scipy.stats import spearmanr  # takes longer to import than all else here

    return float(spearmanr(p, when).statistic), int(dropped.sum())


def _transition(dynamics: Dynamics, run: int) -> tuple[float, tuple[float, float]]:
    """When t γ / ∫γ falls below 1 for good."""
    if "gamma" not in dynamics.records:
        return np.nan, (np.nan, np.nan)
    t, gamma = dynamics.t, dynamics.records["gamma"][run]
    t, gamma = t[t > 0], gamma[t > 0]
    if len(t) < 2 or not np.isfinite(gamma).all():
        return np.nan, (np.nan, np.nan)
    # γ starts in proportion to time, so the first stretch holds tγ/2; the rest on a logarithmic axis.
    pace = t * gamma
    steps = np.diff(np.log(t)) * (pace[1:] + pace[:-1]) / 2
    total = pace[0] / 2 + np.concatenate([[0.0], np.cumsum(steps)])
    exponent = pace / np.where(total > 0, total, np.inf)
    above = np.flatnonzero(exponent >= 1)
    if not len(above) or above[-1] + 1 == len(t):
        return np.nan, (np.nan, np.nan)
    i = int(above[-1])
    return _cross(t, exponent, i, 1.0), (float(t[i]), float(t[i + 1]))


def _knee(dynamics: Dynamics, run: int) -> tuple[float, tuple[float, float]]:
    """When the scan slope t ξ_n has fallen to half its largest value, over the classes that show it."""
    if "xi" not in dynamics.records:
        return np.nan, (np.nan, np.nan)
    t, xi = dynamics.t, dynamics.records["xi"][run]
    found = []
    for slope in (t[:, None] * xi).T:
        if not np.isfinite(slope).all() or slope.max() <= 0:
            continue
        top = int(slope.argmax())
        below = np.flatnonzero(slope[top:] <= slope[top] / 2)
        if len(below):
            i = top + int(below[0]) - 1
            found.append((_cross(t, slope, i, slope[top] / 2), t[i], t[i + 1]))
    if not found:
        return np.nan, (np.nan, np.nan)
    knees, low, high = zip(*found, strict=True)
    return float(np.median(knees)), (float(min(low)), float(max(high)))


def _cross(t: Curve, value: Curve, i: int, level: float) -> float:
    """Where `value` crosses `level` between t[i] and t[i+1], on a logarithmic axis where t[i] > 0."""
    share = (value[i] - level) / (value[i] - value[i + 1])
    if t[i] == 0:
        return float(t[i + 1] * share)
    return float(t[i] * (t[i + 1] / t[i]) ** share)


def _mean(values: np.ndarray) -> float:
    """The mean of the finite ones, NaN if there is none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else np.nan
