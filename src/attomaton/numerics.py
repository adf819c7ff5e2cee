"""Small numerical tools shared by every room: ragged indices, angles, and the float64 policy."""

from collections.abc import Iterator
from contextlib import contextmanager
from zlib import crc32

import numpy as np

from attomaton.base.lazily import jax
from attomaton.base.shapes import Float, Int

BLOCK = 1024  # numbers of which the largest is found first


def ragged_indices(
    start: Int[np.ndarray, " rows"], length: Int[np.ndarray, " rows"]
) -> Int[np.ndarray, " total"]:
    """The ranges `start[i], …, start[i] + length[i] − 1`, one after the other.

    >>> ragged_indices(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    end = np.cumsum(length)
    return np.arange(end[-1] if len(end) else 0) + np.repeat(start - end + length, length)


def row_pointer(length: Int[np.ndarray, " rows"]) -> Int[np.ndarray, " rows_and_one"]:
    """Where each ragged row begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(length)]).astype(np.int64)


def ragged_softmax(
    score: Float[np.ndarray, " total"], start: Int[np.ndarray, " rows_and_one"]
) -> Float[np.ndarray, " total"]:
    """The softmax of each ragged row of scores, none of them empty; −∞ is a share of 0.

    >>> ragged_softmax(np.array([0.0, 0.0, -np.inf, 7.0]), np.array([0, 3, 4])).tolist()
    [0.5, 0.5, 0.0, 1.0]
    """
    head, length = start[:-1], np.diff(start)
    mass = np.exp(score - np.repeat(np.maximum.reduceat(score, head), length))
    return mass / np.repeat(np.add.reduceat(mass, head), length)


def rising(x: Int[np.ndarray, " n"]) -> bool:
    """Whether each number is larger than the one before.

    >>> rising(np.array([1, 2, 5])), rising(np.array([1, 1]))
    (True, False)
    """
    return bool((x[1:] > x[:-1]).all())


def sorted_unique(key: Int[np.ndarray, " n"]) -> Int[np.ndarray, " distinct"]:
    """The distinct values, ascending. NumPy's own `unique` goes through a hash table, far slower on long keys."""
    key = np.sort(key)
    return key[np.flatnonzero(np.diff(key, prepend=key[:1] - 1))]


def _sorted_with_places(
    key: Int[np.ndarray, " n"],
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]] | None:
    """The keys ascending, and where each of them stood, equal ones in their order; None where there is no room.

    Places go along in the last bits: sorting numbers is many times faster than finding their order.
    """
    bits = len(key).bit_length()
    if not len(key) or key.min() < 0 or int(key.max()).bit_length() + bits > 62:
        return None
    packed = np.sort(key.astype(np.int64, copy=False) << bits | np.arange(len(key)))
    return packed >> bits, packed & ((1 << bits) - 1)


def stable_order(key: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The order that sorts the keys, equal ones as they stood.

    >>> stable_order(np.array([7, 3, 7])).tolist()
    [1, 0, 2]
    """
    found = _sorted_with_places(key)
    return np.argsort(key, kind="stable") if found is None else found[1]


def unique_inverse(
    key: Int[np.ndarray, " n"],
) -> tuple[Int[np.ndarray, " distinct"], Int[np.ndarray, " n"]]:
    """The distinct values, ascending, and the place of each key among them.

    >>> [x.tolist() for x in unique_inverse(np.array([7, 3, 7]))]
    [[3, 7], [1, 0, 1]]
    """
    found = _sorted_with_places(key)
    if found is None:
        return np.unique(key, return_inverse=True)
    packed, place = found
    new = np.ones(len(key), bool)
    new[1:] = packed[1:] != packed[:-1]
    which = np.empty(len(key), np.int64)
    which[place] = np.cumsum(new) - 1
    return packed[new], which


def order_by(*keys: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The order of rows by whole numbers, the first key before the others; equal rows stay in their order.

    Keys and place are packed into one number where there is room, as in `unique_inverse`.

    >>> order_by(np.array([1, 0, 1]), np.array([5, 7, 4])).tolist()
    [1, 2, 0]
    """
    width = [int(key.max(initial=0)).bit_length() for key in keys]
    if sum(width) > 62 or any(key.min(initial=0) < 0 for key in keys):
        return np.lexsort(keys[::-1])
    packed = np.zeros(len(keys[0]), np.int64)
    for key, wide in zip(keys, width, strict=True):
        packed = packed << wide | key
    return stable_order(packed)


def heaviest(
    weight: Float[np.ndarray, " n"] | Int[np.ndarray, " n"], top: int
) -> Int[np.ndarray, " most"]:
    """The places of the `top` largest numbers, largest first, the earlier one among equals.

    >>> heaviest(np.array([1, 3, 2, 3]), 3).tolist()
    [1, 3, 2]
    """
    # The `top` largest of the blocks' maxima are as many numbers as wanted: nothing below them is needed.
    block = np.maximum.reduceat(weight, np.arange(0, len(weight), BLOCK)) if len(weight) else weight
    least = np.sort(block)[-top] if 0 < top <= len(block) else -np.inf
    there = np.flatnonzero(weight >= least)
    return there[np.argsort(-weight[there], kind="stable")][:top]


def scramble(x: np.ndarray) -> np.ndarray:
    """64-bit integers mixed so well that sums of them tell sets apart: the heart of every fingerprint here."""
    x = x.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ x >> np.uint64(shift)) * np.uint64(factor)
    return x ^ x >> np.uint64(31)


def sum_by(
    index: Int[np.ndarray, " n"], value: Float[np.ndarray, " n"], size: int
) -> Float[np.ndarray, " size"]:
    """Sums of `value` by index 0 … size − 1; unlike a bare `bincount`, of floats even when empty."""
    return np.bincount(index, value, size).astype(np.float64, copy=False)


def unit_scale(value: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The power of two that brings each positive number into [½, 1): multiplying by it loses no digit.

    >>> unit_scale(np.array([1e300, 3.0])) * [1e300, 3.0] < 1
    array([ True,  True])
    """
    return np.ldexp(1.0, -np.frexp(value)[1])


def cosine(a: Float[np.ndarray, "*shape"], b: Float[np.ndarray, "*shape"]) -> float:
    """The cosine of the angle between two arrays of one shape; 0 where one of them is 0."""
    scale = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.vdot(a, b)) / scale if scale > 0 else 0.0


def named_rng(name: str, seed: int) -> "np.random.Generator":
    """Randomness by name: the stream depends on what it is for and on the seed, never on call order."""
    return np.random.default_rng([crc32(name.encode()), seed])


@contextmanager
def float64() -> Iterator[None]:
    """JAX in double precision, inside this block only: importing attomaton changes no global setting."""
    with jax.enable_x64(True):
        yield


def inner(a: np.ndarray, b: np.ndarray) -> float:
    """The inner product of two vectors, the same to the last bit however many threads there are.

    A BLAS library cuts long vectors into as many pieces as it has threads, and sums of floats depend on the cut.

    >>> inner(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    11.0
    """
    return float((a * b).sum())


def shortened(rows: Float[np.ndarray, "n rank"]) -> Float[np.ndarray, "n n"]:
    """Rows of another width, as many as there are of them, with the same inner products.

    >>> shortened(np.array([[3.0, 0, 4]])).round(9).tolist()
    [[-5.0]]
    """
    return np.asarray(np.linalg.qr(rows.T, mode="r")).T
