"""The next token of a context as one record, whatever model was asked; those of many as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Any

import numpy as np

from attomaton.base.lazily import pa, pc
from attomaton.base.shapes import Int
from attomaton.corpus.vocabulary import Label
from attomaton.mechanics.theory.automaton import (
    SUGGESTED,
    Automaton,
    Unknown,
    fates_in_short,
    spoken,
    unknown_note,
)
from attomaton.mechanics.theory.inference import Inference
from attomaton.mechanics.theory.information import SoftErrors
from attomaton.mechanics.theory.many import (
    NEVER_LAST,
    NOT_A_TOKEN,
    REASONS,
    Answers,
    words_at,
)
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
    why: str | None = absent()  # the branch and the main reason in a line, by a predictor
    continuation: Sequence[Label] | None = absent()
    continuation_ends: str | None = absent()  # why it is shorter than it was asked for
    inference: Inference | None = absent()  # where keys and queries were asked, too


def limit_prediction(automaton: Automaton, words: Sequence[Label], radius: float) -> Prediction:
    """What the limit of training predicts, at the norm `radius` of W along W_svm."""
    p = automaton.predict_proba(words, radius)
    shares = falling(p)
    if isinf(radius):  # on the way there, odds are those of no fit
        sure = automaton.intervals(words)
        shares = [sure[x.token].put_on(x) if x.token in sure else x for x in shares]
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


def falling(p: Mapping[Label, float] | Mapping[Label | None, float]) -> list[Share]:
    """Probabilities by token as shares, the likeliest first."""
    return [Share(x, v) for x, v in sorted(p.items(), key=lambda pair: -pair[1])]


def answer_table(
    automaton: Automaton,
    answers: Answers,
    ends: Mapping[int, Label],
    top: int,
    errors: SoftErrors | None = None,
) -> Any:
    """Many answers as a `pyarrow.Table`: the columns of `Answers`, the likeliest tokens and what is to be said of them.

    `probabilities` are those of up to `top` tokens, the likeliest first; `ends` are the last tokens outside the
    vocabulary, by row. With `errors`, `low` and `high` have the 95 % interval of a probability where tied tokens are
    mixed: empty places elsewhere, and without. Where reasons were asked for, `why` tells in a
    line how many tokens won or lost by which, and `reasons` the fate of each, as `Automaton.explain` does.
    """
    table, owner = answers.to_arrow(), answers.owner
    order = answers.falling
    rank = np.arange(len(order)) - np.searchsorted(owner[order], owner[order])
    order = order[rank < top]
    word = automaton.limit.graph.vocabulary.column
    low, high = answers.intervals(errors) if errors else (np.full(len(owner), np.nan),) * 2
    at = table.column_names.index("probability") + 1
    for name, value in (("high", high), ("low", low)):
        table = table.add_column(
            at, name, pa.array(answers.of_best(value, np.nan), from_pandas=True)
        )
    shares = {
        "token": word(answers.token[order]).dictionary_decode(),
        "p": answers.p[order],
        "low": pa.array(low[order], from_pandas=True),
        "high": pa.array(high[order], from_pandas=True),
    }
    table = table.append_column("probabilities", _lists(shares, owner[order], len(answers)))
    unknown = _unknown_of(automaton, answers)
    named = [(i, x) for i, found in unknown.items() for x in found]
    texts = {
        name: pa.array([None if (v := getattr(x, name)) is None else str(v) for _, x in named], pa.string())
        for name in ("token", "nearest", "why")
    }  # fmt: skip
    lists = _lists(texts, np.array([i for i, _ in named], np.int64), len(answers))
    table = table.set_column(table.column_names.index("unknown"), "unknown", lists)
    if answers.reason is None:
        notes = [""] * len(answers)
        for i, x in unknown.items():
            notes[i] = unknown_note(x, bool(answers.answered[i]))
        return table.append_column("note", pa.array(notes, pa.string()))
    table = table.append_column("why", _whys(automaton, answers, ends))
    table = table.append_column("reasons", _reasons(answers))
    return table.append_column("note", pa.array(_notes(automaton, answers, unknown), pa.string()))


def _lists(values: Mapping[str, Any], row: Int[np.ndarray, " n"], rows: int) -> Any:
    """Records as lists, one for each row; `row` says which, ascending."""
    records = pa.StructArray.from_arrays([pa.array(x) for x in values.values()], list(values))
    return pa.LargeListArray.from_arrays(row_pointer(np.bincount(row, minlength=rows)), records)


def _unknown_of(automaton: Automaton, answers: Answers) -> dict[int, tuple[Unknown, ...]]:
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
        last = automaton.limit.graph.vocabulary[answers.last[i]]
        found.setdefault(i, []).append(Unknown(last, None, NEVER_LAST))
    return {i: tuple(found[i]) for i in sorted(found)}


def _whys(automaton: Automaton, answers: Answers, ends: Mapping[int, Label]) -> Any:
    """Each prediction and how many tokens won or lost for which reason, in a line: `in_short` of all rows."""
    assert answers.reason is not None
    n, names = len(answers), (*REASONS, NOT_A_TOKEN)
    key = answers.owner * len(REASONS) + answers.reason
    counts = np.zeros((n, len(names)), np.int64)
    counts[:, :-1] = np.bincount(key, minlength=n * len(REASONS)).reshape(n, -1)
    for i, labels in answers.unknown.items():
        counts[i, -1] = len(labels)
    # Counts of a row as the digits of one number.
    most = int(counts.max(initial=0)) + 1
    code = counts @ (most ** np.arange(len(names))) if most < 1 << 12 else np.arange(n)
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    fates = [fates_in_short(dict(zip(names, row, strict=True))) for row in counts[first].tolist()]
    last = answers.last.copy()
    last[list(ends)] = len(automaton.spoken) + np.arange(len(ends))
    every = pa.concat_arrays([automaton.spoken, pa.array(map(spoken, ends.values()), pa.string())])
    best = answers.best_token
    best[best < 0] = len(automaton.spoken) - 1
    texts = pa.array(fates, pa.string()).take(pa.array(which))
    return pc.binary_join_element_wise(
        every.take(pa.array(best)), " after ", every.take(pa.array(last)), ": ", texts, ""
    )


def _notes(
    automaton: Automaton, answers: Answers, unknown: Mapping[int, tuple[Unknown, ...]]
) -> list[str]:
    """What each answer rests on, in sentences."""
    labels = automaton.limit.graph.vocabulary.labels
    answered, parts = answers.answered, answers.parts
    strange: dict[int, list[Label]] = {}
    for k in answers.kept[answers.pair[answers.kept] < 0].tolist():
        strange.setdefault(int(answers.owner[k]), []).append(labels[answers.token[k]])
    # Where nothing is unknown, few things are said.
    plain = [automaton.note(many >= 0, (), many, ()) for many in (-1, 0, 1, 2)]
    said = [plain[i] for i in np.where(answered, 1 + np.minimum(parts, 2), 0).tolist()]
    for i in {*unknown, *strange}:
        about = unknown.get(i, ()), int(parts[i]), strange.get(i, ())
        said[i] = automaton.note(bool(answered[i]), *about)
    return said


def _reasons(answers: Answers) -> Any:
    """The fate of every known token, row by row, the likeliest first, then by score."""
    assert answers.reason is not None
    owner, p = answers.owner, answers.p
    order = np.lexsort((-answers.svm, -p, owner))
    word = answers.limit.graph.vocabulary.column(answers.token[order])
    values = {
        "token": word.dictionary_decode(),
        "count": answers.count[order],
        "probability": pa.array(p[order], mask=~answers.answered[owner[order]]),
        "reason": words_at(REASONS, answers.reason[order]).dictionary_decode(),
    }
    return _lists(values, owner[order], len(answers))
