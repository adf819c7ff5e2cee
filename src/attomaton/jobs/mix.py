"""Two corpora mixed, each a fitted model or a data file: what becomes of the orders of each."""

from pathlib import Path

from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import AS_NAMED, Reading
from attomaton.corpus.samples import Samples
from attomaton.disk.storage import is_folder
from attomaton.errors import UsageError
from attomaton.folders.model import ModelFolder
from attomaton.mechanics.theory.mixture import Mixed, mixed


def mixed_corpora(
    a: Path | str, b: Path | str, *, reading: Reading = AS_NAMED, top: int = 10
) -> Mixed:
    """Mix two corpora; a file is read as the model beside it was, where `reading` says nothing else."""
    folders = [ModelFolder(Path(x)) if is_folder(x, "model") else None for x in (a, b)]
    if all(folders) and reading.given:
        raise UsageError(f"{', '.join(reading.words)}: both are models, which are read already.")
    known = next((x.record.reading for x in folders if x is not None), AS_NAMED)
    x, y = (
        read_windows(place, reading.over(known)).samples() if model is None else _samples(model)
        for place, model in zip((a, b), folders, strict=True)
    )
    return mixed(x, y, (str(a), str(b)), top)


def _samples(model: ModelFolder) -> Samples:
    limit = model.limit()
    if limit.dependent:
        raise UsageError(
            f"{model.folder}: its embeddings tie tokens that no samples tie; mix the data themselves, or a model "
            "without embeddings."
        )
    return limit.samples
