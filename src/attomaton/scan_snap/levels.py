"""One interface to the three levels of scan and snap: the same question to any of them."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.errors import UsageError, nearest, whole_number
from attomaton.scan_snap.data import SequenceClasses
from attomaton.scan_snap.trajectory import LEVELS, Dynamics, record_times

# What each level may be told besides the classes and the two learning rates.
OPTIONS: dict[str, dict[str, type]] = {
    "sampled": {
        "T": int, "batch": int, "steps": int, "optimizer": str, "momentum": float, "start": str,
        "seeds": int, "seed": int, "every": int, "normalise": str, "residual": bool,
        "precision": str,
    },
    "limit": {"until": float, "seeds": int, "seed": int, "start": str, "steps": int, "momentum": float},
    "reduced": {"until": float, "mixing": str},
}  # fmt: skip


UNTIL = 1e6  # the last time, where none is given
RATE = 1.0  # either learning rate, where none is given


def settings_of(level: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a level with every default filled in: what a run records.

    >>> settings_of("reduced", {}), settings_of("limit", {"steps": 9})["steps"]
    ({'until': 1000000.0, 'mixing': 'inverse'}, 9)
    """
    check_options(level, options)
    asked = inspect.signature(_function(level)).parameters
    usual = {k: asked[k].default for k in OPTIONS[level] if k in asked}
    if "until" in OPTIONS[level] and "steps" not in options:
        usual["until"] = UNTIL
    whole = {k: options.get(k, usual.get(k)) for k in OPTIONS[level]}
    return {k: v for k, v in whole.items() if v is not None}


def _function(level: str) -> Callable[..., Dynamics]:
    """What runs a level; JAX is loaded when it does."""
    if level == "sampled":
        from attomaton.scan_snap.experiment.train import train_sampled

        return train_sampled
    if level == "limit":
        from attomaton.scan_snap.experiment.limit import run_limit

        return run_limit
    from attomaton.scan_snap.theory.reduced import run_reduced

    return run_reduced


def find_classes(name: str) -> SequenceClasses:
    """The classes of a family by name, or of a TOML file by path."""
    from attomaton.scan_snap.families import family, read_classes

    return read_classes(Path(name)) if Path(name).suffix == ".toml" else family(name)


def run_level(
    level: str,
    classes: SequenceClasses,
    eta_y: float | np.ndarray,
    eta_z: float | np.ndarray,
    **options: Any,
) -> Dynamics:
    """The dynamics of these classes on one level, for one or several pairs of learning rates."""
    check_options(level, options)
    run = _function(level)
    if level == "sampled":
        return run(classes, eta_y=eta_y, eta_z=eta_z, **options)
    until = options.pop("until", UNTIL)
    if not until > 0 or not np.isfinite(until):
        raise UsageError(f"until={until}: a positive, finite time is needed.")
    if "steps" in options:
        steps = whole_number("steps", options.pop("steps"), least=1, most=2**31 - 1)
        options |= {"method": "steps", "times": np.arange(steps + 1.0)}
    else:
        options["times"] = record_times(until)
    return run(classes, eta_y=eta_y, eta_z=eta_z, **options)


def simulate(
    classes: SequenceClasses | str | Path,
    level: str = "reduced",
    *,
    eta_y: float | np.ndarray = RATE,
    eta_z: float | np.ndarray = RATE,
    **options: Any,
) -> Dynamics:
    """Scan and snap: how attention moves while one layer is trained on sequence classes.

    `classes` are those of a family by name ("syn-small"), of a TOML file, or made by `sequence_classes`. `level` is
    "sampled" (the layer itself, trained on drawn contexts), "limit" (an ODE, for contexts without end) or "reduced"
    (the closed form of the theory). `eta_y` and `eta_z` are the learning rates of decoder and attention, 1 unless told,
    one number or several, a run for each pair; `options` are those of the level (`OPTIONS`), the same as of `attomaton
    dynamics`. Names that do not exist raise a `UsageError` with the nearest that does, faults of a file a `DataError`.

    >>> run = simulate("syn-small", until=1e4)
    >>> run.attention.shape  # runs, times, classes, tokens
    (1, 201, 2, 34)
    """
    if not isinstance(classes, SequenceClasses):
        classes = find_classes(str(classes))
    return run_level(level, classes, eta_y, eta_z, **options)


def check_options(level: str, options: dict[str, Any]) -> None:
    """Refuse a level or an option that does not exist, with the nearest that does."""
    if level not in LEVELS:
        raise UsageError(
            f"level {level!r} is not one of {', '.join(LEVELS)}{nearest(str(level), LEVELS)}"
        )
    known = OPTIONS[level]
    for name in options:
        if name not in known:
            raise UsageError(
                f"level {level} has no option {name!r}{nearest(name, known)} It has "
                f"{', '.join(known)}."
            )


def memory_mb(
    level: str, classes: SequenceClasses, runs: int, records: int, **options: Any
) -> float:
    """About how much memory a batch of runs holds at once: parameters with their moments, and records."""
    L, M, Q, K = len(classes.context_tokens), classes.M, len(classes.queries), classes.K
    number = 4 if options.get("precision", "float32") == "float32" and level == "sampled" else 8
    copies = {"sampled": 6, "limit": 12, "reduced": 0}[level]  # state, moments, stages of a step
    batch = options.get("batch", 128) if level == "sampled" else K
    parameters = copies * (L * M + Q * L) + 4 * batch * (L + M)
    recorded = records * K * (M + 8)
    return runs * (parameters * number + recorded * 8) / 1e6
