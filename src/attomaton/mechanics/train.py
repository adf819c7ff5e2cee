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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np
from jaxtyping import Float, Int

from attomaton.corpus.samples import Samples
from attomaton.errors import DataError, UsageError, one_of
from attomaton.mechanics.data import Embeddings, check_embeddings
from attomaton.numerics import float64
from attomaton.programs import compiled_program

if TYPE_CHECKING:
    from attomaton.mechanics.model import Problem

HEADS = ("identity", "tied")
LOSSES = ("log", "squared", "cross-entropy")
OPTIMIZERS = ("gd", "ngd", "polyak", "sgd", "adam")
INITS = ("zeros", "uniform")
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # Adam's customary constants
CHUNKS = 50  # pieces a run is cut into when somebody watches it
RECORDS = 100  # records kept when nobody says how often

Number = float | int
PerProblem = Number | Sequence[Number] | np.ndarray
Table = Embeddings | np.ndarray
Record = Callable[..., dict]
Progress = Callable[[int, int, float], object]


@dataclass(frozen=True, eq=False)
class Training:
    """What came out of training B problems side by side, all of it NumPy.

    `W` in dense space; in pairs space `scores`, one for each pair, sorted by (last token, token),
    zeros past a problem's own pairs. `records[name][b, r]` was measured at `steps[r]`; of a problem
    that diverged the last finite parameters are kept and later records are NaN.
    """

    W: Float[np.ndarray, "problems width width"] | None
    scores: Float[np.ndarray, "problems pairs"] | None
    steps: Int[np.ndarray, " records"]
    records: dict[str, np.ndarray]
    status: list[str]  # "finished", "diverged at step N" or "interrupted", one per problem
    seconds: dict[str, float]  # "compile" and "run"


def train(
    data: Samples | Sequence[Samples],
    *,
    embeddings: Table | Sequence[Table] | None = None,
    init: str | np.ndarray | Sequence[np.ndarray] = "zeros",
    optimizer: str = "gd",
    lr: PerProblem = 0.1,
    steps: int = 1000,
    every: int | str | None = None,
    head: str = "identity",
    loss: str = "log",
    batch_size: int | None = None,
    seeds: int = 1,
    seed: int = 0,
    loss_floor: PerProblem | None = None,
    record: Record | None = None,
    context: Any = None,
    progress: Progress | None = None,
) -> Training:
    """Train one data set from `seeds` different starts, or a sequence of data sets, all at once.

    Without `embeddings` they are orthonormal and the parameters are the scores of the pairs that
    occur; with them (one matrix, or one for each data set) the parameters are W. `init` is "zeros",
    "uniform" on ±1/√width, or given values (one array for all, or one for each problem). Problem i
    draws from its own stream of random numbers, named by `seed` and i alone. `lr` and `loss_floor`
    may be one number for each problem.

    Loss and norm are recorded at steps 0, `every`, 2·`every`, …, `steps` (about 100 times unless
    told; `every="log"` spaces them evenly on a logarithmic axis), and with them the scalars of
    `record(params, context)`: a function JAX can trace, best one of a module (each new function is
    compiled anew), and a tree of arrays whose leading axis is the problems.

    `progress(done_steps, steps, mean_loss)` is called some fifty times on the way; a keyboard
    interrupt then ends the run early with what was computed so far.

    Three wins against one give the odds 3:1, half of log 3 on each side:

    >>> from attomaton.corpus.windows import samples_from_sequences
    >>> samples = samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1])
    >>> train(samples, lr=1.0).scores.round(6).tolist(), round(float(np.log(3)) / 2, 6)
    ([[0.549306, -0.549306]], 0.549306)
    """
    _check_options(
        optimizer=optimizer,
        head=head,
        loss=loss,
        counts={
            "steps": steps,
            "every": every if isinstance(every, int) else None,
            "batch_size": batch_size,
            "seeds": seeds,
        },
        seed=seed,
    )
    many = not isinstance(data, Samples)
    sets = list(data) if not isinstance(data, Samples) else [data]
    if not sets:
        raise UsageError("data: an empty sequence; give at least one data set.")
    if many and seeds != 1:
        raise UsageError(
            f"seeds={seeds} with a sequence of {len(sets)} data sets: seeds are for one data set. "
            "Repeat the data sets instead."
        )
    B = len(sets) if many else seeds
    tables = _tables(sets, embeddings, head)
    floor = _floor(loss_floor, optimizer, B)
    rate = _per_problem("lr", lr, B)
    if not (np.isfinite(rate) & (rate > 0)).all():
        raise UsageError(f"lr={lr}: the step size must be positive and finite.")
    starts = _starts(init, sets, tables, B, seed)

    plan = _Plan(optimizer, head, loss, batch_size, record, shared=not many)
    marks = _record_steps(steps, every)
    given = _Given(rate, floor, np.full(B, seed), np.arange(B), context)
    with float64():
        fixed = (_stack(sets, tables, plan.shared), given)
        course = _run(plan, _first_state(optimizer, _padded(starts)), fixed, marks, progress)
    kept = np.isin(course.steps, marks)
    ended = "interrupted" if course.interrupted else "finished"
    return Training(
        W=None if tables is None else course.state.params,
        scores=course.state.params if tables is None else None,
        steps=course.steps[kept],
        records={name: value[:, kept] for name, value in course.records.items()},
        status=[f"diverged at step {n}" if n else ended for n in course.state.failed.tolist()],
        seconds=course.seconds,
    )


