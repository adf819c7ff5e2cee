"""What a component of a rival says about some windows: a distribution over the vocabulary for each.

Distributions have K + 1 entries, the last one for *any word never seen*. They are kept as what they are: some entries
on top of a base that all windows share. To be judged they are listed for a few windows at a time, on the tokens that
any of them has an entry for and the likeliest of the base; what has none of these is made dense.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
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
class Listing:
    """Some tokens of each of some rows: `row` and `token`, in ascending order."""

    row: Int[np.ndarray, " listed"]
    token: Int[np.ndarray, " listed"]
    _there: Bool[np.ndarray, " all"]
    _place: Int[np.ndarray, " all"]

    def at(self, key: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Where row · size + token is listed, −1 where it is not."""
        return np.where(self._there[key], self._place[key], -1)


def listing(
    rows: int, size: int, keys: Sequence[Int[np.ndarray, " _"]], always: Int[np.ndarray, " tokens"]
) -> Listing:
    """The tokens of these keys (row · size + token), and some tokens of all rows."""
    there = np.zeros(rows * size, dtype=bool)
    for key in keys:
        there[key] = True
    there.reshape(rows, size)[:, always] = True
    listed = np.flatnonzero(there)
    place = np.empty(rows * size, dtype=np.int32)
    place[listed] = np.arange(len(listed))
    return Listing(*np.divmod(listed, size), there, place)


class Listed(NamedTuple):
    """p of all that is listed; what is not has the row's `scale` times the base."""

    p: Float[np.ndarray, " listed"]
    scale: Float[np.ndarray, " rows"]


@runtime_checkable
class Listable(Protocol):
    """A spread that can be listed."""

    @property
    def base(self) -> Float[np.ndarray, " vocab_and_one"]:
        """What tokens without an entry share."""
        ...

    def keys(self, begin: int, end: int) -> list[Int[np.ndarray, " _"]]:
        """The entries of rows begin … end − 1 as (row − begin) · size + token, in several parts."""
        ...

    def listed(self, begin: int, end: int, there: Listing) -> Listed:
        """The distributions of rows begin … end − 1 on a listing that holds all of their keys."""
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

    def keys(self, begin: int, end: int) -> list[Int[np.ndarray, " _"]]:
        """Those of each layer."""
        size, found = len(self.base), []
        for layer in self.layers:
            row = np.repeat(np.arange(end - begin), np.diff(layer.start[begin : end + 1]))
            found.append(row * size + layer.token[layer.start[begin] : layer.start[end]])
        return found

    def listed(self, begin: int, end: int, there: Listing) -> Listed:
        """Every layer on top of the base."""
        scale = self.scale[begin:end]
        p = scale[there.row] * self.base[there.token]
        for layer, key in zip(self.layers, self.keys(begin, end), strict=True):
            value = layer.value[layer.start[begin] : layer.start[end]]
            p += np.bincount(there.at(key), value, len(p))
        return Listed(p, scale)

    def dense(self, begin: int, end: int) -> Dense:
        """The distributions of rows begin … end − 1."""
        p = np.multiply.outer(self.scale[begin:end], self.base)
        if keys := self.keys(begin, end):
            value = [x.value[x.start[begin] : x.start[end]] for x in self.layers]
            p += np.bincount(np.concatenate(keys), np.concatenate(value), p.size).reshape(p.shape)
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
