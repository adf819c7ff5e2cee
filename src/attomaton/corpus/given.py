"""What a practitioner passes as X, y and weights: lists, arrays, array-likes, read as plain tokens.

Of event logs a model's questions know nothing: what reads them is imported where a table is given.
"""

import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from attomaton.base.lazily import pa
from attomaton.base.shapes import Float, Int
from attomaton.corpus.reading import Reading
from attomaton.corpus.samples import (
    Samples,
    check_weights,
    list_of,
    numbers_of,
    plain_label,
    read_context,
)
from attomaton.corpus.vocabulary import Label, Vocabulary
from attomaton.corpus.windows import (
    Windows,
    encode_rows,
    windows_from_sequences,
    windows_from_streams,
)
from attomaton.errors import DataError, UsageError, listed, whole_number
from attomaton.numerics import row_pointer

# `Any`: data frames and other array-likes are welcome, and what is not gets an error of ours.
Context = Sequence[Label] | np.ndarray | Any
Contexts = Sequence[Context] | np.ndarray | Any
NextTokens = Sequence[Label] | np.ndarray | Any
Weights = Sequence[float] | np.ndarray | Any


def read_contexts(X: Contexts) -> tuple[list[Label], Int[np.ndarray, " n"], int | None]:
    """All tokens end to end, the length of each context, and the width where X is a 2-D array."""
    _refuse_sparse(X, "X")
    width = None
    if not isinstance(X, (list, tuple)):
        X = np.asarray(X)
        if X.ndim == 2:
            width = X.shape[1]
        elif X.ndim != 1:
            raise DataError(
                f"X has {X.ndim} dimensions; a list of sequences or a 2-D array is needed."
            )
        _refuse_kind(X, "X")
        if width == 0:
            raise DataError(
                f"X: found 0 feature(s) (shape={X.shape}) while a minimum of 1 is required."
            )
        X = X.tolist()
    if not len(X):
        raise DataError("X is empty: at least 1 sample is needed.")
    rows: list[list[Any]] = []
    flat = []
    for i, x in enumerate(X):
        try:
            rows.append(list_of(x, ""))
        except DataError:
            flat.append(i)
    if not rows:
        raise DataError(
            "X is 1-D; a list of sequences is needed. Reshape your data: wrap one context in a "
            "list."
        )
    if flat:
        faults = [f"context {i}: {X[i]!r:.60}" for i in flat]
        raise DataError(listed("contexts that are no sequences:", faults, "Wrap them in lists."))
    length = np.array([len(row) for row in rows])
    empty = [f"context {i}" for i in np.flatnonzero(length == 0)]
    if empty:
        raise DataError(listed("contexts without a token:", empty, "Drop them or fill them."))
    places = np.repeat(np.arange(len(rows)), length)
    return _read_tokens(list(chain.from_iterable(rows)), "context", places), length, width


def read_next_tokens(y: NextTokens, n: int) -> list[Label]:
    """The `n` next tokens as plain labels."""
    if y is None:
        raise DataError("this requires y to be passed, but the target y is None.")
    _refuse_sparse(y, "y")
    plain = isinstance(y, (list, tuple))
    if not plain or any(isinstance(x, (list, tuple, np.ndarray)) for x in y):
        y = np.asarray(y, dtype=object if plain else None)
        if y.ndim == 2 and y.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected; it is read as one.",
                sklearn_class("DataConversionWarning", UserWarning),
                stacklevel=3,
            )
            y = y[:, 0]
        if y.ndim != 1:
            raise DataError(f"y has shape {y.shape}; one next token per context is needed.")
        _refuse_kind(y, "y")
        y = y.tolist()
    if len(y) != n:
        raise DataError(f"{n} contexts but {len(y)} next tokens; one each is needed.")
    return _read_tokens(list(y), "Unknown label type: next token", np.arange(n))


