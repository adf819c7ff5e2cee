"""One step of training and the loop around it: padded problems side by side in one program that JAX compiles."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np

from attomaton.base.lazily import jax, jnp
from attomaton.base.optimisers import Adam, Mirror, Muon, Optimiser, Plain, Sign
from attomaton.corpus.samples import Samples
from attomaton.errors import UsageError
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.experiment.arguments import EPS_FREE, mirror_power

if TYPE_CHECKING:
    from jax import Array

    from attomaton.mechanics.experiment.factors import Pairs
    from attomaton.mechanics.experiment.model import Problem
    from attomaton.mechanics.experiment.snapshots import Seen
    from attomaton.mechanics.experiment.whole import Whole

    # The pairs: of factors that have no matrix W. What is seen: where snapshots are kept.
    Data = tuple[Problem | Whole, Pairs | None, Seen | None]

Record = Callable[..., dict]
Follow = Callable[..., Any]  # (what was kept, parameters, step, context) to what is kept
CACHED = 2**20  # numbers of all problems together that a processor's cache holds
SNAPSHOT = "snapshot"  # what scores are called among the values of a stop
UNROLLED = 16  # quick steps of a whole corpus between two looks of a GPU at how it goes


class Plan(NamedTuple):
    """What the compiled program depends on besides shapes."""

    optimizer: str
    head: str
    loss: str
    batch_size: int | None
    record: Record | None
    shared: bool  # one data set for all problems
    apart: bool = False  # problems one after the other
    beta1: float | None = None
    beta2: float | None = None
    schedule: str = "constant"
    factorised: bool = False  # the parameters are the factors of W
    follow: Follow | None = None


class State(NamedTuple):
    """Where training stands; `failed` is the first step that gave no finite result, 0 for none.

    `followed` is what a caller keeps of the way so far.
    """

    params: Any
    moments: tuple
    step: Any
    failed: Any
    followed: Any = ()


class Given(NamedTuple):
    """What each problem has for itself besides its data."""

    lr: Any
    eps: Any
    floor: Any
    seed: Any
    index: Any
    context: Any


def padded(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays stacked, each filled up with zeros to the largest."""
    shape = tuple(np.max([a.shape for a in arrays], axis=0))
    out = np.zeros((len(arrays), *shape))
    for row, a in zip(out, arrays, strict=True):
        row[tuple(map(slice, a.shape))] = a
    return out


def stack(
    sets: list[Samples],
    tables: Sequence[Embeddings | np.ndarray] | None,
    heads: list[np.ndarray] | None,
    shared: bool,
    gather: bool,
    whole: bool,
) -> "Problem | Whole":
    """All problems as one, stacked along a leading axis (a shared one as it is), in NumPy.

    `whole` keeps the vectors of tokens that do not occur, too.
    """

    from attomaton.mechanics.experiment.model import problem_of, sizes_of
    from attomaton.mechanics.experiment.whole import whole_of

    if gather:
        return whole_of(sets[0])
    sizes = sizes_of(sets, whole)
    none = [None] * len(sets)
    C = none if heads is None else list(padded(heads))
    problems = [
        problem_of(s, E, sizes, whole, c) for s, E, c in zip(sets, tables or none, C, strict=True)
    ]
    return problems[0] if shared else jax.tree.map(lambda *x: np.stack(x), *problems)


def fall_apart(problem: "Problem | Whole") -> bool:
    """Whether problems are faster one after the other: each fits a processor's cache, all of them do not.

    Whole corpora always are: each is enough work for the device, and chooses by itself how to step.
    """

    from attomaton.mechanics.experiment.whole import Whole

    if isinstance(problem, Whole):
        return True
    if problem.E is None or jax.default_backend() != "cpu":
        return False
    bags, E = problem.bags, problem.E
    return (bags.token.size * E.shape[-1] if bags.score is None else E.size) > CACHED


def first_state(plan: Plan, params: np.ndarray, followed: Any = ()) -> State:
    """Where training stands before its first step."""
    zero = np.zeros(len(params), np.int64)
    return State(params, _optimiser(plan).init(params), zero, zero, followed)


def _optimiser(plan: Plan, eps: Any = 0.0) -> Optimiser:
    """How a gradient becomes a step, but for ngd and polyak."""
    p = mirror_power(plan.optimizer)
    if p is not None:
        return Mirror(p)
    if plan.optimizer == "adam":
        assert plan.beta1 is not None
        assert plan.beta2 is not None
        return Adam(plan.beta1, plan.beta2, eps)
    if plan.optimizer in ("spectral", "muon"):
        return Muon(plan.beta1 or 0.0)
    return Sign() if plan.optimizer == "sign" else Plain()


