"""Runs of training on one data set, read from their folders and laid beside its exact limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.claims.comparison import Comparison, Trained, compare
from attomaton.corpus.reading import OPTIONS, Reading
from attomaton.disk.formats import AGAIN, read_arrays, read_toml
from attomaton.disk.records import read_record
from attomaton.disk.storage import check_folder, is_folder, read_mark
from attomaton.errors import DataError, UsageError, counted
from attomaton.folders.model import ModelFolder
from attomaton.jobs.embeddings import VECTORS, embeddings_source
from attomaton.jobs.train import data_fingerprint, limit_to_reach
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.theory.limit import Limit

MOST = 12  # layers side by side; each seed of a run is one


@dataclass(frozen=True)
class _Told:
    """What is read of a run's summary."""

    steps: int
    status: list[str]
    data_fingerprint: str | None = None


@dataclass(frozen=True)
class _Run:
    path: Path
    config: dict[str, Any]
    told: _Told

    @property
    def data(self) -> str:
        return str(self.config.get("data"))

    def vectors(self, K: int) -> Embeddings | None:
        """The vectors it was trained with; None for one-hot tokens. Those of a model cannot be others than its own."""
        if is_folder(self.data, "model"):
            return ModelFolder(self.data).embeddings
        return embeddings_source(*map(self.config.get, (*VECTORS, "seed"))).embeddings(K)


def compare_runs(
    runs: Sequence[Path | str], data: Path | str | None = None, top: int = 20
) -> Comparison:
    """Runs of `attomaton train` on one data set, side by side; each seed of a run is a layer.

    The exact limit is computed from the data they were trained on, or from the same `data` at another place. Runs of
    different data are refused.
    """
    if not runs:
        raise UsageError("compare: name at least one run of `attomaton train`.")
    read = [_read(Path(x)) for x in runs]
    _check_one_data_set(read)
    first = read[0]
    place = first.data if data is None else str(data)
    # A model knows how its data were read, and its vectors.
    said: Any = {} if is_folder(place, "model") else first.config
    reading = Reading(**{name: said.get(name) for name in OPTIONS})
    vectors: Any = tuple(map(said.get, VECTORS))
    limit = limit_to_reach(place, vectors, int(first.config.get("seed", 0)), reading)[0]
    found = data_fingerprint(limit.samples)
    if found != first.told.data_fingerprint:
        raise DataError(
            f"{place}: is not what {first.path} was trained on: data {found[:12]} here, "
            f"{str(first.told.data_fingerprint)[:12]} there. Name the same data with --data."
        )
    layers = [layer for run in read for layer in _layers(run, limit)]
    if len(layers) > MOST:
        raise UsageError(
            f"compare: {counted(len(layers), 'layer')} (each seed of a run is one), and {MOST} are the most."
        )
    return compare(limit, layers, place, top)


def _read(path: Path) -> _Run:
    check_folder(path, "run")
    if read_mark(path).maker != "train":
        raise UsageError(
            f"{path}: is no run of `attomaton train`; only those hold trained parameters."
        )
    return _Run(path, read_toml(path / "config.toml"), read_record(path / "summary.json", _Told))


def _check_one_data_set(runs: Sequence[_Run]) -> None:
    first = runs[0]
    for run in runs:
        if run.told.data_fingerprint is None:
            raise UsageError(
                f"{run.path}: was written before runs kept when each priority was learned; train it again."
            )
        if run.told.data_fingerprint != first.told.data_fingerprint:
            a, b = (str(x.told.data_fingerprint)[:12] for x in (first, run))
            raise UsageError(
                f"{first.path} was trained on data {a} ({first.data}), {run.path} on data {b} ({run.data}): only runs "
                "of one data set can be compared."
            )


def _layers(run: _Run, limit: Limit) -> list[Trained]:
    """The layers of a run, one for each seed."""
    from attomaton.report.text.training import optimizer_text

    graph, path = limit.graph, run.path / "state.safetensors"
    state = read_arrays(path, ("scores", "W", "learned"))
    seeds = len(run.told.status)
    if "learned" not in state or not {"scores", "W"} & set(state):
        raise DataError(f"{path}: holds no trained parameters; {AGAIN}.")
    learned = np.atleast_2d(state["learned"])
    if "scores" in state:
        params = np.atleast_2d(state["scores"])
    else:
        table, own = run.vectors(len(graph.vocabulary)), limit.embeddings
        same = table is None or (own is not None and np.array_equal(table.E, own.E))
        if table is not None and not table.independent and not same:
            raise UsageError(
                f"{run.path}: its vectors of tokens depend on each other, which ties other tokens than in the first "
                "run; compare runs with the same vectors."
            )
        W = state["W"]
        params = np.stack([_scores(limit, table, x) for x in (W[None] if W.ndim == 2 else W)])
    strict = int(graph.strict.sum())
    if params.shape != (seeds, len(graph.pair_last)) or learned.shape != (seeds, strict):
        raise DataError(f"{path}: its arrays do not fit the data; {AGAIN}.")
    named = optimizer_text(str(run.config.get("optimizer")), run.config.get("eps"))
    return [
        Trained(
            str(run.path) if seeds == 1 else f"{run.path}, seed {i}", named, run.told.steps, params[i], learned[i]
        )
        for i in range(seeds)
    ]  # fmt: skip


def _scores(limit: Limit, table: Embeddings | None, W: np.ndarray) -> np.ndarray:
    """e_xᵀ W e_q of every pair."""
    token, last = limit.graph.pair_token, limit.graph.pair_last
    if table is None:
        return W[token, last]
    return ((table.E @ W)[token] * table.E[last]).sum(axis=1)
