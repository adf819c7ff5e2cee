r"""Level *limit*: training Y and Z together on infinitely many sequences of infinite length.

$$\dot Y = \tfrac{\eta_Y}{K} \sum_n f_n (e_n - \alpha_n)^\top, \qquad
  \dot z_m = \tfrac{\eta_Z}{K} \sum_{n \in \psi^{-1}(m)} \mathrm{diag}(f_n)(I - f_n f_n^\top)\, Y (e_n - \alpha_n)$$

either as a differential equation ("adaptive") or as the discrete steps $W \leftarrow W + \eta \dot W$ a trainer takes
("steps"). The scan progress $B_n = \int \tfrac{\eta_Z}{K} \xi_n\, dt$ is carried along as one more unknown.

The equation is solved in logarithmic time $s = \ln(1 + t)$: residuals decay like 1/t, so that
$dW/ds = (1 + t)\, \dot W$ stays of order 1 and $t = 10^8$ is some eighteen units of s away.
"""

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attomaton.base.lazily import jax, jnp
from attomaton.base.programs import compiled_program
from attomaton.base.progress import Progress
from attomaton.base.shapes import Float
from attomaton.errors import UsageError, one_of, whole_number
from attomaton.numerics import float64
from attomaton.scan_snap.data import SequenceClasses
from attomaton.scan_snap.experiment.draws import uniform_start
from attomaton.scan_snap.trajectory import Dynamics, as_runs, record_times

if TYPE_CHECKING:
    from jax import Array

    from attomaton.scan_snap.experiment.population import Population

MOST = 2**31 - 1  # of steps and seeds
METHODS = ("adaptive", "steps")
STARTS = ("zero", "uniform")
LAST = 1e6  # where the differential equation ends when nobody says when to record
RECORDS = 200
SOLVER_STEPS = 100_000  # between two records before a run counts as failed
SMALLEST = 1e-15  # a solver step shorter than this, in s, is a failure too
CHUNKS = 50  # pieces a run is cut into when somebody watches it

Number = float | int
Numbers = Sequence[Number] | np.ndarray
Rate = Number | Numbers


def run_limit(
    classes: SequenceClasses,
    *,
    eta_y: Rate,
    eta_z: Rate,
    times: Numbers | None = None,
    method: str = "adaptive",
    steps: int | None = None,
    momentum: Number = 0.0,
    start: str = "zero",
    seed: int = 0,
    seeds: int = 1,
    rtol: float = 1e-8,
    atol: float = 1e-10,
    progress: Progress | None = None,
) -> Dynamics:
    r"""The dynamics of infinitely long sequences, for several pairs of learning rates and starts at once.

    Rates are one number or one for each pair; run `i · seeds + j` has the i-th pair and the j-th start. A *start* is
    "zero" or "uniform" on $\pm 1/\sqrt M$ (the j-th of `seed`, the same as for sampled training).

    "adaptive" solves the differential equation to `rtol` and `atol` and records at the given times (200 on a
    logarithmic axis up to 10⁶ unless told). "steps" makes `steps` discrete steps, with momentum μ in the customary
    form $v \leftarrow \mu v + \dot W$, $W \leftarrow W + v$; times are then numbers of steps (all of them, or about 200
    on a logarithmic axis, unless told).

    Records besides z: `loss`, `y_norm`, `gamma`, `xi` and `B`. B moves as z does: by the solver, to its tolerances, or
    by the same discrete steps (with momentum). A run that ceases to be finite, or cannot be continued to the
    tolerances, is NaN from then on; the others go on. `progress` is told the records done and the mean loss on
    the way.

    Two tokens, two classes, each with a token of its own: nothing to scan, so attention stays where it is.

    >>> from attomaton.scan_snap.data import sequence_classes
    >>> classes = sequence_classes([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]], [2, 2], [3, 4])
    >>> run = run_limit(classes, eta_y=1.0, eta_z=1.0, times=[0, 10])
    >>> run.status, run.records["loss"].round(3).tolist(), bool(abs(run.z).max() < 1e-12)
    (('finished',), [[1.609, 0.235]], True)
    """
    one_of("method", method, METHODS)
    one_of("start", start, STARTS)
    if not 0 <= momentum < 1:
        raise UsageError(f"momentum={momentum}: a number from 0 to below 1 is needed.")
    whole_number("seeds", seeds, least=1, most=MOST)
    whole_number("seed", seed, least=0)
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not (np.isfinite(value) and value > 0):
            raise UsageError(f"{name}={value}: a positive number is needed.")
    if seeds > 1 and start == "zero":
        raise UsageError(f'seeds={seeds} with start="zero": they would all be the same run.')
    if momentum and method == "adaptive":
        raise UsageError('momentum is for discrete steps: method="steps".')
    pairs = _rates(eta_y, eta_z)
    t = _record_times(times, method, steps)
    eta_y, eta_z = (np.repeat(eta, seeds) for eta in pairs)

    plan = _Plan(method, momentum > 0)
    with float64():
        population, first = _begin(classes, start, seed, seeds, len(pairs[0]), plan)
        same = partial(np.full, len(eta_y))
        given = _Given(eta_y, eta_z, same(momentum), same(rtol), same(atol))
        records, failed, seconds = _run(plan, first, population, given, t, progress)
    z = np.zeros((len(eta_y), len(t), classes.K, classes.M))
    z[..., classes.context_tokens] = records.pop("z")[:, :, population.row]
    return Dynamics(
        level="limit", classes=classes, eta_y=eta_y, eta_z=eta_z, t=t, z=z, records=records,
        status=tuple(_status(method, at) for at in failed), seconds=seconds,
    )  # fmt: skip


