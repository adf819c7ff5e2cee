"""A health check: what is installed, which device computes, and whether known answers come out."""

from typing import Any

import numpy as np

from attomaton.corpus.windows import samples_from_sequences
from attomaton.disk.provenance import environment, package_version
from attomaton.mechanics.theory.limit import solve_limit

OPTIONAL = {"matplotlib": "figures", "sklearn": "estimator tags and model selection"}


def examine() -> dict[str, Any]:
    """Versions, devices and three worked answers, each as a check that is ok or not."""
    checks = [_hard(), _soft(), _device(), *map(_optional, OPTIONAL)]
    return {
        "ok": all(c["ok"] for c in checks),
        "environment": environment(),
        "checks": checks,
    }


def _check(name: str, ok: bool, detail: str) -> dict[str, Any]:
    return {"check": name, "ok": bool(ok), "detail": detail}


def _hard() -> dict[str, Any]:
    limit = solve_limit(samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1]))
    error = float(np.abs(limit.svm.score - [1, 0, -1]).max())
    return _check("Graph-SVM of a chain", error < 1e-9, f"error {error:.1e}")


def _soft() -> dict[str, Any]:
    limit = solve_limit(samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1]))
    error = float(abs(limit.finite.log_pi[0] - np.log(3) / 2))
    return _check("Luce fit of three wins to one", error < 1e-9, f"error {error:.1e}")


def _device() -> dict[str, Any]:
    import jax

    from attomaton.mechanics.experiment.train import train

    run = train(samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1]), lr=1.0, steps=400)
    assert run.scores is not None
    error = float(abs(run.scores[0, 0] - np.log(3) / 2))
    where = ", ".join(str(d) for d in jax.devices())
    return _check("training on this device", error < 1e-9, f"error {error:.1e} on {where}")


def _optional(package: str) -> dict[str, Any]:
    found = package_version("scikit-learn" if package == "sklearn" else package)
    what = OPTIONAL[package]
    return _check(f"optional: {package}", True, found or f"not installed (no {what})")
