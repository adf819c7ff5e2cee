r"""Training by mini-batches of drawn contexts: the level *sampled*, many runs in one compiled program.

With $g$ the direction of steepest ascent of the batch's mean $\log \alpha_n$ and $w$ standing for Y or Z, each with
its own rate $\eta$, one step is

    sgd        w ← w + η g
    momentum   b ← μ b + g,  w ← w + η b          (b = 0 at the start)
    adam       m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²,  w ← w + η m̂/(√v̂ + ε)

Contexts depend on the seed and the step alone, never on the learning rates: all cells of a table see the same
contexts, so differences between cells are differences between rates. On processors, where compiling takes longer than
a few trainings, NumPy does them (`blocks`); else JAX is imported when training starts.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attomaton.base.lazily import jax, jnp
from attomaton.base.optimisers import Adam, Momentum, Optimiser, Plain
from attomaton.base.programs import compiled_program, on_processors, processors_first
from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Float, Int
from attomaton.errors import UsageError, one_of, whole_number
from attomaton.numerics import float64
from attomaton.scan_snap.data import SequenceClasses
from attomaton.scan_snap.experiment.blocks import Blocks, Plan, train_stream
from attomaton.scan_snap.experiment.draws import (
    Sampler,
    draw,
    sampler_of,
    stream_key,
    uniform_start,
)
from attomaton.scan_snap.trajectory import Dynamics, as_runs

if TYPE_CHECKING:
    from jax import Array

    from attomaton.scan_snap.experiment.model import Batch, Layer, Params

MOST = 2**31 - 1  # of steps, seeds, contexts in a batch, tokens in one: they are counted in 32 bits
OPTIMIZERS = ("sgd", "momentum", "adam")
STARTS = ("zero", "uniform")
NORMALISE = ("l2", "none")
PRECISIONS = ("float32", "float64")
RECORDS = 100  # records kept when nobody says how often
# Runs in one call of the program. On a CPU more of them fall out of its cache; elsewhere memory is the limit.
AT_ONCE = {"cpu": 32}
AT_ONCE_ELSEWHERE = 1024
TURNS = 2000  # steps of streams, times cells, that are not worth compiling for
BRIEF = (
    3e11  # products of numbers in all runs, up to which compiling well takes longer than it saves
)

Rates = float | int | Sequence[float] | np.ndarray


def train_sampled(
    classes: SequenceClasses,
    *,
    eta_y: Rates,
    eta_z: Rates,
    T: int = 128,
    batch: int = 128,
    steps: int = 100,
    optimizer: str = "sgd",
    momentum: float = 0.9,
    start: str = "zero",
    seeds: int = 1,
    first: int = 0,
    every: int | None = None,
    normalise: str = "l2",
    residual: bool = False,
    bias: np.ndarray | None = None,
    precision: str = "float32",
    seed: int = 0,
    progress: Progress = quiet,
) -> Dynamics:
    r"""Train every pair of learning rates (a *cell*) on `seeds` streams of contexts.

    `eta_y` and `eta_z` broadcast to cells; run `cell · seeds + i` is cell `cell` on stream `first + i`. Stream i, its
    contexts and its start, is named by (`seed`, i) alone. A context is T − 1 tokens drawn i.i.d. from $P(\cdot|n)$,
    its class drawn uniformly. `start="uniform"` draws Y and Z from ±1/√M. Records are taken at steps 0, `every`,
    2·`every`, …, `steps` (about 100 of them unless told).

    Recorded besides z are `loss`, the *expected* loss of the long-sequence layer, not that of the batch;
    `y_norm` $= \|Y\|_F$; `xi`, the scan rate (see `model.signal`); `B`, the integral of $(\eta_Z/K) \xi$ by
    trapezoids; and `gamma`, the mean over classes of the coefficient of $f_n$ in $g_n = Y(e_n - \alpha_n)$, expressed
    by least squares in the family $f_1 \dots f_K$. With `bias`, a prior on the logits of the context tokens
    (ascending), z includes it.

    A run that is no longer finite is "diverged at step N": its records from then on are NaN, the others go on.
    `progress` is told the runs done and the mean loss after every group of them.

    >>> from attomaton.scan_snap.data import sequence_classes
    >>> P = [[0.5, 0.5, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0, 0]]
    >>> run = train_sampled(sequence_classes(P, [3, 3], [4, 5]), eta_y=1.0, eta_z=1.0)
    >>> run.status, bool(run.z[0, -1, 0, 0] > 0 > run.z[0, -1, 0, 1])
    (('finished',), True)
    """
    for name, value, choices in (
        ("optimizer", optimizer, OPTIMIZERS), ("start", start, STARTS),
        ("normalise", normalise, NORMALISE), ("precision", precision, PRECISIONS),
    ):  # fmt: skip
        one_of(name, value, choices)
    apart = 1 if every is None else every
    for name, count, least in (
        ("T", T, 2), ("batch", batch, 1), ("steps", steps, 1), ("every", apart, 1), ("seeds", seeds, 1),
        ("first", first, 0),
    ):  # fmt: skip
        whole_number(name, count, least=least, most=MOST)
    whole_number("seed", seed, least=0)
    if seed >= 2**32:
        raise UsageError(f"seed={seed}: a number below 2^32 is needed.")
    if not 0 <= momentum < 1:
        raise UsageError(f"momentum={momentum}: a number from 0 to below 1 is needed.")
    cells = _cells(eta_y, eta_z)
    tokens = len(classes.context_tokens)
    prior = np.zeros(tokens) if bias is None else np.asarray(bias, float)
    if prior.shape != (tokens,) or not np.isfinite(prior).all():
        raise UsageError(f"bias: {tokens} finite numbers are needed, one for each context token.")
    every = every or max(1, -(-steps // RECORDS))
    marks = np.append(np.arange(0, steps, every), steps)
    plan = Plan(optimizer, momentum, T, batch, normalise, residual)
    dtype = np.float64 if precision == "float64" else np.float32
    begin = perf_counter()
    streams = np.arange(first, first + seeds)
    starts = [_start(classes, start, residual, seed, i) for i in streams.tolist()]
    course = _Course(plan, classes, prior, starts, streams, cells, marks, seed, dtype)
    kept, failed, seconds = _run(course, progress)
    dynamics = _dynamics(course, kept, failed)
    whole = perf_counter() - begin
    return replace(dynamics, seconds=seconds | {"other": whole - sum(seconds.values())})


# What is asked for


def _cells(
    eta_y: Rates, eta_z: Rates
) -> tuple[Float[np.ndarray, " cells"], Float[np.ndarray, " cells"]]:
    """The learning rates of every cell, positive and finite."""
    try:
        cells = as_runs(np.asarray(eta_y, float), np.asarray(eta_z, float))
    except ValueError:
        shapes = f"{np.shape(eta_y)} and {np.shape(eta_z)}"
        raise UsageError(f"eta_y and eta_z: shapes {shapes} do not broadcast.") from None
    for name, rate in zip(("eta_y", "eta_z"), cells, strict=True):
        if rate.ndim != 1 or not rate.size:
            raise UsageError(f"{name}: one number or a list of them is needed, not {rate.shape}.")
        wrong = rate[~(np.isfinite(rate) & (rate > 0))]
        if wrong.size:
            raise UsageError(f"{name}={wrong[0]:g}: rates must be positive and finite.")
    return cells


def _start(
    classes: SequenceClasses, start: str, residual: bool, seed: int, index: int
) -> tuple[Float[np.ndarray, "rows vocab"], Float[np.ndarray, "queries tokens"]]:
    """The first Y and Z of one stream."""
    if start == "uniform":
        return uniform_start(classes, seed, index, residual)
    L, M = len(classes.context_tokens), classes.M
    return np.zeros((M if residual else L, M)), np.zeros((len(classes.queries), L))


# What is computed


class _Fixed(NamedTuple):
    """What all runs share."""

    sampler: Sampler
    layer: "Layer"
    whole: "Batch"
    distinct: Any


class _State(NamedTuple):
    """Where a run stands; `failed` is the first step that gave no finite result, 0 for none."""

    params: "Params"
    moments: tuple
    failed: Any


class _Course(NamedTuple):
    """Everything a call of `train_sampled` asks for, checked."""

    plan: Plan
    classes: SequenceClasses
    bias: np.ndarray
    starts: list[tuple[np.ndarray, np.ndarray]]
    streams: Int[np.ndarray, " seeds"]
    cells: tuple[np.ndarray, np.ndarray]
    marks: np.ndarray
    seed: int
    dtype: type


def _optimiser(plan: Plan) -> Optimiser:
    if plan.optimizer == "momentum":
        return Momentum(plan.momentum)
    return Adam() if plan.optimizer == "adam" else Plain()


def _step(
    plan: Plan, layer: "Layer", batch: "Batch", step: Any, state: _State, eta_y: Any, eta_z: Any
) -> _State:
    """One run after one more step."""
    from attomaton.scan_snap.experiment.model import Params, ascent

    g = ascent(state.params, batch, layer, plan.normalise, plan.residual)
    # Y and Z have rates of their own, which come last.
    move, moments = _optimiser(plan).update(g, state.moments, step)
    Y, Z = state.params.Y + eta_y * move.Y, state.params.Z + eta_z * move.Z
    # f and e_n − α are bounded, so Y moves by bounded amounts; and where Y or the logits do overflow, the next
    # gradient by Z is not finite. Watching Z is enough, and costs no pass over Y.
    bad = (state.failed == 0) & ~jnp.isfinite(Z).all()
    return _State(Params(Y, Z), moments, jnp.where(bad, step + 1, state.failed))


def _record(
    plan: Plan, fixed: _Fixed, step: Any, state: _State
) -> tuple[_State, "dict[str, Array]"]:
    """What is kept of a run at one moment; NaN once it has diverged."""
    from attomaton.scan_snap.experiment.model import signal

    now = signal(
        state.params, fixed.whole, fixed.distinct, fixed.layer, plan.normalise, plan.residual
    )
    # Large entries are shrunk by a power of two, so that their squares do not overflow before they do.
    shrink = jnp.where(jnp.abs(state.params.Y).max() > 1e15, 2.0**-64, 1.0).astype(now.loss.dtype)
    norm = jnp.sqrt(((state.params.Y * shrink) ** 2).sum()) / shrink
    bad = (state.failed == 0) & ~(jnp.isfinite(now.loss) & jnp.isfinite(norm))
    state = state._replace(failed=jnp.where(bad, step, state.failed))
    values = {"Z": state.params.Z, "y_norm": norm, **now._asdict()}
    return state, {k: jnp.where(state.failed == 0, v, jnp.nan) for k, v in values.items()}


def _stream(
    plan: Plan,
    fixed: _Fixed,
    eta_y: Any,
    eta_z: Any,
    marks: Any,
    seed: Any,
    index: Any,
    start: Any,
) -> "tuple[dict[str, Array], Array]":
    """All cells on one stream of contexts, from the first record to the last."""
    from attomaton.scan_snap.experiment.model import Batch

    key = stream_key(seed, index)
    step_cells = jax.vmap(partial(_step, plan, fixed.layer), in_axes=(None, None, 0, 0, 0))
    record_cells = jax.vmap(partial(_record, plan, fixed), in_axes=(None, 0))

    def step(i: Any, state: _State) -> _State:
        n, counts = draw(plan.T, plan.batch, fixed.sampler, key, i)
        counts = counts.astype(start.Y.dtype)
        batch = Batch(counts, fixed.whole.query[n], fixed.whole.label[n])
        return step_cells(batch, i, state, eta_y, eta_z)

    def segment(state: _State, span: Any) -> tuple[_State, "dict[str, Array]"]:
        state = jax.lax.fori_loop(span[0], span[1], step, state)
        return record_cells(span[1], state)

    params = jax.tree.map(lambda w: jnp.broadcast_to(w, (len(eta_y), *w.shape)), start)
    first = _State(params, _optimiser(plan).init(params), jnp.zeros(len(eta_y), jnp.int32))
    spans = jnp.stack([jnp.concatenate([marks[:1], marks[:-1]]), marks], axis=1)
    last, kept = jax.lax.scan(segment, first, spans)
    return kept, last.failed


def _build(plan: Plan) -> Callable:
    """All seeds side by side, each with all its cells."""
    program = jax.vmap(partial(_stream, plan), in_axes=(None, None, None, None, None, 0, 0))

    def exact(*arguments: Any) -> Any:
        # Some accelerators multiply single-precision matrices in less than single precision unless told.
        with jax.default_matmul_precision("highest"):
            return program(*arguments)

    return exact


Group = tuple[Int[np.ndarray, " c"], Int[np.ndarray, " s"]]
Trained = tuple[dict[str, np.ndarray], Int[np.ndarray, "seeds cells"]]


def _groups(cells: int, seeds: int, at_once: int) -> list[Group]:
    """Which cells and streams go through the program together.

    All groups have one shape, so one program serves them: the last is filled up with what it already has.
    """
    wide = min(cells, at_once)
    high = min(seeds, max(1, at_once // wide))
    return [
        (np.minimum(np.arange(c, c + wide), cells - 1), np.minimum(np.arange(s, s + high), seeds - 1))
        for c in range(0, cells, wide)
        for s in range(0, seeds, high)
    ]  # fmt: skip


def _work(course: _Course) -> float:
    """How many products of numbers all runs take, about."""
    runs = len(course.cells[0]) * len(course.starts)
    return 2.0 * runs * float(course.marks[-1]) * course.plan.batch * course.starts[0][0].size


def _by_class(course: _Course) -> bool:
    """Whether NumPy trains, class by class, and nothing is compiled.

    A step of a stream takes it some hundred microseconds however few cells there are: too long for one cell on very
    many streams, or for very many steps.
    """
    turns = len(course.starts) * int(course.marks[-1])
    few = turns <= TURNS * min(len(course.cells[0]), AT_ONCE["cpu"])
    soon = _work(course) <= BRIEF and processors_first()
    return few and not course.plan.residual and (soon or on_processors())


def _in_numpy(course: _Course) -> tuple[list[Group], Callable[..., Trained]]:
    """Which cells and streams are trained together, and what trains them; records as (seeds, times, cells, …)."""
    plan, classes, bias, starts, streams, cells, marks, seed, dtype = course
    blocks = Blocks.of(classes, bias, dtype)
    groups = _groups(len(cells[0]), len(starts), AT_ONCE["cpu"])

    def train(c: np.ndarray, s: np.ndarray) -> Trained:
        rates = cells[0][c], cells[1][c]
        each = [
            train_stream(blocks, plan, starts[i], rates, marks, seed, int(streams[i]))
            for i in s.tolist()
        ]
        values = {name: np.stack([kept[name] for kept, _ in each]) for name in each[0][0]}
        return values, np.stack([failed for _, failed in each])

    return [(np.unique(c), np.unique(s)) for c, s in groups], train


def _compiled(course: _Course) -> tuple[list[Group], Callable[..., Trained]]:
    """The same by JAX, for the device it would choose."""
    (eta_y, eta_z), classes, dtype = course.cells, course.classes, course.dtype
    at_once = AT_ONCE.get(jax.default_backend(), AT_ONCE_ELSEWHERE)
    # Only now: it imports JAX by itself, which another thread may be doing until here.
    from attomaton.scan_snap.experiment.model import Params, layer_of, population

    groups = _groups(len(eta_y), len(course.starts), at_once)
    distinct = classes.distinct[:, classes.context_tokens]
    layer, whole = layer_of(classes, course.bias, dtype), population(classes, dtype)
    fixed = jax.device_put(_Fixed(sampler_of(classes), layer, whole, distinct))
    Y: np.ndarray = np.stack([start[0] for start in course.starts]).astype(dtype)
    Z: np.ndarray = np.stack([start[1] for start in course.starts]).astype(dtype)
    marks, seed = course.marks.astype(np.int32), np.uint32(course.seed)

    def arguments(c: np.ndarray, s: np.ndarray) -> tuple:
        rates = eta_y[c].astype(dtype), eta_z[c].astype(dtype)
        streams = course.streams[s].astype(np.int32)
        return fixed, *rates, marks, seed, streams, Params._make((Y[s], Z[s]))

    brief = _work(course) <= BRIEF
    program = compiled_program(_build, course.plan, arguments(*groups[0]), brief=brief)
    return groups, lambda c, s: jax.device_get(program(*arguments(c, s)))


def _run(
    course: _Course, progress: Progress
) -> tuple[dict[str, np.ndarray], Int[np.ndarray, "cells seeds"], dict[str, float]]:
    """Every cell on every stream, group after group; records as (cells, seeds, times, …)."""
    begin = perf_counter()
    cells, seeds, by_class = len(course.cells[0]), len(course.starts), _by_class(course)
    kept: dict[str, np.ndarray] = {}
    failed = np.zeros((cells, seeds), np.int64)
    with float64() if course.dtype is np.float64 and not by_class else nullcontext():
        groups, train = _in_numpy(course) if by_class else _compiled(course)
        seconds = {"compile": perf_counter() - begin}
        for at, (c, s) in enumerate(groups):
            values, ended = train(c, s)
            for name, value in values.items():  # (seeds, times, cells, …)
                whole = kept.setdefault(
                    name, np.empty((cells, seeds, len(course.marks), *value.shape[3:]))
                )
                whole[c[:, None], s] = np.moveaxis(value, 2, 0)
            failed[c[:, None], s] = ended.T
            done = cells * seeds if at == len(groups) - 1 else (at + 1) * len(c) * len(s)
            progress(done, cells * seeds, f"loss {values['loss'][:, -1].mean():.6g}")
    seconds["run"] = perf_counter() - begin - seconds["compile"]
    return kept, failed, seconds


# What is made of it


def _dynamics(course: _Course, kept: dict[str, np.ndarray], failed: np.ndarray) -> Dynamics:
    """All runs, cell by cell; how long they took is not known yet."""
    classes = course.classes
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in kept.items()}
    eta_y, eta_z = (np.repeat(eta, len(course.starts)) for eta in course.cells)
    t = course.marks.astype(float)
    z = np.zeros((*flat["Z"].shape[:2], classes.K, classes.M))
    at = np.searchsorted(classes.queries, classes.query_of)
    z[..., classes.context_tokens] = flat["Z"][:, :, at] + course.bias
    z[np.isnan(flat["loss"])] = np.nan
    rate = flat["scan_rate"] * (eta_z / classes.K)[:, None, None]
    area = np.diff(t)[:, None] * (rate[:, 1:] + rate[:, :-1]) / 2
    records = {
        "loss": flat["loss"] + 0.0,  # turns −0 into 0
        "y_norm": flat["y_norm"],
        "gamma": _own_coefficient(flat["gram"], flat["onto"]),
        "xi": flat["scan_rate"],
        "B": np.concatenate([np.zeros_like(rate[:, :1]), np.cumsum(area, axis=1)], axis=1),
    }
    status = tuple(f"diverged at step {n}" if n else "finished" for n in failed.ravel().tolist())
    return Dynamics("sampled", classes, eta_y, eta_z, t, z, records, status, {})


def _own_coefficient(
    gram: Float[np.ndarray, "runs times classes classes"],
    onto: Float[np.ndarray, "runs times classes classes"],
) -> Float[np.ndarray, "runs times"]:
    r"""The mean over n of $a_{nn}$, where $\sum_{n'} a_{nn'} f_{n'}$ is nearest to $g_n$; NaN where a run diverged."""
    gamma = np.full(gram.shape[:2], np.nan)
    fine = np.isfinite(gram).all(axis=(2, 3)) & np.isfinite(onto).all(axis=(2, 3))
    inverse = np.linalg.pinv(gram[fine], rcond=1e-6, hermitian=True)
    gamma[fine] = np.einsum("bnk,bkn->bn", onto[fine], inverse).mean(axis=1)
    return gamma
