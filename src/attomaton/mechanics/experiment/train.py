r"""Gradient descent on the layer and its relatives, many problems in one compiled program.

With $g = \nabla_W L(W_t)$, $\|\cdot\|$ the Frobenius norm and $\eta$ = `lr`, one step is

    gd       W ← W − η g
    ngd      W ← W − η g/‖g‖                  (no step where g = 0)
    polyak   W ← W − (L − L*)/‖g‖² · g        (L* = `loss_floor`; no step where L ≤ L*; no η)
    sgd      W ← W − η g_B                    (g_B: the gradient of a random mini-batch B)
    adam     m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²,  W ← W − η m̂/(√v̂ + ε)

Training knows nothing of the theory it is compared with: what else is measured on the way is the
caller's, given as `record`. JAX is imported when training starts, not with this module.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable
from zlib import crc32

import numpy as np
from jaxtyping import Float, Int

from attomaton.base.face import Tabular, figure_of
from attomaton.base.optimisers import Adam, Optimiser, Plain
from attomaton.base.programs import compiled_program
from attomaton.base.progress import Progress
from attomaton.corpus.samples import Samples, expect_samples, list_of
from attomaton.errors import DataError, UsageError, counted, one_of, whole_number
from attomaton.mechanics.experiment.arguments import (
    USUAL,
    PerProblem,
    Settings,
    Table,
    check_options,
    embedding_tables,
    first_parameters,
    learning_rate,
    loss_floors,
    record_steps,
    spacing,
    step_sizes,
)
from attomaton.numerics import float64

if TYPE_CHECKING:
    from jax import Array

    from attomaton.mechanics.experiment.model import Problem
    from attomaton.mechanics.experiment.whole import Whole

CHUNKS = 50  # pieces a run is cut into when somebody watches it
KEEP_EVERY = 5.0  # seconds between checkpoints

Record = Callable[..., dict]
Arrays = dict[str, np.ndarray]
Watch = Callable[[np.ndarray, Arrays], object]


@runtime_checkable
class Checkpoint(Protocol):
    """Where a run keeps what it has done so far; both are called between steps only."""

    def load(self) -> Arrays | None:
        """What was saved last, or None."""

    def save(self, arrays: Arrays) -> None:
        """Keep these, in place of what was saved before."""


@dataclass(frozen=True, eq=False, repr=False)
class Training(Tabular):
    """What came out of training B problems side by side, all of it NumPy.

    `W` in dense space; in pairs space `scores`, one for each pair, sorted by (last token, token),
    zeros past a problem's own pairs. `records[name][b, r]` was measured at `steps[r]`; of a problem
    that diverged the last finite parameters are kept and later records are NaN. `settings` are what was
    asked for, defaults filled in. As a table it has one row for each problem and recorded step: `seed`, `step`, `loss`,
    `norm` and what else was recorded.

    >>> from attomaton import example_samples, train
    >>> run = train(example_samples(), steps=100)
    >>> run
    Training(1 problem, 100 steps, gd, finished, loss 0.529)
    >>> run.settings.lr, run.to_arrow().column_names
    (1.0, ['seed', 'step', 'loss', 'norm'])
    """

    W: Float[np.ndarray, "problems width width"] | None
    scores: Float[np.ndarray, "problems pairs"] | None
    steps: Int[np.ndarray, " records"]
    records: dict[str, np.ndarray]
    status: list[str]  # "finished", "diverged at step N" or "interrupted", one per problem
    seconds: dict[str, float]  # "compile" and "run"
    settings: Settings = USUAL

    def _in_short(self) -> str:
        ended = ", ".join(dict.fromkeys(self.status))
        loss = ", ".join(f"{x:.3g}" for x in self.records["loss"][:3, -1])
        more = ", …" if len(self.status) > 3 else ""
        return (
            f"{counted(len(self.status), 'problem')}, {counted(int(self.steps[-1]), 'step')}, "
            f"{self.settings.optimizer}, {ended}, loss {loss}{more}"
        )

    def columns(self) -> dict[str, np.ndarray]:
        """One row for each problem and recorded step; problems are numbered as seeds."""
        return metric_columns({"steps": self.steps, **self.records}, len(self.status))

    def to_arrow(self) -> Any:
        """The table as a `pyarrow.Table`, one row for each problem and recorded step."""
        import pyarrow as pa

        return pa.table(self.columns())

    def plot(self) -> Any:
        """What was recorded against the steps, as a `matplotlib.figure.Figure`."""
        return figure_of(self)


def metric_columns(records: Mapping[str, np.ndarray], seeds: int) -> dict[str, np.ndarray]:
    """Records as columns, one row per seed and recorded step."""
    steps = records["steps"]
    flat = {name: value.ravel() for name, value in records.items() if name != "steps"}
    return {"seed": np.repeat(np.arange(seeds), len(steps)), "step": np.tile(steps, seeds), **flat}


def train(
    data: Samples | Sequence[Samples] | Any,
    *,
    embeddings: Table | Sequence[Table] | None = None,
    init: str | np.ndarray | Sequence[np.ndarray] | Any = USUAL.init,
    optimizer: str | Any = USUAL.optimizer,
    lr: PerProblem | None = None,
    steps: int | Any = USUAL.steps,
    every: int | str | Any | None = None,
    head: str | Any = USUAL.head,
    loss: str | Any = USUAL.loss,
    batch_size: int | Any | None = None,
    seeds: int | Any = USUAL.seeds,
    seed: int | Any = USUAL.seed,
    loss_floor: PerProblem | None = None,
    record: Record | Any | None = None,
    context: Any = None,
    progress: Progress | Any | None = None,
    watch: Watch | Any | None = None,
    checkpoint: "Checkpoint | None" = None,
    layout: str | Any | None = None,
) -> Training:
    """Train one data set from `seeds` different starts, or a sequence of data sets, all at once.

    Unless told otherwise, 4,000 steps of gradient descent on the log-loss from one start, all scores 0.

    Without `embeddings` they are orthonormal and the parameters are the scores of the pairs that
    occur; with them (one matrix, or one for each data set) the parameters are W. `init` is "zeros",
    "uniform" on ±1/√width, or given values (one array for all, or one for each problem). Problem i
    draws from its own stream of random numbers, named by `seed` and i alone. `lr` and `loss_floor`
    may be one number for each problem; without `lr` it is 1 for gd, 0.01 for ngd and adam, 0.1 for sgd. The
    defaults are those of `attomaton train` and of the lab, too; what was used is in `settings` of the answer.

    Loss and norm are recorded at steps 0, `every`, 2·`every`, …, `steps` (about 100 times unless
    told; `every="log"` spaces them evenly on a logarithmic axis), and with them the scalars of
    `record(params, context)`: a function JAX can trace, best one of a module (each new function is
    compiled anew), and a tree of arrays whose leading axis is the problems.

    `progress(done_steps, steps, words)`, the mean loss in words, is called some fifty times on the way; a keyboard
    interrupt then ends the run early with what was computed so far. `watch(steps, records)` is called as
    often, just before, with all records so far, as `Training` will hold them. A `checkpoint` keeps where
    the run stands, and a run that finds one goes on from there: with the same data and options it ends in
    the same parameters and records as if nothing had happened.

    `layout` is how the gradient is summed, "scatter" (any loss; faster on a CPU) or "gather" (the log-loss of one
    data set in pairs space, all samples at every step; faster on a GPU); by default what suits the device.

    Three wins against one give the odds 3:1, half of log 3 on each side:

    >>> from attomaton.corpus.windows import samples_from_sequences
    >>> samples = samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1])
    >>> train(samples).scores.round(6).tolist(), round(float(np.log(3)) / 2, 6)
    ([[0.549306, -0.549306]], 0.549306)
    """
    learning_rate(optimizer, lr)
    check_options(
        optimizer=optimizer,
        head=head,
        loss=loss,
        steps=steps,
        every=every,
        batch_size=batch_size,
        seeds=seeds,
        seed=seed,
    )
    steps, seeds = (whole_number(*x, least=1) for x in (("steps", steps), ("seeds", seeds)))
    batch_size = None if batch_size is None else whole_number("batch_size", batch_size)
    seed = whole_number("seed", seed)
    many = not isinstance(data, Samples)
    sets = (
        [data]
        if isinstance(data, Samples)
        else list_of(data, "data", "samples, or a list of them,")
    )
    if not sets:
        raise UsageError("data: an empty sequence; give at least one data set.")
    for one in sets:
        expect_samples(one)
    for name, function in {"record": record, "progress": progress, "watch": watch}.items():
        if function is not None and not callable(function):
            raise UsageError(f"{name}={function!r:.60}: a function is needed.")
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise UsageError(f"checkpoint={checkpoint!r:.60}: something with load and save is needed.")
    if many and seeds != 1:
        raise UsageError(
            f"seeds={seeds} with a sequence of {len(sets)} data sets: seeds are for one data set. "
            "Repeat the data sets instead."
        )
    B = len(sets) if many else seeds
    tables = embedding_tables(sets, embeddings, head)
    floor = loss_floors(loss_floor, optimizer, B)
    rate = step_sizes(1.0 if optimizer == "polyak" else learning_rate(optimizer, lr), B)
    starts = first_parameters(init, sets, tables, B, seed)

    fits = tables is None and loss == "log" and batch_size is None and not many
    gather = _gathers(layout, fits)
    plan = _Plan(optimizer, head, loss, batch_size, record, shared=not many)
    every = spacing(steps, every)
    marks = record_steps(steps, every)
    given = _Given(rate, floor, np.full(B, seed), np.arange(B), context)
    with float64():
        fixed = (_stack(sets, tables, plan.shared, gather), given)
        state = _first_state(optimizer, _padded(starts))
        course = _run(plan, state, fixed, marks, progress, watch, checkpoint)
    ended = "interrupted" if course.interrupted else "finished"
    return Training(
        W=None if tables is None else course.state.params,
        scores=course.state.params if tables is None else None,
        steps=course.steps,
        records=course.records,
        status=[f"diverged at step {n}" if n else ended for n in course.state.failed.tolist()],
        seconds=course.seconds,
        settings=Settings(
            init if isinstance(init, str) else "given", optimizer, steps, head, loss, seeds, seed,
            _recorded(None if optimizer == "polyak" else rate), every, batch_size,
        ),
    )  # fmt: skip


def _recorded(rate: Float[np.ndarray, " problems"] | None) -> float | tuple[float, ...] | None:
    """The step size of a run: one number where all problems have it."""
    if rate is None or (rate == rate[0]).all():
        return None if rate is None else float(rate[0])
    return tuple(rate.tolist())


def _gathers(layout: str | Any | None, fits: bool) -> bool:
    """Whether to sum the gradient by pairs, where that is possible."""
    if layout is None:
        import jax

        return fits and jax.default_backend() == "gpu"
    one_of("layout", layout, ("scatter", "gather"))
    if layout == "gather" and not fits:
        raise UsageError(
            'layout="gather" is for the log-loss of one data set without embeddings, all samples at every step.'
        )
    return layout == "gather"


# What is computed: padded problems, one step, the compiled loop


class _Plan(NamedTuple):
    """What the compiled program depends on besides shapes."""

    optimizer: str
    head: str
    loss: str
    batch_size: int | None
    record: Record | None
    shared: bool  # one data set for all problems


class _State(NamedTuple):
    """Where training stands; `failed` is the first step that gave no finite result, 0 for none."""

    params: Any
    moments: tuple
    step: Any
    failed: Any


class _Given(NamedTuple):
    """What each problem has for itself besides its data."""

    lr: Any
    floor: Any
    seed: Any
    index: Any
    context: Any


def _padded(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays stacked, each filled up with zeros to the largest."""
    shape = tuple(np.max([a.shape for a in arrays], axis=0))
    out = np.zeros((len(arrays), *shape))
    for row, a in zip(out, arrays, strict=True):
        row[tuple(map(slice, a.shape))] = a
    return out


