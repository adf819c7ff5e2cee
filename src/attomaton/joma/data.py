r"""Contexts of classes as shares of tokens, $x_n = P(\cdot|n)$: those of the paper's Figure 2, drawn by seed."""

from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Float
from attomaton.errors import DataError, whole_number

WIDTH = 30.0  # squared width of the bump that wanders over the distinct tokens, twice its variance


@dataclass(frozen=True, eq=False)
class Contexts:
    """One row for each class: which share of its (endlessly long) context each token has."""

    share: Float[np.ndarray, "classes tokens"]

    def __post_init__(self) -> None:
        """Refuse what is no table of shares."""
        x = self.share
        if x.ndim != 2 or not x.size or not np.isfinite(x).all() or x.min() < 0:
            raise DataError(
                "contexts: a table of shares, classes by tokens, none negative, is needed."
            )
        if np.abs(x.sum(axis=1) - 1).max() > 1e-9:
            raise DataError("contexts: the shares of a class must add up to 1.")

    @property
    def mean(self) -> Float[np.ndarray, " tokens"]:
        """x̄, the mean over classes."""
        return self.share.mean(axis=0)


def drawn_contexts(
    seed: int = 0, classes: int = 20, distinct: int = 10, common: int = 10
) -> Contexts:
    """Shares as in Figure 2: a bump that wanders over the distinct tokens with the class, common ones by chance.

    >>> drawn_contexts(0, classes=3, distinct=2, common=1).share.round(2)
    array([[0.44, 0.42, 0.14],
           [0.47, 0.47, 0.06],
           [0.48, 0.51, 0.01]])
    """
    for name, value in (("classes", classes), ("distinct", distinct), ("common", common)):
        whole_number(name, value, least=1)
    rng = np.random.default_rng(whole_number("seed", seed, least=0))
    middle = np.arange(classes)[:, None] * distinct / classes
    bump = np.exp(-np.square(np.arange(distinct) - middle) / WIDTH)
    share = np.hstack([bump, rng.uniform(0, 0.5, (classes, common))])
    return Contexts(share / share.sum(axis=1, keepdims=True))
