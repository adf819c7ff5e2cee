"""Compiled programs, kept: one compilation for each plan, set of shapes and device."""

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np

# Trying out matrix kernels takes longer than a whole run of the small programs compiled here.
OPTIONS: dict[str, dict[str, str | bool]] = {"gpu": {"xla_gpu_autotune_level": "0"}}
# Where they are tried out, the vendor's kernels alone: faster on the shapes here, and four times faster to try.
TUNED: dict[str, dict[str, str | bool]] = {"gpu": {"xla_gpu_enable_triton_gemm": False}}


def compiled_program(
    build: Callable[[Any], Callable],
    plan: Hashable,
    args: tuple,
    donate: tuple[int, ...] = (),
    autotune: bool = False,
) -> Callable:
    """The program `build(plan)`, compiled for arguments of these shapes on the device JAX would choose now.

    `build` is a module's function that returns what JAX is to compile; everything the program depends on
    besides shapes is in `plan`. Arguments at the places in `donate` give their memory to the results. With
    `autotune` matrix kernels are tried out, which pays where a program runs for long.
    """
    import jax

    leaves, tree = jax.tree.flatten(args)
    shapes = tuple((np.shape(x), np.dtype(x.dtype)) for x in leaves)
    (device,) = jax.numpy.zeros(()).devices()
    return _compiled(build, plan, tree, shapes, device, donate, autotune)


@lru_cache(maxsize=64)
def _compiled(
    build: Callable[[Any], Callable],
    plan: Hashable,
    tree: Any,
    leaves: tuple,
    device: Any,
    donate: tuple[int, ...],
    autotune: bool,
) -> Callable:
    import jax

    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in leaves]
    program = jax.jit(build(plan), donate_argnums=donate)
    lowered = program.lower(*jax.tree.unflatten(tree, shapes))
    return lowered.compile(compiler_options=(TUNED if autotune else OPTIONS).get(device.platform))