def _stack(
    sets: list[Samples], tables: list[np.ndarray] | None, shared: bool, gather: bool
) -> "Problem | Whole":
    """All problems as one, stacked along a leading axis (a shared one as it is), in NumPy."""
    from attomaton.mechanics.experiment.model import Bags, Problem, bags_of
    from attomaton.mechanics.experiment.whole import whole_of

    if gather:
        return whole_of(sets[0])
    rows, slots = max(map(len, sets)), max(int(s.size.max()) for s in sets)
    E = None if tables is None else _padded(tables)
    vocab = None if E is None else E.shape[1]
    bags = [bags_of(s, vocab, rows, slots) for s in sets]
    K = np.array([float(len(s.vocabulary)) for s in sets])
    if shared:
        return Problem._make((bags[0], None if E is None else E[0], K[0]))
    stacked = Bags._make(map(np.stack, zip(*bags, strict=True)))
    return Problem._make((stacked, E, K))


def _first_state(optimizer: str, params: np.ndarray) -> _State:
    zero = np.zeros(len(params), np.int64)
    return _State(params, _optimiser(optimizer).init(params), zero, zero)


def _optimiser(name: str) -> Optimiser:
    return Adam() if name == "adam" else Plain()


def _drawn(problem: "Problem", batch_size: int, key: Any) -> "Problem":
    """A mini-batch: samples drawn in proportion to their weight, each then of equal weight."""
    import jax
    import jax.numpy as jnp

    bags = problem.bags
    below = jnp.cumsum(bags.weight)
    at = jnp.searchsorted(below, below[-1] * jax.random.uniform(key, (batch_size,)), side="right")
    batch = bags._replace(weight=jnp.ones_like(bags.weight))
    batch = type(bags)(*(x[at] for x in batch))
    return problem._replace(bags=batch._replace(weight=batch.weight / batch_size))


