"""Work in pieces that survives whatever happens to the process.

A piece that an earlier process finished is taken as it is; the others are done on an engine, in any order. A piece lies
on the disk whole or not at all, written by whoever does it or by `save` here, and the ledger has one line for each:
`done`, `failed`, or `found` where its process was killed before it could say so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from attomaton.base.progress import Progress, quiet
from attomaton.disk.ledger import Ledger
from attomaton.engine.tasks import Engine, Here, Task, Work

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Piece:
    """One piece: its name, what the work is given, about how much memory it takes, and how much of the whole it is."""

    name: str
    payload: Any
    bytes: int = 0
    size: int = 1


def do_pieces(
    work: Work,
    pieces: Sequence[Piece],
    load: Callable[[Piece], Answer | None],
    *,
    ledger: Path,
    engine: Engine | None = None,
    common: Sequence[Any] = (),
    save: Callable[[Piece, Answer], object] | None = None,
    failed: Callable[[Answer], bool] = lambda answer: False,
    progress: Progress = quiet,
    words: Callable[[int], str] | None = None,
) -> tuple[list[Answer], int]:
    """The answers of all pieces in their order, and how many were there already.

    `load` gives a piece that is finished, None for one that is not; `work(*common, payload)` does one on the engine,
    `ledger` is the folder whose ledger is kept. An answer that `failed` is no finished piece: it is not saved, and
    tried again by the next process. `progress` is told `words` (of how many pieces are there), or without them the
    name of the piece that comes next.
    """
    lines = Ledger(ledger)
    answers: dict[int, Answer] = {}
    for number, piece in enumerate(pieces):
        if (found := load(piece)) is not None:
            answers[number] = found
            lines.found(piece.name)
    there, total = len(answers), sum(piece.size for piece in pieces)

    def tell() -> None:
        done = sum(pieces[number].size for number in answers)
        following = next((p.name for i, p in enumerate(pieces) if i not in answers), None)
        if words is not None:
            progress(done, total, words(len(answers)))
        elif following is not None:
            progress(done, total, following)

    tell()
    tasks = [Task(i, p.payload, p.bytes) for i, p in enumerate(pieces) if i not in answers]
    for number, answer in (engine or Here()).run(work, tasks, *common):
        fine, name = not failed(answer), pieces[number].name
        if fine and save is not None:
            save(pieces[number], answer)
        lines.done(name) if fine else lines.note("failed", piece=name)
        answers[number] = answer
        tell()
    return [answers[number] for number in range(len(pieces))], there