def _drawn(problem: "Problem", batch_size: int, key: Any) -> "Problem":
    """A mini-batch: samples drawn in proportion to their weight, each then of equal weight."""
    bags = problem.bags
    below = jnp.cumsum(bags.weight)
    at = jnp.searchsorted(below, below[-1] * jax.random.uniform(key, (batch_size,)), side="right")
    batch = bags._replace(weight=jnp.ones_like(bags.weight))
    batch = jax.tree.map(lambda x: x[at], batch)
    return problem._replace(bags=batch._replace(weight=batch.weight / batch_size))


def _unit(g: Any) -> tuple[Any, Any]:
    """g/‖g‖ and ‖g‖, safe for gradients whose squares underflow; 0 and 0 for a zero gradient."""
    peak = jnp.abs(g).max()
    scaled = g / jnp.where(peak > 0, peak, 1.0)
    norm = jnp.sqrt((scaled * scaled).sum())
    return scaled / jnp.where(peak > 0, norm, 1.0), peak * norm


def _move(plan: Plan, state: State, value: Any, g: Any, given: Given) -> tuple[Any, tuple]:
    """The change of the parameters in one step, and the optimizer's memory after it."""
    lr, moments = given.lr, state.moments
    if plan.schedule == "inverse-sqrt":
        lr = lr / jnp.sqrt((state.step + 1).astype(g.dtype))
    if plan.optimizer == "ngd":
        direction, norm = _unit(g)
        return -lr * direction * jnp.where(norm > 0, norm / (norm + given.eps), 0.0), moments
    if plan.optimizer == "polyak":
        direction, norm = _unit(g)
        length = jnp.maximum(value - given.floor, 0.0) / jnp.where(norm > 0, norm, 1.0)
        return -length * direction, moments
    return _optimiser(plan, given.eps).update(g, moments, state.step, -lr)


def _eps_free(plan: Plan, state: State, eps: Any) -> Any:
    """Of the coordinates that ever had a gradient, the share whose √v̂ is above `EPS_FREE` times Adam's ε; 1 of none."""
    v = state.moments[1]
    fair = 1 - (plan.beta2 or 0.0) ** jnp.maximum(state.step, 1).astype(v.dtype)
    free = jnp.sqrt(v / fair) > EPS_FREE * eps
    moved = (v > 0).sum()
    return jnp.where(moved > 0, (free & (v > 0)).sum() / jnp.maximum(moved, 1), 1.0)


def _advance(
    plan: Plan, state: State, data: "Data", given: Given, stops: Any
) -> tuple[State, "dict[str, Array]"]:
    """One problem through some segments, with a record after each.

    `stops` are how many steps each segment has, and whether what `plan.record` measures is wanted after it: it may take
    many times as long as a step.
    """

    from attomaton.mechanics.experiment.factors import product, product_norm, pull_back_product
    from attomaton.mechanics.experiment.model import loss_and_gradient, spread
    from attomaton.mechanics.experiment.snapshots import scores_seen
    from attomaton.mechanics.experiment.whole import Whole, whole_loss, whole_loss_and_gradient

    problem, pairs, seen_pairs = data
    if plan.batch_size is None and not isinstance(problem, Whole):
        problem = spread(problem)
    # A whole corpus has an order of its own, in which its scores are kept on the way.
    whole = problem if isinstance(problem, Whole) and not plan.factorised else None

    def weights(params: Any) -> Any:
        if whole is not None:
            return params[whole.place]
        return product(params, pairs) if plan.factorised else params

    def look(params: Any, seen: "Problem | Whole") -> tuple[Any, Any]:
        if whole is not None:
            return whole_loss_and_gradient(params, whole)
        if isinstance(seen, Whole):
            value, g = whole_loss_and_gradient(weights(params)[seen.order], seen)
            g = g[seen.place]
        else:
            value, g = loss_and_gradient(weights(params), seen, plan.head, plan.loss)
        return value, pull_back_product(g, params, pairs) if plan.factorised else g

    key = jax.random.fold_in(jax.random.key(given.seed, impl="threefry2x32"), crc32(b"batch"))
    key = jax.random.fold_in(key, given.index)

    def step(_: Any, state: State) -> State:
        seen = problem
        if plan.batch_size is not None and not isinstance(problem, Whole):
            seen = _drawn(problem, plan.batch_size, jax.random.fold_in(key, state.step))
        value, g = look(state.params, seen)
        delta, moments = _move(plan, state, value, g, given)
        new = state.params + delta
        fine = (state.failed == 0) & jnp.isfinite(value) & jnp.isfinite(new).all()
        return State(
            jnp.where(fine, new, state.params),
            moments,
            state.step + 1,
            jnp.where(fine | (state.failed > 0), state.failed, state.step + 1),
            state.followed,
        )

    def measured(params: Any) -> "dict[str, Array]":
        return {} if plan.record is None else _scalars(plan.record(weights(params), given.context))

    def segment(state: State, stop: Any) -> tuple[State, "dict[str, Array]"]:
        length, wanted = stop
        if whole is None:
            state = jax.lax.fori_loop(0, length, step, state)
        else:
            state, done = _quick_steps(plan, state, whole, given, length)
            # What is the same at every turn of a loop is made before its first one, even where there is none.
            state = jax.lax.cond(
                done < length,
                lambda state: jax.lax.fori_loop(done, length, step, state),
                lambda state: state,
                state,
            )
        if plan.follow is not None:
            kept = plan.follow(state.followed, weights(state.params), state.step, given.context)
            state = state._replace(followed=kept)
        seen = state.params
        values = {
            "loss": look(seen, problem)[0] if whole is None else whole_loss(seen, whole),
            "norm": product_norm(state.params) if plan.factorised else _unit(state.params)[1],
        }
        if plan.optimizer == "adam":
            values["eps_free"] = _eps_free(plan, state, given.eps)
        unknown = dict.fromkeys(jax.eval_shape(measured, state.params), jnp.array(jnp.nan))
        values |= jax.lax.cond(wanted, measured, lambda _: unknown, state.params)
        if seen_pairs is not None:
            values[SNAPSHOT] = scores_seen(weights(state.params), seen_pairs)
        return state, {k: jnp.where(state.failed == 0, v, jnp.nan) for k, v in values.items()}

    if whole is None:
        return jax.lax.scan(segment, state, stops)
    state, values = jax.lax.scan(segment, _in_order(state, whole.order), stops)
    return _in_order(state, whole.place), values


