"""Questions put to a model: contexts as its own ids, in batches of one shape, answered by log-odds."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Float, Int
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import Windows
from attomaton.errors import DataError, counted, listed, visible
from attomaton.probe.orders import Orders
from attomaton.trained.form import Form
from attomaton.trained.forward import Keep, Network, nothing
from attomaton.trained.words import Words

ROOM = 1 << 27  # numbers that attention and logits of a batch may take


def model_ids(vocabulary: Vocabulary, words: Words | None, form: Form) -> Int[np.ndarray, " vocab"]:
    """The model's id of every token of a corpus; −1 where it has none.

    Without a tokenizer the tokens of the corpus must be ids themselves.
    """
    if words is not None:
        found = [words.id_of(token, form.end) for token in vocabulary.labels]
    else:
        found = [_as_id(token) for token in vocabulary.labels]
    ids = np.array([-1 if i is None or not 0 <= i < form.vocab else i for i in found], np.int64)
    if (ids < 0).all():
        some = [visible(x) for x in vocabulary.labels[:5]]
        where = (
            "its tokenizer.json"
            if words is not None
            else "no tokenizer.json, so ids alone are known"
        )
        raise DataError(
            listed(f"the model knows none of the {counted(len(ids), 'token')} of the corpus ({where}):", some,
                   "Read the corpus with the model's own tokenizer: --tokenizer MODEL/tokenizer.json.")
        )  # fmt: skip
    return ids


def _as_id(token: object) -> int | None:
    if isinstance(token, (int, np.integer)):
        return int(token)
    text = str(token)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


def batch_size(form: Form, length: int) -> int:
    """Contexts that are answered together."""
    each = (
        3 * form.heads * length * length + 2 * form.vocab + 8 * length * (form.width + form.hidden)
    )
    return max(1, min(64, ROOM // each))


class Batch(NamedTuple):
    """Answers to some contexts: which these are, logits behind each, and what was kept of the heads, layers first."""

    at: Int[np.ndarray, " some"]
    logits: Float[np.ndarray, "some vocab"]
    kept: list[np.ndarray]


def answers(
    network: Network,
    contexts: Sequence[np.ndarray],
    keep: Keep = nothing,
    progress: Progress = quiet,
    note: str = "",
) -> Iterator[Batch]:
    """Answers to all contexts, batch by batch: those of a large vocabulary are never held all at once.

    Contexts of different lengths are filled up at their ends, which earlier places do not see.
    """
    length = max(len(x) for x in contexts)
    size = min(batch_size(network.form, length), len(contexts))
    for begin in range(0, len(contexts), size):
        some = list(contexts[begin : begin + size])
        # The last batch is filled up: one shape, one program.
        rows = np.zeros((size, length), np.int64)
        for row, context in zip(rows, some, strict=False):
            row[: len(context)] = context
        place = np.array([len(x) - 1 for x in some] + [0] * (size - len(some)))
        logits, seen = network.logits_at(rows, place, keep)
        kept = [np.asarray(x)[:, : len(some)] for x in seen]
        yield Batch(np.arange(begin, begin + len(some)), logits[: len(some)], kept)
        progress(min(begin + size, len(contexts)), len(contexts), note)


def log_odds(
    network: Network,
    contexts: Sequence[np.ndarray],
    one: Int[np.ndarray, " n"],
    two: Int[np.ndarray, " n"],
    progress: Progress = quiet,
    note: str = "",
) -> Float[np.ndarray, " n"]:
    """The model's log-odds of one token against another behind each context; the same contexts are answered once."""
    odds = np.zeros(len(contexts))
    if not len(contexts):
        return odds
    distinct: dict[bytes, int] = {}
    which = np.array([distinct.setdefault(x.tobytes(), len(distinct)) for x in contexts])
    first = np.unique(which, return_index=True)[1]
    by_row = np.argsort(which, kind="stable")
    for batch in answers(network, [contexts[i] for i in first], nothing, progress, note):
        ends = np.searchsorted(which[by_row], [batch.at[0], batch.at[-1] + 1])
        here = by_row[slice(*ends)]
        odds[here] = difference(batch.logits, which[here] - batch.at[0], one[here], two[here])
    return odds


def difference(
    logits: Float[np.ndarray, "contexts vocab"],
    row: Int[np.ndarray, " n"],
    one: Int[np.ndarray, " n"],
    two: Int[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Log-odds of one token against another behind some of the contexts."""
    return logits[row, one].astype(float) - logits[row, two]


def real_contexts(
    windows: Windows, rows: Int[np.ndarray, " n"], ids: Int[np.ndarray, " vocab"]
) -> list[np.ndarray]:
    """Contexts of a corpus as the model's ids."""
    return [
        ids[windows.ids[left : left + length]]
        for left, length in zip(windows.left[rows], windows.length[rows], strict=True)
    ]


def minimal_contexts(
    asked: Orders, ids: Int[np.ndarray, " vocab"], turned: bool
) -> list[np.ndarray]:
    """Nothing but the two tokens and the last one, in one order or the other."""
    pairs = (asked.two, asked.one) if turned else (asked.one, asked.two)
    return [
        ids[np.array([x for x in (a, b) if x != last] + [last])]
        for a, b, last in zip(*pairs, asked.last, strict=True)
    ]
