"""Runs: what a command line asks for, done, and left behind as a folder of plain files.

RUN/attomaton.json       what this folder is
    config.toml          every setting, resolved
    command.txt          the command that made it
    env.json             versions and device
    summary.json         the results a person would quote
    status.json          how it ended
    log.jsonl            when it was started, taken up again and ended
    metrics.parquet      one row per seed and recorded step
    state.safetensors    the trained parameters
    snapshots.safetensors  scores on the way (`folders.run.read_snapshots`)
    figures/  index.html where a run draws pictures
"""

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attomaton.base.progress import Progress
from attomaton.base.shapes import Float
from attomaton.corpus.datasets import data_name
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import AS_NAMED, ReadAs, Reading
from attomaton.corpus.samples import Samples
from attomaton.corpus.vocabulary import fingerprint
from attomaton.disk.formats import (
    damaged,
    expect_arrays,
    read_arrays,
    read_checkpoint,
    read_json,
    read_matrix,
    write_arrays,
    write_columns,
    write_json,
)
from attomaton.disk.ledger import Ledger
from attomaton.disk.provenance import environment, provenance
from attomaton.disk.storage import (
    check_folder,
    check_place,
    discard,
    is_folder,
    new_folder,
    work_folder,
    write_whole,
)
from attomaton.errors import DataError, UsageError, number, whole_number
from attomaton.folders.model import ModelFolder
from attomaton.folders.run import kept_of, write_snapshots
from attomaton.jobs.embeddings import VECTORS, embeddings_source, input_files
from attomaton.mechanics.data import Embeddings, check_embeddings
from attomaton.mechanics.experiment.arguments import (
    INITS,
    MOST,
    SMALL,
    USUAL,
    WIDEST,
    Settings,
    as_matrix,
    limit_norm,
    resolved,
)
from attomaton.mechanics.experiment.train import Checkpoint, Training, Watch, metric_columns, train
from attomaton.mechanics.theory.limit import Limit, solve_limit

if TYPE_CHECKING:
    from attomaton.claims.margins import Ends

GROWN = 1.1  # times the first loss: more is no training
LARGEST_MB = 10_000  # of snapshots
SNAPSHOT_MB = 8.0  # of scores that a run keeps on the way unless told
W_WIDTH = 2000  # vocabulary up to which a run without embeddings also writes W as a dense matrix


def train_beside_theory(
    limit: Limit,
    *,
    optimizer: str = USUAL.optimizer,
    loss: str = USUAL.loss,
    seeds: int = USUAL.seeds,
    progress: Progress | None = None,
    watch: Watch | None = None,
    checkpoint: Checkpoint | None = None,
    ends: "Ends | None" = None,
    **options: Any,
) -> Training:
    """Train the layer on a limit's own samples, measuring on the way how far it still is from the limit.

    Besides `measure`'s records there are margins, as shares of the best that a norm allows (`measure_margins`): in the
    norm of the optimiser, in Frobenius', and for one-hot tokens in the max norm. `followed` of the answer says of each
    strict priority since which step its order has been right (`follow_orders`). `ends` are the limits in these norms,
    where they are known. `options` are those of `train`, with its defaults. `progress` is told how far it is, `watch`
    all that was measured so far, both as `train` tells them.
    """
    from attomaton.claims.margins import (
        ends_of,
        follow_orders,
        measure_margins,
        rulers,
    )

    seeds = whole_number("seeds", seeds, least=1, most=MOST)
    if ends is None:
        factorised = options.get("factorised")
        own = limit_norm(optimizer, factorised)
        ends = ends_of(_as_trained(limit, optimizer, factorised), own)
    limit = ends.limit
    return train(
        limit.samples,
        embeddings=limit.embeddings,
        optimizer=optimizer,
        loss=loss,
        seeds=seeds,
        loss_floor=limit.finite.loss_floor if loss == "log" else None,
        record=measure_margins,
        context=rulers(ends, seeds),
        follow=(follow_orders, np.full((seeds, int(limit.graph.strict.sum())), -1, np.int32)),
        progress=progress,
        watch=watch,
        checkpoint=checkpoint,
        **options,
    )


