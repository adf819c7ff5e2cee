"""A fitted limit on disk: written once, opened without solving anything again.

MODEL/attomaton.json       what this folder is
      model.json           summary, certificates, seconds, provenance
      vocabulary.json      token labels in id order
      samples.parquet      the merged samples (evidence for explanations)
      pairs.parquet        (last, token) with component, level and scores
      edges.parquet        priority edges between pairs
      arrays.safetensors   multipliers; embeddings if given; W_svm and W_fin if asked for (dense)
"""

from pathlib import Path
from typing import Any

import numpy as np

from attomaton.corpus.samples import Samples, SetAside
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.errors import DataError
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.finite import FiniteComponent
from attomaton.mechanics.graph import PriorityGraph
from attomaton.mechanics.limit import Limit
from attomaton.mechanics.svm import GraphSVM
from attomaton.numerics import row_pointer
from attomaton.results import KKT
from attomaton.storage import (
    check_folder,
    new_folder,
    read_arrays,
    read_columns,
    read_json,
    write_arrays,
    write_columns,
    write_json,
)


def save_model(
    limit: Limit, folder: Path | str, record: dict[str, Any], dense: bool = False
) -> None:
    """Write a fitted limit; `record` (summary and provenance) becomes `model.json`."""
    arrays = {"multiplier": limit.svm.multiplier}
    if limit.embeddings is not None:
        arrays["E"] = limit.embeddings.E
    if dense:
        arrays["W_svm"] = limit.dense(limit.svm.coefficient)
        arrays["W_fin"] = limit.dense(limit.finite.coefficient)
    with new_folder(folder, "model") as work:
        write_json(work / "vocabulary.json", list(limit.graph.vocabulary.labels))
        _write_samples(work / "samples.parquet", limit.samples)
        _write_graph(work, limit)
        write_arrays(work / "arrays.safetensors", arrays)
        write_json(work / "model.json", {"summary": limit.summary(), **record})


def _write_samples(path: Path, samples: Samples) -> None:
    import pyarrow as pa

    start = pa.array(samples.start)
    write_columns(
        path,
        {
            "last": samples.last,
            "label": samples.label,
            "weight": samples.weight,
            "rows": samples.rows,
            "source": samples.source,
            "tokens": pa.LargeListArray.from_arrays(start, pa.array(samples.token)),
            "counts": pa.LargeListArray.from_arrays(start, pa.array(samples.count)),
        },
    )


def _write_graph(folder: Path, limit: Limit) -> None:
    graph = limit.graph
    write_columns(
        folder / "pairs.parquet",
        {
            "last": graph.pair_last,
            "token": graph.pair_token,
            "component": graph.component,
            "level": graph.level[graph.component],
            "svm_score": limit.svm.score,
            "svm_coefficient": limit.svm.coefficient,
            "log_pi": limit.finite.log_pi,
            "finite_score": limit.finite.score,
            "finite_coefficient": limit.finite.coefficient,
        },
    )
    write_columns(
        folder / "edges.parquet",
        {"from": graph.edge_from, "to": graph.edge_to, "weight": graph.edge_weight},
    )


def read_record(folder: Path | str) -> dict[str, Any]:
    """The summary and provenance of a model."""
    return read_json(check_folder(folder, "model") / "model.json")


def open_model(folder: Path | str) -> Limit:
    """A fitted limit as it was saved."""
    folder = check_folder(folder, "model")
    summary = read_record(folder)["summary"]
    vocabulary = Vocabulary(read_json(folder / "vocabulary.json"))
    samples = _read_samples(folder / "samples.parquet", vocabulary, summary)
    names = ["last", "token", "component", "level", "svm_score", "svm_coefficient", "log_pi",
             "finite_score", "finite_coefficient"]  # fmt: skip
    pairs = read_columns(folder / "pairs.parquet", names)
    edges = read_columns(folder / "edges.parquet", ["from", "to", "weight"])
    arrays = read_arrays(folder / "arrays.safetensors")
    level = np.zeros(int(pairs["component"].max()) + 1, np.int64)
    level[pairs["component"]] = pairs["level"]
    graph = PriorityGraph(
        vocabulary, pairs["last"], pairs["token"], edges["from"], edges["to"], edges["weight"],
        pairs["component"], level,
    )  # fmt: skip
    seen = summary["certificates"]
    svm = GraphSVM(
        pairs["svm_coefficient"], pairs["svm_score"], arrays["multiplier"],
        KKT(seen["svm_primal"], seen["svm_dual"], seen["svm_gap"]),
    )  # fmt: skip
    finite = FiniteComponent(
        pairs["log_pi"], pairs["finite_coefficient"], pairs["finite_score"],
        summary["loss_floor"], seen["luce_gradient"], summary["cyclic_samples"],
    )  # fmt: skip
    embeddings = Embeddings(arrays["E"]) if "E" in arrays else None
    return Limit(samples, graph, svm, finite, embeddings)


def _read_samples(path: Path, vocabulary: Vocabulary, summary: dict[str, Any]) -> Samples:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path).combine_chunks()
        tokens, counts = (table[name].combine_chunks() for name in ("tokens", "counts"))
        flat = {
            name: table[name].to_numpy() for name in ("last", "label", "weight", "rows", "source")
        }
    except (OSError, KeyError, pa.ArrowException) as error:
        raise DataError(f"{path}: cannot be read as samples ({error}).") from error
    return Samples(
        vocabulary,
        flat["last"],
        flat["label"],
        flat["weight"],
        row_pointer(tokens.value_lengths().to_numpy()),
        tokens.flatten().to_numpy(),
        counts.flatten().to_numpy(),
        flat["rows"],
        flat["source"],
        SetAside(summary["dropped"], float(summary["dropped"])),
        summary["tokens"],
        summary["windows"],
    )
