"""What follows one last token, and why, in a few numbers a sentence can be made of."""

from dataclasses import dataclass

import numpy as np

from attomaton.corpus.vocabulary import Label
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import heaviest, sum_by

NEXTS = 3  # labels that are named
FEW = 2  # tokens named of those it outranks, is outranked by, is tied with


@dataclass(frozen=True)
class Share:
    """A token that came next, and in what share of the samples."""

    token: Label
    share: float


@dataclass(frozen=True)
class Odds:
    """A token tied with the first, and the odds of the first against it where both are there once."""

    token: Label
    odds: float


@dataclass(frozen=True)
class Some:
    """A few of so many tokens."""

    tokens: tuple[Label, ...]
    all: int


@dataclass(frozen=True)
class After:
    """What came next after a last token; of the commonest: whom it outranks, who outranks it, with whom it is tied."""

    last: Label
    samples: int
    next: tuple[Share, ...]
    outranks: Some
    outranked_by: Some
    tied: tuple[Odds, ...]
    ties: int


def after(limit: Limit, last: int) -> After:
    """What follows a last token (an id) of a limit, and why the commonest does."""
    graph, samples = limit.graph, limit.samples
    word = graph.vocabulary
    own = np.flatnonzero(samples.last == last)
    part = graph.pairs_of(last)
    pair = graph.pairs(samples.last[own], samples.label[own]) - part.start
    came = sum_by(pair, samples.weight[own], part.stop - part.start)
    token = graph.pair_token[part]
    named = [int(i) for i in heaviest(came, NEXTS) if came[i] > 0]
    first = part.start + named[0]
    component = graph.component
    edges = np.arange(len(graph.edge_from))[graph.edges_of(last)]
    a, b = graph.edge_from[edges], graph.edge_to[edges]
    strict = component[a] != component[b]

    def some(pairs: np.ndarray) -> Some:
        found = np.unique(pairs)
        order = np.argsort(-came[found - part.start], kind="stable")
        return Some(tuple(word[int(x)] for x in graph.pair_token[found[order[:FEW]]]), len(found))

    members = part.start + np.flatnonzero(component[part] == component[first])
    members = members[members != first]
    log_pi = limit.finite.log_pi
    leading = members[np.argsort(-came[members - part.start], kind="stable")[:FEW]]
    return After(
        last=word[last],
        samples=int(samples.rows[own].sum()),
        next=tuple(Share(word[int(token[i])], float(came[i] / came.sum())) for i in named),
        outranks=some(b[strict & (a == first)]),
        outranked_by=some(a[strict & (b == first)]),
        tied=tuple(
            Odds(word[int(graph.pair_token[p])], float(np.exp(log_pi[first] - log_pi[p])))
            for p in leading
        ),
        ties=len(members),
    )
