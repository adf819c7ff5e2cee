"""The next token of a context as one record, whatever model was asked; those of many as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isinf, isnan
from typing import Any

import numpy as np
from jaxtyping import Int

from attomaton.corpus.vocabulary import Label
from attomaton.mechanics.theory.automaton import (
    SUGGESTED,
    Automaton,
    Unknown,
    in_short,
    unknown_note,
)
from attomaton.mechanics.theory.inference import Inference
from attomaton.mechanics.theory.information import Interval
from attomaton.mechanics.theory.many import NEVER_LAST, NOT_A_TOKEN, REASONS, Answers
from attomaton.numerics import row_pointer
from attomaton.results import absent

LOOKED_UP = 100  # unknown tokens of a table for which the nearest known one is looked up


@dataclass(frozen=True)
class Share:
    """A token and its probability; None stands for all words that were never seen."""

    token: Label | None
    p: float
    low: float | None = absent()  # its 95 % interval, where tied tokens are mixed
    high: float | None = absent()


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What comes next, the likeliest first: by a limit at a `radius`, by a predictor with `backoff` or without.

    `unknown` are the tokens of the context that the model does not know, `unseen` the known ones that were never seen
    with the last token. A `continuation` is drawn where one was asked for.
    """

    context: Sequence[Label]
    radius: float | None = absent()
    backoff: bool | None = absent()
    prediction: Label | None
    probabilities: Sequence[Share]
    known_last: bool | None = absent()
    unknown: Sequence[Unknown]
    unseen: Sequence[Label]
    note: str
    continuation: Sequence[Label] | None = absent()
    continuation_ends: str | None = absent()  # why it is shorter than it was asked for
    inference: Inference | None = absent()  # where keys and queries were asked, too


def limit_prediction(automaton: Automaton, words: Sequence[Label], radius: float) -> Prediction:
    """What the limit of training predicts, at the norm `radius` of W along W_svm."""
    p = automaton.predict_proba(words, radius)
    shares = falling(p)
    if isinf(radius):  # on the way there, odds are those of no fit
        sure = automaton.intervals(words)
        shares = [_sure(x, sure.get(x.token)) if x.token is not None else x for x in shares]
    unknown = automaton.unknown(words)
    return Prediction(
        context=words,
        radius=radius,
        prediction=shares[0].token if shares else None,
        probabilities=shares,
        known_last=p.known_last,
        unknown=unknown,
        unseen=p.unseen,
        note=unknown_note(unknown, bool(shares)),
    )


def _sure(share: Share, interval: Interval | None) -> Share:
    """A share with its interval, where that is known."""
    if interval is None or isnan(interval.se):
        return share
    return replace(share, low=interval.low, high=interval.high)


def falling(p: Mapping[Label, float] | Mapping[Label | None, float]) -> list[Share]:
    """Probabilities by token as shares, the likeliest first."""
    return [Share(x, v) for x, v in sorted(p.items(), key=lambda pair: -pair[1])]


def answer_table(
    automaton: Automaton, answers: Answers, contexts: Sequence[Sequence[Label]], top: int
) -> Any:
    """Many answers as a `pyarrow.Table`: the columns of `Answers`, the likeliest tokens and what is to be said of them.

    `probabilities` are those of up to `top` tokens, the likeliest first. Where reasons were asked for, `why` tells in a
    line how many tokens won or lost by which, and `reasons` the fate of each, as `Automaton.explain` does.
    """
    import pyarrow as pa

    table, owner = answers.to_arrow(), answers.owner
    order = answers.falling
    rank = np.arange(len(order)) - np.searchsorted(owner[order], owner[order])
    order = order[rank < top]
    word = automaton.limit.graph.vocabulary.column
    shares = {"token": word(answers.token[order]).dictionary_decode(), "p": answers.p[order]}
    table = table.append_column("probabilities", _lists(shares, owner[order], len(answers)))
    unknown = _unknown_of(automaton, answers, contexts)
    named = [(i, x) for i, found in unknown.items() for x in found]
    texts = {
        name: pa.array([None if (v := getattr(x, name)) is None else str(v) for _, x in named], pa.string())
        for name in ("token", "nearest", "why")
    }  # fmt: skip
    lists = _lists(texts, np.array([i for i, _ in named], np.int64), len(answers))
    table = table.set_column(table.column_names.index("unknown"), "unknown", lists)
    if answers.reason is None:
        notes = {i: unknown_note(x, bool(answers.answered[i])) for i, x in unknown.items()}
        said = [notes.get(i, "") for i in range(len(answers))]
        return table.append_column("note", pa.array(said, pa.string()))
    whys, notes_ = _in_words(automaton, answers, contexts, unknown)
    table = table.append_column("why", pa.array(whys, pa.string()))
    table = table.append_column("reasons", _reasons(answers))
    return table.append_column("note", pa.array(notes_, pa.string()))