def _unit(g: Any) -> tuple[Any, Any]:
    """g/‖g‖ and ‖g‖, safe for gradients whose squares underflow; 0 and 0 for a zero gradient."""
    import jax.numpy as jnp

    peak = jnp.abs(g).max()
    scaled = g / jnp.where(peak > 0, peak, 1.0)
    norm = jnp.sqrt((scaled * scaled).sum())
    return scaled / jnp.where(peak > 0, norm, 1.0), peak * norm


def _move(plan: _Plan, state: _State, value: Any, g: Any, given: _Given) -> tuple[Any, tuple]:
    """The change of the parameters in one step, and the optimizer's memory after it."""
    import jax.numpy as jnp

    lr, moments = given.lr, state.moments
    if plan.optimizer == "ngd":
        return -lr * _unit(g)[0], moments
    if plan.optimizer == "polyak":
        direction, norm = _unit(g)
        length = jnp.maximum(value - given.floor, 0.0) / jnp.where(norm > 0, norm, 1.0)
        return -length * direction, moments
    return _optimiser(plan.optimizer).update(g, moments, state.step, -lr)


def _advance(
    plan: _Plan, state: _State, problem: "Problem | Whole", given: _Given, lengths: Any
) -> tuple[_State, "dict[str, Array]"]:
    """One problem through some segments of `lengths[r]` steps each, with a record after each."""
    import jax
    import jax.numpy as jnp

    from attomaton.mechanics.experiment.model import loss_and_gradient
    from attomaton.mechanics.experiment.whole import Whole, whole_loss_and_gradient

    def look(params: Any, seen: "Problem | Whole") -> tuple[Any, Any]:
        if isinstance(seen, Whole):
            return whole_loss_and_gradient(params, seen)
        return loss_and_gradient(params, seen, plan.head, plan.loss)

    key = jax.random.fold_in(jax.random.key(given.seed, impl="threefry2x32"), crc32(b"batch"))
    key = jax.random.fold_in(key, given.index)

    def step(_: Any, state: _State) -> _State:
        seen = problem
        if plan.batch_size is not None and not isinstance(problem, Whole):
            seen = _drawn(problem, plan.batch_size, jax.random.fold_in(key, state.step))
        value, g = look(state.params, seen)
        delta, moments = _move(plan, state, value, g, given)
        new = state.params + delta
        fine = (state.failed == 0) & jnp.isfinite(value) & jnp.isfinite(new).all()
        return _State(
            jnp.where(fine, new, state.params),
            moments,
            state.step + 1,
            jnp.where(fine | (state.failed > 0), state.failed, state.step + 1),
        )

    def segment(state: _State, length: Any) -> tuple[_State, "dict[str, Array]"]:
        state = jax.lax.fori_loop(0, length, step, state)
        values = {
            "loss": look(state.params, problem)[0],
            "norm": _unit(state.params)[1],
        }
        if plan.record is not None:
            values |= _scalars(plan.record(state.params, given.context))
        return state, {k: jnp.where(state.failed == 0, v, jnp.nan) for k, v in values.items()}

    return jax.lax.scan(segment, state, lengths)


