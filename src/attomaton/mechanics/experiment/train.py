r"""Gradient descent on the layer and its relatives, many problems in one compiled program.

With $g = \nabla_W L(W_t)$, $\|\cdot\|$ the Frobenius norm and $\eta$ = `lr`, one step is

    gd       W ← W − η g
    ngd      W ← W − η g/(‖g‖ + ε)            (no step where g = 0; ε = `eps` is 0 unless given)
    polyak   W ← W − (L − L*)/‖g‖² · g        (L* = `loss_floor`; no step where L ≤ L*; no η)
    sgd      W ← W − η g_B                    (g_B: the gradient of a random mini-batch B)
    adam     m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²,  W ← W − η m̂/(√v̂ + ε)      (no step where √v̂ + ε = 0)
    sign     W ← W − η sign(g)
    spectral W ← W − η U Vᵀ                   (g = U Σ Vᵀ; singular values that are rounding of 0 left out)
    muon     b ← β₁b + g,  W ← W − η U Vᵀ     (b = U Σ Vᵀ)
    mirror:p u ← u − η g/‖g‖_q,  W = sign(u)|u|^{1/(p−1)}     (1/p + 1/q = 1; entrywise norms)

with $\eta/\sqrt{t}$ for $\eta$ at step t = 1, 2, … where `schedule` is "inverse-sqrt". Each tends to the largest margin
in a norm of its own, `limit_norm`. sign, adam and mirror act on the entries of W: without embeddings these are the pair
scores, as for one-hot tokens; the same tokens in another orthonormal basis have other entries, and train otherwise.

With `factorised` the parameters are keys and queries, W = K Qᵀ, and gd, ngd, polyak and sgd step on both at once:
g is $(GQ, G^\top K)$ with $G = \nabla_W L$, and ‖g‖ the norm of the two together. From a small start the nuclear norm
takes the place of Frobenius'.

Training knows nothing of the theory it is compared with: what else is measured on the way is the
caller's, given as `record`. JAX is imported when training starts, not with this module.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.face import Tabular, figure_of
from attomaton.base.lazily import jax, pa
from attomaton.base.progress import Progress
from attomaton.base.shapes import Float, Int
from attomaton.corpus.samples import Samples, expect_samples, list_of
from attomaton.errors import UsageError, counted, one_of, whole_number
from attomaton.mechanics.experiment.arguments import (
    SMALL,
    USUAL,
    PerProblem,
    Settings,
    Table,
    check_options,
    embedding_tables,
    factor_scale,
    first_parameters,
    head_tables,
    learning_rate,
    limit_norm,
    loss_floors,
    own_options,
    rank_of,
    record_steps,
    spacing,
    step_sizes,
)
from attomaton.mechanics.experiment.course import Checkpoint, Watch, run_course
from attomaton.mechanics.experiment.snapshots import Snapshots, seen_through, watched
from attomaton.mechanics.experiment.steps import (
    Follow,
    Given,
    Plan,
    Record,
    fall_apart,
    first_state,
    padded,
    stack,
)
from attomaton.numerics import float64

GATHERED = 2**20  # incidences from which on summing by pairs is faster on a CPU, too


@dataclass(frozen=True, eq=False, repr=False)
class Training(Tabular):
    """What came out of training B problems side by side, all of it NumPy.

    `W` in dense space; in pairs space `scores`, one for each pair, sorted by (last token, token),
    zeros past a problem's own pairs. `factors` are keys and queries, stacked, where W = K Qᵀ was trained.
    `records[name][b, r]` was measured at `steps[r]`; of a problem that diverged the last finite parameters
    are kept and later records are NaN. `settings` are what was asked for, defaults filled in. As a table it
    has one row for each problem and recorded step: `seed`, `step`, `loss`, `norm` and what else was recorded.

    >>> from attomaton import example_samples, train
    >>> run = train(example_samples(), steps=100)
    >>> run
    Training(1 problem, 100 steps, gd, finished, loss 0.529)
    >>> run.settings.lr, run.to_arrow().column_names
    (1.0, ['seed', 'step', 'loss', 'norm'])
    """

    W: Float[np.ndarray, "problems keys queries"] | None
    scores: Float[np.ndarray, "problems pairs"] | None
    steps: Int[np.ndarray, " records"]
    records: dict[str, np.ndarray]
    status: list[str]  # "finished", "diverged at step N" or "interrupted", one per problem
    seconds: dict[str, float]  # "compile" and "run"
    settings: Settings = USUAL
    C: Float[np.ndarray, "sets vocab width"] | None = None  # general heads, one for each data set
    factors: Float[np.ndarray, "problems 2 width rank"] | None = None
    followed: np.ndarray | None = None  # what `follow` kept, one row for each problem
    snapshots: Snapshots | None = None  # of the first problem, where they were asked for

    @property
    def params(self) -> np.ndarray:
        """W of each problem, or its scores."""
        params = self.scores if self.W is None else self.W
        assert params is not None
        return params

    @property
    def limit_norm(self) -> str | float:
        """The norm of the margin that this optimizer's steps tend to: a name, or the p of an entrywise norm."""
        return limit_norm(self.settings.optimizer, self.settings.factorised)

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
    head: str | np.ndarray | Sequence[np.ndarray] | Any = USUAL.head,
    loss: str | Any = USUAL.loss,
    batch_size: int | Any | None = None,
    eps: float | Any | None = None,
    beta1: float | Any | None = None,
    beta2: float | Any | None = None,
    schedule: str | Any = USUAL.schedule,
    factorised: bool | int | Any | None = None,
    init_scale: float | Any | None = None,
    seeds: int | Any = USUAL.seeds,
    seed: int | Any = USUAL.seed,
    loss_floor: PerProblem | None = None,
    record: Record | Any | None = None,
    context: Any = None,
    follow: tuple[Follow, np.ndarray] | None = None,
    progress: Progress | Any | None = None,
    watch: Watch | Any | None = None,
    checkpoint: Checkpoint | None = None,
    layout: str | Any | None = None,
    snapshots: int | Any | None = None,
    snapshots_of: Sequence[int] = (),
) -> Training:
    """Train one data set from `seeds` different starts, or a sequence of data sets, all at once.

    Unless told otherwise, 4,000 steps of gradient descent on the log-loss from one start, all scores 0.

    Without `embeddings` they are orthonormal and the parameters are the scores of the pairs that
    occur; with them (one matrix, or one for each data set) the parameters are W. `init` is "zeros",
    "uniform" on ±1/√width, or given values (one array for all, or one for each problem). Problem i
    draws from its own stream of random numbers, named by `seed` and i alone. `lr` and `loss_floor`
    may be one number for each problem; without `lr` it is 1 for gd, 0.1 for sgd, 0.01 for the others. The
    defaults are those of `attomaton train` and of the lab, too; what was used is in `settings` of the answer.

    `optimizer` is "gd", "ngd", "polyak", "sgd", "adam", "sign", "spectral", "muon" or "mirror:p" with a number p > 1.
    spectral and muon need W as a matrix: without embeddings they train it for one-hot tokens, and the answer has `W`
    instead of `scores`. `eps` is of ngd (0 unless given) and adam (1e-8; 0 is allowed), `beta1` of adam (0.9) and muon
    (0.95), `beta2` of adam (0.999). `schedule` is "constant" or "inverse-sqrt", which divides `lr` by the square root
    of the step's number. With adam the share of coordinates whose √v̂ is above 10 ε is recorded, too, as `eps_free`.

    `factorised` trains keys and queries, W = K Qᵀ, of this rank (True: as many columns as W has), with gd, ngd, polyak
    or sgd. They start from normal entries times `init_scale` (0.01; from 0 they would never move), or from `init`, an
    array of shape (2, width, rank). The answer has `factors`, and their product as `W` (without embeddings up to 256
    tokens) or `scores`; `record` sees the product, too. Factors that would take more than 4 GB at a step are refused.

    `head` says how the layer's output f becomes scores C f: "identity" reads off the attention mass of each token,
    "tied" has C = E, "general" draws for each data set a C under which c_y·e_k is largest at k = y
    (Assumption 3); a matrix of that kind may be given, too (one, or one for each data set). Of the losses, "log" is
    −log u of the label's score u = c_y·f, "squared-score" (1 − u)², "logistic-score" log(1 + e^−u); "squared" is
    (1 − p)² and "cross-entropy" −log p of the label's probability p in softmax(C f).

    Loss and norm are recorded at steps 0, `every`, 2·`every`, …, `steps` (about 100 times unless
    told; `every="log"` spaces them evenly on a logarithmic axis), and with them the scalars of
    `record(params, context)`: a function JAX can trace, best one of a module (each new function is
    compiled anew), and a tree of arrays whose leading axis is the problems.
    `follow` is a function that carries something along, (kept, parameters, step, context) to kept, and what it begins
    with, one row for each problem; it is called at every record and at steps evenly on a log axis.

    `progress(done_steps, steps, words)`, the mean loss in words, is called some fifty times on the way; a keyboard
    interrupt then ends the run early with what was computed so far. `watch(steps, records)` is called as
    often, just before, with all records so far, as `Training` will hold them. A `checkpoint` keeps where
    the run stands, and a run that finds one goes on from there: with the same data and options it ends in
    the same parameters and records as if nothing had happened.

    `snapshots` are bytes that scores kept on the way may take: of up to 201 steps evenly on a log axis, in single
    precision, of the first seed of one data set, and of as many last tokens as fit: those of `snapshots_of`, by their
    places in the vocabulary, then those with the most samples.

    `layout` is how the gradient is summed, "scatter" (any loss) or "gather" (the log-loss of one data set in pairs
    space, all samples at every step; faster on a GPU, and on a CPU from a million incidences on); by default what
    suits.

    Three wins against one give the odds 3:1, half of log 3 on each side:

    >>> from attomaton.corpus.windows import samples_from_sequences
    >>> samples = samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1])
    >>> train(samples).scores.round(6).tolist(), round(float(np.log(3)) / 2, 6)
    ([[0.549306, -0.549306]], 0.549306)
    """
    learning_rate(optimizer, lr)
    given_head = isinstance(head, (np.ndarray, Sequence)) and not isinstance(head, str)
    kind: Any = "general" if given_head else head
    check_options(
        optimizer=optimizer,
        head=kind,
        loss=loss,
        steps=steps,
        every=every,
        batch_size=batch_size,
        seeds=seeds,
        seed=seed,
        schedule=schedule,
    )
    scale = factor_scale(optimizer, factorised, init_scale, init)
    own = own_options(optimizer, eps=eps, beta1=beta1, beta2=beta2)
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
    room = _room(snapshots, many)
    B = len(sets) if many else seeds
    tables = embedding_tables(sets, embeddings, optimizer, factorised)
    heads = head_tables(sets, tables, head, seed)
    floor = loss_floors(loss_floor, optimizer, B)
    rate = step_sizes(1.0 if optimizer == "polyak" else learning_rate(optimizer, lr), B)
    width = max(len(s.vocabulary) for s in sets) if tables is None else tables[0].keys.shape[1]
    rank = rank_of(factorised, width)
    starts = first_parameters(init, sets, tables, B, seed, rank, scale)

    fits = tables is None and loss == "log" and batch_size is None and not many
    gather = _gathers(layout, fits, sum(len(s.token) for s in sets))
    every = spacing(steps, every)
    marks = record_steps(steps, every)
    given = Given(
        rate, np.full(B, own["eps"] or 0.0), floor, np.full(B, seed), np.arange(B), context
    )
    with float64():
        from attomaton.mechanics.experiment.factors import pairs_of, product

        problem = stack(sets, tables, heads, not many, gather, kind != "identity")
        apart = (many or gather) and fall_apart(problem)
        plan = Plan(
            optimizer, kind, loss, batch_size, record, not many, apart, own["beta1"], own["beta2"], schedule,
            rank is not None, None if follow is None else follow[0],
        )  # fmt: skip
        pairs = pairs_of(sets, not many) if rank is not None and tables is None else None
        state = first_state(plan, padded(starts), () if follow is None else follow[1])
        kept = watched(sets[0], steps, room, snapshots_of) if room else None
        course = run_course(
            plan, state, ((problem, pairs, seen_through(kept, tables)), given), marks, progress, watch, checkpoint,
            None if kept is None else kept.steps,
        )  # fmt: skip
        params = factors = np.asarray(course.state.params)
        if rank is not None:
            products = jax.vmap(product, (0, 0 if many else None))
            params = np.asarray(products(jax.device_put(factors), pairs))
    ended = "interrupted" if course.interrupted else "finished"
    return Training(
        W=None if tables is None else params,
        scores=params if tables is None else None,
        steps=course.steps,
        records=course.records,
        status=[f"diverged at step {n}" if n else ended for n in course.state.failed.tolist()],
        seconds=course.seconds,
        settings=Settings(
            SMALL if scale is not None else init if isinstance(init, str) else "given", optimizer, steps,
            "given" if given_head else kind, loss, seeds, seed,
            _recorded(None if optimizer == "polyak" else rate), every, batch_size, **own, schedule=schedule,
            factorised=rank, init_scale=scale,
        ),
        C=None if heads is None else padded(heads),
        factors=None if rank is None else factors,
        followed=None if follow is None else np.asarray(course.state.followed),
        snapshots=None
        if kept is None or course.seen is None
        else kept.kept(course.stops, course.seen),
    )  # fmt: skip


def _room(snapshots: int | Any | None, many: bool) -> int:
    """Bytes that snapshots may take."""
    if many and snapshots:
        raise UsageError("snapshots with a sequence of data sets: they are kept of one data set.")
    return 0 if snapshots is None else whole_number("snapshots", snapshots, least=0)


def _recorded(rate: Float[np.ndarray, " problems"] | None) -> float | tuple[float, ...] | None:
    """The step size of a run: one number where all problems have it."""
    if rate is None or (rate == rate[0]).all():
        return None if rate is None else float(rate[0])
    return tuple(rate.tolist())


def _gathers(layout: str | Any | None, fits: bool, incidences: int) -> bool:
    """Whether to sum the gradient by pairs, where that is possible."""
    if layout is None:
        return fits and (incidences >= GATHERED or jax.default_backend() == "gpu")
    one_of("layout", layout, ("scatter", "gather"))
    if layout == "gather" and not fits:
        raise UsageError(
            'layout="gather" is for the log-loss of one data set without embeddings, all samples at every step.'
        )
    return layout == "gather"