def _lists(values: Mapping[str, Any], row: Int[np.ndarray, " n"], rows: int) -> Any:
    """Records as lists, one for each row; `row` says which, ascending."""
    import pyarrow as pa

    records = pa.StructArray.from_arrays([pa.array(x) for x in values.values()], list(values))
    return pa.LargeListArray.from_arrays(row_pointer(np.bincount(row, minlength=rows)), records)


def _unknown_of(
    automaton: Automaton, answers: Answers, contexts: Sequence[Sequence[Label]]
) -> dict[int, tuple[Unknown, ...]]:
    """What the model does not know of each context, by row; as `Automaton.unknown` says it."""
    never = np.flatnonzero(~answers.known_last & (answers.last >= 0)).tolist()
    names = (x for i in sorted(answers.unknown) for x in answers.unknown[i][:SUGGESTED])
    first = list(dict.fromkeys(names))[:LOOKED_UP]
    near = {x: automaton.nearest(x) for x in first}
    found = {
        i: [Unknown(x, near.get(x) if k < SUGGESTED else None, NOT_A_TOKEN) for k, x in enumerate(labels)]
        for i, labels in answers.unknown.items()
    }  # fmt: skip
    for i in never:
        found.setdefault(i, []).append(Unknown(contexts[i][-1], None, NEVER_LAST))
    return {i: tuple(found[i]) for i in sorted(found)}


def _in_words(
    automaton: Automaton,
    answers: Answers,
    contexts: Sequence[Sequence[Label]],
    unknown: Mapping[int, tuple[Unknown, ...]],
) -> tuple[list[str], list[str]]:
    """Why each prediction, in a line, and what it rests on."""
    n, labels = len(answers), automaton.limit.graph.vocabulary.labels
    assert answers.reason is not None
    key = answers.owner * len(REASONS) + answers.reason
    counts = np.bincount(key, minlength=n * len(REASONS)).reshape(n, len(REASONS)).tolist()
    strange: dict[int, list[Label]] = {}
    for k in answers.kept[answers.pair[answers.kept] < 0].tolist():
        strange.setdefault(int(answers.owner[k]), []).append(labels[answers.token[k]])
    whys, notes = [], []
    rows = zip(answers.prediction, answers.answered.tolist(), answers.parts.tolist(), strict=True)
    for i, (best, answered, parts) in enumerate(rows):
        each = dict(zip(REASONS, counts[i], strict=True))
        each[NOT_A_TOKEN] = len(answers.unknown.get(i, ()))
        whys.append(in_short(best, contexts[i][-1], each))
        notes.append(automaton.note(answered, unknown.get(i, ()), parts, strange.get(i, ())))
    return whys, notes


def _reasons(answers: Answers) -> Any:
    """The fate of every known token, row by row, the likeliest first, then by score."""
    import pyarrow as pa

    assert answers.reason is not None
    owner, p = answers.owner, answers.p
    order = np.lexsort((-answers.svm, -p, owner))
    word = answers.limit.graph.vocabulary.column(answers.token[order])
    values = {
        "token": word.dictionary_decode(),
        "count": answers.count[order],
        "probability": pa.array(p[order], mask=~answers.answered[owner[order]]),
        "reason": pa.DictionaryArray.from_arrays(
            pa.array(answers.reason[order], pa.int8()), pa.array(REASONS)
        ).dictionary_decode(),
    }
    return _lists(values, owner[order], len(answers))
