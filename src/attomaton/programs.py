"""Compiled programs, kept: one compilation for each plan, set of shapes and device."""

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np

# Trying out matrix kernels takes longer than a whole run of the small programs compiled here.
OPTIONS: dict[str, dict[str, str | bool]] = {"gpu": {"xla_gpu_autotune_level": "0"}}


def compiled_program(build: Callable[[Any], Callable], plan: Hashable, args: tuple) -> Callable:
    """The program `build(plan)`, compiled for arguments of these shapes on the device JAX would choose now.

    `build` is a module's function that returns what JAX is to compile; everything the program depends on
    besides shapes is in `plan`.
    """
    import jax

    leaves, tree = jax.tree.flatten(args)
    shapes = tuple((np.shape(x), np.dtype(x.dtype)) for x in leaves)
    (device,) = jax.numpy.zeros(()).devices()
    return _compiled(build, plan, tree, shapes, device)


@lru_cache(maxsize=64)
def _compiled(
    build: Callable[[Any], Callable], plan: Hashable, tree: Any, leaves: tuple, device: Any
) -> Callable:
    import jax

    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in leaves]
    lowered = jax.jit(build(plan)).lower(*jax.tree.unflatten(tree, shapes))
    return lowered.compile(compiler_options=OPTIONS.get(device.platform))
