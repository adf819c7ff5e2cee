r"""Training of the transformer: many steps in one compiled program, many runs side by side.

A step shows the next window of every column and goes

    sgd    w ← w − η g
    adam   m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²,  w ← w − η m̂/(√v̂ + ε)

with g the gradient of the window's mean loss, shortened to norm `clip` where it is longer. Tokens that a window does
not hold have no gradient, so the embeddings are touched at the window's tokens only. With $g_i$ the gradient at place
i, that of token $x_i$ is $\sum_j [x_j = x_i] g_j$, and $\sum_{ij} [x_i = x_j] g_i^\top g_j$ is their part of $\|g\|^2$.

What dropout does depends on the seed, the run's index and the step alone; together with the weights, the step is
all that has to be kept of a run to go on with it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np

from attomaton.base.lazily import jax, jnp
from attomaton.base.optimisers import Adam, Plain
from attomaton.base.programs import compiled_program
from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Float, Int, UInt8
from attomaton.errors import DataError, SolverError, UsageError, listed, one_of
from attomaton.numerics import float64

if TYPE_CHECKING:
    from jax import Array

    from attomaton.transformer.model import Params, Settings

OPTIMIZERS = ("sgd", "adam")
SMALL = 1 << 18  # arrays below this size are so quick to add up that starting to costs more
CLIP_EPSILON = 1e-6  # added to the gradient's norm before it divides
SAVE_SECONDS = 60.0  # a run is saved at the first record after so many seconds

Rates = float | int | Sequence[float] | np.ndarray
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Run:
    """What came of a training; run `rate · seeds + i` has the given rate and start and dropout i.

    `loss` is the loss of every step. At the steps `marks`, `records` hold, where a validation text was given,
    `valid_loss` (runs, marks) and, window by window and layer by layer, the mean `entropy` of attention in nats and
    `entropy_share`, its share of the largest possible (runs, marks, windows, layers); where probes were given,
    the first layer's `maps` (runs, marks, probes, heads, length, length).
    """

    lr: Float[np.ndarray, " runs"]
    index: Int[np.ndarray, " runs"]
    loss: Float[np.ndarray, "runs steps"]
    marks: Int[np.ndarray, " marks"]
    records: Arrays
    params: "Params"
    seconds: dict[str, float]


class _Plan(NamedTuple):
    """What the compiled programs depend on besides shapes."""

    settings: "Settings"
    optimizer: str
    clip: float | None
    precision: str
    every: int


def train(
    windows: Int[np.ndarray, "windows batch length_and_one"],
    settings: "Settings",
    *,
    lr: Rates,
    steps: int,
    seeds: int = 1,
    optimizer: str = "sgd",
    clip: float | None = 0.5,
    every: int | None = None,
    valid: Int[np.ndarray, "held_out batch_2 length_and_one"] | None = None,
    probes: Int[np.ndarray, "probes length"] | None = None,
    precision: str = "float32",
    autotune: bool = False,
    seed: int = 0,
    saved: Mapping[str, np.ndarray] | None = None,
    save: Callable[[Arrays], object] | None = None,
    progress: Progress = quiet,
) -> Run:
    """Train every learning rate from `seeds` starts on the windows, in order and over again.

    Records are taken at steps 0, `every`, 2·`every`, …, `steps`, and one call of the compiled program makes `every`
    steps. `save` is handed, now and then, all that is needed to go on later, as plain arrays; given back as
    `saved`, the rest of the training is the same as if it had not been broken off. `progress(done, steps, loss)` is
    called at every record. `autotune` changes how the program is compiled, not what it computes.
    """
    from attomaton.transformer.model import PRECISIONS, check_settings

    every = steps if every is None else every
    one_of("optimizer", optimizer, OPTIMIZERS)
    one_of("precision", precision, PRECISIONS)
    check_settings(settings)
    rate = _rates(lr)
    _check_counts(steps, every, seeds, clip)
    _check_tokens(settings.vocab, {"windows": windows, "valid": valid, "probes": probes})
    plan = _Plan(settings, optimizer, clip, precision, every)
    course = _Course(plan, rate, seeds, seed, steps, windows, valid, probes, autotune)
    if precision == "float64":
        with float64():
            return _run(course, saved, save, progress)
    return _run(course, saved, save, progress)


class _Course(NamedTuple):
    """Everything a call of `train` asks for, checked."""

    plan: _Plan
    rate: np.ndarray
    seeds: int
    seed: int
    steps: int
    windows: np.ndarray
    valid: np.ndarray | None
    probes: np.ndarray | None
    autotune: bool

    @property
    def name(self) -> UInt8[np.ndarray, " letters"]:
        """What a saved run must have in common with this one."""
        data = [None if x is None else crc32(x.tobytes()) for x in self[5:8]]
        said = (*self.plan, self.rate.tolist(), self.seeds, self.seed, data)
        return np.frombuffer(repr(said).encode(), np.uint8)


# What is asked for


def _rates(lr: Rates) -> Float[np.ndarray, " rates"]:
    rate = np.atleast_1d(np.asarray(lr, float))
    if rate.ndim != 1 or not rate.size:
        raise UsageError(f"lr: one number or a list of them is needed, not {rate.shape}.")
    wrong = rate[~(np.isfinite(rate) & (rate > 0))]
    if wrong.size:
        raise UsageError(f"lr={wrong[0]:g}: rates must be positive and finite.")
    return rate


def _check_counts(steps: int, every: int, seeds: int, clip: float | None) -> None:
    for name, value in (("steps", steps), ("every", every), ("seeds", seeds)):
        if value < 1:
            raise UsageError(f"{name}={value}: at least 1 is needed.")
    if steps % every:
        raise UsageError(f"steps={steps} is not a multiple of every={every}.")
    if clip is not None and not clip > 0:
        raise UsageError(f"clip={clip}: a positive norm is needed, or None for no clipping.")


def _check_tokens(vocab: int, given: Mapping[str, np.ndarray | None]) -> None:
    faults = [
        f"{name}: ids {ids.min()} … {ids.max()}"
        for name, ids in given.items()
        if ids is not None and (ids.min() < 0 or ids.max() >= vocab)
    ]
    if faults:
        raise DataError(listed(f"ids outside the vocabulary of {vocab}:", faults, "Encode again."))


# What is computed


class _State(NamedTuple):
    """Weights and the optimizer's memory, of one run or of many."""

    params: "Params"
    moments: tuple