# What is asked for: options, embeddings, starting points


def _check_options(
    *,
    optimizer: str,
    head: str,
    loss: str,
    counts: dict[str, int | None],
    seed: int,
) -> None:
    """Refuse options that make no sense, before anything is computed."""
    one_of("optimizer", optimizer, OPTIMIZERS)
    one_of("head", head, HEADS)
    one_of("loss", loss, LOSSES)
    if head == "tied" and loss == "log":
        raise UsageError(
            'head="tied" with loss="log": the score c_y·f of a tied head can be negative, which '
            'has no logarithm. Use loss="cross-entropy" or "squared", or head="identity".'
        )
    for name, value in counts.items():
        if value is not None and value < 1:
            raise UsageError(f"{name}={value}: at least 1 is needed.")
    if counts["batch_size"] is not None and optimizer not in ("sgd", "adam"):
        raise UsageError(
            f'batch_size with optimizer="{optimizer}", which uses all samples at every step. '
            'Use "sgd" or "adam", or leave batch_size out.'
        )
    if not 0 <= seed < 2**63:
        raise UsageError(f"seed={seed}: a number from 0 to 2^63 − 1 is needed.")


def _per_problem(name: str, value: PerProblem, B: int) -> Float[np.ndarray, " problems"]:
    """One number for each problem, from one for all or one for each."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape not in ((), (B,)):
        raise UsageError(
            f"{name}: expected one number or {B}, one per problem; got shape {array.shape}."
        )
    return np.broadcast_to(array, (B,)).copy()


def _floor(loss_floor: PerProblem | None, optimizer: str, B: int) -> Float[np.ndarray, " problems"]:
    """L* for each problem; only Polyak's step needs one, and cannot do without."""
    if loss_floor is None:
        if optimizer == "polyak":
            raise UsageError('optimizer="polyak" needs loss_floor, the infimum L* of the loss.')
        return np.zeros(B)
    floor = _per_problem("loss_floor", loss_floor, B)
    if not np.isfinite(floor).all():
        raise UsageError(f"loss_floor={loss_floor}: must be finite.")
    return floor


def _tables(
    sets: list[Samples], embeddings: Table | Sequence[Table] | None, head: str
) -> list[Float[np.ndarray, "_ width"]] | None:
    """The embedding matrix of each data set, checked; None in pairs space."""
    if embeddings is None:
        return None
    if isinstance(embeddings, Embeddings) or getattr(embeddings, "ndim", 3) != 3:
        given: list[Any] = [embeddings] * len(sets)
    else:
        given = list(embeddings)
    if len(given) != len(sets):
        raise UsageError(
            f"embeddings: {len(given)} matrices for {len(sets)} data sets; give one for all or one "
            "for each."
        )
    tables = [_table(E, len(s.vocabulary), head) for E, s in zip(given, sets, strict=True)]
    widths = sorted({E.shape[1] for E in tables})
    if len(widths) > 1:
        raise UsageError(
            f"embeddings of widths {', '.join(map(str, widths))} cannot be trained side by side; "
            "train each width by itself."
        )
    return tables