def train_run(
    data: Path | str,
    out: Path | str,
    *,
    embeddings: Path | str | None = None,
    vocabulary: Path | str | None = None,
    dimension: int | None = None,
    init: str = USUAL.init,
    reading: Reading = AS_NAMED,
    snapshots: float | int = SNAPSHOT_MB,
    snapshots_of: str | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
    force: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Train on a data set, or on the samples of a model, and write the run; the summary of `attomaton train`.

    `embeddings`, `vocabulary` and `dimension` say where the vectors of tokens come from (`embeddings_source`; they are
    drawn by the `seed` of the run). `snapshots` are the megabytes that scores kept on the way may take, 0 for none,
    of the last tokens `snapshots_of` (in words, spaces between) before all others; how much is kept says "snapshots" of
    the summary, a `folders.run.Kept`. `options` are those of `train_beside_theory`;
    `watch` is told the records as `metrics.parquet` will hold them. A run that was interrupted goes on when the same is
    asked again, and ends as if nothing had happened.
    What may lie at `out` already, and what `force` replaces, says `disk.storage.check_place`.
    """
    inputs = input_files(embeddings, init)
    place = check_place(out, "run", (data, vocabulary, reading.tokenizer, *inputs), force)
    settings = resolved(init=init, **options)
    room = number("snapshots", snapshots, least=0)
    if room > LARGEST_MB:
        raise UsageError(f"snapshots={room:g}: {LARGEST_MB:,} MB are the most.")
    asked_for = (embeddings, vocabulary, dimension)
    limit, how, vectors = limit_to_reach(data, asked_for, settings.seed, reading)
    wanted = _last_tokens(limit, snapshots_of)
    samples = limit.samples
    start: str | np.ndarray = init
    options = {k: v for k, v in asdict(settings).items() if k != "init"}
    if init not in (*INITS, SMALL):
        start = read_matrix(init, "init")
        if limit.embeddings is None and settings.factorised is None:
            limit = solve_limit(samples, _standard_basis(samples, start))
    from attomaton.claims.margins import ends_of

    limit = _as_trained(limit, settings.optimizer, settings.factorised)
    ends = ends_of(limit, limit_norm(settings.optimizer, settings.factorised))
    config = {
        "data": data_name(data),
        **dict(zip(VECTORS, asked_for, strict=True)),
        "init": settings.init,
        "snapshots": float(snapshots),
        "snapshots_of": snapshots_of,
        **asdict(reading),
        **options,
    }
    table = limit.embeddings
    given = [x for x in (start, None if table is None else table.E) if isinstance(x, np.ndarray)]
    asked = {"samples": data_fingerprint(samples, *given), **config, "versions": environment()}
    with work_folder(place, "train", asked) as work:
        kept, ledger = _Kept(work / "checkpoint.safetensors"), Ledger(work)
        run = train_beside_theory(
            limit, ends=ends, init=start, progress=progress, checkpoint=kept,
            snapshots=round(room * 1e6), snapshots_of=wanted,
            watch=None if watch is None else lambda steps, x: watch(steps, _with_gap(x, limit)),
            **options,
        )  # fmt: skip
        status = ended(run)
        summary = {
            **_train_summary(run, status, ends, settings, out),
            "snapshots": asdict(kept_of(run.snapshots)),
            "embeddings": vectors,
            "reading": how,
        }
        with new_folder(place, "train") as folder:
            provenance(folder, config, summary)
            records = training_records(run, limit)
            write_columns(folder / "metrics.parquet", metric_columns(records, len(run.status)))
            write_arrays(folder / "state.safetensors", _state(run, limit))
            write_snapshots(folder, run.snapshots)
            write_json(folder / "vocabulary.json", list(samples.vocabulary.labels))
            write_json(folder / "status.json", {"status": status})
            noted = "interrupted" if "interrupted" in run.status else "ended"
            ledger.note(noted, step=int(run.steps[-1]), resumed_at_step=kept.found)
            shutil.copy(ledger.path, folder)
        if "interrupted" not in run.status:
            discard(work)
    # What a run that goes on takes the place of is its own beginning.
    replaced = None if kept.found else place.replaced
    return {**summary, "resumed_at_step": kept.found, "replaced": replaced}


def _last_tokens(limit: Limit, text: str | None) -> list[int]:
    """Last tokens as they are typed: one that has spaces in it, or several between spaces."""
    if not text:
        return []
    vocabulary = limit.graph.vocabulary
    words = [text] if vocabulary.id_of(vocabulary.read(text)) is not None else text.split()
    return [limit.graph.last_token(vocabulary.read(word)) for word in words]


def data_fingerprint(samples: Samples, *more: np.ndarray) -> str:
    """What tells one data set from another: its vocabulary and its samples (and what is given besides)."""
    s = samples
    bags = (s.last, s.label, s.weight, s.start, s.token, s.count)
    return fingerprint(s.vocabulary, *bags, *more)


def run_factors(
    run: Path | str, limit: Limit, embeddings: str | None = None
) -> Float[np.ndarray, "starts 2 width rank"]:
    """Keys and queries of a run on the samples of this limit, whose `embeddings` are these, in words."""
    folder = check_folder(run, "run")
    state = folder / "state.safetensors"
    arrays = read_arrays(state, ["keys", "queries"])
    if "keys" not in arrays:
        raise UsageError(
            f"{run}: no run of `attomaton train --factorised`. W itself learns each last token apart from the others: "
            "what the data leave open stays undetermined."
        )
    said = read_json(folder / "summary.json")
    told = said.get("data_fingerprint"), said.get("embeddings")
    if told != (data_fingerprint(limit.samples), embeddings):
        raise DataError(
            f"{run} was trained on other data, or other embeddings, than this model has. Train on the model itself: "
            "attomaton train MODEL --factorised."
        )
    *seeds, width, rank = arrays["keys"].shape
    shape = (*(None for _ in seeds), width, rank)
    expect_arrays(state, arrays, {x: ("f", shape) for x in ("keys", "queries")})
    return np.stack([arrays["keys"], arrays["queries"]], axis=-3).reshape(-1, 2, width, rank)


def _as_trained(limit: Limit, optimizer: str, factorised: int | None) -> Limit:
    """The limit in the space that is trained in: of W as a matrix where steps need one (`train` refuses large ones)."""
    K = len(limit.samples.vocabulary)
    if limit.embeddings is not None or not as_matrix(optimizer, factorised, K) or K > WIDEST:
        return limit
    return solve_limit(limit.samples, check_embeddings(np.eye(K)))


def limit_to_reach(
    data: Path | str,
    asked_for: tuple[Path | str | None, Path | str | None, int | None],
    seed: int,
    reading: Reading,
) -> tuple[Limit, ReadAs, str | None]:
    """The limit of a data set, or of a model solved before; how the data were read, and what the vectors are."""
    if not is_folder(data, "model"):
        source = embeddings_source(*asked_for, seed)
        windows = read_windows(data, reading, source.vocabulary)
        K = len(windows.vocabulary)
        limit = solve_limit(windows.samples(), source.embeddings(K))
        return limit, reading.done(windows), source.words(K)
    more = [name for name, x in zip(VECTORS, asked_for, strict=True) if x is not None]
    named = [f"--{name}" for name in (*reading.given, *more)]
    if named:
        raise UsageError(
            f"{data} is a model, whose data were read when it was fitted: leave out {', '.join(named)}."
        )
    model = ModelFolder(data)
    return model.limit(), model.record.reading, model.record.embeddings


class _Kept:
    """A training run's checkpoint: one file, replaced as a whole."""

    def __init__(self, path: Path):
        self.path = path
        self.found = 0  # the step a run was taken up at

    def load(self) -> dict[str, np.ndarray] | None:
        if not self.path.is_file():
            return None
        saved = read_checkpoint(self.path, finite=False)
        step = saved.get("step", np.zeros(0))
        if step.dtype.kind != "i" or not step.size:
            raise damaged(self.path)
        self.found = int(step.max())
        return saved

    def save(self, arrays: dict[str, np.ndarray]) -> None:
        write_whole(self.path, write_arrays, arrays)


def ended(run: Training) -> list[str]:
    """How each seed ended; one whose loss is well above that of its start has diverged, finite as it may be.

    >>> from attomaton import example_samples, train
    >>> ended(train(example_samples(), steps=50))
    ['finished']
    >>> ended(train(example_samples(), steps=50, lr=100.0))[0].partition(" to ")[0]
    'diverged: the loss grew from 1.033'
    """
    first, last = run.records["loss"][:, 0], run.records["loss"][:, -1]
    return [
        f"diverged: the loss grew from {a:.4g} to {b:.4g}"
        if said == "finished" and b > GROWN * a
        else said
        for said, a, b in zip(run.status, first, last, strict=True)
    ]


def _train_summary(
    run: Training, status: list[str], ends: "Ends", settings: Settings, out: Path | str
) -> dict[str, Any]:
    limit = ends.limit
    samples, records = limit.samples, training_records(run, limit)
    return {
        "samples": int(samples.rows.sum()),
        "data_fingerprint": data_fingerprint(samples),
        "dropped": samples.set_aside.rows,
        "loss_floor": limit.finite.loss_floor,
        "svm_norm": limit.svm.norm,
        "finite_norm": limit.finite.norm,
        "steps": int(run.steps[-1]),
        "limit_norm": run.limit_norm,
        "best_margins": ends.best,
        "left_out": ends.left_out,
        "tied": bool(limit.graph.cyclic.any()),
        "settings": {k: v for k, v in vars(run.settings).items() if k != "init" and v is not None},
        "status": status,
        "final": [
            {"seed": i, **{k: float(v[i, -1]) for k, v in records.items() if k != "steps"}, **local}
            for i, local in enumerate(_local_cosines(run, limit, settings))
        ],
        "seconds": run.seconds,
        "run": str(out),
    }


def _local_cosines(run: Training, limit: Limit, settings: Settings) -> list[dict[str, float]]:
    """Per seed, for heads and losses that may settle in a local direction, the cosine with it."""
    if (settings.head, settings.loss) == ("identity", "log"):
        return [{} for _ in run.status]
    from attomaton.claims.local_protocol import local_cosine

    return [{"cosine_local": local_cosine(limit, x)} for x in run.params]


def _standard_basis(samples: Samples, start: np.ndarray) -> Embeddings:
    """Explicit orthonormal embeddings, for a start W(0) given as a matrix over the vocabulary."""
    K = len(samples.vocabulary)
    if start.shape[-2:] != (K, K):
        raise UsageError(
            f"init: without --embeddings W is {K}×{K} (one row and column per token), the file "
            f"holds shape {start.shape}."
        )
    return check_embeddings(np.eye(K))


def training_records(run: Training, limit: Limit) -> dict[str, np.ndarray]:
    """What was measured on the way, with loss − L* added: (seeds, records) arrays and the steps."""
    return {"steps": run.steps, **_with_gap(run.records, limit)}


def _with_gap(records: Mapping[str, np.ndarray], limit: Limit) -> dict[str, np.ndarray]:
    return {**records, "loss_gap": records["loss"] - limit.finite.loss_floor}


def _state(run: Training, limit: Limit) -> dict[str, np.ndarray]:
    """W, one per seed (without the leading axis for a single seed); the pair scores where W is never built.

    `C` is the general head, where one was drawn; `keys` and `queries` are the factors of W, where they were trained;
    `learned` says since when each strict priority has been right.
    """

    def single(x: np.ndarray) -> np.ndarray:
        return x[0] if len(run.status) == 1 else x

    head = {} if run.C is None else {"C": run.C[0]}
    if run.followed is not None:
        head["learned"] = single(run.followed)
    if run.factors is not None:
        head |= {"keys": single(run.factors[:, 0]), "queries": single(run.factors[:, 1])}

    if run.W is not None:
        return {"W": single(run.W), **head}
    assert run.scores is not None
    graph = limit.graph
    pairs = {"pair_last": graph.pair_last, "pair_token": graph.pair_token}
    state = {"scores": single(run.scores), **pairs, **head}
    K = len(graph.vocabulary)
    if K <= W_WIDTH and run.factors is None:
        W = np.zeros((len(run.status), K, K))
        W[:, graph.pair_token, graph.pair_last] = run.scores
        state["W"] = single(W)
    return state
