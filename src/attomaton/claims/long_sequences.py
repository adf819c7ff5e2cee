r"""The limit level is what sampled training tends to, for long contexts and large batches.

Write $z^{T,b}$ for the attention logits after some steps of plain SGD on batches of $b$ contexts of length $T$,
$z^{\infty,b}$ for the same with the same classes drawn but every context replaced by its law, and $z$ for the limit
level's own discrete steps. Errors are Frobenius norms relative to that of the second (and likewise for the attention
$c$ that follows):

- *batch*: $\|z^{T,b} - z\|$ for T so large that it does not matter falls like $b^{-1/2}$. What is left is chance in
  which classes are drawn.
- *length*: $\|z^{T,b} - z^{\infty,b}\|$ at fixed b falls like $T^{-1/2}$ once $T \gg b$: chance in the contexts.
  Against $z$ itself it would not fall: the chance in the classes stays.
- *bias*: $\|z^{T,b} - z\|$ for b so large that chance does not matter falls like $T^{-1}$, twice as fast: the mean over
  contexts of a smooth function of their frequencies is off by their variance, which is of order 1/T.

All together the error is of order $b^{-1/2} + (bT)^{-1/2} + T^{-1}$. A slope is fitted for each stream of contexts, and
the streams give a confidence interval. The control compares with the limit at another learning rate.
"""

from typing import Any, NamedTuple

import numpy as np

from attomaton.base.lazily import jax, jnp
from attomaton.base.shapes import Float
from attomaton.claims.picture import line, theory_line
from attomaton.numerics import float64
from attomaton.results import Assumption, Evidence, Panel, Quantities, Verdict
from attomaton.scan_snap.data import SequenceClasses, sequence_classes
from attomaton.scan_snap.experiment.draws import draw_contexts
from attomaton.scan_snap.experiment.limit import run_limit
from attomaton.scan_snap.experiment.train import train_sampled
from attomaton.scan_snap.trajectory import class_attention

STEPS, ETA_Y, ETA_Z = 12, 3.0, 3.0
# In each series the error of another power is at most a fifth of the one that is measured: in squares, 4 %.
FEW, MANY, LONG = 8, 4096, 2048
BATCHES = (FEW, 32, 128)  # at T = LONG
LENGTHS = (512, LONG, 16384)  # at b = FEW
SHORT = (32, 64, 128)  # at b = MANY
STREAMS, MANY_STREAMS = 64, 8
SURE = 0.99  # confidence of the intervals

Logits = Float[np.ndarray, "streams classes vocab"]
Reference = Float[np.ndarray, "#streams classes vocab"]  # one for all streams, or one for each


def small_classes() -> SequenceClasses:
    """Two classes with queries of their own: a common token of weight 1, tokens of their own of weights 1 and ½."""
    P = np.zeros((2, 9))
    P[:, 0] = 1.0
    P[0, 1:3] = P[1, 3:5] = [1.0, 0.5]
    return sequence_classes(P / P.sum(axis=1, keepdims=True), [5, 6], [7, 8])


def sampled_logits(classes: SequenceClasses, T: int, batch: int, streams: int) -> Logits:
    """$z^{T,b}$ after the last step, one for each stream of contexts."""
    run = train_sampled(
        classes, eta_y=ETA_Y, eta_z=ETA_Z, T=T, batch=batch, steps=STEPS, every=STEPS,
        seeds=streams, precision="float64",
    )  # fmt: skip
    return run.z[:, -1]


def limit_logits(classes: SequenceClasses, eta_z: float = ETA_Z) -> Logits:
    """$z$ after the last step: the limit level."""
    return run_limit(classes, eta_y=ETA_Y, eta_z=eta_z, method="steps", times=[STEPS]).z[:, -1]


def endless_logits(classes: SequenceClasses, batch: int, streams: int) -> Logits:
    r"""$z^{\infty,b}$ after the last step: the classes each stream draws, every context replaced by its law.

    A batch is a population of its own: one whose classes are those drawn, as often as they were.
    """

    from attomaton.scan_snap.experiment.population import population_of, velocity

    whole = population_of(classes, merged=True)
    drawn = [
        draw_contexts(classes, T=2, batch=batch, steps=STEPS, index=i)[0] for i in range(streams)
    ]

    def step(W: tuple[Any, Any], n: Any) -> tuple[tuple[Any, Any], None]:
        log_P, row, column, _, distinct = map(jnp.asarray, whole)
        part = whole._replace(
            log_P=log_P[n], row=row[n], column=column[n], distinct=distinct[n],
            multiplicity=jnp.asarray(whole.multiplicity),
        )  # fmt: skip
        v = velocity(*W, part)
        return (W[0] + ETA_Y * v.Y, W[1] + ETA_Z * v.Z), None

    @jax.jit
    @jax.vmap
    def stream(n: Any) -> Any:
        L = whole.log_P.shape[1]
        start = jnp.zeros((L, len(whole.multiplicity))), jnp.zeros((len(classes.queries), L))
        return jax.lax.scan(step, start, n)[0][1]

    z = np.zeros((streams, classes.K, classes.M))
    with float64():
        z[..., classes.context_tokens] = np.asarray(stream(np.stack(drawn)))[:, whole.row]
    return z


