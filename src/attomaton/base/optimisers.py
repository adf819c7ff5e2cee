r"""Optimisers: how a gradient becomes a step; functions that JAX can trace, on an array or a tree of arrays.

    plain      g
    momentum   b ← βb + g,  b
    adam       m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²,  m̂/(√v̂ + ε)

One more is a class with `init` and `update`. What an optimiser remembers is a tuple of trees of the parameters' own
shapes, so that whoever runs many problems side by side, or keeps a run on the disk, need not know what it is.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np


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
        import jax

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
        import jax

        b = jax.tree.map(lambda b, g: self.beta * b + g, memory[0], gradient)
        return jax.tree.map(lambda b: rate * b, b), (b,)


@dataclass(frozen=True)
class Adam:
    """Means of gradients and of their squares, both freed of the zeros they began with."""

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8

    def init(self, params: Any) -> tuple:
        """Means of nothing."""
        return _zeros(params), _zeros(params)

    def update(self, gradient: Any, memory: tuple, step: Any, rate: Any = 1) -> tuple[Any, tuple]:
        """`rate` times the mean gradient, every entry over the root of its mean square."""
        import jax
        import jax.numpy as jnp

        m, v = memory
        m = jax.tree.map(lambda m, g: self.beta_1 * m + (1 - self.beta_1) * g, m, gradient)
        v = jax.tree.map(lambda v, g: self.beta_2 * v + (1 - self.beta_2) * g * g, v, gradient)
        t = (step + 1).astype(jax.tree.leaves(gradient)[0].dtype)
        fair_m, fair_v = 1 / (1 - self.beta_1**t), 1 / (1 - self.beta_2**t)
        move = jax.tree.map(
            lambda m, v: rate * m * fair_m / (jnp.sqrt(v * fair_v) + self.epsilon), m, v
        )
        return move, (m, v)


def _zeros(params: Any) -> Any:
    """Zeros like the parameters: of NumPy, where they are, for whoever puts them on a device later."""
    import jax
    import jax.numpy as jnp

    return jax.tree.map(lambda w: (np if isinstance(w, np.ndarray) else jnp).zeros_like(w), params)
