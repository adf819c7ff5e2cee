"""Probe a model over its checkpoints: fixed text, fixed questions, each set of weights measured once."""

import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from attomaton.base.progress import Progress, quiet
from attomaton.corpus.reading import Reading
from attomaton.errors import DataError, UsageError
from attomaton.jobs.probe import Asked, examined, prepared
from attomaton.probe.behaviour import KINDS
from attomaton.probe.snapping import Mark, Snap, courses
from attomaton.probe.statistics import share
from attomaton.trained.folder import read_trained, weight_files
from attomaton.trained.forward import Network


def snap_models(
    checkpoints: Sequence[Path | str],
    corpus: Path | str,
    reading: Reading | None = None,
    asked: Asked | None = None,
    progress: Progress = quiet,
) -> Snap:
    """Every checkpoint's orders and heads, in the order of their steps; equal weights are found by hash first."""
    asked = asked or Asked()
    if len(checkpoints) < 2:
        raise UsageError("name at least two checkpoints: folders whose names end with their steps.")
    steps = in_steps([Path(x) for x in checkpoints])
    marks = [digest(folder) for _, folder in steps]
    first = read_trained(steps[0][1], asked.precision)
    form = first.form
    exam = prepared(steps[0][1], first, corpus, reading or Reading(), asked)
    if not exam.contexts:
        raise DataError(
            f"{corpus}: no context of full length to look at the heads on; use shorter contexts."
        )
    found: list[Mark] = []
    for i, ((step, folder), mark) in enumerate(zip(steps, marks, strict=True)):
        progress(i, len(steps), f"step {step}")
        same = marks.index(mark)
        if same < i:
            found.append(
                replace(found[same], name=folder.name, step=step, same_as=found[same].name)
            )
            continue
        model = first if i == 0 else read_trained(folder, asked.precision)
        if model.form != form:
            raise DataError(
                f"{folder}: another form than {steps[0][1]}; checkpoints of one model are needed."
            )
        heads, odds = examined(Network(model), exam, ("strict",))
        agreed = {
            x.kind: share(own["strict"] > 0, x.strict.orders.last)
            for x, own in zip(exam.questions, odds, strict=True)
        }
        tables = [
            tuple(
                tuple(getattr(x, name).value for x in heads if x.layer == layer)
                for layer in range(form.layers)
            )
            for name in ("entropy", "largest")
        ]
        real, outranked, minimal = (agreed[kind] for kind in KINDS)
        found.append(
            Mark(folder.name, step, mark, None, real, outranked, minimal, tables[0], tables[1])
        )
    progress(len(steps), len(steps), "done")
    again = sum(x.same_as is not None for x in found)
    return Snap(
        str(corpus), form.family, form.layers, form.heads, len(exam.contexts), exam.length,
        len(exam.questions[0].strict.orders), tuple(found), courses(tuple(found)), again,
    )  # fmt: skip


def in_steps(folders: Sequence[Path]) -> list[tuple[int, Path]]:
    """Checkpoints by their steps: the last number in each name; where one has none, as they were given.

    >>> [step for step, _ in in_steps([Path("run/step-20"), Path("run/step-3")])]
    [3, 20]
    """
    numbers = [re.findall(r"\d+", x.name) for x in folders]
    if all(numbers) and len({int(n[-1]) for n in numbers}) == len(folders):
        return sorted((int(n[-1]), x) for n, x in zip(numbers, folders, strict=True))
    return list(enumerate(folders))


def digest(folder: Path) -> str:
    """The hash of all weights of a checkpoint, whatever its files are called."""
    hashes = "".join(entry.sha256 for entry in weight_files(folder))
    return sha256(hashes.encode()).hexdigest()