def _key(seed: Any, index: Any) -> Any:
    """The stream of random bits that (seed, index) names."""
    key = jax.random.key(seed, impl="threefry2x32")
    return jax.random.fold_in(jax.random.fold_in(key, crc32(b"dropout")), index)


def _step(
    plan: _Plan, state: _State, rounds: Any, lr: Any, step: Any, window: Any, key: Any
) -> tuple[_State, Any]:
    """One run, its decoder joined, after one more step, and the loss before it."""

    from attomaton.transformer.model import draw_noise, run_layer, window_loss, with_kernels

    U, layers, R, _ = state.params
    tokens, target = window[:, :-1], window[:, 1:]
    rows = U.at[tokens].get(mode="promise_in_bounds")
    noise = None
    if plan.settings.dropout:
        noise = draw_noise(key, plan.settings, *tokens.shape)
    run = run_layer
    if with_kernels(plan.precision):
        from attomaton.transformer.fused import runner

        run = runner(plan.settings, tokens.shape[1], plan.precision)
    gradient = jax.value_and_grad(window_loss, argnums=(0, 1), has_aux=True)
    (loss, _), (to_rows, to_rest) = gradient(
        rows, (layers, R), target, plan.settings, plan.precision, noise, rounds, run
    )
    width = plan.settings.width
    move = _descend if plan.optimizer == "sgd" else _descend_adam
    flat = (tokens.reshape(-1), rows.reshape(-1, width), to_rows.reshape(-1, width))
    return move(plan, state, flat, to_rest, lr, step), loss