def errors(
    z: Logits, reference: Reference, classes: SequenceClasses
) -> dict[str, Float[np.ndarray, " streams"]]:
    """Relative distance of each stream from the reference: of the logits, and of the attention that follows."""
    both = {
        "z": (z, reference),
        "c": (class_attention(z, classes.P), class_attention(reference, classes.P)),
    }
    return {
        name: np.linalg.norm(a - b, axis=(1, 2)) / np.linalg.norm(b, axis=(1, 2))
        for name, (a, b) in both.items()
    }


class Slope(NamedTuple):
    """The log–log slope of an error against the size, its confidence interval, and the mean error at each size."""

    slope: float
    interval: list[float]
    sizes: list[int]
    error: list[float]


Slopes = dict[str, dict[str, Slope]]  # by series, of the logits ("z") and of attention ("c")


def slope(sizes: tuple[int, ...], error: Float[np.ndarray, "sizes streams"]) -> Slope:
    """The log–log slope of the error against the size: the mean over streams with its confidence interval.

    Every stream is fitted by itself, and Student's law of their mean gives the interval.
    """
    from scipy.stats import t

    each = np.polyfit(np.log(sizes), np.log(error), 1)[0]
    reach = t.ppf((1 + SURE) / 2, len(each) - 1) * each.std(ddof=1) / np.sqrt(len(each))
    middle = float(each.mean())
    mean = np.sqrt((error**2).mean(axis=1)).tolist()
    return Slope(middle, [middle - float(reach), middle + float(reach)], list(sizes), mean)


def check(ends: bool = False) -> Evidence:
    """Errors of sampled training against the limit level, in batch and in length, one at a time.

    With `ends`, only the smallest and the largest size of each series.
    """
    batches, lengths, short = (x[::2] if ends else x for x in (BATCHES, LENGTHS, SHORT))
    classes = small_classes()
    z, endless = limit_logits(classes), endless_logits(classes, FEW, STREAMS)
    series = {
        "batch": (batches, [(LONG, b, STREAMS) for b in batches]),
        "length": (lengths, [(T, FEW, STREAMS) for T in lengths]),
        "bias": (short, [(T, MANY, MANY_STREAMS) for T in short]),
    }
    asked = {size for _, each in series.values() for size in each}
    runs = {size: sampled_logits(classes, *size) for size in asked}

    def slopes(name: str, reference: Reference) -> dict[str, Slope]:
        sizes, own = series[name]
        each = [errors(runs[size], reference, classes) for size in own]
        return {what: slope(sizes, np.array([e[what] for e in each])) for what in ("z", "c")}

    measured = {name: slopes(name, endless if name == "length" else z) for name in series}
    measured["length, against the limit itself"] = slopes("length", z)
    wrong = limit_logits(classes, eta_z=3 * ETA_Z)
    control = {name: slopes(name, wrong) for name in series}
    return Evidence(
        formula="‖z^{T,b} − z‖ = O(b^{−1/2}) + O((bT)^{−1/2}) + O(T^{−1})",
        assumptions=(
            Assumption("one power at a time", True,
                       f"batches {batches} at T = {LONG}; lengths {lengths} at b = {FEW}; lengths {short} at "
                       f"b = {MANY}: the errors of the other powers are at most a fifth"),
        ),
        prediction={"batch": -0.5, "length": -0.5, "bias": -1.0},
        reason="the intervals are Student's over streams; the next order, 1/T², is a few per cent at the shortest T",
        verdict=_verdict(measured),
        control=_verdict(control),
        tolerance=(
            f"{SURE:.0%} intervals of the slopes in batch and in length contain −1/2, and neither 0 nor −1; the slope "
            "of the bias is −1 ± 0.1"
        ),
        measured=_told(measured),
        control_measured=_told(control),
        panels=_panels(measured, control),
        settings={"steps": STEPS, "eta_Y": ETA_Y, "eta_Z": ETA_Z, "streams": [STREAMS, MANY_STREAMS]},
    )  # fmt: skip


def _told(series: Slopes) -> Quantities:
    return {k: {name: x._asdict() for name, x in both.items()} for k, both in series.items()}


def _panels(measured: Slopes, control: Slopes) -> tuple[Panel, ...]:
    """The error of z in each series, with the power it must follow."""
    panels = []
    for name, xlabel, power in (
        ("batch", "batch b", -0.5), ("length", "length T", -0.5), ("bias", "length T, large batch", -1.0),
    ):  # fmt: skip
        x, wrong = measured[name]["z"], control[name]["z"]
        size = np.array(x.sizes, float)
        lines = [
            line(size, x.error, "measured", "points"),
            theory_line(size, x.error[0] * (size / size[0]) ** power, f"power {power:g}"),
            line(size, wrong.error, "control: other rate", "points"),
        ]
        panels.append(
            Panel(
                f"Error by {name}", xlabel, "relative error of z", lines, xscale="log", yscale="log"
            )
        )
    return tuple(panels)


def _verdict(measured: Slopes) -> Verdict:
    """Whether every slope is what it should be; inconclusive where an interval is too wide to say."""
    chance = [measured[regime][what] for regime in ("batch", "length") for what in ("z", "c")]
    bias = [measured["bias"][what].slope for what in ("z", "c")]
    inside = all(low <= -0.5 <= high for low, high in (x.interval for x in chance))
    narrow = all(low > -1 and high < 0 for low, high in (x.interval for x in chance))
    if not (inside and all(-1.1 <= b <= -0.9 for b in bias)):
        return Verdict.FAILS
    return Verdict.HOLDS if narrow else Verdict.INCONCLUSIVE
