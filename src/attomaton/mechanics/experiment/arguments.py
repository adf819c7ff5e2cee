"""What training is asked to do, checked before anything is computed: options, embeddings, starting points."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any
from zlib import crc32

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.corpus.samples import Samples, list_of
from attomaton.errors import DataError, UsageError, number, one_of, visible, whole_number
from attomaton.mechanics.data import Embeddings, check_embeddings, check_head
from attomaton.mechanics.synthetic import general_head
from attomaton.results import absent

# Of steps, seeds, samples in a batch: more than any machine can do, less than 64 bits hold
MOST = 10**12
HEADS = ("identity", "tied", "general")
SCORE_LOSSES = ("squared-score", "logistic-score")  # of the label's score u = c_y·f
LOSSES = ("log", "squared", "cross-entropy", *SCORE_LOSSES)  # the others: of softmax(C f)_y
OPTIMIZERS = (
    "gd", "ngd", "polyak", "sgd", "adam", "sign", "spectral", "muon", "mirror:1.5", "mirror:3",
)  # fmt: skip  # and mirror:p with any other p > 1
MATRIX = ("spectral", "muon")  # their steps need W as a matrix
MIRROR = "mirror:"
SCHEDULES = ("constant", "inverse-sqrt")
INITS = ("zeros", "uniform")
SMALL = "small"  # the start of factors: normal entries times `init_scale`
INIT_SCALE = 0.01
FACTORISED = ("gd", "ngd", "polyak", "sgd")  # of which factors' limit is known: the nuclear norm
MATRIX_UP_TO = 256  # tokens up to which the product of factors is trained as a matrix
MOST_BYTES = 4 * 10**9  # that a step on factors may take
WIDEST = 4000  # tokens for which a general head, or W, may be a matrix over the vocabulary
RECORDS = 100  # records kept when nobody says how often
# lr when none is given, RATE for the others; polyak has none
RATES, RATE = {"gd": 1.0, "sgd": 0.1}, 0.01
OWN: dict[str, dict[str, float]] = {  # what single optimizers have, at its usual values
    "ngd": {"eps": 0.0},
    "adam": {"eps": 1e-8, "beta1": 0.9, "beta2": 0.999},
    "muon": {"beta1": 0.95},
}
EPS_FREE = 10.0  # times ε: above it √v̂ decides how Adam steps


@dataclass(frozen=True)
class Settings:
    """What a run of training is asked to do, and every default: of `train`, of the command line and of the lab.

    `lr` and `every` are None while they are to be the usual ones (see `resolved`); `init` is "given" where the starting
    point was handed in.
    """

    init: str = "zeros"
    optimizer: str = "gd"
    steps: int = 4000
    head: str = "identity"
    loss: str = "log"
    seeds: int = 1
    seed: int = 0
    lr: float | tuple[float, ...] | None = None  # one for all problems, or one for each
    every: int | str | None = None
    batch_size: int | None = absent()  # all samples at every step
    eps: float | None = absent()  # of ngd, added to ‖g‖; of adam, to √v̂
    beta1: float | None = absent()  # of adam and muon
    beta2: float | None = absent()  # of adam
    schedule: str = "constant"
    factorised: int | None = absent()  # the rank of W = K Qᵀ; True: the full one
    init_scale: float | None = absent()  # of factors


USUAL = Settings()

Number = float | int
PerProblem = Number | Sequence[Number] | np.ndarray | Any  # what is none gets an error of ours
Table = Embeddings | np.ndarray


def learning_rate(optimizer: str | Any, lr: Any = None) -> Any:
    """The step size: what was given, or the usual one of this optimizer (None for polyak, which finds its own).

    >>> learning_rate("ngd"), learning_rate("ngd", 0.5)
    (0.01, 0.5)
    """
    check_optimizer(optimizer)
    if optimizer == "polyak" and lr is not None:
        raise UsageError(
            'lr with optimizer="polyak", which computes its own step size from loss_floor; leave lr out.'
        )
    if lr is not None or optimizer == "polyak":
        return lr
    return RATES.get(optimizer, RATE)


def check_optimizer(optimizer: str | Any) -> None:
    """Refuse a name that is no optimizer's."""
    if not isinstance(optimizer, str) or not optimizer.startswith(MIRROR):
        one_of("optimizer", optimizer, OPTIMIZERS)
    else:
        mirror_power(optimizer)


