"""A copy of a model with fresh weights: what the same form does before it has learned anything."""

from dataclasses import replace

import numpy as np

from attomaton.numerics import named_rng
from attomaton.trained.folder import Trained
from attomaton.trained.form import Form
from attomaton.trained.names import Block, Shape, Weights, block_shapes, outer_shapes

SPREAD = 0.02  # standard deviation of fresh matrices, as most models of these families start


def fresh_weights(form: Form, seed: int, dtype: str = "float32", spread: float = SPREAD) -> Weights:
    """Matrices drawn from a normal distribution, norms 1, shifts 0."""
    rng = named_rng("fresh weights", seed)

    def drawn(field: str, shape: Shape | None) -> np.ndarray | None:
        if shape is None:
            return None
        if field.startswith("scale"):
            return np.ones(shape, dtype)
        if field.startswith(("b", "shift")):
            return np.zeros(shape, dtype)
        value = rng.standard_normal(shape, np.float32)
        return (value * np.float32(spread)).astype(dtype, copy=False)

    blocks = {
        field: drawn(field, None if shape is None else (form.layers, *shape))
        for field, shape in block_shapes(form).items()
    }
    outer = {field: drawn(field, shape) for field, shape in outer_shapes(form).items()}
    return Weights(blocks=Block(**blocks), **outer)


def untrained(model: Trained, seed: int) -> Trained:
    """The model as it might have been before training."""
    dtype = model.weights.U.dtype.name
    return replace(model, weights=fresh_weights(model.form, seed, dtype), files=())
