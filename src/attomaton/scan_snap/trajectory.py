r"""What every level of the dynamics records, and what follows from it.

All levels record the attention logits $z_{\psi(n)}$ of every class at the same times; attention, its entropy, relative
gains and growth factors follow from them here, once, for all levels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attomaton.base.face import Tabular, figure_of
from attomaton.base.shapes import Float
from attomaton.errors import counted
from attomaton.scan_snap.data import SequenceClasses

LEVELS = ("sampled", "limit", "reduced")


@dataclass(frozen=True, eq=False, repr=False)
class Dynamics(Tabular):
    """B runs on the same classes, recorded at the same times.

    `z[b, r, n, l]` is $z_{\\psi(n) l}$ of run b at time `t[r]`. `records[name]` holds further scalars, (runs, times) or
    (runs, times, classes): `loss`, `y_norm`, `gamma` (of the decoder's backward signal, measured),
    `gamma_predicted`, `xi` (scan rate, measured; per class), `B` (scan progress, its integral; per class). As a
    table it has one row for each run, time and class: `run`, `t`, `class`, `entropy` and what was recorded.

    >>> from attomaton import simulate
    >>> run = simulate("syn-small", "reduced", until=1e4)
    >>> run
    Dynamics(reduced, 1 run of 2 classes, 201 times up to 10000, finished)
    >>> bool(run.entropy[0, -1].max() < run.entropy[0, 0].max())
    True
    """

    level: str
    classes: SequenceClasses
    eta_y: Float[np.ndarray, " runs"]
    eta_z: Float[np.ndarray, " runs"]
    t: Float[np.ndarray, " times"]
    z: Float[np.ndarray, "runs times classes vocab"]
    records: Mapping[str, np.ndarray]
    status: tuple[str, ...]  # "finished" or "diverged at step N", one per run
    seconds: Mapping[str, float]

    @cached_property
    def attention(self) -> Float[np.ndarray, "runs times classes vocab"]:
        """$c_n$: see `class_attention`."""
        return class_attention(self.z, self.classes.P)

    @cached_property
    def unit_attention(self) -> Float[np.ndarray, "runs times classes vocab"]:
        """$f_n = c_n / \\|c_n\\|_2$."""
        return self.attention / np.linalg.norm(self.attention, axis=-1, keepdims=True)

    @cached_property
    def entropy(self) -> Float[np.ndarray, "runs times classes"]:
        """Entropy of $c_n$ over the class's distinct tokens: see `distinct_entropy`."""
        return distinct_entropy(self.attention, self.classes)

    def _in_short(self) -> str:
        runs, times, K, _ = self.z.shape
        return (
            f"{self.level}, {counted(runs, 'run')} of {K} classes, {times} times up to {self.t[-1]:g}, "
            f"{', '.join(dict.fromkeys(self.status))}"
        )

    def columns(self) -> dict[str, np.ndarray]:
        """One row for each run, time and class; what speaks of all classes is repeated for each."""
        runs, times, K, _ = self.z.shape
        shape = (runs, times, K)

        def flat(x: np.ndarray) -> np.ndarray:
            return np.broadcast_to(x.reshape(x.shape + (1,) * (3 - x.ndim)), shape).ravel()

        run, time, of = np.indices(shape)
        return {
            "run": run.ravel(),
            "t": self.t[time.ravel()],
            "class": of.ravel(),
            "entropy": flat(self.entropy),
            **{name: flat(np.asarray(x, float)) for name, x in self.records.items()},
        }

    def to_arrow(self) -> Any:
        """The table as a `pyarrow.Table`, one row for each run, time and class."""
        import pyarrow as pa

        return pa.table(self.columns())

    def plot(self) -> Any:
        """Attention of the first class, entropy, scan progress and gain, as a `matplotlib.figure.Figure`."""
        return figure_of(self)

    def relative_gain(self, n: int, l: int, other: int) -> Float[np.ndarray, "runs times"]:
        """How much more attention class n pays to one token than to another: $f_{nl}^2 / f_{nl'}^2 - 1$."""
        f = self.unit_attention[:, :, n]
        return f[..., l] ** 2 / f[..., other] ** 2 - 1

    def growth(self, n: int, l: int) -> Float[np.ndarray, "runs times"]:
        """$\\chi_l = e^{2(z_{ml}(t) - z_{ml}(0))}$."""
        return np.exp(2 * (self.z[:, :, n, l] - self.z[:, :1, n, l]))


def class_attention(
    z: Float[np.ndarray, "*batch classes vocab"], P: Float[np.ndarray, "classes vocab"]
) -> Float[np.ndarray, "*batch classes vocab"]:
    r"""Attention each class pays to every token, for long sequences.

    $$c_{l|n} \propto P(l|n)\, e^{z_{ml}}, \qquad m = \psi(n).$$

    `z[..., n, :]` are the logits of class n's query. A token a class never has keeps attention 0.

    >>> z = np.log([[1.0, 3.0, 1.0]])
    >>> class_attention(z, np.array([[0.75, 0.25, 0.0]])).round(2).tolist()
    [[0.5, 0.5, 0.0]]
    """
    has = P > 0
    score = np.where(has, z + np.log(np.where(has, P, 1.0)), -np.inf)
    e = np.exp(score - score.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def distinct_entropy(
    c: Float[np.ndarray, "*batch classes vocab"], classes: SequenceClasses
) -> Float[np.ndarray, "*batch classes"]:
    """Entropy (nats) of attention restricted to each class's distinct tokens and renormalised."""
    inside = np.where(classes.distinct, c, 0.0)
    p = inside / np.maximum(inside.sum(axis=-1, keepdims=True), 1e-300)
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)


def record_times(last: float, count: int = 200, first: float = 1.0) -> Float[np.ndarray, " times"]:
    """Time 0 and `count` times from `first` to `last`, evenly spaced on a logarithmic axis."""
    return np.concatenate([[0.0], np.geomspace(first, last, count)])


def as_runs(
    eta_y: float | np.ndarray, eta_z: float | np.ndarray
) -> tuple[Float[np.ndarray, " runs"], Float[np.ndarray, " runs"]]:
    """The two learning rates as arrays of one length, one entry per run."""
    y, z = np.broadcast_arrays(
        np.atleast_1d(np.asarray(eta_y, float)), np.atleast_1d(np.asarray(eta_z, float))
    )
    return y.copy(), z.copy()
