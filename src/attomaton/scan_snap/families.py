r"""Families of sequence classes: the published ones, those the theorems speak of, and one's own from a file.

Also what the theorems ask of classes: how much the attention vectors of different classes correlate.
"""

import json
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.disk.doors import data_stream
from attomaton.errors import AssumptionError, DataError, UsageError, counted, listed, nearest
from attomaton.scan_snap.data import SUM, SequenceClasses, sequence_classes
from attomaton.scan_snap.trajectory import class_attention

KEYS = ("query", "next", "tokens")
MOST_BYTES = 1 << 24  # of a file of classes


def syn_small() -> SequenceClasses:
    """*Syn-Small*: two classes, each with its own query; 10 common and 10 distinct tokens each.

    Common tokens weigh 1, a class's distinct tokens 0.1, 0.2, …, 1.

    >>> syn_small().M, syn_small().query_of.tolist(), syn_small().next_of.tolist()
    (34, [30, 31], [32, 33])
    """
    return _assembled(np.ones((2, 10)), _ladder(2, 10), np.arange(2))


def syn_medium(queries: int) -> SequenceClasses:
    """*Syn-Medium*: two classes for each query, with tokens weighted as in *Syn-Small*.

    >>> [syn_medium(q).M for q in (1, 3, 5, 10)]
    [33, 79, 125, 240]
    """
    _whole("queries", queries)
    K = 2 * queries
    return _assembled(np.ones((K, 10)), _ladder(K, 10), np.repeat(np.arange(queries), 2))