# What is asked for: rates, times


def _rates(
    eta_y: Rate, eta_z: Rate
) -> tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"]]:
    """The two learning rates of every pair, checked."""
    try:
        pairs = as_runs(np.asarray(eta_y, float), np.asarray(eta_z, float))
    except ValueError:
        shapes = f"{np.shape(eta_y)} and {np.shape(eta_z)}"
        raise UsageError(
            f"eta_y and eta_z: numbers, or as many of one as of the other, not {shapes}."
        ) from None
    for name, eta in zip(("eta_y", "eta_z"), pairs, strict=True):
        if eta.ndim != 1 or not eta.size:
            raise UsageError(f"{name}: a number or a list of numbers is needed.")
        wrong = eta[~(np.isfinite(eta) & (eta > 0))]
        if len(wrong):
            raise UsageError(f"{name}={wrong[0]:g}: a learning rate must be positive and finite.")
    return pairs


def _record_times(
    times: Numbers | None, method: str, steps: int | None
) -> Float[np.ndarray, " times"]:
    """When to record: as asked, or on a logarithmic axis."""
    if method == "adaptive" and steps is not None:
        raise UsageError(
            'steps is for method="steps"; the differential equation ends at the last of its times.'
        )
    if steps is not None:
        whole_number("steps", steps, least=1, most=MOST)
    if times is None:
        if method == "adaptive":
            return record_times(LAST, RECORDS)
        if steps is None:
            raise UsageError('method="steps" needs steps or times.')
        if steps <= RECORDS:
            return np.arange(steps + 1.0)
        return np.unique(record_times(float(steps), RECORDS).round())
    t = np.asarray(times, float)
    if t.ndim != 1 or not t.size:
        raise UsageError("times: a list of times is needed.")
    if not np.isfinite(t).all() or t[0] < 0 or (np.diff(t) <= 0).any():
        raise UsageError("times must be finite, 0 or more, and increasing.")
    if method == "steps" and (t != t.round()).any():
        raise UsageError('times must be whole numbers of steps with method="steps".')
    if steps is not None and t[-1] > steps:
        raise UsageError(f"times go to {t[-1]:g}, but steps={steps}.")
    return t