def _clipped(plan: _Plan, parts: list[Any]) -> Any:
    """By how much the gradient is shortened, from the squares of its parts."""
    if plan.clip is None:
        return jnp.ones_like(parts[0])
    return jnp.minimum(1, plan.clip / (jnp.sqrt(sum(parts)) + CLIP_EPSILON))


def _squares(gradient: Any) -> list[Any]:
    """Sums of squares of the parts: one for each large array, and one for all small ones together."""
    leaves = jax.tree.leaves(gradient)
    small = [g.reshape(-1) for g in leaves if g.size < SMALL]
    large = [g for g in leaves if g.size >= SMALL]
    return [(g * g).sum() for g in (jnp.concatenate(small), *large)]


def _descend(
    plan: _Plan, state: _State, flat: tuple[Any, Any, Any], to_rest: Any, lr: Any, _: Any
) -> _State:
    """Gradient descent; embeddings move at the window's tokens only."""

    from attomaton.transformer.model import Params, with_kernels

    tokens, rows, to_rows = flat
    # A token's whole gradient stands at each of its places, so that writing it twice does no harm.
    if with_kernels(plan.precision):
        from attomaton.transformer.fused import sums_by_token

        whole, along = sums_by_token(tokens, to_rows)
    else:
        whole = (tokens[:, None] == tokens[None]).astype(rows.dtype) @ to_rows
        along = (to_rows * whole).sum()
    rate = lr * _clipped(plan, [along, *_squares(to_rest)])
    U, *rest, _ = state.params
    U = U.at[tokens].set(rows - rate * whole, mode="promise_in_bounds")
    moved = jax.tree.map(lambda w, g: w - rate * g, tuple(rest), to_rest)
    return _State(Params._make((U, *moved, None)), state.moments)


def _descend_adam(
    plan: _Plan, state: _State, flat: tuple[Any, Any, Any], to_rest: Any, lr: Any, step: Any
) -> _State:
    """Adam on the whole gradient."""

    from attomaton.transformer.model import Params

    tokens, _, to_rows = flat
    to_U = jnp.zeros_like(state.params.U).at[tokens].add(to_rows, mode="promise_in_bounds")
    gradient = Params._make((to_U, *to_rest, None))
    shorter = _clipped(plan, _squares(gradient))
    g = jax.tree.map(lambda g: shorter * g, gradient)
    move, moments = Adam().update(g, state.moments, step, lr)
    return _State(jax.tree.map(lambda w, x: w - x, state.params, move), moments)


def _side_by_side(program: Callable, shared: int) -> Callable:
    """The program for many runs: the last `shared` arguments are the same for all of them."""

    def runs(state: Any, *arguments: Any) -> Any:
        if len(jax.tree.leaves(state)[0]) > 1:
            each = len(arguments) - shared
            return jax.vmap(program, in_axes=(0,) * (1 + each) + (None,) * shared)(
                state, *arguments
            )
        # One run alone needs no batched kernels.
        own, rest = arguments[: len(arguments) - shared], arguments[len(arguments) - shared :]
        alone = jax.tree.map(lambda x: x[0], (state, *own))
        return jax.tree.map(lambda x: x[None], program(*alone, *rest))

    return runs


def _exact(plan: _Plan, program: Callable) -> Callable:
    """The program with its products as precise as the plan asks."""
    level = "highest" if plan.precision in ("float32", "float64") else "default"

    def run(*arguments: Any) -> Any:
        with jax.default_matmul_precision(level):
            return program(*arguments)

    return run


