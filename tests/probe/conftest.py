"""A corpus with a planted graph, and a transformer made by hand that knows it."""

import numpy as np
import pytest

from attomaton.corpus.readers import read_windows
from attomaton.disk.formats import write_text
from attomaton.numerics import named_rng
from attomaton.trained.fresh import fresh_weights
from attomaton.trained.train import Schedule, train_form
from attomaton.trained.write import gpt2_form, write_gpt2

V, LASTS, LENGTH = 14, 3, 5  # the first tokens are last tokens; items follow


@pytest.fixture(scope="session")
def planted():
    """Scores of items after each last token: tiers far apart, and inside a tier Luce's odds."""
    rng = named_rng("planted", 3)
    tier = np.array([rng.permutation(np.arange(V - LASTS) // 4) for _ in range(LASTS)])
    score = np.full((LASTS, V), -40.0)
    score[:, LASTS:] = -6.0 * tier + rng.normal(size=tier.shape)
    return score


@pytest.fixture(scope="session")
def corpus(planted, tmp_path_factory):
    """Rows drawn from it: five items and a last token, the next token from the highest tier by Luce's odds."""
    rng = named_rng("planted corpus", 4)
    rows = []
    for _ in range(1500):
        items = LASTS + rng.choice(V - LASTS, LENGTH, replace=False)
        last = rng.integers(LASTS)
        score = planted[last, items]
        tier = np.floor((score + 3) / 6)
        drawn = np.where(tier == tier.max(), score + rng.gumbel(size=LENGTH), -np.inf)
        tokens = ", ".join(f'"t{x}"' for x in [*items, last])
        rows.append(f'{{"tokens": [{tokens}], "next": "t{items[drawn.argmax()]}"}}')
    path = tmp_path_factory.mktemp("corpus") / "planted.jsonl"
    write_text(path, "\n".join(rows) + "\n")
    return path


def by_hand(planted, heads):
    """Weights of one layer whose scores are the planted ones, each head holding the items it alone knows."""
    form = gpt2_form(V, V * heads, 1, heads, 16, hidden=1, tied=False)
    zero = fresh_weights(form, 0, "float32", spread=0.0)
    U = np.zeros((V, V * heads), np.float32)
    U[:, :V] = np.eye(V)
    W_Q, W_K, W_V, W_O = (np.zeros((V * heads, heads, V), np.float32) for _ in range(4))
    size = (
        np.sqrt(V) / np.sqrt(V * heads) / 1.0
    )  # a norm turns one-hot vectors of this width into longer ones
    for h in range(heads):
        own = np.zeros((V, V))
        own[:LASTS, LASTS + h :: heads] = planted[:, LASTS + h :: heads]
        own[:LASTS, :LASTS] = -40.0
        W_Q[:V, h] = own * size
        W_K[:V, h] = np.eye(V) / np.sqrt(heads * V) * np.sqrt(V) / np.sqrt(V * heads)
        W_V[:V, h] = np.eye(V)
        W_O[:V, h] = 100 * np.eye(V)
    blocks = zero.blocks._replace(
        W_Q=W_Q[None], W_K=W_K[None], W_V=W_V[None], W_O=W_O.transpose(1, 2, 0)[None]
    )
    return form, zero._replace(U=U, D=U.copy(), blocks=blocks)


@pytest.fixture(scope="session")
def models(planted, tmp_path_factory):
    """Folders by how many heads the model has."""
    root = tmp_path_factory.mktemp("by hand")
    for heads in (1, 2):
        form, weights = by_hand(planted, heads)
        write_gpt2(root / str(heads), form, weights, [f"t{i}" for i in range(V)])
    return root


@pytest.fixture(scope="session")
def checkpoints(corpus):
    """Train a model of one layer and two heads on the corpus; its folders after every fiftieth step."""

    def trained(folder, lr):
        windows = read_windows(corpus)
        names = np.array([int(str(x).removeprefix("t")) for x in windows.vocabulary.labels])
        rows = names[windows.ids].reshape(len(windows), -1)
        rows = np.concatenate([rows, names[windows.label][:, None]], axis=1)
        form = gpt2_form(V, 16, 1, 2, 16, hidden=16, tied=False)
        for course in train_form(form, rows, Schedule(steps=400, batch=32, lr=lr), marks=8):
            write_gpt2(
                folder / f"step-{course.step}", form, course.weights, [f"t{i}" for i in range(V)]
            )
        return sorted(folder.iterdir())

    return trained


@pytest.fixture(scope="session")
def learned(checkpoints, tmp_path_factory):
    """Checkpoints of a model that learns the corpus."""
    return checkpoints(tmp_path_factory.mktemp("learned"), 2e-2)
