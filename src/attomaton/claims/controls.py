"""Predictions that must be wrong, so that agreement with the right one means something."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attomaton.claims.cases import Case
from attomaton.corpus.samples import Samples, merge_samples
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.numerics import named_rng


def shuffled_limits(cases: Sequence[Case | Limit], name: str) -> list[Limit]:
    """The limits that other labels of the same contexts would have, drawn under a name."""
    return [
        solve_limit(relabelled(c.samples, named_rng(name, i)), c.embeddings)
        for i, c in enumerate(cases)
    ]


def relabelled(samples: Samples, rng: np.random.Generator) -> Samples:
    """The same contexts, each with another of its own tokens as label (kept where there is no other)."""
    return merge_samples(replace(samples, label=_other_labels(samples, rng)))


def doubted(samples: Samples, rng: np.random.Generator) -> Samples:
    """The same contexts, half of each sample's weight moved to another of its own tokens as label."""
    twice = np.tile(np.arange(len(samples)), 2)
    both = samples.take(twice)
    label = np.concatenate([samples.label, _other_labels(samples, rng)])
    return merge_samples(replace(both, label=label, weight=both.weight / 2))


def _other_labels(samples: Samples, rng: np.random.Generator) -> np.ndarray:
    label = samples.label.copy()
    for i in range(len(samples)):
        own = samples.token[samples.start[i] : samples.start[i + 1]]
        others = own[own != samples.label[i]]
        if len(others):
            label[i] = rng.choice(others)
    return label