def _in_order(state: State, order: Any) -> State:
    """Parameters and the optimizer's memory of them in another order."""
    return state._replace(
        params=state.params[order], moments=tuple(m[order] for m in state.moments)
    )


def _quick_steps(
    plan: Plan, state: State, whole: "Whole", given: Given, length: Any
) -> tuple[State, Any]:
    """Up to `length` steps of a whole corpus while all scores are within reach; and how many they were."""

    from attomaton.mechanics.experiment.whole import quick_loss_and_gradient, within_reach

    def steps(many: int, carry: tuple) -> tuple:
        done, _, before = carry
        state, fine = before, jnp.array(True)
        for _ in range(many):
            value, g = quick_loss_and_gradient(state.params, whole)
            delta, moments = _move(plan, state, value, g, given)
            new = state.params + delta
            fine &= within_reach(new)
            state = state._replace(params=new, moments=moments, step=state.step + 1)
        state = jax.tree.map(lambda new, old: jnp.where(fine, new, old), state, before)
        return done + jnp.where(fine, many, 0), fine, state

    def run(many: int, carry: tuple) -> tuple:
        return jax.lax.while_loop(
            lambda c: c[1] & (c[0] + many <= length), partial(steps, many), carry
        )

    carry = jnp.zeros_like(length), within_reach(state.params) & (state.failed == 0), state
    if jax.default_backend() == "gpu":  # which would wait for the host at every turn of a loop
        carry = run(UNROLLED, carry)
    done, _, state = run(1, carry)
    return state, done


def _scalars(values: dict) -> "dict[str, Array]":
    """What `record` returned, or an error that says what it should have been."""
    wrong = [
        k for k, v in values.items() if jnp.ndim(v) or k in ("loss", "norm", "eps_free", SNAPSHOT)
    ]
    if wrong:
        raise UsageError(
            f"record: {', '.join(map(repr, wrong))} must be scalars, under names other than "
            '"loss", "norm" and "eps_free", which training itself records.'
        )
    return {k: jnp.asarray(v, float) for k, v in values.items()}


def build(plan: Plan) -> Callable:
    """All problems side by side, or one after the other; one data set for all is not copied."""
    one = partial(_advance, plan)
    if not plan.apart:
        return jax.vmap(one, in_axes=(0, None if plan.shared else 0, 0, None))

    def each(state: State, data: "Data", given: Given, stops: Any) -> Any:
        if plan.shared:
            return jax.lax.map(lambda x: one(x[0], data, x[1], stops), (state, given))
        return jax.lax.map(lambda x: one(x[0], x[1], x[2], stops), (state, data, given))

    return each
