"""A context as it is typed, shown and continued: words for the eye, labels for the automaton."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attomaton import errors
from attomaton.corpus.samples import plain_label
from attomaton.corpus.vocabulary import Label, Vocabulary, is_text
from attomaton.errors import UsageError
from attomaton.lab.opened import Opened
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import named_rng
from attomaton.summaries.windows import telling_sample

MOST = 500  # tokens of one context on a page


def read_context(text: str, vocabulary: Vocabulary) -> list[Label]:
    """Tokens between spaces, read as the command line reads them, or a JSON array of labels as they are.

    >>> read_context("tea 7", Vocabulary(["tea", 7])), read_context('["a b", 7]', Vocabulary([]))
    (['tea', 7], ['a b', 7])
    """
    words = _array(text, vocabulary)
    if words is None:
        words = [vocabulary.read(word) for word in text.split()]
    check_length(words)
    return words


def check_length(words: Sequence[Label]) -> None:
    """Refuse a context that is too long to be shown token by token."""
    if len(words) > MOST:
        raise UsageError(f"{len(words):,} tokens are too many for this page: at most {MOST}.")


def write_context(words: Sequence[Label], vocabulary: Vocabulary) -> str:
    """The text that `read_context` reads as these tokens: plain where that is possible, else JSON."""
    text = " ".join(map(str, words))
    if not text.startswith("[") and [vocabulary.read(x) for x in text.split()] == list(words):
        return text
    return json.dumps(list(words), ensure_ascii=False)


def _array(text: str, vocabulary: Vocabulary) -> list[Label] | None:
    """The labels of a JSON array; None of what is tokens between spaces."""
    begins = text.split(maxsplit=1)[:1]
    meant = text.lstrip().startswith(("[", "{")) and vocabulary.read(begins[0]) not in vocabulary
    fault = 'a JSON array of tokens is needed, such as ["tea", "bell"].'
    try:
        found = json.loads(text)
    except RecursionError:
        raise UsageError("a JSON array of tokens holds no arrays.") from None
    except ValueError as error:
        found, fault = None, "this begins as a JSON array but is none"
        if isinstance(error, json.JSONDecodeError):
            fault += f" at character {error.pos + 1}: {error.msg}"
        fault += "."
    if not isinstance(found, list):
        if meant:
            raise UsageError(fault)
        return None
    words = [plain_label(x) for x in found]
    if not all(is_text(x) for x in words if isinstance(x, str)):
        raise UsageError("a label of this array holds half a character.")
    return words


def visible(word: Label) -> str:
    r"""A token for the eye: one of white space alone in quotes, control characters and turned writing spelled out.

    >>> print(visible("tea"), visible(" "), visible("\u202exe.txt"))
    tea ' ' \u202exe.txt
    """
    text = errors.visible(word)
    return text if text.strip() else repr(text)


def continued(model: Opened, words: Sequence[Label], seed: int, length: int) -> list[Label]:
    """A continuation as `attomaton predict --sample LENGTH --seed SEED` draws it.

    Each drawn token is the next last token; what belongs to it is opened when its turn comes.
    """
    rng, all_ = named_rng("sample", seed), list(words)
    if length < 1 or not all_:
        model.automaton(model.heaviest()).sample(all_, rng, length)  # says what is wrong
    for _ in range(length):
        drawn = model.automaton(all_[-1]).sample(all_, rng)
        if not drawn:
            break  # nothing was learned about what follows this token
        all_ += drawn
    return all_[len(words) :]


def companions(limit: Limit, last: Label, most: int = 16) -> list[Label]:
    """Tokens seen with a last token: those that came next most often first, then those most often there."""
    vocabulary, samples = limit.graph.vocabulary, limit.samples
    k, K = vocabulary.id_of(last), len(limit.graph.vocabulary)
    if k is None:
        return []
    rows = samples.take(np.flatnonzero(samples.last == k))
    there = np.bincount(rows.token, rows.weight[rows.sample_of], K)
    came = np.bincount(rows.label, rows.weight, K)
    order = np.lexsort((-there, -came))[:most]
    return [vocabulary[int(x)] for x in order if there[x] > 0]


def first_context(limit: Limit, last: Label) -> tuple[list[Label], int | None]:
    """A context to begin with, the sample that shows most after a token, and its place in the corpus."""
    k = limit.graph.vocabulary.id_of(last)
    row = None if k is None else telling_sample(limit, k)
    if row is None:
        return [last], None
    bag = limit.samples.bag(row)
    words = [x for x, n in bag.items() for _ in range(n - (x == last))]
    return [*words[: MOST - 1], last], int(limit.samples.source[row])


def commands(
    folder: Path, vocabulary: Vocabulary, words: list[Label], radius: float, drawn: int, seed: int
) -> tuple[str, str]:
    """The command lines and the Python code that give what the automaton's page shows."""
    model, context = shlex.quote(str(folder)), _arguments(words)
    lines = [f"attomaton explain {model} {context}"]
    code = [
        "from attomaton import Automaton, open_model",
        "",
        f"automaton = Automaton(open_model({str(folder)!r}{'' if drawn else f', [{words[-1]!r}]'}))",
        f"context = {words!r}",
        "print(automaton.explain(context))",
    ]
    if np.isfinite(radius):
        lines.append(f"attomaton predict {model} --radius {radius:g} {context}")
        code.append(f"print(automaton.predict_proba(context, {radius!r}))")
    if drawn:
        typed = words[:-drawn]
        start = _arguments(typed)
        lines.append(f"attomaton predict {model} --sample {drawn} --seed {seed} {start}")
        code[0:0] = ["from attomaton.numerics import named_rng"]
        code.append(f'print(automaton.sample({typed!r}, named_rng("sample", {seed}), {drawn}))')
    # A number that is also a word of the vocabulary cannot be told from it on a command line.
    sayable = [vocabulary.read(str(x)) for x in words] == words
    return "\n".join(lines) if sayable else "", "\n".join(code)


def _arguments(words: Sequence[Label]) -> str:
    """Tokens as arguments; one that looks like an option comes after the sign that options are over."""
    text = shlex.join(map(str, words))
    return f"-- {text}" if any(str(x).startswith("-") for x in words) else text
