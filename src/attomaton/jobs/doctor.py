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
    checks = [_hard(), _soft(), _device(), *map(_optional, OPTIONAL)]
    return DoctorReport(all(c.ok for c in checks), environment(), checks)


def _hard() -> Check:
    limit = solve_limit(samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1]))
    error = float(np.abs(limit.svm.score - [1, 0, -1]).max())
    return Check("Graph-SVM of a chain", error < 1e-9, f"error {error:.1e}")


def _soft() -> Check:
    limit = solve_limit(samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1]))
    error = float(abs(limit.finite.log_pi[0] - np.log(3) / 2))
    return Check("Luce fit of three wins to one", error < 1e-9, f"error {error:.1e}")


def _device() -> Check:

    from attomaton.mechanics.experiment.train import train

    run = train(samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1]), lr=1.0, steps=400)
    error = float(abs(run.params[0, 0] - np.log(3) / 2))
    where = ", ".join(str(d) for d in jax.devices())
    return Check("training on this device", error < 1e-9, f"error {error:.1e} on {where}")


def _optional(package: str) -> Check:
    found = package_version("scikit-learn" if package == "sklearn" else package)
    what = OPTIONAL[package]
    return Check(f"optional: {package}", True, found or f"not installed (no {what})")
