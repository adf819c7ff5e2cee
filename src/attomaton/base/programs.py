"""Compiled programs, kept: one compilation for each plan, set of shapes and device."""

import os
import sys
from collections.abc import Callable, Hashable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from attomaton.base.lazily import jax

# Matrix kernels are the vendor's alone: faster on the shapes here, and four times faster to try out.
VENDOR: dict[str, str | bool] = {"xla_gpu_enable_triton_gemm": False}
# Trying them out takes longer than a whole run of the small programs compiled here.
OPTIONS: dict[str, dict[str, str | bool]] = {"gpu": VENDOR | {"xla_gpu_autotune_level": "0"}}
# Where they are tried out, kernels that do not wait for each other run side by side, too: many are too small for a
# whole device. Loops are left to it as well: what starts every turn from outside costs a twentieth of it.
TUNED: dict[str, dict[str, str | bool]] = {
    "gpu": VENDOR
    | {
        "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
        "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE",
    }
}
# Compiled in half the time, run in a tenth more: for programs that run for no longer than they take to compile.
BRIEF: dict[str, dict[str, str | bool]] = OPTIONS | {
    "cpu": {"xla_backend_optimization_level": "1", "xla_cpu_use_fusion_emitters": False}
}


def on_processors() -> bool:
    """Whether JAX would compute on processors; without importing it, where it knows of no other device."""
    if "jax" not in sys.modules:
        from importlib.metadata import entry_points

        named = os.environ.get("JAX_PLATFORMS")
        others = (
            find_spec("jax_plugins") or find_spec("libtpu") or entry_points(group="jax_plugins")
        )
        if named == "cpu" or not (named or others):
            return True
    return jax.default_backend() == "cpu"


def processors_first() -> bool:
    """Whether processors do what takes them seconds: to start another device takes as long.

    They do unless one is asked for by name (`JAX_PLATFORMS=cuda`).
    """
    return not os.environ.get("JAX_PLATFORMS") or on_processors()


def compiled_program(
    build: Callable[[Any], Callable],
    plan: Hashable,
    args: tuple,
    donate: tuple[int, ...] = (),
    autotune: bool = False,
    brief: bool = False,
) -> Callable:
    """The program `build(plan)`, compiled for arguments of these shapes on the device JAX would choose now.

    `build` is a module's function that returns what JAX is to compile; everything the program depends on
    besides shapes is in `plan`. Arguments at the places in `donate` give their memory to the results. With
    `autotune` matrix kernels are tried out, which pays where a program runs for long; a `brief` one is compiled soon.
    """
    leaves, tree = jax.tree.flatten(args)
    shapes = tuple((np.shape(x), np.dtype(x.dtype)) for x in leaves)
    (device,) = jax.device_put(np.zeros(())).devices()  # compiles nothing, unlike zeros of JAX
    options = TUNED if autotune else BRIEF if brief else OPTIONS
    found = tuple(options.get(device.platform, {}).items())
    return _compiled(build, plan, tree, shapes, device, donate, found)


@lru_cache(maxsize=64)
def _compiled(
    build: Callable[[Any], Callable],
    plan: Hashable,
    tree: Any,
    leaves: tuple,
    device: Any,
    donate: tuple[int, ...],
    options: tuple[tuple[str, str | bool], ...],
) -> Callable:
    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in leaves]
    program = jax.jit(build(plan), donate_argnums=donate)
    lowered = program.lower(*jax.tree.unflatten(tree, shapes))
    try:
        return lowered.compile(compiler_options=dict(options))
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        # Another version of XLA: what it does not know was for speed alone
        return lowered.compile()