def mirror_power(optimizer: str) -> float | None:
    """The p of mirror descent in ℓp; None of other optimizers.

    >>> mirror_power("mirror:1.5"), mirror_power("gd")
    (1.5, None)
    """
    if not optimizer.startswith(MIRROR):
        return None
    try:
        p = float(optimizer.removeprefix(MIRROR))
    except ValueError:
        p = inf
    if not 1 < p < inf:
        raise UsageError(
            f'optimizer="{visible(optimizer)}": after "{MIRROR}" a number above 1 is needed, as in "mirror:1.5".'
        )
    return p


def limit_norm(optimizer: str, factorised: object = None) -> str | float:
    """The norm whose largest margin an optimizer's steps tend to: its name, or the p of an entrywise one.

    Of adam it is the norm while √v̂ is well above ε (`eps_free` of a run: of how many coordinates); where it is not, its
    steps are those of scaled descent. Steps on the factors of W = K Qᵀ, from a small start, have a norm of their own.

    >>> limit_norm("ngd"), limit_norm("adam"), limit_norm("muon"), limit_norm("mirror:3"), limit_norm("ngd", 4)
    ('frobenius', 'max', 'spectral', 3.0, 'nuclear')
    """
    if factorised:
        return "nuclear"
    p = mirror_power(optimizer)
    if p is not None:
        return p
    norms = {"sign": "max", "adam": "max", "spectral": "spectral", "muon": "spectral"}
    return norms.get(optimizer, "frobenius")


def own_options(optimizer: str, **given: Any) -> dict[str, float | None]:
    """ε, β₁ and β₂: what was given, or the usual ones of this optimizer; None where it has none.

    >>> own_options("muon", beta1=None), own_options("adam", eps=0)["eps"]
    ({'eps': None, 'beta1': 0.95, 'beta2': None}, 0.0)
    """
    usual: dict[str, float | None] = {"eps": None, "beta1": None, "beta2": None}
    usual |= OWN.get(optimizer, {})
    for name, value in given.items():
        if value is None:
            continue
        if usual[name] is None:
            owners = " and ".join(f'"{x}"' for x, has in OWN.items() if name in has)
            raise UsageError(
                f'{name}={value!r:.60} with optimizer="{optimizer}", which has none: it is an option of {owners}.'
            )
        usual[name] = found = number(name, value, least=0)
        if not found < (inf if name == "eps" else 1):
            raise UsageError(
                f"{name}={value}: it must be {'finite' if name == 'eps' else 'less than 1'}."
            )
    return usual


def factor_scale(optimizer: str, factorised: Any, init_scale: Any, init: Any) -> float | None:
    """The scale of the factors' first entries; None where W is not factorised. Refuses what does not go with it.

    >>> factor_scale("ngd", True, None, "zeros"), factor_scale("ngd", None, None, "zeros")
    (0.01, None)
    """
    if not factorised:
        if factorised is not None and factorised is not False:
            raise UsageError(f"factorised={factorised!r:.60}: True, or a rank of at least 1.")
        if init_scale is not None:
            raise UsageError("init_scale is of factorised training; give both, or none.")
        return None
    if factorised is not True:
        whole_number("factorised", factorised, least=1)
    if optimizer not in FACTORISED:
        raise UsageError(
            f'factorised with optimizer="{optimizer}": what its steps on factors tend to is not known. Use one of '
            f"{', '.join(FACTORISED)}."
        )
    if not isinstance(init, str):
        if init_scale is not None:
            raise UsageError("init_scale with a start that is given; leave one of them out.")
        return None
    if init not in (USUAL.init, SMALL):
        raise UsageError(
            f'init="{visible(init)}" with factorised: factors start from normal entries times init_scale; leave it out.'
        )
    scale = number("init_scale", INIT_SCALE if init_scale is None else init_scale, least=0)
    if not 0 < scale < inf:
        raise UsageError(
            f"init_scale={scale}: it must be positive and finite; from 0 factors never move."
        )
    return scale


def rank_of(factorised: Any, width: int) -> int | None:
    """The rank of the factors, None without; no more than a matrix of this width can have."""
    if not factorised:
        return None
    rank = width if factorised is True else whole_number("factorised", factorised, least=1)
    if rank > width:
        raise UsageError(f"factorised={rank}: W has {width} rows and columns, and no larger rank.")
    return rank


def as_matrix(optimizer: str, factorised: Any, K: int) -> bool:
    """Whether W is a matrix even without embeddings: for steps that need one, and of factors where it is small."""
    return optimizer in MATRIX or (bool(factorised) and K <= MATRIX_UP_TO)