def _status(method: str, at: float) -> str:
    """How a run ended; `at` is where it failed, or NaN."""
    if np.isnan(at):
        return "finished"
    return f"diverged at step {at:.0f}" if method == "steps" else f"diverged at t={at:.6g}"


# What is computed: the unknowns, their motion between two records, the compiled program


class _Plan(NamedTuple):
    """What the compiled program depends on besides shapes."""

    method: str
    momentum: bool


class _Unknowns(NamedTuple):
    """What moves: Y, Z and the scan progress B."""

    Y: Any
    Z: Any
    B: Any


class _State(NamedTuple):
    """Where a run stands; `memory` is momentum's, `failed` where the run ceased, or NaN."""

    unknowns: _Unknowns
    memory: _Unknowns | tuple[()]
    t: Any
    failed: Any


class _Given(NamedTuple):
    """What each run has for itself."""

    eta_y: Any
    eta_z: Any
    momentum: Any
    rtol: Any
    atol: Any


def _begin(
    classes: SequenceClasses, start: str, seed: int, seeds: int, pairs: int, plan: _Plan
) -> tuple["Population", _State]:
    """The population, and the first state of every run."""
    from attomaton.scan_snap.experiment.population import population_of

    # From zero, the columns of Y that are nobody's next token move alike: one of them will do.
    population = population_of(classes, merged=start == "zero")
    L = len(classes.context_tokens)
    Y = np.zeros((seeds, L, len(population.multiplicity)))
    Z = np.zeros((seeds, len(classes.queries), L))
    if start == "uniform":
        for j in range(seeds):
            Y[j], Z[j] = uniform_start(classes, seed, j)
    B = np.zeros((seeds, classes.K))
    unknowns = _Unknowns(*(np.tile(x, (pairs, 1, 1)[: x.ndim]) for x in (Y, Z, B)))
    memory = _Unknowns(*map(np.zeros_like, unknowns)) if plan.momentum else ()
    runs = pairs * seeds
    return population, _State(unknowns, memory, np.zeros(runs), np.full(runs, np.nan))


def _motion(x: _Unknowns, population: "Population", given: _Given) -> _Unknowns:
    """The velocity of every unknown, learning rates included."""
    from attomaton.scan_snap.experiment.population import velocity

    v = velocity(x.Y, x.Z, population)
    return _Unknowns(given.eta_y * v.Y, given.eta_z * v.Z, given.eta_z / len(v.xi) * v.xi)


def _flow(
    x: _Unknowns, population: "Population", given: _Given, t0: Any, t1: Any
) -> tuple[_Unknowns, Any]:
    """The differential equation from t0 to t1, and whether the solver got there."""
    import diffrax

    def field(s: Any, x: _Unknowns, args: None) -> _Unknowns:
        return jax.tree.map(lambda v: jnp.exp(s) * v, _motion(x, population, given))

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        t0=jnp.log1p(t0),
        t1=jnp.log1p(t1),
        dt0=None,
        y0=x,
        # With `force_dtmin` the smallest step would be taken however wrong it is.
        stepsize_controller=diffrax.PIDController(
            given.rtol, given.atol, dtmin=SMALLEST, force_dtmin=False
        ),
        adjoint=diffrax.ForwardMode(),  # nobody differentiates through; the program compiles faster
        max_steps=SOLVER_STEPS,
        throw=False,
    )
    after = jax.tree.map(lambda value: value[-1], solution.ys)
    return after, solution.result == diffrax.RESULTS.successful