def _scalars(values: dict) -> "dict[str, Array]":
    """What `record` returned, or an error that says what it should have been."""
    import jax.numpy as jnp

    wrong = [k for k, v in values.items() if jnp.ndim(v) or k in ("loss", "norm")]
    if wrong:
        raise UsageError(
            f"record: {', '.join(map(repr, wrong))} must be scalars, under names other than "
            '"loss" and "norm", which are always recorded.'
        )
    return {k: jnp.asarray(v, float) for k, v in values.items()}


def _build(plan: _Plan) -> Callable:
    """All problems side by side; one data set for all is not copied."""
    import jax

    return jax.vmap(partial(_advance, plan), in_axes=(0, None if plan.shared else 0, 0, None))


class _Course(NamedTuple):
    """How far training got, and what was measured where."""

    state: _State
    steps: np.ndarray
    records: dict[str, np.ndarray]
    seconds: dict[str, float]
    interrupted: bool


def _run(
    plan: _Plan,
    state: _State,
    fixed: tuple,
    marks: np.ndarray,
    progress: Progress | None,
    watch: Watch | None,
    checkpoint: Checkpoint | None,
) -> _Course:
    """Train to the end, or to a keyboard interrupt, one chunk of steps after the other."""
    with _between_steps() as interrupt:
        return _course(plan, state, fixed, marks, progress, watch, checkpoint, interrupt)