def _read_tokens(tokens: list[Any], place: str, number: Int[np.ndarray, " tokens"]) -> list[Label]:
    """Tokens as plain strings and integers; all that are neither are named with their place."""
    if set(map(type, tokens)) <= {int, str}:
        return tokens
    answer: list[Label] = []
    faults = []
    for x, i in zip(tokens, number, strict=True):
        try:
            answer.append(plain_label(x))
        except DataError:
            nan = isinstance(x, float) and math.isnan(x)
            faults.append(f"{place} {i}: {'NaN' if nan else repr(x)}")
    if faults:
        heading = f"{len(faults)} tokens are neither strings nor integers:"
        raise DataError(listed(heading, faults, "Encode them as one of the two."))
    return answer


def read_weights(weight: Weights | None, n: int) -> Float[np.ndarray, " n"] | None:
    """Positive, finite weights, one per sample, or None for equal ones."""
    if weight is None:
        return None
    _refuse_sparse(weight, "sample_weight")
    w = numbers_of(weight, "sample_weight")
    if w.shape != (n,):
        raise DataError(f"sample_weight has shape {w.shape}; ({n},), one per sample, is needed.")
    heading = "sample_weight must be positive and finite, neither negative nor zero:"
    check_weights(w, heading, "Drop these samples or mend their weights.")
    return w


def refuse_outside(tokens: list[Label], ids: Int[np.ndarray, " tokens"], K: int) -> None:
    """With embeddings, tokens that name none of the `K` rows."""
    outside = list(dict.fromkeys(repr(tokens[i]) for i in np.flatnonzero(ids < 0)))
    if outside:
        heading = f"tokens that name no row of the {K} embeddings:"
        raise DataError(listed(heading, outside, f"Use integers from 0 to {K - 1}."))


def _refuse_sparse(x: object, name: str) -> None:
    sparse = sys.modules.get("scipy.sparse")  # nobody has such a matrix who did not load it
    if sparse is not None and sparse.issparse(x):
        raise DataError(f"{name} is a sparse matrix; sparse input is not supported, pass lists.")


def _refuse_kind(x: np.ndarray, name: str) -> None:
    """Arrays of a type that can hold no tokens; floats and objects are judged one by one."""
    if x.dtype.kind == "c":
        raise DataError(f"{name}: Complex data not supported; tokens are strings or integers.")
    if x.dtype.kind not in "iufUTO":
        raise DataError(f"{name} has type {x.dtype}; tokens are strings or integers.")


def sklearn_class(name: str, otherwise: type) -> type:
    """A class of `sklearn.exceptions` where that is loaded; it is never imported for this."""
    return getattr(sys.modules.get("sklearn.exceptions"), name, otherwise)