def resolved(**options: Any) -> Settings:
    """Settings with every default filled in, what is None among them too: what a run records.

    >>> resolved(optimizer="adam", steps=1000)
    Settings(init='zeros', optimizer='adam', steps=1000, head='identity', loss='log', seeds=1, seed=0, lr=0.01,
             every=10, batch_size=None, eps=1e-08, beta1=0.9, beta2=0.999, schedule='constant', factorised=None,
             init_scale=None)
    """
    asked = replace(USUAL, **{k: v for k, v in options.items() if v is not None})
    every = spacing(whole_number("steps", asked.steps, 1), asked.every)
    own = own_options(asked.optimizer, eps=asked.eps, beta1=asked.beta1, beta2=asked.beta2)
    drawn = asked.init if asked.init in (*INITS, SMALL) else None
    scale = factor_scale(asked.optimizer, asked.factorised, asked.init_scale, drawn)
    return replace(
        asked, lr=learning_rate(asked.optimizer, asked.lr), every=every, init=asked.init if scale is None else SMALL,
        eps=own["eps"], beta1=own["beta1"], beta2=own["beta2"], init_scale=scale,
    )  # fmt: skip


def check_options(
    *,
    optimizer: str | Any,
    head: str | Any,
    loss: str | Any,
    steps: int | Any,
    seeds: int | Any,
    seed: int | Any,
    every: int | str | Any | None = None,
    batch_size: int | Any | None = None,
    schedule: str | Any = USUAL.schedule,
) -> None:
    """Refuse options that make no sense, before anything is computed."""
    check_optimizer(optimizer)
    one_of("schedule", schedule, SCHEDULES)
    if optimizer == "polyak" and schedule != USUAL.schedule:
        raise UsageError(
            f'schedule="{schedule}" with optimizer="polyak", which computes its own step size; leave it out.'
        )
    one_of("head", head, HEADS)
    one_of("loss", loss, LOSSES)
    if head != "identity" and loss == "log":
        raise UsageError(
            f'head="{head}" with loss="log": the score c_y·f of a {head} head can be negative, which '
            'has no logarithm. Use loss="cross-entropy" or "squared", or head="identity".'
        )
    spacing = 1 if every is None or isinstance(every, str) else every
    batch = 1 if batch_size is None else batch_size
    counts = {"steps": steps, "every": spacing, "batch_size": batch, "seeds": seeds}
    for name, value in counts.items():
        whole_number(name, value, least=1, most=MOST)
    if batch_size is not None and optimizer not in ("sgd", "adam"):
        raise UsageError(
            f'batch_size with optimizer="{optimizer}", which uses all samples at every step. '
            'Use "sgd" or "adam", or leave batch_size out.'
        )
    if not 0 <= whole_number("seed", seed) < 2**63:
        raise UsageError(f"seed={seed}: a number from 0 to 2^63 − 1 is needed.")


def per_problem(name: str, value: PerProblem, B: int) -> Float[np.ndarray, " problems"]:
    """One number for each problem, from one for all or one for each."""
    array = _numbers(name, value)
    if array.shape not in ((), (B,)):
        raise UsageError(
            f"{name}: expected one number or {B}, one per problem; got shape {array.shape}."
        )
    return np.broadcast_to(array, (B,)).copy()


def _numbers(name: str, value: Any) -> Float[np.ndarray, "*shape"]:
    """Numbers of any shape; nothing else is made one."""
    try:
        found = np.asarray(value)
        if found.dtype.kind not in "iuf":
            raise TypeError
        return found.astype(np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"{name}={value!r:.60}: numbers are needed.") from None


def step_sizes(lr: PerProblem, B: int) -> Float[np.ndarray, " problems"]:
    """η for each problem."""
    rate = per_problem("lr", lr, B)
    if not (np.isfinite(rate) & (rate > 0)).all():
        raise UsageError(f"lr={lr}: the step size must be positive and finite.")
    return rate


def loss_floors(
    loss_floor: PerProblem | None, optimizer: str, B: int
) -> Float[np.ndarray, " problems"]:
    """L* for each problem; only Polyak's step needs one, and cannot do without."""
    if loss_floor is None:
        if optimizer == "polyak":
            raise UsageError('optimizer="polyak" needs loss_floor, the infimum L* of the loss.')
        return np.zeros(B)
    floor = per_problem("loss_floor", loss_floor, B)
    if not np.isfinite(floor).all():
        raise UsageError(f"loss_floor={loss_floor}: must be finite.")
    return floor


