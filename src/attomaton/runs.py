"""Runs: what a command line asks for, done, and left behind as a folder of plain files.

RUN/attomaton.json       what this folder is
    config.toml          every setting, resolved
    command.txt          the command that made it
    env.json             versions and device
    summary.json         the results a person would quote
    status.json          how it ended
    metrics.parquet      one row per seed and recorded step
    state.safetensors    the trained parameters
    figures/  index.html where a run draws pictures
"""

import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.corpus.readers import read_samples
from attomaton.corpus.samples import Samples
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.errors import UsageError
from attomaton.mechanics.automaton import Explanation
from attomaton.mechanics.data import Embeddings, check_embeddings
from attomaton.mechanics.limit import Limit, solve_limit
from attomaton.mechanics.train import Progress, Training, train
from attomaton.models import save_model
from attomaton.storage import (
    new_folder,
    read_matrix,
    to_json,
    write_arrays,
    write_columns,
    write_json,
)

RATES = {"gd": 1.0, "ngd": 0.01, "polyak": 1.0, "sgd": 0.1, "adam": 0.01}  # when none is given
W_WIDTH = 2000  # vocabulary up to which a run without embeddings also writes W as a dense matrix

Stage = Callable[[str, float | None], None]


def load(
    data: Path | str,
    embeddings: Path | str | None = None,
    **reading: Any,
) -> tuple[Samples, Embeddings | None]:
    """Samples, and the embeddings whose rows their integer tokens name."""
    if embeddings is None:
        return read_samples(data, **reading), None
    table = check_embeddings(read_matrix(embeddings, "embeddings"))
    return read_samples(data, vocabulary=Vocabulary(range(len(table.E))), **reading), table


def fit_run(
    data: Path | str,
    out: Path | str,
    *,
    embeddings: Path | str | None = None,
    dense: bool = False,
    stage: Stage = lambda name, seconds: None,
    **reading: Any,
) -> dict[str, Any]:
    """Fit a data set and write the model; the summary of `attomaton fit`."""
    begin = time.perf_counter()
    seconds: dict[str, float] = {}

    def watch(name: str, took: float | None) -> None:
        if took is not None:
            seconds[name] = took
        stage(name, took)

    with _timed("read", watch):
        samples, table = load(data, embeddings, **reading)
    limit = solve_limit(samples, table, watch)
    record = {
        "data": str(data),
        "command": command(),
        "environment": environment(),
        "set_aside": asdict(samples.set_aside),
    }
    with _timed("write", watch):
        save_model(limit, out, record, dense)
    seconds["total"] = time.perf_counter() - begin
    return {
        **limit.summary(),
        "set_aside": asdict(samples.set_aside),
        "seconds": seconds,
        "peak_memory_mb": peak_memory_mb(),
        "model": str(out),
    }


@contextmanager
def _timed(name: str, watch: Stage) -> Iterator[None]:
    watch(name, None)
    begin = time.perf_counter()
    yield
    watch(name, time.perf_counter() - begin)


def train_beside_theory(
    limit: Limit,
    *,
    init: str | np.ndarray = "zeros",
    optimizer: str = "gd",
    lr: float | None = None,
    steps: int = 4000,
    every: int | str | None = None,
    head: str = "identity",
    loss: str = "log",
    batch_size: int | None = None,
    seeds: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
) -> Training:
    """Train the layer on a limit's own samples, measuring on the way how far it still is from the limit."""
    from attomaton.claims.measure import measure, yardstick

    return train(
        limit.samples,
        embeddings=limit.embeddings,
        init=init,
        optimizer=optimizer,
        lr=RATES.get(optimizer, 0.1) if lr is None else lr,
        steps=steps,
        every=every,
        head=head,
        loss=loss,
        batch_size=batch_size,
        seeds=seeds,
        seed=seed,
        loss_floor=limit.finite.loss_floor if loss == "log" else None,
        record=measure,
        context=yardstick(limit, max(seeds, 1)),  # `train` itself refuses fewer than 1
        progress=progress,
    )


