"""Sequence classes of a data set or a model, for the dynamics of scan and snap."""

from pathlib import Path

import numpy as np

from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import AS_NAMED, Reading
from attomaton.corpus.samples import Samples
from attomaton.disk.storage import is_folder
from attomaton.errors import whole_number
from attomaton.folders.model import ModelFolder
from attomaton.numerics import sum_by
from attomaton.report.graphs import readable
from attomaton.scan_snap.observed import MOST_CLASSES, MOST_TOKENS, Observed, observed_classes

LASTS = 50  # last tokens, the heaviest, whose samples are looked at


def data_classes(
    data: Path | str,
    reading: Reading = AS_NAMED,
    most_classes: int = MOST_CLASSES,
    most_tokens: int = MOST_TOKENS,
) -> Observed:
    """Labels as classes, last tokens as their queries, of the last tokens with the most samples."""
    most_classes = whole_number("classes", most_classes, least=1)
    most_tokens = whole_number("tokens", most_tokens, least=1)
    samples = _heaviest(data, reading)
    names = [*map(readable(samples.vocabulary.labels).__getitem__, samples.vocabulary.labels)]
    return observed_classes(
        samples.last, samples.label, samples.weight, samples.sample_of, samples.token, samples.count, names,
        most_classes, most_tokens,
    )  # fmt: skip


def _heaviest(data: Path | str, reading: Reading) -> Samples:
    """The samples of the heaviest last tokens; of a model nothing else is read."""
    if is_folder(data, "model"):
        model = ModelFolder(data)
        found = model.last_tokens()
        some = found["last"][np.argsort(-found["weight"], kind="stable")[:LASTS]]
        return model.limit([model.vocabulary[q] for q in np.sort(some)]).samples
    samples = read_windows(data, reading).samples()
    lasts, which = np.unique(samples.last, return_inverse=True)
    weight = sum_by(which, samples.weight, len(lasts))
    some = np.argsort(-weight, kind="stable")[:LASTS]
    return samples.take(np.flatnonzero(np.isin(which, some)))
