r"""How fast the decoder learns, and how loudly it speaks to the attention: h, γ and their integrals.

With orthonormal $f_n$, the decoder of a class drawn K times less often than time passes has logits $h(t/K)(M e_n - 1)$,
where

$$\dot h = \frac{\eta_Y}{M - 1 + e^{Mh}}, \quad h(0) = 0 \qquad\Longleftrightarrow\qquad
  e^{Mh} + (M-1) M h = M \eta_Y t + 1.$$
"""

import numpy as np

from attomaton.base.shapes import Float
from attomaton.errors import UsageError

Numbers = float | int | np.ndarray
ROUNDS = 100  # Newton's method needs some ten; it stops by itself


def decoder_growth(t: Numbers, eta_y: Numbers, M: Numbers) -> Float[np.ndarray, "..."]:
    r"""h(t), the common size of a class's decoder logits, from its closed form.

    $u = Mh$ is the root of $e^u - 1 + (M-1) u = M \eta_Y t$. The left side is convex, and both $\eta_Y t$ and
    $\ln(1 + M \eta_Y t)$ lie right of the root, so Newton's method falls onto it from the smaller of the two without
    ever overshooting or overflowing. Arguments broadcast.

    >>> h = decoder_growth(3.0, 1.0, 10)
    >>> bool(abs(np.exp(10 * h) + 9 * 10 * h - 31) < 1e-13)
    True
    """
    return np.asarray(decoder_logit_gap(t, eta_y, M) / M)


def decoder_logit_gap(t: Numbers, eta_y: Numbers, M: Numbers) -> Float[np.ndarray, "..."]:
    """u = M h(t): by how much the next token's logit exceeds every other."""
    check_positive(eta_y=eta_y)
    check_sizes(M=M)
    check_times(t)
    t, eta_y, M = np.broadcast_arrays(
        np.asarray(t, float), np.asarray(eta_y, float), np.asarray(M, float)
    )
    y = eta_y * t
    x = M * y
    u = np.minimum(y, np.log1p(x))
    for _ in range(ROUNDS):
        step = (np.expm1(u) + (M - 1) * u - x) / (np.exp(u) + (M - 1))
        u = u - step
        if (np.abs(step) <= 4e-16 * u).all():
            break
    return np.asarray(np.maximum(u, 0.0))


def decoder_growth_discrete(
    steps: int, eta_y: Numbers, M: int
) -> Float[np.ndarray, "steps_and_one ..."]:
    r"""h* after 0, 1, …, `steps` discrete steps, $h^*(s) = h^*(s-1) + \eta_Y / (M - 1 + e^{M h^*(s-1)})$.

    The right side φ falls as h grows, so every step overshoots the differential equation, at any step size, and the
    lead cannot add up: $0 \le h^*(s) - h(s) \le \varphi(0) - \varphi(h(s)) \le \eta_Y / M$.

    >>> decoder_growth_discrete(2, 1.0, 2).round(3).tolist()
    [0.0, 0.5, 0.769]
    """
    check_positive(eta_y=eta_y)
    check_sizes(M=M)
    if steps < 0:
        raise UsageError(f"steps={steps}: 0 or more is needed.")
    eta = np.asarray(eta_y, float)
    h = np.zeros((steps + 1, *eta.shape))
    for s in range(steps):
        # Written with e^{−Mh}: no step size can overflow it.
        e = np.exp(-M * h[s])
        h[s + 1] = h[s] + eta * e / (1 + (M - 1) * e)
    return h


def decoder_gain(t: Numbers, eta_y: Numbers, K: Numbers, M: Numbers) -> Float[np.ndarray, "..."]:
    r"""γ(t), the size of the decoder's backward signal.

    $$\gamma(t) = \frac{(M-1)^2\, h(t/K)}{M - 1 + e^{M h(t/K)}}.$$

    >>> float(decoder_gain(0.0, 1.0, 10, 1000))
    0.0
    """
    check_sizes(K=K)
    u = decoder_logit_gap(np.asarray(t) / K, eta_y, M)
    m, e = np.asarray(M, float), np.exp(-u)
    return np.asarray((m - 1) ** 2 * u / m * e / (1 + (m - 1) * e))


def gain_integral(
    t: Numbers, eta_y: Numbers, eta_z: Numbers, K: Numbers, M: Numbers
) -> Float[np.ndarray, "..."]:
    r"""Γ(t) = $\eta_Z \int_0^t \gamma$, the clock by which attention moves.

    $$\Gamma(t) = \frac{\eta_Z}{\eta_Y} \frac K2 (M-1)^2\, h(t/K)^2.$$

    >>> bool(gain_integral(10.0, 1.0, 0.5, 10, 1000) > 0)
    True
    """
    check_positive(eta_z=eta_z)
    check_sizes(K=K)
    u = decoder_logit_gap(np.asarray(t) / K, eta_y, M)
    m = np.asarray(M, float)
    return np.asarray(np.asarray(eta_z) / eta_y * np.asarray(K) / 2 * ((m - 1) * (u / m)) ** 2)


def gain_peak(eta_y: Numbers, K: Numbers, M: Numbers) -> Float[np.ndarray, "..."]:
    r"""When γ is largest, exactly: close to $K \ln M / \eta_Y$, and below it by a share of order $\ln\ln M / \ln M$.

    $\gamma \propto u / (M - 1 + e^u)$ is stationary where $e^u (u - 1) = M - 1$, so $u = 1 + W((M-1)/e)$ with
    Lambert's W; the closed form then gives $\eta_Y t / K = u + (e^u - 1 - u) / M$.

    >>> round(float(gain_peak(1.0, 1, 1000) / np.log(1000)), 3)
    0.816
    """
    from scipy.special import lambertw

    check_positive(eta_y=eta_y)
    check_sizes(K=K, M=M)
    m = np.asarray(M, float)
    u = 1 + lambertw((m - 1) / np.e).real
    return np.asarray(np.asarray(K) / np.asarray(eta_y) * (u + (np.expm1(u) - u) / m))


def predicted_loss(t: Numbers, eta_y: Numbers, K: Numbers, M: Numbers) -> Float[np.ndarray, "..."]:
    r"""The loss a class has under $h$: $-\log \alpha_n = \log(1 + (M-1) e^{-M h(t/K)})$.

    >>> bool(abs(predicted_loss(0.0, 1.0, 2, 8) - np.log(8)) < 1e-15)
    True
    """
    check_sizes(K=K)
    u = decoder_logit_gap(np.asarray(t) / K, eta_y, M)
    return np.asarray(np.log1p((np.asarray(M) - 1) * np.exp(-u)))


def check_times(t: Numbers) -> None:
    """Refuse times that are negative or not finite."""
    values = np.asarray(t)
    if not (np.isfinite(values) & (values >= 0)).all():
        raise UsageError("t: times must be finite and 0 or more.")


def check_positive(**rates: Numbers) -> None:
    """Refuse rates that are not positive and finite."""
    for name, value in rates.items():
        values = np.atleast_1d(np.asarray(value, float))
        wrong = values[~(np.isfinite(values) & (values > 0))]
        if len(wrong):
            raise UsageError(f"{name}={wrong.flat[0]:g}: a positive, finite number is needed.")


def check_sizes(**sizes: Numbers) -> None:
    """Refuse a vocabulary of fewer than 2 tokens, and fewer than 1 class."""
    for name, value in sizes.items():
        least = {"M": 2, "K": 1}[name]
        if not (np.asarray(value) >= least).all():
            raise UsageError(f"{name}={value}: at least {least} is needed.")