def _steps(
    x: _Unknowns, memory: Any, population: "Population", given: _Given, t0: Any, t1: Any
) -> tuple[_Unknowns, Any, Any]:
    """Discrete steps from t0 to t1; with the last finite unknowns, the step that failed (or NaN)."""

    def step(t: Any, now: tuple) -> tuple:
        x, memory, failed = now
        v = _motion(x, population, given)
        if memory:
            v = memory = jax.tree.map(lambda m, v: given.momentum * m + v, memory, v)
        after = jax.tree.map(jnp.add, x, v)
        fine = jnp.isnan(failed) & _finite(after)
        failed = jnp.where(fine | ~jnp.isnan(failed), failed, t + 1.0)
        return _select(fine, after, x), memory, failed

    return jax.lax.fori_loop(t0.astype(int), t1.astype(int), step, (x, memory, jnp.nan))


def _finite(x: _Unknowns) -> Any:
    return jnp.isfinite(x.Y).all() & jnp.isfinite(x.Z).all() & jnp.isfinite(x.B).all()


def _select(which: Any, yes: _Unknowns, no: _Unknowns) -> _Unknowns:
    return jax.tree.map(partial(jnp.where, which), yes, no)


def _advance(
    plan: _Plan, state: _State, population: "Population", given: _Given, times: Any
) -> tuple[_State, "dict[str, Array]"]:
    """One run through the given times, with a record at each."""
    from attomaton.scan_snap.experiment.population import has_distinct, population_measures

    def segment(state: _State, t: Any) -> tuple[_State, "dict[str, Array]"]:
        x, memory, t0, failed = state
        # A failed run stands still, so that it costs the others no time.
        alive = jnp.isnan(failed)
        rates = given._replace(eta_y=given.eta_y * alive, eta_z=given.eta_z * alive)
        if plan.method == "steps":
            x, memory, at = _steps(x, memory, population, rates, t0, t)
        else:
            after, fine = _flow(x, population, rates, t0, t)
            fine = fine & _finite(after)
            x, at = _select(fine, after, x), jnp.where(fine, jnp.nan, t)
        values = population_measures(x.Y, x.Z, population)
        # Unknowns may still be finite when what they are multiplied to is not.
        at = jnp.where(jnp.isnan(at) & ~jnp.isfinite(values["loss"]), t, at)
        failed = jnp.where(alive, at, failed)
        values |= {"B": jnp.where(has_distinct(population), x.B, jnp.nan), "z": x.Z}
        kept = {name: jnp.where(jnp.isnan(failed), v, jnp.nan) for name, v in values.items()}
        return _State(x, memory, t, failed), kept

    return jax.lax.scan(segment, state, times)


def _build(plan: _Plan) -> Callable:
    """All runs side by side on the same classes."""
    return jax.vmap(partial(_advance, plan), in_axes=(0, None, 0, None))


def _run(
    plan: _Plan,
    state: _State,
    population: "Population",
    given: _Given,
    t: Float[np.ndarray, " times"],
    progress: Progress | None,
) -> tuple[dict[str, np.ndarray], Float[np.ndarray, " runs"], dict[str, float]]:
    """All runs through all times, in one call of the program or (when watched) in about fifty.

    What was measured, where each run failed (or NaN), and the seconds it took.
    """
    size = len(t) if progress is None else -(-len(t) // CHUNKS)
    # Times are repeated at the end to fill the last call: nothing happens between equal times.
    stops = np.pad(t, (0, -len(t) % size), mode="edge")
    begin = perf_counter()
    program = compiled_program(_build, plan, (state, population, given, stops[:size]))
    compiled = perf_counter()
    parts: list[dict[str, np.ndarray]] = []
    for first in range(0, len(stops), size):
        state, values = program(state, population, given, stops[first : first + size])
        parts.append({name: np.asarray(value) for name, value in values.items()})
        if progress is not None:
            done = min(first + size, len(t))
            progress(done, len(t), f"loss {parts[-1]['loss'][:, -1].mean():.6g}")
    seconds = {"compile": compiled - begin, "run": perf_counter() - compiled}
    records = {
        name: np.concatenate([p[name] for p in parts], axis=1)[:, : len(t)] for name in parts[0]
    }
    return records, np.asarray(state.failed), seconds
