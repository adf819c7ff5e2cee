r"""Optimisers: how a gradient becomes a step; functions that JAX can trace, on an array or a tree of arrays.

    plain      g
    momentum   b ← βb + g,  b
    adam       m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²,  m̂/(√v̂ + ε)
    sign       sign(g)
    muon       b ← βb + g,  U Vᵀ of the singular value decomposition b = U Σ Vᵀ (β = 0: spectral descent)
    mirror     u ← u − η g/‖g‖_q,  W = sign(u)|u|^{1/(p−1)},  1/p + 1/q = 1

One more is a class with `init` and `update`. What an optimiser remembers is a tuple of trees of the parameters' own
shapes, so that whoever runs many problems side by side, or keeps a run on the disk, need not know what it is.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from attomaton.base.lazily import jax, jnp

LOST = 1e-13  # singular values, relative to the largest, that are rounding of zeros


@runtime_checkable
class Optimiser(Protocol):
    """What every optimiser can do."""

    def init(self, params: Any) -> tuple:
        """What it remembers before the first step."""

    def update(self, gradient: Any, memory: tuple, step: Any, rate: Any = 1) -> tuple[Any, tuple]:
        """The step along the gradient, times `rate`, and what it remembers after it; `step` were made before."""


@dataclass(frozen=True)
class Plain:
    """The gradient itself."""

    def init(self, params: Any) -> tuple:
        """Nothing."""
        return ()

    def update(self, gradient: Any, memory: tuple, step: Any, rate: Any = 1) -> tuple[Any, tuple]:
        """`rate` times the gradient."""
        return jax.tree.map(lambda g: rate * g, gradient), memory


@dataclass(frozen=True)
class Momentum:
    """A sum of all gradients, each `beta` times less than the one after it."""

    beta: float = 0.9

    def init(self, params: Any) -> tuple:
        """No gradients yet."""
        return (_zeros(params),)

    def update(self, gradient: Any, memory: tuple, step: Any, rate: Any = 1) -> tuple[Any, tuple]:
        """`rate` times the sum."""
        b = jax.tree.map(lambda b, g: self.beta * b + g, memory[0], gradient)
        return jax.tree.map(lambda b: rate * b, b), (b,)


@dataclass(frozen=True)
class Adam:
    """Means of gradients and of their squares, both freed of the zeros they began with."""

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: Any = 1e-8  # a number, or one that JAX traces

    def init(self, params: Any) -> tuple:
        """Means of nothing."""
        return _zeros(params), _zeros(params)

    def update(self, gradient: Any, memory: tuple, step: Any, rate: Any = 1) -> tuple[Any, tuple]:
        """`rate` times the mean gradient, every entry over the root of its mean square."""
        m, v = memory
        m = jax.tree.map(lambda m, g: self.beta_1 * m + (1 - self.beta_1) * g, m, gradient)
        v = jax.tree.map(lambda v, g: self.beta_2 * v + (1 - self.beta_2) * g * g, v, gradient)
        t = (step + 1).astype(jax.tree.leaves(gradient)[0].dtype)
        fair_m, fair_v = 1 / (1 - self.beta_1**t), 1 / (1 - self.beta_2**t)

        def entry(m: Any, v: Any) -> Any:
            root = jnp.sqrt(v * fair_v) + self.epsilon
            # No gradient yet, ε = 0: m = 0
            return rate * m * fair_m / jnp.where(root > 0, root, 1.0)

        return jax.tree.map(entry, m, v), (m, v)


@dataclass(frozen=True)
class Sign:
    """The sign of every entry: the steepest step in the max norm."""

    def init(self, params: Any) -> tuple:
        """Nothing."""
        return ()

    def update(self, gradient: Any, memory: tuple, step: Any, rate: Any = 1) -> tuple[Any, tuple]:
        """`rate` times the signs; entries without a gradient stay."""
        return jax.tree.map(lambda g: rate * jnp.sign(g), gradient), memory


@dataclass(frozen=True)
class Muon:
    """The sum of gradients as `Momentum` has it, every matrix orthogonalised: by a decomposition, not by iteration.

    Of the gradient alone (`beta` = 0) it is the steepest step in the spectral norm.
    """

    beta: float = 0.95

    def init(self, params: Any) -> tuple:
        """No gradients yet."""
        return Momentum(self.beta).init(params) if self.beta else ()

    def update(self, gradient: Any, memory: tuple, step: Any, rate: Any = 1) -> tuple[Any, tuple]:
        """`rate` times U Vᵀ of the sum."""
        b = gradient
        if self.beta:
            b, memory = Momentum(self.beta).update(gradient, memory, step)
        return jax.tree.map(lambda b: rate * orthogonalised(b), b), memory


@dataclass(frozen=True)
class Mirror:
    """Mirror descent with the potential Σ|w|^p/p, each array's gradient scaled to 1 in the dual norm."""

    p: float

    def init(self, params: Any) -> tuple:
        """The mirror image u = sign(w)|w|^{p−1} of the parameters."""
        return (jax.tree.map(lambda w: _power(w, self.p - 1), params),)

    def update(self, gradient: Any, memory: tuple, step: Any, rate: Any = 1) -> tuple[Any, tuple]:
        """How far the parameters move while their images move by `rate` times the scaled gradient."""

        def image(u: Any, g: Any) -> Any:
            q, peak = self.p / (self.p - 1), jnp.abs(g).max()
            scaled = g / jnp.where(peak > 0, peak, 1.0)  # so that no power underflows
            size = (jnp.abs(scaled) ** q).sum() ** (1 / q)
            return u + rate * scaled / jnp.where(peak > 0, size, 1.0)

        new, back = jax.tree.map(image, memory[0], gradient), 1 / (self.p - 1)
        return jax.tree.map(lambda v, u: _power(v, back) - _power(u, back), new, memory[0]), (new,)


def _power(x: Any, exponent: float) -> Any:
    """sign(x)|x|^exponent: of NumPy's arrays by NumPy."""
    with_ = np if isinstance(x, np.ndarray) else jnp
    return with_.sign(x) * with_.abs(x) ** exponent


def orthogonalised(M: Any) -> Any:
    """U Vᵀ of M = U Σ Vᵀ, over the singular values that are not rounding of zeros; 0 of 0."""
    peak = jnp.abs(M).max()
    U, s, Vt = jnp.linalg.svd(M / jnp.where(peak > 0, peak, 1.0), full_matrices=False)
    return (U * (s > LOST * s.max())) @ Vt


def _zeros(params: Any) -> Any:
    """Zeros like the parameters: of NumPy, where they are, for whoever puts them on a device later."""
    return jax.tree.map(lambda w: (np if isinstance(w, np.ndarray) else jnp).zeros_like(w), params)
