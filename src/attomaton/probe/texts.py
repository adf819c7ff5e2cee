"""Heads on single texts: where each looks from the last token, beside what the automaton retrieves there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.mechanics.theory.evidence import VERDICTS
from attomaton.mechanics.theory.limit import Limit
from attomaton.mechanics.theory.many import answer_many
from attomaton.probe.asking import answers
from attomaton.trained.forward import Network


@dataclass(frozen=True)
class Text:
    """One context: its tokens, the automaton's share on each place, and how far the data determine that.

    Shares are None where the automaton has no answer. A token that stands at several places has its share parted.
    """

    tokens: tuple[str, ...]
    shares: tuple[float, ...] | None
    verdict: str


def last_place(attention: Any, scores: Any, tokens: Any) -> tuple:
    """Keep what the last place attends to."""
    return (attention[..., -1, :],)


def attention_on(
    network: Network, contexts: Sequence[Int[np.ndarray, " length"]]
) -> Float[np.ndarray, "contexts layers heads length"]:
    """Attention of the last place of contexts of one length, in every head."""
    kept = [batch.kept[0] for batch in answers(network, contexts, last_place)]
    return np.concatenate(kept, axis=1).swapaxes(0, 1)


def texts_of(limit: Limit, contexts: Sequence[Int[np.ndarray, " length"]]) -> tuple[Text, ...]:
    """Contexts as ids of the corpus's vocabulary, with the automaton's answers; −1 for tokens outside it."""
    if not contexts:
        return ()
    length = np.array([len(x) for x in contexts])
    said = answer_many(limit, np.concatenate(contexts).astype(np.int64), length)
    found, word = [], limit.graph.vocabulary
    for i, ids in enumerate(contexts):
        part = slice(said.start[i], said.start[i + 1])
        p = dict(
            zip(said.token[part].tolist(), (said.p[part] / said.count[part]).tolist(), strict=True)
        )
        shares = tuple(p.get(int(x), 0.0) for x in ids) if said.answered[i] else None
        tokens = tuple(str(word[int(x)]) if x >= 0 else "?" for x in ids)
        found.append(Text(tokens, shares, VERDICTS[said.verdict[i]]))
    return tuple(found)
