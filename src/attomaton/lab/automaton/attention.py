"""A context as text with attention on it: what is retrieved is shaded, what is outranked struck through."""

from collections import Counter
from collections.abc import Sequence

from attomaton.corpus.text import EOS
from attomaton.corpus.vocabulary import Label
from attomaton.lab.kit.contexts import visible
from attomaton.lab.kit.text import Word
from attomaton.mechanics.theory.automaton import NOT_A_TOKEN, Explanation, Fate
from attomaton.summaries.windows import Window

LEGEND = {
    "shade": "attention: the share of the answer, at each place",
    "struck": "outranked",
    "faint": "lower score, or never seen with the last word",
    "last": "the last word",
}
LEGEND_LABEL = {"label": "what came next, where it stands", "next": "what came next"}


def attended(
    explained: Explanation, words: Sequence[Label], came: Label | None = None
) -> list[Word]:
    """Every word of a context with what attention makes of it, and behind them what came next, where that is known.

    Attention on a place is the token's share of the answer over the places it stands at.
    """
    fates = {fate.token: fate for fate in explained.fates}
    times = Counter(words)
    shown = [
        _word(word, fates[word], times[word], came, i == len(words) - 1)
        for i, word in enumerate(words)
    ]
    if came is not None:
        fate = fates.get(came)
        p = None if fate is None else fate.probability
        said = "it is not in the context" if fate is None else f"the answer gives it {share(p)}"
        shown.append(Word(visible(came), marks=("next",), title=f"what came next; {said}"))
    return shown


def _word(word: Label, fate: Fate, times: int, came: Label | None, last: bool) -> Word:
    marks = ("label",) * (came is not None and word == came) + ("last",) * last
    p, said = fate.probability, [fate.reason]
    if fate.reason == NOT_A_TOKEN:
        marks += ("unknown",)
    elif fate.reason == "retrieved" and p is not None:
        said = [f"retrieved: {share(p)} of the answer"]
        if times > 1:
            said.append(f"{share(p / times)} at each of {times} places")
    elif fate.reason != "outranked":
        marks += ("faint",)
    here = p / times if p else None
    return Word(
        visible(word), here, "" if here is None else share(here), fate.reason == "outranked", marks,
        "; ".join(said), word == EOS,
    )  # fmt: skip


def share(p: float | None) -> str:
    """A probability in as few digits as tell it.

    >>> share(1.0), share(0.123), share(0.004), share(0.9996), share(1e-7), share(None)
    ('1', '.12', '.004', '>.999', '<.001', 'none')
    """
    if p is None:
        return "none"
    if p in (0.0, 1.0):
        return f"{p:g}"
    if p < 0.001 or p > 0.999:
        return "<.001" if p < 0.5 else ">.999"
    return (f"{p:.2f}" if 0.01 <= p < 0.995 else f"{p:.3f}").removeprefix("0")


def verdict(explained: Explanation, came: Label) -> str:
    """Whether an answer names what came next, in a sentence."""
    word, said = visible(came), explained.prediction
    if said is None:
        return f"There is no answer; what came next is ‘{word}’."
    p = {fate.token: fate.probability or 0.0 for fate in explained.fates}
    answer = f"The answer is ‘{visible(said)}’ with {share(p[said])}"
    if came not in p:
        return (
            f"{answer}. What came next, ‘{word}’, is not in the context: no attention can name it."
        )
    if said == came:
        return f"{answer}, and that came next."
    if p[came] >= p[said] * (1 - 1e-9):
        return f"{answer}; what came next, ‘{word}’, is as likely."
    return f"{answer}. Wrong: what came next is ‘{word}’, which gets {share(p[came])}."


def evidence(found: Window, winner: Label, loser: Label) -> list[Word]:
    """A window that made an edge, its winner and its loser marked in place."""
    end = len(found.context) - 1
    return [
        Word(
            visible(word),
            struck=word == loser,
            marks=("label",) * (word == winner) + ("last",) * (i == end)
            + ("faint",) * (word not in (winner, loser) and i != end),
            title={winner: "preferred", loser: "outranked here"}.get(word, ""),
            ends=word == EOS,
        )
        for i, word in enumerate(found.context)
    ] + [Word(visible(found.next), marks=("next",), title="what came next")]  # fmt: skip