def _build_steps(plan: _Plan) -> Callable:
    """`every` steps of all runs: their state and losses after them."""
    from attomaton.transformer.model import Params, joined, parted, rounded

    def segment(
        state: _State, lr: Any, index: Any, windows: Any, seed: Any, first: Any
    ) -> tuple[_State, Any]:
        key = _key(seed, index)

        def step(carry: tuple[_State, Any], given: tuple[Any, ...]) -> tuple[Any, Any]:
            state, loss = _step(plan, *carry, lr, *given)
            return (state, rounds(state)), loss

        def rounds(state: _State) -> Any:
            """The decoder as products read it, made in one go with the step that changes it; None where that is it."""
            made = rounded(state.params.D, plan.precision)
            return None if made is state.params.D else made

        def apart(p: Params) -> Params:
            return Params(p.U, p.layers, *parted(p.D, *plan.settings[:2]))

        # Weights, and what the optimiser remembers of them
        each = partial(jax.tree.map, is_leaf=lambda x: isinstance(x, Params))
        state = each(lambda p: p._replace(D=joined(p.D, p.b), b=None), state)
        # A fixed number of steps: the device need not ask after each whether another follows.
        steps = first + jnp.arange(plan.every, dtype=jnp.int32)
        # What every step is given is ready before the first: none waits for a few numbers.
        keys = jax.vmap(partial(jax.random.fold_in, key))(steps)
        given = steps, windows[steps % len(windows)], keys
        (state, _), losses = jax.lax.scan(step, (state, rounds(state)), given)
        return each(apart, state), losses

    return _exact(plan, _side_by_side(segment, shared=3))


def _build_records(plan: _Plan) -> Callable:
    """What is recorded of all runs at one moment."""

    from attomaton.transformer.model import attention_entropy, hidden_states, joined, window_loss

    def measure(params: Any, valid: Any, probes: Any) -> "dict[str, Array]":
        U, layers, D, b = params
        R = joined(D, b)

        def one(_: None, window: Any) -> tuple[None, tuple[Any, Any, Any]]:
            loss, maps = window_loss(
                U[window[:, :-1]], (layers, R), window[:, 1:], plan.settings, plan.precision
            )
            each = [attention_entropy(attention) for attention in maps]
            nats, share = (jnp.stack(x) for x in zip(*each, strict=True))
            return None, (loss, nats, share)

        found = {}
        if valid is not None:
            _, (loss, nats, share) = jax.lax.scan(one, None, valid)
            found = {"valid_loss": loss.mean(), "entropy": nats, "entropy_share": share}
        if probes is not None:
            settings = plan.settings._replace(layers=1)
            found["maps"] = hidden_states(U[probes], layers[:1], settings)[1][0]
        return found

    return _exact(plan, _side_by_side(measure, shared=2))


# Running and keeping


def _first_state(course: _Course, dtype: Any) -> _State:
    """The start of every run, in NumPy: one start for each index, the same for all rates."""

    from attomaton.transformer.model import initial_params

    starts = [
        initial_params(course.plan.settings, course.seed, i, dtype) for i in range(course.seeds)
    ]
    params = jax.tree.map(lambda *w: np.stack(w * len(course.rate)), *starts)
    optimiser = Plain() if course.plan.optimizer == "sgd" else Adam()
    return _State(params, optimiser.init(params))


def _named_leaves(state: _State) -> "dict[str, np.ndarray | Array]":
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path).lstrip("."): leaf for path, leaf in leaves}