def symmetric(
    classes: int = 3,
    distinct: int = 5,
    common: int = 3,
    common_weight: float = 0.3,
    queries: int = 1,
) -> SequenceClasses:
    """Classes equal up to the names of their distinct tokens.

    `common_weight` is the share of probability on the common tokens together, evenly spread; distinct tokens
    are weighted 0.1 … 1. With one query this is the case in which every common token must lose attention.
    """
    for name, value in (("classes", classes), ("distinct", distinct), ("common", common)):
        _whole(name, value)
    _dealt(classes, queries)
    _share("common_weight", common_weight)
    ladder = _ladder(classes, distinct)
    ladder *= (1 - common_weight) / ladder.sum(axis=1, keepdims=True)
    shared = np.full((classes, common), common_weight / common)
    return _assembled(shared, ladder, np.arange(classes) * queries // classes)


def single_common(
    classes: int = 3, distinct: int = 5, weight: float | Sequence[float] = 0.3
) -> SequenceClasses:
    """One query and one common token, of probability `weight` (one number, or one for each class)."""
    for name, value in (("classes", classes), ("distinct", distinct)):
        _whole(name, value)
    given = np.asarray(weight, float)
    if given.shape not in ((), (classes,)):
        raise UsageError(f"weight: one number or {classes} are needed, not {given.shape}.")
    share = np.broadcast_to(given, (classes,))
    for one in share:
        _share("weight", float(one))
    ladder = _ladder(classes, distinct)
    ladder *= (1 - share)[:, None] / ladder.sum(axis=1, keepdims=True)
    return _assembled(share[:, None], ladder, np.zeros(classes, int))


def random_overlap(
    rng: np.random.Generator, classes: int, tokens: int, overlap: float, queries: int = 1
) -> SequenceClasses:
    """Random laws with exactly the share `overlap` of every class's probability on common tokens.

    Each class has `tokens` distinct ones; as many common ones belong to all classes, with other weights in
    each. Weights within a share are uniform on the simplex.
    """
    _whole("tokens", tokens)
    _dealt(classes, queries)
    if not 0 <= overlap < 1:
        raise UsageError(f"overlap={overlap}: a share from 0 to below 1 is needed.")
    shared = overlap * rng.dirichlet(np.ones(tokens), classes)
    own = (1 - overlap) * rng.dirichlet(np.ones(tokens), classes)
    return _assembled(shared, own, np.arange(classes) * queries // classes)


FAMILIES: dict[str, Callable[[], SequenceClasses]] = {
    "syn-small": syn_small,
    **{f"syn-medium-{q}": partial(syn_medium, q) for q in (1, 3, 5, 10)},
    "symmetric": symmetric,
    "single-common": single_common,
    "weak-overlap": partial(symmetric, 2, 6, 6, 0.45),
}


def family(name: str) -> SequenceClasses:
    """The classes a name in `FAMILIES` stands for."""
    if name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise UsageError(
            f'"{name}" is no family{nearest(name, FAMILIES)} Choose from {known}, or name a .toml file.'
        )
    return FAMILIES[name]()


def _ladder(classes: int, distinct: int) -> Float[np.ndarray, "classes distinct"]:
    """The published weights of distinct tokens: 0.1 … 1, the same in every class."""
    return np.tile(np.linspace(0.1, 1, distinct), (classes, 1))


def _assembled(
    common: Float[np.ndarray, "classes common"],
    distinct: Float[np.ndarray, "classes distinct"],
    query: Int[np.ndarray, " classes"],
) -> SequenceClasses:
    """Classes from weights: a vocabulary of common tokens, distinct tokens, queries and next tokens, in this order."""
    (K, C), D, Q = common.shape, distinct.shape[1], int(query.max()) + 1
    L = C + K * D
    weight = np.zeros((K, L + Q + K))
    weight[:, :C] = common
    for n in range(K):
        weight[n, C + n * D : C + (n + 1) * D] = distinct[n]
    names = (
        *(f"common {l}" for l in range(C)),
        *(f"distinct {n}.{l}" for n in range(K) for l in range(D)),
        *(f"query {m}" for m in range(Q)),
        *(f"next {n}" for n in range(K)),
    )
    P = weight / weight.sum(axis=1, keepdims=True)
    return sequence_classes(P, L + query, L + Q + np.arange(K), names)


def _whole(name: str, value: int) -> None:
    if value < 1:
        raise UsageError(f"{name}={value}: at least 1 is needed.")


def _share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise UsageError(f"{name}={value}: a share between 0 and 1 is needed.")


def _dealt(classes: int, queries: int) -> None:
    _whole("classes", classes)
    if not 1 <= queries <= classes:
        raise UsageError(f"queries={queries}: between 1 and the {classes} classes are needed.")


# Classes from a file


# What such a file looks like; docs/scan_snap.md shows the same.
EXAMPLE = """\
normalise = true

[[class]]
query = "q"
next = "a"
tokens = {the = 2, cat = 1}

[[class]]
query = "q"
next = "b"
tokens = {the = 1, fox = 3}
"""


def read_classes(path: str | Path) -> SequenceClasses:
    """Classes from a TOML file such as `EXAMPLE`; every fault is listed at once.

    Weights must add up to 1 in each class, unless the file begins with `normalise = true`.
    """
    try:
        with data_stream(Path(path)) as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise DataError(f"more than {MOST_BYTES >> 20} MB, which no file of classes has.")
        table = tomllib.loads(content.decode("utf-8"))
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:  # not TOML, not text, endless numbers or nesting
        raise DataError(
            f"{path}: not TOML: {error}. A file of classes reads:\n{EXAMPLE}"
        ) from error
    entries = table.get("class", [])
    normalise = table.get("normalise", False)
    faults = _unknown("the file", table, ("class", "normalise"))
    if not isinstance(normalise, bool):
        faults.append(f"normalise = {normalise!r}: true or false is needed")
    if not isinstance(entries, list) or not entries:
        faults.append("no classes: at least one [[class]] table is needed")
        entries = []
    rows = []
    for n, entry in enumerate(entries):
        found = _entry_faults(f"class {n}", entry, normalise is True)
        faults += found
        if not found:
            rows.append(_Class(**entry))
    faults += _clashes(rows)
    if faults:
        heading = f"{path}: {counted(len(faults), 'fault')}:"
        raise DataError(listed(heading, faults, f"A file of classes reads:\n{EXAMPLE}"))
    return _from_rows(rows)


def classes_text(classes: SequenceClasses) -> str:
    """Classes as a file that `read_classes` reads.

    >>> print(classes_text(sequence_classes([[0.25, 0.75, 0]], [2], [0], ("a", "b", "q"))), end="")
    normalise = true
    <BLANKLINE>
    [[class]]
    query = "q"
    next = "a"
    tokens = {"a" = 0.25, "b" = 0.75}
    """
    word = [
        json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f") for name in classes.names
    ]
    parts = ["normalise = true\n"]
    for law, query, following in zip(classes.P, classes.query_of, classes.next_of, strict=True):
        tokens = ", ".join(f"{word[l]} = {float(law[l])!r}" for l in np.flatnonzero(law).tolist())
        parts.append(
            f"[[class]]\nquery = {word[query]}\nnext = {word[following]}\ntokens = {{{tokens}}}\n"
        )
    return "\n".join(parts)


@dataclass(frozen=True)
class _Class:
    """One [[class]] table that has no faults."""

    query: str
    next: str
    tokens: dict[str, int | float]


def _entry_faults(where: str, entry: Any, normalise: bool) -> list[str]:
    """What is wrong with one [[class]] table, taken by itself."""
    if not isinstance(entry, dict):
        return [f"{where}: not a table"]
    faults = _unknown(where, entry, KEYS)
    faults += [f"{where}: {key} is missing" for key in KEYS if key not in entry]
    for key in ("query", "next"):
        if key in entry and not (isinstance(entry[key], str) and entry[key]):
            faults.append(f"{where}: {key} = {entry[key]!r}: a word is needed")
    tokens = entry.get("tokens", {"": 1})
    if not isinstance(tokens, dict) or not tokens:
        return [*faults, f"{where}: tokens = {tokens!r}: a table of words and weights is needed"]
    wrong = [
        f"{where}: weight {w!r} of {word!r}: a finite number ≥ 0 is needed"
        for word, w in tokens.items()
        if isinstance(w, bool) or not isinstance(w, int | float) or not 0 <= w <= 1e100
    ]
    total = 0.0 if wrong else float(sum(tokens.values()))
    if not wrong and not total:
        wrong = [f"{where}: all weights are 0"]
    elif not wrong and not normalise and abs(total - 1) > SUM:
        wrong = [f"{where}: weights add up to {total:.12g}, not 1 (or say normalise = true)"]
    return faults + wrong


def _clashes(rows: Sequence[_Class]) -> list[str]:
    """What is wrong between classes: queries among context tokens, next tokens used twice."""
    context = {word for row in rows for word, w in row.tokens.items() if w > 0}
    queries = dict.fromkeys(row.query for row in rows)
    following = Counter(row.next for row in rows)
    return [
        *(f"query {q!r} is also a context token" for q in queries if q in context),
        *(f"next token {x!r} belongs to {n} classes" for x, n in following.items() if n > 1),
    ]


def _from_rows(rows: Sequence[_Class]) -> SequenceClasses:
    """Classes from checked tables; words in order of appearance: context tokens, queries, next tokens."""
    queries, following = [row.query for row in rows], [row.next for row in rows]
    words = dict.fromkeys([*(word for row in rows for word in row.tokens), *queries, *following])
    at = {word: l for l, word in enumerate(words)}
    weight = np.zeros((len(rows), len(words)))
    for n, row in enumerate(rows):
        for word, w in row.tokens.items():
            weight[n, at[word]] = w
    P = weight / weight.sum(axis=1, keepdims=True)
    return sequence_classes(P, [at[q] for q in queries], [at[x] for x in following], tuple(words))


def _unknown(where: str, table: dict[str, Any], known: Sequence[str]) -> list[str]:
    """Keys nobody asked for, each with the nearest one that exists."""
    return [
        f"{where}: unknown key {key!r}{nearest(key, known)}" for key in table if key not in known
    ]


# What theorem S1 asks of classes


@dataclass(frozen=True, eq=False)
class Correlation:
    r"""How the unit attention vectors of different classes overlap: $F^\top F = I + E$, $(I + E)^{-1} = I - E'$."""

    E: Float[np.ndarray, "classes classes"]
    E_prime: Float[np.ndarray, "classes classes"]
    lambda_1: float  # the eigenvalue of E largest in magnitude


def correlation(
    classes: SequenceClasses, z: Float[np.ndarray, "classes vocab"] | None = None
) -> Correlation:
    """The correlation of classes at attention logits `z`, one row per class (0 unless given).

    >>> two = sequence_classes([[0.5, 0.5, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0, 0]], [3, 3], [4, 5])
    >>> correlation(two).E.round(3).tolist(), round(correlation(two).lambda_1, 3)
    ([[0.0, 0.5], [0.5, 0.0]], 0.5)
    """
    c = class_attention(np.zeros_like(classes.P) if z is None else z, classes.P)
    f = c / np.linalg.norm(c, axis=1, keepdims=True)
    E = f @ f.T
    np.fill_diagonal(E, 0.0)
    values = np.linalg.eigvalsh(E)
    if values[0] <= -1 + 1e-12:
        raise AssumptionError(
            "attention vectors of the classes are linearly dependent, so (I + E) has no inverse. "
            "Merge classes with the same law, or give each a distinct token."
        )
    E_prime = np.eye(classes.K) - np.linalg.inv(np.eye(classes.K) + E)
    # No entry of E is negative, so its largest eigenvalue is also the largest in magnitude.
    return Correlation(E, E_prime, float(values[-1]))


def conditions(classes: SequenceClasses, eta_y: float) -> dict[str, dict[str, float | bool]]:
    """Theorem S1's conditions at zero attention logits: what is asked, what is found, whether it holds.

    "Much larger" is asymptotic in the paper. Here M ≫ K² counts as held from M = K² on, and M^−0.99 ≪ η_Y from
    M^−0.99 on; how far beyond, the numbers say.
    """
    K, M = classes.K, classes.M
    size = correlation(classes).lambda_1
    least = M**-0.99
    return {
        "weak correlation": {"found": size, "limit": 1 / K, "holds": size < 1 / K},
        "large vocabulary": {"found": M / K**2, "limit": 1.0, "holds": M >= K**2},
        "eta_y below 1": {"found": float(eta_y), "limit": 1.0, "holds": eta_y < 1},
        "eta_y above M^-0.99": {"found": float(eta_y), "limit": least, "holds": eta_y > least},
    }