def as_windows(
    data: Any,
    next_tokens: NextTokens | None = None,
    *,
    context: int | None = None,
    weights: Weights | None = None,
    sequence: str | None = None,
    item: str | None = None,
    order: str | None = None,
    dates: str | None = None,
    vocabulary: Vocabulary | None = None,
) -> Windows:
    """Contexts and their next tokens, from what a program holds.

    - A list of sequences and `context`: every token of a sequence is a next token once, with the up to `context` tokens
      before it as its context.
    - A list of contexts and their `next_tokens` (and `weights`): taken as they are.
    - A table (a pandas or polars data frame, an Arrow table, a dictionary of columns): an event log, cut as a list of
      sequences is; `sequence`, `item`, `order` and `dates` are those of `read_windows`. A table with columns `tokens`
      (lists) and `next`, perhaps `weight`, holds contexts as they are.

    With a `vocabulary` ids are its own, and a token outside it is an error. What cannot be read raises a `DataError`,
    arguments that do not go together a `UsageError`.

    >>> as_windows([["tea", "soup", "tea"], ["soup", "soup"]], context=2)
    Windows(3 contexts, 2 tokens, 1 without their label)
    >>> as_windows([["tea", "bell"], ["soup", "bell"]], ["tea", "soup"], weights=[2, 1])
    Windows(2 contexts, 3 tokens)
    >>> log = {"guest": [1, 2, 1, 1], "order": [0, 0, 1, 2], "dish": ["tea", "soup", "cake", "tea"]}
    >>> as_windows(log, context=2, sequence="guest", item="dish").to_arrow().to_pylist()[1]
    {'tokens': ['tea', 'cake'], 'next': 'tea', 'weight': 1.0, 'realizable': True}
    """
    if isinstance(data, Windows):
        return data
    table = _table_of(data)
    if table is not None and {"tokens", "next"} <= {*table.column_names} and item is None:
        data, next_tokens = table["tokens"].to_pylist(), table["next"].to_pylist()
        weights = table["weight"].to_pylist() if "weight" in table.column_names else weights
        table = None
    if next_tokens is not None:
        if context is not None:
            raise UsageError("context cuts sequences; contexts with next tokens are not cut.")
        return windows_from_sequences(data, next_tokens, weights, vocabulary)
    if context is None:
        raise UsageError(
            "say how many tokens make a context (context=8), or which token comes after each (next_tokens=[…])."
        )
    context = whole_number("context", context, least=1)
    if weights is not None:
        raise UsageError("weights are those of contexts with next tokens.")
    if table is not None:
        from attomaton.corpus.events import column_names, windows_from_events

        reading = Reading(context, sequence=sequence, item=item, order=order, dates=dates)
        names = column_names(reading.columns, table.column_names)
        return windows_from_events(table, names, reading, vocabulary)
    given = list_of(data, "data", 'a list of sequences such as [["a", "b"], ["b", "a"]]')
    rows = [read_context(row, f"sequence {i}") for i, row in enumerate(given)]
    vocabulary, ids, length = encode_rows(rows, vocabulary)
    return windows_from_streams(vocabulary, ids, row_pointer(length), context, partial=True)


def is_table(data: Any) -> bool:
    """Whether something is a data frame, an Arrow table or a dictionary of columns."""
    return isinstance(data, Mapping) or any(
        hasattr(data, x) for x in ("column_names", "columns", "schema")
    )


def sequences_in(data: Any, reading: Reading) -> dict[Any, list[Label]]:
    """The sequences of a table with one event a row, by name, in the order in which they first appear in it.

    >>> log = {"guest": ["b", "a", "b"], "dish": ["tea", "soup", "cake"], "order": [2, 1, 1]}
    >>> sequences_in(log, Reading(sequence="guest", item="dish"))
    {'b': ['cake', 'tea'], 'a': ['soup']}
    """
    from attomaton.corpus.events import column_names, events_of

    table: Any = _table_of(data)
    log = events_of(table, column_names(reading.columns, table.column_names), reading)
    ends = np.cumsum(log.length).tolist()
    labels = [log.labels[i] for i in log.ids.tolist()]
    begin = np.minimum.reduceat(log.row, row_pointer(log.length)[:-1])
    found = zip([0, *ends], ends, log.names, strict=False)
    pieces = [(name, labels[a:b]) for a, b, name in found]
    return dict(pieces[i] for i in np.argsort(begin, kind="stable").tolist())


def _table_of(data: Any) -> Any | None:
    """A data frame, an Arrow table or a dictionary of columns as an Arrow table; None of anything else."""
    if not is_table(data):
        return None
    try:
        return pa.table(dict(data) if isinstance(data, Mapping) else data)
    except (TypeError, ValueError, pa.ArrowException) as fault:
        raise DataError(f"data: cannot be read as a table: {fault}") from None


def as_samples(data: Any, next_tokens: NextTokens | None = None, **how: Any) -> Samples:
    """Samples from what a program holds: `as_windows`, merged into bags.

    >>> as_samples([["tea", "soup", "tea", "soup"]], context=3)
    Samples(2 samples, 2 tokens, 2 last tokens, 1 set aside)
    """
    return data if isinstance(data, Samples) else as_windows(data, next_tokens, **how).samples()
