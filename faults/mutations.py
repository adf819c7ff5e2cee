"""A valid file made wrong: torn and flipped bytes, or changes that know the format they break (`faults.formats`).

Everything is drawn from the generator that is handed in, so the same generator makes the same damage again.
"""

import struct
from collections.abc import Sequence
from pathlib import PurePath
from random import Random

from faults.formats import NUMBERS, STRUCTURED


def mutated(rng: Random, name: str, content: bytes, others: Sequence[bytes]) -> bytes | None:
    """The content of the file called `name`, broken; None where the file is to be missing.

    `others` are valid files of the same kind, to be spliced with this one.
    """
    if rng.random() < 0.02:
        return rng.choice((None, b"", content[:1]))
    knows = STRUCTURED.get(PurePath(name).suffix)
    if knows is not None and rng.random() < 0.6:
        return knows(rng, content)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        content = rng.choice(BYTES)(rng, content, others)
    return content


# Bytes


def _flip(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    out = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8)) if out else 0):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def _other_byte(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    out = bytearray(content)
    if out:
        out[rng.randrange(len(out))] = rng.choice(
            (0, 255, 10, 13, 34, 44, 91, 123, rng.randrange(256))
        )
    return bytes(out)


def _truncate(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _drop_front(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    return content[rng.randrange(len(content) + 1) :]


def _insert(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(content) + 1)
    new = rng.choice(
        (
            rng.randbytes(rng.randrange(1, 9)),
            b"\n",
            b'"',
            b"[" * 2000,
            b"9" * 5000,
            "\u2028".encode(),
        )
    )
    return content[:at] + new + content[at:]


def _remove(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    at, size = rng.randrange(len(content) + 1), rng.choice((1, 2, 8, 64))
    return content[:at] + content[at + size :]


def _repeat(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    low, high = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:high] + content[low:high] * rng.choice((1, 1, 3)) + content[high:]


def _splice(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others) if others else content
    return content[: rng.randrange(len(content) + 1)] + other[rng.randrange(len(other) + 1) :]


def _number(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """A binary number that breaks sums, over whatever was there."""
    kind = rng.choice(("<b", "<h", "<i", "<q", "<d"))
    size = struct.calcsize(kind)
    if len(content) < size:
        return content
    bits = 8 * size
    value = float(rng.choice(NUMBERS)) if kind == "<d" else rng.choice(NUMBERS)
    if kind != "<d":
        value = (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    elif rng.random() < 0.3:
        value = rng.choice((float("nan"), float("inf"), 5e-324, 1e308))
    at = rng.randrange(len(content) - size + 1)
    return content[:at] + struct.pack(kind, value) + content[at + size :]


def _digits(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """One run of digits replaced by another number."""
    places = [i for i, b in enumerate(content[:4000]) if 48 <= b <= 57]
    if not places:
        return _flip(rng, content, others)
    low = high = rng.choice(places)
    while high < len(content) and 48 <= content[high] <= 57:
        high += 1
    new = rng.choice((*map(str, NUMBERS), "1e999", "nan", "0.5", "9" * 5000, "1_0", "007"))
    return content[:low] + new.encode() + content[high:]


BYTES = (
    _flip,
    _other_byte,
    _truncate,
    _drop_front,
    _insert,
    _remove,
    _repeat,
    _splice,
    _number,
    _digits,
)
