"""A health check: what is installed, which device computes, and whether known answers come out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.base.lazily import jax
from attomaton.corpus.windows import samples_from_sequences
from attomaton.disk.provenance import environment, package_version
from attomaton.mechanics.theory.limit import solve_limit

OPTIONAL = {"matplotlib": "figures", "sklearn": "estimator tags and model selection"}


@dataclass(frozen=True)
class Check:
    """One thing that is as it should be, or not."""

    check: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class DoctorReport:
    """All checks, and the versions they were made with."""

    ok: bool
    environment: Mapping[str, str | None]
    checks: Sequence[Check]


def examine() -> DoctorReport:
    """Versions, devices and three worked answers, each as a check that is ok or not."""
    from attomaton.mechanics.experiment.train import train

    chain = solve_limit(samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1]))
    wins, odds = samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1]), np.log(3) / 2
    limit, run = solve_limit(wins), train(wins, lr=1.0, steps=400)
    where = ", ".join(str(d) for d in jax.devices())
    checks = [
        _answer("Graph-SVM of a chain", chain.svm.score - [1, 0, -1]),
        _answer("Luce fit of three wins to one", limit.finite.log_pi[0] - odds),
        _answer("training on this device", run.params[0, 0] - odds, f" on {where}"),
        *map(_optional, OPTIONAL),
    ]
    return DoctorReport(all(c.ok for c in checks), environment(), checks)


def _answer(check: str, off: np.ndarray | float, where: str = "") -> Check:
    """Whether a worked answer came out, by how far what was found is off."""
    error = float(np.abs(off).max())
    return Check(check, error < 1e-9, f"error {error:.1e}{where}")


def _optional(package: str) -> Check:
    found = package_version("scikit-learn" if package == "sklearn" else package)
    what = OPTIONAL[package]
    return Check(f"optional: {package}", True, found or f"not installed (no {what})")
