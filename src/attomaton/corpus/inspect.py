"""A data set in numbers, before anything is computed from it."""

from dataclasses import dataclass

import numpy as np

from attomaton.corpus.samples import SetAside
from attomaton.corpus.vocabulary import Label
from attomaton.corpus.windows import Windows


@dataclass(frozen=True)
class TokenCount:
    """How often a token is in contexts, the last of one, and the label."""

    token: Label
    occurrences: int
    as_last: int
    as_label: int


@dataclass(frozen=True)
class Inspection:
    """What `attomaton data inspect` counts."""

    samples: int
    distinct_samples: int
    total_weight: float
    vocab: int
    last_tokens: int
    shortest: int
    longest: int
    documents: int
    too_short: int
    windows: int
    set_aside: SetAside
    tokens: tuple[TokenCount, ...]


def inspect_windows(windows: Windows, most: int = 20) -> Inspection:
    """Counts of documents, samples and tokens, context lengths, and the `most` frequent tokens."""
    samples = windows.samples()
    K = len(samples.vocabulary)
    each = samples.count * samples.rows[samples.sample_of]
    in_roles = ((samples.token, each), (samples.last, samples.rows), (samples.label, samples.rows))
    counts = np.stack([np.bincount(token, rows, K) for token, rows in in_roles], axis=1).astype(int)
    length = np.add.reduceat(samples.count, samples.start[:-1])
    order = np.argsort(-counts[:, 0], kind="stable")[:most]
    return Inspection(
        samples=int(samples.rows.sum()),
        distinct_samples=len(samples),
        total_weight=samples.total_weight,
        vocab=K,
        last_tokens=len(np.unique(samples.last)),
        shortest=int(length.min()),
        longest=int(length.max()),
        documents=windows.documents,
        too_short=windows.too_short,
        windows=samples.windows,
        set_aside=samples.set_aside,
        tokens=tuple(TokenCount(samples.vocabulary[t], *counts[t].tolist()) for t in order),
    )


def length_counts(windows: Windows, bins: int) -> list[tuple[int, int, int, int]]:
    """From, to, contexts that hold their label, contexts set aside: of each length, or of `bins` ranges of lengths."""
    length, kept = windows.length, windows.realizable
    low, high = int(length.min()), int(length.max())
    width = -(-(high - low + 1) // bins)
    at, n = (length - low) // width, (high - low) // width + 1
    inside, aside = (np.bincount(at[x], minlength=n).tolist() for x in (kept, ~kept))
    return [
        (low + i * width, min(low + (i + 1) * width - 1, high), inside[i], aside[i])
        for i in range(n)
    ]


def next_steps(
    windows: Windows, last: int | None = None, most: int = 50
) -> list[tuple[Label, Label, int, float]]:
    """The commonest steps from a last token (any, or this one) to the next among the samples: both, rows, weight."""
    K, words = len(windows.vocabulary), windows.vocabulary
    kept = windows.realizable if last is None else windows.realizable & (windows.last == last)
    at = np.flatnonzero(kept)
    pair = windows.last[at].astype(np.int64) * K + windows.label[at]
    key, step = np.unique(pair, return_inverse=True)
    rows = np.bincount(step, minlength=len(key))
    weight = np.bincount(step, windows.weight[at], len(key))
    order = np.argsort(-rows, kind="stable")[:most]
    return [(words[key[i] // K], words[key[i] % K], int(rows[i]), float(weight[i])) for i in order]
