r"""Level *reduced*: the decoder replaced by its closed form, so that only the attention logits are left to integrate.

K classes drawn uniformly give every class the share $1/K$ of the steps, for Z as for Y. The reduced form of the
long-sequence dynamics therefore has `rate` $= \eta_Z / K$:

$$\dot z_m = \tfrac{\eta_Z}{K} \gamma(t) \sum_{n \in \psi^{-1}(m)} v_n(z), \qquad \dot B_n = \tfrac{\eta_Z}{K} \xi_n.$$

Integrated not over time but over the decoder's logit gap $u = M h(t/K)$, which grows only like $\ln t$:
$\gamma\, dt = \tfrac{K}{\eta_Y} (1 - \tfrac1M)^2 u\, du$, so that

$$\frac{dz_m}{du} = \frac{\eta_Z}{\eta_Y} \Big(1 - \frac1M\Big)^2 u \sum_n v_n(z).$$

Learning rates enter through their ratio and through $u(t)$ alone: runs of one ratio go through the same states, each at
its own times.
"""

from time import perf_counter

import numpy as np

from attomaton.base.shapes import Float
from attomaton.errors import AssumptionError, SolverError, UsageError
from attomaton.scan_snap.data import SequenceClasses
from attomaton.scan_snap.theory.attention import (
    class_velocity,
    inverse_mixing,
    overlap,
    scan_rate,
    weak_mixing,
)
from attomaton.scan_snap.theory.decoder import (
    check_positive,
    check_times,
    decoder_gain,
    decoder_logit_gap,
    predicted_loss,
)
from attomaton.scan_snap.trajectory import Dynamics, as_runs, class_attention, record_times

MIXINGS = ("inverse", "weak", "memory")
LAST = 1e6
RTOL, ATOL = 1e-11, 1e-13
ALIKE = 1e-10  # smallest eigenvalue of I + E below which two classes count as attending alike

Rate = float | int | list[float] | np.ndarray


def run_reduced(
    classes: SequenceClasses,
    *,
    eta_y: Rate,
    eta_z: Rate,
    times: list[float] | np.ndarray | None = None,
    z0: Float[np.ndarray, "vocab vocab"] | None = None,
    mixing: str = "inverse",
) -> Dynamics:
    r"""The reduced dynamics from $Z(0)$ = `z0` (zero unless given), for one or more pairs of learning rates.

    Records are taken at `times`, or at 200 on a logarithmic axis up to 10⁶.

    `mixing` says which β the decoder has. "inverse" is the paper's $\beta = E'$. "weak" is `weak_mixing`, what a
    decoder trained from zero has while classes are weakly correlated. "memory" is "weak" with a decoder that was
    trained on what attention *was*: inside $g_n$, $f_n$ becomes its mean over u, which pulls attention back.

    Records are predictions: `gamma` (and, the same, `gamma_predicted`) and `loss` of orthonormal classes, `y_norm`
    $= u \sqrt{\mathrm{tr}\, A - 1^\top A 1 / M}$ with $A = (I + E)^{-1}$ ("inverse"), $I + E$ ("weak") or
    $\bar F^\top \bar F$ ("memory"), `xi` and B $= \tfrac{\eta_Z}{K} \int \xi$ per class.

    >>> from attomaton.scan_snap.data import sequence_classes
    >>> classes = sequence_classes([[0.5, 0.5, 0, 0, 0, 0], [0.5, 0, 0.5, 0, 0, 0]], [3, 3], [4, 5])
    >>> run = run_reduced(classes, eta_y=1.0, eta_z=1.0, times=[0.0, 100.0])
    >>> np.sign(run.z[0, -1, 0, :3]).tolist()
    [-1.0, 1.0, 1.0]
    """
    if mixing not in MIXINGS:
        raise UsageError(f'mixing="{mixing}" is not known; choose from {", ".join(MIXINGS)}.')
    pairs = as_runs(np.asarray(eta_y, float), np.asarray(eta_z, float))
    check_positive(eta_y=pairs[0], eta_z=pairs[1])
    with np.errstate(over="ignore", under="ignore"):
        ratios = pairs[1] / pairs[0]
    if not (np.isfinite(ratios) & (ratios > 0)).all():
        raise UsageError("eta_z/eta_y: a ratio beyond what numbers can hold; choose nearer rates.")
    t = record_times(LAST) if times is None else np.asarray(times, float)
    check_times(t)
    if t.ndim != 1 or not t.size or (np.diff(t) <= 0).any():
        raise UsageError("times: an increasing list of times is needed.")
    shape = (classes.M, classes.M)
    if z0 is not None and np.shape(z0) != shape:
        raise UsageError(
            f"z0: expected shape {shape}, a number for each two tokens, got {np.shape(z0)}."
        )
    system = _System(classes, z0, mixing)
    begin = perf_counter()
    u = np.stack([decoder_logit_gap(t / classes.K, y, classes.M) for y in pairs[0]])
    states = np.empty((*u.shape, system.size))
    for ratio in np.unique(ratios):
        chosen = ratios == ratio
        stops, where = np.unique(u[chosen], return_inverse=True)
        states[chosen] = system.integrate(float(ratio), stops)[where.reshape(-1, len(t))]
    z, mean, B = system.unpack(states)
    gamma = np.stack([decoder_gain(t, y, classes.K, classes.M) for y in pairs[0]])
    f = system.unit(z)
    full = np.tile(np.asarray(system.start, float), (*u.shape, 1, 1))
    full[..., classes.context_tokens] = z[..., system.row, :]
    records = {
        "gamma": gamma,
        "gamma_predicted": gamma.copy(),
        "xi": gamma[..., None] * system.scan_shape(f, mean, u),
        "B": B,
        "loss": np.stack([predicted_loss(t, y, classes.K, classes.M) for y in pairs[0]]),
        "y_norm": system.decoder_norm(f, mean, u),
    }
    return Dynamics(
        level="reduced", classes=classes, eta_y=pairs[0], eta_z=pairs[1], t=t, z=full,
        records=records, status=("finished",) * len(u),
        seconds={"run": perf_counter() - begin},
    )  # fmt: skip


