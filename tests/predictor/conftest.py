"""Small corpora: a random text in which words cling to their predecessors and come back."""

import numpy as np
import pytest

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import windows_from_streams


def draw_text(seed, tokens, K):
    rng = np.random.default_rng(seed)
    follow = np.random.default_rng(99).dirichlet(
        np.full(K, 0.3), size=K
    )  # the same language for every seed
    text = [int(rng.integers(K))]
    while len(text) < tokens:
        again = rng.random() < 0.3
        text.append(int(rng.choice(text[-6:]) if again else rng.choice(K, p=follow[text[-1]])))
    return np.array(text)


def windows_of(text, K, context):
    ids = np.asarray(text, dtype=np.int64)
    return windows_from_streams(
        Vocabulary([f"w{i}" for i in range(K)]),
        ids,
        np.array([0, len(ids)]),
        context,
        partial=False,
    )


@pytest.fixture(scope="session")
def text():
    """Windows of a random text: `text(seed, tokens, K, context)`."""
    return lambda seed=0, tokens=400, K=8, context=6: windows_of(
        draw_text(seed, tokens, K), K, context
    )


@pytest.fixture(scope="session")
def written():
    """Windows of a given text: `written(ids, K, context)`."""
    return windows_of
