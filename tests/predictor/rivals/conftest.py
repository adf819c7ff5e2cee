"""Sequences in which items cling to their predecessors and come back, cut into training, validation and test."""

import numpy as np
import pytest

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import windows_from_streams

K = 7


def draw(seed, sequences, context=6, new=0):
    """Windows of some sequences of 2 to 15 items; ids from K on are of words that training never saw."""
    rng = np.random.default_rng(seed)
    follow = np.random.default_rng(7).dirichlet(np.full(K, 0.3), size=K)
    ids, length = [], rng.integers(2, 16, sequences)
    for n in length:
        row = [int(rng.integers(K))]
        while len(row) < n:
            again = rng.random() < 0.4
            row.append(int(rng.choice(row) if again else rng.choice(K, p=follow[row[-1]])))
        ids += row
    ids = np.array(ids)
    if new:
        ids[rng.random(len(ids)) < 0.15] = K + rng.integers(new)
    words = Vocabulary([f"i{i}" for i in range(K + new)])
    start = np.concatenate([[0], np.cumsum(length)])
    return windows_from_streams(words, ids, start, context, partial=True)


@pytest.fixture(scope="session")
def corpora():
    """Training, validation and test windows; the last two hold words never seen."""
    return draw(0, 60), draw(1, 40, new=1), draw(2, 12, new=2)


@pytest.fixture(scope="session")
def drawn():
    """More windows of this kind: `drawn(seed, sequences)`."""
    return draw


@pytest.fixture(scope="session")
def contexts():
    """The contexts and labels of windows as lists: `contexts(windows)`."""

    def of(windows):
        return [
            (windows.ids[a : a + n].tolist(), int(x))
            for a, n, x in zip(windows.left, windows.length, windows.label, strict=True)
        ]

    return of