def train_run(
    data: Path | str,
    out: Path | str,
    *,
    embeddings: Path | str | None = None,
    init: str = "zeros",
    reading: Mapping[str, Any],
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Train on a data set and write the run; the summary of `attomaton train`."""
    samples, table = load(data, embeddings, **reading)
    start: str | np.ndarray = init
    if init not in ("zeros", "uniform"):
        start = read_matrix(init, "init")
        if table is None:
            table = _standard_basis(samples, start)
    limit = solve_limit(samples, table)
    run = train_beside_theory(limit, init=start, progress=progress, **options)
    records = training_records(run, limit)
    summary = {
        "samples": int(samples.rows.sum()),
        "dropped": samples.set_aside.rows,
        "loss_floor": limit.finite.loss_floor,
        "svm_norm": limit.svm.norm,
        "finite_norm": limit.finite.norm,
        "steps": int(run.steps[-1]),
        "status": run.status,
        "final": [
            {"seed": i, **{k: float(v[i, -1]) for k, v in records.items() if k != "steps"}, **local}
            for i, local in enumerate(_local_cosines(run, limit, options))
        ],
        "seconds": run.seconds,
        "run": str(out),
    }
    config = {
        "data": str(data),
        "embeddings": None if embeddings is None else str(embeddings),
        "init": init,
        **{k: v for k, v in reading.items()},
        **options,
    }
    with new_folder(out, "run") as work:
        provenance(work, config, summary)
        write_columns(work / "metrics.parquet", metric_columns(records, len(run.status)))
        write_arrays(work / "state.safetensors", _state(run, limit))
        write_json(work / "vocabulary.json", list(samples.vocabulary.labels))
        write_json(work / "status.json", {"status": run.status})
    return summary


def _local_cosines(
    run: Training, limit: Limit, options: Mapping[str, Any]
) -> list[dict[str, float]]:
    """Per seed, for heads and losses that may settle in a local direction, the cosine with it."""
    if (options.get("head", "identity"), options.get("loss", "log")) == ("identity", "log"):
        return [{} for _ in run.status]
    from attomaton.claims.local_protocol import local_cosine

    params = run.W if run.W is not None else run.scores
    assert params is not None
    return [{"cosine_local": local_cosine(limit, x)} for x in params]


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
    return {
        "steps": run.steps,
        **run.records,
        "loss_gap": run.records["loss"] - limit.finite.loss_floor,
    }


def metric_columns(records: Mapping[str, np.ndarray], seeds: int) -> dict[str, np.ndarray]:
    """Records as columns, one row per seed and recorded step."""
    steps = records["steps"]
    flat = {name: value.ravel() for name, value in records.items() if name != "steps"}
    return {"seed": np.repeat(np.arange(seeds), len(steps)), "step": np.tile(steps, seeds), **flat}


def _state(run: Training, limit: Limit) -> dict[str, np.ndarray]:
    """W, one per seed (without the leading axis for a single seed); the pair scores where W is never built."""

    def single(x: np.ndarray) -> np.ndarray:
        return x[0] if len(run.status) == 1 else x

    if run.W is not None:
        return {"W": single(run.W)}
    assert run.scores is not None
    graph = limit.graph
    state = {
        "scores": single(run.scores),
        "pair_last": graph.pair_last,
        "pair_token": graph.pair_token,
    }
    K = len(graph.vocabulary)
    if K <= W_WIDTH:
        W = np.zeros((len(run.status), K, K))
        W[:, graph.pair_token, graph.pair_last] = run.scores
        state["W"] = single(W)
    return state


def provenance(folder: Path, config: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
    """Write what was asked, by which command, under which versions, and what came out."""
    (folder / "config.toml").write_text(to_toml(config), encoding="utf-8")
    (folder / "command.txt").write_text(command() + "\n", encoding="utf-8")
    write_json(folder / "env.json", environment())
    write_json(folder / "summary.json", summary)


def to_toml(config: Mapping[str, Any]) -> str:
    """Flat settings as TOML; what is not set is left out.

    >>> print(to_toml({"lr": 0.1, "name": "a", "seeds": None, "flag": True}), end="")
    lr = 0.1
    name = "a"
    flag = true
    """
    # TOML's strings, numbers, booleans and flat lists are written just as JSON's.
    lines = [f"{k} = {to_json(v, indent=None)}" for k, v in config.items() if v is not None]
    return "\n".join(lines) + "\n"


def run_folder(name: str, config: Mapping[str, Any], root: Path | str = "runs") -> Path:
    """A fresh place for a run: time, name and a hash of the settings."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    tag = sha256(to_json(config).encode()).hexdigest()[:6]
    return Path(root) / f"{stamp}-{name}-{tag}"


def command() -> str:
    """The command line as it was typed, with the program's own name first."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def environment() -> dict[str, Any]:
    """Versions that decide what numbers come out."""
    return {
        "attomaton": package_version("attomaton"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        **{name: package_version(name) for name in ("numpy", "scipy", "piqp", "jax", "jaxlib")},
    }


def package_version(name: str) -> str | None:
    """The installed version of a package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def peak_memory_mb() -> float:
    """The most memory this process has held so far, in megabytes."""
    import resource

    # Linux counts kilobytes, macOS bytes.
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def explanation_record(explanation: Explanation) -> dict[str, Any]:
    """An explanation as plain data, tables instead of dictionaries keyed by token."""
    record = asdict(explanation)
    record["soft_to_hard"] = [
        {"radius": radius, "probability": [{"token": k, "p": v} for k, v in p.items()]}
        for radius, p in explanation.soft_to_hard
    ]
    for fate in record["fates"]:
        for edge in fate["path"]:
            for sample in edge["evidence"]:
                sample["tokens"] = [{"token": k, "count": m} for k, m in sample["tokens"].items()]
    return record