class _System:
    """The unknowns z (one row per query, context tokens only), f̄ (with memory only) and B, over the logit gap u."""

    def __init__(
        self, classes: SequenceClasses, z0: Float[np.ndarray, "vocab vocab"] | None, mixing: str
    ) -> None:
        self.mixing, self.K, self.M = mixing, classes.K, classes.M
        tokens, queries = classes.context_tokens, classes.queries
        self.row = np.searchsorted(queries, classes.query_of)
        self.member = (np.arange(len(queries))[:, None] == self.row).astype(float)
        self.P = classes.P[:, tokens]
        self.distinct = classes.distinct[:, tokens]
        Z = np.zeros((self.M, self.M)) if z0 is None else z0
        self.start = Z[classes.query_of]
        self.z0 = Z[np.ix_(queries, tokens)]
        self.mean0 = self.unit(self.z0) if mixing == "memory" else np.zeros((0, len(tokens)))
        self.size = self.z0.size + self.mean0.size + self.K
        self._check_apart()

    def _check_apart(self) -> None:
        """Refuse classes whose attention is linearly dependent: β = E′ does not exist for them."""
        E = overlap(self.unit(self.z0))
        if self.mixing == "inverse" and np.linalg.eigvalsh(np.eye(self.K) + E)[0] < ALIKE:
            n, other = (int(i) for i in np.unravel_index(np.abs(E).argmax(), E.shape))
            raise AssumptionError(
                "The attention of the classes is linearly dependent, so no decoder can tell them apart "
                f"(classes {n} and {other} have cosine {E[n, other]:.12g}).\n"
                'Give each class a token of its own, or use mixing="weak".'
            )

    def unit(
        self, z: Float[np.ndarray, "*batch queries tokens"]
    ) -> Float[np.ndarray, "*batch classes tokens"]:
        """f_n."""
        c = class_attention(z[..., self.row, :], self.P)
        return c / np.linalg.norm(c, axis=-1, keepdims=True)

    def unpack(
        self, x: Float[np.ndarray, "*batch size"]
    ) -> tuple[
        Float[np.ndarray, "*batch queries tokens"],
        Float[np.ndarray, "*batch remembered tokens"],
        Float[np.ndarray, "*batch classes"],
    ]:
        """z, f̄ and B out of one vector."""
        z, mean, B = np.split(x, np.cumsum([self.z0.size, self.mean0.size]), axis=-1)
        batch = x.shape[:-1]
        return z.reshape(*batch, *self.z0.shape), mean.reshape(*batch, *self.mean0.shape), B

    def pull(
        self,
        f: Float[np.ndarray, "*batch classes tokens"],
        mean: Float[np.ndarray, "*batch remembered tokens"],
        u: float | Float[np.ndarray, "*batch"],
    ) -> Float[np.ndarray, "*batch classes tokens"]:
        """What each class asks of its query, in units of γ."""
        if self.mixing != "memory":
            return class_velocity(f, self.beta(f, u))
        beta = weak_mixing(overlap(f), u, self.M)
        g = mean - beta @ mean
        return f * (g - f * (f * g).sum(axis=-1, keepdims=True))

    def beta(
        self, f: Float[np.ndarray, "*batch classes tokens"], u: float | Float[np.ndarray, "*batch"]
    ) -> Float[np.ndarray, "*batch classes classes"]:
        """The decoder's mixing of classes, without memory."""
        E = overlap(f)
        return inverse_mixing(E) if self.mixing == "inverse" else weak_mixing(E, u, self.M)

    def scan_shape(
        self,
        f: Float[np.ndarray, "*batch classes tokens"],
        mean: Float[np.ndarray, "*batch remembered tokens"],
        u: float | Float[np.ndarray, "*batch"],
    ) -> Float[np.ndarray, "*batch classes"]:
        """ξ_n / γ; with memory, the least-squares rate of the class's distinct tokens (NaN where it has none)."""
        if self.mixing != "memory":
            return scan_rate(f, 1.0, self.beta(f, u))
        own = np.where(self.distinct, f, 0.0) ** 2
        size = (own**2).sum(axis=-1)
        rate = (self.pull(f, mean, u) * own).sum(axis=-1) / np.where(size > 0, size, 1.0)
        return np.where(size > 0, rate, np.nan)

    def decoder_norm(
        self,
        f: Float[np.ndarray, "runs times classes tokens"],
        mean: Float[np.ndarray, "runs times remembered tokens"],
        u: Float[np.ndarray, "runs times"],
    ) -> Float[np.ndarray, "runs times"]:
        """‖Y‖ of the decoder each mixing stands for, with logits or weights h (M e_n − 1)."""
        if self.mixing == "memory":
            A = mean @ np.swapaxes(mean, -1, -2)
        else:
            A = np.eye(self.K) + overlap(f)
            A = np.linalg.inv(A) if self.mixing == "inverse" else A
        trace = np.trace(A, axis1=-2, axis2=-1)
        return u * np.sqrt(trace - A.sum(axis=(-2, -1)) / self.M)

    def integrate(
        self, ratio: float, stops: Float[np.ndarray, " stops"]
    ) -> Float[np.ndarray, "stops size"]:
        """The state at each u of `stops` (ascending), for one ratio η_Z / η_Y."""
        from scipy.integrate import solve_ivp

        first = np.concatenate([self.z0.ravel(), self.mean0.ravel(), np.zeros(self.K)])
        if stops[-1] == 0:
            return np.tile(first, (len(stops), 1))
        scale = ratio * (1 - 1 / self.M) ** 2

        def field(u: float, x: np.ndarray) -> np.ndarray:
            z, mean, _ = self.unpack(x)
            f = self.unit(z)
            dz = self.member @ self.pull(f, mean, u)
            # f̄ starts as f and follows it at speed (f − f̄)/u, which is 0 at u = 0.
            dmean = (f - mean) / u if mean.size and u > 0 else np.zeros_like(mean)
            dB = np.nan_to_num(self.scan_shape(f, mean, u))
            return np.concatenate([(scale * u * dz).ravel(), dmean.ravel(), scale * u * dB])

        solution = solve_ivp(
            field, (0.0, stops[-1]), first, method="DOP853", t_eval=stops, rtol=RTOL, atol=ATOL
        )
        if not solution.success:
            raise SolverError(f"the reduced dynamics stopped at u={solution.t[-1]:.6g}.")
        return solution.y.T