@contextmanager
def _between_steps() -> Iterator[Callable[[], None]]:
    """Let Ctrl-C wait until the function that this yields is called, which raises it.

    Python raises it wherever it stands: inside a callback of the compiler it is lost, inside its threads it may crash
    the process. Whoever has a handler of their own, as the command line has, keeps it.
    """
    came = threading.Event()
    here = threading.current_thread() is threading.main_thread()
    ours = here and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def interrupt() -> None:
        if came.is_set():
            came.clear()
            raise KeyboardInterrupt

    if ours:
        signal.signal(signal.SIGINT, lambda *_: came.set())
    try:
        yield interrupt
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt()  # one that came after the last step


def _course(
    plan: _Plan,
    state: _State,
    fixed: tuple,
    marks: np.ndarray,
    progress: Progress | None,
    watch: Watch | None,
    checkpoint: Checkpoint | None,
    interrupt: Callable[[], None],
) -> _Course:
    import jax

    watched = any(x is not None for x in (progress, watch, checkpoint))
    stops, size = _chunks(marks, watched)
    lengths = np.diff(stops, prepend=0, append=np.full(-len(stops) % size, stops[-1]))
    begin = perf_counter()
    fixed = jax.device_put(fixed)
    program = compiled_program(_build, plan, (state, *fixed, lengths[:size]))
    compiled = perf_counter()
    parts: list[dict[str, np.ndarray]] = []
    interrupted = False
    saved = None if checkpoint is None else checkpoint.load()
    if saved is not None:
        state, parts = _unpacked(saved, state, size)
    kept = perf_counter()
    try:
        for first in range(len(parts) * size, len(stops), size):
            after, values = program(state, *fixed, lengths[first : first + size])
            values = {name: np.asarray(value) for name, value in values.items()}
            state = after
            parts.append(values)
            interrupt()
            if watch is not None:
                watch(*_joined(parts, stops, marks))
            if progress is not None:
                done = min(first + size, len(stops)) - 1
                said = f"loss {values['loss'][:, -1].mean():.6g}"
                progress(int(stops[done]), int(stops[-1]), said)
            if checkpoint is not None and perf_counter() - kept > KEEP_EVERY:
                checkpoint.save(_packed(jax.device_get(state), parts))
                kept = perf_counter()
    except KeyboardInterrupt:
        if not parts:
            raise
        interrupted = True
        if checkpoint is not None:
            checkpoint.save(_packed(jax.device_get(state), parts))
    state = jax.device_get(state)
    seconds = {"compile": compiled - begin, "run": perf_counter() - compiled}
    steps, records = _joined(parts, stops, marks)
    return _Course(state, steps, records, seconds, interrupted)