def _restored(course: _Course, saved: Mapping[str, np.ndarray], state: _State) -> _State:
    """The state in the saved arrays, whose shapes must be those of `state`."""
    step = saved.get("step", np.zeros(0))
    known = step.shape == (1,) and step.dtype.kind == "i" and 0 < step[0] <= course.steps
    if not np.array_equal(saved.get("name", ()), course.name) or not known or "loss" not in saved:
        raise DataError("the saved run has other settings or other data; start anew.")
    names = _named_leaves(state)
    wanted = {name: (leaf.shape, leaf.dtype) for name, leaf in names.items()}
    found = {name: (saved[name].shape, saved[name].dtype) for name in wanted if name in saved}
    runs, done = len(course.rate) * course.seeds, int(saved["step"][0])
    kept = {v.shape[:2] for k, v in saved.items() if k.startswith("records.")}
    if (
        found != wanted
        or saved["loss"].shape != (runs, done)
        or kept - {(runs, done // course.plan.every + 1)}
    ):
        raise DataError("the saved run is damaged: its arrays do not fit together; start anew.")
    return jax.tree.unflatten(jax.tree.structure(state), [saved[name] for name in names])


def _run(
    course: _Course,
    saved: Mapping[str, np.ndarray] | None,
    save: Callable[[Arrays], object] | None,
    progress: Progress,
) -> Run:
    """All segments and records of a training, from the start or from where it was saved."""
    begin = perf_counter()
    plan, seeds = course.plan, course.seeds
    dtype = np.float64 if plan.precision == "float64" else np.float32
    start = _first_state(course, dtype)
    done, losses, kept = 0, [], []
    if saved is not None:
        start = _restored(course, saved, start)
        done, losses = int(saved["step"][0]), [saved["loss"]]
        names = [n.removeprefix("records.") for n in saved if n.startswith("records.")]
        kept = [
            {n: saved[f"records.{n}"][:, i] for n in names} for i in range(done // plan.every + 1)
        ]
    state = jax.device_put(start)
    lr, index = np.repeat(course.rate, seeds), np.tile(np.arange(seeds), len(course.rate))
    own = jax.device_put((lr.astype(dtype), index.astype(np.int32)))
    windows = jax.device_put(course.windows.astype(np.int32))
    watched = jax.device_put((course.valid, course.probes))
    seed = np.uint32(course.seed)
    watching = course.valid is not None or course.probes is not None
    seconds = {"start": perf_counter() - begin, "compile": 0.0, "run": 0.0, "record": 0.0}
    last_saved = perf_counter()
    while True:
        if watching and len(kept) <= done // plan.every:
            clock = perf_counter()
            records = compiled_program(_build_records, plan, (state.params, *watched))
            seconds["compile"] += perf_counter() - clock
            clock = perf_counter()
            kept.append(jax.device_get(records(state.params, *watched)))
            seconds["record"] += perf_counter() - clock
        late = perf_counter() - last_saved >= SAVE_SECONDS
        if save is not None and losses and (late or done == course.steps):
            save(_arrays(course, jax.device_get(state), done, losses, kept))
            last_saved = perf_counter()
        if done >= course.steps:
            break
        arguments = (state, *own, windows, seed, np.int32(done))
        clock = perf_counter()
        steps = compiled_program(_build_steps, plan, arguments, (0,), course.autotune)
        seconds["compile"] += perf_counter() - clock
        clock = perf_counter()
        state, loss = steps(*arguments)
        losses.append(np.asarray(loss))
        seconds["run"] += perf_counter() - clock
        _check_finite(losses[-1], done, lr, index)
        done += plan.every
        progress(done, course.steps, f"loss {losses[-1].mean():.6g}")
    return Run(
        lr, index, np.concatenate(losses, axis=1), np.arange(0, course.steps + 1, plan.every),
        _stacked(kept), jax.device_get(state.params), seconds,
    )  # fmt: skip


def _check_finite(loss: np.ndarray, done: int, lr: np.ndarray, index: np.ndarray) -> None:
    """A run whose loss is no longer a number ends the training, with all such runs named."""
    bad = ~np.isfinite(loss)
    if bad.any():
        faults = [
            f"rate {lr[r]:g}, start {index[r]}: step {done + int(bad[r].argmax())}"
            for r in np.flatnonzero(bad.any(axis=1))
        ]
        raise SolverError(
            listed(f"{len(faults)} runs diverged:", faults, "Lower the rate, or clip gradients.")
        )


def _stacked(kept: list[Arrays]) -> Arrays:
    """Records as (runs, marks, …)."""
    return {name: np.stack([k[name] for k in kept], axis=1) for name in (kept[0] if kept else ())}


def _arrays(
    course: _Course, state: _State, done: int, losses: list[np.ndarray], kept: list[Arrays]
) -> Arrays:
    """All that is needed to go on from here."""
    return {
        "name": course.name,
        "step": np.array([done]),
        "loss": np.concatenate(losses, axis=1),
        **{f"records.{name}": value for name, value in _stacked(kept).items()},
        **{name: np.asarray(leaf) for name, leaf in _named_leaves(state).items()},
    }