def embedding_tables(
    sets: list[Samples],
    embeddings: Table | Sequence[Table] | Any | None,
    optimizer: str,
    factorised: Any = None,
) -> list[Embeddings] | None:
    """The embeddings of each data set, checked; None in pairs space. Where W must be a matrix, one-hot."""
    if embeddings is None:
        K = max(len(s.vocabulary) for s in sets)
        if not as_matrix(optimizer, factorised, K):
            return None
        if K > WIDEST:
            raise UsageError(
                f'optimizer="{optimizer}" orthogonalises W as a matrix, which without embeddings has {K:,} × {K:,} '
                f"numbers, and {WIDEST:,} tokens are the most; give embeddings of fewer dimensions."
            )
        return [Embeddings(np.eye(len(s.vocabulary), K)) for s in sets]
    given = _for_each("embeddings", embeddings, sets)
    tables = [
        replace(
            check_embeddings(getattr(E, "E", E), len(s.vocabulary)), split=getattr(E, "split", None)
        )
        for E, s in zip(given, sets, strict=True)
    ]
    widths = sorted({E.E.shape[1] for E in tables})
    if len(widths) > 1:
        raise UsageError(
            f"embeddings of widths {', '.join(map(str, widths))} cannot be trained side by side; "
            "train each width by itself."
        )
    if len({E.split for E in tables}) > 1:
        raise UsageError(
            "embeddings with and without keys and queries of their own cannot be trained side by side; train each "
            "kind by itself."
        )
    return tables


def head_tables(
    sets: list[Samples],
    tables: list[Embeddings] | None,
    head: str | np.ndarray | Sequence[np.ndarray] | Any,
    seed: int,
) -> list[Float[np.ndarray, "_ width"]] | None:
    """The head C of each data set where it is general: drawn, each from a stream of its own, or given and checked."""
    if tables is not None and tables[0].split is not None and head is not USUAL.head:
        raise UsageError("head: a decoder with keys and queries of its own has none; leave it out.")
    if isinstance(head, str) and head != "general":
        return None
    K = max(len(s.vocabulary) for s in sets)
    if tables is None and K > WIDEST:
        raise UsageError(
            f"head: without embeddings a general head has {K:,} × {K:,} numbers, and {WIDEST:,} tokens are the "
            "most; give embeddings of fewer dimensions."
        )
    E = [np.eye(len(s.vocabulary)) for s in sets] if tables is None else [x.E for x in tables]
    if isinstance(head, str):
        rngs = (np.random.default_rng([seed, crc32(b"head"), i]) for i in range(len(sets)))
        return [general_head(rng, table) for rng, table in zip(rngs, E, strict=True)]
    given = _for_each("head", head, sets)
    return [
        check_head(C, table, s.vocabulary.labels)
        for C, table, s in zip(given, E, sets, strict=True)
    ]


def _for_each(name: str, given: Any, sets: list[Samples]) -> list[Any]:
    """One matrix for each data set, from one for all or one for each."""
    if isinstance(given, Embeddings) or getattr(given, "ndim", 3) != 3:
        return [given] * len(sets)
    found = list_of(given, name, "a matrix, or a list of them,")
    if len(found) != len(sets):
        raise UsageError(
            f"{name}: {len(found)} matrices for {len(sets)} data sets; give one for all or one "
            "for each."
        )
    return found