def _table(E: Any, K: int, head: str) -> Float[np.ndarray, "vocab width"]:
    """One embedding matrix: with independent rows, unless the head is tied."""
    if isinstance(E, Embeddings):
        E = E.E
    if head == "identity":
        return check_embeddings(E, K).E
    E = np.asarray(E, dtype=np.float64)
    if E.ndim != 2 or len(E) != K:
        raise DataError(
            f"embeddings: expected a matrix of {K} rows (tokens × width), got {E.shape}."
        )
    if not np.isfinite(E).all():
        i, j = np.argwhere(~np.isfinite(E))[0]
        raise DataError(f"embeddings: entry {E[i, j]} at row {i}, column {j} is not finite.")
    return E


def _starts(
    init: str | np.ndarray | Sequence[np.ndarray],
    sets: list[Samples],
    tables: list[np.ndarray] | None,
    B: int,
    seed: int,
) -> list[np.ndarray]:
    """The first parameters of every problem, each in its own shape."""
    if tables is None:
        shapes: list[tuple[int, ...]] = [(len(s.pair_index()[0]),) for s in sets]
        reach = [len(s.vocabulary) ** -0.5 for s in sets]
    else:
        shapes = [(E.shape[1], E.shape[1]) for E in tables]
        reach = [E.shape[1] ** -0.5 for E in tables]
    shapes, reach = shapes * (B // len(sets)), reach * (B // len(sets))
    if isinstance(init, str):
        one_of("init", init, INITS)
        if init == "zeros":
            return [np.zeros(shape) for shape in shapes]
        names = [np.random.SeedSequence([seed, crc32(b"init"), i]) for i in range(B)]
        return [
            np.random.default_rng(name).uniform(-r, r, shape)
            for name, r, shape in zip(names, reach, shapes, strict=True)
        ]
    given = _given_starts(init, shapes)
    for b, start in enumerate(given):
        wrong = np.argwhere(~np.isfinite(start))
        if len(wrong):
            at = tuple(wrong[0].tolist())
            place = f"problem {b}, entry {at[0] if len(at) == 1 else at}"
            raise DataError(
                f"init: {len(wrong)} entries are not finite, the first is {start[at]} at {place}."
            )
        _check_scores(start, None if tables is None else tables[b % len(tables)], b)
    return given


def _given_starts(
    init: np.ndarray | Sequence[np.ndarray], shapes: list[tuple[int, ...]]
) -> list[np.ndarray]:
    """One start for each problem, from one for all or one for each."""
    ndim = len(shapes[0])
    whole = isinstance(init, np.ndarray) or not len(init) or np.ndim(init[0]) < ndim
    starts = [np.asarray(x, dtype=np.float64) for x in ([init] if whole else init)]
    if whole and starts[0].ndim == ndim + 1:
        starts = list(starts[0])
    elif whole:
        starts = starts * len(shapes)
    if [s.shape for s in starts] != shapes:
        found = starts[0].shape if len(starts) == len(shapes) else f"{len(starts)} arrays"
        if len(starts) == len(shapes):
            b = next(b for b, s in enumerate(starts) if s.shape != shapes[b])
            raise UsageError(
                f"init: expected shape {shapes[b]} for problem {b}, got {starts[b].shape}."
            )
        raise UsageError(
            f"init: expected one array or {len(shapes)}, one per problem; got {found}."
        )
    return starts


def _check_scores(start: np.ndarray, E: np.ndarray | None, b: int) -> None:
    """Refuse a start whose logits overflow (twice a score must still be a number)."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = start if E is None else E @ start.T @ E.T
        wrong = np.argwhere(~np.isfinite(2 * scores))
    if len(wrong):
        at = tuple(wrong[0].tolist())
        pair = f"pair {at[0]}" if E is None else f"token {at[1]} under last token {at[0]}"
        raise DataError(
            f"init: the logit of {pair} in problem {b} overflows ({scores[at]:.3g}); "
            "use a smaller start or smaller embeddings."
        )


def _record_steps(steps: int, every: int | str | None) -> Int[np.ndarray, " records"]:
    """Steps 0, every, 2·every, …, or evenly on a logarithmic axis; and always the last one."""
    if every == "log":
        return np.unique(np.append(0, np.geomspace(1, steps, RECORDS).round().astype(np.int64)))
    if isinstance(every, str):
        raise UsageError(f'every={every!r}: a number of steps or "log" is needed.')
    every = every or max(1, -(-steps // RECORDS))
    return np.unique(np.append(np.arange(0, steps, every), steps))


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


def _stack(sets: list[Samples], tables: list[np.ndarray] | None, shared: bool) -> "Problem":
    """All problems as one, stacked along a leading axis (a shared one as it is), in NumPy."""
    from attomaton.mechanics.model import Bags, Problem, bags_of

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
    moments = (np.zeros_like(params), np.zeros_like(params)) if optimizer == "adam" else ()
    zero = np.zeros(len(params), np.int64)
    return _State(params, moments, zero, zero)


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
    if plan.optimizer == "adam":
        t = state.step + 1.0
        m = BETA_1 * moments[0] + (1 - BETA_1) * g
        v = BETA_2 * moments[1] + (1 - BETA_2) * g * g
        fair_m, fair_v = m / (1 - BETA_1**t), v / (1 - BETA_2**t)
        return -lr * fair_m / (jnp.sqrt(fair_v) + EPSILON), (m, v)
    return -lr * g, moments


def _advance(
    plan: _Plan, state: _State, problem: "Problem", given: _Given, lengths: Any
) -> tuple[_State, dict[str, Any]]:
    """One problem through some segments of `lengths[r]` steps each, with a record after each."""
    import jax
    import jax.numpy as jnp

    from attomaton.mechanics.model import loss_and_gradient, loss_value

    key = jax.random.fold_in(jax.random.key(given.seed, impl="threefry2x32"), crc32(b"batch"))
    key = jax.random.fold_in(key, given.index)

    def step(_: Any, state: _State) -> _State:
        seen = problem
        if plan.batch_size is not None:
            seen = _drawn(problem, plan.batch_size, jax.random.fold_in(key, state.step))
        value, g = loss_and_gradient(state.params, seen, plan.head, plan.loss)
        delta, moments = _move(plan, state, value, g, given)
        new = state.params + delta
        fine = (state.failed == 0) & jnp.isfinite(value) & jnp.isfinite(new).all()
        return _State(
            jnp.where(fine, new, state.params),
            moments,
            state.step + 1,
            jnp.where(fine | (state.failed > 0), state.failed, state.step + 1),
        )

    def segment(state: _State, length: Any) -> tuple[_State, dict[str, Any]]:
        state = jax.lax.fori_loop(0, length, step, state)
        values = {
            "loss": loss_value(state.params, problem, plan.head, plan.loss),
            "norm": _unit(state.params)[1],
        }
        if plan.record is not None:
            values |= _scalars(plan.record(state.params, given.context))
        return state, {k: jnp.where(state.failed == 0, v, jnp.nan) for k, v in values.items()}

    return jax.lax.scan(segment, state, lengths)


def _scalars(values: dict) -> dict[str, Any]:
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
    plan: _Plan, state: _State, fixed: tuple, marks: np.ndarray, progress: Progress | None
) -> _Course:
    """Train to the end, or to a keyboard interrupt, one chunk of steps after the other."""
    import jax

    stops, size = _chunks(marks, progress is not None)
    lengths = np.diff(stops, prepend=0, append=np.full(-len(stops) % size, stops[-1]))
    begin = perf_counter()
    fixed = jax.device_put(fixed)
    program = compiled_program(_build, plan, (state, *fixed, lengths[:size]))
    compiled = perf_counter()
    parts: list[dict[str, np.ndarray]] = []
    interrupted = False
    try:
        for first in range(0, len(stops), size):
            after, values = program(state, *fixed, lengths[first : first + size])
            values = {name: np.asarray(value) for name, value in values.items()}
            state = after
            parts.append(values)
            if progress is not None:
                done = min(first + size, len(stops)) - 1
                progress(int(stops[done]), int(stops[-1]), float(values["loss"][:, -1].mean()))
    except KeyboardInterrupt:
        if not parts:
            raise
        interrupted = True
    state = jax.device_get(state)
    seconds = {"compile": compiled - begin, "run": perf_counter() - compiled}
    records = {name: np.concatenate([p[name] for p in parts], axis=1) for name in parts[0]}
    steps = stops[: records["loss"].shape[1]]
    records = {name: value[:, : len(steps)] for name, value in records.items()}
    return _Course(state, steps, records, seconds, interrupted)


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
