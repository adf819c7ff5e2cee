"""What a component of a rival says about some windows: a distribution over the vocabulary for each.

Distributions have K + 1 entries, the last one for *any word never seen*. They are made dense for a few windows at a
time; in between they are kept as what they are: some entries on top of a base that all windows share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from attomaton.corpus.windows import Windows
from attomaton.numerics import row_pointer

Dense = Float[np.ndarray, "rows vocab_and_one"]


@runtime_checkable
class Spread(Protocol):
    """The distributions of one component on some windows; `bucket` says in what state it was on each of them."""

    @property
    def bucket(self) -> Int[np.ndarray, " rows"]:
        """What is known of how far to trust it, as a number below the component's `buckets`."""
        ...

    def dense(self, begin: int, end: int) -> Dense:
        """The distributions of rows begin … end − 1."""
        ...


@runtime_checkable
class Component(Protocol):
    """One way to predict: fitted on training windows, asked about others with the same ids."""

    @property
    def buckets(self) -> int:
        """How many states it tells apart."""
        ...

    def on(self, windows: Windows, rows: Int[np.ndarray, " rows"]) -> Spread:
        """What it says about these windows."""
        ...


@dataclass(frozen=True, eq=False)
class Layer:
    """Entries of some windows: those of row i are `token[start[i] : start[i + 1]]` and their values."""

    start: Int[np.ndarray, " rows_and_one"]
    token: Int[np.ndarray, " entries"]
    value: Float[np.ndarray, " entries"]


@dataclass(frozen=True, eq=False)
class Sparse:
    """scale · base, and the entries of all layers on top."""

    base: Float[np.ndarray, " vocab_and_one"]
    scale: Float[np.ndarray, " rows"]
    layers: Sequence[Layer]
    bucket: Int[np.ndarray, " rows"]

    def dense(self, begin: int, end: int) -> Dense:
        """The distributions of rows begin … end − 1."""
        size, rows = len(self.base), end - begin
        keys, values = [], []
        for layer in self.layers:
            at = slice(layer.start[begin], layer.start[end])
            row = np.repeat(np.arange(rows), np.diff(layer.start[begin : end + 1]))
            keys.append(row * size + layer.token[at])
            values.append(layer.value[at])
        p = np.multiply.outer(self.scale[begin:end], self.base)
        if keys:
            p += np.bincount(np.concatenate(keys), np.concatenate(values), rows * size).reshape(
                p.shape
            )
        return p


def layer_of(
    owner: Int[np.ndarray, " entries"],
    token: Int[np.ndarray, " entries"],
    value: Float[np.ndarray, " entries"],
    rows: int,
) -> Layer:
    """Entries in ascending order of their rows as a layer."""
    return Layer(row_pointer(np.bincount(owner, minlength=rows)), token, value)


@dataclass(frozen=True, eq=False)
class Base:
    """The same distribution whatever the context."""

    base: Float[np.ndarray, " vocab_and_one"]
    buckets: int = 1

    def on(self, windows: Windows, rows: Int[np.ndarray, " rows"]) -> Sparse:
        """The base, for each row."""
        return Sparse(self.base, np.ones(len(rows)), (), np.zeros(len(rows), dtype=np.int64))
