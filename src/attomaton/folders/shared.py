"""A model opened by several processes together: each opens some of its parts, and all join what the others left.

What answers to many contexts need of a part (scores, components, who outranks whom, covariances) is written to a folder
as plain arrays. Edges and samples stay behind: they are evidence.
"""

from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from attomaton.folders.model import Columns, ModelFolder
from attomaton.mechanics.theory.evidence import Reach, Steps
from attomaton.mechanics.theory.graph import PriorityGraph
from attomaton.mechanics.theory.information import Covariances, SoftErrors
from attomaton.mechanics.theory.limit import Limit

PAIRS = ("last", "token", "component", "svm_score", "log_pi")
LEVEL = "level"
TIED = tuple(x.name for x in fields(Covariances))


def leave_part(model: ModelFolder, part: int, intervals: bool, folder: Path) -> None:
    """Open one part of a model, and leave it in a folder; with what `intervals` need, where they are asked for.

    Where there is no room for it, nothing is left.
    """
    limit = model.part(part)
    graph = limit.graph
    ids = (x.astype(np.int32) for x in (graph.pair_last, graph.pair_token, graph.component))
    arrays = dict(zip(PAIRS, (*ids, limit.svm.score, limit.finite.log_pi), strict=True))
    arrays |= {LEVEL: graph.level, **Reach(graph).steps()._asdict()}
    if intervals:
        made = model.errors(limit).errors(part).covariances()
        arrays |= vars(made) | {"V": made.V[0]}
    with suppress(OSError):
        (work := folder / f"{part}.new").mkdir()
        for name, value in arrays.items():
            np.save(work / f"{name}.npy", value)
        work.rename(folder / str(part))


def joined(
    model: ModelFolder, folder: Path, intervals: bool
) -> tuple[Limit, Reach, SoftErrors] | None:
    """The limit whose parts were left in a folder; None where one of them is not there.

    Its graph has no edges: who outranks whom is in the `Reach`.
    """
    parts = [folder / str(i) for i in range(len(model.record.parts))]
    if not all(part.is_dir() for part in parts):
        return None
    level = [_array(part, LEVEL) for part in parts]
    first = np.cumsum([0, *map(len, level)])
    pairs: Columns = {
        name: np.concatenate([_array(part, name) for part in parts], dtype=kind)
        for name, kind in zip(PAIRS, (np.int64,) * 3 + (np.float64,) * 2, strict=True)
    }
    many = [len(_array(part, PAIRS[0])) for part in parts]
    pairs["component"] += np.repeat(first[:-1], many)
    none = np.zeros(0, np.int64)
    graph = PriorityGraph(
        model.vocabulary, pairs["last"], pairs["token"], none, none, np.zeros(0), pairs["component"],
        np.concatenate(level),
    )  # fmt: skip
    limit = model.assembled(graph, pairs, model.samples(none), np.zeros(0))
    steps = [Steps(*(_array(part, name) for name in Steps._fields)) for part in parts]
    errors = model.errors(limit)
    if intervals:
        tied = ([_array(part, name) for name in TIED] for part in parts)
        own = [
            Covariances(number, theta, group, first, start, (V,))
            for number, theta, group, first, start, V in tied
        ]
        errors = replace(errors, whole=Covariances.joined(own))
    return limit, Reach.joined(graph, steps), errors


def _array(part: Path, name: str) -> np.ndarray:
    """What was left of a part under a name: looked into, not held in memory."""
    file = part / f"{name}.npy"
    return np.load(file, "r" if file.stat().st_size > 4096 else None)  # an empty one cannot be
