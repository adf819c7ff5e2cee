"""The corpus behind a model, as windows in their order: read once for all pages of a lab."""

from pathlib import Path

from attomaton.corpus.datasets import EXAMPLE, data_file
from attomaton.corpus.readers import read_windows
from attomaton.corpus.windows import Windows
from attomaton.errors import UsageError
from attomaton.lab.kit.cache import Cache, Shared
from attomaton.lab.opened import Opened

KEPT = 2  # corpora that stay in memory

CORPORA = Shared[Cache[Path, Windows]](lambda: Cache(KEPT))


def corpus_path(model: Opened) -> Path:
    """The file a model was fitted on, as its own record names it; an error says why there is none."""
    given = model.record.data
    if not given:
        raise UsageError("this model does not say which file it was fitted on.")
    path = data_file(given) if given == EXAMPLE else Path(given)
    if not path.is_file():
        raise UsageError(f"{path.name}: the file this model was fitted on is not there.")
    return path


def read_corpus(model: Opened) -> Windows:
    """The windows a model was fitted on, its own ids; an error where the file is another one by now."""
    path = corpus_path(model)
    windows = read_windows(path, model.record.reading, model.vocabulary)
    if len(windows) != model.record.summary.windows:
        raise UsageError(
            f"{path.name} holds {len(windows):,} contexts, but the model was fitted on "
            f"{model.record.summary.windows:,}: the file is another one by now."
        )
    return windows
