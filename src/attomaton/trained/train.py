r"""Train a transformer of any form from fresh weights, by AdamW, so that what is probed has a known past.

A step takes the next `batch` contexts of an order drawn anew for every pass, and goes
$w \leftarrow w - \eta\,(\hat m/(\sqrt{\hat v}+\varepsilon) + \lambda w)$ with η rising over the first steps and falling
by a cosine after them; λ leaves out norms and shifts. The loss is that of the next token, at the last place of each
context or at every place.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from attomaton.base.lazily import jax, jnp
from attomaton.base.optimisers import Adam
from attomaton.base.programs import compiled_program
from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Float, Int
from attomaton.errors import SolverError, UsageError, whole_number
from attomaton.errors import number as positive
from attomaton.numerics import named_rng
from attomaton.trained.form import Form
from attomaton.trained.forward import decoder, nothing, states
from attomaton.trained.fresh import fresh_weights
from attomaton.trained.names import Weights

if TYPE_CHECKING:
    from jax import Array

EVERY = 50  # steps in one call of the compiled program


@dataclass(frozen=True)
class Schedule:
    """How a model is trained."""

    steps: int = 1000
    batch: int = 64
    lr: float = 3e-3
    warmup: int = 50
    decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    clip: float = 1.0
    every_place: bool = False  # whether every place's next token counts, or the last one's alone

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            whole_number(name, getattr(self, name), least=1)
        positive("lr", self.lr, above=0)


@dataclass(frozen=True, eq=False)
class Course:
    """A trained model after some steps: its weights, and the loss of every step so far."""

    step: int
    weights: Weights
    loss: Float[np.ndarray, " steps"]


def train_form(
    form: Form,
    rows: Int[np.ndarray, "contexts length_and_one"],
    schedule: Schedule,
    seed: int = 0,
    marks: int = 1,
    progress: Progress = quiet,
) -> Iterator[Course]:
    """Train on rows (a context and its next token), yielding the model `marks` times, the last time when it is done."""
    if len(rows) < schedule.batch or rows.shape[1] < 2:
        raise UsageError(
            f"{len(rows)} contexts of {rows.shape[1] - 1} tokens are too few for batches of {schedule.batch}."
        )
    weights = fresh_weights(form, seed)
    state = (jax.device_put(weights), _adam(schedule).init(weights))
    losses: list[np.ndarray] = []
    order = _batches(len(rows), schedule.batch, named_rng("batches", seed))
    kept = {round(schedule.steps * (i + 1) / marks) for i in range(marks)}
    done = 0
    while done < schedule.steps:
        ahead = min(x for x in kept if x > done)
        many = min(EVERY, ahead - done)
        batches = rows[np.stack([next(order) for _ in range(many)])].astype(np.int32)
        given = (state, batches, np.int32(done))
        program = compiled_program(_build, (form, schedule), given)
        state, loss = program(*given)
        losses.append(np.asarray(loss))
        if not np.isfinite(losses[-1]).all():
            raise SolverError(
                f"the loss is no number after step {done}; lower the rate {schedule.lr:g}."
            )
        done += many
        progress(done, schedule.steps, f"loss {losses[-1].mean():.4g}")
        if done in kept:
            yield Course(done, jax.device_get(state[0]), np.concatenate(losses))


def _batches(n: int, batch: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Places of contexts, all once in every pass but for what does not fill a batch."""
    while True:
        order = rng.permutation(n)
        for begin in range(0, n - batch + 1, batch):
            yield order[begin : begin + batch]


def _build(plan: tuple[Form, Schedule]) -> Callable:
    form, schedule = plan

    def program(state: Any, batches: "Array", done: "Array") -> tuple[Any, "Array"]:
        def step(state: Any, given: tuple) -> tuple[Any, "Array"]:
            batch, t = given
            loss, slope = jax.value_and_grad(partial(_loss, form, schedule))(state[0], batch)
            return _adamw(schedule, state, slope, t), loss

        steps = done + jax.numpy.arange(len(batches))
        return jax.lax.scan(step, state, (batches, steps))

    return program


def _loss(form: Form, schedule: Schedule, weights: Weights, batch: "Array") -> "Array":
    from attomaton.transformer.model import next_token_loss

    x, _ = states(form, weights, batch[:, :-1], nothing)
    target = batch[:, 1:]
    if not schedule.every_place:
        x, target = x[:, -1:], target[:, -1:]
    D = decoder(weights)
    b = jnp.zeros(len(D), x.dtype) if weights.b is None else weights.b
    return next_token_loss(x.reshape(-1, x.shape[-1]), D, b, target.reshape(-1), "tf32")


def _adam(schedule: Schedule) -> Adam:
    return Adam(schedule.beta1, schedule.beta2, schedule.epsilon)


def _adamw(schedule: Schedule, state: Any, slope: Any, t: "Array") -> Any:
    weights, memory = state
    size = jnp.sqrt(sum((g * g).sum() for g in jax.tree.leaves(slope)))
    shorter = jnp.minimum(1.0, schedule.clip / (size + 1e-6))
    n = t + 1
    rise = jnp.minimum(1.0, n / max(schedule.warmup, 1))
    rate = schedule.lr * rise * 0.5 * (1 + jnp.cos(jnp.pi * t / schedule.steps))
    slope = jax.tree.map(lambda g: g * shorter, slope)
    steps, memory = _adam(schedule).update(slope, memory, t)

    def moved(path: Any, w: "Array", step: "Array") -> "Array":
        plain = path[-1].name.startswith(("scale", "shift", "b"))
        return w - rate * (step + (0.0 if plain else schedule.decay) * w)

    return jax.tree_util.tree_map_with_path(moved, weights, steps), memory