def first_parameters(
    init: str | np.ndarray | Sequence[np.ndarray] | Any,
    sets: list[Samples],
    tables: list[Embeddings] | None,
    B: int,
    seed: int,
    rank: int | None = None,
    scale: float | None = None,
) -> list[np.ndarray]:
    """The first parameters of every problem, each in its own shape; of factors where they have a `rank`."""
    if tables is None:
        shapes: list[tuple[int, ...]] = [(len(s.pair_index()[0]),) for s in sets]
        reach = [len(s.vocabulary) ** -0.5 for s in sets]
    else:
        shapes = [(E.keys.shape[1], E.queries.shape[1]) for E in tables]
        reach = [E.queries.shape[1] ** -0.5 for E in tables]
    if rank is not None:
        widths = [len(s.vocabulary) for s in sets] if tables is None else [n for n, _ in shapes]
        if tables is not None and any(n != m for n, m in shapes):
            raise UsageError("factorised: keys and queries of one width are needed.")
        shapes = [(2, width, rank) for width in widths]
        rows = 6 * max(widths)
        if tables is None:
            rows = 4 * max(widths) + 3 * max(len(s.pair_index()[0]) for s in sets)
        _check_memory(max(widths), rank, 8 * B * rows)
    shapes, reach = shapes * (B // len(sets)), reach * (B // len(sets))
    if isinstance(init, str):
        rngs = [np.random.default_rng([seed, crc32(b"init"), i]) for i in range(B)]
        if scale is not None:
            return [scale * rng.standard_normal(s) for rng, s in zip(rngs, shapes, strict=True)]
        one_of("init", init, INITS)
        if init == "zeros":
            return [np.zeros(shape) for shape in shapes]
        return [rng.uniform(-r, r, s) for rng, r, s in zip(rngs, reach, shapes, strict=True)]
    given = _given_starts(init, shapes)
    for b, start in enumerate(given):
        wrong = np.argwhere(~np.isfinite(start))
        if len(wrong):
            at = tuple(wrong[0].tolist())
            place = f"problem {b}, entry {at[0] if len(at) == 1 else at}"
            raise DataError(
                f"init: {len(wrong)} entries are not finite, the first is {start[at]} at {place}."
            )
        one = b % len(sets)
        _check_scores(start, sets[one], None if tables is None else tables[one], b)
    return given


def _given_starts(
    init: np.ndarray | Sequence[np.ndarray] | Any, shapes: list[tuple[int, ...]]
) -> list[np.ndarray]:
    """One start for each problem, from one for all or one for each."""
    ndim = len(shapes[0])
    if not isinstance(init, (np.ndarray, Sequence)):
        init = _numbers("init", init)
    whole = isinstance(init, np.ndarray) or not len(init) or np.ndim(init[0]) < ndim
    starts = [_numbers("init", x) for x in ([init] if whole else init)]
    if whole and starts[0].ndim == ndim + 1:
        starts = list(starts[0])
    elif whole:
        starts = starts * len(shapes)
    if [s.shape for s in starts] != shapes:
        if len(starts) == len(shapes):
            b = next(b for b, s in enumerate(starts) if s.shape != shapes[b])
            raise UsageError(
                f"init: expected shape {shapes[b]} for problem {b}, got {starts[b].shape}."
            )
        raise UsageError(
            f"init: expected one array or {len(shapes)}, one per problem; got {len(starts)} arrays."
        )
    return starts


def _check_scores(start: np.ndarray, samples: Samples, E: Embeddings | None, b: int) -> None:
    """Refuse a start whose logits overflow (twice a score must still be a number)."""
    keys, _ = samples.pair_index()
    last, token = np.divmod(keys, len(samples.vocabulary))
    with np.errstate(over="ignore", invalid="ignore"):
        scores = start
        if start.ndim == 3:  # factors
            K, Q = start if E is None else (E.keys @ start[0], E.queries @ start[1])
            scores = np.einsum("pr,pr->p", K[token], Q[last])
        elif E is not None:
            scores = np.einsum("pa,pa->p", E.keys[token] @ start, E.queries[last])
        wrong = np.flatnonzero(~np.isfinite(2 * scores))
    if len(wrong):
        at = wrong[0]
        pair = f"pair {at}" if E is None else f"token {token[at]} under last token {last[at]}"
        raise DataError(
            f"init: the logit of {pair} in problem {b} overflows ({scores[at]:.3g}); "
            "use a smaller start or smaller embeddings."
        )


def _check_memory(width: int, rank: int, column: int) -> None:
    """Refuse factors whose steps take too much memory: `column` bytes for each column of keys and queries."""
    if column * rank > MOST_BYTES:
        most = MOST_BYTES // column
        raise UsageError(
            f"factorised: a step on keys and queries of {width:,} rows and rank {rank:,} takes about "
            f"{column * rank / 1e9:,.1f} GB, and {MOST_BYTES / 1e9:g} GB are the most; "
            + (f"ask for a rank of at most {most:,}." if most else "use fewer tokens.")
        )


def spacing(steps: int, every: int | str | Any | None = None) -> int | str:
    """Steps between records, or "log"; where nobody says how often, about `RECORDS` records in all."""
    if isinstance(every, str) and every != "log":
        raise UsageError(f'every={every!r:.60}: a number of steps or "log" is needed.')
    if every is None:
        return max(1, -(-steps // RECORDS))
    return "log" if every == "log" else whole_number("every", every, least=1)


def record_steps(steps: int, every: int | str) -> Int[np.ndarray, " records"]:
    """Steps 0, every, 2·every, …, or evenly on a logarithmic axis; and always the last one."""
    if isinstance(every, str):
        return log_steps(steps, RECORDS)
    return np.unique(np.append(np.arange(0, steps, every), steps))


def log_steps(steps: int, points: int) -> Int[np.ndarray, " distinct"]:
    """Step 0, and up to so many from 1 to the last, evenly on a logarithmic axis."""
    return np.unique(np.append(0, np.geomspace(1, steps, points).round().astype(np.int64)))