def _joined(
    parts: list[Arrays], stops: np.ndarray, marks: np.ndarray
) -> tuple[Int[np.ndarray, " records"], Arrays]:
    """The records of all chunks so far, without stops nobody asked for and the filling of the last chunk."""
    records = {name: np.concatenate([p[name] for p in parts], axis=1) for name in parts[0]}
    steps = stops[: records["loss"].shape[1]]
    kept = np.flatnonzero(np.isin(steps, marks))
    return steps[kept], {name: value[:, kept] for name, value in records.items()}


def _packed(state: _State, parts: list[dict[str, np.ndarray]]) -> Arrays:
    """State and records as named arrays; every chunk's records have the same width."""
    records = {f"record/{k}": np.stack([p[k] for p in parts]) for k in parts[0]}
    moments = {f"moment/{i}": np.asarray(m) for i, m in enumerate(state.moments)}
    named = {name: np.asarray(getattr(state, name)) for name in ("params", "step", "failed")}
    return {**named, **moments, **records}


def _unpacked(
    saved: Arrays, first: _State, size: int
) -> tuple[_State, list[dict[str, np.ndarray]]]:
    """What `_packed` was given; `first` is the state of a run that begins, `size` the width of a chunk's records."""
    wanted = {"params": first.params, "step": first.step, "failed": first.failed}
    wanted |= {f"moment/{i}": m for i, m in enumerate(first.moments)}
    fits = [
        name in saved and saved[name].shape == x.shape and saved[name].dtype == x.dtype
        for name, x in wanted.items()
    ]
    shapes = {v.shape[:3] for k, v in saved.items() if k.startswith("record/")}
    whole = len(shapes) == 1 and "record/loss" in saved
    if not all(fits) or not whole or min(shapes)[1:] != (len(first.step), size):
        raise DataError(
            "the checkpoint does not fit this run: it is damaged. Run the same again to start anew."
        )
    moments = tuple(saved[f"moment/{i}"] for i in range(len(first.moments)))
    records = {k.removeprefix("record/"): v for k, v in saved.items() if k.startswith("record/")}
    chunks = len(next(iter(records.values())))
    parts = [{k: v[i] for k, v in records.items()} for i in range(chunks)]
    return _State(saved["params"], moments, saved["step"], saved["failed"]), parts


def _chunks(
    marks: Int[np.ndarray, " records"], watched: bool
) -> tuple[Int[np.ndarray, " stops"], int]:
    """Where to stop and record, and how many stops make one call of the compiled program.

    Unwatched, everything is one call. Watched, it is cut into about `CHUNKS` calls, with stops
    added where records lie further apart than that (they are dropped again at the end).
    """
    if not watched:
        return marks, len(marks)
    stops = np.union1d(marks, np.linspace(0, marks[-1], CHUNKS + 1).astype(np.int64))
    return stops, -(-len(stops) // CHUNKS)
